from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock import updates as up
from penstock.adapter import Dialogue, Level, Request
from penstock.agents import registry
from penstock.agents.opencode.server import AGENTS, OpenCodeServer
from penstock.core.questions import allowed
from penstock.errors import UsageError
from penstock.events import BlockEnded, BlockStarted, Event, Replied, RunEnded, ToolCalled, ToolReturned
from penstock.run.directory import stays_inside
from penstock.stream import Stream
from penstock.testing import feeds, verify

RECORDINGS = Path(__file__).parents[1] / "recordings"
S = "ses_1"


def event(kind: str, **properties: Any) -> dict[str, Any]:
    """A line of an event of our session."""
    return {"event": {"id": "evt_1", "type": kind, "properties": {"sessionID": S, **properties}}}


def part(kind: str, message: str = "m", session: str = S, **fields: Any) -> dict[str, Any]:
    """A line of a part that is new or has changed."""
    inner = {"id": "p", "type": kind, "messageID": message, "sessionID": session, **fields}
    return event("message.part.updated", sessionID=session, part=inner)


def delta(text: str, id: str = "p", message: str = "m", session: str = S) -> dict[str, Any]:
    """A line of new text."""
    return event("message.part.delta", sessionID=session, messageID=message, partID=id, field="text", delta=text)


def message(role: str, id: str = "m", session: str = S, **info: Any) -> dict[str, Any]:
    """A line of a message that is new or has changed."""
    return event("message.updated", sessionID=session, info={"id": id, "role": role, "sessionID": session, **info})


SESSION = {"id": 1, "status": 200, "body": {"id": S, "directory": "/d", "version": "1.2.3"}}
BUSY = event("session.status", status={"type": "busy"})
IDLE = event("session.idle")
STEP = part("step-start", id="s")
STOP = part("step-finish", id="f", reason="stop", tokens={"input": 1, "output": 2}, cost=0)


def begun(**asked: Any) -> OpenCodeServer:
    """A dialogue whose session is known and whose turn has begun."""
    dialogue = OpenCodeServer(Request(prompt="hi", **asked))
    for line in (SESSION, BUSY):
        dialogue.read(line)
    dialogue.take()
    return dialogue


def is_over(dialogue: OpenCodeServer) -> bool:
    """Return whether the dialogue is over by now."""
    return dialogue.over


def read(dialogue: OpenCodeServer, *lines: Any) -> list[up.Update]:
    """The updates of lines."""
    return [update for line in lines for update in dialogue.read(line)]


def said(dialogue: OpenCodeServer) -> list[tuple[str, str, Any]]:
    """What it has to say: method, path, body."""
    requests = [json.loads(line) for line in dialogue.take().splitlines()]
    return [(request["method"], request["path"], request.get("body")) for request in requests]


def events(*lines: Any) -> list[Event]:
    """The events of a whole run that was recorded, judged."""
    found = feeds.whole(
        Stream("opencode/server", strict=True), b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    )
    assert verify(found) == []
    return found


# --- the order of requests -------------------------------------------------------------------------


def test_it_is_a_dialogue() -> None:
    """The shell tells by that how to treat it."""
    assert isinstance(OpenCodeServer(), Dialogue)


@pytest.mark.parametrize("case", ["text", "tools", "permission_allow", "abort", "resume"])
def test_our_requests_are_those_that_were_recorded(case: str) -> None:
    """Method, path and body of each, in order; each only when the recorded server had answered what it rests on."""
    asked = {"resume": {"session_id": "ses_e05102f9fffe0M45nhbid7acOq"}}.get(case, {})
    scenario = {"permission_allow": "tools", "abort": "slow", "resume": "short"}.get(case, case)
    dialogue = OpenCodeServer(Request(prompt=f"scenario={scenario}", model="mock/mock-model", **asked))  # type: ignore[arg-type]
    requests = said(dialogue)
    assert len(requests) == 1
    texts = 0
    for line in (RECORDINGS / "opencode-server" / case / "input.ndjson").read_bytes().splitlines():
        for update in dialogue.read(json.loads(line)):
            texts += isinstance(update, up.Text)
            if isinstance(update, up.Question):
                assert dialogue.answer(allowed(update)) == ()
        if case == "abort" and texts == 5:
            assert dialogue.cancel()
        requests += said(dialogue)
    session, model = dialogue_session(case), {"providerID": "mock", "modelID": "mock-model"}
    prompt = {"parts": [{"type": "text", "text": f"scenario={scenario}"}], "model": model}
    wanted: list[tuple[str, str, Any]] = [
        ("GET", f"/session/{session}", None) if asked else ("POST", "/session", {}),
        ("POST", f"/session/{session}/prompt_async", prompt),
        ("GET", "/command", None),  # newer than the recordings
    ]
    answers: dict[str, list[tuple[str, str, Any]]] = {
        "permission_allow": [
            ("POST", "/permission/per_1faf59b58001pUDaqIBbRTNb2e/reply", {"reply": "once"}),
            ("POST", "/permission/per_1faf59d980018N2GQZuoNcTVz3/reply", {"reply": "once"}),
        ],
        "abort": [("POST", f"/session/{session}/abort", {})],
    }
    assert requests == wanted + answers.get(case, [])
    assert dialogue.over


