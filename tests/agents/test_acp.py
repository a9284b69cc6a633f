from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import events as ev
from penstock import updates as up
from penstock.adapter import Adapter, Dialogue, Request
from penstock.agents.acp.dialogue import Acp, ClientRequest
from penstock.core.diffs import from_fragments
from penstock.events import (
    BlockEnded,
    Cause,
    Event,
    PlanChanged,
    QuestionAsked,
    RunEnded,
    RunStarted,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from penstock.stream import Stream
from penstock.testing.verify import verify

RECORDINGS = Path(__file__).parents[1] / "recordings"

SESSION = "s1"


def answered(id: Any, result: Any) -> dict[str, Any]:
    """An answer of the agent's."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def failed(id: Any, message: str, code: int = -32603, data: Any = None) -> dict[str, Any]:
    """An answer that is an error."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}}


def update(what: str, /, session: str = SESSION, **fields: Any) -> dict[str, Any]:
    """A `session/update`."""
    params = {"sessionId": session, "update": {"sessionUpdate": what, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text: str, message: str | None = None, thought: bool = False, **fields: Any) -> dict[str, Any]:
    """A piece of text or of a thought."""
    kind = "agent_thought_chunk" if thought else "agent_message_chunk"
    named = {"messageId": message} if message else {}
    return update(kind, content={"type": "text", "text": text}, **named, **fields)


def asking(id: Any = 0, options: Any = None, **call: Any) -> dict[str, Any]:
    """A request for a permission."""
    kinds = {"Always": "allow_always", "Once": "allow_once", "No": "reject_once"}
    made = [{"optionId": name.lower(), "name": name, "kind": kind} for name, kind in kinds.items()]
    params = {
        "sessionId": SESSION,
        "toolCall": {"toolCallId": "c", **call},
        "options": made if options is None else options,
    }
    return {"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}


def opening(agent: str = "peer", first: int = 0, **capabilities: Any) -> list[dict[str, Any]]:
    """How a dialogue begins, as another client recorded it."""
    able = {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": {"name": agent, "version": "1.0"}}
    return [answered(first, able), answered(first + 1, {"sessionId": SESSION})]


def read(*lines: dict[str, Any], agent: str = "peer", end: bool = True) -> list[Event]:
    """The events of a session in which the agent says these lines."""
    last = [answered(2, {"stopReason": "end_turn"})] if end else []
    stream = Stream("acp")
    events = stream.feed(b"".join(json.dumps(line).encode() + b"\n" for line in [*opening(agent), *lines, *last]))
    events += stream.close()
    assert verify(events) == []
    return events


def end_of(events: list[Event]) -> RunEnded:
    """The last event."""
    assert isinstance(events[-1], RunEnded)
    return events[-1]


def texts(events: list[Event]) -> list[tuple[str, str]]:
    """The blocks of text and thinking."""
    return [(e.kind, e.text) for e in events if isinstance(e, BlockEnded) and e.kind in ("text", "thinking")]


class Talk:
    """A dialogue with nobody: the test says the agent's lines."""

    def __init__(self, prompt: str = "do it", **request: Any) -> None:
        self.acp = Acp(Request(prompt=prompt, cwd="/srv", **request))
        self.updates: list[up.Update] = []

    def said(self) -> list[Any]:
        """What Penstock says now."""
        return [json.loads(line) for line in self.acp.take().splitlines()]

    def hear(self, *lines: Any) -> list[Any]:
        """What it says to these lines."""
        for line in lines:
            self.updates += self.acp.read(json.loads(json.dumps(line)))
        return self.said()

    def begin(self, agent: str = "peer", session: Any = None, **capabilities: Any) -> list[Any]:
        """Answer until the session is open; what it says then."""
        self.said()
        [opened] = self.hear(opening(agent, ClientRequest.INITIALIZE, **capabilities)[0])
        return self.hear(answered(opened["id"], {"sessionId": SESSION, **(session or {})}))


def test_it_is_a_dialogue_and_an_adapter() -> None:
    """With a request and without one."""
    assert isinstance(Acp(), Adapter)
    assert isinstance(Acp(Request(prompt="x")), Dialogue)
    assert Acp().take() == b""


def test_it_opens_a_session_and_prompts() -> None:
    """Each request follows the answer to the one before."""
    talk = Talk("do it — \ud83d")
    [first] = talk.said()
    assert (first["method"], first["params"]["protocolVersion"], first["params"]["clientCapabilities"]) == (
        "initialize",
        1,
        {"elicitation": {"form": {}}, "session": {"notices": {}, "compaction": {}}},
    )
    assert talk.said() == []
    [new] = talk.hear(opening(first=first["id"])[0])
    assert (new["method"], new["params"]) == ("session/new", {"cwd": "/srv", "mcpServers": []})
    [prompt] = talk.hear(answered(new["id"], {"sessionId": SESSION}))
    assert prompt["params"] == {"sessionId": SESSION, "prompt": [{"type": "text", "text": "do it — \ufffd"}]}
    assert not talk.acp.over
    assert talk.hear(answered(prompt["id"], {"stopReason": "end_turn"})) == []
    assert talk.acp.over


@pytest.mark.parametrize(
    ("can", "fork", "method"),
    [
        ({"loadSession": True}, False, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, False, "session/resume"),
        ({"sessionCapabilities": {"fork": {}}}, True, "session/fork"),
    ],
)
def test_a_session_is_gone_on_with_as_the_agent_can(can: dict[str, Any], fork: bool, method: str) -> None:
    """Resuming is better than loading, which repeats the history."""
    talk = Talk(session_id="old", fork=fork)
    talk.said()
    [opened] = talk.hear(opening(first=ClientRequest.INITIALIZE, **can)[0])
    assert (opened["method"], opened["params"]["sessionId"]) == (method, "old")


@pytest.mark.parametrize(
    ("can", "fork", "words"),
    [
        ({}, False, "it can only begin new ones"),
        ({}, True, "it can only begin new sessions"),
        ({"loadSession": True}, True, "it can resume a session, or begin one"),
    ],
)
def test_what_the_agent_cannot_do_is_an_error_that_says_what_it_can(
    can: dict[str, Any], fork: bool, words: str
) -> None:
    """And the dialogue is over before anything ran."""
    talk = Talk(session_id="old", fork=fork)
    talk.said()
    assert talk.hear(opening(first=ClientRequest.INITIALIZE, **can)[0]) == []
    [result] = talk.updates
    assert isinstance(result, up.Result)
    assert result.is_error
    assert words in (result.reason or "")
    assert talk.acp.over


def test_a_resume_that_is_announced_and_missing_becomes_a_load() -> None:
    """Qwen 0.15 announces it and does not know the method."""
    talk = Talk(session_id="old")
    talk.said()
    able: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    [resume] = talk.hear(opening(first=ClientRequest.INITIALIZE, **able)[0])
    [load] = talk.hear(failed(resume["id"], "Method not found", -32601))
    assert load["method"] == "session/load"
    assert not talk.acp.over


def test_history_that_goes_on_after_the_load_is_waited_for() -> None:
    """The prompt is sent when the agent answers a made-up request with nothing said since the one before."""
    talk = Talk(session_id=SESSION)
    talk.said()
    [load] = talk.hear(opening(first=ClientRequest.INITIALIZE, loadSession=True)[0])
    [sync] = talk.hear(chunk("old 1"), answered(load["id"], None))
    [again] = talk.hear(chunk("old 2"), failed(sync["id"], "unknown", -32601))
    [third] = talk.hear(chunk("old 3"), failed(again["id"], "unknown", -32601))
    [prompt] = talk.hear(failed(third["id"], "unknown", -32601))
    assert prompt["method"] == "session/prompt"
    talk.hear(chunk("new"), answered(prompt["id"], {"stopReason": "end_turn"}))
    assert [update.text for update in talk.updates if isinstance(update, up.Text)] == ["new"]


def test_a_record_of_such_a_session_reads_alike() -> None:
    """The ids of Penstock's own requests tell a later reader what was history."""
    lines = [
        opening(first=ClientRequest.INITIALIZE, loadSession=True)[0],
        chunk("old 1"),
        answered(ClientRequest.LOAD, {}),
        chunk("old 2"),
        failed(ClientRequest.SYNC + 1, "unknown", -32601),
        failed(ClientRequest.SYNC + 2, "unknown", -32601),
        chunk("new"),
        answered(ClientRequest.PROMPT, {"stopReason": "end_turn"}),
    ]
    stream = Stream("acp")
    events = stream.feed(b"".join(json.dumps(line).encode() + b"\n" for line in lines)) + stream.close()
    assert (end_of(events).reply, end_of(events).session_id) == ("new", SESSION)
    assert texts(events) == [("text", "new")]


MODELS = {"models": {"currentModelId": "m1", "availableModels": [{"modelId": "m1"}, {"modelId": "m2", "name": "Two"}]}}
OPTION = {
    "id": "model",
    "category": "model",
    "type": "select",
    "currentValue": "p/m1",
    "options": [{"group": "p", "name": "P", "options": [{"value": "p/m1", "name": "One"}, {"value": "p/m2"}]}],
}


@pytest.mark.parametrize(
    ("session", "model", "method", "params"),
    [
        (MODELS, "m2", "session/set_model", {"modelId": "m2"}),
        (MODELS, "Two", "session/set_model", {"modelId": "m2"}),
        (MODELS, "unlisted", "session/set_model", {"modelId": "unlisted"}),
        ({"configOptions": [OPTION]}, "m2", "session/set_config_option", {"configId": "model", "value": "p/m2"}),
        ({"configOptions": [OPTION]}, "p/m1", None, None),
        (MODELS, "m1", None, None),
    ],
)
def test_the_model_is_set_as_the_agent_offers_it(session: Any, model: str, method: str | None, params: Any) -> None:
    """By id, name or the end of an id; one that it has already is not set."""
    talk = Talk(model=model)
    [next_one] = talk.begin(session=session)
    if method is None:
        assert next_one["method"] == "session/prompt"
    else:
        assert (next_one["method"], next_one["params"]) == (method, {"sessionId": SESSION, **params})
        [prompt] = talk.hear(answered(next_one["id"], {}))
        assert prompt["method"] == "session/prompt"


@pytest.mark.parametrize("case", ["qwen-tools", "qwen-edit", "codex-edit", "kilo-tools"])
def test_the_model_has_the_name_that_its_provider_knows(case: str) -> None:
    """The ids of qwen's models are its own, and their names the models'. With others the id is the name."""
    expected = {"qwen": "mock-model", "codex": "gpt-5.5", "kilo": "mock/mock-model"}[case.partition("-")[0]]
    stream = Stream("acp")
    events = stream.feed((RECORDINGS / "acp" / case / "input.ndjson").read_bytes()) + stream.close()
    found = {event.model for event in events if isinstance(event, RunStarted)}
    assert found - {None} == {expected}


@pytest.mark.parametrize("model", ["other", "$runtime|openai|other(openai)"])
def test_the_name_of_a_model_is_shown_and_its_id_is_sent(model: str) -> None:
    """The agent is sent its own id, whether a person wrote the name or the id; what it rejects is named as well."""
    ids = [f"$runtime|openai|{name}(openai)" for name in ("mine", "other")]
    listed = [{"modelId": id, "name": name} for id, name in zip(ids, ("mine", "other"), strict=True)]
    talk = Talk(model=model)
    [asked] = talk.begin("qwen-code", {"models": {"currentModelId": ids[0], "availableModels": listed}})
    assert (asked["method"], asked["params"]) == ("session/set_model", {"sessionId": SESSION, "modelId": ids[1]})
    talk.hear(answered(asked["id"], {}))
    assert [it.model for it in talk.updates if isinstance(it, up.RunStart) and it.model] == ["mine", "other"]

    talk = Talk(model=model)
    [asked] = talk.begin("qwen-code", {"models": {"currentModelId": ids[0], "availableModels": listed}})
    talk.hear(failed(asked["id"], "no such model", -32602))
    assert talk.updates[-1].reason == "the agent did not take the model other: no such model"  # type: ignore[union-attr]


def test_a_model_or_effort_that_is_not_taken_is_an_error() -> None:
    """The prompt is not sent: the agent would work with another one than the one that was asked for."""
    effort = {**OPTION, "id": "effort", "category": "thought_level", "options": [], "currentValue": "low"}
    cases: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, str]] = [
        ({"model": "m2"}, {}, None, "the agent (version 1.0) has no way to choose a model: run it without --model m2"),
        (
            {"effort": "high"},
            MODELS,
            None,
            "the agent (version 1.0) offers no effort with this model: run it without --effort high",
        ),
        ({"model": "m2"}, MODELS, {"error": {"message": "no such"}}, "the agent did not take the model m2: no such"),
        (
            {"effort": "high"},
            {"configOptions": [OPTION, effort]},
            {"error": {"message": "no such"}},
            "the agent did not take the effort high: no such",
        ),
        (
            {"effort": "high"},
            {"configOptions": [OPTION, effort]},
            {"result": {"configOptions": [effort]}},
            "the agent did not take the effort high; it has low",
        ),
    ]
    for options, session, answer, reason in cases:
        talk = Talk(**options)
        asked = talk.begin(session=session)
        if answer is not None:
            assert talk.hear({"jsonrpc": "2.0", "id": asked[0]["id"], **answer}) == []
        else:
            assert asked == []
        [result] = [update for update in talk.updates if isinstance(update, up.Result)]
        assert (result.is_error, result.reason) == (True, reason)


def test_model_effort_instructions_and_mode_are_set_in_the_dialogue() -> None:
    """In this order, as the efforts depend on the model; instructions go with the request for the session."""
    effort = {**OPTION, "id": "effort", "category": "thought_level", "options": [], "currentValue": "high"}
    mode = {**OPTION, "id": "mode", "category": "mode", "options": [{"value": "agent-full-access"}]}
    offered = {"configOptions": [mode, effort, {**OPTION, "id": "provider"}, OPTION], **MODELS}
    talk = Talk(model="m2", effort="high", system_prompt="Be brief.", allow="all")
    [initialize] = talk.said()
    able: dict[str, Any] = {"sessionCapabilities": {"systemPrompt": {}}}
    [new] = talk.hear(answered(initialize["id"], {"protocolVersion": 1, "agentCapabilities": able}))
    assert new["params"]["systemPrompt"] == {"mode": "append", "content": [{"type": "text", "text": "Be brief."}]}
    said = talk.hear(answered(new["id"], {"sessionId": SESSION, **offered}))
    set_to = []
    while said[0]["method"] == "session/set_config_option":
        set_to.append((said[0]["params"]["configId"], said[0]["params"]["value"]))
        said = talk.hear(answered(said[0]["id"], {}))
    assert set_to == [("model", "p/m2"), ("effort", "high"), ("mode", "agent-full-access")]
    assert said[0]["method"] == "session/prompt"


@pytest.mark.parametrize(
    ("name", "program"), [("peer", "peer"), ("codex-acp", None), ("n" * 100, "n" * 64), ("", None)]
)
def test_the_name_that_an_agent_gives_itself(name: str, program: str | None) -> None:
    """It is told unless Penstock knows the agent by a name of its own, and cannot fill a line."""
    [started] = [event for event in read(agent=name) if isinstance(event, RunStarted)]
    assert (started.program, started.version) == (program, "1.0")


def test_instructions_that_the_agent_cannot_get_are_an_error() -> None:
    """The versions of codex-acp that read them in their start arguments are an exception."""
    for version, is_sent in (("0.16.0", True), ("2.6.0", False)):
        talk = Talk(system_prompt="Be brief.")
        [initialize] = talk.said()
        who = {"name": "codex-acp", "version": version}
        said = talk.hear(answered(initialize["id"], {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": who}))
        assert bool(said) == is_sent
        assert [update for update in talk.updates if isinstance(update, up.Result)] == [] or not is_sent


@pytest.mark.parametrize(
    ("ids", "allow", "wanted"),
    [
        (["default", "autoEdit", "yolo", "plan"], "edits", None),
        (["default", "autoEdit", "yolo", "plan"], "all", "yolo"),
        (["default", "acceptEdits", "plan", "auto", "bypassPermissions"], "edits", None),
        (["default", "acceptEdits", "plan", "auto", "bypassPermissions"], "all", "bypassPermissions"),
        (["read-only", "auto", "full-access"], "edits", "auto"),
        (["read-only", "auto", "full-access"], "all", "full-access"),
        (["plan", "default", "auto-edit", "auto", "yolo"], "edits", "default"),
        (["https://x/modes#agent", "https://x/modes#autopilot"], "all", None),
        (["plan", "act"], "edits", "act"),
        (["default", "yolo"], "own", None),
        (["auto", "plan", "default", "yolo"], "ask", "default"),
        (["agent", "read-only", "full-access"], "ask", "read-only"),
        (["agent", "read-only", "full-access"], "own", None),
        (["https://x/modes#autopilot", "https://x/modes#agent"], "ask", "https://x/modes#agent"),
        (["default", "autoEdit", "yolo", "plan"], "read", "plan"),
        (["yolo", "ask"], "read", "ask"),
    ],
)
def test_the_permission_mode_is_found_among_the_agents_own(ids: list[str], allow: Any, wanted: str | None) -> None:
    """None means that the questions are answered instead."""
    talk = Talk(allow=allow)
    modes = {"modes": {"currentModeId": ids[0], "availableModes": [{"id": id, "name": id} for id in ids]}}
    [asked] = talk.begin(session=modes)
    assert asked["params"].get("modeId") == wanted
    assert asked["method"] == ("session/prompt" if wanted is None else "session/set_mode")


@pytest.mark.parametrize("session", [{}, {"modes": {"currentModeId": "x", "availableModes": [{"id": "x"}]}}])
@pytest.mark.parametrize("allow", ["read", "ask"])
def test_a_level_that_needs_a_mode_is_not_kept_without_one(session: dict[str, Any], allow: Any) -> None:
    """The run ends before the prompt, and says what works."""
    talk = Talk(allow=allow)
    assert talk.begin(session=session) == []
    [end] = [update for update in talk.updates if isinstance(update, up.Result)]
    assert end.is_error
    assert f"no mode for --allow {allow}: use --allow own or --allow all" in (end.reason or "")


@pytest.mark.parametrize("allow", ["read", "ask"])
def test_a_level_whose_mode_is_refused_is_not_kept(allow: Any) -> None:
    """The agent answers the request for the mode with an error: no prompt is sent."""
    talk = Talk(allow=allow)
    [asked] = talk.begin(session={"modes": {"currentModeId": "x", "availableModes": [{"id": "x"}, {"id": "default"}]}})
    assert talk.hear({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32603, "message": "no"}}) == []
    [end] = [update for update in talk.updates if isinstance(update, up.Result)]
    assert "did not take the permission mode default: no" in (end.reason or "")


@pytest.mark.parametrize(("option", "chosen"), [("once", "once"), ("no", "no"), ("always", "always"), (None, "no")])
def test_the_two_directions_have_their_own_ids(option: str | None, chosen: str) -> None:
    """The agent's request 0 is answered with its own id, which may also be a text."""
    for id in (0, "c0ffee"):
        talk = Talk()
        talk.begin()
        assert talk.hear(asking(id, title="Run it", rawInput={"command": "make"})) == []
        question = talk.updates[-1]
        options = [
            ev.Option("always", "Always", "allow_always", wide=True),
            ev.Option("once", "Once", "allow_once"),
            ev.Option("no", "No", "reject_once"),
        ]
        assert question == up.Question(
            str(id), "Run it: make", "tool", options, True, call_id="c", tool_kind="other", title="make"
        )
        answer = up.Answer(question.id, "person", option)
        assert talk.acp.answer(answer) == (up.Answer(question.id, "person", chosen),)
        [said] = talk.said()
        assert (said["id"], said["result"]["outcome"]) == (id, {"outcome": "selected", "optionId": chosen})
        with pytest.raises(KeyError):
            talk.acp.answer(answer)


@pytest.mark.parametrize("kind", ["execute", "edit", "fetch", "other"])
def test_what_an_agent_always_allows_is_more_than_what_is_asked(kind: str) -> None:
    """Agents mean the whole program, all edits, or the whole tool, by an option that the protocol calls the same."""
    talk = Talk()
    talk.begin()
    talk.hear(asking(1, title="it", kind=kind, rawInput={"command": "make"}))
    question = talk.updates[-1]
    assert isinstance(question, up.Question)
    assert [option.wide for option in question.options or ()] == [True, False, False]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (
            {"rawInput": {"command": "make", "description": "a"}},
            {"rawInput": {"description": "b", "command": "make"}},
            True,
        ),
        (
            {"rawInput": {"command": ["make"], "call_id": "1"}},
            {"rawInput": {"command": ["make"], "call_id": "2"}},
            True,
        ),
        ({"rawInput": {"command": "make"}}, {"rawInput": {"command": "make x"}}, False),
        ({"rawInput": {"command": "make"}}, {"rawInput": {"command": "make", "cwd": "/x"}}, False),
        ({"rawInput": {"command": "make"}}, {"rawInput": {"command": "make", "unsandboxed": True}}, False),
        ({"title": "make"}, {"title": "make"}, True),
        ({"title": "make"}, {"title": "make all"}, False),
        ({"title": "make"}, {"title": "make", "locations": [{"path": "/x"}]}, False),
    ],
)
def test_the_same_command_has_the_same_action(one: Any, other: Any, is_same: bool) -> None:
    """What the model calls it is no part of it; where it runs, and with which rights, is."""
    talk = Talk()
    talk.begin()
    for id, fields in enumerate((one, other)):
        asked = asking(id, **{"title": "it", "kind": "execute", **fields})
        asked["params"]["toolCall"]["toolCallId"] = f"c{id}"
        talk.hear(asked)
    actions = [update.action for update in talk.updates if isinstance(update, up.Question)]
    assert None not in actions
    assert (actions[0] == actions[1]) is is_same


def test_a_refusal_without_an_option_for_it_cancels() -> None:
    """It is never taken for a yes."""
    talk = Talk()
    talk.begin()
    talk.hear(asking(0, [{"optionId": "a", "name": "Go", "kind": "allow_once"}]))
    talk.acp.answer(up.Answer("0", "person"))
    assert talk.said()[0]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_refused_call_that_the_agent_forgets_returns() -> None:
    """Gemini says nothing more of it: what it says next is another message."""
    talk = Talk()
    talk.begin("gemini-cli")
    talk.hear(chunk("Before."), asking(title="ls", kind="execute"))
    talk.updates += talk.acp.answer(up.Answer("0", "person"))
    talk.hear(chunk("After."))
    assert up.ToolReturn("c", "", True) in talk.updates
    assert sum(isinstance(update, up.MessageStart) for update in talk.updates) == 2


def test_a_dialogue_counts_what_was_denied() -> None:
    """One of two permissions was; the question has the changes that it is about."""
    acp = Acp(Request(prompt="do it"))
    stream = Stream(acp, strict=True)
    events: list[Event] = []

    def hear(*lines: dict[str, Any]) -> None:
        acp.take()
        events.extend(stream.feed(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))

    acp.take()
    hear(opening(first=ClientRequest.INITIALIZE)[0], answered(ClientRequest.NEW, {"sessionId": SESSION}))
    part = {"type": "diff", "path": "/n", "oldText": "a\n", "newText": "b\n"}
    for id, call in enumerate(("one", "two")):
        hear(asking(id, toolCallId=call, title="Edit", kind="edit", content=[part]))
        events.extend(stream.apply(acp.answer(up.Answer(str(id), "person", option="once" if id else "no"))))
        hear(update("tool_call_update", toolCallId=call, status="completed" if id else "failed"))
    hear(answered(ClientRequest.PROMPT, {"stopReason": "end_turn"}))
    events.extend(stream.close())
    assert verify(events) == []
    assert end_of(events).refused == 1
    change = from_fragments("/n", [("a\n", "b\n")])
    assert [event.changes for event in events if isinstance(event, QuestionAsked)] == [[change], [change]]
    returned = [event for event in events if isinstance(event, ToolReturned)]
    assert [(event.refused, event.changes) for event in returned] == [(True, None), (False, [change])]


def test_after_a_cancel_questions_are_given_up() -> None:
    """Those that wait, those that come late, and only once a prompt is at work."""
    talk = Talk()
    assert talk.acp.cancel() is False
    [prompt] = talk.begin()
    talk.hear(asking(0))
    assert talk.acp.cancel() is True
    cancel, given_up = talk.said()
    assert (cancel["method"], given_up["result"]) == ("session/cancel", {"outcome": {"outcome": "cancelled"}})
    with pytest.raises(KeyError):
        talk.acp.answer(up.Answer("0", "allow", "once"))
    [late] = talk.hear(asking(1))
    assert late["result"] == {"outcome": {"outcome": "cancelled"}}
    assert up.Answer("0", "withdrawn") in talk.updates
    talk.hear(failed(prompt["id"], "aborted"))
    result = talk.updates[-1]
    assert isinstance(result, up.Result)
    assert (result.cancelled, result.is_error) == (True, False)
    assert talk.acp.over
    assert talk.acp.cancel() is False


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "craft/drainMidTurnQueue", "_x/y", "nope"])
def test_every_request_is_answered(method: str) -> None:
    """What this client does not do is refused properly; a method that nobody knows is counted as well."""
    talk = Talk()
    talk.begin()
    [said] = talk.hear({"jsonrpc": "2.0", "id": "r", "method": method, "params": {}})
    assert (said["id"], said["error"]["code"]) == ("r", -32601)
    assert [it.wire_type for it in talk.updates if isinstance(it, up.Unknown)] == (["nope"] if method == "nope" else [])


