"""Messages for opencode while it works: when they are sent, and which of them count as taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import updates as up
from penstock.adapter import Request, not_taken
from penstock.agents.opencode.server import OpenCodeServer

S = "ses_1"
LATE = "the turn ended before it"
PATH = f"/session/{S}/prompt_async"


def event(kind: str, **properties: Any) -> dict[str, Any]:
    """A line of an event of our session."""
    return {"event": {"id": "evt_1", "type": kind, "properties": {"sessionID": S, **properties}}}


def tool(status: str, session: str = S) -> dict[str, Any]:
    """A line of a call."""
    part = {"id": "p", "type": "tool", "tool": "bash", "callID": "c", "messageID": "m", "sessionID": session}
    return event("message.part.updated", sessionID=session, part={**part, "state": {"status": status}})


def user(id: str, text: str, **more: Any) -> list[dict[str, Any]]:
    """The lines of a message of the user."""
    part = {"id": f"{id}p", "type": "text", "text": text, "messageID": id, "sessionID": S, **more}
    info = {"id": id, "role": "user", "sessionID": S}
    return [event("message.updated", info=info), event("message.part.updated", part=part)]


def model(parent: str, **more: Any) -> dict[str, Any]:
    """A line of a message of the model that answers one of the user."""
    info = {"id": f"of_{parent}", "role": "assistant", "parentID": parent, "sessionID": S, "time": {}, **more}
    return event("message.updated", info=info)


BUSY, IDLE = event("session.status", status={"type": "busy"}), event("session.idle")


@pytest.fixture
def dialogue() -> OpenCodeServer:
    """A dialogue whose turn runs."""
    made = OpenCodeServer(Request(prompt="hi", model="p/one", effort="high"))
    made.read({"id": 1, "status": 200, "body": {"id": S}})
    read(made, *user("prompt", "hi"), BUSY)
    made.take()
    return made


def read(dialogue: OpenCodeServer, *lines: Any) -> list[up.Update]:
    """The notices that lines mean."""
    return [it for line in lines for it in dialogue.read(line) if isinstance(it, up.Notice)]


def said(dialogue: OpenCodeServer) -> list[dict[str, Any]]:
    """Requests since the last call."""
    return [json.loads(line) for line in dialogue.take().splitlines()]


def test_a_message_is_sent_while_a_tool_runs_and_taken_where_the_model_answers_it(dialogue: OpenCodeServer) -> None:
    """For the model of the run, once; a call of a sub-agent does not count, nor does an answer to the prompt."""
    assert dialogue.steer("s", "go left") == ()
    dialogue.read(tool("running", "ses_other"))
    assert said(dialogue) == []
    dialogue.read(tool("pending"))
    [request] = said(dialogue)
    assert (request["method"], request["path"]) == ("POST", PATH)
    assert request["body"] == {
        "parts": [{"type": "text", "text": "go left"}],
        "model": {"providerID": "p", "modelID": "one"},
        "variant": "high",
    }
    dialogue.read(tool("running"))
    assert said(dialogue) == []
    assert read(dialogue, {"id": request["id"], "status": 204}, *user("u", "go left"), *user("u", "go left")) == []
    assert read(dialogue, tool("completed"), model("prompt")) == []
    assert read(dialogue, model("u"), model("u"), IDLE) == [up.Notice("user", "go left", steer="s")]
    assert dialogue.steer("later", "x") == (not_taken("later", "the turn has ended"),)


def test_an_answer_to_a_message_answers_those_before_it(dialogue: OpenCodeServer) -> None:
    """Equal texts are two messages; one that was reported after the answered one is not taken yet."""
    dialogue.read(tool("running"))
    for id in "abc":
        dialogue.steer(id, "again")
    lines = [line for name in "uvw" for line in user(name, "again")]
    taken = [it.steer for it in read(dialogue, *lines, model("v")) if isinstance(it, up.Notice)]
    assert len({*taken}) == 2
    [left] = read(dialogue, IDLE)
    assert isinstance(left, up.Notice)
    assert {*taken, left.steer} == {*"abc"}
    assert left == not_taken(left.steer or "", LATE)


def test_a_message_that_is_not_answered_is_not_taken(dialogue: OpenCodeServer) -> None:
    """The server rejects it, never reports it, or is never asked; another request that fails is no message."""
    dialogue.read(tool("running"))
    dialogue.steer("a", "one")
    dialogue.steer("b", "two")
    first, _ = said(dialogue)
    error = {"id": first["id"], "status": 400, "body": {"message": "no"}}
    assert read(dialogue, error) == [not_taken("a", "no")]
    assert read(dialogue, error) == [up.Notice("error", "no", "warning")]
    dialogue.read(tool("completed"))
    dialogue.steer("c", "three")
    assert said(dialogue) == []
    assert read(dialogue, *user("u", "two"), IDLE) == [not_taken("b", LATE), not_taken("c", LATE)]


def test_a_turn_that_is_being_stopped_takes_no_message(dialogue: OpenCodeServer) -> None:
    """What waits to be sent is not sent after it either."""
    dialogue.steer("early", "x")
    assert dialogue.cancel()
    said(dialogue)
    dialogue.read(tool("running"))
    assert said(dialogue) == []
    assert dialogue.steer("s", "x") == (not_taken("s", "the turn has ended"),)
    assert read(dialogue, IDLE) == [not_taken("early", LATE)]


def test_texts_of_the_program_and_of_others_are_no_messages(dialogue: OpenCodeServer) -> None:
    """Neither what the program says in the user's role, nor what another client says in the session."""
    dialogue.read(tool("running"))
    dialogue.steer("s", "go left")
    read(dialogue, *user("u", "go left", synthetic=True), *user("v", "go right"))
    assert read(dialogue, model("v"), IDLE) == [not_taken("s", LATE)]


def test_a_recording_shows_the_messages_that_were_taken() -> None:
    """They are in the wire, and the prompt is none of them."""
    reader = OpenCodeServer()
    reader.read({"id": 1, "status": 200, "body": {"id": S}})
    lines = [*user("prompt", "hi"), BUSY, model("prompt"), *user("u", "go left"), model("u", modelID="m")]
    assert read(reader, *lines) == [up.Notice("user", "go left", steer="u")]
