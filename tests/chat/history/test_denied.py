"""The denied actions of a turn: how many, and what would have allowed them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import events as ev
from penstock.chat.history.denied import MAX_NAME_CHARS, MAX_NAMED, DeniedAction, DeniedActions
from penstock.chat.history.entries import Entry, Prompted, TurnBegan, decode, encode
from penstock.chat.history.timeline import Timeline

OPTIONS = [
    ev.Option("once", "Allow once", "allow_once"),
    ev.Option("always", "Allow always", "allow_always"),
    ev.Option("no", "Reject", "reject_once"),
]


def call(id: str, kind: ev.ToolKind, *, refused: bool = True, failed: bool = False) -> list[ev.Event]:
    """A call with its result."""
    failed = failed or refused
    return [
        ev.ToolCalled(agent="a", call_id=id, name="x", input={}, title="", tool_kind=kind),
        ev.ToolReturned(agent="a", call_id=id, text="", is_error=failed, complete=True, refused=refused),
    ]


def failed(id: str, kind: ev.ToolKind) -> list[ev.Event]:
    """A call that failed, and nothing says why."""
    return call(id, kind, refused=False, failed=True)


def question(ask: ev.Ask, option: str | None, *, by: ev.AnsweredBy = "person", **more: Any) -> list[ev.Event]:
    """A question with its answer."""
    return [
        ev.QuestionAsked(agent="a", id="q", text="?", blocking=True, ask=ask, options=OPTIONS, **more),
        ev.QuestionAnswered(agent="a", id="q", by=by, option=option),
    ]


def ended(refused: int | None = None) -> ev.RunEnded:
    """The end of a run."""
    return ev.RunEnded(agent="a", outcome="ok", reply="", rounds=1, refused=refused)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], (0, None)),
        (call("c", "edit", refused=False), (0, None)),
        (call("c", "edit"), (1, "edits")),
        (call("c", "delete") + call("d", "move"), (2, "edits")),
        (call("c", "execute"), (1, "all")),
        (call("c", "execute") + call("d", "edit"), (2, "all")),
        (call("c", "other"), (1, "all")),
        (question("edit", "no"), (1, None)),
        (question("edit", None, by="nobody"), (1, "edits")),
        (question("outside", "no", tool_kind="edit"), (1, None)),
        (question("outside", None, by="nobody", tool_kind="edit"), (1, "all")),
        ([*question("command", "no"), ended(0)], (1, None)),
        ([*question("command", "no"), ended(1)], (1, None)),
        ([*question("command", "no"), *call("d", "edit"), ended(2)], (2, "edits")),
        ([*question("command", "no"), *failed("d", "edit"), ended(2)], (2, "edits")),
        (question("command", "once"), (0, None)),
        (question("command", "always"), (0, None)),
        (question("command", None, by="withdrawn"), (0, None)),
        (question("choice", None, by="nobody"), (0, None)),
        ([ended(2)], (2, None)),
        ([*failed("c", "edit"), ended(1)], (1, "edits")),
        ([*failed("c", "execute"), ended(1)], (1, "all")),
        ([*failed("c", "execute"), *failed("d", "edit"), ended(1)], (1, None)),
        ([*failed("c", "execute"), ended(0)], (0, None)),
        ([*call("c", "edit"), ended(1)], (1, "edits")),
        ([*call("c", "edit"), ended()], (1, "edits")),
    ],
)
def test_what_was_denied(events: list[ev.Event], expected: tuple[int, str | None]) -> None:
    """The agent's own count has precedence; edits alone need `edits`, and anything else needs `all`."""
    denied = DeniedActions()
    for event in events:
        denied.take(event)
    assert (denied.count, denied.needs_allow) == expected


def test_a_call_that_a_question_denied_counts_once() -> None:
    """A question that is rejected and its call that reports so are one action."""
    began, returned = call("c", "edit")
    denied = DeniedActions()
    for event in (began, *question("edit", None, by="nobody", call_id="c"), returned):
        denied.take(event)
    assert (denied.count, denied.needs_allow) == (1, "edits")


