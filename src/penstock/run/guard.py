"""Guard: a small process between Penstock and an agent, which kills every process of the run at its end.

It is run as a file (`python -I -S guard.py CONTROL PARENT PROGRAM ARG…`), starts the agent in a session of its own,
and carries out the orders that it receives from the socket CONTROL. When the socket closes or the process PARENT is
gone, as after `kill -9` of Penstock, it kills all processes that are left. As the agent's parent and (on Linux) the
subreaper of everything below it, it also finds a grandchild in a session of its own, and it may use calls that are
unsafe in a program with threads.

It also reads the agent's output and forwards it. Many agents exit without waiting until their pipe was read, so the
reader of that pipe must never stop. Penstock may stop (Ctrl-Z, a host program in a debugger); the guard does not.

An order is one byte: `I` and `T` signal the agent's group, `K` kills everything and ends the guard. Its reports are
lines: `started PID`, `failed ERRNO`, `exited CODE SIGNAL` (one of the two is 0). It ends by itself, and so closes the
socket, when the agent and all its descendants are gone and their output is forwarded.

An agent can kill the guard, which is its parent. So on Linux the guard is a child of another process of the same
program, to which everything falls then, and which kills it.

With the word `--confined` before PROGRAM, which is bubblewrap then, the agent is a process that bubblewrap starts. Its
signals go to the group of that process, as bubblewrap itself would die of them and take the agent with it. Its exit
status is the one that bubblewrap reports. Without such a report the agent was not executed.

Without a PROGRAM it is a keeper: it runs the programs that the socket asks for, one after the other, such as git. Each
gets three descriptors that come with its request, and when it has ended, whatever it has started is killed too.

It imports only the lightest modules of the standard library, because each run waits for it to start.
"""

from __future__ import annotations

import _socket
import errno
import fcntl
import os
import select
import signal
import sys
import time
from array import array
from collections import deque

TYPE_CHECKING = False  # without `typing`, which would double the time that the guard takes to start
if TYPE_CHECKING:
    from collections.abc import Callable

PARENT_POLL_SECONDS = 1.0
"""Seconds between two checks that the parent still runs. The socket shows its end at once, unless a fork of
Penstock's process holds the other end open."""
KILL_ROUND_SECONDS = 0.005
"""Seconds between two rounds of SIGKILL: a process may start another one meanwhile."""
KILL_SECONDS = 10.0
"""Seconds for which the guard continues to kill: a process in an uninterruptible system call dies when that returns."""

CONFINED = "--confined"
"""Word before a program that is bubblewrap."""
SIGNAL_STATUS = 128
"""Exit statuses above this are those of a signal: bubblewrap's first process inside adds it, as a shell does."""

IDLE_SECONDS = 10.0
"""Seconds after which a keeper without a program ends: the next request starts a new one."""
TERM_SECONDS = 0.3
"""Seconds that a program has to end by SIGTERM before it is killed: git removes its lock files."""

LEFT = 2
"""Exit status of the process above the guard if a process of the run cannot be killed."""

READ_BYTES = 64 * 1024
"""Bytes requested by one read: the capacity of a pipe on Linux."""
PIPE_BYTES = 1 << 20
"""Bytes that the agent's pipe may hold on Linux, the most that an unprivileged user may request: some agents lose the
end of their output to a pipe of the usual size on a busy machine, however soon it is read."""
MAX_HELD_BYTES = 256 * 1024 * 1024
"""Bytes that are held while Penstock does not read; beyond them the agent waits. Penstock itself holds as many."""

