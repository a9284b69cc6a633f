"""Real Claude Code asks before it acts, on its route `server`: what each answer does to the project and to the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import scenarios
from playing import Played, kill_agent, play

from penstock.core.questions import SAME_COMMAND
from penstock.events import QuestionAnswered, QuestionAsked

if TYPE_CHECKING:
    from pathlib import Path

    from setups import Bench

    from penstock.events import Event
    from penstock.run.run import Run

ONLY = ("claude-server", "ccs-server")
"""Targets that these tests are for."""
END = "All done: `notes.txt` has two lines. FINAL-REPLY."
"""Last words of the scenario `tools`, whatever the answers were."""


def asked(at: Bench, scenario: str, act: Callable[[Run, QuestionAsked], None]) -> tuple[Played, list[QuestionAsked]]:
    """Play a scenario with the agent's default permissions; `act` gets each question."""
    questions: list[QuestionAsked] = []

    def heed(run: Run, event: Event) -> None:
        if isinstance(event, QuestionAsked) and run.awaits(event.id):
            questions.append(event)
            act(run, event)

    return play(at, f"scenario={scenario} please", allow="default", ask=True, heed=heed), questions


@pytest.fixture
def notes(at: Bench) -> Path:
    """Path of the file that the model writes, which does not exist yet."""
    path: Path = at.folder / "notes.txt"
    path.unlink(missing_ok=True)
    return path


def test_it_is_asked_before_it_writes(at: Bench, notes: Path) -> None:
    """The question has the whole new file, which is written only after the answer."""
    before: list[bool] = []

    def act(run: Run, question: QuestionAsked) -> None:
        before.append(notes.exists())
        run.answer(question.id, "allow")

    played, [question] = asked(at, "tools", act)
    assert before == [False]
    assert notes.read_text("utf-8") == scenarios.NOTES
    assert question.ask == "edit"
    assert question.changes is not None
    added = "".join(f"+{line}\n" for line in scenarios.NOTES.splitlines())
    assert question.changes[0].diff == f"@@ -0,0 +1,2 @@\n{added}"
    assert (played.result.outcome, played.result.reply, played.result.refused) == ("ok", END, 0)


@pytest.mark.parametrize("words", ["reject", "use another name"])
def test_a_rejected_file_is_not_written(at: Bench, notes: Path, words: str) -> None:
    """The model gets the words and goes on; the run counts one refused action."""
    played, _ = asked(at, "tools", lambda run, question: run.answer(question.id, words))
    assert not notes.exists()
    assert (played.result.outcome, played.result.reply, played.result.refused) == ("ok", END, 1)
    assert [returned.refused for returned in played.returned] == [False, True]
    if words != "reject":
        assert played.returned[-1].text == words


def test_nobody_who_answers_rejects(at: Bench, notes: Path) -> None:
    """Without anybody to ask the file is not written, and the count says so."""
    played = play(at, "scenario=tools please", allow="default")
    assert not notes.exists()
    assert (played.result.outcome, played.result.refused) == ("ok", 1)


def test_always_writes_nothing_into_the_project(at: Bench) -> None:
    """It asks once for two equal commands, and leaves no settings behind."""
    _, questions = asked(at, "twice", lambda run, question: run.answer(question.id, SAME_COMMAND.id))
    assert [question.text for question in questions] == [scenarios.MAKE]
    assert [path.name for path in at.folder.iterdir()] == ["made.txt"]
    (at.folder / "made.txt").unlink()


def test_a_question_of_the_model(at: Bench) -> None:
    """It is a choice, and the model gets the chosen label."""
    played, [question] = asked(at, "choice", lambda run, question: run.answer(question.id, "Blue"))
    assert question.ask == "choice"
    assert [option.id for option in question.options or ()] == list(scenarios.COLOURS)
    assert '"Which colour?"="Blue"' in played.returned[-1].text
    assert (played.result.outcome, played.result.refused) == ("ok", 0)


def test_a_cancel_at_a_question(at: Bench, notes: Path) -> None:
    """The question is withdrawn, nothing is written, and nothing counts as refused."""
    played, _ = asked(at, "tools", lambda run, _: run.cancel())
    assert not notes.exists()
    assert (played.result.outcome, played.result.refused) == ("cancelled", 0)
    assert [event.by for event in played.events if isinstance(event, QuestionAnswered)] == ["withdrawn"]


@pytest.mark.parametrize("kill", [lambda run: run.kill(), lambda run: kill_agent(run.mark)], ids=["run", "agent"])
def test_killed_while_a_question_waits(at: Bench, notes: Path, kill: Callable[[Run], None]) -> None:
    """No process is left, which `play` asserts, and no file."""
    played, _ = asked(at, "tools", lambda run, _: kill(run))
    assert played.result.outcome in ("cancelled", "cut_off", "error")
    assert not notes.exists()
