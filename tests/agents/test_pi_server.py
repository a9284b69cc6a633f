"""Pi in its two-way mode: its commands, its end, the questions of its extensions, and messages while it works."""

from __future__ import annotations

import json
from typing import Any

import pytest
from adapter_harness import end, of, run

from penstock import events as ev
from penstock import updates as up
from penstock.adapter import Image, Request, not_taken
from penstock.agents import registry
from penstock.agents.pi.server import PiServer
from penstock.core.decoding import fit
from penstock.updates import Answer

LATE = "the turn ended before it"
Line = dict[str, Any]
STARTED: Line = {"type": "agent_start"}
SETTLED: Line = {"type": "agent_settled", "aborted": False}


def response(command: str, id: str, data: Any = None, **fields: Any) -> Line:
    """The answer to a command."""
    given = {} if data is None else {"data": data}
    return {"type": "response", "id": id, "command": command, "success": True, **given, **fields}


ACCEPTED = response("prompt", "penstock-prompt", {"disposition": "started"})
STATE = response("get_state", "penstock-state", {"sessionId": "s1", "model": {"id": "m"}})


def queue(*texts: str) -> Line:
    """The whole queue."""
    return {"type": "queue_update", "steering": [*texts], "followUp": []}


def started(role: str, text: str = "") -> Line:
    """A message begins."""
    return {"type": "message_start", "message": {"role": role, "content": [{"type": "text", "text": text}]}}


def said(text: str, **fields: Any) -> list[Line]:
    """A whole message of the model."""
    message: Line = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **fields}
    return [started("assistant"), {"type": "message_end", "message": message}]


def ended(stop: str = "stop", *, again: bool = False, error: str | None = None) -> Line:
    """The end of a try."""
    message: Line = {"role": "assistant", "content": [], "stopReason": stop, "errorMessage": error}
    return {"type": "agent_end", "messages": [message], "willRetry": again}


def asked(id: str, method: str, **fields: Any) -> Line:
    """A request of an extension."""
    return {"type": "extension_ui_request", "id": id, "method": method, **fields}


def read(dialogue: PiServer, *lines: Line) -> list[up.Update]:
    """The updates of lines."""
    return [update for line in lines for update in dialogue.read(fit(line, PiServer.wire))]


def sent(dialogue: PiServer) -> list[Line]:
    """The commands since the last call."""
    return [json.loads(line) for line in dialogue.take().splitlines()]


@pytest.fixture
def dialogue() -> PiServer:
    """A dialogue whose run has begun."""
    made = PiServer(Request(prompt="hi"))
    read(made, STATE, ACCEPTED, STARTED, started("user", "hi"))
    made.take()
    return made


def test_the_command_line_and_the_first_commands() -> None:
    """The prompt and its images are in commands, whatever they begin with; the rest is as in the other mode."""
    image = Image("/a.png", "image/png", b"x")
    asked = Request(prompt="--help", model="m", session_id="s", fork=True, effort="low", allow="read", images=(image,))
    both = [registry.command("pi", route, asked).argv for route in ("server", "exec")]
    assert both[0] == ("pi", "--mode", "rpc", *both[1][3:-1])
    assert sent(PiServer(asked)) == [
        {"type": "get_state", "id": "penstock-state"},
        {
            "type": "prompt",
            "id": "penstock-prompt",
            "message": "--help",
            "images": [{"type": "image", "data": "eA==", "mimeType": "image/png"}],
        },
        {"type": "get_commands", "id": "penstock-commands"},
    ]


def test_the_run_ends_once_pi_has_settled(dialogue: PiServer) -> None:
    """A failure of a try that is repeated is not the end, and neither is an answer that more follows."""
    failed = ended("error", error="500: broken", again=True)
    assert read(dialogue, failed, {"type": "auto_retry_start", "attempt": 1}, STARTED)[-1] == up.Notice(
        "retry", "the model call failed", "warning", attempt=1
    )
    assert of(read(dialogue, *said("first"), ended(), STARTED, *said("second"), ended()), up.Result) == []
    assert not dialogue.over
    assert read(dialogue, SETTLED) == [up.Result()]
    assert dialogue.over


def test_a_failure_that_is_not_repeated(dialogue: PiServer) -> None:
    """It is the end, with its cause."""
    [result] = read(dialogue, ended("error", error="429: slow down"), SETTLED)
    assert result == up.Result(is_error=True, reason="429: slow down", cause="rate_limit")


def test_a_version_that_does_not_report_when_it_has_settled() -> None:
    """The end of a try is the end then, unless it says that another one follows."""
    dialogue = PiServer(Request(prompt="hi"))
    read(dialogue, response("prompt", "penstock-prompt"), STARTED)
    assert read(dialogue, ended("error", again=True), STARTED) == []
    assert read(dialogue, *said("done"), ended())[-1] == up.Result()
    assert dialogue.over


