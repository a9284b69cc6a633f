"""Publishes that are killed with -9 after each of their system calls, and what the next command makes of them.

    python killed.py FOLDER WAY SEED FIRST STEP

WAY is `exchange` with an editor that saves at random times, `save-between`, where one save comes right before the first
exchange and another right before it is undone, or `rename` or `in-place`, where nobody else saves. The
system calls are counted with ptrace: the publish is killed after call FIRST, FIRST + STEP, …, until one ends before it
is killed. It writes a line for each publish that left anything wrong, and at last the number of those that were killed.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from saver import save_until_ended

from penstock.doc import publish as module
from penstock.doc.exchange import ExchangeUnsupported, exchange
from penstock.doc.publish import PublishError, publish
from penstock.doc.state import DocumentState, Pending

PTRACE_TRACEME, PTRACE_SYSCALL, PTRACE_SETOPTIONS = 0, 24, 0x4200
PTRACE_O_TRACESYSGOOD, PTRACE_O_EXITKILL = 1, 1 << 20
SYSCALL_STOP = signal.SIGTRAP | 0x80
"""Signal that a system call stops with, as PTRACE_O_TRACESYSGOOD asks for."""

UNAVAILABLE = 77
"""Exit status if this system does not let a process be traced."""

REPLY = "## Assistant\n\nThe answer,\nin two lines.\n"
QUESTION = "A line of the user.\n"
LATE_SECONDS = 0.03
TRIES = 5

libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request: int, pid: int, data: int) -> None:
    """Call ptrace."""
    if libc.ptrace(request, pid, None, ctypes.c_void_p(data)) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def prepare(now: str, _pending: Pending | None = None) -> str:
    """Put the reply at the end, unless it is there."""
    return now if REPLY in now else now + REPLY


def start_publish(path: Path, state: DocumentState) -> None:
    """Publish a reply to the document as it is."""
    state.write_pending(Pending(id="r", path=str(path), base=QUESTION, reply=REPLY, snapshot=QUESTION + REPLY))
    publish(path, prepare, state)


def killed_after(calls: int, path: Path, state: DocumentState) -> bool:
    """Kill a publish after so many system calls. Return whether it was still running."""
    pid = os.fork()
    if pid == 0:
        try:
            ptrace(PTRACE_TRACEME, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            start_publish(path, state)
        except PublishError:
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(UNAVAILABLE)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        sys.exit(UNAVAILABLE)
    ptrace(PTRACE_SETOPTIONS, pid, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)
    stops = 0
    while True:
        ptrace(PTRACE_SYSCALL, pid, 0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return False
        stops += os.WSTOPSIG(status) == SYSCALL_STOP
        if stops == 2 * calls:  # each call stops at its begin and at its end
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return True


def publish_next(path: Path, state: DocumentState) -> None:
    """Do what the next command does: publish what is pending, or the reply of the agent that is asked again."""
    for _ in range(TRIES):
        try:
            if state.pending() is not None:
                publish(path, prepare, state)
            elif prepare(path.read_text()) != path.read_text():
                start_publish(path, state)
            return
        except PublishError as error:
            last = error
    raise last


def problems(path: Path, log: Path, state: DocumentState) -> list[str]:
    """Say what is wrong with a document after the next command."""
    text = path.read_text()
    lines = Counter(text.splitlines())
    saved = [f"saved {number}" for number in log.read_text().split()] if log.exists() else []
    found = [f"{lines[line]} times {line!r}" for line in [QUESTION.rstrip(), *saved] if lines[line] != 1]
    if text.count(REPLY) != 1 or lines["The answer,"] != 1:
        found.append(f"{text.count(REPLY)} replies in {text!r}")
    if state.pending() is not None:
        found.append("still pending")
    allowed = {path.name, log.name, "data", "other-name", "saver-file"}
    return found + [f"left: {name}" for name in os.listdir(path.parent) if name not in allowed]


def start_saver(path: Path, log: Path, seed: int) -> int:
    """Start the editor in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            save_until_ended(path, log, seed)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    while not log.exists():  # the editor makes it once it can be ended
        time.sleep(0.001)
    return pid


def one_run(folder: Path, way: str, seed: int, calls: int) -> bool:
    """Kill one publish and look at what the next command makes of it. Return whether it was killed."""
    folder.mkdir()
    path, log = folder / "notes.md", folder / "log"
    path.write_text(QUESTION)
    if way == "in-place":
        path.with_name("other-name").hardlink_to(path)
    state = DocumentState(folder / "data", "an-id")
    state.directory.mkdir(parents=True)
    saver = start_saver(path, log, seed) if way == "exchange" else None
    own = unsupported if way == "rename" else exchange
    with patch.object(module, "exchange", saves_between(log) if way == "save-between" else own):
        killed = killed_after(calls, path, state)
    with patch.object(module, "exchange", own):
        if saver is not None and random.Random(seed + calls).random() < 0.5:
            publish_next(path, state)  # while the editor goes on saving
        if saver is not None:
            os.kill(saver, signal.SIGTERM)
            _, status = os.waitpid(saver, 0)
            assert status == 0
        publish_next(path, state)
    for problem in problems(path, log, state):
        sys.stdout.write(f"{way}, seed {seed}, killed after call {calls}: {problem}\n")
    return killed


def saves_between(log: Path) -> Callable[[Path, Path], None]:
    """Return an exchange that has a save right before each of the first two. The second is made from our text."""
    calls = 0

    def save_and_exchange(first: Path, second: Path) -> None:
        nonlocal calls
        if calls < 2:
            save(first, log, calls)
        calls += 1
        exchange(first, second)

    return save_and_exchange


def save(path: Path, log: Path, number: int) -> None:
    """Save a document by a rename, and then write the number to the log."""
    temporary = path.with_name("saver-file")
    temporary.write_text(f"saved {number}\n" + path.read_text())
    temporary.replace(path)
    with log.open("a") as file:
        file.write(f"{number}\n")


def unsupported(first: Path, second: Path) -> None:
    """Stand for a file system without an exchange."""
    raise ExchangeUnsupported


def main() -> None:
    """Kill publishes until one of them ends by itself."""
    folder, way = Path(sys.argv[1]), sys.argv[2]
    seed, calls, step = map(int, sys.argv[3:])
    module.LATE_SECONDS = LATE_SECONDS
    killed = 0
    while one_run(folder / str(calls), way, seed, calls):
        killed += 1
        calls += step
    sys.stdout.write(f"{killed}\n")


if __name__ == "__main__":
    main()
