"""Questions of agents to people: the order of the options, and the meaning of an answer.

A person answers in words everywhere: a number at the terminal, a label in the chat, `allow` in a program. `resolve`
parses them to the same `Answer` for every agent, so that no adapter has to parse words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import msgspec

from penstock import updates as up
from penstock.core import tool_titles
from penstock.core.diffs import shorten
from penstock.events import (
    AnsweredBy,
    Ask,
    Change,
    Option,
    OptionKind,
    QuestionAnswered,
    QuestionAsked,
    ToolCalled,
    ToolKind,
)
from penstock.updates import Answer

SAME_COMMAND = Option("same-command", "Allow this command for the session", "allow_always")
"""Penstock's own option for a command: the same one is allowed when the agent asks for it again in this session. An
agent's own "always" may be for the whole program or tool."""

MORE = " (more than this)"
"""Words behind the label of an option that allows more than what is asked for, unless the label names it."""

_ORDER: dict[str, int] = {kind: place for place, kind in enumerate(get_args(OptionKind))}


MAX_DIFF_CHARS, MAX_DIFF_LINES, MAX_FILES = 64 * 1024, 1_500, 200
"""Maximum characters and lines of the diffs, and number of files, that an open question shows. To decide about more, a
person opens the files. Each viewer of a chat receives all of it again with each reconnection."""

MAX_COMMAND_CHARS = 64 * 1024
"""Maximum characters of the command that an open question shows: enough for a long script, and nobody reads more."""

CUT = "\n… [the rest of this command is not shown]"
"""Mark at the end of a command that is too long."""


class Proposal(NamedTuple):
    """Command or changes that the input of a call proposes. The question about the call may lack them."""

    command: str | None
    changes: list[Change] | None

    @classmethod
    def of(cls, call: ToolCalled) -> Proposal:
        """Return what a call proposes."""
        command = tool_titles.command(call.input) if call.tool_kind == "execute" else None
        if command is not None and len(command) > MAX_COMMAND_CHARS:
            command = command[:MAX_COMMAND_CHARS] + CUT
        return cls(command, call.changes)


class OpenQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """Question of the agent to a person. The fields are those of `QuestionAsked`, and those of its call."""

    id: str
    text: str
    ask: Ask
    options: list[Option] | None = None
    free_text: bool = False
    call_id: str | None = None
    tool_kind: ToolKind | None = None
    title: str | None = None
    changes: list[Change] | None = None
    """Changes that are asked for, or those that the call proposes. Long diffs are cut."""
    command: str | None = None
    """Whole command of the call, if it is more than the title."""
    more_changes: int = 0
    """Number of changes that are left out."""

    @classmethod
    def of(cls, event: QuestionAsked, call: Proposal | None = None) -> OpenQuestion:
        """Return the question of an event, with the command or the changes of the call that it is about."""
        changes = event.changes or (call.changes if call is not None else None)
        shortened, left_out = shorten(changes or (), MAX_DIFF_CHARS, MAX_DIFF_LINES, MAX_FILES)
        command = call.command if call is not None else None
        own = {name: getattr(event, name) for name in cls.__struct_fields__ if name not in ("command", "more_changes")}
        own["changes"] = shortened or None
        return cls(**own, command=command if command != event.title else None, more_changes=left_out)


AnyQuestion = QuestionAsked | OpenQuestion | up.Question
"""Question as an event, in a chat, or as an adapter reads it."""

PERMISSIONS: frozenset[Ask] = frozenset({"command", "edit", "outside", "network", "tool"})
"""Subjects that ask for a permission. The others ask for a choice, or for words."""

ASKS: dict[Ask, str] = {
    "command": "asks to run a command",
    "edit": "asks to change a file",
    "outside": "asks to leave its directory",
    "network": "asks to use the network",
    "tool": "asks to use a tool",
    "choice": "asks you to choose",
    "text": "asks",
}
"""Words for the subject of a question, for people: "AGENT asks to run a command"."""

ASK_OF: dict[ToolKind, Ask] = {
    "execute": "command",
    "edit": "edit",
    "delete": "edit",
    "move": "edit",
    "fetch": "network",
}
"""Subject of the permission for a tool of each kind; for the kinds that are not here, `tool`."""

ALLOW, REJECT = "allow", "reject"
"""Answers that every permission accepts: allow it once; reject it."""

_ONCE: tuple[OptionKind, ...] = ("allow_once",)
_ALWAYS: tuple[OptionKind, ...] = ("allow_always",)
_ALLOWED: tuple[OptionKind, ...] = ("allow_once", "allow_always")
_REJECTED: tuple[OptionKind, ...] = ("reject_once", "reject_always")

_WORDS: dict[str, tuple[OptionKind, ...]] = {
    "y": _ONCE,
    "yes": _ONCE,
    "a": _ALWAYS,
    "always": _ALWAYS,
    "n": _REJECTED,
    "no": _REJECTED,
    "refuse": _REJECTED,
    ALLOW: _ALLOWED,
    REJECT: _REJECTED,
}
"""Short words for the kinds of options. `y` never allows more than once, and `a` never more than what is asked for."""


SHORT_WORDS = {"y": "once", "a": "always", "n": "reject"}
"""Short words that a prompt offers, with their effects; so short that the prompt fits into 80 columns."""


def ordered(options: Sequence[Option] | None) -> list[Option]:
    """Sort options by kind: allow once, allow always, reject, choices. Equal kinds keep their order.

    Of several options with one id the first is kept, since an answer refers to the id.
    """
    unique: dict[str, Option] = {}
    for option in options or ():
        unique.setdefault(option.id, option)
    return sorted(unique.values(), key=lambda option: _ORDER[option.kind])