def test_a_permission_without_options_is_refused() -> None:
    """Nobody could answer it."""
    talk = Talk()
    talk.begin()
    [said] = talk.hear(asking(7, []))
    assert said["error"]["code"] == -32602


@pytest.mark.parametrize(
    "method", ["_auth/status_update", "qwen/notify/session/prompt-suggestion", "craft/x", "$/cancel"]
)
def test_private_methods_are_never_text(method: str) -> None:
    """They are between an agent and its own clients."""
    events = read({"jsonrpc": "2.0", "method": method, "params": {"text": "psst"}}, chunk("said"), agent="qwen-code")
    assert end_of(events).reply == "said"
    assert "psst" not in str(events)


def test_blocks_end_by_kind_and_by_call() -> None:
    """Without message ids, two model calls are told apart by the call between them; its texts are two."""
    events = read(
        chunk("I th", thought=True),
        chunk("ink.", thought=True),
        chunk("Look"),
        chunk("ing."),
        update("tool_call", toolCallId="c", title="ls", kind="execute", status="in_progress"),
        update("tool_call_update", toolCallId="c", status="completed", rawOutput={"output": "a b", "exit_code": 0}),
        chunk("Done."),
    )
    assert texts(events) == [("thinking", "I think."), ("text", "Looking."), ("text", "Done.")]
    assert (end_of(events).reply, end_of(events).rounds) == ("Done.", 2)