def test_what_a_person_rejected_is_settled() -> None:
    """It is named with who denied it, needs no permission, and its failed call is nobody's else."""
    began, returned = call("c", "execute")
    other = ev.ToolCalled(agent="a", call_id="d", name="Bash", input={}, title="npm \n install", tool_kind="execute")
    denied = DeniedActions()
    rejected = question("command", "no", call_id="c", title="rm -rf build")
    for event in (began, *rejected, returned, other, call("d", "execute")[1], ended(2)):
        denied.take(event)
    assert (denied.count, denied.rejected, denied.needs_allow) == (2, 1, "all")
    assert denied.named == [DeniedAction("rm -rf build", "person"), DeniedAction("npm install", "policy")]


def test_names_of_denied_actions_are_bounded() -> None:
    """So many are named, each with so many characters; the others count."""
    denied = DeniedActions()
    for _ in range(MAX_NAMED + 3):
        for event in question("command", "no", title="x" * 5000):
            denied.take(event)
    assert (denied.count, denied.rejected, len(denied.named)) == (MAX_NAMED + 3, MAX_NAMED + 3, MAX_NAMED)
    assert {len(it.name) for it in denied.named} == {MAX_NAME_CHARS}


def test_a_turn_and_its_last_frame_say_so() -> None:
    """The turn of a snapshot and the frame `finalized` have the number and the permission."""
    whats = [Prompted(1, "go"), TurnBegan(1, "a", "/"), *call("c", "edit"), ended(1)]
    timeline = Timeline()
    timeline.take(decode((number, 1000, data) for number, data in enumerate(encode(whats), 1)))
    [view] = timeline.snapshot().turns
    assert (view.refused, view.needs_allow) == (1, "edits")
    frames = timeline.frames(0)
    assert frames is not None
    assert (frames[-1][1].refused, frames[-1][1].needs_allow) == (1, "edits")  # type: ignore[union-attr]


def test_a_turn_that_failed_says_the_cause() -> None:
    """The turn of a snapshot and the frame `completed` have the cause, and the time at which a limit resets."""
    end = ev.RunEnded(agent="a", outcome="error", reply="", rounds=1, reason="no", cause="usage_limit", resets_at=7)
    timeline = Timeline()
    whats: list[Entry | ev.Event] = [Prompted(1, "go"), TurnBegan(1, "a", "/"), end]
    timeline.take(decode((number, 1000, data) for number, data in enumerate(encode(whats), 1)))
    [view] = timeline.snapshot().turns
    assert (view.cause, view.resets_at) == ("usage_limit", 7)
    completed = [frame for _, frame in timeline.frames(0) or () if type(frame).__name__ == "Completed"]
    assert [(it.cause, it.resets_at) for it in completed] == [("usage_limit", 7)]  # type: ignore[union-attr]


def test_entries_from_before() -> None:
    """Stored entries without the fields that came later are read, and leave them unknown."""
    old = [
        b'{"type":"prompted","turn":1,"text":"go"}',
        b'{"type":"turn_began","turn":1,"agent":"a","cwd":"/"}',
        b'{"type":"tool_called","call_id":"c","name":"Edit","input":{},"title":"f","tool_kind":"edit","agent":"a"}',
        b'{"type":"tool_returned","call_id":"c","text":"","is_error":true,"complete":true,"agent":"a"}',
        b'{"type":"question_asked","id":"q","text":"?","blocking":true,"ask":"edit","agent":"a"}',
        b'{"type":"question_answered","id":"q","by":"withdrawn","agent":"a"}',
        b'{"type":"run_ended","outcome":"error","reply":"","rounds":1,"reason":"no","agent":"a"}',
    ]
    rows = decode((number, 1000, data) for number, data in enumerate(old, 1))
    assert all(row.what is not None for row in rows)
    timeline = Timeline()
    timeline.take(rows)
    [view] = timeline.snapshot().turns
    assert (view.outcome, view.refused, view.needs_allow, view.cause) == ("error", 0, None, None)


def test_failed_calls_are_named_if_as_many_were_denied() -> None:
    """An agent that gives only the number of its denied actions reports them as failed calls: these are named."""
    found = DeniedActions()
    for event in (*failed("c", "execute"), ended(1)):
        found.take(event)
    assert found.named == [DeniedAction("x", "policy")]
