from __future__ import annotations

from functools import partial
from typing import Any

import adapter_harness
import pytest
from adapter_harness import blocks, end, of

from penstock import events as ev
from penstock import updates as up
from penstock.agents.pi.exec import Pi
from penstock.core.normalizer.outcome import Exit

read = partial(adapter_harness.read, Pi)
run = partial(adapter_harness.run, "pi")


Line = dict[str, Any]
SESSION: Line = {
    "type": "session",
    "version": 3,
    "id": "s",
    "timestamp": "t",
    "cwd": "/w",
    "parentSession": "/old.jsonl",
}
AGENT: Line = {"type": "agent_start"}
TURN: Line = {"type": "turn_start"}


def message(*content: Line, stop: str = "stop", **fields: Any) -> Line:
    """A message of the model."""
    usage = {"input": 10, "output": 3, "cacheRead": 4, "cacheWrite": 0, "cost": {"total": 0.5}}
    return {"role": "assistant", "content": list(content), "model": "m", "stopReason": stop, "usage": usage, **fields}


def text(value: str) -> Line:
    """A block of text."""
    return {"type": "text", "text": value}


def thinking(value: str) -> Line:
    """A block of thinking."""
    return {"type": "thinking", "thinking": value, "thinkingSignature": "reasoning_content"}