SUBREAPER = sys.platform == "linux"
"""True if orphans become children of the guard. Elsewhere only the agent's group is known."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SOCKET = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198), "riscv64": (0xC00000F3, 198)}
"""Identifiers of machines for the filter of system calls, and their numbers of `socket`."""
IO_URING_SETUP = 425
FAMILIES = (1, 2, 10, 16)
"""Families of sockets that a network namespace separates, or that reach only the kernel: local, IPv4, IPv6, netlink."""
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
"""Numbers of a system call without a function in the C library, by the machine."""
KEYCTL_JOIN_SESSION_KEYRING = 1
DEFAULT_AGAIN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def main(control: int, parent: int, argv: list[str]) -> None:
    """Guard one agent to its end."""
    os.set_inheritable(control, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # of the thread that started it
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    prctl = _prctl()
    if SUBREAPER:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        watcher, guard_pid = os.getpid(), os.fork()
        if guard_pid:
            os.close(control)
            _watch(parent, guard_pid)
        parent = watcher
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        _report(control, f"guard {os.getpid()}")
    wake = _child_signals()
    source, agents_stdout = os.pipe()
    confined = None
    if argv[0] == CONFINED:
        confined = Confined()
        argv = confined.command(argv[1:])
        if "--unshare-ipc" in argv:
            _leave_keyring()
    leader = _start(control, argv, [agents_stdout], prctl)
    if confined is not None:
        confined.is_started()
    if leader is None:
        return
    os.close(agents_stdout)
    relay = Relay(source, _release_pipes())
    guard = Guard(control, leader, confined)
    poll = select.poll()  # not `select`, which does not support descriptors above 1023
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        if not guard.reap() and relay.ended():
            return
        relay.watch(poll)
        ready = [fd for fd, _ in poll.poll(PARENT_POLL_SECONDS * 1000)]
        if wake in ready:
            os.read(wake, 4096)
        relay.move()
        order = _order(control) if control in ready else None
        if order == b"" or os.getppid() != parent:
            guard.kill()
            return
        if order == b"K":
            guard.kill()
        elif order is not None:
            guard.signal(signal.SIGINT if order == b"I" else signal.SIGTERM)


def _watch(parent: int, guard: int) -> None:
    """Wait for the end of the guard, and end with its status; kill what a guard that was killed has left."""
    _release_pipes(keeps_output=False)
    wake = _child_signals()
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    status: int | None = None
    while status is None:
        if poll.poll(PARENT_POLL_SECONDS * 1000):
            os.read(wake, 4096)
        if os.getppid() != parent:
            _succeeds(os.kill, guard, signal.SIGKILL)
        while (ended := _reaped()) is not None and ended[0]:
            if ended[0] == guard:
                status = ended[1]
    is_left = False
    if status != 0:
        end = time.monotonic() + KILL_SECONDS
        while (is_left := _reaped() is not None) and time.monotonic() < end:
            for pid, _ in descendants():
                _succeeds(os.kill, pid, signal.SIGKILL)
            time.sleep(KILL_ROUND_SECONDS)
    os._exit(LEFT if is_left else 0 if status == 0 else 1)


def _reaped() -> tuple[int, int] | None:
    """Reap one child that has ended; return its id (0 if none has) and its status, None if there is no child."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None


def keep(control: int, parent: int) -> None:
    """Run programs one after the other, until the socket closes or nothing is asked for a while."""
    os.set_inheritable(control, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    prctl = _prctl()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = _child_signals()
    socket = _socket.socket(fileno=control)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while poll.poll(IDLE_SECONDS * 1000):
        request = _request(socket)
        if request is None or not _keep_one(control, parent, wake, prctl, *request):
            return


def _keep_one(
    control: int,
    parent: int,
    wake: int,
    prctl: Callable[[int, int], int],
    fields: list[bytes],
    fds: list[int],
) -> bool:
    """Run one program to its end; return whether the keeper is still wanted.

    `fields`: `1` if what the program leaves in the background is killed, its directory, the number of its arguments,
    these, and its environment.
    """
    count = int(fields[2])
    argv, env = fields[3 : 3 + count], dict(field.split(b"=", 1) for field in fields[3 + count :])
    leader = _start(control, argv, fds, prctl, fields[1], env)
    for fd in fds:
        os.close(fd)
    if leader is None:
        return True
    guard = Guard(control, leader)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake, select.POLLIN)
    wanted = True
    while guard.reap() and guard.lives:
        ready = [fd for fd, _ in poll.poll(PARENT_POLL_SECONDS * 1000)]
        if wake in ready:
            os.read(wake, 4096)
        order = _order(control) if control in ready else None
        if order is not None or os.getppid() != parent:
            wanted = order == b"K"
            guard.signal(signal.SIGTERM)
            end = time.monotonic() + TERM_SECONDS
            while guard.reap() and guard.lives and time.monotonic() < end:
                time.sleep(KILL_ROUND_SECONDS)
            break
    if fields[0] == b"1" or guard.lives:
        guard.kill()
    _report(control, "left" if fields[0] == b"1" and guard.reap() else "ended")
    return wanted


