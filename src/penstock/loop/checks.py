"""Commands of the user: checks and the setup. They run under the guard, with limits, and nothing of them is left."""

from __future__ import annotations

import os
import select
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.loop.steps import MAX_OUTPUT_CHARS, CommandEnded
from penstock.run.process import Process
from penstock.run.secrets import redacted_output, secrets_of

DEFAULT_SECONDS = 1800.0
"""Time limit of a check in seconds, if the user sets none: long test suites end within it, and a night is not lost."""

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Bytes at the end of the output that are kept on disk: a check may print any amount."""

MAX_LINE_BYTES = 65536
"""Bytes of the longest line whose rest is left out where the output was cut."""

POLL_SECONDS = 0.25
"""Seconds between two checks for a request to stop the command."""

REST_SECONDS = 10.0
"""Seconds without more output after which it is over, once all of its processes are killed."""

MAX_REST_SECONDS = 300.0
"""Seconds for the rest of the output. The guard reads up to 256 MiB ahead, which takes long on a busy machine."""

SHELL = "/bin/sh"


class CommandRun:
    """Run of one command in a directory. Use `to_end`.

    Args:
        command: line of the shell.
        cwd: directory.
        env: whole environment.
        seconds: time limit.
        is_stopped: asked every `POLL_SECONDS` whether the command is to be ended.
        confinement: words that start bubblewrap; () if the command is not confined.
    """

    def __init__(
        self,
        command: str,
        cwd: Path,
        env: Mapping[str, str],
        seconds: float = DEFAULT_SECONDS,
        is_stopped: Callable[[], bool] = lambda: False,
        confinement: Sequence[str] = (),
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._seconds = seconds
        self._is_stopped = is_stopped
        self._confinement = confinement
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._is_cut = False
        self.has_left: bool = False
        """Whether a process that the command has started could not be killed."""

    def to_end(self, log: Path | None = None) -> CommandEnded:
        """Run the command to its end and return the result; write the end of its output to a file.

        Both have a note in place of each secret: the output is shown to people, and quoted in prompts.

        Raises:
            TransportError: no process can be started.
        """
        began = time.monotonic()
        # One pipe for both, so that their lines are in order. There is no terminal, and the input is empty.
        words = [SHELL, "-c", f"exec 2>&1\n{self._command}"]
        env, mark = {**self._env, "PWD": str(self._cwd)}, uuid.uuid4().hex
        process = Process(words, env, str(self._cwd), mark, confinement=self._confinement)
        process.close_fd(process.stdin)
        try:
            reason = self._read(process, began + self._seconds)
            status = process.exited.status if process.exited is not None and not reason else None
            process.signal("K")
            self._read_rest(process)
        finally:
            process.end()
            self.has_left = process.has_left
        output = self._output()
        if log is not None:
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log.write_text(output, "utf-8", newline="")
        return CommandEnded(
            status=status,
            ms=int((time.monotonic() - began) * 1000),
            output=output[-MAX_OUTPUT_CHARS:],
            reason=reason,
        )

    def _output(self) -> str:
        """Return the end of the output without secrets."""
        data = b"".join(self._pieces)
        if self._is_cut:
            data = data[data.find(b"\n", 0, MAX_LINE_BYTES) + 1 :]  # the rest of a line may be half of a secret
        return redacted_output(data.decode("utf-8", "replace"), secrets_of(self._env))

    def _read(self, process: Process, deadline: float) -> str:
        """Read until the command has exited; return why it is ended before, or ""."""
        poll = select.poll()
        poll.register(process.control, select.POLLIN)
        poll.register(process.stdout, select.POLLIN)
        while process.exited is None and process.failed is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return f"it did not end within {self._seconds:g} s"
            if self._is_stopped():
                return "it was stopped"
            for fd, _ in poll.poll(min(left, POLL_SECONDS) * 1000):
                if fd == process.control:
                    process.read_reports()
                elif not self._take(process.stdout):
                    poll.unregister(process.stdout)
        return "" if process.failed is None else f"it could not be started: {os.strerror(process.failed)}"

    def _read_rest(self, process: Process) -> None:
        end = time.monotonic() + MAX_REST_SECONDS
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        while (left := min(REST_SECONDS, end - time.monotonic())) > 0 and poll.poll(left * 1000):
            if not self._take(process.stdout):
                return

    def _take(self, fd: int) -> bool:
        """Read the available output, keep its end, and return whether more may come."""
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return True
        self._pieces.append(data)
        self._held += len(data)
        while self._held - len(self._pieces[0]) >= MAX_KEPT_BYTES:
            self._held -= len(self._pieces.popleft())
            self._is_cut = True
        return bool(data)
