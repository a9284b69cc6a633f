"""The reading shell: each input to its own stream, its events to a sink, what the sink says to the output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from penstock.adapter import Allow
from penstock.cli.console import Output
from penstock.cli.formats import Opening
from penstock.events import Event, Replied, RunEnded
from penstock.sinks.text.display_mode import Color, Look, look
from penstock.stream import Stream

if TYPE_CHECKING:
    from penstock.adapter import Adapter
    from penstock.cli.sources import Chunk
    from penstock.config.settings import Config, Detail
    from penstock.core.health import Health
    from penstock.core.normalizer.outcome import Exit

OK, FAILED, USAGE, CUT_OFF, TIMED_OUT, INTERRUPTED = 0, 1, 2, 3, 124, 130
"""Exit statuses; `docs/exit-status.md` says when."""

STATUS_OF = {
    "ok": OK,
    "error": FAILED,
    "empty": FAILED,
    "timed_out": TIMED_OUT,
    "cut_off": CUT_OFF,
    "cancelled": INTERRUPTED,
}


MAX_PLAIN_BYTES = 10 * 1024 * 1024
"""How much plain text `--to reply` passes on: far more than an agent says, and little memory."""


class Options(msgspec.Struct):
    """What the command line asked for; None: what is configured."""

    files: list[str] = []
    agent: str = "auto"
    label: str | None = None
    to: str = "text"
    mode: Literal["auto", "full", "basic", "none"] | None = None
    detail: Detail | None = None
    color: Color | None = None
    prefix: Literal["agent", "kind", "both", "none"] | None = None
    follow: bool = False
    health: bool = False
    speed: float = 1.0


class RunOptions(Options):
    """What `penstock run` was asked for, besides."""

    agents: str = ""
    prompt: str | None = None
    stdin: Literal["auto", "never"] = "auto"
    model: str | None = None
    session: str | None = None
    fork: bool = False
    route: str | None = None
    allow: Allow = "default"
    cwd: str | None = None
    timeout: float | None = None
    idle_timeout: float | None = None
    record: str | None = None
    args: list[str] = []
    env: list[str] = []
    trust: bool = False


class Sink(Protocol):
    """What turns events into output."""

    def render(self, events: Iterable[Event]) -> str | bytes:
        """What these events put out now."""
        ...

    def close(self) -> str | bytes:
        """What was held back."""
        ...


class SilentSink:
    """Puts nothing out: the report on the stream is what is wanted."""

    def render(self, events: Iterable[Event]) -> str:
        """Nothing."""
        return ""

    def close(self) -> str:
        """Nothing."""
        return ""


class Showing:
    """Events on their way to the output: their sink, and how the run ended."""

    def __init__(self, make_sink: Callable[[str | None], Sink]) -> None:
        """`make_sink` gets the agent's name when the first events are there, since its look may depend on it."""
        self.ended: RunEnded | None = None
        self.replied = False
        self._make_sink = make_sink
        self._sink: Sink | None = None
        self._agent: str | None = None

    def render(self, events: list[Event], agent: str | None) -> str | bytes:
        """What these events of the agent put out."""
        if not events:
            return b""
        if self._sink is None or (self._agent is None and agent is not None):
            # Before the agent is known there are lines of text alone, which leave nothing open.
            self._sink, self._agent = self._make_sink(agent), agent
        if type(events[-1]) is RunEnded:
            self.ended = events[-1]
        self.replied = self.replied or any(type(event) is Replied for event in events)
        return self._sink.render(events)

    def pause(self) -> str | bytes:
        """End what is open, so that somebody else may write. More may follow."""
        return self._sink.close() if self._sink is not None else b""


class Reading:
    """One input on its way to the output: its stream, and what is shown of it."""

    def __init__(
        self,
        stream: Stream,
        make_sink: Callable[[str | None], Sink],
        *,
        source: str = "stdin",
        keep_plain: bool = False,
    ) -> None:
        """`make_sink` as in `Showing`; `source` is what errors call the input.

        `keep_plain`: text that is no stream of events is put out as it came, at the end.
        """
        self.stream = stream
        self.showing = Showing(make_sink)
        self._opening = Opening(source)
        self._keep_plain = keep_plain
        self._plain = bytearray()
        self.exit: Exit | None = None
        """How the agent's process ended, where that is known of a stream that was kept."""

    @property
    def name(self) -> str:
        """What people call this input."""
        return self.stream.label or self.stream.agent or "stream"

    @property
    def health(self) -> Health:
        """How the stream is."""
        return self.stream.health

    @property
    def ended(self) -> RunEnded | None:
        """The last event, once it has come."""
        return self.showing.ended

    def feed(self, data: bytes, at: int | None) -> str | bytes:
        """What these bytes put out.

        Raises:
            UsageError: the input is binary data.
        """
        return self._show(self._opening.feed(data), at)

    def _show(self, data: bytes, at: int | None) -> str | bytes:
        events = self.stream.feed(data, at)
        if self._keep_plain and self.stream.agent is None and len(self._plain) < MAX_PLAIN_BYTES:
            self._plain += data
        return self.showing.render(events, self.stream.agent)

    def close(self, exit: Exit | None = None, at: int | None = None) -> Iterator[str | bytes]:
        """What the end puts out. Again: nothing."""
        if self.ended is None:
            yield self._show(self._opening.close(), at)
            events = self.stream.close(exit or self.exit, at)
            if self.stream.plain and self._plain:
                yield bytes(self._plain if self._plain.endswith(b"\n") else self._plain + b"\n")
            yield self.showing.render(events, self.stream.agent)
            yield self.showing.pause()


