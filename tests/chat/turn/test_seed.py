"""The criteria and guardrails of the chat's older design, one by one; `docs/seeds.md` has its words.

What a page is to show is judged by what it says a page does (`Page`), and by the texts that were read from the wire
by hand (`expected.json`), never by what a turn has put out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_updates import events_from
from turn_judge import BASH, FEW, START, WORKING, check, one_by_one, run, text, thought

from penstock import updates as up
from penstock.chat.reasoning_tags import strip_tags
from penstock.chat.turn import (
    Assistant,
    Completed,
    FinalMessageStart,
    OpenQuestion,
    Streaming,
    Thinking,
    Turn,
    TurnEvent,
)
from penstock.core.normalizer.outcome import Exit
from penstock.events import (
    BlockEnded,
    BlockRevised,
    BlockStarted,
    Delta,
    Event,
    MessageEnded,
    Notice,
    Option,
    PlanChanged,
    QuestionAsked,
    Replied,
    RunEnded,
)
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording


MAX_STEPS = 400


class Page:
    """The page of the older design: its two streams, and its thread."""

    def __init__(self) -> None:
        self.thinking = ""
        self.content = ""
        self.thread: list[str] = []

    def show(self, event: TurnEvent) -> None:
        """One event, as its table has it."""
        if isinstance(event, Thinking):
            self.thinking = event.content
        elif isinstance(event, FinalMessageStart):
            self.thinking = ""
        elif isinstance(event, Assistant):
            self.content = event.content
        elif isinstance(event, Completed):
            self.thinking = self.content = ""
            self.thread.append(event.message)


def shown(out: list[TurnEvent]) -> Page:
    """The page at the end of a turn."""
    page = Page()
    for event in out:
        page.show(event)
    return page


@cache
def _events(agent: str, data: bytes) -> tuple[Event, ...]:
    return tuple(feeds.whole(Stream(agent), data))


def events_of(recording: Recording) -> list[Event]:
    """The run of a recording."""
    return list(_events(recording.agent, recording.data))


def played(events: list[Event]) -> list[TurnEvent]:
    """The turn of a run, event by event; a very long one in some hundred steps, as a viewer gets it."""
    turn, size = Turn(), 1 + len(events) // MAX_STEPS
    out = turn.start()
    for start in range(0, len(events), size):
        out += turn.feed(events[start : start + size])
    return out


def turn_of(recording: Recording) -> list[TurnEvent]:
    """The turn of a recording."""
    return played(events_of(recording))


def told(recording: Recording, kind: str) -> list[str]:
    """What the agent said, as it was read by hand; very long texts, of which only the hash is known, are left out."""
    return [said for each, said in recording.expected["blocks"] if each == kind and isinstance(said, str)]


def is_short(recording: Recording) -> bool:
    """Whether all of its texts are known, not only their hashes."""
    return all(isinstance(said, str) for _, said in recording.expected["blocks"])


def reply_of(recording: Recording) -> Any:
    """The reply as it is to be shown, or the hash of one that is very long; none of those has tags."""
    reply = recording.expected["reply"]
    return strip_tags(reply) if isinstance(reply, str) else reply


def bubbles(out: list[TurnEvent]) -> list[list[str]]:
    """What the bubble held: a list for each text that did not go on from the one before."""
    found: list[list[str]] = []
    for event in out:
        if isinstance(event, Assistant):
            if event.replace or not found:
                found.append([])
            found[-1].append(event.content)
    return found


def squeezed(said: str) -> str:
    """Without the line ends, which stand between messages that are one text."""
    return said.replace("\n", "")


def goes_on(recording: Recording) -> bool:
    """Whether the agent goes on after its answer, once work in the background has ended: that comes as the message."""
    return "background" in recording.case


def takes_back(recording: Recording) -> bool:
    """Whether the agent takes back a whole answer and gives another one."""
    return any(isinstance(event, Notice) and event.code == "retry" for event in events_of(recording))


@pytest.fixture
def rounds(recordings: list[Recording]) -> list[Recording]:
    """The recordings with tools whose last round has text: those of many rounds."""
    short = [case for case in recordings if is_short(case) and not goes_on(case)]
    some = [case for case in short if case.expected["calls"] and case.expected["reply"]]
    found = [case for case in some if len(told(case, "text")) > 1 and told(case, "text")[-1] in case.expected["reply"]]
    assert len({case.agent for case in found}) >= 10
    return found


# --- success criteria ------------------------------------------------------------------------------


@pytest.mark.slow
def test_sc1_only_the_latest_chunk_of_thinking(recordings: list[Recording]) -> None:
    """Each thinking event is its chunk alone, so the chunks joined are what the agent thought, once."""
    seen = 0
    for recording in recordings:
        page, chunks = Page(), []
        for event in turn_of(recording):
            page.show(event)
            if isinstance(event, Thinking):
                chunks.append(event.content)
                assert page.thinking == event.content
        if recording.case != "restart":  # its first attempt was shown, and is in no list of what it said
            assert "".join(chunks) == "".join(told(recording, "thinking")), recording
        seen += len(chunks) > 1
    assert seen >= 20


@pytest.mark.slow
def test_sc2_the_first_text_clears_the_thinking(recordings: list[Recording]) -> None:
    """Thinking is on the page until the first text, and from then on the reply alone."""
    seen = 0
    for recording in recordings:
        out, page = turn_of(recording), Page()
        for at, event in enumerate(out):
            thought_before = page.thinking
            page.show(event)
            if isinstance(event, FinalMessageStart):
                assert (page.thinking, page.content) == ("", "")
                first = out[at + 1]
                assert isinstance(first, Assistant)
                assert first.content.strip()
                assert not is_short(recording) or told(recording, "text")[0].strip().startswith(first.content.strip())
                seen += bool(thought_before)
    assert seen >= 15


STARTED_AGAIN = ("restart", "vibe-errstream", "vibe-maxtok")
"""Recordings whose agent gives a text up and begins it again."""


@pytest.mark.slow
def test_sc3_the_reply_types_out(recordings: list[Recording]) -> None:
    """The bubble only grows, in many steps where the agent sends pieces, and each text stands in it once."""
    grown = 0
    for recording in recordings:
        found = bubbles(turn_of(recording))
        for contents in found:
            assert all(after.startswith(before) for before, after in itertools.pairwise(contents))
            assert len(set(contents)) == len(contents)
        starts_again = recording.case in STARTED_AGAIN or goes_on(recording) or takes_back(recording)
        if is_short(recording) and not starts_again:
            each = "".join(squeezed(contents[-1]) for contents in found)
            assert each == "".join(squeezed(strip_tags(said)) for said in told(recording, "text")), recording
        grown += any(len(contents) > 5 for contents in found)
    assert grown >= 40


def test_sc4_at_the_end_only_the_message_stands(recording: Recording, shorten: Callable[[str], Any]) -> None:
    """The streams are cleared, and the thread has the reply that was read from the wire by hand, and nothing else."""
    page = shown(turn_of(recording))
    assert (page.thinking, page.content) == ("", "")
    assert [shorten(message) for message in page.thread] == [reply_of(recording)]


def test_sc5_runs_without_thinking_or_with_whole_messages(recordings: list[Recording]) -> None:
    """They are turns like others: the message was in the bubble, and is in the thread."""
    silent = whole = 0
    for recording in recordings:
        texts = [event for event in events_of(recording) if isinstance(event, Delta) and event.kind == "text"]
        one_each = len({event.block for event in texts}) == len(texts) > 0
        if not is_short(recording) or (told(recording, "thinking") and not one_each):
            continue
        out = turn_of(recording)
        check(out)
        assert shown(out).thread == [reply_of(recording)]
        if reply_of(recording):
            assert bubbles(out)[-1][-1].strip() == reply_of(recording).strip()
            silent += not told(recording, "thinking")
            whole += one_each
    assert silent >= 40
    assert whole >= 20
    assert run(up.Text("text", "final", "All of it.", message="m1"), up.Result(reply="All of it.")) == [
        *(WORKING, START, Assistant("All of it."), Completed("All of it.", "ok"))
    ]


# --- guardrails ------------------------------------------------------------------------------------


def test_g1_the_end_clears_the_page_however_it_comes(recording: Recording) -> None:
    """Cut off, killed, or without any end in the log: the streams are cleared, once."""
    for at in feeds.cut_points(recording.data, 4):
        events = feeds.cut(Stream(recording.agent), recording.data, at)
        crashed = Turn()
        for out in (played(events), [*crashed.feed(events[: len(events) // 2]), *crashed.close("gone")]):
            page = shown(out)
            assert (page.thinking, page.content, len(page.thread)) == ("", "", 1)
            assert isinstance(out[-1], Completed)


def test_g2_one_final_message_start(recording: Recording) -> None:
    """Once a turn that has text, however many rounds it has; never without."""
    starts = [event for event in turn_of(recording) if isinstance(event, FinalMessageStart)]
    assert len(starts) == any(kind == "text" for kind, _ in recording.expected["blocks"])


@pytest.mark.parametrize(
    ("mode", "sent", "chunks"),
    [
        ("snapshot", ["A", "AB", "ABC"], ["A", "B", "C"]),
        ("delta", ["A", "B", "C"], ["A", "B", "C"]),
        ("delta", ["ha", "haha", "ha", "ha"], ["ha", "haha", "ha", "ha"]),
    ],
)
def test_g3_no_chunk_of_thinking_is_dropped_or_doubled(mode: up.Mode, sent: list[str], chunks: list[str]) -> None:
    """Accumulated or in pieces, as the agent sends it; a piece that begins like the one before is no snapshot."""
    out = run(*(up.Text("thinking", mode, piece, place="t") for piece in sent), up.Result())
    assert [event.content for event in out if isinstance(event, Thinking)] == chunks


def test_g4_assistant_has_all_of_the_reply_so_far(recording: Recording) -> None:
    """A page that sets the bubble to each content, and one that joins the new text of each, show the same."""
    page, joined = Page(), ""
    for event in turn_of(recording):
        if isinstance(event, Assistant):
            joined = "" if event.replace else joined
            assert event.content.startswith(joined)
            joined += event.content[len(joined) :]
        page.show(event)
        assert isinstance(event, Completed) or page.content == joined


def test_g5_the_order_of_events(recording: Recording) -> None:
    """`streaming`, then thinking, then the start of the reply, then the reply, then `completed`."""
    check(turn_of(recording))


OPTIONS = [Option("A", "A", "choice"), Option("B", "B", "choice")]
QUESTION = OpenQuestion("q1", "Which one?", "choice", OPTIONS)


def test_g6_an_early_exit_does_not_reset_the_text(recording: Recording) -> None:
    """A question in the middle of any run ends the turn with what its round had said so far, and the question."""
    events = events_of(recording)
    rng = random.Random(recording.name)
    end = next((at for at, event in enumerate(events) if isinstance(event, Replied)), len(events) - 1)
    asked = QuestionAsked("q1", "Which one?", False, "choice", OPTIONS, agent=recording.agent)
    known = squeezed("".join(strip_tags(said) for said in told(recording, "text")))
    spoke, last = _last_text(events[: end + 1])
    for at in {*rng.sample(range(end + 1), min(4, end + 1)), spoke}:
        completed = check(played([*events[:at], asked, *events[at:]]))
        before = Turn()
        crashed = check(before.feed(events[:at]) + before.close())
        said = completed.message.removesuffix("Which one?").strip()
        assert completed.question == QUESTION
        assert completed.message.endswith("Which one?")
        assert said == crashed.message.strip()
        assert at != spoke or said.endswith(strip_tags(last).strip())
        if is_short(recording) and recording.case != "restart":
            assert squeezed(said) in known


def _last_text(events: list[Event]) -> tuple[int, str]:
    """The place behind the last text of the top agent, and that block's text so far."""
    top = [(at, e) for at, e in enumerate(events, 1) if isinstance(e, Delta | BlockRevised) and e.parent is None]
    at, last = next(((at, e) for at, e in reversed(top) if e.kind == "text"), (0, None))
    said = ""
    for _, event in top:
        if last is not None and event.block == last.block:
            said = event.text if isinstance(event, BlockRevised) else said + event.text
    return at, said


