"""Text that the user types while an agent works: kept for the next prompt, or queued by Enter.

The terminal shows the agent's output at that time, so keys are not echoed there. A line with Enter is queued, and shown
as queued, until Up takes it back. Text without Enter is the beginning of the next prompt. Esc alone stops the run.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import termios
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.cli.console import hide_below, one_line
from penstock.sinks.text.styles import shortened

if TYPE_CHECKING:
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding import KeyPress

MAX_CHARS = 100_000
"""Characters of text that are kept without Enter. What is typed after them is dropped."""
MAX_QUEUED = 100
"""Number of lines that are queued. Further ones stay text of the next prompt."""
MAX_SHOWN_CHARS = 200
"""Characters of a queued line that are shown."""
READ_BYTES = 64 * 1024
ESCAPE_SECONDS = 0.2
"""Seconds after which an Esc is a key of its own. Other keys send several characters that begin with the same one, and
they may arrive in two pieces over a network."""

PASTE_ON, PASTE_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
"""Codes that make a terminal begin and stop to mark pasted text."""

FIRST_KEYS = "what you type now appears in the next prompt; Enter queues it, Up takes it back"


def in_foreground(fd: int) -> bool:
    """Return whether this process may use its terminal: in the background, the use of it stops a job."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


class TypedAhead:
    """Keys that are typed while an agent works. Use it in a `with` block around each run.

    Args:
        step_level: function for Shift+Tab, which changes the level of the next prompt; it returns a line about that.
        fd: the terminal.
        output: the same terminal, for the codes about pasting.
    """

    def __init__(self, step_level: Callable[[], str], fd: int = 0, output: int = 1) -> None:
        self.text: str = ""
        """Text that was typed without Enter."""
        self.queued: list[str] = []
        """Lines that Enter has ended, the oldest first."""
        self.stops_run: bool = False
        """Whether Esc was pressed alone since the run began."""
        self._step_level = step_level
        self._fd = fd
        self._output = output
        self._before: list[Any] | None = None
        self._is_closed = False
        self._is_lent = False
        self._is_quiet = False
        """Whether the terminal has our modes. It does not while this program is in the background."""
        self._is_escaped = False
        self._escape_due: float | None = None
        """Time at which the Esc that was read last is a key of its own; None if it is not the last key."""
        self._previous: dict[int, Any] = {}
        self._is_explained = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser: Vt100Parser | None = None
        self._news: list[str] = []

    def __enter__(self) -> None:
        try:
            self._before = termios.tcgetattr(self._fd)
        except termios.error:
            self._is_closed = True
            return
        self.stops_run = False
        self._quiet()
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:  # else the caller ignores it
            handlers = {signal.SIGTSTP: self._suspend, signal.SIGCONT: self._resume}
            self._previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def __exit__(self, *_: object) -> None:
        self._take()
        self._end_escape()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
        self._restore()

    def _suspend(self, number: int, frame: object) -> None:
        """Suspend this program at Ctrl-Z, with the terminal as it was before the run."""
        hide_below()
        self._restore()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._suspend)

    def _resume(self, number: int, frame: object) -> None:
        """Read keys again after the program was suspended."""
        if not self._is_lent:
            self._quiet()

    def _quiet(self) -> None:
        """Let the terminal deliver each key, unchanged, and show none. Ctrl-C stays a signal, and drops no key."""
        modes = self._modes()
        self._is_quiet = modes is not None
        if modes is None:
            return
        modes[0] &= ~(termios.ICRNL | termios.INLCR)
        modes[3] = (modes[3] & ~(termios.ICANON | termios.ECHO | termios.IEXTEN)) | termios.NOFLSH
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        self._set(modes, PASTE_ON)

    def _restore(self) -> None:
        self._is_quiet = False
        modes = self._modes()
        if modes is not None:
            self._set(modes, PASTE_OFF)

    def _modes(self) -> list[Any] | None:
        """Return a copy of the modes before the run; None if the terminal is not ours now."""
        if self._before is None or not in_foreground(self._fd):
            return None
        return [list(part) if isinstance(part, list) else part for part in self._before]

    def _set(self, modes: list[Any], codes: bytes) -> None:
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW, modes)
            os.write(self._output, codes)
        except (OSError, termios.error):
            self._is_closed = True  # it hung up

    @property
    def fds(self) -> list[int]:
        """Descriptors to wait for: that of the terminal, if keys can be read from it."""
        if self._is_closed or not in_foreground(self._fd):
            return []
        if not self._is_quiet and not self._is_lent:
            self._quiet()  # a shell has brought this program back to the foreground, without a signal
        return [self._fd]

    def read(self) -> list[str]:
        """Read the keys that have been typed; return lines about them for the user."""
        self._take()
        if self._escape_due is not None and self._escape_due <= time.monotonic():
            self.stops_run = self._end_escape() or self.stops_run
        news, self._news = self._news, []
        if self.text and not self._is_explained:
            self._is_explained = True
            news.append(FIRST_KEYS)
        return news

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Let something else read lines from the terminal, with echo. Keys typed before are kept here."""
        self._take()
        self._end_escape()
        self._restore()
        self._is_lent = True
        try:
            yield
        finally:
            self._is_lent = False
            if self._before is not None:
                self._quiet()

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until `read` has to be called without a new key; None if that is not necessary."""
        return None if self._escape_due is None else max(0.0, self._escape_due - now)

    def take_text(self, *, with_queued: bool) -> str:
        """Return the text that was typed without Enter, and forget it; with the queued lines before it if asked."""
        lines = [self.text] if self.text or not with_queued else []
        if with_queued:
            lines, self.queued = [*self.queued, *lines], []
        self.text = ""
        return "\n".join(lines)

    def _take(self) -> None:
        """Read what has been typed, without waiting."""
        while fds := self.fds:
            if not select.select(fds, [], [], 0)[0]:
                break
            try:
                data = os.read(self._fd, READ_BYTES)
            except OSError:
                data = b""
            if not data:
                self._is_closed = True
            self._feed(self._decoder.decode(data))

    def _feed(self, keys: str) -> None:
        if self._parser is None:
            from prompt_toolkit.input.vt100_parser import Vt100Parser  # most runs end before a key is typed

            self._parser = Vt100Parser(self._press)
        self._parser.feed(keys)
        self._escape_due = time.monotonic() + ESCAPE_SECONDS if keys.endswith("\x1b") else None

    def _end_escape(self) -> bool:
        """Let an Esc that was read last be a key of its own; return whether it is one, and not a part of a paste."""
        self._is_escaped = False
        if self._escape_due is not None and self._parser is not None:
            self._parser.flush()
        is_key, self._is_escaped, self._escape_due = self._is_escaped, False, None
        return is_key

    def _press(self, press: KeyPress) -> None:
        """Use one key as the line editor does: text, the keys that remove it, and Enter."""
        key, escaped = press.key, self._is_escaped
        self._is_escaped = key == "escape"
        if key == "<bracketed-paste>":
            self._add(press.data.replace("\r\n", "\n").replace("\r", "\n"))
        elif key in ("c-m", "c-j") and escaped:
            self._add("\n")
        elif key in ("c-m", "c-j"):
            self._queue(self.text)
        elif key == "c-h":
            self.text = self.text[:-1]
        elif key == "c-u":
            self.text = self.text[: self.text.rfind("\n") + 1]
        elif key == "c-w":
            kept = self.text.rstrip()
            self.text = kept[: max(kept.rfind(" "), kept.rfind("\n")) + 1]
        elif key == "c-d" and not self.text:
            self._queue("/quit")
        elif key in ("up", "c-p") and self.queued:
            self._take_back()
        elif key == "s-tab":
            self._news.append(self._step_level())
        elif len(key) == 1 and not escaped:
            self._add(press.data)

    def _add(self, text: str) -> None:
        self.text = (self.text + text)[:MAX_CHARS]

    def _queue(self, line: str) -> None:
        if not line.strip():
            return
        if len(self.queued) >= MAX_QUEUED:
            self._add("\n")
            return
        self.queued.append(line)
        self.text = ""
        self._news.append(f"queued: {_shown(line)}")

    def _take_back(self) -> None:
        """Make the newest queued line text of the next prompt again, above what was typed after it."""
        line, after = self.queued.pop(), self.text
        self.text = ""
        self._add(f"{line}\n{after}" if after else line)
        self._news.append(f"no longer queued, but text of the next prompt: {_shown(line)}")


def _shown(line: str) -> str:
    return shortened(one_line(line), MAX_SHOWN_CHARS)