def test_a_call_that_returns_late_does_not_break_the_text() -> None:
    """Codex commands outlive their message; a call that never returns ends it all the same."""
    events = read(
        chunk("Start."),
        update("tool_call", toolCallId="c", title="sleep", kind="execute", status="in_progress"),
        chunk("Half "),
        update("tool_call_update", toolCallId="c", status="completed", rawOutput="late"),
        chunk("and half."),
    )
    assert end_of(events).reply == "Half and half."
    assert [event.text for event in events if isinstance(event, ToolReturned)] == ["late"]


def test_a_call_that_ends_twice_ended_once() -> None:
    """Cline tells a refused call a second time, whole, while the model goes on."""
    ended = update("tool_call_update", toolCallId="c", title="ls", status="failed")
    again = update("tool_call", toolCallId="c", title="ls", status="in_progress")
    events = read(ended, chunk("Half "), again, ended, chunk("and half."))
    assert texts(events) == [("text", "Half and half.")]
    assert sum(isinstance(event, ToolReturned) for event in events) == 1


def test_a_call_is_told_when_its_input_is_whole() -> None:
    """Claude's grows over patches, each a whole snapshot; absent fields and nulls change nothing."""
    events = read(
        update(
            "tool_call", toolCallId="c", title="Terminal", name="Bash", kind="execute", status="pending", rawInput={}
        ),
        update("tool_call_update", toolCallId="c", title="ls", rawInput={"command": "ls"}, status=None),
        update("tool_call_update", toolCallId="c", rawInput={"command": "ls -l"}, content=[text_part("List it")]),
        update("tool_call_update", toolCallId="c", _meta={"x": {"toolResponse": 1}}),
        update("tool_call_update", toolCallId="c", status="failed", content=[text_part("```console\nno\n```")]),
        update("tool_call_update", toolCallId="c", status="completed", rawInput={"command": "rm"}),
    )
    [called] = [event for event in events if isinstance(event, ToolCalled)]
    assert (called.name, called.input, called.title, called.tool_kind) == (
        "Bash",
        {"command": "ls -l"},
        "ls -l",
        "execute",
    )
    [returned] = [event for event in events if isinstance(event, ToolReturned)]
    assert (returned.text, returned.is_error) == ("no", True)


