"""Diffs in the results of cline's tool `editor`: the lines from the first to the last difference, with their numbers.

    Edited /srv/README.md
    ```diff
    -3: old line
    +3: new line
    ```

This is the text of cline 3.0.65. There is no context; of many lines only the first are shown, with the number of the
others.
"""

from __future__ import annotations

import re

import msgspec

from penstock.core import diffs
from penstock.core.diffs import Hunk
from penstock.events import Change

_RESULT = re.compile(r"Edited ([^\n]+)\n```diff\n(?:(.*)\n)?```", re.DOTALL)
_LINE = re.compile(r"([+-])(\d{1,9}): (.*)")
_CUT = re.compile(r"\.\.\. diff truncated \((\d{1,9}) more removed, (\d{1,9}) more added lines\) \.\.\.")


def change_of(result: str) -> Change | None:
    """Return the change that the result of `editor` shows; None if it shows none."""
    found = _RESULT.fullmatch(result)
    if found is None or found[2] is None:
        return None
    shown = found[2].split("\n")
    cut = _CUT.fullmatch(shown[-1])
    lines = [_LINE.fullmatch(line) for line in (shown[:-1] if cut else shown)]
    parts = [(line[1], int(line[2]), line[3]) for line in lines if line is not None]
    if not parts or len(parts) != len(lines):
        return None
    removed = sum(sign == "-" for sign, _, _ in parts)
    start = parts[0][1]
    hunk = Hunk(start, removed, start, len(parts) - removed, [sign + text for sign, _, text in parts])
    change = diffs.from_hunks(found[1], [hunk])
    if cut is None:
        return change
    return msgspec.structs.replace(
        change, removed=removed + int(cut[1]), added=len(parts) - removed + int(cut[2]), truncated=True
    )
