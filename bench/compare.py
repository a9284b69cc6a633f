"""Measures two commits beside each other: A, B, A, B, …; of each figure the least of all rounds, and the ratio.

    python bench/compare.py COMMIT [OTHER] [--rounds N] [--seconds N] [--only SECTION] [--json FILE]

COMMIT is checked out into a temporary git worktree; OTHER too, or it is the working tree as it is. Each has an
environment of its own, with the same versions of what Penstock needs. Only what stays the same from commit to commit
is used: the command line, and the chat's HTTP addresses. It needs Linux, for `/proc`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import synthetic

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PLAYER = HERE / "player.py"
REPORT = ROOT / "build" / "compare.json"

CHATS, RATE = 50, 50
"""Chats that are at work at once, and events of each in a second."""
IDLE = 500
"""Viewers of chats in which nothing happens."""
IDLE_SECONDS = 3.0
START_SECONDS = 60
"""A server that starts at all does so long before; the same for 50 agents, on a machine that is busy."""
POLL_SECONDS = 0.2

Figures = dict[str, float]


class Tree:
    """One of the two: a checked-out commit, and an environment in which it is installed."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        self.penstock = str(python.parent / "penstock")


# --- the command line ---------------------------------------------------------------------------------


def cpu_of(argv: list[str], data: Path, env: dict[str, str]) -> float:
    """Seconds of a core that a command takes, with what it starts and waits for."""
    with open(data, "rb") as stdin:
        process = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def start(tree: Tree, folder: Path, seconds: float) -> Figures:
    """The CPU time of whole processes, the least of some: by the clock a busy machine hides what they differ by."""
    one = folder / "one.ndjson"
    one.write_bytes(synthetic.line({"type": "result", "subtype": "success", "is_error": False, "result": "hi"}))
    config = folder / "run.toml"
    agent = ["sh", "-c", f"cat >/dev/null; cat {ROOT}/tests/recordings/claude/tools/input.ndjson"]
    config.write_text(f'[agents.stand-in]\ncommand = {json.dumps(agent)}\nadapter = "claude"\n')
    env = {**os.environ, "PENSTOCK_CONFIG": str(config)}
    commands = {
        "start: penstock --version, CPU ms": [tree.penstock, "--version"],
        "start: a pipe of one line, CPU ms": [tree.penstock, "--agent", "claude"],
        "start: penstock run of a stand-in, CPU ms": [
            tree.penstock,
            "run",
            "stand-in",
            "--to",
            "ndjson",
        ],
    }
    return {
        name: min(cpu_of(command, one, env) for _ in range(max(2, int(seconds)))) * 1000
        for name, command in commands.items()
    }


