from __future__ import annotations

import difflib
from functools import partial
from pathlib import Path
from typing import Any

import adapter_harness
import msgspec
import pytest
from patching import apply

from penstock import events as ev
from penstock import updates as up
from penstock.agents.opencode.exec import OpenCode
from penstock.events import PlanItem
from penstock.stream import Stream
from penstock.testing import feeds

RECORDINGS = Path(__file__).parents[1] / "recordings"
read = partial(adapter_harness.read, OpenCode)

NEW = ev.Change("/d/n", "add", added=1, removed=0, diff="@@ -0,0 +1 @@\n+a\n")
"""Change of a new file with one line."""


def line(kind: str, **part: Any) -> dict[str, Any]:
    """A line with a part of message `m`."""
    return {"type": kind, "timestamp": 1, "sessionID": "ses", "part": {"id": "p", "messageID": "m", **part}}


def tool(name: str, **state: Any) -> dict[str, Any]:
    """A finished call."""
    return line("tool_use", tool=name, callID="c", state=state)


def test_a_step_is_a_message() -> None:
    """Its start names the session too."""
    assert read(line("step_start")) == [up.RunStart(session_id="ses"), up.MessageStart("m")]


def test_parts_are_whole_blocks_of_their_message() -> None:
    """The part's id is the place, so that order does not matter."""
    assert read(line("reasoning", text="Hm"), line("text", text="Hi")) == [
        up.Text("thinking", "final", "Hm", "p", "m"),
        up.Text("text", "final", "Hi", "p", "m"),
    ]


@pytest.mark.parametrize(("metadata", "code"), [({"compaction_continue": True}, "compaction"), (None, "user")])
def test_synthetic_text_is_not_the_models(metadata: Any, code: str) -> None:
    """What the program says in the user's role is a notice."""
    found = read(line("text", text="Continue", synthetic=True, metadata=metadata))
    assert found == [up.Notice(code, "Continue"), up.RoundEnd()]  # type: ignore[arg-type]


def test_a_command_that_failed_is_an_error_though_its_status_says_completed() -> None:
    """The exit code is in the metadata; the command itself is the title."""
    call, done = read(
        tool("bash", status="completed", input={"command": "x"}, output="out\n", title="Runs x", metadata={"exit": 3})
    )
    assert call == up.ToolCall("c", "bash", {"command": "x"}, message="m")
    assert done == up.ToolReturn("c", "out\n", True, 3, "bash")


def test_a_good_result_is_no_error() -> None:
    """The title that comes with it is not used: where calls are seen as they begin, it comes too late."""
    call, done = read(tool("write", status="completed", input={"filePath": "/a/n.txt"}, output="ok", title="n.txt"))
    assert call == up.ToolCall("c", "write", {"filePath": "/a/n.txt"}, message="m")
    assert done == up.ToolReturn("c", "ok", False, None, "write")


def test_errors_of_tools() -> None:
    """A status of error, and the tool that stands for a call that was no call."""
    assert read(tool("read", status="error", input={}, error="no file"))[-1] == up.ToolReturn(
        "c", "no file", True, None, "read"
    )
    assert read(tool("invalid", status="completed", input={}, output="bad"))[-1] == up.ToolReturn(
        "c", "bad", True, None, "invalid"
    )


def test_a_refused_permission_ends_the_run_unless_more_comes() -> None:
    """Nobody can be asked, so the run stops without an answer."""
    words = "The user rejected permission to use this specific tool call."
    found = read(tool("bash", status="error", input={}, error=words))
    assert found[-2:] == [up.Notice("permission", "bash was not allowed", "warning"), up.Failure(words)]


def test_todos_are_a_plan_and_attachments_are_named() -> None:
    """Neither is lost in the result's text."""
    todos = [{"content": "a", "status": "completed", "priority": "high"}, {"content": "b", "status": "pending"}]
    assert up.Plan([PlanItem("a", "completed"), PlanItem("b", "pending")]) in read(
        tool("todowrite", status="completed", input={"todos": todos})
    )
    assert up.Notice("media", "read: [file image/png]") in read(
        tool("read", status="completed", attachments=[{"type": "file", "mime": "image/png"}])
    )


