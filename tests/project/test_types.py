"""The types of the package, as the type checkers of its users see them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
CONSUMER = Path(__file__).parent / "consumer.py"

PYRIGHT = BIN / "pyright"
needs_pyright = pytest.mark.skipif(
    not (PYRIGHT.exists() and shutil.which("node")), reason="pyright, or the node that runs it, is not installed"
)


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a type checker as a user does: in another folder, with this environment's Python as the first one."""
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_mypy_accepts_a_user(tmp_path: Path) -> None:
    """`mypy --strict` finds no error in a program that uses the package, and what it should find there it finds."""
    cache = ROOT / ".mypy_cache" / "consumer"
    done = run(tmp_path, BIN / "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", CONSUMER)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_pyright
def test_pyright_accepts_a_user(tmp_path: Path) -> None:
    """Pyright finds no error in a program that uses the package."""
    program = tmp_path / "consumer.py"
    program.write_text(CONSUMER.read_text("utf-8"), "utf-8")
    done = run(tmp_path, PYRIGHT, "--pythonpath", sys.executable, program)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_pyright
def test_every_public_name_has_a_type(tmp_path: Path) -> None:
    """Pyright knows the type of every name of the package without a guess."""
    done = run(tmp_path, PYRIGHT, "--verifytypes", "penstock", "--ignoreexternal")
    problems = "\n".join(done.stdout.split("Symbols used in public interface:")[-1].splitlines()[:60])
    assert "Type completeness score: 100%" in done.stdout, problems + done.stderr
