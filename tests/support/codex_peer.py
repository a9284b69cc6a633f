"""A small `codex app-server` that takes messages while it works, as codex does; it notes what its model has answered.

::

    [agents.codex]
    command = ["python3", "-S", "…/codex_peer.py", "--did=FILE", "--gate=FILE"]

A turn writes "Working." and goes on until the gate is there, or for some short steps of random length (`--random`).
Before each step it reads the messages that were given to it, and answers each; with `--ears=FILE` only while that file
is there. A message that has arrived leaves the file FILE.given beside that of `--did`.
`--rejects`: it rejects them. One that comes after the last step is only added to the conversation, without an answer.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

STEP_SECONDS = 0.01


class Peer:
    """The server, with one thread of a conversation and at most one turn."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.thread = f"t{os.getpid()}"
        self.turn: str | None = None
        self.given: list[tuple[str, str]] = []
        self.left = 0
        self.turns = 0
        self.items = 0
        self.is_working = False

    def say(self, **message: Any) -> None:
        """Write a line."""
        os.write(1, json.dumps(message).encode() + b"\n")

    def tell(self, method: str, **params: Any) -> None:
        """Write a notification of our thread."""
        self.say(method=method, params={"threadId": self.thread, "turnId": self.turn, **params})

    def did(self, **what: str) -> None:
        """Note what the model has answered."""
        with open(self.options.did, "ab", buffering=0) as file:
            file.write(json.dumps(what).encode() + b"\n")

    def item(self, kind: str, **fields: Any) -> None:
        """Write an item, begun and completed."""
        self.items += 1
        item = {"type": kind, "id": f"{self.turn}-{self.items}", **fields}
        self.tell("item/started", item=item)
        self.tell("item/completed", item=item)

    def user(self, text: str, id: str | None) -> None:
        """Write a message of the user."""
        self.item("userMessage", clientId=id, content=[{"type": "text", "text": text, "text_elements": []}])

    def run(self) -> None:
        """Serve until stdin is closed."""
        threading.Thread(target=self.listen, daemon=True).start()
        while True:
            try:
                line = self.lines.get(timeout=STEP_SECONDS if self.turn is not None else None)
            except queue.Empty:
                self.step()
                continue
            if line is None:
                return
            self.answer(line)

    def listen(self) -> None:
        """Read stdin."""
        for line in sys.stdin.buffer:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def answer(self, line: dict[str, Any]) -> None:
        """Answer a request."""
        id, params = line.get("id"), line.get("params", {})
        match line.get("method"):
            case "thread/start" | "thread/resume":
                self.thread = params.get("threadId", self.thread)
                self.say(id=id, result={"thread": {"id": self.thread}, "model": "m"})
            case "turn/start":
                self.turns += 1
                self.turn, self.given, self.is_working = f"{self.thread}-{self.turns}-{time.time_ns()}", [], False
                self.left = random.randrange(4)
                self.say(id=id, result={"turn": {"id": self.turn, "status": "inProgress"}})
                self.tell("turn/started", turn={"id": self.turn, "status": "inProgress"})
                text = params["input"][0]["text"]
                self.user(text, None)
                self.did(prompt=text)
            case "turn/steer":
                if self.turn is None or self.options.rejects:
                    self.say(id=id, error={"code": -32600, "message": "no active turn to steer"})
                elif params["expectedTurnId"] != self.turn:
                    self.say(id=id, error={"code": -32600, "message": "another turn is active"})
                else:
                    self.given.append((params["input"][0]["text"], params["clientUserMessageId"]))
                    Path(f"{self.options.did}.given").touch()
                    self.say(id=id, result={"turnId": self.turn})
            case "turn/interrupt":
                self.say(id=id, result={})
                self.end("interrupted")
            case "initialize":
                self.say(id=id, result={"userAgent": "peer/1"})

    def step(self) -> None:
        """Go on with the turn."""
        if not self.is_working:
            self.is_working = True
            self.item("agentMessage", text="Working.")
        elif self.given and (self.options.ears is None or Path(self.options.ears).exists()):
            given, self.given = self.given, []
            for text, id in given:
                self.user(text, id)
            for text, _ in given:
                self.item("agentMessage", text=f"Taken: {text[:100]}")
                self.did(steer=text)
        elif self.options.random:
            self.left -= 1
            time.sleep(random.random() * STEP_SECONDS)
            if self.left < 0:
                self.end("completed")
        elif Path(self.options.gate).exists():
            self.end("completed")

    def end(self, status: str) -> None:
        """End the turn, as codex does: what is left is added to the conversation, unless the turn was interrupted."""
        if self.turn is None:
            return
        if status == "completed":
            self.item("agentMessage", text="Done.")
            for text, id in self.given:
                self.user(text, id)
        self.tell("turn/completed", turn={"id": self.turn, "status": status})
        self.turn, self.given = None, []


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--did", required=True, help="file to which each prompt and each answered message is appended")
    parser.add_argument("--gate", default="/nowhere", help="file at which turns end")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--ears", help="file without which no message is read")
    parser.add_argument("--rejects", action="store_true")
    parser.add_argument("words", nargs="*")
    Peer(parser.parse_args()).run()


if __name__ == "__main__":
    main()
