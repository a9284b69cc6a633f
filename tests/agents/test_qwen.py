from __future__ import annotations

import json
from functools import partial
from typing import Any

import adapter_harness
import pytest
from adapter_harness import blocks, end, of

from penstock import events as ev
from penstock import updates as up
from penstock.agents.qwen.exec import Qwen
from penstock.chat.turn import Assistant, Turn
from penstock.core.normalizer.outcome import Exit
from penstock.stream import Stream

read = partial(adapter_harness.read, Qwen)
run = partial(adapter_harness.run, "qwen")


Line = dict[str, Any]
INIT: Line = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "model": "m",
    "permission_mode": "yolo",
    "qwen_code_version": "0.15.10",
    "tools": ["todo_write"],
}
GOAL: Line = {
    "type": "stream_event",
    "event": {"type": "goal_state", "goal_state": {"v": 2, "goal": None, "activity": "idle"}},
}
API_ERROR = "[API Error: terminated (cause: other side closed)]"


def api(kind: str, **fields: Any) -> Line:
    """One event of the API."""
    return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": None}


def begin(message: str) -> Line:
    """A message starts; the wire says so once, whatever ids follow."""
    return api("message_start", message={"id": message, "role": "assistant", "content": []})


def whole(message: str, *content: Line, parent: str | None = None) -> Line:
    """Blocks of one kind, under an id of their own."""
    return {"type": "assistant", "message": {"id": message, "content": list(content)}, "parent_tool_use_id": parent}


def block(message: str, kind: str, value: str, cut: int = 2) -> list[Line]:
    """A block: always index 0, its stop before its line."""
    pieces = [value[:cut], value[cut:]]
    deltas = [api("content_block_delta", index=0, delta={"type": f"{kind}_delta", kind: piece}) for piece in pieces]
    first = api("content_block_start", index=0, content_block={"type": kind, kind: ""})
    return [first, *deltas, api("content_block_stop", index=0), whole(message, {"type": kind, kind: value})]


def calls(message: str, *made: tuple[str, str, Any], partial: bool = True) -> list[Line]:
    """Calls: each in a block of its own, then all in one line."""
    lines: list[Line] = []
    for index, (call_id, name, value) in enumerate(made):
        use = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(value)}
        lines += [
            api("content_block_start", index=index, content_block=use),
            api("content_block_delta", index=index, delta=delta),
        ]
        lines += [api("content_block_stop", index=index)]
    uses = [{"type": "tool_use", "id": call_id, "name": name, "input": value} for call_id, name, value in made]
    return [*(lines if partial else []), whole(message, *uses)]


