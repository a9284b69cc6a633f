"""Turns whose changes were taken back: what clients see of it, and what a turn has left."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock import events as ev
from penstock.chat.history import timeline
from penstock.chat.history.changes import ChangesFold, take_turn
from penstock.chat.history.entries import (
    Entry,
    FilesLeft,
    Numbered,
    Prompted,
    TurnBegan,
    TurnEnded,
    Undone,
    decode,
    encode,
)
from penstock.chat.history.frames import UndoneFiles
from penstock.chat.history.timeline import Timeline
from penstock.core import diffs
from penstock.events import Change
from penstock.repo.file_undo import FileUndo
from penstock.repo.left_files import LeftFile
from penstock.testing.viewer import Viewer

A: dict[str, Any] = {"agent": "test"}
FILES = [FileUndo("a", "restore"), FileUndo("b", "stay", reason="changed", text="was changed since")]


def numbered(*whats: Entry | ev.Event) -> list[Numbered]:
    """Entries, as the store has them."""
    return decode((number, 1000 + number, data) for number, data in enumerate(encode(whats), 1))


def over(turn: int) -> list[Entry | ev.Event]:
    """A turn that has ended."""
    return [Prompted(turn, "do it"), TurnBegan(turn, "test", "/shop"), TurnEnded(turn, "cut_off")]


def test_clients_see_that_a_turn_was_taken_back() -> None:
    """A client that follows gets a frame, a newcomer the state; a redo ends it; the summary has it."""
    made = Timeline()
    chat = numbered(
        *over(1), Undone(1, FILES, key="k", person="ana"), Undone(1, FILES[:1], redo=True), Undone(1, FILES)
    )
    made.take(chat[:3])
    assert made.summary() is not None
    viewer = Viewer()
    viewer.take(json.loads(msgspec.json.encode(made.snapshot())), made.number)
    for number in (4, 5, 6):
        assert made.take(chat[number - 1 : number])
        assert not made.is_summed_up
        for place, frame in made.frames(number - 1) or ():
            viewer.take(json.loads(msgspec.json.encode(frame)), place)
        newcomer = Viewer()
        newcomer.take(json.loads(msgspec.json.encode(made.snapshot())), made.number)
        assert viewer.seen == newcomer.seen
        undone = UndoneFiles(1, 1, 1000 + number, "ana" if number == 4 else "owner")
        assert made.turns[1].undone == (None if number == 5 else undone)
        assert [view.undos for view in made.summary() or ()] == [{"k": 4}]


def test_a_turn_that_is_not_over_or_unknown() -> None:
    """Nothing is marked: of one that is no longer kept, and of one that has not ended."""
    made = Timeline()
    made.take(numbered(*over(1)[:2], Undone(1, FILES), Undone(7, FILES)))
    assert made.turns[1].undone is None
    assert 7 not in made.turns


def test_old_requests_are_forgotten() -> None:
    """The newest keys are kept, and no more."""
    made = Timeline()
    many = [Undone(1, FILES, key=f"k{number}") for number in range(timeline.KEPT_UNDOS + 2)]
    made.take(numbered(*over(1), *many))
    assert list(made.turns[1].undos or ()) == [f"k{number}" for number in range(2, timeline.KEPT_UNDOS + 2)]


def test_what_a_turn_has_left() -> None:
    """The state of its files is an entry of its own; commands count; names of files are those before and after."""
    left = {"/shop/a": LeftFile("d", 0o644, True)}
    moved = Change("b", "move", to="c", added=0, removed=0)
    changes = [diffs.from_texts("a", None, "x\n"), moved]
    call = ev.ToolCalled(call_id="c", name="Bash", input={}, title="", tool_kind="execute", **A)
    result = ev.ToolReturned(call_id="c", text="", is_error=False, complete=True, changes=changes, **A)
    fold = ChangesFold("/elsewhere", diffs=True)
    take_turn(fold, numbered(*over(1)[:2], call, result, FilesLeft(1, left)))
    assert (fold.commands, fold.left) == (1, left)
    assert fold.paths() == ["/shop/a", "/shop/b", "/shop/c"]
    assert [it.path for it in fold.joined()] == ["/shop/a", "/shop/b"]
