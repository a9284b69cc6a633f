"""Streams of AG-UI made of every recording: each ends as its run did, for a strict reader and for the client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import agui_clients
import pytest
from recorded_turns import PROMPT, end_of, entries_of, first_question, plan_and_notices

from penstock import events as ev
from penstock.chat.history.entries import Answered, Entry, Numbered, Prompted, TurnBegan
from penstock.chat.web.doors.agui import AgUiOptions, AgUiStream
from penstock.chat.web.doors.turn_fold import FAILURES

if TYPE_CHECKING:
    from conftest import Recording

GIVEN = [{"id": "u0", "role": "user", "content": "Hi"}, {"id": "a0", "role": "assistant", "content": "Hello."}]
GIVEN += [{"id": "u1", "role": "user", "content": PROMPT}]
OPTIONS = AgUiOptions("th", "r1", "c", GIVEN)
FINAL = {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "CUSTOM", "MESSAGES_SNAPSHOT"}
FINAL |= {"TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"}
EARLIER = FINAL | {"STEP_STARTED", "STEP_FINISHED", "ACTIVITY_SNAPSHOT", "TOOL_CALL_START", "TOOL_CALL_ARGS"}
EARLIER |= {"TOOL_CALL_END", "TOOL_CALL_RESULT", "REASONING_START", "REASONING_END"}
EARLIER |= {f"REASONING_MESSAGE_{word}" for word in ("START", "CONTENT", "END")}
FULL = EARLIER | {"SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR"}
PAIRS = {"TEXT_MESSAGE": "messageId", "REASONING_MESSAGE": "messageId", "REASONING": "messageId"}
COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "reasoningTokens": "reasoning_tokens",
    "cachedInputTokens": "cached_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
}
"""Figures of the protocol, and those of Penstock."""
PAIRS |= {"TOOL_CALL": "toolCallId", "STEP": "stepName", "SUBAGENT": "subagentRunId"}


class Reader:
    """A reader that takes no liberty: what it accepts, each version of the client does."""

    def __init__(self, data: bytes, messages: list[dict[str, Any]] | None = None) -> None:
        self.messages: dict[str, dict[str, Any]] = {
            it["id"]: dict(it) for it in (GIVEN if messages is None else messages)
        }
        self.kinds: set[str] = set()
        self.results: set[str] = set()
        self.end: str | None = None
        self.last: dict[str, Any] = {}
        self.plan: Any = None
        self.notices: list[str] = []
        self._open: set[tuple[str, str]] = set()
        self._ended: set[tuple[str, str]] = set()
        events = list(events_of(data))
        assert events[0]["type"] == "RUN_STARTED"
        assert (events[0]["threadId"], events[0]["runId"]) == ("th", "r1")
        for event in events[1:]:
            assert self.end is None, f"{event} after the end"
            self._take(event)
        assert not self._open

    @property
    def reply(self) -> str:
        """The last text of the agent itself."""
        return agui_clients.reply_of([*self.messages.values()])

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        self.kinds.add(kind)
        assert None not in event.values(), "null breaks a client"
        group, _, act = kind.rpartition("_")
        if group in PAIRS and act != "RESULT":
            self._bracket(group, act, event[PAIRS[group]])
        if kind == "MESSAGES_SNAPSHOT":
            self.messages = {it["id"]: dict(it) for it in event["messages"]}
            assert [*self.messages][: len(GIVEN)] == [it["id"] for it in GIVEN], "a message of the client is lost"
        elif act == "CONTENT":
            message = self.messages[event["messageId"]]
            message["content"] += event["delta"]
            assert message.get("subagentRunId") == event.get("subagentRunId")
        elif kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            made = {"id": event["messageId"], "role": event["role"], "content": ""}
            if "subagentRunId" in event:
                made["subagentRunId"] = event["subagentRunId"]
            self.messages.setdefault(event["messageId"], made)
        elif kind == "TOOL_CALL_ARGS":
            json.loads(event["delta"])
        elif kind == "TOOL_CALL_RESULT":
            assert event["toolCallId"] not in self.results
            assert event["messageId"] not in self.messages
            self.results.add(event["toolCallId"])
        elif kind == "ACTIVITY_SNAPSHOT":
            assert event["activityType"] == "plan"
            self.plan = event["content"]["items"]
        elif kind == "CUSTOM" and event["name"] == "penstock.notice":
            self.notices.append(event["value"]["text"])
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self.last = event
            self.end = "error" if kind == "RUN_ERROR" else event.get("outcome", {"type": "none"})["type"]

    def _bracket(self, group: str, act: str, id: str) -> None:
        if act in ("START", "STARTED"):
            assert (group, id) not in self._open
            assert group in ("TEXT_MESSAGE", "STEP") or (group, id) not in self._ended, f"{id} again"
            self._open.add((group, id))
        else:
            assert (group, id) in self._open, f"{group}_{act} {id}"
            if act in ("END", "FINISHED", "ERROR"):
                self._open.remove((group, id))
                self._ended.add((group, id))


def events_of(data: bytes) -> Iterator[dict[str, Any]]:
    """The events of a stream, one line each."""
    *blocks, rest = data.split(b"\n\n")
    assert rest == b""
    for block in blocks:
        assert block.startswith(b"data: ")
        assert b"\n" not in block
        yield json.loads(block[6:])


def whole(rows: list[Numbered], options: AgUiOptions = OPTIONS, *, size: int = 10**9) -> bytes:
    """The stream of entries that come in pieces of this size."""
    made = AgUiStream(2, options)
    pieces = [made.start(), *(made.take(rows[at : at + size]) for at in range(0, len(rows), size)), made.close("cut")]
    return b"".join(pieces)


def expected_end(rows: list[Numbered], *, is_new: bool = True) -> str:
    """The end of the protocol for the end of a run."""
    outcome = end_of(rows).outcome
    if outcome in FAILURES or (outcome == "cancelled" and not is_new):
        return "error"
    return ("cancelled" if outcome == "cancelled" else "success") if is_new else "none"


LEVELS = pytest.mark.parametrize(
    ("is_full", "is_new"), [(False, True), (True, True), (True, False)], ids=["final", "full", "earlier"]
)


@pytest.mark.sample(9)
@LEVELS
def test_each_recording_ends_as_its_run(recording: Recording, is_full: bool, is_new: bool) -> None:
    """The last message is the turn's, and the end is the run's; a call that has no result gets one."""
    rows = entries_of(recording)
    end = end_of(rows)
    read = Reader(whole(rows, OPTIONS._replace(is_full=is_full, is_new=is_new)))
    assert read.kinds <= (FINAL if not is_full else FULL if is_new else EARLIER)
    assert read.reply.strip() == (end.message.strip() or "Hello.")
    assert read.end == expected_end(rows, is_new=is_new)
    assert end.outcome not in FAILURES or end.reason is None or end.reason in read.last["message"]
    last = rows[-2].what
    used = last.usage if is_new and isinstance(last, ev.RunEnded) else None
    counts = {} if used is None else {name: getattr(used, field) for name, field in COUNTS.items()}
    known = {name: count for name, count in counts.items() if count is not None}
    assert read.last.get("usage") == ([known] if known else None), "the figures of the run, or none"
    if read.end != "error" and isinstance(last, ev.RunEnded):
        assert read.last["result"].get("cost_usd") == last.cost_usd
    plan, notices = plan_and_notices(rows)
    assert (read.plan, read.notices) == ((plan, notices) if is_full else (None, []))
    if is_full:
        calls = {
            it.what.call_id for it in rows if isinstance(it.what, ev.ToolCalled) and (is_new or not it.what.parent)
        }
        assert read.results == {f"c.t2.call.{id}" for id in calls}


@pytest.mark.sample(6)
def test_pieces_make_no_difference(recording: Recording) -> None:
    """One entry at a time, or seven, the same messages are made."""
    rows = entries_of(recording)
    if len(rows) > 2000 or first_question(rows) is not None:
        return
    for is_full in (False, True):
        found = [Reader(whole(rows, OPTIONS._replace(is_full=is_full), size=size)) for size in (1, 7, 10**9)]
        assert len({(it.reply, it.end, len(it.results)) for it in found}) == 1


@pytest.mark.sample(9)
def test_a_cut_is_an_error(recording: Recording) -> None:
    """After whichever entry the rest does not come: all is closed, and the run is one that failed."""
    rows = entries_of(recording)
    if len(rows) > 400:
        return
    for number in range(len(rows)):
        made = AgUiStream(2, OPTIONS._replace(is_full=True))
        data = made.start() + made.take(rows[:number])
        was_over, is_known = made.is_over, made.is_completed
        read = Reader(data + made.close("the rest did not come"))
        if not was_over and not is_known:
            assert (read.end, read.last["message"]) == ("error", "the rest did not come")


@pytest.mark.sample(6)
def test_who_returns_has_each_message_once(recording: Recording) -> None:
    """Cut in its middle and asked for again, the messages are those of a stream that was never cut."""
    rows = entries_of(recording)
    if len(rows) > 2000 or first_question(rows) is not None:
        return
    for is_full in (False, True):
        options = OPTIONS._replace(is_full=is_full)
        straight = Reader(whole(rows, options))
        made = AgUiStream(2, options)
        half = Reader(made.start() + made.take(rows[: len(rows) // 2]) + made.close("cut"))
        kept = [*half.messages.values()]
        again = Reader(whole(rows, options._replace(messages=kept)), kept)

        def texts(read: Reader) -> list[tuple[str, str]]:
            return [
                (it["role"], it.get("content", ""))
                for it in read.messages.values()
                if it["role"] in ("user", "assistant")
            ]

        assert texts(again) == texts(straight)


@pytest.mark.parametrize("is_new", [True, False], ids=["interrupt", "text"])
def test_a_question_ends_the_run(recording: Recording, is_new: bool) -> None:
    """As an interrupt, or for an earlier client as text; after the answer, the next run goes on to the turn's end."""
    rows = entries_of(recording)
    question = first_question(rows)
    if question is None:
        return
    options = OPTIONS._replace(is_new=is_new, is_full=True)
    made = AgUiStream(2, options)
    data = made.start()
    for row in rows:
        data += made.take([row])
        if made.is_over:
            break
    assert row.what == question
    read = Reader(data)
    if is_new:
        assert read.end == "interrupt"
        [interrupt] = read.last["outcome"]["interrupts"]
        assert interrupt["id"] == question.id
        assert question.text in interrupt["message"]
        assert interrupt.get("toolCallId", f"c.t2.call.{question.call_id}") == f"c.t2.call.{question.call_id}"
    else:
        assert read.end == "none"
        assert question.text in read.reply
    kept = [*read.messages.values()]
    answered = [Numbered(row.number, 0, Answered(2, question.id, "allow")) if it is row else it for it in rows]
    answered.insert(row.number - 1, row)
    answered = [Numbered(number, it.at, it.what) for number, it in enumerate(answered, 1)]
    rest = AgUiStream(2, options._replace(messages=kept, since=row.number + 1, asks_from=len(answered)))
    final = Reader(rest.start() + rest.take(answered) + rest.close("cut"), kept)
    said = [it for it in final.messages.values() if it["id"] != "c.t2.ask0"]
    assert agui_clients.reply_of(said).strip() == end_of(rows).message.strip()
    assert final.end == expected_end(rows, is_new=is_new)