# --- the final message alone: success criteria -----------------------------------------------------


def test_final_sc1_only_the_last_round(rounds: list[Recording]) -> None:
    """What was said between the calls was shown, and is not part of the message; nor is what was thought or called."""
    earlier = 0
    for recording in rounds:
        out = turn_of(recording)
        message, found = shown(out).thread[0], ["".join(contents[-1:]) for contents in bubbles(out)]
        assert message == reply_of(recording)
        for said in told(recording, "text"):
            assert any(strip_tags(said).strip() in content for content in found)
            if said not in recording.expected["reply"]:
                earlier += 1
                assert said.strip() not in message
        hidden = [*told(recording, "thinking"), *_words(recording.expected["calls"])]
        for words in hidden:
            assert words in recording.expected["reply"] or words not in message
            assert any(words in said for said in told(recording, "text")) or not any(words in each for each in found)
    assert earlier >= 60


def _words(value: Any) -> Iterator[str]:
    """The texts in a call's name and input; short ones are words of any reply."""
    if isinstance(value, str):
        yield from [value] if len(value) > 12 else []
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _words(inner)


def test_final_sc2_one_round_is_whole(recordings: list[Recording]) -> None:
    """A run without tools ends with all that it said, code fences whole."""
    fenced = seen = 0
    for recording in recordings:
        if recording.expected["calls"] or recording.expected["outcome"] != "ok" or not is_short(recording):
            continue
        if any(isinstance(event, PlanChanged) for event in events_of(recording)):
            continue  # a tool's work, though it is told as no call
        if takes_back(recording):
            continue  # what was taken back is not part of the message
        (message,) = shown(turn_of(recording)).thread
        assert squeezed(message) == squeezed("".join(strip_tags(said) for said in told(recording, "text")))
        assert message.count("```") == recording.expected["reply"].count("```")
        seen += 1
        fenced += "```" in message
    assert seen >= 30
    assert fenced >= 8


