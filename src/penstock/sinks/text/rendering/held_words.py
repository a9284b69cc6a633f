"""Words at the margin, which are held back until it is known whether they fit."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.sinks.text.line_writer import LineWriter
from penstock.sinks.text.styles import UNWRAPPED, Piece, SpanStyle, Style
from penstock.sinks.text.wrapping import columns, is_breakable, tokens

NEAR_COLUMNS = 40
"""Columns beside the margin in which the beginning of a word is held; few words are longer."""


class HeldWords:
    """Writer of pieces that holds the last word back if it begins near the margin.

    The breaks do not depend on how the text was cut: a word that begins further from the margin never gets one.
    """

    def __init__(self) -> None:
        self._word: list[Piece] = []
        self._is_free = False  # the beginning of this word was written
        self.number: int = 0
        """Number of words so far."""

    @property
    def is_holding(self) -> bool:
        """Return whether a word is held back."""
        return bool(self._word)

    def put(self, pieces: Iterable[Piece], line: LineWriter) -> None:
        """Write all pieces but for a word that may go on."""
        for style, text in pieces:
            if line.columns_left() is None or not _is_wrapped(style):
                self.end(line)
                line.put(text, style)
                continue
            for token in tokens(text):
                if is_breakable(token):
                    self.end(line)
                    line.put(token, style)
                else:
                    self._add(token, style, line)

    def _add(self, token: str, style: Style, line: LineWriter) -> None:
        left = line.columns_left() or 0
        if self._is_free or (not self._word and left >= NEAR_COLUMNS):
            self._is_free = True
            line.put_word([(style, token)], 0)
            return
        if not self._word:
            self.number += 1
        self._word.append((style, token))
        if self._size() > left:  # it cannot fit any more
            self.release(line)

    def _size(self) -> int:
        return columns("".join(text for _, text in self._word))

    def end(self, line: LineWriter) -> None:
        """Write the held word, which is complete."""
        if self._word:
            word, size = self._word, self._size()
            self._word = []
            line.put_word(word, size)
        self._is_free = False

    def release(self, line: LineWriter) -> None:
        """Write the held part of a word; its rest follows without a break."""
        if self._word:
            self.end(line)
            self._is_free = True


def _is_wrapped(style: Style) -> bool:
    if isinstance(style, SpanStyle):
        return style.is_wrapped and style.hang is None
    return style not in UNWRAPPED
