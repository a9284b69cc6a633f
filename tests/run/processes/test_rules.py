"""Rules for commands in a whole run: what they allow or deny is answered before anybody is asked."""

from __future__ import annotations

import shlex
import sys
import time
import uuid
from pathlib import Path

import pytest

from penstock import Result, agent
from penstock.core.questions import SAME_COMMAND, resolve
from penstock.events import Event, QuestionAnswered, QuestionAsked
from penstock.run.queues import EventQueue

COMMANDER = Path(__file__).parent / "programs" / "commander.py"
RULES = """
[[run.rules]]
allow = ["npm test", "pytest *"]
[[run.rules]]
deny = ["git push"]
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory; the user's configuration has rules."""
    (tmp_path / "config.toml").write_text(RULES)
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path


def run(commands: list[str], cwd: Path, **options: object) -> tuple[Result, list[Event], list[str]]:
    """Run an agent that asks for each command; return the result, its events, and what a person was asked."""
    asked: list[str] = []

    def on_question(question: QuestionAsked) -> str:
        asked.append(question.id)
        return "reject"

    name = "acp:" + shlex.join([sys.executable, "-S", str(COMMANDER)])
    given = {"on_question": on_question, **options}
    with agent(name, cwd=str(cwd)).run("\n".join(commands), **given) as going:  # type: ignore[arg-type]
        events = list(going)
    return going.result, events, asked


class Answers:
    """A person who gives one answer after the other."""

    def __init__(self, *answers: str) -> None:
        self._answers = iter(answers)

    def __call__(self, question: QuestionAsked) -> str:
        answer = resolve(question, next(self._answers), numbered=True)
        assert answer is not None
        return answer.option or ""


def test_rules_answer_before_a_person(configured: Path) -> None:
    """What is allowed is allowed once; what is denied counts as refused; a person decides about the others."""
    commands = ["npm test", "git -C x push", "pytest && npm test", "pytest $(id)", "ls"]
    result, events, asked = run(commands, configured)
    assert result.reply == "once no once no no"
    assert len(asked) == 2
    by = [event.by for event in events if isinstance(event, QuestionAnswered)]
    assert by == ["rule", "rule", "rule", "person", "person"]
    assert result.refused == 3


def test_the_rule_of_an_open_question(configured: Path) -> None:
    """A command that is asked for has a rule that would allow it; another question, and one that is over, has none."""
    rules: list[object] = []
    ids: list[str] = []

    def on_question(question: QuestionAsked) -> str:
        ids.append(question.id)
        rules.extend([going.rule_of(question.id), going.rule_of("another")])
        return "reject"

    name = "acp:" + shlex.join([sys.executable, "-S", str(COMMANDER)])
    with agent(name, cwd=str(configured)).run("ls -l", on_question=on_question) as going:
        list(going)
        rules.append(going.rule_of(ids[0]))
    assert [rule is None for rule in rules] == [False, True, True]


def test_rules_answer_where_nobody_can(configured: Path) -> None:
    """In a job without a terminal the same commands run, and nothing else."""
    result, events, _ = run(["npm test", "git push", "ls"], configured, on_question=None)
    assert result.reply == "once no no"
    assert [event.by for event in events if isinstance(event, QuestionAnswered)] == ["rule", "rule", "nobody"]


def test_what_is_denied_is_denied_at_every_level(configured: Path) -> None:
    """An agent that still asks where everything is allowed is told no by a rule."""
    result, _, asked = run(["git push", "ls"], configured, allow="all")
    assert result.reply.split()[0] == "no"
    assert asked == []


def test_nobody_is_asked_what_is_already_decided(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is faster than the answer sees a question that waits for nobody."""
    put = EventQueue.put

    def put_and_wait(queue: EventQueue, events: list[Event], size: int, *, last: bool = False) -> None:
        put(queue, events, size, last=last)
        if any(isinstance(event, QuestionAsked) for event in events):
            time.sleep(0.05)

    monkeypatch.setattr(EventQueue, "put", put_and_wait)
    result, _, asked = run(["git push", "npm test", "ls"], configured)
    assert (result.reply, asked) == ("no once no", ["q2"])


def test_a_project_can_only_deny(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that came with the files of a directory allow nothing, and take nothing back."""
    home = configured / "home" / "penstock"
    home.mkdir(parents=True)
    (configured / "config.toml").rename(home / "config.toml")
    monkeypatch.delenv("PENSTOCK_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(configured / "home"))
    (configured / "penstock.toml").write_text('[[run.rules]]\nallow = ["ls"]\ndeny = ["npm test"]\n')
    monkeypatch.chdir(configured)
    result, _, _ = run(["npm test", "ls", "pytest", "git push"], configured, on_question=None)
    assert result.reply == "no no once no"


def test_always_allows_this_command_and_no_other(configured: Path) -> None:
    """The agent's own "always" would be for the whole program: it is sent "once" each time, and any other is asked."""
    commands = ["rm -rf build", "rm -rf build", "rm -rf other", "rm -rf build -v"]
    result, events, asked = run(commands, configured, on_question=Answers("a", "n", "n"))
    assert result.reply == "once once no no"
    answers = [event for event in events if isinstance(event, QuestionAnswered)]
    assert [(it.by, it.option) for it in answers] == [
        ("person", SAME_COMMAND.id),
        ("rule", "once"),
        ("person", "no"),
        ("person", "no"),
    ]
    first = next(event for event in events if isinstance(event, QuestionAsked))
    assert [(it.id, it.wide) for it in first.options or ()] == [
        ("once", False),
        (SAME_COMMAND.id, False),
        ("always", True),
        ("no", False),
    ]
    assert (result.refused, asked) == (2, [])


def test_always_holds_for_the_session(configured: Path) -> None:
    """The next prompt of the conversation is not asked again, another conversation and another directory are."""
    one, another = str(uuid.uuid4()), str(uuid.uuid4())
    below = configured / "below"
    below.mkdir()
    run(["make"], configured, on_question=Answers("a"), env={"COMMANDER_SESSION": one})
    for cwd, session, reply in ((configured, one, "once"), (configured, another, "no"), (below, one, "no")):
        result, _, _ = run(["make"], cwd, on_question=Answers("n"), env={"COMMANDER_SESSION": session})
        assert result.reply == reply


def test_a_rule_against_a_command_is_stronger_than_always(configured: Path) -> None:
    """Also where it came later: what was allowed for the session is denied from now on."""
    session = {"COMMANDER_SESSION": str(uuid.uuid4())}
    run(["deploy"], configured, on_question=Answers("a"), env=session)
    with (configured / "config.toml").open("a") as file:
        file.write('[[run.rules]]\ndeny = ["deploy"]\n')
    result, _, _ = run(["deploy"], configured, on_question=Answers("a"), env=session)
    assert result.reply == "no"
