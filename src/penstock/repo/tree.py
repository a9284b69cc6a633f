"""Tree: a directory beside the repository in which agents work. It is a shared clone with two git directories.

::

    REPO/                 the user's checkout
    REPO.NAME/            the tree
      .git/               for the agent: copies of branches and tags, no remotes; made anew before each round
    HOME/                 in the data directory
      tree.json           the record of the tree
      git/  index         Penstock's own git directory, over the same files; the only one that Penstock reads

An agent may destroy its git directory or plant programs in it. Both git directories read the user's objects; only
Penstock's own writes there.

An agent may also replace its tree, or entries in it, by links to the user's files. So `path` and `git` check before
each use that the tree is the one that was made, and put aside what would stop git. No other code may use its path.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from penstock.config.data import write_private
from penstock.errors import UsageError
from penstock.repo.git import LONG_SECONDS, Git, GitError
from penstock.repo.place import TreeAbandoned, changing, identity_of, move_out, obstacles, problem_of
from penstock.repo.refs import set_ref
from penstock.repo.repository import COPIED_FILES, Repository, config_text

RECORD = "tree.json"

LOCK = "lock"
"""File of a home that its owner keeps locked while it works in the tree."""

COPIED = "copied"
"""File of a home with the names of the ignored files that were copied into the tree, each ended by a zero byte."""

INCLUDE_FILE = ".worktreeinclude"
"""File of a repository that names, with the patterns of a .gitignore, the ignored files that a tree needs."""

ASIDE = ".git.penstock-"
"""Prefix of git directories in the tree that are being made or removed."""

ABANDONED = "abandoned"
"""Prefix for records of abandoned trees, in the home of the next tree."""

FULL_DISK = "No space left"
"""Text in git's messages about a full disk. The tree is not at fault then."""

Owner = Literal["run", "loop", "chat"]


class TreeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a tree, in its home. The directory is recognised by device and inode, which an agent cannot forge."""

    name: str
    """Name of the tree: its refs are below `refs/penstock/NAME`."""
    owner: Owner
    label: str
    """Name of the agent or candidate, for people."""
    path: str
    repository: str
    """Top directory of the user's checkout."""
    base: str
    """Commit with which the tree began."""
    branch: str
    """Name of the branch that gets its result."""
    made_at: int
    """Time in milliseconds since 1970."""
    device: int = 0
    inode: int = 0
    user: int = -1
    """Id of the user who owns the directory; -1 if unknown."""
    git_dirs: tuple[tuple[int, int], ...] = ()
    """Devices and inodes of the agent's git directory, the newest first. There are two while it is being replaced."""
    stores: tuple[str, ...] = ()
    """Object stores that the agent's git reads, for a tree of a chat."""
    left_at: int = 0
    """Time at which the chat of the tree was deleted, in milliseconds since 1970; 0 while there is one."""

    @property
    def problem(self) -> str:
        """Reason why the directory is not the one that was made, as a phrase; "" if it is."""
        return problem_of(self.path, (self.device, self.inode, self.user)) if self.inode else "was never made"


