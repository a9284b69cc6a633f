"""Secrets of a process: a program that it starts, as an agent is, reads them nowhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, os, subprocess, sys
from penstock.config.secrets import hide_process, take_variable

if os.getuid() == 0:  # nothing is hidden from root
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process that was started by this user
os.chdir("/")

def seen():
    found = subprocess.run(["/bin/sh", "-c", f"cat /proc/{os.getpid()}/environ"], capture_output=True, text=True)
    return ("SECRET" in found.stdout, "OTHER" in found.stdout)

def memory():
    return subprocess.run(["/bin/sh", "-c", f"head -c1 /proc/{os.getpid()}/mem; ls /proc/{os.getpid()}/fd"],
                          capture_output=True, text=True).stdout.split()

assert seen() == (True, True), "else this test finds nothing"
assert "1" in memory()
assert take_variable("MY_TOKEN") == "SECRET-of-the-test"
assert "MY_TOKEN" not in os.environ and take_variable("MY_TOKEN") is None
assert os.environ["MY_OTHER"] == "OTHER"
assert seen() == (False, True), "it is overwritten"
hide_process()
assert seen() == (False, False), "nothing can be read"
assert memory() == []
child = subprocess.run(["/bin/sh", "-c", "echo $MY_OTHER; sh -c 'cat /proc/$PPID/environ' | tr '\\\\0' ' '"],
                       capture_output=True, text=True).stdout
assert child.startswith("OTHER") and "MY_OTHER=OTHER" in child, "programs that it starts are as ever"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is that of Linux")
def test_a_child_reads_no_secret() -> None:
    """Neither in the environment that the process was started with, nor in its memory or files."""
    environ = {**os.environ, "MY_TOKEN": "SECRET-of-the-test", "MY_OTHER": "OTHER"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
