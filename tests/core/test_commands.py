"""Commands that agents offer: what is kept of them, and when a list is emitted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from normalized import names, of_type, run_of, text

from penstock import updates as up
from penstock.core.normalizer import commands
from penstock.core.normalizer.commands import bounded, line_of
from penstock.events import AgentCommand, CommandsChanged, Event, RunStarted


def listed(*commands: str | AgentCommand) -> up.Commands:
    """A list of commands, by their names or as they are."""
    return up.Commands([AgentCommand(it) if isinstance(it, str) else it for it in commands])


def lists(events: list[Event]) -> list[list[AgentCommand]]:
    """The lists of a run."""
    return [event.commands for event in of_type(events, CommandsChanged)]


def test_a_list_follows_the_start() -> None:
    """A list that comes first is emitted after the run has described itself; without that, before its end."""
    events = run_of(listed("a"), listed("b"), up.RunStart("s1"), listed("c"), text("Hi."))
    assert names(events)[:3] == ["RunStarted", "CommandsChanged", "CommandsChanged"]
    assert lists(events) == [[AgentCommand("b")], [AgentCommand("c")]]
    assert names(run_of(listed("a"))) == ["CommandsChanged", "RunEnded"]


def test_a_list_replaces_the_one_before() -> None:
    """An equal list is no event, an empty one is; names without a description keep the one that is known."""
    review = AgentCommand("review", "Reviews", "branch")
    events = run_of(
        up.RunStart("s1"), listed(review, "init"), listed("review", "init"), listed("init", "review"), listed()
    )
    assert lists(events) == [[review, AgentCommand("init")], [AgentCommand("init"), review], []]


def test_no_list_is_no_event() -> None:
    """An agent that lists nothing, at the beginning, has no event."""
    assert lists(run_of(up.RunStart("s1"), listed())) == []


def test_a_list_inside_of_a_text() -> None:
    """A list that comes while a text is written is emitted at once, and ends nothing."""
    events = run_of(up.RunStart("s1"), text("One "), listed("a"), text("text."))
    assert names(events)[:6] == [
        "RunStarted",
        "MessageStarted",
        "BlockStarted",
        "Delta",
        "CommandsChanged",
        "Delta",
    ]
    assert len(of_type(events, RunStarted)) == 1


def test_a_list_is_bounded() -> None:
    """Of ten thousand commands with a megabyte of description each, some are kept, with a line each."""
    huge = "x" * 1_000_000
    [found] = lists(run_of(up.RunStart(), up.Commands([AgentCommand(f"c{n}", huge, huge) for n in range(10_000)])))
    assert [it.name for it in found] == [f"c{n}" for n in range(commands.MAX_COMMANDS)]
    assert {len(it.description) for it in found} == {commands.MAX_DESCRIPTION_CHARS}
    assert {len(it.argument) for it in found} == {commands.MAX_ARGUMENT_CHARS}


@pytest.mark.parametrize(
    "name",
    ["", "/", "../x", "//x", " x", "x ", "a\nb", "a\tb", "-x", "a\u202eb", "a\x1b[31mb", "a\x00b", "x" * 101, "\ud800"],
)
def test_a_name_is_never_changed(name: str) -> None:
    """A command whose name is no name, or would have to be changed, is left out: the agent would not know it."""
    assert bounded([AgentCommand(name)]) == []


@pytest.mark.parametrize("name", ["review", "$imagegen", "memory show", "vibe:plugin", "a/b", "prüfen", "__x", "2fa"])
def test_names_of_agents(name: str) -> None:
    """Names as agents have them stay, without the slash that some put before them; each is kept once."""
    assert bounded([AgentCommand(f"/{name}"), AgentCommand(name, "again")]) == [AgentCommand(name)]


def test_a_description_is_one_line() -> None:
    """Colours, links, changes of direction and line breaks of a description have no effect where it is shown."""
    hostile = (
        "\x1b[31mRed\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\n\n two\u202e three\u2028four \x9b1mfive\x00\ufeff"
    )
    assert line_of(hostile, 200) == "Red link two three four five"
    assert line_of("x" * 300, 10) == "x" * 9 + "…"


@given(st.text(max_size=200))
def test_every_line_can_be_shown(given: str) -> None:
    """Whatever the text, the line is short, has no control characters, and can be written as UTF-8."""
    found = line_of(given, 50)
    assert len(found) <= 50
    assert found == line_of(found, 50)
    assert not any(mark < " " or "\x7f" <= mark < "\xa0" or mark in "\u2028\u2029\u202e\u2066" for mark in found)
    found.encode()
