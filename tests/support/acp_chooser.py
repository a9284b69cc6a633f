"""A small agent of ACP in plain lines: it asks for a choice, for two at once, or before an edit, and says what was
chosen.

Run it with `python -S`: it starts in no time. With `--resumes` it goes on with its session.
"""

import json
import sys
from typing import Any

CHOICES = [{"optionId": id, "name": name, "kind": "choice"} for id, name in (("a", "Apples"), ("b", "Bananas"))]
PERMISSIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Yes, once", "kind": "allow_once"},
    {"optionId": "never", "name": "No", "kind": "reject_once"},
]
DIFF = {"type": "diff", "path": "/shop/README.md", "oldText": "old\n", "newText": "new\n"}
COLOURS = [{"optionId": id, "name": name, "kind": "choice"} for id, name in (("r", "Red"), ("g", "Green"))]
COLOUR: dict[str, Any] = {"toolCallId": "d", "title": "Which colour?", "kind": "other", "status": "pending"}
CHOICE: dict[str, Any] = {"toolCallId": "c", "title": "Which fruit?", "kind": "other", "status": "pending"}
EDIT: dict[str, Any] = {
    "toolCallId": "e",
    "title": "Edit README.md",
    "kind": "edit",
    "status": "pending",
    "content": [DIFF],
}


def say(**message: Any) -> None:
    """A line to the client."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(name: str, fields: dict[str, Any]) -> None:
    """An update of the session."""
    say(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": name, **fields}})


turn = None
asked: dict[int, str | None] = {}
for line in sys.stdin:
    got = json.loads(line)
    method = got.get("method")
    if method == "initialize":
        say(id=got["id"], result={"protocolVersion": 1, "agentCapabilities": {"loadSession": "--resumes" in sys.argv}})
    elif method == "session/load":
        say(id=got["id"], result={})
    elif method == "session/new":
        say(id=got["id"], result={"sessionId": "s"})
    elif method == "session/prompt":
        turn, asked = got["id"], {1: None}
        call, options = CHOICE, CHOICES
        if got["params"]["prompt"][0]["text"] == "edit":
            call, options = EDIT, PERMISSIONS
            update("tool_call", EDIT)
        say(id=1, method="session/request_permission", params={"sessionId": "s", "toolCall": call, "options": options})
        if got["params"]["prompt"][0]["text"] == "both":
            asked[2] = None
            more = {"toolCall": COLOUR, "options": COLOURS}
            say(id=2, method="session/request_permission", params={"sessionId": "s", **more})
    elif method == "session/cancel":
        say(id=turn, result={"stopReason": "cancelled"})
    elif method is not None and "id" in got:
        say(id=got["id"], error={"code": -32601, "message": "unknown method"})
    elif method is None:
        asked[got["id"]] = str(got["result"]["outcome"].get("optionId"))
        if None not in asked.values():
            words = f"chosen: {', '.join(map(str, asked.values()))}"
            update("agent_message_chunk", {"content": {"type": "text", "text": words}})
            say(id=turn, result={"stopReason": "end_turn"})
