"""What Prometheus is told. Counted where it happens, written out when it is asked for."""

from __future__ import annotations

import time
from asyncio import Event
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from penstock.chat.service.service import Runtime
from penstock.chat.store.protocol import PAGE_ROWS, EventLog, LogFailed, Row

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
"""The upper bounds of the buckets for times."""

Labels = tuple[tuple[str, str], ...]


class Times:
    """A histogram of seconds."""

    def __init__(self) -> None:
        self.buckets = [0] * len(SECONDS)
        self.count = 0
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.count += 1
        self.sum += seconds
        for place, bound in enumerate(SECONDS):
            if seconds <= bound:
                self.buckets[place] += 1


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.viewers = 0
        self.watches = 0
        """Chats that are read for viewers."""
        self.dropped = 0
        """Viewers that took nothing for too long."""
        self.frames = 0
        self.bytes = 0
        """Of streams."""
        self.rows = 0
        """Appended to the log."""
        self.appends = Times()
        self.failures = 0
        """Appends that the disk refused."""
        self.ended: Counter[Labels] = Counter()
        """Turns, by their outcome."""
        self.requests: Counter[Labels] = Counter()


class _End(msgspec.Struct):
    outcome: str


ENDS = (b'{"type":"run_ended"', b'{"type":"turn_ended"')
"""How the rows begin that end a turn; one of them stands in the log for each."""

_ended = msgspec.json.Decoder(_End)


class MeasuredLog:
    """An `EventLog` whose appends are counted and timed, and turns as they end."""

    def __init__(self, log: EventLog, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    @property
    def max_row_bytes(self) -> int:
        """As `EventLog.max_row_bytes`."""
        return self._log.max_row_bytes

    async def append(self, chat: str, rows: Sequence[bytes], *, after: int) -> int:
        """As `EventLog.append`."""
        began = time.perf_counter()
        try:
            last = await self._log.append(chat, rows, after=after)
        except LogFailed:
            self._metrics.failures += 1
            raise
        self._metrics.appends.add(time.perf_counter() - began)
        self._metrics.rows += len(rows)
        for row in rows:
            if row.startswith(ENDS):
                self._metrics.ended[(("outcome", _ended.decode(row).outcome),)] += 1
        return last

    async def read(self, chat: str, *, after: int = 0, limit: int = PAGE_ROWS) -> list[Row]:
        """As `EventLog.read`."""
        return await self._log.read(chat, after=after, limit=limit)

    def bell(self, chat: str) -> Event:
        """As `EventLog.bell`."""
        return self._log.bell(chat)

    async def trim(self, chat: str, upto: int) -> None:
        """As `EventLog.trim`."""
        await self._log.trim(chat, upto)

    async def last(self, chat: str) -> int:
        """As `EventLog.last`."""
        return await self._log.last(chat)


class Page:
    """A page in the text format of Prometheus."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, kind: str, name: str, help: str, values: float | Mapping[Labels, float]) -> None:
        """A metric, `kind` is `counter` or `gauge`: one value, or one for each set of labels."""
        self._head(kind, name, help)
        values = values if isinstance(values, Mapping) else {(): values}
        for labels, value in values.items():
            self._line(name, labels, value)

    def times(self, name: str, help: str, times: Times) -> None:
        """A histogram."""
        self._head("histogram", name, help)
        for bound, count in zip(SECONDS, times.buckets, strict=True):
            self._line(f"{name}_bucket", (("le", f"{bound:g}"),), count)
        self._line(f"{name}_bucket", (("le", "+Inf"),), times.count)
        self._line(f"{name}_sum", (), times.sum)
        self._line(f"{name}_count", (), times.count)

    def text(self) -> str:
        """All of it."""
        return "".join(f"{line}\n" for line in self._lines)

    def _head(self, kind: str, name: str, help: str) -> None:
        self._lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]

    def _line(self, name: str, labels: Iterable[tuple[str, str]], value: float) -> None:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        self._lines.append(f"{name}{{{told}}} {value!r}" if told else f"{name} {value!r}")


def text(metrics: Metrics, runtime: Runtime) -> str:
    """All of it, as Prometheus reads it."""
    states: dict[Labels, float] = {(("state", it),): 0 for it in ("idle", "queued", "running")}
    for chat in runtime.chats():
        states[(("state", chat.state),)] += 1
    page = Page()
    page.add("gauge", "penstock_chats", "Chats, by what they do.", states)
    page.add("gauge", "penstock_turns_waiting", "Turns that wait for the one before, or for a place.", runtime.waiting)
    page.add("counter", "penstock_turns_total", "Turns that ended, by outcome.", metrics.ended)
    page.add("counter", "penstock_log_rows_total", "Rows appended to the log.", metrics.rows)
    page.add("counter", "penstock_log_failures_total", "Appends that the log refused.", metrics.failures)
    page.times("penstock_log_append_seconds", "How long an append took.", metrics.appends)
    page.add("gauge", "penstock_viewers", "Streams that are open.", metrics.viewers)
    page.add("gauge", "penstock_watches", "Chats that are read for viewers.", metrics.watches)
    page.add("counter", "penstock_viewers_dropped_total", "Streams that took nothing for too long.", metrics.dropped)
    page.add("counter", "penstock_frames_total", "Frames sent to viewers.", metrics.frames)
    page.add("counter", "penstock_stream_bytes_total", "Bytes sent to viewers.", metrics.bytes)
    page.add("counter", "penstock_requests_total", "Requests that were answered.", metrics.requests)
    return page.text()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
