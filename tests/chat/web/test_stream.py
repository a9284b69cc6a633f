"""The stream of a chat: nothing lost, nothing twice, nothing that grows without bound."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from chat_rows import begun, rows_of, run_of, said
from effort import at_most
from served import PLAIN, SECONDS, TOKEN, Gateway
from viewer import Viewer, shown
from waiting import until

from penstock import events as ev
from penstock.chat.history.entries import Numbered, Prompted, TurnBegan
from penstock.chat.history.entries import encode as encode_entries
from penstock.chat.history.timeline import Timeline
from penstock.chat.service.limits import Retention
from penstock.chat.store.protocol import PAGE_ENTRIES, StoreFailed
from penstock.chat.web.broadcast import Watch, encode
from penstock.chat.web.sse import PIECE_BYTES

CASES = ("text", "thinking", "thinktools", "tools", "toolerror", "parallel")
CUTS = 60
"""Connections of the test that cuts them at random points."""


def read(
    gateway: Gateway, chat: str, viewer: Viewer, *, until: Callable[[Viewer], Any], deltas: bool = False
) -> httpx.Headers:
    """Look at a chat until this is true of the viewer; then the connection is cut."""
    query = {"delta": "1"} if deltas else {}
    headers = {} if viewer.after is None else {"Last-Event-ID": str(viewer.after)}
    with (
        gateway.client() as client,
        client.stream("GET", f"/api/chats/{chat}/events", params=query, headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        pieces = answer.iter_raw()
        while not until(viewer):
            viewer.feed(next(pieces))
    viewer.cut()
    return answer.headers


def as_told(gateway: Gateway, chat: str) -> Viewer:
    """What one is told who comes now."""
    viewer = Viewer()
    read(gateway, chat, viewer, until=lambda it: it.snapshots)
    return viewer


@pytest.fixture(scope="module")
def told(shared: Gateway) -> tuple[str, Viewer, dict[int, Viewer]]:
    """A chat with a turn for each case; what one knows of it who saw all of it; and what they knew at each number."""
    chat, viewer, states = shared.chat(), Viewer(), {}
    shared.loop.call_soon_threadsafe(shared.service.log(chat).live.watch, lambda _: None)  # so that it stays in memory

    def write() -> None:
        for row in rows_of(*CASES):
            shared.append(chat, [row])

    def is_over(viewer: Viewer) -> bool:
        if viewer.after is not None:
            states[viewer.after] = copy.deepcopy(viewer)
            states[viewer.after].cut()
        return len(viewer.turns) == len(CASES) and viewer.is_quiet

    read(shared, chat, viewer, until=lambda it: it.snapshots)
    writing = threading.Thread(target=write)
    writing.start()
    read(shared, chat, viewer, until=is_over)
    writing.join()
    assert viewer.snapshots == 1
    return chat, viewer, states


Told = tuple[str, Viewer, dict[int, Viewer]]


@pytest.mark.slow
def test_one_who_saw_it_all_knows_what_the_chat_has(shared: Gateway, told: Told) -> None:
    """A viewer who was there from the beginning knows what a new one is told, and the replies of the runs."""
    chat, viewer, _ = told
    assert shown(viewer.turns) == shown(as_told(shared, chat).turns)
    for turn, case in enumerate(CASES, 1):
        [ended] = [event for event in run_of(case) if isinstance(event, ev.RunEnded)]
        assert viewer.turns[turn]["message"].strip() == ended.reply.strip()
    assert {"prompted", "streaming", "thinking", "final_message_start", "assistant", "completed"} < set(viewer.names)


@pytest.mark.parametrize("deltas", [False, True])
@pytest.mark.slow
def test_coming_back_with_any_number_gives_the_same(shared: Gateway, told: Told, deltas: bool) -> None:
    """Who comes back with any number that was given ends with the same turns, in either mode, without a snapshot."""
    chat, whole, states = told
    assert len(states) > 50
    for after, state in [*states.items()][:: at_most(4, 1)]:
        viewer = copy.deepcopy(state)
        if after != whole.after:
            read(shared, chat, viewer, until=lambda it: it.after == whole.after, deltas=deltas)
        assert shown(viewer.turns) == shown(whole.turns), after
        assert viewer.snapshots == 1


def test_a_new_viewer_gets_one_snapshot(shared: Gateway, told: Told) -> None:
    """Who comes without a number gets everything as one frame, with the number that the others have."""
    chat, whole, _ = told
    viewer = Viewer()
    headers = read(shared, chat, viewer, until=lambda it: it.after is not None)
    assert viewer.names == ["snapshot"]
    assert (viewer.after, shown(viewer.turns)) == (whole.after, shown(whole.turns))
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert viewer.lines.retry is None  # of the connection that was cut


def test_a_long_chat_that_others_append_to_is_followed(own: Callable[..., Gateway]) -> None:
    """Entries of many pages that another process appended come to viewers, in order and without a gap."""
    gateway = own()
    chat, viewer = gateway.chat(), Viewer()
    words = [f"{number} " for number in range(3 * PAGE_ENTRIES)]
    end = ev.RunEnded(agent="claude", outcome="ok", reply="".join(words), rounds=1)
    rows = [*begun(), *map(said, words), end]
    quick = gateway.store.read

    async def slow(*given: Any, **options: Any) -> Any:
        await asyncio.sleep(0.02)  # so that viewers come between two pages
        return await quick(*given, **options)

    gateway.store.read = slow  # type: ignore[method-assign]
    last = gateway.call(gateway.store.append(chat, encode_entries(rows), after=0, at=1))
    read(gateway, chat, viewer, until=lambda it: it.after == last, deltas=True)
    assert viewer.turns[1]["message"] == "".join(words)


@pytest.mark.parametrize("number", ["999999", "9" * 30, "-1", "x", "1.5", "١"])
def test_a_number_that_was_never_given_leads_to_a_snapshot(shared: Gateway, told: Told, number: str) -> None:
    """A number of another store, or none at all, is no error: the viewer is told everything."""
    with shared.client() as client:
        for asked in ({"params": {"after": number}}, {"headers": {"Last-Event-ID": number.encode()}}):
            with client.stream("GET", f"/api/chats/{told[0]}/events", **asked) as answer:
                viewer, pieces = Viewer(), answer.iter_raw()
                while viewer.after is None:
                    viewer.feed(next(pieces))
            assert (viewer.names, viewer.after) == (["snapshot"], told[1].after)


def test_the_header_is_over_the_query(shared: Gateway, told: Told) -> None:
    """A browser that comes back by itself has both: the address that it was given, and the number that it reached."""
    chat, whole, states = told
    with (
        shared.client() as client,
        client.stream(
            "GET", f"/api/chats/{chat}/events?after=0", headers={"Last-Event-ID": str(sorted(states)[-2])}
        ) as answer,
    ):
        viewer, pieces = copy.deepcopy(states[sorted(states)[-2]]), answer.iter_raw()
        while viewer.after != whole.after:
            viewer.feed(next(pieces))


# --- cuts ---


@pytest.mark.sample(2)
@pytest.mark.parametrize("deltas", [False, True])
@pytest.mark.slow
def test_random_cuts_lose_nothing(shared: Gateway, deltas: bool) -> None:
    """Viewers whose connections are cut at random bytes, again and again, while text comes, end with the same text."""
    chat, chance = shared.chat(), random.Random(7)
    rows = rows_of("parallel", "thinktools", "text")
    shared.append(chat, rows[:1])
    viewers = [Viewer() for _ in range(4)]

    def write() -> None:
        for row in rows[1:]:
            shared.append(chat, [row])

    writing = threading.Thread(target=write)
    writing.start()
    for cut in range(CUTS):
        viewer = viewers[cut % len(viewers)]
        goal = viewer.bytes + chance.randrange(1, 1500)
        cut_after(shared, chat, viewer, goal, deltas=deltas)
    writing.join()
    last = shared.call(shared.service.log(chat).open()).number
    for viewer in viewers:
        if viewer.after != last:
            read(shared, chat, viewer, until=lambda it: it.after == last, deltas=deltas)
        assert shown(viewer.turns) == shown(as_told(shared, chat).turns)


def cut_after(gateway: Gateway, chat: str, viewer: Viewer, goal: int, *, deltas: bool) -> None:
    """Read until so many bytes in all, in the midst of a frame too, or until nothing more comes at once."""
    query = {"delta": "1"} if deltas else {}
    headers = {} if viewer.after is None else {"Last-Event-ID": str(viewer.after)}
    with gateway.client() as client, contextlib.suppress(httpx.ReadTimeout):
        client.timeout = httpx.Timeout(SECONDS, read=0.05)
        with client.stream("GET", f"/api/chats/{chat}/events", params=query, headers=headers) as answer:
            for piece in answer.iter_raw():
                viewer.feed(piece[: goal - viewer.bytes])
                if viewer.bytes >= goal:
                    break
    viewer.cut()


# --- what is told when ---


def test_the_first_text_is_told_at_once_and_more_of_it_later(own: Callable[..., Gateway]) -> None:
    """Between two steps of growing text is time, but what is no growth is told at once, with the text so far."""
    gateway = own(pace=3600.0)
    chat, viewer = gateway.chat(), Viewer()
    gateway.append(chat, begun())
    with gateway.client() as client, client.stream("GET", f"/api/chats/{chat}/events") as answer:
        pieces = answer.iter_raw()

        def until_row(number: int) -> None:
            while viewer.after != number:
                viewer.feed(next(pieces))

        until_row(5)
        until_row(gateway.append(chat, [said("One")]))
        for word in ("two", "three", "four"):
            gateway.append(chat, [said(f" {word}")])
        until_row(gateway.append(chat, [Prompted(2, "and then?")]))
    assert viewer.turns[1]["reply"] == "One two three four"
    assert viewer.names.count("assistant") == 2


def test_no_text_is_held_back_for_ever(own: Callable[..., Gateway]) -> None:
    """Growth that comes too soon after the last one is told when its time has come, if nothing follows it."""
    gateway = own(pace=0.05)
    chat, viewer = gateway.chat(), Viewer()
    gateway.append(chat, begun())

    def write() -> None:
        for _ in range(50):
            gateway.append(chat, [said("x")])

    writing = threading.Thread(target=write)
    writing.start()
    read(gateway, chat, viewer, until=lambda it: it.turns and it.turns[1].get("reply") == "x" * 50)
    writing.join()


def test_silence_is_filled(own: Callable[..., Gateway]) -> None:
    """Something comes at once, before anything of the chat does, and again and again where nothing happens."""
    gateway = own(ping=0.02)
    chat, viewer = gateway.chat(), Viewer()
    with gateway.client() as client, client.stream("GET", f"/api/chats/{chat}/events") as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        assert first.startswith(b": ok\n")
        viewer.feed(first)
        while viewer.lines.comments < 4:
            viewer.feed(next(pieces))
    assert viewer.names == ["snapshot"]


class Naive:
    """The simplest reader: what stands before a blank line is an event, with or without data."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.retries: list[int] = []
        self.comments = 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        for block in blocks:
            lines = block.decode().split("\n")
            self.comments += sum(line.startswith(":") for line in lines)
            self.retries += [int(line[7:]) for line in lines if line.startswith("retry: ")]
            data_lines = [line[6:] for line in lines if line.startswith("data: ")]
            self.frames.append(json.loads("\n".join(data_lines)))


