"""The public core: bytes in, events out. No input or output of its own, no clock, no threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from penstock.adapter import Adapter, Finishing
from penstock.agents import registry
from penstock.config.rules import RUN_NUMBER, STRING, SWITCH, Rules, check, instance_of, optional
from penstock.core.decoding import (
    MAX_NOISE_CHARS,
    Decoded,
    Decoder,
    MalformedLine,
    Noise,
    half_formed,
    well_formed_values,
)
from penstock.core.framing import Framer, Oversized, lines_of
from penstock.core.health import Health
from penstock.core.normalizer.normalizer import Exit, Session
from penstock.events import Event
from penstock.updates import Failure, Text, Traits, Unknown, Update
from penstock.updates import Notice as NoticeUpdate

MAX_UNDECIDED_LINES = 64
"""How many lines may pass before an agent that no line gave away is read as `generic`: from the first on that wanted
to be an event. Lines of plain text before it, a banner or warnings, are shown at once."""

MAX_UNDECIDED_EVENTS = 4
"""How many of them may be events: somebody waits for what they say."""

MAX_BEGINNING_BYTES = 64 * 1024
"""How much of the input is kept to tell what it is, where it is no stream of events: its format shows at once."""

PLAIN_TEXT = "this is plain text and no stream of events"
"""Why a run failed whose output had no event."""

BATCH_BYTES = 1024 * 1024
"""The largest region that is decoded at once: its events are all in memory together."""

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
    """One run of one agent: framing, decoding, adapter and session.

    Args:
        agent: a name of `penstock.agents.registry`, `auto` to let the first lines tell, or an adapter of your own.
        label: how its events name it; by default the agent's name.
        run: a number for its events, where several runs share an output.
        strict: let an error of the adapter out; else the event is told as unknown and counted.

    Raises:
        UnknownAgent: there is no agent of this name.
        UsageError: an argument is of no use.
    """

    def __init__(
        self, agent: str | Adapter = "auto", *, label: str | None = None, run: int | None = None, strict: bool = False
    ) -> None:
        check({"agent": agent, "label": label, "run": run, "strict": strict}, STREAM_RULES)
        self.health = Health()
        self.label = label
        self._run = run
        self._strict = strict
        self._framer = Framer()
        self._session = Session(label or "generic", Traits(), run, self.health)
        self._adapter: Adapter | None = None
        self._held: list[bytes | Oversized] = []  # lines that no agent was detected from yet
        self._undecided = 0  # events among them
        self._beginning = b""  # of the input, while nothing was held
        self._decoder = Decoder(Any)  # until the agent is known
        self.plain = False
        """The input was text, and none of it an event. Known at the end."""
        self._ending = False  # what is read now is a last line that was not ended
        self._closed = False
        if agent != "auto":
            self._attach(registry.make(agent) if isinstance(agent, str) else agent)

    @property
    def agent(self) -> str | None:
        """The agent's name; None while it is not detected."""
        return self._adapter.name if self._adapter is not None else None

    def feed(self, data: bytes, at: int | None = None) -> list[Event]:
        """The events that more bytes bring. `at`: milliseconds since the start, for their time stamps.

        How the bytes are cut makes no difference. No bytes raise; after `close` nothing happens.

        Raises:
            UsageError: it is something else than bytes.
        """
        if type(data) is not bytes or (at is not None and type(at) is not int):  # seldom: chunks may be very small
            check({"data": data, "at": at}, FEED_RULES)
        out: list[Event] = []
        if not self._closed:
            self._session.at = at
            self.health.bytes += len(data)
            self._read(self._framer.feed(data), out)
        return out

    def tell(self, updates: Iterable[Update], at: int | None = None) -> list[Event]:
        """The events of updates that come from the shell: an answer that was given, a notice of its own."""
        out: list[Event] = []
        if not self._closed:
            self._session.at = at if at is not None else self._session.at
            for update in updates:
                self._session.apply(update, out)
        return out

    @property
    def working(self) -> bool:
        """Whether work is known to go on beside the run, so that more may follow an answer."""
        return self._session.working

    def close(self, exit: Exit | None = None, at: int | None = None) -> list[Event]:
        """The events that the end brings, the last of them `run_ended`. A second call gives none.

        `exit`: how the process ended, where the shell knows.

        Raises:
            UsageError: `exit` or `at` is something else.
        """
        check({"exit": exit, "at": at}, FEED_RULES)
        out: list[Event] = []
        if not self._closed:
            self._session.at = at if at is not None else self._session.at
            self._ending = True
            self._read(self._framer.close(), out)
            self._ending = False
            if self._adapter is None:
                self._decide("generic", out)
            if isinstance(self._adapter, Finishing):
                for update in self._adapter.finish():
                    self._session.apply(update, out)
            self._session.close(exit, out)
            self._closed = True
        return out

    def _attach(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.label = self.label or adapter.name
        self._decoder = Decoder(adapter.wire)
        at = self._session.at
        self._session = Session(self.label, adapter.traits, self._run, self.health)
        self._session.at = at

    def _read(self, regions: Sequence[bytes | Oversized], out: list[Event]) -> None:
        for index, region in enumerate(regions):
            if self._adapter is None:
                self._detect([region, *regions[index + 1 :]], out)
                return
            if isinstance(region, Oversized):
                self.health.lines += 1
                self._read_slowly(region, self.health.lines, out)
            elif len(region) > BATCH_BYTES or not self._read_batch(region, out):
                self._read_lines(region, out)
        if regions:
            self._session.compact()

    def _read_batch(self, region: bytes, out: list[Event]) -> bool:
        """Read a region at once; False, and nothing done, unless all its lines are plain events."""
        assert self._adapter is not None
        try:
            events = self._decoder.fast_lines(region)
        except Exception:
            return False
        count = region.count(b"\n")
        if len(events) != count:  # blank lines, or none at the end
            return False
        read, session = self._adapter.read, self._session
        batch: list[Sequence[Update]] = []
        for event in events:
            try:
                batch.append(read(event))
            except Exception as error:
                batch.append(self._failed(event, error))
        session.line = lambda: lines_of(region)[session.batch_index]
        self.health.lines += count
        session.apply_batch(batch, out)
        return True

    def _read_lines(self, region: bytes, out: list[Event]) -> None:
        """Read a region line by line."""
        for line in lines_of(region):
            self.health.lines += 1
            try:
                event = self._decoder.fast(line)
            except Exception:
                self._read_slowly(line, self.health.lines, out)
                continue
            self._session.line = lambda line=line: line  # type: ignore[misc]
            self._take(Decoded(event, lenient=False), out)

    def _read_slowly(self, line: bytes | Oversized, number: int, out: list[Event]) -> None:
        session = self._session
        raw = line.head if isinstance(line, Oversized) else line
        session.line = lambda: raw
        for found in self._decoder.slow(line):
            if isinstance(found, Noise):
                session.noise(found.text, out)
            elif isinstance(found, MalformedLine):
                reason = "the stream ended in the middle of it" if self._ending else found.reason
                session.malformed(number, reason, found.excerpt, out)
            else:
                self._take(found, out)

    def _take(self, found: Decoded, out: list[Event]) -> None:
        assert self._adapter is not None
        self.health.lenient_lines += found.lenient
        try:
            updates = self._adapter.read(found.event)
        except Exception as error:
            updates = self._failed(found.event, error)
        if not updates:
            self._session.control()
        for update in updates:
            self._session.apply(_cleaned(update) if found.lenient else update, out)

    def _failed(self, event: Any, error: Exception) -> Sequence[Update]:
        """What an event is told as that the adapter raised for. It is not read again: adapters may keep ids."""
        if self._strict:
            raise error
        self.health.adapter_errors += 1
        return (Unknown(_kind(event), f"the adapter failed: {error!r}"),)

    # --- which agent is it? ---

    def _detect(self, regions: Sequence[bytes | Oversized], out: list[Event]) -> None:
        from penstock.agents.detection import detect  # not needed where the agent is named

        for index, region in enumerate(regions):
            lines: list[bytes | Oversized] = [region] if isinstance(region, Oversized) else [*lines_of(region)]
            for place, line in enumerate(lines):
                found = self._decoder.slow(line)
                if isinstance(line, bytes) and not self._held and _is_plain(found):
                    self._tell_plain(line, out)
                    continue
                self._held.append(line if isinstance(line, Oversized) else line + b"\n")
                event = next((each.event for each in found if isinstance(each, Decoded)), None)
                name = detect(event)
                self._undecided += event is not None
                if name is None and (self._undecided > MAX_UNDECIDED_EVENTS or len(self._held) >= MAX_UNDECIDED_LINES):
                    name = "generic"
                if name is not None:
                    self._decide(name, out)
                    rest = b"".join(line + b"\n" for line in lines[place + 1 :] if isinstance(line, bytes))
                    self._read([*([rest] if rest else []), *regions[index + 1 :]], out)
                    return

    def _tell_plain(self, line: bytes, out: list[Event]) -> None:
        """Show a line of plain text at once: somebody may be waiting for it."""
        self.health.lines += 1
        if len(self._beginning) < MAX_BEGINNING_BYTES:
            self._beginning += line + b"\n"
        text = line.decode("utf-8", "replace").strip("\r\n\0\ufeff")
        while text.strip():
            space = text.rfind(" ", 1, MAX_NOISE_CHARS) if len(text) > MAX_NOISE_CHARS else 0
            end = space if space > 0 else MAX_NOISE_CHARS
            self._session.noise(text[:end], out)
            text = text[end:]

    def _decide(self, name: str, out: list[Event]) -> None:
        held, self._held = self._held, []
        self._attach(registry.make(name))
        if name == "generic":
            from penstock.agents.detection import explain

            text = self._beginning + b"".join(line for line in held if isinstance(line, bytes))
            self.plain = bool(self._beginning.strip()) and not held
            advice = explain(text)
            if advice is not None:
                self._session.apply(NoticeUpdate("format", advice, "error"), out)
            if advice is not None or self.plain:
                self._session.apply(Failure(advice or PLAIN_TEXT), out)
        self._beginning = b""
        self._read(held, out)


def _is_plain(found: Sequence[Decoded | Noise | MalformedLine]) -> bool:
    """Whether a line is blank, or text that does not even want to be an event."""
    return all(isinstance(each, Noise) for each in found)


def _cleaned(update: Update) -> Update:
    """No lone surrogates, but in the text of deltas: there halves are joined over updates."""
    cleaned: Update = well_formed_values(update)
    if isinstance(update, Text) and isinstance(cleaned, Text):
        return msgspec.structs.replace(cleaned, text=half_formed(update.text))
    return cleaned


def _kind(event: Any) -> str:
    config = getattr(type(event), "__struct_config__", None)
    return str(config.tag) if config is not None and config.tag else type(event).__name__
