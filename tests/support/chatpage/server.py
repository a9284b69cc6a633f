"""A real `penstock serve` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from restarts import free_port

SECONDS = 30.0
"""A server that has not said anything by then does not start any more."""
LINK = re.compile(r"http://\S+#code=\S+")
PROGRAM = (sys.executable, "-m", "penstock")
KEPT = ("PATH", "PYTHONPATH", "LANG", "TMPDIR", "VIRTUAL_ENV")


class Server:
    """The server, its directory of data, its root, and a program's way to its API."""

    def __init__(
        self,
        folder: Path,
        config: Path,
        *,
        env: dict[str, str] | None = None,
        root: Path | None = None,
        flags: Sequence[str] = (),
        program: Sequence[str] = PROGRAM,
        trusted: bool = True,
    ) -> None:
        """It keeps all in `folder`, without another `root` that of its agents too; `trusted`: they may work there."""
        self.folder, self.port = folder, free_port()
        self.root, self.data = root or folder / "shop", folder / "data"
        home = folder / "home"
        for made in (self.root, home):
            made.mkdir(parents=True, exist_ok=True)
        self._env = {name: os.environ[name] for name in KEPT if name in os.environ}
        self._env |= {"HOME": str(home), "PENSTOCK_CONFIG": str(config), **(env or {})}
        self._process: subprocess.Popen[str] | None = None
        # More places than chats: some tests leave an agent at its gate, which must not hold up the others.
        fixed = [f"--port={self.port}", f"--root={self.root}", f"--data={self.data}", "--max-runs=100", "--link"]
        self._argv = [*program, "serve", *fixed, *flags]
        self.said: list[str] = []
        self.start()
        if trusted:
            self.ask("POST", "/api/workspaces", {"path": str(self.root)})

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def gate(self) -> Path:
        """The file that agents wait for which are held."""
        return self.folder / "gate"

    # --- its life ---

    def start(self) -> None:
        """Start it, and wait until it can be spoken with. `printed` is then the link that it has printed."""
        with open(self.folder / "errors.txt", "ab") as errors:
            self._process = subprocess.Popen(
                self._argv,
                env=self._env,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        found, self.printed = threading.Event(), ""
        threading.Thread(target=self._listen, args=(self._process, found), daemon=True).start()
        if not found.wait(SECONDS) or not self.printed:
            self.end(signal.SIGKILL)
            raise AssertionError(f"penstock serve gave no link: {self.said} {self.errors}")
        # The token's file is beside the log; programs use it.
        self.token = (self.data / "token").read_text("ascii").strip()

    def _listen(self, process: subprocess.Popen[str], found: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.said.append(line)
                if link := LINK.search(line):
                    self.printed = link[0]
                    found.set()
        found.set()

    @property
    def errors(self) -> str:
        """All that it wrote to stderr."""
        return (self.folder / "errors.txt").read_text("utf-8", "replace")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and start it anew, at the same address."""
        self.end(how)
        self.start()

    def penstock(self, *words: str) -> None:
        """Run a command of its user's, in its root, with its data directory and configuration."""
        env = {**self._env, "PENSTOCK_DATA": str(self.data)}
        subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            env=env,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            check=True,
            capture_output=True,
        )

    # --- its API ---

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """What a program gets for this; the answer's JSON, or None."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        answer = httpx.request(
            method, self.url + path, json=body, headers=headers, timeout=SECONDS, trust_env=False, **options
        )
        assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def link(self) -> str:
        """A new one-time link."""
        return str(self.ask("POST", "/api/link", {})["url"])

    def chat(self, agent: str, **more: Any) -> str:
        """A new chat; its id."""
        return str(self.ask("POST", "/api/chats", {"agent": agent, **more})["id"])

    def prompt(self, chat: str, text: str) -> int:
        """Ask something; the turn."""
        return int(self.ask("POST", f"/api/chats/{chat}/turns", {"text": text})["turn"])

    def turns(self, chat: str) -> list[dict[str, Any]]:
        """The newest turns of a chat."""
        found: list[dict[str, Any]] = self.ask("GET", f"/api/chats/{chat}/turns")["turns"]
        return found
