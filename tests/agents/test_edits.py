"""Changes of edits: on the recordings of the routes that have them, and with any value in their fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adapter_harness
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patching import apply, hunks, is_positioned

from penstock.agents import _edits
from penstock.agents.cline.diff import change_of
from penstock.agents.pi import diff as pi
from penstock.agents.registry import AGENTS
from penstock.core import diffs
from penstock.core.diffs import Hunk
from penstock.events import Change, QuestionAsked, RunEnded, ToolCalled, ToolReturned
from penstock.stream import Stream

RECORDINGS = Path(__file__).parents[1] / "recordings"
README = "".join(f"line {number}\n" for number in range(1, 31))
"""Text of the file before the case `edit`."""
EDITED = README.replace("line 10\nline 11\n", "line ten\nline eleven — ünï\nextra\n").replace("line 25\n", "")
"""Text of the file after both edits."""
NOTES = "line one\nline two — ünï\n"
"""Text with which the last call writes the file anew."""

ROUTES = {
    "claude-acp": ("acp", "acp/claude-edit", NOTES),
    "cline-acp": ("acp", "acp/cline-edit", EDITED),
    "cline-exec": ("cline", "cline/edit", EDITED),
    "codex-acp": ("acp", "acp/codex-edit_2", NOTES),
    "codex-acp_0.16": ("acp", "acp/codex-edit", NOTES),
    "copilot-acp": ("acp", "acp/copilot-edit", EDITED),
    "copilot-exec": ("copilot", "copilot/edit", EDITED),
    "droid-exec": ("droid", "droid/edit", NOTES),
    "gemini-acp": ("acp", "acp/gemini-edit", NOTES),
    "gemini-exec": ("gemini", "gemini/edit", NOTES),
    "goose-acp": ("acp", "acp/goose-edit", EDITED),
    "goose-exec": ("goose", "goose/edit", EDITED),
    "kilo-exec": ("kilo", "kilo/edit", EDITED),
    "opencode-acp": ("acp", "acp/opencode-edit", NOTES),
    "pi-exec": ("pi", "pi/edit", NOTES),
    "vibe-acp": ("acp", "acp/vibe-edit", NOTES),
    "qwen-acp": ("acp", "acp/qwen-edit", NOTES),
}
"""Routes, each with the reader and the recording of the case `edit`, and the text of the file after it. The tools of
some reject the last call, which writes a file that exists, or show no diff of it."""


OLDER = {"codex-acp_0.16"}
"""Routes whose recording is of an older version, with line numbers that the tested one leaves out."""


def events_of(route: str) -> list[Any]:
    """The events of a route's recording."""
    agent, name, _ = ROUTES[route]
    stream = Stream(agent, strict=True)
    return stream.feed((RECORDINGS / name / "input.ndjson").read_bytes()) + stream.close()


@pytest.mark.parametrize("route", ROUTES)
def test_the_changes_that_were_made_lead_from_the_file_before_to_the_file_after(route: str) -> None:
    """Each is in the detail that the facts of the route name, and has the counts of its lines."""
    text = README
    returned = [event for event in events_of(route) if isinstance(event, ToolReturned) and event.changes]
    made = [change for event in returned for change in event.changes or ()]
    for change in made:
        text = apply(change.diff or "", text if change.kind == "update" else "")
    assert text == ROUTES[route][2]
    agent, name = route.partition("_")[0].split("-")
    positioned = all(is_positioned(header) for header, _ in hunks(made[0].diff or ""))
    assert positioned == (AGENTS[agent].routes[name].made == "diff" or route in OLDER)
    assert [(change.kind, change.added, change.removed) for change in made[:2]] == [("update", 3, 2), ("update", 0, 1)]


@pytest.mark.parametrize("route", ROUTES)
def test_a_call_that_failed_has_proposed_changes_and_made_none(route: str) -> None:
    """The third edit names lines that are not in the file."""
    events = events_of(route)
    failed = next((e.call_id for e in events if isinstance(e, ToolReturned) and e.is_error), None)
    proposed = {e.call_id: e.changes for e in events if isinstance(e, ToolCalled)}
    returned = {e.call_id: e.changes for e in events if isinstance(e, ToolReturned)}
    if route.startswith("codex-acp"):  # it does not report such a call
        assert failed is None
        return
    assert failed is not None
    assert returned[failed] is None
    assert bool(proposed[failed]) == (route != "gemini-acp")  # which proposes in its questions only


def test_questions_have_the_changes_for_which_the_permission_is_asked() -> None:
    """Copilot's request has a diff; gemini's has the whole texts, and its call has no input."""
    stream = Stream("acp", strict=True)
    events = stream.feed((RECORDINGS / "acp/gemini-permission_allow/input.ndjson").read_bytes()) + stream.close()
    [asked] = [event for event in events if isinstance(event, QuestionAsked) and event.ask == "edit"]
    assert asked.changes == [diffs.from_texts("/tmp/demo/notes.txt", None, NOTES)]


