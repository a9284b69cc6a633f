"""`penstock run --quiet-ok`: nothing is written if all ended well, and everything if not, as cron likes it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable

from penstock.cli.exit_status import OK
from penstock.errors import TransportError

PIECE_BYTES = 1 << 20
"""Bytes of the log that are copied at once."""


def quiet_if_ok(run: Callable[[], int]) -> int:
    """Call `run` and return its exit status. What it writes to stdout and stderr is written to stdout if it fails.

    Until then it is in a file without a name.

    Raises:
        TransportError: the file cannot be made, or stdout cannot be written.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        held = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed below)
    except OSError as error:
        raise TransportError(
            f"--quiet-ok needs a file for the output: {error.strerror}", help="look at TMPDIR, and at the disk"
        ) from error
    with held:
        kept = [os.dup(1), os.dup(2)]
        status: int | None = None
        try:
            for fd in (1, 2):
                os.dup2(held.fileno(), fd)
            status = run()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for fd, before in zip((1, 2), kept, strict=True):
                os.dup2(before, fd)
                os.close(before)
            if status != OK:
                _copy(held.fileno())
    return status


def _copy(fd: int) -> None:
    at = 0
    while data := os.pread(fd, PIECE_BYTES, at):
        at += len(data)
        while data:
            data = data[os.write(1, data) :]
