"""Values of a type that a reader does not know: it leaves them out, and the health of the stream counts them.

Readers are functions of one value and know no stream, so they note a value here, in the context of the call. The stream
takes the notes after it has read. Nothing is done for a value that fits.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

MAX_NAMES = 64
"""Maximum number of names that are kept until a stream takes them."""

_TYPES = {str: "a text", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


_noted: ContextVar[dict[str, int] | None] = ContextVar("misfits", default=None)
"""Notes of this context that no stream has taken: each thread has another one."""


def note(name: str) -> None:
    """Note that the value of this name was left out."""
    names = _noted.get()
    if names is None:
        _noted.set(names := {})
    if name in names or len(names) < MAX_NAMES:
        names[name] = names.get(name, 0) + 1


def note_type(value: Any, expected: str) -> None:
    """Note a value without a name by its type and the expected one. An absent value (None) is no news."""
    if value is not None:
        note(f"{_TYPES.get(type(value), 'a value')} for {expected}")


def take() -> dict[str, int]:
    """Return how often each name was noted since the last call."""
    names = _noted.get()
    if names is None:
        return {}
    _noted.set(None)
    return names
