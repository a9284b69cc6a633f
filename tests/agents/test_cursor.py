from __future__ import annotations

from functools import partial
from typing import Any

import adapter_harness
import msgspec
import pytest
from patching import apply

from penstock import updates as up
from penstock.agents.cursor.exec import Cursor
from penstock.events import (
    BlockEnded,
    BlockRevised,
    Delta,
    Event,
    MessageEnded,
    PlanItem,
    Replied,
    RunEnded,
    ToolCalled,
    ToolReturned,
)
from penstock.stream import Stream
from penstock.testing.verify import verify

read = partial(adapter_harness.read, Cursor)


ID = {"session_id": "c6b62c6f"}
INIT = {"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/p", "model": "Auto", **ID}


def said(text: str, **fields: Any) -> dict[str, Any]:
    """An `assistant` line."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, **ID, **fields}


def tool(subtype: str, call: dict[str, Any], call_id: str = "c1") -> dict[str, Any]:
    """A `tool_call` line."""
    fields = {"model_call_id": "mc", "timestamp_ms": 9}
    return {"type": "tool_call", "subtype": subtype, "call_id": call_id, "tool_call": call, **ID, **fields}


def ended(result: str, **fields: Any) -> dict[str, Any]:
    """The `result` line."""
    line = {"type": "result", "subtype": "success", "is_error": False, "duration_ms": 5, "duration_api_ms": 5}
    return {**line, "result": result, **ID, **fields}


SHELL = {"shellToolCall": {"args": {"command": "ls"}}}
SHELL_DONE = {
    "shellToolCall": {
        "args": {"command": "ls"},
        "result": {"success": {"exitCode": 0, "stdout": "a\n", "stderr": ""}, "isBackground": False},
    }
}
PARTIAL: list[dict[str, Any]] = [
    INIT,
    {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}, **ID},
    {"type": "thinking", "subtype": "delta", "text": "Hm", "timestamp_ms": 1, **ID},
    said("I'll ", timestamp_ms=2),
    {"type": "thinking", "subtype": "delta", "text": "m", "timestamp_ms": 3, **ID},
    {"type": "thinking", "subtype": "completed", "timestamp_ms": 3, **ID},
    said("look.", timestamp_ms=4),
    said("I'll look.", timestamp_ms=5, model_call_id="mc"),
    tool("started", SHELL),
    tool("completed", SHELL_DONE),
    said("ha", timestamp_ms=8),
    said("ha", timestamp_ms=9),
    said("haha"),
    ended("I'll look.haha"),
]
WHOLE = [
    line
    for line in PARTIAL
    if line["type"] != "thinking" and not (line["type"] == "assistant" and line.get("timestamp_ms") and len(line) == 4)
]


def run(lines: list[dict[str, Any]]) -> list[Event]:
    """The events of a whole stream, which keep the contract."""
    stream = Stream("cursor")
    events = stream.feed(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)) + stream.close()
    assert verify(events) == []
    assert stream.health.unknown_events == 0
    return events


def blocks(events: list[Event], kind: str = "text") -> list[str]:
    """The texts of the blocks of a kind."""
    return [event.text for event in events if isinstance(event, BlockEnded) and event.kind == kind]


def test_fields_tell_pieces_from_recaps() -> None:
    """A piece has a time and no model call; everything else is whole."""
    assert read(
        said("a", timestamp_ms=1),
        said("ab", timestamp_ms=2, model_call_id="m"),
        said("ab", model_call_id="m"),
        said("cd"),
    ) == [
        up.Text("text", "delta", "a", "text"),
        up.Text("text", "final", "ab"),
        up.Text("text", "final", "ab"),
        up.Text("text", "final", "cd"),
    ]


def test_with_and_without_pieces_the_same_is_said() -> None:
    """Each text once, calls once, the last segment as reply."""
    partial, whole = run(PARTIAL), run(WHOLE)
    assert blocks(partial) == blocks(whole) == ["I'll look.", "haha"]
    assert blocks(partial, "thinking") == ["Hmm"]
    for events in (partial, whole):
        assert [event.call_id for event in events if isinstance(event, ToolCalled)] == ["c1"]
        assert not [event for event in events if isinstance(event, BlockRevised)]
        end = events[-1]
        assert isinstance(end, RunEnded)
        assert (end.outcome, end.reply, end.rounds) == ("ok", "haha", 2)


def test_pieces_that_repeat_are_both_kept() -> None:
    """Two equal pieces are two."""
    told = [event.text for event in run(PARTIAL) if isinstance(event, Delta) and event.kind == "text"]
    assert told == ["I'll ", "look.", "ha", "ha"]


def test_a_recap_that_says_more_is_the_truth() -> None:
    """A lost piece comes with the recap."""
    assert blocks(run([INIT, said("Hel", timestamp_ms=1), said("Hello"), ended("Hello")])) == ["Hello"]


def test_the_result_joins_segments_and_is_no_reply_of_its_own() -> None:
    """It would repeat the first rounds."""
    assert read(said("a"), ended("a"))[-1] == up.Result(session_id=ID["session_id"], duration_ms=5)


def test_a_result_that_comes_alone_is_the_text() -> None:
    """As `--output-format json` prints it."""
    events = run([ended("Answer")])
    assert blocks(events) == ["Answer"]
    assert [event.reply for event in events if isinstance(event, Replied)] == ["Answer"]


def test_a_last_text_without_recap_is_whole() -> None:
    """The result ends it."""
    events = run([INIT, said("Hi", timestamp_ms=1), ended("Hi")])
    assert [event.complete for event in events if isinstance(event, BlockEnded)] == [True]


def test_a_failed_result_has_its_reason() -> None:
    """The text of an error is no reply."""
    line = ended("no credit", subtype="error", is_error=True)
    assert read(line) == [up.Result(is_error=True, reason="no credit", session_id=ID["session_id"], duration_ms=5)]


def test_usage_counts_the_cache_into_the_input() -> None:
    """Cursor counts it beside."""
    usage = {"inputTokens": 10, "outputTokens": 4, "cacheReadTokens": 20, "cacheWriteTokens": 3}
    result = read(ended("x", usage=usage))[-1]
    assert isinstance(result, up.Result)
    assert result.usage == up.Usage(input_tokens=33, output_tokens=4, cached_tokens=20, cache_write_tokens=3)


@pytest.mark.parametrize(
    ("call", "name", "given"),
    [
        ({"readToolCall": {"args": {"path": "x"}}, "toolCallId": "c1"}, "read", {"path": "x"}),
        ({"function": {"name": "web", "arguments": '{"q": 1}'}}, "web", {"q": 1}),
        ({"mcpToolCall": {"args": {"name": "srv-get", "toolName": "get", "args": {"id": 2}}}}, "get", {"id": 2}),
        ({"newToolCall": {}}, "new", None),
        ({}, "tool", None),
    ],
)
def test_calls_in_every_shape(call: dict[str, Any], name: str, given: Any) -> None:
    """The name is a key, a field, or an MCP server's."""
    assert read(tool("started", call)) == [up.ToolCall("c1", name, given)]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"success": {"content": "text", "totalLines": 1}}, up.ToolReturn("c1", "text", name="x")),
        ({"success": {"exitCode": 3, "stdout": "o", "stderr": "e"}}, up.ToolReturn("c1", "oe", exit_code=3, name="x")),
        ({"failure": {"exitCode": 1, "stderr": "e"}}, up.ToolReturn("c1", "e", True, 1, "x")),
        ({"rejected": {"reason": "no"}}, up.ToolReturn("c1", "rejected: no", True, name="x", refused=True)),
        ({"error": {"errorMessage": "gone"}}, up.ToolReturn("c1", "gone", True, name="x")),
        (
            {"success": {"content": [{"text": {"text": "m"}}], "isError": True}},
            up.ToolReturn("c1", "m", True, name="x"),
        ),
        ({"success": {"linesAdded": 1}}, up.ToolReturn("c1", '{"linesAdded":1}', name="x")),
        ({"content": "flat"}, up.ToolReturn("c1", "flat", name="x")),
        ({}, up.ToolReturn("c1", "", name="x")),
    ],
)
def test_results_in_every_shape(result: dict[str, Any], expected: up.ToolReturn) -> None:
    """What a result says, and whether it is an error."""
    updates = read(tool("completed", {"xToolCall": {"args": {}, "result": result}}))
    assert updates == [up.ToolCall("c1", "x", {}), expected]


