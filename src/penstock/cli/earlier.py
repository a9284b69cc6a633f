"""Earlier runs for people: which ones there are, and one of them as it was shown."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.cli import read
from penstock.cli.advice import resume_command
from penstock.cli.console import errors_output, notify_problem, sink_output
from penstock.cli.display import OutputContext, Sink, decide, facts_of, make_sink
from penstock.cli.read import Reading, configured
from penstock.cli.report import report, status_of, table
from penstock.cli.screen import Screen
from penstock.config.data import data_path
from penstock.errors import UsageError
from penstock.events import Event
from penstock.run.history import History, RunRecord
from penstock.run.kept import is_being_written
from penstock.run.recording import DisplayFacts, Meta, read_meta
from penstock.run.replay import Recording, find, replay
from penstock.stream import Stream

if TYPE_CHECKING:
    from penstock.cli.options import ReadOptions
    from penstock.cli.sources import Chunk
    from penstock.config.settings import Config

AT_ONCE = 1e9
"""Speed of a replay that has no pauses, even if the run took years."""


class EarlierRun(msgspec.Struct):
    """One `penstock run` in the history: the runs that it started, in their order."""

    runs: list[RunRecord]

    @property
    def first(self) -> RunRecord:
        """Run that was started first."""
        return self.runs[0]

    @property
    def agents(self) -> str:
        """Names of its agents, as they are given on the command line."""
        return ",".join(dict.fromkeys(run.agent for run in self.runs))

    @property
    def is_kept(self) -> bool:
        """True if there is a recording of it."""
        return any(run.recording is not None and os.path.isdir(run.recording) for run in self.runs)

    def has_id(self, words: str) -> bool:
        """Return whether one of its runs or conversations has an id that begins with these words."""
        ids = [id for run in self.runs for id in (run.run, run.session_id) if id]
        return any(id.startswith(words) for id in ids)


def earlier_runs(runs: Sequence[RunRecord], cwd: str | None) -> list[EarlierRun]:
    """Return each `penstock run` in this directory, or in all (None); the newest first."""
    here = os.path.realpath(cwd) if cwd is not None else None
    found: dict[str, EarlierRun] = {}
    for run in runs:
        if run.kind == "run" and here in (None, run.cwd):
            found.setdefault(run.group or run.run, EarlierRun([])).runs.append(run)
    return list(reversed(found.values()))


class _StoredRun(msgspec.Struct):
    """One recording of a run that is shown."""

    record: RunRecord
    recording: Recording
    meta: Meta
    is_at_work: bool
    """True if the run had not ended when its recording was found."""

    @property
    def display(self) -> DisplayFacts:
        return self.meta.display or DisplayFacts()

    @property
    def start_ms(self) -> int:
        """Time of the start, in milliseconds since 1970."""
        try:
            return int(datetime.fromisoformat(self.meta.started_at).timestamp() * 1000)
        except (ValueError, OverflowError):
            return self.record.at


def parts_of(earlier: EarlierRun) -> list[_StoredRun]:
    """Return the recordings of a run.

    Raises:
        UsageError: there is none, or one cannot be read.
    """
    parts = []
    for record in earlier.runs:
        if record.recording is None or not os.path.isdir(record.recording):
            continue
        is_written = is_being_written(record.recording)  # before the end is looked for: it comes first
        meta = read_meta(Path(record.recording))
        if meta is not None:
            is_at_work = is_written and meta.ended is None
            parts.append(_StoredRun(record, find(Path(record.recording)), meta, is_at_work))
    if not parts:
        raise UsageError("there is no recording of this run", help="penstock history lists the runs that can be shown")
    return parts


def show_again(options: ReadOptions, earlier: EarlierRun) -> int:
    """Show a run as it was shown when it ran, at once; return its exit status."""
    parts = parts_of(earlier)
    if options.to == "reply" and not parts[0].display.is_one_of_several:
        parts = parts[-1:]  # after a fallback, the reply is that of the last agent
    config, screen = configured(), Screen(options)
    display = parts[0].display
    options.detail = options.detail or display.detail
    options.prefix = options.prefix or display.prefix
    labels = [part.recording.label or part.record.agent for part in parts]
    side_by_side = display.is_one_of_several
    width = max(map(len, labels)) if side_by_side else 0
    readings = []
    for number, (part, label) in enumerate(zip(parts, labels, strict=True)):
        context = _context(part, number, label if side_by_side else "", width)
        stream = Stream(part.recording.reader(), label=label, run=number + 1 if len(parts) > 1 else None)
        stream.joins_deltas = options.to == "text" and decide(options, config, several=side_by_side).mode == "none"
        reading = Reading(
            stream,
            partial(_sink, options, config, screen, context, part.record.agent),
            source=str(part.recording.input),
        )
        reading.exit = part.recording.exit
        readings.append(reading)
    output, errors = sink_output(options.to), errors_output()
    with screen:
        interrupted = read.run(readings, _feed(parts, whole=options.to != "text"), output, lambda number: None)
        for reading in readings:
            output.write(reading.showing.pause())
        report(readings, options, output, errors)
        if side_by_side and options.to == "text":
            errors.write(table([(reading.name, reading.ended) for reading in readings]))
    for part, label in zip(parts, labels, strict=True):
        if part.is_at_work:
            notify_problem(f"{label} is still at work; this is what it has done so far")
        elif part.recording.cut is not None:
            notify_problem(f"{label}: the recording is not complete: {part.recording.cut}")
    # The last attempt of an agent counts, and the last agent if another one took over, as it did in the run.
    counts = [*dict(zip(labels, readings, strict=True)).values()] if side_by_side else readings[-1:]
    return status_of(counts, interrupted=interrupted)


def events_of(earlier: EarlierRun) -> list[tuple[RunRecord, list[Event]]]:
    """Return the events of each recording of a run, with its record.

    Raises:
        UsageError: there is none, or one cannot be read.
    """
    found = []
    for part in parts_of(earlier):
        label = part.recording.label or part.record.agent
        stream, events = Stream(part.recording.reader(), label=label), list[Event]()
        for _, (_, data, at) in _timed(0, part):
            events += stream.close(part.recording.exit, at) if data is None else stream.feed(data, at)
        found.append((part.record, events))
    return found


def _sink(
    options: ReadOptions, config: Config, screen: Screen, context: OutputContext, agent: str, found: str | None
) -> Sink:
    return make_sink(options, config, agent, screen, context)


def _context(part: _StoredRun, number: int, label: str, width: int) -> OutputContext:
    display, record = part.display, part.record

    def resume(session_id: str) -> str:
        try:
            is_newest = History(data_path()).is_newest(record)
        except OSError:
            is_newest = False
        return resume_command(record.agent, record.cwd, None if is_newest else session_id, display.carried)

    return OutputContext(
        several=bool(label),
        number=number,
        label=label,
        label_width=width,
        cwd=record.cwd,
        is_live=True,
        resume=resume,
        began_ms=part.start_ms,
        **facts_of(display),
    )


def _feed(parts: Sequence[_StoredRun], *, whole: bool) -> Iterator[Chunk]:
    """Yield the lines of all recordings in the order in which they came, and the end of each after its last one.

    `whole`: a run that is still at work has an end too, as readers that are programs expect.
    """
    feeds = [_timed(number, part, with_end=whole or not part.is_at_work) for number, part in enumerate(parts)]
    for _, chunk in heapq.merge(*feeds, key=lambda timed: timed[0]):
        yield chunk


def _timed(number: int, part: _StoredRun, *, with_end: bool = True) -> Iterator[tuple[int, Chunk]]:
    start = part.start_ms
    at: int | None = None
    for data, at in replay(part.recording.input, AT_ONCE, whole=part.recording.cut is not None):
        yield start + (at or 0), (number, data, at)
    if part.meta.ended is not None:
        at = max(at or 0, part.meta.ended.duration_ms)
    if with_end:
        yield start + (at or 0), (number, None, at)
