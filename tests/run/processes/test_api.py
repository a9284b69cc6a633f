"""The API from where programs call it: iterators, threads, event loops, many runs, readers that stand still."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import functools
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from waiting import until

from penstock.core.normalizer.outcome import KILLED
from penstock.errors import AgentFailed, UsageError
from penstock.events import Delta, Event, Replied
from penstock.run.lifecycle import Fact, Limits, State
from penstock.run.process import Process, marked
from penstock.run.queues import EventQueue
from penstock.run.result import Result
from penstock.run.supervisor import Supervisor
from penstock.sinks.chunks import StreamChunk

if TYPE_CHECKING:
    from run.processes.conftest import Place

SAID = "hello, all of it is here"
AT_ONCE = 50
AT_ONCE_IN_A_LOOP = 20
"""Runs at once in one event loop. Each has a thread of its own there too, so fewer than in threads show the same."""
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "60"))
"""How many runs the look for leaks takes."""

# --- iterators ---


def _closed(chunks: Any) -> None:
    chunks.close()


def _dropped(chunks: Any) -> None:
    del chunks


@pytest.mark.parametrize("leave", [_closed, _dropped])
def test_leaving_the_iterator_ends_the_agent(place: Place, short: Limits, leave: Callable[[Any], None]) -> None:
    """An iterator of chunks that is closed or dropped takes its agent with it, and what that started."""
    chunks = [place.agent("behind_while_it_works", limits=short).send_streaming("hi")]
    assert next(chunks[0]).text == SAID
    mark = _mark(place)
    assert marked(mark)
    leave(chunks.pop())
    place.nothing_left(mark)


def _mark(place: Place) -> str:
    environment = Path(f"/proc/{place.pid('ready')}/environ").read_bytes().split(b"\0")
    return next(entry for entry in environment if entry.startswith(b"PENSTOCK_RUN=")).decode().partition("=")[2]


def test_an_iterator_that_is_not_read_starts_nothing(place: Place) -> None:
    """Nothing runs before the first chunk is asked for."""
    chunks = place.agent("well").send_streaming("hi")
    time.sleep(0.2)
    assert list(place.folder.iterdir()) == []
    assert [chunk.is_final for chunk in chunks][-1] is True


def test_fork_needs_a_session(place: Place) -> None:
    """What cannot be done is refused by the call, not by the first chunk."""
    with pytest.raises(UsageError, match="fork"):
        place.agent("well").send_streaming("hi", fork=True)


def test_a_failure_comes_after_the_final_chunk(place: Place) -> None:
    """All text is handed over before the error, which has everything that is known."""
    chunks: list[StreamChunk] = []
    with pytest.raises(AgentFailed) as caught:
        chunks.extend(place.agent("exits_1").send_streaming("hi"))
    assert [chunk.is_final for chunk in chunks].count(True) == 1
    assert "".join(chunk.text for chunk in chunks) == chunks[-1].reply == SAID
    error = caught.value
    assert (error.outcome, error.exit_status, error.stderr) == ("error", 1, "it is no good")
    assert (error.session_id, error.reply) == ("s1", SAID)


def test_the_last_stderr_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on stderr when the agent has ended is in the reason, also if nothing has announced it before."""
    select = selectors.DefaultSelector.select

    def without_stderr(
        self: selectors.DefaultSelector, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        ready = select(self, timeout)
        return [one for one in ready if getattr(one[0].data, "__func__", None) is not Supervisor._read_stderr]

    monkeypatch.setattr(selectors.DefaultSelector, "select", without_stderr)
    with pytest.raises(AgentFailed) as caught:
        list(place.agent("exits_1").send_streaming("hi"))
    assert caught.value.stderr == "it is no good"


def test_a_failure_whose_stderr_is_no_utf8(place: Place) -> None:
    """What cannot be read is replaced, and the rest is in the reason."""
    with pytest.raises(AgentFailed, match="caf\ufffd is \ufffd\ufffd no good"):
        list(place.agent("exits_with_odd_bytes").send_streaming("hi"))


def test_a_failure_shows_no_secret(place: Place) -> None:
    """A key and a value of the environment on stderr are in no reason, whole or cut; the exit status is explained."""
    key, value = "sk-ant-" + "a1B2c3D4e5" * 6, "correct horse battery"
    with pytest.raises(AgentFailed) as caught:
        list(place.agent("leaks", key, env={"ACME_TOKEN": value}).send_streaming("hi"))
    error = caught.value
    for shown in (str(error), str(error.reason), error.stderr):
        assert shown.endswith("fatal: secret [removed: a key of Anthropic] [removed: the value of ACME_TOKEN]")
        assert not any(secret[at : at + 8] in shown for secret in (key, value) for at in range(len(secret) - 7))
    assert str(error.reason).startswith(f"exit status 137 ({KILLED}): ")


def test_a_block_that_is_left_early(place: Place, short: Limits) -> None:
    """Leaving the block cancels the run, and its result is there."""
    with place.agent("deaf", limits=short).run("hi") as run:
        next(event for event in run if isinstance(event, Delta))
    assert run.result.outcome == "cancelled"
    place.nothing_left(run.mark)


# --- threads ---


def test_cancelled_from_another_thread(place: Place) -> None:
    """`cancel` may come from any thread, any number of times, also when all is over."""
    with place.agent("never_answers").run("hi") as run:
        place.pid("ready")
        threads = [threading.Thread(target=run.cancel) for _ in range(8)]
        for thread in threads:
            thread.start()
        events = list(run)
        for thread in threads:
            thread.join()
        run.cancel()
    assert place.whole(run, events).outcome == "cancelled"


def test_the_thread_that_starts_it_may_end(place: Place) -> None:
    """An agent lives on when the thread that started it has ended."""
    run = place.agent("works", "turn").run("hi")
    thread = threading.Thread(target=run.start)
    thread.start()
    thread.join()
    place.pid("ready")
    place.make("go")
    events = list(run)
    run.close()
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("ok", "it is built")


@pytest.mark.slow
def test_many_at_once_in_threads(place: Place) -> None:
    """50 runs at once, each read by a thread of its own, get their own answers."""
    gate = threading.Barrier(AT_ONCE)

    def one(number: int) -> tuple[Result, str]:
        run = place.agent("echoes").run(f"prompt {number} " * 1000)
        gate.wait(60)
        with run:
            return run.wait(), run.mark

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(one, range(AT_ONCE)))
    assert [ended.reply for ended, _ in results] == [f"prompt {number} " * 1000 for number in range(AT_ONCE)]
    assert not any(marked(mark) for _, mark in results)


