"""Commits of a tree, and the user's hooks before them.

A commit depends only on its content, parents, author, message and date, so making it again returns the same id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from penstock.config.regular_files import content_of
from penstock.repo.git import LONG_SECONDS, Git
from penstock.repo.repository import Author
from penstock.repo.tree import Tree
from penstock.run.secrets import redacted, redacted_output, secrets_of

HOOK_FAILED = range(1, 128)
"""Exit statuses with which a hook rejects a commit; git itself fails with 128 and above."""

MAX_SUBJECT_CHARS = 72
"""Maximum characters of the first line of a commit message: git tools show no more."""

MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of a commit message that is read after the hooks; people and programs write some thousand."""

_LINE_END = re.compile(r"\r\n?")
_TRAILER = re.compile(r"[A-Za-z0-9-]+: \S")


class Stamp(msgspec.Struct, frozen=True):
    """Author and date of a commit."""

    author: Author
    at: int
    """Time in seconds since 1970."""


class HookResult(msgspec.Struct, frozen=True):
    """Result of the user's hooks."""

    name: str
    """Hook that rejected the commit; empty if all passed or there are none."""
    output: str
    message: str
    """Message of the commit, without secrets; a hook may have changed it."""
    ran: bool = False
    """True if there are hooks, so that files, index and repository may have changed."""

    @property
    def passed(self) -> bool:
        """Return whether the commit may be made."""
        return not self.name


def run_hooks(
    tree: Tree, message: str, seconds: float = LONG_SECONDS, env: Mapping[str, str] | None = None
) -> HookResult:
    """Run the user's `pre-commit` and `commit-msg` hooks in the tree, on its staged changes.

    They may change the index and the message. They see Penstock's git directory, because the agent's cannot be trusted.
    `env` has variables that are added for them.

    Raises:
        GitError: a hook did not end in time, or git failed.
        TreeAbandoned: a hook has replaced the tree.
    """
    folder = tree.repository.hooks()
    file = tree.home / "COMMIT_EDITMSG"
    hooks = {name: words for name, words in _hooks(file).items() if (folder / name).exists()}
    if not hooks:
        return HookResult("", "", message)
    file.write_text(message, encoding="utf-8")
    output = ""
    for name, words in hooks.items():
        try:
            done = tree.git.run(
                *("hook", "run", "--ignore-missing", name, *words),
                hooks=str(folder),
                seconds=seconds,
                env=env,
                accepts=(0, *HOOK_FAILED),
            )
        finally:
            tree.hand_over()  # the hook may have changed anything, also one that was killed
        output += (done.out + done.err).decode("utf-8", "replace")
        if done.status != 0:
            return HookResult(name, _without_secrets(output, env or {}), message, ran=True)
    written = content_of(file, MAX_MESSAGE_BYTES)
    if written is None:
        output += "the file with the message cannot be read: a hook has removed or replaced it, or it is too large\n"
        return HookResult(name, _without_secrets(output, env or {}), message, ran=True)
    message = redacted(_LINE_END.sub("\n", written.decode("utf-8", "replace")))
    return HookResult("", _without_secrets(output, env or {}), message, ran=True)


def _without_secrets(output: str, env: Mapping[str, str]) -> str:
    """Return the output of hooks, which is shown and quoted in prompts, with a note in place of each secret."""
    return redacted_output(output, secrets_of({**os.environ, **env}))


def _hooks(message: Path) -> dict[str, tuple[str, ...]]:
    """Return the hooks of a commit in their order, each with its arguments."""
    return {"pre-commit": (), "commit-msg": ("--", str(message))}


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, stamp: Stamp, *, sign: bool = False) -> str:
    """Make a commit and return its id; the same arguments return the same id unless it is signed.

    Each secret in the message is replaced by a note.
    """
    date = f"@{stamp.at} +0000"
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
    text = redacted(message).encode("utf-8", "replace")
    return git.run("commit-tree", tree, *words, data=text, env=env, seconds=LONG_SECONDS).text


def subject_of(*texts: str) -> str:
    """Return the first line of a commit message: the first line of text in `texts`, without its Markdown marks."""
    for text in texts:
        for line in redacted(text).splitlines():  # before it is cut, since half of a secret would not be recognised
            subject = " ".join(line.strip(" \t#*_>-").split())
            if subject.count("`") == 2 and subject[0] == subject[-1] == "`":
                subject = subject.strip("`")
            if subject and subject.isprintable():
                return subject if len(subject) <= MAX_SUBJECT_CHARS else subject[: MAX_SUBJECT_CHARS - 1].rstrip() + "…"
    return "Work of an agent"


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """Return a message with trailers: after those that it already has, else as its last paragraph."""
    body = message.strip("\n")
    lines = [f"{name}: {value}" for name, value in trailers.items()]
    if not lines:
        return body + "\n"
    last = body.rpartition("\n\n")[2].split("\n") if "\n\n" in body else []
    joint = "\n" if last and all(_TRAILER.match(line) for line in last) else "\n\n"
    return body + joint + "\n".join(lines) + "\n"
