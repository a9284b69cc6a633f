"""Files of a commit that are restored in a tree, byte by byte, whatever an agent left there.

The bytes are the same as in the user's checkout: git writes the files into an empty directory, by the attributes of the
commit and the settings of the user. Nothing in the tree has an influence: not its `.gitattributes` and `.gitignore`,
and not its links, pipes and nested repositories. Each directory is opened from its parent and never through a link, and
a file is replaced as a whole.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from penstock.config.regular_files import open_regular
from penstock.repo.git import LONG_SECONDS, Git
from penstock.repo.path_patterns import PathPatterns, Places
from penstock.repo.place import TreeAbandoned, changing
from penstock.repo.tree import ASIDE, Tree

GIT_DIRECTORY = ".git"

SUBMODULE = "160000"
"""Mode of a submodule's entry; its files belong to another repository."""

CACHE = "__pycache__"
"""Directory in which Python keeps compiled modules."""

EXTENSIONS = (".so", ".pyd")
"""Suffixes of extension modules, which Python imports in preference to a source file of the same name."""

MAX_DEPTH = 200
"""Maximum depth of directories that are searched: no program looks for tests or settings deeper."""

CHUNK_BYTES = 1 << 20
"""Number of bytes that are compared or copied at once."""

SHOWN_PERMISSIONS = 0o7700
"""Permission bits that are compared: those of the owner, and the special ones. The others depend on the umask."""

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class BaseFile(msgspec.Struct, frozen=True):
    """Entry of a commit."""

    path: str
    mode: str
    id: str


