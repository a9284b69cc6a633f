from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock import updates as up
from penstock.adapter import Dialogue, Level, Request, Startable, not_taken
from penstock.agents import registry
from penstock.agents.codex.server import NO_SUCH_METHOD, ON_FAILURE, CodexServer
from penstock.core.questions import allowed, ordered, resolve
from penstock.errors import UsageError
from penstock.events import (
    BlockEnded,
    Delta,
    Event,
    Option,
    PlanItem,
    QuestionAsked,
    RunEnded,
    ToolCalled,
    ToolReturned,
)
from penstock.stream import Stream
from penstock.testing import check_adapter, feeds, verify

RECORDINGS = Path(__file__).parents[1] / "recordings"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = [
    "thread/started", "turn/started", "turn/completed", "turn/plan/updated", "item/started", "item/completed",
    "item/agentMessage/delta", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta",
    "item/commandExecution/outputDelta", "thread/tokenUsage/updated", "error", "warning", "configWarning",
    "model/rerouted", "serverRequest/resolved", "mcpServer/startupStatus/updated", "item/plan/delta",
    "account/rateLimits/updated",
    "item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval",
    "item/tool/requestUserInput", "mcpServer/elicitation/request", "no/such",
]  # fmt: skip
KINDS = [
    "userMessage", "agentMessage", "reasoning", "plan", "commandExecution", "fileChange", "mcpToolCall",
    "dynamicToolCall", "collabAgentToolCall", "webSearch", "imageView", "contextCompaction", "subAgentActivity",
    "hookPrompt", "sleep", "functionCallOutput", "imageGeneration", "enteredReviewMode", "exitedReviewMode", "hologram",
]  # fmt: skip
FIELDS = [
    "threadId", "turnId", "itemId", "item", "turn", "thread", "id", "delta", "summaryIndex", "contentIndex", "error",
    "willRetry", "message", "plan", "tokenUsage", "requestId", "questions", "permissions", "availableDecisions",
    "requestedSchema", "changes", "command", "reason", "status", "type", "rateLimits",
]  # fmt: skip


def lines_of(case: str) -> list[bytes]:
    """What the server said in a recording."""
    return (RECORDINGS / "codex-server" / case / "input.ndjson").read_bytes().splitlines(keepends=True)


def spoken(dialogue: CodexServer) -> list[dict[str, Any]]:
    """What the dialogue has to say now."""
    return [json.loads(line) for line in dialogue.take().splitlines()]


def method_of(message: dict[str, Any]) -> tuple[Any, Any]:
    """What tells a line of ours apart: its method, and its id."""
    return message.get("method"), message.get("id")


class Played:
    """A recording played to a dialogue, and everything it says meanwhile."""

    def __init__(self, case: str, *, allow_all: bool = False, cancel_after: bytes | None = None, **asked: Any) -> None:
        self.dialogue = CodexServer(Request(prompt=f"scenario={case}", **asked))
        self.said = spoken(self.dialogue)
        stream = Stream(self.dialogue)
        self.events: list[Event] = []
        for line in lines_of(case):
            if cancel_after is not None and cancel_after in line:
                assert self.dialogue.cancel()
            found = stream.feed(line)
            for event in found:
                if allow_all and isinstance(event, QuestionAsked):
                    found = [*found, *stream.apply(self.dialogue.answer(allowed(event)))]
            self.events += found
            self.said += spoken(self.dialogue)
        self.events += stream.close()

    @property
    def end(self) -> RunEnded:
        """The last event."""
        last = self.events[-1]
        assert isinstance(last, RunEnded)
        return last


def dialogue_in_turn(**asked: Any) -> CodexServer:
    """A dialogue whose turn `u` runs in thread `t`, with nothing left to say."""
    dialogue = CodexServer(Request(prompt="do it", **asked))
    dialogue.read({"id": 0, "result": {"userAgent": "x/1"}})
    dialogue.read({"id": 1, "result": {"thread": {"id": "t"}, "model": "m"}})
    dialogue.read({"id": 2, "result": {"turn": {"id": "u", "status": "inProgress"}}})
    dialogue.take()
    return dialogue


def told(dialogue: CodexServer, method: str, **params: Any) -> list[up.Update]:
    """The updates of one notification of our thread."""
    return list(dialogue.read({"method": method, "params": {"threadId": "t", "turnId": "u", **params}}))


def item(dialogue: CodexServer, event: str, kind: str, *, thread: str = "t", **fields: Any) -> list[up.Update]:
    """The updates of one item."""
    return told(dialogue, f"item/{event}", item={"type": kind, "id": "i", **fields}, threadId=thread)


# --- what we say ---------------------------------------------------------------------------------------


def test_it_is_what_the_runner_expects() -> None:
    """It can be started, and talked with."""
    assert issubclass(CodexServer, Startable)
    assert isinstance(CodexServer(), Dialogue)
    command = CodexServer.command(Request(prompt="--help", args=("-c", "x=1")))
    assert (command.argv, command.stdin) == (("codex", "app-server", "-c", "x=1"), b"")


def test_what_codex_has_not_is_refused_before_it_starts() -> None:
    """A profile, and a prompt that no encoding has."""
    with pytest.raises(UsageError, match="profile"):
        registry.command("codex", "server", Request(prompt="x", profile="glm"))
    for make in (CodexServer.command, CodexServer):
        with pytest.raises(UsageError, match="half a character"):
            make(Request(prompt="\ud83d"))


