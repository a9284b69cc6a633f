"""Open boxes of a Markdown text: the tasks of a loop, in order."""

from __future__ import annotations

import re

_BOX = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\][ \t]+(\S.*)")
_ANY_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def open_tasks(text: str) -> tuple[str, ...]:
    """Return the texts of the open boxes at the top level, outside code and comments, each once.

    The indented lines below a box belong to its text.
    """
    found: list[str] = []
    is_open = False
    for line in _prose(text):
        box = _BOX.match(line)
        if box is not None:
            is_open = box[1] == " "
            if is_open:
                found.append(box[2].rstrip())
        elif is_open and line[:1] in (" ", "\t") and line.strip():
            found[-1] += "\n" + line.rstrip()
        elif line.strip():
            is_open = False
    return tuple(dict.fromkeys(found))


def _prose(text: str) -> list[str]:
    """Return the lines outside fenced code at the top level, and outside comments.

    Fenced code that is indented below a box stays: it is part of the box. So does indented code, which can never be a
    box, because boxes are not indented.
    """
    lines: list[str] = []
    fence, in_comment = "", False
    for line in text.splitlines():
        if in_comment:
            in_comment = "-->" not in line
            continue
        mark = _FENCE.match(line)
        if fence:
            if mark is not None and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark is not None and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            before, found, after = _CODE.sub("", line).partition("<!--")
            in_comment = bool(found) and "-->" not in after
            if not found or before.strip():
                lines.append(line)
    return lines
