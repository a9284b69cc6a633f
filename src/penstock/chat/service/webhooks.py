"""Webhooks: requests to the operator's addresses when an agent asks something, or when a turn has ended.

A webhook describes the event and its chat. It never contains a prompt, a reply or a command. It is signed as
[Standard Webhooks](https://www.standardwebhooks.com) define it, and never delays a turn.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from urllib.parse import quote, urlsplit

import msgspec

from penstock import events as ev
from penstock.chat.history.frames import TurnView
from penstock.chat.service.outgoing import SentOnce, post, repeat
from penstock.chat.store.rows import ChatRow
from penstock.config.notify import Webhook
from penstock.sinks.sanitize import clean_line

MAX_WAITING = 100
"""Messages of one webhook that wait for an answer or for their next try; a further one is dropped."""

SECRET_PREFIX = "whsec_"
"""Beginning of a secret that is written in base64."""

WORDS: dict[ev.Outcome, str] = {
    "ok": "is done",
    "error": "failed",
    "cancelled": "was stopped",
    "timed_out": "ran out of time",
    "cut_off": "was cut off",
    "empty": "ended without a reply",
}
"""Words for the outcome of a turn."""

Occasion = Literal["asks", "ended"]

_log = logging.getLogger("penstock.gateway")


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a message; as JSON it is the body of a request."""

    type: Occasion
    at: int
    """Time in milliseconds since 1970."""
    text: str
    """The same as a sentence for people."""
    chat: str
    turn: int
    agent: str
    directory: str
    """Last part of the directory's path."""
    outcome: ev.Outcome | None = None
    """Outcome of the turn, once it has ended."""
    link: str | None = None
    """Address of the chat's page, without a login; None if the server has no address."""


class Webhooks:
    """The webhooks of one server."""

    def __init__(
        self,
        hooks: Sequence[Webhook],
        *,
        url: str = "",
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Create them. `url`: address of the server, for links; "" for none.

        `now` (milliseconds since 1970) and `sleep` (seconds) are the clock.
        """
        self._hooks = hooks
        self._url = url
        self._now = now
        self._sleep = sleep
        self._tasks: dict[Webhook, set[asyncio.Task[None]]] = {hook: set() for hook in hooks}

    def announce(self, chat: ChatRow, turn: TurnView, happened: Sequence[Occasion]) -> None:
        """Send the first of these messages that a webhook wants, to each webhook.

        The requests run concurrently with the caller.
        """
        for hook, tasks in self._tasks.items():
            kind = next((it for it in happened if it in hook.on), None)
            if kind is None:
                continue
            if len(tasks) >= MAX_WAITING:
                _log.warning("webhook %s: %d messages wait, so one is dropped", host_of(hook), len(tasks))
                continue
            message = self._message(hook, chat, turn, kind)
            task = asyncio.create_task(self._send(hook, message), name=f"webhook {host_of(hook)}")
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def close(self) -> None:
        """Drop the messages that wait."""
        tasks = [task for of_hook in self._tasks.values() for task in of_hook]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _message(self, hook: Webhook, chat: ChatRow, turn: TurnView, kind: Occasion) -> Happened:
        agent, directory = named(chat, turn)
        outcome = turn.outcome if kind == "ended" else None
        base = hook.link or self._url
        return Happened(
            type=kind,
            at=self._now(),
            text=sentence(chat, turn, kind),
            chat=chat.id,
            turn=turn.turn,
            agent=agent,
            directory=directory,
            outcome=outcome,
            link=f"{base.rstrip('/')}/chats/{quote(chat.id, safe='')}" if base else None,
        )

    async def _send(self, hook: Webhook, message: Happened) -> None:
        body = message.text.encode() if hook.format == "ntfy" else msgspec.json.encode(message)

        async def attempt() -> SentOnce:
            return await post(hook.url, body, headers_of(hook, message, body, self._now() // 1000))

        result = await repeat(attempt, self._sleep)
        if result.problem:
            _log.warning("webhook %s: %s; the message is lost: %s", host_of(hook), result.problem, message.text)


def named(chat: ChatRow, turn: TurnView) -> tuple[str, str]:
    """Return the agent of a turn and the last part of its directory, each as one line without control characters."""
    return clean_line(turn.agent or chat.agent), clean_line(chat.cwd.rstrip("/").rpartition("/")[2])


def sentence(chat: ChatRow, turn: TurnView, kind: Occasion) -> str:
    """Return what happened as a sentence for people. It never has a prompt, a reply or a command."""
    agent, directory = named(chat, turn)
    ended = "has ended" if turn.outcome is None else WORDS[turn.outcome]
    return f"{agent} {'asks' if kind == 'asks' else ended} in {directory or '/'}"


def headers_of(hook: Webhook, message: Happened, body: bytes, seconds: int) -> dict[str, str]:
    """Return the headers of a request, made at this time in seconds since 1970.

    For ntfy the secret is an access token of its server; otherwise it signs the id, the time and the body.
    """
    if hook.format == "ntfy":
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if message.link is not None:
            headers["Click"] = message.link
        if hook.secret is not None:
            headers["Authorization"] = f"Bearer {hook.secret}"
        return headers
    id = message_id(message)
    headers = {"Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": str(seconds)}
    if hook.secret is not None:
        signed = b".".join([id.encode(), str(seconds).encode(), body])
        digest = hmac.new(key_of(hook.secret), signed, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


def message_id(message: Happened) -> str:
    """Return the id of a message, the same in all its tries, so that a receiver can drop repeats."""
    name = f"{message.chat} {message.turn} {message.type} {message.at}"
    return f"msg_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def key_of(secret: str) -> bytes:
    """Return the key of a secret: base64 after `whsec_`; any other secret is the key itself."""
    if secret.startswith(SECRET_PREFIX):
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    return secret.encode()


def host_of(hook: Webhook) -> str:
    """Return the host of a webhook, for messages: the rest of an address may be secret."""
    return clean_line(urlsplit(hook.url).hostname or "")
