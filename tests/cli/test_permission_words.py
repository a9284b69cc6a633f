"""The permission in the first line of a run, from the facts of the agents."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from penstock.adapter import Level
from penstock.agents.registry import AGENTS
from penstock.cli.advice import allow_advice, permission_words
from penstock.cli.options import RunOptions
from penstock.events import RunStarted
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.run_summary import RULES_UNUSED, Guidance, RunFacts


def words(
    agent: str, route: str, level: Level, *, can_ask: bool = True, is_confined: bool = False, args: Any = None
) -> str:
    """Return the words for a run with these options."""
    options = RunOptions(asked={"args": args})
    return permission_words(agent, route, level, options, can_ask=can_ask, is_confined=is_confined)


@pytest.mark.parametrize(
    ("agent", "route", "level", "expected"),
    [
        ("claude", "server", "ask", "asks"),
        ("claude", "server", "own", "asks"),
        ("claude", "server", "read", "asked to read only"),
        ("claude", "server", "edits", "edits here, asks for more"),
        ("claude", "server", "all", "does everything unasked"),
        ("claude", "exec", "own", "reads only"),
        ("claude", "exec", "edits", "edits here, more is denied"),
        ("codex", "server", "ask", "asks"),
        ("codex", "server", "edits", "edits here, asks for more"),
        ("gemini", "exec", "own", "reads only"),
        ("gemini", "acp", "ask", "asks"),
        ("opencode", "server", "ask", "asks"),
        ("opencode", "server", "edits", "edits here, asks for more"),
        ("opencode", "exec", "own", "follows its own settings"),
        ("opencode", "server", "all", "does everything unasked"),
        ("pi", "exec", "own", "does everything unasked"),
        ("acp:some-agent --acp", "acp", "own", "asks"),
        ("of-a-configuration", "exec", "own", ""),
    ],
)
def test_the_words_are_those_of_the_route_and_the_level(agent: str, route: str, level: Level, expected: str) -> None:
    """The same words mean the same for every agent; an agent without facts has none."""
    assert words(agent, route, level) == expected


def test_an_agent_only_reads_where_it_is_confined() -> None:
    """Elsewhere it was asked to."""
    for agent, facts in AGENTS.items():
        for route, levels in facts.allows.items():
            if "read" in levels and levels["read"].kind == "reads":
                assert words(agent, route, "read", is_confined=True) == "reads only"
                assert words(agent, route, "read") == "asked to read only"


def test_no_agent_is_said_to_ask_where_nobody_can_answer() -> None:
    """On an asking route without a person, what needs a permission is not promised to be asked."""
    for agent, facts in AGENTS.items():
        for route, levels in facts.allows.items():
            assert {words(agent, route, allow, can_ask=False) for allow in levels}.isdisjoint(
                {"asks", "edits here, asks for more"}
            )
    assert words("claude", "server", "ask", can_ask=False) == "its questions are rejected"


def test_to_be_asked_is_advised_where_somebody_can_answer() -> None:
    """In a job nobody can, and `--allow ask` would only reject the same action again."""
    assert allow_advice("claude", "exec", "own", can_ask=True).endswith(", or --allow ask to be asked")
    assert allow_advice("claude", "exec", "own", can_ask=False) == "--allow edits, or --allow all"
    assert allow_advice("claude", "exec", "edits", can_ask=False) == "--allow all"
    assert allow_advice("claude", "exec", "all", can_ask=True) == ""


def test_every_level_that_a_route_has_is_said() -> None:
    """No agent with facts starts without its permission in the first line."""
    for agent, facts in AGENTS.items():
        for route, levels in facts.allows.items():
            assert {allow for allow in get_args(Level) if words(agent, route, allow)} == set(levels)


@pytest.mark.parametrize(
    ("agent", "route", "level", "expected"),
    [
        ("claude", "server", "ask", False),
        ("claude", "server", "edits", False),
        ("claude", "server", "all", True),
        ("claude", "exec", "edits", False),
        ("opencode", "exec", "own", False),
        ("pi", "exec", "own", True),
        ("acp:some-agent --acp", "acp", "own", False),
        ("of-a-configuration", "exec", "own", False),
    ],
)
def test_rules_need_an_agent_that_asks(agent: str, route: str, level: Level, expected: bool) -> None:
    """One that does all unasked passes them by; one that denies commands by itself needs none."""
    guidance = Guidance(permission=words(agent, route, level), has_rules=True)
    pieces = RunFacts(Paths(None), guidance).started(RunStarted(agent="a", parent=None), whole=False)
    assert (("warn", RULES_UNUSED) in pieces) == expected


def test_arguments_of_the_user_leave_the_permission_open() -> None:
    """They may contain the agent's own flag for another permission."""
    assert words("claude", "server", "ask", args=["--dangerously-skip-permissions"]) == ""


@pytest.mark.parametrize(
    ("guidance", "line"),
    [
        (Guidance(permission="does everything unasked"), "· does everything unasked"),
        (
            Guidance(permission="does everything unasked", is_confined=True),
            "· does everything, in this directory only",
        ),
        (Guidance(permission="asks", is_confined=True), "· asks · confined"),
        (
            Guidance(permission="does everything unasked", has_rules=True),
            "· does everything unasked · your rules do not apply",
        ),
        (
            Guidance(permission="does everything unasked", not_confined="bubblewrap is not installed"),
            "· does everything unasked · not confined: bubblewrap is not installed",
        ),
    ],
)
def test_the_first_line_says_what_confinement_leaves(guidance: Guidance, line: str) -> None:
    """An agent that does everything does so in its directory only where it is confined; a reason is a warning."""
    pieces = RunFacts(Paths(None), guidance).started(RunStarted(agent="pi", parent=None), whole=False)
    assert "".join(text for _, text in pieces) == line
    assert [style for style, text in pieces if text.startswith("not confined")] == ["warn"] * bool(
        guidance.not_confined
    )
