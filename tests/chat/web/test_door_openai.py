"""Chat completions made of every recording, read by OpenAI's own client: each ends as the run did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import langchain_clients
import msgspec
import pytest
from effort import SOAK
from lazy_modules import LazyModule
from recorded_turns import PROMPT, end_of, entries_of, first_question

from penstock import events as ev
from penstock.chat.history.entries import Answered, Entry, Numbered, Prompted, TurnBegan
from penstock.chat.web.doors.openai import ChatCompletion, CompletionOptions
from penstock.chat.web.doors.turn_fold import FAILURES

if TYPE_CHECKING:
    import openai

    from conftest import Recording
else:
    openai = LazyModule("openai")

OPTIONS = CompletionOptions(id="chatcmpl-1", created=1, model="claude", with_usage=True)


class Read:
    """What the official client makes of a response."""

    def __init__(self, status: int, body: bytes, *, stream: bool) -> None:
        self.content = self.reasoning = ""
        self.finish: str | None = None
        self.usage: Any = None
        self.failure: openai.APIError | None = None
        kind = "text/event-stream" if stream else "application/json"
        headers = {"content-type": kind, "x-should-retry": "false"}
        transport = httpx2.MockTransport(lambda request: httpx2.Response(status, headers=headers, content=body))
        with openai.OpenAI(
            api_key="x", base_url="http://x/v1", http_client=httpx2.Client(transport=transport)
        ) as client:
            try:
                self._ask(client, stream=stream)
            except openai.APIError as error:
                self.failure = error

    def _ask(self, client: openai.OpenAI, *, stream: bool) -> None:
        messages: Any = [{"role": "user", "content": "Hello"}]
        if not stream:
            whole = client.chat.completions.create(model="claude", messages=messages)
            [only] = whole.choices
            self.content, self.finish, self.usage = only.message.content or "", only.finish_reason, whole.usage
            self.reasoning = getattr(only.message, "reasoning_content", "")
            return
        with client.chat.completions.create(model="claude", messages=messages, stream=True) as chunks:
            for chunk in chunks:
                self.usage = chunk.usage or self.usage
                for choice in chunk.choices or ():
                    assert not choice.delta.tool_calls, "the client would run the agent's tools again"
                    self.content += choice.delta.content or ""
                    self.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                    self.finish = choice.finish_reason or self.finish

    @property
    def is_success(self) -> bool:
        """Whether the client takes it for an answer that is whole."""
        return self.failure is None and self.finish is not None


def whole(
    rows: list[Numbered], options: CompletionOptions = OPTIONS, *, size: int = 10**9
) -> tuple[bytes, ChatCompletion]:
    """The stream of entries that come in pieces of this size."""
    made = ChatCompletion(2, options)
    pieces = [made.start(), *(made.take(rows[at : at + size]) for at in range(0, len(rows), size)), made.close("cut")]
    return b"".join(pieces), made


def judge(read: Read, rows: list[Numbered]) -> None:
    """The client has the turn's message, and its end."""
    end = end_of(rows)
    assert read.is_success == (end.outcome not in FAILURES), (end, read.failure)
    if end.outcome == "cancelled":
        assert read.content.startswith(end.message.rstrip())
        assert read.content.endswith(f"[{end.reason or 'stopped'}]")
    elif read.is_success or read.content:
        assert read.content == end.message
    if read.failure is not None:
        assert end.reason is None or end.reason in str(read.failure)
        assert read.finish is None


@pytest.mark.sample(9)
@pytest.mark.parametrize("is_full", [False, True], ids=["final", "full"])
def test_each_recording_ends_as_its_run(recording: Recording, is_full: bool) -> None:
    """Streamed and whole, at both levels: the message, the usage, and an error for a run that failed."""
    rows = entries_of(recording)
    options = OPTIONS._replace(is_full=is_full)
    data, made = whole(rows, options)
    read = Read(200, data, stream=True)
    judge(read, rows)
    status, headers, body = made.response()
    at_once = Read(status, body, stream=False)
    judge(at_once, rows)
    assert status == 200 or headers["x-should-retry"] == "false"
    last = next((row.what for row in rows if isinstance(row.what, ev.RunEnded)), None)
    if read.is_success and last is not None and last.usage is not None:
        used = last.usage
        prompt, completion = used.input_tokens or 0, used.output_tokens or 0
        for it in (read.usage, at_once.usage):
            assert (it.prompt_tokens, it.completion_tokens, it.total_tokens) == (
                prompt,
                completion,
                prompt + completion,
            )
            assert it.prompt_tokens_details.cached_tokens == (used.cached_tokens or 0)
            assert it.completion_tokens_details.reasoning_tokens == (used.reasoning_tokens or 0)
    if is_full:
        thoughts = [it.what for it in rows if isinstance(it.what, ev.Delta) and it.what.kind == "thinking"]
        for thought in thoughts:
            assert thought.parent is not None or thought.text in read.reasoning
    assert is_full or not read.reasoning