def test_interrupted_while_it_starts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an agent is being started leaves nothing of it."""
    from penstock.run import supervisor
    from penstock.run.process import Process

    def slow(*args: Any, **named: Any) -> Any:
        _thread.interrupt_main()
        time.sleep(0.2)
        return Process(*args, **named)

    monkeypatch.setattr(supervisor, "Process", slow)
    run = place.agent("deaf").run("hi")
    with pytest.raises(KeyboardInterrupt):
        run.start()
    assert run._supervisor is not None
    assert not run._supervisor._thread.is_alive()
    place.nothing_left(run.mark)


def test_no_thread_can_be_started(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has no thread is an error, and nobody waits for it."""
    from penstock.errors import TransportError

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = sorted(os.listdir("/proc/self/fd"))
    run = place.agent("well").run("hi")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(TransportError, match="can't start new thread"):
            run.start()
    assert run.poll() == []
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_bug_is_not_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of our own ends the run and is raised to who reads it; nothing is left."""
    monkeypatch.setattr(Supervisor, "_read_stdout", lambda self: 1 / 0)
    run = place.agent("deaf").run("hi").start()
    with pytest.raises(ZeroDivisionError):
        list(run)
    run.stop()
    place.nothing_left(run.mark)


@pytest.mark.parametrize("agent", ["well", "deaf"])
def test_the_first_error_of_a_run_is_raised(place: Place, monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
    """An error at the end of a process is raised, if no earlier one has ended the run."""
    ends = Process.end

    def end(self: Process) -> None:
        ends(self)
        raise OSError("no end")

    monkeypatch.setattr(Process, "end", end)
    if agent == "deaf":
        monkeypatch.setattr(Supervisor, "_read_stdout", lambda self: 1 / 0)
    run = place.agent(agent).run("hi").start()
    with pytest.raises(OSError if agent == "well" else ZeroDivisionError):
        list(run)
    place.nothing_left(run.mark)


def test_a_fork_of_the_program_has_no_part_in_the_run(place: Place) -> None:
    """A fork of the program neither waits for a run that it has no thread for, nor disturbs it."""
    code = (
        "import os, sys; from penstock import agent\n"
        "chunks = agent('faulty', command=sys.argv[1:], adapter='claude').send_streaming('hi')\n"
        "said = next(chunks).text\n"
        "if os.fork() == 0:\n"
        "    try: chunks.close()\n"
        "    finally: os._exit(0)\n"
        "os.wait()\n"
        "print(said + next(chunks).reply)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *place.command("well")],
        env={**os.environ, "NOTES": str(place.folder)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, SAID * 2)


# --- event loops ---


def test_in_an_event_loop(place: Place) -> None:
    """Events come while the loop does other work."""

    async def main() -> tuple[Any, list[Event]]:
        async with place.agent("works", "turn").run("hi") as run:
            events = []
            async for event in run:
                events.append(event)
                if isinstance(event, Replied):
                    asyncio.get_running_loop().call_later(0.05, place.make, "go")
        return run, events

    run, events = asyncio.run(main())
    assert place.whole(run, events).reply == "it is built"


def test_a_task_that_is_cancelled(place: Place, short: Limits) -> None:
    """A task that is cancelled inside the block takes its agent with it before it ends, also when cancelled twice."""

    async def main() -> str:
        run = place.agent("behind_while_it_works", limits=short).run("hi")

        async def work() -> None:
            async with run:
                async for _ in run:
                    pass

        task = asyncio.create_task(work())
        await asyncio.to_thread(place.pid, "ready")
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        place.nothing_left(run.mark)
        return str(run.result.outcome)

    assert asyncio.run(main()) == "cancelled"


def test_a_task_that_is_cancelled_while_it_starts(place: Place, short: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while it enters the block leaves no agent behind."""

    def slow(self: Supervisor) -> None:
        starting.set()
        time.sleep(0.2)
        real(self)

    real, starting = Supervisor.start, threading.Event()
    monkeypatch.setattr(Supervisor, "start", slow)
    run = place.agent("deaf", limits=short).run("hi")

    async def main() -> None:
        task = asyncio.create_task(run.__aenter__())
        await asyncio.to_thread(starting.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    try:
        asyncio.run(main())
        place.nothing_left(run.mark)
    finally:
        run.stop()


def test_a_loop_that_is_left(place: Place, short: Limits) -> None:
    """`break` out of the events, and then out of the block, ends the agent."""

    async def main() -> Any:
        async with place.agent("deaf", limits=short).run("hi") as run:
            async for event in run:
                if isinstance(event, Delta):
                    break
        return run

    run = asyncio.run(main())
    assert run.result.outcome == "cancelled"
    place.nothing_left(run.mark)


@pytest.mark.slow
def test_many_at_once_in_an_event_loop(place: Place) -> None:
    """Many runs at once in one loop get their own answers."""

    async def one(number: int) -> str:
        async with place.agent("echoes").run(f"prompt {number}") as run:
            return str((await run.await_end()).reply)

    async def main() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(AT_ONCE_IN_A_LOOP)))

    assert asyncio.run(main()) == [f"prompt {number}" for number in range(AT_ONCE_IN_A_LOOP)]


