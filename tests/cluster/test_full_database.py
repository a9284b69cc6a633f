"""A database server whose disk is full: requests get 503, nothing acknowledged is lost, and all goes on with space."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from postgres import programs

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
PROGRAM = SUPPORT / "full_database.py"

SECONDS = 240
"""Seconds in which the program ends."""


@pytest.mark.parametrize("what", ["tables", "log"])
def test_a_full_disk(tmp_path: Path, what: str) -> None:
    """The disk of the tables, or of the server's log, becomes full under two nodes, and gets more space."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (on Debian and Ubuntu: apt install postgresql)")
    inside = ["unshare", "--mount"]
    if os.getuid() or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("full disk: only root can make a file system of its own here (unshare --mount)")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")]))}
    with tempfile.TemporaryDirectory(prefix="penstock-disk-") as disk:
        Path(disk).chmod(0o755)  # the server is another user
        command = [*inside, sys.executable, str(PROGRAM), str(tmp_path), disk, what]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
