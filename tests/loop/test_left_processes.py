"""Processes that cannot be ended: nothing more is done in a tree in which one of them may still write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest
from loop_desk import TIMEOUT, Desk
from outside_judge import processes_with

pytestmark = pytest.mark.slow

OTHER_USER = 61_234


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs processes of two users")
@pytest.mark.parametrize("who", ["agent", "check", "hook"])
def test_a_process_of_another_user_costs_the_tree(desk: Desk, who: str):
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
