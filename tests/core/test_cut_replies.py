"""A reply that the model could not finish is kept, and is no success, on each wire that says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.normalizer.outcome import limit_of
from penstock.events import Event, Replied, RunEnded
from penstock.stream import Stream
from penstock.testing import feeds, verify

LIMIT = "the model stopped at its output limit"
Line = dict[str, Any]


def claude(text: str, id: str = "m1", stop: str = "max_tokens", lane: str | None = None) -> list[Line]:
    """A message of claude's with partial messages."""
    start = {"type": "message_start", "message": {"id": id, "content": []}}
    events: list[Line] = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    ]
    whole = {"type": "assistant", "message": {"id": id, "content": [{"type": "text", "text": text}]}}
    last = {"type": "message_delta", "delta": {"stop_reason": stop}}
    lines = [{"type": "stream_event", "event": event} for event in events] + [whole]
    lines.append({"type": "stream_event", "event": last})
    return [{**line, "parent_tool_use_id": lane} for line in lines]


def result(text: str, **fields: Any) -> Line:
    """The end of a run of claude's."""
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, "num_turns": 1, **fields}


def step(kind: str, message: str = "m", **part: Any) -> Line:
    """A line of opencode's."""
    return {"type": kind, "sessionID": "s", "part": {"id": f"{kind}-{message}", "messageID": message, **part}}


def pi(text: str, stop: str) -> list[Line]:
    """A message of pi's, and its end."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": stop}
    return [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "message_end", "message": message},
        {"type": "agent_end", "messages": [message]},
    ]


def served(kind: str, **properties: Any) -> Line:
    """An event of opencode's server."""
    return {"event": {"type": kind, "properties": {"sessionID": "s", **properties}}}


def part(kind: str, **fields: Any) -> Line:
    """A part of a message of opencode's server."""
    return served("message.part.updated", part={"id": kind, "messageID": "m", "sessionID": "s", "type": kind, **fields})