def test_a_naive_reader_gets_frames_alone(own: Callable[..., Gateway]) -> None:
    """Of connections that begin, come back, are silent for long and end: no block is without JSON, and none is lost."""
    gateway = own(ping=0.01)
    chat = gateway.chat()
    number = gateway.append(chat, begun())

    def silent_then(after: dict[str, int], write: Callable[[], Any]) -> Naive:
        """Comes, reads comments for a while, and then what this makes."""
        reader = Naive()
        with gateway.client() as client, client.stream("GET", f"/api/chats/{chat}/events", params=after) as answer:
            pieces, heard = answer.iter_raw(), b""
            while heard.count(b": ping") < 3:
                heard += next(pieces)
            write()
            reader.feed(heard)
            before = len(reader.frames)
            while len(reader.frames) == before:
                reader.feed(next(pieces))
        return reader

    first = silent_then({}, lambda: gateway.append(chat, [Prompted(2, "and then?")]))
    assert ([frame["type"] for frame in first.frames], first.retries) == (["snapshot", "prompted"], [1000])
    back = silent_then({"after": number + 1}, lambda: gateway.append(chat, [said("One")]))
    assert back.frames[0]["type"] == "final_message_start"
    assert (back.retries, back.comments >= 4) == ([1000], True)
    ended = silent_then({"after": number + 2}, lambda: gateway.loop.call_soon_threadsafe(gateway.server.drain))
    assert [frame["type"] for frame in ended.frames] == ["goodbye"]
    assert ended.retries[-1] == 500


