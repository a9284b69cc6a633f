"""D3: a publish that is killed between any two of its system calls, and the next command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from effort import SOAK

pytestmark = pytest.mark.slow

KILLED = Path(__file__).parent / "programs" / "killed.py"
UNAVAILABLE = 77
TIMEOUT = 600

RUNS = [("exchange", 1), ("save-between", 1), ("rename", 1), ("in-place", 1)]
if SOAK:
    RUNS += [("exchange", seed) for seed in range(2, 12)]


@pytest.mark.parametrize(("way", "seed"), RUNS)
def test_d3_a_killed_publish_is_completed(way: str, seed: int, tmp_path: Path) -> None:
    """Wherever a publish is killed, the next one leaves the reply once, each save of an editor, and no other file."""
    step = 1 if SOAK else 10
    command: list[str | Path] = [sys.executable, KILLED, tmp_path, way, str(seed), "1", str(step)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode == UNAVAILABLE:
        pytest.skip(f"a killed publish: this system does not let a process be traced: {done.stderr}")
    assert done.returncode == 0, done.stderr
    *problems, killed = done.stdout.splitlines()
    assert problems == []
    assert int(killed) >= 60 // step
