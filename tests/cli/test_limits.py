"""`--max-cost`, `--max-turns`, `--max-tokens`: a run over its limit ends with status 5, and says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

sys.stdin.read()
for turn in range(3):
    call = {"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": "ls"}}
    usage = {"input_tokens": 1000, "output_tokens": 1}
    say(type="assistant", message={"id": f"m{turn}", "content": [call], "usage": usage})
    say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": "x"}]})
time.sleep(1000)
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with one agent, which works in three turns and then stays."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    command = json.dumps([sys.executable, str(tmp_path / "agent.py")])
    (tmp_path / "config.toml").write_text(f'[agents.spender]\nadapter = "claude"\ncommand = {command}\n', "utf-8")
    own = {"PENSTOCK_CONFIG": str(tmp_path / "config.toml"), "PENSTOCK_DATA": str(tmp_path / "data")}
    return {**os.environ, **own}


def penstock(env: dict[str, str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=env, timeout=TIMEOUT)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--max-turns", "2"], "■ stopped: the run came to turn 3, the limit is 2 ·"),
        (["--max-tokens", "1500"], "■ stopped: the run used 2,000 tokens, the limit is 1,500 ·"),
    ],
)
@pytest.mark.slow
def test_a_run_over_its_limit(env: dict[str, str], words: list[str], reason: str) -> None:
    """The closing line has the figure and the limit."""
    done = penstock(env, "run", "spender", "hi", "--stdin", "never", *words)
    assert done.returncode == 5
    assert reason in done.stdout


def test_a_limit_that_cannot_be_counted(env: dict[str, str]) -> None:
    """Nothing is started, and the message names what works."""
    done = penstock(env, "run", "spender", "hi", "--stdin", "never", "--max-cost", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "spender cannot be stopped at a cost" in done.stderr
    assert "use --timeout" in done.stderr


@pytest.mark.sample(4)
@pytest.mark.parametrize("word", ["0", "1.5", "-1", "many"])
def test_a_limit_is_a_whole_number(env: dict[str, str], word: str) -> None:
    """Turns and tokens are counted."""
    done = penstock(env, "run", "spender", "hi", f"--max-turns={word}")
    assert done.returncode == 2
    assert "expected a whole number, 1 or more" in done.stderr


def test_a_stream_that_ended_at_a_limit(env: dict[str, str]) -> None:
    """The stream of an agent that met a limit of its own has the same status."""
    line = {"type": "result", "subtype": "error_max_turns", "is_error": True, "session_id": "s1", "uuid": "u"}
    stream = json.dumps({**line, "total_cost_usd": 0.1, "errors": ["Reached maximum number of turns (3)"]}) + "\n"
    done = penstock(env, "read", "--agent", "claude", stdin=stream)
    assert done.returncode == 5
    assert "■ stopped: the run came to turn 4, the limit is 3" in done.stdout
