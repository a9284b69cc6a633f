"""Real agents in a confined run: tools and conversations work, and nothing outside changes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from setups import Bench

from playing import play
from test_real_agents import LOSES_YOUNG_SESSIONS

from penstock.agents.registry import AGENTS
from penstock.errors import UsageError
from penstock.events import Notice


def test_a_confined_agent_works_and_resumes(at: Bench) -> None:
    """A command and a file, then a second prompt in the same conversation."""
    facts = AGENTS[at.target.agent]
    if not facts.state:
        with pytest.raises(UsageError, match="cannot be confined"):
            play(at, "scenario=tools please", sandbox="on")
        return
    played = play(at, "scenario=tools please", sandbox="on")
    assert played.result.outcome == "ok", (played.result.reason, played.run.stderr)
    assert (at.folder / "notes.txt").exists()
    notices = [event.text for event in played.events if isinstance(event, Notice)]
    assert not [text for text in notices if "later runs would obey" in text], "a false warning"
    resumes = "resume" in facts.routes[at.target.route].supports and str(at.target) not in LOSES_YOUNG_SESSIONS
    if not resumes or played.result.session_id is None:
        return
    again = play(at, "scenario=text please", session_id=played.result.session_id, sandbox="on")
    assert again.result.outcome == "ok", (again.result.reason, again.run.stderr)
    assert "scenario=tools" in again.conversation[-1].body


def test_a_conversation_goes_in_and_out(at: Bench) -> None:
    """A conversation that began unconfined goes on confined, and then unconfined again."""
    facts = AGENTS[at.target.agent]
    if not facts.state or str(at.target) in LOSES_YOUNG_SESSIONS:
        return
    if "resume" not in facts.routes[at.target.route].supports:
        return
    played = play(at, "scenario=text please")
    for sandbox in ("on", "off"):
        played = play(at, f"scenario=text please, {sandbox}", session_id=played.result.session_id, sandbox=sandbox)
        assert played.result.outcome == "ok", (sandbox, played.result.reason, played.run.stderr)
    body = played.conversation[-1].body
    assert "scenario=text please, on" in body
    assert "scenario=text please, off" in body


def test_an_agent_reaches_its_model_alone(at: Bench) -> None:
    """With `--network agent` it works as before; its own servers of other kinds are refused, each with a warning."""
    facts = AGENTS[at.target.agent]
    model = urlsplit(at.server.url)
    hosts = [f"{model.hostname}:{model.port}"]
    if not facts.state:
        with pytest.raises(UsageError, match="cannot be confined"):
            play(at, "scenario=tools please", network="agent", network_hosts=hosts)
        return
    played = play(at, "scenario=tools please", network="agent", network_hosts=hosts)
    assert played.result.outcome == "ok", (played.result.reason, played.run.stderr)
    assert (at.folder / "notes.txt").exists()
    refused = [event.text for event in played.events if isinstance(event, Notice) and event.code == "permission"]
    assert all(" may not connect to " in text for text in refused), refused
    assert not [text for text in refused if any(host in text for host in facts.hosts)], refused