class Tree:
    """A tree and its home. Use `Tree.make` or `Tree.open`.

    Args:
        home: its home.
        record: its record.
        repository: the user's repository.
        only_looks: whether to put nothing aside; anything that would stop git is then an error.
    """

    def __init__(self, home: Path, record: TreeRecord, repository: Repository, *, only_looks: bool = False) -> None:
        self.home = home
        self.record: TreeRecord = record
        self.repository = repository
        self._only_looks = only_looks
        self._is_examined = False
        self._aside: list[str] = []
        self.git: Git = Git(
            Path(record.path), home / "git", home / "index", repository.objects, before=self.check, is_private=True
        )
        """Git of the tree, which reads and writes Penstock's own git directory only."""

    @property
    def path(self) -> Path:
        """Directory of the tree, after a check.

        Raises:
            TreeAbandoned: it is not the one that was made.
        """
        self.check()
        return Path(self.record.path)

    def check(self) -> None:
        """Check that the tree is the one made by Penstock, and put aside what an agent may not put there.

        Call it while no process of an agent or a check is alive.

        Raises:
            TreeAbandoned: it is another one, or something cannot be put aside.
        """
        path = self.record.path
        problem = self.record.problem
        if problem:
            raise TreeAbandoned(path, problem)
        found = identity_of(f"{path}/.git")
        if os.path.lexists(f"{path}/.git") and (found is None or found[:2] not in self.record.git_dirs):
            self._put_aside(f"{path}/.git", "is not the git directory that Penstock made")
        if not self._is_examined:
            for place, reason in obstacles(path):
                self._put_aside(place, reason)
            self._is_examined = True

    def hand_over(self) -> Path:
        """Return the directory for a process that may change anything in it. The next use checks it again."""
        path = self.path
        self._is_examined = False
        return path

    def taken_aside(self) -> list[str]:
        """Return a sentence, with reason and place, for each file put aside since the last call."""
        found, self._aside = self._aside, []
        return found

    def _put_aside(self, path: str, reason: str) -> None:
        name = os.path.relpath(path, self.record.path)
        if self._only_looks:
            raise TreeAbandoned(self.record.path, f"has a {name} that {reason}")
        try:
            place = move_out(path, self.home.parent.with_name("aside") / self.record.name, Path(self.record.path))
        except OSError as error:
            what = f"has a {name} that {reason}, and cannot be moved: {error.strerror}"
            raise TreeAbandoned(self.record.path, what) from error
        self._aside.append(f"{name} {reason}; it is in {place}")

    @classmethod
    def make(cls, home: Path, record: TreeRecord, repository: Repository) -> Tree:
        """Make the tree with the files of its base. An unfinished tree of this home is removed first.

        Raises:
            UsageError: the directory exists and is not a tree of this home.
            GitError: git could not make it.
        """
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        begun = read_record(home)
        if begun is not None:
            _remove_begun(begun)
        for name in ("git", "index", "index.lock"):
            remove_entry(home / name)
        path = Path(record.path)
        write_record(home, record)  # so that a directory without files is recognised as Penstock's
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            (home / RECORD).unlink()
            raise UsageError(f"{path} exists already", help="remove it, or choose another name") from error
        place = path.lstat()
        record = msgspec.structs.replace(record, device=place.st_dev, inode=place.st_ino, user=place.st_uid)
        write_record(home, record)
        tree = cls(home, record, repository)
        tree._fill()
        return tree

    @classmethod
    def open(cls, home: Path, *, only_looks: bool = False) -> Tree:
        """Return the tree of a home.

        Raises:
            UsageError: there is none, or its repository is gone.
            TreeAbandoned: its directory is not the one that was made.
        """
        record = read_record(home)
        if record is None:
            raise UsageError(f"{home} has no record of a tree")
        if record.problem:
            raise TreeAbandoned(record.path, record.problem)
        return cls(home, record, Repository.at(Path(record.repository)), only_looks=only_looks)

    @property
    def refs(self) -> str:
        """Prefix of its refs in the user's repository."""
        return f"refs/penstock/{self.record.name}"

    @property
    def copied(self) -> frozenset[str]:
        """Paths of the ignored files that were copied into the tree; they are never staged."""
        try:
            listed = (self.home / COPIED).read_bytes()
        except FileNotFoundError:
            return frozenset()
        return frozenset(os.fsdecode(name) for name in listed.split(b"\0") if name)

    def lock(self) -> int:
        """Lock the tree until the file descriptor is closed or the process ends; return the descriptor.

        Raises:
            UsageError: another process works in it.
        """
        lock = os.open(self.home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            what = f"another process of Penstock works in {self.path}"
            raise UsageError(what, help="wait for its end, or stop it") from error
        return lock

    def remove_stale_lock(self) -> None:
        """Remove the lock of the private index that a crash has left. Call it with the lock of the tree."""
        (self.home / "index.lock").unlink(missing_ok=True)

    def copy_ignored(self, patterns: Sequence[str] = ()) -> list[str]:
        """Copy ignored files of the user's checkout into the tree, and return their paths.

        Args:
            patterns: patterns as in a .gitignore, in addition to those of `.worktreeinclude`.

        Raises:
            GitError: git could not list them.
            UsageError: one cannot be copied.
        """
        git, root = self.repository.git, self.repository.root
        chosen = [f"--exclude={pattern}" for pattern in patterns]
        if (root / INCLUDE_FILE).is_file():
            chosen.append(f"--exclude-from={root / INCLUDE_FILE}")
        if not chosen:
            return []
        named = git.run("ls-files", "--others", "--ignored", "-z", *chosen, seconds=LONG_SECONDS).out
        ignored = git.run("check-ignore", "-z", "--stdin", data=named, accepts=(0, 1)).items if named else []
        target = self.path
        for path in ignored:
            _copy(root / path, target / path)
        (self.home / COPIED).write_bytes(b"".join(os.fsencode(path) + b"\0" for path in ignored))
        return ignored

    def _fill(self) -> None:
        set_ref(
            self.repository, f"{self.refs}/base", self.record.base, self.repository.git.commit_of(f"{self.refs}/base")
        )
        own = self.home / "git"
        _make_git_dir(own, self.repository, self.record.branch)
        exclude = own / "info" / "exclude"
        exclude.write_text(exclude.read_text() + f"/{ASIDE}*\n")
        self.set_head(self.record.base)
        self.git.run("read-tree", "--reset", "-u", self.record.base, seconds=LONG_SECONDS)
        self.renew(self.record.base)

    def set_head(self, commit: str) -> None:
        """Set the commit with which hooks and `git diff --cached` compare the tree."""
        self.git.run("update-ref", "HEAD", commit)

    def renew(self, commit: str) -> None:
        """Replace the agent's git directory with a new one at this commit. Files of the tree stay as they are.

        Call it before each step that runs git in the tree: agents and checks.

        Raises:
            GitError: git could not make it.
            TreeAbandoned: it is not the tree that was made, or its files cannot be changed.
        """
        with changing(self.record.path):
            self._renew(commit)

    def _renew(self, commit: str) -> None:
        top = self.path
        self._remove_aside()
        new, old = top / f"{ASIDE}new", top / f"{ASIDE}old"
        new.mkdir()
        place = new.lstat()
        # Written first, so that after a crash it is known which directories are Penstock's and may be removed.
        self._record_git_dirs((place.st_dev, place.st_ino), *self.record.git_dirs[:1])
        _make_git_dir(new, self.repository, self.record.branch)
        alternates = new / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{self.repository.objects}\n")
        listed = self.repository.git.text(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"
        )
        (new / "packed-refs").write_text(listed + "\n" if listed else "")
        shutil.copyfile(self.home / "index", new / "index")
        git = Git(top, new)
        git.run("update-ref", "HEAD", commit)
        git.run("read-tree", "--reset", commit)  # the copied index knows which files are unchanged
        _replace(top / ".git", new, old)
        self._remove_aside()
        self._record_git_dirs(*self.record.git_dirs[:1])

    def _record_git_dirs(self, *places: tuple[int, int]) -> None:
        self.record = msgspec.structs.replace(self.record, git_dirs=places)
        write_record(self.home, self.record)

    def _remove_aside(self) -> None:
        """Remove Penstock's git directories left by a crash or replaced; put others aside."""
        for entry in os.scandir(self.record.path):
            if entry.name.startswith(ASIDE):
                found = identity_of(entry.path)
                if found is not None and found[:2] in self.record.git_dirs:
                    remove_directory(Path(entry.path))
                else:
                    self._put_aside(entry.path, "was in the way")

    def restore(self, commit: str) -> None:
        """Restore all files from a commit; files that git ignores stay.

        Raises:
            TreeAbandoned: they cannot be restored, for instance because files cannot be removed.
            GitError: the disk is full, or the user's repository is gone.
        """
        try:
            self.git.run("read-tree", "--reset", "-u", commit, seconds=LONG_SECONDS)
            self.git.run("clean", "-ffdq", seconds=LONG_SECONDS)
        except GitError as error:
            if error.is_stopped or FULL_DISK in error.stderr or not self.repository.objects.is_dir():
                raise
            raise TreeAbandoned(self.record.path, f"cannot be put back: {error.what}") from error


def place_of(repository: Repository, name: str, home: Path) -> Path:
    """Return the directory for a tree: beside the repository, so that neighbours such as `../lib` are found.

    If the parent directory cannot be written, or is itself in a checkout, the tree is in the home.
    """
    above, name = repository.root.parent, f"{repository.root.name}.{name}"
    if os.access(above, os.W_OK) and not _is_in_checkout(above):
        return above / name
    return home / name


def free_place(repository: Repository, name: str, home: Path) -> Path:
    """Return the directory for a new or remade tree: another one if an abandoned tree has the first."""
    first = place_of(repository, name, home)
    begun = read_record(home)
    if not any(home.glob(f"{ABANDONED}-*.json")) and (begun is None or not begun.problem or not begun.inode):
        return first  # if it exists, it is not Penstock's, or the tree is remade
    names = (first.with_name(f"{first.name}-{number}") for number in range(2, 1000))
    return next(path for path in (first, *names) if not os.path.lexists(path))


def _copy(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():  # a nested repository, whose files git does not list
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    except OSError as error:
        what = f"{source} cannot be copied into the tree: {error.strerror or error}"
        raise UsageError(what, help="name other files in .worktreeinclude or with --copy") from error


def read_record(home: Path) -> TreeRecord | None:
    """Return the record of a home; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode((home / RECORD).read_bytes(), type=TreeRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_record(home: Path, record: TreeRecord) -> None:
    """Write the record of a home, whole or not at all."""
    write_private(home / RECORD, msgspec.json.encode(record))


def abandon(home: Path) -> None:
    """Abandon the tree of a home: its directory is left unchanged, and `Tree.make` makes another one."""
    names = (home / f"{ABANDONED}-{number}.json" for number in itertools.count(1))
    try:
        os.rename(home / RECORD, next(name for name in names if not name.exists()))
    except FileNotFoundError:
        pass  # it was never made


def abandoned_records(home: Path) -> dict[Path, TreeRecord]:
    """Return the records of abandoned trees in a home, by their files."""
    found = {}
    for file in sorted(home.glob(f"{ABANDONED}-*.json")):
        try:
            found[file] = msgspec.json.decode(file.read_bytes(), type=TreeRecord)
        except (OSError, msgspec.DecodeError):
            continue  # a crash or somebody else has left it
    return found


def remove_entry(path: Path) -> None:
    """Remove a directory with all of its contents, a file, or a link; never the target of a link."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        remove_directory(path)


def remove_directory(path: Path) -> None:
    """Remove a directory with all of its contents, even if directories in it are not writable."""

    def allow(function: object, name: str, problem: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        if os.path.islink(name) or not os.path.isdir(name):
            os.unlink(name)
            return
        os.chmod(name, 0o700)
        if Path(name) == path:
            shutil.rmtree(name)
        else:
            remove_directory(Path(name))  # directories in it may not be writable either

    shutil.rmtree(path, onerror=allow)


def _remove_begun(begun: TreeRecord) -> None:
    """Remove an unfinished tree that is made again."""
    path = Path(begun.path)
    if not begun.problem:
        remove_directory(path)
    elif begun.inode == 0 and path.is_dir() and not path.is_symlink():
        try:
            path.rmdir()  # made but not recorded yet, so it is empty
        except OSError:
            pass  # not empty, so it is not Penstock's; `make` reports that it exists


def _make_git_dir(path: Path, repository: Repository, branch: str) -> None:
    """Make a git directory with the settings of the user's repository and HEAD on a branch without commits."""
    settings = config_text([("core.bare", "false"), *repository.settings()])
    words = f"--object-format={repository.object_format}", "--template=", f"--initial-branch={branch}"
    Git(repository.root).run("-c", "init.defaultRefFormat=files", "init", "--quiet", "--bare", *words, str(path))
    with open(path / "config", "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(settings)
    (path / "info").mkdir(exist_ok=True)
    (path / "info" / "exclude").touch()
    for name in COPIED_FILES:
        try:
            shutil.copyfile(repository.common / name, path / name)
        except FileNotFoundError:
            pass


def _replace(path: Path, new: Path, old: Path) -> None:
    """Rename `new` to `path`, and anything at `path` to `old`; links are never followed."""
    try:
        os.rename(path, old)
    except FileNotFoundError:
        pass
    os.rename(new, path)


def _is_in_checkout(path: Path) -> bool:
    try:
        return Git(path).text("rev-parse", "--is-inside-work-tree") == "true"
    except GitError:
        return False
