"""`penstock sessions` and `--continue`: earlier conversations are listed, and gone on with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from penstock.cli.sessions import when
from penstock.run.history import History, HistoryLine, now_ms

TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, os, sys

def say(**line):
    print(json.dumps(line), flush=True)

with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
prompt = sys.stdin.read()
resumed = [word.partition("=")[2] for word in sys.argv if word.startswith("--resume=")]
session = resumed[0] if resumed else "s-" + prompt.split()[0]
say(type="system", subtype="init", session_id=session, model="m1")
say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": "You said: " + prompt}]})
say(type="result", subtype="success", is_error=False, result="You said: " + prompt, session_id=session)
"""


class Desk:
    """A directory with a claude that is scripted, and a data directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        (folder / "agent.py").write_text(AGENT, "utf-8")
        self.config = folder / "config.toml"
        self.config.write_text(f'[agents.claude]\ncommand = ["{sys.executable}", "{folder / "agent.py"}"]\n', "utf-8")
        self.calls = folder / "calls"
        self.data = folder / "data"
        self.env = {
            **os.environ,
            "PENSTOCK_DATA": str(self.data),
            "PENSTOCK_CONFIG": str(self.config),
            "CALLS": str(self.calls),
        }

    def penstock(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            cwd=cwd or self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def run(self, *words: str, cwd: Path | None = None) -> None:
        """Run claude, which succeeds."""
        done = self.penstock("run", "claude", "--route", "exec", *words, cwd=cwd)
        assert done.returncode == 0, done.stderr

    def resumed(self) -> list[str | None]:
        """Return the session that each call of the agent resumed."""
        calls = [json.loads(line) for line in self.calls.read_text("utf-8").splitlines()]
        found = [[word.partition("=")[2] for word in call if word.startswith("--resume=")] for call in calls]
        return [sessions[0] if sessions else None for sessions in found]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


@pytest.mark.slow
def test_a_conversation_goes_on(desk: Desk) -> None:
    """`--continue` resumes the newest conversation of this directory, again and again."""
    desk.run("first prompt")
    desk.run("second prompt")
    desk.run("--continue", "third prompt")
    desk.run("-c", "fourth prompt")
    assert desk.resumed() == [None, None, "s-second", "s-second"]


@pytest.mark.slow
def test_a_conversation_of_another_directory_is_left_alone(desk: Desk, tmp_path: Path) -> None:
    """Without a conversation here the error says how to find others, and nothing is started."""
    desk.run("first prompt")
    other = tmp_path / "other"
    other.mkdir()
    done = desk.penstock("run", "claude", "--continue", "more", cwd=other)
    assert done.returncode == 2
    assert "claude has no earlier conversation in this directory" in done.stderr
    assert "penstock sessions" in done.stderr
    assert desk.resumed() == [None]
    desk.run("--cwd", str(desk.folder), "--continue", "more", cwd=other)
    assert desk.resumed() == [None, "s-first"]


def test_two_conversations_cannot_be_resumed(desk: Desk) -> None:
    """`--continue` beside `--session` is wrong usage."""
    done = desk.penstock("run", "claude", "--continue", "--session", "x", "hi")
    assert done.returncode == 2
    assert "--continue and --session" in done.stderr


@pytest.mark.slow
def test_sessions_are_listed(desk: Desk, tmp_path: Path) -> None:
    """The table has the conversations of this directory, each once, the newest last; `--all` has those of others."""
    desk.run("first prompt")
    desk.run("second prompt")
    desk.run("--session", "s-first", "third prompt")
    other = tmp_path / "other"
    other.mkdir()
    desk.run("elsewhere, \x1b[31mred", cwd=other)
    lines = desk.penstock("sessions").stdout.splitlines()
    assert lines[0].split() == ["when", "kind", "agent", "outcome", "prompt", "session"]
    assert [line.split()[-1] for line in lines[1:]] == ["s-second", "s-first"]
    assert "third prompt" in lines[2]
    everywhere = desk.penstock("sessions", "--all").stdout
    assert str(other) in everywhere
    assert "\x1b" not in everywhere
    assert len(desk.penstock("sessions", "--all", "--limit", "1").stdout.splitlines()) == 2


@pytest.mark.slow
def test_the_conversation_of_a_chat_is_listed_and_left_alone(desk: Desk) -> None:
    """It is marked, and `--continue` resumes the older conversation of `penstock run`; `--session` resumes it."""
    desk.run("first prompt")
    line = HistoryLine(run="x", at=now_ms(), kind="chat", agent="claude", cwd=os.path.realpath(desk.folder), title="hi")
    History(desk.data).append(msgspec.structs.replace(line, session_id="s-chat"))
    lines = desk.penstock("sessions").stdout.splitlines()
    cells = [re.split("  +", line) for line in lines[1:]]
    assert [(row[1], row[-1]) for row in cells] == [("run", "s-first"), ("chat", "s-chat")]
    desk.run("--continue", "second prompt")
    desk.run("--session", "s-chat", "third prompt")
    assert desk.resumed() == [None, "s-first", "s-chat"]


@pytest.mark.slow
def test_sessions_as_json(desk: Desk) -> None:
    """Each line has all that is known about the newest run of a conversation."""
    desk.run("first prompt", "--record", str(desk.folder / "runs"))
    [line] = desk.penstock("sessions", "--json").stdout.splitlines()
    found = json.loads(line)
    assert {name: found[name] for name in ("agent", "route", "title", "session_id", "outcome", "model")} == {
        "agent": "claude",
        "route": "exec",
        "title": "first prompt",
        "session_id": "s-first",
        "outcome": "ok",
        "model": "m1",
    }
    assert found["cwd"] == os.path.realpath(desk.folder)
    assert Path(found["recording"]).is_dir()


def test_there_are_none(desk: Desk) -> None:
    """Without a history the command says so, and creates nothing."""
    done = desk.penstock("sessions")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("There are no earlier conversations in this directory")
    assert not desk.data.exists()


@pytest.mark.slow
def test_the_history_can_be_turned_off(desk: Desk) -> None:
    """With `keep = false` nothing is written."""
    with desk.config.open("a") as file:
        file.write("[history]\nkeep = false\n")
    desk.run("first prompt")
    assert not desk.data.exists()


@pytest.mark.slow
def test_a_history_that_cannot_be_written_changes_nothing(desk: Desk) -> None:
    """The run works, and its output is the same."""
    desk.data.touch()
    done = desk.penstock("run", "claude", "--route", "exec", "hi", "--to", "reply")
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hi\n", "")


@pytest.mark.parametrize(
    ("passed", "words"),
    [(-5, "just now"), (59_999, "just now"), (60_000, "1 min ago"), (3_600_000, "1 h ago"), (86_399_000, "23 h ago")],
)
def test_times_for_people(passed: int, words: str) -> None:
    """Recent times are relative; a clock that was set back is no trouble."""
    now = 1_800_000_000_000
    assert when(now - passed, now) == words


def test_older_times_are_dates() -> None:
    """From a day on it is the date."""
    assert when(0, 1_800_000_000_000)[:2] in ("19", "20")


def test_lines_of_a_later_version_are_read(desk: Desk) -> None:
    """Fields that are not known are skipped, and lines of unknown kinds too."""
    History(desk.data).append(HistoryLine(run="a", at=1))
    with (desk.data / "history.ndjson").open("a") as file:
        line = {"run": "b", "at": 1, "agent": "claude", "cwd": os.path.realpath(desk.folder), "session_id": "s"}
        file.write(json.dumps({**line, "new": {}}) + "\n" + json.dumps({**line, "run": "c", "kind": "new"}) + "\n")
    assert len(desk.penstock("sessions").stdout.splitlines()) == 2
