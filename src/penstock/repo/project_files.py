"""Files of a tree that control agents: kept as they were before any agent worked, and restored.

Patterns define these files; see `ProjectFiles` in `penstock.agents`. They are found by their names at every level, even
if git ignores them, and by following their links. Names are compared as any file system might compare them: without
regard to case, or to characters that some file systems leave out. The files are kept byte by byte outside of the tree
and of git, because ignored ones may hold secrets; so attributes and filters of a repository do not affect them.

No process of an agent or a check may be alive meanwhile. When files are restored, no link is followed: anything in
place of a file or of a directory above it, such as a link or a pipe, is removed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from penstock.config.data import write_private
from penstock.config.regular_files import open_regular
from penstock.repo.place import make_usable
from penstock.repo.tree import remove_entry

Kind = Literal["starts", "instructs"]
"""Effect of a file on an agent: it starts or redirects something, or it is text."""

What = Literal["added", "changed", "removed"]
"""What an agent had done to a file that was restored."""

INDEX = "index.json"
"""File that lists the kept files of a folder; it is written last."""

MAX_LINKS = 40
"""Maximum number of links that are followed in a chain, as in Linux."""

MAX_DEPTH = 200
"""Maximum depth of directories that are searched: no agent looks for its settings deeper."""

MAX_SEPARATE = 5
"""Maximum number of new files of one directory that are named one by one. Naming more, such as the files of a plugin,
has no use."""

_LEFT_OUT = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF, 0xAD], None)
"""Characters that a macOS file system ignores when it compares names."""


class PutBack(msgspec.Struct, frozen=True):
    """A restored file, or a new directory that was removed with its contents; then `path` ends with a slash."""

    path: str
    what: What


class ProjectFile(NamedTuple):
    """Entry of a tree that is one of these files. It is not a directory."""

    path: str
    kind: Kind
    unit: str
    """Path of the entry that a pattern matches: the file itself, or a directory above it."""
    status: os.stat_result


class Meant(NamedTuple):
    """Match of an entry with the patterns."""

    kind: Kind
    start: int
    """Number of the part of the path, from 0, with which the pattern begins."""

    def counts_in(self, unit: Meant | None) -> bool:
        """Return whether the match counts for an entry in a directory that patterns match.

        A text in a directory of settings counts only if its pattern names that directory: the effect of another file
        named `CLAUDE.md` there is unknown.
        """
        return unit is None or (self.kind != unit.kind and (self.kind == "starts" or self.start == unit.start))


class KeptFile(msgspec.Struct, frozen=True):
    """One kept file."""

    kind: Kind
    mode: int
    content: str
    """Hash of the content, which is the name of the copy; for a link, its target."""
    is_tracked: bool = True

    @property
    def is_link(self) -> bool:
        """Return whether it is a link."""
        return stat.S_ISLNK(self.mode)


class KeptFiles(msgspec.Struct, frozen=True):
    """Files of a tree at an earlier time. Paths are quoted, because they may not be valid text."""

    files: dict[str, KeptFile] = {}
    targets: dict[str, Kind] = {}
    """Paths to which these files lead as links; they count as such files too."""
    accepts: tuple[str, ...] = ()
    """Paths and patterns that the user accepted when the files were kept."""


class ProjectRules:
    """Patterns of these files, and further paths that count.

    Args:
        starts: patterns of files that start or redirect something.
        instructs: patterns of texts.
        targets: paths from the top, with their kinds.
    """

    def __init__(self, starts: Collection[str], instructs: Collection[str], targets: dict[str, Kind]) -> None:
        self.targets: dict[tuple[str, ...], Kind] = {
            tuple(map(folded, path.split("/"))): kind for path, kind in targets.items()
        }
        self._plain: dict[tuple[str, ...], Kind] = {}
        self._shapes: dict[tuple[str, ...], Kind] = {}
        self._beginnings: dict[tuple[str, ...], Kind] = {}
        kinds: tuple[tuple[Collection[str], Kind], ...] = ((instructs, "instructs"), (starts, "starts"))
        for patterns, kind in kinds:  # a file of both kinds counts as one that starts something
            for pattern in patterns:
                parts = tuple(folded(part) for part in pattern.split("/"))
                has_signs = any(sign in pattern for sign in "*?[")
                (self._shapes if has_signs else self._plain)[parts] = kind
                for end in range(1, len(parts)):
                    self._beginnings[parts[:end]] = kind
        self._above = {parts[:end]: kind for parts, kind in self.targets.items() for end in range(1, len(parts))}
        self._longest = max((len(parts) for parts in (*self._plain, *self._shapes)), default=0)

    def meant(self, parts: tuple[str, ...]) -> Meant | None:
        """Return the match of the entry whose path has these folded parts; None if no pattern matches it directly."""
        target = self.targets.get(parts)
        if target is not None:
            return Meant(target, len(parts))
        for length in range(min(self._longest, len(parts)), 0, -1):
            end = parts[-length:]
            kind = self._plain.get(end) or self._kind_by_shape(end)
            if kind is not None:
                return Meant(kind, len(parts) - length)
        return None

    def meant_by_link(self, parts: tuple[str, ...]) -> Meant | None:
        """Return the match of a link in place of a directory: it leads to files whose patterns begin with its path."""
        for start in range(len(parts)):
            kind = self._beginnings.get(parts[start:]) or (None if start else self._above.get(parts))
            if kind is not None:
                return Meant(kind, start)
        return None

    def _kind_by_shape(self, end: tuple[str, ...]) -> Kind | None:
        for shape, kind in self._shapes.items():
            if len(shape) == len(end) and all(fnmatchcase(name, part) for name, part in zip(end, shape, strict=True)):
                return kind
        return None


Chooses = Callable[[str, Kind], bool]
"""Function that selects files by path and kind."""


def folded(name: str) -> str:
    """Return a name as compared by a file system that ignores case, composition and invisible characters."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", name.translate(_LEFT_OUT)).casefold()