class BaseFiles:
    """Files of a commit that match patterns, and where such files are in a tree.

    Args:
        tree: the tree; no process may work in it meanwhile.
        commit: commit, or tree object of git, that has the files.
        patterns: patterns of `path_patterns`.
        without: paths that are left as they are in the tree, besides files that were copied into it.

    Raises:
        GitError: git cannot read the commit.
    """

    def __init__(self, tree: Tree, commit: str, patterns: Sequence[str], *, without: Sequence[str] = ()) -> None:
        self._tree = tree
        self._git = tree.git
        self._patterns = PathPatterns(patterns, ignores_case=_is_set(self._git, "core.ignoreCase", default=False))
        self._has_modes = _is_set(self._git, "core.fileMode", default=True)
        entries = _entries(self._git, commit) if self._patterns else []
        self._all = _with_directories(one.path for one in entries)
        self._submodules = frozenset(one.path for one in entries if one.mode == SUBMODULE)
        files = [one for one in entries if one.mode != SUBMODULE]
        self._files = {one.path: one for one in files if self._patterns.matches(one.path)}
        self._attributes = [one for one in files if one.path.rpartition("/")[2] == ".gitattributes"]
        self._kept = {*without, *tree.copied}

    @property
    def paths(self) -> list[str]:
        """Paths of the files, in their order."""
        return sorted(self._files)

    def put_back(self) -> list[str]:
        """Restore the files, remove new ones that match, even if they are ignored, and return the paths that differed.

        Files that Python would import in place of a source file are removed too: compiled ones, and packages with its
        name.

        Raises:
            GitError: git could not write the files of the commit.
            OSError: the disk is full.
            TreeAbandoned: the tree is gone, was replaced, or cannot be written.
        """
        if not self._patterns:
            return []
        with changing(self._tree.record.path):
            return self._put_all()

    def _put_all(self) -> list[str]:
        with self._opened() as root, tempfile.TemporaryDirectory(prefix="base-", dir=self._tree.home) as scratch:
            written = self._written(Path(scratch))
            changed = [path for path in self._found(root) if path not in self._files and path not in self._kept]
            for path in changed:
                _remove(root, path)
            changed += [path for path in self._files if self._put(root, path, written / path)]
            for path in self._files:
                if path.endswith(".py"):
                    changed += self._without_substitutes(root, path)
        return sorted(changed)

    def stage(self) -> None:
        """Set the entries in the tree's index to those of the commit, independently of git attributes."""
        if not self._patterns:
            return
        listed = self._git.run("ls-files", "--stage", "-z").items
        staged = {path: fields.split()[:2] for fields, _, path in (item.partition("\t") for item in listed)}
        lines = [
            f"{one.mode} {one.id}\t{one.path}"
            for one in self._files.values()
            if staged.get(one.path) != [one.mode, one.id]
        ]
        new = [path for path in staged if path not in self._files and path not in self._kept]
        none = "0" * len(self._tree.record.base)
        lines += [f"0 {none}\t{path}" for path in new if self._patterns.matches(path) and self._is_own(path)]
        _stage(self._git, lines)

    def _is_own(self, path: str) -> bool:
        return not any(path == one or path.startswith(f"{one}/") for one in self._submodules)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the directory of the tree, which must be the one that was made."""
        record = self._tree.record
        try:
            root = os.open(self._tree.path, _OPEN_DIRECTORY)
        except OSError as error:
            raise TreeAbandoned(record.path, "is gone, or was replaced") from error
        try:
            place = os.fstat(root)
            if (place.st_dev, place.st_ino) != (record.device, record.inode):
                raise TreeAbandoned(record.path, "was replaced")
            _allow(root, place)
            yield root
        finally:
            os.close(root)

    def _written(self, scratch: Path) -> Path:
        """Return a directory with the files as the user's checkout would have them."""
        (scratch / "empty").mkdir()
        (scratch / "files").mkdir()
        # The work tree is empty, so git reads attributes from the index, which has those of the commit.
        git = msgspec.structs.replace(self._git, work_tree=scratch / "empty", index=scratch / "index")
        entries = {one.path: one for one in (*self._attributes, *self._files.values())}
        _stage(git, [f"{one.mode} {one.id}\t{one.path}" for one in entries.values()])
        listed = b"".join(os.fsencode(path) + b"\0" for path in self._files)
        prefix = f"--prefix={scratch / 'files'}/"
        git.run("checkout-index", "--quiet", prefix, "-z", "--stdin", data=listed, seconds=LONG_SECONDS)
        return scratch / "files"

    def _put(self, root: int, path: str, source: Path) -> bool:
        """Make a path in the tree equal to a file or link; return whether it differed."""
        permissions = SHOWN_PERMISSIONS if self._has_modes else 0
        with _folder_of(root, path, makes=True) as (folder, name):
            status = _status(folder, name)
            if status is not None and _is_equal(folder, name, status, source, permissions):
                return False
            if status is not None and stat.S_ISDIR(status.st_mode):
                _put_aside(root, folder, name)
            new = f"{ASIDE}{uuid.uuid4().hex}"  # at the top, where leftovers are removed before the next step
            if source.is_symlink():
                os.symlink(os.readlink(source), new, dir_fd=root)
            else:
                _copy(source, root, new)
            os.rename(new, name, src_dir_fd=root, dst_dir_fd=folder)
            return True

    def _without_substitutes(self, root: int, path: str) -> list[str]:
        """Remove what Python would import in place of a source file; return the new packages and extension modules."""
        above, slash, name = path.rpartition("/")
        module, found = name.removesuffix(".py"), []
        with _folder_of(root, path, makes=True) as (folder, _):
            _remove_compiled(root, folder, module)
            for entry in os.listdir(folder):
                is_extension = entry.startswith(f"{module}.") and entry.endswith(EXTENSIONS)
                is_first = is_extension or (entry == module and _may_be_package(folder, entry))
                if is_first and f"{above}{slash}{entry}" not in self._all:
                    found.append(f"{above}{slash}{entry}")
                    _remove_entry(root, folder, entry)
        return found

    def _found(self, root: int) -> list[str]:
        """Return the paths in the tree that match: files, links and everything else that is not a directory."""
        return list(self._walk(root, "", self._patterns.start, MAX_DEPTH))

    def _walk(self, folder: int, above: str, places: Places, depth: int) -> Iterator[str]:
        for name in sorted(os.listdir(folder)):
            path = f"{above}{name}"
            below = self._patterns.step(places, name)
            if not below or path == GIT_DIRECTORY or path.startswith(ASIDE) or path in self._submodules:
                continue
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                if self._patterns.is_match(below):
                    yield path
            elif depth:
                with _directory(folder, name) as inner:
                    yield from self._walk(inner, f"{path}/", below, depth - 1)


def _entries(git: Git, commit: str) -> list[BaseFile]:
    found = []
    for item in git.run("ls-tree", "-r", "-z", "--full-tree", commit, seconds=LONG_SECONDS).items:
        fields, _, path = item.partition("\t")
        mode, _, id = fields.split()
        found.append(BaseFile(path, mode, id))
    return found


def _stage(git: Git, lines: Sequence[str]) -> None:
    if lines:
        data = b"".join(os.fsencode(line) + b"\0" for line in lines)
        git.run("update-index", "-z", "--index-info", data=data)


@contextmanager
def _directory(above: int, name: str) -> Iterator[int]:
    """Open a directory in another one, and give its owner all permissions."""
    try:
        inner = os.open(name, _OPEN_DIRECTORY, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)  # it is a directory, as the caller has seen
        inner = os.open(name, _OPEN_DIRECTORY, dir_fd=above)
    try:
        _allow(inner, os.fstat(inner))
        yield inner
    finally:
        os.close(inner)