def dialogue_session(case: str) -> str:
    """The session of a recording."""
    expected = json.loads((RECORDINGS / "opencode-server" / case / "expected.json").read_text())
    return str(expected["session_id"])


def test_a_fork_waits_for_its_session() -> None:
    """The prompt goes to the new one, and the history that the fork repeats is not shown, whenever it comes."""
    dialogue = OpenCodeServer(Request(prompt="hi", session_id="ses_0", fork=True))
    assert said(dialogue) == [("POST", "/session/ses_0/fork", {})]
    history = [message("user", "u"), part("text", "u", text="old"), message("assistant"), STEP]
    history += [part("text", text="old answer", time={"start": 1, "end": 2}), STOP]
    assert read(dialogue, *history) == []
    assert read(dialogue, SESSION) == [up.RunStart(S, cwd="/d", version="1.2.3")]
    assert said(dialogue) == [("POST", f"/session/{S}/prompt_async", {"parts": [{"type": "text", "text": "hi"}]})]
    assert read(dialogue, *history, BUSY) == []
    assert read(dialogue, delta("new", message="n")) == [up.Text("text", "delta", "new", "p", "n")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            {"id": 1, "status": 404, "body": {"name": "NotFoundError", "data": {"message": "Session not found: x"}}},
            "Session not found: x",
        ),
        ({"id": 1, "status": 401, "body": None}, "the server answered with status 401"),
        ({"id": 2, "status": 500, "body": "Oh no"}, "Oh no"),
        ({"id": 2, "status": 0, "body": None, "error": "timed out"}, "timed out"),
        ({"id": 1, "status": 200, "body": {}}, "the server returned no session"),
    ],
)
def test_a_request_that_fails_ends_the_run(line: dict[str, Any], reason: str) -> None:
    """The session's and the prompt's; the reason is the server's."""
    dialogue = OpenCodeServer(Request(prompt="hi"))
    assert read(dialogue, line) == [up.Result(is_error=True, reason=reason)]
    assert dialogue.over


def test_another_request_that_fails_is_told() -> None:
    """A permission that was settled meanwhile is no failure of the run."""
    dialogue = begun()
    assert read(dialogue, {"id": 3, "status": 404, "body": None}) == [
        up.Notice("error", "the server answered with status 404", "warning")
    ]
    assert not dialogue.over


# --- events ----------------------------------------------------------------------------------------


def test_the_prompt_is_not_the_models_text() -> None:
    """Told apart by its message's role, also where that comes while the model writes."""
    dialogue = begun()
    assert read(dialogue, message("user", "u"), part("text", "u", text="hi"), delta("x", message="u")) == []


def test_texts_stream_and_end_with_the_truth() -> None:
    """The kind of a delta is that of its part."""
    dialogue = begun()
    found = read(
        dialogue,
        part("reasoning", id="r", text="", time={"start": 1}),
        delta("Hm", "r"),
        part("reasoning", id="r", text="Hmm", time={"start": 1, "end": 2}),
        delta("Hi"),
        part("text", text="Hi!", time={"start": 1, "end": 2}),
    )
    assert found == [
        up.Text("thinking", "delta", "Hm", "r", "m"),
        up.Text("thinking", "final", "Hmm", "r", "m"),
        up.Text("text", "delta", "Hi", "p", "m"),
        up.Text("text", "final", "Hi!", "p", "m"),
    ]


def test_what_the_program_says_in_the_users_role_is_a_notice() -> None:
    """As on the plain route."""
    dialogue = begun()
    line = part("text", "u", text="Go on", synthetic=True, time={"start": 1, "end": 1}, metadata={"compaction_x": True})
    assert read(dialogue, message("user", "u"), line) == [up.Notice("compaction", "Go on"), up.RoundEnd()]


