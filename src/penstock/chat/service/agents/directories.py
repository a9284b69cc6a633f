"""Directories below the roots, for people who write the path of one: their names, and the state of their repositories.

Everybody who may begin a chat sees the names, as the roots are for them. Git is run only in a directory that is
trusted: settings of a repository can start programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.chat.errors import Invalid
from penstock.chat.service.agents.workspaces import MAX_PATH_CHARS, Workspaces
from penstock.chat.service.files import is_inside
from penstock.config.regular_files import content_of
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.repo.found_changes import FoundChanges

MAX_SHOWN = 50
"""Directories that are offered at once: more than a person reads."""

MAX_LOOKED_AT = 10_000
"""Entries of a directory that are looked at: a person waits for the answer."""

GIT_SECONDS = 2.0
"""Timeout in seconds for the state of a repository: a person waits for it, and a large one takes longer."""

MAX_HEAD_BYTES = 1024
"""Bytes of the file that names the branch; git's names have at most 255."""

NOT_A_REPOSITORY = 128
"""Exit status of git outside a repository."""

BRANCH = "ref: refs/heads/"


class FoundDirectory(msgspec.Struct, frozen=True):
    """Directory that a new chat can have."""

    path: str
    trusted: bool
    branch: str | None = None
    """Branch that is checked out; None if it is not the top of a git repository, or has none."""


class DirectoryState(msgspec.Struct, frozen=True):
    """State of a directory, before a chat begins there."""

    path: str
    """Path with all links resolved."""
    trusted: bool
    branch: str | None = None
    """Branch that is checked out; None if there is none, or the directory is not in a git repository."""
    changes: int | None = None
    """Files that are changed or new since the last commit; None if the directory is not trusted, or it is unknown."""
    tree: bool = False
    """True if a chat there can have a tree of its own."""


def find(workspaces: Workspaces, typed: str, hidden: Iterable[str] = ()) -> list[FoundDirectory]:
    """Return the directories below the roots that continue a path, those first whose names begin as it ends.

    A path that is not absolute is looked for below each root; an empty one has the roots. Links, and names that begin
    with a dot unless one is typed, are left out, and so is what is in one of the paths `hidden`. It blocks.

    Raises:
        Invalid: no path has this.
    """
    if "\0" in typed or len(typed) > MAX_PATH_CHARS:
        raise Invalid("this cannot be the path of a directory")
    out_of_sight = [os.path.realpath(it) for it in hidden]
    paths = (path for path in _matching(workspaces, typed) if not any(is_inside(path, it) for it in out_of_sight))
    return [FoundDirectory(path, workspaces.is_trusted(Path(path)), _branch(path)) for path in islice(paths, MAX_SHOWN)]


def state_of(workspaces: Workspaces, path: str, compare: Callable[[str], FoundChanges] | None) -> DirectoryState:
    """Return the state of a directory at or below a root. It blocks, for at most some seconds.

    An agent that works there may have changed git's settings. So none of them counts, and those of submodules are not
    read: files are compared as `compare` does it.

    Raises:
        Invalid, OutsideRoots: as `Workspaces.find`.
    """
    real = workspaces.find(path)
    if not workspaces.is_trusted(real):
        return DirectoryState(str(real), False, _branch(str(real)))
    changes = None if compare is None else _changes(compare(str(real)))
    branch = None if changes is None else _git_branch(real)
    return DirectoryState(str(real), True, branch or _branch(str(real)), changes)


def _matching(workspaces: Workspaces, typed: str) -> Iterator[str]:
    roots = [str(root) for root in workspaces.roots]
    if not os.path.isabs(typed):
        if not typed:
            yield from roots
            return
        for root in roots:
            yield from _inside(workspaces, f"{root}/{typed}")
        return
    yield from (root for root in roots if root.casefold().startswith(typed.rstrip("/").casefold()))
    yield from (path for path in _inside(workspaces, typed) if path not in roots)


def _inside(workspaces: Workspaces, path: str) -> list[str]:
    """Return the directories in the parent of a path whose names have its last part, if the parent is below a root."""
    parent, _, part = path.rpartition("/")
    try:
        real = str(workspaces.find(parent or "/"))
        with os.scandir(real) as entries:
            names = [it.name for it in islice(entries, MAX_LOOKED_AT) if it.is_dir(follow_symlinks=False)]
    except (PenstockError, OSError):
        return []
    wanted = part.casefold()
    found = [it for it in names if wanted in it.casefold() and (part[:1] == "." or it[:1] != ".") and it.isprintable()]
    found.sort(key=lambda name: (not name.casefold().startswith(wanted), name.casefold(), name))
    return [os.path.join(real, name) for name in found]


def _branch(path: str) -> str | None:
    """Return the branch of the repository whose top this is, without git. An agent can have replaced any file."""
    data = content_of(f"{path}/.git/HEAD", MAX_HEAD_BYTES)
    if data is None:
        return None
    line = data.decode("utf-8", "replace").rstrip("\n")
    return line.removeprefix(BRANCH) if line.startswith(BRANCH) and line.isprintable() else None


def _changes(compared: FoundChanges) -> int | None:
    try:
        return compared.count()
    finally:
        compared.close()


def _git_branch(path: Path) -> str | None:
    """Return the branch that is checked out in a directory; it may be a part of a repository."""
    from penstock.repo.git import Git  # a server without repositories needs no git

    try:
        words = "symbolic-ref", "--quiet", "--short", "HEAD"
        done = Git(path).run(*words, seconds=GIT_SECONDS, accepts=(0, 1, NOT_A_REPOSITORY))
    except PenstockError:
        return None  # too slow, or no git
    return done.text if done.status == 0 and done.text.isprintable() else None
