"""Diffs of edits: makes the `Change` of an event from whatever an agent's wire contains about an edit.

A wire may have both texts, a unified diff, a list of hunks, a patch in Codex's format, or only the name of the file.
A diff has three lines of context and no file headers. If the position of a hunk is unknown, its header is just `@@`.
Only a line feed ends a line: all other line breaks are text, as in Git.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from penstock.events import Change, ChangeKind

MAX_DIFF_BYTES = 256 * 1024
"""Maximum bytes of one diff that are kept; people do not read more."""

MAX_DIFF_LINES = 5_000
"""Maximum lines of one diff that are kept."""

MAX_COMPARED_LINES = 4_000
"""Maximum number of lines between the first and the last difference that are compared. If there are more, all of them
are replaced, for speed."""

CONTEXT_LINES = 3
"""Lines of context around a change, as in `diff -u`."""

NO_NEWLINE = "\\ No newline at end of file\n"

_SIGNS = (" ", "+", "-", "\\")
"""First characters of the lines of a hunk; the last one begins `NO_NEWLINE`."""

UNKNOWN_POSITION = "@@\n"
"""Header of a hunk with unknown line numbers."""


class Hunk(msgspec.Struct, frozen=True):
    """One hunk. Lines begin with ` `, `-` or `+` and have no line end. Line numbers start at 1."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[str]


def from_texts(path: str, old: str | None, new: str | None, *, to: str | None = None) -> Change:
    """Return the change from one whole text of a file to another; None means that the file does not exist."""
    kind: ChangeKind = "add" if old is None else "delete" if new is None else "move" if to is not None else "update"
    return _change(path, kind, _compare(old or "", new or "", positioned=True), to)


def from_fragments(path: str, pairs: Iterable[tuple[str, str]]) -> Change:
    """Return the change that replaces parts of a file, each given as (old, new). Their positions are unknown."""
    lines: list[str] = []
    for old, new in pairs:
        lines += _compare(old, new, positioned=False)
    return _change(path, "update", lines, None)


def from_content(path: str, content: str) -> Change:
    """Return the change that writes a whole file, which may or may not exist."""
    return msgspec.structs.replace(from_texts(path, None, content), removed=None)


def from_hunks(path: str, hunks: Iterable[Hunk], *, kind: ChangeKind = "update", to: str | None = None) -> Change:
    """Return the change that these hunks describe."""
    lines: list[str] = []
    for hunk in hunks:
        lines.append(_header(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines))
        lines += _signed(line.rstrip("\n") + "\n" for line in hunk.lines)
    return _change(path, kind, lines, to)


