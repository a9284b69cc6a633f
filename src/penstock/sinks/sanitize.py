"""Sanitizing of agents' text. It is data, so nothing in it may act on a terminal, an editor or a CI service.

`Sanitizer` drops escape sequences and makes control and direction characters visible. `CommandFilter` breaks up text
that a CI service would run as a command. Both take text in pieces, keep the state that they need between pieces, and
return the same result wherever the text was cut.
"""

from __future__ import annotations

import re

MAX_SEQUENCE_CHARS = 4096
"""Characters of the longest escape string (a link, a title, a clipboard) that is dropped. A longer one is not a
sequence but text after a stray introducer, and is shown."""

_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_STRING = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x80-\x9f\n]{{0,{MAX_SEQUENCE_CHARS}}}"
_ESCAPE = r"\x1b[ -/]{0,4}"

# A string ends with BEL or ST. If a line break, another introducer or the limit comes first, it is not a sequence.
_SEQUENCE = re.compile(rf"{_CSI}[@-~]|{_STRING}(?:\x07|\x1b\\|\x9c)|\x1b(?:[ -/]{{1,4}}[0-~]|[0-OQ-WYZ\\`-~])")
_UNFINISHED = re.compile(rf"(?:{_CSI}|{_STRING}\x1b?|{_ESCAPE}|\r)\Z")

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SUSPECT = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]")


def _visible() -> dict[int, str]:
    named = [*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    named += [0xFFFE, 0xFFFF, *range(0xE0000, 0xE0080)]
    table = {code: f"<U+{code:04X}>" for code in named}
    table |= {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
    table |= {0x7F: "␡", 0x85: "⏎", 0x2028: "⏎", 0x2029: "⏎"}
    table |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
    return table


_VISIBLE = _visible()


class Sanitizer:
    r"""Sanitizer of the text of one block, fed piece by piece.

    Escape sequences are dropped, even if they are split over pieces. `\r\n` becomes a line break. Other control
    characters become their control pictures (`␍`, `␛`), direction overrides and tag characters their code points
    (`<U+202E>`), and lone surrogates U+FFFD. Tabs and line breaks stay. No other text is lost.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the sanitized text. An end that may begin a sequence is held back."""
        if self._held:
            text = self._held + text
        elif _harmless(text):
            return text
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        return _show(text[: unfinished.start()] if unfinished else text)

    def flush(self) -> str:
        """Return the text that was held back, made visible. Call it when the block has no more text."""
        held, self._held = self._held, ""
        return _show(held)


_PLAIN = bytes([*range(0x20, 0x7F), *b"\t\n"])
"""ASCII characters that have no effect on a terminal."""


def _harmless(text: str) -> bool:
    # Cheap checks suffice for nearly all text, at a fraction of the cost of the search.
    if text.isprintable():
        return True
    try:
        rest = text.encode().translate(None, _PLAIN)
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return rest.decode().isprintable() or not _SUSPECT.search(text)


def clean(text: str) -> str:
    """Return a complete text, sanitized; line breaks stay."""
    return text if _harmless(text) else _show(text)


def clean_line(text: str) -> str:
    """Return a complete text, sanitized, on one line and without CI commands."""
    return CommandFilter().feed(clean(text).replace("\n", "⏎"))


def escaped(text: str) -> str:
    r"""Return text for programs with unsafe characters escaped as in `\u009b`; JSON strings keep their values."""
    if _harmless(text):
        return text
    import json  # only unsafe text needs it

    return _SUSPECT.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _show(text: str) -> str:
    # Line ends first: dropping a sequence between `\r` and `\n` must not turn them into one line end.
    return _SEQUENCE.sub("", text.replace("\r\n", "\n")).translate(_VISIBLE)


# GitHub and similar services read `::name` at the start of a line and `##[name]` anywhere, Azure `##vso[`, TeamCity
# `##teamcity[`. GitLab's section marks need `\r` and ESC, which sanitized text does not have.
_COMMAND = re.compile(r"^([^\S\n]*:):|(##[A-Za-z]{0,32})\[", re.MULTILINE)
_BEGUN_COMMAND = re.compile(r"##[A-Za-z]{0,32}\Z|#\Z")


class CommandFilter:
    """Filter that inserts a space into each command of a CI service, so that it is not run: `: :set-env`, `##vso [`.

    Feed it consecutive text. A new filter begins in the middle of a line (after a prefix), unless `at_start`.
    """

    __slots__ = ("_tail",)

    def __init__(self, *, at_start: bool = False) -> None:
        # The relevant end of the line so far: "" if it has only space, "x" for anything harmless.
        self._tail = "" if at_start else "x"

    def feed(self, text: str) -> str:
        """Return `text` without commands, given the text that was fed before."""
        if self._tail == "x" and "\n" not in text and "#" not in text:
            return text
        if "#" not in text and "::" not in text and not self._tail.startswith("#") and self._tail + text[:1] != "::":
            line = text[text.rfind("\n") + 1 :] if "\n" in text else self._tail + text
            bare = line.lstrip()
            self._tail = bare if bare in ("", ":") else "x"
            return text
        whole = self._tail + text
        guarded = _COMMAND.sub(_break, whole)[len(self._tail) :]
        line = whole[whole.rfind("\n") + 1 :]
        begun = _BEGUN_COMMAND.search(line)
        bare = line.lstrip()
        self._tail = bare if bare in ("", ":") else begun[0] if begun else "x"
        return guarded


def _break(found: re.Match[str]) -> str:
    return f"{found[1]} :" if found[1] else f"{found[2]} ["
