"""Results that the log of a CI service folds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.sinks.sanitize import CommandFilter
from penstock.sinks.text.line_writer import LineWriter
from penstock.sinks.text.results import ResultLines
from penstock.sinks.text.styles import Palette, Piece
from penstock.sinks.text.theme import indented
from penstock.sinks.text.visibility import Service

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def fold(service: Service, agent: str, number: int, title: str) -> tuple[str, str]:
    """Return the lines to write before and after text that the service's log shows folded under `title`.

    GitLab needs a name for the section. Several agents of one job must not share a name.
    """
    title = CommandFilter().feed(title)
    if service == "github":
        return f"::group::{title.replace('%', '%25')}\n", "::endgroup::\n"  # GitHub decodes `%`
    # GitLab recognizes a section by exactly these bytes; its log viewer does not show them.
    name = f"penstock_{_NOT_IN_NAMES.sub('_', agent)}_{number}"
    begin = f"\x1b[0Ksection_start:0:{name}[collapsed=true]\r\x1b[0K{title}\n"
    return begin, f"\x1b[0Ksection_end:0:{name}\r\x1b[0K\n"


def write_folded(out: list[str], palette: Palette, around: tuple[str, str], lines: ResultLines) -> None:
    """Write the folded part of a result between the lines `around`, and the other part below them."""
    begin, end = around
    out.append(begin)
    _write(out, palette, [("output", lines.foldable)])
    out.append(end)
    _write(out, palette, lines.shown)


def _write(out: list[str], palette: Palette, pieces: Iterable[Piece]) -> None:
    line = LineWriter(out, palette, "")
    for style, text in pieces:
        line.put(indented(text), style)
    line.end()
