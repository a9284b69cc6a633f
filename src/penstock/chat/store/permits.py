"""Permits: the right of a request, which the store checks where it makes the change.

A check before the change is not enough: the right may end in between. The permit of a request holds for all changes
that the request makes; changes without one are Penstock's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context

from penstock.chat.store.search import Reader

Permit = Callable[[], Reader]
"""Function that returns the person who makes a change, as statements have them.

It raises an error if the person may no longer make it. It is called in any thread, so it does not block, and before
each attempt at the change.
"""

_current: ContextVar[Permit | None] = ContextVar("penstock.permit", default=None)


def current() -> Permit | None:
    """Return the permit of the request that is being handled; None for what Penstock does by itself."""
    return _current.get()


@contextmanager
def acting(permit: Permit | None) -> Iterator[None]:
    """Make the store check this permit at each change inside the context; None: check none."""
    token = _current.set(permit)
    try:
        yield
    finally:
        _current.reset(token)


def outside() -> Context:
    """Return the context of work that a request begins and Penstock continues, so that the permit does not hold."""
    context = copy_context()
    context.run(_current.set, None)
    return context


def check() -> None:
    """Check the permit before something that is not in the store is changed.

    Raises:
        PenstockError: the person may no longer make the change.
    """
    permit = current()
    if permit is not None:
        permit()