@pytest.mark.parametrize(
    ("case", "asked"),
    [
        ("text", {}),
        ("tools", {}),
        ("approval_allow", {"allow_all": True}),
        ("interrupt", {"cancel_after": b'"tick 29 "'}),
        ("resume", {"session_id": "01a1faec-de24-7d91-937e-3baf2940b359", "allow": "all"}),
        ("err500", {}),
    ],
)
def test_the_lines_we_write_are_those_of_a_client_that_works(case: str, asked: dict[str, Any]) -> None:
    """Methods and ids, in order, are those that a hand-written client sent to the real server when it was recorded."""
    thread = "thread/resume" if case == "resume" else "thread/start"
    later: dict[str, list[tuple[Any, Any]]] = {
        "approval_allow": [(None, 0), (None, 1)],
        "interrupt": [("turn/interrupt", 3)],
    }
    opened = [("initialize", 0), ("initialized", None), (thread, 1), ("turn/start", 2)]
    expected = [*opened, ("skills/list", "penstock-skills"), *later.get(case, [])]  # the list is of no such client
    played = Played(case, **asked)
    assert [method_of(message) for message in played.said] == expected
    assert played.dialogue.over
    assert verify(played.events) == []


def test_the_turn_is_asked_for_in_our_thread_with_the_whole_prompt() -> None:
    """The prompt goes as it is; bytes that were no UTF-8 are replaced, since JSON has none."""
    dialogue = CodexServer(Request(prompt="-- 'hi'\n\udcff ünï"))
    dialogue.read({"id": 0, "result": {}})
    dialogue.read({"id": 1, "result": {"thread": {"id": "t"}}})
    turn = spoken(dialogue)[-1]
    assert turn["params"]["threadId"] == "t"
    assert turn["params"]["input"] == [{"type": "text", "text": "-- 'hi'\n\ufffd ünï", "text_elements": []}]


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ("own", {}),
        ("read", {"sandbox": "read-only", "approvalPolicy": "never"}),
        ("ask", {"sandbox": "read-only", "approvalPolicy": ON_FAILURE}),
        ("edits", {"sandbox": "workspace-write", "approvalPolicy": "on-request"}),
        ("all", {"sandbox": "danger-full-access", "approvalPolicy": "never"}),
    ],
)
def test_what_it_may_do(allow: Level, expected: dict[str, str]) -> None:
    """At `own` nothing is set, and the user's or codex's own settings hold."""
    dialogue = CodexServer(Request(prompt="x", allow=allow, model="m"))
    dialogue.read({"id": 0, "result": {}})
    thread = spoken(dialogue)[-1]
    # With a directory, codex would note in the user's settings that it is trusted.
    assert thread["params"] == {"model": "m", **expected}


UNUSED = {"id": "unused", "ephemeral": True, "model": "m"}
"""Thread that is begun to learn what the user's settings permit."""


@pytest.mark.parametrize(("fork", "method"), [(False, "thread/resume"), (True, "thread/fork")])
@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ("own", {"sandbox": "workspace-write", "approvalPolicy": "untrusted"}),
        ("ask", {"sandbox": "read-only", "approvalPolicy": ON_FAILURE}),
        ("edits", {"sandbox": "workspace-write", "approvalPolicy": "on-request"}),
        ("all", {"sandbox": "danger-full-access", "approvalPolicy": "never"}),
    ],
)
def test_a_conversation_goes_on_with_the_permissions_of_its_new_run(
    fork: bool, method: str, allow: Level, expected: dict[str, str]
) -> None:
    """Else codex would go on with those of the run before. The history is not asked for: it would come in one line."""
    dialogue = CodexServer(Request(prompt="x", session_id="s", fork=fork, allow=allow))
    dialogue.read({"id": 0, "result": {}})
    number = 1
    if allow == "own":
        assert spoken(dialogue)[-1]["method"] == "config/read"
        assert dialogue.read({"id": 1, "result": {"config": {"mcp_servers": {"slow": {"command": "x"}}}}}) == ()
        [unused] = spoken(dialogue)
        assert (unused["method"], unused["params"]) == (
            "thread/start",
            {"ephemeral": True, "config": {"mcp_servers": {"slow": {"enabled": False}}}},
        )
        assert told(dialogue, "thread/started", thread=UNUSED) == []
        settings = {"sandbox": {"type": "workspaceWrite"}, "approvalPolicy": "untrusted"}
        assert dialogue.read({"id": 2, "result": {"thread": UNUSED, **settings}}) == ()
        number = 3
    thread = spoken(dialogue)[-1]
    assert thread["method"] == method
    assert thread["params"] == {"threadId": "s", "excludeTurns": True, "cwd": ".", **expected}
    [start] = dialogue.read({"id": number, "result": {"thread": {"id": "new"}}})
    assert start == up.RunStart(session_id="new")
    assert [message["method"] for message in spoken(dialogue)] == ["turn/start"]


@pytest.mark.parametrize("session", [None, "s"])
def test_an_older_codex_asks_only_if_the_model_wants_it(session: str | None) -> None:
    """It rejects the policy that asks after a failure; the thread is begun with the other one. Twice is an error."""
    dialogue = CodexServer(Request(prompt="x", session_id=session, allow="ask"))
    [first] = spoken(dialogue)
    assert first["params"]["capabilities"] == {"experimentalApi": True}
    dialogue.read({"id": 0, "result": {}})
    spoken(dialogue)
    reason = "Invalid request: unknown variant `granular`, expected one of `untrusted`"
    error = {"code": -32600, "message": reason}
    assert dialogue.read({"id": 1, "error": error}) == ()
    [again] = spoken(dialogue)
    assert (again["params"]["sandbox"], again["params"]["approvalPolicy"]) == ("read-only", "on-request")
    assert dialogue.read({"id": 2, "error": error}) == (up.Result(is_error=True, reason=reason),)