def call(call_id: str, name: str, value: Any) -> Line:
    """A call."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": value}


def test_a_call_that_has_its_own_name_at_its_start() -> None:
    """Versions of pi since 1.0 print no message so far; its id and its name are in the line itself."""
    start = {"type": "toolcall_start", "contentIndex": 1, "id": "c", "toolName": "bash"}
    [begun] = read({"type": "message_update", "assistantMessageEvent": start})
    assert begun == up.BlockStart("tool_input", 1, call_id="c", name="bash")


def begin() -> Line:
    """A message of the model starts."""
    return {"type": "message_start", "message": message()}


def ended(*content: Line, **fields: Any) -> list[Line]:
    """A message and its turn end, both with the whole of it."""
    said = message(*content, **fields)
    return [{"type": "message_end", "message": said}, {"type": "turn_end", "message": said, "toolResults": []}]


def piece(kind: str, index: int, *so_far: Line, partial: bool = True, **fields: Any) -> Line:
    """An update; with the whole so far twice, as the older form has it."""
    event = {"type": kind, "contentIndex": index, **fields}
    if not partial:
        return {"type": "message_update", "assistantMessageEvent": event}
    whole = message(*so_far)
    return {"type": "message_update", "assistantMessageEvent": {**event, "partial": whole}, "message": whole}


def streamed(value: str, index: int = 0, partial: bool = True) -> list[Line]:
    """A text in two pieces; the whole that they carry runs ahead."""
    cut, whole = len(value) // 2, text(value)
    lines = [piece("text_start", index, text(value[:cut]), partial=partial)]
    lines += [piece("text_delta", index, whole, delta=part, partial=partial) for part in (value[:cut], value[cut:])]
    return [*lines, piece("text_end", index, whole, content=value, partial=partial)]


def agent_end(*messages: Line) -> Line:
    """The agent stops, and tells all of its messages again."""
    return {"type": "agent_end", "messages": list(messages)}


def answer(value: str) -> list[Line]:
    """A whole message of one text."""
    return [TURN, begin(), *streamed(value), *ended(text(value))]


def tool(call_id: str, value: str, failed: bool = False, name: str = "bash") -> list[Line]:
    """A tool runs; its result comes three times."""
    content = [text(value)]
    result = {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": content, "isError": failed}
    return [
        {"type": "tool_execution_start", "toolCallId": call_id, "toolName": name, "args": {"command": "ls"}},
        {
            "type": "tool_execution_update",
            "toolCallId": call_id,
            "toolName": name,
            "partialResult": {"content": content},
        },
        {
            "type": "tool_execution_end",
            "toolCallId": call_id,
            "toolName": name,
            "result": {"content": content},
            "isError": failed,
        },
        {"type": "message_start", "message": result},
        {"type": "message_end", "message": result},
    ]


@pytest.mark.parametrize("partial", [True, False])
def test_text_is_told_once(partial: bool) -> None:
    """Deltas, end, whole message, turn and agent all carry it; the newer form has no whole in its updates."""
    lines = [SESSION, AGENT, TURN, begin(), *streamed("Hello there", partial=partial), *ended(text("Hello there"))]
    events = run(*lines, agent_end(message(text("Hello there"))))
    assert [event.text for event in of(events, ev.Delta)] == ["Hello", " there"]
    assert blocks(events) == [("text", "Hello there", True)]
    assert end(events) == ("ok", "Hello there", None)
    assert of(events, ev.RunStarted)[0].session_id == "s"


def test_ends_come_after_later_blocks_have_begun() -> None:
    """Blocks keep their place, however late their ends are."""
    whole = (thinking("Hm so"), text("Look."), call("t1", "bash", {"command": "ls"}))
    lines = [piece("thinking_start", 0, *whole), piece("thinking_delta", 0, *whole, delta="Hm so")]
    lines += [piece("text_start", 1, *whole), piece("text_delta", 1, *whole, delta="Look.")]
    lines += [piece("toolcall_start", 2, *whole), piece("toolcall_delta", 2, *whole, delta='{"command":"ls"}')]
    lines += [piece("thinking_end", 0, *whole, content="Hm so"), piece("text_end", 1, *whole, content="Look.")]
    lines += [piece("toolcall_end", 2, *whole, toolCall=whole[2]), *ended(*whole, stop="toolUse"), *tool("t1", "x")]
    events = run(SESSION, AGENT, TURN, begin(), *lines, *answer("Done."), agent_end(message(text("Done."))))
    assert blocks(events) == [("thinking", "Hm so", True), ("text", "Look.", True), ("text", "Done.", True)]
    assert [(event.name, event.input) for event in of(events, ev.ToolCalled)] == [("bash", {"command": "ls"})]
    assert of(events, ev.BlockRevised) == []
    assert end(events) == ("ok", "Done.", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]


def test_text_goes_on_after_thinking_began_again() -> None:
    """A delta of a block that was left belongs to it."""
    whole = (text("One two"), thinking("Hm"))
    lines = [piece("text_start", 0), piece("text_delta", 0, delta="One "), piece("thinking_start", 1)]
    lines += [piece("thinking_delta", 1, delta="Hm"), piece("text_delta", 0, delta="two"), *ended(*whole)]
    events = run(SESSION, begin(), *lines, agent_end(message(*whole)))
    assert sorted(blocks(events)) == [("text", "One two", True), ("thinking", "Hm", True)]
    assert end(events) == ("ok", "One two", None)


def test_a_call_of_the_newer_form() -> None:
    """Its name comes only with its end: the input waits for it, and nothing of it is lost."""
    made = call("t1", "bash", {"command": "ls"})
    lines = [piece("toolcall_start", 0, partial=False), piece("toolcall_delta", 0, partial=False, delta='{"command":')]
    lines += [
        piece("toolcall_delta", 0, partial=False, delta='"ls"}'),
        piece("toolcall_end", 0, partial=False, toolCall=made),
    ]
    events = run(SESSION, begin(), *lines, *ended(made, stop="toolUse"), *tool("t1", "x"), *answer("Ok."), agent_end())
    assert [(event.call_id, event.name, event.input) for event in of(events, ev.ToolCalled)] == [
        ("t1", "bash", {"command": "ls"})
    ]
    assert [event.text for event in of(events, ev.BlockEnded) if event.kind == "tool_input"] == ['{"command":"ls"}']


def test_a_tool_result_is_told_once() -> None:
    """The end of the tool, its message and the turn repeat it; the moving window of the output is no text."""
    made = call("t1", "bash", {"command": "ls"})
    events = run(
        SESSION,
        begin(),
        *ended(made, stop="toolUse"),
        *tool("t1", "no\n\nCommand exited with code 3", True),
        agent_end(),
    )
    assert [(event.text, event.is_error, event.exit_code, event.name) for event in of(events, ev.ToolReturned)] == [
        ("no", True, 3, "bash")
    ]
    assert not any(event.kind == "tool_output" for event in of(events, ev.BlockStarted))


@pytest.mark.parametrize(
    ("text", "failed", "name", "shown", "code"),
    [
        ("a\n\n\nCommand exited with code 3", True, "bash", "a\n", 3),
        ("Command exited with code 127", True, "bash", "", 127),
        ("Command exited with code 9\n\nCommand exited with code 3", True, "bash", "Command exited with code 9", 3),
        ("a\nCommand exited with code 3", True, "bash", "a\nCommand exited with code 3", None),
        ("a\n\nCommand exited with code 3\n", True, "bash", "a\n\nCommand exited with code 3\n", None),
        ("a\n\nCommand timed out after 3 seconds", True, "bash", "a\n\nCommand timed out after 3 seconds", None),
        ("a\n\nCommand exited with code 3", False, "bash", "a\n\nCommand exited with code 3", None),
        ("a\n\nCommand exited with code 3", True, "read", "a\n\nCommand exited with code 3", None),
    ],
)
def test_the_exit_status_is_the_last_line(text: str, failed: bool, name: str, shown: str, code: int | None) -> None:
    """Only pi's own line, which it appends when a command fails; one that a command prints stays text."""
    made = call("t1", name, {"command": "ls"})
    events = run(SESSION, begin(), *ended(made, stop="toolUse"), *tool("t1", text, failed, name), agent_end())
    assert [(event.text, event.exit_code) for event in of(events, ev.ToolReturned)] == [(shown, code)]


