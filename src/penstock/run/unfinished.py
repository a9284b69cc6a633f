"""Programs that git starts when a rebase, a cherry-pick or a revert is continued.

Git keeps the steps that are left in its directory: a step of a rebase can be a command of a shell, and the name of a
strategy can lead to a program among the files. All else in these directories starts nothing: the other files of a
rebase, `git am` and `git bisect` have only names, numbers and texts of commits.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Collection, Iterator

from penstock.config.regular_files import content_of

TODO = "rebase-merge/git-rebase-todo"
STRATEGY = "rebase-merge/strategy"
OPTIONS = "sequencer/opts"
FILES = (TODO, STRATEGY, OPTIONS)
"""Files of a git directory from which git takes a program when an operation is continued."""
MAX_BYTES = 4 << 20
"""Bytes of such a file that are read: a rebase of ten thousand commits has a quarter of it."""
UNREADABLE = b"\0"
"""Stands for a file that is too large, or not a file: git may read more of it than Penstock."""

_STEPS = frozenset(
    b"p pick r reword e edit s squash f fixup b break d drop l label t reset m merge u update-ref noop".split()
)
"""Words of steps that start no program."""
_STRATEGY = rb"(?:ort|recursive|resolve|octopus|ours|subtree)?"
_NAME = re.compile(rb"\s*" + _STRATEGY + rb"\s*")
_OPTION = re.compile(
    rb"\s*(?:\[options\]"
    rb"|(?:no-commit|edit|signoff|record-origin|allow-ff|mainline|default-msg-cleanup) = [\w-]+"
    rb"|(?:allow-empty|allow-empty-message|drop-redundant-commits|keep-redundant-commits|allow-rerere-auto) = \w+"
    rb"|strategy-option = [\w=:.%-]+|gpg-sign = [^\\\"]*|strategy = " + _STRATEGY + rb")?\s*"
)


def commands_before(top: str) -> tuple[str, ...]:
    """Return digests of the lines that start programs, in the repository of a directory and in its worktrees."""
    git = os.path.join(top, ".git")
    places = (git, *glob.glob(os.path.join(glob.escape(git), "worktrees", "*")))
    return tuple(sorted({_digest(line) for place in places for path in files_of(place) for line in _obeyed(path)}))


def files_of(git: str) -> Iterator[str]:
    """Yield the files that a git directory has of an unfinished operation; of a directory that is a link, the link."""
    for name in FILES:
        path = os.path.join(git, name)
        folder = os.path.dirname(path)
        if os.path.islink(folder):
            yield folder
        elif os.path.lexists(path):
            yield path


def starts_program(path: str, before: Collection[str]) -> bool:
    """Return whether a file or link of `files_of` starts a program that is not one of those before."""
    return any(_digest(line) not in before for line in _obeyed(path))


def harmless_part(path: str, moved: str, before: Collection[str]) -> bytes | None:
    """Return the steps of a rebase that start no program, or one of those before; None if the file has none.

    `path`: the place of the file; `moved`: the place where it is now.
    """
    content = content_of(moved, MAX_BYTES) if path.endswith(f"{os.sep}{TODO}") else None
    if content is None:
        return None
    return b"\n".join(line for line in content.split(b"\n") if _is_step(line) or _digest(line) in before)


def _obeyed(path: str) -> list[bytes]:
    content = content_of(path, MAX_BYTES)
    if content is None:
        return [UNREADABLE]
    if path.endswith(f"{os.sep}{TODO}"):
        return [line for line in content.split(b"\n") if not _is_step(line)]
    form = _NAME if path.endswith(f"{os.sep}{STRATEGY}") else _OPTION
    return [line for line in content.split(b"\n") if not form.fullmatch(line)]


def _is_step(line: bytes) -> bool:
    """Return whether a line of a rebase is a step without a program, a comment, or nothing."""
    words = line.split(maxsplit=1)
    return not words or words[0] in _STEPS or not words[0][:1].isalpha()


def _digest(line: bytes) -> str:
    return hashlib.sha256(line.strip()).hexdigest()
