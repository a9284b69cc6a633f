"""A client of `penstock acp` as a process, over a pipe that can be cut, and the hidden server of both."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from restarts import PLAYER, RECORDINGS, commands
from waiting import until

from penstock.cli.serve.client import ServerClient, ServerOptions
from penstock.errors import PenstockError
from penstock.run.locks import holder

PIPE = Path(__file__).with_name("cut_pipe.py")

Message = dict[str, Any]


class Machine:
    """A user's machine, on which no server runs before an editor starts one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data, self.work, self.notes = folder / "data", folder / "work", folder / "notes"
        for path in (self.work, self.notes):
            path.mkdir()
        command = [sys.executable, "-I", "-S", str(PLAYER), str(RECORDINGS / "claude"), str(self.notes)]
        command += ["--model={model}", "--resume={session_id}"]
        table = f'[agents.played]\nadapter = "claude"\ncommand = {json.dumps(command)}\n'
        (folder / "agents.toml").write_text(table)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
        more = {"HOME": str(folder), "PENSTOCK_CONFIG": str(folder / "agents.toml"), "PENSTOCK_DATA": str(self.data)}
        self.env = {**kept, **more, "PENSTOCK_SANDBOX": "off"}

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        until(self._end_all, "processes of the test are gone")

    def _end_all(self) -> bool:
        left = self.living()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def living(self) -> set[int]:
        """All processes that were started for the test and know its folder."""
        return {pid for pid, line in commands() if str(self.folder) in line}

    @property
    def server(self) -> int | None:
        """The id of the server's process; None if none runs."""
        return holder(self.data / "serving.lock")

    def kill_server(self) -> None:
        """Kill the server if one runs."""
        if pid := self.server:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            until(lambda: self.server != pid, "the server is gone")

    def starts(self) -> Counter[str]:
        """How often an agent was started with each prompt's name."""
        path = self.notes / "starts"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def turns(self, chat: str) -> list[Message]:
        """The turns of a chat as the page has them; empty if there is no such chat, or no server answers."""
        try:
            client = ServerClient(ServerOptions(data=self.data, token_file=None))
            found: Message = client.ask("GET", f"/api/chats/{chat}/turns?limit=50", dict[str, Any])
        except PenstockError:
            return []
        turns: list[Message] = found["turns"]
        return turns


class CutEditor:
    """A client, and the process of `penstock acp` at the other end of a pipe."""

    def __init__(self, machine: Machine, *, bytes_in: int = -1, bytes_out: int = -1) -> None:
        """The pipe breaks after so many bytes to the agent, or from it."""
        program = [sys.executable, "-m", "penstock", "acp", "--agent", "played", f"--data={machine.data}"]
        words = [sys.executable, "-I", "-S", str(PIPE), str(bytes_in), str(bytes_out), *program]
        self._pipe = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=machine.env, cwd=machine.folder
        )
        self._lock = threading.Lock()
        self._updates: list[Message] = []
        self._answers: dict[int, Message] = {}
        self._last = 0
        self.is_gone = False
        """True once no more lines come."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._pipe.stdout is not None
        for line in self._pipe.stdout:
            if not line.endswith(b"\n"):
                break  # cut off in the middle
            message = json.loads(line)
            method = message.get("method")
            if method == "session/update":
                with self._lock:
                    self._updates.append(message["params"]["update"])
            elif method is None:
                self._answers[message["id"]] = message
            else:
                assert method == "session/request_permission", message
                chosen = {"outcome": {"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]}}
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": chosen})
        self.is_gone = True

    def _write(self, message: Message) -> None:
        assert self._pipe.stdin is not None
        with contextlib.suppress(OSError):
            self._pipe.stdin.write(json.dumps(message).encode() + b"\n")
            self._pipe.stdin.flush()

    @property
    def updates(self) -> list[Message]:
        """The updates of the session so far, but for its title, its commands, and the figures of an ended run."""
        with self._lock:
            beside = ("session_info_update", "available_commands_update", "usage_update")
            return [it for it in self._updates if it["sessionUpdate"] not in beside]

    def forget(self) -> None:
        """Forget all updates."""
        with self._lock:
            self._updates.clear()

    def send(self, method: str, **params: Any) -> int:
        """A request; its id."""
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    def answered(self, number: int) -> Message | None:
        """The answer to a request, if it is there."""
        return self._answers.get(number)

    def is_answered(self, number: int) -> bool:
        """Whether a request is answered, or will never be."""
        return number in self._answers or self.is_gone

    def answer(self, number: int) -> Message:
        """Wait for the answer to a request."""
        until(lambda: self.is_answered(number), f"request {number} is answered")
        return self._answers[number]

    def result(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        answer = self.answer(self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def begin(self) -> int:
        """Initialize; return the id of the process of `penstock acp`."""
        self.result("initialize", protocolVersion=1, clientCapabilities={})
        [child] = Path(f"/proc/{self._pipe.pid}/task/{self._pipe.pid}/children").read_text().split()
        return int(child)

    def end(self) -> None:
        """Kill the pipe, so that the client is gone for the agent, and read what has come."""
        self._pipe.kill()
        self._pipe.wait()
        self._reader.join()
        for file in (self._pipe.stdin, self._pipe.stdout):
            assert file is not None
            with contextlib.suppress(OSError):
                file.close()


@contextlib.contextmanager
def connected(machine: Machine, **limits: int) -> Iterator[CutEditor]:
    """A client, which is gone when the context ends."""
    made = CutEditor(machine, **limits)
    try:
        yield made
    finally:
        made.end()
