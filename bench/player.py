"""An agent for `compare.py`: prints lines as claude does, at an even pace, once a file says when.

    player.py RATE SECONDS MODEL SESSION

The prompt on stdin is `KIND FOLDER`. It makes a file with a name of its own in FOLDER, waits for the file `go`
there, which holds the time by the monotonic clock, and prints RATE lines a second for SECONDS: text that grows
(`text`), or calls of a tool and their results (`tools`).
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path

POLL_SECONDS = 0.02
WORD = "lorem ipsum dolor sit amet, c "


def say(**line: object) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def event(**fields: object) -> None:
    say(type="stream_event", event=fields)


def text(number: int) -> None:
    event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": WORD})


def tools(number: int) -> None:
    id = f"call{number // 2}"
    if number % 2:
        say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": id, "content": WORD}]})
    else:
        call = {"type": "tool_use", "id": id, "name": "Bash" if number % 4 else "Read", "input": {"path": WORD}}
        say(type="assistant", message={"id": f"m{number}", "content": [call]})


def main(rate: int, seconds: float) -> None:
    kind, _, place = sys.stdin.read().strip().partition(" ")
    folder = Path(place)
    own = uuid.uuid4()  # process ids repeat: each confined agent has its own
    say(type="system", subtype="init", session_id=str(own), model="bench")
    if kind == "text":
        event(type="message_start", message={"id": "m", "content": []})
        event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
    (folder / str(own)).touch()
    while not (folder / "go").exists():
        time.sleep(POLL_SECONDS)
    began = float((folder / "go").read_text()) + own.int % rate / rate**2  # not all at the same time
    count = int(rate * seconds)
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        text(number) if kind == "text" else tools(number)
    if kind == "text":
        event(type="content_block_stop", index=0)
        say(type="assistant", message={"id": "m", "content": [{"type": "text", "text": WORD * count}]})
    say(type="result", subtype="success", is_error=False, result="done", session_id=str(own))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
