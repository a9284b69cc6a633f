"""The final input of a call that has only gained defaults is the streamed one; a real change is still a revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.normalizer.snapshots import adds_defaults
from penstock.events import BlockEnded, BlockRevised, Delta, Event, ToolCalled
from penstock.stream import Stream
from penstock.testing import feeds, verify

EMPTY: list[Any] = [False, None, 0, 0.0, "", [], {}]
SENT = {"file_path": "/a", "edits": [{"old": "x", "new": "y"}], "count": 1, "dry": False}


def called(sent: Any, final: Any, pieces: int = 3) -> tuple[list[Event], Stream]:
    """A call of claude's whose input streams as `sent` and is repeated as `final`."""
    text = json.dumps(sent)
    block = {"type": "tool_use", "id": "c", "name": "Edit", "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for at in range(0, len(text), size := max(1, len(text) // pieces)):
        delta = {"type": "input_json_delta", "partial_json": text[at : at + size]}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    lines: list[dict[str, Any]] = [{"type": "stream_event", "event": event} for event in events]
    lines.append({"type": "assistant", "message": {"id": "m", "content": [{**block, "input": final}]}})
    lines.append({"type": "result", "subtype": "success", "result": "", "num_turns": 1})
    stream = Stream("claude")
    found = feeds.whole(stream, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert verify(found) == []
    return found, stream


@pytest.mark.parametrize("value", EMPTY, ids=repr)
def test_a_default_is_no_change(value: Any) -> None:
    """The block keeps what was streamed, the call has the whole input, and nothing is warned of."""
    final = {**SENT, "replace_all": value, "edits": [{"old": "x", "new": "y", "all": value}]}
    events, stream = called(SENT, final)
    assert not any(isinstance(event, BlockRevised) for event in events)
    [ended] = [event for event in events if isinstance(event, BlockEnded)]
    assert ended.text == json.dumps(SENT) == "".join(event.text for event in events if isinstance(event, Delta))
    assert [event.input for event in events if isinstance(event, ToolCalled)] == [final]
    assert stream.health.warnings == []
    assert stream.health.discontinuities == 0


@pytest.mark.parametrize(
    "final",
    [
        {**SENT, "replace_all": True},
        {**SENT, "limit": 5},
        {**SENT, "mode": "fast"},
        {**SENT, "file_path": "/b"},
        {**SENT, "count": True},
        {**SENT, "count": 0},
        {**SENT, "dry": None},
        {**SENT, "edits": []},
        {**SENT, "edits": [{"old": "x", "new": "y"}, {}]},
        {**SENT, "edits": [{"old": "x", "new": "y", "all": [False]}]},
        {key: value for key, value in SENT.items() if key != "dry"},
        {},
        [SENT],
        "x",
    ],
    ids=repr,
)
def test_a_real_change_is_revised_and_counted(final: Any) -> None:
    """Another value, a member that went away, a list that grew, a new member that says something."""
    events, stream = called(SENT, final)
    [revised] = [event for event in events if isinstance(event, BlockRevised)]
    assert json.loads(revised.text) == final
    assert stream.health.discontinuities == 1
    assert len(stream.health.warnings) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def grown(value: Any, extra: Any) -> Any:
    """A value whose objects, at any depth, have one more member."""
    if isinstance(value, dict):
        return {**{key: grown(inner, extra) for key, inner in value.items()}, "extra": extra}
    return [grown(inner, extra) for inner in value] if isinstance(value, list) else value


@given(JSON, st.sampled_from(EMPTY), JSON.filter(bool))
def test_any_value(value: Any, empty: Any, full: Any) -> None:
    """At any depth a default may be added, and nothing else; a default may not go away."""
    assert adds_defaults(value, value)
    assert adds_defaults(value, grown(value, empty))
    if grown(value, empty) != value:
        assert not adds_defaults(value, grown(value, full))
        assert not adds_defaults(grown(value, empty), value)
