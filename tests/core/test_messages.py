"""Messages and their blocks: which message an update belongs to, how each ends, and what is kept of them."""

from __future__ import annotations

import pytest
from normalized import checked, ended, names, no_failure, of_type, run_of, text, texts

from penstock import updates as up
from penstock.core.normalizer import outcome, state
from penstock.core.normalizer.messages import MAX_LANES
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.snapshots import SnapshotGuess
from penstock.core.normalizer.state import PARTS, Block, Message
from penstock.events import (
    BlockEnded,
    BlockRevised,
    Delta,
    MessageEnded,
    MessageStarted,
    Notice,
    Replied,
    Usage,
    UsageReported,
)

BLOCK_ENDS = up.Traits(block_ends=True)
FINALS = up.Traits(block_ends=True, finals=True)
REPAIRS = up.Traits(repair_snapshots=True)


# --- which message ---------------------------------------------------------------------------------


def test_a_full_frame_under_another_id_is_of_the_open_message() -> None:
    """Where a proxy may rename messages, the full frame of the open one under another id makes no second message."""
    events = run_of(
        text("The whole answer", message="m1"), text("The whole answer.", "final", None, "m2"), traits=REPAIRS
    )
    assert [event.message_id for event in of_type(events, MessageStarted)] == ["m1"]
    assert texts(events) == ["The whole answer."]


@pytest.mark.parametrize("mode", ["delta", "final"])
def test_another_text_under_another_id_is_of_another_message(mode: up.Mode) -> None:
    """There too, a text that continues nothing begins the message that it names."""
    events = run_of(text("The whole answer", message="m1"), text("Another one", mode, None, "m2"), traits=REPAIRS)
    assert [event.message_id for event in of_type(events, MessageStarted)] == ["m1", "m2"]


@pytest.mark.parametrize("repeat", [text("It is 4.", "final", 0, "m1"), up.ToolCall("c1", "t", message="m1")])
def test_a_message_learns_its_id(repeat: up.Text | up.ToolCall) -> None:
    """A message whose start was lost, or had no id, is the one that a whole text or a call in it names."""
    events = run_of(text("It is 4.", place=0), repeat, text(" Or 5.", place=1, message="m1"), traits=BLOCK_ENDS)
    assert len(of_type(events, MessageStarted)) == 1
    assert [event.message_id for event in of_type(events, MessageEnded)] == ["m1"]


def test_a_message_that_was_never_repeated_is_superseded() -> None:
    """On a wire with finals, a message of which nothing was repeated in full is superseded by the next one."""
    events = run_of(up.MessageStart("m1"), text("a", place=0), up.MessageStart("m2"), traits=FINALS)
    assert of_type(events, MessageEnded)[0].status == "superseded"


def test_a_block_ends_where_another_one_starts() -> None:
    """On a wire without end marks, a block ends when another one of its message starts."""
    events = run_of(text("a", place=0), text("b", place=1))
    order = [name for name in names(events) if name.startswith("Block")]
    assert order == ["BlockStarted", "BlockEnded", "BlockStarted", "BlockEnded"]


def test_a_block_of_an_ended_message_opens_it_again() -> None:
    """The text of a block that was announced, and whose message ended before it had any, is in a message of that id."""
    events = run_of(
        up.MessageStart("m1"),
        up.BlockStart("text", 0, "m1"),
        up.MessageStart("m2"),
        text("late", "final", 0, "m1"),
        traits=BLOCK_ENDS,
    )
    assert [event.message_id for event in of_type(events, MessageStarted)] == ["m1", "m2", "m1"]
    assert texts(events) == ["late"]


def test_a_sub_agent_too_many_ends_the_oldest() -> None:
    """One sub-agent more than are followed at once ends the message of the oldest one, and no other."""
    events = run_of(*(up.Text("text", "delta", "x", lane=f"c{number}") for number in range(MAX_LANES + 1)))
    at = names(events).index("MessageEnded")
    assert events[at].parent == "c0"
    assert [event.parent for event in events[at:] if isinstance(event, MessageStarted)] == [f"c{MAX_LANES}"]


# --- how a message ends ----------------------------------------------------------------------------


def test_the_answer_is_what_the_agent_calls_so() -> None:
    """If the agent names the roles of its messages, the reply is the text of those that it calls its answer."""
    events = run_of(
        text("I look.", message="m1"),
        up.Phase("commentary"),
        text("It is 4.", message="m2"),
        up.Phase("final", "m2"),
        text("One more remark.", message="m3"),
        up.Phase("final", "never begun"),
        up.Result(),
    )
    assert ended(events).reply == "It is 4."


def test_remarks_are_the_reply_if_there_is_nothing_else() -> None:
    """Remarks on the work are left out of the reply, unless there is no other text in the round."""
    remark = (text("I look.", message="m1"), up.Phase("commentary"))
    assert ended(run_of(*remark, up.Result())).reply == "I look."
    assert ended(run_of(*remark, text("It is 4.", message="m2"), up.Result())).reply == "It is 4."