FAILED = {"stop": "error", "errorMessage": "terminated"}
RETRY: Line = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 2, "delayMs": 300, "errorMessage": "terminated"}


def broken(value: str) -> list[Line]:
    """A message that breaks off in the middle."""
    return [
        TURN,
        begin(),
        *streamed(value)[:-1],
        *ended(text(value), **FAILED),
        agent_end(message(text(value), **FAILED)),
    ]


def test_a_retry_takes_its_text_back() -> None:
    """Several agent ends; the attempt that broke is superseded and no part of the reply."""
    lines = [SESSION, AGENT, *broken("This reply will br"), RETRY, AGENT, *answer("This reply is whole.")]
    done = {"type": "auto_retry_end", "success": True, "attempt": 1}
    events = run(*lines, done, agent_end(message(text("This reply is whole."))))
    assert blocks(events) == [("text", "This reply will br", False), ("text", "This reply is whole.", True)]
    assert [event.status for event in of(events, ev.MessageEnded)] == ["superseded", "ok"]
    assert [event.code for event in of(events, ev.Notice)] == ["retry"]
    assert end(events) == ("ok", "This reply is whole.", None)
    assert events[-1].rounds == 1  # type: ignore[union-attr]


def test_retries_that_are_used_up() -> None:
    """Exit 0 all the same: the outcome is error, the text of the last attempt stays and is not complete."""
    over = {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "terminated"}
    events = run(SESSION, AGENT, *broken("This re"), RETRY, AGENT, *broken("This reply"), over, exit=Exit(0))
    assert blocks(events) == [("text", "This re", False), ("text", "This reply", False)]
    assert [event.status for event in of(events, ev.MessageEnded)] == ["superseded", "cut"]
    assert end(events) == ("error", "This reply", "terminated")


def test_an_error_that_is_not_tried_again() -> None:
    """The dangling start of a compaction does not hide it."""
    lines = (
        broken("")[:2]
        + ended(**FAILED)
        + [agent_end(message(**FAILED)), {"type": "compaction_start", "reason": "overflow"}]
    )
    events = run(SESSION, AGENT, *lines, exit=Exit(0))
    assert end(events) == ("error", "", "terminated")
    assert [event.code for event in of(events, ev.Notice)] == ["compaction"]


def test_an_error_after_an_answer() -> None:
    """A failure that follows an answer is not taken back by it."""
    events = run(SESSION, AGENT, *answer("Fine."), agent_end(message(text("Fine."))), AGENT, *broken("And th"))
    assert end(events) == ("error", "And th", "terminated")


