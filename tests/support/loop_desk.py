"""A user's repository, scripted agents and loops over them, for the tests of whole loops.

An agent is a shell script that gets its prompt on stdin and prints frames as claude does. `frames.sh` has functions for
them: `begin`, `reply TEXT`, `limited MILLISECONDS`, `usage COST`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from git_repository import UserRepository

from penstock.config.settings import Config, load
from penstock.events import Event
from penstock.loop.engine import Engine
from penstock.loop.journal import Journal
from penstock.loop.loops import begin_loop, resume
from penstock.loop.rows import AnyRow, RoleAgents, Settings, StepBegan, StepEnded
from penstock.loop.state import LoopState
from penstock.loop.steps import RunAgent
from penstock.run.run import Run

TIMEOUT = 120
"""Seconds after which a process hangs."""

FRAMES = r"""
begin() { printf '{"type":"system","subtype":"init","session_id":"s1","model":"m1"}\n'; }
reply() {
  printf '{"type":"assistant","message":{"id":"m%s","content":[{"type":"text","text":"%s"}]}}\n' "$$" "$1"
  printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","session_id":"s1",' "$1"
  printf '"total_cost_usd":%s,"usage":{"input_tokens":100,"output_tokens":10}}\n' "${COST:-0.01}"
}
limited() {
  printf '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%s,' "$1"
  printf '"rateLimitType":"five_hour"},"session_id":"s1"}\n'
  failed 429
}
failed() {
  printf '{"type":"result","subtype":"success","is_error":true,"result":"no","api_error_status":%s,' "$1"
  printf '"session_id":"s1"}\n'
}
count() { echo x >> "$DESK/$1.count"; wc -l < "$DESK/$1.count"; }
cat > "$DESK/prompt.$$"
begin
"""


class Watcher:
    """Listener that keeps all rows, and calls a function for each."""

    def __init__(self) -> None:
        self.rows: list[AnyRow] = []
        self.events_seen = 0

    def row(self, row: AnyRow, state: LoopState) -> None:
        """Keep a row."""
        self.rows.append(row)

    def events(self, step: RunAgent, run: Run, events: list[Event]) -> None:
        """Count events."""
        self.events_seen += len(events)


class Desk:
    """One user with a repository and agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user = UserRepository(folder / "work" / "app")
        self.data = folder / "data"
        self.scripts = folder / "agents"
        self.scripts.mkdir()
        self.prompt = folder / "work" / "app" / "PROMPT.md"
        self.user.commit("Ask", {"PROMPT.md": "Make it work.\n"})
        (self.scripts / "frames.sh").write_text(FRAMES)
        self._config = ""

    def agent(self, name: str, script: str) -> None:
        """Make an agent of a script of the shell."""
        (self.scripts / f"{name}.sh").write_text(f'DESK="{self.scripts}"\n. "$DESK/frames.sh"\n{script}\n')
        path = self.scripts / f"{name}.sh"
        self._config += f'[agents.{name}]\nadapter = "claude"\ncommand = ["sh", "{path}"]\n'
        self.config_file.write_text(self._config)

    def configure(self, text: str) -> None:
        """Set the whole configuration."""
        self._config = text
        self.config_file.write_text(text)

    @property
    def config_file(self) -> Path:
        """Configuration with the agents."""
        return self.folder / "config.toml"

    @property
    def environment(self) -> dict[str, str]:
        """Environment for the command line."""
        return {**os.environ, "PENSTOCK_CONFIG": str(self.config_file), "PENSTOCK_DATA": str(self.data)}

    @property
    def config(self) -> Config:
        """Configuration as Penstock reads it."""
        return load({"PENSTOCK_CONFIG": str(self.config_file)}, str(self.folder))

    def settings(self, *agents: str, **fields: object) -> Settings:
        """Return settings with these agents of work, and a check for a file."""
        defaults: dict[str, object] = {"checks": ("test -e done",), "sandbox": "off"}
        return Settings(work=RoleAgents(agents=agents), **{**defaults, **fields})  # type: ignore[arg-type]

    def penstock(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the user's repository."""
        argv = [sys.executable, "-m", "penstock", *words]
        return subprocess.run(
            argv, cwd=self.user.root, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT
        )

    def begin(self, settings: Settings, name: str = "l1") -> Journal:
        """Begin a loop."""
        return begin_loop(self.data, self.prompt, settings, name)

    def engine(self, journal: Journal) -> tuple[Engine, Watcher]:
        """Return an engine for a journal."""
        watcher = Watcher()
        return Engine(journal, self.config, watcher), watcher

    def run(self, settings: Settings, name: str = "l1") -> tuple[int, LoopState]:
        """Run a loop to its end and return status and state."""
        journal = self.begin(settings, name)
        try:
            engine, _ = self.engine(journal)
            return engine.run(), engine.state
        finally:
            journal.close()

    def resume(self, name: str = "l1", **more: Any) -> tuple[int, LoopState]:
        """Resume a loop to its end."""
        journal = Journal.open(self.data / "loops" / name)
        try:
            resume(journal, **more)
            engine, _ = self.engine(journal)
            return engine.run(), engine.state
        finally:
            journal.close()

    def subjects(self, branch: str = "penstock/l1") -> list[str]:
        """Return the first lines of the commits of a loop, the oldest first."""
        return self.user.git("log", "--reverse", "--format=%s", f"main..{branch}").splitlines()

    def files(self, branch: str = "penstock/l1") -> list[str]:
        """Return the files of the newest commit of a loop."""
        return self.user.git("ls-tree", "-r", "--name-only", branch).splitlines()


def began(rows: list[AnyRow]) -> list[RunAgent]:
    """Return the steps of agents that have begun."""
    return [row.does for row in rows if isinstance(row, StepBegan) and isinstance(row.does, RunAgent)]


def ended(rows: list[AnyRow]) -> list[StepEnded]:
    """Return the rows of the steps that have ended."""
    return [row for row in rows if isinstance(row, StepEnded)]
