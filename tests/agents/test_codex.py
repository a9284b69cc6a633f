from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import adapter_harness
import msgspec
import pytest

from penstock import updates as up
from penstock.agents.codex.exec import Codex, Item, unwrapped
from penstock.cli.main import main
from penstock.events import Change, PlanItem, RunEnded, ToolCalled, ToolReturned
from penstock.run.recording import RecordingWriter
from penstock.run.replay import find
from penstock.stream import Stream
from penstock.testing import feeds

RECORDINGS = Path(__file__).parents[1] / "recordings"
read = partial(adapter_harness.read, Codex)


def item(event: str = "completed", **fields: Any) -> dict[str, Any]:
    """An item event."""
    return {"type": f"item.{event}", "item": {"id": "item_1", **fields}}


def test_a_message_is_a_final_text_under_its_item_id() -> None:
    """An agent message is whole and a message of its own."""
    assert read(item(type="agent_message", text="Hi")) == [
        up.Text("text", "final", "Hi", place="item_1", message="item_1")
    ]
    assert read(item(type="reasoning", text="Hm")) == [
        up.Text("thinking", "final", "Hm", place="item_1", message="item_1")
    ]


def test_text_in_another_shape_still_comes_out() -> None:
    """A message whose text has become a list of blocks keeps its text."""
    [text] = read(item(type="agent_message", text=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
    assert isinstance(text, up.Text)
    assert text.text == "a\nb"


def test_a_command_is_called_when_it_starts_and_returns_when_it_completes() -> None:
    """The call carries the wire's command, its title what the shell is told to do."""
    command = "/bin/bash -lc 'echo err >&2; exit 3'"
    running: dict[str, Any] = {
        "type": "command_execution",
        "command": command,
        "exit_code": None,
        "status": "in_progress",
    }
    ended = {**running, "aggregated_output": "err\n", "exit_code": 3, "status": "failed"}
    call = up.ToolCall("item_1", "command_execution", {"command": command}, "echo err >&2; exit 3", "execute")
    assert read(item("started", **running)) == [call]
    assert read(item(**ended)) == [call, up.ToolReturn("item_1", "err\n", True, 3, "command_execution")]


@pytest.mark.parametrize(
    ("status", "exit_code", "failed"),
    [("completed", 0, False), ("declined", None, True), ("failed", None, True), ("completed", 1, True)],
)
def test_what_counts_as_a_failed_command(status: str, exit_code: int | None, failed: bool) -> None:
    """A status that says so, or an exit code other than zero."""
    found = read(item(type="command_execution", command="ls", exit_code=exit_code, status=status))
    refused = status == "declined"
    assert found[-1] == up.ToolReturn("item_1", "", failed, exit_code, "command_execution", refused=refused)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/bin/bash -lc 'echo hi && ls'", "echo hi && ls"),
        ("bash -lc 'echo '\\''a'\\'''", "echo 'a'"),
        ("powershell.exe -NoProfile -Command 'dir'", "dir"),
        ("bash -lc 'never ended", "bash -lc 'never ended"),
        ("grep -c x", "grep -c x"),
        ("ls", "ls"),
        ("", ""),
    ],
)
def test_the_shell_is_taken_off_a_command(command: str, told: str) -> None:
    """Only a real wrapper goes; what cannot be taken apart stays as it is."""
    assert unwrapped(command) == told


def test_a_file_change_names_its_paths() -> None:
    """The title has the paths, the result what was done to each."""
    changes = [{"path": "a.txt", "kind": "add"}, {"path": "b.txt", "kind": "update"}]
    call, done = read(item(type="file_change", changes=changes, status="completed"))
    named = [Change("a.txt", "add"), Change("b.txt", "update")]
    assert call == up.ToolCall("item_1", "file_change", {"changes": changes}, "a.txt, b.txt", "edit", changes=named)
    assert done == up.ToolReturn("item_1", "add a.txt\nupdate b.txt", False, None, "file_change", changes=named)


def test_a_web_search_is_called_when_its_query_is_known() -> None:
    """At the start there is only a name; the key `id` occurs twice and the last one holds for all of its lines."""
    lines = [
        b'{"type":"item.started","item":{"id":"item_1","type":"web_search","id":"ws_1","query":"","action":{"type":"other"}}}',
        b'{"type":"item.completed","item":{"id":"item_1","type":"web_search","id":"ws_1","query":"penstock",'
        b'"action":{"type":"search","query":"penstock","queries":["penstock"]}}}',
    ]
    adapter = Codex()
    started, (call, done) = (list(adapter.read(msgspec.json.decode(line, type=Codex.wire))) for line in lines)
    assert started == [up.BlockStart("tool_input", call_id="ws_1", name="web_search")]
    action = {"type": "search", "query": "penstock", "queries": ["penstock"]}
    asked = {"query": "penstock", "action": action}
    assert call == up.ToolCall("ws_1", "web_search", asked, "penstock", "search")
    assert done == up.ToolReturn("ws_1", name="web_search")


