"""Edits, causes and denied actions on the wire that claude, ccs and qwen share."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import adapter_harness
import msgspec
import pytest
from adapter_harness import of
from patching import apply

from penstock import events as ev
from penstock import updates as up
from penstock.agents.claude.exec import Claude
from penstock.agents.qwen.exec import Qwen
from penstock.core.diffs import UNKNOWN_POSITION
from penstock.stream import Stream

Line = dict[str, Any]
read = partial(adapter_harness.read, Claude)
run = partial(adapter_harness.run, "claude")

RECORDINGS = Path(__file__).parents[1] / "recordings"
NOTES = "line one\nline two — ünï\n"
TABBED = "\tline one\n\tline two\nline 3\n\n\tlast without end"


def call(name: str, given: Any, id: str = "t1") -> Line:
    """A whole call."""
    block = {"type": "tool_use", "id": id, "name": name, "input": given}
    return {"type": "assistant", "message": {"id": "m1", "content": [block]}}


def returned(details: Any, text: str = "done", **fields: Any) -> Line:
    """A result with its details."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text, **fields}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "tool_use_result": details}


def result(**fields: Any) -> Line:
    """The end of the run."""
    return {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "num_turns": 1, **fields}


def failed(**fields: Any) -> Line:
    """The end of a run that failed."""
    return result(is_error=True, **fields)


def synthetic(error: str, text: str) -> Line:
    """A message of the program itself."""
    message = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, "error": error}


def changes(*lines: Line) -> list[ev.Change]:
    """The changes that the result of the call reports."""
    [found] = of(run(*lines), ev.ToolReturned)
    return found.changes or []


def edited(before: str | None, old: str, new: str, **fields: Any) -> Line:
    """The result of an edit, with hunks that have spaces for tabs, as the program prints them."""
    details = {"filePath": "/p/a", "oldString": old, "newString": new, "originalFile": before, "replaceAll": False}
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-  x", "+  y"]}
    return returned({**details, "structuredPatch": [hunk], "userModified": False, **fields})


@pytest.mark.parametrize(
    ("agent", "case"),
    [
        (agent, case)
        for agent in ("claude", "claude-2.1.329", "ccs", "qwen", "qwen-0.24.4")
        for case in ("tools", "tools.nopartial", "resume")
        if (RECORDINGS / agent / case).is_dir()
    ],
)
def test_recorded_edits_lead_to_the_file(agent: str, case: str) -> None:
    """In each recording in which a file is written, the proposed and the made change have its text."""
    name = agent.split("-")[0]
    stream = Stream(name)
    events = stream.feed((RECORDINGS / agent / case / "input.ndjson").read_bytes()) + stream.close()
    proposed = [change for event in of(events, ev.ToolCalled) for change in event.changes or ()]
    made = [change for event in of(events, ev.ToolReturned) for change in event.changes or ()]
    for change in (*proposed, *made):
        assert (change.path, change.kind, change.added) == ("/tmp/demo/notes.txt", "add", 2)
        assert apply(change.diff or "", "") == NOTES
    assert [change.removed for change in proposed] == [None]
    assert [change.removed for change in made] == [None if name == "qwen" else 0]


@pytest.mark.parametrize(
    ("old", "new", "fields", "after"),
    [
        ("\tline two\n", "\tline TWO\n", {}, TABBED.replace("two", "TWO")),
        ("last without end", "last", {}, TABBED.replace("last without end", "last")),
        ("line", "row", {"replaceAll": True}, TABBED.replace("line", "row")),
        ("line", "row", {}, TABBED.replace("line", "row", 1)),
        ("line 3", "", {}, TABBED.replace("line 3\n", "")),
    ],
)
def test_an_edit_leads_from_one_text_to_the_other(old: str, new: str, fields: Line, after: str) -> None:
    """The change is that of the whole texts: tabs, the end of the last line and a deleted line's end are right."""
    [change] = changes(call("Edit", {"file_path": "/p/a"}), edited(TABBED, old, new, **fields))
    assert apply(change.diff or "", TABBED) == after
    assert change.kind == "update"


