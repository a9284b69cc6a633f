"""What an agent of a chat finds in its environment."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock.agents.registry import AGENTS
from penstock.chat.service.agents.launch import environment, outer_variables

COMMON = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "XDG_CONFIG_HOME": "/c", "HTTPS_PROXY": "p", "TZ": "UTC"}
KEYS = {
    "ANTHROPIC_API_KEY": "1",
    "OPENAI_API_KEY": "2",
    "GEMINI_API_KEY": "3",
    "GOOGLE_APPLICATION_CREDENTIALS": "4",
    "CODEX_HOME": "5",
    "AWS_SECRET_ACCESS_KEY": "6",
    "COPILOT_MODEL": "7",
    "GITHUB_TOKEN": "8",
    "CURSOR_API_KEY": "9",
    "OLLAMA_HOST": "10",
}
OTHERS = {
    "PENSTOCK_TOKEN": "secret",
    "PENSTOCK_RUN": "mark",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "x",
    "DATABASE_URL": "secret",
    "MY_TOKEN": "secret",
    "LD_PRELOAD": "x",
}


def names(agent: str, extra: Iterable[str] = (), **more: str) -> set[str]:
    """What it finds besides what all find."""
    found = environment(agent, {**COMMON, **KEYS, **OTHERS, **more}, extra)
    assert COMMON.items() <= found.items()
    return set(found) - set(COMMON)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("claude", {"ANTHROPIC_API_KEY"}),
        ("ccs/glm", {"ANTHROPIC_API_KEY"}),
        ("codex", {"OPENAI_API_KEY", "CODEX_HOME"}),
        ("gemini", {"GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"}),
        ("qwen", {"OPENAI_API_KEY"}),
        ("copilot", {"COPILOT_MODEL", "GITHUB_TOKEN"}),
        ("cursor", {"CURSOR_API_KEY"}),
        ("ollama", {"OLLAMA_HOST"}),
        ("somebody", set()),
    ],
)
def test_each_agent_gets_its_own(agent: str, expected: set[str]) -> None:
    """What programs need and the agent's own variables; nobody else's keys."""
    assert names(agent) == expected


def test_every_agent_has_its_own() -> None:
    """The facts of each agent name variables; those that any program can be have none."""
    assert {name for name, facts in AGENTS.items() if facts.variables} == set(AGENTS) - {"acp", "generic"}


def test_what_never_comes_along() -> None:
    """Penstock's own variables stay out, whoever names them, and the marks of an outer session."""
    for agent in [*AGENTS, "somebody"]:
        found = names(agent, ["PENSTOCK_TOKEN", "CLAUDECODE", "PENSTOCK_RUN"])
        assert not [name for name in found if name.startswith("PENSTOCK_")]
        assert not found & outer_variables()
        assert not found & {"DATABASE_URL", "MY_TOKEN", "LD_PRELOAD"}


def test_the_user_can_add_names() -> None:
    """A name that the user adds is passed on, to the letter."""
    assert names("somebody", ["MY_TOKEN"]) == {"MY_TOKEN"}
    assert names("somebody", ["MY_"]) == set()


@pytest.mark.parametrize(("value", "given"), [("1", True), ("true", True), ("0", False), ("", False), ("false", False)])
def test_keys_of_a_cloud_come_where_it_is_used(value: str, given: bool) -> None:
    """Claude has the keys of Amazon's cloud where it is told to use it; another agent has them never."""
    found = names("claude", CLAUDE_CODE_USE_BEDROCK=value)
    assert ("AWS_SECRET_ACCESS_KEY" in found) == given
    assert "AWS_SECRET_ACCESS_KEY" not in names("codex", CLAUDE_CODE_USE_BEDROCK=value)


def test_an_agent_of_the_configuration_is_like_its_adapter() -> None:
    """What reads an agent's output tells which agent it is a dress of."""
    assert "ANTHROPIC_API_KEY" in environment("mine", KEYS, adapter="claude")
    assert environment("mine", KEYS, adapter="generic") == {}
