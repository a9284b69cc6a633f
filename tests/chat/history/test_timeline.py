"""Rows to what viewers see: however they are cut, from wherever a viewer comes."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from effort import at_most

from penstock import events as ev
from penstock.chat.history import entries, past_frames, timeline
from penstock.chat.history.entries import (
    Answered,
    Edited,
    Entry,
    Moved,
    Numbered,
    Prompted,
    Released,
    SentNow,
    SteerRequested,
    StopRequested,
    TurnBegan,
    TurnEnded,
)
from penstock.chat.history.frames import AssistantDelta, Steer, TurnView
from penstock.chat.history.timeline import Timeline
from penstock.chat.store.protocol import StoredEntry
from penstock.stream import Stream
from penstock.testing import feeds
from penstock.testing.viewer import Viewer

if TYPE_CHECKING:
    from conftest import Recording

MANY = at_most(5, 24)
"""Of a longer recording, viewers come back at so many places only."""


def numbered(whats: list[Entry | ev.Event]) -> list[Numbered]:
    """As the log would give them."""
    encoded = entries.encode(whats)
    return entries.decode(StoredEntry(number, 1000 + number, data) for number, data in enumerate(encoded, 1))


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


def folded(chat: list[Numbered], *cuts: int) -> Timeline:
    """The chat, taken in the pieces between the cuts."""
    made = Timeline()
    for start, end in zip((0, *cuts), (*cuts, len(chat)), strict=True):
        made.take(chat[start:end])
    return made


def plain(frame: Any) -> Any:
    """A frame as it is on the wire."""
    return json.loads(msgspec.json.encode(frame))


def new_viewer(made: Timeline) -> Viewer:
    """A viewer that got the snapshot."""
    viewer = Viewer()
    viewer.take(plain(made.snapshot()), made.number)
    return viewer


def bring_up(viewer: Viewer, made: Timeline, deltas: bool) -> None:
    """Give a viewer what it missed."""
    frames = made.frames(viewer.number or 0, deltas=deltas)
    assert frames is not None
    for place, (number, frame) in enumerate(frames):
        last = place + 1 == len(frames) or frames[place + 1][0] != number
        viewer.take(plain(frame), number if last else None)


def places(chat: list[Numbered]) -> list[int]:
    """Where viewers come back."""
    return sorted(random.Random(len(chat)).sample(range(len(chat) + 1), min(MANY, len(chat) + 1)))


def test_a_new_client_gets_the_snapshot(recording: Recording) -> None:
    """What a new client gets covers all entries so far."""
    made = folded(chat_of(recording))
    assert made.start() == [(made.number, made.snapshot())]


@pytest.mark.sample(3)
@pytest.mark.parametrize("deltas", [False, True], ids=["whole", "deltas"])
def test_from_every_row_to_now(recording: Recording, deltas: bool) -> None:
    """Whoever saw the chat at some row, and gets what it missed, sees what a newcomer sees."""
    chat = chat_of(recording)
    whole = folded(chat)
    expected = new_viewer(whole).seen
    grown = Timeline()
    for place in places(chat):
        grown.take(chat[grown.number : place])
        viewer = new_viewer(grown)
        if whole.frames(place, deltas=deltas) is not None:
            bring_up(viewer, whole, deltas)
            assert viewer.seen == expected


@pytest.mark.sample(3)
@pytest.mark.parametrize("deltas", [False, True], ids=["whole", "deltas"])
def test_step_by_step(recording: Recording, deltas: bool) -> None:
    """A viewer that is told at odd times sees at each of them what a newcomer sees."""
    chat = chat_of(recording)
    grown, viewer = Timeline(), new_viewer(Timeline())
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


@pytest.mark.sample(3)
def test_a_viewer_of_another_server(recording: Recording) -> None:
    """An id that was given where rows came in other pieces leads to the same end: a server that was restarted."""
    chat = chat_of(recording)
    whole = folded(chat)
    viewer, grown = new_viewer(Timeline()), Timeline()
    for place in places(chat):
        grown.take(chat[grown.number : place])
        bring_up(viewer, grown, True)
        grown = folded(chat[:place])
    bring_up(viewer, folded(chat, len(chat) // 2), True)
    assert viewer.seen == new_viewer(whole).seen


def test_summaries_stand_for_the_entries_before(recording: Recording) -> None:
    """A chat that is read from its summaries on is the chat that was read from its first entry on."""
    chat = chat_of(recording)
    grown, kept, times = Timeline(), dict[int, TurnView](), 0
    for row in chat:
        grown.take([row])
        if isinstance(row.what, TurnEnded | ev.RunEnded) and (changed := grown.summary()) is not None:
            times += 1
            kept.update(
                (view.turn, view) for view in msgspec.json.decode(msgspec.json.encode(changed), type=list[TurnView])
            )
            again = Timeline(row.number, [kept[turn] for turn in sorted(kept)])
            assert again.snapshot() == grown.snapshot()
            again.take(chat[again.number :])
            assert new_viewer(again).seen == new_viewer(folded(chat)).seen
    assert times == 2
    assert {turn for turn, view in kept.items() if view.last} == {1, 2, 3}


def test_deltas_cost_what_the_reply_is_long() -> None:
    """A viewer who is told of each word gets each character once."""
    words = [f"word{number} " for number in range(2000)]
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said(words)])
    grown, viewer, size = Timeline(), new_viewer(Timeline()), 0
    for row in chat:
        grown.take([row])
        told = grown.frames(viewer.number or 0, deltas=True)
        assert told is not None
        size += sum(len(frame.delta) for _, frame in told if isinstance(frame, AssistantDelta))
        bring_up(viewer, grown, True)
    assert size == len("".join(words).rstrip())  # what may be a gap beside a tag waits
    assert viewer.seen[1]["reply"] == "".join(words).rstrip()


def said(words: list[str]) -> list[ev.Event]:
    """A message that is being written."""
    opened: list[ev.Event] = [
        ev.MessageStarted(agent="claude", message=1),
        ev.BlockStarted(agent="claude", block=1, kind="text", message=1),
    ]
    return [*opened, *(ev.Delta(agent="claude", block=1, kind="text", text=word) for word in words)]


def test_who_comes_from_too_far_back_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames that are kept are bounded; who comes from before them gets the snapshot, and nothing is lost."""
    monkeypatch.setattr(past_frames, "MAX_CHANGES", 50)
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said([f"{number} " for number in range(500)])])
    grown = Timeline()
    for row in chat:
        grown.take([row])
    assert grown.frames(10) is None
    assert grown.frames(len(chat) + 1) is None
    assert len(grown._past._changes) <= 51
    near = folded(chat[:-20])
    viewer = new_viewer(near)
    bring_up(viewer, grown, True)
    assert viewer.seen == new_viewer(grown).seen


