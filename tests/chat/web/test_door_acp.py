"""Updates of ACP made of every recording, judged by the types of the protocol's own package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazy_modules import LazyModule
from recorded_turns import end_of, entries_of

from penstock import events as ev
from penstock.chat.history.entries import Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.turn import Completed
from penstock.chat.web.doors.acp import AcpTurn, diffs, stop_reason, usage_of
from penstock.chat.web.doors.turn_fold import FAILURES

if TYPE_CHECKING:
    import acp.schema as acp

    from conftest import Recording
else:
    acp = LazyModule("acp.schema")

STATES = {"in_progress": {"completed", "failed"}}


def judged(updates: list[dict[str, Any]]) -> str:
    """The text of the message; every update is one that the protocol has, and every call returns once at most."""
    calls: dict[str, str] = {}
    text = ""
    for update in updates:
        notification = acp.SessionNotification.model_validate({"sessionId": "s", "update": update})
        assert notification.update.session_update == update["sessionUpdate"]
        kind = update["sessionUpdate"]
        if kind == "tool_call":
            assert update["toolCallId"] not in calls
            calls[update["toolCallId"]] = update["status"]
        elif kind == "tool_call_update":
            assert update["status"] in STATES[calls[update["toolCallId"]]]
            calls[update["toolCallId"]] = update["status"]
        elif kind == "agent_message_chunk":
            text += update["content"]["text"]
        for part in update.get("content", ()) if kind.startswith("tool_call") else ():
            assert part["type"] != "diff" or part["path"].startswith("/")
    return text


def test_the_message_is_the_reply_alone(recording: Recording) -> None:
    """However the entries are cut: the chunks are the turn's message, never text that was replaced or withdrawn."""
    rows = entries_of(recording)
    end = end_of(rows)
    shown = AcpTurn(2, "/demo")
    whole = shown.take(rows)
    assert judged(whole) == (end.message if end.message.strip() else "")
    assert (stop_reason(end) is None) == (end.outcome in FAILURES and end.cause not in ("refusal", "length"))
    single = AcpTurn(2, "/demo")
    one_by_one = [update for row in rows for update in single.take([row])]
    assert judged(one_by_one) == judged(whole)
    assert [it["toolCallId"] for it in one_by_one if "toolCallId" in it] == [
        it["toolCallId"] for it in whole if "toolCallId" in it
    ]
    usage = usage_of(shown.fold.usage)
    last = next((row.what.usage for row in rows if isinstance(row.what, ev.RunEnded)), None) or ev.Usage()
    if last.input_tokens is None or last.output_tokens is None:
        assert usage is None
    else:
        read = acp.Usage.model_validate(usage)
        assert (read.input_tokens, read.output_tokens) == (last.input_tokens, last.output_tokens)
        assert read.total_tokens == last.input_tokens + last.output_tokens
        assert (read.cached_read_tokens, read.cached_write_tokens) == (last.cached_tokens, last.cache_write_tokens)
        assert read.thought_tokens == last.reasoning_tokens


