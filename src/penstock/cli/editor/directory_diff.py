"""Changes of the working directory since the last commit, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from penstock.cli.changes import painted_hunks
from penstock.errors import PenstockError
from penstock.repo.git import Git, check_common_directory
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text.styles import Palette, painted

SECONDS = 20.0
"""Timeout in seconds for each call of git: a person waits."""
MAX_LINES = 400
"""Lines of the diff that are shown."""
STAT_COLUMNS = 80
"""Maximum columns of the summary."""
MAX_NEW = 20
"""Number of files that are new to git and are named."""
MAX_READ_CHARS = 2_000_000
"""Characters of a diff that are divided into lines."""

NOT_A_REPOSITORY = 128
"""Exit status of git outside a repository."""


def directory_diff(directory: str, colours: Palette, width: int = STAT_COLUMNS) -> str:
    """Return the changes in a directory, sanitized: a summary, the diff, and the names of files that are new to git.

    `width`: columns of the terminal, in which the lines of the summary fit.

    Raises:
        PenstockError: git cannot do it.
    """
    git = Git(Path(directory))
    words: tuple[str, ...] = ("--path-format=absolute", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    done = git.run("rev-parse", *words, seconds=SECONDS, accepts=(0, NOT_A_REPOSITORY))
    if done.status:
        raise PenstockError(f"{directory} is in no git repository, so there is nothing to compare with")
    check_common_directory(*done.text.split("\n")[:3])
    since = ["HEAD"] if git.commit_of("HEAD") is not None else []
    # The files of submodules are not looked at: an agent can have made the settings by which git would do it.
    safe = "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"
    words = (*safe, "--relative", *since, "--", ".")
    stat = _text(git, "diff", f"--stat={min(width, STAT_COLUMNS)}", *words)
    diff = _text(git, "diff", *words)
    new = git.run("ls-files", "-o", "--exclude-standard", "-z", "--", ".", seconds=SECONDS).items
    parts = [part for part in (clean(stat), _painted(_shortened(diff), colours), _new_files(new)) if part]
    return "\n".join(parts) or "Nothing has changed since the last commit.\n"


def _text(git: Git, *args: str) -> str:
    return git.run(*args, seconds=SECONDS).out.decode("utf-8", "replace")


def _shortened(diff: str) -> str:
    """Return the beginning of a diff, and how much is left out."""
    lines = diff[:MAX_READ_CHARS].splitlines(keepends=True)
    if len(lines) <= MAX_LINES:
        return diff[:MAX_READ_CHARS]
    return f"{''.join(lines[:MAX_LINES])}… and more; all of it: git diff\n"


def _painted(diff: str, colours: Palette) -> str:
    """Return a diff of git with colours."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    painted_lines: list[str] = []
    for is_head, together in groupby(_with_heads(lines), key=itemgetter(0)):
        part = [line.removesuffix("\r") for _, line in together]
        if is_head:
            painted_lines += [painted(colours, "name", clean_line(line)) for line in part]
        else:
            painted_lines += painted_hunks(part, colours)
    return "".join(f"{line}\n" for line in painted_lines)


def _with_heads(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Yield each line, and whether it is above the hunks of a file, where `---` and `+++` are its names."""
    is_head = True
    for line in lines:
        is_head = line.startswith("diff --git ") or (is_head and not line.startswith("@@"))
        yield is_head, line


def _new_files(names: list[str]) -> str:
    if not names:
        return ""
    lines = [f"  {clean_line(name)}\n" for name in names[:MAX_NEW]]
    more = f"  and {len(names) - MAX_NEW:,} more\n" if len(names) > MAX_NEW else ""
    return f"New files, which git does not track yet:\n{''.join(lines)}{more}"
