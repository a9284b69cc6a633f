"""A server that plays recordings as turns, with the answers of the client, in place of the link with a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from penstock import events as ev
from penstock.chat.history.entries import Answered, Entry, Numbered, TurnEnded
from penstock.cli.stdio.link import TurnStep
from penstock.errors import UsageError

TURN = 2
"""Number of the turn that a prompt begins, as `recorded_turns` has it."""

AGENT = {
    "name": "claude", "installed": True, "available": True, "route": "server", "asks": True, "allows": [],
    "default_allow": "ask", "resumes": True,
}  # fmt: skip
CHAT = {"agent": "claude", "cwd": "/demo", "created_at": 1, "used_at": 1, "state": "idle", "asks": False, "turns": 1}

Turns = Mapping[str, list[Numbered]]


class PlayedLink:
    """Connection with a server whose agents play recordings. A prompt is `{"play": NAME, "rows": COUNT}`: with a count,
    the agent is killed after so many entries."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._asked: dict[str, dict[str, Any]] = {}
        self._answers: dict[tuple[str, str], str] = {}
        self._changed = threading.Condition()

    def ask(self, method: str, path: str, kind: Any, body: Any = None, *, key: str | None = None) -> Any:
        """Answer as the server does."""
        parts = path.split("/")[2:]
        if parts == ["agents"]:
            found: Any = {"agents": [AGENT]}
        elif parts[-1].partition("?")[0] == "commands":
            found = {"commands": []}
        elif parts == ["chats"] and method == "POST":
            if body.get("text") is not None:
                self._asked[body["id"]] = json.loads(body["text"])
            found = {**CHAT, "id": body["id"]}
        elif parts[2:] == ["turns"]:
            self._asked[parts[1]] = json.loads(body["text"])
            found = {"turn": TURN}
        elif parts[2:] == ["stop"]:
            found = {"turns": [TURN]}
        else:
            found = {**CHAT, "id": parts[1]}
        return msgspec.convert(found, kind)

    def answer(self, chat: str, question: str, answer: str) -> None:
        """Keep the answer, once."""
        with self._changed:
            if (chat, question) in self._answers:
                raise UsageError("it was answered")
            self._answers[chat, question] = answer
            self._changed.notify_all()

    def is_hidden(self) -> bool:
        """It has no page."""
        return True

    def follow(self, chat: str, turn: int, after: int = 0, *, stops: bool = False) -> Iterator[TurnStep]:
        """Yield the entries, and those of the answers: each question waits, unless the agent withdraws it itself."""
        asked = self._asked[chat]
        rows = self._turns[asked["play"]]
        if (count := asked.get("rows")) is not None:
            rows = [*rows[:count], Numbered(0, 0, TurnEnded(TURN, "cut_off", "the process was killed"))]
        yield TurnStep([], True)
        number = 0
        for what in self._answered(chat, rows):
            if what is None:
                yield TurnStep([])
                continue
            number += 1
            if number > after:
                yield TurnStep([Numbered(number, 0, _of_turn(what, turn))])

    def _answered(self, chat: str, rows: list[Numbered]) -> Iterator[Entry | ev.Event | None]:
        """Yield what the rows have, with the answers of the client between them, and None while one is missing."""
        asked: list[str] = []
        for _, _, what in rows:
            if isinstance(what, ev.QuestionAsked) and what.blocking:
                asked.append(what.id)
            elif isinstance(what, ev.QuestionAnswered):
                asked = [id for id in asked if id != what.id]
            while asked and not isinstance(what, ev.QuestionAsked | ev.QuestionAnswered | TurnEnded):
                yield from self._next_answer(chat, asked)
            yield what

    def _next_answer(self, chat: str, asked: list[str]) -> Iterator[Entry | ev.Event | None]:
        with self._changed:
            self._changed.wait_for(lambda: any((chat, id) in self._answers for id in asked), 0.01)
            found = next((id for id in asked if (chat, id) in self._answers), None)
        if found is None:
            yield None
        else:
            asked.remove(found)
            yield Answered(TURN, found, self._answers[chat, found])
            yield ev.QuestionAnswered(id=found, by="person", agent="claude")


def _of_turn(what: Entry | ev.Event, turn: int) -> Entry | ev.Event:
    """Return an entry as one of this turn: the first one of a chat that began together with it."""
    return msgspec.structs.replace(what, turn=turn) if getattr(what, "turn", None) == TURN else what
