"""Runs as spans and metrics for a collector of OpenTelemetry, sent by a thread of its own.

A collector that is away, slow or wrong never fails a run: what waits for it is bounded, and so is the time for which
`Sender.finish` waits.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock._version import __version__
from penstock.errors import UsageError
from penstock.events import Event
from penstock.run.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from penstock.sinks.spans import RunSpans

MAX_WAITING = 100
"""Maximum number of runs that wait to be sent; further ones are dropped. A collector may be away for hours."""

TIMEOUT_VARIABLE = "OTEL_EXPORTER_OTLP_TIMEOUT"
"""Environment variable that replaces both of the following limits, in seconds."""

FINISH_SECONDS = 2.0
"""Seconds for which the end of a command waits until all is sent."""

REQUEST_SECONDS = 10.0
"""Seconds for one request to the collector, with its repeats."""

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_WORDS = ("true", "1", "span_only", "span_and_event")
"""Values with which texts of a run are part of its spans."""

_log = logging.getLogger("penstock.telemetry")


class TelemetryOptions(msgspec.Struct, frozen=True):
    """How runs are sent."""

    endpoint: str | None = None
    """Address of the collector; None: that of the environment, or the default one of OTLP."""
    with_content: bool = False
    """True if prompts, replies, and the arguments and results of tools are sent too."""
    parent: TraceContext | None = None
    """Trace of the runs that have none of their own."""
    traces: bool = True
    metrics: bool = True


class RunTelemetry:
    """Spans of one run, which are sent when it has ended."""

    def __init__(self, spans: RunSpans, sender: Sender, parent: TraceContext | None) -> None:
        self._spans = spans
        self._sender = sender
        self._parent = parent
        self._began_ns = time.time_ns()
        self._is_over = False

    def take(self, events: Sequence[Event]) -> None:
        """Add the next events. This never raises: the run is more important than its spans."""
        if self._is_over:
            return
        try:
            self._spans.take(events)
        except Exception:
            _log.exception("the spans of a run are lost")
            self._is_over = True
            return
        self._is_over = self._spans.is_over
        if self._is_over:
            self._sender.send(self._spans, self._began_ns, self._parent)


class Sender:
    """Thread that sends runs to a collector."""

    def __init__(self, options: TelemetryOptions) -> None:
        """Prepare to send.

        Raises:
            UsageError: the extra `otel` is not installed, or a variable of OpenTelemetry cannot be used.
        """
        self.options = options
        self._exporters = _exporters(options)
        self._queue: Queue[tuple[RunSpans, int, TraceContext | None] | None] = Queue(MAX_WAITING)
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name="penstock telemetry", daemon=True)
        self._thread.start()

    def send(self, spans: RunSpans, began_ns: int, parent: TraceContext | None) -> None:
        """Send a run that began at this time, unless too many wait already."""
        try:
            self._queue.put_nowait((spans, began_ns, parent))
        except Full:
            self._lost += 1

    def finish(self) -> int:
        """Wait until all is sent, but no longer than the limit; return the number of runs that were not sent."""
        waiting, seconds = 0, float(os.environ.get(TIMEOUT_VARIABLE) or FINISH_SECONDS)
        try:
            self._queue.put_nowait(None)
        except Full:
            pass
        self._thread.join(seconds)
        if self._thread.is_alive():
            waiting = 1
            while True:
                try:
                    waiting += self._queue.get_nowait() is not None
                except Empty:
                    break
        return self._lost + waiting

    def _work(self) -> None:
        while (next_one := self._queue.get()) is not None:
            try:
                is_sent = self._exporters.send(*next_one)
            except Exception:
                _log.debug("a run cannot be sent", exc_info=True)
                is_sent = False
            self._lost += not is_sent
        self._exporters.close()


class _Collected:
    """Processor of the SDK that keeps the spans which have ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        pass

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)

    def _on_ending(self, span: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


class _Exporters:
    """The SDK's own exporters, with providers that only this module uses."""

    def __init__(self, options: TelemetryOptions) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        for name in ("opentelemetry", "urllib3", "requests"):  # their warnings would be in the output of a run
            logging.getLogger(name).propagate = False
            logging.getLogger(name).addHandler(logging.NullHandler())
        names = {} if _names_service() else {"service.name": "penstock", "service.version": __version__}
        resource = Resource.create(names)
        base = None if options.endpoint is None else options.endpoint.rstrip("/")
        seconds = float(os.environ.get(TIMEOUT_VARIABLE) or REQUEST_SECONDS)
        self._span_exporter: Any = None
        self._meters: MeterProvider | None = None
        self._histograms: dict[str, Any] = {}
        if options.traces:
            self._collected = _Collected()
            provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            provider.add_span_processor(cast(Any, self._collected))
            self._tracer = provider.get_tracer("penstock", __version__)
            self._span_exporter = OTLPSpanExporter(
                endpoint=None if base is None else f"{base}/v1/traces", timeout=seconds
            )
        if options.metrics:
            exporter = OTLPMetricExporter(endpoint=None if base is None else f"{base}/v1/metrics", timeout=seconds)
            reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
            self._meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
            meter = self._meters.get_meter("penstock", __version__)
            for name, unit in HISTOGRAMS.items():
                edges = TOKEN_EDGES if unit == "{token}" else SECOND_EDGES
                self._histograms[name] = meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=edges)

    def send(self, run: RunSpans, began_ns: int, parent: TraceContext | None) -> bool:
        """Send a run; return whether the collector has taken it."""
        is_sent = True
        if self._meters is not None:
            for measure in run.measures:
                self._histograms[measure.name].record(measure.value, measure.attributes)
            is_sent = self._meters.force_flush()
        if self._span_exporter is not None:
            from opentelemetry.sdk.trace.export import SpanExportResult

            spans = self._spans(run, began_ns, parent)
            is_sent = not spans or (self._span_exporter.export(spans) is SpanExportResult.SUCCESS and is_sent)
        return is_sent

    def close(self) -> None:
        """Release the exporters."""
        if self._span_exporter is not None:
            self._span_exporter.shutdown()
        if self._meters is not None:
            self._meters.shutdown()

    def _spans(self, run: RunSpans, began_ns: int, parent: TraceContext | None) -> list[ReadableSpan]:
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        made: list[Any] = []
        for span in run.spans:
            above = _context(parent) if span.parent is None else set_span_in_context(made[span.parent])
            start = began_ns + span.start_ms * 1_000_000
            kind, attributes = SpanKind.INTERNAL, span.attributes
            made.append(self._tracer.start_span(span.name, above, kind, attributes, start_time=start))
        for span, one in zip(reversed(run.spans), reversed(made), strict=True):
            if span.is_error:
                one.set_status(Status(StatusCode.ERROR))
            one.end(began_ns + (span.end_ms or span.start_ms) * 1_000_000)
        found, self._collected.spans = self._collected.spans, []
        return found


HISTOGRAMS = {
    "gen_ai.client.token.usage": "{token}",
    "gen_ai.invoke_agent.duration": "s",
    "gen_ai.execute_tool.duration": "s",
}
"""Histograms with their units."""

TOKEN_EDGES = [4.0**power for power in range(14)]
SECOND_EDGES = [0.01 * 2**power for power in range(20)]
"""Edges of the histograms' classes: powers of 4 for tokens, and for seconds powers of 2 from 10 ms to 1.5 hours."""


def _context(parent: TraceContext | None) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
    from opentelemetry.trace.span import TraceState

    if parent is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([parent.state]) if parent.state else None
    found = SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), True, flags, state)
    return set_span_in_context(NonRecordingSpan(found), Context())


def _names_service() -> bool:
    resource = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in resource


def _exporters(options: TelemetryOptions) -> _Exporters:
    try:
        return _Exporters(options)
    except ImportError as error:
        raise UsageError(
            "sending spans to a collector needs packages that are not installed",
            help="install the extra otel: pip install '.[otel]' in a clone of Penstock",
        ) from error
    except ValueError as error:
        raise UsageError(f"a variable of OpenTelemetry has a value that cannot be used: {error}") from error
