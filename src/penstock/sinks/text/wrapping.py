"""Wrapping of lines at the width of a terminal, by inserting line breaks before words.

Text streams, so only the beginning of a word, or of an emoji, may be known. A break is inserted before a word whose
known part does not fit; the terminal wraps a word that grows past the margin later. No character is held back or
dropped: the space before the break stays.
"""

from __future__ import annotations

import re
from functools import cache

MIN_TEXT_COLUMNS = 20
"""Minimum columns beside the indent of a line; the terminal wraps a narrower line."""

EMOJI_COLUMNS = 4
"""Columns that an emoji may need: its skin tone comes after it, and some terminals show the two beside each other."""

TAB_COLUMNS = 8
"""Columns between the tab stops of a terminal."""

# Letters of Europe, punctuation, arrows, boxes and the marks of the theme: one column each, in every terminal.
_NARROW = re.compile("[ -~\xa0-\xac\xae-\u02ff\u0370-\u0377\u0384-\u0482\u2010-\u2027\u2030-\u205e\u20ac\u2190-\u2319"
                     "\u2500-\u25fc\u2610-\u2613\u2630\u2713\u2717]*")  # fmt: skip
_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6"
    "\U00020000-\U0003fffd"
)
_FLAGS = "\U0001f1e6-\U0001f1ff"
"""Letters of flags: two of them are one."""
_TONES = "\U0001f3fb-\U0001f3ff"
"""Skin tones of the emoji before them."""
_JOINER = "\u200d"
"""Makes one emoji of two."""
_EMOJI = f"{_FLAGS}\U0001f300-\U0001faff"
_IS_EMOJI = re.compile(f"[{_EMOJI}]")
_EXTENDS = re.compile(f"[{_JOINER}\ufe0e\ufe0f\u20e3]+|[{_TONES}]")


@cache  # compiled on first use: a pipe has no margin
def _token_pattern() -> re.Pattern[str]:
    return re.compile(rf"\n|\t|[^\S\n\t]+|[{_WIDE}{_EMOJI}]|{_EXTENDS.pattern}|[^\s{_WIDE}{_EMOJI}]+")


def tokens(text: str) -> list[str]:
    """Return `text` in words, spaces, line breaks, and wide characters one by one, also the parts of an emoji."""
    return _token_pattern().findall(text)


def is_breakable(token: str) -> bool:
    """Return whether a line may break before and after this token, whatever is beside it."""
    return token.isspace() or _is_wide(token)


def _is_wide(token: str) -> bool:
    return len(token) == 1 and not token.isascii() and columns(token) == 2


def _goes_on(emoji: str, token: str) -> bool:
    """Return whether a token is a part of the emoji before it: a skin tone, what is joined to it, or half a flag."""
    if not emoji:
        return False
    flags = [char for char in emoji + token if "\U0001f1e6" <= char <= "\U0001f1ff"]
    return emoji[-1] == _JOINER or _EXTENDS.fullmatch(token) is not None or emoji + token == "".join(flags[:2])


class Margin:
    """Width of the terminal in columns, which may change. None: no breaks are inserted."""

    __slots__ = ("width",)

    def __init__(self, width: int | None = None) -> None:
        self.width: int | None = width


def columns(text: str) -> int:
    """Return the number of columns that a text without control characters fills in a terminal."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    from wcwidth import wcswidth  # imported on first use: it takes longer than to start Penstock

    return max(wcswidth(text), 0)


class Wrapper:
    """Wrapper of one line and of the lines indented under it. Feed it all text of the line in order.

    One column at the margin stays free for the space before a break; otherwise the terminal would put that space on a
    line of its own. Rows with fewer than `least` columns are not wrapped.
    """

    __slots__ = ("_can_break", "_column", "_emoji", "_hang", "_indent", "_least", "_margin")

    def __init__(self, margin: Margin, indent: int, least: int = MIN_TEXT_COLUMNS) -> None:
        self._margin = margin
        self._least = least
        self._indent = self._column = indent
        self._can_break = True
        self._hang = ""
        self._emoji = ""
        """Emoji so far, if the last character belongs to one: its parts may come one by one."""

    def hang(self, text: str) -> None:
        """Begin the rows in which the current line continues with `text`, if there is room for it."""
        fits = self._margin.width is not None and self._margin.width - 1 - self._indent - columns(text) >= self._least
        self._hang = text if fits else ""

    def columns_left(self) -> int | None:
        """Return the columns that are left in the row; None if no breaks are inserted."""
        width = self._margin.width
        return None if width is None or width - 1 - self._indent < self._least else width - 1 - self._column

    def row(self) -> int | None:
        """Return the columns of a row beside the indent; None if no breaks are inserted."""
        width = self._margin.width
        return None if width is None else width - 1 - self._indent

    def feed(self, text: str, *, breaks: bool = True) -> str:
        """Return `text` with the breaks that it needs; without `breaks`, only count its columns."""
        width = self._margin.width
        if width is None or not text:
            return text
        limit = width - 1
        breaks = breaks and limit - self._indent >= self._least
        if self._column + len(text) <= limit and text.isascii() and text.isprintable():
            self._column += len(text)
            self._can_break = text[-1] == " "
            self._emoji = ""
            return text
        return "".join([self._token(token, limit, breaks) for token in tokens(text)])

    def before_word(self, size: int) -> str:
        """Return the break that a word of `size` columns needs before it; "" if there is none."""
        left = self.columns_left()
        start = self._indent + columns(self._hang)
        if left is None or size <= left or not self._can_break or self._column <= start:
            return ""
        self._column = start
        return f"\n{self._hang}"

    def _token(self, token: str, limit: int, breaks: bool) -> str:
        if _goes_on(self._emoji, token):
            # Terminals that do not know the emoji show its parts beside each other, so all of them count.
            self._column = min(self._column + columns(token), limit)
            self._emoji += token
            return token
        self._emoji = ""
        if token == "\n":
            self._column, self._can_break, self._hang = self._indent, True, ""
            return token
        if token.isspace():
            self._can_break = True
            self._advance(TAB_COLUMNS - self._column % TAB_COLUMNS if token == "\t" else len(token), limit)
            return token
        size, is_wide = columns(token), _is_wide(token)
        self._emoji = token if is_wide and _IS_EMOJI.match(token) else ""
        needed = EMOJI_COLUMNS if self._emoji else size
        before = ""
        if breaks and (self._can_break or is_wide) and self._column + needed > limit:
            start = self._indent + columns(self._hang)
            if start < self._column:
                before, self._column = f"\n{self._hang}", start
        self._advance(size, limit)
        self._can_break = is_wide  # Chinese or Japanese text can break between any two characters, without a space
        return before + token

    def _advance(self, size: int, limit: int) -> None:
        self._column += size
        if self._column > limit + 1:  # the terminal continued in the first column of its next row
            self._column = (self._column - 1) % (limit + 1) + 1
