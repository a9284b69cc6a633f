"""Levels of permission: what each agent does at each of them, with somebody who answers and with nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

if TYPE_CHECKING:
    from setups import Bench

    from penstock.adapter import Level

from playing import play

from penstock.agents.registry import AGENTS
from penstock.core.questions import ALLOW, REJECT
from penstock.errors import UsageError
from penstock.events import QuestionAnswered

Person = Literal["nobody", "rejects", "allows"]

STAYS = {"gemini-exec", "gemini-acp", "pi-exec", "pi-server"}
"""Routes that write no file elsewhere even where they may: gemini's tools see no other, and pi is confined."""


class Effects(NamedTuple):
    """What was changed."""

    file: bool = False
    """A file of the directory, by a tool for files."""
    outside: bool = False
    """A file beside the directory, by the same tool."""
    command: bool = False
    """A file of the directory, by a command."""
    harm: bool = False
    """A file beside the directory, by a command."""


class Tried(NamedTuple):
    """What came of a try."""

    effects: Effects
    asked: int
    """Questions that were answered as the person answers; by nobody, all were rejected."""
    refused: int | None


def tried(at: Bench, level: Level, person: Person) -> Tried:
    """Tell an agent to write files and to run commands, in its directory and beside it; return what came of it."""
    here, beside = at.folder, at.folder.parent
    notes, made = here / "notes.txt", here / "made.txt"
    outside, precious = beside / "outside.txt", beside / "precious.txt"
    for path in (notes, made, outside):
        path.unlink(missing_ok=True)
    precious.write_text("precious")
    answers: dict[str, Any] = (
        {} if person == "nobody" else {"on_question": lambda _question: ALLOW if person == "allows" else REJECT}
    )
    asked, refused = 0, 0
    for scenario in ("levelfiles", "levelcommands"):
        played = play(at, f"scenario={scenario} please", allow=level, **answers)
        assert played.result.outcome != "timed_out"
        answered = [event.by for event in played.events if isinstance(event, QuestionAnswered)]
        asked += sum(by in ("person", "nobody") for by in answered)
        refused += played.result.refused or 0
    effects = Effects(notes.exists(), outside.exists(), made.exists(), not precious.read_text())
    return Tried(effects, asked, refused)


@pytest.mark.parametrize("person", ["nobody", "rejects", "allows"])
@pytest.mark.parametrize("level", ["read", "ask", "edits", "all", "own"])
def test_a_level_means_what_it_says(at: Bench, level: Level, person: Person) -> None:
    """An agent does at a level what the level means; a level that it cannot keep is rejected before the start."""
    levels = AGENTS[at.target.agent].allows[at.target.route]
    if level not in levels:
        with pytest.raises(UsageError, match=r"cannot (ask|be allowed edits|be kept)"):
            play(at, "scenario=levelfiles please", allow=level)
        return
    effects, asked, refused = tried(at, level, person)
    kind = levels[level].kind
    if kind == "all":
        assert effects.file
        assert effects.command
        assert effects.outside or str(at.target) in STAYS
    elif kind == "reads" or (level == "ask" and person != "allows"):
        assert effects == Effects()
    elif level == "ask":
        assert effects.file
        assert effects.command or str(at.target) == "codex-acp"  # its sandbox rejects it, without a question
        assert asked >= sum(effects)
    elif level == "edits":
        assert effects.file or at.target.agent == "codex"  # its sandbox writes nothing below /tmp on some machines
        if person != "allows":
            assert not effects.outside
            assert not effects.harm
            assert not effects.command or at.target.agent == "codex"  # in its own sandbox
    if asked and person != "allows":
        assert refused