def test_a_file_that_is_written_anew() -> None:
    """The content is compared with the file before; equal texts are no change, and not what the input proposes."""
    given = call("Write", {"file_path": "/p/a", "content": NOTES})
    details = {"type": "update", "filePath": "/p/a", "content": NOTES, "originalFile": TABBED, "structuredPatch": []}
    [change] = changes(given, returned(details))
    assert (change.kind, apply(change.diff or "", TABBED)) == ("update", NOTES)
    assert changes(given, returned({**details, "originalFile": NOTES})) == []


def test_hunks_without_the_texts() -> None:
    """Without the file before, and if a person changed the edit, the hunks are the change."""
    for line in (edited(None, "x", "y"), edited("  x\n", "x", "y", userModified=True)):
        [change] = changes(call("Edit", {"file_path": "/p/a"}), line)
        assert change.diff == "@@ -1 +1 @@\n-  x\n+  y\n"


def test_a_cell_of_a_notebook() -> None:
    """The call names the notebook, the result has the whole texts of its file."""
    given = call("NotebookEdit", {"notebook_path": "/p/n.ipynb", "new_source": "1"})
    before, after = '{"cells": [\n 0\n]}\n', '{"cells": [\n 1\n]}\n'
    details = {"notebook_path": "/p/n.ipynb", "original_file": before, "updated_file": after, "new_source": "1"}
    events = run(given, returned(details))
    assert of(events, ev.ToolCalled)[0].changes == [ev.Change("/p/n.ipynb", "update")]
    [change] = of(events, ev.ToolReturned)[0].changes
    assert apply(change.diff, before) == after


def test_what_a_call_proposes() -> None:
    """Replaced parts have no position; a new file has its content; counts that are not known are left out."""
    several = {"file_path": "/p/a", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c"}]}
    everywhere = {"file_path": "/p/a", "old_string": "a", "new_string": "b", "replace_all": True}
    fragment = f"{UNKNOWN_POSITION}-a\n+b\n"
    for name, given, expected in (
        ("MultiEdit", several, ev.Change("/p/a", "update", None, 1, 1, fragment)),
        ("edit", everywhere, ev.Change("/p/a", "update", None, None, None, fragment)),
        ("Edit", {"file_path": "/p/a", "old_string": "", "new_string": "b\n"}, None),
    ):
        [called] = of(read(call(name, given)), up.ToolCall)
        if expected is None:
            assert (called.changes[0].kind, called.changes[0].removed) == ("add", None)
        else:
            assert called.changes == [expected]
    assert of(read(call("Bash", {"file_path": "/p/a", "content": "x"})), up.ToolCall)[0].changes is None


def test_a_report_of_a_sub_agent_is_what_it_said() -> None:
    """What the program adds for the model, the agent's id and its figures, is not in the result."""
    report, added = "The helper reports one file.\nagentId: none.", "agentId: a1 (use SendMessage)\n<usage>x: 1</usage>"
    blocks = [{"type": "text", "text": text} for text in (report, added)]
    details = {"status": "completed", "agentId": "a1", "content": blocks[:1], "totalDurationMs": 856}
    [told] = of(read(returned(details, content=blocks)), up.ToolReturn)
    assert (told.text, told.duration_ms) == (report, 856)
    launched = {"status": "async_launched", "agentId": "a1"}
    assert of(read(returned(launched, "Launched.")), up.ToolReturn)[0].text == "Launched."
    other = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "Another."}]}
    assert of(read(returned(other, content=blocks)), up.ToolReturn)[0].text == f"{report}\n{added}"