def test_an_mcp_tool_that_says_it_failed_is_an_error_without_an_error_field() -> None:
    """`isError` of MCP arrives only as the status."""
    result = {"content": [{"type": "text", "text": "no"}, {"type": "image", "mimeType": "image/png"}]}
    call, done = read(
        item(type="mcp_tool_call", server="s", tool="t", arguments={"a": 1}, result=result, error=None, status="failed")
    )
    assert call == up.ToolCall("item_1", "s.t", {"a": 1})
    assert done == up.ToolReturn("item_1", "no\n[image image/png]", True, None, "s.t")


def test_a_collab_call_returns_what_its_agents_said() -> None:
    """The sub-agent's own events never appear: its report is the result."""
    states = {"t2": {"status": "completed", "message": "found it"}, "t3": {"status": "running", "message": None}}
    call, done = read(
        item(type="collab_tool_call", tool="spawn_agent", prompt="look", agents_states=states, status="completed")
    )
    assert call == up.ToolCall("item_1", "spawn_agent", {"prompt": "look"}, "look", "think")
    assert done == up.ToolReturn("item_1", "found it\nrunning", False, None, "spawn_agent")


def test_a_todo_list_is_a_plan_whenever_it_comes() -> None:
    """Started, updated and completed lists all tell the whole plan."""
    todo = [{"text": "one", "completed": True}, {"text": "two", "completed": False}]
    plan = up.Plan([PlanItem("one", "completed"), PlanItem("two", "pending")])
    assert read(*(item(event, type="todo_list", items=todo) for event in ("started", "updated", "completed"))) == [
        *(plan, up.RoundEnd()),
        *(plan, up.RoundEnd()),
        *(plan, up.RoundEnd()),
    ]


def test_errors_are_told_apart() -> None:
    """A warning item, a retry and an error are notices; only `turn.failed` is the end."""
    assert read(item(type="error", message="unknown model")) == [up.Notice("error", "unknown model", "warning")]
    assert read({"type": "error", "message": "Reconnecting... 1/1 (x)"}) == [
        up.MessageEnd(status="superseded"),
        up.Notice("retry", "x", "warning", attempt=1, max_attempts=1),
    ]
    assert read({"type": "error", "message": "busy"}) == [up.Notice("error", "busy", "error")]
    failed = {"type": "turn.failed", "error": {"message": '{"type":"error","error":{"message":"bad request"}}'}}
    assert read(failed) == [up.Result(is_error=True, reason="bad request")]
    assert read({"type": "turn.failed"}) == [up.Result(is_error=True, reason="the turn failed")]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("unexpected status 401 Unauthorized: no key, url: http://x/v1/responses", "auth"),
        ("unexpected status 404 Not Found: no such model", "missing"),
        ("unexpected status 400 Bad Request: what", None),
        ("unexpected status 400 Bad Request: prompt is too long: 212000 tokens > 200000 maximum", "context"),
        ("stream disconnected before completion: prompt is too long: 212000 tokens > 200000 maximum", "context"),
        ('{"error":{"message":"This model\'s maximum context length is 128000 tokens."}}', "context"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("You’ve hit your usage limit. Try again at 3:45 PM.", "usage_limit"),
        ("You've hit your usage limit for gpt-5. Switch to another model now, or try again later.", "usage_limit"),
        ("Selected model is at capacity. Please try a different model.", "overloaded"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "provider"),
        ("Codex ran out of room in the model's context window. Start a new thread.", "context"),
        ("stream disconnected before completion: idle timeout waiting for SSE", "network"),
        ("stream disconnected before completion: Incomplete response returned, reason: content_filter", "refusal"),
        ("Missing environment variable: `OPENAI_API_KEY`.", "auth"),
        ('{"error":{"message":"long","type":"invalid_request_error","code":"context_length_exceeded"}}', "context"),
        ('{"error":[1]}', None),
        ("I saw: unexpected status 401 Unauthorized", None),
    ],
)
def test_the_cause_is_that_of_codex_own_sentence(message: str, cause: str | None) -> None:
    """A sentence counts from its beginning; the same words inside another text are prose."""
    [notice] = read({"type": "error", "message": message})
    [_, retry] = read({"type": "error", "message": f"Reconnecting... 2/5 ({message})"})
    [result] = read({"type": "turn.failed", "error": {"message": message}})
    assert isinstance(notice, up.Notice)
    assert isinstance(retry, up.Notice)
    assert isinstance(result, up.Result)
    assert (notice.cause, retry.cause, result.cause) == (cause, cause, cause)
    assert (retry.attempt, retry.max_attempts) == (2, 5)


@pytest.mark.parametrize("message", ["Reconnecting... 1", "Reconnecting... 9999999/9999999", "Reconnecting..."])
def test_a_retry_without_usable_numbers_is_still_a_retry(message: str) -> None:
    """The text is shown, the numbers are unknown."""
    assert read({"type": "error", "message": message})[-1] == up.Notice("retry", message, "warning")