def test_a_command_is_shown_while_it_runs() -> None:
    """Its output is a snapshot that grows; a call is told once its input is there."""
    dialogue = begun()
    call = {"id": "t", "tool": "bash", "callID": "c"}
    running = {"status": "running", "input": {"command": "x"}}
    done = {"status": "completed", "input": {"command": "x"}, "output": "a\nb\n", "metadata": {"exit": 3}}
    found = read(
        dialogue,
        part("tool", **call, state={"status": "pending", "input": {}, "raw": ""}),
        part("tool", **call, state=running),
        part("tool", **call, state={**running, "metadata": {"output": "a\n"}}),
        part("tool", **call, state=done),
    )
    called = up.ToolCall("c", "bash", {"command": "x"}, message="m")
    output = up.Text("tool_output", "snapshot", "a\n", call_id="c")
    assert found == [called, called, output, called, up.ToolReturn("c", "a\nb\n", True, 3, "bash")]


def test_a_retry_is_another_attempt() -> None:
    """The first half is superseded, and nothing of it comes again with its late final."""
    found = events(
        SESSION,
        BUSY,
        message("assistant"),
        STEP,
        part("text", text="", time={"start": 1}),
        delta("This half"),
        event("session.status", status={"type": "retry", "attempt": 1, "message": "reset", "next": 5}),
        part("step-start", id="s2"),
        part("text", id="q", text="", time={"start": 1}),
        part("text", text="This half", time={"start": 1, "end": 2}),
        delta("Whole", "q"),
        part("text", id="q", text="Whole", time={"start": 1, "end": 2}),
        STOP,
        IDLE,
    )
    assert [(e.text, e.complete) for e in found if isinstance(e, BlockEnded)] == [("This half", False), ("Whole", True)]
    end = found[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reply, end.rounds) == ("ok", "Whole", 1)


def test_an_error_before_any_answer() -> None:
    """The turn ends with it; the model's message is finished only after that."""
    dialogue = begun()
    error = {"name": "APIError", "data": {"message": "no key", "statusCode": 401}}
    found = read(dialogue, message("assistant"), event("session.error", error=error))
    assert found == [up.Notice("error", "no key", "error", cause="auth"), up.Failure("no key", "auth")]
    assert read(dialogue, IDLE) == [up.Result(is_error=True, reason="no key", cause="auth")]
    assert not dialogue.over
    assert read(dialogue, message("assistant", time={"created": 1, "completed": 2}), IDLE) == []
    assert dialogue.over


def test_an_error_without_a_message() -> None:
    """A model that does not exist: there is no second idle to wait for, or none at all."""
    error = {"name": "UnknownError", "data": {"message": "Model not found"}}
    dialogue = begun()
    assert read(dialogue, event("session.error", error=error), IDLE)[-1] == up.Result(
        is_error=True, reason="Model not found"
    )
    assert dialogue.over
    unbegun = OpenCodeServer(Request(prompt="hi"))
    assert isinstance(read(unbegun, SESSION, event("session.error", error=error))[-1], up.Result)
    assert unbegun.over


def test_an_error_that_is_told_twice() -> None:
    """Of a model that does not exist opencode tells twice, the second time with a stack trace: it is shown once."""
    dialogue = begun()
    first, again = "Model not found: x.", "ProviderModelNotFoundError: Model not found: x.\n    at <anonymous> (a.js:1)"
    said = [{"name": "UnknownError", "data": {"message": text}} for text in (first, again, "Out of memory")]
    found = read(dialogue, *(event("session.error", error=error) for error in said))
    assert [each.text for each in found if isinstance(each, up.Notice)] == [first, "Out of memory"]


def test_an_error_that_was_overcome() -> None:
    """The answer after a compaction takes it back."""
    overflow = event("session.error", error={"name": "ContextOverflowError", "data": {"message": "too long"}})
    text = part("text", text="Yes", time={"start": 1, "end": 2})
    end = events(SESSION, BUSY, message("assistant"), STEP, overflow, STEP, text, STOP, IDLE)[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reply) == ("ok", "Yes")


def test_a_turn_that_ends_without_an_answer() -> None:
    """A refusal without words, for one, is the reason then; and where there is none, that is said."""
    rejected = {"status": "error", "input": {}, "error": "The user rejected permission to use this specific tool call."}
    dialogue = begun()
    read(
        dialogue, STEP, part("tool", tool="bash", callID="c", state=rejected), part("step-finish", reason="tool-calls")
    )
    assert read(dialogue, IDLE) == [
        up.Result(is_error=True, reason="The user rejected permission to use this specific tool call.")
    ]
    assert read(begun(), IDLE) == [up.Result(is_error=True, reason="the turn ended without an answer")]


