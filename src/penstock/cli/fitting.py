"""Tables and lines for people in the columns of a terminal: nothing is broken inside a word that fits into a row.

Without a width, as in a pipe, each row and each line stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.wrapping import Margin, Wrapper, columns, is_breakable, tokens

GAP = "  "
"""Space between the columns of a table."""

MIN_WRAPPED_COLUMNS = 10
"""Minimum columns of a cell that is wrapped: a narrower one is hard to read."""

HANG = "  "
"""Indent of the rows in which a line continues."""

SEPARATOR = " · "
"""Text between the cells of a paragraph that are in one row."""

# Its last part is copied, so no line break comes into it. With a comma or a semicolon before a blank it is a sentence.
_COMMAND_LINE = re.compile(r"( *)(.*\S:)\s+((?:penstock|git) (?:[^,;\n]|[,;](?! ))*\n?)")


def fitted_table(
    rows: Iterable[Sequence[str]], width: int | None, *, right_from: int | None = None, has_heads: bool = True
) -> str:
    """Return rows with the same number of cells as a table of at most `width` columns.

    If it is too wide, long cells are wrapped at blanks; if they would become too narrow, each row is a paragraph.

    Args:
        rows: the cells.
        width: columns of the terminal; None: no limit.
        right_from: first column of those that align right.
        has_heads: whether the first row has the headings.
    """
    rows = [[clean_line(cell) for cell in row] for row in rows]
    widths = [max(map(columns, cells)) for cells in zip(*rows, strict=True)]
    left = len(widths) if right_from is None else right_from
    if width is not None:
        longest = [max(map(_longest_word, cells)) for cells in zip(*rows, strict=True)]
        narrowed = _narrowed(widths, longest, width - len(GAP) * (len(widths) - 1))
        if narrowed is None:
            return _paragraphs(rows, width, has_heads=has_heads)
        widths = narrowed
    return "".join(map(_row_writer(widths, left), rows))


def wrapped(text: str, width: int | None) -> str:
    """Return the lines of `text` wrapped at blanks. A command at the end of a line gets a line of its own if need be.

    A word that is longer than a row stays whole, and so does a command: the terminal breaks it, and it can be copied.
    """
    if width is None:
        return text
    return "".join(_wrapped_line(line, width) for line in text.splitlines(keepends=True))


def _wrapped_line(line: str, width: int) -> str:
    if columns(line.rstrip("\n")) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip(" "))]
    if found := _COMMAND_LINE.fullmatch(line):
        return _wrapped_line(f"{indent}{found[2]}\n", width) + f"{indent}{HANG}{found[3]}"
    return "\n".join(_broken(line, width, indent + HANG))


def _broken(text: str, width: int, hang: str = "") -> list[str]:
    """Return the rows of a text."""
    wrapper = Wrapper(Margin(width + 1), 0, least=1)  # the space before a break is removed, and needs no column
    wrapper.hang(hang)
    return [row.rstrip(" ") for row in wrapper.feed(text).split("\n")]


def _longest_word(text: str) -> int:
    return max((columns(token) for token in tokens(text) if not is_breakable(token)), default=0)


def _narrowed(widths: Sequence[int], longest: Sequence[int], limit: int) -> list[int] | None:
    """Return the widths of columns of which the widest are narrowed, so that their sum is at most the limit.

    Return None if that is not possible with readable columns.
    """
    for most in range(max(widths), MIN_WRAPPED_COLUMNS - 1, -1):
        found = [min(width, max(word, most)) for width, word in zip(widths, longest, strict=True)]
        if sum(found) <= limit:
            return found
    return None


def _row_writer(widths: Sequence[int], left: int) -> Callable[[Sequence[str]], str]:
    def padded(column: int, text: str) -> str:
        space = " " * (widths[column] - columns(text))
        return text + space if column < left else space + text

    def written(row: Sequence[str]) -> str:
        cells = [
            [cell] if columns(cell) <= width else _broken(cell, width) for cell, width in zip(row, widths, strict=True)
        ]
        lines = []
        for number in range(max(map(len, cells))):
            texts = (cell[number] if number < len(cell) else "" for cell in cells)
            lines.append(GAP.join(padded(column, text) for column, text in enumerate(texts)).rstrip() + "\n")
        return "".join(lines)

    return written


def _paragraphs(rows: Sequence[Sequence[str]], width: int, *, has_heads: bool) -> str:
    """Return each row as a paragraph: its cells with their headings, without those that are empty."""
    if not has_heads:
        return "".join(wrapped(GAP.join(filter(None, row)) + "\n", width) for row in rows)
    heads, *others = rows
    lines: list[str] = []
    for row in others:
        cells = [f"{head} {cell}".lstrip() for head, cell in zip(heads, row, strict=True) if cell not in ("", "–")]
        lines += _paragraph(cells, width)
    return "".join(f"{line}\n" for line in lines)


def _paragraph(cells: Sequence[str], width: int) -> list[str]:
    """Return the rows of a paragraph. A cell begins a row if it does not fit into the one before."""
    rows: list[str] = []
    for cell in cells:
        if rows and columns(rows[-1] + SEPARATOR + cell) <= width:
            rows[-1] += SEPARATOR + cell
        else:
            rows += _broken((HANG if rows else "") + cell, width, HANG)
    return rows
