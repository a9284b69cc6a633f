"""Rows of the tables that the benchmarks print."""

from __future__ import annotations

from collections.abc import Iterator


def section(title: str, about: str, columns: list[str]) -> Iterator[str]:
    yield from ("", f"### {title}", "", about, "", row(*columns), row(*["---"] + ["---:"] * (len(columns) - 1)))


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