def acp(stop: str) -> list[Line]:
    """A turn over ACP."""
    text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Half a rep"}}
    return [
        {"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "peer"}}},
        {"id": 1, "result": {"sessionId": "s"}},
        {"method": "session/update", "params": {"sessionId": "s", "update": text}},
        {"id": 2, "result": {"stopReason": stop}},
    ]


CUT: dict[str, tuple[str, list[Line]]] = {
    "claude": ("claude", [*claude("Half a rep"), result("Half a rep")]),
    "claude, without partial messages": (
        "claude",
        [claude("Half a rep")[3], result("Half a rep", stop_reason="max_tokens")],
    ),
    "ccs": ("ccs", [*claude("Half a rep"), result("Half a rep")]),
    "pi": ("pi", pi("Half a rep", "length")),
    "opencode": (
        "opencode",
        [step("step_start"), step("text", text="Half a rep"), step("step_finish", reason="length")],
    ),
    "opencode/server": (
        "opencode/server",
        [
            served("session.status", status={"type": "busy"}),
            part("step-start"),
            part("text", text="Half a rep", time={"start": 1, "end": 2}),
            part("step-finish", reason="length"),
            served("session.idle"),
        ],
    ),
    "ollama": (
        "ollama",
        [
            {"model": "m", "message": {"role": "assistant", "content": "Half a rep"}, "done": False},
            {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "length"},
        ],
    ),
    "acp": ("acp", acp("max_tokens")),
    "generic": (
        "generic",
        [
            {"choices": [{"index": 0, "delta": {"content": "Half a rep"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
        ],
    ),
    "generic, at the end": (
        "generic",
        [
            {"type": "text", "text": "Half a rep"},
            {"type": "result", "response": "Half a rep", "finishReason": "MAX_TOKENS"},
        ],
    ),
}


def read(agent: str, lines: list[Line]) -> list[Event]:
    """The events of these lines, which keep the contract."""
    events = feeds.whole(Stream(agent), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert verify(events) == []
    return events


def end(agent: str, lines: list[Line]) -> tuple[str, str, str | None]:
    """How a run ends: outcome, reply, reason."""
    last = read(agent, lines)[-1]
    assert isinstance(last, RunEnded)
    return last.outcome, last.reply, last.reason


@pytest.mark.parametrize(("agent", "lines"), CUT.values(), ids=CUT)
def test_a_cut_reply_is_no_success(agent: str, lines: list[Line]) -> None:
    """One reason for all agents; `replied` says it too."""
    assert end(agent, lines) == ("error", "Half a rep", LIMIT)
    assert all(event.is_error for event in read(agent, lines) if isinstance(event, Replied))


def test_an_agent_that_goes_on_by_itself() -> None:
    """Only the last model call counts. What came before it is joined as the model wrote it."""
    lines = [*claude("Half a rep"), *claude("ly.", "m2", "end_turn"), result("ly.")]
    assert end("claude", lines) == ("ok", "Half a reply.", None)
    begun = [step("step_start"), step("text", text="Half"), step("step_finish", reason="length")]
    more = [step("step_start", "n"), step("text", "n", text="Whole."), step("step_finish", "n", reason="stop")]
    assert end("opencode", [*begun, *more]) == ("ok", "Whole.", None)


def test_what_goes_on_in_another_message() -> None:
    """Only the text after the limit goes on: not what follows a result, a call, or a message that ended by itself."""
    third = [*claude("Half a"), *claude(" rep", "m2"), *claude("ly.", "m3", "end_turn"), result("ly.")]
    assert end("claude", third) == ("ok", "Half a reply.", None)
    ended = [*claude("One.", "m1", "end_turn"), *claude("Two.", "m2", "end_turn"), result("Two.")]
    assert end("claude", ended) == ("ok", "One.\n\nTwo.", None)
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}
    returned = {"type": "tool_result", "tool_use_id": "c", "content": "a file"}
    worked = [
        *claude("Half a"),
        {"type": "assistant", "message": {"id": "m1", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [returned]}},
        *claude("Whole.", "m2", "end_turn"),
        result("Whole."),
    ]
    assert end("claude", worked) == ("ok", "Whole.", None)


def test_the_limit_of_a_sub_agent() -> None:
    """It is not that of the run."""
    call = {"type": "tool_use", "id": "c", "name": "Agent", "input": {"prompt": "go"}}
    returned = {"type": "tool_result", "tool_use_id": "c", "content": "Half of it"}
    lines = [
        {"type": "assistant", "message": {"id": "m0", "content": [call]}},
        *claude("Half of", "s1", lane="c"),
        {"type": "user", "message": {"role": "user", "content": [returned]}},
        *claude("Done.", "m2", "end_turn"),
        result("Done."),
    ]
    assert end("claude", lines) == ("ok", "Done.", None)


def test_the_agents_own_words_stay() -> None:
    """An agent that makes an error of it says more than we could; without words, the limit is the reason."""
    said = "API Error: Claude's response exceeded the 64000 output token maximum."
    assert end("claude", [*claude("Half a rep"), result(said, is_error=True)]) == ("error", "Half a rep", said)
    assert end("acp", acp("max_output_tokens"))[2] == LIMIT


def test_an_attempt_that_was_given_up() -> None:
    """Its stop reason is given up with it."""
    again = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 2, "errorMessage": "again"}
    assert end("pi", [*pi("Half", "error"), again, *pi("Whole.", "stop")]) == ("ok", "Whole.", None)


def test_nothing_but_thoughts_up_to_the_limit() -> None:
    """A model that thinks up to its limit has said nothing: that is the limit, and not an agent without words."""
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "Hm"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "length"},
    ]
    assert end("ollama", lines) == ("error", "", LIMIT)


@pytest.mark.parametrize(
    "reason", ["length", "max_tokens", "MAX_TOKENS", "maxTokens", "max_output_tokens", "max-tokens"]
)
def test_words_for_the_limit(reason: str) -> None:
    """Whatever way it is written."""
    defect = limit_of(reason)
    assert defect is not None
    assert (defect.text, defect.cause) == (LIMIT, "length")


@pytest.mark.parametrize("reason", [None, "", "stop", "end_turn", "tool_use", "content_filter", "STOP", "lengthy", "7"])
def test_words_for_another_end(reason: str | None) -> None:
    """Nothing else is taken for it."""
    assert limit_of(reason) is None


def test_the_window_of_the_model() -> None:
    """A reply that filled the model's context is cut off as well."""
    lines = [*claude("Half a rep", stop="model_context_window_exceeded"), result("Half a rep")]
    assert end("claude", lines) == ("error", "Half a rep", "the model stopped at the limit of its context")


OLLAMA = [
    {"model": "m", "message": {"role": "assistant", "content": "First."}, "done": True, "done_reason": "stop"},
    {"model": "m", "message": {"role": "assistant", "content": "Sec"}, "done": False},
]
STOP: Line = {"type": "stream_event", "event": {"type": "message_stop"}, "parent_tool_use_id": None}


@pytest.mark.parametrize(
    ("agent", "lines", "outcome", "reply"),
    [
        ("ollama", OLLAMA, "cut_off", "Sec"),
        ("ollama", OLLAMA[:1], "ok", "First."),
        ("claude", [*claude("One.", stop="end_turn"), STOP, result("One."), *claude("Tw", "m2")[:3]], "cut_off", "Tw"),
        ("claude", [*claude("One.", stop="end_turn"), STOP, result("One."), *claude("Tw", "m2")[:1]], "ok", "One."),
        # A wire that has reported no end of a message shows no cut.
        ("claude", [*claude("One.")[:4], result("One."), *claude("Two", "m2")[:3]], "ok", "Two"),
    ],
)
def test_a_message_after_the_answer_that_has_no_end(agent: str, lines: list[Line], outcome: str, reply: str) -> None:
    """Its stream was cut off: what was to follow is the reply, and the earlier end is none."""
    stream = Stream(agent)
    events = stream.feed(b"".join(json.dumps(line).encode() + b"\n" for line in lines)) + stream.close()
    assert verify(events) == []
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reply) == (outcome, reply)
