"""Words about retries."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from penstock.core.causes import CAUSES, retry_text
from penstock.events import Cause, Notice


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        (
            {"attempt": 2, "max_attempts": 10, "wait_ms": 4000, "cause": "overloaded"},
            "retry 2 of 10, in 4.0 s: the provider is overloaded: busy",
        ),
        ({"attempt": 2, "wait_ms": 17_512}, "retry 2, in 18 s: busy"),
        ({"attempt": 3}, "retry 3: busy"),
        ({"attempt": 3, "text": ""}, "retry 3"),
        ({"wait_ms": 4000}, "busy"),
        ({"attempt": 1, "code": "error"}, "busy"),
    ],
)
def test_a_retry_has_its_attempt_and_its_wait(fields: dict[str, Any], shown: str) -> None:
    """What is not known is left out; a notice that is not a retry, or has no attempt, is its text."""
    notice = Notice(**{"agent": "a", "level": "warning", "code": "retry", "text": "busy", **fields})
    assert retry_text(notice, notice.text) == shown


def test_every_cause_has_words() -> None:
    """No cause is without words for people."""
    assert set(CAUSES) == set(get_args(Cause))