def _request(socket: _socket.socket) -> tuple[list[bytes], list[int]] | None:
    """Return the next request: its fields and its descriptors; None if the socket is closed."""
    fds = array("i")
    try:
        data, extra, _, _ = socket.recvmsg(8, _socket.CMSG_SPACE(3 * fds.itemsize))
        for _, _, part in extra:
            fds.frombytes(part)
        left = int(data, 16) if data else 0
        parts = []
        while left and (part := socket.recv(left)):
            parts.append(part)
            left -= len(part)
    except OSError:
        return None
    for fd in fds:
        os.set_inheritable(fd, False)
    return (b"".join(parts).split(b"\0"), list(fds)) if parts and not left else None


class Relay:
    """Buffer of the agent's output on its way to Penstock."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._open = True
        os.set_blocking(source, False)
        os.set_blocking(sink, False)
        try:
            fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except (OSError, AttributeError):
            pass  # another system, or a limit on all pipes of this user: the pipe keeps its default size

    def watch(self, poll: select.poll) -> None:
        """Register the descriptors so that `poll` wakes when data can be moved."""
        if self._open and self._held < MAX_HELD_BYTES:
            poll.register(self._source, select.POLLIN)
        elif self._open:
            poll.register(self._source, 0)
        if self._held:
            poll.register(self._sink, select.POLLOUT)
        elif self._sink >= 0:
            poll.register(self._sink, 0)

    def move(self) -> None:
        """Read all available output, and write as much as Penstock accepts."""
        self._pull()
        self._push()
        if not self._open and not self._held and self._sink >= 0:
            os.close(self._sink)  # Penstock reads this as the end of the output
            self._sink = -1

    def ended(self) -> bool:
        """Read the rest and return whether all is forwarded; called when no process is left that could write more."""
        while self._open and self._pull():
            pass
        if self._open:
            os.close(self._source)
            self._open = False
        self.move()
        return self._held == 0

    def _pull(self) -> bool:
        if not self._open or self._held >= MAX_HELD_BYTES:
            return False
        try:
            data = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._pieces.append(data)
            self._held += len(data)
        else:
            os.close(self._source)
            self._open = False
        return bool(data)

    def _push(self) -> None:
        try:
            while self._pieces:
                piece = self._pieces.popleft()
                self._held -= len(piece)
                done = 0
                try:
                    done = os.write(self._sink, piece)
                finally:
                    if done < len(piece):
                        self._pieces.appendleft(piece[done:])
                        self._held += len(piece) - done
        except BlockingIOError:
            pass
        except OSError:  # the reader is closed
            self._pieces.clear()
            self._held = 0


class Confined:
    """Reports of bubblewrap about the process that it starts: its id, and its exit status if it was executed."""

    def __init__(self) -> None:
        self._source, self._sink = os.pipe()
        self._filter = -1
        os.set_blocking(self._source, False)
        self._reports = b""

    def command(self, argv: list[str]) -> list[str]:
        """Return the command line with the descriptors for bubblewrap, which the next program inherits."""
        os.set_inheritable(self._sink, True)
        words = [argv[0], "--json-status-fd", str(self._sink)]
        program = socket_filter(os.uname().machine) if "--unshare-net" in argv else b""
        if program:
            self._filter, sink = os.pipe()
            os.write(sink, program)
            os.close(sink)
            os.set_inheritable(self._filter, True)
            words += ["--seccomp", str(self._filter)]
        return words + argv[1:]

    def is_started(self) -> None:
        """Release the ends of bubblewrap, so that no later program inherits them."""
        os.close(self._sink)
        if self._filter >= 0:
            os.close(self._filter)

    def value(self, key: str) -> int | None:
        """Return the number that was reported under this key; None if there is none."""
        try:
            while data := os.read(self._source, 4096):
                self._reports += data
        except BlockingIOError:
            pass
        _, found, rest = self._reports.partition(f'"{key}":'.encode())
        digits = rest.lstrip().replace(b"}", b" ").replace(b",", b" ").split(None, 1)
        return int(digits[0]) if found and digits and digits[0].isdigit() else None


class Guard:
    """The agent's process tree: its first process, and whether that still runs."""

    def __init__(self, control: int, leader: int, confined: Confined | None = None) -> None:
        self._control = control
        self._leader = leader
        self._confined = confined
        self.lives: bool = True
        """Whether the first process still runs."""

    def reap(self) -> bool:
        """Reap all processes that have ended; return whether any descendant is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not SUBREAPER and _succeeds(os.killpg, self._leader, 0)
            if pid == 0:
                return True
            if pid == self._leader:
                self.lives = False
                code, killer = (0, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), 0)
                if self._confined is not None and not killer:
                    self._report_confined(self._confined.value("exit-code"))
                else:
                    _report(self._control, f"exited {code} {killer}")

    def _report_confined(self, status: int | None) -> None:
        """Report the exit status of a confined agent; None: it was not executed."""
        if status is None:
            _report(self._control, f"failed {errno.ENOENT} confined")
        elif SIGNAL_STATUS < status < SIGNAL_STATUS + signal.NSIG:
            _report(self._control, f"exited 0 {status - SIGNAL_STATUS}")
        else:
            _report(self._control, f"exited {status} 0")

    def signal(self, number: int) -> None:
        """Signal the agent's group, also if its leader is gone and other members are left."""
        inside = self._confined.value("child-pid") if self._confined is not None and self.lives else None
        if inside is not None and _succeeds(os.killpg, inside, number):
            return
        if self.lives or not SUBREAPER:
            _succeeds(os.killpg, self._leader, number)
            return
        for pid, group in descendants():
            if group == self._leader:
                _succeeds(os.kill, pid, number)

    def kill(self) -> None:
        """Kill everything below the guard, until nothing is left."""
        end = time.monotonic() + KILL_SECONDS
        while self.reap() and time.monotonic() < end:
            if self.lives or not SUBREAPER:
                _succeeds(os.killpg, self._leader, signal.SIGKILL)
            for pid, _ in descendants():
                _succeeds(os.kill, pid, signal.SIGKILL)
            time.sleep(KILL_ROUND_SECONDS)


