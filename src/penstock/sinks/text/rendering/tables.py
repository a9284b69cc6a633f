"""Tables of Markdown, drawn with aligned columns."""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.sinks.text.styles import Piece, SpanStyle
from penstock.sinks.text.wrapping import columns

MAX_TABLE_CHARS = 16 * 1024
"""Characters of the largest table that is held back until it ends; a larger one is shown as it came."""

_DELIMITER = re.compile(r":?-+:?")
_BORDER = re.compile(r"(?<!\\)\|")
_LINES = SpanStyle("2", is_wrapped=False)
_SPACE = SpanStyle(is_wrapped=False)
_BETWEEN = " │ "

Cell = list[Piece]


def draw(source: str, width: int | None, render: Callable[[str], Cell]) -> list[Piece] | None:
    """Return the pieces of a table in `width` columns; None if it is not a table, or too wide.

    `render` returns the pieces of a cell. A table that does not fit is not drawn: with cells on several rows, its words
    would have another order.
    """
    lines = [_cells(line) for line in source.splitlines()]
    if len(lines) < 2 or not all(_DELIMITER.fullmatch(cell) for cell in lines[1]):
        return None
    sides = [_side(cell) for cell in lines[1]]
    rows = [[render(cell) for cell in line] for number, line in enumerate(lines) if number != 1]
    rows[0] = [[(_bold(style), text) for style, text in cell] for cell in rows[0]]
    count = max(len(sides), *map(len, rows))
    rows = [row + [[] for _ in range(count - len(row))] for row in rows]
    sides += ["left"] * (count - len(sides))
    widths = [max(_size(row[number]) for row in rows) for number in range(count)]
    if width is not None and sum(widths) + len(_BETWEEN) * (count - 1) > width:
        return None
    rule = "─┼─".join("─" * size for size in widths)
    pieces = [*_row(rows[0], widths, sides), (_LINES, rule), (_SPACE, "\n")]
    for row in rows[1:]:
        pieces += _row(row, widths, sides)
    return pieces


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    parts = _BORDER.split(line)
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return [part.strip().replace("\\|", "|").replace("\t", " ") for part in parts]


def _side(delimiter: str) -> str:
    if delimiter.endswith(":"):
        return "middle" if delimiter.startswith(":") else "right"
    return "left"


def _size(cell: Cell) -> int:
    return columns("".join(text for _, text in cell))


def _row(cells: list[Cell], widths: list[int], sides: list[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for number, (cell, width, side) in enumerate(zip(cells, widths, sides, strict=True)):
        if number:
            pieces.append((_LINES, _BETWEEN))
        space = width - _size(cell)
        before = {"left": 0, "middle": space // 2, "right": space}[side]
        is_last = number == len(cells) - 1
        pieces += [(_SPACE, " " * before), *((_unwrapped(style), text) for style, text in cell)]
        pieces.append((_SPACE, "" if is_last else " " * (space - before)))
    return [*(piece for piece in pieces if piece[1]), (_SPACE, "\n")]


def _unwrapped(style: object) -> SpanStyle:
    return style._replace(is_wrapped=False) if isinstance(style, SpanStyle) else _SPACE


def _bold(style: object) -> SpanStyle:
    found = _unwrapped(style)
    return found._replace(sgr=f"1;{found.sgr}" if found.sgr else "1")