def test_settings_that_cannot_be_read_permit_to_read_only() -> None:
    """An older codex has no such request; an unknown sandbox is none that we could ask for."""
    dialogue = CodexServer(Request(prompt="x", session_id="s"))
    dialogue.read({"id": 0, "result": {}})
    dialogue.read({"id": 1, "error": {"code": -32601, "message": "unknown"}})
    dialogue.read({"id": 2, "result": {"thread": UNUSED, "sandbox": {"type": "externalSandbox"}}})
    params = spoken(dialogue)[-1]["params"]
    assert (params["sandbox"], params["approvalPolicy"]) == ("read-only", "on-request")


def test_a_thread_that_nobody_keeps_is_ours_if_a_turn_begins_in_it() -> None:
    """As in the recording of another client: its facts come with the turn, and another thread can still be ours."""
    dialogue = CodexServer()
    assert told(dialogue, "thread/started", thread=UNUSED) == []
    assert told(dialogue, "turn/started", threadId="unused", turn={"id": "u"}) == [up.RunStart("unused", "m")]
    dialogue = CodexServer()
    assert told(dialogue, "thread/started", thread=UNUSED) == []
    assert told(dialogue, "thread/started", thread={"id": "kept"}) == [up.RunStart("kept")]
    assert told(dialogue, "turn/started", threadId="kept", turn={"id": "u"}) == []


def test_a_recording_is_read_in_silence() -> None:
    """Without a request there is nothing to say, whatever is asked."""
    dialogue = CodexServer()
    for case in ("approval_allow", "interrupt"):
        for line in lines_of(case):
            dialogue.read(json.loads(line))
    dialogue.read({"method": "no/such", "id": 7})
    assert dialogue.take() == b""
    assert not CodexServer().cancel()


# --- what it says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["text", "tools", "thinktools"])
def test_the_same_work_says_the_same_as_exec(case: str) -> None:
    """Blocks, calls, titles, results and reply are those of `codex exec --json`."""

    def said(agent: str, folder: str) -> list[Any]:
        events = feeds.whole(Stream(agent), (RECORDINGS / folder / case / "input.ndjson").read_bytes())
        blocks = [(e.kind, e.text) for e in events if isinstance(e, BlockEnded) and e.kind in ("text", "thinking")]
        calls = [(e.name, e.input, e.title, e.tool_kind) for e in events if isinstance(e, ToolCalled)]
        returns = [(e.name, e.text, e.is_error, e.exit_code) for e in events if isinstance(e, ToolReturned)]
        end = events[-1]
        assert isinstance(end, RunEnded)
        return [blocks, calls, returns, end.reply, end.outcome, end.rounds, end.usage]

    assert said("codex/server", "codex-server") == said("codex", "codex")


def test_text_comes_while_the_model_writes() -> None:
    """Deltas come before the item is done; exec has none until then."""
    deltas = [event for event in Played("text").events if isinstance(event, Delta)]
    assert len(deltas) > 50


def test_interrupting_leaves_what_was_said() -> None:
    """The item that was being written is never completed: the deltas are its text, and it is no whole one."""
    played = Played("interrupt", cancel_after=b'"tick 29 "')
    assert played.said[-1]["params"] == {
        "threadId": "01a1faec-4081-7973-abe0-44d79747e292",
        "turnId": "01a1faec-40a4-76c0-a68c-15631813bb34",
    }
    [block] = [event for event in played.events if isinstance(event, BlockEnded)]
    assert (block.complete, block.text.endswith("tick 29 ")) == (False, True)
    assert played.end.outcome == "cancelled"


def test_a_cancel_before_the_turn_is_known_is_sent_once_it_is() -> None:
    """Before there is a thread nothing can be cancelled; then the turn's id is waited for."""
    dialogue = CodexServer(Request(prompt="x"))
    assert not dialogue.cancel()
    dialogue.read({"id": 0, "result": {}})
    dialogue.read({"id": 1, "result": {"thread": {"id": "t"}}})
    dialogue.take()
    assert dialogue.cancel()
    assert spoken(dialogue) == []
    dialogue.read({"id": 2, "result": {"turn": {"id": "u"}}})
    told(dialogue, "turn/started", turn={"id": "u"})
    assert dialogue.cancel()
    assert [message["method"] for message in spoken(dialogue)] == ["turn/interrupt"]
    assert dialogue.read({"id": 3, "error": {"code": -32600, "message": "no active turn"}}) == ()
    assert list(told(dialogue, "turn/completed", turn={"id": "u", "status": "interrupted"}))[-1] == up.Result(
        session_id="t", cancelled=True
    )
    assert not dialogue.cancel()


def test_an_error_ends_the_run_with_its_reason() -> None:
    """The retry is only a notice; `turn/completed` with status failed is the end."""
    end = Played("err500").end
    assert (end.outcome, end.reason) == (
        "error", "We’re currently experiencing high demand, which may cause temporary errors.",
    )  # fmt: skip


@pytest.mark.parametrize(("case", "cause"), [("err500", "provider"), ("unknown_session", None), ("tools", None)])
def test_the_cause_of_each_recorded_failure(case: str, cause: str | None) -> None:
    """It is that of the last error; a run that went well has none."""
    assert Played(case, allow="all", session_id="s" if case == "unknown_session" else None).end.cause == cause


