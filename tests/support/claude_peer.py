"""A small Claude Code over its two-way stream that takes messages while it works; it notes what its model has answered.

::

    [agents.claude]
    command = ["python3", "-S", "…/claude_peer.py", "--did=FILE", "--gate=FILE"]

A turn writes "Working." and calls a tool, again and again, until the gate is there, or for some short steps of random
length (`--random`). After each tool it reads the messages that were given to it, and answers them; with `--ears=FILE`
only while that file is there. A message that is still there at the end of the turn begins another one, as with Claude
Code; without ears the last answer takes so long that it can be withdrawn before. `--old`: a version that does not
report what becomes of messages; `--mute`: one that announces such reports and writes none.
`--late=SECONDS`: a message that is not read in its turn can no longer be withdrawn, and in the turn that it begins the
first word takes so long. A message that has arrived leaves the file FILE.given beside that of `--did`.
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
    """The program, with one turn at most."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.session = options.resume or f"s{os.getpid()}"
        self.given: list[tuple[str, str]] = []
        self.begun: list[tuple[str, str]] = []
        self.is_working = self.is_begun = self.is_calling = self.is_ending = False
        self.left = self.items = 0

    def say(self, **message: Any) -> None:
        """Write a line."""
        os.write(1, json.dumps({**message, "session_id": self.session, "uuid": f"u{time.time_ns()}"}).encode() + b"\n")

    def did(self, **what: str) -> None:
        """Note what the model has answered."""
        with open(self.options.did, "ab", buffering=0) as file:
            file.write(json.dumps(what).encode() + b"\n")

    def event(self, kind: str, **fields: Any) -> None:
        """Write an event of a model call."""
        self.say(type="stream_event", event={"type": kind, **fields}, parent_tool_use_id=None)

    def begin(self, text: str, *, calls: bool) -> None:
        """Write the beginning of the model's message, up to its call."""
        self.items += 1
        message = {"id": f"msg_{self.session}_{self.items}", "role": "assistant", "model": "m", "content": []}
        self.event("message_start", message=message)
        self.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        self.event("content_block_stop", index=0)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if calls:
            blocks.append({"type": "tool_use", "id": f"toolu_{self.items}", "name": "Bash", "input": {"command": "ls"}})
            self.event("content_block_start", index=1, content_block={**blocks[1], "input": {}})
            self.event("content_block_stop", index=1)
        for block in blocks:
            self.say(type="assistant", message={**message, "content": [block]}, parent_tool_use_id=None)
        self.event("message_delta", delta={"stop_reason": "tool_use" if calls else "end_turn"})
        self.event("message_stop")
        self.is_calling = calls
        begun, self.begun = self.begun, []
        for given, id in begun:
            self.did(steer=given)
            self.lifecycle(id, "completed")

    def returned(self) -> None:
        """Write the result of the call."""
        if self.is_calling:
            self.is_calling = False
            result = {"type": "tool_result", "tool_use_id": f"toolu_{self.items}", "content": "ok"}
            self.say(type="user", message={"role": "user", "content": [result]}, parent_tool_use_id=None)

    def lifecycle(self, id: str, state: str) -> None:
        """Write what becomes of a message."""
        if not self.options.mute:
            self.say(type="command_lifecycle", command_uuid=id, state=state)

    def state(self, state: str) -> None:
        """Write the state of the session."""
        self.say(type="system", subtype="session_state_changed", state=state)

    def run(self) -> None:
        """Serve until stdin is closed."""
        threading.Thread(target=self.listen, daemon=True).start()
        while True:
            try:
                line = self.lines.get(timeout=STEP_SECONDS if self.is_working else None)
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
        """Answer a line."""
        if line["type"] == "user":
            text, id = line["message"]["content"], line.get("uuid")
            if id is None:
                self.turn(text)
                self.did(prompt=text)
            else:
                self.given.append((text, id))
                Path(f"{self.options.did}.given").touch()
                self.lifecycle(id, "queued")
                if not self.is_working:
                    self.next_turn()
            return
        request: dict[str, Any] = line["request"]
        response: dict[str, Any] = {}
        if request["subtype"] == "cancel_async_message":
            response = {"cancelled": self.drop(request["message_uuid"])}
        elif request["subtype"] == "interrupt":
            response = {"still_queued": [], "cancelled": [id for _, id in self.given]}
            for _, id in [*self.given]:
                self.drop(id)
        answer = {"subtype": "success", "request_id": line["request_id"], "response": response}
        self.say(type="control_response", response=answer)
        if request["subtype"] == "interrupt" and self.is_working:
            self.end("aborted_streaming")

    def drop(self, id: str) -> bool:
        """Drop a message that waits; return whether it was there."""
        left = [given for given in self.given if given[1] != id]
        if self.options.late:
            return False
        dropped, self.given = len(left) < len(self.given), left
        if dropped:
            self.lifecycle(id, "cancelled")
        return dropped

    def turn(self, text: str) -> None:
        """Begin a turn."""
        self.is_working, self.is_ending, self.is_begun, self.left = True, False, False, random.randrange(4)
        abilities = [] if self.options.old else ["msg_lifecycle_v1"]
        self.say(type="system", subtype="init", cwd=".", model="m", capabilities=abilities, claude_code_version="9")
        self.state("running")

    def step(self) -> None:
        """Go on with the turn."""
        if not self.is_begun:
            self.is_begun = True
            self.begin("Working.", calls=True)
        elif self.is_ending:
            if not self.given or self.hears() or self.options.late:
                self.end()
        elif self.given and self.hears():
            self.returned()
            given, self.given, self.begun = self.given, [], self.given
            for _, id in given:
                self.lifecycle(id, "started")
            self.begin("\n".join(f"Taken: {text[:100]}" for text, _ in given), calls=True)
        elif self.options.random:
            self.left -= 1
            time.sleep(random.random() * STEP_SECONDS)
            if self.left < 0:
                self.last()
            elif random.random() < 0.5:
                self.returned()
                self.begin("Working on.", calls=True)
        elif Path(self.options.gate).exists():
            self.last()

    def hears(self) -> bool:
        """Return whether messages are read."""
        return self.options.ears is None or Path(self.options.ears).exists()

    def last(self) -> None:
        """Write the last message of the turn."""
        self.returned()
        self.begin("Done.", calls=False)
        self.is_ending = True

    def end(self, stopped: str = "") -> None:
        """End the turn, and begin the next one with the messages that are there."""
        self.is_working = False
        self.returned()
        kind = "error_during_execution" if stopped else "success"
        text = {} if stopped else {"result": "Done."}
        reason = stopped or "completed"
        self.say(type="result", subtype=kind, is_error=bool(stopped), num_turns=1, terminal_reason=reason, **text)
        if self.given:
            self.next_turn()
        else:
            self.state("idle")

    def next_turn(self) -> None:
        """Begin a turn with a message that was given."""
        text, id = self.given.pop(0)
        self.lifecycle(id, "started")
        self.turn(text)
        time.sleep(self.options.late)
        self.begun = [(text, id)]


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--did", required=True, help="file to which each prompt and each answered message is appended")
    parser.add_argument("--gate", default="/nowhere", help="file at which turns end")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--ears", help="file without which no message is read")
    parser.add_argument("--old", action="store_true")
    parser.add_argument("--mute", action="store_true")
    parser.add_argument("--late", type=float, default=0, help="seconds before a turn that a message begins")
    parser.add_argument("--resume")
    Peer(parser.parse_known_args()[0]).run()


if __name__ == "__main__":
    main()
