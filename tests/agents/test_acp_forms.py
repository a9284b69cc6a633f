"""Forms, notices and compactions of an ACP agent: what a person is asked, what is sent back, and what is declined."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock import updates as up
from penstock.adapter import Request
from penstock.agents.acp.dialogue import Acp
from penstock.agents.acp.forms import MAX_FIELDS
from penstock.stream import Stream
from penstock.testing import feeds, verify

RED, BLUE = {"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}
COLOUR = {"type": "string", "title": "Colour", "oneOf": [RED, BLUE]}
SMALL, LARGE = {"const": "S", "title": "Small"}, {"const": "L", "title": "Large, or so"}
SIZES = {"type": "array", "items": {"anyOf": [SMALL, LARGE]}}
WORDS, COUNT, SURE = {"type": "string"}, {"type": "integer", "minimum": 1, "maximum": 9}, {"type": "boolean"}


class Session:
    """A dialogue whose prompt runs, with an agent that the test plays."""

    def __init__(self) -> None:
        self.acp = Acp(Request(prompt="do it", cwd="/srv"))
        self.said()
        self.hear(id=1000, result={"protocolVersion": 1, "agentCapabilities": {}})
        self.hear(id=1001, result={"sessionId": "s"})
        self.said()

    def said(self) -> list[Any]:
        """Return what Penstock sends now."""
        return [json.loads(line) for line in self.acp.take().splitlines()]

    def hear(self, **message: Any) -> list[Any]:
        """Return the updates of a message."""
        return list(self.acp.read({"jsonrpc": "2.0", **message}))

    def ask(self, properties: Any, *, required: Any = (), id: Any = 7, **params: Any) -> list[Any]:
        """Ask for a form; return the updates."""
        schema = {"type": "object", "properties": properties, "required": list(required)}
        given = {"sessionId": "s", "mode": "form", "message": "Please", "requestedSchema": schema, **params}
        return self.hear(id=id, method="elicitation/create", params=given)

    def result(self) -> Any:
        """Return the only answer that is sent now."""
        [message] = self.said()
        return message["result"]


def answer(id: str, words: str | None, option: str | None = None) -> up.Answer:
    """Return a person's answer."""
    return up.Answer(id, "person", option, words)


@pytest.mark.parametrize(
    ("field", "option", "words", "value"),
    [
        (COLOUR, "r", None, "r"),
        (COLOUR, None, "blue", "b"),
        ({"type": "string", "enum": ["x", "y"]}, "y", None, "y"),
        (WORDS, None, " own words ", "own words"),
        (SURE, "yes", None, True),
        (SURE, None, "No", False),
        (COUNT, None, "7", 7),
        ({"type": "number"}, None, "-1.5", -1.5),
        (SIZES, "S", None, ["S"]),
        (SIZES, None, "Large, or so", ["L"]),
        (SIZES, None, "small, L, S", ["S", "L"]),
        (WORDS, None, "half \ud83d", "half \ufffd"),
    ],
)
def test_a_field_is_a_question(field: Any, option: str | None, words: str | None, value: Any) -> None:
    """An option or words fill it with a value of its kind."""
    session = Session()
    [question] = session.ask({"f": field})
    assert (question.id, question.blocking, question.text.startswith("Please")) == ("7", True, True)
    assert question.ask == ("choice" if question.options else "text")
    assert session.acp.answer(answer("7", words, option)) == (answer("7", words, option),)
    assert session.result() == {"action": "accept", "content": {"f": value}}


def test_the_fields_of_a_form_are_asked_together_and_sent_together() -> None:
    """Each has a question; one that is not answered is left out, if the form does not need it."""
    session = Session()
    questions = session.ask({"c": COLOUR, "w": WORDS, "n": COUNT}, required=["c"])
    assert [question.id for question in questions] == ["7.0", "7.1", "7.2"]
    session.acp.answer(answer("7.2", "3"))
    session.acp.answer(answer("7.1", None))
    assert session.said() == []
    session.acp.answer(answer("7.0", None, "b"))
    assert session.result() == {"action": "accept", "content": {"n": 3, "c": "b"}}
    with pytest.raises(KeyError):
        session.acp.answer(answer("7.0", None, "b"))


