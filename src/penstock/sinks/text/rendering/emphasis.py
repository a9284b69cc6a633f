"""Emphasis inside one line of Markdown: which markers open or close code, bold and italic text, and the styles."""

from __future__ import annotations

from functools import cache

from penstock.sinks.text.styles import COLOURS, SpanStyle, Style

_HEADINGS = {1: "1;4", 2: "1"}
_SMALL_HEADING = "1;3"
ADDRESS = "4;36"
"""SGR parameters of an address."""


class Emphasis:
    """State of one line. A style ends with its line at the latest, so a marker that is never closed styles one line."""

    __slots__ = ("address", "bold", "code", "heading", "is_row", "italic", "link")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin a line."""
        self.heading: int = 0
        self.code: int = 0  # backticks that opened code
        self.bold: str = ""  # the marker that opened it
        self.italic: bool = False
        self.address: bool = False  # inside the address of a link
        self.is_row: bool = False  # a row of a table that is shown as it came
        self.link: str = ""  # address of the hyperlink

    @property
    def style(self) -> Style:
        """Style of the text that follows."""
        if self.address or self.link:
            return _style(ADDRESS, self.link)
        if not (self.heading or self.code or self.bold or self.italic):
            return "text"
        heading = _HEADINGS.get(self.heading, _SMALL_HEADING) if self.heading else ""
        parts = (
            heading or ("1" if self.bold else ""),
            "3" if self.italic and not self.code else "",
            COLOURS["code"] if self.code else "",
        )
        return _style(";".join(filter(None, parts)), "")

    def read(self, run: str, before: str, following: str) -> str:
        """Apply a run of equal marks between two characters; return what is shown of it.

        A marker is dropped if it is certainly one. A single star and underscores stay: a star may as well be a
        pattern, a pointer or an argument, and underscores belong to names.
        """
        if run[0] == "`":
            is_marker = self._backticks(len(run), before, following)
            return "" if is_marker and not self.is_row else run
        if self.code or before == "\\" or before == run[0]:
            return run
        if run[0] == "_":
            if len(run) == 2:
                self._strong(run, before, following)
            return run
        if len(run) == 1:
            self._star(before, following)
            return run
        if len(run) == 3 and self.bold == "**" and self.italic:  # closes both
            self.italic = False
            return "*" if self._strong("**", before, following) and not self.is_row else run
        is_marker = len(run) < 4 and self._strong(run, before, following)
        return "" if is_marker and not self.is_row else run

    def _backticks(self, count: int, before: str, following: str) -> bool:
        if self.code:
            closes = self.code == count
            self.code = 0 if closes else self.code
            return closes
        opens = not (following.isspace() or before.isalnum() or before in ("\\", "`"))
        self.code = count if opens else 0
        return opens

    def _strong(self, run: str, before: str, following: str) -> bool:
        if self.bold == run:
            closes = not before.isspace()
            self._set_bold("" if closes else run)
            return closes
        # A letter before it, as in 2**8, is no border of a word, but any letter of a script without spaces is. A slash
        # after it is a pattern: **/*.py.
        opens = not (self.bold or following.isspace() or following == "/" or (before.isalnum() and before.isascii()))
        if opens:
            self._set_bold(run)
        return opens

    def _set_bold(self, run: str) -> None:
        self.bold = run
        if len(run) == 3:
            self.italic = True
        elif not run:
            self.italic = False

    def _star(self, before: str, following: str) -> None:
        if self.italic:
            self.italic = before.isspace()
        else:
            self.italic = following.isalnum() and not (before.isalnum() and before.isascii()) and before not in "/*."


@cache  # few styles, but for links
def _plain_style(sgr: str) -> SpanStyle:
    return SpanStyle(sgr)


def _style(sgr: str, link: str) -> SpanStyle:
    return SpanStyle(sgr, link) if link else _plain_style(sgr)
