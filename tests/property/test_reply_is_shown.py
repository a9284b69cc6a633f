"""The reply of any run is in what a sink puts out: in the lines for people, and in the chunks joined."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from random_updates import CLEAN, EXITS, TRAITS, UPDATES, events_from

from penstock import updates as up
from penstock.events import (
    BlockEnded,
    BlockRevised,
    BlockStarted,
    Delta,
    Event,
    MessageEnded,
    RunEnded,
)
from penstock.sinks.chunks import ChunksSink
from penstock.sinks.sanitize import clean
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

FEW = examples(12, 150)
DETAILS = ["quiet", "minimal", "normal", "verbose"]
MODES = ["full", "basic", "none"]
SPACE = re.compile(r"\s+")
SGR = re.compile(r"\x1b\[[0-9;]*m")
MARKS = re.compile(
    r"↻|\(attempt given up\)|\(cut off\)|\(cut short here, the block was too large\)"
    r"|\(the last (?:character was|[\d,]+ characters were) taken back\)"
)
"""Words of the sink itself in lines of text."""

LOOKS = st.fixed_dictionaries({
    "mode": st.sampled_from(MODES),
    "detail": st.sampled_from(DETAILS),
    "color": st.booleans(),
    "realtime": st.booleans(),
    "mark_partial": st.booleans(),
    "ci": st.sampled_from([None, "github", "gitlab"]),
})  # fmt: skip


# --- an independent look at the events -----------------------------------------------------------------


class Said:
    """What the top agent's events say of its text, found by another way than the sinks find it."""

    def __init__(self, events: list[Event]) -> None:
        self.reply = events[-1].reply if isinstance(events[-1], RunEnded) else ""
        top = [event for event in events if event.parent is None]
        message_of = {event.block: event.message for event in top if isinstance(event, BlockStarted)}
        ends = {event.message: event for event in top if isinstance(event, MessageEnded)}
        self.given_up = {number for number, event in ends.items() if event.status == "superseded"}
        self.deltas = [event for event in top if isinstance(event, Delta) and event.kind == "text"]
        blocks = [block for block, _ in itertools.groupby(event.block for event in self.deltas)]
        self.scattered = len(blocks) > len(set(blocks))
        self.revised = any(isinstance(event, BlockRevised) and event.kind == "text" for event in top)
        self.joined = self.alive = ""
        last: int | None = None
        gap_before: dict[int, int] = {}  # where in `alive` each message begins
        for delta in self.deltas:
            number = message_of.get(delta.block)
            same = number == last or (last is not None and last not in self.given_up and _one(ends, last, number))
            self.joined += ("" if same or last is None else "\n\n") + delta.text
            last = number
        last = None
        for delta in self.deltas:
            number = message_of.get(delta.block)
            if number in self.given_up:
                continue
            same = number == last or (last is not None and _one(ends, last, number))
            self.alive += "" if same or last is None else "\n\n"
            gap_before.setdefault(delta.block, len(self.alive))
            self.alive += delta.text
            last = number
        self.begins = sorted(gap_before.values())

    @property
    def all_shown(self) -> bool:
        """Whether the reply is the last text that was put out, from the beginning of some block on."""
        return not self.reply or (self.alive.endswith(self.reply) and len(self.alive) - len(self.reply) in self.begins)

    @property
    def difference(self) -> int:
        """Where the reply first differs from what was put out last, from the beginning of some block on."""
        return max((_shared(self.alive[begin:], self.reply) for begin in self.begins), default=0)


def _one(ends: dict[int, MessageEnded], one: int | None, other: int | None) -> bool:
    """Whether two numbers are of one message, which was opened again."""
    ids = [ends[number].message_id if number in ends else None for number in (one, other) if number is not None]
    return len(ids) == 2 and ids[0] is not None and ids[0] == ids[1]


