"""Commits of a tree: the user's hooks, the commit itself, and the refs in the user's repository that move to it.

A commit is made of its content, parents, author, message and date alone, so making it again gives the same id. A ref
moves only if it is where its caller last saw it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from penstock.errors import UsageError
from penstock.repo.git import LONG_SECONDS, Git, GitError
from penstock.repo.repository import Author, Repository
from penstock.repo.tree import Tree

HOOK_FAILED = range(1, 128)
"""Exit statuses by which a hook rejects a commit; git itself fails with 128 and above."""

_TRAILER = re.compile(r"[A-Za-z0-9-]+: \S")


class Stamp(msgspec.Struct, frozen=True):
    """Author and date of a commit."""

    author: Author
    at: int
    """Time in seconds since 1970."""


class RefMoved(UsageError):
    """A ref is not where it was last seen: somebody else has moved it."""

    def __init__(self, ref: str, expected: str | None, found: str | None) -> None:
        self.ref = ref
        self.found = found
        super().__init__(
            f"{ref} was moved by somebody else: it is at {found or 'no commit'}",
            expected=expected or "no such ref",
            help="look at both with git log, and put it back or choose another name",
        )


class HookResult(msgspec.Struct, frozen=True):
    """Result of the user's hooks."""

    name: str
    """Hook that decided; empty if all passed or there are none."""
    output: str
    message: str
    """Message of the commit, which a hook may have changed."""

    @property
    def passed(self) -> bool:
        """Return whether the commit may be made."""
        return not self.name


def run_hooks(tree: Tree, message: str, seconds: float = LONG_SECONDS) -> HookResult:
    """Run the user's `pre-commit` and `commit-msg` hooks in the tree, over its staged changes.

    They may change the index and the message. They see Penstock's git directory, as the agent's may be anything.

    Raises:
        GitError: a hook did not end in time, or git failed.
    """
    file = tree.home / "COMMIT_EDITMSG"
    file.write_text(message, encoding="utf-8")
    output = ""
    for words in (["pre-commit"], ["commit-msg", "--", str(file)]):
        name, *more = words
        done = tree.git.run(
            *("hook", "run", "--ignore-missing", name, *more),
            hooks=str(tree.repository.hooks()),
            seconds=seconds,
            accepts=(0, *HOOK_FAILED),
        )
        output += (done.out + done.err).decode("utf-8", "replace")
        if done.status != 0:
            return HookResult(name, output, message)
    return HookResult("", output, file.read_text(encoding="utf-8", errors="replace"))


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, stamp: Stamp, *, sign: bool = False) -> str:
    """Make a commit and return its id; the same arguments give the same id unless it is signed."""
    date = f"{stamp.at} +0000"
    env = {
        "GIT_AUTHOR_NAME": stamp.author.name,
        "GIT_AUTHOR_EMAIL": stamp.author.email,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": stamp.author.name,
        "GIT_COMMITTER_EMAIL": stamp.author.email,
        "GIT_COMMITTER_DATE": date,
    }
    words = [word for parent in parents for word in ("-p", parent)]
    words += ["-S"] if sign else ["--no-gpg-sign"]
    text = message.encode("utf-8", "replace")
    return git.run(
        "-c", "i18n.commitEncoding=utf-8", "commit-tree", tree, *words, data=text, env=env, seconds=LONG_SECONDS
    ).text


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """Return a message with trailers: after those that it has, else as its last paragraph."""
    body = message.strip("\n")
    lines = [f"{name}: {value}" for name, value in trailers.items()]
    if not lines:
        return body + "\n"
    last = body.rpartition("\n\n")[2].split("\n") if "\n\n" in body else []
    joint = "\n" if last and all(_TRAILER.match(line) for line in last) else "\n\n"
    return body + joint + "\n".join(lines) + "\n"


def set_ref(repository: Repository, ref: str, new: str, old: str | None = None) -> None:
    """Move a ref from `old` (None: it does not exist) to `new`; one that is at `new` already is left there.

    Raises:
        RefMoved: it is elsewhere.
        GitError: git could not move it.
    """
    git = repository.git
    try:
        git.run("update-ref", "--no-deref", ref, new, old or "0" * len(new))
    except GitError:
        found = git.run("rev-parse", "--verify", "--quiet", ref, accepts=(0, 1)).text or None
        if found == new:
            return
        if found == old:
            raise
        raise RefMoved(ref, old, found) from None


def delete_ref(repository: Repository, ref: str, old: str) -> None:
    """Delete a ref that is at `old`."""
    repository.git.run("update-ref", "-d", ref, old)


def free_branch(repository: Repository, name: str) -> str:
    """Return the branch for a tree's result: `penstock/NAME`, or `penstock-NAME` if a branch `penstock` is in the way.

    Raises:
        UsageError: the branch exists, or the name cannot be that of a branch.
    """
    git = repository.git
    is_blocked = git.commit_of("refs/heads/penstock") is not None
    branch = f"penstock-{name}" if is_blocked else f"penstock/{name}"
    if git.run("check-ref-format", f"refs/heads/{branch}", accepts=(0, 1)).status != 0:
        raise UsageError(f"{name!r} cannot be part of the name of a branch", expected="letters, digits and dashes")
    if git.text("for-each-ref", f"refs/heads/{branch}", f"refs/heads/{branch}/"):
        raise UsageError(f"the branch {branch} exists already", help=f"choose another name, or git branch -D {branch}")
    return branch


def checked_out_at(repository: Repository, branch: str) -> str | None:
    """Return the checkout that uses a branch, or that rebases or bisects it; None if there is none."""
    path = ""
    for item in repository.git.text("worktree", "list", "--porcelain", "-z").split("\0"):
        key, _, value = item.partition(" ")
        if key == "worktree":
            path = value
        elif key == "branch" and value == f"refs/heads/{branch}":
            return path
    folders = [repository.common, *(repository.common / "worktrees").glob("*")]
    for folder in folders:
        for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
            if _first_line(folder / name) in (branch, f"refs/heads/{branch}"):
                return str(folder)
    return None


def publish(repository: Repository, branch: str, new: str, old: str | None) -> str | None:
    """Move the branch of a result, unless a checkout uses it; return that checkout then.

    Moving a branch that is checked out would show its user all changes in reverse.

    Raises:
        RefMoved: somebody else has moved it.
        GitError: git could not move it.
    """
    place = checked_out_at(repository, branch)
    if place is None:
        set_ref(repository, f"refs/heads/{branch}", new, old)
    return place


def _first_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").partition("\n")[0]
    except OSError:
        return ""
