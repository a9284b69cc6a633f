"""Process of a started agent: its pipes, and the guard that kills all of its processes at the end of the run.

This is the only place that starts processes. It decides nothing: when to send which signal is up to `run.lifecycle`.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from penstock.errors import TransportError, UsageError
from penstock.run import children
from penstock.run.guard import CONFINED, LEFT
from penstock.run.lifecycle import GUARD_SECONDS

MARK = "PENSTOCK_RUN"
"""Environment variable that shows to which run a process belongs, in whatever group or session it is."""

PYTHON = (sys.executable, "-I", "-S")
"""Words that start a file of Penstock without the user's packages, which takes half of the time."""
GUARD = os.path.join(os.path.dirname(__file__), "guard.py")
OPEN_PORTS = os.path.join(os.path.dirname(__file__), "open_ports.py")
POLL_SECONDS = 0.1
"""Seconds between two looks at whether a program is to be stopped."""
MAX_OUTPUT_BYTES = 1024 * 1024
"""Maximum bytes of the output of a program that is asked for its version or writes its schema into files: both print a
few lines, and one that prints without an end is killed."""
KILL_ROUND_SECONDS = 0.005
"""Seconds between two searches for processes that a killed guard left behind."""


class Exited:
    """End of the agent's first process: its exit status `code`, or the number of the `signal` that killed it."""

    def __init__(self, code: int, killer: int) -> None:
        self.code: int | None = None if killer else code
        self.signal: int | None = killer or None

    @property
    def status(self) -> int:
        """Exit status as in Python: negative for a signal."""
        return -self.signal if self.signal is not None else self.code or 0


