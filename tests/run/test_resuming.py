"""Resuming: which agents can, and which lose a conversation."""

from __future__ import annotations

from pathlib import Path

from penstock.config.settings import load
from penstock.run.resuming import can_resume, resume_warning


def test_a_route_that_loses_conversations_names_another_one() -> None:
    """Gemini over ACP has a warning with the route that has none; agents of the user's own have no warning."""
    assert "--route exec" in resume_warning("gemini", "acp")
    assert [resume_warning(*it) for it in (("gemini", "exec"), ("claude", "exec"), ("mine", "acp"))] == ["", "", ""]


def test_agents_of_the_user_resume_if_their_command_has_a_place_for_it(tmp_path: Path) -> None:
    """A command with `{session_id}` can resume, and one without cannot."""
    text = '[agents.{}]\ncommand = ["x"{}]\n'
    file = tmp_path / "own.toml"
    file.write_text(text.format("with", ', "--resume={session_id}"') + text.format("without", ""))
    config = load({"PENSTOCK_CONFIG": str(file)}, str(tmp_path))
    assert can_resume("with", None, config)
    assert not can_resume("without", None, config)
