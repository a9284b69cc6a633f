"""What an agent does now: open calls with their output, and the plan; and its progress in the frames."""

from __future__ import annotations

from typing import Any

from penstock import events as ev
from penstock.chat.history import activity
from penstock.chat.history.activity import ActivityFold, AgentActivity
from penstock.chat.history.entries import Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.frames import PlanFrame, PlanProgress
from penstock.chat.history.timeline import Timeline

A: dict[str, Any] = {"agent": "test"}


def called(id: str, title: str = "make") -> ev.ToolCalled:
    """A call of a command."""
    return ev.ToolCalled(call_id=id, name="bash", input={}, title=title, tool_kind="execute", **A)


def printed(block: int, id: str, *texts: str) -> list[ev.Event]:
    """The beginning of a call's output."""
    started = ev.BlockStarted(block=block, kind="tool_output", call_id=id, **A)
    return [started, *(ev.Delta(block=block, kind="tool_output", text=text, **A) for text in texts)]


def returned(id: str) -> ev.ToolReturned:
    """The result of a call."""
    return ev.ToolReturned(call_id=id, text="all", is_error=False, complete=True, **A)


def plan(*states: Any, parent: str | None = None) -> ev.PlanChanged:
    """A plan with items of these states."""
    items = [ev.PlanItem(f"step {number}", state) for number, state in enumerate(states, 1)]
    return ev.PlanChanged(items=items, parent=parent, **A)


def now(*events: ev.Event) -> AgentActivity:
    """What is done after these events, the first at 1, the next at 2, and so on."""
    fold = ActivityFold()
    for at, event in enumerate(events, 1):
        fold.take(event, at)
    return fold.now()


def test_open_calls_have_their_output_so_far() -> None:
    """Output is that of its call, whichever comes first; what is revised is replaced; a result ends the call."""
    found = now(called("a"), *printed(1, "b", "early "), called("b", "sleep 9"), *printed(2, "a", "one\n", "two\n"))
    assert [(it.title, it.at, it.output) for it in found.calls] == [("make", 1, "one\ntwo\n"), ("sleep 9", 4, "early ")]
    revised = ev.BlockRevised(block=1, kind="tool_output", text="other", **A)
    found = now(called("a"), *printed(1, "a", "one"), revised, called("b"), returned("b"), returned("never"))
    assert [(it.title, it.output) for it in found.calls] == [("make", "other")]
    orphan = ev.Delta(block=9, kind="tool_output", text="of nobody", **A)
    assert now(called("a"), orphan).calls[0].output == ""
    text: list[ev.Event] = [
        ev.BlockStarted(block=5, kind="text", **A),
        ev.Delta(block=5, kind="text", text="hello", **A),
    ]
    assert now(*text, *printed(1, "a", "x"), returned("a"), called("a")).calls[0].output == ""


def test_calls_and_output_are_bounded() -> None:
    """Calls that never end, and output without end, take no more than a part of it."""
    many: list[ev.Event] = [it for n in range(1000) for it in (called(f"c{n}"), *printed(n, f"c{n}", "x"))]
    assert len(now(*many).calls) == activity.MAX_CALLS
    (call,) = now(called("a"), *printed(1, "a", *["0123456789\n"] * 20_000)).calls
    assert len(call.output) < activity.MAX_OUTPUT_CHARS + 10
    assert call.shortened == 220_000 - activity.MAX_OUTPUT_CHARS
    assert (call.output[:3], call.output[-4:]) == ("012", "789\n")


def test_the_plan_is_that_of_the_agent_itself() -> None:
    """The newest one counts; those of sub-agents are in the details."""
    found = now(plan("pending"), plan("completed", "pending"), plan("completed", parent="c1"))
    assert [(item.text, item.status) for item in found.plan] == [("step 1", "completed"), ("step 2", "pending")]


def folded(*whats: Entry | ev.Event) -> Timeline:
    """A chat whose first turn runs."""
    timeline = Timeline()
    begun: list[Entry | ev.Event] = [Prompted(1, "do it"), TurnBegan(1, "test", "/shop"), *whats]
    timeline.take([Numbered(number, 1000 + number, what) for number, what in enumerate(begun, 1)])
    return timeline


def test_progress_is_in_the_view_while_the_turn_runs() -> None:
    """Clients see how much is done, never the words; an empty plan is gone, and so is that of an ended turn."""
    timeline = folded(plan("completed", "in_progress", "pending"))
    assert timeline.turns[1].plan == PlanProgress(1, 3)
    assert "step 1" not in repr(timeline.snapshot())
    assert folded(plan("pending"), plan()).turns[1].plan is None
    assert folded(plan("pending", parent="c1")).turns[1].plan is None
    ended = folded(plan("pending"), TurnEnded(1, "cut_off"))
    assert ended.turns[1].plan is None
    assert ended.activity(1) == AgentActivity()


def test_of_many_plans_a_client_gets_the_newest() -> None:
    """Progress that was replaced is not sent to who comes back."""
    timeline = folded()
    before = timeline.number
    more = [plan(*["completed"] * done, *["pending"] * (3 - done)) for done in range(4)]
    timeline.take([Numbered(before + n, 2000, event) for n, event in enumerate(more, 1)])
    found = [frame for _, frame in timeline.frames(before) or () if isinstance(frame, PlanFrame)]
    assert found == [PlanFrame(1, 3, 3)]
