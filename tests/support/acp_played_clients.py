"""The official clients of ACP for JavaScript and Python, with agents at a socket that play recordings."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lazy_modules import LazyModule
from npm_packages import installed

if TYPE_CHECKING:
    import acp
    from acp import helpers, schema
else:
    acp = LazyModule("acp")
    helpers = LazyModule("acp.helpers")
    schema = LazyModule("acp.schema")

PACKAGE = "@agentclientprotocol/sdk@2.4.0"
PROGRAM = Path(__file__).with_name("acp_played_client.mjs")
SECONDS = 600
"""Timeout in seconds for all sessions of a client."""

FULL: dict[str, Any] = {"elicitation": {"form": {}}, "session": {"notices": {}}}


class Asked(NamedTuple):
    """Prompts of one session, one after the other."""

    prompts: list[str]
    is_full: bool
    """The client has forms and notices."""
    cut: int | None = None
    """Number of updates after which the bytes of the agent end, in the middle of a line."""


class Got(NamedTuple):
    """What a client has at the end of a session."""

    stop: str | None
    error: str | None
    outcome: str | None
    updates: list[dict[str, Any]]
    dropped: int
    """Number of updates that the client got and did not accept."""

    @property
    def message(self) -> str:
        """The text of the last message."""
        chunks = [it for it in self.updates if it["sessionUpdate"] == "agent_message_chunk"]
        return "".join(it["content"]["text"] for it in chunks if it["messageId"] == chunks[-1]["messageId"])


def javascript(socket: Path, asked: Iterable[Asked]) -> list[Got]:
    """What the client for JavaScript has after each of these."""
    lines = "".join(
        json.dumps({"prompts": it.prompts, "isFull": it.is_full} | ({} if it.cut is None else {"cut": it.cut})) + "\n"
        for it in asked
    )
    words = ["node", str(PROGRAM), str(installed(PACKAGE)), str(socket)]
    done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [_got(it["stop"], it["error"], it["updates"], it["dropped"]) for it in found]


def python(socket: Path, asked: Sequence[Asked]) -> list[Got]:
    """What the client for Python has after each of these."""

    async def run() -> list[Got]:
        kept = {is_full: _Client(is_full) for is_full in (False, True)}
        found = []
        for it in asked:
            client = kept[it.is_full] if it.cut is None else _Client(it.is_full, it.cut)
            found.append(await client.ask(socket, it.prompts))
            if it.cut is not None:
                await client.close()
        for client in kept.values():
            await client.close()
        return found

    return asyncio.run(asyncio.wait_for(run(), SECONDS))


class _Client:
    """A client made with the protocol's own package, and its connection, whose lines it counts."""

    def __init__(self, is_full: bool, cut: int | None = None) -> None:
        self._is_full = is_full
        self._cut = cut
        self._updates: list[Any] = []
        self._sent = 0
        self._handled = 0
        self._is_asked = False
        self._connection: Any = None
        self._pumping: asyncio.Task[None] | None = None

    def on_connect(self, conn: Any) -> None:
        """The connection; it is not needed."""

    async def request_permission(self, options: list[Any], **_: Any) -> Any:
        """Choose the first option."""
        chosen = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=chosen)

    async def create_elicitation(self, **_: Any) -> Any:
        """Fill in the form."""
        return schema.AcceptElicitationResponse(action="accept", content={"answer": "1"})

    async def session_update(self, update: Any, **_: Any) -> None:
        """Keep it."""
        self._handled += 1
        self._updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._pumping is not None:
            self._pumping.cancel()
            await self._connection.close()
            self._writer.close()

    async def ask(self, socket: Path, prompts: list[str]) -> Got:
        """Send prompts to a new session."""
        if self._connection is None:
            await self._connect(socket)
        self._updates = []
        session = await self._connection.new_session(cwd="/demo", mcp_servers=[])
        self._is_asked = True
        stop, error = None, None
        try:
            for text in prompts:
                block = helpers.text_block(text)
                ended = await self._connection.prompt(session_id=session.session_id, prompt=[block])
                stop = ended.stop_reason
        except acp.RequestError as failed:
            stop, error = None, {"message": str(failed), "data": failed.data}
        except (ConnectionError, ValueError) as failed:
            stop, error = None, {"message": str(failed)}
        async with asyncio.timeout(60):
            while self._handled < self._sent:
                await asyncio.sleep(0)
        return _got(stop, error, self._updates, self._sent - self._handled)

    async def _connect(self, socket: Path) -> None:
        source, self._writer = await asyncio.open_unix_connection(str(socket), limit=2**26)
        sink = asyncio.StreamReader(limit=2**26)
        self._pumping = asyncio.create_task(self._pump(source, sink))
        client: Any = self  # it has what the agent asks for, and no more
        self._connection = acp.connect_to_agent(client, self._writer, sink, use_unstable_protocol=True)
        given = schema.ClientCapabilities.model_validate(FULL if self._is_full else {})
        await self._connection.initialize(protocol_version=1, client_capabilities=given)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamReader) -> None:
        while line := await source.readline():
            if self._is_asked and self._sent == self._cut:
                sink.feed_data(line[: len(line) // 2])
                break
            if b'"method":"session/update"' in line:
                self._sent += 1
            sink.feed_data(line)
        sink.feed_eof()


def _got(stop: str | None, error: dict[str, Any] | None, updates: list[dict[str, Any]], dropped: int) -> Got:
    data = (error or {}).get("data") or {}
    return Got(stop, error["message"] if error else None, data.get("outcome"), updates, dropped)
