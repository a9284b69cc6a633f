"""What is left when Penstock, or the guard, is killed with -9: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import until

from penstock.core.normalizer.outcome import KILLED
from penstock.errors import TransportError
from penstock.events import RunEnded
from penstock.run.process import Process, marked

if TYPE_CHECKING:
    from run.processes.conftest import Place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

HOST = Path(__file__).parent / "programs" / "host.py"


@pytest.fixture
def strays() -> Iterator[list[int]]:
    """Processes of the test's own that end with it."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.sample(2)
@pytest.mark.parametrize(("how", "mode"), [("plain", "behind_while_it_works"), ("forks", "deaf")])
def test_penstock_is_killed(place: Place, strays: list[int], how: str, mode: str) -> None:
    """No process of the agent's outlives Penstock, also where a fork of Penstock's holds on to all descriptors."""
    host = subprocess.Popen([sys.executable, str(HOST), how, mode, str(place.folder)])
    place.pid("ready")
    until((place.folder / "mark").exists)
    if how == "forks":
        note = place.folder / "fork"
        until(lambda: note.exists() and note.read_text())
        strays.append(int(note.read_text().split()[1]))
    mark = (place.folder / "mark").read_text().split()[1]
    assert marked(mark)
    host.kill()
    host.wait()
    until(lambda: not marked(mark))
    place.nothing_left(mark)


@pytest.mark.parametrize("mode", ["behind_while_it_works", "works"])
def test_the_guard_is_killed(place: Place, mode: str) -> None:
    """When somebody kills the guard, the run ends as if the agent was killed, and nothing is left."""
    with place.agent(mode).run("hi") as run:
        guard = _parent(place.pid("ready"))
        texts = 2 if mode == "works" else 1
        until(lambda: run.health.complete_events >= texts)  # what is still on its way through the guard goes with it
        os.kill(guard, signal.SIGKILL)
        events = list(run)
    ended = place.whole(run, events)
    assert run.exit_status == -signal.SIGKILL
    assert (ended.outcome, ended.reason) == (("ok" if mode == "works" else "cut_off"), KILLED)


def test_the_guard_stands_still(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that does not do what it is told is killed itself, and the agent with it."""
    monkeypatch.setattr("penstock.run.lifecycle.GUARD_SECONDS", 0.2)
    with place.agent("behind_while_it_works").run("hi") as run:
        os.kill(_parent(place.pid("ready")), signal.SIGSTOP)
        run.kill()
        events = list(run)
    assert place.whole(run, events).outcome == "cancelled"


def test_news_that_nobody_took(place: Place) -> None:
    """Penstock may die before it read what the guard told; the guard still sees that it is alone."""
    env = {**os.environ, "NOTES": str(place.folder)}
    mark = uuid.uuid4().hex
    process = Process(place.command("behind_while_it_works"), env, None, mark)
    place.pid("ready")
    process.close_fd(process.control)  # with `started` unread, so the socket is reset and not closed
    until(lambda: not marked(mark))
    process.end()
    place.nothing_left(mark)


def test_an_order_after_the_end_goes_nowhere(place: Place) -> None:
    """The number of a closed descriptor may be another file's: nothing is written to it."""
    process = Process(place.command("well"), {**os.environ, "NOTES": str(place.folder)}, None, uuid.uuid4().hex)
    number = process.control
    process.end()
    read_end, write_end = os.pipe()
    os.dup2(write_end, number)
    process.signal("K")
    os.set_blocking(read_end, False)
    with pytest.raises(BlockingIOError):
        os.read(read_end, 1)
    for fd in {read_end, write_end, number}:
        os.close(fd)


def test_high_descriptors(place: Place) -> None:
    """Penstock may have more descriptors than `select` can take."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("too few descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with place.agent("deaf").run("hi") as run:
            place.pid("ready")
            run.kill()
            ended = [event for event in run if isinstance(event, RunEnded)]
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (run.exit_status, ended[0].outcome) == (-signal.SIGKILL, "cancelled")
    place.nothing_left(run.mark)


@pytest.mark.slow
def test_no_descriptor_is_left(place: Place) -> None:
    """Where no process can be started, the error says so, and nothing is held on to."""
    import resource

    before = sorted(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for room in range(8):
        run = place.agent("well").run("hi")
        # The limit is on the numbers of descriptors, not on how many are open: all numbers below it are taken first.
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 20, hard))
        taken = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            for _ in range(room):
                os.close(taken.pop())
            with pytest.raises(TransportError), run:
                pass
        finally:
            for fd in taken:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        run.stop()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_signals_that_the_starting_thread_blocks(place: Place) -> None:
    """An agent starts with no signal blocked, whatever the program that runs it has blocked."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD})
    try:
        with place.agent("never_answers").run("hi") as run:
            status = Path(f"/proc/{place.pid('ready')}/status").read_text()
            run.cancel()
            run.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert "SigBlk:\t0000000000000000" in status
    assert run.exit_status == -signal.SIGINT


def test_sigpipe_at_its_default(place: Place) -> None:
    """A program that dies of SIGPIPE, as command-line programs do, does not die of an agent that reads nothing."""
    code = (
        "import signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "from penstock import agent\n"
        "run = agent('faulty', command=sys.argv[1:], adapter='claude').run('x' * 1000000)\n"
        "with run: print(run.wait().outcome)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *place.command("closes_stdin")],
        env={**os.environ, "NOTES": str(place.folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "ok")
