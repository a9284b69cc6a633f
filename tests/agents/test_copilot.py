from __future__ import annotations

from functools import partial
from typing import Any

import adapter_harness
import pytest
from adapter_harness import end, of

from penstock import events as ev
from penstock import updates as up
from penstock.agents.copilot.exec import Copilot
from penstock.core.normalizer.outcome import Exit

read = partial(adapter_harness.read, Copilot)
run = partial(adapter_harness.run, "copilot")
blocks = partial(adapter_harness.blocks, without=("tool_input", "tool_output"))


Line = dict[str, Any]


def line(kind: str, agent: str | None = None, **data: Any) -> Line:
    """A line; `agent` is the sub-agent that it comes from."""
    return {"type": kind, "data": data, "id": "x", "timestamp": "t", **({"agentId": agent} if agent else {})}


def begin(turn: str = "0", agent: str | None = None, call: bool = True) -> list[Line]:
    """A turn starts, with its model call."""
    return [line("assistant.turn_start", agent, turnId=turn), line("model.call_start", agent, turnId=turn, model="m")]


def deltas(name: str, *pieces: str, agent: str | None = None) -> list[Line]:
    """A text streams."""
    first = line("assistant.message_start", agent, messageId=name)
    return [first, *(line("assistant.message_delta", agent, messageId=name, deltaContent=piece) for piece in pieces)]


def whole(name: str, content: str, *calls: tuple[str, str, Any], agent: str | None = None, **fields: Any) -> Line:
    """A message, whole."""
    requests = [{"toolCallId": call_id, "name": tool, "arguments": value} for call_id, tool, value in calls]
    return line("assistant.message", agent, messageId=name, content=content, toolRequests=requests, **fields)


def finish(turn: str = "0", agent: str | None = None, outcome: str = "success") -> list[Line]:
    """The model call and its turn end."""
    return [
        line("model.call_final_result", agent, model="m", result=outcome),
        line("assistant.turn_end", agent, turnId=turn),
    ]


def result(code: int = 0) -> Line:
    """The last line."""
    usage = {"premiumRequests": 0, "sessionDurationMs": 1479.2, "codeChanges": {"linesAdded": 0}}
    return {"type": "result", "timestamp": "t", "sessionId": "s", "exitCode": code, "usage": usage}


def answer(text: str, name: str = "m1", turn: str = "0") -> list[Line]:
    """A turn of one text."""
    return [*begin(turn), *deltas(name, text[:3], text[3:]), whole(name, text), *finish(turn)]


# --- deltas that get lost ---


def test_deltas_that_are_missing_in_the_middle() -> None:
    """The whole message is the truth: the block is revised before it ends."""
    events = run(*begin(), *deltas("m1", "One, ", "three."), whole("m1", "One, two, three."), *finish(), result())
    order = [type(event).__name__ for event in of(events, ev.BlockRevised, ev.BlockEnded)]
    assert order == ["BlockRevised", "BlockEnded"]
    assert blocks(events) == [("text", "One, two, three.", True)]
    assert end(events) == ("ok", "One, two, three.", None)


def test_deltas_that_are_missing_at_the_end() -> None:
    """What is missing is put out as new, with no revision."""
    events = run(*begin(), *deltas("m1", "One, "), whole("m1", "One, two."), *finish(), result())
    assert [event.text for event in of(events, ev.Delta)] == ["One, ", "two."]
    assert of(events, ev.BlockRevised) == []


@pytest.mark.parametrize("told", [True, False])
def test_all_deltas_are_missing(told: bool) -> None:
    """`--stream off`, or a busy machine: thinking comes after its message, or before it where that tells it, too."""
    fields = {"reasoningText": "Hm"} if told else {}
    lines = [*begin(), whole("m1", "Looking.", **fields), line("assistant.reasoning", reasoningId="r", content="Hm")]
    events = run(*lines, *finish(), *answer("Ok.", "m2", "1"), result())
    thought, said = ("thinking", "Hm", True), ("text", "Looking.", True)
    assert blocks(events) == [*([thought, said] if told else [said, thought]), ("text", "Ok.", True)]
    assert of(events, ev.BlockRevised) == []


