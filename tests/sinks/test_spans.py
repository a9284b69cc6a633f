"""Spans and metrics of runs: all recordings, and what an agent could put into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import events as ev
from penstock.sinks import spans
from penstock.sinks.spans import FAILED, RunSpans
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

SECRET = "a secret of the prompt"


def spans_of(events: list[ev.Event], *, with_content: bool = False) -> RunSpans:
    """The spans of events."""
    made = RunSpans(SECRET, with_content=with_content)
    made.take(events)
    return made


def test_each_recording(recording: Recording) -> None:
    """A span for the run and one for each call, in their order, with the figures of the end."""
    events = feeds.whole(Stream(recording.agent), recording.data)
    made = spans_of(events)
    end = events[-1]
    assert isinstance(end, ev.RunEnded)
    root, *calls = made.spans
    assert made.is_over
    assert root.name == f"invoke_agent {end.agent}"
    assert root.is_error is (end.outcome in FAILED)
    assert ("error.type" in root.attributes) is root.is_error
    assert root.attributes["penstock.outcome"] == end.outcome
    usage = end.usage or ev.Usage()
    assert root.attributes.get("gen_ai.usage.input_tokens") == usage.input_tokens
    assert root.attributes.get("gen_ai.usage.output_tokens") == usage.output_tokens
    called = [event for event in events if isinstance(event, ev.ToolCalled)]
    assert [span.attributes["gen_ai.tool.call.id"] for span in calls] == [call.call_id[:100] for call in called]
    for number, (span, call) in enumerate(zip(calls, called, strict=True), 1):
        assert span.parent is not None
        assert span.parent < number
        assert (span.parent == 0) or made.spans[span.parent].attributes["gen_ai.tool.call.id"] == call.parent
        assert span.end_ms is not None
        assert root.end_ms is not None
        assert 0 <= span.start_ms <= span.end_ms <= root.end_ms
    names = [measure.name for measure in made.measures]
    assert names.count("gen_ai.invoke_agent.duration") == 1
    assert names.count("gen_ai.execute_tool.duration") == len(calls)


@pytest.mark.sample(6)
def test_no_text_without_being_asked_for(recording: Recording) -> None:
    """No attribute has a prompt, a reply, an input or a result; with content they do, and not more than fits."""
    events = feeds.whole(Stream(recording.agent), recording.data)
    silent = spans_of(events)
    allowed = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name", "gen_ai.agent.version",
               "gen_ai.conversation.id", "gen_ai.request.model", "gen_ai.response.finish_reasons",
               "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens",
               "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.reasoning.output_tokens", "penstock.cost_usd",
               "penstock.outcome", "penstock.cause", "error.type", "gen_ai.tool.name", "gen_ai.tool.call.id",
               "gen_ai.tool.type", "penstock.tool.kind", "process.exit.code"}  # fmt: skip
    for span in silent.spans:
        assert {*span.attributes} <= allowed
    assert all({*measure.attributes} <= {*allowed, "gen_ai.token.type"} for measure in silent.measures)
    told = spans_of(events, with_content=True)
    root = told.spans[0].attributes
    assert SECRET in str(root["gen_ai.input.messages"])
    assert [len(span.attributes) for span in told.spans[1:]] > [len(span.attributes) for span in silent.spans[1:]] or (
        len(told.spans) == 1
    )


def event(kind: type, **fields: object) -> ev.Event:
    """An event of an agent."""
    made: ev.Event = kind(agent="claude", **fields)
    return made


def called(id: str, name: str = "Bash", **fields: object) -> ev.Event:
    """A call."""
    return event(ev.ToolCalled, call_id=id, name=name, input={"x": "y"}, title="t", tool_kind="execute", **fields)


def ended(outcome: str = "ok", **fields: object) -> ev.Event:
    """The end of the run."""
    return event(ev.RunEnded, outcome=outcome, reply="", rounds=1, **fields)


def test_a_hostile_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are cut and in one line; calls without end are counted, repeated and unknown ones change nothing."""
    monkeypatch.setattr(spans, "MAX_CALLS", 3)
    made = spans_of([
        called("a", "x" * 5_000 + "\n\x1b[31m", at=5),
        called("a"),
        called("b", parent="a", at=7),
        called("c", parent="nobody"),
        *(called(f"more {number}") for number in range(4)),
        event(ev.ToolReturned, call_id="nobody", text="", is_error=False, complete=True),
        event(ev.ToolReturned, call_id="a", text="", is_error=True, complete=True, at=9),
        event(ev.ToolReturned, call_id="a", text="", is_error=False, complete=True, at=20),
        ended(at=2),
    ])  # fmt: skip
    root, first, second, third = made.spans
    assert len(first.name) < 200
    assert "\n" not in first.name
    assert "\x1b" not in first.name
    assert (second.parent, third.parent) == (1, 0)
    assert (first.start_ms, first.end_ms, first.attributes["error.type"]) == (5, 9, "tool_error")
    assert (second.end_ms, second.attributes["error.type"]) == (20, "cut_off"), "no event says how it ended"
    assert root.end_ms == 20
    assert root.attributes["penstock.tools_without_span"] == 4
    assert not root.is_error


def test_usage_of_several_models() -> None:
    """Tokens are counted by model; without figures of calls, those of the run are."""
    calls = [event(ev.UsageReported, model=model, input_tokens=5, output_tokens=1) for model in ("one", "two", "one")]
    found = [it for it in spans_of([*calls, ended()]).measures if it.name == "gen_ai.client.token.usage"]
    assert [(it.attributes["gen_ai.request.model"], it.attributes["gen_ai.token.type"], it.value) for it in found] == [
        ("one", "input", 10), ("one", "output", 2), ("two", "input", 5), ("two", "output", 1),
    ]  # fmt: skip
    whole = spans_of([ended(usage=ev.Usage(7, 3))]).measures
    assert [it.value for it in whole if it.name == "gen_ai.client.token.usage"] == [7, 3]


@pytest.mark.parametrize("outcome", FAILED)
def test_a_failed_run(outcome: str) -> None:
    """It is an error of its span, by its cause if that is known."""
    assert spans_of([ended(outcome)]).spans[0].attributes["error.type"] == outcome
    assert spans_of([ended(outcome, cause="auth")]).spans[0].attributes["error.type"] == "auth"
