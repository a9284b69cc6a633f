"""What is left out of a target: each folder leaves out tests of its own, and none of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLED = "tests/config/test_command_rules.py"
"""A file whose tests have many cases."""


def collected(*paths: str) -> list[str]:
    """The tests of `SAMPLED` that run if these paths are named."""
    env = {name: value for name, value in os.environ.items() if name not in ("PENSTOCK_ALL_TESTS", "PENSTOCK_SOAK")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *paths]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    return [line for line in run.stdout.splitlines() if line.startswith(f"{SAMPLED}::")]


def test_the_browsers_tests_leave_out_no_others() -> None:
    """Every case of a test elsewhere is collected beside them."""
    alone = collected(SAMPLED)
    assert len(alone) > 50
    assert collected(SAMPLED, "tests/page") == alone
