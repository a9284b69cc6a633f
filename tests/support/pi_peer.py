"""A small `pi --mode rpc` that takes messages while it works.

::

    [agents.pi]
    command = ["python3", "-S", "…/pi_peer.py", "--gate=FILE"]

A run writes "Working." and calls a tool until the gate is there, and takes one message before each further answer. With
`--answers=COUNT` it ends with the answer to so many messages, without a gate. What it has in its queue at the end of
its input is lost. `--mute`: it reads its input and never answers; `--unended`: its last line has no end; `--deaf`: it
goes on after the end of its input.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any

STEP_SECONDS = 0.01
LINES: queue.Queue[dict[str, Any] | None] = queue.Queue()
WAITING: list[str] = []


def say(end: str = "\n", **line: Any) -> None:
    """Write a line."""
    os.write(1, (json.dumps(line) + end).encode())


def listen() -> None:
    """Read commands; None is the end of the input."""
    for line in sys.stdin.buffer:
        LINES.put(json.loads(line))
    LINES.put(None)


def message(role: str, text: str) -> dict[str, Any]:
    """A message of the user, or the model's."""
    return {"role": role, "content": [{"type": "text", "text": text}], "model": "m", "stopReason": "stop"}


def answered(command: dict[str, Any], data: Any = None) -> None:
    """Answer a command."""
    given = {} if data is None else {"data": data}
    say(id=command["id"], type="response", command=command["type"], success=True, **given)


def said(role: str, text: str) -> None:
    """Write a whole message."""
    say(type="message_start", message=message(role, "" if role == "assistant" else text))
    say(type="message_end", message=message(role, text))


def heard() -> str:
    """Follow the commands so far; return "abort" or "end" if one of them ends the run."""
    while not LINES.empty():
        command = LINES.get()
        if command is None:
            return "end"
        match command["type"]:
            case "steer":
                WAITING.append(command["message"])
                say(type="queue_update", steering=WAITING, followUp=[])
                answered(command, {"disposition": "queued"})
            case "clear_queue":
                WAITING.clear()
                say(type="queue_update", steering=[], followUp=[])
                answered(command, {"steering": [], "followUp": []})
            case "abort":
                answered(command)
                return "abort"
    return ""


def is_over(options: argparse.Namespace, answers: int) -> bool:
    """Whether a run ends after so many answers to messages."""
    return answers >= options.answers if options.answers else Path(options.gate).exists()


def work(options: argparse.Namespace, prompt: dict[str, Any]) -> None:
    """Do the run of a prompt."""
    answered(prompt, {"disposition": "started"})
    say(type="agent_start")
    said("user", prompt["message"])
    said("assistant", "Working.")
    number, answers, stop = 0, 0, ""
    while not stop and (WAITING or not is_over(options, answers)):
        number += 1
        say(type="tool_execution_start", toolCallId=f"c{number}", toolName="bash", args={"command": "ls"})
        time.sleep(STEP_SECONDS)
        say(type="tool_execution_end", toolCallId=f"c{number}", toolName="bash", result={"content": []}, isError=False)
        stop = heard()
        if not stop and WAITING:
            text = WAITING.pop(0)
            say(type="queue_update", steering=WAITING, followUp=[])
            said("user", text)
            said("assistant", f"You said: {text}")
            answers += 1
    last = message("assistant", "")
    say(type="agent_end", messages=[{**last, "stopReason": "aborted"} if stop else last], willRetry=False)
    say(type="agent_settled", aborted=bool(stop), end="" if options.unended else "\n")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode")
    parser.add_argument("--gate")
    parser.add_argument("--answers", type=int, default=0)
    for flag in ("--mute", "--unended", "--deaf"):
        parser.add_argument(flag, action="store_true")
    options, _ = parser.parse_known_args()
    threading.Thread(target=listen, daemon=True).start()
    while (command := LINES.get()) is not None:
        if options.mute:
            continue
        if command["type"] == "get_state":
            answered(command, {"sessionId": "s1", "model": {"id": "m"}, "steeringMode": "all"})
        elif command["type"] == "prompt":
            work(options, command)
            if options.unended:
                return
    while options.deaf:
        time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main()
