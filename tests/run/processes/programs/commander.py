"""An ACP agent that asks whether it may run each line of its prompt, and replies with the options that were chosen.

With `--resumes` it continues any session.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from typing import Any


def send(**message: Any) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


SESSION = os.environ.get("COMMANDER_SESSION") or str(uuid.uuid4())
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
for line in sys.stdin:
    said = json.loads(line)
    if said.get("method") == "initialize":
        send(
            id=said["id"], result={"protocolVersion": 1, "agentCapabilities": {"loadSession": "--resumes" in sys.argv}}
        )
    elif said.get("method") == "session/new":
        send(id=said["id"], result={"sessionId": SESSION})
    elif said.get("method") == "session/load":
        SESSION = said["params"]["sessionId"]
        send(id=said["id"], result={})
    elif said.get("method") == "session/prompt":
        chosen = []
        for number, command in enumerate(said["params"]["prompt"][0]["text"].split("\n")):
            call = {
                "toolCallId": f"c{number}",
                "title": "harmless",
                "kind": "execute",
                "rawInput": {"command": command},
            }
            send(
                id=f"q{number}",
                method="session/request_permission",
                params={"sessionId": SESSION, "options": OPTIONS, "toolCall": call},
            )
            answer = json.loads(sys.stdin.readline())
            chosen.append(answer["result"]["outcome"].get("optionId", "none"))
        text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": " ".join(chosen)}}
        send(method="session/update", params={"sessionId": SESSION, "update": text})
        send(id=said["id"], result={"stopReason": "end_turn"})
    elif "method" in said and "id" in said:
        send(id=said["id"], error={"code": -32601, "message": "Method not found"})