def test_a_sub_agent_has_its_own_lane() -> None:
    """Its text, calls, end and errors are its own, under the call that started it."""
    child = "ses_2"
    task: dict[str, Any] = {
        "id": "t",
        "tool": "task",
        "callID": "c",
        "state": {"status": "running", "input": {"prompt": "go"}},
    }
    child_task = {**task, "state": {**task["state"], "metadata": {"sessionId": child}}}
    done = {"status": "completed", "input": {"prompt": "go"}, "output": "ok", "metadata": {"sessionId": child}}
    found = events(
        SESSION,
        BUSY,
        message("assistant"),
        STEP,
        part("tool", **task),
        event("session.created", sessionID=child, info={"id": child, "parentID": S}),
        part("tool", **child_task),
        message("user", "cu", child),
        part("text", "cu", child, text="go"),
        message("assistant", "cm", child),
        part("step-start", "cm", child, id="cs"),
        delta("Below", "cp", "cm", child),
        part("text", "cm", child, id="cp", text="Below", time={"start": 1, "end": 2}),
        event("session.error", sessionID=child, error={"name": "X"}),
        part("step-finish", "cm", child, id="cf", reason="stop"),
        event("session.idle", sessionID=child),
        part("tool", **{**task, "state": done}),
        part("step-finish", id="f", reason="tool-calls"),
        part("step-start", "n", id="s2"),
        delta("Above", "q", "n"),
        part("step-finish", "n", id="f2", reason="stop"),
        IDLE,
    )
    lanes = [(e.parent, e.text) for e in found if isinstance(e, BlockEnded) and e.kind == "text"]
    assert lanes == [("c", "Below"), (None, "Above")]
    assert [e.text for e in found if isinstance(e, ToolReturned)] == ["ok"]
    assert [e.reply for e in found if isinstance(e, Replied)] == ["Above"]
    end = found[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reply) == ("ok", "Above")


def test_sessions_of_others_are_not_shown() -> None:
    """Another client of the same server, or an old session."""
    dialogue = begun()
    other = "ses_9"
    idle = event("session.idle", sessionID=other)
    error = event("session.error", sessionID=other, error={"name": "X"})
    assert read(dialogue, delta("x", session=other), message("assistant", "o", other), error, idle) == []
    assert not dialogue.over


def test_noise_is_no_news() -> None:
    """Kinds that the server lists are control events; others are unknown."""
    dialogue = begun()
    assert read(dialogue, event("server.heartbeat"), event("plugin.added"), event("file.edited"), part("patch")) == []
    assert read(dialogue, event("news.of.tomorrow"), part("hologram")) == [
        up.Unknown("news.of.tomorrow"),
        up.Unknown("part hologram"),
    ]


# --- questions -------------------------------------------------------------------------------------

ASKED = event(
    "permission.asked", id="per_1", permission="bash", patterns=["echo *"], metadata={"command": "echo hi"}, always=[]
)
EARLY = event(
    "permission.asked", id="per_3", permission="bash", metadata={"command": "make"}, always=[], tool={"callID": "c"}
)
PERMISSION = [
    ev.Option("once", "Allow once", "allow_once"),
    ev.Option("all", "Allow always", "allow_always", wide=True),
    ev.Option("reject", "Reject", "reject_once"),
]
BASH = up.Question("per_1", "bash: echo hi", "command", PERMISSION, True, True, tool_kind="execute", title="echo hi")


@pytest.mark.parametrize(
    ("option", "reply", "words"),
    [("once", "once", False), ("all", "always", False), ("reject", "reject", True), (None, "reject", True)],
)
def test_a_permission_is_answered(option: str | None, reply: str, words: bool) -> None:
    """A refusal has words, so that the turn goes on. That it is answered is told when the server says so."""
    dialogue = begun()
    assert read(dialogue, ASKED) == [BASH]
    answer = up.Answer("per_1", "person", option)
    assert dialogue.answer(answer) == ()
    ((method, path, body),) = said(dialogue)
    assert (method, path, body["reply"], "message" in body) == ("POST", "/permission/per_1/reply", reply, words)
    replied = event("permission.replied", requestID="per_1", reply=reply)
    assert read(dialogue, replied) == [answer]
    with pytest.raises(KeyError):
        dialogue.answer(answer)