def text_part(text: str) -> dict[str, Any]:
    """Text in the content of a call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def test_the_output_of_a_running_command_streams() -> None:
    """Its content is a snapshot, with or without a fence; the first patch heard may be any."""
    events = read(
        update("tool_call_update", toolCallId="c", title="make", kind="execute", status="in_progress"),
        update("tool_call_update", toolCallId="c", content=[text_part("```sh\none\n```")]),
        update("tool_call_update", toolCallId="c", content=[text_part("```sh\none\ntwo\n```")]),
        update("tool_call_update", toolCallId="c", status="completed", rawOutput=[{"result": "one\ntwo"}]),
    )
    assert [e.text for e in events if isinstance(e, BlockEnded) and e.kind == "tool_output"] == ["one\ntwo"]
    assert [e.text for e in events if isinstance(e, ToolReturned)] == ["one\ntwo"]


@pytest.mark.parametrize(
    ("fields", "text", "code"),
    [
        ({"rawOutput": {"output": "o", "metadata": {"exit": 3}}}, "o", 3),
        (
            {"content": [{"type": "diff", "path": "/n", "oldText": "a\nb\nz", "newText": "a\nc\nd\nz"}]},
            "/n (+2 -1)",
            None,
        ),
        ({"content": [{"type": "diff", "path": "/n", "oldText": None, "newText": "a\nb\n"}]}, "/n (+2 -0)", None),
        ({"content": [text_part("```\na\n```\nand\n```\nb\n```")]}, "```\na\n```\nand\n```\nb\n```", None),
        ({"content": [], "rawOutput": {}}, "", None),
    ],
)
def test_results_have_many_shapes(fields: dict[str, Any], text: str | None, code: int | None) -> None:
    """The raw output is the truth, then the content, then the changed files."""
    events = read(update("tool_call", toolCallId="c", title="x", status="completed", **fields))
    [returned] = [event for event in events if isinstance(event, ToolReturned)]
    assert text is None or returned.text == text
    assert returned.exit_code == code


def result_of(agent: str, **fields: Any) -> ToolReturned:
    """The result of the only call."""
    events = read(update("tool_call", toolCallId="c", title="x", **fields), agent=agent)
    [returned] = [event for event in events if isinstance(event, ToolReturned)]
    return returned


FRAME = "Command: x\nOutput: o\nExit Code: 9\nError: (none)\nExit Code: {}\nSignal: 0\nProcess Group PGID: 1017"
WHOLE = "Command: x\nDirectory: (root)\nOutput: {}\nError: (none)\nExit Code: {}\nSignal: 0\nProcess Group PGID: 1"
SHELL_ID, STATUS = "<shellId: 0 completed with exit code {}>", "[Command exited with code {}]"


@pytest.mark.parametrize(
    ("agent", "fields", "text", "code"),
    [
        ("copilot", {"rawOutput": {"content": f"o\n{SHELL_ID}".format(2)}}, "o\n", 2),
        ("copilot", {"rawOutput": {"content": f"{SHELL_ID}\n{SHELL_ID}".format(7, 0)}}, SHELL_ID.format(7) + "\n", 0),
        ("copilot", {"rawOutput": {"content": f"{SHELL_ID}\nmore".format(7)}}, SHELL_ID.format(7) + "\nmore", None),
        ("cline", {"rawOutput": [{"query": "q", "result": f"{STATUS}\no".format(4)}]}, "o", 4),
        ("cline", {"rawOutput": [{"query": "q", "result": f"o\n{STATUS}".format(4)}]}, "o\n" + STATUS.format(4), None),
        ("qwen-code", {"rawOutput": "o\nExit Code: 9", "content": [text_part(FRAME.format(3))]}, "o\nExit Code: 9", 3),
        ("qwen-code", {"rawOutput": "o", "content": [text_part(FRAME.format(0))]}, "o", 0),
        ("qwen-code", {"rawOutput": "o", "content": [text_part("Exit Code: 3\nSignal: 0\no")]}, "o", None),
        (
            "qwen-code",
            {"rawOutput": WHOLE.format("o", 4), "content": [text_part(WHOLE.format(WHOLE.format("o", 4), 0))]},
            WHOLE.format("o", 4),
            0,
        ),
        ("qwen-code", {"content": [text_part(WHOLE.format("(empty)", 0))]}, "", 0),
        ("qwen-code", {"rawOutput": "", "content": [text_part(WHOLE.format("(empty)", 3))]}, "", 3),
        ("qwen-code", {"content": [text_part(WHOLE.format("o", 3))]}, "o", 3),
        ("someone", {"rawOutput": f"o\n{SHELL_ID}".format(7)}, "o\n" + SHELL_ID.format(7), None),
        ("someone", {"content": [text_part(FRAME.format(7))]}, FRAME.format(7), None),
    ],
)
def test_the_exit_status_is_in_the_agents_own_line(agent: str, fields: Any, text: str, code: int | None) -> None:
    """It is that of this agent, at its place: a command may print the same, or that of another agent, anywhere."""
    returned = result_of(agent, kind="execute", status="completed", **fields)
    assert (returned.text, returned.exit_code) == (text, code)
    assert result_of(agent, kind="read", status="completed", **fields).exit_code is None


@pytest.mark.parametrize("kind", ["execute", "read"])
@pytest.mark.parametrize(
    ("agent", "fields", "has_status", "has_output"),
    [
        ("gemini-cli", {}, False, False),
        ("gemini-cli", {"content": []}, False, False),
        ("gemini-cli", {"content": [text_part("o")]}, False, True),
        ("qwen-code", {"rawOutput": ""}, False, True),
        ("qwen-code", {"rawOutput": "", "content": [text_part(FRAME.format(0))]}, True, True),
        ("someone", {"rawOutput": ""}, True, True),
        ("someone", {}, True, False),
    ],
)
def test_what_is_not_reported_is_marked(agent: str, fields: Any, has_status: bool, has_output: bool, kind: str) -> None:
    """An agent that sends no output, and one that calls every command a success, have said nothing about it."""
    returned = result_of(agent, kind=kind, status="completed", **fields)
    is_command = kind == "execute"
    assert returned.status_reported == (has_status or not is_command)
    assert returned.output_reported == (has_output or not is_command)
    failed = result_of(agent, kind=kind, status="failed")
    assert failed.is_error
    assert failed.status_reported


@pytest.mark.parametrize(
    ("agent", "call", "name", "title"),
    [
        ("gemini-cli", {"toolCallId": "write_file__fc_1", "title": "Writing to a"}, "write_file", "Writing to a"),
        ("cline", {"title": "run_commands: ls", "rawInput": {}}, "run_commands", "ls"),
        (
            "qwen-code",
            {"title": "Shell: ls", "_meta": {"toolName": "run_shell_command"}},
            "run_shell_command",
            "Shell: ls",
        ),
        ("someone", {"title": "ls", "kind": "execute"}, "execute", "ls"),
        ("someone", {"title": "Ask"}, "tool", "Ask"),
    ],
)
def test_names_of_tools_are_where_each_agent_puts_them(agent: str, call: dict[str, Any], name: str, title: str) -> None:
    """The protocol has none; a kind stands in for one."""
    events = read(update("tool_call", **{"toolCallId": "c", "status": "in_progress", **call}), agent=agent)
    [called] = [event for event in events if isinstance(event, ToolCalled)]
    assert (called.name, called.title) == (name, title)


def test_opencodes_first_title_is_the_tools_name() -> None:
    """A later one tells what it works on."""
    events = read(
        update("tool_call", toolCallId="c", title="bash", kind="execute", status="pending"),
        update("tool_call_update", toolCallId="c", title="List", status="in_progress", rawInput={"command": "ls"}),
        agent="OpenCode",
    )
    assert [(e.name, e.title) for e in events if isinstance(e, ToolCalled)] == [("bash", "ls")]


def test_a_sub_agents_work_is_in_its_lane() -> None:
    """Where the agent marks it; another session on the same connection is nobody's."""
    marked: dict[str, Any] = {"_meta": {"claudeCode": {"parentToolUseId": "task"}}}
    events = read(
        update("tool_call", toolCallId="inner", title="ls", status="in_progress", **marked),
        chunk("inner words", _meta={"parentToolCallId": "task"}),
        update("agent_message_chunk", "another-session", content={"type": "text", "text": "not ours"}),
        chunk("ours"),
    )
    assert [event.parent for event in events if isinstance(event, ToolCalled)] == ["task"]
    said = {event.text: event.parent for event in events if isinstance(event, BlockEnded) and event.kind == "text"}
    assert said == {"inner words": "task", "ours": None}
    assert end_of(events).reply == "ours"


