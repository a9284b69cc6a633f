"""Messages of a thread as a client of AG-UI has them: those that it sent, and those that a stream has added since.

A snapshot replaces the client's messages, so it has to have all of them, also the client's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

ROLES = frozenset({"developer", "system", "assistant", "user", "tool", "reasoning"})
"""Roles of messages that a snapshot repeats. Activities are the client's: a snapshot without one keeps all of them."""

MAX_SNAPSHOT_BYTES = 1024 * 1024
"""Size of the client's own messages up to which a snapshot is sent at each revision; above, once at the end."""


class Thread:
    """Messages that a client has."""

    def __init__(self, given: Iterable[Mapping[str, Any]], prefix: str) -> None:
        """`given`: messages that the client sent. `prefix`: beginning of the ids of those that the turn has made."""
        self._prefix = prefix
        sent = [it for it in given if isinstance(it.get("id"), str) and it.get("role") in ROLES]
        self._places = {message["id"]: place for place, message in enumerate(sent)}
        self._before = {it["id"]: it.get("content") or "" for it in sent if self._is_made(it["id"])}
        others = [it for it in sent if it["id"] not in self._before]
        self._messages: dict[str, dict[str, Any]] = {
            message["id"]: {name: value for name, value in message.items() if value is not None} for message in others
        }
        self._pieces: dict[str, list[str]] = {}  # texts of the messages that the stream has added
        self.is_large: bool = len(msgspec.json.encode(others)) > MAX_SNAPSHOT_BYTES
        """True if the client's own messages are too large to repeat often."""

    def _is_made(self, id: str) -> bool:
        """Return whether a message was made by the turn. Its question, as text, is kept whatever follows."""
        return id == self._prefix or (id.startswith(f"{self._prefix}.") and not id.startswith(f"{self._prefix}.ask"))

    @property
    def is_as_sent(self) -> bool:
        """Return whether the client has the turn's messages as they are here."""
        made = {id: message for id, message in self._messages.items() if self._is_made(id)}
        return {id: self.text(id) or message.get("content", "") for id, message in made.items()} == self._before

    def is_known(self, id: str) -> bool:
        """Return whether the client had a message of this id at the beginning."""
        return id in self._places

    def text(self, id: str) -> str:
        """Return the text of a message that the stream has added; "" if there is none."""
        pieces = self._pieces.get(id)
        if pieces is None:
            return ""
        pieces[:] = ["".join(pieces)]
        return pieces[0]

    def set_text(self, id: str, text: str) -> None:
        """Replace the text of a message."""
        self._pieces[id] = [text]

    def remove(self, id: str) -> None:
        """Remove a message."""
        self._messages.pop(id, None)
        self._pieces.pop(id, None)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Change the messages as an event does at the client."""
        kind = event["type"]
        tag = {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}
        if kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            id = event["messageId"]
            self._messages.setdefault(id, {"id": id, "role": event["role"], **tag})
            self._pieces.setdefault(id, [])
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            self._pieces[event["messageId"]].append(event["delta"])
        elif kind == "TOOL_CALL_START":
            id = event["toolCallId"]
            call = {"id": id, "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
            self._messages[id] = {"id": id, "role": "assistant", "toolCalls": [call], **tag}
        elif kind == "TOOL_CALL_ARGS":
            [call] = self._messages[event["toolCallId"]]["toolCalls"]
            call["function"]["arguments"] += event["delta"]
        elif kind == "TOOL_CALL_RESULT":
            id = event["messageId"]
            found = {"id": id, "role": "tool", "toolCallId": event["toolCallId"], "content": event["content"], **tag}
            self._messages[id] = found

    def snapshot(self) -> dict[str, Any]:
        """Return the event that gives the client all messages.

        Those that it has keep its order; one that it lacks, as a cut left it out, is before the message that followed.
        """
        place, order = len(self._places), {}
        for id in reversed(self._messages):
            place = self._places.get(id, place)
            order[id] = place, id in self._places
        ids = sorted(self._messages, key=order.__getitem__)
        return {"type": "MESSAGES_SNAPSHOT", "messages": [self._whole(id) for id in ids]}

    def _whole(self, id: str) -> dict[str, Any]:
        message = self._messages[id]
        return {**message, "content": self.text(id)} if id in self._pieces else {**message}
