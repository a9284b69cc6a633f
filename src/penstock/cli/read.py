"""`penstock read`: passes each input to its own stream, its events to a sink, and the sink's text to the output."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.cli.console import Output, errors_output, notify_problem, sink_output
from penstock.cli.display import OutputContext, Showing, Sink, decide, make_sink
from penstock.cli.formats import Opening
from penstock.cli.report import report, status_of
from penstock.cli.screen import Screen
from penstock.stream import Stream

if TYPE_CHECKING:
    from penstock.adapter import Adapter
    from penstock.cli.options import ReadOptions
    from penstock.cli.parser import Parser
    from penstock.cli.sources import Chunk
    from penstock.config.settings import Config
    from penstock.core.health import Health
    from penstock.core.normalizer.outcome import Exit
    from penstock.events import RunEnded

MAX_PLAIN_BYTES = 10 * 1024 * 1024
"""Maximum bytes of plain text that `--to reply` passes on: far more than an agent writes, and little memory."""

READ_EXAMPLES = """\
examples:
  penstock read run.ndjson                       show a run that was saved
  penstock read *.ndjson --to ndjson             the events of many runs, numbered by `run`
  penstock read a.ndjson b.ndjson --follow       two agents that are at work now, each line with its label
  PROGRAM -p "…" | penstock --agent NAME --label L  a program that prints the stream of an agent

exit status:
  0 the run ended well · 1 the agent reported an error, or said nothing · 2 wrong usage
  3 the stream was cut off · 130 interrupted · of several inputs, the highest
