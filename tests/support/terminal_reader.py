"""Reader of what a program writes to a terminal that a test has opened."""

from __future__ import annotations

import os
import threading


def read_terminal(ours: int) -> tuple[bytearray, threading.Thread]:
    """Read a terminal from its other end until nobody has it open any more; return what comes, and the thread."""
    found = bytearray()

    def read() -> None:
        try:
            while piece := os.read(ours, 65_536):
                found.extend(piece)
        except OSError:
            pass  # nobody has the terminal open any more
        os.close(ours)

    reader = threading.Thread(target=read)
    reader.start()
    return found, reader