def test_the_time_of_an_entry_tells_it_from_another_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known as long as a viewer can come back with the number, also that of the entry at which it begins."""
    monkeypatch.setattr(past_frames, "MAX_CHANGES", 50)
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said([f"{number} " for number in range(500)])])
    grown = Timeline(1, [TurnView(1, "?", first=1)])
    assert grown.time_of(1) is None
    grown.note_time(1, chat[0].at)
    for row in chat[1:]:
        grown.take([row])
        assert grown.time_of(row.number) == row.at
    assert [grown.time_of(number) for number in (0, len(chat) + 1)] == [None] * 2
    known = [row.number for row in chat if grown.time_of(row.number) is not None]
    assert known == [*range(known[0], len(chat) + 1)]
    assert known[0] <= grown._past._oldest
    assert len(known) < 300
    late = Timeline(2)
    late.take(chat[4:])  # what is numbered otherwise, as a document is
    assert late.time_of(2) is None
    assert late.time_of(chat[4].number) == chat[4].at


def test_long_chats_show_their_newest_turns() -> None:
    """A snapshot has the newest turns, and says that there are others."""
    whats: list[Any] = []
    for turn in range(1, 121):
        whats += [Prompted(turn, f"ask {turn}"), TurnEnded(turn, "cancelled")]
    snapshot = folded(numbered(whats)).snapshot()
    assert [view.turn for view in snapshot.turns] == list(range(71, 121))
    assert snapshot.earlier


def test_a_deleted_chat() -> None:
    """The end of a chat comes to its viewers, and asks for nothing more."""
    grown = folded(numbered([Prompted(1, "?")]))
    viewer = new_viewer(grown)
    grown.delete()
    bring_up(viewer, grown, False)
    assert viewer.deleted


def test_a_stop_marks_what_is_not_over() -> None:
    """One turn, or the one that runs and all that wait; the mark goes with the end of the turn."""
    begun: list[Entry | ev.Event] = [Prompted(1, "a"), Prompted(2, "b"), Prompted(3, "c"), TurnBegan(1, "claude", "/")]
    assert folded(numbered([*begun, StopRequested(3)])).stops == {3}
    grown = folded(numbered([*begun, StopRequested()]))
    assert grown.stops == {1, 2, 3}
    grown.take([Numbered(6, 1, TurnEnded(2, "cancelled")), Numbered(7, 1, Prompted(4, "d"))])
    grown.take([Numbered(8, 1, ev.RunEnded(agent="claude", outcome="cancelled", reply="", rounds=0))])
    assert grown.stops == {3}
    assert folded(numbered([Prompted(1, "a"), TurnEnded(1, "cancelled"), StopRequested(1)])).stops == set()


def test_a_stop_holds_what_waits_until_it_is_released() -> None:
    """The stop of a turn that runs holds those behind it, and later ones; a release frees those up to a turn."""
    begun: list[Entry | ev.Event] = [
        Prompted(1, "one"),
        TurnBegan(1, "claude", "/shop"),
        Prompted(2, "two"),
        Prompted(3, "three"),
    ]
    held = folded(numbered([*begun, StopRequested(1), Prompted(4, "four")]))
    assert ([it.turn for it in held.held], [it.turn for it in held.ready]) == ([2, 3, 4], [])
    freed = folded(numbered([*begun, StopRequested(1), Prompted(4, "four"), Released(3), Released(3)]))
    assert ([it.turn for it in freed.held], [it.turn for it in freed.ready]) == ([4], [2, 3])
    waiting = folded(numbered([*begun, StopRequested(2, queued=True)]))
    assert not waiting.held


def test_a_question_can_be_answered_until_somebody_does() -> None:
    """Only a question that the run waits for, and until an answer to it, or the agent's own, is an entry."""
    questions = [ev.QuestionAsked(agent="x", id=name, text="?", ask="tool", blocking=name != "c") for name in "abc"]
    grown = folded(numbered([Prompted(1, "?"), TurnBegan(1, "x", "/"), *questions]))
    assert [*grown.questions] == ["a", "b"]
    grown.take([Numbered(6, 1, Answered(1, "a", "yes"))])
    assert [*grown.questions] == ["b"]
    grown.take([Numbered(7, 1, ev.QuestionAnswered(agent="x", id="b", by="nobody"))])
    assert not grown.questions


