"""A client of `penstock acp` that speaks plain lines: it can also say what the official ones do not."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from served import SECONDS, TOKEN

from penstock.cli.acp.agent import AcpAgent
from penstock.cli.stdio.link import StdioOptions

Message = dict[str, Any]


class AcpClient:
    """A client, and in a thread the agent with which it speaks through pipes."""

    def __init__(self, folder: Path, url: str, agent: str = "scripted") -> None:
        token = folder / "acp-token"
        if not token.exists():  # another client of the test may be reading it
            token.write_text(TOKEN)
            token.chmod(0o600)
        self._to_agent, to_client = os.pipe(), os.pipe()
        options = StdioOptions(agent=agent, server=url, token_file=token, data=None)
        self._agent = AcpAgent(options, self._to_agent[0], to_client[1])
        self._lines = os.fdopen(to_client[0], "rb")
        self._sink = to_client[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.updates: list[Message] = []
        """Updates so far, without the ids of their sessions."""
        self.permissions: list[Message] = []
        self.withdrawn: list[int] = []
        self.answer: Callable[[Message], Message | None] = lambda asked: selected(asked["options"][0]["optionId"])
        """What it answers when it is asked for a permission; None: nothing."""
        self.forms: list[Message] = []
        self.form: Message | None = {"action": "decline"}
        """What it answers to a form; None: nothing."""
        self.form_ids: list[int] = []
        self._last = 0

    def _serve(self) -> None:
        try:
            self._agent.serve()
        finally:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._sink)  # not closed: threads that are left must not write to what gets its number
            os.close(nothing)

    def close(self) -> None:
        """Go; the agent ends."""
        if self._to_agent[1] >= 0:
            os.close(self._to_agent[1])
            self._to_agent = (self._to_agent[0], -1)
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
            self._lines.close()
            os.close(self._to_agent[0])

    def write(self, data: bytes) -> None:
        """Bytes to the agent."""
        while data:
            data = data[os.write(self._to_agent[1], data) :]

    def send(self, method: str, **params: Any) -> int:
        """A request; its id."""
        self._last += 1
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}).encode() + b"\n"
        )
        return self._last

    def notify(self, method: str, **params: Any) -> None:
        """A notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def read(self) -> Message:
        """The next answer; updates and requests before it are handled."""
        while True:
            line = self._lines.readline()
            assert line, "the agent has ended"
            message: Message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            method = message.get("method")
            if method is None:
                return message
            if method == "session/update":
                self.updates.append(message["params"]["update"])
            elif method == "session/request_permission":
                self.permissions.append(message["params"])
                answer = self.answer(message["params"])
                if answer is not None:
                    self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode() + b"\n")
            elif method == "elicitation/create":
                self.forms.append(message["params"])
                self.form_ids.append(message["id"])
                if self.form is not None:
                    self.fill_in(message["id"], self.form)
            else:
                assert method == "$/cancel_request"
                self.withdrawn.append(message["params"]["requestId"])

    def until(self, is_there: Callable[[], bool]) -> None:
        """Handle messages until this is so; none of them is an answer."""
        while not is_there():
            line = self._lines.readline()
            assert line, "the agent has ended"
            message = json.loads(line)
            assert "method" in message, message
            if message["method"] == "session/update":
                self.updates.append(message["params"]["update"])
            elif message["method"] == "session/request_permission":
                self.permissions.append(message["params"])
            elif message["method"] == "elicitation/create":
                self.forms.append(message["params"])
                self.form_ids.append(message["id"])
            elif message["method"] == "$/cancel_request":
                self.withdrawn.append(message["params"]["requestId"])

    def fill_in(self, form: int, result: Message) -> None:
        """Answer a form."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": form, "result": result}).encode() + b"\n")

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        number = self.send(method, **params)
        answer = self.read()
        assert answer["id"] == number, answer
        assert "result" in answer, answer
        return answer["result"]

    def fail(self, method: str, **params: Any) -> Message:
        """The error of a request."""
        number = self.send(method, **params)
        answer = self.read()
        assert answer["id"] == number, answer
        found: Message = answer["error"]
        return found

    # --- sessions ---

    def new(self, folder: Path) -> str:
        """A session in a directory; its id."""
        return str(self.ask("session/new", cwd=str(folder), mcpServers=[])["sessionId"])

    def prompt(self, session: str, text: str) -> Message:
        """The result of a prompt."""
        found: Message = self.ask("session/prompt", sessionId=session, prompt=words(text))
        return found

    @property
    def shown(self) -> list[Message]:
        """Updates that show something of a turn: without the commands, which are no part of it."""
        return [it for it in self.updates if it["sessionUpdate"] != "available_commands_update"]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """The text of all updates of a kind."""
        return "".join(it["content"]["text"] for it in self.updates if it["sessionUpdate"] == kind)


def words(text: str) -> list[Message]:
    """A prompt of text."""
    return [{"type": "text", "text": text}]


def selected(option: str) -> Message:
    """The answer to a permission that chooses an option."""
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}
