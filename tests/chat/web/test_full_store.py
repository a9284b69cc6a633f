"""A store that cannot be written for a while: everybody is notified once, and all goes on by itself."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import small_disk

SUPPORT = Path(__file__).parents[2] / "support"
PROGRAM = SUPPORT / "full_store.py"

SECONDS = 120
"""Seconds in which the program ends."""


@pytest.mark.slow
def test_a_limit_of_the_system(tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may make no file larger, as with a quota: nothing can be kept until the limit is lifted."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # compiled modules would be cut as well

    def limit(process: subprocess.Popen[str], size: int) -> None:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))

    small_disk.use(tmp_path, page, lambda it: limit(it, 1), lambda it: limit(it, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path, page: Path) -> None:
    """The disk of the data directory becomes full, and has space again."""
    inside = ["unshare", "--mount"]
    if os.getuid() or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("full disk: only root can make a file system of its own here (unshare --mount)")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")]))}
    command = [*inside, sys.executable, str(PROGRAM), str(tmp_path), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
