"""From events to output: the sink that the options select, and the display of one run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock.events import Event, Replied, RunEnded
from penstock.sinks.text.display_mode import Look, look

if TYPE_CHECKING:
    from penstock.cli.options import DisplayOptions
    from penstock.cli.screen import Screen
    from penstock.config.settings import Config


RUN_FACTS = ("permission", "allow", "is_confined", "network", "not_confined", "has_rules")
"""Facts about a run that its first and last lines need. They have these names in `OutputContext`, in the `Guidance` of
the text, and in what a recording keeps for `penstock last`."""


def facts_of(source: object) -> dict[str, Any]:
    """Return these facts of an object that has them."""
    return {name: getattr(source, name) for name in RUN_FACTS}


def no_command(session_id: str) -> str:
    """Return "", for no command."""
    return ""


class OutputContext(msgspec.Struct, frozen=True):
    """Number of an output among several, and facts about its run that are not in the events."""

    several: bool = False
    number: int = 0
    """Number among several, from 0."""
    label: str = ""
    """Label of the run if there are several; "" for a single run."""
    label_width: int = 0
    """Characters of the longest label."""
    cwd: str | None = None
    resume: Callable[[str], str] = no_command
    """Function that returns the command to continue the conversation with this id; "" if there is none."""
    is_live: bool = False
    """True if the run happens now, so that its duration is by Penstock's clock."""
    is_confined: bool = False
    """True if the agent is confined."""
    network: str = ""
    """Network of the confined agent, in a few words; "" if it is that of the machine."""
    not_confined: str = ""
    """Reason why the agent is not confined although it should be; "" if there is none."""
    allow: str = ""
    """How to allow denied actions."""
    permission: str = ""
    """What the agent may do in this run, in a few words."""
    has_rules: bool = False
    """True if the configuration has rules for commands."""
    prompt: str = ""
    """Prompt of the run; "" if unknown."""
    said_before: set[str] | None = None
    """Facts in the first lines of the conversation's last run; None if the run is not one of a conversation."""
    began_ms: int | None = None
    """Time at which the run began, in milliseconds since 1970; None if unknown."""
    is_grouped: bool = False
    """True if the output is in a group of the log, which cannot have others in it."""


class Sink(Protocol):
    """Component that turns events into output."""

    def render(self, events: Iterable[Event]) -> str | bytes:
        """Return the output of these events."""
        ...

    def close(self) -> str | bytes:
        """Return the output that was held back."""
        ...


class SilentSink:
    """Sink without output, for users who want only the report on the stream."""

    def render(self, events: Iterable[Event]) -> str:
        """Return nothing."""
        return ""

    def close(self) -> str:
        """Return nothing."""
        return ""


class Showing:
    """Display of one run: its sink, and how the run ended."""

    def __init__(self, make_sink: Callable[[str | None], Sink]) -> None:
        """`make_sink` is called with the agent's name at the first events, since the output may depend on it."""
        self.ended: RunEnded | None = None
        self.replied: bool = False
        self._make_sink = make_sink
        self._sink: Sink | None = None
        self._agent: str | None = None
        self._due: dict[tuple[int, int], float] = {}  # times at which held text has to be written

    def render(self, events: list[Event], agent: str | None) -> str | bytes:
        """Return the output of these events of the agent."""
        if not events:
            return b""
        if self._sink is None or (self._agent is None and agent is not None):
            # Before the agent is known, there are only lines of text, so nothing is left open.
            self._sink, self._agent = self._make_sink(agent), agent
        if type(events[-1]) is RunEnded:
            self.ended = events[-1]
        self.replied = self.replied or Replied in map(type, events)
        return self._sink.render(events)

    def held_left(self, now: float) -> float | None:
        """Return the seconds until `flush_held` has to be called; None if the display holds no text back."""
        holds: dict[tuple[int, int], float] = getattr(self._sink, "holds", {})
        self._due = {key: self._due.get(key, now + seconds) for key, seconds in holds.items()}
        return max(0.0, min(self._due.values()) - now) if self._due else None

    def flush_held(self, now: float) -> str | bytes:
        """Return text that the display has held back for as long as it may."""
        if self.held_left(now) != 0:
            return b""
        from penstock.sinks.text.sink import TextSink

        return self._sink.flush_held() if isinstance(self._sink, TextSink) else b""

    def silent(self, seconds: int, agent: str | None, label: str) -> str | bytes:
        """Return a line about the seconds of silence; nothing if the output is for programs."""
        from penstock.sinks.text.sink import TextSink

        if self._sink is None:
            self._sink, self._agent = self._make_sink(agent), agent
        return self._sink.silent(seconds, label) if isinstance(self._sink, TextSink) else b""

    def pause(self) -> str | bytes:
        """Return the end of open output, so that something else may be written. More output may follow."""
        return self._sink.close() if self._sink is not None else b""


def make_sink(
    options: DisplayOptions, config: Config, agent: str | None, screen: Screen, context: OutputContext
) -> Sink:
    """Return the sink that the options select, with the settings of `agent`. A sink is imported only if it is used."""
    match options.to:
        case "ndjson":
            from penstock.sinks.ndjson import NdjsonSink

            return NdjsonSink()
        case "chunks":
            from penstock.sinks.chunks import ChunksSink

            return ChunksSink()
        case "reply":
            from penstock.sinks.reply import ReplySink
            from penstock.sinks.sanitize import clean_line

            return ReplySink(clean_line(context.label))
        case "atif":
            from penstock.sinks.atif import AtifSink

            return AtifSink(context.prompt, context.began_ms)
        case "health" | "json":
            return SilentSink()
        case "text":
            return _text_sink(options, config, agent, screen, context)
    raise AssertionError(f"--to {options.to} has no sink")


def _text_sink(
    options: DisplayOptions, config: Config, agent: str | None, screen: Screen, context: OutputContext
) -> Sink:
    from penstock.cli.screen import local_time
    from penstock.sinks.text.run_summary import Guidance
    from penstock.sinks.text.sink import TextSink

    streaming = config.streaming(agent)
    seen = decide(options, config, several=context.several)
    sink = TextSink(
        seen.mode,
        detail=options.detail or streaming.detail,
        color=seen.color,
        prefix=options.prefix or config.output("prefix"),
        ci=None if context.is_grouped else seen.ci,
        realtime=streaming.realtime,
        mark_partial=streaming.mark_partial,
        show_unknown=streaming.show_unknown,
        render=seen.render,
        hyperlinks=seen.hyperlinks,
        width=screen.width,
        cwd=context.cwd,
        label_number=context.number,
        label_width=context.label_width,
        guidance=Guidance(
            program=agent or "",
            resume=context.resume,
            local_time=local_time,
            is_live=context.is_live,
            said_before=context.said_before,
            **facts_of(context),
        ),
    )
    screen.add(sink)
    return sink


def decide(options: DisplayOptions, config: Config, *, several: bool) -> Look:
    """Return the look of the output, depending on flags, configuration and the kind of stdout."""
    mode = options.mode or config.output("mode")
    color = options.color or config.output("color")
    render = options.render or config.output("render")
    return look(os.environ, is_tty=os.isatty(1), mode=mode, color=color, render=render, several=several)