def test_a_prompt_that_begins_no_run() -> None:
    """It was rejected, or an extension has used it up: both end the run."""
    dialogue = PiServer(Request(prompt="hi"))
    rejected = response("prompt", "penstock-prompt", success=False, error="no model")
    assert read(dialogue, rejected) == [up.Result(is_error=True, reason="no model")]
    assert dialogue.over
    dialogue = PiServer(Request(prompt="/mine"))
    assert read(dialogue, response("prompt", "penstock-prompt", {"disposition": "handled"})) == []
    assert dialogue.over


def test_another_command_that_is_rejected(dialogue: PiServer) -> None:
    """It is a notice, and the run goes on."""
    rejected = response("clear_queue", "penstock-clear", success=False, error="why")
    assert read(dialogue, rejected) == [up.Notice("error", "why", "warning")]
    assert not dialogue.over


def test_a_message_is_taken_when_the_model_answers_it(dialogue: PiServer) -> None:
    """It is sent once; the queue alone, the answer to the command and the repeated text are no proof."""
    assert dialogue.steer("s", "go left") == ()
    assert sent(dialogue) == [{"type": "steer", "id": "s", "message": "go left"}]
    lines = [queue("go left"), response("steer", "s", {"disposition": "queued"}), queue(), started("user", "go left")]
    assert read(dialogue, *lines) == []
    assert sent(dialogue) == []
    taken = read(dialogue, started("assistant"))
    assert taken[:2] == [up.RoundEnd(), up.Notice("user", "go left", steer="s")]
    assert read(dialogue, ended(), SETTLED) == [up.Result()]
    assert dialogue.steer("t", "x") == (not_taken("t", "the turn has ended"),)


def test_a_message_waits_for_the_beginning() -> None:
    """Before pi works it would stay in the queue."""
    dialogue = PiServer(Request(prompt="hi"))
    dialogue.take()
    dialogue.steer("s", "left")
    read(dialogue, ACCEPTED)
    assert sent(dialogue) == []
    read(dialogue, STARTED)
    assert [it["id"] for it in sent(dialogue)] == ["s"]


def test_equal_messages_and_one_that_pi_has_expanded(dialogue: PiServer) -> None:
    """Each has its own result, in the order of the queue; one that is left at the end was not taken."""
    for id, text in (("a", "again"), ("b", "/skill:x"), ("c", "again"), ("d", "again")):
        dialogue.steer(id, text)
    lines = [
        queue("again"),
        response("steer", "a", {"disposition": "queued"}),
        queue("again", "do x"),
        queue("do x"),
        started("user", "again"),
        response("steer", "b", {"disposition": "queued"}),
        queue("do x", "again"),
        response("steer", "c", {"disposition": "queued"}),
        started("assistant"),
        queue("again"),
        started("user", "do x"),
        started("assistant"),
        queue("again", "again"),
        response("steer", "d", {"disposition": "queued"}),
        queue("again"),
        started("user", "again"),
        started("assistant"),
        ended(),
        SETTLED,
    ]
    assert of(read(dialogue, *lines), up.Notice) == [
        up.Notice("user", "again", steer="a"),
        up.Notice("user", "/skill:x", steer="b"),
        up.Notice("user", "again", steer="c"),
        not_taken("d", LATE),
    ]


def test_messages_that_the_model_never_gets(dialogue: PiServer) -> None:
    """One was rejected, one was used up by an extension, one was repeated and never answered."""
    for id in "abc":
        dialogue.steer(id, id)
    lines = [
        response("steer", "a", success=False, error="it is a command"),
        response("steer", "b", {"disposition": "handled"}),
        queue("c"),
        response("steer", "c", {"disposition": "queued"}),
        queue(),
        started("user", "c"),
        ended(),
        SETTLED,
    ]
    assert of(read(dialogue, *lines), up.Notice) == [
        not_taken("a", "it is a command"),
        up.Notice("user", "b", steer="b"),
        not_taken("c", LATE),
    ]


def test_a_message_of_an_extension_is_nobodys(dialogue: PiServer) -> None:
    """Its text may be that of a message which pi has not queued so far."""
    dialogue.steer("s", "left")
    read(dialogue, queue("other"), queue("other", "left"), response("steer", "s", {"disposition": "queued"}))
    assert read(dialogue, queue("left"), started("user", "other"), *said("x"), ended(), SETTLED)[-2:] == [
        not_taken("s", LATE),
        up.Result(),
    ]