@pytest.mark.parametrize(
    ("place", "repeated", "status", "complete"),
    [(1, False, "ok", [True, False]), (0, False, "superseded", [False, False]), (0, True, "ok", [True, False])],
)
def test_blocks_that_the_agent_withdrew(place: int, repeated: bool, status: str, complete: list[bool]) -> None:
    """Blocks from some place on are superseded, but for one that was repeated; with all of them, the message."""
    final = [text("one", "final", 0)] if repeated else []
    events = run_of(
        up.MessageStart("m1"),
        text("one", place=0),
        *final,
        text("two", place=1),
        up.BlockStart("thinking", "named", "m1"),
        up.MessageEnd("m1", abandoned_from=place),
        traits=FINALS,
    )
    [end] = of_type(events, MessageEnded)
    assert end.status == status
    assert [event.complete for event in of_type(events, BlockEnded)] == complete
    assert ended(events).reply == ("" if status == "superseded" else "one")


@pytest.mark.parametrize("message", [None, "m2"])
def test_an_end_without_its_message_is_nothing(message: str | None) -> None:
    """The end of a message that is not open changes nothing."""
    opened: list[up.Update] = [] if message is None else [up.MessageStart("m1"), text("one")]
    events = run_of(*opened, up.MessageEnd(message, status="cut"), up.MessageEnd("m1"), traits=BLOCK_ENDS)
    assert [event.status for event in of_type(events, MessageEnded)] == ["ok"] * bool(opened)


def test_a_superseded_attempt_of_a_sub_agent() -> None:
    """A sub-agent's message that begins anew supersedes its first attempt, and has no effect on the reply."""
    normalizer = Normalizer("test", BLOCK_ENDS)
    for update in (
        up.MessageStart("m1", "c1"),
        up.Text("text", "delta", "same", 0, "m1", "c1"),
        up.MessageStart("m1", "c1"),
        text("same"),
        up.Result("same"),
    ):
        normalizer.apply(update)
    normalizer.close()
    events = checked(normalizer)
    first = of_type(events, MessageEnded)[0]
    assert (first.parent, first.status) == ("c1", "superseded")
    assert ended(events).reply == "same"
    assert normalizer.health.superseded_attempts == 1


def test_half_a_character_at_the_end() -> None:
    """The first half of a character whose second never comes is replaced when its block ends."""
    events = run_of(text("a\ud83d"), text("\ude00b\ud83d"))
    assert [event.text for event in of_type(events, Delta)] == ["a", "😀b", "\ufffd"]
    assert texts(events) == ["a😀b\ufffd"]


# --- usage -----------------------------------------------------------------------------------------


def test_usage_in_parts() -> None:
    """Figures of a message may come in parts and name it: later ones replace earlier ones, and its end reports them."""
    events = run_of(
        up.MessageStart("m1"),
        up.ModelUsage(Usage(input_tokens=1, output_tokens=1), "big", "m1"),
        up.ModelUsage(Usage(output_tokens=5), message="m1"),
        up.MessageEnd("m1"),
        up.ModelUsage(Usage(output_tokens=9), message="m1"),  # it has ended
        up.ModelUsage(Usage(output_tokens=9), message="m9"),  # it never began
        up.ModelUsage(Usage(output_tokens=2), whole=True),
        traits=BLOCK_ENDS,
    )
    found = [(event.model, event.input_tokens, event.output_tokens) for event in of_type(events, UsageReported)]
    assert found == [("big", 1, 5), (None, None, 2)]
    assert ended(events).usage == Usage(input_tokens=1, output_tokens=7)


# --- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "level", "words"),
    [
        (up.Result(), "info", "the agent ended again"),
        (up.Result(is_error=True), "warning", "the agent ended again, with an error"),
        (up.Result(reason="said so"), "info", "said so"),
    ],
)
def test_a_second_result_without_anything_new(second: up.Result, level: str, words: str) -> None:
    """A result that follows another one directly is a notice, and the first one stays."""
    events = run_of(text("4"), up.Result(), second)
    assert len(of_type(events, Replied)) == 1
    [notice] = of_type(events, Notice)
    assert (notice.code, notice.level, notice.text) == ("result", level, words)
    assert ended(events).outcome == "ok"


def test_a_result_that_names_the_stop_reason() -> None:
    """A limit that only the result names fails the run as one that the message names does."""
    events = run_of(text("half of"), up.Result(stop_reason="max_tokens"))
    assert ended(events).outcome == "error"
    assert ended(events).reply == "half of"