def test_usage_is_brought_to_one_reading() -> None:
    """Cache is counted into the input and reasoning into the output: together they are opencode's total."""
    tokens = {"total": 1040, "input": 950, "output": 37, "reasoning": 3, "cache": {"write": 0, "read": 50}}
    found = read(line("step_finish", reason="tool-calls", tokens=tokens, cost=0.5))
    assert found == [
        up.ModelUsage(up.Usage(1000, 40, 50, 0, 3, 0.5), message="m", whole=True),
        up.MessageEnd("m", stop_reason="tool-calls"),
        up.RoundEnd(),
    ]


@pytest.mark.parametrize(
    ("reason", "results"),
    [
        ("stop", [up.Result()]),
        ("other", [up.Result()]),
        ("tool-calls", []),
        (None, []),
        ("error", [up.Result(is_error=True, reason="the model call ended with an error")]),
    ],
)
def test_the_step_that_asks_for_no_tools_ends_the_answer(reason: str | None, results: list[up.Update]) -> None:
    """A step without a reason proves nothing."""
    assert read(line("step_finish", reason=reason)) == [
        up.MessageEnd("m", stop_reason=reason),
        *results,
        up.RoundEnd(),
    ]


def test_an_answer_that_was_filtered_says_so() -> None:
    """It is an answer all the same."""
    _, notice, result, _ = read(line("step_finish", reason="content-filter"))
    assert isinstance(notice, up.Notice)
    assert (notice.code, notice.level, result) == ("refusal", "warning", up.Result())


@pytest.mark.parametrize(
    ("error", "reason", "cause"),
    [
        ({"name": "APIError", "data": {"message": "busy", "statusCode": 500}}, "busy", "provider"),
        ({"name": "APIError", "data": {"message": "x", "statusCode": 400}}, "x", None),
        ({"name": "APIError", "data": {"message": "x", "metadata": {"code": "ECONNRESET"}}}, "x", "network"),
        ({"name": "ProviderAuthError", "data": {"providerID": "p", "message": "no key"}}, "no key", "auth"),
        ({"name": "ContextOverflowError", "data": {"message": "too long"}}, "too long", "context"),
        ({"name": "UnknownError", "data": None}, "UnknownError", None),
        ({"name": ["odd"], "data": {"message": 7, "statusCode": "x", "responseBody": 5, "metadata": []}}, "7", None),
        ("boom", "boom", None),
        (None, "opencode reported an error and gave no message", None),
    ],
)
def test_an_error_is_a_failure_that_a_later_answer_takes_back(error: Any, reason: str, cause: ev.Cause | None) -> None:
    """It names the session, since it may be the only line."""
    assert read({"type": "error", "sessionID": "ses", "error": error}) == [
        up.RunStart(session_id="ses"),
        up.Notice("error", reason, "error", cause=cause),
        up.Failure(reason, cause),
    ]


def test_a_providers_name_of_an_error_is_more_than_its_status() -> None:
    """A quota that is used up has the status of a rate limit."""
    body = '{"error": {"message": "x", "code": "insufficient_quota"}}'
    error = {"name": "APIError", "data": {"message": "x", "statusCode": 429, "responseBody": body}}
    assert read({"type": "error", "error": error})[-1] == up.Failure("x", "usage_limit")


@pytest.mark.parametrize(
    ("message", "reason", "cause"),
    [
        ('{"message":"Overloaded (mock)","type":"overloaded_error","code":529}', "Overloaded (mock)", "overloaded"),
        (
            "ProviderModelNotFoundError: Model not found: m/x.\n    at <anonymous> (a.js:1:2)\n    at run (b:3)",
            "Model not found: m/x.",
            "missing",
        ),
        ("Model not found: m/x.", "Model not found: m/x.", "missing"),
        ("The log says Model not found: m/x.", "The log says Model not found: m/x.", None),
    ],
)
def test_an_error_is_a_sentence(message: str, reason: str, cause: ev.Cause | None) -> None:
    """JSON and stack traces are what the program is made of."""
    found = read({"type": "error", "error": {"name": "UnknownError", "data": {"message": message}}})
    assert found[-1] == up.Failure(reason, cause)


def edited(before: str, old: str, new: str) -> tuple[ev.Change, ev.Change]:
    """The changes that an edit proposes and makes, with the diff that opencode prints for it."""
    after = before.replace(old, new)
    patch = "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    shown = cut(patch)
    found = {"patch": shown, "additions": 1, "deletions": 1}
    given = {"filePath": "/d/a.py", "oldString": old, "newString": new}
    call, done = read(tool("edit", status="completed", input=given, output="ok", metadata={"filediff": found}))
    assert isinstance(call, up.ToolCall)
    assert isinstance(done, up.ToolReturn)
    assert call.changes is not None
    assert done.changes is not None
    return call.changes[0], done.changes[0]


