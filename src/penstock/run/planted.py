"""Entries that a confined run has made where a later run, or git, would obey them: they are put aside.

What was there before the run is read-only in it. What was missing cannot be, so it is looked for at the end of the run,
when none of its processes is left. A record in the data directory is locked while the run lasts; a record without a
lock is that of a Penstock that was killed, and is settled before the next run.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from penstock.config.regular_files import open_regular
from penstock.run.git_directories import GitSearch, is_harmless, printable
from penstock.run.obeyed_keys import IN_USE, obeyed_in
from penstock.run.outside_links import LinkSearch
from penstock.run.unfinished import commands_before, harmless_part

FOLDER = "confined"
"""Directory of the records in the data directory."""
ASIDE = "aside"
"""Directory of the data directory for what was put aside."""
KNOWN = "git-directories.json"
"""File of the git directories that were below a working directory after its last run, beside the caches of that."""
ENDS = ("-wal", "-shm", "-journal")
"""Ends of the names of the files that belong to a database."""
MAX_SAID = 20
"""Entries that are named one by one."""
GIT_NAMES = ("commondir", "config", "config.worktree", "hooks", "info")
"""Entries of a git directory that start programs or lead git elsewhere."""


class LinkedSetting(msgspec.Struct, frozen=True):
    """Setting that is a symbolic link, as programs for dotfiles make them.

    What it leads to is read-only in the run, but not the link itself, and the directories above the file can be renamed
    if the run writes there.
    """

    path: str
    target: str
    """Text of the link."""
    file: tuple[int, int] | None
    """Device and inode to which it leads; None if it leads nowhere."""


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
    links: tuple[LinkedSetting, ...] = ()
    """Those of them that are links."""
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Files of keys, each with the digests of the entries that later runs obey."""
    databases: tuple[str, ...] = ()
    """Those of them that are databases."""
    granted: tuple[str, ...] = ()
    """Tools that the run may use without asking."""
    since: float = 0.0
    """Time of its beginning, if it can write in the directory; else 0."""
    state: tuple[str, ...] = ()
    """Directories of the agent's state that the run writes."""
    began: float = 0.0
    """Time of its beginning."""
    known: str = ""
    """File of the git directories that were below the directory after an earlier run."""
    commands: tuple[str, ...] = ()
    """Digests of the commands in unfinished operations of git."""


def watched(
    cwd: str,
    patterns: tuple[tuple[str, str], ...],
    caches: tuple[tuple[str, str], ...] = (),
    *,
    keys: tuple[str, ...] = (),
    databases: tuple[str, ...] = (),
    granted: tuple[str, ...] = (),
    state: tuple[str, ...] = (),
    since: float = 0.0,
    known: str = "",
) -> Watched:
    """Return the places of a run that is about to begin; its arguments are as those of `Watched`."""
    has_git = os.path.lexists(os.path.join(cwd, ".git"))
    seen = Watched(
        git=cwd,
        had_git=has_git,
        patterns=patterns,
        caches=caches,
        databases=databases,
        granted=granted,
        since=since,
        known=known,
        state=state,
    )
    before = tuple(_entries(seen))
    links = tuple(LinkedSetting(path, os.readlink(path), _file_of(path)) for path in before if os.path.islink(path))
    files = tuple((path, _obeyed_in(seen, path)) for path in (*keys, *databases))
    commands = commands_before(cwd) if since else ()
    return msgspec.structs.replace(seen, before=before, links=links, keys=files, began=time.time(), commands=commands)


def _file_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _leads_to(path: str) -> str | None:
    """Return the text of a link; None if it is none, or is gone."""
    try:
        return os.readlink(path)
    except OSError:
        return None


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
        os.write(self._fd, _encoded(place))
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
            fd = open_regular(path, os.O_RDWR)
        except OSError:
            continue  # settled meanwhile, or not a record
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(fd, "rb", closefd=False) as file:
                said += put_aside(data, msgspec.convert(json.loads(file.read()), Watched))
            os.unlink(path)
        except (BlockingIOError, FileNotFoundError):
            pass  # its run lives, or another process has settled it
        except (ValueError, msgspec.ValidationError):
            os.unlink(path)  # it was killed before the run began
        finally:
            os.close(fd)
    return said