def test_what_a_server_asks_of_a_chat() -> None:
    """The newest turn, those that wait, the time of the newest entry, and whether all that is over was summed up."""
    empty = Timeline()
    assert (empty.newest, empty.queued, empty.asking, empty.questions, empty.running) == (None, [], False, {}, None)
    grown = folded(numbered([Prompted(1, "a"), Prompted(2, "b"), Prompted(3, "c"), TurnBegan(1, "x", "/")]))
    assert grown.newest is grown.turns[3]
    assert [view.turn for view in grown.queued] == [2, 3]
    assert grown.at == 1004
    assert grown.running is grown.turns[1]
    assert not grown.asking
    assert grown.summary() is None
    assert grown.is_summed_up
    grown.take([Numbered(5, 1005, TurnEnded(1, "cancelled"))])
    assert not grown.is_summed_up


def test_a_chat_whose_beginning_was_trimmed() -> None:
    """Events before the first turn that is left are skipped; a turn whose prompt is gone has an empty one."""
    grown = folded(numbered([*said(["lost"]), StopRequested(9), TurnBegan(7, "claude", "/"), *said(["left"])]))
    assert [(view.turn, view.prompt, view.reply) for view in grown.snapshot().turns] == [(7, "", "left")]
    assert grown.stops == set()
    grown.take([Numbered(100, 1, TurnEnded(6, "cancelled")), Numbered(101, 1, Answered(6, "q", "yes"))])
    assert list(grown.turns) == [7]


def test_dropped_turns_are_gone() -> None:
    """Turns whose entries are no longer kept are dropped, and those that are not over stay."""
    grown = folded(numbered([Prompted(1, "a"), TurnEnded(1, "cancelled"), Prompted(2, "b"), Prompted(3, "c")]))
    grown.drop(2)
    assert list(grown.turns) == [2, 3]


BEGAN = TurnBegan(2, "claude", "/")


def test_growing_text_can_wait_and_all_else_cannot() -> None:
    """`take` says what viewers are to be told at once."""
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said(["a", "b", "c"])])
    grown = Timeline()
    assert [grown.take([row]) for row in chat] == [True, True, False, False, True, False, False]
    chat = numbered([*(row.what for row in chat if row.what), TurnEnded(1, "cancelled"), Prompted(2, "?"), BEGAN])
    assert [grown.take([row]) for row in chat[grown.number :]] == [True, True, True]


ODD = [b'{"type":"of_tomorrow"}', b"\xff", b"[" * 100_000, b'{"type":"tool_called","input":' + b"[" * 100_000, b""]