def test_final_sc3_rounds_replace_each_other(rounds: list[Recording]) -> None:
    """Each round's first text takes the place of the one before; at the end the bubble is cleared."""
    for recording in rounds:
        out = turn_of(recording)
        found = bubbles(out)
        texts = [squeezed(strip_tags(said)) for said in told(recording, "text")]
        assert len(found) > 1, recording
        for contents, after in itertools.pairwise(found):
            same = squeezed(contents[-1]) == squeezed(after[-1])  # an agent may say the same again
            assert same or squeezed(contents[-1]) not in squeezed(after[-1])
        assert "".join(squeezed(contents[-1]) for contents in found) == "".join(texts)
        assert (shown(out).content, len(shown(out).thread)) == ("", 1)


BEFORE = ("<thi", "nk>a secret", " thought</think>\n\n")
BEHIND = ("\n\n<tool_c", 'all>{"name": "secret"}</tool', "_call>")


def tagged(events: list[Event]) -> Iterator[Event]:
    """The run of a model whose server knows no tags: each text has a thought before it and a call behind it."""
    ended: set[int] = set()
    for event in events:
        if isinstance(event, Replied | RunEnded) and event.reply:
            yield msgspec.structs.replace(event, reply=_with_tags(event.reply))
        elif isinstance(event, BlockRevised) and event.kind == "text":
            whole = _with_tags(event.text) if event.block in ended else "".join(BEFORE) + event.text
            yield msgspec.structs.replace(event, text=whole)
        elif isinstance(event, BlockEnded) and event.kind == "text":
            ended.add(event.block)
            for piece in BEHIND:
                yield Delta(event.block, "text", piece, agent=event.agent, parent=event.parent)
            yield msgspec.structs.replace(event, text=_with_tags(event.text))
        else:
            yield event
        if isinstance(event, BlockStarted) and event.kind == "text":
            for piece in BEFORE:
                yield Delta(event.block, "text", piece, agent=event.agent, parent=event.parent)


