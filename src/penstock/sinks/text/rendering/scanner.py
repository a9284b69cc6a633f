"""Scanner of Markdown: text in, pieces to show out. It holds back only what may be a marker.

With `is_whole`, links, lines of code and tables are held until they end too. The pieces do not depend on how the text
was cut, unless held text was released.
"""

from __future__ import annotations

import re
from typing import Literal

from penstock.sinks.text.rendering.code_colours import MAX_CODE_CHARS, coloured
from penstock.sinks.text.rendering.emphasis import ADDRESS, Emphasis
from penstock.sinks.text.rendering.line_starts import START, Fence, may_begin_marker, rows
from penstock.sinks.text.rendering.links import (
    LINK,
    MAX_LINK_CHARS,
    deceives,
    host_of,
    is_safe,
    may_begin_link,
)
from penstock.sinks.text.rendering.tables import MAX_TABLE_CHARS, draw
from penstock.sinks.text.styles import Piece, SpanStyle, Style

MARKER_SECONDS = 0.1
"""Seconds for which a marker is held back."""
WHOLE_SECONDS = 2.0
"""Seconds for which a link, a line of code or a table is held back."""
MAX_RUN_CHARS = 16
"""Maximum number of equal marks that are held back."""
RULE = "─" * 20
"""Rule between parts of a text. It fits in every line that is wrapped."""

_PLAIN = re.compile(r"[^\n`*_\\\[<(]+|[\[<(]")
_IN_CODE = re.compile(r"[^\n`]+")
_ADDRESS = re.compile(r"[^\s)]+")
_RUN = re.compile(r"(`+|\*+|_+)")
_QUOTE = SpanStyle("2")
_CAPTION = SpanStyle("2", is_wrapped=False)
_MARK = SpanStyle("36")

Place = Literal["start", "caption", "code", "text"]