def test_todos_are_a_plan() -> None:
    """The result has the whole list, the arguments of a merge only a part."""
    todos = [{"content": "a", "status": "TODO_STATUS_IN_PROGRESS"}, {"content": "b", "status": "completed"}]
    call = {
        "updateTodosToolCall": {"args": {"todos": todos[:1], "merge": True}, "result": {"success": {"todos": todos}}}
    }
    assert read(tool("completed", call))[-1] == up.Plan([PlanItem("a", "in_progress"), PlanItem("b", "completed")])
    part = {"updateTodosToolCall": {"args": {"todos": todos[:1], "merge": True}, "result": {"success": {}}}}
    assert not [update for update in read(tool("completed", part)) if isinstance(update, up.Plan)]


def test_what_is_no_content() -> None:
    """Prompts and approvals are control; refusals, reconnections and work in the background are notices."""
    rejected = {"id": 1, "webFetchRequestResponse": {"rejected": {"reason": "policy"}}}
    query = {"type": "interaction_query", "query_type": "webFetchRequestQuery", **ID}
    assert read(PARTIAL[1], {**query, "subtype": "request"}) == []
    assert read({**query, "subtype": "response", "response": {"id": 1, "x": {"approved": {}}}}) == []
    assert read({**query, "subtype": "response", "response": rejected}) == [
        up.Notice("permission", "webFetch was refused: policy", "warning")
    ]
    assert read({"type": "connection", "subtype": "reconnecting", "attempt": 2}) == [
        up.Notice("retry", "connection: reconnecting, attempt 2", cause="network", attempt=2)
    ]
    assert [type(update) for update in read({"type": "system", "subtype": "task_notification"})] == [up.Notice]
    assert read({"type": "system", "subtype": "newer"}) == [up.Unknown(wire_type="system/newer")]


