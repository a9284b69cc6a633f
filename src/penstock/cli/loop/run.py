"""Loop in the foreground: its agents are shown as by `penstock run`, and each step has a line on stderr."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from penstock.cli.console import fitted, notify, notify_problem, one_line, sink_output
from penstock.cli.display import OutputContext, Showing, Sink, make_sink
from penstock.cli.exit_status import SIGNAL_BASE
from penstock.cli.loop.show import changes_text
from penstock.cli.loop.words import end_text, step_line
from penstock.cli.options import DisplayOptions
from penstock.cli.screen import Screen
from penstock.errors import PenstockError
from penstock.events import Event
from penstock.loop.checks import CommandRun
from penstock.loop.engine import Engine
from penstock.loop.fold import fold
from penstock.loop.journal import Journal
from penstock.loop.rows import AnyRow, StepBegan, StepEnded
from penstock.loop.state import LoopState
from penstock.loop.steps import RunAgent
from penstock.run.children import become_subreaper
from penstock.run.history import History, HistoryWriter, record_of

if TYPE_CHECKING:
    from penstock.config.settings import Config
    from penstock.run.run import Run

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

NOTIFY_SECONDS = 10.0
"""Timeout in seconds for the user's command at the end of a loop."""

MAX_REASON_CHARS = 10_000
"""Maximum characters of a reason that the user's command gets: one environment variable may have 128 KiB."""


class Display:
    """Listener of a loop: writes events to stdout, and a line for each step to stderr."""

    def __init__(self, options: DisplayOptions, config: Config, data: Path, state: LoopState) -> None:
        self._options = options
        self._config = config
        self._data = data
        self._labels = state.settings.candidate_labels
        self._screen = Screen(options)
        self._output = sink_output(options.to)
        self._shown: dict[Run, tuple[Showing, HistoryWriter | None]] = {}
        """Runs that are shown; several while candidates work side by side."""
        self._before = state

    def row(self, row: AnyRow, state: LoopState) -> None:
        """Write the line of a row."""
        if isinstance(row, StepBegan | StepEnded):
            for showing, _ in self._shown.values():
                self._output.write(showing.pause())
            self._shown = {run: shown for run, shown in self._shown.items() if not run.ended}
        notify(fitted(step_line(row, state, self._before), 2))
        self._before = state

    def events(self, step: RunAgent, run: Run, events: list[Event]) -> None:
        """Write events of an agent."""
        if run not in self._shown:
            keeps = self._config.keeps_history
            writer = HistoryWriter(History(self._data), record_of(run, "loop")) if keeps else None
            self._shown[run] = self._begin(step, run), writer
        showing, history = self._shown[run]
        if history is not None:
            history.apply_batch(events)
        self._output.write(showing.render(events, run.agent))

    def _begin(self, step: RunAgent, run: Run) -> Showing:
        width = max(len(run.label), *(len(f"work/{label}") for label in self._labels if step.candidate), 0)
        number = max(0, step.candidate - 1)
        cwd = os.path.abspath(run.spec.cwd or ".")  # in the tree of the loop, or of its candidate
        context = OutputContext(several=True, number=number, label_width=width, cwd=cwd, is_live=True)

        def sink(name: str | None) -> Sink:
            return make_sink(self._options, self._config, name, self._screen, context)

        return Showing(sink)


def run_loop(journal: Journal, config: Config, options: DisplayOptions, data: Path, *, trust: bool) -> int:
    """Run a loop to its end, write its result, and return the exit status."""
    display = Display(options, config, data, fold(journal.rows))
    engine = Engine(journal, config, display, trust=trust)
    stops = 0
    become_subreaper()

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stops
        stops += 1
        if stops > 2:
            raise KeyboardInterrupt
        engine.stop(SIGNAL_BASE + number)

    # Signals that the caller ignores stay ignored, as under `nohup`.
    numbers = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, stop) for number in numbers}
    try:
        status = engine.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    notify("\n" + end_text(engine.state, changes_text(engine.state), 2))
    return status


def run_notify(command: str, state: LoopState) -> None:
    """Run the user's command about the end of a loop, with one line as its last argument."""
    ended = state.ended
    status, reason = (ended.status, ended.reason) if ended is not None else (1, "not finished")
    reason = one_line(reason)[:MAX_REASON_CHARS]  # so that it fits into the environment of a program
    env = {
        **os.environ,
        "PENSTOCK_LOOP": state.began.loop,
        "PENSTOCK_LOOP_STATUS": str(status),
        "PENSTOCK_LOOP_REASON": reason,
        "PENSTOCK_LOOP_LINE": f"{state.began.loop}: {reason}",
    }
    line = f'{command} "$PENSTOCK_LOOP_LINE"'
    try:
        ended_command = CommandRun(line, Path(state.began.repository), env, NOTIFY_SECONDS).to_end()
    except (PenstockError, OSError) as error:
        notify_problem(f"notify failed: {error}")
        return
    if not ended_command.is_green:
        notify_problem(f"notify failed: {ended_command.reason or f'status {ended_command.status}'}")