@pytest.mark.parametrize("case", ["tools", "approval_allow"])
def test_a_recorded_edit_leads_to_the_file_after(case: str) -> None:
    """The file is new, so that its lines are the lines added; the question before it shows the same."""
    events = Played(case, allow_all=True).events
    shown = [event.changes for event in events if isinstance(event, QuestionAsked | ToolCalled | ToolReturned)]
    found = [changes for changes in shown if changes is not None]
    diff = "@@ -0,0 +1,2 @@\n+line one\n+line two — ünï\n"
    assert found == [[ev.Change("/tmp/demo/notes.txt", "add", added=2, diff=diff)]] * (3 if "approval" in case else 2)


@pytest.mark.parametrize(("option", "refused"), [("accept", 0), ("decline", 1)])
def test_actions_that_were_denied_are_counted(option: str, refused: int) -> None:
    """The server asks for everything, so that no denial is known to be none."""
    dialogue = dialogue_in_turn()
    stream = Stream(dialogue)
    request = {"id": 7, "method": COMMAND, "params": {"threadId": "t", "itemId": "i", "command": "ls"}}
    events = stream.feed(json.dumps(request).encode() + b"\n")
    events += stream.apply(dialogue.answer(up.Answer("7", "person", option)))
    done = {"threadId": "t", "turn": {"id": "u", "status": "completed"}}
    events += stream.feed(json.dumps({"method": "turn/completed", "params": done}).encode() + b"\n")
    last = (events + stream.close())[-1]
    assert isinstance(last, RunEnded)
    assert last.refused == refused


def test_a_conversation_that_is_not_there_ends_the_run() -> None:
    """The refusal of the thread is the end: there will be no turn."""
    played = Played("unknown_session", session_id="01a1faec-de24-7d91-937e-3baf2940b350", allow="all")
    assert played.dialogue.over
    assert (played.end.outcome, played.end.reason) == (
        "error", "no rollout found for thread id 01a1faec-de24-7d91-937e-3baf2940b350",
    )  # fmt: skip


def test_a_resumed_conversation_counts_its_own_turn_alone() -> None:
    """The figures of the turn before are told again on resuming, under its id."""
    usage = Played("resume", session_id="s", allow="all").end.usage
    assert usage == up.Usage(1000, 11, 50, 0, 3)


def test_a_retry_takes_back_what_the_broken_attempt_said() -> None:
    """The text comes again under a new id. A message of a model call that is over stays."""
    dialogue = dialogue_in_turn()
    told(dialogue, "item/agentMessage/delta", itemId="a", delta="Half")
    error = {"message": "Reconnecting... 1/1", "additionalDetails": "gone"}
    assert told(dialogue, "error", error=error, willRetry=True) == [
        up.MessageEnd(status="superseded"),
        up.Notice("retry", "gone", "warning", attempt=1, max_attempts=1),
    ]
    assert told(dialogue, "error", error={"message": "over"}, willRetry=False) == [up.Notice("error", "over", "error")]
    item(dialogue, "completed", "agentMessage", text="Whole.")
    call = {"inputTokens": 3, "outputTokens": 1}
    assert told(dialogue, "thread/tokenUsage/updated", tokenUsage={"last": call, "total": call}) == [
        up.MessageEnd(),
        up.ModelUsage(up.Usage(3, 1), whole=True),
        up.RoundEnd(),
    ]
    assert told(dialogue, "thread/tokenUsage/updated", tokenUsage={"last": call, "total": call}) == []


@pytest.mark.parametrize(
    ("info", "message", "cause"),
    [
        ("usageLimitExceeded", "x", "usage_limit"),
        ("unauthorized", "x", "auth"),
        ("contextWindowExceeded", "x", "context"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "x", "auth"),
        ({"httpConnectionFailed": {"httpStatusCode": 400}}, "x", None),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "x", "network"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "x", "rate_limit"),
        ({"responseStreamDisconnected": {}}, "Selected model is at capacity. Wait.", "overloaded"),
        ("other", "unexpected status 403 Forbidden: x", "auth"),
        ("badRequest", "x", None),
        (None, "x", None),
        ([], "x", None),
        ({}, "x", None),
        ({"httpConnectionFailed": [1]}, "x", "network"),
    ],
)
def test_the_cause_of_an_error_is_its_name(info: Any, message: str, cause: str | None) -> None:
    """The name decides; a name that says too little leaves it to codex's own sentence."""
    dialogue = dialogue_in_turn()
    error = {"message": message, "codexErrorInfo": info}
    [notice] = told(dialogue, "error", error=error, willRetry=False)
    *_, result = told(dialogue, "turn/completed", turn={"id": "u", "status": "failed", "error": error})
    assert isinstance(notice, up.Notice)
    assert isinstance(result, up.Result)
    assert (notice.cause, result.cause) == (cause, cause)


def test_a_usage_limit_resets_when_the_last_full_window_does() -> None:
    """Windows that are not used up say nothing, and limits without a failure are no event."""
    dialogue = dialogue_in_turn()
    windows = {"primary": {"usedPercent": 100, "resetsAt": 1795000000}, "secondary": {"usedPercent": 7, "resetsAt": 9}}
    assert told(dialogue, "account/rateLimits/updated", rateLimits=windows) == []
    error = {"message": "You’ve hit your usage limit.", "codexErrorInfo": "usageLimitExceeded"}
    *_, result = told(dialogue, "turn/completed", turn={"id": "u", "status": "failed", "error": error})
    assert isinstance(result, up.Result)
    assert (result.cause, result.resets_at) == ("usage_limit", 1795000000000)


