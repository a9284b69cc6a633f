"""Processes that a killed Penstock has left running are found by their mark, and ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.run.marked import end_marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

NAME = "PENSTOCK_TEST_MARK"
OTHER_USER = 61_234
SCRIPT = "env -i sleep 3000 & echo $!; wait"
"""Start a process that has cleared its environment, and print its id."""


Start = Callable[[str], tuple[subprocess.Popen[bytes], int]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process with a mark, and return it with the id of its child."""
    started: list[tuple[subprocess.Popen[bytes], int]] = []

    def start(mark: str) -> tuple[subprocess.Popen[bytes], int]:
        env = {**os.environ, NAME: mark}
        process = subprocess.Popen(["sh", "-c", SCRIPT], env=env, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        started.append((process, int(process.stdout.readline())))
        return started[-1]

    yield start
    for process, child in started:
        if lives(child):
            os.kill(child, 9)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def lives(pid: int) -> bool:
    """Return whether a process still runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@pytest.mark.slow
def test_marked_processes_and_all_below_them_are_ended(start: Start, tmp_path: Path) -> None:
    """One below that has no mark of its own is ended too; one with another value goes on."""
    process, child = start(str(tmp_path))
    other, other_child = start(str(tmp_path) + "2")
    assert end_marked(NAME, str(tmp_path))
    assert not lives(process.pid)
    assert not lives(child)
    assert lives(other.pid)
    assert lives(other_child)


@pytest.mark.slow
def test_this_process_and_those_above_are_spared(tmp_path: Path) -> None:
    """A marked shell that calls it, and the process itself, go on; what the shell had left running is ended."""
    code = f"from penstock.run.marked import end_marked; print(end_marked({NAME!r}, {str(tmp_path)!r}))"
    line = f'sleep 3000 & "{sys.executable}" -c "{code}"; kill -0 $! 2>/dev/null; wait $!; echo $?'
    done = subprocess.run(
        ["sh", "-c", line], env={**os.environ, NAME: str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["True", "137"], done.stderr


def test_nothing_is_marked(tmp_path: Path) -> None:
    """Without a marked process nothing is waited for."""
    assert end_marked(NAME, str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs processes of two users")
@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_process_that_cannot_be_ended_is_left(tmp_path: Path, is_cleared: bool) -> None:
    """Another user's process is left, also if it has lost the mark and the marked process above it was ended."""
    child = f"setpriv --reuid {OTHER_USER} --clear-groups {'env -i ' if is_cleared else ''}sleep 3000"
    env = {**os.environ, NAME: str(tmp_path)}
    process = subprocess.Popen(
        ["sh", "-c", f"{child} & echo $!; wait"], env=env, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    try:
        while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
            assert process.poll() is None
        code = f"from penstock.run.marked import end_marked; print(end_marked({NAME!r}, {str(tmp_path)!r}))"
        # Without this capability, root cannot kill processes of others.
        words = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert lives(pid)
        assert process.wait(timeout=60) == -signal.SIGKILL
    finally:
        os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
        process.stdout.close()
    assert done.stdout == "False\n", done.stderr