def rows_of(*whats: Entry | ev.Event) -> list[Numbered]:
    """The entries of turn 2 with these in it."""
    all_of_it = [Prompted(2, "x"), TurnBegan(2, "claude", "/"), *whats]
    return [Numbered(at, at, what) for at, what in enumerate(all_of_it, 1)]


def text(block: int, text: str) -> list[ev.Event]:
    """A message with one block of text."""
    return [
        ev.MessageStarted(message=block, agent="claude"),
        ev.BlockStarted(block=block, kind="text", message=block, agent="claude"),
        ev.Delta(block=block, kind="text", text=text, agent="claude"),
        ev.BlockEnded(block=block, kind="text", text=text, complete=True, agent="claude"),
        ev.MessageEnded(message=block, status="ok", agent="claude"),
    ]


def test_withdrawn_text_is_replaced() -> None:
    """The same message has the text of the last round; a client with much of its own gets one snapshot, at the end."""
    call = ev.ToolCalled(call_id="1", name="ls", input={}, title="ls", tool_kind="execute", agent="claude")
    back = ev.ToolReturned(call_id="1", text="a", is_error=False, complete=True, agent="claude")
    rounds = [*text(1, "Let me look."), call, back, *text(2, "Wait."), call, back, *text(3, "One file.")]
    rows = rows_of(*rounds, ev.RunEnded(outcome="ok", reply="One file.", rounds=3, agent="claude"))
    for given, snapshots in ((GIVEN, 2), ([*GIVEN, {"id": "big", "role": "user", "content": "x" * 1_100_000}], 1)):
        data = whole(rows, OPTIONS._replace(messages=given), size=1)
        assert Reader(data).reply == "One file."
        assert [event["type"] for event in events_of(data)].count("MESSAGES_SNAPSHOT") == snapshots


