"""Webhooks: what is sent, how it is signed, and that no receiver delays a turn."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from standardwebhooks import Webhook as Judge
from standardwebhooks import WebhookVerificationError
from waiting import until_true

from penstock.chat.history.frames import TurnView
from penstock.chat.service.outgoing import TRY_SECONDS
from penstock.chat.service.webhooks import MAX_WAITING, Webhooks, sentence
from penstock.chat.store.rows import ChatRow
from penstock.config.notify import Webhook
from penstock.events import Outcome

if TYPE_CHECKING:
    from chat.service.conftest import Home

SECRET = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"
CHAT = ChatRow(id="c/1", agent="cla\x1bude", cwd="/home/me/sh\nop", created_at=1)
TURN = TurnView(3, "a secret prompt", agent="claude", message="a secret reply", outcome="ok")


class Got(NamedTuple):
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A real HTTP server that keeps what it got, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: list[int] = []
        self.seconds = 0.0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                time.sleep(receiver.seconds)
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.send_header("location", f"{receiver.url}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Receiver]:
        """The server, as long as it is needed."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server that runs."""
    with Receiver().running() as made:
        yield made


def now() -> int:
    """The clock."""
    return int(time.time() * 1000)


def announced(hook: Webhook, *, until: Callable[[], bool], happened: Any = ("ended",), times: int = 1) -> list[float]:
    """Tell one webhook, wait, and close; return for how long it would have waited between its tries."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def use() -> None:
        hooks = Webhooks([hook], url="http://127.0.0.1:8377", now=now, sleep=sleep)
        for _ in range(times):
            hooks.announce(CHAT, TURN, happened)
        await until_true(until)
        await asyncio.sleep(0.05)
        await hooks.close()

    asyncio.run(use())
    return waits


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("timed_out", "ran out of time"),
        ("empty", "ended without a reply"),
        ("cut_off", "was cut off"),
        (None, "has ended"),
    ],
)
def test_the_sentence_says_how_a_turn_ended(outcome: Outcome | None, words: str) -> None:
    """A turn that was stopped at its time limit is not reported as one that just ended."""
    turn = TurnView(3, "a prompt", agent="claude", outcome=outcome)
    assert sentence(CHAT, turn, "ended") == f"claude {words} in sh⏎op"


def test_a_request_is_signed_as_standard_webhooks_say(receiver: Receiver) -> None:
    """Judged by their own library; what was said is not in it, and what names do to a terminal neither."""
    announced(Webhook(url=f"{receiver.url}/hook?a=b", secret=SECRET), until=lambda: len(receiver.got) == 1)
    (got,) = receiver.got

    body = Judge(SECRET).verify(got.body, got.headers)

    assert (got.path, got.headers["content-type"]) == ("/hook?a=b", "application/json")
    assert body["text"] == "claude is done in sh⏎op"
    assert (body["type"], body["chat"], body["turn"], body["outcome"]) == ("ended", "c/1", 3, "ok")
    assert body["link"] == "http://127.0.0.1:8377/chats/c%2F1"
    assert b"secret" not in got.body
    with pytest.raises(WebhookVerificationError):
        Judge(SECRET).verify(got.body.replace(b"done", b"down"), got.headers)


@pytest.mark.slow
def test_a_message_is_tried_five_times_with_one_id(receiver: Receiver) -> None:
    """A receiver that fails for a while gets it later, and can drop what it has already."""
    receiver.answers = [500, 503, 429, 408]
    waits = announced(Webhook(url=receiver.url, secret="plain words"), until=lambda: len(receiver.got) == 5)
    assert waits == [*TRY_SECONDS[1:]]
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 1
    assert all(Judge(b"plain words").verify(got.body, got.headers) for got in receiver.got)

    receiver.got, receiver.answers = [], [500] * 9
    announced(Webhook(url=receiver.url), until=lambda: len(receiver.got) == 5)
    assert len(receiver.got) == 5


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 404, 410])
def test_what_another_try_cannot_help_is_given_up(
    receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect is not followed either: it could lead to an address that the operator never named."""
    receiver.answers = [status]
    hook = Webhook(url=f"{receiver.url}/a-secret-topic")
    assert announced(hook, until=lambda: bool(caplog.records)) == []
    assert [got.path for got in receiver.got] == ["/a-secret-topic"]
    assert str(status) in caplog.text
    assert "a-secret-topic" not in caplog.text


@pytest.mark.parametrize("status", [200, 202, 299])
def test_any_success_is_one(receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """The message is not sent again, and nothing is logged."""
    receiver.answers = [status]
    assert announced(Webhook(url=receiver.url), until=lambda: len(receiver.got) == 1) == []
    assert (len(receiver.got), caplog.records) == (1, [])


def test_nobody_there(caplog: pytest.LogCaptureFixture) -> None:
    """All tries are made, and then one line says so."""
    hook = Webhook(url="http://127.0.0.1:9/")
    assert announced(hook, until=lambda: bool(caplog.records)) == [*TRY_SECONDS[1:]]
    assert "no answer (ConnectError); the message is lost: claude is done in" in caplog.text


@pytest.mark.slow
def test_a_receiver_that_never_answers_costs_a_bounded_number_of_messages(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller goes on at once, a message too many is dropped, and the end does not wait."""
    receiver.seconds = 600
    began = time.monotonic()
    announced(Webhook(url=receiver.url), until=lambda: bool(caplog.records), times=MAX_WAITING + 1)
    assert time.monotonic() - began < 300  # it waits for no answer
    assert [record.message for record in caplog.records] == [
        f"webhook 127.0.0.1: {MAX_WAITING} messages wait, so one is dropped"
    ]
    receiver.seconds = 0


def test_ntfy(receiver: Receiver) -> None:
    """Its message is a sentence, which opens the page."""
    hook = Webhook(url=f"{receiver.url}/t", secret="tk_1", format="ntfy", link="https://p.example/", on=("asks",))
    announced(hook, happened=["asks", "ended"], until=lambda: len(receiver.got) == 1)
    (got,) = receiver.got
    assert got.body.decode() == "claude asks in sh⏎op"
    assert got.headers["click"] == "https://p.example/chats/c%2F1"
    assert got.headers["authorization"] == "Bearer tk_1"


@pytest.mark.slow
def test_a_chat_tells_when_it_asks_and_when_its_turn_has_ended(home: Home, receiver: Receiver) -> None:
    """Each address gets what it wants, once."""
    home.peer()
    home.tables = f'[[notify]]\nurl = "{receiver.url}/all"\n[[notify]]\nurl = "{receiver.url}/asks"\non = ["asks"]\n'

    def texts(path: str) -> list[str]:
        return [json.loads(got.body)["text"] for got in receiver.got if got.path == path]

    async def use() -> None:
        async with home.service(url="http://127.0.0.1:1") as service:
            made = await service.create(agent="peer")
            await service.prompt(made.id, "permission")
            await until_true(lambda: texts("/asks") == texts("/all") == ["peer asks in work"])
            (view,), _ = await service.turns(made.id)
            assert view.question is not None
            assert view.question.options
            await service.answer(made.id, view.question.id, view.question.options[0].id)
            await home.settled(service, made.id)
            await until_true(lambda: len(texts("/all")) == 2)
            quick = await service.create()
            await service.prompt(quick.id, "Hello")
            await home.settled(service, quick.id)
            await until_true(lambda: len(texts("/all")) == 3)
            await asyncio.sleep(0.1)

    asyncio.run(use())
    assert texts("/all") == ["peer asks in work", "peer is done in work", "scripted is done in work"]
    assert texts("/asks") == ["peer asks in work"]