@pytest.mark.parametrize(
    ("field", "words", "content"),
    [
        (COLOUR, "green", {"q_custom": "green"}),
        (COLOUR, "red", {"q": "r"}),
        (SIZES, "Small, huge", {"q": ["S"], "q_custom": "huge"}),
        (SIZES, "huge", {"q_custom": "huge"}),
    ],
)
def test_a_choice_with_a_field_for_own_words_is_one_question(field: Any, words: str, content: Any) -> None:
    """Words that are none of the options fill the other field."""
    session = Session()
    [question] = session.ask({"q": field, "q_custom": {"type": "string", "title": "Other"}})
    assert question.free_text
    session.acp.answer(answer("7", words))
    assert session.result() == {"action": "accept", "content": content}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (COUNT, "seven"),
        (COUNT, "0"),
        (COUNT, "10"),
        (COUNT, "1.5"),
        (COUNT, "9" * 5000),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "1e999"),
        (COLOUR, "green"),
        (SIZES, "Small, huge"),
        (SURE, "perhaps"),
    ],
)
def test_words_that_are_no_value_decline_the_form(field: Any, words: str) -> None:
    """The agent is never sent a guess, and a person is told why. Other questions of the form are withdrawn."""
    session = Session()
    session.ask({"f": field, "w": WORDS})
    updates = session.acp.answer(answer("7.0", words))
    assert session.result() == {"action": "decline"}
    assert updates[:2] == (answer("7.0", words), up.Answer("7.1", "withdrawn"))
    assert isinstance(updates[2], up.Notice)
    assert "declined" in updates[2].text


@pytest.mark.parametrize("by", ["person", "nobody"])
@pytest.mark.parametrize("required", [["c"], []])
def test_a_form_that_nobody_answers_is_declined(by: Any, required: list[str]) -> None:
    """All of its questions are closed, and the agent goes on."""
    session = Session()
    asked = session.ask({"c": COLOUR, "w": WORDS}, required=required)
    closed: list[Any] = []
    for question in asked:
        try:
            closed += session.acp.answer(up.Answer(question.id, by))
        except KeyError:
            continue
    assert {it.id for it in closed} == {question.id for question in asked}
    assert session.result() == {"action": "decline"}


HOSTILE: list[dict[str, Any]] = [
    {"requestedSchema": {}},
    {"requestedSchema": None},
    {"requestedSchema": {"properties": {}}},
    {"requestedSchema": {"properties": []}},
    {"requestedSchema": {"properties": {"f": {"type": "object"}}}},
    {"requestedSchema": {"properties": {"f": {"type": ["string"]}}}},
    {"requestedSchema": {"properties": {"f": {"type": "hologram"}, "g": WORDS}}},
    {"requestedSchema": {"properties": {"f": None}}},
    {"requestedSchema": {"properties": {"f": {"type": "array"}}}},
    {"requestedSchema": {"properties": {"f": {"type": "array", "items": {"type": "object"}}}}},
    {"requestedSchema": {"properties": {"f": {"type": "string", "enum": [1, None]}}}},
    {"requestedSchema": {"properties": {"f": {"type": "string", "enum": [str(n) for n in range(1000)]}}}},
    {"requestedSchema": {"properties": {str(n): WORDS for n in range(MAX_FIELDS + 1)}}},
    {"mode": "url", "url": "https://example.com", "elicitationId": "e"},
    {"mode": "telepathy", "requestedSchema": {"properties": {"f": WORDS}}},
]


@pytest.mark.parametrize("params", HOSTILE)
def test_a_form_that_cannot_be_shown_is_declined_at_once(params: dict[str, Any]) -> None:
    """Nobody is asked, the agent does not wait, and a notice says so."""
    session = Session()
    updates = session.hear(id=7, method="elicitation/create", params={"message": "x", **params})
    assert session.result() == {"action": "decline"}
    [notice] = updates
    assert isinstance(notice, up.Notice)
    assert notice.level == "warning"


def test_a_form_never_takes_the_questions_of_another_request() -> None:
    """The agent chooses the ids: a second form by an id that is in use is declined, and the first one stays."""
    session = Session()
    [question] = session.ask({"f": WORDS}, id=7)
    session.ask({"g": WORDS}, id="7")
    assert session.said() == [{"jsonrpc": "2.0", "id": "7", "result": {"action": "decline"}}]
    session.acp.answer(answer(question.id, "x"))
    assert session.result() == {"action": "accept", "content": {"f": "x"}}