def test_the_question_for_a_command_has_the_input_of_its_call() -> None:
    """It may come first: then it is asked after its call, whose directory is a part of what "always" covers."""
    actions = []
    for workdir in ({}, {"workdir": "/d/other"}):
        dialogue = begun()
        assert read(dialogue, EARLY) == []
        call = part(
            "tool", tool="bash", callID="c", state={"status": "running", "input": {"command": "make", **workdir}}
        )
        [called, asked] = read(dialogue, call)
        assert isinstance(called, up.ToolCall)
        assert isinstance(asked, up.Question)
        assert (asked.command, asked.command_cwd) == ("make", workdir.get("workdir"))
        actions.append(asked.action)
    assert None not in actions
    assert actions[0] != actions[1]


@pytest.mark.parametrize("after", [event("server.heartbeat"), event("session.idle")])
def test_a_question_without_the_input_of_its_call_is_asked_all_the_same(after: Any) -> None:
    """The next event of another kind ends the wait. No rule and no "always" covers such a command."""
    dialogue = begun()
    assert read(dialogue, EARLY) == []
    asked = read(dialogue, after)[0]
    assert isinstance(asked, up.Question)
    assert (asked.blocking, asked.command, asked.action) == (True, None, None)
    dialogue.answer(up.Answer(asked.id, "person", "once"))
    assert [body["reply"] for _, _, body in said(dialogue)] == ["once"]


@pytest.mark.parametrize(
    ("said_by_the_server", "answer"),
    [
        ({"reply": "once"}, up.Answer("per_1", "person", "once")),
        ({"reply": "always"}, up.Answer("per_1", "allow", "all")),
        ({"reply": "reject"}, up.Answer("per_1", "withdrawn")),
        ({"answers": [["a", "b"], ["c"]]}, up.Answer("per_1", "person", text="a, b\nc")),
        ({}, up.Answer("per_1", "withdrawn")),
    ],
)
def test_a_question_that_somebody_else_answered(said_by_the_server: dict[str, Any], answer: up.Answer) -> None:
    """What is always allowed answers the questions that wait as well; a rejected turn takes them back."""
    dialogue = begun()
    read(dialogue, ASKED)
    assert read(dialogue, event("permission.replied", requestID="per_1", **said_by_the_server)) == [answer]


@pytest.mark.parametrize(
    ("given", "command", "cwd"),
    [
        ({"command": "echo hi"}, "echo hi", None),
        ({"command": "echo hi", "workdir": "sub"}, "echo hi", "sub"),
        ({"command": "rm x"}, None, None),
        ({}, None, None),
    ],
)
def test_the_command_of_a_permission(given: dict[str, Any], command: str | None, cwd: str | None) -> None:
    """Only a permission whose call has the same command names it for rules, with the directory of the call."""
    running = {"status": "running", "input": given}
    asked = event(
        "permission.asked", id="per_1", permission="bash", metadata={"command": "echo hi"}, tool={"callID": "c"}
    )
    *_, question = read(begun(), part("tool", tool="bash", callID="c", state=running), asked)
    assert isinstance(question, up.Question)
    assert (question.command, question.command_cwd) == (command, cwd)


def test_other_words_refuse() -> None:
    """The model reads them."""
    dialogue = begun()
    read(dialogue, ASKED)
    dialogue.answer(up.Answer("per_1", "person", text="use ls instead"))
    assert said(dialogue)[0][2] == {"reply": "reject", "message": "use ls instead"}


def test_edits_are_allowed_at_once_where_they_are() -> None:
    """And nothing else is."""
    dialogue = begun(allow="edits", stays_inside=partial(stays_inside, "/d"))
    edit = event(
        "permission.asked", id="per_2", permission="edit", patterns=["n.txt"], metadata={"filepath": "/d/n.txt"}
    )
    assert read(dialogue, edit, ASKED) == [
        up.Question("per_2", "edit: /d/n.txt", "edit", PERMISSION, False, True, tool_kind="edit", title="/d/n.txt"),
        BASH,
    ]
    assert said(dialogue) == [("POST", "/permission/per_2/reply", {"reply": "once"})]