def test_rows_of_a_newer_version() -> None:
    """A kind of row that is not known is passed over, and counts."""
    known = entries.encode([Prompted(1, "?")])[0]
    read = entries.decode(
        [StoredEntry(1, 5, known), *(StoredEntry(number, 5, odd) for number, odd in enumerate(ODD, 2))]
    )
    grown = Timeline()
    grown.take(read)
    assert (grown.number, list(grown.turns)) == (1 + len(ODD), [1])


def test_a_turn_that_a_crash_cut_off() -> None:
    """It completes with what was said, marked, and is recorded."""
    cut = [TurnEnded(1, "cut_off", "Penstock was stopped")]
    chat = numbered([Prompted(1, "?"), TurnBegan(1, "claude", "/"), *said(["half a"]), *cut])
    view = folded(chat).turns[1]
    assert (view.message, view.outcome, view.reason) == ("half a", "cut_off", "Penstock was stopped")
    assert (view.state, view.finalized, view.last) == ("completed", True, len(chat))


def test_the_time_in_which_a_lost_turn_did_nothing_is_not_its_work() -> None:
    """A turn whose end is found later took until its last entry; one whose end was seen took until then."""
    rows = numbered([Prompted(1, "one"), TurnBegan(1, "claude", "/"), *said(["some", "text"])])
    lost = folded(rows)
    worked_until = lost.worked_until
    assert worked_until == rows[-1].at
    later = rows[-1].at + 3_600_000
    lost.take([Numbered(len(rows) + 1, later, TurnEnded(1, "cut_off", "it was lost", lost.worked_until))])
    assert lost.turns[1].duration_ms == rows[-1].at - rows[1].at
    assert lost.turns[1].completed_at == later
    assert lost.worked_until is None
    seen = folded(rows)
    seen.take([Numbered(len(rows) + 1, later, TurnEnded(1, "cut_off", "it was killed"))])
    assert seen.turns[1].duration_ms == later - rows[1].at


# --- the messages that wait ---