@pytest.mark.parametrize(
    ("agent", "remark", "message", "outcome"),
    [
        ("gemini-cli", "[MODE_UPDATE] yolo", None, "ok"),
        ("Copilot", "Info: /tmp/notes.txt", None, "ok"),
        ("Copilot", "Error: no model", None, "error"),
        ("claude", "API Error: 503", "0f8fad5b-d9cb-469f-a165-70867728950e", "error"),
    ],
)
def test_the_agents_own_remarks_are_no_reply(agent: str, remark: str, message: str | None, outcome: str) -> None:
    """And one of an error is the outcome, though the turn ends regularly, unless the model goes on."""
    events = read(chunk("The reply.", "msg_1" if message else None), chunk(remark, message), agent=agent)
    assert (end_of(events).reply, end_of(events).outcome) == ("The reply.", outcome)
    assert end_of(read(chunk(remark, message), chunk("Better.", "msg_2"), agent=agent)).outcome == "ok"


@pytest.mark.parametrize("text", ["Error: this is what it prints", "API Error: explained", "[MODE_UPDATE] yolo"])
def test_the_same_words_from_others_are_text(text: str) -> None:
    """Text is never dropped on suspicion."""
    assert end_of(read(chunk(text))).reply == text
    assert end_of(read(chunk(text))).outcome == "ok"


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [
        ("end_turn", "ok"),
        ("cancelled", "cancelled"),
        ("refusal", "error"),
        ("max_tokens", "error"),
        ("max_turn_requests", "error"),
        ("some_new_reason", "ok"),
    ],
)
def test_the_answer_to_the_prompt_is_the_end(stop: str, outcome: str) -> None:
    """Its reason to stop decides."""
    events = read(chunk("said"), answered(2, {"stopReason": stop}), end=False)
    assert (end_of(events).outcome, end_of(events).reply) == (outcome, "said")
    assert (end_of(events).reason is not None) == (outcome == "error")