@pytest.mark.parametrize(
    "about",
    [{"filepath": "/e/n.txt"}, {"filepath": "../n.txt"}, {}, {"files": [{"filePath": "/d/a"}, {"filePath": "/e/b"}]},
     {"filepath": "/d/a", "files": [{"filePath": "/d/a", "movePath": "/e/a"}]}],
)  # fmt: skip
def test_edits_elsewhere_are_asked_about(about: dict[str, Any]) -> None:
    """One file outside of the directory is enough, and a change without a file is not known to be inside."""
    dialogue = begun(allow="edits", stays_inside=partial(stays_inside, "/d"))
    [asked] = read(dialogue, event("permission.asked", id="per_2", permission="edit", metadata=about))
    assert isinstance(asked, up.Question)
    assert asked.blocking
    assert said(dialogue) == []


def rule(permission: str, action: str, pattern: str = "*") -> dict[str, str]:
    """A rule of opencode's."""
    return {"permission": permission, "pattern": pattern, "action": action}


OURS = [rule("*", "ask"), rule("read", "allow"), rule("bash", "ask"), rule("edit", "ask")]


@pytest.mark.parametrize("allow", ["read", "ask", "edits"])
@pytest.mark.parametrize(
    ("rules", "free"),
    [
        ([rule("*", "allow"), *OURS], ""),
        ([*OURS, rule("external_directory", "allow", "/data/*")], ""),
        ([*OURS, rule("bash", "allow")], "bash"),
        ([*OURS, rule("bash", "allow", "git *")], "bash"),
        ([*OURS, rule("ed*", "allow", "*.md")], "ed*"),
        ([*OURS, rule("*", "allow")], "*"),
        ([rule("bash", "allow")], "bash"),
    ],
)
def test_an_agent_that_is_free_does_not_keep_a_level(allow: Any, rules: list[Any], free: str) -> None:
    """Rules of one agent follow ours, and the last one decides: then nothing is asked of the model."""
    dialogue = OpenCodeServer(Request(prompt="hi", allow=allow))
    dialogue.take()
    read(dialogue, SESSION)
    assert [path for _, path, _ in said(dialogue)] == ["/agent"]
    agents = [{"name": "plan", "permission": OURS}, {"name": "build", "permission": rules}]
    updates = read(dialogue, {"id": AGENTS, "status": 200, "body": agents})
    if not free:
        assert updates == []
        assert [path.rpartition("/")[2] for _, path, _ in said(dialogue)] == ["prompt_async"]
        return
    [end] = updates
    assert isinstance(end, up.Result)
    assert f"allows `{free}` to its agent 'build' without asking" in (end.reason or "")
    assert said(dialogue) == []
    assert dialogue.over


@pytest.mark.parametrize("body", [[], None, {"error": "x"}, "text"])
def test_agents_that_are_not_known_keep_no_level(body: Any) -> None:
    """An answer without agents is no sign that they ask."""
    dialogue = OpenCodeServer(Request(prompt="hi", allow="ask"))
    read(dialogue, SESSION)
    [end] = read(dialogue, {"id": AGENTS, "status": 200, "body": body})
    assert isinstance(end, up.Result)
    assert end.is_error


def test_the_variable_of_a_level() -> None:
    """What acts is asked about or denied; where the configuration decides there is no variable."""
    for allow in ("own", "all"):
        assert registry.command("opencode", "server", Request(prompt="hi", allow=allow)).env == {}
    acting: dict[Level, str] = {"read": "deny", "ask": "ask", "edits": "ask"}
    for allow, acts in acting.items():
        text = registry.command("opencode", "server", Request(prompt="hi", allow=allow)).env["OPENCODE_PERMISSION"]
        permission = json.loads(text)
        assert {permission[name] for name in ("*", "bash", "edit", "webfetch")} == {acts}
        assert permission["read"]["*"] == "allow"
        assert permission["read"]["*.env"] == "ask"


def test_questions_of_the_model() -> None:
    """One has its options; several are answered by a line each; a permission that is given or not answers none."""
    red = {"question": "Which?", "header": "C", "options": [{"label": "Red", "description": ""}, {"label": "Blue"}]}
    colours = [ev.Option("Red", "Red", "choice"), ev.Option("Blue", "Blue", "choice")]
    dialogue = begun()
    assert read(dialogue, event("question.asked", id="que_1", questions=[red])) == [
        up.Question("que_1", "Which?", "choice", colours, True, True)
    ]
    blue = up.Answer("que_1", "person", "Blue")
    dialogue.answer(blue)
    replied = event("question.replied", requestID="que_1", answers=[["Blue"]])
    assert read(dialogue, replied) == [blue]
    read(dialogue, event("question.asked", id="que_2", questions=[red, {"question": "Why?"}, {"question": "When?"}]))
    dialogue.answer(up.Answer("que_2", "person", text="Red\nso"))
    read(dialogue, event("question.asked", id="que_3", questions=[red]))
    dialogue.answer(up.Answer("que_3", "nobody"))
    assert said(dialogue) == [
        ("POST", "/question/que_1/reply", {"answers": [["Blue"]]}),
        ("POST", "/question/que_2/reply", {"answers": [["Red"], ["so"], []]}),
        ("POST", "/question/que_3/reject", {}),
    ]