def test_a_stop_and_the_agent_withdraw_a_form() -> None:
    """Its questions are closed, and the request is answered."""
    session = Session()
    session.ask({"a": WORDS, "b": WORDS})
    assert session.hear(method="$/cancel_request", params={"requestId": 8}) == []
    withdrawn = session.hear(method="$/cancel_request", params={"requestId": 7})
    assert withdrawn == [up.Answer("7.0", "withdrawn"), up.Answer("7.1", "withdrawn")]
    assert session.result() == {"action": "cancel"}
    session.ask({"a": WORDS}, id=9)
    assert session.acp.cancel()
    cancelled, result = session.said()
    assert (cancelled["method"], result["id"], result["result"]) == ("session/cancel", 9, {"action": "cancel"})
    assert session.hear(method="$/x") == [up.Answer("9", "withdrawn")]
    session.ask({"a": WORDS}, id=10)
    assert session.result() == {"action": "cancel"}


def test_the_agent_withdraws_a_permission() -> None:
    """It is answered as cancelled, and the person is no longer asked."""
    session = Session()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "make", "kind": "execute"}
    session.hear(id=3, method="session/request_permission", params={"options": options, "toolCall": call})
    assert session.hear(method="$/cancel_request", params={"requestId": 3}) == [up.Answer("3", "withdrawn")]
    assert session.result() == {"outcome": {"outcome": "cancelled"}}


KEYS = st.sampled_from(["type", "enum", "oneOf", "items", "const", "title", "a", "a_custom", "minimum"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["string", "array", "form"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON, JSON, st.text(max_size=4))
def test_whatever_a_form_is_it_gets_one_answer(properties: Any, required: Any, id: Any, words: str) -> None:
    """Nothing that an agent sends raises, or is left without an answer once the person has answered."""
    session = Session()
    schema = {"properties": properties, "required": required}
    updates = session.hear(id=id, method="elicitation/create", params={"requestedSchema": schema})
    for question in [it for it in updates if isinstance(it, up.Question)]:
        try:
            session.acp.answer(answer(question.id, words))
        except KeyError:
            continue
    assert session.result()["action"] in ("accept", "decline")


def test_notices_and_compactions_are_shown() -> None:
    """They are no part of the reply, and the text after a compaction is another message."""

    def update(**fields: Any) -> bytes:
        params = {"sessionId": "s", "update": fields}
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"

    def answered(id: int, **result: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n"

    def text(words: str) -> bytes:
        return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": words})

    compaction = {"sessionUpdate": "compaction_update", "compactionId": "k"}
    old = {"type": "text", "text": "old"}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1000, "result": {"protocolVersion": 1, "agentCapabilities": {}}}).encode()
        + b"\n",
        json.dumps({"jsonrpc": "2.0", "id": 1001, "result": {"sessionId": "s"}}).encode() + b"\n",
        text("before"),
        update(sessionUpdate="notice", severity="warning", title="Model fallback", description="another one"),
        update(sessionUpdate="notice", severity="loud", title=5),
        update(**compaction, status="in_progress"),
        update(sessionUpdate="compaction_summary_chunk", compactionId="k", content=old),
        update(**compaction, status="completed", summary=[old]),
        update(**compaction, status="failed", error="too long"),
        text("after"),
        answered(1007, stopReason="end_turn"),
    ]
    events = feeds.whole(Stream("acp"), b"".join(lines))
    assert verify(events) == []
    notices = [(it.code, it.level, it.text) for it in events if isinstance(it, ev.Notice)]
    assert notices == [
        ("status", "warning", "Model fallback: another one"),
        ("status", "info", "5"),
        ("compaction", "info", "the context was compacted"),
        ("compaction", "warning", "the context could not be compacted: too long"),
    ]
    assert not [it for it in events if isinstance(it, ev.Unknown)]
    [end] = [it for it in events if isinstance(it, ev.RunEnded)]
    assert end.reply.endswith("after")
    assert "old" not in end.reply
    assert [it.text for it in events if isinstance(it, ev.BlockEnded)] == ["before", "after"]
