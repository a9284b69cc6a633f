"""An answer for "always" at a command: real agents may repeat it, and ask again before any other one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scenarios
from playing import play

from penstock.core.questions import SAME_COMMAND, resolve
from penstock.events import QuestionAnswered, QuestionAsked

if TYPE_CHECKING:
    from setups import Bench

    from penstock.events import Event
    from penstock.run.run import Run

ONLY = ("claude-server", "claude-acp", "opencode-server", "gemini-acp", "qwen-acp")
"""Targets that these tests are for: those whose own "always" is for a program, a tool or a pattern."""


def test_always_is_for_this_command_alone(at: Bench) -> None:
    """The same command runs again unasked; another call of the same program is asked, and is not run."""
    kept, gone = at.folder / "other", at.folder / "build"
    kept.mkdir(exist_ok=True)
    gone.mkdir(exist_ok=True)
    questions: list[QuestionAsked] = []

    def heed(run: Run, event: Event) -> None:
        if isinstance(event, QuestionAsked) and run.awaits(event.id):
            questions.append(event)
            answer = resolve(event, "a" if len(questions) == 1 else "n", numbered=True)
            assert answer is not None
            run.answer(event.id, answer.option or "reject")

    played = play(at, "scenario=removes please", allow="ask", ask=True, heed=heed)
    assert [scenarios.REMOVES[1] in question.text for question in questions] == [False, True]
    assert kept.is_dir()
    assert not gone.exists()
    answers = [event for event in played.events if isinstance(event, QuestionAnswered)]
    assert [(it.by, it.option) for it in answers[:1]] == [("person", SAME_COMMAND.id)]
    assert [it.by for it in answers] == ["person", "rule", "person"]
    assert played.result.refused == 1
