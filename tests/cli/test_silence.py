"""Reports of `penstock run` that nothing has come from an agent."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.cli import run, silence
from penstock.cli.silence import Silence


def test_reports_come_after_10_s_and_30_s_and_then_each_minute() -> None:
    """Each is due once, and anything that comes begins anew."""
    quiet = Silence(100.0)
    due = [(now, seconds) for now in range(100, 300) if (seconds := quiet.due(float(now))) is not None]
    assert due == [(110, 10), (130, 30), (160, 60), (220, 120), (280, 180)]
    quiet.end(300.0)
    assert quiet.due(309.9) is None
    assert quiet.left(309.0) == 1.0
    assert quiet.due(310.0) == 10


def test_a_silent_agent_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An agent that prints nothing is reported while it works, with the command that it runs; its output follows."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    call = (
        '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash",'
        '"input":{"command":"make"}}]},"session_id":"s","uuid":"u","parent_tool_use_id":null}'
    )
    end = '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s","uuid":"v"}'
    script = tmp_path / "agent.sh"
    script.write_text(f"echo '{call}'\nread line < {gate}\necho '{end}'\n")
    config = tmp_path / "penstock.toml"
    config.write_text(f'[agents.slow]\ncommand = ["sh", "{script}"]\nadapter = "claude"\n[output]\nmode = "none"\n')
    monkeypatch.setenv("PENSTOCK_CONFIG", str(config))
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(silence, "FIRST_SECONDS", (0.01,))
    reported = threading.Event()
    due = Silence.due

    def noted(self: Silence, now: float) -> int | None:
        seconds = due(self, now)
        if seconds is not None:
            reported.set()
        return seconds

    monkeypatch.setattr(Silence, "due", noted)

    def open_gate() -> None:
        reported.wait(20)
        gate.write_text("go\n")

    opener = threading.Thread(target=open_gate)
    opener.start()
    assert run.command(["slow", "go", "--stdin", "never"]) == 0
    opener.join()
    lines = capfd.readouterr().out.splitlines()
    working = next(line for line in lines if "still working" in line)
    assert working.startswith("[slow] · still working, 0 s")
    assert lines.index("[slow] Done.") > lines.index(working)
