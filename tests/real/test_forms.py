"""Real agents ask by a form over ACP: the answer reaches the model, and a form without a person is declined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import scenarios
from playing import Played, play

from penstock.events import QuestionAnswered, QuestionAsked

if TYPE_CHECKING:
    from setups import Bench

ONLY = ("claude-acp",)
"""Targets that these tests are for."""


def answered(at: Bench, words: str | None) -> tuple[Played, list[QuestionAsked]]:
    """Let the model ask for a colour; return what came of an answer, or of nobody's."""
    questions: list[QuestionAsked] = []

    def person(question: QuestionAsked) -> str:
        questions.append(question)
        assert words is not None
        return words

    options: dict[str, Any] = {} if words is None else {"on_question": person}
    played = play(at, "scenario=choice please", allow="ask", **options)
    assert played.result.outcome == "ok"
    assert played.result.reply == "Now I know. FINAL-REPLY."
    return played, questions


@pytest.mark.parametrize("words", ["Blue", "rather green, or so"])
def test_a_choice_and_own_words_reach_the_model(at: Bench, words: str) -> None:
    """The question has the model's words and options, and the answer is in the next request to the model."""
    played, [question] = answered(at, words)
    assert question.ask == "choice"
    assert "Which colour?" in question.text
    assert [option.id for option in question.options or ()] == list(scenarios.COLOURS)
    assert words in played.conversation[-1].body
    assert played.result.refused == 0


def test_nobody_is_there(at: Bench) -> None:
    """The form is declined, the model goes on, and no answer is made up."""
    played, questions = answered(at, None)
    assert questions == []
    assert [event.by for event in played.events if isinstance(event, QuestionAnswered)] == ["nobody"]
    last = played.conversation[-1].body
    assert '"Which colour?"="' not in last.replace("\\", "")
