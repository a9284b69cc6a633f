"""Messages for Claude Code while it works: when they are sent and withdrawn, and which of them count as taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import updates as up
from penstock.adapter import Request, not_taken
from penstock.agents._claude_server import NEXT_TURN, WITHDRAW
from penstock.agents._claude_steers import CAPABILITY
from penstock.agents.claude.server import ClaudeServer
from penstock.core.decoding import fit

LATE = "the turn ended before it"


class Talk:
    """A dialogue whose turn runs, with the lines that it sends."""

    def __init__(self, *abilities: str) -> None:
        self.dialogue = ClaudeServer(Request(prompt="go"))
        self.dialogue.take()
        self.messages = 0
        self.told("system", subtype="init", capabilities=[*abilities])

    def told(self, kind: str, **fields: Any) -> list[up.Update]:
        """What the dialogue makes of a line."""
        return [*self.dialogue.read(fit({"type": kind, **fields}, self.dialogue.wire))]

    def event(self, kind: str, lane: str | None = None, **fields: Any) -> list[up.Update]:
        """What it makes of an event of a model call."""
        return self.told("stream_event", event={"type": kind, **fields}, parent_tool_use_id=lane)

    def begin(self, lane: str | None = None) -> list[up.Update]:
        """A model call begins."""
        self.messages += 1
        return self.event("message_start", lane, message={"id": f"msg_{self.messages}"})

    def call(self, lane: str | None = None) -> None:
        """The model writes a call."""
        self.event("content_block_start", lane, index=0, content_block={"type": "tool_use", "id": "t", "name": "Bash"})

    def state(self, name: str, state: str) -> list[up.Update]:
        """What becomes of a message."""
        return self.told("command_lifecycle", command_uuid=name, state=state)

    def end(self, state: str = "idle") -> list[up.Update]:
        """The turn ends."""
        result = self.told("result", subtype="success", result="Done.", num_turns=1)
        return [*result, *self.told("system", subtype="session_state_changed", state=state)]

    def sent(self) -> list[dict[str, Any]]:
        """Lines since the last call."""
        return [json.loads(line) for line in self.dialogue.take().splitlines()]

    def given(self, id: str = "s", text: str = "go left") -> str:
        """Give a message while a tool runs; return its id on the wire."""
        self.begin()
        self.call()
        assert self.dialogue.steer(id, text) == ()
        [line] = self.sent()
        assert line["message"] == {"role": "user", "content": text}
        name = line["uuid"]
        assert isinstance(name, str)
        return name


@pytest.fixture
def talk() -> Talk:
    """A dialogue with a version that reports what becomes of messages."""
    return Talk(CAPABILITY)


def notices(updates: list[up.Update]) -> list[up.Update]:
    """The notices among updates."""
    return [it for it in updates if isinstance(it, up.Notice)]


def test_a_message_is_sent_while_a_tool_runs_and_taken_with_the_next_model_call(talk: Talk) -> None:
    """Not before the model calls a tool; once; and a sub-agent's calls do not count."""
    assert talk.dialogue.steer("s", "go left") == ()
    talk.begin()
    talk.call("task")
    assert talk.sent() == []
    talk.call()
    [line] = talk.sent()
    assert (line["type"], line["message"]["content"], line["priority"]) == ("user", "go left", "next")
    talk.call()
    assert talk.sent() == []
    assert talk.state(line["uuid"], "queued") == []
    assert talk.state(line["uuid"], "started") == []
    assert notices(talk.begin("task")) == []
    assert talk.begin()[0] == up.Notice("user", "go left", steer="s")
    assert notices(talk.end()) == []
    assert talk.dialogue.over
    assert talk.sent() == []
    assert talk.dialogue.steer("later", "x") == (not_taken("later", "the turn has ended"),)


def test_a_message_without_which_a_model_call_begins_is_withdrawn_and_given_again(talk: Talk) -> None:
    """So the program does not begin another turn with it; each time it has a new id."""
    name = talk.given()
    talk.begin()
    [line] = talk.sent()
    assert line["request"] == {"subtype": "cancel_async_message", "message_uuid": name}
    talk.begin("task")
    assert talk.sent() == [], "it is withdrawn once"
    talk.call()
    assert talk.sent() == [], "it may still be read"
    talk.state(name, "cancelled")
    response = {"subtype": "success", "request_id": WITHDRAW + name, "response": {"cancelled": True}}
    assert talk.told("control_response", response=response) == []
    talk.call()
    [again] = talk.sent()
    assert (again["message"]["content"], again["uuid"] == name) == ("go left", False)
    talk.begin()
    talk.sent()
    assert talk.end() != []
    assert not talk.dialogue.over, "the program still has it"
    ended = talk.state(again["uuid"], "cancelled")
    assert notices(ended) == [not_taken("s", LATE)]
    assert talk.dialogue.over


