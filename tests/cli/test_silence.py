"""Reports of `penstock run` that nothing has come from an agent."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import run, silence
from penstock.cli.silence import Silence, is_ci

SILENCE = re.compile(r"\[slow\] · still (starting|working), 0 s")
"""Report of a silence; a slow machine has it before the agent has printed its first line."""


def test_reports_come_after_10_s_and_30_s_and_then_each_minute() -> None:
    """Each is due once, and anything that comes begins anew."""
    quiet = Silence(100.0)
    due = [(now, seconds) for now in range(100, 300) if (seconds := quiet.due(float(now))) is not None]
    assert due == [(110, 10), (130, 30), (160, 60), (220, 120), (280, 180)]
    quiet.end(300.0)
    assert quiet.due(309.9) is None
    assert quiet.left(309.0) == 1.0
    assert quiet.due(310.0) == 10


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TF_BUILD", "True"), ("JENKINS_URL", "http://ci/")])
def test_ci_services_are_known(name: str, value: str) -> None:
    """By the variables that they set; an empty or negative one does not count."""
    assert is_ci({name: value})
    assert not is_ci({name: "", "CI": "false"})


class Pauses:
    """Runs of an agent that prints some lines, waits until a silence was reported, and ends."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._reported = threading.Event()
        patch.setenv("PENSTOCK_CONFIG", str(folder / "penstock.toml"))
        patch.setenv("PENSTOCK_DATA", str(folder / "data"))
        patch.delenv("CI", raising=False)
        patch.setattr(silence, "FIRST_SECONDS", (0.01,))
        due = Silence.due

        def noted(quiet: Silence, now: float) -> int | None:
            seconds = due(quiet, now)
            if seconds is not None:
                self._reported.set()
            return seconds

        patch.setattr(Silence, "due", noted)

    def open(self) -> None:
        """Let the agent end without a report."""
        self._reported.set()

    def run(self, *first: dict[str, Any], words: Sequence[str] = (), before_end: Sequence[dict[str, Any]] = ()) -> int:
        """Run the agent, whose output begins with `first`, and return the exit status."""
        gate = self._folder / "gate"
        os.mkfifo(gate)
        end = {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s"}
        said, last = (
            "".join(f"echo '{json.dumps(line)}'\n" for line in lines) for lines in (first, [*before_end, end])
        )
        script = self._folder / "agent.sh"
        script.write_text(f"{said}read line < {gate}\n{last}")
        config = f'[agents.slow]\ncommand = ["sh", "{script}"]\nadapter = "claude"\n[output]\nmode = "none"\n'
        (self._folder / "penstock.toml").write_text(config)

        def open_gate() -> None:
            self._reported.wait(20)
            gate.write_text("go\n")

        opener = threading.Thread(target=open_gate)
        opener.start()
        status = run.command(["slow", "go", "--stdin", "never", *words])
        opener.join()
        return status


@pytest.fixture
def pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Runs with a pause."""
    return Pauses(tmp_path, monkeypatch)


def whole(*content: dict[str, Any]) -> dict[str, Any]:
    """A whole message."""
    return {"type": "assistant", "message": {"id": "m", "content": list(content)}, "session_id": "s"}


CALL = whole({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}})


def test_a_silent_agent_is_reported(pauses: Pauses, capfd: pytest.CaptureFixture[str]) -> None:
    """An agent that prints nothing is reported while it works, with the command that it runs; its output follows."""
    assert pauses.run(CALL) == 0
    lines = capfd.readouterr().out.splitlines()
    working = next(line for line in lines if SILENCE.match(line))
    assert lines.index("[slow] Done.") > lines.index(working)


def test_text_that_waits_for_its_end_is_silence_in_a_log(pauses: Pauses, capfd: pytest.CaptureFixture[str]) -> None:
    """A log gets a text when it is complete: what is reported before it does not break it."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    pieces = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in ("One ", "sentence.")
    ]
    first, second = ({"type": "stream_event", "event": piece} for piece in pieces)
    begun = [{"type": "stream_event", "event": event} for event in ({"type": "message_start"}, start)]
    assert pauses.run(*begun, first, before_end=[second, whole({"type": "text", "text": "One sentence."})]) == 0
    lines = capfd.readouterr().out.splitlines()
    working = next(line for line in lines if SILENCE.match(line))
    assert lines.index("[slow] One sentence.") > lines.index(working)


@pytest.mark.parametrize("words", [["--to", "reply"], ["--to", "ndjson"], ["--detail", "quiet"]])
def test_a_quiet_output_is_no_silent_job(
    pauses: Pauses, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """In CI, an output that shows nothing for a minute has a line beside it, on stderr."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(silence, "EVERY_SECONDS", 0.01)
    assert pauses.run(CALL, words=words) == 0
    captured = capfd.readouterr()
    assert captured.err.startswith("penstock: slow: still working, 0 s\n")
    assert "still" not in captured.out


def test_a_quiet_output_stays_quiet_elsewhere(pauses: Pauses, capfd: pytest.CaptureFixture[str]) -> None:
    """Outside of CI, nobody waits for a line on stderr."""
    quiet = Silence(0.0, is_early=False)
    assert (quiet.due(59.0), quiet.due(60.0), quiet.due(120.0)) == (None, 60, 120)
    pauses.open()
    assert pauses.run(CALL, words=["--to", "reply"]) == 0
    assert capfd.readouterr().err == ""