def test_thinking_that_was_streamed_is_not_told_again() -> None:
    """Its whole text comes after the message that followed it."""
    thought = [line("assistant.reasoning_delta", reasoningId="r", deltaContent=piece) for piece in ("H", "m")]
    after = line("assistant.reasoning", reasoningId="r", content="Hm", rte=False)
    events = run(
        *begin(), *thought, *deltas("m1", "Ok."), whole("m1", "Ok.", reasoningText="Hm"), after, *finish(), result()
    )
    assert [event.text for event in of(events, ev.Delta)] == ["H", "m", "Ok."]
    assert sorted(blocks(events)) == [("text", "Ok.", True), ("thinking", "Hm", True)]


def test_the_input_of_a_call_is_told_once() -> None:
    """Deltas, request and start of a call are one call."""
    pieces = [
        line("assistant.tool_call_delta", toolCallId="t1", toolName="bash", inputDelta=piece)
        for piece in ('{"command"', ':"ls"}')
    ]
    start = line("tool.execution_start", toolCallId="t1", toolName="bash", arguments={"command": "ls"})
    events = run(*begin(), *pieces, whole("m1", "", ("t1", "bash", {"command": "ls"})), start, *finish(), result())
    assert [(event.name, event.input) for event in of(events, ev.ToolCalled)] == [("bash", {"command": "ls"})]
    assert [event.text for event in of(events, ev.BlockEnded)] == ['{"command":"ls"}']


def test_a_message_in_parts() -> None:
    """A long message that comes in several lines keeps all of them."""
    parts = [whole("m1", "One ", chunkIndex=0, chunkCount=2), whole("m1", "two.", chunkIndex=1, chunkCount=2)]
    assert end(run(*begin(), *parts, *finish(), result())) == ("ok", "One two.", None)


# --- attempts ---


def failed(turn: str = "0") -> list[Line]:
    """What follows an attempt that broke and is made again."""
    return [
        line("model.call_failure", model="m", failureKind="api"),
        line("model.call_finished", turnId=turn, outcome="error"),
        line("assistant.turn_retry", turnId=turn, reason="api_error"),
        line("session.info", infoType="model_retry", message="Retrying..."),
    ]


@pytest.mark.parametrize(
    "marks", [(0, 1, 2, 3), (0, 1, 3), (2,)], ids=["all marks", "no retry line", "only the retry line"]
)
def test_a_failed_attempt_is_taken_back(marks: tuple[int, ...]) -> None:
    """Its id never gets its message; text and thinking of it are superseded, and no part of the reply."""
    thought = line("assistant.reasoning_delta", reasoningId="r1", deltaContent="Hm")
    again = [line("model.call_start", turnId="0", model="m"), *deltas("m2", "Right."), whole("m2", "Right.")]
    events = run(
        *begin(),
        thought,
        *deltas("m1", "This re", "ply"),
        *(failed()[mark] for mark in marks),
        *again,
        *finish(),
        result(),
    )
    assert sorted(blocks(events)) == [
        ("text", "Right.", True),
        ("text", "This reply", False),
        ("thinking", "Hm", False),
    ]
    assert [event.status for event in of(events, ev.MessageEnded)] == ["superseded", "ok"]
    assert end(events) == ("ok", "Right.", None)


def test_a_new_id_without_any_mark() -> None:
    """A text that begins under another id, before the first one was said whole, takes its place."""
    events = run(
        *begin(),
        *deltas("m1", "Part"),
        *deltas("m2", "Part"),
        *deltas("m3", "Partial"),
        whole("m3", "Partial"),
        *finish(),
        result(),
    )
    assert blocks(events) == [("text", "Part", False), ("text", "Part", False), ("text", "Partial", True)]
    assert [event.status for event in of(events, ev.MessageEnded)] == ["superseded", "superseded", "ok"]
    assert end(events) == ("ok", "Partial", None)


def test_two_texts_of_one_call() -> None:
    """A new id after the first text was said whole is just more text."""
    lines = [*deltas("m1", "One. "), whole("m1", "One. "), *deltas("m2", "Two."), whole("m2", "Two.")]
    events = run(*begin(), *lines, *finish(), result())
    assert len(of(events, ev.MessageStarted)) == 1
    assert end(events) == ("ok", "One. Two.", None)


