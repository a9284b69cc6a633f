"""All trees of runs and loops: their list, and their removal by one rule.

A tree is removed if Penstock made it, no process works in it, and all its files are in a ref. Ignored files and junk do
not count: builds make them, or they are copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from penstock.errors import PenstockError, UsageError
from penstock.repo.git import GitError
from penstock.repo.staging import changes, junk_in
from penstock.repo.tree import Tree, TreeRecord, abandoned_records, read_record, remove_directory, remove_entry

FOLDER = "trees"
"""Folder of the data directory with the home of each tree, by its name."""

DAY_MS = 86_400_000

OLD_DAYS = 14
"""Days after which a tree is reported as old when another one is made."""

State = Literal["saved", "kept", "unsaved", "used", "gone", "replaced", "unknown"]


class TreeStatus(msgspec.Struct, frozen=True):
    """State of one tree.

    `saved`: all its files are in a ref. `kept`: they are, and its chat goes on in it. `unsaved`: some are not. `used`:
    a process works in it. `gone`: its directory was removed. `replaced`: its directory is not the one that was made.
    `unknown`: its repository cannot be read.
    """

    record: TreeRecord
    state: State
    text: str
    """State as a phrase for people."""
    paths: list[str] = []
    """Files that are in no ref."""

    @property
    def is_removable(self) -> bool:
        """Return whether the rule allows removal."""
        return self.state in ("saved", "gone")


def home_of(data: Path, name: str) -> Path:
    """Return the home of a tree in the data directory."""
    return data / FOLDER / name


def homes(data: Path) -> list[Path]:
    """Return the homes of all trees, the oldest first."""
    found = [(record.made_at, home) for home in (data / FOLDER).glob("*") if (record := read_record(home)) is not None]
    return [home for _, home in sorted(found)]


def old_trees(data: Path, now: int) -> list[TreeRecord]:
    """Return the trees that were made more than `OLD_DAYS` days before `now`, in milliseconds since 1970."""
    records = [read_record(home) for home in homes(data)]
    return [record for record in records if record is not None and now - record.made_at > OLD_DAYS * DAY_MS]


def status_of(home: Path) -> TreeStatus:
    """Return the state of a tree.

    Raises:
        UsageError: there is no record of it.
    """
    record = read_record(home)
    if record is None:
        raise UsageError(f"{home} has no record of a tree")
    if not os.path.lexists(record.path):
        return TreeStatus(record, "gone", "its directory is gone")
    if record.problem:
        return TreeStatus(record, "replaced", f"its directory {record.problem}")
    try:
        tree = Tree.open(home, only_looks=True)
    except UsageError as error:
        return TreeStatus(record, "unknown", error.what)
    try:
        os.close(tree.lock())
    except UsageError as error:
        return TreeStatus(record, "used", error.what)
    found = _status(tree)
    is_kept = found.state == "saved" and record.owner == "chat" and not record.left_at
    return TreeStatus(record, "kept", f"{found.text}; its chat goes on in it") if is_kept else found


def remove(home: Path) -> TreeStatus:
    """Remove a tree with its home if the rule allows it; return its state before the removal.

    Refs and branches stay, except the ref of a base that a branch contains anyway. Abandoned trees stay too, with their
    records.
    """
    found = status_of(home)
    if not found.is_removable:
        return found
    if found.state == "saved":
        tree = Tree.open(home, only_looks=True)
        lock = tree.lock()
        try:
            _delete_base(tree)
            remove_directory(tree.path)
        finally:
            os.close(lock)
    _remove_home(home)
    return found


def user_of(path: str) -> int | None:
    """Return the id of a process that works in a directory; None if there is none, or if it is unknown (not Linux)."""
    return next((pid for pid, cwd in _directories() if cwd == path or cwd.startswith(path + os.sep)), None)


def _remove_home(home: Path) -> None:
    """Remove a home, except for abandoned trees and their records."""
    stays = set()
    for file, record in abandoned_records(home).items():
        if os.path.lexists(record.path):
            stays |= {file, Path(record.path)}
    for entry in [*home.iterdir()]:
        if entry not in stays:
            remove_entry(entry)
    if not stays:
        home.rmdir()


def _status(tree: Tree) -> TreeStatus:
    record = tree.record
    if (user := user_of(record.path)) is not None:
        return TreeStatus(record, "used", f"process {user} works in it")
    try:
        found = changes(tree.git)
        junk = junk_in(tree.git, found)
        paths = [path for path in found.paths if path not in tree.copied and path not in junk]
        if paths:
            return TreeStatus(record, "unsaved", f"{_count(paths)} in no ref: {', '.join(paths[:3])}", paths)
        staged = tree.git.text("write-tree")
        listed = tree.repository.git.text("for-each-ref", "--format=%(tree) %(refname)", "refs/penstock", "refs/heads")
    except PenstockError as error:
        return TreeStatus(record, "unknown", error.what)
    refs = [line.split(" ", 1)[1] for line in listed.splitlines() if line.startswith(f"{staged} ")]
    if not refs:
        return TreeStatus(record, "unsaved", "its files are in no ref", ["."])
    if staged == tree.git.tree_of(record.base):
        return TreeStatus(record, "saved", "no changes")
    branch = f"refs/heads/{record.branch}"
    return TreeStatus(record, "saved", f"in {record.branch if branch in refs else refs[0]}")


def _count(paths: list[str]) -> str:
    return "1 file is" if len(paths) == 1 else f"{len(paths):,} files are"


def _directories() -> Iterator[tuple[int, str]]:
    """Yield the visible processes with their working directories (on Linux; elsewhere none)."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdecimal():
            try:
                yield int(name), os.readlink(f"/proc/{name}/cwd")
            except OSError:
                continue  # it has ended, or belongs to somebody else


def _delete_base(tree: Tree) -> None:
    """Delete the ref of the base if a branch contains the base, so that nothing is lost."""
    git = tree.repository.git
    try:
        if git.text("for-each-ref", "--count=1", "--contains", tree.record.base, "refs/heads"):
            git.run("update-ref", "-d", f"{tree.refs}/base", tree.record.base)
    except GitError:
        pass  # somebody deleted or moved it; keeping it costs nothing