def _allow(folder: int, status: os.stat_result) -> None:
    if status.st_mode & 0o700 != 0o700:
        os.fchmod(folder, stat.S_IMODE(status.st_mode) | 0o700)


@contextmanager
def _folder_of(root: int, path: str, *, makes: bool) -> Iterator[tuple[int, str]]:
    """Open the directory of a path; yield it with the name of the entry.

    With `makes`, missing directories are made, and anything else in their place is removed.

    Raises:
        FileNotFoundError: a directory is missing, or something else is in its place.
    """
    *above, name = path.split("/")
    folders = [os.dup(root)]
    try:
        for part in above:
            folder = folders[-1]
            status = _status(folder, part)
            if status is None or not stat.S_ISDIR(status.st_mode):
                if not makes:
                    raise FileNotFoundError(path)
                if status is not None:
                    os.unlink(part, dir_fd=folder)
                os.mkdir(part, dir_fd=folder)
            elif stat.S_IMODE(status.st_mode) & 0o700 != 0o700:
                os.chmod(part, stat.S_IMODE(status.st_mode) | 0o700, dir_fd=folder)
            folders.append(os.open(part, _OPEN_DIRECTORY, dir_fd=folder))
        yield folders[-1], name
    finally:
        for folder in folders:
            os.close(folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_equal(folder: int, name: str, status: os.stat_result, source: Path, permissions: int) -> bool:
    wanted = os.lstat(source)
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(wanted.st_mode):
        return False
    if stat.S_ISLNK(wanted.st_mode):
        return os.readlink(name, dir_fd=folder) == os.readlink(source)
    if (status.st_mode ^ wanted.st_mode) & permissions or status.st_size != wanted.st_size:
        return False
    with open(open_regular(name, within=folder), "rb") as one, open(source, "rb") as other:
        while True:
            chunk = one.read(CHUNK_BYTES)
            if chunk != other.read(CHUNK_BYTES):
                return False
            if not chunk:
                return True


def _copy(source: Path, root: int, name: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(source, "rb") as old, open(os.open(name, flags, 0o600, dir_fd=root), "wb") as new:
        shutil.copyfileobj(old, new, CHUNK_BYTES)
        os.fchmod(new.fileno(), stat.S_IMODE(os.fstat(old.fileno()).st_mode))


def _remove(root: int, path: str) -> None:
    """Remove a file or link, and the directories above it that are then empty."""
    try:
        with _folder_of(root, path, makes=False) as (folder, name):
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return  # removed meanwhile with a directory above it
    above = path.rpartition("/")[0]
    while above:
        try:
            with _folder_of(root, above, makes=False) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        except OSError:
            return  # not empty
        above = above.rpartition("/")[0]


def _put_aside(root: int, folder: int, name: str) -> None:
    """Move a directory of any depth to a place where it is removed before the next step."""
    with _directory(folder, name):
        pass  # its owner can now write in it, which a move to another directory requires
    os.rename(name, f"{ASIDE}{uuid.uuid4().hex}", src_dir_fd=folder, dst_dir_fd=root)


def _remove_compiled(root: int, folder: int, module: str) -> None:
    """Remove the compiled forms of a source file, since they may be marked as never out of date."""
    status = _status(folder, CACHE)
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(CACHE, dir_fd=folder)
        return
    with _directory(folder, CACHE) as cache:
        for name in os.listdir(cache):
            if name.startswith(f"{module}.") and name.endswith(".pyc"):
                _remove_entry(root, cache, name)


def _may_be_package(folder: int, name: str) -> bool:
    """Return whether Python would import this as a package in preference to a source file; a link may lead to one."""
    status = _status(folder, name)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return status is not None and stat.S_ISLNK(status.st_mode)
    with _directory(folder, name) as inner:
        return any(entry.startswith("__init__.") for entry in os.listdir(inner))


def _remove_entry(root: int, folder: int, name: str) -> None:
    """Remove a file or link, and put a directory aside."""
    status = _status(folder, name)
    if status is not None and stat.S_ISDIR(status.st_mode):
        _put_aside(root, folder, name)
    elif status is not None:
        os.unlink(name, dir_fd=folder)


def _with_directories(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths and all directories above them."""
    found = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return frozenset(found)


def _is_set(git: Git, key: str, *, default: bool) -> bool:
    done = git.run("config", "--type=bool", "--get", key, accepts=(0, 1))
    return done.text == "true" if done.status == 0 else default