def put_aside(data: str, place: Watched) -> list[str]:
    """Move what is new in the places of a run into the data directory; return a sentence for each entry."""
    git = os.path.join(place.git, ".git")
    new, said = _new(place, git)
    changed = [link for link in place.links if _leads_to(link.path) != link.target]
    new += [link.path for link in changed if os.path.lexists(link.path)]
    caches = {path for folder, pattern in place.caches for path in _settings(folder, pattern)}
    moved = 0
    for path in new:
        if (path in caches and _removed(path, os.unlink)) or (path != git and _removed(path, os.rmdir)):
            continue  # an empty directory has no effect on later runs
        try:
            place_now = _move(path, os.path.join(data, ASIDE))
        except FileNotFoundError:
            continue  # it was removed meanwhile
        except OSError as error:
            said.append(
                f"the agent has made {printable(path)}, which later runs would obey; remove it, as it cannot be moved:"
                f" {error.strerror}"
            )
            continue
        moved += 1
        steps = harmless_part(path, place_now, place.commands)
        is_continued = steps is not None and _made(path, steps)
        if moved <= MAX_SAID:
            said.append(_warning(printable(path), printable(place_now), is_continued=is_continued))
    if moved > MAX_SAID:
        said.append(f"{moved - MAX_SAID:,} more entries that the agent has made are in {os.path.join(data, ASIDE)}")
    said += _put_keys_aside(place, os.path.join(data, ASIDE))
    said += [_linked_again(link) for link in changed]
    kept = (link for link in place.links if link not in changed)
    return said + [_other_file(link) for link in kept if link.file != _file_of(link.path) and _is_in(place, link.path)]


def _warning(path: str, place: str, *, is_continued: bool) -> str:
    if is_continued:
        return (
            f"the agent has put commands into {path}, which git would run when you continue the rebase; they are taken"
            f" out, and the whole file is in {place}"
        )
    return f"the agent has made {path}, which later runs would obey; it is in {place}"


def _put_keys_aside(place: Watched, aside: str) -> list[str]:
    """Move the files of keys with an entry of this run that later runs would obey; return a sentence for each."""
    said = []
    for path, before in place.keys:
        ends = ENDS if path in place.databases else ()
        now = _obeyed_in(place, path, before)
        if IN_USE in (*now, *before):
            said.append(f"another program has locked {printable(path)}: what later runs obey in it was not looked at")
            continue
        if set(now) <= set(before):
            continue
        kind = "a command, an address or a permission" if ends else "a command or an address"
        what = f"the agent has put an entry into {printable(path)} that later runs would obey: {kind}"
        file = "the database, which has the conversations too, is in" if ends else "the file is in"
        try:
            said.append(f"{what}; {file} {printable(_move_keys(path, ends, aside))}: look at it, or log in again")
        except OSError as error:
            said.append(f"{what}; remove the file, as it cannot be moved: {error.strerror}")
    return said


