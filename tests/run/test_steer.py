"""Messages for an agent that works, for programs: each has one result, whatever becomes of the run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from penstock.adapter import not_taken
from penstock.config import settings
from penstock.errors import UsageError
from penstock.events import Notice, RunEnded, ToolCalled, ToolReturned
from penstock.run.agent import Agent
from penstock.run.run import Run
from penstock.run.stdin import StdinWriter
from penstock.testing.verify import verify

SUPPORT = Path(__file__).parents[1] / "support"
CLAUDE = Path(__file__).parents[1] / "recordings" / "claude" / "text" / "input.ndjson"


def run_of(folder: Path, *flags: str, agent: str = "codex") -> Run:
    """A run of the peer in the place of codex or claude; `written` waits for the gate, then prints what claude did."""
    options = [f"--did={folder}/did", f"--gate={folder}/gate", *flags]
    tables = ""
    for name in ("codex", "claude"):
        peer = [sys.executable, "-S", str(SUPPORT / f"{name}_peer.py"), *options]
        tables += f"[agents.{name}]\ncommand = {json.dumps(peer)}\n"
    waiting = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.02; done; cat "$1"', f"{folder}/gate", str(CLAUDE)]
    tables += f'[agents.written]\ncommand = {json.dumps(waiting)}\nadapter = "claude"\n'
    (folder / "config.toml").write_text(tables)
    config = settings.load({"PENSTOCK_CONFIG": str(folder / "config.toml"), "PENSTOCK_SANDBOX": "off"})
    return Agent(agent, {}, config).run("first", cwd=folder, ask=True)


def test_what_is_no_message_is_rejected(tmp_path: Path) -> None:
    """Nor can a run take one that was not started."""
    run = run_of(tmp_path)
    assert run.can_steer
    for text in ("", " \n", "a\0b", 7):
        with pytest.raises(UsageError):
            run.steer(text)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="was not started"):
        run.steer("left")


def test_an_agent_that_takes_no_messages() -> None:
    """The message ends at once, with the reason."""
    writer = StdinWriter(b"", None, allow="own", ask=True, record=lambda data: None)
    assert writer.steer("s", "left") == (not_taken("s", "the agent takes no messages while it works"),)


@pytest.mark.slow
def test_each_message_has_one_result(tmp_path: Path) -> None:
    """One that the agent takes is noticed with its text; its own id may be chosen; after the end nothing happens."""
    events = []
    with run_of(tmp_path) as run:
        ids = [run.steer("early"), run.steer("left", id="mine")]
        for event in run:
            events.append(event)
            if isinstance(event, Notice) and event.steer == "mine":
                (tmp_path / "gate").touch()
            elif isinstance(event, RunEnded):
                run.steer("after the end")
    assert ids[1] == "mine"
    notices = [(it.code, it.text, it.steer) for it in events if isinstance(it, Notice)]
    assert notices == [("user", "early", ids[0]), ("user", "left", "mine")]
    assert run.result.outcome == "ok"
    assert verify(events) == []


@pytest.mark.slow
def test_a_message_for_a_run_that_ends(tmp_path: Path) -> None:
    """A message that the agent has accepted and not read is reported as not taken; a cancelled run takes none."""
    for flags, how in ((["--ears=/nowhere"], "gate"), ([], "cancel")):
        events = []
        (tmp_path / "gate").unlink(missing_ok=True)
        with run_of(tmp_path, *flags) as run:
            if how == "cancel":
                run.cancel()
            run.steer("left", id="s")
            for event in run:
                events.append(event)
                (tmp_path / "gate").touch()
        found = [it.code for it in events if isinstance(it, Notice) and it.steer == "s"]
        assert found == ["error"] or (how == "cancel" and not found)
        assert verify(events) == []


@pytest.mark.slow
def test_a_route_without_messages(tmp_path: Path) -> None:
    """The run says so, and the message changes nothing."""
    with run_of(tmp_path, agent="written") as run:
        assert not run.can_steer
        run.steer("left", id="s")
        events = []
        for event in run:
            events.append(event)
            if isinstance(event, Notice) and event.steer == "s":
                (tmp_path / "gate").touch()
    assert [it.code for it in events if isinstance(it, Notice) and it.steer == "s"] == ["error"]
    assert run.result.outcome == "ok"


LATE = 3
"""Seconds before the first word of a turn: more than the time that an agent has to exit after its answer."""


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--mute"], [f"--late={LATE}", "--ears=/nowhere"]])
def test_a_message_that_claude_code_can_no_longer_drop_is_answered_once(tmp_path: Path, flags: list[str]) -> None:
    """One that it has read without a report, and one that begins another turn, however late the model says a word."""
    events = []
    with run_of(tmp_path, *flags, agent="claude") as run:
        for event in run:
            events.append(event)
            if isinstance(event, ToolCalled) and not any(isinstance(it, ToolCalled) for it in events[:-1]):
                run.steer("left", id="s")
                (tmp_path / "gate").touch() if "--mute" not in flags else None
            elif isinstance(event, ToolReturned):
                (tmp_path / "gate").touch()
    assert [(it.code, it.text) for it in events if isinstance(it, Notice) and it.steer == "s"] == [("user", "left")]
    assert json.loads((tmp_path / "did").read_text().splitlines()[-1]) == {"steer": "left"}
    assert run.result.outcome == "ok"
    assert verify(events) == []