def _with_tags(said: str) -> str:
    return "".join((*BEFORE, said, *BEHIND))


@pytest.mark.sample(9)
def test_final_sc4_no_tags_in_stream_or_message(recording: Recording, shorten: Callable[[str], Any]) -> None:
    """Tags around every text of a run change nothing: neither they nor what stands in them is ever on the page."""
    events = events_of(recording)
    goes_on = any(isinstance(event, MessageEnded) and event.stop_reason == "max_tokens" for event in events)
    goes_on = goes_on or recording.case == "goeson"  # droid's wire does not say that a text goes on
    if recording.expected["outcome"] != "ok" or goes_on:  # tags in the middle of a text, here of code, are text
        return
    out = played(list(tagged(events)))
    message = check(out).message
    texts = [content for contents in bubbles(out) for content in contents]
    assert not [content for content in [message, *texts] if "secret" in content or "<th" in content]
    if isinstance(recording.expected["reply"], str):
        assert message.strip() == reply_of(recording).strip()


@pytest.mark.parametrize(
    ("path", "completed"),
    [
        (
            [
                up.Question("q1", "Which one?", "choice", OPTIONS),
                up.MessageEnd(),
                up.MessageStart("m2"),
                text("I go on."),
            ],
            Completed("Two ways.\n\nWhich one?", "ok", question=QUESTION),
        ),
        (
            [
                up.Question("q1", "May I?", "tool"),
                up.Answer("q1", "person", "once"),
                text(" I go on."),
                up.Result(),
            ],
            Completed("Two ways. I go on.", "ok"),
        ),
        ([up.MessageEnd(), up.Result(reply="Two ways. Both good.")], Completed("Two ways. Both good.", "ok")),
        ([up.Result(is_error=True, reason="overloaded")], Completed("Two ways.", "error", "overloaded")),
        ([up.Result(cancelled=True, reason="stopped")], Completed("Two ways.", "cancelled", "stopped")),
    ],
    ids=["a question", "a question with its answer", "an explicit final message", "an error", "cancelled"],
)
def test_final_sc5_early_ends_have_their_message(path: list[up.Update], completed: Completed) -> None:
    """Each way out of a run returns the message that is meant."""
    assert run(up.MessageStart("m1"), text("Two ways."), *path)[-1] == completed