def _obeyed_in(place: Watched, path: str, before: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return a digest of each entry of a file or a database that later runs obey; `before` as before the run."""
    if path not in place.databases:
        return obeyed_in(path)
    from penstock.run.obeyed_rows import obeyed_rows_in  # few agents need SQLite

    return obeyed_rows_in(path, ENDS, granted=place.granted, before=before)


def _move_keys(path: str, ends: tuple[str, ...], aside: str) -> str:
    """Move a file of keys, and all files of a database into one directory; return its place.

    Raises:
        OSError: it has its name still.
    """
    word = uuid.uuid4().hex[:8]
    place = _move(path, aside, word)
    for end in ends:
        with suppress(OSError):
            _move(f"{path}{end}", aside, word)
    return place


def _linked_again(link: LinkedSetting) -> str:
    what = f"the link {printable(link.path)} to {printable(link.target)}, which the agent has removed,"
    try:
        os.symlink(link.target, link.path)
    except OSError as error:
        return f"{what} cannot be made again: {error.strerror}"
    return f"{what} is there again"


def _is_in(place: Watched, path: str) -> bool:
    """Return whether a path leads into a directory in which the run writes."""
    real = os.path.realpath(path)
    return any(real.startswith(f"{folder}{os.sep}") for folder in (place.git, *(it for it, _ in place.patterns)))


def _other_file(link: LinkedSetting) -> str:
    return f"{printable(link.path)} leads to another file than before the run, and later runs would obey it"


def _new(place: Watched, git: str) -> tuple[list[str], list[str]]:
    """Return what is new in the places of a run, and sentences about the rest of its directory."""
    new = [path for path in _entries(place) if path not in place.before]
    if not place.had_git and os.path.lexists(git):
        new = [path for path in new if os.path.dirname(path) != git]
        if not is_harmless(git):
            new.append(git)
    search = LinkSearch(place.state, place.began)
    unchanged = {link.path for link in place.links if _leads_to(link.path) == link.target}
    new += [path for path in search.links if path not in new and path not in unchanged]
    said = [
        f"not all of {printable(folder)} was searched for links that the agent has made" for folder in search.unseen
    ]
    if not place.since:
        return new, said
    below = GitSearch(place.git, place.since, _known(place.known), place.commands)
    _note_known(place.known, below.git_directories)
    new += [path for path in below.entries if git not in new or not path.startswith(f"{git}{os.sep}")]
    if below.unseen:
        where = printable(place.git)
        said.append(f"not all of {where} was searched for settings of git that the agent has made: {below.unseen}")
    if below.shared:
        count, first = len(below.shared), printable(below.shared[0])
        what = f"{first}, a file that has" if count == 1 else f"{count:,} files, such as {first}, that have"
        said.append(
            f"the agent may have changed {what} another name elsewhere (a hard link), so it is changed there too"
        )
    return new, said


def _move(path: str, aside: str, word: str = "") -> str:
    """Move an entry below the directory for what is put aside, and return its place.

    It gets another name first, since an agent can make something that cannot be copied to another file system: then it
    stays under this name, which nothing obeys.

    Raises:
        OSError: it has its name still.
    """
    word = word or uuid.uuid4().hex[:8]
    parent, name = os.path.split(path)
    renamed = os.path.join(parent, f".penstock-aside-{uuid.uuid4().hex[:8]}")
    try:
        os.rename(path, renamed)
    except PermissionError:
        os.chmod(parent, stat.S_IMODE(os.stat(parent).st_mode) | stat.S_IRWXU)  # the agent has made it read-only
        os.rename(path, renamed)
    try:
        os.makedirs(os.path.join(aside, word), mode=0o700, exist_ok=True)
        target = os.path.join(aside, word, name)
        shutil.move(renamed, target)
    except (OSError, shutil.Error, RecursionError):
        if os.path.isdir(renamed) and not os.path.islink(renamed):
            os.chmod(renamed, 0)
        return renamed
    return target


def _removed(path: str, remove: Callable[[str], None]) -> bool:
    """Remove a cache or an empty directory, and return whether that was done; the rest is put aside with a warning."""
    try:
        remove(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _made(path: str, content: bytes) -> bool:
    """Make a file where none is, and return whether that was done."""
    try:
        with open(path, "xb") as file:
            file.write(content)
    except OSError:
        return False
    return True


def _encoded(value: object) -> bytes:
    """Return a value as JSON, in which a path may have any bytes."""
    return json.dumps(msgspec.to_builtins(value)).encode()


def _known(path: str) -> Mapping[str, int] | None:
    """Return the git directories that were there after an earlier run; None if there was none."""
    try:
        with open(path, "rb") as file:
            return msgspec.convert(json.loads(file.read()), dict[str, int])
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def _note_known(path: str, found: Mapping[str, int]) -> None:
    """Note them for the next run. Without this file, it is the times of files alone that show what is new."""
    with suppress(OSError):
        with open(f"{path}.new", "wb") as file:
            file.write(_encoded(found))
        os.replace(f"{path}.new", path)