def test_attempts_that_are_used_up() -> None:
    """The last attempt's text stays, marked as cut; the outcome is that of the session's error."""
    said = "Failed to get response from the AI model; retried 1 times"
    lines = [
        *begin(),
        *deltas("m1", "This"),
        *failed(),
        line("model.call_start", turnId="0", model="m"),
        *deltas("m2", "This reply"),
    ]
    lines += [
        *failed()[:2],
        *finish(outcome="http_5xx"),
        line("session.error", errorType="query", message=said, statusCode=500),
    ]
    events = run(*lines, line("assistant.idle"), result(1), exit=Exit(1))
    assert blocks(events) == [("text", "This", False), ("text", "This reply", False)]
    assert [event.status for event in of(events, ev.MessageEnded)] == ["superseded", "cut"]
    assert end(events) == ("error", "This reply", said)
    assert [(event.level, event.code) for event in of(events, ev.Notice)] == [("warning", "retry"), ("error", "error")]
    assert events[-1].session_id == "s"  # type: ignore[union-attr]


def test_a_turn_that_ends_without_its_message() -> None:
    """Its text stays, and is not called complete."""
    events = run(*begin(), *deltas("m1", "This"), line("assistant.turn_end", turnId="0"), result())
    assert blocks(events) == [("text", "This", False)]
    assert end(events) == ("ok", "This", None)


def test_an_error_that_was_overcome() -> None:
    """A session error before a run that ends well is only a notice."""
    events = run(line("session.error", errorType="mcp", message="no server"), *answer("Fine."), result())
    assert end(events) == ("ok", "Fine.", None)


def test_an_exit_code_alone() -> None:
    """A last line with a code is an error without words."""
    assert end(run(*answer("Hm."), result(1)))[:2] == ("error", "Hm.")


@pytest.mark.parametrize("last", [[], [line("assistant.turn_end", turnId="0")]])
def test_interrupted(last: list[Line]) -> None:
    """No result follows: cancelled, with the text so far."""
    stop = [
        line("agent.interrupted"),
        *last,
        line("abort", reason="user_initiated"),
        line("assistant.idle", aborted=True),
    ]
    events = run(*begin(), *deltas("m1", "tick 0 ", "tick"), *stop, exit=Exit(0))
    assert blocks(events) == [("text", "tick 0 tick", False)]
    assert end(events) == ("cancelled", "tick 0 tick", "user_initiated")


def test_interrupted_with_a_result() -> None:
    """The line after the abort is no second end, but it tells the session."""
    events = run(*begin(), *deltas("m1", "tick"), line("abort", reason="user_abort"), result(), exit=Exit(0))
    ended = events[-1]
    assert isinstance(ended, ev.RunEnded)
    assert (ended.outcome, ended.session_id) == ("cancelled", "s")


def test_killed() -> None:
    """No last line is no regular end."""
    events = run(*begin(), *deltas("m1", "tick"), exit=Exit(signal=15))
    assert blocks(events) == [("text", "tick", False)]
    assert end(events) == ("cut_off", "tick", "killed by signal 15")


def test_an_empty_answer() -> None:
    """A message without content is no reply."""
    events = run(*begin(), whole("m1", ""), *finish(), result())
    assert end(events)[:2] == ("empty", "")
    assert blocks(events) == []


# --- tools ---


def shell(call_id: str, text: str, code: int, **fields: Any) -> list[Line]:
    """A shell runs: its output streams, twice, and comes whole."""
    return [
        line("tool.execution_start", toolCallId=call_id, toolName="bash", arguments={"command": "x"}),
        line("tool.shell_output", toolCallId=call_id, stream="stdout", text=text[:3], sequence=0),
        line("tool.execution_partial_result", toolCallId=call_id, partialOutput=text[:3]),
        line("tool.shell_output", toolCallId=call_id, stream="stderr", text=text[3:], sequence=1),
        line("tool.execution_partial_result", toolCallId=call_id, partialOutput=text),
        line(
            "tool.execution_complete",
            toolCallId=call_id,
            success=True,
            shellExecution={"exitCode": code},
            result={"content": text},
        ),
    ]


