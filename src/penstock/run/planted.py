"""Entries that a confined run has made where a later run, or git, would obey them: they are put aside.

What was there before the run is read-only in it. What was missing cannot be, so it is looked for at the end of the run,
when none of its processes is left. A record in the data directory is locked while the run lasts; a record without a
lock is that of a Penstock that was killed, and is settled before the next run.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable

import msgspec

FOLDER = "confined"
"""Directory of the records in the data directory."""
ASIDE = "aside"
"""Directory of the data directory for what was put aside."""
GIT_NAMES = ("commondir", "config", "config.worktree", "hooks", "info")
"""Entries of a git directory that start programs or lead git elsewhere."""
MAX_CONFIG_BYTES = 64 * 1024
"""Bytes of the configuration of a new repository; a larger one was not made by `git init`."""

_SECTION = re.compile(r'\[(core|user|init|(?:branch|remote) "[^"\\]*")\]\s*')
_HARMLESS = {
    "core": re.compile(r"(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks) = \w+"),
    "user": re.compile(r"(name|email) = [^\\]*"),
    "init": re.compile(r"defaultbranch = [\w./-]+"),
    "branch": re.compile(r"(remote|merge) = [\w./-]+"),
    "remote": re.compile(r"(url = https://[^\s\\]+|fetch = [\w+:*/.-]+)"),
}
"""Lines of a configuration that start nothing, by the section."""


class Watched(msgspec.Struct, frozen=True):
    """Places of one run, and what was in them before it."""

    git: str
    """Directory in which `.git` would be."""
    had_git: bool
    patterns: tuple[tuple[str, str], ...] = ()
    """Directories of the agent's state, each with a pattern of its settings."""
    caches: tuple[tuple[str, str], ...] = ()
    """Directories of the agent's state, each with a pattern of the settings that it writes anew by itself."""
    before: tuple[str, ...] = ()
    """Settings, and entries of the git directory, that were there."""


def watched(cwd: str, patterns: tuple[tuple[str, str], ...], caches: tuple[tuple[str, str], ...] = ()) -> Watched:
    """Return the places of a run that is about to begin."""
    has_git = os.path.lexists(os.path.join(cwd, ".git"))
    seen = Watched(git=cwd, had_git=has_git, patterns=patterns, caches=caches)
    return msgspec.structs.replace(seen, before=tuple(_entries(seen)))


def _entries(place: Watched) -> list[str]:
    found = [path for folder, pattern in place.patterns for path in _settings(folder, pattern)]
    git = os.path.join(place.git, ".git")
    names = [os.path.join(git, name) for name in GIT_NAMES] if os.path.isdir(git) and not os.path.islink(git) else []
    return sorted({*found, *(path for path in names if os.path.lexists(path))})


def _settings(folder: str, pattern: str) -> list[str]:
    if os.path.islink(folder):
        return []
    return glob.glob(os.path.join(glob.escape(folder), pattern))


class Record:
    """Record of a run that is confined: keep it open as long as a process of the run may live."""

    def __init__(self, data: str, place: Watched) -> None:
        """Write the record.

        Raises:
            OSError: it cannot be written.
        """
        folder = os.path.join(data, FOLDER)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._data, self._place = data, place
        self._path = os.path.join(folder, f"{uuid.uuid4().hex}.json")
        self._fd = os.open(f"{self._path}.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        os.write(self._fd, msgspec.json.encode(place))
        os.rename(f"{self._path}.new", self._path)

    def settle(self) -> list[str]:
        """Put aside what the run has planted, and return a sentence for each entry. No process of it may live."""
        try:
            said = put_aside(self._data, self._place)
            os.unlink(self._path)
            return said
        finally:
            self.close()

    def close(self) -> None:
        """Leave the record to the next run."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def settle(data: str) -> list[str]:
    """Put aside what confined runs of a killed Penstock have planted; return a sentence for each entry."""
    folder, said = os.path.join(data, FOLDER), []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # settled meanwhile
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(fd, "rb", closefd=False) as file:
                said += put_aside(data, msgspec.json.decode(file.read(), type=Watched))
            os.unlink(path)
        except (BlockingIOError, FileNotFoundError):
            pass  # its run lives, or another process has settled it
        except msgspec.DecodeError:
            os.unlink(path)  # it was killed before the run began
        finally:
            os.close(fd)
    return said


def put_aside(data: str, place: Watched) -> list[str]:
    """Move what is new in the places of a run into the data directory; return a sentence for each entry."""
    new = [path for path in _entries(place) if path not in place.before]
    git = os.path.join(place.git, ".git")
    if not place.had_git and os.path.lexists(git):
        new = [path for path in new if os.path.dirname(path) != git]
        if not _is_harmless(git):
            new.append(git)
    caches = {path for folder, pattern in place.caches for path in _settings(folder, pattern)}
    said = []
    for path in new:
        if (path in caches and _removed(path, os.unlink)) or (path != git and _removed(path, os.rmdir)):
            continue  # an empty directory has no effect on later runs
        folder = os.path.join(data, ASIDE, uuid.uuid4().hex[:8])
        os.makedirs(folder, mode=0o700, exist_ok=True)
        target = os.path.join(folder, os.path.basename(path))
        try:
            shutil.move(path, target)
            said.append(f"the agent has made {path}, which later runs would obey; it is in {target}")
        except FileNotFoundError:
            continue  # it was removed meanwhile
        except (OSError, shutil.Error) as error:
            said.append(
                f"the agent has made {path}, which later runs would obey; remove it, as it cannot be moved: {error}"
            )
    return said


def _removed(path: str, remove: Callable[[str], None]) -> bool:
    """Remove a cache or an empty directory, and return whether that was done; the rest is put aside with a warning."""
    try:
        remove(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _is_harmless(git: str) -> bool:
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
    return _starts_nothing(os.path.join(git, "config"))


def _starts_nothing(path: str) -> bool:
    """Return whether all lines of a configuration of git are known to be harmless."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False  # git would wait for a pipe for ever
        text = file.read(MAX_CONFIG_BYTES + 1)
    if len(text) > MAX_CONFIG_BYTES:
        return False
    section = ""
    for line in text.decode("utf-8", "replace").splitlines():
        if found := _SECTION.fullmatch(line):
            section = found[1].partition(" ")[0]
        elif line.strip() and not (section and _HARMLESS[section].fullmatch(line.strip())):
            return False
    return True
