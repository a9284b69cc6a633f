"""Errors, named by their cause: the caller, the agent, or the connection between.

::

    PenstockError
    ├── UsageError          the caller's: a flag, a name, a file, a value
    │   ├── UnknownAgent    no agent of that name
    │   ├── AgentNotFound   the agent's program is not installed, or cannot be executed
    │   └── ConfigError     a configuration that was requested and cannot be used
    ├── AgentError          the agent's: it broke the format that it promised (raised in strict mode only)
    │   └── AgentFailed     a run did not end well
    └── TransportError      the connection between: a process, a pipe, a file that fails while it is used

A problem inside a stream is a value (`malformed`, `unknown`, `notice`) and raises nothing; see `docs/contract.md`.
Any other exception from Penstock is a bug in Penstock.
"""

from __future__ import annotations

from collections.abc import Iterable

TYPE_CHECKING = False  # the real one comes with half of the standard library
if TYPE_CHECKING:
    from typing import Any

    from penstock.events import Cause, Outcome

MAX_SHOWN_CHARS = 60
"""Characters of a wrong value that an error shows: enough to recognize it."""


class PenstockError(Exception):
    """Error in three parts: what is wrong, what was expected, and help; each a phrase without a full stop.

    `str()` returns the three as one line.
    """

    def __init__(self, what: str, *, expected: str = "", help: str = "") -> None:
        self.what = what
        self.expected = expected
        self.help = help
        super().__init__(what)

    @property
    def parts(self) -> list[str]:
        """The parts that the error has, in words."""
        expected = f"expected {self.expected}" if self.expected else ""
        return [part for part in (self.what, expected, self.help) if part]

    def __str__(self) -> str:
        return "; ".join(self.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a copy is made, for pickle and copy: without `__init__`, whose arguments differ by class."""
        return _copied, (type(self), self.args, self.__dict__)


def _copied(kind: type[PenstockError], args: tuple[object, ...], facts: dict[str, object]) -> PenstockError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class UsageError(PenstockError):
    """The caller asked for something that cannot be done as asked."""


class UnknownAgent(UsageError):
    """No agent of that name is known, built in or by entry point."""

    def __init__(self, name: str, known: Iterable[str] = (), why: str = "") -> None:
        """Create the error. `why`: reason why an agent of that name exists, but cannot be used."""
        self.name = name
        self.known: list[str] = sorted(known)
        if why:
            super().__init__(
                f"the agent {shown(name)} cannot be used: {why}", help="look at the package that brings it"
            )
            return
        guess = nearest(name, self.known)
        super().__init__(
            f"there is no agent {shown(name)}",
            expected=("one of " + ", ".join(self.known)) if self.known else "",
            help=f"did you mean {guess!r}?" if guess else "an agent of no known kind is read with the name 'generic'",
        )


class AgentNotFound(UsageError):
    """The agent's program does not exist, or is not a program. Nothing was started."""

    def __init__(self, agent: str, program: str, install: str = "", why: str = "") -> None:
        """Create the error. `install`: how it is installed. `why`: reason why it exists but cannot be executed."""
        self.agent = agent
        self.program = program
        self.executable: bool = not why
        """False if the program was found and cannot be executed."""
        what = (
            f"{agent} cannot be started: {why}"
            if why
            else f"{agent} is not installed: there is no {shown(program)} in PATH"
        )
        super().__init__(what, help="make it executable" if why else f"install it: {install}" if install else "")


class ConfigError(UsageError):
    """A configuration that the user named cannot be read. Mistakes inside a file are warnings, not errors."""


class AgentError(PenstockError):
    """The agent broke its own format. Raised in strict mode only."""


class AgentFailed(AgentError):
    """A run that did not end well, with all known facts about it.

    Attributes:
        agent: its label.
        outcome: as in `run_ended`: `error`, `cancelled`, `timed_out`, `cut_off`, `empty`.
        reason: reason of the end, if known.
        cause: as in `run_ended`: `usage_limit`, `auth` and others; None if unknown.
        resets_at: time at which the limit resets, in milliseconds since 1970; None if unknown.
        exit_status: exit status of the process; negative for the signal that killed it; None if it never started or
            its end is not known.
        stderr: last lines that the agent wrote to stderr.
        session_id: id of the conversation, if known; pass it to resume.
        reply: the part of its reply that the agent had written.
    """

    def __init__(
        self,
        agent: str,
        outcome: Outcome,
        reason: str | None = None,
        *,
        cause: Cause | None = None,
        resets_at: int | None = None,
        exit_status: int | None = None,
        stderr: str = "",
        session_id: str | None = None,
        reply: str = "",
    ) -> None:
        self.agent = agent
        self.outcome: Outcome = outcome
        self.reason = reason
        self.cause: Cause | None = cause
        self.resets_at = resets_at
        self.exit_status = exit_status
        self.stderr = stderr
        self.session_id = session_id
        self.reply = reply
        super().__init__(f"{agent}: {outcome.replace('_', ' ')}" + (f": {reason}" if reason else ""))


class TransportError(PenstockError):
    """A process, a pipe or a file failed while it was used."""


def shown(value: object) -> str:
    """Return any value as Python writes it, shortened."""
    import reprlib  # only a mistake needs it

    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = MAX_SHOWN_CHARS
    return short.repr(value)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; None if no known word is similar."""
    from difflib import get_close_matches  # only a mistake needs it

    found = get_close_matches(word.lower()[:MAX_SHOWN_CHARS], list(known), n=1, cutoff=0.6)
    return found[0] if found else None
