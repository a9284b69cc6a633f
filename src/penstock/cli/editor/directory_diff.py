"""Changes of the working directory since the last commit, for people."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import PenstockError
from penstock.repo.git import Git
from penstock.sinks.sanitize import clean_line

SECONDS = 20.0
"""Timeout in seconds for each call of git: a person waits."""
MAX_LINES = 400
"""Lines of the diff that are shown."""
MAX_NEW = 20
"""Number of files that are new to git and are named."""
MAX_READ_CHARS = 2_000_000
"""Characters of a diff that are divided into lines."""

NOT_A_REPOSITORY = 128
"""Exit status of git outside a repository."""


def directory_diff(directory: str) -> str:
    """Return the changes in a directory: a summary, the diff, and the names of files that are new to git.

    The text is not sanitized. It is for `penstock.cli.console.say`, which does that.

    Raises:
        PenstockError: git cannot do it.
    """
    git = Git(Path(directory))
    if git.run("rev-parse", "--is-inside-work-tree", seconds=SECONDS, accepts=(0, NOT_A_REPOSITORY)).status:
        raise PenstockError(f"{directory} is in no git repository, so there is nothing to compare with")
    since = ["HEAD"] if git.commit_of("HEAD") is not None else []
    words = ("--no-color", "--no-ext-diff", "--no-textconv", "--relative", *since, "--", ".")
    stat = _text(git, "diff", "--stat=80", *words)
    diff = _text(git, "diff", *words)
    new = git.run("ls-files", "-o", "--exclude-standard", "-z", "--", ".", seconds=SECONDS).items
    parts = [part for part in (stat, _shortened(diff), _new_files(new)) if part]
    return "\n".join(parts) or "Nothing has changed since the last commit.\n"


def _text(git: Git, *args: str) -> str:
    return git.run(*args, seconds=SECONDS).out.decode("utf-8", "replace")


def _shortened(diff: str) -> str:
    """Return the beginning of a diff, and how much is left out."""
    lines = diff[:MAX_READ_CHARS].splitlines(keepends=True)
    if len(lines) <= MAX_LINES:
        return diff[:MAX_READ_CHARS]
    return f"{''.join(lines[:MAX_LINES])}… and more; all of it: git diff\n"


def _new_files(names: list[str]) -> str:
    if not names:
        return ""
    lines = [f"  {clean_line(name)}\n" for name in names[:MAX_NEW]]
    more = f"  and {len(names) - MAX_NEW:,} more\n" if len(names) > MAX_NEW else ""
    return f"New files, which git does not track yet:\n{''.join(lines)}{more}"
