"""droid's wire: turns, limits, thoughts, errors and diffs. The shapes are those of droid 0.225.2."""

from __future__ import annotations

from typing import Any

import adapter_harness
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agents.droid.diff import change_of
from penstock.events import BlockEnded, Event, MessageEnded, Notice, RunEnded, ToolReturned

INIT = {"type": "system", "subtype": "init", "cwd": "/p", "session_id": "s", "tools": ["Read"], "model": "m"}


def said(id: str, text: str, role: str = "assistant") -> dict[str, Any]:
    """A line of text."""
    return {"type": "message", "role": role, "id": id, "text": text, "timestamp": 1, "session_id": "s"}


def thought(id: str, text: str, at: int = 1) -> dict[str, Any]:
    """A line of thinking."""
    return {"type": "reasoning", "id": id, "text": text, "timestamp": at, "session_id": "s"}


def call(message: str, id: str = "c1") -> dict[str, Any]:
    """A call of the shell."""
    head = {"type": "tool_call", "id": id, "messageId": message, "toolId": "Execute", "toolName": "Execute"}
    return {**head, "parameters": {"command": "ls"}, "session_id": "s"}


def result(id: str = "c1", **fields: Any) -> dict[str, Any]:
    """The result of a call of the shell."""
    head = {"type": "tool_result", "id": id, "messageId": "x", "toolId": "Execute", "isError": "error" in fields}
    return {**head, **fields, "session_id": "s"}


def done(text: str, turns: int) -> dict[str, Any]:
    """The last line."""
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1}
    return {"type": "completion", "finalText": text, "numTurns": turns, "session_id": "s", "usage": usage}


def run(*lines: dict[str, Any]) -> list[Event]:
    """The events of lines, judged."""
    return adapter_harness.run("droid", *lines)


def end(events: list[Event]) -> RunEnded:
    """The last event."""
    assert isinstance(events[-1], RunEnded)
    return events[-1]


def test_an_answer_that_met_the_limit_goes_on() -> None:
    """The pieces are one text, with nothing between them, and the run is good."""
    ended = end(run(INIT, said("1", "One mo"), said("2", "re, and mo"), said("3", "re."), done("re.", 3)))
    assert (ended.outcome, ended.reply) == ("ok", "One more, and more.")


def test_messages_with_something_between_are_not_one() -> None:
    """A call, or words in the user's role, separate them."""
    ended = end(run(INIT, said("1", "One"), call("1"), result(value=""), said("2", "two."), done("two.", 2)))
    assert (ended.outcome, ended.reply, ended.rounds) == ("ok", "two.", 2)
    ended = end(run(INIT, said("1", "One."), said("u", "Go on.", "user"), said("2", "Two."), done("Two.", 2)))
    assert (ended.outcome, ended.reply) == ("ok", "One.\n\nTwo.")


def test_a_run_that_breaks_off_after_the_limit_is_not_good() -> None:
    """Without the last line nothing says that the answer is complete."""
    assert end(run(INIT, said("1", "One mo"), said("2", "re"))).outcome != "ok"


def test_the_news_of_a_task_begin_a_round() -> None:
    """The reply is the answer to them, and they are no text of the model."""
    news = said("task-completion:1", "Background task completed.\ntask_id: t\n\nReport it.", "user")
    events = run(
        INIT, call("1"), result(value="started"), said("2", "It works."), news, said("3", "All."), done("All.", 3)
    )
    assert (end(events).outcome, end(events).reply) == ("ok", "All.")
    assert [it.text for it in adapter_harness.of(events, Notice)] == ["Background task completed.\ntask_id: t"]


def test_a_thought_that_is_printed_twice_is_shown_once() -> None:
    """The same line is the same thought; the same words at another time, or other words, are not."""
    lines = (
        thought("1", "Hm."),
        thought("1", "Hm."),
        thought("1", "Well."),
        thought("1", "Hm."),
        thought("1", "Hm.", 2),
    )
    events = run(INIT, *lines, said("1", "Yes."), done("Yes.", 1))
    thoughts = [it.text for it in adapter_harness.of(events, BlockEnded) if it.kind == "thinking"]
    assert thoughts == ["Hm.", "Well.", "Hm.", "Hm."]


