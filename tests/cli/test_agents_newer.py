"""`penstock agents --check` marks a program that is newer than the recordings of its agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import agents
from penstock.config.settings import Config
from penstock.errors import UnknownAgent


@pytest.mark.parametrize(
    ("version", "known", "newer"),
    [
        ("2.1.331", ["2.1.197", "2.1.330"], True),
        ("2.1.330", ["2.1.197", "2.1.330"], False),
        ("2.1.9", ["2.1.10"], False),
        ("2.1.10", ["2.1.9"], True),
        ("3", ["2.9.9"], True),
        ("1.0.0-beta.99", ["1.0.0"], False),
        ("1.0", ["1.0.0"], False),
        ("words", ["1.0"], False),
        ("9.9", [], False),
        ("9" * 5000 + ".1", ["1.0"], True),
    ],
)
def test_what_is_newer(version: str, known: list[str], newer: bool) -> None:
    """Versions are compared by their numbers, not as texts; nothing is newer than nothing, no number too long."""
    assert agents.is_newer(version, known) is newer


@pytest.mark.parametrize(("version", "mark"), [("99.0.0", True), ("0.1.0", False)])
def test_a_newer_program_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, mark: bool) -> None:
    """The version of the installed program is shown, with the mark if it is newer."""
    program = tmp_path / "qwen"
    program.write_text(f"#!/bin/sh\necho qwen {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = agents.rows(Config({}), check=True)
    row = next(row for row in found if row.name == "qwen")
    assert (row.version, row.newer) == (version, mark)
    line = next(line for line in agents.as_text(found).splitlines() if line.startswith("qwen"))
    assert (f"{version} {agents.NEWER}" in line) is mark


def test_one_agent_is_listed() -> None:
    """Those that are named are listed, each once, in their order; another name is an error that names the nearest."""
    assert [row.name for row in agents.rows(Config({}), check=False, only=["pi", "codex", "pi"])] == ["pi", "codex"]
    with pytest.raises(UnknownAgent, match="did you mean 'codex'"):
        agents.rows(Config({}), check=False, only=["codexx"])
