"""A real `penstock serve` that tests start, end and kill, again and again, with agents that play recordings."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waiting import PATIENCE, until

from penstock.chat.store.protocol import StoredEntry
from penstock.chat.store.sqlite import SqliteStore
from penstock.run.process import GUARD

RECORDINGS = Path(__file__).parents[1] / "recordings"
PLAYER = Path(__file__).parent / "turn_player.py"
AGENTS = ("claude", "gemini", "codex", "copilot")
"""Whose recordings are played: partial messages, whole messages, thoughts, calls."""


@contextlib.contextmanager
def seeded() -> Iterator[random.Random]:
    """A random source, whose seed is told where the test fails. `PENSTOCK_SEED` gives it."""
    seed = int(os.environ.get("PENSTOCK_SEED") or time.time_ns() % 1_000_000)
    try:
        yield random.Random(seed)
    except BaseException as error:
        error.add_note(f"PENSTOCK_SEED={seed}")
        raise


class Served:
    """A folder in which `penstock serve` is started, ended and killed, always at one port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.notes, self.data = folder / "work", folder / "notes", folder / "data"
        for path in (self.work, self.notes):
            path.mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.errors = folder / "stderr"
        self._configure()

    def _configure(self) -> None:
        tables = []
        for name in AGENTS:
            command = [sys.executable, "-I", "-S", str(PLAYER), str(RECORDINGS / name), str(self.notes)]
            command += ["--model={model}", "--resume={session_id}"]
            tables.append(f'[agents.{name}-played]\nadapter = "{name}"\ncommand = {json.dumps(command)}')
        (self.folder / "config.toml").write_text("\n".join(tables))

    def __enter__(self) -> Served:
        try:
            self.start()
            self.post("/api/workspaces", {"path": str(self.work)}, expect=200)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
        for pid in self.living():  # none, but where a test has failed
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.living(), "processes of the test are gone")

    # --- the process ---

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environ = {**os.environ, "PENSTOCK_CONFIG": str(self.folder / "config.toml")}
        flags = [f"--port={self.port}", f"--data={self.data}", f"--root={self.work}"]
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "serve", *flags],
                env=environ,
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        until(self.answers, f"the server answers; it said: {self.said()}")

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended by itself: {self.said()}"
        try:
            return self.ask("GET", "/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def said(self) -> str:
        return self.errors.read_text("utf-8", "replace")[-3000:]

    def end(self, number: int) -> int | None:
        """Send it a signal, and wait for its end; gives its status."""
        process, self.process = self.process, None
        if process is None:
            return None
        process.send_signal(number)
        return process.wait(PATIENCE)

    def living(self) -> set[int]:
        """All processes that were started for the test: server, guards, agents, and what these start."""
        return {pid for pid, line in commands() if str(self.folder) in line}

    def guards(self) -> list[int]:
        """The guards of the agents that run."""
        return [pid for pid, line in commands() if str(self.folder) in line and GUARD in line]

    def starts(self) -> Counter[str]:
        """How often an agent was started with each prompt's name."""
        path = self.notes / "starts"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    # --- plain requests ---

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request; the status and the JSON of the answer."""
        with self._asked(method, path, body, headers) as connection:
            answer = connection.getresponse()
            text = answer.read()
        return answer.status, json.loads(text) if text else None

    @contextlib.contextmanager
    def _asked(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            known = {} if path == "/healthz" else {"Authorization": f"Bearer {self.token}"}
            data = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, {**known, **kind, **headers})
            yield connection

    def post(self, path: str, body: Any, *, expect: int, **headers: str) -> Any:
        status, answer = self.ask("POST", path, body, **headers)
        assert status == expect, answer
        return answer

    def chat(self, agent: str) -> str:
        """A new chat with a scripted agent."""
        chat = self.post("/api/chats", {"agent": f"{agent}-played", "cwd": str(self.work)}, expect=201)
        return str(chat["id"])

    def prompt(self, chat: str, text: str, key: str, *, lost: bool = False) -> int:
        """Ask for a turn, until it was taken: the server may end or be killed meanwhile.

        `lost`: the answer to a first try is lost.
        """
        path, body, headers = f"/api/chats/{chat}/turns", {"text": text}, {"Idempotency-Key": key}
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if lost:
                    lost = False
                    with self._asked("POST", path, body, headers):
                        time.sleep(0.005)
                status, answer = self.ask("POST", path, body, **headers)
            except (OSError, http.client.HTTPException):
                status, answer = 0, None
            if status in (200, 202):
                return int(answer["turn"])
            assert status in (0, 503), answer
            assert time.monotonic() < end, "the prompt is not taken"
            time.sleep(0.02)

    def turns(self, chat: str) -> list[dict[str, Any]]:
        """All turns of a chat, as the API tells them."""
        found: list[dict[str, Any]] = []
        before = ""
        while True:
            status, answer = self.ask("GET", f"/api/chats/{chat}/turns?limit=20{before}")
            assert status == 200, answer
            found = answer["turns"] + found
            if not answer.get("earlier"):
                return found
            before = f"&before={found[0]['turn']}"

    def finalized(self, chat: str) -> bool:
        """Whether nothing runs and nothing waits."""
        return all(turn.get("finalized") for turn in self.turns(chat))

    def rows(self, chat: str) -> list[StoredEntry]:
        """All entries of a chat, from the file: the server has ended."""
        assert self.process is None
        (path,) = self.data.glob("*.db")

        async def read() -> list[StoredEntry]:
            found: list[StoredEntry] = []
            async with await SqliteStore.open(path) as store:
                while page := (await store.read(chat, after=len(found))).entries:
                    found += page
            return found

        return asyncio.run(read())


def commands() -> Iterator[tuple[int, str]]:
    """The command lines of all other processes."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                line = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                yield int(entry), line


def free_port() -> int:
    """One that nobody has. It is none of those that the system gives to connections, so a restart finds it free."""
    for _ in range(100):
        port = 10_000 + secrets.randbelow(20_000)  # tests have their seeds in common
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
