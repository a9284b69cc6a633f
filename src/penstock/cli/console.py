"""All writing to stdout and stderr, and the columns of a table."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without importing `typing`: `--version` uses this module
if TYPE_CHECKING:
    from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], right_from: int | None = None) -> str:
    """Return rows of equally many cells as lines of aligned columns; columns from `right_from` on align right."""
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
    """Unbuffered writer to a file descriptor: all data has been passed to the system when `write` returns.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
        TransportError: the output cannot be written for another reason.
    """

    def __init__(self, fd: int, encoding: str = "utf-8") -> None:
        self._fd = fd
        self._encoding = encoding
        self._left = b""

    def write(self, text: str | bytes) -> None:
        """Write all of `text`, after the rest of an earlier write that was interrupted."""
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
    """Return the encoding of text for people on stdout."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def say(text: str) -> int:
    """Write text for people to stdout; return 0, the exit status of a command that does nothing else."""
    Output(1, stdout_encoding()).write(text)
    return 0


def notify(text: str) -> None:
    """Write text to stderr; do nothing if stderr is closed."""
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:
        pass  # stderr has no reader


def notify_problem(text: str) -> None:
    """Write one line about this program to stderr."""
    notify(f"penstock: {text}\n")


def one_line(text: str) -> str:
    """Return `text` as one line that does not move the cursor: file names and user input may have any character."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def discard_stdout() -> None:
    """Send the rest of stdout to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
