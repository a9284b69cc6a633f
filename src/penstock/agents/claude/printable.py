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
_OTHERS = re.compile(rb"[\w$]{1,16}\(\[((?:[\w$]{1,16}\(\),?)+)\]|([\w$]{1,16})\(\)\.extend\(")
_HEAD = 400
"""Bytes of a definition that have its kind."""


def names(content: Content) -> Iterator[str]:
    """Yield the kinds of the list of all messages on the output stream; nothing if the executable has no such list."""
    found = _LIST.search(content)
    if found is None:
        return
    wanted = _NAME.findall(found[1])
    first = max(0, found.start() - _SPAN)
    near = bytes(content[first : found.end() + _SPAN])
    definitions = list(_DEFINITION.finditer(near))
    ends = [*(after.start() for after in definitions[1:]), len(near)]
    bodies = {it[1]: (it.end(), min(end, it.end() + _HEAD)) for it, end in zip(definitions, ends, strict=True)}
    waiting, seen = [*dict.fromkeys(wanted)], set(wanted)
    for name in waiting:  # grows during the loop
        first, end = bodies.get(name, (0, 0))
        if kind := _KIND.search(near, first, end):
            yield "/".join(part.decode() for part in kind.groups() if part)
        elif other := _OTHERS.match(near, first, end):  # a list of messages, or one with more fields
            more = _NAME.findall(other[1] or b"") or [other[2]]
            waiting += (it for it in more if it not in seen)
            seen.update(more)