def test_a_cancel_that_nobody_asked_for_is_an_error() -> None:
    """Some agents say that they were cancelled in the middle of a reply; some do so where they were refused."""
    for refuse in (False, True):
        talk = Talk()
        [prompt] = talk.begin()
        if refuse:
            talk.hear(asking(0))
            talk.updates += talk.acp.answer(up.Answer("0", "person"))
        talk.hear(answered(prompt["id"], {"stopReason": "cancelled"}))
        result = talk.updates[-1]
        assert isinstance(result, up.Result)
        assert (result.cancelled, result.is_error) == (refuse, not refuse)
        assert (result.reason is None) is refuse


def test_without_an_answer_the_stream_was_cut() -> None:
    """Whatever was said before."""
    assert end_of(read(chunk("said"), end=False)).outcome == "cut_off"


@pytest.mark.parametrize(
    ("code", "message", "data", "reason", "cause"),
    [
        (-32603, "Internal error", {"details": "503 overloaded"}, "Internal error: 503 overloaded", "provider"),
        (500, '{"error":{"code":401,"message":"No such key."}}', None, "No such key.", "auth"),
        (429, "Slow down", None, "Slow down", "rate_limit"),
        (500, "Session not found", {"sessionId": "x"}, "Session not found", None),
        (-32603, "It failed", {"errorKind": "billing_error"}, "It failed", "usage_limit"),
        (-32603, "x", {"message": "y", "codex_error_info": "server_overloaded"}, "x: y", "overloaded"),
        (
            -32603,
            "x",
            {"message": "unexpected status 403 Forbidden: y"},
            "x: unexpected status 403 Forbidden: y",
            "auth",
        ),
        (-32603, "x", {"message": "was an unexpected status 403 "}, "x: was an unexpected status 403 ", None),
        (-32603, "x", {"codex_error_info": {"http_connection_failed": {"http_status_code": 529}}}, "x", "overloaded"),
        (-32603, "x", {"codex_error_info": {"http_connection_failed": [529]}, "errorKind": 5}, "x", None),
        (10**30, "x", {"message": 1, "details": []}, "x: 1", None),
        (-32000, "x", None, "x", "auth"),
        (None, "", None, "the agent reported an error and gave no message", None),
    ],
)
def test_an_error_has_the_words_and_the_cause_of_its_fields(
    code: Any, message: str, data: Any, reason: str, cause: Cause | None
) -> None:
    """The message may be JSON, and the rest may be in the data; a status in prose is no cause."""
    talk = Talk()
    [prompt] = talk.begin("codex-acp")
    talk.hear(failed(prompt["id"], message, code, data))
    assert talk.updates[-1] == up.Result(is_error=True, reason=reason, session_id=SESSION, cause=cause)