@pytest.mark.parametrize("code", [0, 3])
def test_the_output_of_a_shell(code: int) -> None:
    """One block of output; a code other than 0 is a failed call, success or not."""
    lines = [*begin(), whole("m1", "", ("t1", "bash", {"command": "x"})), *shell("t1", "out\nerr\n", code), *finish()]
    events = run(*lines, *answer("So.", "m2", "1"), result())
    assert [event.text for event in of(events, ev.BlockEnded) if event.kind == "tool_output"] == ["out\nerr\n"]
    [back] = of(events, ev.ToolReturned)
    assert (back.text, back.is_error, back.exit_code) == ("out\nerr\n", bool(code), code)
    assert end(events) == ("ok", "So.", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]


def test_a_denied_tool() -> None:
    """Its error's message is its text; the run goes on."""
    lines = [*begin(), whole("m1", "", ("t1", "bash", {}))]
    denied = line(
        "tool.execution_complete",
        toolCallId="t1",
        success=False,
        error={"message": "Permission denied", "code": "denied"},
    )
    events = run(*lines, denied, *finish(), *answer("So.", "m2", "1"), result())
    assert [(event.text, event.is_error) for event in of(events, ev.ToolReturned)] == [("Permission denied", True)]
    assert end(events) == ("ok", "So.", None)


# --- sub-agents ---


@pytest.mark.parametrize("mapped", [True, False])
def test_a_sub_agent(mapped: bool) -> None:
    """It streams like the top agent, in the lane of the call that started it; its words are not in the reply."""
    agent = "agent-7"
    lines = [*begin(), whole("m1", "I ask.", ("a1", "task", {"prompt": "look"}))]
    lines += [line("tool.execution_start", toolCallId="a1", toolName="task", arguments={"prompt": "look"})]
    if mapped:
        lines += [line("subagent.started", agent, toolCallId="a1", agentName="explore", agentDisplayName="Explore")]
    inner = [
        line("user.message", agent, content="look"),
        *begin("0", agent),
        *deltas("s1", "Inner ", "words.", agent=agent),
    ]
    inner += [whole("s1", "Inner words.", ("t2", "bash", {"command": "ls"}), agent=agent)]
    inner += [
        line("tool.execution_complete", agent, toolCallId="t2", success=True, result={"content": "files"}),
        *finish("0", agent),
    ]
    inner += [
        *begin("1", agent),
        *deltas("s2", "Inner end.", agent=agent),
        whole("s2", "Inner end.", agent=agent),
        *finish("1", agent),
    ]
    if not mapped:
        for each in inner:
            each["data"]["parentToolCallId"] = "a1"
    lines += [*inner, line("subagent.completed", agent, toolCallId="a1", agentName="explore")]
    lines += [line("tool.execution_complete", toolCallId="a1", success=True, result={"content": "Report."}), *finish()]
    events = run(*lines, *answer("They say so.", "m2", "1"), result())
    assert blocks(events, "a1") == [("text", "Inner words.", True), ("text", "Inner end.", True)]
    assert [event.call_id for event in of(events, ev.ToolCalled) if event.parent == "a1"] == ["t2"]
    assert blocks(events) == [("text", "I ask.", True), ("text", "They say so.", True)]
    assert end(events) == ("ok", "They say so.", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]


def test_an_error_of_a_sub_agent_is_not_the_runs() -> None:
    """It is told in its lane; the run ends as the top agent does."""
    events = run(line("session.error", "agent-7", message="inner"), *answer("Fine."), result())
    assert end(events) == ("ok", "Fine.", None)
    assert [(event.parent, event.text) for event in of(events, ev.Notice)] == [("agent-7", "inner")]


# --- all the rest ---


def test_usage() -> None:
    """One event for each model call."""
    used = line("assistant.usage", model="m", inputTokens=10, outputTokens=3, cacheReadTokens=4, cacheWriteTokens=0)
    [event] = of(run(*begin(), used, *answer("Ok.")[2:], result()), ev.UsageReported)
    assert (event.model, event.input_tokens, event.output_tokens, event.cached_tokens) == ("m", 10, 3, 4)


