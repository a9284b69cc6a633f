"""A real gateway for the tests: its own server on a port of its own, with a real service, a real store and agents that
play recordings.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import httpx

from penstock.chat.history.entries import Entry
from penstock.chat.people.audit import AUDIT, Audit
from penstock.chat.people.persons import PEOPLE, People
from penstock.chat.people.spending import SPENDING, DailySpending
from penstock.chat.runs.service import Runs
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.push import Push
from penstock.chat.service.service import Service
from penstock.chat.store.protocol import clock
from penstock.chat.store.sqlite import SqliteStore
from penstock.chat.web.api import Api
from penstock.chat.web.app import make_app
from penstock.chat.web.auth import Logins
from penstock.chat.web.broadcast import Watches
from penstock.chat.web.metrics import Metrics
from penstock.chat.web.push_api import SignedInSubscribers
from penstock.chat.web.security import Security
from penstock.chat.web.server import Server
from penstock.chat.web.static import PageFiles
from penstock.config import settings
from penstock.events import Event
from penstock.run.history import History

TESTS = Path(__file__).parents[1]

RECORDINGS = TESTS / "recordings" / "claude"
PLAYER = TESTS / "support" / "scripted.py"
TOKEN = "a-token-of-the-tests-that-is-long-enough"
SECONDS = 20.0
"""What has not come by then does not come any more."""

AGENTS = f"""
[agents.scripted]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=0"]
adapter = "claude"

[agents.slow]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=1"]
adapter = "claude"

[agents.staying]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "text"}", "--speed=0", "--lines=1", "--stay"]
adapter = "claude"
"""


def held_and_asking(gate: Path) -> str:
    """An agent that stops in the middle until this file is there, and one that asks, as `acp_peer.py` has it."""
    return f"""
[agents.held]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS / "thinktools"}", "--speed=0", "--hold=38:{gate}"]
adapter = "claude"

[agents.peer]
command = ["{sys.executable}", "{TESTS / "support" / "acp_peer.py"}"]
protocol = "acp"
"""


PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
BRIEF = httpx.Limits(keepalive_expiry=2)  # the server ends a silent connection after 5 s, when httpx may use it again
Row = Entry | Event


class Gateway:
    """A gateway in a thread of its own. `options` are of `start`."""

    def __init__(self, folder: Path, page: Path, **options: Any) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(exist_ok=True)
        self.page = page
        self.loop = asyncio.new_event_loop()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.bearer = {"Authorization": f"Bearer {TOKEN}"}
        self.server: Server
        self.service: Service
        self.store: SqliteStore
        self.watches: Watches
        self.security: Security
        self.logins: Logins
        self.metrics = Metrics()
        self.time = 1_000_000.0
        """What the clock of logins says, in seconds."""
        self.failure: BaseException | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, kwargs=options, name="gateway")
        self._thread.start()
        assert self._started.wait(SECONDS)
        self._check_start()

    def _check_start(self) -> None:
        if self.failure is not None:
            self.socket.close()
            raise self.failure

    def _run(self, **options: Any) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self._serve(**options))
            except BaseException as error:
                self.failure = error
            finally:
                self._started.set()

    async def _serve(
        self,
        *,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        limits: ServiceLimits | None = None,
        max_clients: int = 200,
        pace: float = 0.0,
        linger: float = 0.1,
        ping: float = 15.0,
        patience: float = 30.0,
        push_hosts: Sequence[str] = (),
        push_tls: ssl.SSLContext | None = None,
        history: History | None = None,
    ) -> None:
        found = settings.load(
            {"PENSTOCK_CONFIG": str(self.folder / "agents.toml"), "PENSTOCK_SANDBOX": "off"}, str(self.folder)
        )
        self.logins = Logins(
            TOKEN,
            f"penstock_{self.port}",
            browsers=self.folder / "browsers.json",
            people=People(self.folder / PEOPLE),
            clock=lambda: self.time,
            now=lambda: self.time,
        )
        self.security = Security(self.logins, hosts=hosts, origins=origins)
        async with await SqliteStore.open(self.folder / "chats.db") as self.store:
            self.service = await Service.open(
                self.store,
                roots=[self.root],
                config=found,
                limits=limits,
                default_agent="scripted",
                spending=DailySpending(self.folder / SPENDING, self.logins.people),
                data=self.folder,
                history=history,
                push=Push(SignedInSubscribers(self.logins), hosts=push_hosts, now=clock, tls=push_tls),
            )
            await self.service.places.trust(self.root)
            self.watches = Watches(self.service, self.metrics, max_clients=max_clients, pace=pace, linger=linger)
            audit = Audit(self.folder / AUDIT)
            runs = Runs(self.folder)
            api = Api(self.service, self.watches, self.security, runs, audit=audit, ping=ping, patience=patience)
            people = self.logins.people
            follow = self.logins.follow(), self.service.read_marks.follow(people.listed)
            following = [asyncio.create_task(it) for it in follow]
            self.server = Server(make_app(api, PageFiles(self.page)), self.service.close)
            self.loop.call_soon(self._started.set)
            await self.server.serve(sockets=[self.socket])
            for task in following:
                task.cancel()
            await self.logins.browsers.close()

    def close(self) -> None:
        """End it as a signal would."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.server.drain)
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    # --- asking ---

    def client(self, **headers: str) -> httpx.Client:
        """A program that knows the token."""
        return self._client({**self.bearer, **headers})

    def browser(self, cookie: str | None = None) -> httpx.Client:
        """A browser that is signed in, or says so by this cookie."""
        value = cookie if cookie is not None else self.call(self.logins.browsers.sign_in("Tests"))
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", "Cookie": f"penstock_{self.port}={value}"}
        return self._client(headers)

    def _client(self, headers: dict[str, str]) -> httpx.Client:
        # To make a context for TLS takes longer than most tests.
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=SECONDS, trust_env=False, verify=PLAIN, limits=BRIEF
        )

    def raw(self, request: bytes, *, more: bytes = b"") -> bytes:
        """Bytes to the server; all that it answers until it ends the connection, or says nothing for a while."""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as one:
            one.settimeout(SECONDS)
            received = b""
            try:
                one.sendall(request)
                while data := one.recv(65536):
                    received += data
            except ConnectionError:
                pass
            return received

    # --- chats ---

    def chat(self, agent: str = "scripted", **fields: Any) -> str:
        """A new chat; its id."""
        with self.client() as client:
            answer = client.post("/api/chats", json={"agent": agent, **fields})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["id"])

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do this in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def append(self, chat: str, rows: Sequence[Row]) -> int:
        """Append entries to a chat, as its worker would; its last number."""

        async def append() -> int:
            log = self.service.log(chat)
            await log.write(lambda _: rows)
            return (await log.open()).number

        return int(self.call(append()))


def start(folder: Path, page: Path, **options: Any) -> Gateway:
    """A gateway with its data in this folder; in one that had some, with the chats of that one."""
    (folder / "agents.toml").write_text(AGENTS)
    return Gateway(folder, page, **options)