def test_a_second_prompt_is_another_round() -> None:
    """What comes after an agent's end has its own reply."""
    first = [AGENT, *answer("Done."), agent_end(message(text("Done.")))]
    events = run(SESSION, *first, *first)
    assert [event.reply for event in of(events, ev.Replied)] == ["Done.", "Done."]
    assert end(events) == ("ok", "Done.", None)


def test_the_token_limit() -> None:
    """A reply that was cut off is kept, and is no success."""
    events = run(
        SESSION,
        begin(),
        *streamed("Partial"),
        *ended(text("Partial"), stop="length"),
        agent_end(message(text("Partial"), stop="length")),
    )
    assert [event.stop_reason for event in of(events, ev.MessageEnded)] == ["length"]
    assert end(events) == ("error", "Partial", "the model stopped at its output limit")


def test_aborted() -> None:
    """Cancelled, with the text so far."""
    stopped = {"stop": "aborted", "errorMessage": "Request was aborted."}
    events = run(
        SESSION,
        begin(),
        *streamed("tick 0 ti")[:-1],
        *ended(text("tick 0 ti"), **stopped),
        agent_end(message(text("tick 0 ti"), **stopped)),
    )
    assert blocks(events) == [("text", "tick 0 ti", False)]
    assert end(events) == ("cancelled", "tick 0 ti", "Request was aborted.")


def test_killed() -> None:
    """No agent end is no regular end."""
    events = run(SESSION, AGENT, TURN, begin(), *streamed("tick 0 ti")[:-1], exit=Exit(signal=15))
    assert blocks(events) == [("text", "tick 0 ti", False)]
    assert end(events) == ("cut_off", "tick 0 ti", "killed by signal 15")


def test_only_the_session_line() -> None:
    """A run that says nothing more is cut off, and can be resumed."""
    events = run(SESSION)
    assert end(events)[0] == "cut_off"
    assert events[-1].session_id == "s"  # type: ignore[union-attr]


def test_an_empty_answer() -> None:
    """A message without content is no reply."""
    events = run(SESSION, AGENT, TURN, begin(), *ended(), agent_end(message()))
    assert end(events)[0] == "empty"
    assert of(events, ev.BlockStarted) == []


def test_a_whole_message_that_says_more() -> None:
    """The whole is the truth where deltas were lost."""
    lines = [begin(), piece("text_start", 0), piece("text_delta", 0, delta="Hel"), *ended(text("Hello"))]
    events = run(SESSION, *lines, agent_end(message(text("Hello"))))
    assert [event.text for event in of(events, ev.Delta)] == ["Hel", "lo"]
    assert end(events) == ("ok", "Hello", None)


@pytest.mark.parametrize("before", ["", "auto_"])
@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("compaction_start", {"reason": "threshold"}, "compacting the conversation (threshold)"),
        ("compaction_end", {"result": {"summary": "s", "tokensBefore": 9}}, "conversation compacted"),
        ("compaction_end", {"aborted": False, "willRetry": False}, "nothing was compacted"),
        ("compaction_end", {"aborted": True}, "compaction aborted"),
        ("compaction_end", {"errorMessage": "too long"}, "the conversation could not be compacted: too long"),
    ],
)
def test_compaction(before: str, name: str, fields: Line, expected: str) -> None:
    """Its start and its end are notices, by the names of all versions."""
    [notice] = read({"type": before + name, **fields})
    assert isinstance(notice, up.Notice)
    assert (notice.code, notice.text) == ("compaction", expected)


@pytest.mark.parametrize("before", ["", "auto_"])
def test_a_message_that_did_not_fit_is_asked_for_anew(before: str) -> None:
    """After the compaction the answer is that of the new message, and the failure is taken back."""
    compacted = {"type": f"{before}compaction_end", "result": {"summary": "s"}, "aborted": False, "willRetry": True}
    lines = [*broken("Half of"), {"type": f"{before}compaction_start", "reason": "overflow"}, compacted]
    events = run(SESSION, AGENT, *lines, AGENT, *answer("Whole."), agent_end(message(text("Whole."))))
    assert end(events)[:2] == ("ok", "Whole.")
    assert not of(events, ev.Unknown)


