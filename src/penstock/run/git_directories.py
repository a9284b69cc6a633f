"""Git directories that a confined run has made or changed below its directory: what in them would start a program.

Git obeys the settings of each directory that looks like its own, whatever its name: those of a subdirectory, which a
`git status` above enters if the index calls it a submodule, and those of any directory with `HEAD` and `objects`. What
the run did not write stays as it is: the kernel keeps the time of the last change of each file, and a run cannot set
that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping

from penstock.config.regular_files import content_of, read_start
from penstock.run.unfinished import files_of, starts_program

CONFIGS = ("config", "config.worktree")
"""Files of a git directory with settings."""
MAX_CONFIG_BYTES = 64 * 1024
"""Bytes of the configuration of a new repository; a larger one was not made by `git init`."""
MAX_POINTER_BYTES = 4096
"""Bytes of a file that leads to another git directory."""
MAX_DIRECTORIES = 200_000
"""Directories that are looked at: more than the largest projects have, and a few seconds of work."""
OBJECTS = (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"PACK", b"\xfftOc")
"""First bytes of git's objects and packs, with which no script and no program begins."""
MAX_PLACE_CHARS = 200
"""Last characters of a path in a sentence."""
SLACK_SECONDS = 1.0
"""Seconds by which the times of files may be behind the clock."""

_URL = r"(?!-)(?:(?!::)[\w.@:/~+%-])+"
_SECTION = re.compile(
    r"\[(advice|branch|commit|core|extensions|gc|init|pull|push|receive|remote|submodule|tag|user)"
    r'(?: "[^"\\]*")?\]\s*'
)
_WORD = r"[\w./-]+"
_HARMLESS = {
    "advice": re.compile(rf"\w+ = {_WORD}"),
    "branch": re.compile(rf"(remote|merge|rebase) = {_WORD}"),
    "commit": re.compile(r"gpgsign = false"),
    "core": re.compile(
        r"(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|autocrlf|eol|safecrlf|quotepath"
        r"|sparsecheckout|sparsecheckoutcone|precomposeunicode|untrackedcache|longpaths) = \w+",
        re.IGNORECASE,
    ),
    "extensions": re.compile(r"(worktreeconfig|objectformat|refstorage) = \w+", re.IGNORECASE),
    "gc": re.compile(r"auto = \d+"),
    "init": re.compile(rf"defaultbranch = {_WORD}", re.IGNORECASE),
    "pull": re.compile(r"(rebase|ff) = \w+"),
    "push": re.compile(r"default = \w+"),
    "receive": re.compile(r"denycurrentbranch = \w+", re.IGNORECASE),
    "remote": re.compile(rf"((push)?url = {_URL}|fetch = [\w+:*/.-]+)"),
    "submodule": re.compile(rf"(active = \w+|url = {_URL})"),
    "tag": re.compile(r"gpgsign = false"),
    "user": re.compile(r"(name|email) = [^\\]*"),
}
"""Lines of a configuration that start nothing, by the section."""
_WORKTREE = re.compile(r"worktree = ([^\"\\;#]+)")
"""Line of the section `core` that leads git to its files, as that of a submodule does."""


