"""The lines that continue a conversation in a terminal, read by a real bash and by the command line itself."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from waiting import until_true

from penstock.agents import registry
from penstock.chat.service.agents.offered import Agents
from penstock.chat.service.agents.terminal import terminal_lines
from penstock.chat.store.rows import ChatRow
from penstock.cli.run import parser
from penstock.config import settings

if TYPE_CHECKING:
    from chat.service.conftest import Home

CHAT = ChatRow("c", "claude", "/shop", 1, session_id="0f8e-1", allow="edits")


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    """The agents of a configuration with one of its own, and with one in a place of its own."""
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[agents.mine]\ncommand = ["mine", "{session_id}"]\n[agents.plain]\ncommand = ["plain"]\n'
        '[agents.codex]\ncommand = ["/opt/my codex/codex"]\n'
    )
    return Agents(settings.load({"PENSTOCK_CONFIG": str(file), "HOME": str(tmp_path)}), {})


def test_the_lines_of_a_chat(agents: Agents) -> None:
    """Penstock's has the permission, the model and the effort; the agent's own has none of them."""
    lines = terminal_lines(replace(CHAT, model="opus[1m]", effort="high"), agents)
    line = "penstock run claude --interactive --session=0f8e-1 --allow=edits '--model=opus[1m]' --effort=high"
    assert (lines.penstock, lines.note) == (f"cd -- /shop && {line}", None)
    assert lines.agent == "cd -- /shop && claude --resume=0f8e-1"
    asking = terminal_lines(replace(CHAT, allow="default"), agents)
    assert asking.penstock == "cd -- /shop && penstock run claude --interactive --session=0f8e-1 --allow=ask"
    codex = terminal_lines(replace(CHAT, agent="codex"), agents)
    assert codex.agent == "cd -- /shop && '/opt/my codex/codex' resume 0f8e-1"
    mine = terminal_lines(replace(CHAT, agent="mine", allow="default"), agents)
    assert mine.penstock == "cd -- /shop && penstock run mine --interactive --session=0f8e-1 --allow=own"
    assert mine.agent is None, "its program is not known"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"session_id": None}, "claude has no conversation of this chat yet."),
        ({"agent": "plain"}, "plain begins a new conversation in each turn."),
        ({"agent": "gemini", "allow": "ask"}, "gemini may lose a conversation"),
        ({"session_id": "--dangerously-skip-permissions"}, "cannot be used in a command"),
        ({"session_id": "-x"}, "cannot be used in a command"),
        ({"session_id": "../../etc/passwd"}, "cannot be used in a command"),
    ],
)
def test_what_cannot_be_continued_has_no_line(agents: Agents, changes: dict[str, Any], note: str) -> None:
    """It says why. An id that an agent gave is never a flag, whatever the agent says."""
    lines = terminal_lines(replace(CHAT, **changes), agents)
    assert (lines.penstock, lines.agent) == (None, None)
    assert note in (lines.note or "")


ODD = [
    "a b",
    "it's",
    "$(touch x)",
    "`id`",
    "!!",
    "a\nb",
    "-rf",
    "~",
    "\x1b[31mred",
    "\u202eabc",
    "*?",
    'x"y',
    "\\",
    "é",
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_goes_to_the_directory_and_starts_the_program(agents: Agents, tmp_path: Path) -> None:
    """With words that the command line takes, in the very directory, whatever its name is; and nothing else runs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("penstock", "claude"):
        program = programs / name
        program.write_text(
            f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([os.getcwd(), sys.argv[1:]]))\n"
        )
        program.chmod(0o755)
    places = [tmp_path / "dirs" / name for name in ODD]
    script = []
    for place in places:
        place.mkdir(parents=True)
        lines = terminal_lines(replace(CHAT, cwd=str(place)), agents)
        assert lines.penstock is not None
        assert lines.agent is not None
        assert (lines.penstock + lines.agent).isprintable()
        script += [lines.penstock, lines.agent]
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CDPATH": str(tmp_path)}
    shell = "set -o history -o histexpand\n" + "\n".join(script) + "\n"
    ran = subprocess.run(
        ["bash", "--norc"], input=shell.encode(), capture_output=True, env=environ, cwd=tmp_path, timeout=60
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [cwd for cwd, _ in found] == [str(place) for place in places for _ in "12"], ran.stderr
    assert not (tmp_path / "x").exists()
    for _, words in found[1::2]:
        assert words == ["--resume=0f8e-1"]
    asked = vars(parser().parse(found[0][1][1:]))
    assert (asked["session_id"], asked["allow"], asked["interactive"]) == ("0f8e-1", "edits", True)


def test_facts_have_the_command_of_each_program_that_resumes() -> None:
    """A route whose program is the agent's own and that resumes says how; bridges and ACP say nothing."""
    for name, facts in registry.AGENTS.items():
        for route, it in facts.routes.items():
            if not it.terminal:
                assert route == "acp" or not it.resume or name == "ccs" or not facts.proven, (name, route)
                continue
            assert it.resume, (name, route)
            assert it.terminal[0] == it.program, (name, route)
            assert sum("{session_id}" in word for word in it.terminal) == 1, (name, route)


def test_a_chat_has_its_lines(home: Home) -> None:
    """They have the id that the agent gave, once it has said something; while it works it is said to wait."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            assert "has no conversation" in (service.terminal(made.id).note or "")
            await service.prompt(made.id, "hi")
            await home.settled(service, made.id)
            await until_true(lambda: service.terminal(made.id).note is None)
            lines = service.terminal(made.id)
            session = service.row(made.id).session_id
            assert session is not None
            assert f"--session={session} " in (lines.penstock or "")
            assert lines.agent is None

    asyncio.run(chat())
