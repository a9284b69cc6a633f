"""The one place that writes output; lines for stderr; the columns of a table."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without `typing`, as `--version` comes through here
if TYPE_CHECKING:
    from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], right_from: int | None = None) -> str:
    """Rows of as many cells each as lines of aligned columns; those from `right_from` on to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = len(widths) if right_from is None else right_from
    lines = (
        "  ".join(
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "".join(line.rstrip() + "\n" for line in lines)


class Output:
    """Writes to a file descriptor, unbuffered: what is written is on its way when `write` returns.

    Raises:
        BrokenPipeError: nobody reads any more.
        TransportError: anything else that keeps the output from being written.
    """

    def __init__(self, fd: int, encoding: str = "utf-8") -> None:
        self._fd = fd
        self._encoding = encoding
        self._left = b""

    def write(self, text: str | bytes) -> None:
        """Write it all; what an interrupted write left over goes out before it."""
        data = text.encode(self._encoding, "replace") if isinstance(text, str) else text
        waiting = memoryview(self._left + data if self._left else data)
        self._left = b""
        try:
            while waiting:
                try:
                    waiting = waiting[os.write(self._fd, waiting) :]
                except BlockingIOError:
                    self._wait()
        except BrokenPipeError:
            raise
        except OSError as error:
            from penstock.errors import TransportError

            what = f"the output cannot be written: {error.strerror}"
            raise TransportError(what, help="look at where stdout goes") from error
        finally:
            self._left = bytes(waiting)

    def _wait(self) -> None:
        # Another program that shares the terminal (node does it) may have made it non-blocking.
        import select

        select.select([], [self._fd], [])


def stdout_encoding() -> str:
    """The encoding of what people read on stdout."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def say(text: str) -> int:
    """Write a text for people to stdout; the exit status of a command that does no more."""
    Output(1, stdout_encoding()).write(text)
    return 0


def notify(text: str) -> None:
    """Write a text to stderr; nothing if stderr is closed."""
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:
        pass  # nobody reads it


def notify_problem(text: str) -> None:
    """Write one line about this program to stderr."""
    notify(f"penstock: {text}\n")


def one_line(text: str) -> str:
    """A text of one line that moves no cursor: names of files and words of the user may have any character."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def discard_stdout() -> None:
    """Let what is still written to stdout go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