def test_cancelling_clears_the_queue_first(dialogue: PiServer) -> None:
    """Pi would go on with it. Questions are dismissed, also one that comes later; nothing is aborted twice."""
    dialogue.steer("s", "left")
    read(dialogue, asked("q", "confirm", title="Sure?"))
    dialogue.take()
    assert dialogue.cancel()
    assert dialogue.cancel()
    assert [(it["type"], it["id"]) for it in sent(dialogue)] == [
        ("extension_ui_response", "q"),
        ("clear_queue", "penstock-clear"),
        ("abort", "penstock-abort"),
    ]
    assert dialogue.steer("t", "x") == (not_taken("t", "the turn has ended"),)
    assert read(dialogue, asked("r", "confirm", title="Sure?")) == []
    assert sent(dialogue) == [{"type": "extension_ui_response", "id": "r", "cancelled": True}]
    assert read(dialogue, ended("aborted", error="why"), {**SETTLED, "aborted": True}) == [
        Answer("q", "withdrawn"),
        not_taken("s", LATE),
        up.Result(cancelled=True, reason="why"),
    ]


def test_nothing_is_aborted_before_the_beginning() -> None:
    """Then the process is ended."""
    dialogue = PiServer(Request(prompt="hi"))
    read(dialogue, STATE, ACCEPTED)
    assert not dialogue.cancel()


@pytest.mark.parametrize(
    ("line", "answer", "reply"),
    [
        (asked("q", "confirm", title="Run?", message="ls"), Answer("q", "person", "yes"), {"confirmed": True}),
        (asked("q", "confirm", title="Run?", message="ls"), Answer("q", "person", "no"), {"confirmed": False}),
        (asked("q", "confirm", title="Run?", message="ls"), Answer("q", "nobody"), {"cancelled": True}),
        (asked("q", "select", title="Run?", options=["A", "ls"]), Answer("q", "person", "A"), {"value": "A"}),
        (asked("q", "input", title="Run?", placeholder="ls"), Answer("q", "person", text="x\n"), {"value": "x\n"}),
        (asked("q", "editor", title="Run?", prefill="ls"), Answer("q", "nobody"), {"cancelled": True}),
    ],
)
def test_questions_of_extensions(dialogue: PiServer, line: Line, answer: Answer, reply: Line) -> None:
    """Each kind is a question that waits, and its answer has the form that pi expects."""
    [question] = read(dialogue, line)
    assert isinstance(question, up.Question)
    assert question.blocking
    assert question.text == ("Run?" if line["method"] == "select" else "Run?\nls")
    assert dialogue.answer(answer) == (answer,)
    assert sent(dialogue) == [{"type": "extension_ui_response", "id": "q", **reply}]
    with pytest.raises(KeyError):
        dialogue.answer(answer)


def test_what_extensions_show(dialogue: PiServer) -> None:
    """Their notifications and errors are notices. A dialog of an unknown kind is dismissed, or it would wait."""
    lines = [
        asked("a", "notify", message="look", notifyType="error"),
        asked("b", "setStatus", statusText="x"),
        {"type": "extension_error", "extensionPath": "x.ts", "event": "e", "error": "broken"},
        asked("c", "slider", title="How much?"),
        asked("d", "select", title="Which?", options=[]),
    ]
    assert read(dialogue, *lines) == [
        up.Notice("status", "look", "warning"),
        up.Notice("error", "x.ts: broken", "warning"),
        up.Unknown("extension_ui_request/slider", "How much?"),
        up.Unknown("extension_ui_request/select", "Which?"),
    ]
    assert [(it["id"], it["cancelled"]) for it in sent(dialogue)] == [("c", True), ("d", True)]


def test_a_recorded_dialogue_that_breaks_off() -> None:
    """The last answer counts if pi had ended its work; a question that was open is withdrawn."""
    whole = [STATE, ACCEPTED, STARTED, *said("done")]
    assert end(run("pi/server", *whole, ended())) == ("ok", "done", None)
    assert end(run("pi/server", *whole))[0] == "cut_off"
    events = run("pi/server", *whole, asked("q", "confirm", title="Sure?"))
    [answered] = of(events, ev.QuestionAnswered)
    assert (answered.id, answered.by) == ("q", "withdrawn")


def test_a_reply_after_a_message_replaces_the_one_before_it() -> None:
    """The answer to a message is a round of its own, also without a call between."""
    taken = [queue("more"), response("steer", "s", {"disposition": "queued"}), queue(), started("user", "more")]
    events = run("pi/server", STATE, ACCEPTED, STARTED, *said("first"), *taken, *said("second"), ended(), SETTLED)
    assert end(events) == ("ok", "second", None)
    assert events[-1].rounds == 2  # type: ignore[union-attr]
    [notice] = of(events, ev.Notice)
    assert (notice.text, notice.steer) == ("more", "s")