def search(top: Path, rules: ProjectRules) -> Iterator[ProjectFile]:
    """Yield the files of a tree that match the rules, in the order of their names."""
    yield from _search(str(top), "", (), rules, None, "", MAX_DEPTH)


def _search(
    top: str, above: str, parts: tuple[str, ...], rules: ProjectRules, meant: Meant | None, unit: str, depth: int
) -> Iterator[ProjectFile]:
    try:
        entries = sorted(_entries(os.path.join(top, above)), key=lambda entry: entry.name)
    except OSError:
        return  # its path is too long, or it belongs to somebody else: no agent of this user reads it
    for entry in entries:
        name = folded(entry.name)
        if name == ".git" or (not above and name.startswith(".git.penstock-")):
            continue
        path, names = f"{above}{entry.name}", (*parts, name)
        own = rules.meant(names)
        if own is None and meant is None and entry.is_symlink():
            own = rules.meant_by_link(names)
        its, its_unit = (own, path) if own is not None and own.counts_in(meant) else (meant, unit)
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from _search(top, f"{path}/", names, rules, its, its_unit, depth - 1)
        elif its is not None:
            yield ProjectFile(path, its.kind, its_unit, entry.stat(follow_symlinks=False))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except PermissionError:
        make_usable(folder)
        return list(os.scandir(folder))


# --- keeping -----------------------------------------------------------------------------------------


def keep(
    top: Path, patterns: tuple[Sequence[str], Sequence[str]], folder: Path, tracked: Collection[str] | None = None
) -> KeptFiles:
    """Copy the files of a tree into a folder, and return the list of them, which is not written yet.

    Args:
        top: the tree.
        patterns: patterns of files that start something, and patterns of texts.
        folder: folder for the copies.
        tracked: paths that git tracks; None if all count as tracked.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    targets: dict[str, Kind] = {}
    while True:
        rules = ProjectRules(*patterns, targets)
        found = list(search(top, rules))
        links = [one for one in found if stat.S_ISLNK(one.status.st_mode)]
        more = [(path, one.kind) for one in links for path in _way(top, one.path)]
        more = [(path, kind) for path, kind in more if targets.get(path) not in ("starts", kind)]
        if not more:
            break
        targets |= dict(sorted(more, key=lambda it: it[1]))  # `starts` is last, since it has precedence
    return KeptFiles(
        {
            _quoted(one.path): _keep(top, one, folder, tracked is None or one.path in tracked)
            for one in found
            if _can_be_kept(one)
        },
        {_quoted(path): kind for path, kind in targets.items()},
    )


def keep_found(top: Path, rules: ProjectRules, folder: Path, chooses: Chooses) -> KeptFiles:
    """Copy the selected files of a tree into a folder, and return the list of them, which is not written yet."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = [one for one in search(top, rules) if chooses(one.path, one.kind) and _can_be_kept(one)]
    return KeptFiles({_quoted(one.path): _keep(top, one, folder, is_tracked=True) for one in found})


def _can_be_kept(found: ProjectFile) -> bool:
    return stat.S_ISREG(found.status.st_mode) or stat.S_ISLNK(found.status.st_mode)


def write_list(folder: Path, kept: KeptFiles) -> None:
    """Write the list of the files in a folder, whole or not at all."""
    write_private(folder / INDEX, msgspec.json.encode(kept))


def read_list(folder: Path) -> KeptFiles | None:
    """Return the list of the files in a folder; None if there is none."""
    try:
        return msgspec.json.decode((folder / INDEX).read_bytes(), type=KeptFiles)
    except FileNotFoundError:
        return None


def rules_of(patterns: tuple[Sequence[str], Sequence[str]], kept: KeptFiles) -> ProjectRules:
    """Return the rules made of patterns and of the targets of kept links."""
    return ProjectRules(*patterns, {unquoted(path): kind for path, kind in kept.targets.items()})


