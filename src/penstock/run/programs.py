"""Programs that Penstock itself runs to their end, such as git: with a time limit, and none outlives Penstock.

A keeper starts them, a small process that runs one program after the other. It costs less than a process of its own
for each, kills all that a program has started, and does so too if Penstock is killed.
"""

from __future__ import annotations

import atexit
import math
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.errors import TransportError
from penstock.run import children
from penstock.run.lifecycle import GUARD_SECONDS
from penstock.run.process import GUARD

POLL_SECONDS = 0.25
"""Seconds between two looks whether a program is to be stopped."""

STOP_SECONDS = 1.0
"""Seconds that a program may continue after a stop: most need less, and their result is kept then."""

SLOW_SECONDS = 10.0
"""Seconds after which a program counts as slow: somebody who waits is told what runs."""

MAX_IDLE = 4
"""Keepers that wait for their next program; more are ended when their program has ended."""

_is_stopped: ContextVar[Callable[[], bool]] = ContextVar("is_stopped", default=lambda: False)


@contextmanager
def stopped_by(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Let programs that are run in this block, and in this thread, end soon after `is_stopped` returns true."""
    token = _is_stopped.set(is_stopped)
    try:
        yield
    finally:
        _is_stopped.reset(token)


class ProgramEnd:
    """End of a program.

    Attributes:
        status: exit status, negative for a signal; None if it was ended because of its limit or a stop, or not started.
        is_stopped: True if it was ended by a stop.
        failed: error number if it could not be started, else 0.
        has_left: True if a process that it started could not be killed.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.is_stopped = False
        self.failed = 0
        self.is_directory_missing = False
        self.has_left = False
        self.out = b""
        self.err = b""


class _Keeper:
    """One keeper: its socket, and its process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self.socket = ours
            self.process = children.start(
                [sys.executable, "-I", "-S", GUARD, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            what = f"no process can be started: {error.strerror or error}"
            raise TransportError(what, help="look at the limits of this machine") from error
        finally:
            theirs.close()

    def ask(self, request: bytes, fds: Sequence[int]) -> bool:
        """Send a request; return whether the keeper is there to receive it."""
        try:
            self.socket.setblocking(True)
            socket.send_fds(self.socket, [b"%08x" % len(request)], fds)
            self.socket.sendall(request)
        except OSError:
            return False
        return True

    def end(self) -> None:
        """End the keeper with its program, and wait until both are gone."""
        self.socket.close()
        try:
            self.process.wait(GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        children.ended(self.process.pid)


READ_BYTES = 64 * 1024
"""Bytes requested by one read: the capacity of a pipe on Linux."""

_lock = threading.Lock()
_idle: list[_Keeper] = []
_owner = os.getpid()


def run_program(
    argv: Sequence[str],
    data: bytes,
    seconds: float,
    env: Mapping[str, str],
    cwd: str,
    *,
    sweeps: bool = True,
    when_slow: Callable[[], None] = lambda: None,
) -> ProgramEnd:
    """Run a program to its end and return it.

    Args:
        argv: its words; the first is looked up in the `PATH` of `env`.
        data: its input.
        seconds: its time limit.
        env: its whole environment.
        cwd: its directory.
        sweeps: whether what it leaves in the background is killed.
        when_slow: called once if it still runs after `SLOW_SECONDS`.

    Raises:
        TransportError: no process can be started.
        ValueError: a word or a variable has a zero byte.
    """
    words = [os.fsencode(word) for word in argv]
    pairs = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in env.items()]
    fields = [b"1" if sweeps else b"0", os.fsencode(cwd), b"%d" % len(words), *words, *pairs]
    if any(b"\0" in field for field in fields):
        raise ValueError("embedded null byte")
    call = _Call(b"\0".join(fields), data, waits_for_output=not sweeps)
    try:
        call.follow(seconds, when_slow)
    except BaseException:
        call.is_usable = False
        raise
    finally:
        call.close()
    return call.ended


class _Call:
    """One program: its keeper, and our ends of its three descriptors."""

    def __init__(self, request: bytes, data: bytes, *, waits_for_output: bool) -> None:
        self.ended = ProgramEnd()
        self.is_usable = True
        """Whether the keeper can run another program."""
        self._data = memoryview(data)
        self._waits_for_output = waits_for_output
        self._is_over = False
        self._lines = b""
        self._out: list[bytes] = []
        self._err: list[bytes] = []
        self._fds: set[int] = set()
        theirs: list[int] = []
        try:
            for ours in (1, 0, 0):
                pair = os.pipe()
                self._fds.add(pair[ours])
                os.set_blocking(pair[ours], False)
                theirs.append(pair[1 - ours])
                if ours:
                    self._stdin = pair[1]
                elif len(theirs) == 2:
                    self._stdout = pair[0]
                else:
                    self._stderr = pair[0]
            self._keeper = _keeper_for(request, theirs)
        except OSError as error:
            self._close_fds()
            what = f"no process can be started: {error.strerror or error}"
            raise TransportError(what, help="look at the limits of this machine") from error
        except BaseException:
            self._close_fds()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._keeper.socket.setblocking(False)

    def follow(self, seconds: float, when_slow: Callable[[], None]) -> None:
        """Move the input and the output until the program has ended, as `run_program`."""
        began = time.monotonic()
        deadline, slow_at = began + seconds, began + SLOW_SECONDS
        poll = select.poll()
        control = self._keeper.socket.fileno()
        poll.register(control, select.POLLIN)
        poll.register(self._stdout, select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        poll.register(self._stdin, select.POLLOUT)
        if not self._data:
            self._close(self._stdin, poll)
        is_stopped, is_killed = _is_stopped.get(), False
        while not self._is_over or (self._waits_for_output and not is_killed and self._is_read_on()):
            now = time.monotonic()
            if now >= slow_at:
                slow_at = math.inf
                when_slow()
            left = deadline - now
            if left <= 0:
                if is_killed:
                    self.ended.has_left, self.is_usable = True, False
                    return
                is_killed, deadline = True, time.monotonic() + GUARD_SECONDS
                self._kill()
                continue
            ready = poll.poll(min(left, POLL_SECONDS) * 1000)
            if not ready and not self.ended.is_stopped and not is_killed and is_stopped():
                self.ended.is_stopped, deadline = True, min(deadline, time.monotonic() + STOP_SECONDS)
            for fd, _ in ready:
                if fd == control:
                    self._read_reports()
                elif fd == self._stdin:
                    self._write(poll)
                else:
                    self._read(fd, poll)
        for fd in (self._stdout, self._stderr):
            while fd in self._fds and self._read(fd, poll):
                pass
        if is_killed:
            self.ended.status = None
        elif self.ended.is_stopped:
            self.ended.is_stopped = False  # it has ended by itself before that
        self.ended.out, self.ended.err = b"".join(self._out), b"".join(self._err)

    def _kill(self) -> None:
        try:
            self._keeper.socket.send(b"K")
        except OSError:
            pass  # the keeper is gone; its socket says so

    def _is_read_on(self) -> bool:
        return self._stdout in self._fds or self._stderr in self._fds

    def _read_reports(self) -> None:
        try:
            data = self._keeper.socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the keeper was killed, and with it the program
            self._is_over, self.is_usable = True, False
            self.ended.status = -9 if self.ended.status is None else self.ended.status
            return
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            match line.split():
                case [b"failed", number, what]:
                    self.ended.failed = int(number)
                    self.ended.is_directory_missing = what == b"directory"
                    self._is_over = True
                case [b"exited", code, killer]:
                    self.ended.status = -int(killer) if int(killer) else int(code)
                case [b"ended" | b"left" as word]:
                    self._is_over, self.ended.has_left = True, word == b"left"
                    # What is left is a child of this keeper, which would wait for it after each later program.
                    self.is_usable = not self.ended.has_left

    def _write(self, poll: select.poll) -> None:
        try:
            self._data = self._data[os.write(self._stdin, self._data[: select.PIPE_BUF]) :]
        except BlockingIOError:
            return
        except OSError:
            self._data = self._data[:0]  # it reads no more
        if not self._data:
            self._close(self._stdin, poll)

    def _read(self, fd: int, poll: select.poll) -> bool:
        """Read what is there; return whether there was any."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close(fd, poll)
        (self._out if fd == self._stdout else self._err).append(data)
        return bool(data)

    def _close(self, fd: int, poll: select.poll) -> None:
        poll.unregister(fd)
        self._fds.discard(fd)
        os.close(fd)

    def _close_fds(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def close(self) -> None:
        """Close the descriptors, and keep the keeper for the next program if it can run one."""
        self._close_fds()
        with _lock:
            if self.is_usable and len(_idle) < MAX_IDLE:
                _idle.append(self._keeper)
                return
        self._keeper.end()


def _keeper_for(request: bytes, fds: Sequence[int]) -> _Keeper:
    """Return a keeper that has received a request: one that waits for it, else a new one."""
    while (keeper := _take_idle()) is not None:
        if keeper.ask(request, fds):
            return keeper
        keeper.end()  # it had nothing to do for a while
    keeper = _Keeper()
    if not keeper.ask(request, fds):
        keeper.end()
        raise TransportError("no process can be started", help="look at the limits of this machine")
    return keeper


def _take_idle() -> _Keeper | None:
    global _owner
    with _lock:
        if _owner != os.getpid():  # a fork: the keepers are those of its parent
            _owner = os.getpid()
            _idle.clear()
        return _idle.pop() if _idle else None


@atexit.register
def _end_idle() -> None:
    while (keeper := _take_idle()) is not None:
        keeper.end()