@pytest.mark.slow
def test_several_event_loops(place: Place) -> None:
    """Loops in several threads, and plain calls inside a running loop, do not disturb each other."""

    async def main() -> list[str]:
        async with place.agent("well").run("hi") as run:
            replies = [str((await run.await_end()).reply)]
        with place.agent("well").run("hi") as run:
            replies.append(run.wait().reply)
        replies.append(list(place.agent("well").send_streaming("hi"))[-1].reply or "")
        return replies

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: asyncio.run(main()), range(4)))
    assert results == [[SAID] * 3] * 4


# --- readers that stand still ---


def test_nothing_is_lost_while_nobody_reads(place: Place) -> None:
    """A stream of a megabyte that nobody reads for a while is read on, and all there, when the agent is long gone."""
    with place.agent("deltas", 8_000).run("hi") as run:
        until(lambda: run.exit_status is not None)
        events = list(run)
    whole = "".join(f"{number} " for number in range(8_000))
    assert place.whole(run, events).reply == whole
    assert "".join(event.text for event in events if isinstance(event, Delta)) == whole


def test_what_waits_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit of what may wait no more is taken in, no idle limit runs, and all is there in the end."""
    limit = 100_000
    monkeypatch.setattr("penstock.run.supervisor.EventQueue", functools.partial(EventQueue, limit))
    with place.agent("deltas", 8_000, idle_timeout=60).run("hi") as run:
        supervisor = place.supervisor(run)
        until(lambda: supervisor.events.full and supervisor._lifecycle.deadline is None)
        assert supervisor.events._bytes < limit + 64 * 1024 + 1
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("ok", "".join(f"{number} " for number in range(8_000)))


def test_the_reader_and_the_agent_take_turns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However reader and agent take turns at a box that is always full or empty, neither waits for ever."""
    monkeypatch.setattr("penstock.run.supervisor.EventQueue", functools.partial(EventQueue, 1))
    monkeypatch.setattr("penstock.run.supervisor.READ_BYTES", 512)
    with place.agent("deltas", 3_000).run("hi") as run:
        events = list(run)
    assert place.whole(run, events).reply == "".join(f"{number} " for number in range(3_000))