def test_usage_is_that_of_one_call() -> None:
    """Cached tokens are part of the input, and an attempt that was given up is not counted."""
    events = run(SESSION, *broken("Thi"), RETRY, *answer("Ok."), agent_end(message(text("Ok."))))
    [used] = of(events, ev.UsageReported)
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.cost_usd) == (14, 3, 4, 0.5)
    assert events[-1].cost_usd == 0.5  # type: ignore[union-attr]


def test_lines_that_say_nothing() -> None:
    """Frames and news of the program itself are silent; new kinds are told."""
    kinds = (
        "agent_start turn_start turn_end tool_execution_update queue_update session_info_changed thinking_level_changed"
    )
    assert read(*({"type": kind} for kind in kinds.split())) == []
    assert read(piece("start", 0), piece("done", 0), piece("error", 0)) == []
    assert read({"type": "brand_new", "text": "x"}) == [up.Unknown("brand_new", "x")]
    assert read(piece("song_delta", 0, delta="la")) == [up.Unknown("message_update/song_delta", "la")]
    assert read(*ended({"type": "song", "text": "la"}))[0] == up.Unknown("message/song", "la")


def test_other_roles() -> None:
    """The user's words are no block, an extension's are a notice."""
    user = {"role": "user", "content": [text("the prompt")]}
    assert read({"type": "message_start", "message": user}, {"type": "message_end", "message": user}) == []
    custom = {"role": "custom", "content": "said by an extension"}
    assert read({"type": "message_end", "message": custom}) == [up.Notice("status", "said by an extension")]


@pytest.mark.parametrize("char", ["\u2028", "\x85", "\x7f", "\x9b31m", "\x00"])
def test_nasty_characters(char: str) -> None:
    """They stay as they are."""
    value = f"aaaa{char}b"
    assert end(run(SESSION, *answer(value), agent_end(message(text(value))))) == ("ok", value, None)


def test_an_entry_of_its_session_file_is_nothing_new() -> None:
    """Pi 0.87 reports that it wrote an entry of its own file, whose text it has printed already."""
    entry = {"type": "custom_message", "id": "e1", "content": "never shown"}
    events = run(SESSION, {"type": "entry_appended", "entry": entry})
    assert not of(events, ev.Unknown)
    assert b"never shown" not in ev.encode(events)


def test_a_retry_of_a_summary_takes_nothing_back() -> None:
    """It is a notice; the text before it stays, and its end is no news."""
    again = {"type": "summarization_retry_scheduled", "attempt": 1, "maxAttempts": 3, "errorMessage": "503"}
    quiet = [{"type": f"summarization_retry_{name}"} for name in ("attempt_start", "finished")]
    notices = [it for it in read(again, *quiet) if not isinstance(it, up.Notice)]
    assert notices == []
    events = run(SESSION, AGENT, TURN, *answer("All done."), again, *quiet, agent_end(message(text("All done."))))
    assert [(event.code, event.attempt) for event in of(events, ev.Notice)] == [("retry", 1)]
    assert end(events) == ("ok", "All done.", None)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('529: {"message":"Overloaded.","type":"server_error","code":"server_error"}', "overloaded"),
        ("503 The server is busy.", "provider"),
        ("401: No such key.", "auth"),
        ("5290: a number", None),
        ("It failed: 529: busy", None),
    ],
)
def test_the_status_of_a_failed_call_is_its_cause(said: str, cause: ev.Cause | None) -> None:
    """Newer versions have a colon behind it, and the body of the answer."""
    failed = {"stop": "error", "errorMessage": said}
    events = run(SESSION, TURN, begin(), *ended(**failed), agent_end(message(**failed)))
    [end] = of(events, ev.RunEnded)
    assert (end.outcome, end.reason, end.cause) == ("error", said, cause)
