"""What the tests of documents share: a scripted agent, and a directory in which it answers documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import until

ROOT = Path(__file__).parents[2]
PENSTOCK = [sys.executable, "-m", "penstock"]
TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, os, subprocess, sys, time
from pathlib import Path

def say(**line):
    print(json.dumps(line), flush=True)

here, resume, model = Path(sys.argv[1]), None, None
for word in sys.argv[2:]:
    name, _, value = word.partition("=")
    resume, model = (value, model) if name == "--resume" else (resume, value)
prompt = sys.stdin.read()
with open(here / "asked.ndjson", "a") as asked:
    asked.write(json.dumps(dict(prompt=prompt, resume=resume, model=model, cwd=os.getcwd(), pid=os.getpid())) + "\\n")
number = len((here / "asked.ndjson").read_text().splitlines())
session = resume or f"session-{number}"
if resume and (here / "forgotten").exists():
    error = "No conversation found with session ID: " + resume
    say(type="result", subtype="error_during_execution", is_error=True, errors=[error], session_id=session)
    sys.exit(1)
say(type="system", subtype="init", session_id=session, model=model or "m1")
while (here / f"hold-{number}").exists():
    time.sleep(0.01)
if (here / f"does-{number}").exists():
    subprocess.run(["sh", here / f"does-{number}"], check=True)
file = here / f"reply-{number}.md"
text = file.read_text() if file.exists() else f"Reply {number}."
say(type="assistant", message={"id": f"m{number}", "content": [{"type": "text", "text": text}]})
failed = (here / f"fail-{number}").exists()
say(type="result", subtype="success", is_error=failed, result=text, session_id=session)
"""
"""An agent that answers with `reply-NUMBER.md`, waits while `hold-NUMBER` exists, and fails if `fail-NUMBER` does.

It runs the script `does-NUMBER` first."""


class Desk:
    """A directory with documents, and the command line in it. The agent's files are in `agent`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.agent = folder / "agent"
        self.data = folder / "data"
        self.python = sys.executable
        for path in (self.folder, self.agent):
            path.mkdir()
        (self.agent / "agent.py").write_text(AGENT)
        words = [sys.executable, str(self.agent / "agent.py"), str(self.agent), "--resume={session_id}"]
        command = json.dumps([*words, "--model={model}"])
        config = f'[agents.scripted]\ncommand = {command}\nadapter = "claude"\n'
        (folder / "own.toml").write_text(config)
        ours = ("PENSTOCK_", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "GITLAB_CI")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        modules = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        more = {"PENSTOCK_CONFIG": str(folder / "own.toml"), "PENSTOCK_DATA": str(self.data), "PYTHONPATH": modules}
        more["PENSTOCK_SANDBOX"] = "off"  # the tests look for the processes of agents
        self.env = {**clean, **more, "PYTHONUTF8": "1"}

    def doc(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `penstock doc` with these words to its end."""
        return subprocess.run(
            [*PENSTOCK, "doc", *words],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=self.env,
            cwd=self.folder,
            timeout=TIMEOUT,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `penstock doc` with these words."""
        return subprocess.Popen(
            [*PENSTOCK, "doc", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=self.env,
            cwd=self.folder,
        )

    @property
    def asked(self) -> list[dict[str, Any]]:
        """What the agent was asked, one entry for each run."""
        file = self.agent / "asked.ndjson"
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    def until_asked(self, count: int) -> None:
        """Wait until so many runs have been asked."""
        until(lambda: len(self.asked) >= count, f"the agent is asked {count} times")

    def reply(self, number: int, text: str) -> None:
        """Let the run of this number, from 1, reply with this text."""
        (self.agent / f"reply-{number}.md").write_text(text, "utf-8")

    def hold(self, number: int) -> Path:
        """Let the run of this number wait until the file that is returned is removed."""
        file = self.agent / f"hold-{number}"
        file.touch()
        return file

    def does(self, number: int, script: str) -> None:
        """Let the run of this number run this script in its directory."""
        (self.agent / f"does-{number}").write_text(script)

    def fail(self, number: int) -> None:
        """Let the run of this number fail."""
        (self.agent / f"fail-{number}").touch()

    def write(self, name: str, text: str) -> Path:
        """Write a document byte for byte."""
        file = self.folder / name
        file.write_bytes(text.encode())
        return file


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A directory with the agent `scripted`, and with no documents yet."""
    return Desk(tmp_path)