def _shared(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def squeezed(text: str) -> str:
    """A text without white space, which the layout of lines adds, and drops at the ends of a line."""
    return SPACE.sub("", text)


def shown(events: list[Event], pauses: Iterable[int] = (), **look: Any) -> str:
    """All that a text sink writes. At `pauses` it is closed, as before somebody else writes."""
    sink = TextSink(look.pop("mode"), **look)
    stops = set(pauses)
    out = []
    for number, event in enumerate(events):
        if number in stops:
            out.append(sink.close())
        out.append(sink.render([event]))
    return SGR.sub("", "".join(out) + sink.close())


def text_lines(events: list[Event], pauses: Iterable[int] = (), **look: Any) -> str:
    """The lines of the top agent's text, with the prefixes and indents taken off."""
    head = f"[{events[-1].agent} text] "
    output = shown(events, pauses, prefix="both", **look)
    found, of_text = [], False
    for line in output.split("\n"):
        if line.startswith("["):
            of_text = line.startswith(head)
            line = line[len(head) :]
        elif line.strip() and not line.startswith(" "):
            of_text = False  # a command of the CI service, around a result
        if of_text:
            found.append(line)
    return "\n".join(found)


def judge_text(events: list[Event], pauses: Iterable[int] = (), **look: Any) -> None:
    """The reply is in the lines of text; and nothing is in them twice where no block was revised."""
    said = Said(events)
    lines = squeezed(MARKS.sub("", text_lines(events, pauses, **look)))
    reply = said.reply[said.difference if said.revised else 0 :]
    if said.given_up and said.reply in said.alive:  # attempts between its messages were shown too
        for part in said.reply.split("\n\n"):
            assert squeezed(MARKS.sub("", clean(part))) in lines
    else:
        assert squeezed(MARKS.sub("", clean(reply))) in lines


def judge_chunks(events: list[Event]) -> None:
    """Joined, the chunks are all text with blank lines between messages, and then the rest of the reply."""
    said = Said(events)
    chunks = ChunksSink().chunks(events)
    *before, final = chunks
    assert "".join(chunk.text for chunk in before) == said.joined
    assert [chunk.is_final for chunk in chunks] == [False] * len(before) + [True]
    assert [chunk.message is None for chunk in chunks] == [False] * len(before) + [True]
    assert all((chunk.outcome, chunk.reason, chunk.reply) == (None, None, None) for chunk in before)
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (final.outcome, final.reason, final.reply, final.session_id) == (
        end.outcome, end.reason, end.reply, end.session_id
    )  # fmt: skip
    whole = ("\n\n" if said.joined else "") + said.reply
    if final.text != (whole if said.reply else ""):
        assert said.reply.endswith(final.text)
        assert said.reply[: len(said.reply) - len(final.text)] in said.alive
    if not said.revised:
        assert (said.alive + final.text).endswith(said.reply) or (not final.text and said.reply in said.alive)
        if said.all_shown and not said.scattered:
            assert final.text == ""


# --- recordings ----------------------------------------------------------------------------------------


def events_of(recording: Recording) -> list[Event]:
    """The events of a recording."""
    return feeds.whole(Stream(recording.agent), recording.data)


@pytest.mark.sample(9)
@pytest.mark.parametrize("detail", DETAILS)
def test_the_reply_of_a_recording_is_shown(recording: Recording, detail: str) -> None:
    """At every detail, in every mode."""
    events = events_of(recording)
    for mode in MODES:
        judge_text(events, mode=mode, detail=detail)


def test_a_recording_is_shown_once(recording: Recording) -> None:
    """The lines of text are the blocks, one after another, and not one line more."""
    events = events_of(recording)
    said = Said(events)
    if said.revised:
        return
    blocks: dict[int, list[str]] = defaultdict(list)
    for delta in said.deltas:
        blocks[delta.block].append(delta.text)
    lines = squeezed(MARKS.sub("", text_lines(events, mode="none")))
    assert lines == squeezed(MARKS.sub("", "".join(clean("".join(texts)) for texts in blocks.values())))


@pytest.mark.sample(9)
@pytest.mark.parametrize("prefix", ["agent", "both", "above", "none"])
def test_prefixes_change_no_text(recording: Recording, prefix: Any) -> None:
    """Each line of the reply is there, whatever stands before it."""
    events = events_of(recording)
    said = Said(events)
    output = squeezed(shown(events, mode="none", prefix=prefix))
    at = 0
    reply = said.reply[said.difference if said.revised else 0 :]
    ended = [event.text for event in events if isinstance(event, BlockEnded) and event.kind == "text"]
    for text, more in itertools.pairwise(ended):
        reply = reply.replace(text + more, f"{text}\n{more}")  # a text that goes on in another message has a new line
    for line in clean(reply).split("\n"):
        found = output.find(squeezed(line), at)
        assert found >= 0, line
        at = found


def test_the_chunks_of_a_recording(recording: Recording) -> None:
    """As they come, and through their lines."""
    events = events_of(recording)
    judge_chunks(events)
    one_by_one = ChunksSink()
    assert b"".join(one_by_one.render([event]) for event in events) == ChunksSink().render(events)


def test_a_recording_that_breaks_off(recording: Recording) -> None:
    """Wherever the stream ends."""
    for at in feeds.cut_points(recording.data, 3 if len(recording.data) <= 300_000 else 1):
        events = feeds.cut(Stream(recording.agent), recording.data, at)
        judge_text(events, mode="none")
        judge_chunks(events)


# --- random streams ------------------------------------------------------------------------------------

ANSWERS = st.builds(up.Result, reply=CLEAN | st.sampled_from(["a\n\nb", "a\n\nab", "haha\n\nha", "late text"]))
STEPS = st.lists(st.one_of(UPDATES, UPDATES, ANSWERS), max_size=30)


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=STEPS, exit=EXITS, look=LOOKS, pauses=st.lists(st.integers(0, 60), max_size=2))
@example(updates=[up.Text("text", "delta", "\r")], exit=None, look={"mode": "full"}, pauses=[3])
@FEW
def test_the_reply_of_any_stream_is_shown(
    traits: up.Traits, updates: list[up.Update], exit: Any, look: dict[str, Any], pauses: list[int]
) -> None:
    """However senseless the run, whatever the look, and where others write between the lines."""
    judge_text(events_from(traits, updates, exit), pauses, **look)