def test_the_text_of_a_superseded_attempt_is_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that repeats the text of an attempt that was begun anew does not bring it back."""
    attempts: list[up.Update] = [up.MessageStart("m1")]
    for words in ("old 1", "old 2"):
        attempts += [text(words, place=0), up.MessageStart("m1")]
    assert ended(run_of(*attempts, up.Result("old 1"), traits=BLOCK_ENDS)).reply == ""
    monkeypatch.setattr(outcome, "MAX_SUPERSEDED", 1)  # only the last one is remembered
    assert ended(run_of(*attempts, up.Result("old 2"), traits=BLOCK_ENDS)).reply == ""
    normalizer = Normalizer("test", BLOCK_ENDS)
    for update in (*attempts, up.Result("old 1")):
        normalizer.apply(update)
    assert of_type(normalizer.drain(), Replied)[0].reply == "old 1"


def test_after_the_end_there_is_nothing() -> None:
    """Updates after the end, and a second end, make no event."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.close()
    assert names(normalizer.drain()) == ["RunEnded"]
    normalizer.apply(text("late"))
    normalizer.apply_batch([[text("late")]], b"{}\n", list, no_failure)
    normalizer.close()
    assert normalizer.drain() == []


def test_a_plan_that_is_the_same_is_one_event() -> None:
    """A plan is emitted when it changes."""
    assert names(run_of(up.Plan([]), up.Plan([]))) == ["PlanChanged", "RunEnded"]


# --- memory ----------------------------------------------------------------------------------------


def test_a_block_that_is_too_long_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block that is too long the beginning is kept for its end, which says so; all deltas are emitted."""
    monkeypatch.setattr(state, "MAX_BLOCK_CHARS", 10)
    events = run_of(*[text("12345678")] * 3, text("another", "final"), up.Result())
    assert [event.text for event in of_type(events, Delta)] == ["12345678"] * 3
    [end] = of_type(events, BlockEnded)
    assert (end.text, end.truncated) == ("12345678" + "12", True)
    assert of_type(events, BlockRevised) == []  # a final cannot be compared with what is not kept


def test_the_pieces_of_a_block_are_joined() -> None:
    """Many short pieces are joined from time to time, and the text is the same."""
    block = Block("text", None, None)
    for number in range(PARTS + 1):
        block.add(str(number % 10))
    assert block.size == PARTS + 1
    assert block.parts == []
    assert len(block.text) == PARTS + 1


def test_the_open_blocks_are_compacted() -> None:
    """The deltas that a fast stream appends to an open block are joined when the stream asks for it."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(text("first "))
    normalizer.apply_batch([[text("x")]] * (PARTS + 1), b"{}\n" * (PARTS + 1), list, no_failure)
    normalizer.compact()
    normalizer.compact()
    normalizer.close()
    assert texts(checked(normalizer)) == ["first " + "x" * (PARTS + 1)]


def test_a_lane_remembers_the_newest_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late final is matched with one of the newest messages; an older one begins again."""
    monkeypatch.setattr(state, "MAX_MESSAGES", 2)
    starts = [text(f"text of {key}", message=key) for key in ("m1", "m2", "m3")]
    again = [text(f"text of {key}", "final", None, key) for key in ("m2", "m1")]
    events = run_of(*starts, *again)
    assert [event.message_id for event in of_type(events, MessageStarted)] == ["m1", "m2", "m3", "m1"]


def test_only_what_has_ended_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgotten message lets go of its blocks that have ended; an open message, and an open block, keep theirs."""
    monkeypatch.setattr(state, "MAX_MESSAGES", 1)
    lane = state.Lane(None)
    messages = [Message(key, 1, explicit=True) for key in ("m1", "m2", "m3")]
    for message in messages:
        for place in (0, 1):
            message.add(Block("text", message, None), place)
        message.blocks[0].ended = True
    messages[1].ended = True
    for message in messages:
        lane.remember(message)
    assert [[block.message is not None for block in message.blocks] for message in messages] == [
        [True, True],
        [False, True],
        [True, True],
    ]


def test_a_message_remembers_the_newest_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a message with many blocks the newer half is remembered, and those that have not ended."""
    monkeypatch.setattr(state, "MAX_BLOCKS", 4)
    message = Message("m", 1, explicit=True)
    blocks = [Block("text", message, None) for _ in range(5)]
    for place, block in enumerate(blocks):
        block.ended = place != 1
        message.add(block, place)
    assert message.blocks == [blocks[1], *blocks[3:]]
    assert list(message.places) == [1, 3, 4]


def test_the_text_of_a_round_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest messages of a round that says too much are left out of its reply."""
    monkeypatch.setattr(state, "MAX_REPLY_CHARS", 10)
    events = run_of(*(text(f"text {number}", message=f"m{number}") for number in range(4)))
    assert ended(events).reply == "text 3"


def test_the_block_that_a_whole_text_repeats() -> None:
    """Of several blocks that were not repeated, a whole text is of the one that it continues, else of the oldest."""
    message = Message("m", 1, explicit=True)
    blocks = [Block("text", message, None, guess=SnapshotGuess()) for _ in range(3)]
    for place, (block, words) in enumerate(zip(blocks, ("", "first", "second"), strict=True)):
        block.add(words)
        message.add(block, place)
    assert message.unfinished("text", "second one") is blocks[2]
    assert message.unfinished("text", "none of them") is blocks[0]
    assert message.unfinished("thinking", "none of them") is None
