"""A scripted agent: it plays a recording of a real one, line by line at the recording's own times.

::

    [agents.scripted]
    command = ["python3", "-S", "…/scripted.py", "…/recordings/claude/text", "--speed=2", "--resume={session_id}"]
    adapter = "claude"

The prompt comes on stdin. One whose first line is `play NAME` plays the recording NAME beside the given one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

POLL_SECONDS = 0.005


def main() -> int:
    """Play, and exit as the recorded agent did, as far as it is told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path, help="a folder with input.ndjson and times, or a file of lines")
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast, 0 is all at once")
    parser.add_argument("--prompts", type=Path, help="append what this run was asked to this file, a line of JSON")
    parser.add_argument(
        "--hold", default=[], action="append", metavar="LINE:FILE", help="before this line (from 1) wait for the file"
    )
    parser.add_argument("--lines", type=int, help="play no more than so many lines")
    parser.add_argument("--stubborn", action="store_true", help="go on whatever signal comes")
    parser.add_argument("--stay", action="store_true", help="stay when all is said")
    parser.add_argument("--status", type=int, default=0, help="exit with this")
    parser.add_argument("--resume", help="the session to go on with; it is told to --prompts alone")
    parser.add_argument("--model", help="the same")
    options = parser.parse_args()
    if options.stubborn:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    prompt = sys.stdin.buffer.read().decode()
    if options.prompts is not None:
        note(options.prompts, prompt=prompt, pid=os.getpid(), resume=options.resume, model=options.model)
    recording: Path = options.recording
    first = prompt.partition("\n")[0].split()
    if len(first) == 2 and first[0] == "play" and first[1].replace(".", "").replace("_", "").isalnum():
        recording = recording.parent / first[1]
    gates = {int(place): Path(gate) for place, _, gate in (hold.partition(":") for hold in options.hold)}
    play(recording, options.speed, options.lines, gates)
    while options.stay:
        time.sleep(60)
    return int(options.status)


def note(path: Path, **what: object) -> None:
    """Add a line to a file that several processes add to."""
    with open(path, "ab", buffering=0) as file:
        file.write(json.dumps(what).encode() + b"\n")


def play(recording: Path, speed: float, count: int | None, gates: dict[int, Path]) -> None:
    """Write the lines to stdout, none of them before its time."""
    file = recording / "input.ndjson" if recording.is_dir() else recording
    beside = file.with_name("times") if recording.is_dir() else file.with_suffix(".times")
    times = [float(line) for line in beside.read_text().split()] if beside.exists() else []
    start = time.monotonic()
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if count is not None and number > count:
                return
            while number in gates and not gates[number].exists():
                time.sleep(POLL_SECONDS)
            if times and speed:
                moment = times[min(number, len(times)) - 1] / speed
                time.sleep(max(0.0, start + moment - time.monotonic()))
            os.write(1, line)


if __name__ == "__main__":
    sys.exit(main())