def test_a_patch_has_a_change_for_each_file() -> None:
    """An update is a diff, the other files come with their content; the remark on a move is no part of the diff."""
    dialogue = dialogue_in_turn()
    update = {"path": "a", "kind": {"type": "update", "move_path": None}, "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}
    moved = {
        "path": "b",
        "kind": {"type": "update", "move_path": "c"},
        "diff": "@@ -1 +1 @@\n-x\n+X\n\n\nMoved to: c",
    }
    gone = {"path": "d", "kind": {"type": "delete"}, "diff": "g1\ng2"}
    odd = [{"path": "e"}, {"path": 7, "kind": "add"}, None, {"path": "f", "kind": "hologram", "diff": "x"}]
    fields: dict[str, Any] = {"changes": [update, moved, gone, *odd], "startedAtMs": 1000, "completedAtMs": 1007}
    call, done = item(dialogue, "completed", "fileChange", status="completed", **fields)
    assert isinstance(call, up.ToolCall)
    assert isinstance(done, up.ToolReturn)
    assert done.changes == [
        ev.Change("a", "update", added=1, removed=1, diff="@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
        ev.Change("b", "move", to="c", added=1, removed=1, diff="@@ -1 +1 @@\n-x\n+X\n"),
        ev.Change("d", "delete", added=0, removed=2, diff="@@ -1,2 +0,0 @@\n-g1\n-g2\n\\ No newline at end of file\n"),
    ]
    assert (call.changes, done.duration_ms) == (done.changes, 7)


def test_words_of_the_user_drop_the_message_that_they_interrupt() -> None:
    """A steered turn never completes the item that it was at."""
    dialogue = dialogue_in_turn()
    assert item(dialogue, "started", "userMessage", content=[{"type": "text", "text": "go"}]) == []
    told(dialogue, "item/agentMessage/delta", itemId="a", delta="Half")
    assert item(dialogue, "started", "userMessage") == [up.MessageEnd("a", status="superseded")]
    assert item(dialogue, "completed", "userMessage") == []


def user_message(id: str | None, text: str) -> dict[str, Any]:
    """What codex reports of a message of the user."""
    return {"clientId": id, "content": [{"type": "text", "text": text, "text_elements": []}]}


def steered(**asked: Any) -> CodexServer:
    """A dialogue whose turn runs, of which codex has reported the prompt, with a message `s` that was sent."""
    dialogue = dialogue_in_turn(**asked)
    assert dialogue.steer("s", "go left") == ()
    assert spoken(dialogue) == [], "codex takes no message before it has reported the turn"
    told(dialogue, "turn/started", turn={"id": "u"})
    item(dialogue, "started", "userMessage", **user_message(None, "go left"))
    return dialogue


def test_a_message_in_the_turn_is_taken_where_codex_answers_it() -> None:
    """It is sent for this turn, once; the notice stands in front of what the model does next, in the main thread."""
    dialogue = steered()
    [said] = spoken(dialogue)
    text = {"type": "text", "text": "go left", "text_elements": []}
    asked = {"threadId": "t", "expectedTurnId": "u", "input": [text], "clientUserMessageId": "s"}
    assert (said["method"], said["params"]) == ("turn/steer", asked)
    assert dialogue.read({"id": said["id"], "result": {"turnId": "u"}}) == ()
    assert told(dialogue, "turn/started", turn={"id": "u"}) == []
    assert spoken(dialogue) == []
    assert item(dialogue, "started", "userMessage", **user_message("s", "go left")) == []
    other = told(dialogue, "item/agentMessage/delta", threadId="other", itemId="o", delta="x")
    assert not any(isinstance(it, up.Notice) for it in other)
    taken = up.Notice("user", "go left", steer="s")
    assert item(dialogue, "started", "agentMessage")[:1] == [taken]
    assert not any(isinstance(it, up.Notice) for it in told(dialogue, "turn/completed", turn={"id": "u"}))
    assert dialogue.steer("later", "x") == (not_taken("later", "the turn has ended"),)


def test_a_message_that_text_follows_at_once_is_taken() -> None:
    """Codex may report the text before the item; the message that was being written is given up."""
    dialogue = steered()
    told(dialogue, "item/agentMessage/delta", itemId="a", delta="Half")
    assert item(dialogue, "started", "userMessage", **user_message("s", "go left")) == [
        up.MessageEnd("a", status="superseded")
    ]
    assert told(dialogue, "item/agentMessage/delta", itemId="b", delta="Left")[0] == up.Notice(
        "user", "go left", steer="s"
    )


def test_a_message_that_was_not_answered_is_not_taken() -> None:
    """It was rejected, or was never read, or is only a part of the conversation since the end of the turn."""
    dialogue = steered()
    [said] = spoken(dialogue)
    for number in ("b", "c"):
        dialogue.steer(number, number)
    second = spoken(dialogue)[0]
    error = {"code": -32600, "message": "no active turn to steer"}
    assert dialogue.read({"id": second["id"], "error": error}) == (not_taken("b", "no active turn to steer"),)
    assert dialogue.read({"id": said["id"], "result": {}}) == ()
    item(dialogue, "started", "userMessage", **user_message("s", "go left"))
    ended = told(dialogue, "turn/completed", turn={"id": "u", "status": "completed"})
    late = "the turn ended before it"
    assert [it for it in ended if isinstance(it, up.Notice)] == [not_taken("s", late), not_taken("c", late)]


def test_versions_without_ids_of_messages_report_their_texts() -> None:
    """Equal texts are taken in their order; the prompt, and what nobody gave, are no such messages."""
    dialogue = steered()
    dialogue.steer("again", "go left")
    for text in ("go left", "go left", "go left", "who?"):
        item(dialogue, "started", "userMessage", **user_message(None, text))
    item(dialogue, "started", "userMessage", **user_message("unknown", "go left"))
    taken = [up.Notice("user", "go left", steer=id) for id in ("s", "again")]
    assert item(dialogue, "started", "reasoning")[:2] == taken


def test_a_recording_shows_the_messages_that_were_taken() -> None:
    """The ids are in the wire, so a recording is read as the run was."""
    reader = CodexServer()
    told(reader, "turn/started", turn={"id": "u"})
    for id in (None, "s"):
        item(reader, "started", "userMessage", **user_message(id, "go left"))
    assert item(reader, "started", "agentMessage")[:1] == [up.Notice("user", "go left", steer="s")]


def test_a_turn_that_is_being_stopped_takes_no_message() -> None:
    """What waits to be sent is not sent after it either."""
    dialogue = dialogue_in_turn()
    dialogue.steer("early", "x")
    assert dialogue.cancel()
    assert dialogue.steer("s", "x") == (not_taken("s", "the turn has ended"),)
    told(dialogue, "turn/completed", turn={"id": "u", "status": "interrupted"})
    told(dialogue, "turn/started", turn={"id": "v"})
    assert "turn/steer" not in [said["method"] for said in spoken(dialogue)]


def test_a_message_that_is_whole_cannot_be_dropped_any_more() -> None:
    """Neither by words of the user's, nor by a retry after its model call is over."""
    dialogue = dialogue_in_turn()
    told(dialogue, "item/agentMessage/delta", itemId="i", delta="Whole.")
    item(dialogue, "completed", "agentMessage", text="Whole.")
    assert item(dialogue, "started", "userMessage") == []
    call = {"inputTokens": 3}
    assert told(dialogue, "thread/tokenUsage/updated", tokenUsage={"last": call, "total": call})[0] == up.MessageEnd()


def test_the_parts_of_a_reasoning_are_joined_as_exec_joins_them() -> None:
    """By a line break; raw reasoning is shown where there is no summary."""
    dialogue = dialogue_in_turn()
    method = "item/reasoning/summaryTextDelta"
    parts = [(0, "One"), (0, "."), (1, "Two"), (1, ".")]
    texts = [told(dialogue, method, itemId="i", summaryIndex=index, delta=text) for index, text in parts]
    assert [text.text for [text] in texts] == ["One", ".", "\nTwo", "."]  # type: ignore[union-attr]
    assert told(dialogue, "item/reasoning/textDelta", itemId="i", contentIndex=0, delta="raw") == []
    assert item(dialogue, "completed", "reasoning", summary=["One.", "Two."], content=["raw"]) == [
        up.Text("thinking", "final", "One.\nTwo.", "i", "i")
    ]
    assert told(dialogue, "item/reasoning/textDelta", itemId="j", contentIndex=0, delta="raw") == [
        up.Text("thinking", "delta", "raw", "j", "j")
    ]
    assert item(dialogue, "completed", "reasoning", summary=[], content=["raw"])[0].text == "raw"  # type: ignore[union-attr]


def test_output_that_was_lost_is_in_the_result() -> None:
    """The first output of a slow command never comes as a delta; the result is whole."""
    events = Played("toolstream").events
    assert (
        next(event.text for event in events if isinstance(event, Delta) and event.kind == "tool_output") == "tick 2\n"
    )
    [result] = [event for event in events if isinstance(event, ToolReturned)]
    assert result.text == "".join(f"tick {number}\n" for number in range(1, 7))


def test_a_sub_agent_has_a_lane_of_its_own() -> None:
    """Its parent is the call that spawned it, and the run is not over before it: it ends after the top agent here."""
    dialogue = CodexServer(Request(prompt="x"))
    stream = Stream(dialogue)
    working = []
    events: list[Event] = []
    for line in lines_of("subagent"):
        events += stream.feed(line)
        if dialogue.over:
            working.append(stream.working)
    events += stream.close()
    assert (working[0], working[-1]) == (True, False)
    [call] = [event for event in events if isinstance(event, ToolCalled)]
    ended = {event.parent: event.text for event in events if isinstance(event, BlockEnded) and event.kind == "text"}
    assert (call.name, ended[None]) == ("spawn_agent", "Spawned.")
    assert ended[call.call_id].startswith("I am the child, ")
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (end.reply, end.usage) == ("Spawned.", up.Usage(2000, 20, 100, 0, 6))
    assert verify(events) == []


def test_a_sub_agent_that_speaks_before_it_was_named() -> None:
    """It is taken for the one of the oldest call that waits; one that nobody spawned is no part of the top lane."""
    dialogue = dialogue_in_turn()
    item(dialogue, "started", "collabAgentToolCall", tool="spawnAgent", receiverThreadIds=[])
    [text] = told(dialogue, "item/agentMessage/delta", threadId="child", itemId="a", delta="x")
    [other] = told(dialogue, "item/agentMessage/delta", threadId="other", itemId="b", delta="y")
    assert isinstance(text, up.Text)
    assert isinstance(other, up.Text)
    assert (text.lane, other.lane) == ("i", "other")
    assert told(dialogue, "turn/completed", threadId="child", turn={"id": "v", "status": "completed"}) == [
        up.MessageEnd(lane="i"),
        up.Work("child", on=False),
    ]
    assert not dialogue.over


def test_a_sub_agent_is_known_once_its_call_has_named_it() -> None:
    """What it says and asks is in its lane, another one is not taken for it, and a cancelled run waits for none."""
    dialogue = dialogue_in_turn()
    item(dialogue, "started", "collabAgentToolCall", tool="spawnAgent")
    item(dialogue, "completed", "collabAgentToolCall", tool="spawnAgent", receiverThreadIds=["child", 5])
    assert told(dialogue, "turn/started", threadId="child", turn={"id": "v"}) == [up.Work("child", on=True)]
    for thread, lane in (("child", "i"), ("other", "other")):
        [question] = asked(dialogue, COMMAND, id=thread, threadId=thread, command="ls")
        assert isinstance(question, up.Question)
        assert question.lane == lane
        assert dialogue.answer(allowed(question)) == (up.Answer(thread, "allow", "accept", lane=lane),)
    assert told(dialogue, "thread/started", thread={"id": "other", "model": "m2"}) == []
    _, nothing_goes_on, result = told(dialogue, "turn/completed", turn={"id": "u", "status": "interrupted"})
    assert nothing_goes_on == up.Work(None, on=False)
    assert result == up.Result(session_id="t", cancelled=True)


def test_an_old_turn_that_ends_is_not_the_end() -> None:
    """Only the turn that runs ends the run, and only that of our thread."""
    dialogue = dialogue_in_turn()
    assert told(dialogue, "turn/completed", turn={"id": "before", "status": "completed"}) == []
    assert not dialogue.over
    *_, result = told(dialogue, "turn/completed", turn={"id": "u", "status": "completed", "durationMs": 5})
    assert result == up.Result(session_id="t", duration_ms=5)
    assert dialogue.over


def test_plans_notes_and_what_is_not_known() -> None:
    """A plan is told whole; what says nothing is silent; what is new is unknown, and keeps its text."""
    dialogue = dialogue_in_turn()
    plan = [{"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"}]
    assert told(dialogue, "turn/plan/updated", plan=plan) == [
        up.Plan([PlanItem("a", "completed"), PlanItem("b", "in_progress")]),
        up.RoundEnd(),
    ]
    assert told(dialogue, "turn/diff/updated", diff="x") == []
    assert told(dialogue, "warning", message="beware") == [up.Notice("error", "beware", "warning")]
    assert item(dialogue, "started", "contextCompaction") == []
    assert item(dialogue, "completed", "contextCompaction") == [up.Notice("compaction", "the context was compacted")]
    assert told(dialogue, "no/such", message="hi") == [up.Unknown("no/such", "hi")]
    assert item(dialogue, "completed", "hologram", text="hi") == [up.Unknown("item.completed/hologram", "hi")]
    for line in ([1], "x", None, {"a": 1}):
        assert isinstance(dialogue.read(line)[0], up.Unknown)


# --- what it asks ----------------------------------------------------------------------------------------


def asked(dialogue: CodexServer, method: str, id: Any = 0, **params: Any) -> list[up.Update]:
    """The updates of one request of the server's."""
    return list(dialogue.read({"method": method, "id": id, "params": {"threadId": "t", "itemId": "i", **params}}))


COMMAND = "item/commandExecution/requestApproval"


@pytest.mark.parametrize(
    ("option", "decision"),
    [
        ("accept", "accept"),
        ("decline", "decline"),
        ("acceptForSession", "acceptForSession"),
        ("cancel", "cancel"),
        ("rule-1", {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "pull"]}}),
        ("perhaps", "decline"),
        (None, "decline"),
    ],
)
def test_a_command_is_asked_about(option: str | None, decision: Any) -> None:
    """The question names the command without its shell; what cannot be understood is no permission."""
    dialogue = dialogue_in_turn()
    rule = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "pull"]}}
    [question] = asked(
        dialogue, COMMAND, command="bash -lc 'git pull'", reason="May I?", availableDecisions=["accept", rule]
    )
    assert isinstance(question, up.Question)
    assert (question.id, question.text, question.blocking) == ("0", "May I?\ngit pull", True)
    assert (question.ask, question.title, question.call_id) == ("command", "git pull", "i")
    assert [option.label for option in ordered(question.options)] == [
        "Allow once",
        "Allow for the session",
        "Always allow git pull",
        "Reject",
        "Reject and stop the turn",
    ]
    answer = up.Answer("0", "person", option)
    assert dialogue.answer(answer) == (answer,)
    assert spoken(dialogue) == [{"id": 0, "result": {"decision": decision}}]
    with pytest.raises(KeyError):
        dialogue.answer(answer)
    assert told(dialogue, "serverRequest/resolved", requestId=0) == []


