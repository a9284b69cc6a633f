"""`penstock read`: each input to its own stream, its events to a sink, what the sink makes of them to the output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cli.console import Output, notify_problem, stdout_encoding
from penstock.cli.display import Showing, Sink, make_sink
from penstock.cli.formats import Opening
from penstock.cli.report import report, status_of
from penstock.stream import Stream

if TYPE_CHECKING:
    from penstock.adapter import Adapter
    from penstock.cli.options import ReadOptions
    from penstock.cli.sources import Chunk
    from penstock.config.settings import Config
    from penstock.core.health import Health
    from penstock.core.normalizer.outcome import Exit
    from penstock.events import RunEnded

MAX_PLAIN_BYTES = 10 * 1024 * 1024
"""Bytes of plain text that `--to reply` passes on: far more than an agent writes, and little memory."""

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
    """Run `penstock read`; the exit status."""
    from penstock.cli import sources as inputs

    options = _options(args)
    config = configured()
    readings = make_readings(options, config, inputs.labels(options.files))
    sources = inputs.open_sources(options.files, follow=options.follow)

    def replied(number: int) -> None:
        sources[number].replied = True

    return show(options, readings, inputs.chunks(sources), replied)


def _options(args: list[str]) -> ReadOptions:
    if not args and not os.isatty(0):  # the usual way, `… | penstock`: no words to read
        from penstock.cli.options import ReadOptions

        return ReadOptions(files=["-"])
    from penstock.cli.options import ReadOptions, agent_flag, display_flags
    from penstock.cli.parser import Parser

    text = "Read the output of agents from files or stdin (-), and show it."
    parser = Parser("read", text, examples=READ_EXAMPLES, arguments="[FILE …] [options]")
    parser.add_argument("files", nargs="*", metavar="FILE", help="file with the output of an agent; - is stdin")
    agent_flag(parser)
    display_flags(parser)
    parser.add_argument(
        "--follow", action="store_true", help="keep reading as the files grow, until their runs have replied"
    )
    options = ReadOptions(**vars(parser.parse(args)))
    if not options.files and os.isatty(0):
        parser.error("there is nothing to read: pipe an agent in, or name a file (- for what you type)")
    options.files = options.files or ["-"]
    if len(options.files) > 1:
        if options.label:
            parser.error("--label names one input; several are called after their files")
        if options.to == "chunks":
            parser.error("--to chunks reads one input, as chunks do not say whose they are; --to ndjson does")
    return options


def configured() -> Config:
    """The configuration in force; its problems are warnings on stderr."""
    from penstock.config import settings

    found = settings.load()
    for problem in found.problems:
        notify_problem(f"warning: {problem}")
    return found


def show(options: ReadOptions, readings: list[Reading], feed: Iterator[Chunk], replied: Callable[[int], None]) -> int:
    """Bring the feed to stdout and write the report; the exit status."""
    # Programs get UTF-8, as JSON asks; a person's terminal gets what it can show.
    output = Output(1, stdout_encoding() if options.to == "text" else "utf-8")
    interrupted = run(readings, feed, output, replied)
    report(readings, options, output, Output(2, stdout_encoding()))
    return status_of(readings, interrupted=interrupted)


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
    def plain(self) -> bool:
        """Whether the input is plain text and no stream of events."""
        return self.stream.plain

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


def make_readings(options: ReadOptions, config: Config, labels: Sequence[str | None]) -> list[Reading]:
    """A reading for each input. `labels` are used where there are several.

    Raises:
        UnknownAgent: there is none of that name.
    """
    several = len(labels) > 1
    readings = []

    def sink(found: str | None) -> Sink:
        named = None if options.agent == "auto" else options.agent.partition("/")[0]
        return make_sink(options, config, named or found, several=several)

    for number, label in enumerate(labels, 1):
        agent, own_label = resolve_agent(options.agent, config)
        chosen = label if several else options.label or own_label
        stream = Stream(agent, label=chosen, run=number if several else None)
        source = options.files[number - 1] if number <= len(options.files) else "-"
        readings.append(
            Reading(
                stream,
                sink,
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


def run(readings: list[Reading], feed: Iterator[Chunk], output: Output, replied: Callable[[int], None]) -> bool:
    """Bring the whole feed to the output; whether it was interrupted by Ctrl-C.

    `replied` is called with the number of an input whose agent has given its answer.

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