class GitSearch:
    """What the directories below one have that was made or changed since a time, and would start a program.

    Args:
        top: the directory.
        since: time of `time.time`.
        known: git directories that were found after an earlier run, with their inodes; None if there was none. What an
            earlier run wrote is looked at once the directory around it becomes a git directory.
        commands: digests of the commands that unfinished operations had before (`unfinished.commands_before`).
    """

    def __init__(
        self, top: str, since: float, known: Mapping[str, int] | None = None, commands: Collection[str] = ()
    ) -> None:
        self.unseen: str = ""
        """Why some of them were not looked at; "" if all were."""
        self.git_directories: dict[str, int] = {}
        """Git directories, with their inodes."""
        self.shared: list[str] = []
        """Files that were changed, and that have names outside of the directory as well."""
        self._links: dict[tuple[int, int], list[str]] = {}
        self._top = os.path.realpath(top)
        self._since = int((since - SLACK_SECONDS) * 1e9)
        self._known = known
        self._commands = commands
        self.entries: list[str] = sorted(self._entries())
        """Paths of the entries."""
        if not self.unseen:
            groups = (it for it in self._links.values() if os.lstat(it[0]).st_nlink > len(it) and not _is_object(it[0]))
            self.shared = sorted(paths[0] for paths in groups)

    def _entries(self) -> Iterator[str]:
        git = os.path.join(self._top, ".git")  # first, since a run can make more directories than are looked at
        if not os.path.islink(git):
            yield from (path for path in files_of(git) if starts_program(path, self._commands))
        for directory, names in self._directories():
            if directory != self._top and ".git" in names:
                yield from self._pointer(os.path.join(directory, ".git"))
            is_git = "HEAD" in names and ("objects" in names or "commondir" in names)
            if directory != git and (is_git or os.path.basename(directory) == ".git"):
                yield from self._of_git_directory(directory)

    def _directories(self) -> Iterator[tuple[str, set[str]]]:
        """Yield the directories with the names in them. No link is followed."""
        todo, left = [self._top], MAX_DIRECTORIES
        while todo:
            directory = todo.pop()
            left -= 1
            if left < 0:
                self.unseen = f"it has more than {MAX_DIRECTORIES:,} directories"
                return
            names = set()
            try:
                with os.scandir(directory) as found:
                    for entry in found:
                        names.add(entry.name)
                        if entry.is_dir(follow_symlinks=False):
                            todo.append(entry.path)
                        elif entry.is_file(follow_symlinks=False):
                            self._note_links(entry)
            except FileNotFoundError:
                continue
            except OSError as error:
                place = printable(os.path.relpath(directory, self._top)[-MAX_PLACE_CHARS:])
                self.unseen = f"{place} cannot be read: {error.strerror}"
            yield directory, names

    def _note_links(self, entry: os.DirEntry[str]) -> None:
        """Note a file with several names that was changed, or of which one was made or removed."""
        status = entry.stat(follow_symlinks=False)
        if status.st_nlink > 1 and status.st_ctime_ns >= self._since:
            self._links.setdefault((status.st_dev, status.st_ino), []).append(entry.path)

    def _pointer(self, path: str) -> Iterator[str]:
        """Yield a `.git` that is a file or a link, is new, and leads out of the directory."""
        if not os.path.islink(path) and os.path.isdir(path):
            return  # it is looked at when its turn comes
        if self._is_new(path):
            target: str | None = path
            if not os.path.islink(path):
                text = _text(path, MAX_POINTER_BYTES)
                target = text and os.path.join(os.path.dirname(path), text.removeprefix("gitdir:").strip())
            if target is None or not self._is_inside(target):
                yield path

    def _of_git_directory(self, git: str) -> Iterator[str]:
        try:
            inode = os.lstat(git).st_ino
        except OSError:
            return
        self.git_directories[git] = inode
        is_new = self._is_new
        if self._known is not None and self._known.get(git) != inode:
            parts = (git, *(os.path.join(git, name) for name in ("HEAD", "objects", "commondir")))
            if any(self._is_new(path) for path in parts):
                is_new = os.path.lexists
        for name in CONFIGS:
            path = os.path.join(git, name)
            if is_new(path) and not self._starts_nothing(path, git):
                yield path
        path = os.path.join(git, "commondir")
        if is_new(path):
            text = _text(path, MAX_POINTER_BYTES)
            if text is None or not self._is_inside(os.path.join(git, text.strip())):
                yield path
        for path in files_of(git):
            if (is_new(path) or is_new(os.path.dirname(path))) and starts_program(path, self._commands):
                yield path
        hooks = os.path.join(git, "hooks")
        if os.path.islink(hooks) or not os.path.isdir(hooks):
            names: list[str] = []
            if is_new(hooks):
                yield hooks
        else:
            names = [name for name in _names(hooks) if not name.endswith(".sample")]
        was_moved = self._is_new(hooks)  # a directory with another name may have become this one
        for path in (os.path.join(hooks, name) for name in names):
            if was_moved or is_new(path):
                yield path

    def _is_new(self, path: str) -> bool:
        try:
            return os.lstat(path).st_ctime_ns >= self._since
        except OSError:
            return False

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return os.path.commonpath((real, self._top)) == self._top

    def _starts_nothing(self, path: str, git: str) -> bool:
        text = _text(path, MAX_CONFIG_BYTES)
        if text is None:
            return False
        lines = []
        for line in text.splitlines():
            found = _WORKTREE.fullmatch(line.strip())
            if found is None:
                lines.append(line)
            elif not self._is_inside(os.path.join(git, found[1])):
                return False
        return are_harmless(lines)


def _is_object(path: str) -> bool:
    """Return whether a file is one of git's objects, which clones share: git sets its times, and never its content."""
    if f"{os.sep}objects{os.sep}" not in path:
        return False
    try:
        return read_start(path, 4).startswith(OBJECTS)
    except OSError:
        return False


def is_harmless(git: str) -> bool:
    """Return whether a new git directory is one that `git init` makes: it starts no program and leads nowhere else."""
    if os.path.islink(git) or not os.path.isdir(git):
        return False
    for name in ("commondir", "config.worktree", "modules", "worktrees"):
        if os.path.lexists(os.path.join(git, name)):
            return False
    hooks = os.path.join(git, "hooks")
    if os.path.islink(hooks):
        return False
    if os.path.isdir(hooks) and not all(name.endswith(".sample") for name in os.listdir(hooks)):
        return False
    config = os.path.join(git, "config")
    text = _text(config, MAX_CONFIG_BYTES) if os.path.lexists(config) else ""
    return text is not None and are_harmless(text.splitlines())


def are_harmless(lines: list[str]) -> bool:
    """Return whether all lines of a configuration of git are known to start nothing."""
    section = ""
    for line in lines:
        if found := _SECTION.fullmatch(line):
            section = found[1]
        elif line.strip() and not (section and _HARMLESS[section].fullmatch(line.strip())):
            return False
    return True


def printable(path: str) -> str:
    """Return a path as text that can be encoded."""
    return path.encode("utf-8", "backslashreplace").decode()


def _text(path: str, most: int) -> str | None:
    """Return the text of a regular file; None for anything else, and for one that is too large."""
    content = content_of(path, most)
    return None if content is None else content.decode("utf-8", "replace")


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