def from_unified(path: str, diff: str, *, kind: ChangeKind = "update", to: str | None = None) -> Change:
    """Return the change that a unified diff of one file describes. The lines before its first hunk are left out."""
    lines = _lines(diff)
    first = next((index for index, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return _change(path, kind, _signed(lines[first:], headers=True), to)


def named(path: str, kind: ChangeKind, *, added: int | None = None, removed: int | None = None) -> Change:
    """Return a change of which the wire has only the file's name, or the name and the counts."""
    return Change(path, kind, added=added, removed=removed)


_PATCH_FILES: dict[str, ChangeKind] = {
    "*** Add File: ": "add",
    "*** Update File: ": "update",
    "*** Delete File: ": "delete",
}
_PATCH_MOVE = "*** Move to: "


def from_patch(patch: str) -> list[Change]:
    """Return the changes of a patch in the format of Codex's `apply_patch`; an empty list if it is not one.

    The format has no line numbers. It only names a deleted file, so the counts of that file are unknown.
    """
    files: list[_PatchedFile] = []
    for line in patch.split("\n"):
        start = next((start for start in _PATCH_FILES if line.startswith(start)), None)
        if start is not None:
            files.append(_PatchedFile(line[len(start) :].strip(), _PATCH_FILES[start]))
        elif line.startswith("*** End Patch"):
            break
        elif files and line.startswith(_PATCH_MOVE):
            files[-1].to = line[len(_PATCH_MOVE) :].strip()
        elif files:
            files[-1].add_line(line)
    return [file.change() for file in files]


class _PatchedFile:
    """One file of a patch, while its lines are read."""

    def __init__(self, path: str, kind: ChangeKind) -> None:
        self.path, self.kind = path, kind
        self.to: str | None = None
        self.lines: list[str] = []

    def add_line(self, line: str) -> None:
        if line.startswith("@@"):
            self.lines.append(UNKNOWN_POSITION)
        elif line[:1] in (" ", "+", "-") or (not line and self.lines):
            if not self.lines and self.kind == "update":
                self.lines.append(UNKNOWN_POSITION)
            self.lines.append((line or " ") + "\n")

    def change(self) -> Change:
        if self.kind == "delete":
            return Change(self.path, "delete")
        if self.kind == "add" and self.lines:
            return _change(self.path, "add", [_header(1, 0, 1, len(self.lines)), *self.lines], None)
        return _change(self.path, self.kind if self.to is None else "move", self.lines, self.to)


def join(changes: Iterable[Change]) -> list[Change]:
    """Join changes by file, as `JoinedChanges` does."""
    joined = JoinedChanges()
    for change in changes:
        joined.add(change)
    return joined.changes()


class JoinedChanges:
    """Changes joined by file, in the order in which the files were first changed.

    Counts are summed; a sum is unknown if one of its counts is. The hunks are in the order in which they were made, so
    the line numbers of each are those of the file at that time. A file that was moved is still the same one. A file
    that was added and deleted again is left out.
    """

    def __init__(self) -> None:
        self._files: dict[int, _JoinedFile] = {}  # by a number of their own, in their order
        self._names: dict[str, int] = {}  # the number of the file that has this name now, or had it when it was deleted
        self._made = 0

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: str) -> bool:
        """Return whether a file that has this name now was changed."""
        return path in self._names

    def add(self, change: Change) -> None:
        """Add the next change."""
        number = self._names.pop(change.path, None)
        if number is None:
            number = self._made
            self._made += 1
            self._files[number] = _JoinedFile(change)
        elif self._files[number].change.kind == "add" and change.kind == "delete":
            del self._files[number]
            return
        else:
            self._files[number].add(change)
        self._names[change.to or change.path] = number

    def changes(self) -> list[Change]:
        """Return one change for each file."""
        return [file.joined() for file in self._files.values()]


class _JoinedFile:
    """Changes of one file. Their diffs are joined at the end: however many there are, each is copied once."""

    def __init__(self, first: Change) -> None:
        self.change = first  # all of them as one, with the first diff
        self._has_lines = _has_lines(first)
        self._diffs = [first.diff or ""]
        self._size = len(first.diff or "")
        self._is_one = True

    def add(self, change: Change) -> None:
        known, name = self.change, change.to or change.path
        path, kind = known.path, change.kind
        if known.kind == "add":
            path, kind = name, "add"
        elif kind == "delete":
            name = path
        else:
            kind = "update" if name == path else "move"
        if not known.truncated and self._size <= MAX_DIFF_BYTES:  # else there would be a gap before the diff
            self._diffs += _lines(change.diff or "")
            self._size += len(change.diff or "")
        self._has_lines = self._has_lines and _has_lines(change)
        self._is_one = False
        self.change = Change(
            path,
            kind,
            to=None if name == path else name,
            added=_sum(known.added, change.added),
            removed=_sum(known.removed, change.removed),
            truncated=known.truncated or change.truncated,
        )

    def joined(self) -> Change:
        if self._is_one:
            return self.change
        diff, is_cut = _bounded([line for part in self._diffs for line in _lines(part)])
        diff = diff if self._has_lines else ""
        return msgspec.structs.replace(self.change, diff=diff or None, truncated=self.change.truncated or is_cut)


def _has_lines(change: Change) -> bool:
    """Return whether the lines of a change are known; one that changes no line has none."""
    return change.diff is not None or change.added == change.removed == 0


def shorten(changes: Sequence[Change], max_chars: int, max_lines: int, max_files: int) -> tuple[list[Change], int]:
    """Return the first changes, with their diffs cut to these totals, and the number of changes that were left out.

    The counts of a change whose diff is cut stay those of the whole change.
    """
    shortened: list[Change] = []
    for change in changes[:max_files]:
        if change.diff is not None:
            lines = _lines(change.diff)
            diff = "".join(lines[:max_lines])[:max_chars]
            max_chars, max_lines = max_chars - len(diff), max(0, max_lines - len(lines))
            if len(diff) < sum(map(len, lines)):
                change = msgspec.structs.replace(change, diff=diff or None, truncated=True)
        shortened.append(change)
    return shortened, max(0, len(changes) - max_files)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _change(path: str, kind: ChangeKind, lines: Sequence[str], to: str | None) -> Change:
    added, removed = _count(lines)
    kept, is_cut = _bounded(lines)
    return Change(path, kind, to=to, added=added, removed=removed, diff=kept or None, truncated=is_cut)


def _count(lines: Iterable[str]) -> tuple[int, int]:
    added = removed = 0
    for line in lines:
        added += line.startswith("+")
        removed += line.startswith("-")
    return added, removed


def _bounded(lines: Sequence[str]) -> tuple[str, bool]:
    """Return the text of the lines that fit within the limits, and whether some do not."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace"))
        if size > MAX_DIFF_BYTES or number >= MAX_DIFF_LINES:
            return "".join(lines[:number]), True
    return "".join(lines), False


def _lines(text: str) -> list[str]:
    """Split at line feeds. Each line keeps its line feed; the last one gets one if it has none."""
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if text else []


def _compare(old: str, new: str, *, positioned: bool) -> list[str]:
    """Return the hunks between two texts, with line numbers if `positioned`."""
    import difflib  # only an edit whose agent sends no diff needs it

    before, after = _lines(old), _lines(new)
    if positioned:  # a last line without a line feed differs from the same line with one
        _mark_missing_end(old, before)
        _mark_missing_end(new, after)
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    middle = before[start : len(before) - end], after[start : len(after) - end]
    codes: list[tuple[str, int, int, int, int]] = []
    if not (middle[0] and middle[1]) or len(middle[0]) + len(middle[1]) > MAX_COMPARED_LINES:
        codes = [("replace", 0, len(middle[0]), 0, len(middle[1]))] if middle[0] or middle[1] else []
    else:
        codes = list(difflib.SequenceMatcher(None, *middle).get_opcodes())
    shifted = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in codes]
    ends = len(before) - end, len(after) - end
    matcher = difflib.SequenceMatcher[str](None)
    matcher.opcodes = [  # type: ignore[attr-defined]  # get_grouped_opcodes uses them if they are set
        *([("equal", 0, start, 0, start)] if start else []),
        *shifted,
        *([("equal", ends[0], len(before), ends[1], len(after))] if end else []),
    ]
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES) if any(tag != "equal" for tag, *_ in shifted) else ():
        a, b, c, d = group[0][1], group[-1][2], group[0][3], group[-1][4]
        lines.append(_header(a + 1, b - a, c + 1, d - c) if positioned else UNKNOWN_POSITION)
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += _prefixed(" ", before[a:b])
            else:
                lines += _prefixed("-", before[a:b])
                lines += _prefixed("+", after[c:d])
    return lines


def _mark_missing_end(text: str, lines: list[str]) -> None:
    if text and not text.endswith("\n"):
        lines[-1] += NO_NEWLINE


def _signed(lines: Iterable[str], *, headers: bool = False) -> list[str]:
    """Return lines of hunks, each with a known sign. A line without one is context."""
    known = (*_SIGNS, "@@") if headers else _SIGNS
    return [line if line.startswith(known) else f" {line}" for line in lines]


def _prefixed(sign: str, lines: Iterable[str]) -> list[str]:
    """Return the lines, each after `sign`. The mark of a missing line end becomes a separate line."""
    found: list[str] = []
    for line in lines:
        text, newline, mark = line.partition("\n")
        found.append(sign + text + newline)
        if mark:
            found.append(mark)
    return found


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of lines at the start that are equal in both."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _header(old_start: int, old_lines: int, new_start: int, new_lines: int) -> str:
    """Return the header of a hunk. An empty range has the number of the line before it, as in `diff -u`."""
    old = old_start if old_lines else max(old_start - 1, 0)
    new = new_start if new_lines else max(new_start - 1, 0)
    return f"@@ -{_range(old, old_lines)} +{_range(new, new_lines)} @@\n"


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"
