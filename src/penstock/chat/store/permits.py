"""Permits: the right of a request, which the store checks where it reads what a chat holds, or makes a change.

A check before that is not enough: the right may end in between. The permit of a request holds for all that the request
reads and changes; reads and changes without one are Penstock's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import TypeVar

from penstock.chat.store.search import Reader

Item = TypeVar("Item")

Permit = Callable[[], Reader]
"""Function that returns the person who reads or changes something, as statements have them.

It raises an error if the person may no longer do so. It is called in any thread, and before each attempt; it blocks no
longer than the read of a small file.
"""

_current: ContextVar[Permit | None] = ContextVar("penstock.permit", default=None)


def current() -> Permit | None:
    """Return the permit of the request that is being handled; None for what Penstock does by itself."""
    return _current.get()


@contextmanager
def acting(permit: Permit | None) -> Iterator[None]:
    """Make the store check this permit at each read and change inside the context; None: check none."""
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


def each(items: AsyncIterable[Item]) -> AsyncIterator[Item]:
    """Return the same items; each is read under the permit that holds now, also if they are read later."""
    return _each(aiter(items), current())


async def _each(items: AsyncIterator[Item], permit: Permit | None) -> AsyncIterator[Item]:
    while True:
        with acting(permit):
            check()
            try:
                item = await anext(items)
            except StopAsyncIteration:
                return
        yield item


def check() -> None:
    """Check the permit before something that is not in the store is changed.

    Raises:
        PenstockError: the person may no longer make the change.
    """
    permit = current()
    if permit is not None:
        permit()
