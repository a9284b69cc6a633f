from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import adapter_harness
import pytest

from penstock import events as ev
from penstock import updates as up
from penstock.agents.claude.exec import Claude
from penstock.core.normalizer.outcome import Exit
from penstock.stream import Stream
from penstock.testing.verify import verify

read = partial(adapter_harness.read, Claude)


Line = dict[str, Any]


class Run:
    """What a stream of lines comes to, verified, however it is cut."""

    def __init__(self, lines: Iterable[Line], agent: str = "claude", exit: Exit | None = None) -> None:
        data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
        self.stream = Stream(agent, strict=True)
        self.events = self.stream.feed(data) + self.stream.close(exit)
        assert verify(self.events) == []
        again = Stream(agent, strict=True)
        pieces = [event for start in range(0, len(data), 7) for event in again.feed(data[start : start + 7])]
        assert pieces + again.close(exit) == self.events

    def of(self, *kinds: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def end(self) -> ev.RunEnded:
        return next(event for event in self.events if isinstance(event, ev.RunEnded))

    @property
    def blocks(self) -> list[tuple[str, str, bool]]:
        """Kind, text and completeness of each block of the top lane but calls' input."""
        ended = {event.block: event for event in self.of(ev.BlockEnded) if event.parent is None}
        late = {event.block: event.text for event in self.of(ev.BlockRevised)}
        order = [event.block for event in self.of(ev.BlockStarted) if event.block in ended]
        return [
            (ended[n].kind, late.get(n, ended[n].text), ended[n].complete)
            for n in order
            if ended[n].kind != "tool_input"
        ]

    @property
    def notices(self) -> list[str]:
        return [event.code for event in self.of(ev.Notice)]

    @property
    def unknown(self) -> list[str | None]:
        return [event.wire_type for event in self.of(ev.Unknown)]

    @property
    def ended_as(self) -> tuple[str, str, str | None]:
        return self.end.outcome, self.end.reply, self.end.reason


INIT: Line = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "model": "m",
    "cwd": "/w",
    "tools": ["Task", "Bash"],
}


def api(kind: str, parent: str | None = None, **fields: Any) -> Line:
    """One event of the API."""
    return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": parent}


def begin(message: str) -> Line:
    """A message starts."""
    return api("message_start", message={"id": message, "model": "m", "content": [], "usage": {"input_tokens": 5}})


def start(index: int, kind: str = "text", **fields: Any) -> Line:
    """A block starts."""
    given = fields or ({"text": ""} if kind == "text" else {"thinking": "", "signature": ""})
    return api("content_block_start", index=index, content_block={"type": kind, **given})


def delta(index: int, text: str, kind: str = "text") -> Line:
    """New text of a block."""
    key = {"text": "text", "thinking": "thinking", "input_json": "partial_json"}[kind]
    return api("content_block_delta", index=index, delta={"type": f"{kind}_delta", key: text})


def stop(index: int = 0) -> Line:
    """A block stops."""
    return api("content_block_stop", index=index)


def whole(message: str | None, *content: Line, parent: str | None = None, **fields: Any) -> Line:
    """A line with blocks of a message."""
    named = {"id": message} if message else {}
    body = {**named, "model": "m", "content": list(content), "stop_reason": None}
    return {"type": "assistant", "message": body, "parent_tool_use_id": parent, **fields}


def text(value: str) -> Line:
    """A block of text."""
    return {"type": "text", "text": value}


def thinking(value: str) -> Line:
    """A block of thinking."""
    return {"type": "thinking", "thinking": value, "signature": "x"}