@pytest.mark.parametrize("deltas", [False, True])
def test_characters_that_some_take_for_line_ends_stay_in_their_line(shared: Gateway, deltas: bool) -> None:
    """The three are escaped, so that no reader of lines breaks a frame; and come whole."""
    chat, viewer, text = shared.chat(), Viewer(), "a\u2028b\u2029c\x85d\r\ne\x00f\N{PILE OF POO}"
    shared.append(chat, [Prompted(1, text), TurnBegan(1, "claude", "/"), *begun()[2:], said("…"), said(text)])
    read(shared, chat, viewer, until=lambda it: it.after == 7, deltas=deltas)  # as a snapshot
    assert (viewer.turns[1]["prompt"], viewer.turns[1]["reply"]) == (text, "…" + text)
    viewer = Viewer()
    viewer.after = 0
    read(shared, chat, viewer, until=lambda it: it.after == 7, deltas=deltas)
    assert (viewer.turns[1]["prompt"], viewer.turns[1]["reply"]) == (text, "…" + text)


def test_text_that_began_before_a_number_is_never_missed() -> None:
    """A frame that stands before text has no number: who came back with it would lack the text before that row."""
    thread = Timeline()
    for rows in (begun(), [said("One")], [Prompted(2, "and?")], [said(" two")]):
        thread.take(Numbered(thread.number + place, 0, row) for place, row in enumerate(rows, 1))
    viewer = Viewer()
    told = thread.frames(0, deltas=True)
    assert told is not None
    for number, _ in told:
        data = encode(told).data
        end = data.find(b"id: %d\n" % number)
        if end >= 0:
            viewer = Viewer()
            viewer.feed(data[: data.index(b"\n\n", end) + 2])
            more = thread.frames(number, deltas=True)
            assert more is not None
            viewer.feed(encode(more).data)
            assert viewer.turns[1]["reply"] == "One two"