@pytest.mark.parametrize(
    ("agent", "said", "kind", "cause"),
    [
        ("claude-agent-acp", "API Error: 529 Overloaded.", "server_error", "overloaded"),
        ("claude-agent-acp", "API Error: 503 Busy.", "server_error", "provider"),
        ("claude-agent-acp", "It failed.", "server_error", "provider"),
        ("claude-agent-acp", "API Error: 529 Overloaded.", "billing_error", "usage_limit"),
        ("codex-acp", "exceeded retry limit, last status: 429 Too Many Requests", None, "rate_limit"),
    ],
)
def test_a_status_is_more_exact_than_a_failure_of_the_server(
    agent: str, said: str, kind: str | None, cause: Cause
) -> None:
    """An overload is passing, and another failure may not be."""
    talk = Talk()
    [prompt] = talk.begin(agent)
    talk.hear(failed(prompt["id"], f"Internal error: {said}", -32603, {"errorKind": kind} if kind else None))
    result = talk.updates[-1]
    assert isinstance(result, up.Result)
    assert result.cause == cause


def test_an_agent_that_wants_a_login_says_how() -> None:
    """Penstock does not log in for anybody."""
    talk = Talk()
    talk.said()
    able = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{"id": "k", "name": "Use a key"}]}
    [new] = talk.hear(answered(ClientRequest.INITIALIZE, able))
    talk.hear(failed(new["id"], "Authentication required", -32000))
    result = talk.updates[-1]
    assert isinstance(result, up.Result)
    assert result.reason == "Authentication required (log in with the agent itself: Use a key)"


def test_another_version_of_the_protocol_is_refused() -> None:
    """Before anything is asked."""
    talk = Talk()
    talk.said()
    assert talk.hear(answered(ClientRequest.INITIALIZE, {"protocolVersion": 2, "agentCapabilities": {}})) == []
    assert talk.acp.over
    assert "version 2" in (talk.updates[-1].reason or "")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("figures", "usage"),
    [
        ({"inputTokens": 10, "outputTokens": 4, "cachedReadTokens": 5, "totalTokens": 14}, (10, 4)),
        ({"inputTokens": 10, "outputTokens": 4, "cachedReadTokens": 5, "totalTokens": 19}, (15, 4)),
        ({"inputTokens": 10, "outputTokens": 4, "cachedReadTokens": 5, "thoughtTokens": 3, "totalTokens": 22}, (15, 7)),
        ({"inputTokens": 10, "outputTokens": 4, "thoughtTokens": 3, "totalTokens": 14}, (10, 4)),
    ],
)
def test_figures_are_brought_to_one_reading(figures: dict[str, int], usage: tuple[int, int]) -> None:
    """The total tells whether cached and thought tokens are counted within."""
    events = read(chunk("x"), answered(2, {"stopReason": "end_turn", "usage": figures}), end=False)
    told = end_of(events).usage
    assert told is not None
    assert (told.input_tokens, told.output_tokens) == usage


