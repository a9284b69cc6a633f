"""`make outdated` names what the registry has newer, and never reports that all is well if it could not ask."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "real"))

import install  # of tests/real
import outdated


def test_nothing_is_newer() -> None:
    """Each package is asked for once, and the versions that the tests run are the newest."""
    asked: list[str] = []

    def ask(package: str) -> str:
        asked.append(package)
        return outdated.names()[package] or "1"

    status, lines = outdated.report(ask)
    assert asked == [*outdated.names()]
    assert (status, lines) == (0, []) or all("no test runs it" in line for line in lines)


def test_what_is_newer_is_named() -> None:
    """A newer version is a line with both versions, and the status is 1, unless it cannot be installed."""
    status, lines = outdated.report(lambda package: "999.0.1", lambda package, version: False)
    assert status == 0
    assert any("999.0.1, which needs packages" in line for line in lines)
    status, lines = outdated.report(lambda package: "999.0.1", lambda package, version: True)
    assert status == 1
    assert any(line.startswith("@anthropic-ai/claude-code: tests run ") and "999.0.1" in line for line in lines)


def test_a_registry_that_does_not_answer() -> None:
    """It is a failure of its own, whatever the others said."""
    status, lines = outdated.report(lambda package: None if "codex" in package else "999", lambda *_: True)
    assert status == 2
    assert "@openai/codex: the registry could not be asked" in lines


def test_an_agent_of_pypi_is_asked_for_there() -> None:
    """Both registries answer in their own form, and an answer without a version is no version."""
    assert outdated.of_pypi() == {"mistral-vibe"}
    assert "mistral-vibe" in outdated.names()
    assert outdated.said("1.2.3\n") == "1.2.3"
    assert outdated.said('{"name": "mistral-vibe", "versions": ["3.0.3", "3.0.2"], "latest": "3.0.3"}\n') == "3.0.3"
    assert outdated.said('{"name": "mistral-vibe"}') is None
    assert outdated.said("") is None


def test_what_takes_long_is_installed_by_name() -> None:
    """Nobody waits for it who has not asked for it, by the agent's name or by that of a route."""
    for asked, is_wanted in (("", False), ("claude,codex", False), ("vibe", True), ("claude vibe-acp", True)):
        programs = {it.program for it in install.wanted(asked)}
        assert ("vibe-acp" in programs) == is_wanted
        assert {"node", "claude", "goose"} <= programs
