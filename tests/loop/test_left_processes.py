"""Processes that cannot be ended: nothing more is done in a tree in which one of them may still write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from effort import at_most
from loop_desk import TIMEOUT, Desk
from outside_judge import processes_with

pytestmark = pytest.mark.slow

OTHER_USER = 61_234


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs processes of two users")
@pytest.mark.parametrize("who", ["agent", "check", "hook"][: at_most(1, 3)])
def test_a_process_of_another_user_costs_the_tree(desk: Desk, who: str) -> None:
    """Penstock may not kill it, so the loop goes on in a new tree, and its end names the old one."""
    seconds = str(40_000 + os.getpid() % 10_000) + str(len(who))
    once = f'if [ ! -e "{desk.folder}/once" ]; then touch "{desk.folder}/once"; ' + (
        f"setpriv --reuid {OTHER_USER} --clear-groups setsid sleep {seconds} </dev/null >/dev/null 2>&1 & sleep 0.3; fi"
    )
    if who == "hook":
        hook = desk.user.root / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{once}\n")
        hook.chmod(0o755)
    desk.agent("worker", f'touch done; {once if who == "agent" else "true"}; reply "Add done"')
    words = ["loop", "PROMPT.md", "--work=worker", "--name=l1"]
    words.append(f"--check={once if who == 'check' else 'true'}; test -e done")
    # Without this capability, root cannot kill processes of others.
    argv = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", sys.executable, "-m", "penstock", *words]
    try:
        done = subprocess.run(
            argv, cwd=desk.user.root, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert processes_with(seconds), done.stderr
    finally:
        for pid in processes_with(seconds):
            os.kill(pid, signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert "app.l1 got a process that cannot be ended" in done.stderr
    assert (desk.folder / "work" / "app.l1").is_dir()
    assert (desk.folder / "work" / "app.l1-2").is_dir()
    assert desk.user.git("show", "penstock/l1:done") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("who", ["agent", "check", "hook"])
def test_what_a_killed_loop_has_left_running_is_ended_before_it_goes_on(desk: Desk, who: str) -> None:
    """Penstock and all guards are killed at once: the process in the tree is gone when the loop has been resumed."""
    seconds = str(50_000 + os.getpid() % 10_000) + str(len(who))
    once = f'if [ ! -e "{desk.folder}/once" ]; then setsid sleep {seconds} </dev/null >/dev/null 2>&1 & '
    once += f'echo $$ > "{desk.folder}/new"; mv "{desk.folder}/new" "{desk.folder}/once"; sleep 1000; fi'
    if who == "hook":
        hook = desk.user.root / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{once}\n")
        hook.chmod(0o755)
    desk.agent("worker", f'{once if who == "agent" else "true"}; touch done; reply "Add done"')
    words = ["loop", "PROMPT.md", "--work=worker", "--name=l1"]
    words.append(f"--check={once if who == 'check' else 'true'}; test -e done")
    argv = [sys.executable, "-m", "penstock", *words]
    process = subprocess.Popen(
        argv, cwd=desk.user.root, env=desk.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + TIMEOUT
        while not ((desk.folder / "once").exists() and processes_with(seconds)):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        pid, above = int((desk.folder / "once").read_text()), []
        while pid != process.pid:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
            above.append(pid)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees the end of another
            for one in above:
                os.kill(one, number)
        process.wait()
        assert processes_with(seconds)
        done = desk.penstock("loop", "resume", "l1")
        assert not processes_with(seconds)
    finally:
        process.kill()
        process.wait()
        for one in processes_with(seconds):
            os.kill(one, signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert "cannot be ended" not in done.stderr


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs processes of two users")
def test_what_a_killed_loop_has_left_and_cannot_be_ended_costs_the_tree(desk: Desk) -> None:
    """The resumed loop goes on in another tree, and its end names the one that a process of another user may change."""
    seconds = str(60_000 + os.getpid() % 10_000)
    other = f"setpriv --reuid {OTHER_USER} --clear-groups setsid sleep {seconds} </dev/null >/dev/null 2>&1 & sleep 0.3"
    once = f'if [ ! -e "{desk.folder}/once" ]; then touch "{desk.folder}/once"; {other}; sleep 1000; fi'
    desk.agent("worker", f'{once}; touch done; reply "Add done"')
    words = ["loop", "PROMPT.md", "--work=worker", "--name=l1", "--check=test -e done"]
    weak = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", sys.executable, "-m", "penstock"]
    process = subprocess.Popen(
        [*weak, *words], cwd=desk.user.root, env=desk.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + TIMEOUT
        while not processes_with(seconds):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.wait()
        done = subprocess.run(
            [*weak, "loop", "resume", "l1"],
            cwd=desk.user.root,
            env=desk.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert processes_with(seconds)
    finally:
        process.kill()
        process.wait()
        for one in processes_with(seconds):
            os.kill(one, signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert "app.l1 got a process that cannot be ended" in done.stderr
    assert (desk.folder / "work" / "app.l1-2").is_dir()
    assert desk.user.git("show", "penstock/l1:done") == ""
