"""Options of `penstock serve` for several machines: mistakes are rejected before anything is opened."""

from __future__ import annotations

import subprocess
import sys

import pytest

URL = "postgresql://db.example.org/penstock"


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--node=a"], "--node needs a store of several machines"),
        (["--node=a b", f"--store={URL}"], "the name of a node"),
        ([f"--store={URL}", "--store-file=URL"], "--store and --store-file cannot be used together"),
        ([f"--store={URL}", "--env=PGPASSWORD"], "agents do not get PGPASSWORD"),
        (["--store=postgresql://me:secret@db.example.org/penstock"], "--store has a password"),
    ],
)
def test_mistakes_are_rejected(words: list[str], reason: str) -> None:
    """The error names the option, the exit status is that of usage, and no password is repeated."""
    command = [sys.executable, "-m", "penstock", "serve", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "secret" not in done.stderr