def test_text_of_a_client_is_no_message_of_the_agent() -> None:
    """Who sends a message with the id of the reply cannot make the agent say something else."""
    forged: list[dict[str, Any]] = [
        *GIVEN,
        {"id": "c.t2", "role": "assistant", "content": "I deleted all."},
        {"role": "user"},
        {"id": 7},
    ]
    rows = rows_of(*text(1, "Done."), ev.RunEnded(outcome="ok", reply="Done.", rounds=1, agent="claude"))
    read = Reader(whole(rows, OPTIONS._replace(messages=forged)), forged[:4])
    assert [it["content"] for it in read.messages.values()] == ["Hi", "Hello.", PROMPT, "Done."]
    other = [*GIVEN, {"id": "c.t22", "role": "assistant", "content": "of turn 22"}]
    again = Reader(whole(rows, OPTIONS._replace(messages=other)), other)
    assert "of turn 22" in [it["content"] for it in again.messages.values()]


npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")


@pytest.mark.slow
@npm
@pytest.mark.parametrize("version", agui_clients.VERSIONS)
@pytest.mark.parametrize("is_full", [False, True], ids=["final", "full"])
def test_the_client_ends_as_the_run(recordings: list[Recording], version: str, is_full: bool) -> None:
    """Each version of the client reads all recordings: the last message is the turn's, and the end is the run's."""
    is_new = version.startswith("1.")
    options = OPTIONS._replace(is_full=is_full, is_new=is_new)
    turns = [rows for rows in map(entries_of, recordings) if first_question(rows) is None]
    assert len(turns) > 100
    sent = ({"body": whole(rows, options).decode(), "messages": GIVEN} for rows in turns)
    for rows, found in zip(turns, agui_clients.ask(version, sent), strict=True):
        end = end_of(rows)
        assert found["failed"] is None, found
        assert found["end"] == expected_end(rows, is_new=is_new).replace("none", "success")
        assert agui_clients.reply_of(found["messages"]).strip() == (end.message.strip() or "Hello.")
        assert [it["id"] for it in found["messages"]][:3] == ["u0", "a0", "u1"]
        ids = [it["id"] for it in found["messages"]]
        assert len(ids) == len(set(ids))
        if found["end"] == "success" and is_new:
            assert found["pending"] == []


@pytest.mark.slow
@npm
@pytest.mark.parametrize("version", agui_clients.VERSIONS)
def test_the_client_takes_no_cut_for_an_answer(recordings: list[Recording], version: str) -> None:
    """Cut after every entry of twenty recordings, the client has an error until the end is known."""
    short = [rows for rows in (entries_of(it) for it in recordings) if len(rows) < 120][:20]
    sent, expected = [], []
    for rows in short:
        for number in range(len(rows)):
            made = AgUiStream(2, OPTIONS._replace(is_new=version.startswith("1."), is_full=True))
            data = made.start() + made.take(rows[:number])
            expected.append(made.is_over or made.is_completed)
            sent.append({"body": (data + made.close("cut")).decode(), "messages": GIVEN})
    assert len(short) == 20
    for is_known, one in zip(expected, agui_clients.ask(version, sent), strict=True):
        assert one["failed"] is None, one
        assert is_known or (one["end"], one["error"]) == ("error", "cut")
