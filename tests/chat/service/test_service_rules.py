"""Rules of a chat: exactly the command that was seen, until the rule is removed, and never more than the level."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE, STEP

from penstock.chat.errors import Conflicting, Invalid
from penstock.events import Option, QuestionAsked
from penstock.run.allowed import rule_of
from penstock.run.stdin import StdinWriter
from penstock.updates import Question

if TYPE_CHECKING:
    from chat.service.conftest import Home
    from penstock.chat.history.frames import TurnView
    from penstock.chat.service.service import Service

COMMANDER = Path(__file__).parents[2] / "run" / "processes" / "programs" / "commander.py"


def commander(home: Home) -> None:
    """An agent that asks for each line of its prompt, by a title that says nothing about it."""
    home.configure("commander", [sys.executable, str(COMMANDER), "--resumes"], 'protocol = "acp"')


async def asked_or_over(service: Service, chat: str) -> TurnView:
    """Wait until the newest turn asks, or is over."""
    async with asyncio.timeout(PATIENCE):
        while True:
            turn = (await service.turns(chat))[0][-1]
            if turn.question is not None or turn.finalized:
                return turn
            await asyncio.sleep(STEP)


async def over(service: Service, chat: str) -> TurnView:
    """Wait until the newest turn is over."""
    async with asyncio.timeout(PATIENCE):
        while not (turn := (await service.turns(chat))[0][-1]).finalized:
            await asyncio.sleep(STEP)
        return turn


async def kept(service: Service, chat: str, count: int) -> list[str]:
    """Wait until the chat has this number of rules, and return their commands."""
    async with asyncio.timeout(PATIENCE):
        while len(rules := service.chat(chat).rules) != count:
            await asyncio.sleep(STEP)
        return [rule.command for rule in rules]


async def answers(service: Service, chat: str, prompt: str, asked: str = "") -> str:
    """Ask for commands, reject the one that is `asked` for, and return what the agent was answered at the end.

    A question that a rule answers can be seen for a moment too; one that nobody answers would never end.
    """
    turn, _ = await service.prompt(chat, prompt)
    rejected = False
    async with asyncio.timeout(PATIENCE):
        while True:
            now = next(it for it in (await service.turns(chat))[0] if it.turn == turn)
            if now.finalized:
                assert rejected == bool(asked)
                return now.message
            text = " ".join(now.question.text.split()) if now.question is not None else ""
            shown = text.endswith(f": {' '.join(asked.split())}")
            if now.question is not None and shown and asked and not rejected:
                await service.answer(chat, now.question.id, "no")
                rejected = True
            await asyncio.sleep(STEP)


@pytest.mark.slow
def test_a_rule_allows_the_command_that_was_seen(home: Home) -> None:
    """Also after a restart; each other command is asked for, and this one again once the rule is gone."""
    commander(home)

    async def first() -> str:
        async with home.service() as service:
            id = (await service.create(agent="commander")).id
            await service.prompt(id, "make a")
            turn = await asked_or_over(service, id)
            assert turn.question is not None, (turn.message, turn.reason)
            with pytest.raises(Invalid, match="only a command"):
                await service.answer(id, turn.question.id, "no", always=True)
            await service.answer(id, turn.question.id, "once", always=True, person="ana")
            assert (await over(service, id)).message == "once", "nothing of the agent's own is allowed"
            assert await kept(service, id, 1) == ["make a"]
            with pytest.raises(Conflicting):
                await service.answer(id, turn.question.id, "once", always=True)
            return id

    async def second(id: str) -> None:
        async with home.service() as service:
            assert [rule.person for rule in service.chat(id).rules] == ["ana"]
            assert await answers(service, id, "make a\nmake b", "make b") == "once no"
            for other in ("make  a", "make a; rm -rf /", "make a b", "'make a'", "MAKE a", "make a "):
                assert await answers(service, id, f"{other}\nmake a", other) == "no once"
            (rule,) = service.chat(id).rules
            changed: list[str] = []
            service.chat_list.watch(changed.append)
            assert (await service.remove_rule(id, rule.id)).rules == []
            assert changed == [id], "who watches the list sees that the rule is gone"
            await service.remove_rule(id, rule.id)
            assert await answers(service, id, "make a", "make a") == "no"

    id = asyncio.run(first())
    asyncio.run(second(id))


@pytest.mark.slow
def test_a_rule_is_below_what_is_denied(home: Home) -> None:
    """What the configuration denies is rejected, whatever a chat has allowed before."""
    commander(home)

    async def first() -> str:
        async with home.service() as service:
            id = (await service.create(agent="commander")).id
            for number, command in enumerate(("make a", "git push"), 1):
                await service.prompt(id, command)
                turn = await asked_or_over(service, id)
                assert turn.question is not None, (turn.message, turn.reason)
                await service.answer(id, turn.question.id, "once", always=True)
                await over(service, id)
                await kept(service, id, number)
            return id

    async def second(id: str) -> None:
        async with home.service() as service:
            assert await answers(service, id, "make a\ngit push") == "once no"

    id = asyncio.run(first())
    home.tables += '[[run.rules]]\ndeny = ["git push*"]\n'
    asyncio.run(second(id))


def test_a_rule_is_below_the_level() -> None:
    """At `read` the question is answered before any rule is looked at."""
    dialogue: Any = object()
    question = QuestionAsked("q", "?", True, "command", [Option("once", "Once", "allow_once")], agent="a")
    for level, by in (("read", "allow"), ("own", "rule")):
        stdin = StdinWriter(b"", dialogue, allow=level, ask=True, record=print)  # type: ignore[arg-type]
        answer = stdin.automatic_answer(question, "allow")
        assert answer is not None
        assert (answer.by, answer.option) == (by, None if level == "read" else "once")


@pytest.mark.parametrize(
    "other",
    [
        {"command": "make a "},
        {"command": ("make", "a")},
        {"command": ("make a",)},
        {"command_cwd": "/elsewhere"},
        {"action": '{"sandbox": false}'},
    ],
)
def test_a_rule_covers_all_that_is_asked_for(other: dict[str, object]) -> None:
    """The words one by one, the directory, and what else the agent asks for with the command."""
    fields = {"command": "make a", "command_cwd": None, "action": None}
    seen = rule_of(Question("1", "?", "command", **fields))  # type: ignore[arg-type]
    again = rule_of(Question("2", "!", "command", title="make b", **fields))  # type: ignore[arg-type]
    assert seen == again
    assert rule_of(Question("3", "?", "command", **(fields | other))) != seen  # type: ignore[arg-type]
    assert rule_of(Question("4", "?", "edit", **fields)) is None  # type: ignore[arg-type]
    assert rule_of(Question("5", "?", "command")) is None
