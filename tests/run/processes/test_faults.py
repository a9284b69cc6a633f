"""The fault table: what agents do that misbehave, and what becomes of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from waiting import until

from penstock.errors import AgentNotFound, UsageError
from penstock.events import Notice, Replied
from penstock.run.agent import agent
from penstock.run.lifecycle import Limits

if TYPE_CHECKING:
    from run.processes.conftest import Place

SAID = "hello, all of it is here"

# mode, its argument, whether it uses up its grace periods, outcome, text in the reason, exit status, reply
TABLE: list[tuple[str, object, bool, str, str | None, int | None, str]] = [
    ("deaf_after_result", "", True, "ok", None, -signal.SIGKILL, SAID),
    ("pipe_and_session_behind", "", True, "ok", None, 0, SAID),
    ("floods_and_fails", 10 * 1024 * 1024, False, "error", "the last line of stderr", 3, SAID),
    ("half_a_line", "", False, "cut_off", "killed by signal 9", -signal.SIGKILL, SAID),
    ("closes_stdout", "", True, "cut_off", "it closed its output and stayed", -signal.SIGINT, SAID),
    ("closes_stdin", "", False, "ok", None, 0, SAID),
    ("forks", 100, True, "ok", None, 0, SAID),
    ("works_and_closes", "", True, "ok", None, -signal.SIGINT, SAID),
]
"""Faults that need a real process. All others, with their times, are in `tests/run/test_lifecycle.py`."""


@pytest.mark.sample(6)
@pytest.mark.parametrize(("mode", "value", "slow", "outcome", "reason", "status", "reply"), TABLE)
def test_fault(
    place: Place,
    short: Limits,
    mode: str,
    value: object,
    slow: bool,
    outcome: str,
    reason: str | None,
    status: int,
    reply: str,
) -> None:
    """Each fault has its outcome and reason, all text is there, and nothing is left."""
    if status == -signal.SIGINT:
        short = msgspec.structs.replace(short, step=60)  # or a slow machine sends SIGTERM before SIGINT has worked
    options = {"limits": short} if slow else {}
    with place.agent(mode, value, **options).run("hi") as run:
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply, run.exit_status) == (outcome, reply, status)
    assert (ended.reason is None) == (reason is None)
    assert reason is None or reason in str(ended.reason)


def test_cancelled_with_a_deaf_process_left(place: Place, short: Limits) -> None:
    """What a cancelled agent started in a session of its own, and ignores SIGINT and SIGTERM, is killed."""
    with place.agent("behind_while_it_works", limits=short).run("hi") as run:
        place.pid("ready")
        run.cancel()
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("cancelled", SAID)


def test_killed_by_us(place: Place) -> None:
    """`kill` asks nobody and waits for nothing."""
    with place.agent("deaf").run("hi") as run:
        place.pid("ready")
        run.kill()
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply, run.exit_status) == ("cancelled", SAID, -signal.SIGKILL)


@pytest.mark.parametrize(
    ("mode", "limit", "why"),
    [
        ("deaf", "timeout", "the time limit of 1 s was reached"),
        ("never_answers", "idle_timeout", "no output for 1 s"),
    ],
)
def test_time_limits(place: Place, short: Limits, mode: str, limit: str, why: str) -> None:
    """An agent that takes too long, or is silent too long, is stopped, and what it said stays."""
    with place.agent(mode, limits=short, **{limit: 1}).run("hi") as run:
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("timed_out", SAID)
    assert str(ended.reason).startswith(why)


def test_background_work_is_waited_for(place: Place) -> None:
    """An agent that has no time to exit after its answer still has all that its background work takes."""
    limits = msgspec.structs.replace(place.patient, reply_grace=0)
    with place.agent("works", "turn", limits=limits).run("hi") as run:
        events = []
        for event in run:
            events.append(event)
            if isinstance(event, Replied):
                place.make("go")
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("ok", "it is built")


@pytest.mark.parametrize("output", ["stdout", "stderr"])
def test_output_is_a_sign_of_life(place: Place, output: str) -> None:
    """The idle limit counts anew from each output, on stdout and on stderr."""
    wait = 'while [ ! -e "$NOTES/go" ]; do sleep 0.01; done'
    command = ["/bin/sh", "-c", f"{wait}; echo hello >/dev/{output}; exec sleep 1000"]
    with place.agent("", command=command, idle_timeout=60).run("hi") as run:
        lifecycle = place.supervisor(run)._lifecycle
        began = lifecycle.deadline
        assert began is not None
        place.make("go")
        until(lambda: lifecycle.deadline is not None and lifecycle.deadline > began)


@pytest.mark.parametrize("prompt", ["- a\n'\"$HOME", "x" * 1024 * 1024, "é \udcff"], ids=["odd", "1 MB", "no UTF-8"])
def test_prompts_arrive(place: Place, prompt: str) -> None:
    """A prompt arrives whole through stdin, which is closed behind it."""
    with place.agent("echoes", env={"PYTHONIOENCODING": "utf-8:surrogateescape"}).run(prompt) as run:
        events = list(run)
    assert place.whole(run, events).reply == prompt.replace("\udcff", "\ufffd")


def test_a_prompt_that_nobody_reads(place: Place, short: Limits) -> None:
    """An agent that answers without reading a prompt of 1 MB does not hold the run."""
    with place.agent("never_reads", limits=short).run("x" * 1024 * 1024) as run:
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("ok", SAID)


@pytest.fixture
def refused(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Configure a program under the name `faulty`; the error that it makes."""

    def start(program: Path) -> AgentNotFound:
        config = tmp_path / "penstock.toml"
        config.write_text(f'[agents.faulty]\ncommand = ["{program}"]\nadapter = "claude"\n', "utf-8")
        monkeypatch.setenv("PENSTOCK_CONFIG", str(config))
        with pytest.raises(AgentNotFound) as caught, agent("faulty").run("hi"):
            pass
        return caught.value

    return start


def test_not_installed(refused: Any, tmp_path: Path) -> None:
    """A program that is not there is named."""
    assert "is not installed" in str(refused(tmp_path / "no-such-program"))


def test_not_executable(refused: Any, tmp_path: Path) -> None:
    """A file that is not executable is told from one that is not there."""
    (tmp_path / "program").write_text("#!/bin/sh\n", "utf-8")
    assert "is not executable" in str(refused(tmp_path / "program"))


@pytest.mark.parametrize(
    ("text", "why"), [("exit 0\n", "Exec format error"), ("#!/no/such/shell\n", "No such file"), ("", "Exec format")]
)
def test_no_program(refused: Any, tmp_path: Path, text: str, why: str) -> None:
    """A file that the system cannot execute is refused with the system's reason."""
    program = tmp_path / "program"
    program.write_text(text, "utf-8")
    program.chmod(0o755)
    assert why in str(refused(program))


def test_a_value_that_no_environment_holds(place: Place) -> None:
    """A NUL in the environment is the caller's error, and nothing is started."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError, match="environment"), place.agent("well", env={"A": "x\0y"}).run("hi"):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that cannot be written ends the record, is told once, and leaves the run as it is."""
    import penstock.run.recording as recording

    monkeypatch.setattr(recording._Log, "write", _full)
    with place.agent("well", record=tmp_path / "records").run("hi") as run:
        events = list(run)
    ended = place.whole(run, events)
    assert (ended.outcome, ended.reply) == ("ok", SAID)
    said = [event.text for event in events if isinstance(event, Notice) and "No space left" in event.text]
    assert len(said) == 1


def _full(log: Any, data: bytes) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(data)