def test_a_cut_is_never_a_success(recording: Recording) -> None:
    """A turn whose entries stop anywhere has no reason to stop, and so becomes an error."""
    rows = entries_of(recording)
    ends = [at for at, row in enumerate(rows) if isinstance(row.what, ev.Replied | ev.RunEnded)]
    for cut in {3, (ends[0] + 3) // 2, ends[0]}:
        shown = AcpTurn(2, "/demo")
        shown.take([*rows[:cut], Numbered(9_999, 9_999, TurnEnded(2, "cut_off", "the process was killed"))])
        assert shown.fold.completed is not None
        assert stop_reason(shown.fold.completed) is None


def _rows(*events: ev.Event) -> list[Numbered]:
    found: list[Entry | ev.Event] = [Prompted(1, "Go"), TurnBegan(1, "claude", "/demo"), *events]
    return [Numbered(number, number, what) for number, what in enumerate(found, 1)]


def _text(block: int, text: str) -> list[ev.Event]:
    return [ev.Delta(agent="claude", block=block, kind="text", text=text)]


def test_text_before_a_call_is_a_thought() -> None:
    """And so is text before a plan; the tags of models are in neither."""
    item = ev.PlanItem("Do it", "pending")
    rows = _rows(
        *_text(1, "<think>secret</think>I look."),
        ev.ToolCalled(agent="claude", call_id="c", name="Read", input={}, title="a", tool_kind="read"),
        *_text(2, "I plan."),
        ev.PlanChanged(agent="claude", items=[item]),
        *_text(3, "Done."),
        ev.RunEnded(agent="claude", outcome="ok", reply="Done.", rounds=3),
    )
    updates = AcpTurn(1, "/demo").take(rows)
    assert [(it["sessionUpdate"], it.get("content", {}).get("text")) for it in updates] == [
        ("agent_thought_chunk", "I look."),
        ("tool_call", None),
        ("agent_thought_chunk", "I plan."),
        ("plan", None),
        ("agent_message_chunk", "Done."),
    ]
    assert judged(updates) == "Done."


def test_withdrawn_text_is_nowhere() -> None:
    """An attempt that the agent gave up, and a text that was revised, are not even thoughts."""
    rows = _rows(
        ev.MessageStarted(agent="claude", message=1),
        *_text(1, "Wrong."),
        ev.MessageEnded(agent="claude", message=1, status="superseded"),
        ev.MessageStarted(agent="claude", message=2),
        *_text(2, "Wromg"),
        ev.BlockRevised(agent="claude", block=2, kind="text", text="Right."),
        ev.MessageEnded(agent="claude", message=2, status="ok"),
        ev.RunEnded(agent="claude", outcome="ok", reply="Right.", rounds=1),
    )
    updates = AcpTurn(1, "/demo").take(rows)
    assert [it["content"]["text"] for it in updates] == ["Right."]


def test_warnings_are_notices() -> None:
    """For clients that have them; what the agent only reports, and the session of others, has none."""
    rows = _rows(
        ev.Notice(agent="claude", level="info", code="status", text="Starting"),
        ev.Notice(agent="claude", level="warning", code="retry", text="Overloaded\nTrying again"),
        ev.RunEnded(agent="claude", outcome="ok", reply="", rounds=0),
    )
    expected = {"sessionUpdate": "notice", "severity": "warning", "title": "Overloaded", "description": "Trying again"}
    assert AcpTurn(1, "/demo", has_notices=True).take(rows) == [expected]
    assert AcpTurn(1, "/demo").take(rows) == []


def test_compactions_have_a_place() -> None:
    """For clients that show them: each is in progress until the agent does something else, or has failed."""
    rows = _rows(
        ev.Notice(agent="pi", level="info", code="compaction", text="compacting the conversation"),
        ev.Notice(agent="pi", level="info", code="compaction", text="conversation compacted"),
        ev.Notice(agent="pi", level="info", code="compaction", text="of a sub-agent", parent="c"),
        ev.Delta(agent="pi", block=1, kind="thinking", text="So."),
        ev.Notice(agent="pi", level="warning", code="compaction", text="too long"),
        ev.Notice(agent="pi", level="info", code="compaction", text="compacting the conversation"),
        ev.RunEnded(agent="pi", outcome="ok", reply="", rounds=0),
    )

    def shown(**has: bool) -> list[tuple[str, str]]:
        updates = AcpTurn(1, "/demo", **has).take(rows)
        found = [it for it in updates if it["sessionUpdate"] == "compaction_update"]
        assert [it.get("error") for it in found if it["status"] == "failed"] in ([], ["too long"])
        assert has or not [it for it in updates if it["sessionUpdate"] == "notice"]
        return [(it["compactionId"], it["status"]) for it in found]

    assert shown(has_compactions=True) == [
        *[("t1.compaction1", "in_progress")] * 2,
        ("t1.compaction1", "completed"),
        ("t1.compaction2", "failed"),
        ("t1.compaction3", "in_progress"),
        ("t1.compaction3", "completed"),
    ]
    assert shown() == shown(has_notices=True) == []


def test_each_hunk_is_a_diff() -> None:
    """With the text before and after, an absolute path, and nothing before a file that is new."""
    diff = "@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n@@\n-x\n"
    change = ev.Change("src/a.py", "update", diff=diff, truncated=True)
    assert diffs([change], "/demo") == [
        {"type": "diff", "path": "/demo/src/a.py", "oldText": "one\ntwo\n", "newText": "one\n2"},
        {"type": "diff", "path": "/demo/src/a.py", "oldText": "x\n", "newText": ""},
        {
            "type": "content",
            "content": {"type": "text", "text": "… [the rest of the changes of src/a.py is not shown]"},
        },
    ]
    assert diffs([ev.Change("/b", "add", diff="@@ -0,0 +1 @@\n+new\n")], "/demo") == [
        {"type": "diff", "path": "/b", "newText": "new\n"}
    ]
    moved = diffs([ev.Change("a", "move", to="b")], "/demo")
    assert moved == [{"type": "content", "content": {"type": "text", "text": "a → b"}}]


def test_reasons_to_stop() -> None:
    """What a person has stopped is cancelled; what failed has no reason at all."""
    found = {
        outcome: stop_reason(Completed("", outcome))
        for outcome in ("ok", "empty", "cancelled", "error", "timed_out", "cut_off")
    }
    assert found == {"ok": "end_turn", "empty": "end_turn", "cancelled": "cancelled"} | dict.fromkeys(FAILURES)
    assert stop_reason(Completed("", "error", cause="refusal")) == "refusal"
    assert stop_reason(Completed("", "error", cause="length")) == "max_tokens"
