"""A run that is made of updates, and the parts of its events that tests compare."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from penstock import updates as up
from penstock.core.normalizer.normalizer import Normalizer
from penstock.events import BlockEnded, Event, RunEnded
from penstock.testing import verify

T = TypeVar("T", bound=Event)


def run_of(*updates: up.Update, traits: up.Traits | None = None) -> list[Event]:
    """The events of a run of these updates, which keep the grammar."""
    normalizer = Normalizer("test", traits or up.Traits())
    for update in updates:
        normalizer.apply(update)
    normalizer.close()
    return checked(normalizer)


def checked(normalizer: Normalizer) -> list[Event]:
    """The events of a run that has ended, which keep the grammar."""
    events = normalizer.drain()
    assert verify(events) == []
    return events


def of_type(events: list[Event], kind: type[T]) -> list[T]:
    """The events of one type."""
    return [event for event in events if isinstance(event, kind)]


def names(events: list[Event]) -> list[str]:
    """The types of the events, in their order."""
    return [type(event).__name__ for event in events]


def texts(events: list[Event]) -> list[str]:
    """The text of each block at its end."""
    return [event.text for event in of_type(events, BlockEnded)]


def ended(events: list[Event]) -> RunEnded:
    """The end of the run."""
    last = events[-1]
    assert isinstance(last, RunEnded)
    return last


def text(words: str, mode: up.Mode = "delta", place: up.Place = None, message: str | None = None) -> up.Text:
    """Text of the model."""
    return up.Text("text", mode, words, place, message)


def no_failure(event: object, error: Exception) -> NoReturn:
    """Raise the error of reading an event, in a test in which none fails."""
    raise error