def test_the_other_side_of_a_recorded_dialogue_is_not_known() -> None:
    """Answers to permissions are not in the agent's output, so it is not known whether an action was denied."""
    stream = Stream("acp")
    events = stream.feed((RECORDINGS / "acp/gemini-permission_allow/input.ndjson").read_bytes()) + stream.close()
    assert isinstance(events[-1], RunEnded)
    assert events[-1].refused is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": "a", "old_str": "x\n", "new_str": "y\n"}, diffs.from_fragments("a", [("x\n", "y\n")])),
        ({"file_path": "a", "old_string": "", "new_string": "y\n"}, diffs.from_content("a", "y\n")),
        ({"filePath": "a", "content": "y\n"}, diffs.from_content("a", "y\n")),
        ({"path": "a", "edits": [{"oldText": "x", "newText": "y"}, 5, {"oldText": "z", "newText": ""}]},
         diffs.from_fragments("a", [("x", "y"), ("z", "")])),
        ({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True},
         Change("a", "update", diff="@@\n-x\n+y\n")),
        ({"path": "a", "patch": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n"}, diffs.from_texts("a", "x\n", "y\n")),
        ({"input": "*** Begin Patch\n*** Delete File: a\n*** End Patch"}, Change("a", "delete")),
        ({"path": "a", "patch": "in words"}, None),
        ({"path": 1, "content": "y"}, None),
        ({"path": "a"}, None),
        ("a", None),
    ],
)  # fmt: skip
def test_the_input_of_an_edit_proposes_changes(given: Any, expected: Change | None) -> None:
    """The fields have many names; a replacement in all places has no counts."""
    assert _edits.proposed(given) == (None if expected is None else [expected])


def test_an_empty_line_at_the_end_of_a_diff_of_copilot_may_be_the_end_of_the_file() -> None:
    """It is left out, as the rest is valid without it."""
    text = "\ndiff --git a/n b/n\n--- a/n\n+++ b/n\n@@ -2,3 +2,3 @@\n b\n-c\n+d\n \n"
    assert _edits.from_git(text, ["/n"]) == [diffs.from_hunks("/n", [Hunk(2, 2, 2, 2, [" b", "-c", "+d"])])]
    assert _edits.from_git(text, ["/n", "/m"]) is None


def test_a_diff_of_pi_has_hunks_between_its_gaps() -> None:
    """Removed lines and the context are numbered as before, added lines as after."""
    diff = "+ 1 new\n  1 a\n    ...\n  9 i\n-10 j\n+11 k\n+12 l\n 11 m\n    ..."
    assert pi.hunks(diff) == [
        Hunk(1, 1, 1, 2, ["+new", " a"]),
        Hunk(9, 3, 10, 4, [" i", "-j", "+k", "+l", " m"]),
    ]
    assert pi.hunks("@@ -1 +1 @@\n-x\n+y") is None


def test_a_long_diff_of_cline_has_the_counts_of_the_whole() -> None:
    """The program names the number of lines that it leaves out."""
    head = "Edited /srv/a b.md\n```diff\n"
    cut = change_of(f"{head}-3: x: y\n+3: ```\n... diff truncated (4 more removed, 0 more added lines) ...\n```")
    assert cut == Change("/srv/a b.md", "update", added=1, removed=5, diff="@@ -3 +3 @@\n-x: y\n+```\n", truncated=True)
    assert change_of(f"{head}```") is None
    assert change_of(f"{head}no line\n```") is None
    assert change_of("Edited by hand") is None


_KEYS = [
    *(
        "path",
        "file_path",
        "old_string",
        "new_string",
        "oldText",
        "newText",
        "edits",
        "content",
        "diff",
        "patch",
        "type",
    ),
    *("changes", "unified_diff", "move_path", "structuredPatch", "filePath", "originalFile", "detailedContent", "kind"),
    *("metadata", "filediff", "exists", "details", "success", "result", "insert_line", "new_text", "lines", "oldStart"),
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["@@ -1 +1 @@", "*** Begin Patch"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
def test_any_value_in_the_fields_of_an_edit_is_read(given: Any, result: Any, more: Any) -> None:
    """No reader raises, whatever the fields hold."""
    meta = {"claudeCode": {"toolResponse": result}}
    patch = {"toolCallId": "c", "kind": "edit", "rawInput": given, "content": [given, more], "locations": more}
    ended = {"toolCallId": "c", "status": "completed", "rawOutput": result, "_meta": meta, "content": [result]}
    for agent, lines in {
        "acp": [_updated("tool_call", patch), _updated("tool_call_update", ended)],
        "pi": [
            {"type": "tool_execution_start", "toolCallId": "c", "toolName": "edit", "args": given},
            {"type": "tool_execution_end", "toolCallId": "c", "toolName": "edit", "result": result, "isError": False},
        ],
        "gemini": [
            {"type": "tool_use", "tool_name": "replace", "tool_id": "c", "parameters": given},
            {"type": "result", "status": "error", "error": result},
        ],
        "copilot": [
            {"type": "tool.execution_start", "data": {"toolCallId": "c", "toolName": "edit", "arguments": given}},
            {"type": "model.call_failure", "data": more},
            {
                "type": "tool.execution_complete",
                "data": {"toolCallId": "c", "success": True, "result": result, "fileEdits": [more, given]},
            },
        ],
        "cline": [
            _inner("content_start", input=given),
            _inner("content_end", output=result, durationMs=more),
            {"type": "agent_event", "event": {"type": "error", "error": result, "errorClass": more}},
        ],
        "generic": [{"type": "tool_call", "id": "c", "name": "edit", "input": given}],
    }.items():
        adapter_harness.run(agent, *lines)


def _updated(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    update = {"sessionUpdate": kind, **fields}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


def _inner(kind: str, **fields: Any) -> dict[str, Any]:
    event = {"type": kind, "contentType": "tool", "toolName": "editor", "toolCallId": "c", **fields}
    return {"type": "agent_event", "event": event}