def core(tree: Tree, folder: Path, seconds: float) -> Figures:
    """CPU for a thousand lines of long streams; `seconds` only says how long those are."""
    count = int(10_000 * seconds)
    streams: dict[str, tuple[str, Callable[[], Any]]] = {
        "deltas of claude": ("claude", lambda: synthetic.ClaudeDeltas(count).chunks()),
        "rounds of claude with tools": ("claude", lambda: synthetic.claude_rounds(count // 100)),
        "snapshots of pi": ("pi", lambda: synthetic.pi_snapshots(400)),
        "snapshots of ccs": ("ccs", lambda: synthetic.ccs_snapshots(400)),
    }
    found: Figures = {}
    for name, (agent, make) in streams.items():
        file = folder / f"{name}-{count}.ndjson"
        if not file.exists():
            file.write_bytes(b"".join(make()))
        lines = file.read_bytes().count(b"\n")
        for to in ("text", "ndjson"):
            cpu = cpu_of([tree.penstock, "--agent", agent, "--to", to], file, dict(os.environ))
            found[f"core: {name} to {to}, CPU ms per 1,000 lines"] = cpu * 1e6 / lines
    return found


# --- the chat -----------------------------------------------------------------------------------------


class Server:
    """`penstock serve` of a tree, over HTTP."""

    def __init__(self, tree: Tree, folder: Path, seconds: float) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        (self.folder / "work").mkdir()
        command = [sys.executable, "-S", str(PLAYER), str(RATE), str(seconds), "{model}", "{session_id}"]
        config = self.folder / "config.toml"
        config.write_text(f'[agents.player]\nadapter = "claude"\ncommand = {json.dumps(command)}\n')
        with socket.create_server(("127.0.0.1", 0)) as place:
            self.port: int = place.getsockname()[1]
        self.token = "t" * 43
        work = str(self.folder / "work")
        self._process = subprocess.Popen(
            [tree.penstock, "serve", "--port", str(self.port), "--data", str(self.folder / "data"), "--root", work,
             "--agent", "player", "--max-runs", str(CHATS)],
            env={**os.environ, "PENSTOCK_CONFIG": str(config), "PENSTOCK_TOKEN": self.token},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Server:
        try:
            wait_for(self._answers, "the server")
            self.call("POST", "/api/workspaces", {"path": str(self.folder / "work")})
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(START_SECONDS)
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise SystemExit(f"penstock serve ended with {self._process.returncode}")
        with contextlib.suppress(OSError):
            self.call("GET", "/healthz")
            return True
        return False

    def call(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        """The JSON of the response."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def cpu(self) -> float:
        """Seconds of a core of the server and what it started, but for the agents and their guards."""
        return sum(sum(int(field) for field in stat_of(pid)[11:13]) for pid in self._processes()) / os.sysconf(
            "SC_CLK_TCK"
        )

    def memory(self) -> float:
        """PSS in kilobytes."""
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{self._process.pid}/smaps_rollup").read_text(), re.M)
        assert found is not None
        return float(found[1])

    def _processes(self) -> Iterator[int]:
        waiting = [self._process.pid]
        while waiting:
            pid = waiting.pop()
            with contextlib.suppress(OSError):
                if PLAYER.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    continue  # an agent, or its guard, whose arguments have the agent's
                for task in Path(f"/proc/{pid}/task").iterdir():
                    waiting += map(int, (task / "children").read_text().split())
                yield pid


def stat_of(pid: int) -> list[str]:
    """The fields of a process from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def wait_for(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come")
        time.sleep(POLL_SECONDS)


class Viewers:
    """Streams of events that are read and dropped."""

    def __init__(self, server: Server, chats: list[str]) -> None:
        self._server = server
        self._chats = chats
        self.bytes = 0

    async def __aenter__(self) -> Viewers:
        # One after the other: a server may limit how many connections of one address are without a request.
        self._tasks = []
        for chat in self._chats:
            is_open = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._view(chat, is_open)))
            await is_open.wait()
        await asyncio.sleep(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            if task.done():
                raise SystemExit(f"a viewer's stream ended: {task}")
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _view(self, chat: str, is_open: asyncio.Event) -> None:
        head = f"GET /api/chats/{chat}/events?delta=1 HTTP/1.1\r\nHost: 127.0.0.1:{self._server.port}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            writer.write(f"{head}Authorization: Bearer {self._server.token}\r\n\r\n".encode())
            while data := await reader.read(65536):
                self.bytes += len(data)
                is_open.set()
        finally:
            is_open.set()
            writer.close()


def chat(tree: Tree, folder: Path, seconds: float) -> Figures:
    """The chat with 50 agents at work: CPU of the server, from the agents' pipes to the viewers' sockets."""
    found: Figures = {}
    with Server(tree, folder, seconds) as server:
        chats = [str(server.call("POST", "/api/chats")["id"]) for _ in range(CHATS)]
        for name, kind, watched in (
            ("growing text, nobody looks", "text", False),
            ("growing text, 50 viewers", "text", True),
            ("calls of tools, 50 viewers", "tools", True),
        ):
            used = asyncio.run(work(server, chats, kind, watched))
            found[f"chat: {name}, CPU s per 1,000 events"] = used / (CHATS * RATE * seconds) * 1000
        found["chat: the server's memory after it, MB"] = server.memory() / 1000
    return found


async def work(server: Server, chats: list[str], kind: str, watched: bool) -> float:
    """Seconds of a core for a turn in each chat, all at once."""
    folder = Path(tempfile.mkdtemp(dir=server.folder))
    async with Viewers(server, chats if watched else []):
        for id in chats:
            await asyncio.to_thread(server.call, "POST", f"/api/chats/{id}/turns", {"text": f"{kind} {folder}"})
        await asyncio.to_thread(wait_for, lambda: len(list(folder.iterdir())) == len(chats), "the agents")
        await asyncio.sleep(1)  # what they said so far is shown
        before = server.cpu()
        (folder / "new").write_text(str(time.monotonic() + 0.5))
        (folder / "new").rename(folder / "go")
        while any(it["state"] != "idle" for it in (await asyncio.to_thread(server.call, "GET", "/api/chats"))["chats"]):
            await asyncio.sleep(POLL_SECONDS)
        return server.cpu() - before


def idle(tree: Tree, folder: Path, seconds: float) -> Figures:
    """Viewers of chats in which nothing happens."""
    with Server(tree, folder, seconds) as server:
        chats = [str(server.call("POST", "/api/chats")["id"]) for _ in range(CHATS)]
        before = server.memory()

        async def view() -> Figures:
            async with Viewers(server, [chats[number % CHATS] for number in range(IDLE)]):
                await asyncio.sleep(1)
                used = server.cpu()
                await asyncio.sleep(IDLE_SECONDS)
                return {
                    f"idle: {IDLE} viewers, CPU %": (server.cpu() - used) / IDLE_SECONDS * 100,
                    "idle: memory of a viewer, kB": (server.memory() - before) / IDLE,
                }

        return asyncio.run(view())


SECTIONS: dict[str, Callable[[Tree, Path, float], Figures]] = {"start": start, "core": core, "chat": chat, "idle": idle}


# --- the trees ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def installed(commit: str | None) -> Iterator[Tree]:
    """A commit in a worktree of its own, or the working tree, in an environment that has nothing but what it needs.

    Both have the versions of this environment.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, contextlib.ExitStack() as stack:
        tree = stack.enter_context(checked_out(commit, Path(folder, "tree"))) if commit else ROOT
        python = Path(folder, "env", "bin", "python")
        pip = ["-m", "pip", "--disable-pip-version-check"]
        frozen = subprocess.run([sys.executable, *pip, "freeze", "--exclude-editable"], check=True, capture_output=True)
        Path(folder, "constraints").write_bytes(frozen.stdout)
        subprocess.run([sys.executable, "-m", "venv", Path(folder, "env")], check=True)
        options = ["--quiet", "--constraint", f"{folder}/constraints", "--editable", str(tree)]
        subprocess.run([python, *pip, "install", *options], check=True)
        yield Tree(commit or "here", python)


@contextlib.contextmanager
def checked_out(commit: str, tree: Path) -> Iterator[Path]:
    """A git worktree of a commit."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
    try:
        # The server starts only with a page; what is in it is not measured.
        vendor = tree / "src" / "penstock" / "chat" / "page" / "vendor"
        vendor.mkdir(parents=True, exist_ok=True)
        (vendor / "none.js").touch()
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def measured(trees: list[Tree], sections: list[str], rounds: int, seconds: float) -> dict[str, list[list[float]]]:
    """For each figure the values of each tree, round for round."""
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for number in range(rounds):
            for section in sections:
                for place, tree in enumerate(trees):
                    for name, value in SECTIONS[section](tree, Path(folder), seconds).items():
                        found.setdefault(name, [[] for _ in trees])[place].append(value)
                print(f"round {number + 1} of {rounds}: {section}", file=sys.stderr, flush=True)
    return found


def report(trees: list[Tree], found: dict[str, list[list[float]]]) -> Iterator[str]:
    yield f"| | {trees[0].name} | {trees[1].name} | ratio |"
    yield "| --- | ---: | ---: | ---: |"
    for name, (before, after) in found.items():
        a, b = min(before), min(after)
        ratio = f"{b / a:.2f}" if a else "–"
        yield f"| {name} | {a:.3g} | {b:.3g} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure two commits beside each other.")
    parser.add_argument("commit", help="the one to compare with")
    parser.add_argument("other", nargs="?", help="by default the working tree")
    parser.add_argument("--rounds", type=int, default=5, help="of each figure the least of so many (default 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long agents work (default 10)")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="only this section (may be repeated)")
    parser.add_argument("--json", type=Path, default=REPORT, metavar="FILE", help="all values (default %(default)s)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the worktree is removed then too
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(installed(commit)) for commit in (args.commit, args.other)]
        found = measured(trees, args.only or list(SECTIONS), args.rounds, args.seconds)
    lines = list(report(trees, found))
    print("\n".join(lines))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    facts = {"trees": [tree.name for tree in trees], "rounds": args.rounds, "seconds": args.seconds, "values": found}
    args.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