def descendants() -> list[tuple[int, int]]:
    """Return all processes below this one, with their groups; an empty list if there is no /proc."""
    children: dict[int, list[tuple[int, int]]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in brackets may hold anything; state, parent and group follow the last one.
                    _, parent, group = file.read().rpartition(b")")[2].split()[:3]
            except (OSError, ValueError):
                continue  # it ended meanwhile
            children.setdefault(int(parent), []).append((int(name), int(group)))
    found: list[tuple[int, int]] = []
    todo = [os.getpid()]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += [pid for pid, _ in below]
    return found


def _start(
    control: int,
    argv: list[str] | list[bytes],
    fds: list[int],
    prctl: Callable[[int, int], int],
    cwd: bytes = b"",
    env: dict[bytes, bytes] | None = None,
) -> int | None:
    """Start a program; report and return None if it cannot be executed.

    `fds` are its output alone, or its three standard descriptors. With an environment it is looked up in the `PATH` of
    that.
    """
    guard = os.getpid()
    try:
        read_end, write_end = os.pipe()  # closed by a successful exec
        leader = os.fork()
    except OSError as error:
        _report(control, f"failed {error.errno}")
        return None
    if leader == 0:
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # in case the guard itself is killed
            if os.getppid() == guard:
                for number in DEFAULT_AGAIN:
                    signal.signal(number, signal.SIG_DFL)
                for place, fd in zip((1,) if len(fds) == 1 else (0, 1, 2), fds, strict=True):
                    os.dup2(fd, place)
                what = "directory"
                if cwd:
                    os.chdir(cwd)
                what = "program"
                if env is None:
                    os.execv(argv[0], argv)
                os.execvpe(argv[0], argv, env)
        except OSError as error:
            os.write(write_end, f"{error.errno} {what}".encode())
        finally:
            os._exit(127)
    os.close(write_end)
    failed = os.read(read_end, 32)
    os.close(read_end)
    if failed:
        os.waitpid(leader, 0)
        _report(control, f"failed {failed.decode()}")
        return None
    _report(control, f"started {leader}")
    return leader


def _prctl() -> Callable[[int, int], int]:
    """Return Linux's prctl; elsewhere a function that does nothing."""
    if sys.platform == "linux":
        try:
            from ctypes import CDLL

            return CDLL(None).prctl
        except (ImportError, OSError, AttributeError):
            pass  # a Python without ctypes: processes of the agent's own group are still found
    return lambda option, value: -1


def socket_filter(machine: str) -> bytes:
    """Return the filter of system calls for a run without the network of this machine; b"" for an unknown machine.

    No namespace separates sockets of some other families, such as those from a virtual machine to its host. A call
    for one fails as if the kernel did not have it, and so does `io_uring`, which opens sockets too, and any call of a
    program for another kind of processor, whose numbers are different.
    """
    if machine not in SOCKET:
        return b""
    arch, socket = SOCKET[machine]
    load, equal, not_less, end = 0x20, 0x15, 0x35, 0x06
    no_family = 7 + len(FAMILIES)
    unknown, allowed = no_family + 1, no_family + 2
    program = [  # operation, where to go on if it is true and if not (None: below), and its value
        (load, None, None, 4),
        (equal, None, unknown, arch),
        (load, None, None, 0),
        (not_less, unknown, None, 0x40000000),  # another kind of numbers on x86-64
        (equal, unknown, None, IO_URING_SETUP),
        (equal, None, allowed, socket),
        (load, None, None, 16),
        *((equal, allowed, None, family) for family in FAMILIES),
        (end, None, None, 0x00050000 | errno.EAFNOSUPPORT),
        (end, None, None, 0x00050000 | errno.ENOSYS),
        (end, None, None, 0x7FFF0000),
    ]
    words = b""
    for at, (code, true, false, value) in enumerate(program):
        jumps = bytes(0 if to is None else to - at - 1 for to in (true, false))
        words += code.to_bytes(2, "little") + jumps + value.to_bytes(4, "little")
    return words


def _leave_keyring() -> None:
    """Begin an empty session keyring, as no namespace separates that: it may hold tickets and passwords of the user."""
    number = KEYCTL.get(os.uname().machine)
    if number is not None:
        try:
            from ctypes import CDLL, c_long

            CDLL(None).syscall(c_long(number), c_long(KEYCTL_JOIN_SESSION_KEYRING), None)
        except (ImportError, OSError, AttributeError):
            pass  # a Python without ctypes


def _child_signals() -> int:
    """Return the end of a pipe that is readable when a child has ended."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return read_end


def _release_pipes(*, keeps_output: bool = True) -> int:
    """Release the agent's stdin and stderr, which only the agent may hold; return a copy of stdout, to Penstock."""
    sink = os.dup(1) if keeps_output else -1
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
    return sink


def _order(control: int) -> bytes:
    try:
        return os.read(control, 1)
    except OSError:
        return b""  # reset: it was closed before all reports were read


def _report(control: int, line: str) -> None:
    _succeeds(os.write, control, line.encode() + b"\n")


def _succeeds(call: Callable[..., object], *args: object) -> bool:
    """Call it; return false if it fails because its process or socket is gone, which needs no handling."""
    try:
        call(*args)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if sys.argv[3:]:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    else:
        keep(int(sys.argv[1]), int(sys.argv[2]))