def returned(call_id: str, content: str, parent: str | None = None, **fields: Any) -> Line:
    """A call's result."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": False, **fields}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": parent}


def result(reply: str, **fields: Any) -> Line:
    """The end of the run."""
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": reply, **fields}


STOP = api("message_stop")


def test_indexes_and_ids_start_again_for_each_block() -> None:
    """Index 0 again and a new id for each block, all in one message; what repeats is silent."""
    made = [("t1", "run_shell_command", {"command": "ls"})]
    lines = [begin("a"), *block("a", "thinking", "Hm so"), *block("b", "text", "Looking."), *calls("c", *made), STOP]
    events = run(
        INIT, GOAL, *lines, returned("t1", "x"), begin("d"), *block("d", "text", "Done."), STOP, result("Done.")
    )
    assert blocks(events) == [("thinking", "Hm so", True), ("text", "Looking.", True), ("text", "Done.", True)]
    assert len(of(events, ev.MessageStarted)) == 2
    assert [(event.call_id, event.input) for event in of(events, ev.ToolCalled)] == [("t1", {"command": "ls"})]
    assert of(events, ev.Unknown, ev.BlockRevised) == []
    assert end(events) == ("ok", "Done.", None)


def test_two_texts_of_one_message() -> None:
    """Text, thinking, text, at index 0 each: three blocks, one reply."""
    lines = [begin("a"), *block("a", "text", "One. "), *block("b", "thinking", "Hm"), *block("c", "text", "Two.")]
    events = run(INIT, *lines, STOP, result("One. Two."))
    assert [text for _, text, _ in blocks(events)] == ["One. ", "Hm", "Two."]
    assert end(events) == ("ok", "One. Two.", None)


def test_equal_texts_of_one_message() -> None:
    """Two blocks that say the same are two."""
    events = run(
        INIT,
        begin("a"),
        *block("a", "text", "Done."),
        *block("b", "thinking", "Hm"),
        *block("c", "text", "Done."),
        STOP,
    )
    assert [text for _, text, _ in blocks(events)] == ["Done.", "Hm", "Done."]


@pytest.mark.parametrize("partial", [True, False])
def test_several_calls_in_one_line(partial: bool) -> None:
    """All are made once, in order, and their results end one round."""
    made = [("t1", "read_file", {"path": "a"}), ("t2", "read_file", {"path": "b"}), ("t3", "ping", {})]
    opening, closing = ([begin("a")], [STOP]) if partial else ([], [])
    lines = [
        *opening,
        *calls("a", *made, partial=partial),
        *closing,
        returned("t2", "B"),
        returned("t1", "A"),
        returned("t3", "C"),
    ]
    last = (
        [begin("d"), *block("d", "text", "Both."), STOP] if partial else [whole("d", {"type": "text", "text": "Both."})]
    )
    events = run(INIT, *lines, *last, result("Both."))
    assert [(event.call_id, event.input) for event in of(events, ev.ToolCalled)] == [
        (name, value) for name, _, value in made
    ]
    assert [event.text for event in of(events, ev.ToolReturned)] == ["B", "A", "C"]
    assert end(events) == ("ok", "Both.", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]


def test_rounds_without_partial_messages() -> None:
    """Lines of one round are one message; the tool's result ends it."""
    text, more = {"type": "text", "text": "I look."}, {"type": "text", "text": "Done."}
    made = calls("b", ("t1", "ls", {}), partial=False)
    events = run(INIT, whole("a", text), *made, returned("t1", "x"), whole("c", more), result("Done."))
    started = of(events, ev.MessageStarted, ev.ToolReturned)
    assert [type(event).__name__ for event in started] == ["MessageStarted", "ToolReturned", "MessageStarted"]
    assert end(events) == ("ok", "Done.", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("said", ["", "Half of the rep"])
def test_an_api_error_of_the_older_version(said: str) -> None:
    """Success in name, exit 0: the text stays as it is, the outcome is error, the reason is the string."""
    text = said + API_ERROR
    events = run(INIT, begin("a"), *block("a", "text", text), STOP, result(text), exit=Exit(0))
    assert blocks(events) == [("text", text, True)]
    assert end(events) == ("error", text, API_ERROR)
    assert [event.is_error for event in of(events, ev.Replied)] == [True]


def test_an_api_error_of_the_newer_version() -> None:
    """An error in name and exit 1: text, outcome and reason are the same."""
    text = "Half" + API_ERROR
    ended = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "error": {"message": API_ERROR},
        "session_id": "s",
    }
    events = run(INIT, GOAL, begin("a"), *block("a", "text", text), STOP, ended, exit=Exit(1))
    assert blocks(events) == [("text", text, True)]
    assert end(events) == ("error", text, API_ERROR)


def test_an_api_error_of_several_lines() -> None:
    """The string may hold line ends and brackets."""
    error = '[API Error: 400 bad [x]\n{"a": 1}]\n'
    [update] = read(result("Text. " + error))
    assert isinstance(update, up.Result)
    assert (update.is_error, update.reason, update.reply) == (True, error.strip(), None)


def test_a_reply_that_only_speaks_of_api_errors() -> None:
    """In the middle of a reply it is the model's own word."""
    [update] = read(result("It printed [API Error: x] and went on."))
    assert isinstance(update, up.Result)
    assert not update.is_error


