"""Errors, named by whose fault they are.

::

    PenstockError
    ├── UsageError          the caller's: a flag, a name, a file, a value
    │   ├── UnknownAgent    no agent of that name
    │   └── ConfigError     a configuration that was asked for and cannot be used
    ├── AgentError          the agent's: it broke the format that it promised (raised in strict mode only)
    └── TransportError      the way between: a process, a pipe, a file that fails while it is used

Trouble inside a stream is a value (`malformed`, `unknown`, `notice`) and raises nothing; see `docs/contract.md`.
Any other exception out of Penstock is a bug in Penstock.
"""

from __future__ import annotations

from collections.abc import Iterable


class PenstockError(Exception):
    """What happened, what was expected, and the way out; each a phrase without a full stop.

    `str()` gives the three as one line.
    """

    def __init__(self, what: str, *, expected: str = "", way_out: str = "") -> None:
        self.what = what
        self.expected = expected
        self.way_out = way_out
        super().__init__(what)

    def __str__(self) -> str:
        expected = f"expected {self.expected}" if self.expected else ""
        return "; ".join(part for part in (self.what, expected, self.way_out) if part)


class UsageError(PenstockError):
    """The caller asked for something that cannot be done as asked."""


class UnknownAgent(UsageError):
    """No agent of that name is known, built in or by entry point."""

    def __init__(self, name: str, known: Iterable[str] = (), why: str = "") -> None:
        """`why`: an agent of that name is there, but cannot be used."""
        self.name = name
        self.known = sorted(known)
        if why:
            super().__init__(f"the agent {name!r} cannot be used: {why}", way_out="look at the package that brings it")
            return
        guess = nearest(name, self.known)
        super().__init__(
            f"there is no agent {name!r}",
            expected=("one of " + ", ".join(self.known)) if self.known else "",
            way_out=f"did you mean {guess!r}?"
            if guess
            else "an agent of no known kind is read with the name 'generic'",
        )


class ConfigError(UsageError):
    """A configuration that was named by hand cannot be read. Mistakes inside a file are warnings, not errors."""


class AgentError(PenstockError):
    """The agent broke its own format. Raised in strict mode only."""


class TransportError(PenstockError):
    """A process, a pipe or a file failed while it was used."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None where nothing is near."""
    from difflib import get_close_matches  # only a mistake needs it

    found = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None
