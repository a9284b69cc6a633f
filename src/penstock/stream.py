"""Public core: bytes in, events out. It has no I/O, no clock and no threads of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec

from penstock.adapter import Adapter, Finishing
from penstock.agents import registry
from penstock.config.rules import RUN_NUMBER, STRING, SWITCH, Rules, check, instance_of, optional
from penstock.core import misfits
from penstock.core.decoding import (
    MAX_NOISE_CHARS,
    Decoded,
    Decoder,
    MalformedLine,
    Noise,
    half_formed,
    well_formed_values,
)
from penstock.core.framing import LONG_BYTES, Framer, Oversized, lines_of
from penstock.core.health import Health
from penstock.core.normalizer.normalizer import Normalizer
from penstock.core.normalizer.outcome import Exit
from penstock.core.unfamiliar import Unfamiliar, is_suspect
from penstock.events import Event
from penstock.updates import Answer, Failure, Question, Text, Traits, Unknown, Update
from penstock.updates import Notice as NoticeUpdate

MAX_UNDECIDED_LINES = 64
"""Number of lines, from the first that looks like an event, after which an undetected agent is read as `generic`.
Lines of plain text before it, a banner or warnings, are emitted at once."""

MAX_UNDECIDED_EVENTS = 4
"""Events among those lines: few, because a reader waits for their text."""

MAX_BEGINNING_BYTES = 64 * 1024
"""Bytes of the input that are kept to detect its format if it is not a stream of events: a format shows early."""

PIECE = 32
"""Number of lines that are decoded at once if some line of their region is no plain event."""

PLAIN_TEXT = "this is plain text, not a stream of events"
"""Reason of a run whose output had no event."""

ADAPTER_FAILED = "the adapter failed"
"""Beginning of the text of an event whose adapter raised an exception."""

STREAM_RULES: Rules = {
    "agent": instance_of((str, Adapter), 'the name of an agent, "auto", or an adapter'),
    "label": optional(STRING),
    "run": optional(RUN_NUMBER),
    "strict": SWITCH,
}
FEED_RULES: Rules = {
    "data": instance_of((bytes, bytearray, memoryview), 'bytes, as of a file that is opened with "rb"'),
    "at": optional(instance_of(int, "a whole number of milliseconds")),
    "exit": optional(instance_of(Exit, "a penstock.Exit")),
}


class Stream:
    """One run of one agent: framing, decoding, adapter and normalizer.

    Args:
        agent: a name of `penstock.agents.registry`, `auto` to detect it from the first lines, or an adapter.
        label: label of the agent in the events; by default the agent's name.
        run: number of the run in the events, if several runs share an output.
        strict: raise the errors of the adapter; else its event becomes `unknown` and is counted.

    Raises:
        UnknownAgent: there is no agent of this name.
        UsageError: an argument is not valid.
    """

    def __init__(
        self, agent: str | Adapter = "auto", *, label: str | None = None, run: int | None = None, strict: bool = False
    ) -> None:
        check({"agent": agent, "label": label, "run": run, "strict": strict}, STREAM_RULES)
        self.health: Health = Health()
        self.label = label
        self.joins_deltas: bool = False
        """True if consecutive deltas of a block may be one event: the same text, in a number of events that depends on
        the places at which the bytes are cut."""
        self._run = run
        self._strict = strict
        self._framer = Framer()
        self._normalizer = Normalizer(label or "generic", Traits(), run, self.health)
        self._adapter: Adapter | None = None
        self._held: list[bytes | Oversized] = []  # lines from which no agent was detected yet
        self._undecided = 0  # events among them
        self._beginning = b""  # beginning of the input, while nothing was held
        self._decoder = Decoder(Any)  # until the agent is known
        self.plain: bool = False
        self._is_guessed = False  # no agent was named, and none was detected
        """True if the input was text without any event. Known at the end."""
        self._ending = False  # the line that is read now is the last one, which has no newline
        self._named = ""  # the built-in agent that was named, until its route is known
        self._first: Any = None  # the first event of a named agent that no sign of it fits
        if isinstance(agent, str) and agent != "generic" and agent in registry.AGENTS:
            self._named = agent
        if agent != "auto":
            self._attach(registry.make(agent) if isinstance(agent, str) else agent)

    @property
    def agent(self) -> str | None:
        """Name of the agent; None while it is not detected."""
        return self._adapter.name if self._adapter is not None else None

    def feed(self, data: bytes, at: int | None = None) -> list[Event]:
        """Return the events of more bytes. `at`: milliseconds since the start, for their time stamps.

        The places at which the bytes are cut have no effect. No content of the bytes raises; after `close` a call does
        nothing.

        Raises:
            UsageError: `data` or `at` has another type.
        """
        if type(data) is not bytes or (at is not None and type(at) is not int):  # rarely true; chunks may be very small
            check({"data": data, "at": at}, FEED_RULES)
        if not self._normalizer.closed:
            self._normalizer.stamp(at)
            self.health.bytes += len(data)
            misfits.take()  # of other work in this thread
            self._read(self._framer.feed(data))
            self.health.count_misfits(misfits.take())
        return self._normalizer.drain()

    def apply(self, updates: Iterable[Update], at: int | None = None) -> list[Event]:
        """Return the events of updates that do not come from the agent: an answer to a question, a notice.

        `at` is as in `feed`.
        """
        if at is not None:
            self._normalizer.stamp(at)
        for update in updates:
            self._normalizer.apply(update)
        return self._normalizer.drain()

    def asked(self, id: str) -> Question | None:
        """Return the open question of this id as its adapter has read it: it has more than the event."""
        return self._normalizer.permissions.asked(id)

    def allow_same(self, id: str) -> Answer | None:
        """Return the answer for the agent if a person chose `SAME_COMMAND`; None if the question does not have it.

        `id` is that of an open question.
        """
        return self._normalizer.permissions.allow_same(id)

    @property
    def working(self) -> bool:
        """True if tasks are known to run in the background, so that more may follow an answer."""
        return self._normalizer.working

    def close(self, exit: Exit | None = None, at: int | None = None) -> list[Event]:
        """Return the events of the end, the last of them `run_ended`. A second call returns none.

        `exit`: end of the process, if known.

        Raises:
            UsageError: `exit` or `at` has another type.
        """
        check({"exit": exit, "at": at}, FEED_RULES)
        if not self._normalizer.closed:
            if at is not None:
                self._normalizer.stamp(at)
            misfits.take()
            self._ending = True
            self._read(self._framer.close())
            self._ending = False
            if self._adapter is None:
                self._decide("generic")
            if self._first is not None and _is_foreign(self.health):
                self._normalizer.apply(Failure(_unlike(self._first, self.agent or "")))
            if isinstance(self._adapter, Finishing):
                for update in self._adapter.finish():
                    self._normalizer.apply(update)
            self.health.count_misfits(misfits.take())
            if self._is_guessed and _is_foreign(self.health):
                from penstock.agents.detection import foreign_json

                self._normalizer.apply(NoticeUpdate("format", foreign_json(), "error"))
                self._normalizer.apply(Failure(foreign_json()))
            self._normalizer.close(exit)
            self._note_drift()
        return self._normalizer.drain()

    def _note_drift(self) -> None:
        """Compare the names in `_meta` with the table of the agent, if there are any."""
        names: Mapping[str, int] = getattr(self._adapter, "meta_names", {})
        if not names and not self.health.drift:
            return
        from penstock.agents import kinds

        known = kinds.of_adapter(self._adapter)
        if known is None:
            return
        self.health.recorded = known.versions
        new = {name: count for name, count in names.items() if name not in known.meta}
        self.health.drift += [Unfamiliar(f"_meta {name}", count, warns=is_suspect(name)) for name, count in new.items()]

    def _attach(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.label = self.label or adapter.name
        self._decoder = Decoder(adapter.wire)
        self._normalizer = Normalizer(self.label, adapter.traits, self._run, self.health, after=self._normalizer)

    def _read(self, regions: Sequence[bytes | Oversized]) -> None:
        if self._named:
            self._find_route(regions)
        for index, region in enumerate(regions):
            if self._adapter is None:
                self._detect([region, *regions[index + 1 :]])
                return
            if isinstance(region, Oversized):
                self.health.lines += 1
                self._read_slowly(region, self.health.lines)
            elif len(region) > LONG_BYTES or not self._read_batch(region):
                self._read_lines(region)
        if regions:
            self._normalizer.compact()

    def _read_batch(self, region: bytes) -> bool:
        """Read a region at once; return False, and do nothing, unless all its lines are plain events."""
        assert self._adapter is not None
        try:
            events = self._decoder.fast_lines(region)
        except Exception:
            return False
        count = len(BytesIO(region).readlines())  # twice as fast as `count`, which looks at each byte
        if len(events) != count:  # blank lines
            return False
        self.health.lines += count
        self._normalizer.apply_batch(events, region, self._adapter.read, self._failed, joins_deltas=self.joins_deltas)
        return True

    def _read_lines(self, region: bytes) -> None:
        """Read a region of which some lines are no plain events: in pieces, then line by line where they are."""
        is_one = region.find(b"\n") in (-1, len(region) - 1)  # a line of 50 MB is not copied
        lines = [region] if is_one and len(region) > LONG_BYTES else lines_of(region)
        if len(lines) <= PIECE:
            self._read_each(lines)
            return
        for first in range(0, len(lines), PIECE):
            piece = lines[first : first + PIECE]
            if not self._read_batch(b"\n".join([*piece, b""])):
                self._read_each(piece)

    def _read_each(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self.health.lines += 1
            try:
                event = self._decoder.fast(line)
            except Exception:
                self._read_slowly(line, self.health.lines)
                continue
            self._apply(Decoded(event, lenient=False), line)

    def _read_slowly(self, line: bytes | Oversized, number: int) -> None:
        """Read a line that the typed decoder rejects. `number`: its number in the stream."""
        for found in self._decoder.slow(line):
            if isinstance(found, Noise):
                self._normalizer.noise(found.text)
            elif isinstance(found, MalformedLine):
                reason = "the stream ended in the middle of it" if self._ending else found.reason
                self._normalizer.malformed(number, reason, found.excerpt)
            else:
                self._apply(found, line.head if isinstance(line, Oversized) else line)

    def _apply(self, found: Decoded, line: bytes) -> None:
        assert self._adapter is not None
        self.health.lenient_lines += found.lenient
        try:
            updates = self._adapter.read(found.event)
        except Exception as error:
            updates = self._failed(found.event, error)
        if not updates:
            self._normalizer.control()
        for update in updates:
            self._normalizer.apply(_cleaned(update) if found.lenient else update, line)

    def _failed(self, event: Any, error: Exception) -> Sequence[Update]:
        """Return the update for an event on which the adapter raised. It is not read again: adapters may keep ids."""
        if self._strict:
            raise error
        self.health.adapter_errors += 1
        return (Unknown(_kind(event), f"{ADAPTER_FAILED}: {error!r}"),)

    # --- detection of the agent ---

    def _find_route(self, regions: Sequence[bytes | Oversized]) -> None:
        """Select the reader of the route of the named agent by its first event; no sign of it fits: the usual one."""
        from penstock.agents.detection import candidates

        for region in regions:
            for line in [region] if isinstance(region, Oversized) else lines_of(region):
                event = next((it.event for it in Decoder(Any).slow(line) if isinstance(it, Decoded)), None)
                if event is None:
                    continue
                own, self._named = self._named, ""
                routes = registry.AGENTS[own].routes
                found = [*candidates(event)]
                ways = [it for it in found if it.partition("/")[0] == own or (it == "acp" and "acp" in routes)]
                if not found or not ways:
                    self._first = event
                elif own not in ways:
                    self._attach(registry.make(ways[0]))
                return

    def _detect(self, regions: Sequence[bytes | Oversized]) -> None:
        from penstock.agents.detection import detect  # not needed if the agent is named

        for index, region in enumerate(regions):
            lines: list[bytes | Oversized] = [region] if isinstance(region, Oversized) else [*lines_of(region)]
            for place, line in enumerate(lines):
                found = self._decoder.slow(line)
                if isinstance(line, bytes) and not self._held and _is_plain(found):
                    self._emit_plain(line)
                    continue
                self._held.append(line if isinstance(line, Oversized) else line + b"\n")
                event = next((each.event for each in found if isinstance(each, Decoded)), None)
                name = detect(event)
                self._undecided += event is not None
                if name is None and (self._undecided > MAX_UNDECIDED_EVENTS or len(self._held) >= MAX_UNDECIDED_LINES):
                    name = "generic"
                if name is not None:
                    self._decide(name)
                    rest = b"".join(line + b"\n" for line in lines[place + 1 :] if isinstance(line, bytes))
                    self._read([*([rest] if rest else []), *regions[index + 1 :]])
                    return

    def _emit_plain(self, line: bytes) -> None:
        """Emit a line of plain text at once: a reader may be waiting for it."""
        self.health.lines += 1
        if len(self._beginning) < MAX_BEGINNING_BYTES:
            self._beginning += line + b"\n"
        text = line.decode("utf-8", "replace").strip("\r\n\0\ufeff")
        while text.strip():
            space = text.rfind(" ", 1, MAX_NOISE_CHARS) if len(text) > MAX_NOISE_CHARS else 0
            end = space if space > 0 else MAX_NOISE_CHARS
            self._normalizer.noise(text[:end])
            text = text[end:]

    def _decide(self, name: str) -> None:
        held, self._held = self._held, []
        self._attach(registry.make(name))
        self._is_guessed = name == "generic"
        if name == "generic":
            from penstock.agents.detection import explain

            text = self._beginning + b"".join(line for line in held if isinstance(line, bytes))
            self.plain = bool(self._beginning.strip()) and not held
            advice = explain(text)
            if advice is not None:
                self._normalizer.apply(NoticeUpdate("format", advice, "error"))
            if advice is not None or self.plain:
                self._normalizer.apply(Failure(advice or PLAIN_TEXT))
        self._beginning = b""
        self._read(held)


def _unlike(event: Any, agent: str) -> str:
    """Return the reason of a run in which no line is of the agent that was named."""
    from penstock.agents.detection import detect, foreign_json

    name = detect(event)
    if name is not None and name.partition("/")[0] != agent:
        return f"no line of this stream is of {agent}; it looks like {name}: name that one, or none (--agent auto)"
    return f"no line of this stream is of {agent}: {foreign_json()}"


def _is_foreign(health: Health) -> bool:
    """Return whether there were events, and none of them meant anything."""
    understood = health.delta_events or health.complete_events or health.control_events
    return health.unknown_events > 0 and not understood


def _is_plain(found: Sequence[Decoded | Noise | MalformedLine]) -> bool:
    """Return whether a line is blank, or text that cannot be meant as an event."""
    return all(isinstance(each, Noise) for each in found)


def _cleaned(update: Update) -> Update:
    """Replace lone surrogates, except in the text of deltas, whose halves are joined over updates."""
    cleaned: Update = well_formed_values(update)
    if isinstance(update, Text) and isinstance(cleaned, Text):
        return msgspec.structs.replace(cleaned, text=half_formed(update.text))
    return cleaned


def _kind(event: Any) -> str:
    config = getattr(type(event), "__struct_config__", None)
    return str(config.tag) if config is not None and config.tag else type(event).__name__