@pytest.mark.parametrize(("case", "cause"), [("err500", "provider"), ("maxtok", "length"), ("tools", None)])
def test_the_cause_of_each_recorded_failure(case: str, cause: str | None) -> None:
    """It is in codex's own sentence."""
    last = feeds.whole(Stream("codex"), (RECORDINGS / "codex" / case / "input.ndjson").read_bytes())[-1]
    assert isinstance(last, RunEnded)
    assert last.cause == cause


def test_a_recorded_edit_names_its_file() -> None:
    """The wire has no more."""
    events = feeds.whole(Stream("codex"), (RECORDINGS / "codex" / "tools" / "input.ndjson").read_bytes())
    found = [event.changes for event in events if isinstance(event, ToolCalled | ToolReturned) and event.changes]
    assert found == [[Change("/tmp/demo/notes.txt", "add")]] * 2


@pytest.mark.parametrize(
    "of_call", [{"type": "command_execution", "command": "ls"}, {"type": "file_change", "changes": [{"path": "/a"}]}]
)
def test_a_call_that_was_declined_is_refused(of_call: dict[str, Any]) -> None:
    """The status reports that the permission was denied, and the wire has no words of a reason."""
    done = read(item(**of_call, status="declined"))[-1]
    assert isinstance(done, up.ToolReturn)
    assert (done.refused, done.text) == (True, "")


def test_the_frame_of_a_turn() -> None:
    """The thread is the session, and the turn's usage is the total."""
    figures = {"input_tokens": 10, "cached_input_tokens": 5, "output_tokens": 3, "reasoning_output_tokens": 1}
    assert read({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}) == [up.RunStart(session_id="t")]
    assert read({"type": "turn.completed", "usage": figures}) == [up.Result(usage=up.Usage(10, 3, 5, None, 1))]
    assert read({"type": "turn.completed", "usage": None}) == [up.Result()]


def test_what_is_unknown_is_said_to_be() -> None:
    """A new kind of item or line keeps its text."""
    assert read(item(type="hologram", text="hi")) == [up.Unknown("item.completed/hologram", "hi")]
    assert list(Codex().read({"type": "item.plan.delta", "delta": "x"})) == [up.Unknown("item.plan.delta", "x")]
    assert list(Codex().read([1])) == [up.Unknown()]


@pytest.mark.parametrize(
    "kind",
    [
        "agent_message", "reasoning", "command_execution", "file_change", "mcp_tool_call", "collab_tool_call",
        "web_search", "todo_list", "error", "plan",
    ],
)  # fmt: skip
def test_no_value_is_fatal(kind: str) -> None:
    """Any item is read whatever its fields hold, and every update can be encoded."""
    values: list[Any] = [None, 7, True, "x", [], [None], {}, {"a": {"b": None}}]
    for value in values:
        fields = dict.fromkeys((name for name in Item.__struct_fields__ if name not in ("id", "type")), value)
        msgspec.json.encode(read(item(type=kind, **fields), item("started", type=kind, **fields)))


@pytest.mark.parametrize("agent", ["codex", "qwen"])
def test_the_usage_of_a_resumed_session_is_not_that_of_the_run(
    agent: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The totals of a session that goes on are left out, live and when the recording is read again."""
    lines: dict[str, list[dict[str, Any]]] = {
        "codex": [
            {"type": "thread.started", "thread_id": "t"},
            item(type="agent_message", text="Hi"),
            {"type": "turn.completed", "usage": {"input_tokens": 2400, "output_tokens": 68}},
        ],
        "qwen": [
            {"type": "assistant", "session_id": "t", "message": {"id": "m", "content": [{"type": "text", "text": "Hi"}],
             "usage": {"input_tokens": 1200, "output_tokens": 34}}},
            {"type": "result", "subtype": "success", "is_error": False, "result": "Hi", "session_id": "t",
             "usage": {"input_tokens": 2400, "output_tokens": 68}},
        ],
    }  # fmt: skip
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines[agent])
    for is_resumed, tokens in ((False, 2400), (True, None if agent == "codex" else 1200)):
        writer = RecordingWriter.begin(
            tmp_path, agent=agent, label=agent, route="exec", argv=[agent], is_resumed=is_resumed
        )
        writer.received(data, 1)
        writer.end(outcome="ok", reason=None, exit_status=0, duration_ms=1)
        assert main(["replay", str(writer.folder), "--speed=1000", "--to=ndjson"]) == 0
        shown = msgspec.json.decode(capfd.readouterr().out.splitlines()[-1], type=RunEnded)
        assert (shown.usage and shown.usage.input_tokens) == tokens
        stream = Stream(find(writer.folder).reader())
        end = [*stream.feed(data), *stream.close()][-1]
        assert isinstance(end, RunEnded)
        assert (end.usage and end.usage.input_tokens) == tokens
        assert end.reply == "Hi"
