"""Recordings that `penstock run` keeps in a terminal: when, what is said about it, and the removal of old ones."""

from __future__ import annotations

import os
from threading import Thread
from typing import TYPE_CHECKING

from penstock.cli.console import fitted, notify, notify_problem
from penstock.cli.display import facts_of
from penstock.cli.silence import is_ci
from penstock.config.data import data_path

if TYPE_CHECKING:
    from penstock.cli.display import OutputContext
    from penstock.cli.options import RunOptions
    from penstock.config.settings import Config
    from penstock.run.kept import Keeper
    from penstock.run.launch import Launch
    from penstock.run.recording import RecordingWriter
    from penstock.run.run import Run

SWEEP_SECONDS = 1.0
"""Seconds to wait at the end for the removal of old recordings. It begins with the run, and takes much less."""


class RunKeeper:
    """Keeper of the recordings of the runs that one command shows."""

    def __init__(self, config: Config, options: RunOptions) -> None:
        self._days = config.history_days
        self._options = options
        self._keeper: Keeper | None = None
        self._sweep: Thread | None = None

    @classmethod
    def of(cls, config: Config, options: RunOptions) -> RunKeeper | None:
        """Return the keeper of this command; None if its runs are not kept.

        They are kept in a terminal. A job of a CI service is not, even if it has a terminal.
        """
        in_terminal = os.isatty(1) or os.isatty(2)
        return cls(config, options) if in_terminal and config.keeps_recordings and not is_ci(os.environ) else None

    def keep(self, run: Run, context: OutputContext) -> None:
        """Record a run that has not started yet, unless a recording of it was requested."""

        def begin(launch: Launch) -> RecordingWriter | None:
            from penstock.run.kept import Keeper  # with the code for recordings, only when a run starts
            from penstock.run.recording import DisplayFacts

            display = DisplayFacts(
                detail=self._options.detail,
                prefix=self._options.prefix,
                carried=_carried(self._options),
                is_one_of_several=context.several,
                **facts_of(context),
            )
            self._keeper = self._keeper or Keeper(data_path(), self._days)
            return self._keeper.begin(launch, display)

        run.keep = begin

    def started(self) -> None:
        """Say once that runs are kept, and begin to remove old recordings."""
        keeper = self._keeper
        if keeper is None:
            return
        if keeper.is_new:
            days = f"{self._days} day{'s' * (self._days != 1)}"
            text = (
                f"penstock: runs in a terminal are kept for {days}: penstock last shows the newest, penstock history "
                "clear removes them, and history.record = false in the configuration keeps none\n"
            )
            notify(fitted(text, 2))
            return
        self._sweep = Thread(target=_sweep, args=(keeper,), daemon=True)
        self._sweep.start()

    def over(self) -> None:
        """Wait for the removal of old recordings, and report a run that was not kept."""
        if self._sweep is not None:
            self._sweep.join(SWEEP_SECONDS)
        problem = None if self._keeper is None else self._keeper.over()
        if problem is not None:
            notify_problem(f"penstock last cannot show all of this run: {problem}")


def _carried(options: RunOptions) -> dict[str, str | bool]:
    """Return the flags that the next prompt needs too, but for arguments of the agent, which may have secrets."""
    from penstock.cli.advice import CARRIED

    return {name: value for name in CARRIED if name != "args" and (value := options.asked.get(name))}


def _sweep(keeper: Keeper) -> None:
    try:
        keeper.sweep()
    except OSError:
        pass  # the next run tries again
