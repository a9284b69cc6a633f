"""Kinds of lines that the executable of Claude Code has in the schema of its output."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.agents.kinds import Content

_SPAN = 1_000_000
"""Bytes before and after the list of messages, in which the messages are defined."""
_LIST = re.compile(
    rb'\(\[((?:[\w$]{1,16}\(\),?){4,400})\]\)\.describe\("Every conversational and informational message the CLI emits'
)
_NAME = re.compile(rb"[\w$]+(?=\(\))")
_DEFINITION = re.compile(rb"(?<![\w$.])([\w$]{1,16})=[\w$]{1,16}\(\(\)=>")
_KIND = re.compile(
    rb"\{type:[\w$]{1,16}\(\"(\w{1,80})\"\)(?:,subtype:[\w$]{1,16}\(\"(\w{1,80})\"\))?"
    rb"|\.extend\(\{type:[\w$]{1,16}\(\"(\w{1,80})\"\),subtype:[\w$]{1,16}\(\"(\w{1,80})\"\)"
)
_HEAD = 400
"""Bytes of a definition that have its kind."""


def names(content: Content) -> Iterator[str]:
    """Yield the kinds of the list of all messages on the output stream; nothing if the executable has no such list."""
    found = _LIST.search(content)
    if found is None:
        return
    wanted = set(_NAME.findall(found[1]))
    first = max(0, found.start() - _SPAN)
    near = bytes(content[first : found.end() + _SPAN])
    definitions = list(_DEFINITION.finditer(near))
    ends = [*(after.start() for after in definitions[1:]), len(near)]
    for definition, end in zip(definitions, ends, strict=True):
        if definition[1] in wanted:
            kind = _KIND.search(near, definition.end(), min(end, definition.end() + _HEAD))
            if kind is not None:
                yield "/".join(part.decode() for part in kind.groups() if part)
