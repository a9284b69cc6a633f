"""A scripted agent: it prints a recording, line by line, at the pace that its prompt asks for.

    turn_player.py RECORDINGS NOTES

The prompt is words: `case seconds-before seconds-between name`. It notes each start: so a turn that ran twice is seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Play what stdin says."""
    recordings, notes = map(Path, sys.argv[1:3])
    case, before, between, name = sys.stdin.read().split()
    note = os.open(notes / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(note, f"{name}\n".encode())  # one write, so that two agents do not mix
    # What an agent's own tools may be: a process of another session, which nobody waits for.
    subprocess.Popen(["/bin/sh", "-c", "sleep 300; :", str(notes)], start_new_session=True)
    time.sleep(float(before))
    for line in (recordings / case / "input.ndjson").read_bytes().splitlines(keepends=True):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        time.sleep(float(between))


main()
