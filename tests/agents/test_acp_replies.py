"""Over ACP: which text is whose, and where a message and a round end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock import updates as up
from penstock.adapter import Request
from penstock.agents.acp.dialogue import Acp, ClientRequest
from penstock.events import BlockEnded, BlockStarted, Event, MessageStarted, RunEnded, ToolCalled
from penstock.stream import Stream
from penstock.testing import feeds, verify

Line = dict[str, Any]
CLAUDE = "@agentclientprotocol/claude-agent-acp"
NO_IDS = ["gemini-cli", "codex-acp", "qwen-code", "copilot", "cline", "peer"]
ASKED = {"prompt": "go", "description": "Help out"}


def opening(agent: str, first: int = 0) -> list[Line]:
    """How a session begins."""
    able = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": agent}}
    return [{"id": first, "result": able}, {"id": first + 1, "result": {"sessionId": "s"}}]


def update(what: str, **fields: Any) -> Line:
    """A `session/update`."""
    return {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": what, **fields}}}


def chunk(text: str, message: str | None = None, thought: bool = False, **fields: Any) -> Line:
    """A piece of text or of a thought."""
    kind = "agent_thought_chunk" if thought else "agent_message_chunk"
    named = {"messageId": message} if message else {}
    return update(kind, content={"type": "text", "text": text}, **named, **fields)


def read(*lines: Line, agent: str = "peer") -> list[Event]:
    """The events of a session in which the agent says these lines; they keep the contract."""
    said = [*opening(agent), *lines, {"id": 2, "result": {"stopReason": "end_turn"}}]
    events = feeds.whole(Stream("acp"), b"".join(json.dumps(line).encode() + b"\n" for line in said))
    assert verify(events) == []
    return events


def end_of(events: Sequence[Event]) -> RunEnded:
    """The last event."""
    assert isinstance(events[-1], RunEnded)
    return events[-1]


def plan(status: str = "pending") -> Line:
    """The plan, of one step."""
    return update("plan", entries=[{"content": "Work", "status": status, "priority": "medium"}])


def figures(lane: str | None = None) -> Line:
    """An empty chunk with the figures of a model call, as qwen ends each."""
    usage = {"inputTokens": 5, "outputTokens": 1, "totalTokens": 6}
    return chunk("", _meta={"usage": usage, **({"parentToolCallId": lane} if lane else {})})


def call(id: str, status: str | None = None, **fields: Any) -> Line:
    """A call is announced."""
    return update("tool_call", toolCallId=id, **({"status": status} if status else {}), **fields)


def done(id: str, **fields: Any) -> Line:
    """A call has ended."""
    return update("tool_call_update", toolCallId=id, status="completed", **fields)


def texts(events: Sequence[Event]) -> list[tuple[str | None, str]]:
    """Lane and text of each block of text."""
    numbers = {event.block for event in events if isinstance(event, BlockStarted) and event.kind == "text"}
    return [(event.parent, event.text) for event in events if isinstance(event, BlockEnded) and event.block in numbers]


# --- rounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", NO_IDS)
def test_a_plan_between_two_texts_ends_a_round(agent: str) -> None:
    """The tool that changes the plan is told as no call."""
    events = read(chunk("A plan "), chunk("first."), plan(), plan("completed"), chunk("Done."), agent=agent)
    assert texts(events) == [(None, "A plan first."), (None, "Done.")]
    assert (end_of(events).reply, end_of(events).rounds) == ("Done.", 2)


def test_a_plan_between_two_named_messages_ends_a_round() -> None:
    """As claude tells it; a plan in the middle of a message does not tear that."""
    events = read(chunk("First.", "m1"), plan(), plan(), chunk("", "m2"), chunk("Done.", "m2"), agent=CLAUDE)
    assert end_of(events).reply == "Done."
    events = read(chunk("One ", "m1"), plan(), chunk("text.", "m1"), chunk("Done.", "m2"), agent=CLAUDE)
    assert texts(events) == [(None, "One text."), (None, "Done.")]
    assert end_of(events).reply == "Done."


@pytest.mark.parametrize("agent", [*NO_IDS, CLAUDE])
def test_a_plan_before_or_behind_all_text(agent: str) -> None:
    """It takes nothing away; one that was cleared is a plan that changed, too."""
    assert end_of(read(chunk("Done."), plan("completed"), agent=agent)).reply == "Done."
    assert end_of(read(plan(), chunk("Done."), agent=agent)).reply == "Done."
    assert end_of(read(chunk("First."), update("plan", entries=[]), chunk("Done."), agent=agent)).reply == "Done."


def test_model_calls_that_qwen_counts_are_not_glued() -> None:
    """Where it asked again by itself, both texts are the reply; a call behind the figures is still of its message."""
    events = read(chunk("Half"), figures(), chunk("More"), figures(), agent="qwen-code")
    assert (end_of(events).reply, end_of(events).rounds) == ("Half\n\nMore", 1)
    run = [call("c", "in_progress", kind="execute", rawInput={"command": "ls"}), done("c")]
    events = read(chunk("Look"), figures(), *run, chunk("Done."), figures(), agent="qwen-code")
    assert len([event for event in events if isinstance(event, MessageStarted)]) == 2
    assert end_of(events).reply == "Done."


def test_model_calls_that_copilot_counts_are_not_glued() -> None:
    """It tells the size of the context when each begins."""
    used = update("usage_update", used=8, size=128)
    events = read(used, chunk("Ha"), chunk("lf"), used, chunk("More"), agent="copilot")
    assert end_of(events).reply == "Half\n\nMore"


def test_figures_in_the_middle_of_a_text_of_others() -> None:
    """From an agent that is not known to tell them between messages, they tear nothing."""
    assert end_of(read(chunk("Ha"), update("usage_update", used=8, size=128), chunk("lf"))).reply == "Half"


# --- sub-agents ------------------------------------------------------------------------------------------

QWEN_CALL = call("a", "in_progress", rawInput={**ASKED, "subagent_type": "general"}, _meta={"toolName": "agent"})
COPILOT_CALL = call("a", "pending", kind="other", rawInput={**ASKED, "agent_type": "explore"})
CLINE_CALL = call("a", "pending", title="spawn_agent: go", kind="think", rawInput={"task": "go"})
OTHER_CALL = call("a", "in_progress", kind="think", name="task", rawInput=ASKED)
QWEN_MARK = {"parentToolCallId": "a", "subagentType": "general"}
COPILOT_MARK = {"github.com/copilot": {"agentId": "e7780534"}}

HELPERS = {
    "qwen": ("qwen-code", QWEN_CALL, {"_meta": QWEN_MARK}),
    "copilot": ("copilot", COPILOT_CALL, {"_meta": COPILOT_MARK}),
    "cline": ("cline", CLINE_CALL, {}),
}


@pytest.mark.parametrize(("agent", "started", "mark"), HELPERS.values(), ids=HELPERS)
def test_the_text_of_a_sub_agent_is_in_its_lane(agent: str, started: Line, mark: Line) -> None:
    """It is not marked, but the top agent waits; the sub-agent's calls are in the same lane."""
    inner = call("b", "in_progress", title="run: ls", kind="execute", rawInput={"command": "ls"}, **mark)
    ended = done("b", rawOutput="x", **mark)
    lines = [chunk("I ask."), started, chunk("It "), chunk("looks."), inner, ended, chunk("It reports."), done("a")]
    events = read(*lines, chunk("It is back."), agent=agent)
    assert texts(events) == [(None, "I ask."), ("a", "It looks."), ("a", "It reports."), (None, "It is back.")]
    assert [(event.call_id, event.parent) for event in events if isinstance(event, ToolCalled)] == [
        ("a", None),
        ("b", "a"),
    ]
    assert (end_of(events).reply, end_of(events).rounds) == ("It is back.", 2)