def use(call_id: str, name: str, value: Any) -> Line:
    """A call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": value}


def done(reason: str | None = "end_turn") -> list[Line]:
    """How the API ends a message."""
    return [api("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 3}), api("message_stop")]


def abandoned(message: str, start_at: int) -> Line:
    """How the CLI gives blocks of a message up."""
    return api("message_stop", abandoned_blocks={"api_message_id": message, "from_block_index": start_at})


def user(content: Any, parent: str | None = None, **fields: Any) -> Line:
    """A line in the user's role."""
    return {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": parent, **fields}


def returned(call_id: str, content: Any, **fields: Any) -> Line:
    """A call's result."""
    return user([{"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}])


def result(reply: str | None, **fields: Any) -> Line:
    """The end of an answer."""
    given = {"subtype": "success", "is_error": False, "num_turns": 1, "session_id": "s", **fields}
    return {"type": "result", **given, **({"result": reply} if reply is not None else {})}


def message(name: str, value: str, pieces: int = 3, reason: str = "end_turn") -> list[Line]:
    """A message of one text, streamed and whole."""
    size = max(1, -(-len(value) // pieces))
    cut = [delta(0, value[at : at + size]) for at in range(0, len(value), size)]
    return [begin(name), start(0), *cut, whole(name, text(value)), stop(), *done(reason)]


RETRY: Line = {
    "type": "system",
    "subtype": "api_retry",
    "attempt": 1,
    "max_retries": 2,
    "retry_delay_ms": 500.5,
    "error_status": None,
    "error": "overloaded",
}
API_ERROR = "API Error: 529 Overloaded"
SYNTHETIC: Line = {
    "type": "assistant",
    "message": {"id": "u", "model": "<synthetic>", "content": [text(API_ERROR)]},
    "error": "overloaded",
}
FAILED: Line = result(API_ERROR, is_error=True, api_error_status=529)


# --- errors in mid-stream ---


def test_an_abandoned_message_is_taken_back() -> None:
    """Blocks from 0 on: the deltas' block is not complete, its message superseded, the reply without it."""
    broken = [begin("m1"), start(0), delta(0, "This reply will "), delta(0, "break mid"), stop(), abandoned("m1", 0)]
    run = Run([INIT, *broken, RETRY, *message("m2", "The right one."), result("The right one.")])
    assert run.blocks == [("text", "This reply will break mid", False), ("text", "The right one.", True)]
    assert [event.status for event in run.of(ev.MessageEnded)] == ["superseded", "ok"]
    assert run.ended_as == ("ok", "The right one.", None)
    assert run.end.rounds == 1
    assert run.notices == ["retry"]
    assert run.stream.health.superseded_attempts == 1


def test_blocks_before_the_abandoned_ones_stay() -> None:
    """Blocks from 1 on: block 0 has its whole line and stays, and the text that goes on counts as well."""
    kept = [begin("m1"), start(0), delta(0, "First half"), whole("m1", text("First half")), stop(), abandoned("m1", 1)]
    go_on = user([text("Please go on.")], isSynthetic=True)
    run = Run([INIT, *kept, go_on, *message("m2", "second half"), result("second half")])
    assert run.blocks == [("text", "First half", True), ("text", "second half", True)]
    assert run.ended_as == ("ok", "First half\n\nsecond half", None)
    assert run.end.rounds == 1


def test_only_the_later_blocks_are_given_up() -> None:
    """Thinking that has its whole line stays, the text after it, which has none, is taken back; so is a call."""
    first = [begin("m1"), start(0, "thinking"), delta(0, "Hm", "thinking"), whole("m1", thinking("Hm")), stop()]
    lost = [start(1), delta(1, "gone"), stop(1), start(2, "tool_use", id="t9", name="Bash", input={})]
    lost += [delta(2, '{"command":"rm"}', "input_json"), stop(2), abandoned("m1", 1)]
    run = Run([INIT, *first, *lost, *message("m2", "Right."), result("Right.")])
    assert run.blocks == [("thinking", "Hm", True), ("text", "gone", False), ("text", "Right.", True)]
    assert run.of(ev.ToolCalled) == []
    assert run.ended_as == ("ok", "Right.", None)


def test_all_attempts_fail() -> None:
    """Retries used up: each attempt is superseded, the synthetic message is a notice, the outcome error."""
    lines: list[Line] = [INIT]
    for name in ("m1", "m2"):
        lines += [begin(name), start(0), delta(0, "This reply"), stop(), abandoned(name, 0), RETRY]
    run = Run([*lines, SYNTHETIC, FAILED], exit=Exit(1))
    assert run.ended_as == ("error", "", API_ERROR)
    assert run.notices == ["retry", "retry", "error"]
    assert run.stream.health.superseded_attempts == 2


def test_interrupted_by_sigint_in_the_newer_order() -> None:
    """Whole line, user line, stop, delta, abandoned stop: cancelled, and the text so far is kept."""
    lines = [INIT, begin("m1"), start(0), delta(0, "tick 0 "), delta(0, "tick 1 "), whole("m1", text("tick 0 tick 1 "))]
    lines += [user([text("[Request interrupted by user]")]), stop(), api("message_delta", delta={"stop_reason": None})]
    ended = result(None, subtype="error_during_execution", terminal_reason="aborted_streaming", errors=["aborted"])
    run = Run([*lines, abandoned("m1", 0), ended])
    assert run.blocks == [("text", "tick 0 tick 1 ", True)]
    assert run.ended_as == ("cancelled", "tick 0 tick 1 ", "aborted")


def test_interrupted_by_sigint_in_the_older_order() -> None:
    """The older version leaves the block open: it is cut, the text kept, the outcome cancelled."""
    lines = [INIT, begin("m1"), start(0), delta(0, "tick 0 "), user([text("[Request interrupted by user]")])]
    ended = result(None, subtype="error_during_execution", terminal_reason="aborted_streaming", errors=[])
    run = Run([*lines, ended])
    assert run.blocks == [("text", "tick 0 ", False)]
    assert run.end.outcome == "cancelled"
    assert run.end.reply == "tick 0 "


def test_interrupted_inside_a_tool() -> None:
    """The open call returns with its error; nothing is left open."""
    call = [
        begin("m1"),
        start(0, "tool_use", id="t1", name="Bash", input={}),
        delta(0, '{"command":"sleep 9"}', "input_json"),
    ]
    call += [whole("m1", use("t1", "Bash", {"command": "sleep 9"})), stop(), *done("tool_use")]
    ended = result(None, subtype="error_during_execution", terminal_reason="aborted_tools", errors=["x"])
    run = Run([INIT, *call, user([text("[Request interrupted by user for tool use]")]), ended], exit=Exit(1))
    assert [(event.call_id, event.complete) for event in run.of(ev.ToolReturned)] == [("t1", False)]
    assert run.end.outcome == "cancelled"


def test_a_broken_stream_of_the_older_version() -> None:
    """The broken text comes as a normal whole line with no stop; then the synthetic one: error, text kept."""
    lines = [
        INIT,
        begin("m1"),
        start(0),
        delta(0, "This reply will "),
        delta(0, "break"),
        whole("m1", text("This reply will break")),
    ]
    run = Run([*lines, SYNTHETIC, FAILED], exit=Exit(1))
    assert run.blocks == [("text", "This reply will break", True)]
    assert run.ended_as == ("error", "This reply will break", API_ERROR)
    assert API_ERROR not in "".join(event.text for event in run.of(ev.Delta))


def test_four_answers_that_hit_the_token_limit() -> None:
    """Each answer goes on with the one before, and is a block of its own: nothing is taken for a repeat."""
    answers = [line for n in range(4) for line in message(f"m{n}", "Partial text", reason="max_tokens")]
    run = Run([INIT, *answers, SYNTHETIC, FAILED], exit=Exit(1))
    assert run.blocks == [("text", "Partial text", True)] * 4
    assert [event.stop_reason for event in run.of(ev.MessageEnded)] == ["max_tokens"] * 4
    assert run.ended_as == ("error", "Partial text" * 4, API_ERROR)


def test_an_empty_answer() -> None:
    """No text at all, also after the CLI asked again, is an outcome of its own."""
    again = [begin("m1"), *done(), user([text("(no content)")], isSynthetic=True), begin("m2"), *done()]
    run = Run([INIT, *again, result("")])
    assert run.ended_as == ("empty", "", "the agent ended without saying anything")
    assert run.of(ev.BlockStarted) == []


def test_a_refusal() -> None:
    """The CLI's notice of a refusal is no model text."""
    refused = {"type": "system", "subtype": "model_refusal_no_fallback", "content": "declined", "original_model": "m"}
    lines = [INIT, begin("m1"), *done("refusal"), refused, {**SYNTHETIC, "error": "invalid_request"}, FAILED]
    run = Run(lines, exit=Exit(1))
    assert run.notices == ["refusal", "error"]
    assert run.ended_as == ("error", "", API_ERROR)


# --- results ---


@pytest.mark.parametrize("is_error", [True, False])
def test_too_many_turns(is_error: bool) -> None:
    """A run that ended at its own limit of turns was cancelled, whatever `is_error` says; its text stays."""
    ended = result(None, subtype="error_max_turns", is_error=is_error, errors=["Reached maximum number of turns (1)"])
    run = Run([INIT, *message("m1", "I will look."), ended], exit=Exit(1))
    assert run.ended_as == ("cancelled", "I will look.", "stopped: the run came to turn 2, the limit is 1")
    assert run.end.cause == "budget"


@pytest.mark.parametrize(
    ("errors", "cost", "reason"),
    [
        (["Reached maximum budget ($0.3)"], 0.3125, "stopped: the run cost $0.31, the limit is $0.30"),
        (["Reached maximum budget ($0.3)"], None, "Reached maximum budget ($0.3)"),
        (["Reached maximum budget ($1.2.3)"], 0.5, "Reached maximum budget ($1.2.3)"),
        (["Out of money"], 0.5, "Out of money"),
        (None, 0.5, "error max budget usd"),
    ],
)
def test_too_much_money(errors: list[str] | None, cost: float | None, reason: str) -> None:
    """A run that ended at its own limit of cost was cancelled; its reason has the figure and the limit, if known."""
    ended = result(None, subtype="error_max_budget_usd", is_error=True, errors=errors, total_cost_usd=cost)
    run = Run([INIT, *message("m1", "I will look."), ended], exit=Exit(1))
    assert run.ended_as == ("cancelled", "I will look.", reason)
    assert run.end.cause == "budget"


def test_an_unknown_session() -> None:
    """One result with no init before it: error, with its errors and the session id that was asked for."""
    said = "No conversation found with session ID: nope"
    run = Run(
        [result(None, subtype="error_during_execution", is_error=True, errors=[said], session_id="nope")], exit=Exit(1)
    )
    assert run.ended_as == ("error", "", said)
    assert run.end.session_id == "nope"


def test_an_error_subtype_without_words() -> None:
    """The reason is then what the subtype says."""
    [update] = read(result(None, subtype="error_max_budget_usd"))
    assert isinstance(update, up.Result)
    assert (update.is_error, update.reason) == (True, "error max budget usd")


def test_hooks_come_before_the_start() -> None:
    """A hook's start is silent, its answer a notice; neither hides the session."""
    hooks: list[Line] = [
        {"type": "system", "subtype": "hook_started", "hook_id": "h", "hook_name": "SessionStart:startup"},
        {"type": "system", "subtype": "hook_response", "hook_name": "Stop", "outcome": "success", "exit_code": 0},
        {
            "type": "system",
            "subtype": "hook_response",
            "hook_name": "Stop",
            "outcome": "error",
            "stderr": "no\n",
            "exit_code": 2,
        },
    ]
    run = Run([*hooks, INIT, *message("m1", "Hi"), result("Hi")])
    assert [(event.level, event.text) for event in run.of(ev.Notice)] == [
        ("info", "hook Stop ran"),
        ("warning", "hook Stop failed: no"),
    ]
    assert run.of(ev.RunStarted)[0].session_id == "s"


def test_several_turns_of_one_process() -> None:
    """Each turn starts with an init; each result tells the reply of its own turn."""
    run = Run([INIT, *message("m1", "Done."), result("Done."), INIT, *message("m2", "Done."), result("Done.")])
    assert [event.reply for event in run.of(ev.Replied)] == ["Done.", "Done."]
    assert run.blocks == [("text", "Done.", True)] * 2
    assert len(run.of(ev.RunStarted)) == 1
    assert run.ended_as == ("ok", "Done.", None)
    assert run.end.rounds == 2


def test_background_work_answers_later() -> None:
    """A second result with new text is a second reply, and the last one is the run's."""
    note = {"type": "system", "subtype": "task_notification", "task_id": "b", "status": "completed", "summary": "built"}
    run = Run(
        [
            INIT,
            *message("m1", "It runs."),
            result("It runs."),
            note,
            note,
            *message("m2", "It is built."),
            result("It is built."),
        ]
    )
    assert [event.reply for event in run.of(ev.Replied)] == ["It runs.", "It is built."]
    assert run.ended_as == ("ok", "It is built.", None)


def test_an_error_result_after_the_answer_changes_nothing() -> None:
    """The first end stands, the second one is noted."""
    run = Run(
        [
            INIT,
            *message("m1", "Fine."),
            result("Fine."),
            result(None, subtype="error_during_execution", errors=["late"]),
        ]
    )
    assert run.ended_as == ("ok", "Fine.", None)
    assert [(event.code, event.level, event.text) for event in run.of(ev.Notice)] == [("result", "warning", "late")]
    assert len(run.of(ev.Replied)) == 1


def test_a_result_of_an_older_task_before_the_turn() -> None:
    """A resumed session may first report a background task of the last turn: that is no answer."""
    early = result("", num_turns=0, origin={"kind": "task-notification"})
    run = Run([INIT, early, *message("m1", "Hello."), result("Hello.", origin={"kind": "human"})])
    assert [event.reply for event in run.of(ev.Replied)] == ["Hello."]
    assert run.notices == ["result"]
    assert run.ended_as == ("ok", "Hello.", None)


def test_an_empty_result_before_the_turn() -> None:
    """Also one that does not say whose it is does not decide the outcome."""
    run = Run([INIT, result("", num_turns=0), *message("m1", "Hello."), result("Hello.")])
    assert run.ended_as == ("ok", "Hello.", None)


def test_a_slash_command() -> None:
    """Its output is a result without a turn; what the CLI says in the model's place is no block."""
    said = {"type": "assistant", "message": {"id": "u", "model": "<synthetic>", "content": [text("Total cost: $0")]}}
    run = Run([INIT, said, result("Total cost: $0", num_turns=0)])
    assert run.ended_as == ("ok", "Total cost: $0", None)
    assert run.notices == ["status"]
    assert run.of(ev.BlockStarted) == []


def test_a_slash_command_that_speaks_in_the_users_role() -> None:
    """Its output is told, though no block."""
    said = user("<local-command-stdout>Compacted. ctrl+r for more</local-command-stdout>", isReplay=True)
    run = Run([INIT, said, result("", num_turns=0)])
    assert [(event.code, event.text) for event in run.of(ev.Notice)] == [("status", "Compacted. ctrl+r for more")]
    assert run.end.outcome == "empty"


def test_compaction() -> None:
    """The summary is in the user's role and no text of the model."""
    lines: list[Line] = [INIT, {"type": "system", "subtype": "status", "status": "compacting"}]
    lines += [{"type": "system", "subtype": "status", "status": None, "compact_result": "success"}]
    lines += [
        {
            "type": "system",
            "subtype": "compact_boundary",
            "compact_metadata": {"trigger": "manual", "pre_tokens": 900, "post_tokens": 80},
        },
        user("This session is being continued. Summary: long", isSynthetic=True),
    ]
    run = Run([*lines, *message("m1", "On we go."), result("On we go.")])
    assert [event.text for event in run.of(ev.Notice)] == [
        "compacting the conversation",
        "conversation compacted: 900 tokens to 80",
    ]
    assert run.blocks == [("text", "On we go.", True)]


def test_structured_output() -> None:
    """The object that was asked for is the reply where the result has no text, and the model's text where it has."""
    [update] = read(result("", structured_output={"ok": True}))
    assert isinstance(update, up.Result)
    assert update.reply == '{"ok":true}'
    call = [whole("m1", use("t1", "StructuredOutput", {"ok": True})), returned("t1", "Structured output provided")]
    run = Run(
        [
            INIT,
            *call,
            user("You must call it.", isSynthetic=True),
            result('{"ok":true}', structured_output={"ok": True}),
        ]
    )
    assert run.ended_as == ("ok", '{"ok":true}', None)


# --- blocks ---


def both(
    content: list[tuple[Line, list[Line]]], name: str = "m1", reason: str = "end_turn"
) -> tuple[list[Line], list[Line]]:
    """A message with and without partial messages: of each block its line, and what streams before it."""
    streamed, plain = [begin(name)], []
    for index, (block, pieces) in enumerate(content):
        streamed += [*pieces, whole(name, block), stop(index)]
        plain.append(whole(name, block))
    return [*streamed, *done(reason)], plain


def said(run: Run) -> tuple[Any, ...]:
    """What must not depend on partial messages."""
    calls = [(event.call_id, event.name, event.input, event.title) for event in run.of(ev.ToolCalled)]
    returns = [(event.call_id, event.text, event.is_error) for event in run.of(ev.ToolReturned)]
    return run.blocks, calls, returns, run.ended_as, run.end.rounds


def test_interleaved_thinking_is_told_in_order() -> None:
    """Several texts in one message: all are the reply, though the result has the last one only."""
    parts = [("thinking", "One"), ("text", "First. "), ("thinking", "Two"), ("text", "Second.")]
    content = [
        (
            thinking(value) if kind == "thinking" else text(value),
            [start(n, kind), delta(n, value[:2], kind), delta(n, value[2:], kind)],
        )
        for n, (kind, value) in enumerate(parts)
    ]
    streamed, plain = (Run([INIT, *lines, result("Second.")]) for lines in both(content))
    assert streamed.blocks == [(kind, value, True) for kind, value in parts]
    assert streamed.ended_as == ("ok", "First. Second.", None)
    assert said(streamed) == said(plain)


def test_a_block_that_is_never_repeated_whole() -> None:
    """A blank text that the CLI leaves out does not take the line of the next one."""
    lines = [begin("m1"), start(0), delta(0, "\n\n"), stop(0), start(1, "thinking"), delta(1, "Hm", "thinking")]
    lines += [
        whole("m1", thinking("Hm")),
        stop(1),
        start(2),
        delta(2, "Hel"),
        delta(2, "lo"),
        whole("m1", text("Hello")),
        stop(2),
    ]
    run = Run([INIT, *lines, *done(), result("Hello")])
    assert run.blocks == [("text", "\n\n", True), ("thinking", "Hm", True), ("text", "Hello", True)]
    assert run.of(ev.BlockRevised) == []


def test_two_messages_that_say_the_same() -> None:
    """Identity is the message's id, never its text."""
    call = [whole("m2", use("t1", "Bash", {"command": "true"})), returned("t1", "")]
    run = Run([INIT, *message("m1", "Done."), *call, *message("m3", "Done."), result("Done.")])
    assert run.blocks == [("text", "Done.", True)] * 2
    assert run.ended_as == ("ok", "Done.", None)


def test_web_search_at_the_provider() -> None:
    """The call and its result stand inside one message, and the text around them is one reply."""
    hits = [{"type": "web_search_result", "title": "Dams", "url": "http://a/", "encrypted_content": "x"}]
    query = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "penstock"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": hits}
    call = [
        start(1, "server_tool_use", id="srv1", name="web_search", input={}),
        delta(1, '{"query": "penstock"}', "input_json"),
    ]
    content = [
        (text("I search. "), [start(0), delta(0, "I search. ")]),
        (query, call),
        (found, [start(2, "web_search_tool_result", tool_use_id="srv1", content=hits)]),
        (text("It is a pipe."), [start(3), delta(3, "It is"), delta(3, " a pipe.")]),
    ]
    streamed, plain = (Run([INIT, *lines, result("It is a pipe.")]) for lines in both(content))
    assert [(event.name, event.input) for event in streamed.of(ev.ToolCalled)] == [
        ("web_search", {"query": "penstock"})
    ]
    assert [(event.text, event.is_error) for event in streamed.of(ev.ToolReturned)] == [("Dams http://a/", False)]
    assert streamed.ended_as == ("ok", "I search. It is a pipe.", None)
    assert said(streamed) == said(plain)


def test_web_search_that_fails() -> None:
    """Its error is an object with a code."""
    failed = {
        "type": "web_search_tool_result",
        "tool_use_id": "srv1",
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    }
    [update] = read(whole("m1", failed))
    assert update == up.ToolReturn("srv1", "max_uses_exceeded", True)


def test_calls_are_the_same_with_and_without_partial_messages() -> None:
    """Blocks, calls with their input (none, too), results and reply agree."""
    first: Line = {"command": "ls", "timeout": 1.0, "x": "é\u2028"}
    second: Line = {}
    content = [
        (thinking("Hm"), [start(0, "thinking"), delta(0, "H", "thinking"), delta(0, "m", "thinking")]),
        (text("Look."), [start(1), delta(1, "Look.")]),
        (
            use("t1", "Bash", first),
            [start(2, "tool_use", id="t1", name="Bash", input={}), delta(2, json.dumps(first), "input_json")],
        ),
        (use("t2", "Ping", second), [start(3, "tool_use", id="t2", name="Ping", input={}), delta(3, "", "input_json")]),
    ]
    tail = [returned("t1", "a\nb"), returned("t2", "ok", is_error=False)]
    runs = []
    for lines, last in zip(
        both(content, reason="tool_use"), (message("m2", "Bye."), [whole("m2", text("Bye."))]), strict=True
    ):
        runs.append(Run([INIT, *lines, *tail, *last, result("Bye.")]))
    assert said(runs[0]) == said(runs[1])
    assert [event.input for event in runs[0].of(ev.ToolCalled)] == [first, second]
    assert runs[0].end.rounds == 2


def test_results_between_the_calls_of_one_message() -> None:
    """A tool may return before the next block of its message: it stays one message and one round."""
    early = [
        whole("m1", use("t1", "Read", {"file_path": "a"})),
        returned("t1", "A"),
        whole("m1", text("And ")),
        whole("m1", text("more.")),
    ]
    streamed = [
        begin("m1"),
        start(0, "tool_use", id="t1", name="Read", input={}),
        delta(0, '{"file_path":"a"}', "input_json"),
        early[0],
    ]
    streamed += [
        stop(0),
        early[1],
        start(1),
        delta(1, "And "),
        early[2],
        stop(1),
        start(2),
        delta(2, "more."),
        early[3],
        stop(2),
        *done(),
    ]
    plain, partial = Run([INIT, *early, result("more.")]), Run([INIT, *streamed, result("more.")])
    assert said(plain) == said(partial)
    assert plain.ended_as == ("ok", "And more.", None)
    assert plain.end.rounds == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", "plain"),
        ([text("a"), text("b")], "a\nb"),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}],
            "[image image/png]",
        ),
        (
            [text("see"), {"type": "document", "source": {"media_type": "application/pdf"}}],
            "see\n[document application/pdf]",
        ),
        (None, ""),
        ([], ""),
        ({"type": "text", "text": "one"}, "one"),
    ],
)
def test_contents_of_tool_results(content: Any, expected: str) -> None:
    """A text, a list of blocks, one block, nothing; pictures are named."""
    assert read(returned("t1", content)) == [up.ToolReturn("t1", expected)]


def test_failed_tools() -> None:
    """Only `is_error: true` fails; the shell's exit code is read where it is told."""
    assert read(returned("t1", "Exit code 3\nout", is_error=True)) == [up.ToolReturn("t1", "out", True, 3)]
    assert read(returned("t1", "Exit code 3", is_error=None)) == [up.ToolReturn("t1", "Exit code 3")]
    denied = "Claude requested permissions to write to /x, but you haven't granted it yet."
    assert read(returned("t1", denied, is_error=True)) == [up.ToolReturn("t1", denied, True)]


def test_a_denied_tool_is_no_failed_run() -> None:
    """The run goes on and ends well."""
    notice = {"type": "system", "subtype": "permission_denied", "tool_name": "Write", "message": "not allowed"}
    call = [whole("m1", use("t1", "Write", {"file_path": "/x"})), notice, returned("t1", "denied", is_error=True)]
    run = Run(
        [INIT, *call, *message("m2", "I may not."), result("I may not.", permission_denials=[{"tool_name": "Write"}])]
    )
    assert run.ended_as == ("ok", "I may not.", None)
    assert [event.is_error for event in run.of(ev.ToolReturned)] == [True]
    assert run.notices == ["permission"]


def test_media_and_hidden_thinking() -> None:
    """They are told as notices, once, in both modes."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    content: list[tuple[Line, list[Line]]] = [
        (hidden, [start(0, "redacted_thinking", data="xyz")]),
        (picture, [start(1, "image", source={})]),
    ]
    for lines in both(content):
        run = Run([INIT, *lines, user([picture]), result("")])
        assert run.notices == ["redacted", "media", "media"]
        assert run.unknown == []


def test_todos_are_a_plan() -> None:
    """The call is told, and the plan with it; a sub-agent's own list is not the run's plan."""
    todos = [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Write", "status": "in_progress"},
    ]
    line = whole("m1", use("t1", "TodoWrite", {"todos": todos}))
    run = Run([INIT, line, line, returned("t1", "ok"), whole("m2", text("Ok")), result("Ok")])
    assert [event.items for event in run.of(ev.PlanChanged)] == [
        [ev.PlanItem("Look", "completed"), ev.PlanItem("Write", "in_progress")]
    ]
    assert len(run.of(ev.ToolCalled)) == 1
    inner = whole("m1", use("t2", "TodoWrite", {"todos": todos}), parent="a1")
    assert not any(isinstance(update, up.Plan) for update in read(inner, returned("t2", "ok")))


def test_todos_that_were_rejected_are_no_plan() -> None:
    """The newest versions call the tool disabled: the plan is what it was."""
    line = whole("m1", use("t1", "TodoWrite", {"todos": [{"content": "Look", "status": "completed"}]}))
    why = "Error: No such tool available: TodoWrite. TodoWrite is disabled for this session."
    run = Run([INIT, line, returned("t1", why, is_error=True), whole("m2", text("Ok")), result("Ok")])
    assert run.of(ev.PlanChanged) == []


def changed(call_id: str, **details: Any) -> Line:
    """The result of a tool that changes the list of tasks."""
    return user([{"type": "tool_result", "tool_use_id": call_id, "content": "ok"}], tool_use_result=details)


def plans(*lines: Line) -> list[str]:
    """The plans of a run, each with the first letter of the status before each step."""
    run = Run([INIT, *lines, whole("m9", text("Ok")), result("Ok")])
    return [", ".join(f"{item.status[0]} {item.text}" for item in event.items) for event in run.of(ev.PlanChanged)]


TASKS = [
    whole("m1", use("t1", "TaskCreate", {"subject": "Look"}), use("t2", "TaskCreate", {"subject": "Write"})),
    changed("t1", task={"id": "1", "subject": "Look"}),
    changed("t2", task={"id": "2", "subject": "Write"}),
]


def test_tasks_are_a_plan() -> None:
    """Each result that changes the list of tasks changes the plan; a deleted task is no longer in it."""
    lines = [
        *TASKS,
        whole("m2", use("t3", "TaskUpdate", {"taskId": "1", "status": "completed"})),
        changed("t3", success=True, taskId="1", statusChange={"from": "pending", "to": "completed"}),
        whole("m3", use("t4", "TaskUpdate", {"taskId": "2", "subject": "Write it"})),
        changed("t4", success=True, taskId="2", updatedFields=["subject"]),
        whole("m4", use("t5", "TaskUpdate", {"taskId": "1", "status": "deleted"})),
        changed("t5", success=True, taskId="1", statusChange={"from": "completed", "to": "deleted"}),
    ]
    assert plans(*lines) == ["p Look", "p Look, p Write", "c Look, p Write", "c Look, p Write it", "p Write it"]


def test_the_list_of_tasks_is_the_plan() -> None:
    """It replaces what is known, and so has the tasks of earlier runs."""
    tasks = [{"id": "7", "subject": "Test", "status": "in_progress", "blockedBy": []}]
    assert plans(*TASKS, whole("m2", use("t3", "TaskList", {})), changed("t3", tasks=tasks))[-1] == "i Test"


@pytest.mark.parametrize(
    ("name", "details"),
    [
        ("TaskUpdate", {"success": False, "taskId": "1", "error": "Task not found"}),
        ("TaskUpdate", {"success": True, "taskId": "99", "statusChange": {"from": "pending", "to": "completed"}}),
        ("TaskUpdate", {"success": True}),
        ("other", {"tasks": [], "task": {"id": "3", "subject": "x"}}),
    ],
)
def test_other_results_do_not_change_the_plan(name: str, details: Line) -> None:
    """A failure, a task that is not known, and results of other tools leave the plan as it is."""
    lines = [whole("m2", use("t3", name, {"taskId": "1", "subject": "y"})), changed("t3", **details)]
    assert plans(*TASKS, *lines) == ["p Look", "p Look, p Write"]


def test_a_sub_agents_tasks_are_not_the_plan() -> None:
    """Its list is its own."""
    lines = [
        whole("m1", use("a1", "Agent", {"prompt": "look"})),
        whole("s1", use("t1", "TaskCreate", {"subject": "x"}), parent="a1"),
        user(
            [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}],
            parent="a1",
            tool_use_result={"task": {"id": "1", "subject": "x"}},
        ),
        returned("a1", "Done."),
    ]
    assert plans(*lines) == []


def test_reports_that_repeat_a_call_are_states() -> None:
    """The start of work that a call shows, and its end unless it was in the background, are shown in `verbose` only."""
    of_call = {"type": "system", "task_id": "x", "tool_use_id": "t1", "description": "look"}
    ended = {**of_call, "subtype": "task_notification", "status": "completed"}
    run = Run(
        [
            INIT,
            whole("m1", use("t1", "Bash", {"command": "ls"})),
            {**of_call, "subtype": "task_started"},
            {**ended, "output_file": ""},
            returned("t1", "ok"),
            {**ended, "output_file": "/tmp/x.output"},
            whole("m2", text("Ok")),
            result("Ok"),
        ]
    )
    assert run.notices == ["status", "status", "background"]


def test_a_sub_agent_has_its_own_lane() -> None:
    """Its blocks and calls carry the call that started it, and its words are never in the reply."""
    lines = [
        INIT,
        whole("m1", text("I ask."), use("a1", "Agent", {"prompt": "look", "subagent_type": "Explore"})),
        {"type": "system", "subtype": "task_started", "task_id": "x", "tool_use_id": "a1", "description": "look"},
        user([text("look")], parent="a1"),
        whole("s1", thinking("Hm"), text("Inner words."), parent="a1"),
        whole("s1", use("t2", "Bash", {"command": "ls"}), parent="a1", subagent_type="Explore"),
        user([{"type": "tool_result", "tool_use_id": "t2", "content": "files"}], parent="a1"),
        whole("s2", text("Inner end."), parent="a1"),
        returned("a1", [text("Report."), text("agentId: 1\n<usage>tokens: 3</usage>")]),
        *message("m2", "They say so."),
        result("They say so."),
    ]
    run = Run(lines)
    inner = [event for event in run.events if event.parent == "a1"]
    assert [event.text for event in inner if isinstance(event, ev.BlockEnded) and event.kind == "text"] == [
        "Inner words.",
        "Inner end.",
    ]
    assert [event.call_id for event in inner if isinstance(event, ev.ToolCalled | ev.ToolReturned)] == ["t2", "t2"]
    assert [event.text for event in run.of(ev.ToolReturned) if event.parent is None] == [
        "Report.\nagentId: 1\n<usage>tokens: 3</usage>"
    ]
    assert run.ended_as == ("ok", "They say so.", None)
    assert run.end.rounds == 2
    assert run.unknown == []


@pytest.mark.parametrize(
    ("details", "shown"),
    [
        ({"agentId": "1", "isAsync": True}, "Async agent launched successfully."),
        ({}, None),
        ({"agentId": "1", "content": [text("Async agent launched")]}, "Async agent launched"),
    ],
)
def test_rules_for_a_sub_agent_in_the_background_are_not_shown(details: dict[str, Any], shown: str | None) -> None:
    """They are for the model; the same text of another tool stays whole."""
    said = (
        "Async agent launched successfully. (This tool result is internal metadata — never quote it.)\nagentId: 1 (x)"
    )
    line = {**returned("a1", said), "tool_use_result": details}
    assert read(line) == [up.ToolReturn("a1", shown or said)]


def test_two_sub_agents_at_once() -> None:
    """Lines that come by turns stay apart, also while the top agent has a message open."""
    lines = [INIT, whole("m1", use("a1", "Agent", {"prompt": "x"}), use("a2", "Agent", {"prompt": "y"}))]
    for n in range(2):
        for lane in ("a1", "a2"):
            lines.append(whole(f"{lane}m{n}", use(f"{lane}t{n}", "Read", {"file_path": str(n)}), parent=lane))
        for lane in ("a2", "a1"):
            lines.append(user([{"type": "tool_result", "tool_use_id": f"{lane}t{n}", "content": lane}], parent=lane))
    run = Run([*lines, returned("a2", "two"), returned("a1", "one"), *message("m2", "Both."), result("Both.")])
    for lane in ("a1", "a2"):
        kinds = [
            type(event)
            for event in run.events
            if event.parent == lane and isinstance(event, ev.MessageStarted | ev.MessageEnded)
        ]
        assert kinds == [ev.MessageStarted, ev.MessageEnded] * 2
    assert run.ended_as == ("ok", "Both.", None)


# --- identity ---


def test_a_stream_without_its_message_start() -> None:
    """The whole line names the message that is open without a name, and is no second text."""
    lines = [start(0), delta(0, "Hel"), delta(0, "lo"), whole("m1", text("Hello")), stop(), *done()]
    run = Run([INIT, *lines, result("Hello")])
    assert run.blocks == [("text", "Hello", True)]
    assert run.ended_as == ("ok", "Hello", None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, []), ("", []), ("Hi", ["Hi"]), (text("Hi"), ["Hi"]), ([text("a"), None, 3, text("b")], ["a", "b"])],
)
def test_contents_of_a_whole_line(content: Any, expected: list[str]) -> None:
    """A text, a block or a list; nothing at all makes no message."""
    run = Run([INIT, {"type": "assistant", "message": {"id": "m1", "content": content}}, result("x")])
    assert [value for _, value, _ in run.blocks] == expected
    assert len(run.of(ev.MessageStarted)) == min(1, len(expected))


def test_deltas_only() -> None:
    """Neither starts nor ends nor whole lines: the text is there."""
    run = Run([delta(0, "Hel"), delta(0, "lo"), result("Hello")])
    assert [value for _, value, _ in run.blocks] == ["Hello"]
    assert run.ended_as == ("ok", "Hello", None)


def test_messages_without_ids() -> None:
    """A whole line without an id belongs to the message that is open."""
    lines = [api("message_start", message={}), start(0), delta(0, "Hello"), whole(None, text("Hello")), stop(), *done()]
    assert Run([INIT, *lines, result("Hello")]).blocks == [("text", "Hello", True)]


FIRST, REST = "Here is the answer, ", "piece by piece."


@pytest.mark.parametrize("agent", ["claude", "ccs"])
@pytest.mark.parametrize("again", ["m1", "m2"])
def test_a_message_start_in_the_middle(agent: str, again: str) -> None:
    """The CLI makes up an end; the deltas go on, under the old id or a new one: the text is the whole."""
    lines = [begin("m1"), start(0), delta(0, FIRST), stop(), *done(None), begin(again), delta(0, REST)]
    lines += [whole(again, text(FIRST + REST)), stop(), *done()]
    run = Run([INIT, *lines, result(FIRST + REST)], agent)
    assert run.ended_as == ("ok", FIRST + REST, None)
    assert [block for block in run.blocks if block[2]] == [("text", FIRST + REST, True)]


@pytest.mark.parametrize("agent", ["claude", "ccs"])
@pytest.mark.parametrize("again", ["m1", "m2"])
def test_a_message_that_begins_anew(agent: str, again: str) -> None:
    """The text comes again from its beginning: the first attempt is superseded, the reply right."""
    lines = [begin("m1"), start(0), delta(0, FIRST), stop(), *done(None), *message(again, FIRST + REST)]
    run = Run([INIT, *lines, result(FIRST + REST)], agent)
    assert run.blocks == [("text", FIRST, False), ("text", FIRST + REST, True)]
    assert [event.status for event in run.of(ev.MessageEnded)] == ["superseded", "ok"]
    assert run.ended_as == ("ok", FIRST + REST, None)


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85", "\x7f", "\x9b31m", "\x00\x1b[31m", "\r\n"])
def test_nasty_characters(char: str) -> None:
    """They stay as they are, in text, input and results."""
    value = f"a{char}b"
    call = whole("m2", use("t1", "Bash", {"command": value}))
    run = Run([INIT, *message("m1", value), call, returned("t1", value), *message("m3", value), result(value)])
    assert [event.text for event in run.of(ev.ToolReturned)] == [value]
    assert run.of(ev.ToolCalled)[0].input == {"command": value}
    assert run.end.reply == value


def test_surrogate_halves_in_two_deltas() -> None:
    """They join; a lone one is replaced, in the deltas and in the whole line alike."""
    raw = [
        INIT,
        begin("m1"),
        start(0),
        delta(0, "a\ud83d"),
        delta(0, "\ude00b\ud83d"),
        whole("m1", text("a\ud83d\ude00b\ud83d")),
        stop(),
        *done(),
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in [*raw, result("a\ud83d\ude00b\ud83d")])
    stream = Stream("claude", strict=True)
    events = stream.feed(data) + stream.close()
    assert verify(events) == []
    assert [event.text for event in events if isinstance(event, ev.BlockEnded)] == ["a😀b\ufffd"]
    assert isinstance(events[-1], ev.RunEnded)
    assert events[-1].reply == "a😀b\ufffd"


# --- the CLI's own lines ---


def test_unknown_things_are_told() -> None:
    """Kinds of lines, events, deltas and blocks that nobody knows: told with their text, and all else goes on."""
    odd = [
        {"type": "brand_new", "text": "a"},
        {"type": "system", "subtype": "brand_new", "message": "b"},
        api("brand_new"),
        api("content_block_delta", index=0, delta={"type": "song_delta", "text": "c"}),
        whole("m0", {"type": "song", "text": "d"}),
        user([{"type": "song", "text": "e"}]),
    ]
    run = Run([INIT, *odd, *message("m1", "Fine."), result("Fine.")])
    assert [(event.wire_type, event.text) for event in run.of(ev.Unknown)] == [
        ("brand_new", "a"),
        ("system/brand_new", "brand new: b"),
        ("stream_event/brand_new", None),
        ("stream_event/song_delta", "c"),
        ("assistant/song", "d"),
        ("user/song", "e"),
    ]
    assert run.ended_as == ("ok", "Fine.", None)
    warned = {it.name for it in run.stream.health.drift if it.warns}
    assert warned == {"brand_new", "stream_event/song_delta", "assistant/song"}, "their texts may be the model's"


def test_a_delta_of_an_unknown_kind_keeps_its_block() -> None:
    """The block that it stands in goes on."""
    odd = api("content_block_delta", index=0, delta={"type": "song_delta", "text": "la"})
    run = Run(
        [
            INIT,
            begin("m1"),
            start(0),
            delta(0, "a"),
            odd,
            delta(0, "b"),
            whole("m1", text("ab")),
            stop(),
            *done(),
            result("ab"),
        ]
    )
    assert run.blocks == [("text", "ab", True)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}, []),
        (
            {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "rateLimitType": "five_hour"}},
            [up.Notice("rate_limit", "rate limit: rejected five_hour", "warning", cause="usage_limit")],
        ),
        (
            RETRY,
            [
                up.Notice(
                    "retry",
                    "overloaded",
                    "warning",
                    cause="overloaded",
                    attempt=1,
                    max_attempts=2,
                    wait_ms=500,
                )
            ],
        ),
        ({"type": "system", "subtype": "status", "status": "requesting"}, []),
        ({"type": "system", "subtype": "thinking_tokens", "estimated_tokens": 3}, []),
        (
            {"type": "system", "subtype": "informational", "content": "note"},
            [up.Notice("status", "informational: note")],
        ),
        ({"type": "auth_status", "output": ["sign in"], "error": None}, [up.Notice("status", "sign in")]),
        ({"type": "tool_use_summary", "summary": "read files"}, [up.Notice("status", "read files")]),
        (
            {
                "type": "control_request",
                "request_id": "r",
                "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}},
            },
            [up.Question("r", 'may Bash run? {"command":"ls"}', "command", tool_kind="execute", title="ls")],
        ),
        ({"type": "control_request", "request_id": "r", "request": {"subtype": "hook_callback"}}, []),
        ({"type": "tool_progress", "tool_use_id": "t", "elapsed_time_seconds": 2}, []),
    ],
)
def test_what_the_cli_says_of_itself(line: Line, expected: list[up.Update]) -> None:
    """Notices for people, silence for machinery."""
    assert read(line) == expected


def test_all_names_of_the_cli_are_handled_on_purpose() -> None:
    """No type or system subtype that the CLI's bundle holds is unknown."""
    types = "rate_limit_event tool_progress tool_use_summary auth_status prompt_suggestion keep_alive control_request"
    types += " control_response control_cancel_request conversation_reset"
    subtypes = """
        hook_progress informational notification local_command_output files_persisted model_fallback
        model_refusal_fallback model_consent_fallback permission_denied permission_retry session_state_changed
        task_summary post_turn_summary turn_duration stop_hook_summary memory_recall memory_saved plugin_install
        commands_changed elicitation_complete mirror_error file_snapshot scheduled_task_fire worker_shutting_down
        api_error agents_killed away_summary init status thinking_tokens api_retry hook_started hook_response
        task_started task_progress task_updated task_notification compact_boundary model_refusal_no_fallback"""
    lines: list[Line] = [{"type": kind} for kind in types.split()]
    lines += [{"type": "system", "subtype": kind} for kind in subtypes.split()]
    assert not any(isinstance(update, up.Unknown) for update in read(*lines))


@pytest.mark.parametrize("cut", [Exit(signal=15), Exit(143), None])
def test_killed_in_mid_text(cut: Exit | None) -> None:
    """No end event: the text is there and cut off, and the outcome says so."""
    run = Run([INIT, begin("m1"), start(0), delta(0, "tick 0 "), delta(0, "tick")], exit=cut)
    assert run.blocks == [("text", "tick 0 tick", False)]
    assert run.end.outcome in ("cut_off", "error")
    assert run.end.reply == "tick 0 tick"


def test_statuses_that_no_call_shows_are_in_the_plan() -> None:
    """They change the tasks that they name; one that is not known, or has no status, changes nothing."""
    news: list[Any] = [
        [{"id": "1", "status": "completed"}, {"id": "9", "status": "completed"}],
        [{"id": "1", "status": "completed"}],
        [{"id": "2"}, 7],
        "words",
    ]
    lines = [{"type": "system", "subtype": "task_list_statuses", "statuses": it} for it in news]
    assert plans(*TASKS, *lines) == ["p Look", "p Look, p Write", "c Look, p Write"]


@pytest.mark.parametrize("kind", ["vcs_state_changed", "session_title_changed", "permission_check_status", "ui_log"])
def test_news_of_the_program_between_texts_are_no_warning(kind: str) -> None:
    """They are known: the report of a run in which they stand is clean."""
    news = {"type": "system", "subtype": kind, "text": "said by a plugin"}
    run = Run([INIT, whole("m1", text("One.")), news, whole("m2", text("Two.")), result("Two.")])
    assert run.stream.health.warnings == []
    assert run.stream.health.drift == []
    assert [event.text for event in run.of(ev.Notice)] == (["ui log: said by a plugin"] if kind == "ui_log" else [])


def test_the_totals_of_a_resumed_session_are_not_those_of_the_run() -> None:
    """Each result says what was used since the one before; their sum is the run's, whatever the session has used."""

    def result(tokens: int, cost: float, whole: int, whole_cost: float) -> Line:
        def figures(tokens: int, cost: float) -> Line:
            """Figures of one model; none if it was not called."""
            used = {"inputTokens": tokens, "outputTokens": 5, "cacheReadInputTokens": 0, "costUSD": cost}
            return {"m": used} if tokens else {}

        return {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "done",
            "num_turns": 1,
            "total_cost_usd": whole_cost,
            "usage": {"input_tokens": tokens, "output_tokens": 5},
            "modelUsage": figures(whole, whole_cost),
            "model_usage_since_last_result": figures(tokens, cost),
        }

    one = Run([result(100, 0.1, 900, 0.9)]).end
    assert one.usage == ev.Usage(100, 5, 0, None)
    assert one.cost_usd == 0.1
    results = (result(100, 0.1, 900, 0.9), result(200, 0.2, 1100, 1.1), result(0, 0, 1100, 1.1))
    several = Run([line for n, it in enumerate(results) for line in (whole(f"m{n}", text("done")), it)]).end
    assert several.usage == ev.Usage(300, 10, 0, None)
    assert several.cost_usd == 0.3
    without = {name: value for name, value in result(100, 0.1, 900, 0.9).items() if "since" not in name}
    assert Run([without]).end.cost_usd == 0.9