def test_a_message_that_the_end_of_the_turn_overtakes_is_the_program_s_next_turn(talk: Talk) -> None:
    """It is taken, as the model answers it; the run ends with that answer."""
    name = talk.given()
    talk.begin()
    talk.end("running")
    talk.told("system", subtype="session_state_changed", state="idle")
    response = {"subtype": "success", "request_id": WITHDRAW + name, "response": {"cancelled": False}}
    assert talk.told("control_response", response=response) == []
    assert not talk.dialogue.over
    assert talk.state(name, "started") == [up.Work(NEXT_TURN, on=True)], "the model may take long to begin"
    talk.told("system", subtype="session_state_changed", state="idle")
    assert not talk.dialogue.over, "its result is still to come"
    talk.told("system", subtype="init", capabilities=[CAPABILITY])
    updates = talk.begin()
    assert updates[:3] == [up.Notice("user", "go left", steer="s"), up.Work(NEXT_TURN, on=False), up.RoundEnd()]
    talk.end()
    assert talk.dialogue.over


def test_a_program_that_cannot_withdraw_a_message_ends_its_run(talk: Talk) -> None:
    """It answers with an error, and reports no more about the message: it waits for a turn of its own."""
    name = talk.given()
    talk.begin()
    talk.end()
    assert not talk.dialogue.over
    response = {"subtype": "error", "request_id": WITHDRAW + name, "error": "unknown request"}
    assert notices(talk.told("control_response", response=response)) == [not_taken("s", LATE)]
    assert talk.dialogue.over


def test_a_message_that_a_program_could_not_drop_and_never_reports_is_taken(talk: Talk) -> None:
    """By the next model call, in the turn or in another one; without any, at the end of the stream."""

    def not_dropped(name: str) -> None:
        response = {"subtype": "success", "request_id": WITHDRAW + name, "response": {"cancelled": False}}
        assert talk.told("control_response", response=response) == []

    taken = up.Notice("user", "go left", steer="s")
    name = talk.given()
    talk.begin()
    not_dropped(name)
    assert notices(talk.begin()) == [taken]
    talk.end()
    assert talk.dialogue.over
    assert talk.dialogue.finish() == ()

    talk = Talk(CAPABILITY)
    name = talk.given()
    talk.begin()
    talk.end()
    not_dropped(name)
    assert talk.begin()[:2] == [taken, up.RoundEnd()]
    talk.end()
    assert talk.dialogue.over

    for state, found in (("idle", [taken]), ("running", [])):  # the other turn ended before its first word
        talk = Talk(CAPABILITY)
        name = talk.given()
        talk.begin()
        talk.end(state)
        not_dropped(name)
        assert [*talk.dialogue.finish()] == found


def test_a_message_that_is_not_answered_is_not_taken(talk: Talk) -> None:
    """The model call that has it never begins."""
    name = talk.given()
    talk.dialogue.steer("t", "and right")
    talk.state(name, "started")
    [other] = talk.sent()
    talk.state(other["uuid"], "discarded")
    assert notices(talk.end()) == [not_taken("s", LATE), not_taken("t", LATE)]


def test_a_turn_that_is_being_stopped_takes_no_message(talk: Talk) -> None:
    """The interrupt drops what was given; nothing is sent after it."""
    name = talk.given()
    assert talk.dialogue.cancel()
    [line] = talk.sent()
    assert line["request"] == {"subtype": "interrupt", "cancel_queued": True}
    assert talk.dialogue.steer("t", "x") == (not_taken("t", "the turn has ended"),)
    talk.state(name, "cancelled")
    talk.call()
    assert talk.sent() == []
    result = {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_streaming"}
    assert notices(talk.told("result", **result)) == [not_taken("s", LATE)]
    assert talk.dialogue.over


def test_a_version_that_does_not_report_messages_gets_none() -> None:
    """Nor those that were given before it said so."""
    dialogue = ClaudeServer(Request(prompt="go"))
    dialogue.take()
    assert dialogue.steer("early", "x") == ()
    told = dialogue.read(fit({"type": "system", "subtype": "init", "capabilities": []}, dialogue.wire))
    [early] = [it for it in told if isinstance(it, up.Notice)]
    assert (early.steer, early.code) == ("early", "error")
    [late] = dialogue.steer("late", "x")
    assert isinstance(late, up.Notice)
    assert late.text == early.text
    assert dialogue.take() == b""


@pytest.mark.parametrize("name", ["", "unknown", 7, None])
def test_a_message_of_nobody_is_ignored(talk: Talk, name: Any) -> None:
    """Ids that were not given mean nothing, whatever they are."""
    for state in ("queued", "started", "cancelled", "no such state", 7, None):
        assert talk.told("command_lifecycle", command_uuid=name, state=state) == []
    assert notices(talk.begin()) == []