def test_the_figures_of_a_session_are_not_those_of_a_run() -> None:
    """A run that goes on with a session reports the turns and the tokens of the earlier runs too."""
    usage = end(run(INIT, said("1", "Hi."), done("Hi.", 1))).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens) == (16, 5, 1, 2)
    assert end(run(INIT, said("1", "Hi."), done("Hi.", 2))).usage is None


@pytest.mark.parametrize(
    ("message", "cause"), [("401 No such key.", "auth"), ("529 Busy.", "overloaded"), ("It failed.", None)]
)
def test_the_first_error_is_the_reason(message: str, cause: str | None) -> None:
    """The program's own line after it says only that it failed."""
    lines = [
        {"type": "error", "source": source, "message": text}
        for source, text in (("agent_loop", message), ("cli", "Exec failed"))
    ]
    ended = end(run(INIT, *lines))
    assert (ended.outcome, ended.reason, ended.cause) == ("error", message, cause)
    assert end(run(INIT, lines[1])).reason == "Exec failed"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("Error: Exec ended early: insufficient permission to proceed. Re-run with --auto medium.", True),
        ("Error: Tool Create is not permitted in this exec session. Available tools: Read.", True),
        ("Error: Tool broke: a thing is not permitted in this exec session", False),
        ("Error: Command failed (exit code: 3)\nno\n\n\n[Process exited with code 3]", False),
    ],
)
def test_a_call_that_was_denied(text: str, refused: bool) -> None:
    """The program's own sentences say so."""
    [back] = adapter_harness.of(
        run(INIT, call("1"), result(error={"type": "tool_error", "message": text})), ToolReturned
    )
    assert (back.is_error, back.refused) == (True, refused)


@pytest.mark.parametrize(
    ("fields", "text", "status"),
    [
        ({"value": "hi\n\n\n[Process exited with code 0]"}, "hi\n", 0),
        (
            {"error": {"message": "Error: Command failed (exit code: 3)\nno\n\n\n[Process exited with code 3]"}},
            "no\n",
            3,
        ),
        ({"value": "[Process exited with code 9]\nno"}, "[Process exited with code 9]\nno", None),
        (
            {"error": {"message": "Error: Command failed (exit code: 3)\nno"}},
            "Error: Command failed (exit code: 3)\nno",
            None,
        ),
    ],
)
def test_the_status_of_a_command(fields: dict[str, Any], text: str, status: int | None) -> None:
    """It is in the last line, which is droid's own; what the command prints elsewhere is output."""
    [back] = adapter_harness.of(run(INIT, call("1"), result(**fields)), ToolReturned)
    assert (back.text, back.exit_code) == (text, status)


def line(kind: str, text: str, old: int | None, new: int | None) -> dict[str, Any]:
    """A line of a diff."""
    numbers = {name: number for name, number in (("old", old), ("new", new)) if number is not None}
    return {"type": kind, "content": text, "lineNumber": numbers}


def test_a_diff_has_a_hunk_for_each_part() -> None:
    """The numbers of lines that follow are one hunk."""
    lines = [
        line("added", "new", None, 1),
        line("unchanged", "a", 1, 2),
        line("unchanged", "x", 9, 10),
        line("removed", "y", 10, None),
        line("removed", "z", 30, None),
    ]
    change = change_of({"file_path": "/p/a", "diffLines": lines})
    assert change is not None
    assert change.diff == "@@ -1 +1,2 @@\n+new\n a\n@@ -9,2 +10 @@\n x\n-y\n@@ -30 +29,0 @@\n-z\n"
    assert (change.added, change.removed) == (1, 2)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "content", "lineNumber", "old", "new", "file_path", "diffLines"]), inner
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_result_of_an_edit_is_read(value: Any) -> None:
    """A form that is not known is no diff."""
    change_of(value)
    change_of({"file_path": "a", "diffLines": value})
    change_of({"file_path": "a", "diffLines": [value]})


def test_a_message_ends_before_the_results_of_its_calls() -> None:
    """So a limit of turns ends the run when the last result is there, before the model is asked again."""
    events = run(INIT, said("1", "Two."), call("1", "a"), call("1", "b"), result("a", value=""), result("b", value=""))
    names = [type(it).__name__ for it in events if isinstance(it, MessageEnded | ToolReturned)]
    assert names == ["MessageEnded", "ToolReturned", "ToolReturned"]