class MarkdownScanner:
    """Scanner of one text. `has_links`: the terminal shows hyperlinks.

    Each step consumes text at the beginning of what is held. Text of it that was already released (`_shown`) is not
    shown again, and a marker of which a part was shown is shown completely.
    """

    def __init__(self, *, is_whole: bool, has_links: bool, is_inline: bool = False) -> None:
        self._is_whole = is_whole
        self._has_links = has_links
        self._place: Place = "text" if is_inline else "start"
        self._text = ""  # the text that is scanned, then the held end of it
        self._shown = 0  # characters at its beginning that were released
        self._read = 0  # characters before it
        self._out: list[Piece] = []
        self._width: int | None = None
        self._seconds = MARKER_SECONDS
        self._emphasis = Emphasis()
        self._last = ""  # the character before
        self._fence: Fence | None = None
        self._language = ""
        self._hang = ""  # shown markers at the start of the line
        self._is_empty = True  # nothing of the line was shown
        self._is_plain = False  # the rest of this table is shown as it comes
        self._is_ending = False  # no more text follows

    @property
    def held(self) -> tuple[int, float] | None:
        """Number of the held text, which no other one has, and the seconds that it may be held; None for no text."""
        return (self._read, self._seconds) if len(self._text) > self._shown else None

    def feed(self, text: str, width: int | None) -> list[Piece]:
        """Return the pieces to show. `width` is that of a row, for tables."""
        self._width = width
        is_in_table = self._text[:1] == "|" and self._seconds == WHOLE_SECONDS and not self._shown
        if is_in_table and "\n" not in text and self._text[-1] != "\n" and len(self._text) < MAX_TABLE_CHARS:
            self._text += text  # more of a row: the table is not read again
            return []
        self._text += text
        return self._scan()

    def release(self) -> list[Piece]:
        """Return the held text as it came."""
        waiting = self._text[self._shown :]
        self._shown = len(self._text)
        self._is_empty = self._is_empty and not waiting
        return [("code block" if self._place == "code" else self._emphasis.style, waiting)] if waiting else []

    def end(self) -> list[Piece]:
        """Return the held text as the end of a line; nothing changes if none is held."""
        if not self._text:
            return []
        self._text += "\n"
        self._is_ending = True
        pieces = self._scan()
        self._is_ending = False
        if pieces and pieces[-1][1].endswith("\n"):
            style, text = pieces.pop()
            pieces.append((style, text[:-1]))
        return [piece for piece in pieces if piece[1]]

    def _scan(self) -> list[Piece]:
        text, at = self._text, 0
        while at < len(text):
            self._seconds = MARKER_SECONDS
            used = self._step(text, at)
            if not used:
                break
            self._last = text[at + used - 1]
            at += used
            self._shown = max(0, self._shown - used)
        self._text = text[at:]
        self._read += at
        out, self._out = self._out, []
        return out

    def _step(self, text: str, at: int) -> int:
        """Show what is certain at `at`; return the number of characters, or 0 if more text must come."""
        if self._place == "start":
            return self._start(text, at)
        if self._place == "code":
            return self._code(text, at)
        if text[at] == "\n":
            return self._end_line()
        if self._place == "caption":
            return self._caption(text, at)
        return self._inline(text, at)

    def _show(self, style: Style, text: str) -> int:
        """Show text as it is, but for the part that was released."""
        if waiting := text[self._shown :]:
            self._out.append((style, waiting))
            self._is_empty = self._is_empty and waiting == "\n"
        return len(text)

    def _replace(self, text: str, style: Style, instead: str = "") -> int:
        """Show something else instead of a marker, unless a part of the marker was released."""
        if self._shown:
            return self._show("text", text)
        if instead:
            self._out.append((style, instead))
            self._is_empty = False
        return len(text)

    def _end_line(self) -> int:
        if self._place == "caption" and self._fence is not None:
            self._place = "code"
            self._language = self._language.strip().partition(" ")[0]
        else:
            self._place = "start"
        is_dropped = self._fence is not None and self._is_empty and not self._shown
        self._begin_line()
        return 1 if is_dropped else self._show("text", "\n")

    def _begin_line(self) -> None:
        self._emphasis.reset()
        self._last = self._hang = ""
        self._is_empty = True

    # --- starts of lines -----------------------------------------------------------------------------

    def _start(self, text: str, at: int) -> int:
        found = START.match(text, at)
        kind = found.lastgroup if found is not None else None
        if found is None:
            self._is_plain = False
            return 0 if may_begin_marker(text, at) else self._text_begins(text, at)
        if kind == "row" and not self._hang:
            return self._table(text, at)
        self._is_plain = False
        source = found[0]
        match kind:
            case "blank":
                self._begin_line()
                return self._show("text", source)
            case "rule":
                self._begin_line()
                return self._replace(source, _QUOTE, f"{RULE}\n")
            case "heading":
                self._place, self._emphasis.heading = "text", len(found["level"])
                return self._replace(source, "text")
            case "quote":
                self._hang += "│ "
                return self._replace(source, _QUOTE._replace(hang=self._hang), "│ ")
            case "bullet":
                self._hang += " " * len(source)
                return self._replace(source, _MARK._replace(hang=self._hang), f"{source[:-2]}• ")
            case "number":
                self._hang += " " * len(source)
                return self._show(_MARK._replace(hang=self._hang), source)
            case "fence" if (
                "│" not in self._hang
            ):  # in a quote it stays as it is, as each of its lines has the quote's mark
                self._place, self._fence, self._language = "caption", Fence(found["fence_mark"]), ""
                return self._replace(source, "text")
        return self._text_begins(text, at)

    def _text_begins(self, text: str, at: int) -> int:
        self._place = "text"
        indent = len(text) - at - len(text[at:].lstrip(" ")) if text[at] == " " else 0
        if not indent:
            return self._inline(text, at)
        self._hang += " " * indent
        return self._show(SpanStyle(hang=self._hang), text[at : at + indent])

    def _table(self, text: str, at: int) -> int:
        size, may_grow = rows(text, at)
        self._is_plain = self._is_plain or bool(self._shown) or not self._is_whole
        if not self._is_plain and max(size, len(text) - at if may_grow else 0) <= MAX_TABLE_CHARS:
            if may_grow and not self._is_ending:
                self._seconds = WHOLE_SECONDS
                return 0
            drawn = draw(text[at : at + size], self._width, self._cell)
            if drawn is not None:
                self._out += drawn
                return size
        self._is_plain = True
        self._place, self._emphasis.is_row = "text", True
        return self._inline(text, at)

    def _cell(self, text: str) -> list[Piece]:
        scanner = MarkdownScanner(is_whole=True, has_links=self._has_links, is_inline=True)
        return scanner.feed(text, None) + scanner.end()

    # --- blocks of code ------------------------------------------------------------------------------

    def _caption(self, text: str, at: int) -> int:
        fence = self._fence
        if fence is not None and fence.mark[0] == text[at] == "`":
            # It was no block: three marks may also begin code inside a line.
            self._emphasis.code, self._fence, self._place = len(fence.mark), None, "text"
            return self._inline(text, at)
        found = _IN_CODE.match(text, at)
        words = found[0] if found is not None else text[at]
        self._language += words
        return self._show(_CAPTION, words)

    def _code(self, text: str, at: int) -> int:
        is_start = self._last in ("", "\n")
        if is_start and self._fence is not None:
            if size := self._fence.end(text, at):
                self._fence, self._place = None, "start"
                self._begin_line()
                return self._replace(text[at : at + size], "text")
            if self._fence.may_end(text, at):
                return 0
        if text[at] == "\n":
            return self._show("text", "\n")
        end = text.find("\n", at)
        size = (end if end >= 0 else len(text)) - at
        if is_start and self._is_whole and not self._shown and size <= MAX_CODE_CHARS:
            if end < 0:
                self._seconds = WHOLE_SECONDS
                return 0
            self._out += coloured(text[at:end], self._language)
            return size
        return self._show("code block", text[at : at + size])

    # --- inside of lines -----------------------------------------------------------------------------

    def _inline(self, text: str, at: int) -> int:
        emphasis, char = self._emphasis, text[at]
        if emphasis.address:
            if found := _ADDRESS.match(text, at):
                return self._show(emphasis.style, found[0])
            emphasis.address = False
        if char == "`" or (char in "*_" and not emphasis.code):
            return self._run(text, at)
        if char in "[<" and self._may_link:
            if (link := LINK.match(text, at)) and len(link[0]) <= MAX_LINK_CHARS:
                if shown := self._link(link):
                    return shown
            elif may_begin_link(text, at):
                self._seconds = WHOLE_SECONDS
                return 0
        found = (_IN_CODE if emphasis.code else _PLAIN).match(text, at)
        used = self._show(emphasis.style, found[0] if found is not None else char)
        emphasis.address = char == "(" and self._last == "]" and not emphasis.code
        return used

    def _run(self, text: str, at: int) -> int:
        emphasis = self._emphasis
        found = _RUN.match(text, at)
        run = found[0] if found is not None else text[at]
        is_long = len(run) > MAX_RUN_CHARS
        if at + len(run) == len(text) and not is_long:
            return 0
        before = emphasis.style
        shown = run if is_long else emphasis.read(run, self._last, text[at + len(run)])
        style = emphasis.style if before == "text" else before
        return self._show(style, run) if shown == run else self._replace(run, style, shown)

    @property
    def _may_link(self) -> bool:
        emphasis = self._emphasis
        return self._is_whole and not (emphasis.code or emphasis.is_row or self._shown or self._last == "\\")

    def _link(self, found: re.Match[str]) -> int:
        """Show a link; return its length, or 0 if a terminal should not open its address."""
        text, address = (found["own"], found["own"]) if found["own"] else (found["text"], found["address"])
        if not is_safe(address):
            return 0
        link = address if self._has_links else ""
        for style, part in self._cell(text) if found["text"] else [("text", text)]:
            sgr = style.sgr if isinstance(style, SpanStyle) else ""
            self._out.append((SpanStyle(f"{sgr};{ADDRESS}" if sgr else ADDRESS, link), part))
        beside = "" if text == address else address
        if self._has_links:
            beside = host_of(address) if deceives(text, address) else ""
        if beside:
            self._out.append((_QUOTE, f" ({beside})"))
        self._is_empty = False
        return len(found[0])
