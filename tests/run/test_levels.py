"""The level of permission and the route of a run, from what was asked for and who can answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from penstock import UsageError, agent
from penstock.adapter import Allow, Level, Request
from penstock.agents.registry import AGENTS
from penstock.config import run_keys, settings
from penstock.run.levels import with_level
from penstock.run.network import Network
from penstock.run.run import Run


def chosen(name: str, allow: Allow = "default", route: str | None = None, *, ask: bool = True, **asked: Any) -> str:
    """The level and the route of a run, in one word."""
    level, found = with_level(AGENTS[name], allow, Request(prompt="hi", **asked), route, can_answer=ask)
    return f"{level}/{found}"


@pytest.mark.parametrize(
    ("name", "somebody", "nobody"),
    [
        ("claude", "ask/server", "own/exec"),
        ("ccs", "ask/server", "own/exec"),
        ("codex", "ask/server", "own/server"),
        ("gemini", "ask/acp", "own/exec"),
        ("qwen", "ask/acp", "own/exec"),
        ("copilot", "ask/acp", "own/exec"),
        ("cline", "ask/acp", "own/exec"),
        ("opencode", "ask/server", "own/server"),
        ("pi", "own/server", "own/server"),
        ("cursor", "own/exec", "own/exec"),
    ],
)
def test_an_agent_asks_where_somebody_can_answer(name: str, somebody: str, nobody: str) -> None:
    """Its route is one that asks; where nobody can answer, its own default holds."""
    assert chosen(name) == somebody
    assert chosen(name, ask=False) == nobody
    assert chosen(name, "own", ask=False) == nobody


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("gemini", {"allow": "edits"}, "edits/exec"),
        ("gemini", {"allow": "read"}, "read/exec"),
        ("gemini", {"allow": "own"}, "own/exec"),
        ("gemini", {"allow": "ask", "ask": False}, "ask/acp"),
        ("claude", {"allow": "ask", "ask": False}, "ask/server"),
        ("cline", {"allow": "edits", "ask": False}, "edits/acp"),
        ("pi", {"allow": "ask"}, "ask/server"),
    ],
)
def test_a_level_has_the_default_route_or_one_that_keeps_it(name: str, asked: dict[str, Any], found: str) -> None:
    """A route that cannot keep a level stays only if none can: the request is rejected there."""
    assert chosen(name, **asked) == found


def test_a_route_is_chosen_only_if_it_supports_everything_asked() -> None:
    """A flag that no asking route has is worth more than the question."""
    assert chosen("qwen", schema={"x": 1}) == "own/exec"
    assert chosen("claude", route="exec") == "own/exec", "the route was asked for"
    assert chosen("gemini", route="exec") == "own/exec"
    assert chosen("claude", route="acp") == "ask/acp"


def run_of(tmp_path: Path, name: str, **asked: Any) -> Run:
    """A run of an agent whose program does nothing."""
    for program in ("claude", "gemini", "pi", "opencode", "mine"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    return agent(name, environ=environ, cwd=tmp_path, sandbox="off").run("hi", **asked)


def test_a_run_has_the_level_that_it_came_to(tmp_path: Path) -> None:
    """In Python somebody can answer if there is a function for it."""
    alone = run_of(tmp_path, "gemini")
    assert (alone.allow, alone.route) == ("own", "exec")
    answered = run_of(tmp_path, "gemini", on_question=lambda question: "reject")
    assert (answered.allow, answered.route) == ("ask", "acp")
    assert run_of(tmp_path, "gemini", allow="edits").allow == "edits"


@pytest.mark.parametrize(
    ("name", "allow", "words"),
    [
        ("pi", "ask", "pi cannot ask before it changes something"),
        ("pi", "edits", "pi cannot be allowed edits alone"),
        ("mine", "ask", "mine cannot ask before it changes something"),
        ("mine", "read", "mine cannot be kept from changing anything"),
    ],
)
def test_a_level_that_cannot_be_kept_is_rejected(tmp_path: Path, name: str, allow: Any, words: str) -> None:
    """Before anything starts, with what works instead."""
    config = tmp_path / "own.toml"
    config.write_text('[agents.mine]\ncommand = ["mine"]\n')
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PENSTOCK_CONFIG", str(config))
        with pytest.raises(UsageError) as caught:
            run_of(tmp_path, name, allow=allow)
    assert words in caught.value.what
    assert caught.value.help
    assert caught.value.help.count("It has no permissions") <= 1, "the same is said twice"


def configured(tmp_path: Path, users: str, projects: str) -> settings.Config:
    """The configuration of a project in a user's home."""
    user, project = tmp_path / "home" / ".config" / "penstock" / "config.toml", tmp_path / "project"
    user.parent.mkdir(parents=True, exist_ok=True)
    project.mkdir(exist_ok=True)
    user.write_text(f"[run]\nallow = {json.dumps(users)}\n" if users else "")
    (project / "penstock.toml").write_text(f"[run]\nallow = {json.dumps(projects)}\n" if projects else "")
    return settings.load({"HOME": str(tmp_path / "home")}, str(project))


def test_the_words_of_the_configuration_are_the_levels() -> None:
    """The configuration is below the code that knows the levels."""
    assert get_args(Level) == run_keys.LEVELS
    assert {*get_args(Network)} == {*run_keys.NETWORKS}


@pytest.mark.parametrize(
    ("users", "projects", "found"),
    [
        ("edits", "", "edits"),
        ("", "read", "read"),
        ("", "ask", "ask"),
        ("all", "edits", "edits"),
        ("", "edits", "default"),
        ("", "all", "default"),
        ("ask", "all", "ask"),
        ("read", "ask", "read"),
        ("read", "own", "read"),
        ("edits", "own", "edits"),
        ("own", "all", "own"),
    ],
)
def test_a_project_can_only_lower_the_level(tmp_path: Path, users: str, projects: str, found: str) -> None:
    """Its file came with somebody else's files; what it may not say is reported with the line."""
    config = configured(tmp_path, users, projects)
    assert config.allow == found
    rejected = bool(projects) and found != projects
    assert [problem for problem in config.problems if "can only lower it" in problem] == config.problems
    assert bool(config.problems) == rejected


def test_a_flag_takes_precedence_over_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is configured is the level of runs for which none is asked."""
    config = tmp_path / "own.toml"
    config.write_text('[run]\nallow = "edits"\n')
    monkeypatch.setenv("PENSTOCK_CONFIG", str(config))
    assert run_of(tmp_path, "claude").allow == "edits"
    assert run_of(tmp_path, "claude", allow="own").allow == "own"