class Process:
    """One agent's process tree. `stdin`, `stdout`, `stderr` and `control` are non-blocking file descriptors.

    `control` is readable when `read_reports` has something to read. Threads: one at a time.

    Raises:
        TransportError: the guard cannot be started (no file descriptor, no memory, no process left).
        UsageError: the environment or an argument cannot be passed to a program.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        mark: str,
        *,
        confinement: Sequence[str] = (),
        ports: Sequence[int] = (),
    ) -> None:
        """Start a program. `confinement`: words that start bubblewrap, before its command; `ports`: to open inside."""
        self.mark = mark
        self.pid: int | None = None
        """Id of the agent's process and group, once it is started."""
        self.failed: int | None = None
        """Error number if it could not be executed."""
        self.exited: Exited | None = None
        self.gone: bool = False
        """True if the guard has ended."""
        self.has_left: bool = False
        """True if a process of the run could not be killed, as one that belongs to another user."""
        self.stdin: int
        self.stdout: int
        self.stderr: int
        self._guard_pid = 0
        """Id of the guard itself; the process that Penstock has started is the one above it."""
        self._line = b""
        self.ports: int | None = None
        """Socket from which the ports are received that were opened inside; whoever takes it closes it."""
        self._fds: set[int] = set()
        try:
            self._guard = self._start(argv, {**env, MARK: mark}, cwd, confinement, ports)
        except ValueError as error:
            self._close_all()
            raise UsageError(f"a program cannot be given this environment or argument: {error}") from error
        except OSError as error:
            self._close_all()
            raise TransportError(
                f"no process can be started: {error.strerror or error}", help="look at the limits of this machine"
            ) from error

    def _start(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: str | None,
        confinement: Sequence[str],
        ports: Sequence[int],
    ) -> subprocess.Popen[bytes]:
        theirs: list[int] = []
        try:
            pairs = []
            for ours in (1, 0, 0):  # Penstock has the writing end of stdin
                pair = os.pipe()
                self._fds.add(pair[ours])
                theirs.append(pair[1 - ours])
                pairs.append(pair[ours])
            self.stdin, self.stdout, self.stderr = pairs
            mine, yours = socket.socketpair()
            self.control: int = mine.detach()
            self._fds.add(self.control)
            theirs.append(yours.detach())
            for fd in self._fds:
                os.set_blocking(fd, False)
            words = [CONFINED, *confinement] if confinement else []
            if ports:
                mine, yours = socket.socketpair()
                self.ports = mine.detach()
                self._fds.add(self.ports)
                theirs.append(yours.detach())
                words += [*PYTHON, OPEN_PORTS, str(theirs[4]), ",".join(map(str, ports))]
            return children.start(
                [*PYTHON, GUARD, str(theirs[3]), str(os.getpid()), *words, *argv],
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                pass_fds=theirs[3:],
                env=env,
                cwd=cwd,
                start_new_session=True,  # the terminal's Ctrl-C is Penstock's to handle
            )
        finally:
            for fd in theirs:
                os.close(fd)

    def read_reports(self) -> None:
        """Read the reports of the guard; never wait."""
        while not self.gone:
            try:
                data = os.read(self.control, 4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._guard_ended()
                return
            *lines, self._line = (self._line + data).split(b"\n")
            for line in lines:
                self._on_report(line.decode().split())

    def _on_report(self, words: list[str]) -> None:
        match words:
            case ["guard", pid]:
                self._guard_pid = int(pid)
            case ["started", pid]:
                self.pid = int(pid)
            case ["failed", number, *_]:
                self.failed = int(number)
            case ["exited", code, killer]:
                self.exited = Exited(int(code), int(killer))

    def _guard_ended(self) -> None:
        self.gone = True
        try:
            status = self._guard.wait(GUARD_SECONDS)
        except subprocess.TimeoutExpired:  # it was stopped, or a process cannot be killed
            self._guard.kill()
            status = self._guard.wait()
        children.ended(self._guard.pid)
        reported = self.exited is not None or self.failed is not None
        if status != 0 or not reported:
            is_gone = self._kill_marked()  # the guard was killed
            self.has_left = status == LEFT or not children.kill_orphans() or not is_gone
        if not reported:
            self.exited = Exited(0, signal.SIGKILL)

    def signal(self, order: str) -> None:
        """Order the guard to interrupt (`I`) or terminate (`T`) the agent's group, or to kill all processes (`K`)."""
        if self.control not in self._fds:
            return  # closed, and another file may have its number by now
        try:
            os.write(self.control, order.encode())
        except OSError:
            pass  # the guard has ended, and all processes with it

    def _kill_marked(self) -> bool:
        """Kill all processes that have the mark of the run, if no guard does; return whether none is left."""
        end = time.monotonic() + GUARD_SECONDS
        while (left := marked(self.mark)) and time.monotonic() < end:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(KILL_ROUND_SECONDS)
        return not left

    def take_ports(self) -> int:
        """Return the socket from which the ports are received; it is the caller's from now on."""
        assert self.ports is not None
        self._fds.discard(self.ports)
        return self.ports

    def close_fd(self, fd: int) -> None:
        """Close one of the four descriptors, unless it is closed."""
        if fd in self._fds:
            self._fds.discard(fd)
            os.close(fd)

    def kill_guard(self) -> None:
        """Kill a guard that does not carry out its orders; the agent dies with it, and all others are killed then."""
        if self._guard_pid and not self.gone:
            os.kill(self._guard_pid, signal.SIGKILL)  # it is not reaped before the process above has ended
        else:
            self._guard.kill()

    def end(self) -> None:
        """Kill all processes that are left, wait until they are gone, and close all file descriptors."""
        self.signal("K")
        poll = select.poll()
        if not self.gone:
            poll.register(self.control, select.POLLIN)
        while not self.gone and poll.poll(GUARD_SECONDS * 1000):
            self.read_reports()
        self._close_all()
        if not self.gone:
            self.kill_guard()
            self._guard_ended()

    def _close_all(self) -> None:
        for fd in list(self._fds):
            self.close_fd(fd)


def output_of(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, seconds: float, max_bytes: int = MAX_OUTPUT_BYTES
) -> tuple[int | None, str]:
    """Return the exit status of a program and the beginning of its output, stdout and stderr; no process of it is left.

    The status is None if it did not exit in time, had more output than this, or could not be executed. `argv[0]` is a
    path.

    Raises:
        TransportError: no process can be started.
    """
    process = Process(argv, env, cwd, uuid.uuid4().hex)
    process.close_fd(process.stdin)
    said, end = bytearray(), time.monotonic() + seconds
    poll = select.poll()
    for fd in (process.stdout, process.stderr, process.control):
        poll.register(fd, select.POLLIN)
    try:
        while process.exited is None and process.failed is None and len(said) < max_bytes:
            left = end - time.monotonic()
            if left <= 0:
                break
            for fd, _ in poll.poll(left * 1000):
                if fd == process.control:
                    process.read_reports()
                elif data := os.read(fd, 65536):
                    said += data
                else:
                    poll.unregister(fd)
        exited = process.exited
        process.signal("K")
        said += _rest(process, max_bytes - len(said))
    finally:
        for fd in (process.stdout, process.stderr):
            process.close_fd(fd)  # the guard forwards no more, and need not wait until somebody reads
        process.end()
    return exited.status if exited is not None else None, said[:max_bytes].decode("utf-8", "replace")


def _rest(process: Process, max_bytes: int) -> bytes:
    """Return the data left in the pipes of a dead process, or its beginning."""
    if max_bytes <= 0:
        return b""
    os.set_blocking(process.stdout, True)
    said = bytearray()
    while len(said) < max_bytes and (data := os.read(process.stdout, 65536)):
        said += data
    try:
        said += os.read(process.stderr, 65536)
    except BlockingIOError:
        pass
    return bytes(said)


def stdout_of(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    seconds: float,
    max_bytes: int,
    confinement: Sequence[str] = (),
    is_stopped: Callable[[], bool] = lambda: False,
) -> tuple[bytes, bool]:
    """Return the beginning of a program's stdout, and whether a process of it could not be killed.

    The program has no input. It ends by itself, or is killed after this time, at this size, or once `is_stopped`, which
    is asked `POLL_SECONDS` apart.

    Raises:
        TransportError: no process can be started.
    """
    process = Process(argv, env, cwd, uuid.uuid4().hex, confinement=confinement)
    process.close_fd(process.stdin)
    said, end, is_ending = bytearray(), time.monotonic() + seconds, False
    poll = select.poll()
    for fd in (process.stdout, process.stderr, process.control):
        poll.register(fd, select.POLLIN)
    try:
        has_more = True
        while has_more and len(said) < max_bytes and time.monotonic() < end and not is_stopped():
            for fd, _ in poll.poll(POLL_SECONDS * 1000):
                if fd == process.control:
                    process.read_reports()
                    if process.gone:
                        poll.unregister(fd)
                elif data := os.read(fd, 65536):
                    said += data if fd == process.stdout else b""
                else:
                    poll.unregister(fd)
                    has_more = has_more and fd != process.stdout
            if not is_ending and (process.exited is not None or process.failed is not None):
                is_ending = True
                process.signal("K")  # another process that it started may hold the pipe open
    finally:
        for fd in (process.stdout, process.stderr):
            process.close_fd(fd)  # the guard forwards no more, and need not wait until somebody reads
        process.end()
    return bytes(said[:max_bytes]), process.has_left


def marked(mark: str) -> list[int]:
    """Return the processes with the mark in their environment (Linux; elsewhere none can be found this way)."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ESRCH):
                    raise
    return found
