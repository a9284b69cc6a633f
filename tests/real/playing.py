"""One prompt played to a real agent through Penstock, and what came of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from model_server import Request
from setups import Bench

from penstock import agent
from penstock.events import (
    BlockEnded,
    BlockStarted,
    Delta,
    Event,
    Malformed,
    MessageEnded,
    ToolCalled,
    ToolReturned,
)
from penstock.run.result import Result
from penstock.testing.verify import verify

if TYPE_CHECKING:
    from penstock.run.run import Run

SECONDS = 90.0
"""The time limit of every run, so that a hanging agent is an outcome (`timed_out`) and no hanging test."""
SPEAKS_WHEN_INTERRUPTED = {"goose-exec"}
"""Routes that print words before the last line when they are interrupted."""


class Played(NamedTuple):
    """What a run said, and what the model server was asked meanwhile."""

    events: list[Event]
    result: Result
    requests: list[Request]
    run: Run

    def blocks(self, kind: str) -> list[str]:
        """The top agent's blocks of a kind, without attempts that were given up."""
        given_up = {e.message for e in self.events if isinstance(e, MessageEnded) and e.status == "superseded"}
        numbers = [
            event.block
            for event in self.events
            if isinstance(event, BlockStarted) and event.kind == kind and event.parent is None
            if event.message not in given_up
        ]
        ended = {event.block: event.text for event in self.events if isinstance(event, BlockEnded)}
        return [ended[number] for number in numbers if ended[number]]

    @property
    def live(self) -> str:
        """All text that came as deltas."""
        return "".join(event.text for event in self.events if isinstance(event, Delta) and event.kind == "text")

    @property
    def calls(self) -> list[ToolCalled]:
        """The tools that were called."""
        return [event for event in self.events if isinstance(event, ToolCalled)]

    @property
    def returned(self) -> list[ToolReturned]:
        """What they returned."""
        return [event for event in self.events if isinstance(event, ToolReturned)]

    @property
    def conversation(self) -> list[Request]:
        """The requests of the conversation itself, without those for a title."""
        return [request for request in self.requests if request.scenario is not None]


def play(at: Bench, prompt: str, *, heed: Callable[[Run, Event], None] | None = None, **options: Any) -> Played:
    """Run a prompt to its end, or until `heed`, which is called with each event, has ended it. The stream is judged."""
    before = len(at.server.requests)
    events: list[Event] = []
    with started(at, prompt, **options) as run:
        for event in run:
            events.append(event)
            if heed is not None:
                heed(run, event)
    assert verify(events) == []
    health = run.health
    assert health.unknown_kinds == {}, health.unknown_kinds
    is_interrupted = str(at.target) in SPEAKS_WHEN_INTERRUPTED and run.result.outcome != "ok"
    counts = (health.parse_errors, 0 if is_interrupted else health.lenient_lines, health.adapter_errors)
    assert counts == (0, 0, 0), (health.warnings, [event for event in events if isinstance(event, Malformed)])
    if run.result.outcome == "ok":
        assert (health.misfits, health.losses) == ({}, []), (health.misfits, health.losses)
    assert left(run.mark) == []
    return Played(events, run.result, at.server.requests[before:], run)


def started(at: Bench, prompt: str, **options: Any) -> Run:
    """A run that waits to be entered."""
    of_run = {
        name: options.pop(name)
        for name in ("session_id", "fork", "model", "stdin_text", "on_question")
        if name in options
    }
    options = {"route": at.target.route, "allow": "all", "timeout": SECONDS, **options}
    return agent(at.target.name, cwd=at.folder, env=at.env, **options).run(prompt, **of_run)


def left(mark: str) -> list[tuple[int, list[bytes]]]:
    """The processes of a run that live, with their command lines: a look of our own into /proc."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ, open(f"/proc/{name}/cmdline", "rb") as cmdline:
                if f"PENSTOCK_RUN={mark}".encode() in environ.read().split(b"\0"):
                    found.append((int(name), cmdline.read().split(b"\0")))
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
    return found


def kill_agent(mark: str) -> None:
    """Kill all processes of the run but Penstock's own guard and bridge, as an out-of-memory killer would."""
    for pid, argv in left(mark):
        if not is_ours(argv):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def is_ours(argv: Sequence[bytes]) -> bool:
    """Whether a process is Penstock's own."""
    return any(name in word for word in argv for name in (b"penstock/run/guard", b"penstock.run.http_bridge"))
