"""Whether the runs of this process are sent to a collector of OpenTelemetry; `collector.py` sends them.

Nothing is sent before a command has called `set_up`, and what sends it is imported then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.run.collector import RunTelemetry, Sender, TelemetryOptions
    from penstock.run.trace_context import TraceContext
    from penstock.sinks.spans import Value

_sender: Sender | None = None


def set_up(options: TelemetryOptions) -> None:
    """Send all runs of this process from now on.

    Raises:
        UsageError: the extra `otel` is not installed, or a variable of OpenTelemetry cannot be used.
    """
    from penstock.run.collector import Sender

    global _sender
    _sender = Sender(options)


def finish() -> int:
    """Stop sending, as `Sender.finish`."""
    global _sender
    sender, _sender = _sender, None
    return 0 if sender is None else sender.finish()


def begin(
    prompt: str, provider: str | None, parent: TraceContext | None, facts: Mapping[str, Value]
) -> RunTelemetry | None:
    """Return the telemetry of a run that starts; None if nothing is sent."""
    if _sender is None:
        return None
    from penstock.run.collector import RunTelemetry
    from penstock.sinks.spans import RunSpans

    options = _sender.options
    spans = RunSpans(prompt, with_content=options.with_content, provider=provider, facts=facts)
    return RunTelemetry(spans, _sender, parent or options.parent)