def test_text_that_an_unmarked_retry_repeats_stays() -> None:
    """Nothing on the wire tells the repeat from text that the model meant."""
    text = "This reply" * 3 + API_ERROR
    deltas = [api("content_block_delta", index=0, delta={"type": "text_delta", "text": "This reply"})] * 3
    deltas += [api("content_block_delta", index=0, delta={"type": "text_delta", "text": API_ERROR})]
    lines = [
        api("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *deltas,
        api("content_block_stop", index=0),
    ]
    events = run(INIT, begin("a"), *lines, whole("a", {"type": "text", "text": text}), STOP, result(text))
    assert blocks(events) == [("text", "This reply" * 3, True)]
    assert end(events) == ("error", "This reply" * 3, API_ERROR)


def piece(value: str) -> Line:
    """New text of the open block."""
    return api("content_block_delta", index=0, delta={"type": "text_delta", "text": value})


FIRST = [INIT, begin("a"), api("content_block_start", index=0, content_block={"type": "text", "text": ""})]


def test_the_remark_on_an_error_is_not_part_of_the_text() -> None:
    """It is a notice with its cause, at once with the whole line, and the model's text is the reply."""
    remark = "[API Error: 400 prompt is too long: 210000 tokens > 200000 maximum]"
    stop, last = api("content_block_stop", index=0), whole("a", {"type": "text", "text": "Half" + remark})
    events = run(*FIRST, piece("Half"), piece(remark), stop, last, STOP, result("Half" + remark))
    assert blocks(events) == [("text", "Half", True)]
    assert end(events) == ("error", "Half", remark)
    assert [(event.text, event.cause) for event in of(events, ev.Notice)] == [(remark, "context")]
    assert events[-1].cause == "context"  # type: ignore[union-attr]


def test_the_model_may_write_like_a_remark() -> None:
    """Text that goes on after it is the model's, all of it, in its order."""
    text = "It printed " + API_ERROR + API_ERROR + " and went on."
    pieces = [piece(value) for value in ("It printed ", API_ERROR, API_ERROR, " and went on.")]
    stop, last = api("content_block_stop", index=0), whole("a", {"type": "text", "text": text})
    events = run(*FIRST, *pieces, stop, last, STOP, result(text))
    assert blocks(events) == [("text", text, True)]
    assert end(events) == ("ok", text, None)
    assert of(events, ev.Notice) == []


def test_a_remark_that_is_the_last_word_is_shown() -> None:
    """If the program is killed before its whole line, nothing that it said is lost."""
    events = run(*FIRST, piece("Half"), piece(API_ERROR), exit=Exit(signal=9))
    assert [event.text for event in of(events, ev.Notice)] == [API_ERROR]
    assert end(events)[:2] == ("cut_off", "Half")


FRAME = "Command: x\nDirectory: (root)\nOutput: {}{}\nExit Code: {}\nSignal: (none)\nProcess Group PGID: 14"
NO_ERROR, DIED = "\nError: (none)", "\nError: died"


@pytest.mark.parametrize(
    ("text", "shown", "code"),
    [
        (FRAME.format("o\nExit Code: 9", NO_ERROR, 3), "o\nExit Code: 9", 3),
        (FRAME.format("o", DIED, 3), "o\nError: died", 3),
        (FRAME.format("(empty)", NO_ERROR, 1), "", 1),
        (FRAME.format("(empty)", DIED, 1), "Error: died", 1),
        (FRAME.format("(empty)", NO_ERROR, 0).replace("Signal: (none)", "Signal: 9"), "Signal: 9", 0),
        (FRAME.format("(empty)\nmore", NO_ERROR, 1), "(empty)\nmore", 1),
        (FRAME.format("o", NO_ERROR, 3).replace(" x", " a <<E\nDirectory\nE"), "o", 3),
        (FRAME.format("o", NO_ERROR, 3).removeprefix("Command: x\n"), "o", 3),
        (FRAME.format(FRAME.format("o", NO_ERROR, 4), NO_ERROR, 3), FRAME.format("o", NO_ERROR, 4), 3),
        ("Command: x\nOutput: o\nExit Code: 3\nSignal: (none)", "Command: x\nOutput: o", 3),
        ("Exit Code: 3\nSignal: (none)\nmore", "Exit Code: 3\nSignal: (none)\nmore", None),
        ("Exit code 3\no", "Exit code 3\no", None),
    ],
)
def test_the_result_of_a_failed_command(text: str, shown: str, code: int | None) -> None:
    """The program's own lines around the output are not shown, and have the exit status (qwen 0.24.4)."""
    assert read(returned("t1", text, is_error=True)) == [up.ToolReturn("t1", shown, True, code)]


def test_the_result_of_a_command_that_succeeded() -> None:
    """It has these lines only if there was no output. Else the command itself has printed them."""
    assert read(returned("t1", FRAME.format("(empty)", NO_ERROR, 0))) == [up.ToolReturn("t1", "", exit_code=0)]
    for text in (FRAME.format("o", NO_ERROR, 0), "Command: x\nOutput: y\nExit Code: 0\nSignal: 0", "o"):
        assert read(returned("t1", text)) == [up.ToolReturn("t1", text)]


def test_interrupted_newer_version() -> None:
    """The open block is flushed, then there is nothing more: cut off, with its text."""
    events = run(INIT, begin("a"), *block("a", "text", "tick 0 tick"), STOP, exit=Exit(signal=2, cancelled=True))
    assert blocks(events) == [("text", "tick 0 tick", True)]
    assert end(events)[:2] == ("cancelled", "tick 0 tick")


def test_killed_in_mid_text() -> None:
    """No stop, no line: the block is cut."""
    events = run(INIT, begin("a"), *block("a", "text", "tick 0 tick")[:3])
    assert blocks(events) == [("text", "tick 0 tick", False)]
    assert end(events)[0] == "cut_off"


def test_a_sub_agent() -> None:
    """Its calls stand in its lane, without message starts; the top agent goes on afterwards."""
    lines = [begin("a"), *calls("a", ("a1", "task", {"prompt": "look"})), STOP]
    lines += [{"type": "user", "message": {"content": [{"type": "text", "text": "look"}]}, "parent_tool_use_id": "a1"}]
    for n in ("1", "2"):
        use = {"type": "tool_use", "id": f"t{n}", "name": "run_shell_command", "input": {"command": n}}
        lines += [
            whole(f"s{n}", use, parent="a1"),
            returned(f"t{n}", "Command: x\nOutput: y\nExit Code: 0", parent="a1"),
        ]
    lines += [returned("a1", "Report."), begin("b"), *block("b", "text", "So."), STOP, result("So.")]
    events = run(INIT, *lines)
    inner = [event for event in events if event.parent == "a1"]
    assert [event.call_id for event in of(inner, ev.ToolCalled)] == ["t1", "t2"]
    assert len(of(inner, ev.MessageStarted)) == len(of(inner, ev.MessageEnded)) == 2
    assert end(events) == ("ok", "So.", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]


def test_sub_agents_in_parallel_have_their_own_rounds() -> None:
    """A call of another lane that is still open does not hold a lane's message open."""
    lines = [begin("a"), *calls("a", ("a1", "task", {}), ("a2", "task", {})), STOP]
    for n in range(2):
        uses = {lane: {"type": "tool_use", "id": f"{lane}-{n}", "name": "ls", "input": {}} for lane in ("a1", "a2")}
        lines += [whole(f"m{lane}{n}", use, parent=lane) for lane, use in uses.items()]
        lines += [returned(f"{lane}-{n}", "ok", parent=lane) for lane in uses]
    events = run(
        INIT,
        *lines,
        returned("a1", "x"),
        returned("a2", "y"),
        begin("b"),
        *block("b", "text", "So."),
        STOP,
        result("So."),
    )
    for lane in ("a1", "a2"):
        assert len([event for event in of(events, ev.MessageStarted) if event.parent == lane]) == 2


def test_todos_are_a_plan() -> None:
    """The tool of this name tells a plan."""
    made = calls(
        "a", ("t1", "todo_write", {"todos": [{"id": "1", "content": "Look", "status": "in_progress"}]}), partial=False
    )
    assert up.Plan([ev.PlanItem("Look", "in_progress")]) in read(*made, returned("t1", "ok"))
    assert not any(isinstance(it, up.Plan) for it in read(*made))


def test_other_lines() -> None:
    """Progress is silent; control requests of other kinds, too; what is unknown is told."""
    silent = [GOAL, api("tool_progress", tool_use_id="t", content="..."), {"type": "control_response", "response": {}}]
    assert read(*silent) == []
    assert read(api("brand_new")) == [up.Unknown("stream_event/brand_new")]
    assert read({"type": "system", "subtype": "brand_new", "data": {"text": "x"}}) == [
        up.Unknown("system/brand_new", "brand new: x")
    ]


def test_who_the_agent_is() -> None:
    """Session, model and version are in the init line; cached tokens are part of the input."""
    started = read(INIT)[-1]
    assert isinstance(started, up.RunStart)
    assert (started.session_id, started.model, started.version) == ("s", "m", "0.15.10")
    [update] = read(result("x", usage={"input_tokens": 100, "output_tokens": 3, "cache_read_input_tokens": 40}))
    assert isinstance(update, up.Result)
    assert update.usage == ev.Usage(100, 3, 40)


@pytest.mark.parametrize("char", ["\u2028", "\x85", "\x7f", "\x9b31m", "\x00"])
def test_nasty_characters(char: str) -> None:
    """They stay as they are."""
    events = run(INIT, begin("a"), *block("a", "text", f"a{char}b"), STOP, result(f"a{char}b"))
    assert end(events) == ("ok", f"a{char}b", None)


def retry(*, keeps: bool, calls: int = 0) -> Line:
    """The program asks the model again (qwen 0.24.4)."""
    data = {"reason": "retry", "discardedToolCalls": calls, "preserveText": keeps}
    return {"type": "system", "subtype": "retry", "parent_tool_use_id": None, "data": data}


def test_an_attempt_that_was_thrown_away_is_no_reply() -> None:
    """The first text is taken back, after its message ended; the second one goes on in the same message."""
    said = "This reply is cut off in the mid"
    delta = api("content_block_delta", index=0, delta={"type": "text_delta", "text": "dle"})
    first = [begin("a"), *block("a", "text", said), STOP, retry(keeps=False)]
    *opening, _ = block("b", "text", said)
    second = [begin("b"), *opening, retry(keeps=True), delta, whole("b", {"type": "text", "text": f"{said}dle"}), STOP]
    events = run(INIT, *first, *second, result(f"{said}dle"))
    assert end(events) == ("ok", f"{said}dle", None)
    assert [event.code for event in of(events, ev.Notice)] == ["retry"]
    assert not of(events, ev.Unknown)
    # Other text than that of the retry is no reply either, and a message that is still open is superseded as a whole.
    events = run(INIT, begin("a"), *block("a", "text", "One."), STOP, retry(keeps=False), result(""))
    assert end(events)[1] == ""
    events = run(
        INIT, begin("a"), *opening, retry(keeps=False), begin("b"), *block("b", "text", "Two."), STOP, result("Two.")
    )
    assert end(events) == ("ok", "Two.", None)


def statuses(events: list[ev.Event]) -> list[str]:
    """Return how each message ended."""
    return [event.status for event in of(events, ev.MessageEnded)]


def test_what_is_thrown_away_is_gone_before_the_next_text() -> None:
    """A chat shows nothing of the attempt from the retry on; what it used is counted, once."""
    stream, turn = Stream("qwen"), Turn()
    shown = []
    lines = [INIT, begin("a"), *block("a", "text", "Wrong."), STOP, GOAL, retry(keeps=False), begin("b")]
    lines[6]["message"]["usage"] = {"input_tokens": 7, "output_tokens": 0}
    for value in (*lines, *block("b", "text", "Right."), STOP, result("Right.")):
        shown += turn.feed(stream.feed(json.dumps(value).encode() + b"\n"))
    texts = [it.content for it in shown if isinstance(it, Assistant)]
    assert texts == ["Wr", "Wrong.", "", "Ri", "Right."]
    events = run(*lines, *block("b", "text", "Right."), STOP, result("Right."))
    assert [event.status for event in of(events, ev.MessageEnded)] == ["superseded", "ok"]
    assert [event.input_tokens for event in of(events, ev.UsageReported)] == [7]
    assert end(events) == ("ok", "Right.", None)


def test_the_end_of_a_message_waits_for_one_line() -> None:
    """A message with calls ends at once; one without ends before the next line that says anything, or at the end."""
    use = calls("a", ("t", "ls", {}))
    assert of(read(INIT, begin("a"), *use, STOP), up.MessageEnd)[-1].status is None
    said = [INIT, begin("a"), *block("a", "text", "One."), STOP]
    for rest in ([begin("b"), *block("b", "text", "Two."), STOP], [returned("t", "x")], [GOAL], []):
        ends = of(run(*said, *rest), ev.MessageEnded)
        assert [event.status for event in ends] == ["ok"] * (2 if len(rest) > 1 else 1)
    # A delta without a start of its message is a text of its own, and a retry long after the end takes back the last.
    stray = api("content_block_delta", index=0, delta={"type": "text_delta", "text": "Stray."})
    assert [event.text for event in of(run(*said, stray), ev.BlockEnded)] == ["One.", "Stray."]
    assert end(run(*said, returned("t", "x"), retry(keeps=False), result("One.")))[1] == ""


def test_calls_that_are_taken_back_are_shown_as_not_run() -> None:
    """A retry after calls: they failed, a notice says why, and neither their text nor their message is in the reply."""
    skipped = returned("t1", "Skipped because the provider attempt was retried before execution.", is_error=True)
    first = [begin("a"), *block("a", "text", "I look."), *calls("c", ("t1", "read_file", {"path": "f"})), STOP, skipped]
    said = [begin("b"), *block("b", "text", "All is seen."), STOP, result("All is seen.")]
    events = run(INIT, *first, retry(keeps=False, calls=1), *said)
    assert end(events) == ("ok", "All is seen.", None)
    assert [(it.is_error, it.complete) for it in of(events, ev.ToolReturned)] == [(True, True)]
    told = "the agent takes back its text and its calls so far, which were not run, and asks the model again"
    assert [(it.code, it.text) for it in of(events, ev.Notice)] == [("retry", told)]
    only = run(INIT, *first, retry(keeps=False, calls=1), result("I look."))
    assert end(only)[1] == ""


def test_reports_of_work_in_the_background_are_words() -> None:
    """Their fields are in `data` here: a start says nothing beside its call, and an end has its status, not JSON."""
    of_call = {"task_id": "general-purpose-1", "tool_use_id": "t1"}
    started = {**of_call, "description": "Help out", "subagent_type": "general-purpose"}
    ended = {**of_call, "status": "completed", "usage": {"total_tokens": 2468}}
    found = read(
        {"type": "system", "subtype": "task_started", "data": started},
        {"type": "system", "subtype": "task_notification", "data": ended},
        {"type": "system", "subtype": "task_notification", "data": "odd"},
        {"type": "system", "subtype": "task_notification", "data": {"task_id": 7, "status": {"x": 1}}},
    )
    notices = [update for update in found if isinstance(update, up.Notice)]
    assert [(notice.code, notice.text) for notice in notices[:3]] == [
        ("status", "task started: Help out"),
        ("background", "task notification: completed"),
        ("background", "task notification: odd"),
    ]