def with_same_command(question: up.Question) -> up.Question:
    """Return a question for a command with Penstock's own option, if the agent offers nothing that is as narrow.

    The agent is sent the option that allows once, so a question without one stays as it is.
    """
    options = question.options or []
    offers = any(option.kind == "allow_always" and not option.wide for option in options)
    taken = offers or any(option.id == SAME_COMMAND.id for option in options)
    if taken or not question.blocking or question.action is None or option_of(options, *_ONCE) is None:
        return question
    return msgspec.structs.replace(question, options=[SAME_COMMAND, *options])


def option_of(options: Sequence[Option] | None, *kinds: OptionKind) -> Option | None:
    """Return the first option of the first of these kinds that has one."""
    for kind in kinds:
        for option in options or ():
            if option.kind == kind:
                return option
    return None


def _option_of_word(options: Sequence[Option] | None, key: str) -> Option | None:
    return option_of([option for option in options or () if not option.wide], *_WORDS[key])


def resolve(question: AnyQuestion, words: str, *, numbered: bool = False) -> Answer | None:
    """Parse a person's words as an answer; return None if they are not an answer to this question.

    Accepted are an option's id or label, `y`, `n`, `a` and the other short words if an option has that kind, and, if
    the question takes it, free text. With `numbered`, the options were shown with numbers from 1,
    and a number is read as one of those before anything else. A short word then names no id or label, but a kind.
    """
    options = question.options or []
    word = words.strip()
    if not word:
        return None
    key = word.casefold()
    if numbered and word.isdecimal() and word.isascii() and len(word) <= 4 and 1 <= int(word) <= len(options):
        return Answer(question.id, "person", options[int(word) - 1].id)
    is_short = key in _WORDS and (question.ask in PERMISSIONS or any(option.kind != "choice" for option in options))
    named = None
    if not (numbered and is_short):
        named = next((option for option in options if option.id == words), None) or next(
            (option for option in options if key in (option.id.casefold(), option.label.strip().casefold())), None
        )
    if named is not None:
        return Answer(question.id, "person", named.id)
    if is_short:
        found = _option_of_word(options, key)
        if found is not None:
            return Answer(question.id, "person", found.id)
        return rejected(question, "person") if _WORDS[key] is _REJECTED else None
    if question.free_text and word:
        return Answer(question.id, "person", text=words)
    return None


def allowed(question: AnyQuestion) -> Answer:
    """Return the answer in a run that may do everything. It rejects if no option allows: nobody is there to choose."""
    found = option_of(question.options, *_ALLOWED)
    return Answer(question.id, "allow", found.id) if found is not None else rejected(question, "nobody")


def allowed_by_rule(question: AnyQuestion) -> Answer | None:
    """Return the answer that allows a command once. None if no option does so; then a person is asked."""
    found = option_of(question.options, *_ONCE)
    return Answer(question.id, "rule", found.id) if found is not None else None


def rejected(question: AnyQuestion, by: AnsweredBy) -> Answer:
    """Return the answer that rejects. If no option rejects, the answer names none, and the adapter has to reject."""
    found = option_of(question.options, *_REJECTED)
    return Answer(question.id, by, found.id if found is not None else None)


def label_of(option: Option) -> str:
    """Return the label of an option for people; one that allows more than what is asked for says so."""
    return option.label + MORE if option.wide and ":" not in option.label else option.label


def numbers(question: QuestionAsked) -> str:
    """Return the range of the options' numbers, as a terminal shows it: "1-4"; "" without options."""
    last = len(question.options or ())
    return f"1-{last}" if last > 1 else "1" * last


def short_words(question: QuestionAsked) -> list[str]:
    """Return the short words that answer this question: those for the kinds of its options."""
    return [key for key in SHORT_WORDS if _option_of_word(question.options, key) is not None]


def expected(question: QuestionAsked) -> str:
    """Return the input that a terminal accepts: "1-4, y, a or n"."""
    ways = [numbers(question)] if question.options else []
    ways += short_words(question)
    if question.free_text:
        ways.append("your own words")
    return " or ".join(filter(None, (", ".join(ways[:-1]), *ways[-1:])))


def answer_in_words(answer: QuestionAnswered, question: QuestionAsked | None) -> str:
    """Describe an answer for people: the option's label or the words, and the reason if no person gave it."""
    words = answer.text
    if words is None and answer.option is not None:
        labels = {option.id: option.label for option in (question.options or ())} if question is not None else {}
        words = labels.get(answer.option, answer.option)
    if answer.by == "allow" and not _allows(answer, question):
        return "rejected: it may only read"
    if words is None:
        return _UNANSWERED[answer.by]
    return f"{words} ({_WHY[answer.by]})" if answer.by in _WHY else words


def _allows(answer: QuestionAnswered, question: QuestionAsked | None) -> bool:
    """Return whether an answer allows something, as far as the question is known."""
    kinds = {option.id: option.kind for option in (question.options or ())} if question is not None else {}
    return answer.option is not None and kinds.get(answer.option, "allow_once") not in _REJECTED


_WHY: dict[AnsweredBy, str] = {
    "allow": "allowed in advance",
    "rule": "by a rule",
    "nobody": "nobody could be asked",
}
_UNANSWERED: dict[AnsweredBy, str] = {
    "person": "rejected",
    "allow": "allowed in advance",
    "rule": "rejected by a rule",
    "nobody": "rejected: nobody could be asked",
    "withdrawn": "no longer asked",
}
