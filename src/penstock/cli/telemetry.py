"""Whether the runs of a command are sent to a collector of OpenTelemetry: by a flag, `[otel]`, or `OTEL_*`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.console import notify_problem
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.config.settings import Config
    from penstock.run.collector import TelemetryOptions

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SIGNALS = ("TRACES", "METRICS")


@contextmanager
def telemetry_sent(config: Config, *, asked: bool = False, is_server: bool = False) -> Iterator[None]:
    """Send the runs that begin in the context, if that is switched on; `asked`: by the flag.

    The runs of a server do not belong to the trace in which it was started.

    Raises:
        UsageError: the flag or the configuration asks for it, and it cannot be done.
    """
    is_wanted = asked or config.otel("enabled") is True
    options = None
    if is_wanted or (config.otel("enabled") is not False and _is_named(os.environ)):
        options = _options(config, os.environ, is_wanted=is_wanted, is_server=is_server)
    if options is None:
        yield
        return
    from penstock.run import telemetry

    try:
        telemetry.set_up(options)
    except UsageError:
        if is_wanted:
            raise
        yield  # the variables may be for other programs
        return
    try:
        yield
    finally:
        lost = telemetry.finish()
        if lost:
            runs = "one run" if lost == 1 else f"{lost} runs"
            notify_problem(f"warning: the collector of OpenTelemetry has not taken the spans of {runs}")


def _is_named(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names a collector."""
    return bool(environ.get(ENDPOINT)) or any(_is_named_for(environ, signal) for signal in SIGNALS)


def _is_named_for(environ: Mapping[str, str], signal: str) -> bool:
    exporters = environ.get(f"OTEL_{signal}_EXPORTER", "").split(",")
    return bool(environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")) or "otlp" in [it.strip() for it in exporters]


def _options(
    config: Config, environ: Mapping[str, str], *, is_wanted: bool, is_server: bool
) -> TelemetryOptions | None:
    """Return how runs are sent; None if the environment forbids it.

    Raises:
        UsageError: it is wanted, and the environment asks for another protocol.
    """
    from penstock.run.collector import CONTENT_VARIABLE, CONTENT_WORDS, TelemetryOptions
    from penstock.run.trace_context import of_environment

    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol != "http/protobuf":
        if not is_wanted:
            return None
        raise UsageError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol[:100]!r}",
            expected="http/protobuf, at port 4318 of the collector",
        )
    everything = is_wanted or bool(environ.get(ENDPOINT))
    on = {
        signal: environ.get(f"OTEL_{signal}_EXPORTER", "").strip() != "none"
        and (everything or _is_named_for(environ, signal))
        for signal in SIGNALS
    }
    if not any(on.values()):
        return None
    content = environ.get(CONTENT_VARIABLE)
    return TelemetryOptions(
        endpoint=config.otel("endpoint"),
        with_content=config.otel("content") is True if content is None else content.strip().lower() in CONTENT_WORDS,
        parent=None if is_server else of_environment(environ),
        traces=on["TRACES"],
        metrics=on["METRICS"],
    )
