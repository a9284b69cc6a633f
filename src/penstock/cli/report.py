"""Output after the end of a stream: failures, warnings, the health report, the table of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.cli.console import Output, columns, one_line
from penstock.cli.exit_status import INTERRUPTED, OK, of_end
from penstock.events import RunEnded, Usage

if TYPE_CHECKING:
    from penstock.cli.options import DisplayOptions
    from penstock.core.health import Health


class Reported(Protocol):
    """Subject of a report: an input or a run that has ended."""

    @property
    def name(self) -> str:
        """Name for people."""
        ...

    @property
    def plain(self) -> bool:
        """Return whether the input was plain text and not a stream of events."""
        ...

    @property
    def health(self) -> Health:
        """Health of its stream."""
        ...

    @property
    def ended(self) -> RunEnded | None:
        """Last event of the run."""
        ...


def report(shown: Sequence[Reported], options: DisplayOptions, output: Output, errors: Output) -> None:
    """Write the failures that the sink does not show, warnings, and the health report if the options ask for it."""
    for reading in shown:
        health, ended = reading.health, reading.ended
        if reading.plain:
            from penstock.agents.detection import plain_text

            errors.write(f"penstock: {plain_text()}\n")
        if options.to == "health":
            line = {"agent": reading.name, "outcome": ended.outcome if ended else "cancelled", **health.report()}
            output.write(msgspec.json.encode(line) + b"\n")
        elif options.to in ("reply", "chunks") and not reading.plain and ended is not None and ended.outcome != "ok":
            from penstock.sinks.sanitize import clean

            reason = f": {' '.join(clean(ended.reason).split())}" if ended.reason else ""
            errors.write(one_line(f"penstock: {reading.name}: {ended.outcome.replace('_', ' ')}{reason}") + "\n")
        if options.health:
            errors.write(one_line(health.summary(reading.name)) + "\n")
        elif health.warnings and options.to != "health":
            errors.write(one_line(f"penstock: {reading.name}: {'; '.join(health.warnings)}") + "\n")


def status_of(shown: Sequence[Reported], *, interrupted: bool) -> int:
    """Return the exit status; of several the highest, which is the worst."""
    if interrupted:
        return INTERRUPTED
    return max((of_end(reading.ended) for reading in shown if reading.ended), default=OK)


def table(rows: Sequence[tuple[str, RunEnded | None]]) -> str:
    """Return the results of several runs as a table: one line for each, with the figures of its closing line."""
    from penstock.sinks.text.run_summary import measured, money, tokens
    from penstock.sinks.text.styles import duration

    cells = [["", "outcome", "time", "tokens in", "out", "cost"]]
    for name, ended in rows:
        if ended is None:
            continue
        usage, milliseconds = ended.usage or Usage(), measured(ended, is_live=True)
        facts = (
            duration(milliseconds) if milliseconds else "",
            *(tokens(count) if count else "" for count in (usage.input_tokens, usage.output_tokens)),
            "".join(money(ended.cost_usd if ended.cost_usd is not None else usage.cost_usd)),
        )
        cells.append([name, ended.outcome.replace("_", " "), *(fact or "–" for fact in facts)])
    return "\n" + columns(cells, right_from=2)