def test_an_empty_chunk_may_carry_the_figures_of_a_call() -> None:
    """Qwen's do: the run's are their sum."""
    used: dict[str, Any] = {"_meta": {"usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}}}
    events = read(chunk("", **used), chunk("x"), chunk("", **used))
    assert sum(isinstance(event, UsageReported) for event in events) == 2
    told = end_of(events).usage
    assert told is not None
    assert told.input_tokens == 20


def test_cost_is_that_of_the_session() -> None:
    """In dollars; the model's name stands beside it."""
    events = read(
        update("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "USD"}, _meta={"_claude/model": "m"}),
        update("usage_update", used=1, size=2, cost={"amount": 7, "currency": "EUR"}),
        chunk("x"),
    )
    assert end_of(events).cost_usd == 0.5


def test_a_surrogate_pair_in_two_chunks_is_one_character() -> None:
    """The session joins it."""
    assert end_of(read(chunk("a\ud83d"), chunk("\ude00b"))).reply == "a😀b"


GAVE_UP = update("session_info_update", _meta={"codex": {"threadStatus": {"type": "systemError"}}})
RETRIES = update(
    "session_info_update",
    _meta={
        "codex": {
            "error": {
                "message": "Reconnecting... 1/1",
                "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 503}},
            }
        }
    },
)


@pytest.mark.parametrize(
    ("text", "reason", "cause"),
    [
        (
            '{"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}',
            "prompt is too long",
            "context",
        ),
        ("Selected model is at capacity. Please try a different model.\n\n", "Selected model is at cap", "overloaded"),
        ("Incomplete response returned, reason: max_output_tokens\n\n", "Incomplete response", "length"),
        ("Something else.\n\n", "Something else.", None),
    ],
)
@pytest.mark.parametrize("said", ["", "This reply breaks off in the mid"])
def test_the_text_of_an_error_is_no_reply(said: str, text: str, reason: str, cause: Cause | None) -> None:
    """The agent reports an error of its own in `_meta`, then says why in a chunk without an id, and ends the turn."""
    before = [chunk(said, "m1")] if said else []
    events = read(*before, RETRIES, GAVE_UP, chunk(text), agent="codex-acp")
    end = end_of(events)
    assert (end.outcome, end.reply, end.cause) == ("error", said, cause)
    assert str(end.reason).startswith(reason)


def test_an_error_without_a_text_is_one_too() -> None:
    """So is one after which nothing more comes; one that the agent recovers from is a notice."""
    events = read(chunk("Half", "m1"), RETRIES, GAVE_UP, agent="codex-acp")
    assert (end_of(events).outcome, end_of(events).reason) == ("error", "Reconnecting... 1/1")
    events = read(RETRIES, chunk("All.", "m1"), agent="codex-acp")
    assert (end_of(events).outcome, end_of(events).reply) == ("ok", "All.")
    assert [event.code for event in events if isinstance(event, ev.Notice)] == ["retry"]


def test_text_without_an_id_among_text_with_ids_is_the_agents() -> None:
    """The model's text has ids in this session."""
    remark = {"claudeCode": {"kind": "informational", "level": "warning"}}
    lines = [chunk("The ", "m1"), chunk("**Warning:** not eligible", _meta=remark), chunk("reply.", "m1")]
    events = read(*lines, agent="claude")
    assert (end_of(events).outcome, end_of(events).reply) == ("ok", "The reply.")
    found = [(event.level, event.text) for event in events if isinstance(event, ev.Notice)]
    assert found == [("warning", "**Warning:** not eligible")]


def test_output_and_exit_status_of_a_command_in_meta() -> None:
    """Some agents put there what a client shows in a terminal of its own."""
    begun = update(
        "tool_call", toolCallId="c", title="run it", kind="execute", status="in_progress", rawInput={"command": "x"}
    )
    more = [
        update("tool_call_update", toolCallId="c", _meta={"terminal_output_delta": {"data": data}})
        for data in ("out\n", "err\n")
    ]
    last = {"terminal_exit": {"exit_code": 3, "signal": None}}
    ended = update("tool_call_update", toolCallId="c", status="failed", _meta=last)
    for lines in (
        [*more, ended],
        [
            update(
                "tool_call_update",
                toolCallId="c",
                status="failed",
                _meta={**last, "terminal_output": {"data": "out\nerr\n"}},
            )
        ],
    ):
        events = read(begun, *lines, chunk("Done.", "m1"), agent="codex-acp")
        (returned,) = [event for event in events if isinstance(event, ToolReturned)]
        assert (returned.text, returned.exit_code, returned.is_error) == ("out\nerr\n", 3, True)
        assert end_of(events).reply == "Done."


def test_plans_and_users_words() -> None:
    """A plan is told; what was said in the user's role is no text, and ends a round."""
    entries = [{"content": "Look", "status": "completed"}, {"content": "Do", "status": "pending"}]
    events = read(
        chunk("old"),
        update("user_message_chunk", content={"type": "text", "text": "a prompt"}),
        update("plan", entries=entries),
        update("available_commands_update", availableCommands=[]),
        chunk("new"),
    )
    [plan] = [event for event in events if isinstance(event, PlanChanged)]
    assert [(item.text, item.status) for item in plan.items] == [("Look", "completed"), ("Do", "pending")]
    assert (end_of(events).reply, texts(events)) == ("new", [("text", "old"), ("text", "new")])


def test_what_is_not_known_is_told() -> None:
    """A new kind of update, a new notification, and what is no message at all."""
    stream = Stream("acp")
    lines = [*opening(), update("telepathy"), {"jsonrpc": "2.0", "method": "session/dream"}, {"type": "log"}, 5, ["x"]]
    stream.feed(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert set(stream.health.unknown_kinds) == {"session/update/telepathy", "session/dream", "log", "int", "list"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "toolCallId",
        "status",
        "title",
        "kind",
        "content",
        "rawInput",
        "rawOutput",
        "_meta",
        "messageId",
        "entries",
        "cost",
    ]
)
KINDS = st.sampled_from(
    ["tool_call", "tool_call_update", "agent_message_chunk", "usage_update", "plan", "user_message_chunk"]
)
LINES = st.one_of(
    JSON,
    st.builds(lambda kind, fields: update(kind, **fields), KINDS, st.dictionaries(KEYS, JSON, max_size=4)),
    st.builds(lambda id, options, call: asking(id, options) | {"x": call}, JSON, JSON, JSON),
    st.builds(lambda id, it: {"id": id, "result": it}, st.sampled_from([*ClientRequest, 1101, "x"]) | JSON, JSON),
    st.builds(lambda id, error: {"id": id, "error": error}, st.sampled_from([*ClientRequest, 1101]) | JSON, JSON),
    st.sampled_from([*opening(first=ClientRequest.INITIALIZE), chunk("x"), answered(1007, {"stopReason": "end_turn"})]),
)


@pytest.mark.slow
@settings(max_examples=at_most(15, 200))
@given(st.lists(LINES, max_size=8), st.booleans())
def test_nothing_raises(lines: list[Any], ours: bool) -> None:
    """Whatever the values are; what is said to the agent is one JSON object a line, and the contract holds."""
    acp = Acp(Request(prompt="x", session_id="s1", model="m", allow="edits") if ours else None)
    stream = Stream(acp, strict=True)
    events: list[Event] = []
    for line in lines:
        for each in acp.take().splitlines():
            assert isinstance(json.loads(each), dict)
        events += stream.feed(json.dumps(line, allow_nan=True).encode() + b"\n")
    acp.cancel()
    acp.take()
    assert verify(events + stream.close()) == []


def test_an_agent_is_not_over_while_its_background_work_runs() -> None:
    """Its answer to the prompt is then not the last; a stream that ends before the last answer is an error."""
    launched = {"claudeCode": {"toolResponse": {"isAsync": True, "status": "async_launched", "agentId": "a1"}}}
    lines = [
        *opening(),
        update("tool_call", toolCallId="t", title="Task", kind="think", status="in_progress", rawInput={}),
        update("tool_call_update", toolCallId="t", _meta=launched),
        update("tool_call_update", toolCallId="t", status="completed"),
        chunk("The helper works.", "m1"),
        update("usage_update", used=1, size=2, _meta={"_claude/origin": {"kind": "human"}}),
        answered(3, {"stopReason": "end_turn"}),
    ]
    last = [
        chunk("There are 7 files.", "m2"),
        update("usage_update", used=1, size=2, _meta={"_claude/origin": {"kind": "task-notification"}}),
    ]
    stream = Stream("acp")
    events = [event for line in lines for event in stream.feed(json.dumps(line).encode() + b"\n")]
    assert stream.working
    early = stream.close()[-1]
    assert isinstance(early, RunEnded)
    assert early.outcome == "error"
    assert "background" in str(early.reason)
    stream = Stream("acp")
    events = [event for line in [*lines, *last] for event in stream.feed(json.dumps(line).encode() + b"\n")]
    assert not stream.working
    end = [*events, *stream.close()][-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reply) == ("ok", "There are 7 files.")


def test_an_input_that_comes_late_shows_the_change() -> None:
    """An edit that was announced without its input, and has no diff, has the change of its input; a failure none."""
    begun = update("tool_call", toolCallId="c", title="Write", kind="edit", status="in_progress")
    for status, paths in (("completed", ["notes.txt"]), ("failed", [])):
        given = {"path": "notes.txt", "content": "one\n"}
        over = update("tool_call_update", toolCallId="c", status=status, rawInput=given, content=[])
        events = read(begun, over, chunk("Done."))
        (back,) = [event for event in events if isinstance(event, ToolReturned)]
        assert [change.path for change in back.changes or ()] == paths


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ({"message": "Internal error: invalid x-api-key (mock)"}, "auth"),
        ({"message": "Invalid API key (from env var KEY)"}, "auth"),
        ({"message": "Internal error", "data": {"details": "400 prompt is too long: 9 tokens > 8 maximum"}}, "context"),
        ({"message": "Internal error", "data": {"details": "Overloaded (mock)"}}, "overloaded"),
        ({"message": "Internal error", "data": {"details": "429 slow down"}}, "rate_limit"),
        ({"message": "Internal error: the method is overloaded in this class"}, None),
        ({"message": "Internal error: 7 of 8"}, None),
    ],
)
def test_words_of_a_provider_have_a_cause(error: dict[str, Any], cause: str | None) -> None:
    """A provider's own sentence has the cause that it has on other wires; other words have none."""
    line = failed(2, error["message"], data=error.get("data"))
    assert end_of(read(line, end=False)).cause == cause
