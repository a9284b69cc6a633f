"""The exit statuses of all commands; `docs/exit-status.md` describes them."""

from __future__ import annotations

OK = 0
FAILED = 1
"""The agent reported an error, or nothing."""
USAGE = 2
CUT_OFF = 3
TIMED_OUT = 124
"""As `timeout` has it."""
NOT_EXECUTABLE = 126
"""As a shell has it, for a program that is there and cannot be started."""
NOT_INSTALLED = 127
"""As a shell has it."""
SIGNAL_BASE = 128
"""A shell's status for a program that a signal ended is this and the signal's number."""
INTERRUPTED = SIGNAL_BASE + 2
"""By SIGINT."""
CLOSED_PIPE = SIGNAL_BASE + 13
"""By SIGPIPE."""

OF_OUTCOME = {
    "ok": OK,
    "error": FAILED,
    "empty": FAILED,
    "timed_out": TIMED_OUT,
    "cut_off": CUT_OFF,
    "cancelled": INTERRUPTED,
}
"""The status for each outcome of a run."""