def test_a_file_change_is_asked_about_with_what_it_changes() -> None:
    """The request does not say it: its item, which came before, does."""
    dialogue = dialogue_in_turn()
    item(dialogue, "started", "fileChange", changes=[{"path": "a", "kind": {"type": "add"}, "diff": "one\n"}])
    [question] = asked(dialogue, "item/fileChange/requestApproval")
    assert isinstance(question, up.Question)
    assert (question.text, question.ask, question.title) == ("a", "edit", "a")
    assert question.changes == [ev.Change("a", "add", added=1, diff="@@ -0,0 +1 @@\n+one\n")]


def test_a_question_that_a_cancel_settles_is_answered_by_nobody() -> None:
    """Once the turn is being interrupted no answer is taken; codex then says that the question is settled."""
    dialogue = dialogue_in_turn()
    asked(dialogue, COMMAND, id="q", command="ls")
    assert dialogue.cancel()
    with pytest.raises(KeyError):
        dialogue.answer(up.Answer("q", "person", "accept"))
    assert told(dialogue, "serverRequest/resolved", requestId="q") == [up.Answer("q", "withdrawn")]


def test_more_permissions_are_granted_as_they_were_asked_for() -> None:
    """For the turn or for the session; refused, nothing is granted."""
    wanted = {"network": {"enabled": True}, "fileSystem": None}
    for answer, granted in (("turn", {"network": {"enabled": True}}), ("reject", {}), (None, {})):
        dialogue = dialogue_in_turn()
        [question] = asked(dialogue, "item/permissions/requestApproval", permissions=wanted)
        assert isinstance(question, up.Question)
        assert question.ask == "network"
        dialogue.answer(up.Answer("0", "person", answer))
        assert spoken(dialogue) == [{"id": 0, "result": {"permissions": granted, "scope": "turn"}}]


