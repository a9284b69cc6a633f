"""Styles and colours of the text sink, and small helpers for pieces of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Role = Literal[
    "text", "head", "dim", "name", "good", "bad", "warn", "mark", "added", "removed", "strong", "code",
    "added word", "removed word", "code block",
    "output",
]  # fmt: skip
"""Role of a piece of text; `head` is the prefix of a line."""


class SpanStyle(NamedTuple):
    """Style of a piece of rendered Markdown, where a role is not enough."""

    sgr: str = ""
    """SGR parameters; "" is plain."""
    link: str = ""
    """Address of a hyperlink (OSC 8); "" if it is none. Only `rendering.links` may choose it."""
    is_wrapped: bool = True
    """False if no line breaks are inserted."""
    hang: str | None = None
    """Beginning of the rows in which this line continues, after their indent; None leaves it as it is."""


Style = Role | SpanStyle

UNWRAPPED: frozenset[Style] = frozenset({"added", "removed", "added word", "removed word", "code block", "output"})
"""Styles of text in which no line breaks are inserted: it may be copied from the terminal."""

Palette = Mapping[Style, str]
"""SGR parameters of each role; a missing role is plain. An empty palette means that no codes are written."""

COLOURS: Palette = {
    "head": "2;36",
    "dim": "2",
    "name": "1",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "mark": "36",
    "added": "32",
    "removed": "31",
    "added word": "32;7",
    "removed word": "31;7",
    "strong": "1",
    "code": "35",
    "code block": "35",
    "output": "2",
}
PLAIN: Palette = {}

LABEL_COLOURS = ("36", "35", "94", "33", "96", "95")
"""SGR parameters of the labels of several agents, in turn. Red and green are left out, as they show how something
ended."""


def palette(color: bool, label: int | None = None) -> Palette:
    """Return the colours for the output of the agent with the number `label`, from 0; None if it is the only one.

    Labels of several agents differ in colour; the label of a single agent is dim.
    """
    if not color:
        return PLAIN
    return COLOURS if label is None else {**COLOURS, "head": LABEL_COLOURS[label % len(LABEL_COLOURS)]}


Piece = tuple[Style, str]
"""Styled piece of a line. Lines after a break in it are indented."""


def painted(palette: Palette, style: Style, text: str) -> str:
    """Return `text` (one line) between the codes of its style."""
    on, off = codes(palette, style)
    return on + text + off


def codes(palette: Palette, style: Style) -> tuple[str, str]:
    """Return the codes before and after text of a style."""
    if not palette:
        return "", ""
    if isinstance(style, SpanStyle):
        on, off = (f"\x1b[{style.sgr}m", "\x1b[0m") if style.sgr else ("", "")
        return (f"\x1b]8;;{style.link}\x1b\\{on}", f"{off}\x1b]8;;\x1b\\") if style.link else (on, off)
    found = palette.get(style)
    return (f"\x1b[{found}m", "\x1b[0m") if found else ("", "")


def shortened(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters and `…`."""
    return text if len(text) <= limit else text[:limit] + "…"


def exit_words(status: int) -> str:
    """Return how a failed command ended: "exit 1". `exitWords` in the page's `format.js` has the same words."""
    return f"exit {status}"


def duration(milliseconds: int, *, whole: bool = False) -> str:
    """Return a time for people: `0.3 s`, `47 s`, `3 min 5 s`, `1 h 2 min`; `whole`: without tenths of seconds."""
    seconds = milliseconds / 1000
    if seconds < 9.95 and not whole:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    minutes, rest = divmod(rounded, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