def test_each_gets_what_it_asked_for(shared: Gateway) -> None:
    """Viewers who stand at the same place share what is sent only where they asked for the same form."""
    chat, last = shared.chat(), [Viewer(), Viewer()]
    shared.append(chat, begun())
    with contextlib.ExitStack() as stack:
        streams = []
        for query in ("", "?delta=1"):
            client = stack.enter_context(shared.client())
            answer = stack.enter_context(client.stream("GET", f"/api/chats/{chat}/events{query}"))
            streams.append(answer.iter_raw())
        seen = [b"", b""]
        for number in range(6, 12):
            shared.append(chat, [said("x")])
            for place, viewer in enumerate(last):
                while viewer.after != number:
                    piece = next(streams[place])
                    seen[place] += piece
                    viewer.feed(piece)
    assert b'"content":"xx' in seen[0]
    assert b'"delta"' not in seen[0]
    assert b'"delta":"x"' in seen[1]
    assert b'"content"' not in seen[1]


# --- its end ---


def test_a_deleted_chat_says_so_and_ends(shared: Gateway) -> None:
    """`deleted` is the last frame, and the stream ends of itself; who comes then finds no chat."""
    chat, viewer = shared.chat(), Viewer()
    with shared.client() as client, client.stream("GET", f"/api/chats/{chat}/events") as answer:
        pieces = answer.iter_raw()
        while not viewer.snapshots:
            viewer.feed(next(pieces))
        assert httpx.delete(f"{shared.url}/api/chats/{chat}", headers=shared.bearer).status_code == 204
        for piece in pieces:
            viewer.feed(piece)
    assert viewer.deleted
    assert viewer.names == ["snapshot", "deleted"]
    with shared.client() as client:
        assert client.get(f"/api/chats/{chat}/events").status_code == 404


