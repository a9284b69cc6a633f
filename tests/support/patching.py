"""Diffs of `penstock.events.Change`, applied to the text of a file: for the tests of what agents change."""

from __future__ import annotations

import re

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n?")


def apply(diff: str, before: str) -> str:
    """Apply hunks to a text: at their line numbers, else at the only place where their old lines are."""
    lines = before.splitlines(keepends=True)
    shift = 0
    for header, body in hunks(diff):
        old, new = ([line[1:] for line in body if line[0] in signs] for signs in (" -", " +"))
        found = _HEADER.fullmatch(header)
        if found is not None:
            count = int(found[2] or 1)
            start = int(found[1]) - (count > 0) + shift
            assert count == len(old)
        else:
            places = [at for at in range(len(lines)) if lines[at : at + len(old)] == old]
            assert len(places) == 1
            start = places[0]
        assert lines[start : start + len(old)] == old
        lines[start : start + len(old)] = new
        shift += len(new) - len(old)
    return "".join(lines)


def hunks(diff: str) -> list[tuple[str, list[str]]]:
    """Return each hunk's header and lines. A line that is marked so has no end."""
    found: list[tuple[str, list[str]]] = []
    for line in diff.splitlines(keepends=True):
        if line.startswith("@@"):
            found.append((line, []))
        elif line.startswith("\\"):
            found[-1][1][-1] = found[-1][1][-1].removesuffix("\n")
        else:
            found[-1][1].append(line)
    return found


def is_positioned(header: str) -> bool:
    """Whether the header of a hunk has line numbers."""
    return _HEADER.fullmatch(header) is not None
