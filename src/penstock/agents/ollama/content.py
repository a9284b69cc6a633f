"""Content of one response of a model, divided into thoughts, text and calls by the model's own marks.

A server that does not parse what a model writes sends these marks as text. They count at the very beginning of the
content alone, or where a section that began so ends: anywhere else a model may be writing about them. Each mark may be
split over chunks, and the result does not depend on how.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.agents._json import as_dict, parsed
from penstock.events import Kind

MAX_LEAD_CHARS = 64
"""Characters of white space to hold back before a mark; more of it is text."""

MAX_CALLS_CHARS = 256 * 1024
"""Characters of calls to hold back until the response ends; more of it is text."""

CALLS = "[TOOL_CALLS]"
"""Mark of Mistral's models before their calls: a list in JSON, up to the end of the response."""

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
}
_CHANNELS: dict[str, Kind] = {"analysis": "thinking", "commentary": "text", "final": "text"}
_CHANNEL_ENDS = ("<|end|>", "<|return|>")


class _Opening(NamedTuple):
    """Mark that begins a section."""

    kind: Kind
    ends: tuple[str, ...]
    is_channel: bool = False
    """Another section may follow, as in the format of gpt-oss; else the text does, after white space."""


_SECTIONS = {
    f"{start}<|channel|>{name}<|message|>": _Opening(kind, _CHANNEL_ENDS, is_channel=True)
    for name, kind in _CHANNELS.items()
    for start in ("", "<|start|>assistant")
}
_OPENINGS = {mark: _Opening("thinking", (end,)) for mark, end in _TAGS.items()} | _SECTIONS

Piece = tuple[Kind, str]


class Rest(NamedTuple):
    """Text that was held back until the end of a response, and the calls that were in its place."""

    pieces: list[Piece]
    calls: list[dict[str, Any]]


class Content:
    """Position in the content of one response.

    It holds back no more than an unfinished mark and the white space before it, or calls.
    """

    __slots__ = ("_calls", "_end", "_held", "_length", "_opening", "where")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.where = "start"
        self._held = ""
        self._end = ""  # the mark that may have ended the section
        self._opening = _OPENINGS["<think>"]
        self._calls: list[str] = []
        self._length = 0

    def feed(self, text: str) -> list[Piece]:
        """Return the pieces that `text` completes, in order."""
        if self.where == "text":
            return [("text", text)]
        text = self._held + text
        self._held = ""
        pieces: list[Piece] = []
        while text and self.where != "text":
            text = _STEPS[self.where](self, text, pieces)
        if text:
            pieces.append(("text", text))
        return pieces

    def flush(self) -> Rest:
        """Return what was held back, at the end of the response, and prepare for another response."""
        held, where, kind, end, written = self._held, self.where, self._opening.kind, self._end, "".join(self._calls)
        self._reset()
        if where == "calls":
            calls = _parsed_calls(written.partition(CALLS)[2])
            return Rest([] if calls else [("text", written)], calls)
        if where == "ended" and held.strip() and kind == "text":
            held = end + held
        elif where == "ended":
            held = held.strip()
        return Rest([(kind if where == "section" else "text", held)] if held else [], [])

    # --- steps: each returns the rest of the text for the next one ------------------------------------------

    def _start(self, text: str, pieces: list[Piece]) -> str:
        bare = text.lstrip()
        if len(text) - len(bare) <= MAX_LEAD_CHARS:
            if bare.startswith(CALLS):
                self.where = "calls"
                return text
            if (rest := self._after_opening(bare, _OPENINGS)) is not None:
                return rest
            if any(mark.startswith(bare) for mark in (*_OPENINGS, CALLS)):
                self._held = text
                return ""
        self.where = "text"
        return text

    def _after_opening(self, text: str, marks: dict[str, _Opening]) -> str | None:
        """Return what follows the mark at the beginning of a text; None if there is none."""
        for mark, opening in marks.items():
            if text.startswith(mark):
                self._opening = opening
                self.where = "section" if opening.is_channel else "opened"
                return text[len(mark) :]
        return None

    def _opened(self, text: str, pieces: list[Piece]) -> str:
        """Read the white space after a tag: models put line ends around it that belong to neither side."""
        bare = text.lstrip()
        if bare:
            self.where = "section"
        return bare

    def _section(self, text: str, pieces: list[Piece]) -> str:
        at, end = min(((at, end) for end in self._opening.ends if (at := text.find(end)) >= 0), default=(len(text), ""))
        inside, rest = text[:at], text[at + len(end) :]
        if end:
            self.where, self._end = ("ended" if self._opening.is_channel else "closed"), end
        else:
            cut = _unfinished(inside, self._opening.ends)
            inside, self._held = inside[:cut], inside[cut:]
        if inside:
            pieces.append((self._opening.kind, inside))
        return rest

    def _ended(self, text: str, pieces: list[Piece]) -> str:
        """Read what follows the end of a channel: another one, or something that shows that it was no end."""
        bare = text.lstrip()
        if len(text) - len(bare) <= MAX_LEAD_CHARS:
            if (rest := self._after_opening(bare, _SECTIONS)) is not None:
                return rest
            if any(mark.startswith(bare) for mark in _SECTIONS):
                self._held = text
                return ""
        self.where = "text"
        return bare if self._opening.kind == "thinking" else self._end + text

    def _closed(self, text: str, pieces: list[Piece]) -> str:
        bare = text.lstrip()
        if bare:
            self.where = "text"
        return bare

    def _called(self, text: str, pieces: list[Piece]) -> str:
        self._calls.append(text)
        self._length += len(text)
        if self._length <= MAX_CALLS_CHARS:
            return ""
        self.where = "text"
        return "".join(self._calls)


_STEPS = {
    "start": Content._start,
    "opened": Content._opened,
    "section": Content._section,
    "ended": Content._ended,
    "closed": Content._closed,
    "calls": Content._called,
}


def _unfinished(text: str, ends: tuple[str, ...]) -> int:
    """Return the index of an unfinished end mark at the end of `text`; its length if there is none."""
    found = len(text)
    for end in ends:
        at = text.rfind(end[0], max(0, len(text) - len(end) + 1))
        while at >= 0 and not end.startswith(text[at:]):
            at = text.rfind(end[0], max(0, len(text) - len(end) + 1), at)
        if at >= 0:
            found = min(found, at)
    return found


def _parsed_calls(text: str) -> list[dict[str, Any]]:
    """Return the calls in a list of JSON; none if it has anything else."""
    listed = parsed(text.strip())
    if not isinstance(listed, list):
        return []
    calls = [as_dict(entry) for entry in listed]
    return calls if all(isinstance(call.get("name"), str) and call["name"] for call in calls) else []