def test_several_questions_of_one_request_are_answered_together() -> None:
    """Each is asked by itself, as a choice or for a text."""
    dialogue = dialogue_in_turn()
    questions = [
        {"id": "colour", "header": "Colour", "question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]},
        {"id": "name", "question": "Name?", "options": None},
        {"id": "why", "question": "Why?"},
    ]
    updates = asked(dialogue, "item/tool/requestUserInput", id=4, questions=questions)
    colours = [Option("red", "red", "choice"), Option("blue", "blue", "choice")]
    assert updates == [
        up.Question("4.0", "Colour\nWhich?", "choice", colours, blocking=True, free_text=True),
        up.Question("4.1", "Name?", "text", blocking=True, free_text=True),
        up.Question("4.2", "Why?", "text", blocking=True, free_text=True),
    ]
    dialogue.answer(up.Answer("4.1", "person", text="Ann"))
    dialogue.answer(up.Answer("4.2", "nobody"))
    assert spoken(dialogue) == []
    dialogue.answer(up.Answer("4.0", "person", "blue"))
    answers = {"name": {"answers": ["Ann"]}, "why": {"answers": []}, "colour": {"answers": ["blue"]}}
    assert spoken(dialogue) == [{"id": 4, "result": {"answers": answers}}]


@pytest.mark.parametrize(
    ("fields", "answer", "action", "content"),
    [
        ({}, "allow", "accept", {}),
        ({}, "reject", "decline", None),
        ({"name": {"type": "string"}}, "Ann", "accept", {"name": "Ann"}),
        ({"name": {}, "age": {}}, '{"name":"Ann","age":3}', "accept", {"name": "Ann", "age": 3}),
        ({"name": {}, "age": {}}, "Ann", "decline", None),
        ({"name": {}}, "reject", "decline", None),
    ],
)
def test_an_mcp_server_asks(fields: dict[str, Any], answer: str, action: str, content: Any) -> None:
    """A form is filled with a JSON object, one of one field with a text; an empty one is only allowed or refused."""
    dialogue = dialogue_in_turn()
    schema = {"type": "object", "properties": fields}
    [question] = asked(dialogue, "mcpServer/elicitation/request", serverName="s", message="m", requestedSchema=schema)
    assert isinstance(question, up.Question)
    meant = resolve(question, answer)
    assert meant is not None
    dialogue.answer(meant)
    assert spoken(dialogue) == [{"id": 0, "result": {"action": action, "content": content, "_meta": None}}]


@pytest.mark.parametrize("method", ["item/tool/call", "execCommandApproval", "no/such"])
def test_a_request_that_is_not_known_is_answered_with_an_error(method: str) -> None:
    """Else the turn would wait for ever."""
    dialogue = dialogue_in_turn()
    assert asked(dialogue, method, id=9) == [up.Unknown(method)]
    [answer] = spoken(dialogue)
    assert (answer["id"], answer["error"]["code"]) == (9, NO_SUCH_METHOD)


# --- whatever comes --------------------------------------------------------------------------------------


def test_it_keeps_what_is_asked_of_every_adapter() -> None:
    """The conformance check passes on the recordings."""
    check_adapter(CodexServer, [b"".join(lines_of(case)) for case in ("tools", "thinktools", "subagent", "err500")])


@pytest.mark.slow
@given(st.data())
def test_no_value_is_fatal(data: st.DataObject) -> None:
    """Any object is read, in a dialogue that runs, and every question can be answered."""
    dialogue = dialogue_in_turn()
    for _ in range(data.draw(st.integers(1, 6))):
        params = data.draw(st.dictionaries(st.sampled_from(FIELDS), JSON | st.just("t") | st.just("i"), max_size=8))
        if data.draw(st.booleans()):
            kind = data.draw(st.sampled_from(KINDS))
            params["item"] = {**data.draw(st.dictionaries(st.sampled_from(FIELDS), JSON)), "type": kind, "id": "i"}
        line: dict[str, Any] = {"method": data.draw(st.sampled_from(METHODS)), "params": params}
        if data.draw(st.booleans()):
            line["id"] = data.draw(JSON)
        updates = dialogue.read(line if data.draw(st.booleans()) else data.draw(JSON))
        for update in updates:
            if isinstance(update, up.Question):
                option = data.draw(st.sampled_from(["accept", "decline", "red", None]))
                dialogue.answer(up.Answer(update.id, "person", option, data.draw(st.sampled_from(["{}", None]))))
        dialogue.take()