# --- cancel ----------------------------------------------------------------------------------------


def test_cancel_aborts_once_the_turn_goes_on() -> None:
    """Before there is a session, there is nothing to cancel; before the turn, the abort waits for it."""
    dialogue = OpenCodeServer(Request(prompt="hi"))
    assert not dialogue.cancel()
    read(dialogue, SESSION)
    dialogue.take()
    assert dialogue.cancel()
    assert said(dialogue) == []
    read(dialogue, BUSY, BUSY)
    assert dialogue.cancel()
    assert said(dialogue) == [("POST", f"/session/{S}/abort", {})]
    read(dialogue, message("assistant"))
    assert read(dialogue, event("session.error", error={"name": "MessageAbortedError"}), IDLE) == [
        up.Result(cancelled=True)
    ]
    assert not is_over(dialogue)
    read(dialogue, IDLE)
    assert is_over(dialogue)
    assert not dialogue.cancel()


def test_cancel_gives_up_what_waits() -> None:
    """Nobody can answer any more."""
    dialogue = begun()
    read(dialogue, ASKED)
    assert dialogue.cancel()
    with pytest.raises(KeyError):
        dialogue.answer(up.Answer("per_1", "person", "once"))


# --- the command, and what must never happen -------------------------------------------------------


def test_the_command_is_the_bridge() -> None:
    """Nothing of the request is in it but extra arguments."""
    command = OpenCodeServer.command(Request(prompt="secret", model="a/b/c", args=("--print-logs",)))
    at = command.argv.index("--")
    assert command.argv[1:at] == ("-P", "-m", "penstock.run.http_bridge", "serve", "/event")
    assert command.argv[at + 1 :] == ("opencode", "serve", "--port=0", "--hostname=127.0.0.1", "--print-logs")
    assert command.stdin == b""
    assert command.argv[command.program] == "opencode"


def test_a_model_has_a_provider() -> None:
    """What follows the first slash is the model."""
    with pytest.raises(UsageError, match="provider"):
        OpenCodeServer.command(Request(prompt="hi", model="sonnet"))
    dialogue = OpenCodeServer(Request(prompt="hi", model="a/b/c"))
    read(dialogue, SESSION)
    assert said(dialogue)[1][2]["model"] == {"providerID": "a", "modelID": "b/c"}


def test_the_plain_route_says_the_same() -> None:
    """Blocks, calls, titles and reply of the recordings that both routes have."""
    for case in ("text", "tools", "thinktools"):
        told = []
        for agent, folder in (("opencode", "opencode"), ("opencode/server", "opencode-server")):
            data = (RECORDINGS / folder / case / "input.ndjson").read_bytes()
            found = feeds.whole(Stream(agent), data)
            texts = {e.block: e.text for e in found if isinstance(e, BlockEnded)}
            blocks = [
                (e.kind, texts[e.block])
                for e in found
                if isinstance(e, BlockStarted) and e.kind in ("text", "thinking")
            ]
            calls = [(e.name, e.input, e.title, e.tool_kind) for e in found if isinstance(e, ToolCalled)]
            end = found[-1]
            assert isinstance(end, RunEnded)
            told.append((blocks, calls, end.reply, end.outcome, end.rounds))
        assert told[0] == told[1], case


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(sorted(OpenCodeServer()._handlers))
FIELDS = st.sampled_from(
    ["sessionID", "messageID", "partID", "field", "delta", "part", "info", "status", "error", "id", "permission"]
) | st.sampled_from(["patterns", "metadata", "questions", "answers", "requestID", "reply"])
VALUES = (
    JSON
    | st.sampled_from([S, "m", "p", "text"])
    | st.dictionaries(
        st.sampled_from(
            ["id", "type", "role", "sessionID", "messageID", "text", "time", "state", "tool", "callID", "parentID"]
        ),
        JSON | st.sampled_from([S, "m", "p", "text", "tool", "step-start", "step-finish", "assistant"]),
    )
)