@pytest.mark.parametrize(("agent", "started", "mark"), HELPERS.values(), ids=HELPERS)
def test_a_sub_agent_that_works_before_it_speaks(agent: str, started: Line, mark: Line) -> None:
    """Its thoughts and its plan are its own as well."""
    inner = call("b", "in_progress", title="run: ls", kind="execute", rawInput={"command": "ls"}, **mark)
    lines = [
        started,
        inner,
        done("b", rawOutput="x", **mark),
        chunk("Hm", thought=True),
        plan(),
        chunk("Found."),
        done("a"),
    ]
    events = read(chunk("I ask."), *lines, chunk("Back."), agent=agent)
    assert {event.parent for event in events if isinstance(event, BlockEnded) and event.kind == "thinking"} == {"a"}
    assert texts(events) == [(None, "I ask."), ("a", "Found."), (None, "Back.")]
    assert end_of(events).reply == "Back."


def test_two_sub_agents_at_once() -> None:
    """Whose text it is cannot always be known; that it is none of the top agent's, can."""
    second = {**QWEN_CALL["params"]["update"], "toolCallId": "b"}
    lines = [QWEN_CALL, update("tool_call", **{k: v for k, v in second.items() if k != "sessionUpdate"})]
    lines += [chunk("One."), figures("a"), chunk("Two."), figures("b"), done("a"), chunk("Three."), done("b")]
    events = read(chunk("I ask."), *lines, chunk("Back."), agent="qwen-code")
    assert [text for lane, text in texts(events) if lane is None] == ["I ask.", "Back."]
    assert end_of(events).reply == "Back."


