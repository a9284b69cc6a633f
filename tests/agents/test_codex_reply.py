"""What the reply of codex is, on both of its routes: a script of one turn is written as either of them prints it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.events import Delta, Event, MessageEnded, PlanChanged, RunEnded
from penstock.stream import Stream
from penstock.testing import feeds, verify

Line = dict[str, Any]
Script = list[tuple[str, ...]]
"""What happens in a turn: `say TEXT [PHASE]`, `half TEXT [PHASE]` (it is never completed), `plan STATUS`, `run`,
`used` (a model call is over; exec does not say so)."""


def exec_lines(script: Script, end: str) -> Iterator[Line]:
    """The turn as `codex exec --json` prints it."""
    yield {"type": "thread.started", "thread_id": "t"}
    yield {"type": "turn.started"}
    todo: Line = {}
    for number, (what, *words) in enumerate(script):
        item: Line = {"id": f"item_{number}"}
        if what == "say":
            phase = {"phase": words[1]} if len(words) > 1 else {}
            yield {"type": "item.completed", "item": {**item, "type": "agent_message", "text": words[0], **phase}}
        elif what == "plan":
            steps = [{"text": "Work", "completed": words[0] == "completed"}]
            event = "item.updated" if todo else "item.started"
            todo = {"id": todo.get("id", item["id"]), "type": "todo_list", "items": steps}
            yield {"type": event, "item": todo}
        elif what == "run":
            command = {**item, "type": "command_execution", "command": "ls"}
            yield {"type": "item.started", "item": command}
            yield {"type": "item.completed", "item": {**command, "aggregated_output": "x", "exit_code": 0}}
    if todo:
        yield {"type": "item.completed", "item": todo}
    if end == "completed":
        yield {"type": "turn.completed", "usage": {"input_tokens": 1}}
    elif end != "interrupted":
        yield {"type": "turn.failed", "error": {"message": end}}


def server_lines(script: Script, end: str) -> Iterator[Line]:
    """The turn as `codex app-server` tells it."""

    def told(method: str, **params: Any) -> Line:
        return {"method": method, "params": {"threadId": "t", "turnId": "u", **params}}

    yield {"id": 1, "result": {"thread": {"id": "t"}, "model": "m"}}
    yield told("turn/started", turn={"id": "u"})
    total = 0
    for number, (what, *words) in enumerate(script):
        id = f"i{number}"
        if what in ("say", "half"):
            item = {"type": "agentMessage", "id": id, "phase": words[1] if len(words) > 1 else None}
            yield told("item/started", item={**item, "text": ""})
            for at in range(0, len(words[0]), 4):
                yield told("item/agentMessage/delta", itemId=id, delta=words[0][at : at + 4])
            if what == "say":
                yield told("item/completed", item={**item, "text": words[0]})
        elif what == "plan":
            yield told("turn/plan/updated", plan=[{"step": "Work", "status": words[0]}])
        elif what == "run":
            item = {"type": "commandExecution", "id": id, "command": "ls"}
            yield told("item/started", item=item)
            yield told("item/completed", item={**item, "aggregatedOutput": "x", "exitCode": 0, "status": "completed"})
        elif what == "used":
            total += 1
            figures = {"total": {"inputTokens": total}, "last": {"inputTokens": 1}}
            yield told("thread/tokenUsage/updated", tokenUsage=figures)
    status = end if end in ("completed", "interrupted") else "failed"
    error = {"message": end} if status == "failed" else None
    yield told("turn/completed", turn={"id": "u", "status": status, "error": error})


ROUTES: dict[str, Callable[[Script, str], Iterator[Line]]] = {"codex": exec_lines, "codex/server": server_lines}
both = pytest.mark.parametrize("route", ROUTES)


def read(route: str, lines: list[Line]) -> list[Event]:
    """The events of these lines, which keep the contract."""
    events = feeds.whole(Stream(route), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert verify(events) == []
    return events


def play(route: str, *script: tuple[str, ...], end: str = "completed") -> RunEnded:
    """How a turn ends."""
    last = read(route, list(ROUTES[route](list(script), end)))[-1]
    assert isinstance(last, RunEnded)
    return last


@both
@pytest.mark.parametrize(
    "script",
    [
        [("say", "First."), ("plan", "pending"), ("used",), ("say", "Last."), ("used",)],
        [("say", "First."), ("plan", "pending"), ("used",), ("plan", "completed"), ("used",), ("say", "Last.")],
        [("plan", "pending"), ("say", "First."), ("plan", "completed"), ("say", "Last.")],
        [("say", "First."), ("plan", "pending"), ("say", "Middle."), ("plan", "pending"), ("say", "Last.")],
        [("say", "First."), ("run",), ("say", "Middle."), ("plan", "completed"), ("say", "Last.")],
    ],
)
def test_a_plan_ends_a_round(route: str, script: Script) -> None:
    """What was said before the plan changed is not the reply, also where the plan is told to be as it was."""
    assert play(route, *script).reply == "Last."


@both
def test_a_plan_that_comes_last(route: str) -> None:
    """The text before it is the reply, and a plan before any text takes nothing away."""
    assert play(route, ("say", "Done."), ("plan", "completed")).reply == "Done."
    assert (
        play(route, ("plan", "pending"), ("say", "Done."), ("used",), ("plan", "completed"), ("used",)).reply == "Done."
    )
    assert play(route, ("plan", "pending"), ("say", "Done.")).rounds == 1


@both
def test_messages_without_a_mark_between_them(route: str) -> None:
    """Two items of one model call are both the reply, and are not glued."""
    assert play(route, ("say", "One."), ("say", "Two."), ("used",)).reply == "One.\n\nTwo."


def test_a_model_call_that_left_no_trace() -> None:
    """A tool that codex does not know makes no item; that another model call came after it, the figures tell."""
    assert play("codex/server", ("say", "Trying."), ("used",), ("say", "Done."), ("used",)).reply == "Done."


@both
@pytest.mark.parametrize(
    ("script", "reply"),
    [
        ([("say", "Looking.", "commentary"), ("say", "Done.", "final_answer")], "Done."),
        ([("say", "Looking.", "commentary"), ("run",), ("say", "Done.", "final_answer")], "Done."),
        ([("say", "Done.", "final_answer"), ("say", "By the way.", "commentary")], "Done."),
        ([("say", "Done.", "final_answer"), ("run",), ("say", "Tidied up.", "commentary")], "Done."),
        ([("say", "Done.", "final_answer"), ("plan", "completed"), ("say", "Plan ticked off.")], "Done."),
        ([("say", "One.", "final_answer"), ("say", "Two.", "final_answer")], "One.\n\nTwo."),
        ([("say", "Old.", "final_answer"), ("run",), ("say", "New.", "final_answer")], "New."),
        ([("say", "Unmarked."), ("say", "Done.", "final_answer")], "Done."),
        ([("say", "A.", "commentary"), ("run",), ("say", "B.", "commentary")], "B."),
        ([("say", "A.", "commentary"), ("say", "B.", "commentary")], "A.\n\nB."),
        ([("say", "A.", "commentary"), ("say", "B.")], "B."),
        ([("say", "A.", "hologram"), ("say", "B.", "hologram")], "A.\n\nB."),
        ([("say", "A.", "hologram"), ("run",), ("say", "B.", "partial_answer")], "B."),
    ],
)
def test_codex_says_what_its_answer_is(route: str, script: Script, reply: str) -> None:
    """A phase decides where there is one; a commentary is the reply only where nothing else was said."""
    assert play(route, *script).reply == reply


@pytest.mark.parametrize("where", ["started", "completed"])
@pytest.mark.parametrize("value", [None, 7, ["final_answer"], "hologram"])
def test_a_phase_may_come_at_one_end_only(where: str, value: Any) -> None:
    """A phase is taken from the beginning of an item or from its end; what says nothing does not undo it."""
    lines = list(server_lines([("say", "Looking.", "final_answer"), ("say", "Well.", "final_answer")], "completed"))
    for line in lines:
        item = line.get("params", {}).get("item")
        if item and (item["id"] == "i0" or not line["method"].endswith(where)):
            item["phase"] = value
    assert read("codex/server", lines)[-1].reply == "Well."  # type: ignore[union-attr]
    lines = [
        {"type": "item.started", "item": {"id": "a", "type": "agent_message", "text": "", "phase": "final_answer"}}
    ]
    done = [{"type": "item.completed", "item": {"id": "a", "type": "agent_message", "text": "Well.", "phase": value}}]
    more = [{"type": "item.completed", "item": {"id": "b", "type": "agent_message", "text": "And so on."}}]
    assert read("codex", [*lines, *done, *more, {"type": "turn.completed"}])[-1].reply == "Well."  # type: ignore[union-attr]


def test_the_answer_of_a_turn_that_was_interrupted() -> None:
    """What had come of the answer is the reply; with commentary alone, that is."""
    half = play(
        "codex/server", ("say", "Looking.", "commentary"), ("half", "The ans", "final_answer"), end="interrupted"
    )
    assert (half.reply, half.outcome) == ("The ans", "cancelled")
    assert play("codex/server", ("half", "Looki", "commentary"), end="interrupted").reply == "Looki"


def test_the_next_turn_has_an_answer_of_its_own() -> None:
    """An answer is that of its turn: a later turn without one does not give it again."""
    first = list(exec_lines([("say", "Done.", "final_answer")], "completed"))
    second = list(exec_lines([("say", "Looking again.", "commentary")], "completed"))[1:]
    second[1]["item"]["id"] = "item_9"
    assert read("codex", [*first, *second])[-1].reply == "Looking again."  # type: ignore[union-attr]


def test_a_plan_in_the_middle_of_a_message_does_not_tear_it() -> None:
    """The message goes on in its block; what comes behind it is another round."""
    lines = list(server_lines([("say", "One long message."), ("say", "Last.")], "completed"))
    plan = {"method": "turn/plan/updated", "params": {"threadId": "t", "plan": [{"step": "W", "status": "pending"}]}}
    events = read("codex/server", [*lines[:4], plan, *lines[4:]])
    assert (
        "".join(event.text for event in events if isinstance(event, Delta) and event.block == 1) == "One long message."
    )
    assert any(isinstance(event, PlanChanged) for event in events)
    assert len([event for event in events if isinstance(event, MessageEnded)]) == 2
    assert (events[-1].reply, events[-1].rounds) == ("Last.", 2)  # type: ignore[union-attr]


def test_a_retry_keeps_no_phase_of_the_attempt_before() -> None:
    """The answer that broke off is given up with its phase."""
    retry = {"method": "error", "params": {"threadId": "t", "willRetry": True, "error": {"message": "again"}}}
    half = list(server_lines([("half", "The ans", "final_answer")], "completed"))[:-1]
    again = list(server_lines([("used",), ("say", "The answer.")], "completed"))[3:]
    assert read("codex/server", [*half, retry, *again])[-1].reply == "The answer."  # type: ignore[union-attr]


@both
def test_a_reply_that_was_cut_off(route: str) -> None:
    """The limit of tokens is an error with the one reason, and the reply is kept."""
    end = play(route, ("say", "Half a rep"), end="Incomplete response returned, reason: max_output_tokens")
    assert (end.outcome, end.reason, end.reply) == ("error", "the model stopped at its output limit", "Half a rep")