ODD: list[Any] = [None, True, 0, -1, 1e300, 10**30, "", "text", [], [None], [[]], {}, {"x": None}, [{"lines": 3}]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_values_are_read(odd: Any) -> None:
    """Whatever a field holds, every line of the stream is read, and the events can be written."""
    edit = {"file_path": "/p/a", "old_string": "a", "new_string": "b", "content": "c", "edits": []}
    details = edited("a\n", "a", "b")["tool_use_result"] | {"content": None, "durationMs": 5, "type": "update"}
    info = {"status": "rejected", "resetsAt": 5, "rateLimitType": "five_hour", "overageStatus": "rejected"}
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "retry_delay_ms": 3}
    ends = {"api_error_status": 429, "permission_denials": [], "terminal_reason": "completed", "stop_reason": "x"}
    lines = [
        call("Edit", odd),
        returned(odd),
        synthetic("rate_limit", "text") | {"error": odd},
        {"type": "rate_limit_event", "rate_limit_info": odd},
        *(call(name, edit | {key: odd}) for name in ("Edit", "MultiEdit", "Write", "NotebookEdit") for key in edit),
        *(returned(details | {key: odd}) for key in details),
        *({"type": "rate_limit_event", "rate_limit_info": info | {key: odd}} for key in info),
        *(retry | {"error": "x", "error_status": 1, key: odd} for key in (*retry, "error", "error_status")[2:]),
        *(failed(**(ends | {key: odd})) for key in ends),
    ]
    for line in lines:
        stream = Stream("claude")
        for event in stream.feed(json.dumps(line).encode() + b"\n") + stream.close():
            msgspec.json.encode(event)
        assert (stream.health.adapter_errors, stream.health.parse_errors) == (0, 0)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([synthetic("authentication_failed", "Failed to authenticate."), failed(api_error_status=401)], "auth"),
        ([synthetic("server_error", "API Error: 500"), failed(api_error_status=500)], "provider"),
        ([synthetic("server_error", "API Error: 529"), failed(api_error_status=529)], "overloaded"),
        ([synthetic("overloaded", "API Error"), failed()], "overloaded"),
        ([synthetic("rate_limit", "API Error: 429"), failed(api_error_status=429)], "rate_limit"),
        ([synthetic("billing_error", "Credit balance is too low"), failed(api_error_status=400)], "usage_limit"),
        ([synthetic("model_not_found", "There is an issue"), failed(api_error_status=404)], "missing"),
        ([synthetic("server_error", "API Error: Unable to connect to API (ConnectionRefused)"), failed()], "network"),
        ([synthetic("invalid_request", "Prompt is too long"), failed(terminal_reason="prompt_too_long")], "context"),
        ([synthetic("max_output_tokens", "API Error: exceeded"), failed()], "length"),
        ([failed(stop_reason="refusal")], "refusal"),
        ([{"type": "system", "subtype": "model_refusal_no_fallback"}, failed()], "refusal"),
        ([synthetic("unknown", "API Error: 529 overloaded, rate limit, network"), failed()], None),
    ],
)
def test_the_cause_of_a_failure(lines: list[Line], cause: ev.Cause | None) -> None:
    """It is that of the names and statuses on the wire; the words of a remark give none."""
    [end] = of(run(*lines), ev.RunEnded)
    assert (end.outcome, end.cause) == ("error", cause)


def test_the_cause_of_the_recorded_failure() -> None:
    """In the recordings of a broken server, retries and end have the provider as their cause."""
    stream = Stream("claude")
    events = stream.feed((RECORDINGS / "claude" / "err500" / "input.ndjson").read_bytes()) + stream.close()
    notices = [(n.attempt, n.max_attempts, n.wait_ms, n.cause) for n in of(events, ev.Notice) if n.code == "retry"]
    assert notices == [(1, 2, 567, "provider"), (2, 2, 1063, "provider")]
    assert of(events, ev.RunEnded)[0].cause == "provider"
    stream = Stream("qwen")
    events = stream.feed((RECORDINGS / "qwen" / "err500" / "input.ndjson").read_bytes()) + stream.close()
    assert (of(events, ev.RunEnded)[0].cause, of(events, ev.RunEnded)[0].refused) == ("provider", 0)


