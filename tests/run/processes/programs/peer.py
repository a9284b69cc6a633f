"""The other side of a dialogue: `peer.py MODE` reads and writes one JSON object a line."""

from __future__ import annotations

import json
import signal
import sys
import time


def say(**line: object) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(mode: str) -> None:
    """Answer what is said."""
    if mode in ("ignores_cancel", "ends_with_stdin"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        got = json.loads(line)
        if "hello" in got:
            say(text="you said " + got["hello"])
            if mode == "asks":
                say(ask="q1", text="may I?")
            elif mode == "withdraws":
                say(ask="q1", text="may I?")
                say(settled="q1")
            elif mode == "answers":
                say(done="")
        elif "answer" in got:
            say(done=" and answered " + got["answer"])
        elif "cancel" in got and mode not in ("ignores_cancel", "ends_with_stdin"):
            say(cancelled=True)
    if mode == "ignores_cancel":
        time.sleep(1000)


if __name__ == "__main__":
    main(*sys.argv[1:])
