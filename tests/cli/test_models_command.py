"""`penstock models`: what agents list, as a table and as JSON, and what it says where there is no list."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from penstock.cli.main import main

LEVELS = [{"effort": "low"}, {"effort": "high"}]
MODELS = [
    {"slug": "big", "visibility": "list", "supported_reasoning_levels": LEVELS, "default_reasoning_level": "high"},
    {"slug": "small", "visibility": "list", "supported_reasoning_levels": []},
    {"slug": "\x1b]0;title\x07evil", "visibility": "list"},
]
PI = "provider  model  context  max-out  thinking  images\nmock  one  128K  16K  yes  no\n"


class Desk:
    """Programs that stand for agents, alone in PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.project = folder / "project"
        self.project.mkdir()
        monkeypatch.chdir(self.project)
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setenv("PENSTOCK_DATA", str(folder / "data"))
        monkeypatch.setenv("PENSTOCK_SANDBOX", "off")

    def install(self, name: str, output: str) -> None:
        """Let this be an agent: it prints its list."""
        program = self.programs / name
        program.write_text(f"#!{sys.executable} -S\nimport sys\nsys.stdout.write({output!r})\n", "utf-8")
        program.chmod(0o755)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A machine without agents."""
    return Desk(tmp_path, monkeypatch)


def test_models_of_the_installed_agents(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    """Each installed agent that lists models is asked; names that no run accepts are not listed."""
    desk.install("codex", json.dumps({"models": MODELS}))
    desk.install("pi", PI)
    assert main(["models"]) == 0
    shown, errors = capfd.readouterr()
    assert [line.split() for line in shown.splitlines()] == [
        ["agent", "model", "effort"],
        ["codex", "big", "low", "high*"],
        ["codex", "small", "–"],
        ["pi", "mock/one", "?"],
    ]
    assert errors == ""
    assert main(["models", "codex", "--json"]) == 0
    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == [
        {"agent": "codex", "model": "big", "efforts": ["low", "high"], "default_effort": "high"},
        {"agent": "codex", "model": "small", "efforts": []},
    ]


def test_where_there_is_no_list(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    """The words say why, and the exit status too: nothing to list, no such agent, not installed, an empty list."""
    for words, status, said in (
        ([], 0, "None of the agents that list their models is installed: codex"),
        (["claude"], 2, "claude has no command that lists its models"),
        (["nosuch"], 2, "there is no agent 'nosuch'"),
        (["codex"], 127, "codex"),
        (["codex", "pi"], 1, "pi"),
    ):
        assert main(["models", *words]) == status, words
        assert said in "".join(capfd.readouterr())
    desk.install("codex", "nothing that is a list")
    assert main(["models", "codex"]) == 1
    shown, errors = capfd.readouterr()
    assert (shown, "codex listed no models" in errors) == ("", True)


def test_a_project_cannot_choose_the_program(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    """A command that came with the files of a project is not started."""
    made = desk.project / "made"
    (desk.project / "penstock.toml").write_text(f'[agents.codex]\ncommand = ["/usr/bin/touch", "{made}"]\n', "utf-8")
    assert main(["models", "codex"]) == 1
    assert "came with the files of this project" in capfd.readouterr().err
    assert not made.exists()
    assert os.listdir(desk.project) == ["penstock.toml"]