# --- the final message alone: guardrails -----------------------------------------------------------


def test_final_g1_only_a_new_round_resets() -> None:
    """The early exit of a second round has that round's text, whole, and none of the first."""
    first = (up.MessageStart("m1"), text("I look."), *BASH, up.MessageEnd())
    second = (up.MessageStart("m2"), text("Two "), text("ways."))
    early = run(
        *first, *second, up.Question("q1", "Which one?", "choice", OPTIONS), up.MessageEnd(), up.MessageStart("m3")
    )
    assert early[-1] == Completed("Two ways.\n\nWhich one?", "ok", question=QUESTION)
    timed_out = run(*first, *second, exit=Exit(signal=15, timed_out=True))[-1]
    assert isinstance(timed_out, Completed)
    assert (timed_out.message, timed_out.outcome) == ("Two ways.", "timed_out")


@given(rounds=st.lists(st.lists(st.text(st.sampled_from("ab \n`<think>/"), min_size=1), min_size=1), min_size=1))
@FEW
def test_final_g2_within_a_round_text_accumulates(rounds: list[list[str]]) -> None:
    """The pieces of each round are put together, and those of the last one stay."""
    updates: list[up.Update] = []
    for number, texts in enumerate(rounds):
        updates += [up.MessageStart(f"m{number}"), *(up.Text("text", "delta", text, place=0) for text in texts)]
        if number < len(rounds) - 1:
            updates += [up.ToolCall(f"c{number}", "Bash", {"command": "ls"}, place=1), up.MessageEnd()]
            updates.append(up.ToolReturn(f"c{number}", "x"))
    updates += [up.MessageEnd(), up.Result()]
    end = check(one_by_one(events_from(up.Traits(block_ends=True), updates)))
    assert end.message == strip_tags("".join(rounds[-1]))


def test_final_g2_messages_of_one_round_accumulate() -> None:
    """A new message without results between is the same round: its text follows."""
    out = run(up.MessageStart("m1"), text("One."), up.MessageEnd(), up.MessageStart("m2"), text("Two."), up.Result())
    assert bubbles(out) == [["One.", "One.\n\nTwo."]]
    assert out[-1] == Completed("One.\n\nTwo.", "ok")


def test_final_g3_the_message_is_normalized_at_the_end(recording: Recording) -> None:
    """Where only the agent's last word has the reply, and never a text of its own, its tags go all the same."""
    reply = recording.expected["reply"]
    if not isinstance(reply, str) or recording.expected["outcome"] != "ok":
        return
    last: list[Event] = [event for event in events_of(recording) if isinstance(event, Replied | RunEnded)]
    assert check(played(list(tagged(last)))).message.strip() == strip_tags(reply).strip()


def test_final_g4_the_contract_of_the_events() -> None:
    """The payloads, and what comes when: pieces of thinking, one start, rounds that replace each other, one message."""
    kinds = (Thinking, FinalMessageStart, Assistant)
    fields = {kind.__name__: {*kind.__struct_fields__} - {"turn"} for kind in kinds}  # `turn` is the chat's
    assert fields == {"Thinking": {"content"}, "FinalMessageStart": set(), "Assistant": {"content", "replace"}}
    assert run(
        *(up.MessageStart("m1"), thought("I "), thought("look."), text("Let me "), text("look."), *BASH),
        *(up.MessageEnd(), up.MessageStart("m2"), thought("So."), text("All "), text("done."), up.MessageEnd()),
        up.Result(reply="All done."),
    ) == [
        WORKING,
        Thinking("I "),
        Thinking("look."),
        START,
        Assistant("Let me"),
        Assistant("Let me look."),
        Streaming("Running a command…"),
        WORKING,
        Thinking("So."),
        Assistant("All", replace=True),
        Assistant("All done."),
        Completed("All done.", "ok"),
    ]


def test_final_g5_tags_are_taken_out_in_one_place(recording: Recording) -> None:
    """What the bubble held last is the message, with and without tags; code about them stays in both."""
    for events in (events_of(recording), list(tagged(events_of(recording)))):
        out = played(events)
        found, message = bubbles(out), check(out).message
        assert not found or found[-1][-1].strip() == message.strip()
    pieces = ["<thi", "nk>secret</th", "ink>\n\nSee:\n```xml\n<thi", "nk>\n```\n<tool_call>secret", "</tool_call>"]
    out = run(*map(text, pieces), up.Result())
    assert bubbles(out)[-1][-1] == "See:\n```xml\n<think>\n```"
    assert out[-1] == Completed("See:\n```xml\n<think>\n```", "ok")
