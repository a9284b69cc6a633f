"""Leftovers of trees: trees that were abandoned, and entries that blocked git and were moved to `aside`.

Once the tree is no longer needed, links, pipes and the like are removed. Files may be somebody's work: they are named,
and removed only if they are older than a time that the user chooses. Anything that Penstock has not made is never
removed.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.repo.place import mount_below
from penstock.repo.tree import TreeRecord, abandoned_records, read_record, remove_directory, remove_entry
from penstock.repo.trees import FOLDER, home_of, user_of

ASIDE = "aside"
"""Folder of the data directory with the entries that were moved out of trees, by the names of the trees."""

DAY_SECONDS = 24 * 60 * 60


class Leftover(msgspec.Struct, frozen=True):
    """Something that a tree has left."""

    name: str
    """Name of the tree."""
    path: str
    text: str
    """What it is, and why it is kept, as a phrase for people."""
    is_removable: bool


def days_ago(days: float | None) -> float | None:
    """Return the time this many days ago, in seconds since 1970; None for None."""
    return None if days is None else time.time() - days * DAY_SECONDS


def names_with_leftovers(data: Path) -> list[str]:
    """Return the names of the trees that have left something."""
    found = {path.name for path in (data / ASIDE).glob("*") if not path.is_symlink() and path.is_dir()}
    return sorted(found | {home.name for home in (data / FOLDER).glob("*") if abandoned_records(home)})


def records_of(data: Path, name: str) -> list[TreeRecord]:
    """Return the records of a tree and of abandoned trees that it replaced."""
    home = home_of(data, name)
    record = read_record(home)
    return [*([record] if record is not None else []), *abandoned_records(home).values()]


def clean_leftovers(data: Path, name: str, *, before: float | None = None, dry: bool = False) -> list[Leftover]:
    """Remove what a tree has left if the rule allows it, and return all of it.

    Args:
        data: the data directory.
        name: name of the tree, which no process may use meanwhile.
        before: time in seconds since 1970; files that are older are removed too. None: no files are removed.
        dry: whether to remove nothing.

    Raises:
        OSError: something cannot be removed.
    """
    found = [*_given_up(data, name, before, dry=dry), *_aside(data, name, before)]
    if dry:
        return found
    for one in found:
        if one.is_removable:
            remove_entry(Path(one.path))
    _remove_empty(data, name)
    return found


def _given_up(data: Path, name: str, before: float | None, *, dry: bool) -> Iterator[Leftover]:
    home = home_of(data, name)
    current = read_record(home)
    for file, record in abandoned_records(home).items():
        is_current = current is not None and current.path == record.path
        if is_current or not os.path.lexists(record.path):
            if not dry:
                file.unlink()
            continue
        mode = os.lstat(record.path).st_mode
        if not stat.S_ISDIR(mode) and not (stat.S_ISREG(mode) and os.path.getsize(record.path)):
            yield Leftover(name, record.path, "in the place of a tree that was given up, without files", True)
        elif record.problem:
            text = f"{record.problem}, which Penstock has not made: remove it by hand"
            yield Leftover(name, record.path, text, False)
        elif (user := user_of(record.path)) is not None:
            yield Leftover(name, record.path, f"process {user} works in it", False)
        else:
            yield _by_age(name, record.path, "a tree that was given up", file.stat().st_mtime, before)


def _aside(data: Path, name: str, before: float | None) -> Iterator[Leftover]:
    for entry in _folders(data / ASIDE / name):
        text = _files_in(entry)
        if mount_below(str(entry)):
            yield Leftover(name, str(entry), "moved out of a tree, with a file system mounted in it", False)
        elif not text:
            yield Leftover(name, str(entry), "moved out of a tree, without files", True)
        else:
            yield _by_age(name, str(entry), f"moved out of a tree, {text}", entry.lstat().st_mtime, before)
    for record in records_of(data, name):
        place = Path(record.path)
        # An agent can make a directory with this name too, so one that has files is left to the user.
        for path in sorted(place.parent.glob(f"{glob.escape(place.name)}.{ASIDE}-*")):
            if not path.is_symlink() and path.is_dir():
                text = _files_in(path) or ("a file system is mounted in it" if mount_below(str(path)) else "")
                why = f"{text}: remove it by hand" if text else "without files"
                yield Leftover(name, str(path), f"moved out of a tree, {why}", not text)


def _by_age(name: str, path: str, text: str, at: float, before: float | None) -> Leftover:
    if before is not None and at < before:
        return Leftover(name, path, text, True)
    why = "is not so old" if before is not None else "may be your work; --older-than DAYS removes it"
    return Leftover(name, path, f"{text}: {why}", False)


def _files_in(top: Path) -> str:
    """Return the number of non-empty files in a directory, as a phrase; "" if it has none."""
    hidden: list[OSError] = []
    count = size = 0
    for folder, _, names in os.walk(top, onerror=hidden.append):
        for name in names:
            found = os.lstat(os.path.join(folder, name))
            if stat.S_ISREG(found.st_mode) and found.st_size:
                count, size = count + 1, size + found.st_size
    if hidden:
        return "with directories that cannot be read"
    return f"{count:,} file{'s' * (count != 1)}, {size:,} bytes" if count else ""


def _folders(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return []
    return sorted(path for path in folder.glob("*") if not path.is_symlink() and path.is_dir())


def _remove_empty(data: Path, name: str) -> None:
    """Remove records of trees that are gone, and Penstock's empty directories."""
    home = home_of(data, name)
    records = abandoned_records(home)
    for file, record in records.items():
        if not os.path.lexists(record.path):
            file.unlink()
    if records and read_record(home) is None and not abandoned_records(home):
        remove_directory(home)
    for folder in (data / ASIDE / name, data / ASIDE):
        try:
            folder.rmdir()
        except OSError:
            pass  # something is in it, or there is none
