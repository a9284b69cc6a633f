"""A real agent asks another real one by `penstock mcp`, connected by the lines of `docs/mcp.md` and its own command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest
from install import packages, search_path
from scenarios import NOTES, SCENARIOS, Say, Use
from setups import SETUPS

from penstock.run.locks import holder

if TYPE_CHECKING:
    from setups import Bench

ONLY = {"claude-exec", "codex-exec"}
SECONDS = 180
"""Seconds for an agent, the start of a server, and the agent that it asks."""
OTHER = {"claude": "codex", "codex": "claude"}
"""Agent that is asked, by the one that asks."""
TOOL = {"claude": "mcp__penstock__ask_agent", "codex": "mcp__penstock/ask_agent"}
"""Names of the tool, as the model of each agent has them."""
PAGE = (Path(__file__).parents[2] / "docs/mcp.md").read_text("utf-8")
ASKED = "What does the other one say? scenario=asks"


def documented(language: str) -> str:
    """The only block of the page in a language."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


def run(argv: list[str], env: dict[str, str], folder: Path) -> str:
    """Run a program as a person does: it does not belong to a run of Penstock, so that it may start a server."""
    program = which(argv[0], path=env["PATH"])
    assert program is not None, argv[0]
    words, quiet = [program, *argv[1:]], subprocess.DEVNULL
    done = subprocess.run(
        words, env=env, cwd=folder, stdin=quiet, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_agent_asks_another_one(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model calls `ask_agent`, and gets the whole reply of the other agent; the chat is there for the person."""
    name, other = at.target.agent, OTHER[at.target.agent]
    home = Path(at.env["HOME"])
    if not all(packages()[it].is_installed() for it in OTHER):
        pytest.skip("both agents are needed")
    asks = Use(TOOL[name], {"agent": other, "prompt": "scenario=second please"})
    monkeypatch.setitem(SCENARIOS, "asks", [[Say("I ask."), asks], [Say("It has answered. FINAL-REPLY.")]])
    monkeypatch.setitem(SCENARIOS, "second", [[Say(NOTES)]])
    at.env["MCP_CONNECTION_NONBLOCKING"] = "false"  # claude waits for its servers, however slow this machine is
    env = {**at.env, "PATH": f"{Path(sys.executable).parent}:{search_path([packages()[it] for it in OTHER])}"}
    own = SETUPS[other].prepare(home, at.server.url)
    config = home / ".config/penstock/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[agents.{other}.env]\n" + "".join(f"{key} = {json.dumps(own[key])}\n" for key in own), "utf-8")
    if name == "claude":
        run(documented("sh").split(), env, at.folder)
        argv = ["claude", "-p", ASKED, "--allowedTools", TOOL[name]]
    else:
        with (home / ".codex/config.toml").open("a") as file:
            file.write(documented("toml"))
        # Its newest models are told about such tools by a search, which is a tool of its provider.
        argv = ["codex", "exec", "--skip-git-repo-check", "-m", "gpt-5.1-codex", ASKED]
    try:
        assert "It has answered. FINAL-REPLY." in run(argv, env, at.folder)
        assert NOTES.split("\n")[0] in at.server.requests[-1].body
        [chat] = run(["penstock", "chats", "--json"], env, at.folder).splitlines()
        assert json.loads(chat)["agent"] == other
    finally:
        if (pid := holder(home / ".local/share/penstock/serving.lock")) is not None:
            os.kill(pid, signal.SIGTERM)
