"""Real `penstock serve` processes on one PostgreSQL: machines of one cluster, each with a data directory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM
from typing import Any

import httpx
from restarts import free_port
from waiting import is_alive, until

from penstock.chat.history.entries import TurnBegan, decode
from penstock.chat.store.postgres.store import PostgresStore
from penstock.chat.store.protocol import StoredEntry

TESTS = Path(__file__).parents[1]
SCRIPTED = TESTS / "support" / "scripted.py"
PEER = TESTS / "support" / "acp_peer.py"
CODEX = TESTS / "support" / "codex_peer.py"
RECORDINGS = TESTS / "recordings" / "claude"

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
BRIEF = httpx.Limits(keepalive_expiry=2)  # the server ends a silent connection after 5 s, when httpx may use it again

EMPTY: Mapping[str, str] = {}

SECONDS = 20.0
"""Seconds for one request."""


class Cluster:
    """Machines that share a database, their agents' files, and nothing else."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.notes = folder / "prompts"
        self.gate = folder / "gate"
        self.machines: list[Machine] = []

    def machine(
        self,
        name: str,
        *options: str,
        works: bool = True,
        url: str | None = None,
        environ: Mapping[str, str] = EMPTY,
        program: Path | None = None,
        waits: bool = True,
    ) -> Machine:
        """Make a machine, and start it. `works`: agents work there; otherwise it only serves the page.

        `options` are more options of `penstock serve`; `program` is a file that is run instead of `penstock`.
        """
        made = Machine(self, name, works=works, url=url or self.url)
        made.environ.update(environ)
        made.options += options
        if program is not None:
            made.command = [sys.executable, str(program)]
        self.machines.append(made)
        made.start(waits=waits)
        return made

    def runs(self) -> list[dict[str, Any]]:
        """What scripted agents noted of their runs: the prompt and the process."""
        return [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def prompts(self) -> list[str]:
        """The prompts that agents were given, in their order."""
        return [run["prompt"].strip() for run in self.runs()]

    def rows(self, chat: str) -> list[StoredEntry]:
        """All entries of a chat, from the database; the store raises an error if one is missing."""

        async def read() -> list[StoredEntry]:
            found: list[StoredEntry] = []
            async with await PostgresStore.open(self.url) as store:
                while page := (await store.read(chat, after=len(found))).entries:
                    found += page
            return found

        return asyncio.run(read())

    def marks(self, chat: str) -> list[str]:
        """The marks of the runs that a chat began, in their order."""
        entries = [entry.what for entry in decode(self.rows(chat))]
        return [entry.mark for entry in entries if isinstance(entry, TurnBegan) and entry.mark is not None]

    def left_over(self) -> list[int]:
        """The agents that still live. A number of theirs may be that of another process by now."""
        return [run["pid"] for run in self.runs() if is_alive(run["pid"]) and str(self.notes) in _command(run["pid"])]

    def close(self) -> None:
        """Kill all processes."""
        for machine in self.machines:
            machine.end(SIGKILL)
        for pid in self.left_over():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


class Machine:
    """One `penstock serve`."""

    def __init__(self, cluster: Cluster, name: str, *, works: bool, url: str) -> None:
        self.cluster = cluster
        self.name = name
        self.folder = cluster.folder / name
        self.work = self.folder / "work"
        self.work.mkdir(parents=True)
        self.errors = self.folder / "stderr"
        self.process: subprocess.Popen[bytes] | None = None
        self.environ: dict[str, str] = {}
        self.command = [sys.executable, "-m", "penstock"]
        self.options: list[str] = []
        """More options of `penstock serve`."""
        self.port = free_port()
        self._works = works
        self._url = url
        self._configure()

    def _configure(self) -> None:
        notes = f"--prompts={self.cluster.notes}"
        play = [sys.executable, "-S", str(SCRIPTED), str(RECORDINGS / "text"), notes, "--speed=0"]
        claude = 'adapter = "claude"'
        agents = {
            "quick": (play, claude),
            "held": ([*play, f"--hold=9:{self.cluster.gate}"], claude),
            "stuck": ([*play, f"--hold=9:{self.cluster.folder / 'never'}"], claude),
            "halting": ([*play, f"--hold=9:{self.cluster.gate}", f"--hold=20:{self.cluster.folder / 'never'}"], claude),
            "slow": ([*play[:-1], "--speed=1"], claude),
            "peer": ([sys.executable, str(PEER)], 'protocol = "acp"'),
            "codex": (
                [sys.executable, "-S", str(CODEX), f"--did={self.cluster.folder}/did", f"--gate={self.cluster.gate}"],
                "",
            ),
        }
        tables = [f"[agents.{name}]\ncommand = {json.dumps(words)}\n{more}" for name, (words, more) in agents.items()]
        (self.folder / "config.toml").write_text("\n".join(tables))

    # --- the process ---

    def start(self, *, waits: bool = True) -> None:
        """Start it, and wait until it answers."""
        given = [f"--port={self.port}", f"--data={self.folder / 'data'}", f"--node={self.name}", "--agent=quick"]
        given += [f"--store={self._url}", *([f"--root={self.work}"] if self._works else [])]
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*self.command, "serve", *given, *self.options],
                env={**os.environ, **self.environ, "PENSTOCK_CONFIG": str(self.folder / "config.toml")},
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        if waits:
            until(self.answers, f"the machine {self.name} answers")
            if self._works:
                self.post("/api/workspaces", {"path": str(self.work)})
                until(self._is_offered, "the others know its directories and agents")

    def answers(self) -> bool:
        """Whether it answers."""
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended by itself: {self.said()}"
        try:
            with self.client() as client:
                return client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def _is_offered(self) -> bool:
        about = self.about()  # the trusted directories are read from their table, the rest is what it published itself
        return str(self.work) in about["trusted"] and str(self.work) in about["roots"] and "quick" in about["agents"]

    def about(self) -> dict[str, Any]:
        """What it says of itself to the others."""
        found: dict[str, Any] = self.node(self.name)["about"]
        return found

    def node(self, name: str) -> dict[str, Any]:
        """A node as this one sees it."""
        return next(node for node in self.get("/api/nodes")["nodes"] if node["name"] == name)

    def said(self) -> str:
        """The end of what it wrote to the terminal."""
        return self.errors.read_text("utf-8", "replace")[-3000:]

    def send(self, number: int) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int = SIGTERM) -> int | None:
        """Send it a signal, and wait for its end; its status."""
        process, self.process = self.process, None
        if process is None:
            return None
        process.send_signal(number)
        if number != SIGKILL:
            process.send_signal(SIGCONT)
        return process.wait(SECONDS)

    # --- requests ---

    @property
    def token(self) -> str:
        """Its token; empty before it has made one."""
        file = self.folder / "data" / "token"
        return file.read_text().strip() if file.exists() else ""

    def client(self) -> httpx.Client:
        """A program that has its token."""
        bearer = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        # To make a context for TLS takes longer than most requests.
        url = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, headers=bearer, timeout=SECONDS, trust_env=False, verify=PLAIN, limits=BRIEF)

    def get(self, path: str) -> Any:
        """Get a path."""
        with self.client() as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Post to a path."""
        with self.client() as client:
            answer = client.post(path, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def chat(self, agent: str, home: str | None = None, **fields: Any) -> str:
        """A new chat; its id."""
        return str(self.post("/api/chats", {"agent": agent, "home": home, **fields})["id"])

    def chat_when_possible(self, agent: str, home: str) -> str:
        """A new chat at a machine that may not be back yet; its id."""
        until(lambda: self.node(home)["is_live"], f"the machine {home} is back")
        return self.chat(agent, home)

    def prompt(self, chat: str, text: str, **headers: str) -> int:
        """Ask for a turn."""
        return int(self.post(f"/api/chats/{chat}/turns", {"text": text}, **headers)["turn"])

    def turns(self, chat: str) -> list[dict[str, Any]]:
        """The turns of a chat."""
        found: list[dict[str, Any]] = self.get(f"/api/chats/{chat}/turns")["turns"]
        return found

    def has_chat(self, chat: str) -> bool:
        """Whether it knows a chat."""
        return any(one["id"] == chat for one in self.get("/api/chats")["chats"])

    def state(self, chat: str) -> str:
        """State of a chat."""
        return str(self.get(f"/api/chats/{chat}")["state"])

    def settled(self, chat: str, turns: int = 1) -> list[dict[str, Any]]:
        """The turns of a chat, once there are so many and all are over."""

        def look() -> list[dict[str, Any]] | None:
            found = self.turns(chat)
            return found if len(found) >= turns and all(turn.get("finalized") for turn in found) else None

        found: list[dict[str, Any]] = until(look, f"the turns of a chat end, as {self.name} sees it")
        return found

    @contextlib.contextmanager
    def watching(self, chat: str) -> Iterator[Frames]:
        """Frames of a chat, as they come."""
        frames = Frames(self, chat)
        try:
            yield frames
        finally:
            frames.close()


class Frames:
    """Frames of one stream, with the time at which each came."""

    def __init__(self, machine: Machine, chat: str) -> None:
        self.found: list[tuple[float, dict[str, Any]]] = []
        self.number = 0
        """Number of the last entry that they cover."""
        self._client = machine.client()
        self._ends = False
        self._thread = threading.Thread(target=self._read, args=(chat,), daemon=True)
        self._thread.start()

    def _read(self, chat: str) -> None:
        try:
            with self._client.stream("GET", f"/api/chats/{chat}/events") as answer:
                for line in answer.iter_lines():
                    if line.startswith("id:"):
                        self.number = int(line[3:])
                    if line.startswith("data:"):
                        self.found.append((time.monotonic(), json.loads(line[5:])))
                    if self._ends:
                        return
        except (httpx.TransportError, httpx.StreamError):
            pass  # the machine ended, or nobody watches any more

    def kinds(self) -> list[str]:
        """The kinds of the frames."""
        return [frame["type"] for _, frame in self.found]

    def close(self) -> None:
        """Watch no longer."""
        self._ends = True
        self._client.close()
