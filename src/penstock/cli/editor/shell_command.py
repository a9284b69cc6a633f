"""Commands of the shell that the user runs in a conversation, as at any other prompt."""

from __future__ import annotations

import os
import signal
import subprocess

from penstock.cli.console import say
from penstock.errors import UsageError


def run_shell(command: str, directory: str) -> None:
    """Run a command of the user's shell in the terminal. Ctrl-C ends it, and not the conversation.

    Raises:
        UsageError: there is no command, or the shell cannot be started.
    """
    if not command.strip():
        raise UsageError("there is no command", expected="! with a command of the shell")
    shell = os.environ.get("SHELL") or "/bin/sh"
    # A handler, and not SIG_IGN, which the command would inherit.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        status = subprocess.run([shell, "-c", command], cwd=directory, check=False).returncode
    except OSError as error:
        raise UsageError(f"{shell} cannot be started: {error.strerror}") from error
    finally:
        signal.signal(signal.SIGINT, before)
    if status:
        say(f"exit {status}\n" if status > 0 else f"ended by {signal.Signals(-status).name}\n")
