"""An editor that saves a document at random times in three ways, each time with one line more.

    python saver.py DOCUMENT LOG SEED

It adds a line `saved N` and writes N to the log once the save is complete. SIGTERM ends it after the save at hand.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

LONGEST_SECONDS = 0.03
"""Seconds from the opening of a handle to the last write; a slower save may come too late for a publish."""

PAUSE_SECONDS = 0.003
"""Longest pause between two system calls of a save."""

OLD_HANDLE_SECONDS = 0.015
"""Longest time from the opening of a handle to the write; shorter than the pause of a publish in these tests."""

QUIET_SECONDS = 0.1
"""Longest time between two saves."""

ending = False


def end(*_: object) -> None:
    """Note that the saves shall end."""
    global ending
    ending = True


def with_line(text: str, number: int, chance: random.Random) -> str:
    """Add the line of a save at the beginning or at the end, so that replies stay whole."""
    line = f"saved {number}\n"
    return line + text if chance.random() < 0.5 else text + line


def replace(path: Path, text: str) -> None:
    """Write a new file, and rename it over the document."""
    temporary = path.with_name("saver-file")
    temporary.write_text(text)
    temporary.replace(path)


def by_rename(path: Path, number: int, chance: random.Random) -> None:
    """Write a new file, and rename it over the document."""
    text = with_line(path.read_text(), number, chance)
    time.sleep(chance.random() * PAUSE_SECONDS)
    replace(path, text)


def by_truncation(path: Path, number: int, chance: random.Random) -> None:
    """Truncate the document, and write it in two parts. If a busy machine made that slow, write it once more, whole.

    A publish may have taken a half that stood there for long for the text: no program could know better.
    """
    begun = time.monotonic()
    text = with_line(path.read_text(), number, chance)
    with path.open("w") as file:
        time.sleep(chance.random() * PAUSE_SECONDS)
        file.write(text[: len(text) // 2])
        file.flush()
        time.sleep(chance.random() * PAUSE_SECONDS)
        file.write(text[len(text) // 2 :])
    if time.monotonic() - begun >= LONGEST_SECONDS:
        replace(path, text)


def by_old_handle(path: Path, number: int, chance: random.Random) -> None:
    """Open the document, and write to that handle later, wherever its file is then."""
    with path.open("r+") as file:
        text = with_line(file.read(), number, chance)
        time.sleep(chance.random() * OLD_HANDLE_SECONDS)
        file.seek(0)
        file.write(text)
        file.truncate()


def save_until_ended(path: Path, log: Path, seed: int) -> None:
    """Save at random times until SIGTERM."""
    signal.signal(signal.SIGTERM, end)
    chance = random.Random(seed)
    number = 0
    with log.open("ab", buffering=0) as done:
        while not ending:
            way = chance.choice([by_rename, by_truncation, by_old_handle])
            begun = time.monotonic()
            way(path, number, chance)
            if time.monotonic() - begun < LONGEST_SECONDS:
                done.write(b"%d\n" % number)
            number += 1
            time.sleep(chance.random() * QUIET_SECONDS)


if __name__ == "__main__":
    save_until_ended(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)
