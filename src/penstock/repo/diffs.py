"""Differences between commits, for people and for prompts: figures, a table of files, a patch of bounded length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from penstock.core.diffs import from_unified, named
from penstock.events import Change, ChangeKind
from penstock.repo.git import QUICK_SECONDS, Git

PLAIN = "--no-ext-diff", "--no-textconv", "--no-color"
"""Options that stop a diff from starting programs of the repository and from using colours."""


KINDS: Mapping[str, ChangeKind] = {"A": "add", "D": "delete"}
"""Kinds of changes by git's letters; all other letters are updates."""


class Size(msgspec.Struct, frozen=True):
    """Size of a difference. Binary files add no lines."""

    files: int = 0
    added: int = 0
    removed: int = 0

    @property
    def text(self) -> str:
        """Size as a phrase for people."""
        if not self.files:
            return "no changes"
        return f"{self.files} file{'s' if self.files > 1 else ''}, +{self.added} −{self.removed}"


def size_between(git: Git, old: str, new: str) -> Size:
    """Return the size of the difference between two commits or trees."""
    rows = [
        line.split("\t")[:2]
        for line in git.text("diff", *PLAIN, "--no-renames", "--numstat", old, new, "--").split("\n")
        if line
    ]
    added, removed = ([int(row[column]) for row in rows if row[column] != "-"] for column in (0, 1))
    return Size(len(rows), sum(added), sum(removed))


def lines_between(git: Git, old: str, new: str) -> dict[str, tuple[int, int]]:
    """Return the numbers of lines added and removed in each file that differs; both are 0 for a binary file."""
    found = {}
    for item in git.run("diff", *PLAIN, "--no-renames", "--numstat", "-z", old, new, "--").items:
        added, removed, path = item.split("\t", 2)
        found[path] = (0, 0) if added == "-" else (int(added), int(removed))
    return found


def stat_between(git: Git, old: str, new: str, width: int = 80, files: int = 0) -> str:
    """Return a table of the files that differ, as `git diff --stat` prints it, with at most `files` files (0: all)."""
    count = (f"--stat-count={files}",) if files else ()
    return git.text("diff", *PLAIN, f"--stat={width}", *count, old, new, "--")


def paths_between(
    git: Git,
    old: str,
    new: str,
    paths: Sequence[str] = (),
    *,
    seconds: float = QUICK_SECONDS,
    env: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Return the paths that differ, each with `A`, `M`, `D` or `T`. The arguments are those of `changes_between`."""
    words = "--no-renames", "--name-status", "-z"
    items = git.run("diff", *PLAIN, *words, old, new, "--", *paths, seconds=seconds, env=env).items
    return list(zip(items[1::2], items[::2], strict=True))


def changes_between(
    git: Git,
    old: str,
    new: str,
    paths: Sequence[str] = (),
    *,
    seconds: float = QUICK_SECONDS,
    env: Mapping[str, str] | None = None,
) -> list[Change]:
    """Return the changes of the files that differ, in the order of their paths.

    `paths`: the files that are compared, by default all. `seconds`, `env`: timeout of each call, and its variables.
    """
    done = git.run("diff", *PLAIN, "--no-renames", old, new, "--", *paths, seconds=seconds, env=env)
    text = done.out.decode("utf-8", "replace")
    patches = iter(f"\n{text}".split("\ndiff --git ")[1:])
    found = []
    for path, letter in paths_between(git, old, new, paths, seconds=seconds, env=env):
        patch = next(patches, "")
        if letter == "T":  # another type of file: it counts as removed and added
            patch = next(patches, "")
        kind = KINDS.get(letter, "update")
        has_lines = "\n@@" in patch  # a binary or an empty file has none
        found.append(from_unified(path, patch, kind=kind) if has_lines else named(path, kind))
    return found


def patch_between(git: Git, old: str, new: str, max_chars: int) -> str:
    """Return the difference as a patch; a longer one ends with a line that says so."""
    text = git.run("diff", *PLAIN, old, new, "--").out.decode("utf-8", "replace")
    return text if len(text) <= max_chars else text[:max_chars] + f"\n[… {len(text) - max_chars:,} characters more]\n"
