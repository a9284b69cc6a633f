"""Text that would act on a terminal or a CI service, and what of it must never arrive there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from penstock.sinks.text.own_codes import clean_styled

HOSTILE = (
    "a\x1b[2Jb\x1b[1;1H\x1bc\x1b[8mc",  # complete sequences: clear, move, reset, hide
    "a\x1b]52;c;\nZXZpbA==\x07b",  # a clipboard whose sequence goes on in the next line
    "a\x1b]0;title\x1b\\b\x1bPq\x1b\\c",
    "a\x9b2Jb\x9d0;t\x9cc\x90d",  # the same with C1
    "a\rb\x08c\x07d\x7fe\x0bf\x0cg\x00h",
    "a\u202eb\u2066c\u200fd\u061c",
    "a\U000e0041b\u2028c\u2029d\x85e",
    "\x1b[31m\x1b[0m\x1b[2m\x1b",  # colours, also one that Penstock has, and the start of more
    "a\n::error::b\n::stop-commands::c\n##[group]d ##vso[task.e]f\x1b[0Ksection_start:0:g\r\x1b[0K",
)
"""Texts whose parts act in different ways; all of them have a letter that is shown."""

ACTS = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)
"""Characters that act, or cannot be seen. Written from the standards, not from `sanitize`."""

_COLOUR = re.compile(r"\x1b\[(?:0|1|2|2;36|3[1-6]|9[3-6])m")
"""Colours that the text output has."""
_COMMAND = re.compile(r"^\s*::[a-z]|##\[|##vso\[", re.MULTILINE)


def assert_harmless(text: str | bytes, what: str = "", *, styled: bool = False, ci: bool = False) -> None:
    """Check that nothing in it acts on a terminal; `styled`: but colours; `ci`: no command of a CI service either."""
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    bare = _COLOUR.sub("", text) if styled else text
    found = ACTS.search(bare)
    assert found is None, f"{what}: {bare[max(0, found.start() - 60) : found.end() + 60]!r}"
    if ci:
        command = _COMMAND.search(bare)
        assert command is None, f"{what}: {bare[max(0, command.start() - 60) : command.end() + 60]!r}"
    if styled:
        assert clean_styled(text) == text, what


def replaced(line: bytes, change: Callable[[str, str], str | None]) -> bytes:
    """Return a line of JSON with strings changed by `change(path, text)`; None leaves one as it is.

    A path is that of the keys, `content.*.text`; `!` at its end is a key itself.
    """
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return json.dumps(_walk(value, "", change), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _walk(value: Any, path: str, change: Callable[[str, str], str | None]) -> Any:
    if isinstance(value, dict):
        pairs = ((key, inner, f"{path}.{key}") for key, inner in value.items())
        return {_or(key, change(f"{at}!", key)): _walk(inner, at, change) for key, inner, at in pairs}
    if isinstance(value, list):
        return [_walk(inner, f"{path}.*", change) for inner in value]
    return _or(value, change(path, value)) if isinstance(value, str) else value


def _or(text: str, changed: str | None) -> str:
    return text if changed is None else changed
