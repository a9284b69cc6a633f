"""Stdin of `penstock run`: the prompt itself, or text that accompanies a prompt.

Text that accompanies a prompt is read to its end before the agent starts. Not every open stdin has an end: CI services,
cron, ssh and programs that start others leave unused pipes open. If no byte arrives within `FIRST_BYTE_SECONDS`, the
pipe is ignored and the user is notified. A pipe that has delivered a byte is never cut off.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Callable

from penstock.adapter import MAX_STDIN_BYTES
from penstock.errors import UsageError
from penstock.run.read_sizes import READ_BYTES

FIRST_BYTE_SECONDS = 3.0
"""Seconds to wait for the first byte of a pipe. Most programs with output have begun by then."""
NOTICE_SECONDS = 5.0
"""Seconds after which the user is notified that Penstock waits for input."""

NO_INPUT = (
    "nothing came from stdin in {seconds:g} s, and the run starts without it; "
    "to start at once: --stdin never, or < /dev/null; the output of a slow program can be saved to a file first"
)
READING = "stdin is still open: it is read up to its end, and then the run starts"

Notify = Callable[[str], None]


def read_prompt(notify: Notify, fd: int = 0) -> str:
    """Return the prompt from stdin. On a terminal, it is everything up to Ctrl-D.

    Raises:
        UsageError: stdin cannot be read, or holds too much.
    """
    _open_if_closed(fd)
    return _read_on(fd, (lambda text: None) if os.isatty(fd) else notify).decode("utf-8", "surrogateescape")


def read_beside(notify: Notify, fd: int = 0) -> str:
    """Return the text that accompanies a prompt; "" if there is none. Terminals and /dev/null are not read.

    Raises:
        UsageError: stdin cannot be read, is not text, or holds too much.
    """
    _open_if_closed(fd)
    if not _has_input(fd):
        return ""
    if not select.select([fd], [], [], FIRST_BYTE_SECONDS)[0]:
        notify(NO_INPUT.format(seconds=FIRST_BYTE_SECONDS))
        return ""
    data = _read_on(fd, notify)
    if b"\0" in data:
        raise UsageError(
            "stdin holds binary data (a NUL byte)",
            expected="text in UTF-8, which goes with the prompt",
            help="name the file in the prompt, or leave stdin alone: --stdin never",
        )
    return data.decode("utf-8", "surrogateescape")


def _open_if_closed(fd: int) -> None:
    """Open a closed stdin (`<&-`) on /dev/null; otherwise a pipe to an agent would get its number."""
    try:
        os.fstat(fd)
    except OSError:
        null = os.open(os.devnull, os.O_RDONLY)
        if null != fd:
            os.dup2(null, fd)
            os.close(null)


def _has_input(fd: int) -> bool:
    found = os.fstat(fd)
    if stat.S_ISCHR(found.st_mode):
        return not os.isatty(fd) and found.st_rdev != os.stat(os.devnull).st_rdev
    return True


def _read_on(fd: int, notify: Notify) -> bytes:
    """Return all input up to its end. If this takes long, notify the user once."""
    data = bytearray()
    notice_at: float | None = time.monotonic() + NOTICE_SECONDS
    while len(data) <= MAX_STDIN_BYTES:
        patience = None if notice_at is None else max(0.0, notice_at - time.monotonic())
        if not select.select([fd], [], [], patience)[0]:
            notify(READING)
            notice_at = None
            continue
        try:
            piece = os.read(fd, READ_BYTES)
        except BlockingIOError:  # made non-blocking by another program that also reads it
            continue
        except OSError as error:
            piece = _nothing(fd, error)
        if not piece:
            return bytes(data)
        data += piece
    raise UsageError(
        f"stdin holds more than {MAX_STDIN_BYTES:,} bytes",
        expected="at most that much in or beside a prompt",
        help="save it to a file and name the file in the prompt, or leave stdin alone: --stdin never",
    )


def _nothing(fd: int, error: OSError) -> bytes:
    """Return no bytes if no input was lost: stdin was opened for writing, or its terminal is gone.

    Raises:
        UsageError: stdin cannot be read for another reason.
    """
    if error.errno == errno.EBADF or stat.S_ISCHR(os.fstat(fd).st_mode):
        return b""
    raise UsageError(
        f"stdin cannot be read: {error.strerror}",
        expected="a file or a pipe",
        help="leave it alone: --stdin never, or < /dev/null",
    ) from error