LIMIT = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 1_800_000_000}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (LIMIT, ("usage_limit", 1_800_000_000_000)),
        ({**LIMIT, "resetsAt": 1e300}, ("usage_limit", None)),
        ({**LIMIT, "overageStatus": "allowed"}, ("rate_limit", None)),
        ({**LIMIT, "status": "allowed_warning"}, ("rate_limit", None)),
    ],
)
def test_a_quota_that_is_used_up(info: Line, expected: tuple[str, int | None]) -> None:
    """A 429 after the report that the quota of a subscription is used up is that limit, with the time of its reset."""
    lines = [
        {"type": "rate_limit_event", "rate_limit_info": info},
        synthetic("rate_limit", "You've hit your limit"),
        failed(api_error_status=429),
    ]
    [end] = of(run(*lines), ev.RunEnded)
    assert (end.cause, end.resets_at) == expected


def test_denied_actions_are_counted() -> None:
    """The result has the number of them; after an abort it is not known, as the interrupted call is among them."""
    denials = [{"tool_name": "Write", "tool_use_id": "t1", "tool_input": {}}]
    for line, expected in (
        (result(permission_denials=denials), 1),
        (result(permission_denials=[]), 0),
        (result(), None),
        (failed(permission_denials=denials, terminal_reason="aborted_tools"), None),
    ):
        assert of(run(line), ev.RunEnded)[0].refused == expected


def test_the_frame_of_a_result_is_left_out() -> None:
    """The program's tags around its own error and around a long output are no part of the text; other tags are."""
    long = "<persisted-output>\nOutput too large\n\n1\n2\n</persisted-output>"
    error = "<tool_use_error>File has not been read yet.</tool_use_error>"
    for line, expected in (
        (returned("Error: x", error, is_error=True), "File has not been read yet."),
        (returned({"stdout": error}, error), error),
        (returned({"persistedOutputPath": "/p"}, long), "Output too large\n\n1\n2"),
        (returned({"stdout": long}, long), long),
    ):
        assert of(read(line), up.ToolReturn)[0].text == expected


def test_the_duration_of_a_call() -> None:
    """It is the program's own figure."""
    for key in ("durationMs", "totalDurationMs"):
        assert of(read(returned({key: 12.7})), up.ToolReturn)[0].duration_ms == 12


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("[API Error: 401 This key is not good enough.]", "auth"),
        ("Text. [API Error: 503 no]", "provider"),
        ("[API Error: terminated]", None),
        (
            "[API Error: 429 slow down]\nPossible quota limitations in place or slow response times detected. Please "
            "wait and try again later.",
            "rate_limit",
        ),
        ("Qwen OAuth quota exceeded: Your free daily quota has been reached.", "usage_limit"),
    ],
)
def test_a_failed_call_that_qwen_reports_as_text(said: str, cause: ev.Cause | None) -> None:
    """The program's own remark makes the result an error; its status is the cause."""
    newer = result(subtype="error_during_execution", is_error=True, error={"message": said}, result=None)
    for line in (result(result=said), newer):
        [end] = of(adapter_harness.read(Qwen, line), up.Result)
        assert (end.is_error, end.cause, end.reply) == (True, cause, None)


@pytest.mark.parametrize("content", [{"items": [{"type": "text", "text": "Said."}]}, {"value": 1}, 7, [[]]])
def test_content_of_a_new_type_is_no_text(content: Any) -> None:
    """A message whose content is nothing that is known has no text, and is counted as unknown."""
    stream = Stream("claude")
    line = {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": content}}
    events = [*stream.feed(msgspec.json.encode(line) + b"\n"), *stream.close()]
    assert not [event for event in events if isinstance(event, ev.BlockEnded)]
    assert stream.health.unknown_events == 1