def test_a_request_sent_anew_gives_up_what_was_said() -> None:
    """One that is resumed does not."""
    retry = {"type": "retry", "subtype": "starting", "attempt": 1, **ID}
    lines = [INIT, said("Hel", timestamp_ms=1), {**retry, "is_resume": False}, said("Hello"), ended("Hello")]
    events = run(lines)
    assert [event.status for event in events if isinstance(event, MessageEnded)] == ["superseded", "ok"]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reply == "Hello"
    assert read({**retry, "is_resume": True}) == [
        up.Notice("retry", "retry: starting, attempt 1", "warning", attempt=1)
    ]


def test_a_kind_that_is_not_known_keeps_its_text() -> None:
    """It is told as unknown."""
    assert Cursor().read({"type": "later", "subtype": "x", "text": "hi"}) == (
        up.Unknown(wire_type="later/x", text="hi"),
    )


BEFORE, AFTER = "one\n\ttwo\nthree\n", "one\n\t2\nthree\n"


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        (
            {
                "args": {"path": "a", "streamContent": AFTER},
                "result": {
                    "success": {
                        "path": "/p/a",
                        "linesAdded": 1,
                        "linesRemoved": 1,
                        "diffString": "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-\ttwo\n+\t2\n three\n",
                        "beforeFullFileContent": BEFORE,
                        "afterFullFileContent": AFTER,
                    }
                },
            },
            BEFORE,
            AFTER,
        ),
        (
            {
                "args": {"path": "/p/a", "streamContent": "hello"},
                "result": {
                    "success": {
                        "path": "/p/a",
                        "linesAdded": 1,
                        "linesRemoved": 1,
                        "diffString": "--- /dev/null\n+++ b//p/a\n@@ -1 +1 @@\n-\n+hello",
                        "afterFullFileContent": "hello",
                    }
                },
            },
            "",
            "hello",
        ),
        (
            {
                "args": {"path": "/p/a"},
                "result": {"success": {"diffString": "@@ -2 +2 @@\n-\ttwo\n+\t2\n", "linesAdded": 1}},
            },
            BEFORE,
            AFTER,
        ),
    ],
)
def test_an_edit_has_the_change_of_the_file(call: dict[str, Any], before: str, after: str) -> None:
    """Applied to the file before, the diff gives the file after; the wrong diff of a new file is not used."""
    events = run(
        [INIT, tool("started", {"editToolCall": {"args": call["args"]}}), tool("completed", {"editToolCall": call})]
    )
    [change] = next(event.changes for event in events if isinstance(event, ToolReturned)) or []
    assert (change.path, change.kind) == ("/p/a", "update" if before else "add")
    assert (change.added, change.removed) == (1, 1 if before else 0)
    assert apply(change.diff or "", before) == after


def test_other_changes() -> None:
    """A write has the new content, a deletion the old one; an edit with counts alone has the counts."""
    write = {"args": {"path": "w", "fileText": "a\nb\n"}, "result": {"success": {"path": "w", "linesCreated": 2}}}
    delete = {"args": {"path": "d"}, "result": {"success": {"path": "d", "prevContent": "x\n"}}}
    counted = {"args": {"path": "e"}, "result": {"success": {"linesAdded": 3, "linesRemoved": 2}}}
    changes = [
        change
        for name, call in (("write", write), ("delete", delete), ("edit", counted))
        for update in read(tool("completed", {f"{name}ToolCall": call}))
        if isinstance(update, up.ToolReturn)
        for change in update.changes or ()
    ]
    assert [(change.path, change.kind, change.added, change.removed) for change in changes] == [
        ("w", "add", 2, None),
        ("d", "delete", 0, 1),
        ("e", "update", 3, 2),
    ]


@pytest.mark.parametrize("odd", [None, 7, "text", [], {}, {"path": 3}, {"path": "p", "diffString": ["@@"]}])
def test_odd_edits_are_read(odd: Any) -> None:
    """Whatever the fields of an edit hold, its result is there."""
    for name in ("edit", "write", "delete"):
        updates = read(tool("completed", {f"{name}ToolCall": {"args": odd, "result": {"success": odd}}}))
        assert [type(update) for update in updates] == [up.ToolCall, up.ToolReturn]
