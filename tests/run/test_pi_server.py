"""Runs of a scripted pi in its two-way mode: messages while it works, its end, and programs that do not behave."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from penstock.config import settings
from penstock.events import Event, Notice, ToolCalled
from penstock.run.agent import Agent
from penstock.run.process import marked
from penstock.run.run import Run
from penstock.run.spec import Options
from penstock.testing.verify import verify

PEER = Path(__file__).parents[1] / "support" / "pi_peer.py"

pytestmark = pytest.mark.slow


def run_of(folder: Path, *flags: str, timeout: float | None = None) -> Run:
    """A run of the peer in the place of pi."""
    command = json.dumps([sys.executable, "-S", str(PEER), f"--gate={folder}/gate", *flags])
    (folder / "config.toml").write_text(f"[agents.pi]\ncommand = {command}\n")
    config = settings.load({"PENSTOCK_CONFIG": str(folder / "config.toml"), "PENSTOCK_SANDBOX": "off"})
    options: Options = {"route": "server"} if timeout is None else {"route": "server", "timeout": timeout}
    return Agent("pi", options, config).run("first", cwd=folder)


def test_messages_are_taken_in_their_order(tmp_path: Path) -> None:
    """Each has one notice before the answer to it, and the reply is the answer to the last."""
    with run_of(tmp_path, "--answers=2") as run:
        for text in ("left", "right"):
            run.steer(text, id=text)
        events = list(run)
    assert verify(events) == []
    notices = [(it.code, it.text, it.steer) for it in events if isinstance(it, Notice)]
    assert notices == [("user", "left", "left"), ("user", "right", "right")]
    result = run.result
    assert (result.outcome, result.reply, result.session_id) == ("ok", "You said: right", "s1")
    assert not marked(run.mark)


@pytest.mark.parametrize("flags", [["--unended"], ["--deaf"]])
def test_a_run_ends_with_pi(tmp_path: Path, flags: list[str]) -> None:
    """Also if its last line has no end, or if it does not follow the end of its input; nothing of it is left."""
    (tmp_path / "gate").touch()
    with run_of(tmp_path, *flags) as run:
        events = list(run)
    assert verify(events) == []
    assert (run.result.outcome, run.result.reply) == ("ok", "Working.")
    assert not marked(run.mark)


def test_a_cancelled_run(tmp_path: Path) -> None:
    """It is aborted by the protocol; a message that comes too late is not taken."""
    events: list[Event] = []
    with run_of(tmp_path) as run:
        for event in run:
            events.append(event)
            if isinstance(event, ToolCalled):
                run.cancel()
                run.steer("left", id="s")
    assert run.result.outcome == "cancelled"
    assert {it.code for it in events if isinstance(it, Notice) and it.steer} == {"error"}
    assert verify(events) == []
    assert not marked(run.mark)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_pi_that_never_answers(tmp_path: Path, how: str) -> None:
    """The run ends when it is cancelled, or at its limit of time."""
    with run_of(tmp_path, "--mute", timeout=1.0 if how == "timeout" else None) as run:
        if how == "cancel":
            run.cancel()
        assert list(run)
    assert run.result.outcome == ("cancelled" if how == "cancel" else "timed_out")
    assert not marked(run.mark)