def test_the_second_sub_agent_of_copilot() -> None:
    """Each is known by an id of its own, which is that of the call that started it from its first mark on."""
    marks = [{"_meta": {"github.com/copilot": {"agentId": id}}} for id in ("one", "two")]
    lines = []
    for id, mark in zip("ab", marks, strict=True):
        started = {**COPILOT_CALL["params"]["update"], "toolCallId": id}
        inner = call(f"{id}1", "pending", kind="read", rawInput={"path": "/x"}, **mark)
        lines += [update("tool_call", **{k: v for k, v in started.items() if k != "sessionUpdate"})]
        lines += [inner, done(f"{id}1", **mark), chunk(f"Said {id}."), done(id)]
    events = read(*lines, chunk("Back."), agent="copilot")
    assert texts(events) == [("a", "Said a."), ("b", "Said b."), (None, "Back.")]


@pytest.mark.parametrize("agent", [CLAUDE, "OpenCode", "gemini-cli", "codex-acp"])
def test_agents_that_mark_their_sub_agents_or_keep_them_silent(agent: str) -> None:
    """From them, what has no mark is the top agent's at any time."""
    lines = [chunk("I ask.", "m1"), QWEN_CALL, chunk("Meanwhile.", "m2"), done("a")]
    assert (None, "Meanwhile.") in texts(read(*lines, agent=agent))


def test_another_agent_with_a_sub_agent() -> None:
    """The tool's name or what it is given tells a sub-agent; text beside any other tool is the agent's own."""
    assert texts(read(OTHER_CALL, chunk("Inner."), done("a"), chunk("Back."))) == [("a", "Inner."), (None, "Back.")]
    beside = call("a", "in_progress", kind="execute", rawInput={"command": "sleep 9"})
    assert texts(read(beside, chunk("Beside."), done("a")))[0] == (None, "Beside.")
    announced = call("a", "pending", kind="think", name="task", rawInput=ASKED)
    assert texts(read(announced, chunk("Not yet."), done("a")))[0] == (None, "Not yet.")


def test_a_sub_agent_that_was_refused_says_nothing() -> None:
    """Some agents tell no result of a call that a person refused: the text behind it is the agent's own."""
    dialogue = Acp(Request(prompt="do it", cwd="/srv"))
    for line in opening("copilot", ClientRequest.INITIALIZE):
        dialogue.read(line)
    wanted = {"toolCallId": "a", "title": "Help out", "rawInput": {**ASKED, "agent_type": "explore"}}
    option = {"optionId": "no", "name": "No", "kind": "reject_once"}
    params = {"sessionId": "s", "toolCall": wanted, "options": [option]}
    dialogue.read({"id": 0, "method": "session/request_permission", "params": params})
    dialogue.answer(up.Answer("0", "person", option="no"))
    [said] = [it for it in dialogue.read(chunk("Then I do it.")) if isinstance(it, up.Text)]
    assert said.lane is None


@pytest.mark.parametrize(
    ("first", "joins"),
    [
        ('print("hel', True),
        ("a list of things,", True),
        ("a word ", True),
        ("Done.", False),
        ('He said: "no."\n', False),
        ("**Is it done?**", False),
        ("完成。", False),
    ],
)
def test_a_message_of_claude_that_ended_within_a_sentence_goes_on(first: str, joins: bool) -> None:
    """At the limit of tokens claude lets the model go on, which its ACP does not report: no word and no code is cut."""
    events = read(*(chunk(it, "m1") for it in first), chunk("lo, world", "m2"), chunk(" of words.", "m2"), agent=CLAUDE)
    end = end_of(events)
    assert (end.outcome, end.reply) == ("ok", first + ("" if joins else "\n\n") + "lo, world of words.")


@pytest.mark.parametrize(
    "between",
    [
        [update("tool_call", toolCallId="c", status="completed", kind="execute", rawInput={"command": "ls"})],
        [chunk("hm", "m2", thought=True)],
        [update("user_message_chunk", content={"type": "text", "text": "And?"})],
    ],
    ids=["a call", "a thought", "a prompt"],
)
def test_a_message_after_something_else_is_another_one(between: list[Line]) -> None:
    """A call, a thought or a prompt shows that the message before it had ended; other agents' messages have too."""
    end = end_of(read(chunk("I look", "m1"), *between, chunk("around", "m2"), agent=CLAUDE))
    assert end.reply in ("around", "I look\n\naround")
    assert end_of(read(chunk("I look", "m1"), chunk("around", "m2"), agent="peer")).reply == "I look\n\naround"
