"""Rows to what viewers see: however they are cut, from wherever a viewer comes."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import events as ev
from penstock.chat.history import entries, timeline
from penstock.chat.history.entries import ChatDeleted, Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.timeline import Thread
from penstock.chat.store.protocol import Row
from penstock.stream import Stream
from penstock.testing import feeds
from penstock.testing.viewer import Viewer

if TYPE_CHECKING:
    from conftest import Recording

MANY = 24
"""Of a longer recording, viewers come back at so many places only."""


def numbered(whats: list[Entry | ev.Event]) -> list[Numbered]:
    """As the log would give them."""
    encoded = entries.encode(whats)
    return entries.decode(Row(number, 1000 + number, data) for number, data in enumerate(encoded, 1))


def chat_of(recording: Recording) -> list[Numbered]:
    """A chat of three turns: the recording, one that is taken back, and the recording again."""
    return _chat_of(recording.agent, recording.data)


@cache
def _chat_of(agent: str, data: bytes) -> list[Numbered]:
    run: list[Any] = feeds.whole(Stream(agent), data)
    half = len(run) // 2
    began = [TurnBegan(number, agent, "/shop") for number in (1, 3)]
    first = [Prompted(1, "one"), began[0], *run[:half], Prompted(2, "two"), Prompted(3, "three", "answer", "k")]
    return numbered([*first, TurnEnded(2, "cancelled"), *run[half:], began[1], *run])


def folded(chat: list[Numbered], *cuts: int) -> Thread:
    """The chat, taken in the pieces between the cuts."""
    made = Thread()
    for start, end in zip((0, *cuts), (*cuts, len(chat)), strict=True):
        made.take(chat[start:end])
    return made


def plain(frame: Any) -> Any:
    """A frame as it is on the wire."""
    return json.loads(msgspec.json.encode(frame))


def new_viewer(made: Thread) -> Viewer:
    """A viewer that got the snapshot."""
    viewer = Viewer()
    viewer.take(plain(made.snapshot()), made.number)
    return viewer


def bring_up(viewer: Viewer, made: Thread, deltas: bool) -> None:
    """Give a viewer what it missed."""
    frames = made.frames(viewer.number or 0, deltas=deltas)
    assert frames is not None
    for place, (number, frame) in enumerate(frames):
        last = place + 1 == len(frames) or frames[place + 1][0] != number
        viewer.take(plain(frame), number if last else None)


def places(chat: list[Numbered]) -> list[int]:
    """Where viewers come back."""
    return sorted(random.Random(len(chat)).sample(range(len(chat) + 1), min(MANY, len(chat) + 1)))


@pytest.mark.parametrize("deltas", [False, True], ids=["whole", "deltas"])
def test_from_every_row_to_now(recording: Recording, deltas: bool) -> None:
    """Whoever saw the chat at some row, and gets what it missed, sees what a newcomer sees."""
    chat = chat_of(recording)
    whole = folded(chat)
    expected = new_viewer(whole).seen
    grown = Thread()
    for place in places(chat):
        grown.take(chat[grown.number : place])
        viewer = new_viewer(grown)
        if whole.frames(place, deltas=deltas) is not None:
            bring_up(viewer, whole, deltas)
            assert viewer.seen == expected


@pytest.mark.parametrize("deltas", [False, True], ids=["whole", "deltas"])
def test_step_by_step(recording: Recording, deltas: bool) -> None:
    """A viewer that is told at odd times sees at each of them what a newcomer sees."""
    chat = chat_of(recording)
    grown, viewer = Thread(), new_viewer(Thread())
    for place in places(chat):
        grown.take(chat[grown.number : place])
        bring_up(viewer, grown, deltas)
        assert viewer.seen == new_viewer(grown).seen
    assert viewer.snapshots == 1


def test_however_the_rows_are_cut(recording: Recording) -> None:
    """The same rows in other pieces are the same chat."""
    chat = chat_of(recording)
    expected = folded(chat).snapshot()
    for cuts in (places(chat), [len(chat) // 3], range(1, len(chat))):
        assert folded(chat, *cuts).snapshot() == expected


def test_a_viewer_of_another_server(recording: Recording) -> None:
    """An id that was given where rows came in other pieces leads to the same end: a server that was restarted."""
    chat = chat_of(recording)
    whole = folded(chat)
    viewer, grown = new_viewer(Thread()), Thread()
    for place in places(chat):
        grown.take(chat[grown.number : place])
        bring_up(viewer, grown, True)
        grown = folded(chat[:place])
    bring_up(viewer, folded(chat, len(chat) // 2), True)
    assert viewer.seen == new_viewer(whole).seen


def test_checkpoints_stand_for_the_rows_before(recording: Recording) -> None:
    """A chat that is read from its checkpoints on is the chat that was read whole."""
    chat = chat_of(recording)
    grown, checkpoints = Thread(), []
    for row in chat:
        grown.take([row])
        if (made := grown.checkpoint()) is not None:
            checkpoints.append(made)
            again = Thread(msgspec.json.decode(msgspec.json.encode(checkpoints), type=list[timeline.Checkpoint]))
            assert again.number == grown.number
            assert again.snapshot() == grown.snapshot()
            again.take(chat[again.number :])
            assert new_viewer(again).seen == new_viewer(folded(chat)).seen
    assert [view.turn for made in checkpoints for view in made.turns] == [2, 1, 3]


def test_deltas_cost_what_the_reply_is_long() -> None:
    """A viewer who is told of each word gets each character once."""
    words = [f"word{number} " for number in range(2000)]
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said(words)])
    grown, viewer, size = Thread(), new_viewer(Thread()), 0
    for row in chat:
        grown.take([row])
        told = grown.frames(viewer.number or 0, deltas=True)
        assert told is not None
        size += sum(len(frame.delta) for _, frame in told if isinstance(frame, timeline.frames.AssistantDelta))
        bring_up(viewer, grown, True)
    assert size == len("".join(words).rstrip())  # what may be a gap beside a tag waits
    assert viewer.seen[1]["reply"] == "".join(words).rstrip()


def said(words: list[str]) -> list[ev.Event]:
    """A message that is being written."""
    opened = [
        ev.MessageStarted(agent="claude", message=1),
        ev.BlockStarted(agent="claude", block=1, kind="text", message=1),
    ]
    return [*opened, *(ev.Delta(agent="claude", block=1, kind="text", text=word) for word in words)]


def test_who_comes_from_too_far_back_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told step by step is bounded; before that there is the snapshot, and after it nothing is lost."""
    monkeypatch.setattr(timeline, "MAX_MOMENTS", 50)
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said([f"{number} " for number in range(500)])])
    grown = Thread()
    for row in chat:
        grown.take([row])
    assert grown.frames(10) is None
    assert grown.frames(len(chat) + 1) is None
    assert len(grown._moments) <= 51
    near = folded(chat[:-20])
    viewer = new_viewer(near)
    bring_up(viewer, grown, True)
    assert viewer.seen == new_viewer(grown).seen


