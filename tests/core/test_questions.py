"""What a person's words mean as an answer, and what nobody's silence means."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import updates as up
from penstock.core.questions import (
    SAME_COMMAND,
    OpenQuestion,
    Proposal,
    allowed,
    allowed_by_rule,
    answer_in_words,
    expected,
    label_of,
    ordered,
    rejected,
    resolve,
    short_words,
    with_same_command,
)
from penstock.events import Ask, Option, OptionKind, QuestionAnswered, QuestionAsked, ToolCalled, ToolKind

LABELS = st.sampled_from(["Allow", "allow", "No", "y", "1", "2", "Always allow ls", "", "é"])
OPTIONS = st.builds(
    Option,
    id=st.sampled_from(["a", "b", "1", "y", "no", "allow"]),
    label=LABELS,
    kind=st.sampled_from(get_args(OptionKind)),
)
QUESTIONS = st.builds(
    QuestionAsked,
    id=st.just("q"),
    text=st.just("?"),
    blocking=st.just(True),
    ask=st.sampled_from(get_args(Ask)),
    options=st.lists(OPTIONS, max_size=5).map(lambda options: ordered(options) or None),
    free_text=st.booleans(),
    agent=st.just("x"),
)


def question(*kinds: OptionKind, ask: Ask = "command", free_text: bool = False) -> QuestionAsked:
    """A question with an option of each kind, whose id is the kind."""
    options = ordered([Option(kind, kind.replace("_", " "), kind) for kind in kinds])
    return QuestionAsked("q", "?", True, ask, options, free_text, agent="x")


def test_one_order_for_all_agents() -> None:
    """Once before always, both before the rejections; equal kinds as they came; an id counts once."""
    given = [
        Option("never", "Never", "reject_always"),
        Option("2", "Always", "allow_always"),
        Option("no", "No", "reject_once"),
        Option("1", "Once", "allow_once"),
        Option("3", "Always here", "allow_always"),
        Option("1", "Again", "allow_always"),
    ]
    assert [option.id for option in ordered(given)] == ["1", "2", "3", "no", "never"]
    assert ordered(None) == []


@pytest.mark.parametrize(
    ("kinds", "words", "option"),
    [
        (["allow_once", "allow_always", "reject_once"], "y", "allow_once"),
        (["allow_once", "allow_always", "reject_once"], " YES\n", "allow_once"),
        (["allow_once", "allow_always", "reject_once"], "a", "allow_always"),
        (["allow_once", "allow_always", "reject_once"], "n", "reject_once"),
        (["allow_once", "reject_always"], "n", "reject_always"),
        (["allow_once", "allow_always"], "Allow Always", "allow_always"),
        (["allow_always", "reject_once"], "allow", "allow_always"),
    ],
)
def test_short_words(kinds: list[OptionKind], words: str, option: str) -> None:
    """By the kinds of the options that there are."""
    answer = resolve(question(*kinds), words)
    assert answer is not None
    assert (answer.by, answer.option) == ("person", option)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (["allow_always", "reject_once"], "y"),  # it would allow more than this once
        (["allow_once", "reject_once"], "a"),
        (["allow_once", "reject_once"], ""),
        (["allow_once", "reject_once"], "0"),
        (["allow_once", "reject_once"], "3"),
        (["allow_once", "reject_once"], "²"),
        (["allow_once", "reject_once"], "perhaps"),
        (["choice", "choice"], "y"),
    ],
)
def test_what_is_no_answer(kinds: list[OptionKind], words: str) -> None:
    """It is asked again, and grants nothing."""
    assert resolve(question(*kinds, ask="choice" if "choice" in kinds else "command"), words, numbered=True) is None


def test_a_short_word_never_allows_more_than_what_is_asked_for() -> None:
    """An option that allows all edits has its number and its label, and no letter."""
    kinds = [Option("once", "Once", "allow_once"), Option("all", "All edits", "allow_always", wide=True)]
    edits = QuestionAsked("q", "?", True, "edit", [*kinds, Option("no", "No", "reject_once")], agent="x")
    assert (expected(edits), short_words(edits)) == ("1-3, y or n", ["y", "n"])
    assert [resolve(edits, words, numbered=True) for words in ("a", "always")] == [None, None]
    chosen = [resolve(edits, words, numbered=True) for words in ("2", "all edits", "all")]
    assert [answer and answer.option for answer in chosen] == ["all"] * 3
    both = QuestionAsked("q", "?", True, "command", [*kinds, Option("it", "This", "allow_always")], agent="x")
    answer = resolve(both, "a", numbered=True)
    assert answer is not None
    assert answer.option == "it"


def test_a_rejection_needs_no_option() -> None:
    """Where an agent offers none, the adapter finds its own way."""
    assert resolve(question("allow_once"), "n") == rejected(question("allow_once"), "person")
    assert rejected(question("allow_once"), "nobody").option is None


def test_a_rule_allows_this_once() -> None:
    """It takes no option that would allow more; without one a person is asked."""
    answer = allowed_by_rule(question("allow_always", "allow_once", "reject_once"))
    assert answer is not None
    assert (answer.by, answer.option) == ("rule", "allow_once")
    assert allowed_by_rule(question("allow_always", "reject_once")) is None


def test_numbers_are_read_first_where_they_were_shown() -> None:
    """An option that is called 2 and stands first is chosen by 1 at the terminal, by 2 in a program."""
    asked = QuestionAsked("q", "?", True, "choice", [Option("2", "2", "choice"), Option("x", "1", "choice")], agent="x")
    at_the_terminal, in_a_program = resolve(asked, "1", numbered=True), resolve(asked, "2")
    assert at_the_terminal is not None
    assert in_a_program is not None
    assert at_the_terminal.option == in_a_program.option == "2"


@given(
    QUESTIONS, st.text(max_size=8) | st.sampled_from(["y", "a", "n", "1", "2", "allow", "reject", "no"]), st.booleans()
)
def test_an_answer_is_one_that_was_offered(asked: QuestionAsked, words: str, numbered: bool) -> None:
    """Whatever is typed: one of the options, own words only if the question takes them, never `always` by y."""
    options = {option.id: option for option in asked.options or ()}
    answer = resolve(asked, words, numbered=numbered)
    if answer is not None:
        assert answer.option is None or answer.option in options
        assert answer.text is None or (asked.free_text and answer.text == words)
    if not words.strip():
        assert answer is None
    if words == "y" and answer is not None and answer.option is not None:
        chosen = options[answer.option]
        assert chosen.kind == "allow_once" or "y" in (chosen.id.casefold(), chosen.label.casefold())
    for id in options:
        again = resolve(asked, id)
        assert again is not None
        assert again.option == id


@given(QUESTIONS)
def test_what_nobody_answers(asked: QuestionAsked) -> None:
    """A run that may do everything chooses nothing for a person; a rejection never names an option that allows."""
    kinds = {option.id: option.kind for option in asked.options or ()}
    assert kinds.get(allowed(asked).option or "", "reject_once") != "choice"
    assert kinds.get(rejected(asked, "nobody").option or "", "reject_once").startswith("reject")
    assert not expected(asked).startswith(" or ")


def test_answers_in_words() -> None:
    """The label, and why, if no person gave the answer."""
    asked = question("allow_once", "reject_once")
    words = [
        answer_in_words(QuestionAnswered("q", "person", "allow_once", agent="x"), asked),
        answer_in_words(QuestionAnswered("q", "allow", "allow_once", agent="x"), asked),
        answer_in_words(QuestionAnswered("q", "allow", "reject_once", agent="x"), asked),
        answer_in_words(QuestionAnswered("q", "allow", agent="x"), None),
        answer_in_words(QuestionAnswered("q", "nobody", "reject_once", agent="x"), asked),
        answer_in_words(QuestionAnswered("q", "withdrawn", agent="x"), asked),
        answer_in_words(QuestionAnswered("q", "person", text="use ls", agent="x"), asked),
        answer_in_words(QuestionAnswered("q", "person", "unknown", agent="x"), None),
    ]
    assert words == [
        "allow once",
        "allow once (allowed in advance)",
        "rejected: it may only read",
        "rejected: it may only read",
        "reject once (nobody could be asked)",
        "no longer asked",
        "use ls",
        "unknown",
    ]


def test_an_open_question_has_the_fields_of_its_event() -> None:
    """The question of a chat has what its event has, but for the marks of the stream."""
    asked = question("allow_once", "reject_once", ask="edit", free_text=True)
    assert OpenQuestion.of(asked) == OpenQuestion("q", "?", "edit", asked.options, free_text=True)


@pytest.mark.parametrize(
    ("kind", "input", "command"),
    [
        ("execute", {"command": "a\nb"}, "a\nb"),
        ("execute", {"command": ["bash", "-lc", "ls"]}, "bash -lc ls"),
        ("execute", {"command": "x" * 70_000}, "x" * 65_536 + "…"),
        ("execute", {"command": "\ud800"}, "\ufffd"),
        ("execute", {"other": 1, "command": " "}, None),
        ("execute", "ls", None),
        ("edit", {"command": "ls"}, None),
    ],
)
def test_the_command_of_a_proposal(kind: ToolKind, input: object, command: str | None) -> None:
    """A call that runs a command proposes all of its lines, bounded and well formed."""
    call = ToolCalled(agent="a", call_id="c", name="t", input=input, title="", tool_kind=kind)
    found = Proposal.of(call).command
    assert found == command or (found is not None and command is not None and len(command) > 60_000)


# --- this command for the session ------------------------------------------------------------------------

WIDE = Option("always", "Always", "allow_always", wide=True)
ONCE, NEVER = Option("once", "Once", "allow_once"), Option("no", "No", "reject_once")


@pytest.mark.parametrize(
    ("options", "action", "letter"),
    [
        ([WIDE, ONCE, NEVER], "make", SAME_COMMAND.id),
        ([WIDE, ONCE, NEVER], None, None),
        ([ONCE, NEVER], "make", SAME_COMMAND.id),
        ([WIDE, NEVER], "make", None),  # the agent cannot be sent "once"
        ([Option("here", "This command", "allow_always"), ONCE], "make", "here"),
        ([msgspec.structs.replace(WIDE, id=SAME_COMMAND.id), ONCE], "make", None),
        ([], "make", None),
    ],
)
def test_always_is_for_this_command(options: list[Option], action: str | None, letter: str | None) -> None:
    """An option of the agent that is for more has no letter; Penstock's own has it, if the command is known."""
    asked = up.Question("q", "?", "command", options, blocking=True, action=action)
    shown = with_same_command(asked)
    answer = resolve(shown, "a", numbered=True)
    assert (answer and answer.option) == letter
    assert [option for option in shown.options or () if option is not SAME_COMMAND] == options


def test_always_at_the_terminal_is_no_id() -> None:
    """An agent may call its option for a whole program `always`; nobody sees that id."""
    asked = with_same_command(up.Question("q", "?", "command", [WIDE, ONCE, NEVER], blocking=True, action="make"))
    assert resolve(asked, "always", numbered=True) == up.Answer("q", "person", SAME_COMMAND.id)
    assert resolve(asked, "always") == up.Answer("q", "person", "always")
    edit = up.Question("q", "?", "edit", [WIDE, ONCE, NEVER], blocking=True)
    assert resolve(edit, "always", numbered=True) is None


def test_a_wide_option_says_that_it_allows_more() -> None:
    """Unless its label names what: two options for the session are told apart."""
    wide = Option("2", "Allow for this session", "allow_always", wide=True)
    assert label_of(wide) == "Allow for this session (more than this)"
    assert label_of(msgspec.structs.replace(wide, wide=False)) == "Allow for this session"
    assert label_of(msgspec.structs.replace(wide, label="Allow always: ls *")) == "Allow always: ls *"
