"""Exit statuses of all commands; `docs/exit-status.md` describes them."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes longer to import than `--version` takes to answer
if TYPE_CHECKING:
    from penstock.events import RunEnded

OK = 0
FAILED = 1
"""Status if the agent reported an error, or reported nothing."""
USAGE = 2
CUT_OFF = 3
PROPOSED = 4
"""Status of `penstock doc` if it published a proposal that the user should review."""
LIMIT_REACHED = 5
"""Status of a run that was stopped at `--max-cost`, `--max-turns` or `--max-tokens`."""
ALL_LIMITED = 6
"""Status if all agents of `--fallback` are at their usage limits."""
REFUSED = 7
"""Status of a run that ended well although an action was denied, with `--fail-on-refusal`."""
TIMED_OUT = 124
"""Status of a run that timed out, as in `timeout`."""
NOT_EXECUTABLE = 126
"""Status for a program that exists but cannot be started, as in a shell."""
NOT_INSTALLED = 127
"""Status for a program that is not installed, as in a shell."""
SIGNAL_BASE = 128
"""Base of the statuses for signals: a shell adds the number of the signal that ended the program."""
INTERRUPTED = SIGNAL_BASE + 2
"""Status after SIGINT."""
CLOSED_PIPE = SIGNAL_BASE + 13
"""Status after SIGPIPE."""

OF_OUTCOME = {
    "ok": OK,
    "error": FAILED,
    "empty": FAILED,
    "timed_out": TIMED_OUT,
    "cut_off": CUT_OFF,
    "cancelled": INTERRUPTED,
}
"""Status for each outcome of a run."""


def of_end(ended: RunEnded) -> int:
    """Return the status for the end of a run."""
    if (ended.outcome, ended.cause) == ("cancelled", "budget"):
        return LIMIT_REACHED
    return OF_OUTCOME[ended.outcome]
