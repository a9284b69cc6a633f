"""The guard alone, also as it is where there is no subreaper and no /proc."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from waiting import until

from penstock.run import guard
from penstock.run.process import GUARD

if TYPE_CHECKING:
    from run.processes.conftest import Place

POOR = f"""
import sys
sys.path.insert(0, {os.path.dirname(GUARD)!r})
import guard
guard.SUBREAPER = False
guard._prctl = lambda: lambda option, value: -1
guard.descendants = lambda: []
guard.main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
"""


WHOLE = [sys.executable, "-I", "-S", GUARD]
"""A guard as Penstock starts it."""

LIMITED = [sys.executable, "-c", POOR]
"""One without a subreaper and without /proc."""


class Guarded:
    """A guard and its agent, as Penstock sees them, but that nobody sweeps up after the guard."""

    def __init__(self, place: Place, mode: str, guard: list[str]) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(60)
        with theirs:
            number = theirs.fileno()
            self.process = subprocess.Popen(
                [*guard, str(number), str(os.getpid()), *place.command(mode)],
                env={**os.environ, "NOTES": str(place.folder)},
                pass_fds=[number],
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )


@pytest.fixture
def start(place: Place) -> Iterator[Callable[..., Guarded]]:
    """Starts a guard with an agent of this mode."""
    guards: list[Guarded] = []

    def make(mode: str, guard: list[str] = LIMITED) -> Guarded:
        guards.append(Guarded(place, mode, guard))
        return guards[-1]

    yield make
    for started in guards:
        started.control.close()
        started.process.wait(60)
    for note in place.left():  # what a guard left that does not keep its promise
        os.kill(place.pid(note), signal.SIGKILL)


@pytest.mark.sample(3)
@pytest.mark.skipif(not guard.SUBREAPER, reason="only Linux has subreapers")
@pytest.mark.parametrize("mode", ["session_behind", "pipe_and_session_behind", "behind_while_it_works"])
@pytest.mark.parametrize("end", ["order", "closed"])
def test_the_whole_tree_is_gone_before_the_guard(
    place: Place, start: Callable[..., Guarded], mode: str, end: str
) -> None:
    """A descendant in a session of its own, which ignores signals, is dead by the time that the guard has exited:
    when it was ordered to kill, and when Penstock is gone."""
    guarded = start(mode, WHOLE)
    place.pid("grandchild")
    if end == "order":
        guarded.control.sendall(b"K")
        while guarded.control.recv(4096):
            pass  # the end of what it says is its promise that nobody is left
        assert place.left() == []
    else:
        guarded.control.close()
    assert guarded.process.wait(60) == 0
    assert place.left() == []


@pytest.mark.parametrize("mode", ["deaf", "pipe_behind"])
def test_without_a_subreaper(place: Place, start: Callable[..., Guarded], mode: str) -> None:
    """Where orphans cannot be followed, the agent's whole group is killed, also when its leader has exited."""
    guarded = start(mode)
    control, process = guarded.control, guarded.process
    place.pid("ready" if mode == "deaf" else "grandchild")
    told = b""
    while b"started" not in told or (mode == "pipe_behind" and b"exited" not in told):
        told += control.recv(4096)
    assert process.poll() is None
    control.sendall(b"K")
    assert process.wait(60) == 0
    until(lambda: not place.left())
    if mode == "deaf":
        assert b"exited 0 9" in control.recv(4096)


def test_without_a_subreaper_it_ends_by_itself(start: Callable[..., Guarded]) -> None:
    """With nobody left in the group, the guard goes."""
    guarded = start("well")
    assert guarded.process.wait(60) == 0
    assert b"exited 0 0" in guarded.control.recv(4096)


def test_descendants_are_found() -> None:
    """A process below a process is found, with its group."""
    child = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True)
    try:
        while len(found := [pid for pid, group in guard.descendants() if group == child.pid]) < 2:
            pass
        assert child.pid in found
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_no_process_for_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no process left for the agent, the guard tells so."""

    def refuse() -> int:
        raise BlockingIOError(11, "no process")

    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(os, "fork", refuse)
        assert guard._start(theirs.fileno(), ["/bin/true"], [1], lambda option, value: 0) is None
        assert ours.recv(100) == b"failed 11\n"


def test_the_relay_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Penstock does not take is held up to a bound, past which the agent waits; all of it arrives in its order."""
    monkeypatch.setattr(guard, "MAX_HELD_BYTES", 200_000)
    monkeypatch.setattr(guard, "PIPE_BYTES", 65_536)
    source, agents = os.pipe()
    penstocks, sink = os.pipe()
    for fd in (agents, penstocks):
        os.set_blocking(fd, False)
    relay, poll = guard.Relay(source, sink), select.poll()
    said = b"".join(b"%d\n" % number for number in range(200_000))
    left, seen = memoryview(said), b""
    for _ in range(100):  # nobody takes anything
        try:
            left = left[os.write(agents, left[:50_000]) :]
        except BlockingIOError:
            pass
        relay.watch(poll)
        relay.move()
    assert len(said) - len(left) < 200_000 + guard.READ_BYTES + 2 * 65_536
    while len(seen) < len(said):
        try:
            seen += os.read(penstocks, 65_536)
            left = left[os.write(agents, left[:50_000]) :] if left else left
        except BlockingIOError:
            pass
        relay.watch(poll)
        relay.move()
    assert seen == said
    os.close(agents)
    assert relay.ended()
    assert os.read(penstocks, 1) == b""
    os.close(penstocks)


def test_a_relay_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Penstock has closed its end, what is left is nobody's, and the guard is not held by it."""
    source, agents = os.pipe()
    penstocks, sink = os.pipe()
    relay = guard.Relay(source, sink)
    os.close(penstocks)
    os.write(agents, b"x" * 1000)
    os.close(agents)
    assert relay.ended()