def test_the_rest_of_an_agent_that_is_gone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left in the pipe of an agent that is gone waits for the reader, and the run ends when it is read."""
    monkeypatch.setattr("penstock.run.supervisor.EventQueue", functools.partial(EventQueue, 1))
    monkeypatch.setattr("penstock.run.supervisor.READ_BYTES", 512)
    answer = b'{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"s1"}'
    output = place.folder / "output"
    output.write_bytes(answer.ljust(512, b"\n") + b"\n" * 1000)  # the rest brings no event, so nobody wakes the thread
    stays = place.folder / "stays"
    stays.touch()
    script = f"cat {output}; while [ -e {stays} ]; do sleep 0.01; done"
    with place.agent("", command=["/bin/sh", "-c", script]).run("hi") as run:
        lifecycle = place.supervisor(run)._lifecycle
        until(lambda: Fact.READING not in lifecycle._facts)
        stays.unlink()
        until(lambda: lifecycle.state is State.UNREAD)
        events = list(run)
    assert place.whole(run, events).reply == "hi"
    assert run.health.bytes == 1512


def test_a_held_run_can_be_stopped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose events nobody takes ends when it is told to."""
    monkeypatch.setattr("penstock.run.supervisor.EventQueue", functools.partial(EventQueue, 1))
    run = place.agent("deltas", 8_000).run("hi").start()
    until(lambda: place.supervisor(run).events.full)
    run.stop()
    place.nothing_left(run.mark)


# --- leaks ---


def _children() -> int:
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found += len((task / "children").read_text().split())
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="they are counted in /proc")
def test_nothing_leaks(place: Place) -> None:
    """Many runs, of all kinds of ends, leave no descriptor, no thread and no child."""
    lines = '{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"s1"}'
    well = place.agent("well", command=["/bin/sh", "-c", f"echo '{lines}'"])
    endless = place.agent("well", command=["/bin/sh", "-c", f"echo '{lines}'; exec sleep 1000"])
    missing = place.agent("well", command=[str(place.folder / "program")])
    (place.folder / "program").write_text("no program", "utf-8")
    (place.folder / "program").chmod(0o755)

    def one(number: int) -> str:
        if number % 10 == 0:
            with pytest.raises(UsageError):
                missing.run("hi").start()
            return "refused"
        if number % 5 == 0:
            with endless.run("hi") as run:
                next(event for event in run if isinstance(event, Replied))
                run.kill()
            return run.result.outcome
        with well.run("hi") as run:
            return run.wait().outcome

    def counts() -> tuple[int, int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count(), _children()

    before = counts()
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(one, range(RUNS)))
    assert set(outcomes) == {"ok", "refused"}
    assert counts() == before


def test_a_run_that_is_dropped(place: Place) -> None:
    """A run that nobody holds any more does not go on."""
    run = place.agent("deaf").run("hi").start()
    mark = run.mark
    assert marked(mark)
    del run
    until(lambda: not marked(mark))


def test_limits_count_where_no_option_is_given(place: Place, short: Limits) -> None:
    """Time limits may be said as limits too; an option is over them."""
    limits = msgspec.structs.replace(short, timeout=0.3)
    with place.agent("deaf", limits=limits).run("hi") as run:
        events = list(run)
    assert place.whole(run, events).outcome == "timed_out"
    with place.agent("echoes", limits=msgspec.structs.replace(limits, timeout=0.001), timeout=60).run("hi") as run:
        events = list(run)
    assert place.whole(run, events).outcome == "ok"


@pytest.mark.slow
def test_penstock_is_stopped_as_a_whole(place: Place, tmp_path: Path) -> None:
    """Nothing is lost while Penstock itself stands still, though the agent exits meanwhile without a look back."""
    file = tmp_path / "program.py"
    file.write_text(
        "import os, signal, sys\n"
        "from penstock import agent\n"
        "with agent('faulty', command=sys.argv[1:], adapter='claude').run('hi') as run:\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    for event in run: pass\n"
        "print(run.result.outcome, len(run.result.reply), run.health.parse_errors)\n"
    )
    command = [sys.executable, str(file), *place.command("hasty", 40_000)]
    env = {**os.environ, "NOTES": str(place.folder)}
    penstock = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    status = Path(f"/proc/{place.pid('pid')}/status")

    def agent_has_exited() -> bool:
        try:
            return "(zombie)" in status.read_text()
        except OSError:  # it was waited for
            return True

    until(agent_has_exited)
    penstock.send_signal(signal.SIGCONT)
    out, _ = penstock.communicate(timeout=60)
    assert out == f"ok {sum(len(str(number)) + 1 for number in range(40_000))} 0\n"


def test_a_file_that_the_agent_did_not_write_is_in_the_report(place: Place, tmp_path: Path) -> None:
    """The report of the run names it, and not the one that is there; it is no warning."""
    (tmp_path / "there.txt").touch()
    with place.agent("writes", "there.txt,gone.txt").run("hi", cwd=str(tmp_path)) as run:
        run.wait()
    assert run.result.outcome == "ok"
    said = "the agent reported a change of a file, and there is no such file: gone.txt"
    assert run.health.checks == [said]
    assert run.health.warnings == []
    assert said in run.health.summary("faulty")