def cut(patch: str) -> str:
    """What opencode does to a diff whose lines are all indented."""
    head, body = patch.splitlines(keepends=True)[:2], patch.splitlines(keepends=True)[2:]
    lines = [line[1:] for line in body if line[0] != "@" and line[1:].strip()]
    common = min(len(line) - len(line.lstrip()) for line in lines)
    return "".join(head) + "".join(line if line[0] == "@" else line[0] + line[1 + common :] for line in body)


@pytest.mark.parametrize("case", ["tools", "resume"])
def test_a_recorded_edit_leads_to_the_file_after(case: str) -> None:
    """The metadata has that the file is new."""
    lines = (RECORDINGS / "opencode" / case / "input.ndjson").read_bytes()
    returned = adapter_harness.of(feeds.whole(Stream("opencode"), lines), ev.ToolReturned)
    [change] = [change for found in returned for change in found.changes or ()]
    assert (change.path, change.kind, change.added, change.removed) == ("/tmp/demo/notes.txt", "add", 2, 0)
    assert apply(change.diff, "") == "line one\nline two — ünï\n"


@pytest.mark.parametrize(("case", "cause"), [("err500", "provider"), ("maxtok", "length"), ("tools", None)])
def test_the_cause_of_each_recorded_failure(case: str, cause: str | None) -> None:
    """It is that of the provider's status, or that the answer met its limit."""
    last = feeds.whole(Stream("opencode"), (RECORDINGS / "opencode" / case / "input.ndjson").read_bytes())[-1]
    assert isinstance(last, ev.RunEnded)
    assert last.cause == cause


def test_an_edit_has_the_diff_of_its_metadata() -> None:
    """It leads from the file before to the file after; the input alone has no line numbers."""
    before = "".join(f"line {number}\n" for number in range(1, 12))
    proposed, made = edited(before, "line 6\nline 7\n", "line six\nline seven\n")
    assert proposed.diff == "@@\n-line 6\n-line 7\n+line six\n+line seven\n"
    assert made.diff is not None
    assert apply(made.diff, before) == before.replace("line 6\nline 7\n", "line six\nline seven\n")
    assert (made.kind, made.added, made.removed) == ("update", 2, 2)


@pytest.mark.parametrize(
    ("old", "new"), [("b = 2", "b = 3"), ("    b = 2\n    c = 3\n", "    b = 3\n    c = 4\n")], ids=["part", "lines"]
)
def test_a_diff_that_lost_its_indentation_is_not_used(old: str, new: str) -> None:
    """The change is that of the input then, with the counts of the agent."""
    before = "def f():\n" + "".join(f"    {name} = {value}\n" for value, name in enumerate("wxyzabcdefg"))
    before = before.replace("b = 5", "b = 2").replace("c = 6", "c = 3")
    proposed, made = edited(before, old, new)
    assert made.diff == proposed.diff
    assert made.diff is not None
    assert made.diff.startswith("@@\n-" + old.split("\n")[0])
    assert (made.added, made.removed) == (1, 1)


@pytest.mark.parametrize(
    ("given", "metadata", "change"),
    [
        ({"content": "a\n"}, {"exists": False}, NEW),
        ({"content": "a\n"}, {"exists": True}, ev.Change("/d/n", "update")),
        ({"content": "a\n"}, None, None),
        ({"content": 7}, {"exists": False}, None),
    ],
)  # fmt: skip
def test_a_written_file(given: dict[str, Any], metadata: Any, change: ev.Change | None) -> None:
    """What was in a file that is written over is not known."""
    fields = {"filePath": "/d/n", **given}
    done = read(tool("write", status="completed", input=fields, metadata=metadata))[-1]
    assert isinstance(done, up.ToolReturn)
    assert done.changes == (None if change is None else [change])