@pytest.mark.sample(9)
def test_pieces_make_no_difference(recording: Recording) -> None:
    """One entry at a time, or seven, the client reads the same."""
    rows = entries_of(recording)
    if len(rows) > 2000 or first_question(rows) is not None:
        return
    found = [Read(200, whole(rows, size=size)[0], stream=True) for size in (1, 7, 10**9)]
    assert len({(it.content, it.finish, str(it.failure)) for it in found}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_full", [False, True], ids=["final", "full"])
def test_langchain_ends_as_the_run(recordings: list[Recording], is_full: bool) -> None:
    """LangChain's model reads all recordings at both levels: the message, or an error; and never a call."""
    ends = []
    sent: list[dict[str, Any]] = []
    for rows in map(entries_of, recordings):
        data, made = whole(rows, OPTIONS._replace(is_full=is_full))
        status, _, body = made.response()
        streamed = {"status": 200, "body": data.decode(), "stream": True}
        sent.append(streamed if is_full else {"status": status, "body": body.decode(), "stream": False})
        ends.append(end_of(rows))
    for end, one in zip(ends, langchain_clients.ask(sent), strict=True):
        assert (one["error"] is None) == (end.outcome not in FAILURES), one
        assert not one["tools"]
        if end.outcome == "cancelled":
            assert one["content"].endswith(f"[{end.reason or 'stopped'}]")
        elif one["error"] is None:
            assert (one["content"], one["finish"]) == (end.message, "stop")


@pytest.mark.slow
def test_langchain_takes_no_cut_for_an_answer(recordings: list[Recording]) -> None:
    """Cut after every entry of twenty recordings, the model raises an error until the end is known."""
    short = [rows for rows in (entries_of(it) for it in recordings) if len(rows) < 120][:20]
    assert len(short) == 20
    sent: list[dict[str, Any]] = []
    expected: list[bool] = []
    for rows in short:
        for number in range(len(rows)):
            data, made = whole(rows[:number])
            expected.append(made.is_completed or _asks(rows[:number]))
            sent.append({"status": 200, "body": data.decode(), "stream": True})
    for is_known, one in zip(expected, langchain_clients.ask(sent), strict=True):
        assert is_known or one["error"] is not None


def test_a_question_is_the_message(recording: Recording) -> None:
    """The run waits for a person: the client gets the question as a message, and its own answer goes on from there."""
    rows = entries_of(recording)
    question = first_question(rows)
    if question is None:
        return
    made = ChatCompletion(2, OPTIONS)
    data = b""
    for row in rows:
        data += made.take([row])
        if made.is_over:
            break
    assert row.what == question
    read = Read(200, data, stream=True)
    assert read.is_success
    assert question.text in read.content
    for option in question.options or ():
        assert option.label in read.content
    rest = ChatCompletion(2, OPTIONS._replace(since=row.number))
    judge(Read(200, rest.take(rows) + rest.close("cut"), stream=True), rows)


def test_an_answer_is_not_asked_for_again() -> None:
    """A program that has answered sees no question from before its answer, even if the agent has said nothing since."""
    asked = ev.QuestionAsked(id="q", text="May I?", blocking=True, ask="tool", agent="claude")
    whats: list[Entry | ev.Event] = [Prompted(2, PROMPT), TurnBegan(2, "claude", "/"), asked]
    rows = [Numbered(at, at, what) for at, what in enumerate(whats, 1)]
    made = ChatCompletion(2, OPTIONS._replace(since=4))
    made.take(rows)
    assert not made.is_over
    made.take([Numbered(4, 4, Answered(2, "q", "allow"))])
    assert not made.is_over
    made.take([Numbered(5, 5, msgspec.structs.replace(asked, id="r"))])
    assert made.is_over


@pytest.mark.sample(9)
def test_a_cut_is_never_a_success(recording: Recording) -> None:
    """After whichever entry the rest does not come: the client has an error, unless the end or a question came."""
    rows = entries_of(recording)
    if len(rows) > 400:
        return
    known = next(number for number in range(len(rows) + 1) if whole(rows[:number])[1].is_completed)
    asked = next((number for number in range(known) if _asks(rows[:number])), known)
    for number in range(len(rows)):
        data, made = whole(rows[:number])
        assert data.endswith(b"data: [DONE]\n\n")
        is_success = b'"finish_reason":"stop"' in data
        if number < asked:
            assert not is_success
            assert b'"error":{' in data
            assert made.response()[0] == 500
        if SOAK or number % 10 == 0:
            assert Read(200, data, stream=True).is_success == is_success


def _asks(rows: list[Numbered]) -> bool:
    made = ChatCompletion(2, OPTIONS)
    made.take(rows)
    return made.is_over and not made.is_completed


@pytest.mark.slow
def test_open_webui_shows_what_grows(recording: Recording) -> None:
    """Its events show the status and the reply as it grows; at the end its message is the turn's alone."""
    rows = entries_of(recording)
    if first_question(rows) is not None:
        return
    data, _ = whole(rows, OPTIONS._replace(is_live=True), size=3)
    shown, kept = "", ""
    is_over = False
    for chunk in chunks_of(data):
        if "event" in chunk:
            kind, what = chunk["event"]["type"], chunk["event"]["data"]
            assert kind in ("status", "replace")
            shown = what["content"] if kind == "replace" else shown
            assert not is_over or what.get("done")
        for choice in chunk.get("choices", ()):
            text = choice["delta"].get("content", "")
            shown, kept = shown + text, kept + text
            is_over = is_over or bool(text)
    assert shown == kept
    assert kept.startswith(end_of(rows).message.rstrip())


def chunks_of(data: bytes) -> Iterator[dict[str, Any]]:
    """The chunks of a stream. Each is one line."""
    for block in data.split(b"\n\n")[:-2]:
        assert block.startswith(b"data: ")
        assert b"\n" not in block
        yield json.loads(block[6:])