class Shown(Protocol):
    """What is reported on after its end: an input, or a run."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def health(self) -> Health:
        """How its stream is."""
        ...

    @property
    def ended(self) -> RunEnded | None:
        """Its last event."""
        ...


def make_readings(options: Options, config: Config, labels: Sequence[str | None]) -> list[Reading]:
    """A reading for each input. `labels` are used where there are several.

    Raises:
        UnknownAgent: there is none of that name.
    """
    several = len(labels) > 1
    readings = []
    for number, label in enumerate(labels, 1):
        agent, own_label = resolve_agent(options.agent, config)
        chosen = label if several else options.label or own_label
        stream = Stream(agent, label=chosen, run=number if several else None)
        source = options.files[number - 1] if number <= len(options.files) else "-"
        readings.append(
            Reading(
                stream,
                lambda name: make_sink(options, config, name, several=several),
                source="stdin" if source == "-" else source,
                keep_plain=options.to == "reply",
            )
        )
    return readings


def resolve_agent(name: str, config: Config) -> tuple[str | Adapter, str | None]:
    """What reads an agent of this name (an adapter, or "auto"), and the label it is configured to have.

    Raises:
        UnknownAgent: there is none of that name.
    """
    if name == "auto":
        return name, None
    from penstock.agents import registry

    own = config.agent(name.partition("/")[0])
    reader = own.adapter or name
    if name in config.agents() and reader == name and name not in registry.names():
        reader = "generic"  # configured under a name of its own, and nobody else's
    if own.events and reader == "generic":
        from penstock.agents.generic.adapter import Generic

        adapter: Adapter = Generic(own.events)
    else:
        adapter = registry.make(reader)
    return adapter, own.label or (name if reader != name else None)


def make_sink(options: Options, config: Config, agent: str | None, *, several: bool) -> Sink:
    """The sink that was asked for. Each is imported only where it is used."""
    match options.to:
        case "ndjson":
            from penstock.sinks.ndjson import NdjsonSink

            return NdjsonSink()
        case "chunks":
            from penstock.sinks.chunks import ChunksSink

            return ChunksSink()
        case "reply":
            from penstock.sinks.reply import ReplySink

            return ReplySink()
        case "health":
            return SilentSink()
    from penstock.sinks.text.sink import TextSink

    streaming = config.streaming(agent if options.agent == "auto" else options.agent.partition("/")[0])
    seen = decide(options, config, several=several)
    return TextSink(
        seen.mode,
        detail=options.detail or streaming.detail,
        color=seen.color,
        prefix=options.prefix or config.output("prefix"),
        ci=seen.ci,
        realtime=streaming.realtime,
        mark_partial=streaming.mark_partial,
        show_unknown=streaming.show_unknown,
    )


def decide(options: Options, config: Config, *, several: bool) -> Look:
    """The look of the output, of flags, configuration and what stdout is."""
    mode = options.mode or config.output("mode")
    color = options.color or config.output("color")
    return look(os.environ, is_tty=os.isatty(1), mode=mode, color=color, several=several)


def run(readings: list[Reading], feed: Iterator[Chunk], output: Output, replied: Callable[[int], None]) -> bool:
    """Bring the whole feed to the output; whether it was interrupted by Ctrl-C.

    `replied` is told the number of an input whose agent has given its answer.

    Raises:
        BrokenPipeError: nobody reads the output any more.
        TransportError: the output cannot be written.
    """
    try:
        for number, data, at in feed:
            reading = readings[number]
            if data is None:
                for piece in reading.close(None, at):
                    output.write(piece)
            elif piece := reading.feed(data, at):
                output.write(piece)
                if reading.showing.replied:
                    replied(number)
    except KeyboardInterrupt:
        _end_cleanly(readings, output)
        return True
    return False


def _end_cleanly(readings: list[Reading], output: Output) -> None:
    import signal

    from penstock.core.normalizer.outcome import Exit

    # Who presses again wants out at once, also where the output is stuck.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for reading in readings:
        for piece in reading.close(Exit(cancelled=True)):
            output.write(piece)


def report(shown: Sequence[Shown], options: Options, output: Output, errors: Output) -> None:
    """What is told after the end: failures that the sink does not show, warnings, and the report if asked for."""
    for reading in shown:
        health, ended = reading.health, reading.ended
        plain = isinstance(reading, Reading) and reading.stream.plain
        if plain:
            from penstock.agents.detection import plain_text

            errors.write(f"penstock: {plain_text()}\n")
        if options.to == "health":
            line = {"agent": reading.name, "outcome": ended.outcome if ended else "cancelled", **health.report()}
            output.write(msgspec.json.encode(line) + b"\n")
        elif options.to in ("reply", "chunks") and not plain and ended is not None and ended.outcome != "ok":
            from penstock.sinks.sanitize import clean_line

            reason = f": {clean_line(' '.join(ended.reason.split()))}" if ended.reason else ""
            errors.write(f"penstock: {reading.name}: {ended.outcome.replace('_', ' ')}{reason}\n")
        if options.health:
            errors.write(health.summary(reading.name) + "\n")
        elif health.warnings and options.to != "health":
            errors.write(f"penstock: {reading.name}: {'; '.join(health.warnings)}\n")


def status_of(shown: Sequence[Shown], *, interrupted: bool) -> int:
    """The exit status: of several the highest, which is the worst."""
    if interrupted:
        return INTERRUPTED
    return max((STATUS_OF[reading.ended.outcome] for reading in shown if reading.ended), default=OK)
