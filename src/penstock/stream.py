"""The public core: bytes in, events out. No input or output of its own, no clock, no threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock import registry
from penstock.agents.base import Adapter
from penstock.contract.health import Health
from penstock.contract.session import Exit, Session
from penstock.decoding import Decoded, Decoder, Malformed, Noise, half_formed, well_formed_values
from penstock.events import Event
from penstock.framing import Framer, Oversized
from penstock.updates import Text, Traits, Unknown, Update
from penstock.updates import Notice as NoticeUpdate

MAX_UNDECIDED_LINES = 64
"""How many lines may pass before an agent that no line gave away is read as `generic`."""


class Stream:
    """One run of one agent: framing, decoding, adapter and session.

    Args:
        agent: a name of `penstock.registry`, `auto` to let the first lines tell, or an adapter of your own.
        label: how its events name it; by default the agent's name.
        run: a number for its events, where several runs share an output.
        strict: let an error of the adapter out; else the event is told as unknown and counted.

    Raises:
        UnknownAgent: there is no agent of this name.
    """

    def __init__(
        self, agent: str | Adapter = "auto", *, label: str | None = None, run: int | None = None, strict: bool = False
    ) -> None:
        self.health = Health()
        self.label = label
        self._run = run
        self._strict = strict
        self._framer = Framer()
        self._session = Session(label or "agent", Traits(), run, self.health)
        self._adapter: Adapter | None = None
        self._held: list[bytes | Oversized] = []  # lines that no agent was detected from yet
        self._closed = False
        if agent != "auto":
            self._attach(registry.make(agent) if isinstance(agent, str) else agent)

    @property
    def agent(self) -> str | None:
        """The agent's name; None while it is not detected."""
        return self._adapter.name if self._adapter is not None else None

    def feed(self, data: bytes, at: int | None = None) -> list[Event]:
        """The events that more bytes bring. `at`: milliseconds since the start, for their time stamps.

        How the bytes are cut makes no difference. Nothing raises; after `close` nothing happens.
        """
        out: list[Event] = []
        if not self._closed:
            self._session.at = at
            self.health.bytes += len(data)
            self._read(self._framer.feed(data), out)
        return out

    def close(self, exit: Exit | None = None, at: int | None = None) -> list[Event]:
        """The events that the end brings, the last of them `run_ended`. A second call gives none.

        `exit`: how the process ended, where the shell knows.
        """
        out: list[Event] = []
        if not self._closed:
            self._session.at = at if at is not None else self._session.at
            self._read(self._framer.close(), out)
            if self._adapter is None:
                self._decide("generic", out)
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

    def _read(self, lines: Sequence[bytes | Oversized], out: list[Event]) -> None:
        if self._adapter is None:
            self._detect(lines, out)
            return
        session, number = self._session, self.health.lines
        decode, read, apply = self._decoder.fast, self._adapter.read, session.apply
        self.health.lines += len(lines)
        for line in lines:
            number += 1
            try:
                event = decode(line)  # type: ignore[arg-type]  # an oversized line is refused like any bad one
                session.line = line  # type: ignore[assignment]
                updates = read(event)
            except Exception:
                self._read_slowly(line, number, out)
                continue
            if updates:
                for update in updates:
                    apply(update, out)
            else:
                session.control()

    def _read_slowly(self, line: bytes | Oversized, number: int, out: list[Event]) -> None:
        session = self._session
        session.line = line.head if isinstance(line, Oversized) else line
        for found in self._decoder.slow(line):
            if isinstance(found, Noise):
                session.noise(found.text, out)
            elif isinstance(found, Malformed):
                session.malformed(number, found.reason, found.excerpt, out)
            else:
                self._take(found, out)

    def _take(self, found: Decoded, out: list[Event]) -> None:
        assert self._adapter is not None
        self.health.lenient_lines += found.lenient
        try:
            updates = self._adapter.read(found.event)
        except Exception as error:
            if self._strict:
                raise
            self.health.adapter_errors += 1
            updates = [Unknown(_kind(found.event), f"the adapter failed: {error!r}")]
        if not updates:
            self._session.control()
        for update in updates:
            self._session.apply(_cleaned(update) if found.lenient else update, out)

    # --- which agent is it? ---

    def _detect(self, lines: Sequence[bytes | Oversized], out: list[Event]) -> None:
        from penstock.detection import detect  # not needed where the agent is named

        for index, line in enumerate(lines):
            self._held.append(line)
            name = detect(_peek(line))
            if name is None and len(self._held) >= MAX_UNDECIDED_LINES:
                name = "generic"
            if name is not None:
                self._decide(name, out)
                self._read(lines[index + 1 :], out)
                return

    def _decide(self, name: str, out: list[Event]) -> None:
        held, self._held = self._held, []
        self._attach(registry.make(name))
        if name == "generic":
            from penstock.detection import explain

            text = b"\n".join(line for line in held if isinstance(line, bytes)).decode("utf-8", "replace")
            advice = explain(text)
            if advice is not None:
                self._session.apply(NoticeUpdate("format", advice, "error"), out)
        self._read(held, out)


def _peek(line: bytes | Oversized) -> Any:
    """A line as plain data, None where it is none."""
    for found in Decoder(Any).slow(line):
        if isinstance(found, Decoded):
            return found.event
    return None


def _cleaned(update: Update) -> Update:
    """No lone surrogates, but in the text of deltas: there halves are joined over updates."""
    cleaned: Update = well_formed_values(update)
    if isinstance(update, Text) and isinstance(cleaned, Text):
        return msgspec.structs.replace(cleaned, text=half_formed(update.text))
    return cleaned


def _kind(event: Any) -> str:
    config = getattr(type(event), "__struct_config__", None)
    return str(config.tag) if config is not None and config.tag else type(event).__name__