def test_a_patch_of_several_files() -> None:
    """Each file has opencode's diff if that holds the lines of the patch, else those lines."""
    patch = (
        "*** Begin Patch\n*** Update File: /d/a\n@@\n one\n-two\n+TWO\n*** Add File: /d/n\n+n1\n"
        "*** Delete File: /d/g\n*** Update File: /d/o\n*** Move to: /d/m\n@@\n-  x\n+  X\n*** End Patch"
    )
    files = [
        {"filePath": "/d/a", "type": "update", "patch": "--- /d/a\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"},
        {"filePath": "/d/n", "type": "add", "patch": "@@ -0,0 +1 @@\n+n1\n"},
        {"filePath": "/d/g", "type": "delete", "patch": "@@ -1,2 +0,0 @@\n-g1\n-g2\n", "deletions": 3},
        {"filePath": "/d/o", "type": "move", "movePath": "/d/m", "patch": "@@ -1 +1 @@\n-x\n+X\n"},
    ]  # fmt: skip
    done = read(tool("apply_patch", status="completed", input={"patchText": patch}, metadata={"files": files}))[-1]
    assert isinstance(done, up.ToolReturn)
    assert done.changes == [
        ev.Change("/d/a", "update", added=1, removed=1, diff="@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"),
        ev.Change("/d/n", "add", added=1, removed=0, diff="@@ -0,0 +1 @@\n+n1\n"),
        ev.Change("/d/g", "delete", added=0, removed=2, diff="@@ -1,2 +0,0 @@\n-g1\n-g2\n"),
        ev.Change("/d/o", "move", to="/d/m", added=1, removed=1, diff="@@\n-  x\n+  X\n"),
    ]


@pytest.mark.parametrize(
    ("name", "output", "text"),
    [
        ("read", "<path>/d/a</path>\n<type>file</type>\n<content>\n1: a\n</content>", "1: a"),
        ("read", "<path>/d</path>\n<type>directory</type>\n<entries>\na\nb\n</entries>", "a\nb"),
        ("read", "<path>/d/a</path>\n<type>file</type>\n<content>\n1: a\n</content>\nmore", None),
        ("bash", "<path>/d/a</path>\n<type>file</type>\n<content>\n1: a\n</content>", None),
        ("task", '<task id="ses_1" state="completed">\n<task_result>\nDone.\n</task_result>\n</task>', "Done."),
    ],
)
def test_the_frame_around_an_output_is_taken_off(name: str, output: str, text: str | None) -> None:
    """Only where it is all of the output of a tool that is known for it."""
    done = read(tool(name, status="completed", input={}, output=output))[-1]
    assert isinstance(done, up.ToolReturn)
    assert done.text == (output if text is None else text)


def test_a_call_has_its_duration_and_its_denial() -> None:
    """Both are on the wire; the words of a person's rejection and of a rule are opencode's own."""
    time = {"start": 1000, "end": 1042}
    rejected = "The user rejected permission to use this specific tool call with the following feedback: no"
    rule = "The user has specified a rule which prevents you from using this specific tool call. Here are some"
    found = [
        update
        for error in (rejected, rule, "It says: The user rejected permission to use this specific tool call")
        for update in read(tool("bash", status="error", input={}, error=error, time=time))
        if isinstance(update, up.ToolReturn)
    ]
    assert [(done.duration_ms, done.refused) for done in found] == [(42, True), (42, True), (42, False)]


def test_unknown_lines_keep_their_text() -> None:
    """A new kind has its part's text."""
    assert list(OpenCode().read({"type": "patch", "part": {"text": "hi"}})) == [up.Unknown("patch", "hi")]
    assert list(OpenCode().read(None)) == [up.Unknown()]


@pytest.mark.parametrize("value", [None, 7, True, "x", [], [None], {}, {"a": {"b": None}}])
def test_no_value_is_fatal(value: Any) -> None:
    """Every kind of line is read whatever its fields hold."""
    found = read(
        line("text", text=value, synthetic=value, metadata=value),
        line("reasoning", text=value),
        line("tool_use", tool="todowrite", state=value),
        tool("todowrite", status=value, input=value, output=value, metadata=value, title=value, attachments=value),
        tool("edit", status="completed", input={"filePath": value, "oldString": value}, metadata={"filediff": value}),
        tool("write", status="completed", input={"filePath": "a", "content": value}, metadata={"exists": value}),
        tool("apply_patch", status="completed", input={"patchText": value}, metadata={"files": value}, time=value),
        line("step_finish", tokens=value, cost=value),
        line("step_finish", tokens={"input": value, "cache": value}),
    )
    msgspec.json.encode(found)
    assert sum(isinstance(update, up.ToolReturn) for update in found) == 5
