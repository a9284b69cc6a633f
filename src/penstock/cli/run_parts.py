"""Parts of an earlier run: the changes of files, and what failed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.changes import as_diff
from penstock.cli.console import notify_problem, sink_output
from penstock.cli.display import OutputContext, decide, make_sink
from penstock.cli.earlier import EarlierRun, events_of
from penstock.cli.exit_status import OK
from penstock.cli.options import ReadOptions
from penstock.cli.read import configured
from penstock.cli.screen import Screen
from penstock.core import diffs
from penstock.events import Event, Notice, RunEnded, ToolCalled, ToolReturned
from penstock.sinks.sanitize import clean_line
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.styles import painted, palette


def show_diff(options: ReadOptions, earlier: EarlierRun) -> int:
    """Write the changes of files that the agents of a run reported, as unified diffs; return the exit status."""
    runs = events_of(earlier)
    colours = palette(decide(options, configured(), several=False).color)
    text, is_any = "", False
    for record, events in runs:
        changes = diffs.join(
            change for event in events if isinstance(event, ToolReturned) for change in event.changes or ()
        )
        if changes and len(runs) > 1:
            text += painted(colours, "name", clean_line(f"==> {record.agent} <==")) + "\n"
        text += as_diff(changes, Paths(record.cwd), colours, without_lines="the agent reported no lines")
        is_any = is_any or bool(changes)
    if not is_any:
        notify_problem("this run reported no changes of files; commands may have changed some")
    sink_output("text").write(text)
    return OK


def show_failures(options: ReadOptions, earlier: EarlierRun) -> int:
    """Write the calls of a run that failed, with all of their output, and its end if it failed too.

    Return the exit status.
    """
    config, screen = configured(), Screen(options)
    options.detail = options.detail or "verbose"
    runs = [(record, _failures(events)) for record, events in events_of(earlier)]
    output, width = sink_output("text"), max(len(record.agent) for record, _ in runs)
    for number, (record, events) in enumerate(runs):
        if not events:
            continue
        several = len(runs) > 1
        label = events[0].agent if several else ""
        context = OutputContext(several, number, label, width if several else 0, cwd=record.cwd, is_live=True)
        sink = make_sink(options, config, record.agent, screen, context)
        output.write(sink.render(events))
        output.write(sink.close())
    if not any(events for _, events in runs):
        notify_problem("nothing failed in this run")
    return OK


def _failures(events: Sequence[Event]) -> list[Event]:
    """Return the calls that failed with their results, errors on the way, and the end of a run that failed."""
    failed = {
        event.call_id
        for event in events
        if isinstance(event, ToolReturned) and (event.failed or not event.complete or event.refused)
    }
    return [event for event in events if _is_failure(event, failed)]


def _is_failure(event: Event, failed: set[str]) -> bool:
    if isinstance(event, ToolCalled | ToolReturned):
        return event.call_id in failed
    if isinstance(event, RunEnded):
        return event.outcome != "ok"
    return isinstance(event, Notice) and event.level == "error"
