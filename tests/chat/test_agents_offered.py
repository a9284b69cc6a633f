"""Which agents can be chatted with."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import config
from penstock.chat.refusals import NoSuchAgent
from penstock.chat.runtime.agents import Agents

CONFIG = """
[agents.mine]
command = ["mine", "--resume={session_id}"]

[agents.once]
command = ["nowhere"]

[agents.spoken]
command = ["mine"]
protocol = "acp"

[agents.labelled]
label = "no command"
"""


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    """Those of Penstock and of a configuration; `codex` and `mine` are installed."""
    for name in ("codex", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    file = tmp_path / "penstock.toml"
    file.write_text(CONFIG)
    return Agents(config.load({"PENSTOCK_CONFIG": str(file)}), {"PATH": str(tmp_path)})


def test_what_is_offered(agents: Agents) -> None:
    """Each with what it can do; ways to read just any program are none of them."""
    offered = {agent.name: agent for agent in agents.listed()}
    codex, claude, cline = offered["codex"], offered["claude"], offered["cline"]
    assert (codex.installed, codex.route, codex.asks, codex.resumes) == (True, "server", True, True)
    assert (claude.installed, claude.route, claude.asks, claude.resumes) == (False, "exec", False, True)
    assert "npm install" in (claude.install or "")
    assert not cline.resumes
    assert (offered["mine"].installed, offered["mine"].asks, offered["mine"].resumes) == (True, False, True)
    assert (offered["once"].installed, offered["once"].resumes) == (False, False)
    assert (offered["spoken"].route, offered["spoken"].asks, offered["spoken"].resumes) == ("acp", True, True)
    assert not offered.keys() & {"acp", "generic", "labelled"}
    assert agents.default() == "codex"


@pytest.mark.parametrize("name", ["claude", "mine", "ccs", "ccs/glm", "ccs/my-profile.2"])
def test_these_can_be_asked_for(agents: Agents, name: str) -> None:
    """Installed or not."""
    agents.require(name)


@pytest.mark.parametrize(
    "name",
    ["", "claud", "acp", "generic", "acp:sh -c id", "claude/x", "ccs/", "ccs/-x", "ccs/../x", "labelled", "a" * 9999],
)
def test_these_cannot(agents: Agents, name: str) -> None:
    """A request never says which program is started."""
    with pytest.raises(NoSuchAgent):
        agents.require(name)