@pytest.mark.parametrize("traits", TRAITS.values(), ids=TRAITS)
@given(updates=STEPS, exit=EXITS)
@example(updates=[up.Text("text", "delta", "said"), up.Result(reply="something else, said")], exit=None)
@FEW
def test_the_chunks_of_any_stream(traits: up.Traits, updates: list[up.Update], exit: Any) -> None:
    """Joined they are all that was said, and end with the reply."""
    judge_chunks(events_from(traits, updates, exit))


PIECES = [
    "word ", "\n", "\n\n", "::set-env name=A::b\n", "##", "vso[x]", "\x1b", "[31m", "\x1b]8;;", "http\x07", "\r", "\n",
    "\u202e", "\t", "\x9b", "1m", "😀", "    code\n",
]  # fmt: skip


@given(
    blocks=st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), max_size=5),
    one_message=st.booleans(),
    more=st.sampled_from(["", " more", "\n\nmore", "\x1b[1mmore"]),
    look=LOOKS,
)
@FEW
def test_hostile_text_is_shown_as_one_text(
    blocks: list[str], one_message: bool, more: str, look: dict[str, Any]
) -> None:
    """What is cleaned in blocks is cleaned as the reply too, where the two are not the same."""
    updates: list[up.Update] = []
    for number, text in enumerate(blocks):
        message = "m" if one_message else f"m{number}"
        updates.append(up.Text("text", "final", text, place=number, message=message))
    reply = ("" if one_message else "\n\n").join(blocks) + more
    events = events_from(up.Traits(), [*updates, up.Result(reply=reply)])
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.reply == reply
    judge_text(events, **look)
    judge_chunks(events)