def _keep(top: Path, found: ProjectFile, folder: Path, is_tracked: bool) -> KeptFile:
    mode = found.status.st_mode
    if stat.S_ISLNK(mode):
        return KeptFile(found.kind, mode, _quoted(os.readlink(top / found.path)), is_tracked)
    content = _content(top / found.path)
    name = hashlib.sha256(content).hexdigest()
    if not (folder / name).exists():
        write_private(folder / name, content)
    return KeptFile(found.kind, mode, name, is_tracked)


def _way(top: Path, path: str) -> Iterator[str]:
    """Yield the paths in a tree that a link passes on its way, including links, and the path of its final target."""
    todo = [*path.split("/")]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            if not done:
                return  # out of the tree
            done.pop()
            continue
        if part in ("", "."):
            continue
        place = "/".join((*done, part))
        try:
            target = os.readlink(top / place)
        except OSError:
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS or os.path.isabs(target):
            return
        if place != path:
            yield place
        todo = [*target.split("/"), *todo]
    found = "/".join(done)
    if found and not path.startswith(f"{found}/"):  # a link to a directory that contains it would include all files
        yield found


# --- putting back ------------------------------------------------------------------------------------


def put_back(top: Path, rules: ProjectRules, kept: KeptFiles, folder: Path, chooses: Chooses) -> list[PutBack]:
    """Make files of a tree equal to the kept ones, and return which of them differed.

    Args:
        top: the tree.
        rules: rules of these files.
        kept: the list of kept files.
        folder: folder with their copies.
        chooses: selects the files to restore; others stay unchanged.

    Raises:
        OSError: a file could not be written or removed.
    """
    wanted = {unquoted(path): one for path, one in kept.files.items()}
    found = {one.path: one for one in search(top, rules) if chooses(one.path, one.kind)}
    new = [one for path, one in found.items() if path not in wanted]
    for one in new:
        _remove(top, one.path)
    changes = _together(top, new)
    for path, file in wanted.items():
        if chooses(path, file.kind):
            is_there = path in found
            if not is_there or not _is_equal(top / path, found[path].status, file):
                _write(top, path, file, folder)
                changes.append(PutBack(path, "changed" if is_there else "removed"))
    return sorted(changes, key=lambda change: change.path)


def _together(top: Path, new: Sequence[ProjectFile]) -> list[PutBack]:
    """Return the new files that were removed, as one directory if there were many and the directory is gone too."""
    units: dict[str, list[str]] = {}
    for one in new:
        units.setdefault(one.unit, []).append(one.path)
    for unit, paths in units.items():
        if len(paths) > MAX_SEPARATE and not os.path.lexists(top / unit):
            units[unit] = [f"{unit}/"]
    return [PutBack(path, "added") for paths in units.values() for path in paths]


def _is_equal(path: Path, status: os.stat_result, file: KeptFile) -> bool:
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(file.mode):
        return False
    if file.is_link:
        return _quoted(os.readlink(path)) == file.content
    if (status.st_mode ^ file.mode) & 0o7700 or not stat.S_ISREG(status.st_mode):
        return False
    return hashlib.sha256(_content(path)).hexdigest() == file.content


def _write(top: Path, path: str, file: KeptFile, folder: Path) -> None:
    _clear_way(top, path)
    place = top / path
    remove_entry(place)
    if file.is_link:
        os.symlink(unquoted(file.content), place)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(place, flags, 0o600), "wb") as new:
        new.write((folder / file.content).read_bytes())
        os.fchmod(new.fileno(), stat.S_IMODE(file.mode))


def _clear_way(top: Path, path: str) -> None:
    """Make the directories above a path, replacing anything else in their place."""
    place = str(top)
    for part in path.split("/")[:-1]:
        place = os.path.join(place, part)
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            os.mkdir(place)
            continue
        if not stat.S_ISDIR(mode):
            os.unlink(place)
            os.mkdir(place)
        make_usable(place)


def _remove(top: Path, path: str) -> None:
    """Remove a file, and the directories above it that are then empty."""
    above = os.path.dirname(path)
    if above:
        make_usable(os.path.join(top, above))
    os.unlink(top / path)
    while above:
        try:
            os.rmdir(top / above)
        except OSError:
            return  # not empty
        above = os.path.dirname(above)


def _content(path: Path) -> bytes:
    """Return the content of a regular file; empty if its owner may not read it, because then no agent can."""
    try:
        with open(open_regular(path), "rb") as file:
            return file.read()
    except PermissionError:
        return b""


def _quoted(path: str) -> str:
    return quote_from_bytes(os.fsencode(path), safe="/ ")


def unquoted(path: str) -> str:
    """Return a path as it was before it was quoted for a list."""
    return os.fsdecode(unquote_to_bytes(path))
