"""Entries: who caused them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.chat.history.entries import (
    OWNER,
    Answered,
    Edited,
    Moved,
    Prompted,
    Released,
    SentNow,
    SteerRequested,
    StopRequested,
    decode_one,
    encode,
)


@pytest.mark.parametrize(
    "entry",
    [
        Prompted(1, "hi"),
        StopRequested(1),
        Released(1),
        SentNow(1),
        SteerRequested(2, 1),
        Edited(1, "ho"),
        Moved([2, 1]),
        Answered(1, "q", "yes"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_an_entry_has_its_person(entry: Any) -> None:
    """What a person does has the owner, who is not written, or another person, who is."""
    (data,) = encode([entry])
    assert b"person" not in data.replace(b'"by":"person"', b"")
    assert decode_one(data).person == OWNER  # type: ignore[union-attr]
    (data,) = encode([replace(entry, person="ana")])
    assert b'"person":"ana"' in data
    assert decode_one(data) == replace(entry, person="ana")