def test_who_the_agent_is() -> None:
    """The model is told early, the session in the last line only."""
    events = run(line("session.tools_updated", model="mock"), *answer("Ok."), result())
    assert of(events, ev.RunStarted)[0].model == "mock"
    assert (events[-1].session_id, events[-1].duration_ms) == ("s", 1479)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (line("session.warning", message="careful"), up.Notice("status", "warning: careful", "warning")),
        (line("session.info", infoType="file_created", message="made x"), up.Notice("status", "made x")),
        (line("assistant.intent", intent="Reading"), up.Notice("status", "intent: Reading")),
        (line("session.task_complete", summary="All done"), up.Notice("status", "task complete: All done")),
        (line("session.compaction_start"), up.Notice("compaction", "compaction start")),
        (
            line("subagent.failed", "a", error="boom", agentName="x"),
            up.Notice("background", "subagent failed: boom", "warning", "a"),
        ),
        (line("hook.end", hookType="pre", success=False, error="no"), up.Notice("hook", "hook failed: no", "warning")),
        (
            line("user_input.requested", requestId="q", question="Which?", choices=["a", "b"]),
            up.Question("q", "Which?", "choice", [ev.Option("a", "a", "choice"), ev.Option("b", "b", "choice")]),
        ),
        (
            line("permission.requested", requestId="q", permissionRequest={"kind": "shell", "fullCommandText": "ls"}),
            up.Question("q", "ls", "command", title="ls"),
        ),
        (
            line("permission.completed", requestId="q", result={"kind": "approved"}),
            up.Answer("q", "allow", text="approved"),
        ),
        (
            line("permission.completed", requestId="q", result={"kind": "denied-interactively-by-user"}),
            up.Answer("q", "person", text="denied-interactively-by-user"),
        ),
        (
            line(
                "permission.completed",
                requestId="q",
                result={"kind": "denied-no-approval-rule-and-could-not-request-from-user"},
            ),
            up.Answer("q", "nobody", text="denied-no-approval-rule-and-could-not-request-from-user"),
        ),
        (line("user_input.completed", requestId="q", answer="a"), up.Answer("q", "person", text="a")),
        (
            line("session.todos_changed", todos=[{"title": "Look", "status": "done"}]),
            up.Plan([ev.PlanItem("Look", "completed")]),
        ),
        (line("brand.new", content="x"), up.Unknown("brand.new", "x")),
        (line("assistant.brand_new", content="x"), up.Unknown("assistant.brand_new", "x")),
    ],
)
def test_what_lines_mean(given: Line, expected: up.Update) -> None:
    """Words for people, questions and answers, plans; what is new is told."""
    assert read(given) == [expected]


def test_all_names_of_the_schema_are_handled_on_purpose() -> None:
    """No type that the package's schema is known to hold is unknown."""
    names = """
        session.skills_loaded session.mcp_servers_loaded session.tools_updated session.background_tasks_changed
        session.info session.warning session.error user.message assistant.turn_start assistant.turn_end
        assistant.turn_retry assistant.idle model.call_start model.call_finished model.call_failure
        model.call_final_result assistant.message_start assistant.message_delta assistant.message
        assistant.reasoning_delta assistant.reasoning assistant.tool_call_delta tool.execution_start
        tool.execution_complete tool.shell_output tool.execution_partial_result subagent.started
        subagent.configured subagent.completed agent.interrupted abort result session.start session.resume
        session.compaction_start session.compaction_complete session.truncation session.title_changed
        session.todos_changed session.task_complete session.usage_info session.plan_changed session.mode_changed
        session.model_change assistant.intent assistant.usage assistant.streaming_delta assistant.fusion_start
        assistant.fusion_anything tool.execution_progress permission.requested permission.completed
        user_input.requested user_input.completed elicitation.requested elicitation.completed hook.start hook.end
        hook.progress external_tool.requested external_tool.completed skill.invoked subagent.failed system.message
        system.notification mcp.oauth_required mcp.anything exit_plan_mode.requested exit_plan_mode.completed"""
    for name in names.split():
        assert not any(isinstance(update, up.Unknown) for update in read(line(name))), name
        assert not any(isinstance(update, up.Unknown) for update in read({"type": name})), name


@pytest.mark.parametrize("char", ["\u2028", "\x85", "\x7f", "\x9b31m", "\x00"])
def test_nasty_characters(char: str) -> None:
    """They stay as they are."""
    assert end(run(*answer(f"abc{char}b"), result())) == ("ok", f"abc{char}b", None)
