"""The tables of a report as data, for programs that watch how figures change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

NUMBER = re.compile(r"[*\s]*(-?[\d,]+(?:\.\d+)?)")


def value(cell: str) -> float | str:
    """The number that a cell begins with, without its unit; a cell without one as it is."""
    found = NUMBER.match(cell)
    return float(found[1].replace(",", "")) if found else cell


def tables(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Each table with its title; a row has its columns by name, the first as text."""
    found: list[dict[str, Any]] = []
    columns: list[str] = []
    for line in lines:
        if line.startswith("### "):
            found.append({"title": line.removeprefix("### "), "rows": []})
            columns = []
        elif line.startswith("| "):
            first, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
            if not columns:
                columns = [name.replace("*", "").replace("`", "") for name in cells]
            elif first.strip("-:"):
                row = dict(zip(columns, map(value, cells), strict=False))
                found[-1]["rows"].append({"name": first.replace("`", ""), **row})
    return found