def test_a_server_that_ends_says_goodbye(own: Callable[..., Gateway]) -> None:
    """All viewers get `goodbye` and how soon to come back, their streams end whole, and the next server goes on."""
    gateway = own()
    chat = gateway.chat()
    gateway.append(chat, [*begun(), said("One")])
    viewers = [Viewer() for _ in range(20)]
    ended = []

    def look(viewer: Viewer) -> None:
        with gateway.client() as client, client.stream("GET", f"/api/chats/{chat}/events") as answer:
            for piece in answer.iter_raw():
                viewer.feed(piece)
            ended.append(viewer)

    looking = [threading.Thread(target=look, args=(viewer,)) for viewer in viewers]
    for thread in looking:
        thread.start()
    until(lambda: all(viewer.snapshots for viewer in viewers))
    gateway.close()
    for thread in looking:
        thread.join(SECONDS)
    assert len(ended) == len(viewers)
    assert all(viewer.goodbye and viewer.lines.retry == 500 for viewer in viewers)

    again, viewer = own(), viewers[0]
    read(again, chat, viewer, until=lambda it: it.is_quiet)
    assert (viewer.turns[1]["outcome"], viewer.turns[1]["message"]) == ("cut_off", "One")


def test_a_store_that_fails_ends_the_stream_and_nothing_is_lost(own: Callable[..., Gateway]) -> None:
    """If the store cannot be read, viewers are let go without a goodbye; one that comes back sees what it missed."""
    gateway = own()
    chat, viewer, good = gateway.chat(), Viewer(), gateway.store.summary

    async def fail(*_: Any, **__: Any) -> Any:
        gateway.store.summary = good  # type: ignore[method-assign]
        raise StoreFailed("the disk is gone")

    gateway.store.summary = fail  # type: ignore[method-assign]
    with gateway.client() as client, client.stream("GET", f"/api/chats/{chat}/events") as answer:
        for piece in answer.iter_raw():
            viewer.feed(piece)
    assert (viewer.names, viewer.goodbye) == ([], False)
    viewer.cut()
    gateway.append(chat, [*begun(), said("One")])
    read(gateway, chat, viewer, until=lambda it: it.after == 6)
    assert viewer.turns[1]["reply"] == "One"


def test_a_watch_that_failed_is_not_joined(own: Callable[..., Gateway]) -> None:
    """The next client begins a new watch, also while a client of the failed one is still there, and sees the chat."""
    gateway = own()
    chat, good = gateway.chat(), gateway.store.summary

    async def fail(*_: Any, **__: Any) -> Any:
        raise StoreFailed("the disk is gone")

    async def settled(watch: Watch) -> bool:
        while not (watch.ready or watch.failed):
            await asyncio.sleep(0.001)
        return watch.ready

    async def check() -> None:
        gateway.store.summary = fail  # type: ignore[method-assign]
        with gateway.watches.enter(chat) as (failed, _):
            assert not await settled(failed)
            gateway.store.summary = good  # type: ignore[method-assign]
            with gateway.watches.enter(chat) as (watch, _):
                assert await settled(watch)
        with gateway.watches.enter(chat) as (again, _):
            assert again is watch  # the client that left the failed one did not take it away

    gateway.call(check())


