"""The terminal on stdout: its width, which sinks follow, and the local time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from penstock.cli.console import terminal_width

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from penstock.cli.options import DisplayOptions
    from penstock.sinks.text.sink import TextSink


class Screen:
    """Width of the terminal on stdout, for text sinks. Inside its `with` block, changes are passed on to them."""

    def __init__(self, options: DisplayOptions) -> None:
        self._sinks: list[TextSink] = []
        self._is_used = options.to == "text" and options.wrap and os.isatty(1)
        self._previous: Any = None
        self.width = self._read()
        """Columns of the terminal; None if lines are not wrapped."""

    def add(self, sink: TextSink) -> None:
        """Pass later changes of the width on to this sink."""
        self._sinks.append(sink)

    def _read(self) -> int | None:
        return terminal_width() if self._is_used else None

    def _resize(self, number: int, frame: FrameType | None) -> None:
        self.width = self._read()
        for sink in self._sinks:
            sink.resize(self.width)

    def __enter__(self) -> None:
        if self._is_used:
            import signal

            self._previous = signal.signal(signal.SIGWINCH, self._resize)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_used:
            import signal

            signal.signal(signal.SIGWINCH, self._previous)


def local_time(milliseconds: int) -> str:
    """Return a time since 1970 in words for this time zone: `14:30`, with the day if it is not today."""
    when = time.localtime(milliseconds / 1000)
    today = time.localtime()
    is_today = (when.tm_year, when.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if is_today else "%H:%M on %a, %d %b", when)
