"""Current directory of the user."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError


def current_directory(help: str = "go to another one with cd") -> Path:
    """Return the current directory. `help` is the advice in the error.

    Raises:
        UsageError: the directory was removed, or cannot be reached.
    """
    try:
        return Path.cwd()
    except OSError as error:
        what = f"this directory cannot be worked in: {error.strerror}"
        raise UsageError(what, expected="one that is there", help=help) from error