def test_viewers_see_what_is_kept_and_nothing_else(own: Callable[..., Gateway]) -> None:
    """An end of a turn that the store does not keep is seen by nobody; with the store well again it comes."""
    gateway = own()
    chat, viewer, good = gateway.chat(), Viewer(), gateway.store.append
    gateway.append(chat, [*begun(), said("One")])

    async def fail(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(0.05)
        raise StoreFailed("the disk is full")

    end = [ev.RunEnded(agent="claude", outcome="ok", reply="One", rounds=1)]
    with gateway.client() as client, client.stream("GET", f"/api/chats/{chat}/events") as answer:
        pieces = answer.iter_raw()
        while not viewer.snapshots:
            viewer.feed(next(pieces))
        gateway.store.append = fail  # type: ignore[method-assign]
        with pytest.raises(StoreFailed):
            gateway.append(chat, end)
        gateway.store.append = good  # type: ignore[method-assign]
        gateway.call(gateway.service.log(chat).open())  # as the worker does, after a while
        newcomer = as_told(gateway, chat)
        assert newcomer.turns[1].get("state") == "running"
        gateway.append(chat, end)
        while "completed" not in viewer.names:
            viewer.feed(next(pieces))
    assert viewer.turns[1]["message"] == "One"


@pytest.mark.slow
def test_a_chat_that_was_trimmed_is_told_from_what_is_left(own: Callable[..., Gateway]) -> None:
    """Who looks at a chat whose first rows are gone gets a snapshot; who comes back with an old number as well."""
    gateway = own()
    chat = gateway.chat()
    with gateway.client() as client:
        for turn in range(1, 4):
            client.post(f"/api/chats/{chat}/turns", json={"text": f"{turn}"})
            until(lambda: client.get(f"/api/chats/{chat}/turns").json()["turns"][-1].get("finalized"))
        views = client.get(f"/api/chats/{chat}/turns").json()["turns"]

    async def expired(**_: Any) -> dict[str, int]:
        return {chat: views[1]["last"]}

    gateway.store.list_expired = expired  # type: ignore[method-assign]
    assert gateway.call(gateway.service.old_turns.drop(Retention(max_bytes=1))) == {chat: views[1]["last"]}
    viewer = as_told(gateway, chat)
    assert [*viewer.turns][-1] == 3
    assert viewer.turns[3]["message"] == views[2]["message"]
    viewer.after = 1
    read(gateway, chat, viewer, until=lambda it: it.snapshots == 2)


# --- how much it costs ---


@pytest.mark.slow
def test_a_viewer_that_reads_slowly_gets_fewer_and_larger_steps(own: Callable[..., Gateway]) -> None:
    """While it reads nothing, nothing is kept for it but what is on its way; then it gets what it missed, at once."""
    gateway = own()
    chat, viewer, piece = gateway.chat(), Viewer(), "x" * 20_000
    gateway.append(chat, begun())
    with listening(gateway, chat) as one:
        for _ in range(200):
            gateway.append(chat, [said(piece)])
        most = gateway.call(buffered(gateway))
        until_told(one, viewer, lambda it: len(it.turns[1].get("reply", "")) == 200 * len(piece))
    assert most <= 3 * PIECE_BYTES
    assert viewer.names.count("assistant") < 150  # of 200: 400 MB would have been all of them


@pytest.mark.slow
def test_a_viewer_that_never_reads_is_let_go(own: Callable[..., Gateway]) -> None:
    """It costs what is on its way to it, for a while, and then nothing: its connection is ended by force."""
    gateway = own(patience=0.2)
    chat = gateway.chat()
    gateway.append(chat, begun())
    with listening(gateway, chat):
        until(lambda: gateway.metrics.clients == 1)
        for _ in range(100):
            gateway.append(chat, [said("x" * 50_000)])
        until(lambda: gateway.metrics.dropped == 1)
        until(lambda: (gateway.metrics.clients, gateway.call(buffered(gateway))) == (0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False])
def test_a_viewer_that_hardly_reads_does_not_hold_the_server_up(own: Callable[..., Gateway], reads: bool) -> None:
    """The server ends although one of its viewers would take its goodbye in half a minute only."""
    gateway = own()
    chat = gateway.chat()
    gateway.append(chat, begun())
    with listening(gateway, chat) as one:
        for _ in range(100):
            gateway.append(chat, [said("x" * 50_000)])
        until(lambda: gateway.call(buffered(gateway)) > PIECE_BYTES // 2)
        reading = threading.Thread(target=trickle if reads else lambda _: None, args=(one,))
        reading.start()
        gateway.close()
        one.shutdown(socket.SHUT_RDWR)
        reading.join()
    assert gateway.metrics.dropped == 1


@pytest.mark.slow
def test_deltas_cost_as_much_as_the_text(shared: Gateway) -> None:
    """A viewer of a long reply with `delta=1` gets bytes in proportion to its length."""
    chat, viewer, text = shared.chat(), Viewer(), "0123456789" * 20
    shared.append(chat, begun())
    read(shared, chat, viewer, until=lambda it: it.snapshots)

    def write() -> None:
        for _ in range(1000):
            shared.append(chat, [said(text)])

    writing = threading.Thread(target=write)
    writing.start()
    read(shared, chat, viewer, until=lambda it: len(it.turns[1].get("reply", "")) == 200_000, deltas=True)
    writing.join()
    assert viewer.names.count("assistant") > 10
    assert viewer.bytes < 200_000 + 130 * len(viewer.names) + 2_000


@pytest.mark.slow
def test_many_viewers_of_a_chat_are_one_watch(own: Callable[..., Gateway]) -> None:
    """A hundred viewers see the same, the chat is folded once for all, and the watch ends some time after they left."""
    gateway = own(linger=0.0, max_clients=100)
    chat, viewers = gateway.chat(), [Viewer() for _ in range(100)]
    rows = rows_of("thinktools")
    gateway.append(chat, rows[:3])

    async def look(client: httpx.AsyncClient, viewer: Viewer) -> None:
        async with client.stream("GET", f"/api/chats/{chat}/events") as answer:
            async for piece in answer.aiter_raw():
                viewer.feed(piece)
                if viewer.is_quiet:
                    return

    async def look_all() -> None:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=gateway.url, headers=gateway.bearer, limits=limits, timeout=SECONDS, verify=PLAIN
        ) as client:
            await asyncio.gather(*(look(client, viewer) for viewer in viewers))

    looking = threading.Thread(target=asyncio.run, args=(look_all(),))
    looking.start()
    until(lambda: all(viewer.snapshots for viewer in viewers))
    assert (gateway.metrics.clients, gateway.metrics.watches) == (100, 1)
    with gateway.client() as client:
        answer = client.get(f"/api/chats/{chat}/events")
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert answer.headers["retry-after"].isdecimal()
    for row in rows[3:]:
        gateway.append(chat, [row])
    looking.join(SECONDS)
    assert all(shown(viewer.turns) == shown(viewers[0].turns) for viewer in viewers)
    until(lambda: (gateway.metrics.clients, gateway.metrics.watches) == (0, 0))


def test_a_viewer_that_goes_is_noticed_at_once(own: Callable[..., Gateway]) -> None:
    """A connection that its client ends is no viewer any more, although nothing is sent to it."""
    gateway = own()
    with listening(gateway, gateway.chat()):
        until(lambda: gateway.metrics.clients == 1)
    until(lambda: gateway.metrics.clients == 0)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.slow
def test_frames_are_framed_as_the_response_is(shared: Gateway, version: str) -> None:
    """A client of HTTP/1.0 gets the bytes of the frames alone; one of HTTP/1.1 gets each send as one chunk."""
    chat = shared.chat()
    with socket.create_connection(("127.0.0.1", shared.port), SECONDS) as connection:
        head = f"GET /api/chats/{chat}/events?delta=1 HTTP/{version}\r\nHost: 127.0.0.1:{shared.port}\r\n"
        connection.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        data = b""
        shared.append(chat, begun())
        for word in ("one ", "two ", "three"):
            shared.append(chat, [said(word)])
            while word.strip().encode() not in data:
                data += connection.recv(65536)
    body = data.partition(b"\r\n\r\n")[2]
    if version == "1.1":
        whole = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            whole += body[: int(size, 16)]
            assert body[int(size, 16) :][:2] in (b"\r\n", b"")
            body = body[int(size, 16) + 2 :]
        body = whole
    assert b"\r" not in body
    assert body.startswith(b": ok\n")
    assert body.rstrip().endswith(b"}")


def test_the_head_of_a_stream_is_no_viewer(shared: Gateway) -> None:
    """HEAD tells the type of the stream, and ends."""
    with shared.client() as client:
        answer = client.head(f"/api/chats/{shared.chat()}/events")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


@contextlib.contextmanager
def listening(gateway: Gateway, chat: str) -> Iterator[socket.socket]:
    """A stream on a connection that takes little before it is read."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(SECONDS)
        one.connect(("127.0.0.1", gateway.port))
        # HTTP/1.0, so that the body is as it was written.
        request = f"GET /api/chats/{chat}/events HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        one.sendall(request.encode())
        yield one


def trickle(one: socket.socket) -> None:
    """Read so slowly that what was sent would take minutes."""
    with contextlib.suppress(OSError):
        while one.recv(512):
            time.sleep(0.001)


def until_told(one: socket.socket, viewer: Viewer, told: Callable[[Viewer], Any]) -> None:
    """Read the stream of a connection until this is true of the viewer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += one.recv(4096)
    viewer.feed(data.partition(b"\r\n\r\n")[2])
    while not (viewer.turns and told(viewer)):
        viewer.feed(one.recv(1 << 20))


async def buffered(gateway: Gateway) -> int:
    """The bytes that the server holds for all connections."""
    return sum(one.transport.get_write_buffer_size() for one in gateway.server.server_state.connections)
