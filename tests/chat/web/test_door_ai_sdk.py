"""Streams of the AI SDK made of every recording: each ends as its run did, for a strict reader and for the SDK."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ai_sdk_clients
import msgspec
import pytest
from recorded_turns import end_of, entries_of, first_question, plan_and_notices

from penstock import events as ev
from penstock.chat.history.entries import Answered, Entry, Numbered, Prompted, TurnBegan
from penstock.chat.web.doors.ai_sdk import UiOptions, UiStream, shown_before
from penstock.chat.web.doors.turn_fold import FAILURES

if TYPE_CHECKING:
    from conftest import Recording

OPTIONS = UiOptions("t2")
FINAL = {"start", "start-step", "finish-step", "text-start", "text-delta", "text-end", "message-metadata", "finish"}
FINAL |= {"error", "abort", "data-status", "data-question", "tool-input-available", "tool-approval-request"}
FULL = FINAL | {"reasoning-start", "reasoning-delta", "reasoning-end", "tool-output-available", "tool-output-error"}
FULL |= {"data-plan", "data-notice"}


class Reader:
    """A reader that takes no liberty: what it accepts, each version of the SDK does."""

    def __init__(self, data: bytes) -> None:
        self.texts: list[str] = []
        self.last = ""
        self.end: str | None = None
        self.error: str | None = None
        self.ids: set[str] = set()
        self.calls: dict[str, Any] = {}
        self.question: str | None = None
        self.metadata: dict[str, Any] = {}
        self.kinds: set[str] = set()
        self.plan: Any = None
        self.notices: list[str] = []
        self._open: dict[str, str] = {}
        self._in_step = False
        parts = list(parts_of(data))
        assert parts[0]["type"] == "start"
        assert parts[0]["messageId"] == "t2"
        for part in parts[1:]:
            assert self.end is None, f"{part} after the end"
            self._take(part)
        assert not self._open
        assert not self._in_step

    def _take(self, part: dict[str, Any]) -> None:
        kind = part["type"]
        self.kinds.add(kind)
        assert None not in [value for name, value in part.items() if name != "input"], "null breaks a client"
        if kind == "start-step":
            assert not self._in_step
            self._in_step, self.texts = True, []
        elif kind == "finish-step":
            assert self._in_step
            assert not self._open
            self._in_step = False
        elif kind.endswith("-start"):
            assert part["id"] not in self.ids
            self.ids.add(part["id"])
            self._open[part["id"]] = kind.removesuffix("-start")
        elif kind.endswith("-delta"):
            assert self._open[part["id"]] == kind.removesuffix("-delta")
            if kind == "text-delta":
                self.texts.append(part["delta"])
                self.last = "".join(self.texts)
        elif kind.endswith("-end"):
            assert self._open.pop(part["id"]) == kind.removesuffix("-end")
        elif kind == "tool-input-available":
            assert part["toolCallId"] not in self.calls
            assert part["dynamic"] is part["providerExecuted"] is True
            self.calls[part["toolCallId"]] = None
        elif kind.startswith("tool-output-"):
            assert self.calls[part["toolCallId"]] is None
            self.calls[part["toolCallId"]] = part
        elif kind == "tool-approval-request":
            assert part["toolCallId"] in self.calls
            self.question = part["approvalId"]
        elif kind == "data-question":
            self.question = part["id"]
        elif kind == "message-metadata":
            self.metadata = part["messageMetadata"]
        elif kind in ("finish", "error", "abort"):
            self.end = kind
            self.error = part.get("errorText")
            assert part.get("finishReason", "stop") in ("stop", "tool-calls")
        elif kind == "data-plan":
            self.plan = part["data"]["items"]
        elif kind == "data-notice":
            self.notices.append(part["data"]["text"])
        else:
            assert kind.startswith("data-")


def parts_of(data: bytes) -> Iterator[dict[str, Any]]:
    """The parts of a stream. Each is one line; the last says that it is over."""
    *blocks, done, rest = data.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    for block in blocks:
        assert block.startswith(b"data: ")
        assert b"\n" not in block
        yield json.loads(block[6:])


def whole(rows: list[Numbered], options: UiOptions = OPTIONS, *, size: int = 10**9) -> bytes:
    """The stream of entries that come in pieces of this size."""
    made = UiStream(2, options)
    pieces = [made.start(), *(made.take(rows[at : at + size]) for at in range(0, len(rows), size)), made.close("cut")]
    return b"".join(pieces)


@pytest.mark.sample(9)
@pytest.mark.parametrize("is_full", [False, True], ids=["final", "full"])
def test_each_recording_ends_as_its_run(recording: Recording, is_full: bool) -> None:
    """At both levels the last step is the turn's message, and the end is the run's."""
    rows = entries_of(recording)
    end = end_of(rows)
    read = Reader(whole(rows, OPTIONS._replace(is_full=is_full)))
    assert read.kinds <= (FULL if is_full else FINAL)
    assert read.last.strip() == end.message.strip()
    assert read.end == ("error" if end.outcome in FAILURES else "abort" if end.outcome == "cancelled" else "finish")
    assert read.metadata["outcome"] == end.outcome
    assert end.outcome not in FAILURES or end.reason is None or end.reason in str(read.error)
    last = rows[-2].what
    if isinstance(last, ev.RunEnded):
        usage = None if last.usage is None else msgspec.to_builtins(last.usage)
        assert (read.metadata.get("usage"), read.metadata.get("cost_usd")) == (usage, last.cost_usd)
    if is_full:
        known = {it.what.call_id for it in rows if isinstance(it.what, ev.ToolCalled) and it.what.parent is None}
        assert len(read.calls) == len(known)
    plan, notices = plan_and_notices(rows)
    assert (read.plan, read.notices) == ((plan, notices) if is_full else (None, []))


@pytest.mark.sample(6)
def test_pieces_make_no_difference(recording: Recording) -> None:
    """One entry at a time, or seven, the same is shown."""
    rows = entries_of(recording)
    if len(rows) > 2000 or first_question(rows) is not None:
        return
    for is_full in (False, True):
        found = [Reader(whole(rows, OPTIONS._replace(is_full=is_full), size=size)) for size in (1, 7, 10**9)]
        assert len({(it.last, it.end, it.error, len(it.calls)) for it in found}) == 1


@pytest.mark.sample(9)
def test_a_cut_is_an_error(recording: Recording) -> None:
    """After whichever entry the rest does not come: the stream is still whole, and ends with an error."""
    rows = entries_of(recording)
    if len(rows) > 400:
        return
    for number in range(len(rows)):
        made = UiStream(2, OPTIONS._replace(is_full=True))
        data = made.start() + made.take(rows[:number])
        was_over, is_known = made.is_over, made.is_completed
        read = Reader(data + made.close("the rest did not come"))
        if not was_over and not is_known:
            assert (read.end, read.error) == ("error", "the rest did not come")


@pytest.mark.parametrize("sdk", [5, 6])
def test_a_question_ends_the_message(recording: Recording, sdk: int) -> None:
    """The run waits for a person: as an approval if the version has them, else as text; then the message goes on."""
    rows = entries_of(recording)
    question = first_question(rows)
    if question is None:
        return
    made = UiStream(2, OPTIONS._replace(sdk=sdk))
    data = made.start()
    for row in rows:
        data += made.take([row])
        if made.is_over:
            break
    assert row.what == question
    read = Reader(data)
    assert (read.end, read.question) == ("finish", question.id)
    approves = "tool-approval-request" in read.kinds
    assert approves == (sdk >= 6 and question.call_id is not None and question.ask not in ("choice", "text"))
    assert approves or question.text in read.last
    rest = UiStream(2, OPTIONS._replace(sdk=sdk, since=row.number, asks_from=len(rows)))
    assert Reader(rest.start() + rest.take(rows) + rest.close("cut")).last.strip() == end_of(rows).message.strip()


def test_the_answer_in_words_begins_a_message() -> None:
    """Who returns to a turn gets the message that is being written: the one after the last answer in words."""
    asked = ev.QuestionAsked(id="q", text="May I?", blocking=True, ask="command", call_id="c", agent="claude")
    whats: list[Entry | ev.Event] = [Prompted(2, "x"), TurnBegan(2, "claude", "/"), asked, Answered(2, "q", "allow")]
    rows = [Numbered(at, at, what) for at, what in enumerate(whats, 1)]
    assert shown_before(rows, 5) == 4
    assert shown_before(rows, 6) == 0
    assert shown_before(rows[:3], 5) == 0


npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")


@pytest.mark.slow
@npm
@pytest.mark.parametrize("major", ai_sdk_clients.VERSIONS)
@pytest.mark.parametrize("is_full", [False, True], ids=["final", "full"])
def test_the_sdk_ends_as_the_run(recordings: list[Recording], major: int, is_full: bool) -> None:
    """Each version of the SDK reads all recordings: one message, whose last step is the turn's, and the run's end."""
    turns = [entries_of(it) for it in recordings]
    sent = [whole(rows, OPTIONS._replace(sdk=major, is_full=is_full)).decode() for rows in turns]
    for recording, rows, found in zip(
        recordings, turns, ai_sdk_clients.ask(major, ({"body": body} for body in sent)), strict=True
    ):
        end = end_of(rows)
        where = f"{recording.name}: {found['error']}"
        assert found["status"] == ("error" if end.outcome in FAILURES else "ready"), where
        _, message = found["messages"]
        assert message["id"] == "t2"
        assert ai_sdk_clients.text_of(message).strip() == end.message.strip(), where
        assert message["metadata"]["outcome"] == end.outcome
        assert all(part.get("state", "done") != "streaming" for part in message["parts"]), where


@pytest.mark.slow
@npm
@pytest.mark.parametrize("major", ai_sdk_clients.VERSIONS)
def test_the_sdk_takes_no_cut_for_an_answer(recordings: list[Recording], major: int) -> None:
    """Cut after every entry of twenty recordings, the SDK is in the status of an error until the end is known."""
    short = [rows for rows in (entries_of(it) for it in recordings) if len(rows) < 120][:20]
    sent, expected = [], []
    for rows in short:
        for number in range(len(rows)):
            made = UiStream(2, OPTIONS._replace(sdk=major, is_full=True))
            data = made.start() + made.take(rows[:number])
            expected.append(made.is_over or made.is_completed)
            sent.append((data + made.close("cut")).decode())
    assert len(short) == 20
    found = ai_sdk_clients.ask(major, ({"body": body} for body in sent))
    for is_known, one in zip(expected, found, strict=True):
        assert is_known or (one["status"], one["error"]) == ("error", "cut")