"""


def command(args: list[str]) -> int:
    """Run `penstock read` and return the exit status."""
    from penstock.cli import sources as inputs

    options = _options(args)
    config = configured()
    screen = Screen(options)
    readings = make_readings(options, config, inputs.labels(options.files), screen)
    sources = inputs.open_sources(options.files, follow=options.follow)

    def replied(number: int) -> None:
        sources[number].replied = True

    with screen:
        return show(options, readings, inputs.chunks(sources, partial(held_left, readings)), replied)


def _options(args: list[str]) -> ReadOptions:
    if not args and not os.isatty(0):  # the usual case, `… | penstock`: no arguments to parse
        from penstock.cli.options import ReadOptions

        return ReadOptions(files=["-"])
    from penstock.cli.options import ReadOptions

    made = parser()
    options = ReadOptions(**vars(made.parse(args)))
    if not options.files and os.isatty(0):
        made.error("there is nothing to read: pipe an agent in, or name a file (- for what you type)")
    options.files = options.files or ["-"]
    if len(options.files) > 1:
        if options.label:
            made.error("--label names one input; several are named after their files")
        if options.to == "chunks":
            made.error("--to chunks reads one input, as chunks do not say whose they are; --to ndjson does")
    return options


def parser() -> Parser:
    """Return the parser of the command."""
    from penstock.cli.options import agent_flag, display_flags
    from penstock.cli.parser import Parser

    text = "Read the output of agents from files or stdin (-), and show it."
    made = Parser("read", text, examples=READ_EXAMPLES, arguments="[FILE …] [options]")
    made.add_argument("files", nargs="*", metavar="FILE", help="file with the output of an agent; - is stdin")
    agent_flag(made)
    display_flags(made)
    made.add_argument(
        "--follow", action="store_true", help="keep reading as the files grow, until their runs have replied"
    )
    return made


def configured() -> Config:
    """Return the configuration in force; print its problems to stderr as warnings."""
    from penstock.config import settings

    found = settings.load()
    for problem in found.problems:
        notify_problem(f"warning: {problem}")
    return found


def show(options: ReadOptions, readings: list[Reading], feed: Iterator[Chunk], replied: Callable[[int], None]) -> int:
    """Write the feed to stdout, then the report; return the exit status."""
    output = sink_output(options.to)
    interrupted = run(readings, feed, output, replied)
    report(readings, options, output, errors_output())
    return status_of(readings, interrupted=interrupted)


class Reading:
    """One input: its stream and its display."""

    def __init__(
        self,
        stream: Stream,
        make_sink: Callable[[str | None], Sink],
        *,
        source: str = "stdin",
        keep_plain: bool = False,
    ) -> None:
        """`make_sink` as in `Showing`; `source` is the name of the input in errors.

        `keep_plain`: text that is not a stream of events is written unchanged, at the end.
        """
        self.stream = stream
        self.showing: Showing = Showing(make_sink)
        self._opening = Opening(source)
        self._keep_plain = keep_plain
        self._plain = bytearray()
        self.exit: Exit | None = None
        """End of the agent's process, if it is known from a recording."""

    @property
    def name(self) -> str:
        """Name of this input for people."""
        return self.stream.label or self.stream.agent or "stream"

    @property
    def plain(self) -> bool:
        """Return whether the input is plain text and not a stream of events."""
        return self.stream.plain

    @property
    def health(self) -> Health:
        """Health of the stream."""
        return self.stream.health

    @property
    def ended(self) -> RunEnded | None:
        """Last event of the run; None until the run has ended."""
        return self.showing.ended

    def feed(self, data: bytes, at: int | None) -> str | bytes:
        """Return the output of these bytes.

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
        """Yield the output at the end of the input; nothing if called again."""
        if self.ended is None:
            yield self._show(self._opening.close(), at)
            events = self.stream.close(exit or self.exit, at)
            if self.stream.plain and self._plain:
                yield bytes(self._plain if self._plain.endswith(b"\n") else self._plain + b"\n")
            yield self.showing.render(events, self.stream.agent)
            yield self.showing.pause()


def make_readings(
    options: ReadOptions,
    config: Config,
    labels: Sequence[str | None],
    screen: Screen,
    adapter: str | Adapter | None = None,
) -> list[Reading]:
    """Return a reading for each input. `labels` are used if there are several.

    `adapter` reads a single input in place of the one that the options name.

    Raises:
        UnknownAgent: no agent has that name.
    """
    several = len(labels) > 1
    readings = []

    widest = max((len(label or "") for label in labels), default=0) if several else 0

    def sink(number: int, found: str | None) -> Sink:
        named = None if options.agent == "auto" else options.agent.partition("/")[0]
        label = labels[number - 1] if several else ""
        context = OutputContext(several=several, number=number - 1, label=label or "", label_width=widest)
        return make_sink(options, config, named or found, screen, context)

    for number, label in enumerate(labels, 1):
        agent, own_label = resolve_agent(options.agent, config)
        chosen = label if several else options.label or own_label
        stream = Stream(adapter or agent, label=chosen, run=number if several else None)
        # The text of a log is written in whole lines, so single deltas are not visible.
        stream.joins_deltas = options.to == "text" and decide(options, config, several=several).mode == "none"
        source = options.files[number - 1] if number <= len(options.files) else "-"
        readings.append(
            Reading(
                stream,
                partial(sink, number),
                source="stdin" if source == "-" else source,
                keep_plain=options.to == "reply",
            )
        )
    return readings


def resolve_agent(name: str, config: Config) -> tuple[str | Adapter, str | None]:
    """Return the reader of an agent's output (an adapter, or "auto"), and the agent's configured label.

    Raises:
        UnknownAgent: no agent has that name.
    """
    if name == "auto":
        return name, None
    from penstock.agents import registry

    own = config.agent(name.partition("/")[0])
    reader = own.adapter or name
    if name in config.agents() and reader == name and name not in registry.names():
        reader = "generic"  # configured under a name of its own, which no other agent has
    adapter: str | Adapter
    if own.events and reader == "generic":
        from penstock.agents.generic.adapter import Generic

        adapter = Generic(own.events)
    elif reader in registry.AGENTS:
        adapter = reader  # the stream finds the route
    else:
        adapter = registry.make(reader)
    return adapter, own.label or (name if reader != name else None)


def held_left(readings: list[Reading]) -> float | None:
    """Return the seconds until `flush_held` has to be called; None if no text is held back."""
    now = time.monotonic()
    return min((left for reading in readings if (left := reading.showing.held_left(now)) is not None), default=None)


def flush_held(readings: list[Reading], output: Output) -> None:
    """Write the text that was held back for as long as it may."""
    for reading in readings:
        output.write(reading.showing.flush_held(time.monotonic()))


def run(readings: list[Reading], feed: Iterator[Chunk], output: Output, replied: Callable[[int], None]) -> bool:
    """Write the whole feed to the output; return whether it was interrupted by Ctrl-C.

    `replied` is called with the number of an input whose agent has replied.

    Raises:
        BrokenPipeError: the reader of the output has closed the pipe.
        TransportError: the output cannot be written.
    """
    try:
        for number, data, at in feed:
            reading = readings[number]
            if data == b"":
                flush_held(readings, output)
            elif data is None:
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

    # A second Ctrl-C ends the process at once, even if the output is blocked.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for reading in readings:
        for piece in reading.close(Exit(cancelled=True)):
            output.write(piece)
