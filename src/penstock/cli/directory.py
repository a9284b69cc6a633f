"""Directory in which the user stands."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError


def current_directory(help: str = "go to another one with cd") -> Path:
    """Return the current directory. `help` is what to do if there is none.

    Raises:
        UsageError: it was removed, or cannot be reached.
    """
    try:
        return Path.cwd()
    except OSError as error:
        what = f"this directory cannot be worked in: {error.strerror}"
        raise UsageError(what, expected="one that is there", help=help) from error
