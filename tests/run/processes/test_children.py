"""Orphans that fall to a command of Penstock's: those of agents are killed, those of the user are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

ORPHANS = """
import os, subprocess, sys, time
from penstock.run import children

def orphan(new_session):
    # The parent of this sleep has ended when its id is known.
    program = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000'], stdout=2).pid)"
    argv = [sys.executable, "-c", program]
    return int(subprocess.run(argv, stdout=subprocess.PIPE, start_new_session=new_session).stdout)

def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

children.become_subreaper()
own = children.start(["sleep", "1000"], start_new_session=True)
user = subprocess.Popen(["sleep", "1000"])
pids = [own.pid, user.pid, orphan(False), orphan(True)]
try:
    assert all(map(lives, pids)), pids
    print(children.kill_orphans(), *map(lives, pids))
finally:
    for pid in pids:
        if lives(pid):
            os.kill(pid, 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_orphans_of_other_sessions_are_killed() -> None:
    """Every guard has a session of its own; what shares Penstock's was started by the user's shell before."""
    done = subprocess.run([sys.executable, "-c", ORPHANS], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True", "True", "True", "False"], done.stderr