def test_long_chats_show_their_newest_turns() -> None:
    """A snapshot has the newest turns, and says that there are others."""
    whats: list[Any] = []
    for turn in range(1, 121):
        whats += [Prompted(turn, f"ask {turn}"), TurnEnded(turn, "cancelled")]
    snapshot = folded(numbered(whats)).snapshot()
    assert [view.turn for view in snapshot.turns] == list(range(71, 121))
    assert snapshot.earlier


def test_a_deleted_chat() -> None:
    """The end of a chat is told to who is there, and asks for nothing more."""
    chat = numbered([Prompted(1, "?"), ChatDeleted()])
    grown = folded(chat[:1])
    viewer = new_viewer(grown)
    assert grown.take(chat[1:])
    bring_up(viewer, grown, False)
    assert viewer.deleted


BEGAN = TurnBegan(2, "claude", "/")


def test_growing_text_can_wait_and_all_else_cannot() -> None:
    """`take` says what viewers are to be told at once."""
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said(["a", "b", "c"])])
    grown = Thread()
    assert [grown.take([row]) for row in chat] == [True, True, False, False, True, False, False]
    chat = numbered([*(row.what for row in chat if row.what), TurnEnded(1, "cancelled"), Prompted(2, "?"), BEGAN])
    assert [grown.take([row]) for row in chat[grown.number :]] == [True, True, True]


ODD = [b'{"type":"of_tomorrow"}', b"\xff", b"[" * 100_000, b'{"type":"tool_called","input":' + b"[" * 100_000, b""]


def test_rows_of_a_newer_version() -> None:
    """A kind of row that is not known is passed over, and counts."""
    known = entries.encode([Prompted(1, "?")])[0]
    read = entries.decode([Row(1, 5, known), *(Row(number, 5, odd) for number, odd in enumerate(ODD, 2))])
    grown = Thread()
    grown.take(read)
    assert (grown.number, list(grown.turns)) == (1 + len(ODD), [1])


def test_a_turn_that_a_crash_cut_off() -> None:
    """It completes with what was said, marked, and is recorded."""
    cut = [TurnEnded(1, "cut_off", "Penstock was stopped")]
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said(["half a"]), *cut])
    view = folded(chat).turns[1]
    assert (view.message, view.outcome, view.reason) == ("half a", "cut_off", "Penstock was stopped")
    assert (view.state, view.recorded, view.last) == ("completed", True, len(chat))
