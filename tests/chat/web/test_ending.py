"""The end of the server: streams are told, agents are ended, and it exits at once with 0."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from restarts import AGENTS, Served
from truth import folded
from waiting import until
from watchers import Cut, Stream, Watcher

STREAMS = 50
LONG = "long 0 0.0001"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with scripted agents."""
    with Served(tmp_path) as served:
        yield served


def read_to_the_end(watcher: Watcher) -> None:
    """All that comes until the server closes the connection."""
    assert watcher.stream is not None
    with contextlib.suppress(Cut):
        while True:
            watcher.read()
    whole = watcher.stream.whole
    watcher.cut()
    assert whole, "the answer was cut off"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGINT, 128 + signal.SIGINT)])
def test_streams_are_told_and_agents_are_ended(served: Served, number: int, expected: int) -> None:
    """With 50 open streams and four agents at work, each stream gets a goodbye, and nothing is left."""
    chats = [served.chat(agent) for agent in AGENTS]
    for chat in chats:
        served.prompt(chat, f"text 0 60 {chat}", key="one")  # so slowly that all see its status
    watchers = [Watcher(served, chats[place % len(chats)], delta=place % 2 == 0) for place in range(STREAMS)]
    for watcher in watchers:
        watcher.connect()
        while not watcher.viewer.seen.get(1, {}).get("status"):
            watcher.read()
    until(lambda: len(served.starts()) == len(chats), "the agents are started")

    status = served.end(number)

    assert status == expected, served.said()
    assert not served.living()
    for watcher in watchers:
        read_to_the_end(watcher)
        assert watcher.goodbye
    for chat in chats:
        turn = folded(served.rows(chat))[1]
        assert turn["outcome"] == "cut_off"
        assert turn["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("streams", [0, 5])
def test_an_idle_server_ends(served: Served, streams: int) -> None:
    """With nothing to do, with viewers or without, it exits with 0."""
    chat = served.chat("claude")
    watchers = [Watcher(served, chat, delta=True) for _ in range(streams)]
    for watcher in watchers:
        watcher.connect()
        while watcher.viewer.number is None:
            watcher.read()
    assert served.end(signal.SIGTERM) == 0, served.said()
    for watcher in watchers:
        read_to_the_end(watcher)
        assert watcher.goodbye


@pytest.mark.slow
def test_a_reader_that_never_reads_holds_nothing_up(served: Served) -> None:
    """A viewer whose buffers are full of a long reply does not keep the server from its end."""
    chat = served.chat("claude")
    stuck = [Stream(served, chat, delta=False, after=None, buffer=2048) for _ in range(3)]
    served.prompt(chat, f"{LONG} {chat}", key="one")
    until(lambda: served.finalized(chat), "the turn is over for those who read")
    served.prompt(chat, f"{LONG} {chat}-2", key="two")
    until(lambda: len(served.starts()) == 2, "the agent is started")
    assert served.end(signal.SIGTERM) == 0, served.said()
    assert not served.living()
    for stream in stuck:
        stream.cut()


@pytest.mark.slow
def test_a_second_signal_changes_nothing(served: Served) -> None:
    """Two signals, one right after the other: nothing is left, and the turn is told to be cut off, if by the next
    server."""
    chat = served.chat("claude")
    served.prompt(chat, f"text 0 0.2 {chat}", key="one")
    until(lambda: served.starts()[chat], "the agent is started")
    process = served.process
    assert process is not None
    process.send_signal(signal.SIGTERM)
    assert served.end(signal.SIGTERM) in (0, 128 + signal.SIGTERM), served.said()
    until(lambda: not served.living(), "the agent is ended")
    served.start()
    assert served.end(signal.SIGTERM) == 0, served.said()
    assert folded(served.rows(chat))[1]["outcome"] == "cut_off"
    assert served.starts()[chat] == 1