@given(st.lists(st.tuples(KINDS, st.dictionaries(FIELDS, VALUES)), max_size=6), JSON)
def test_no_value_raises(told: list[tuple[str, dict[str, Any]]], other: Any) -> None:
    """Whatever stands where text, objects or ids should."""
    dialogue = begun()
    for kind, fields in told:
        dialogue.read({"event": {"id": "evt_1", "type": kind, "properties": {"sessionID": S, **fields}}})
    for line in (other, {"event": other}, {"id": other, "status": other, "body": other}):
        dialogue.read(line)


def test_a_retry_has_its_number_and_the_time_until_it() -> None:
    """The id of an event holds its time, from which the wait counts."""
    lines = (RECORDINGS / "opencode-server" / "err500" / "input.ndjson").read_bytes()
    notices = [event for event in feeds.whole(Stream("opencode/server"), lines) if isinstance(event, ev.Notice)]
    found = [(notice.attempt or 0, notice.wait_ms or 0) for notice in notices if notice.code == "retry"]
    # opencode waits for 2, 4, 8, 16 seconds, and up to a quarter more.
    assert [(attempt, int(wait // (2000 << attempt - 1))) for attempt, wait in found] == [(n, 1) for n in (1, 2, 3, 4)]
    assert found[0] == (1, 2128)


@pytest.mark.parametrize("reason", ["account_rate_limit", "free_tier_limit"])
def test_a_quota_that_is_used_up_resets_at_the_next_attempt(reason: str) -> None:
    """If the run ends before that, it has failed of the quota."""
    dialogue = begun()
    status = {"type": "retry", "attempt": 1, "message": "wait", "next": 1795211347077, "action": {"reason": reason}}
    [notice] = read(dialogue, event("session.status", status=status))
    assert isinstance(notice, up.Notice)
    assert (notice.cause, notice.resets_at, notice.wait_ms) == ("usage_limit", 1795211347077, None)
    assert read(dialogue, IDLE) == [
        up.Result(is_error=True, reason="wait", cause="usage_limit", resets_at=1795211347077)
    ]


@pytest.mark.parametrize(
    ("message", "text", "cause"),
    [
        ("Provider is overloaded", "Provider is overloaded", "overloaded"),
        ('{"message":"The server broke.","type":"server_error"}', "The server broke.", "provider"),
        ("busy", "busy", None),
        (None, "the model call failed", None),
    ],
)
def test_the_cause_of_a_retry(message: Any, text: str, cause: str | None) -> None:
    """It is in opencode's own sentence, or in the provider's JSON."""
    [notice] = read(begun(), event("session.status", status={"type": "retry", "message": message, "next": "x"}))
    assert isinstance(notice, up.Notice)
    assert (notice.text, notice.cause, notice.wait_ms) == (text, cause, None)


def test_a_recorded_edit_leads_to_the_file_after() -> None:
    """The question, the call and its result have the same change of a new file."""
    lines = (RECORDINGS / "opencode-server" / "permission_allow" / "input.ndjson").read_bytes()
    shown = [
        found.changes
        for found in feeds.whole(Stream("opencode/server"), lines)
        if isinstance(found, ev.QuestionAsked | ToolCalled | ToolReturned) and found.changes
    ]
    diff = "@@ -0,0 +1,2 @@\n+line one\n+line two — ünï\n"
    path = "/tmp/demo/notes.txt"
    assert shown == [
        [ev.Change(path, "add", added=2, diff=diff)],  # whether the file exists is not known yet
        [ev.Change(path, "add", added=2, removed=0, diff=diff)],
        [ev.Change(path, "add", added=2, removed=0, diff=diff)],
    ]


@pytest.mark.parametrize(("option", "refused"), [("once", 0), ("reject", 1)])
def test_actions_that_were_denied_are_counted(option: str, refused: int) -> None:
    """A denial is counted once, though the failed call reports it too."""
    dialogue = begun()
    stream = Stream(dialogue)
    asked = {"id": "per", "permission": "bash", "patterns": ["ls"], "tool": {"callID": "c", "messageID": "m"}}
    denied = {"status": "error", "input": {}, "error": "The user rejected permission to use this specific tool call."}
    events = stream.feed(json.dumps(event("permission.asked", **asked)).encode() + b"\n")
    dialogue.answer(up.Answer("per", "person", option))
    after = [event("permission.replied", requestID="per", reply=option)]
    after += [part("tool", tool="bash", callID="c", state=denied)] if refused else []
    events += stream.feed(b"".join(json.dumps(line).encode() + b"\n" for line in (*after, IDLE)))
    last = (events + stream.close())[-1]
    assert isinstance(last, RunEnded)
    assert last.refused == refused
