"""What the tests of processes share: agents that misbehave, and the look at what is left of a run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import group_of, no_hang, until

from penstock.events import Event, RunEnded
from penstock.run.agent import Agent, agent
from penstock.run.lifecycle import Limits
from penstock.run.process import marked
from penstock.run.result import Result
from penstock.run.run import Run
from penstock.run.supervisor import Supervisor
from penstock.testing.verify import verify

PROGRAM = Path(__file__).parent / "programs" / "agent.py"

LONG = 1000
SHORT = Limits(reply_grace=0.2, work_grace=0.2, exit_grace=0.2, ask=0.2, interrupt=0.2, terminate=0.2, step=0.1)
"""For agents that use up what they are given."""
PATIENT = Limits(
    reply_grace=LONG, work_grace=LONG, exit_grace=LONG, ask=LONG, interrupt=LONG, terminate=LONG, step=LONG
)
"""For agents that need none of it: a test that waits for it hangs."""


def living() -> Iterator[tuple[int, int]]:
    """All processes that run, with their groups."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (group := group_of(int(entry.name))) is not None:
            yield int(entry.name), group


class Place:
    """A folder where agents leave notes, and a way to start them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.patient = PATIENT

    def command(self, mode: str, value: object = "") -> list[str]:
        """The command line of the agent that misbehaves so."""
        return [sys.executable, "-S", str(PROGRAM), mode, str(value)]

    def agent(self, mode: str, value: object = "", **options: Any) -> Agent:
        """The agent that misbehaves so."""
        env = {"NOTES": str(self.folder), **options.pop("env", {})}
        own: dict[str, Any] = {"command": self.command(mode, value), "adapter": "claude", "limits": PATIENT}
        return agent("faulty", env=env, **own | options)

    def make(self, name: str) -> None:
        """Make the file that an agent waits for."""
        (self.folder / name).touch()

    def pid(self, name: str) -> int:
        """The process that left this note; waits for it."""
        path = self.folder / name
        until(path.exists, f"an agent leaves the note {name}")
        return int(path.read_text())

    def supervisor(self, run: Run) -> Supervisor:
        """The thread of a run that has started."""
        assert run._supervisor is not None
        return run._supervisor

    def nothing_left(self, mark: str) -> None:
        """Nothing bears the mark, no group of an agent is there, and nobody who left a note lives."""
        assert marked(mark) == []
        assert self.left() == []

    def left(self) -> list[str]:
        """The notes of those who live, or whose group does."""
        alive = {number for both in living() for number in both}
        notes = [(note.name, note.read_text()) for note in self.folder.iterdir()]
        return [name for name, said in notes if said.isdigit() and int(said) in alive]

    def whole(self, run: Run, events: list[Event]) -> RunEnded:
        """The end of a run that keeps the contract and leaves nothing."""
        assert verify(events) == []
        ended = [event for event in events if isinstance(event, RunEnded)]
        assert len(ended) == 1
        assert ended[0] is events[-1]
        assert run.result == Result.of(ended[0], run.result.changes, run.exit_status)
        self.nothing_left(run.mark)
        return ended[0]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place of the test's own."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return Place(folder)


_no_hang = pytest.fixture(autouse=True)(no_hang)


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but that of the test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)


@pytest.fixture
def short() -> Limits:
    """Small graces."""
    return SHORT


@pytest.fixture(scope="module")
def _bubblewrap() -> None:
    """Skip what needs bubblewrap where it is missing or not permitted."""
    name = shutil.which("bwrap")
    if name is None:
        pytest.skip("bubblewrap is not installed")
    words = [name, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "/bin/true"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The agent's directory, in a home with a key."""
    (tmp_path / "key").write_text("KEY")
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"