class Queue:
    """The queue as `docs/gateway-api.md` describes it: a plain list, and who was sent now."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.first: list[int] = []
        self.held: set[int] = set()
        self.texts: dict[int, str] = {}
        self.running: int | None = None
        self.steerable = False
        self.given: set[int] = set()

    @property
    def order(self) -> list[int]:
        """All that wait, the next one first."""
        return self.first + self.waiting

    def send_now(self, turn: int) -> None:
        """Put it behind those that were sent so before, and before all others."""
        if turn in self.order:
            (self.first if turn in self.first else self.waiting).remove(turn)
            self.first.append(turn)
            self.held.discard(turn)

    def remove(self, turn: int) -> None:
        """It waits no more."""
        (self.first if turn in self.first else self.waiting).remove(turn)
        self.held.discard(turn)
        self.given.discard(turn)

    def give(self, turn: int) -> None:
        """Give it to the agent of the running turn."""
        if self.running is not None and self.steerable and turn in self.order:
            self.given.add(turn)


def notice(turn: int, code: ev.NoticeCode) -> ev.Notice:
    """What an agent reports of a message that it was given."""
    return ev.Notice("info", code, f"about {turn}", steer=str(turn), agent="codex")


def entries_of(seed: int) -> tuple[list[Entry | ev.Event], Queue]:  # noqa: C901, PLR0915 - a branch for each entry
    """Return a random log of a chat, and the queue that it leads to."""
    chance, queue, log = random.Random(seed), Queue(), list[Entry | ev.Event]()
    for number in range(1, 40):
        kinds = ["prompt", "prompt", "now", "send", "move", "edit", "stop", "release", "begin", "gone"]
        what = chance.choice([*kinds, "steer", "give", "taken", "rejected"])
        some = chance.choice(queue.order) if queue.order else number
        if what in ("prompt", "now", "steer"):
            stops = queue.running if what == "now" and chance.random() < 0.5 else None
            steers = (queue.running or 99) if what == "steer" else None
            log.append(Prompted(number, f"text {number}", now=what == "now", stops=stops, steers=steers))
            queue.texts[number] = f"text {number}"
            if what != "now" and queue.held:
                queue.held.add(number)
            queue.waiting.append(number)
            if what == "now":
                queue.send_now(number)
                queue.steerable = queue.steerable and stops is None
            if what == "steer":
                queue.give(number)
        elif what == "give":
            log.append(SteerRequested(some, queue.running or 99))
            queue.give(some)
        elif what in ("taken", "rejected") and queue.given and queue.running is not None:
            some = chance.choice(sorted(queue.given))
            log += [notice(some, "user" if what == "taken" else "error"), notice(some, "user"), notice(77, "user")]
            queue.given.discard(some)
            if what == "taken":
                queue.remove(some)
        elif what == "send":
            log.append(SentNow(some, stops=queue.running))
            queue.send_now(some)
            queue.steerable = queue.steerable and some not in queue.order
        elif what == "move":
            order = chance.sample(queue.order, len(queue.order))
            log.append(Moved([*order, 999]))
            queue.first, queue.waiting = [], order
        elif what == "edit":
            log.append(Edited(some, f"edited {number}"))
            queue.texts[some] = f"edited {number}"
        elif what == "stop" and queue.running is not None:
            log += [StopRequested(queue.running), TurnEnded(queue.running, "cancelled")]
            queue.held |= {*queue.order}
            queue.running, queue.given = None, set()
        elif what == "release":
            log.append(Released(some))
            queue.held -= {turn for turn in queue.held if turn <= some}
        elif what == "gone" and queue.order:
            log += [StopRequested(some), TurnEnded(some, "cancelled")]
            queue.remove(some)
        elif what == "begin" and queue.running is None and any(turn not in queue.held for turn in queue.order):
            queue.running = next(turn for turn in queue.order if turn not in queue.held)
            queue.remove(queue.running)
            queue.steerable = chance.random() < 0.7
            log.append(TurnBegan(queue.running, "claude", "/", steerable=queue.steerable))
    return log, queue


@pytest.mark.parametrize("seed", range(60))
def test_everybody_sees_the_same_queue(seed: int) -> None:
    """Viewers who come at any entry, a newcomer and the list of the document agree on order, texts and what is held."""
    log, queue = entries_of(seed)
    chat = numbered(log)
    whole = folded(chat)
    assert [view.turn for view in whole.queued] == queue.order
    assert {view.turn for view in whole.held} == queue.held
    assert [view.turn for view in whole.ready] == [turn for turn in queue.order if turn not in queue.held]
    assert {view.turn for view in whole.given} == queue.given
    assert {view.turn: view.prompt for view in whole.queued} == {turn: queue.texts[turn] for turn in queue.order}
    assert whole.latest is None or not queue.order or whole.latest.turn == queue.order[-1]
    expected = new_viewer(whole).seen
    grown = Timeline()
    for entry in chat:
        viewer = new_viewer(grown)
        bring_up(viewer, whole, deltas=True)
        assert viewer.seen == expected
        grown.take([entry])


def test_a_message_that_the_agent_took_is_a_part_of_its_turn() -> None:
    """It precedes that turn, also when the turn is read later; what the chat asks is what that turn asks."""
    began: list[Entry] = [Prompted(1, "one"), TurnBegan(1, "codex", "/", steerable=True)]
    given: list[Entry] = [Prompted(2, "two", steers=1), Prompted(3, "three", steers=1), Prompted(4, "four")]
    made = folded(numbered([*began, *given, StopRequested(queued=True), notice(3, "user"), notice(2, "user")]))
    assert made.stops == {4}, "what was given is not taken back with all that waits"
    assert [(view.turn, view.whole) for view in made.snapshot().turns] == [(2, 1), (3, 1), (1, None), (4, None)]
    assert made.can_steer(1)
    assert not made.can_steer(2)
    assert (made.turns[3].outcome, made.turns[3].finalized, made.turns[3].began_at) == ("ok", True, None)
    made.take([Numbered(9, 9, TurnEnded(4, "cancelled")), Numbered(10, 9, TurnEnded(1, "ok"))])
    assert made.latest is not None
    assert made.latest.turn == 1
    assert not made.can_steer(1)
    parts = [view for view in made.turns.values() if view.turn != 1]
    assert [view.turn for view in timeline.in_conversation(parts)] == [2, 3, 4], "also without the turn itself"


def test_a_turn_that_is_over_takes_no_message() -> None:
    """What was given to it waits, and so does what is given to one that cannot take it, or is being stopped."""
    one = TurnBegan(1, "codex", "/", steerable=True)
    began: list[Entry] = [Prompted(1, "one"), one, Prompted(2, "two", steers=1)]
    late = Steer(1, "late")
    assert folded(numbered([*began, TurnEnded(1, "ok")])).turns[2].steer == late
    stopped = folded(numbered([*began, StopRequested(1), Prompted(3, "three", steers=1), SteerRequested(9, 1)]))
    assert (stopped.turns[2].steer, stopped.turns[3].steer) == (Steer(1, "given"), late)
    deaf: list[Entry] = [Prompted(1, "one"), TurnBegan(1, "claude", "/"), Prompted(2, "two"), SteerRequested(2, 1)]
    assert folded(numbered([*deaf, notice(2, "user")])).turns[2].steer == late
