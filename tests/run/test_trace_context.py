"""`traceparent` and `tracestate`: what W3C's grammar allows is taken, and all else is as if it were not there."""

from __future__ import annotations

import random

import pytest

from penstock.run.trace_context import TraceContext, of_environment, parsed

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


def test_what_is_valid() -> None:
    """Flags of later versions and their further fields are skipped."""
    assert parsed(GOOD) == TraceContext(TRACE, SPAN, True)
    assert parsed(f"00-{TRACE}-{SPAN}-00") == TraceContext(TRACE, SPAN, False)
    assert parsed(f" {GOOD}\t") == parsed(GOOD)
    assert parsed(f"cc-{TRACE}-{SPAN}-03-what-the-future-will-be-like") == parsed(GOOD)
    assert parsed(GOOD, "a=1, b@c=2 ,,") == TraceContext(TRACE, SPAN, True, "a=1,b@c=2")
    assert of_environment({"TRACEPARENT": GOOD, "TRACESTATE": "a=b"}) == TraceContext(TRACE, SPAN, True, "a=b")
    found = parsed(GOOD, "a=1")
    assert found is not None
    assert found.headers() == {"traceparent": GOOD, "tracestate": "a=1"}


BAD = [
    "", "00", GOOD[:-1], f"{GOOD}-more", f"{GOOD} {GOOD}", f"ff-{TRACE}-{SPAN}-01",
    GOOD.upper(), GOOD.replace("-", "_"),
    f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE[:-1]}g-{SPAN}-01", f"0-{TRACE}-{SPAN}-01",
    f"cc-{TRACE}-{SPAN}-01more", f"cc-{TRACE}-{SPAN}-01-{'x' * 300}", f"cc-{TRACE}-{SPAN}-01-\n", "٠٠" + GOOD[2:],
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_is_not(text: str) -> None:
    """It is no trace at all, never half of one."""
    assert parsed(text) is None


@pytest.mark.parametrize(
    "state", ["a", "A=1", "a=1,a=2", "a=\n", "a=" + "x" * 600, ",".join(f"k{n}=1" for n in range(33)), "é=1", "a=1;b=é"]
)
def test_a_state_that_is_not_valid(state: str) -> None:
    """It is left out, and the trace is kept."""
    assert parsed(GOOD, state) == parsed(GOOD)


def test_random_text() -> None:
    """Nothing raises, and nothing else than a trace comes of it."""
    chance = random.Random(5)
    for _ in range(5_000):
        words = [*GOOD]
        for _ in range(chance.randrange(1, 4)):
            words[chance.randrange(len(words))] = chance.choice("0f-gA \n\0é")
        found = parsed("".join(words), "".join(chance.choice("a=,@- \n\0é") for _ in range(20)))
        assert found is None or (len(found.trace_id), len(found.span_id)) == (32, 16)
