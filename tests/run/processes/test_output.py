"""Output of programs that are asked for something beside a run: it is bounded, and nothing of them is left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from waiting import until

from penstock.run import installed
from penstock.run.process import output_of


def python(script: str) -> list[str]:
    """The command line of a script."""
    return [sys.executable, "-S", "-c", script]


def test_output_without_an_end(tmp_path: Path) -> None:
    """A program that prints on both pipes without an end is killed at the largest size, before its time is over."""
    notes = tmp_path / "pid"
    endless = (
        f"import os, sys\nopen({str(notes)!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"os.rename({str(notes)!r} + '.new', {str(notes)!r})\n"
        "while True:\n    sys.stdout.write('x' * 9999)\n    sys.stderr.write('y' * 9999)\n"
    )
    status, said = output_of(python(endless), os.environ, None, 1000, 200_000)
    assert status is None
    assert len(said) == 200_000
    until(lambda: not Path(f"/proc/{notes.read_text()}").exists())


def test_output_at_the_limit() -> None:
    """Less is whole, with the status of the program; what a program prints last, before it ends, is bounded too."""
    said = "import sys; sys.stdout.write('x' * {}); sys.exit(3)"
    assert output_of(python(said.format(999)), os.environ, None, 1000, 1000) == (3, "x" * 999)
    _, more = output_of(python(said.format(70_000)), os.environ, None, 1000, 1000)
    assert more == "x" * 1000


def test_a_version_in_front_of_too_much(tmp_path: Path) -> None:
    """An agent that prints its version and then never stops has this version."""
    program = tmp_path / "agent"
    program.write_text(
        f"#!{sys.executable} -S\nimport sys\nprint('agent 7.8.9')\nwhile True:\n    sys.stdout.write('z' * 99999)\n"
    )
    program.chmod(0o755)
    assert installed.printed_version(str(program), 1000) == "7.8.9"
