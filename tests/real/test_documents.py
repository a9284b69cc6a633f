"""Real agents answer a document twice in a row, the second time in the same conversation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import scenarios
from playing import SECONDS

from penstock.doc import DocumentAnswer, answer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from setups import Bench

    from penstock.events import Event

ONLY = ("claude-exec", "claude-server", "codex-exec", "codex-server", "gemini-exec", "opencode-server", "gemini-acp")
"""Targets that these tests are for: each agent that people use most, by the route that it has by default, and one that
loses a conversation that is resumed too early."""


def answered(at: Bench, path: Path) -> tuple[DocumentAnswer, list[Event]]:
    """Answer a document with the agent, and return the events of the run too."""
    events: list[Event] = []
    done = answer(
        path,
        agent=at.target.name,
        route=at.target.route,
        cwd=at.folder,
        env=at.env,
        allow="all",
        timeout=SECONDS,
        on_event=events.append,
    )
    return done, events


def test_two_answers_in_one_conversation(at: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first reply is in the document as the model wrote it; the second run has both prompts."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    path = at.folder / "notes.md"
    path.write_text("# Notes\n\n## User\n\nscenario=text please\n", "utf-8")
    first, events = answered(at, path)
    assert (first.published, first.result and first.result.outcome) == (True, "ok")
    assert events
    text = path.read_text("utf-8")
    assert f"## Assistant\n\n{scenarios.MARKDOWN.strip()}\n\n## User\n" in text
    assert ("--route exec" in " ".join(first.notes)) == (str(at.target) == "gemini-acp")
    if str(at.target) == "gemini-acp":
        time.sleep(61 - time.time() % 60)  # until the minute in which the conversation began is over
    path.write_text(f"{text}scenario=history please\n", "utf-8")
    second, _ = answered(at, path)
    assert first.result is not None
    assert second.result is not None
    assert second.notes == ()
    assert second.result.session_id == first.result.session_id
    # The second prompt has the change and the whole document.
    assert second.reply == scenarios.history(["text", "history", "text", "history"])
    assert first.line is not None
    assert second.line is not None
    assert second.line > first.line
    assert path.read_text("utf-8").splitlines()[second.line - 1 : second.line + 2] == ["## Assistant", "", second.reply]
    assert answered(at, path)[0].result is None
    path.unlink()
