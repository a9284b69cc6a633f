"""Requests of Claude Code for a permission or a choice, as questions for a person, and the answers to them."""

from __future__ import annotations

import posixpath
from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_list, canonical, compact, text_of, text_or
from penstock.agents._stream_json_edits import proposed
from penstock.core import tool_titles
from penstock.core.questions import ASK_OF
from penstock.events import Ask, Option
from penstock.updates import Answer, Question

MAX_SHOWN_CHARS = 4000
"""Characters shown of a call that needs a permission."""
MAX_RULE_CHARS = 80
"""Characters shown of one rule for what is always allowed: it is part of the label of an option."""

CHOICE_TOOL = "AskUserQuestion"
"""Tool by which the model asks the user. Its answers are a part of its input."""

SHELL_TOOL = "Bash"
"""Tool whose command is a line for a shell of POSIX."""

REJECTED = "This was not allowed. Go on without it, or say what is needed."
"""Message to the model for a rejection without words."""

_OUTSIDE = "workingDir"
"""Kind of reason for a call that leaves the working directory."""
_NO_REASON = frozenset({"", "other"})
"""Kinds of reasons that every call has which needs a permission."""
_WHOLE = ("command", "plan")
"""Fields of an input that are shown whole: a permission is given for all of it."""

Fields = dict[str, Any]


class PendingRequest(msgspec.Struct, kw_only=True):
    """One `can_use_tool` request that waits for its answer."""

    id: str
    tool: str
    input: Any
    """Input of the call, as it came: it is sent back."""
    suggestions: list[Fields]
    """Rules that would allow such calls from now on."""
    call_id: str | None
    questions: list[Question]
    keys: list[str] | None = None
    """Texts of the questions of `AskUserQuestion`, by which it expects the answers; None: it is a permission."""
    answers: dict[str, Answer] = {}
    """Answers so far, by the id of the question."""

    @property
    def is_answered(self) -> bool:
        """True if all of its questions are closed."""
        return len(self.answers) == len(self.questions)

    def response(self) -> Fields:
        """Return the answer in the form that Claude Code expects."""
        given = [self.answers[question.id] for question in self.questions]
        if self.keys is not None:
            words = {key: answer.option or answer.text for key, answer in zip(self.keys, given, strict=True)}
            chosen = {key: text for key, text in words.items() if text is not None}
            return self._allowed({**as_dict(self.input), "answers": chosen}) if chosen else denied(None)
        [answer] = given
        if answer.option == "once":
            return self._allowed(self.input)
        if answer.option == "all" and self.suggestions:
            # A suggestion may name the user's or the project's settings, which a run must not write.
            rules = [{**rule, "destination": "session"} for rule in self.suggestions]
            return {**self._allowed(self.input), "updatedPermissions": rules}
        return denied(answer.text)

    def _allowed(self, input: Any) -> Fields:
        return {"behavior": "allow", "updatedInput": input}


def denied(message: str | None) -> Fields:
    """Return the answer that rejects a call, with a message to the model."""
    return {"behavior": "deny", "message": message or REJECTED}


def request_of(id: str, request: Fields, lane: str | None, cwd: str | None = None) -> PendingRequest:
    """Read a `can_use_tool` request of a run in a working directory, if it is known."""
    name, given = text_or(request.get("tool_name"), "tool"), request.get("input")
    pending = PendingRequest(
        id=id,
        tool=name,
        input={} if given is None else given,
        suggestions=[rule for rule in as_list(request.get("permission_suggestions")) if isinstance(rule, dict)],
        call_id=text_or(request.get("tool_use_id"), "") or None,
        questions=[],
    )
    choices = list(map(as_dict, as_list(as_dict(given).get("questions")))) if name == CHOICE_TOOL else []
    if choices:
        pending.keys = [text_of(choice.get("question")) for choice in choices]
        names = [id] if len(choices) == 1 else [f"{id}.{number}" for number in range(len(choices))]
        pending.questions = [
            _choice(question, choice, pending.call_id, lane) for question, choice in zip(names, choices, strict=True)
        ]
    else:
        pending.questions = [_permission(pending, name, request, lane, cwd)]
    return pending


def leaves_directory(request: Fields, cwd: str | None) -> bool:
    """Return whether a call leaves the working directory. The path that is named may be one in it."""
    blocked = request.get("blocked_path")
    if isinstance(blocked, str) and blocked:
        inside = cwd is not None and posixpath.isabs(cwd) and _is_below(blocked, cwd)
        return not inside
    return bool(blocked) or text_of(request.get("decision_reason_type")) == _OUTSIDE


def _is_below(path: str, directory: str) -> bool:
    """Compare paths as they are written: here nothing reads the file system, so links are not followed."""
    path, directory = posixpath.normpath(posixpath.join(directory, path)), posixpath.normpath(directory)
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _choice(id: str, choice: Fields, call_id: str | None, lane: str | None) -> Question:
    options = []
    for option in map(as_dict, as_list(choice.get("options"))):
        label, about = text_of(option.get("label")), text_of(option.get("description"))
        if label:
            options.append(Option(label, f"{label}: {about}" if about else label, "choice"))
    text = "\n".join(filter(None, (text_of(choice.get("header")), text_of(choice.get("question")))))
    ask: Ask = "choice" if options else "text"
    return Question(id, text, ask, options or None, blocking=True, free_text=True, call_id=call_id, lane=lane)


def _permission(pending: PendingRequest, name: str, request: Fields, lane: str | None, cwd: str | None) -> Question:
    kind, title = tool_titles.tool_kind(name), tool_titles.title(name, pending.input)
    reason_kind = text_of(request.get("decision_reason_type"))
    ask = "outside" if leaves_directory(request, cwd) else ASK_OF.get(kind, "tool")
    return Question(
        pending.id,
        _text(name, ask, pending.input, title, "" if reason_kind in _NO_REASON else request.get("decision_reason")),
        ask,
        _options(pending.suggestions, _command(name, pending.input)),
        blocking=True,
        free_text=True,
        call_id=pending.call_id,
        tool_kind=kind,
        title=title or None,
        lane=lane,
        changes=proposed(name, pending.input),
        command=_command(name, pending.input),
        action=_action(name, pending.input),
    )


def _command(tool: str, given: Any) -> str | None:
    return text_or(as_dict(given).get("command"), "") or None if tool == SHELL_TOOL else None


def _action(tool: str, given: Any) -> str | None:
    """Return what a permission for a command covers: the whole input, which may ask to leave a sandbox."""
    if _command(tool, given) is None:
        return None
    return canonical({key: value for key, value in as_dict(given).items() if key != "description"})


def _text(name: str, ask: Ask, given: Any, title: str, reason: Any) -> str:
    fields = as_dict(given)
    whole = next((text for key in _WHOLE if (text := text_or(fields.get(key), ""))), title or compact(given))
    text = "\n".join(filter(None, (f"{name}: {whole}" if ask == "tool" else whole, text_of(reason))))
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"


def _options(suggestions: list[Fields], command: str | None) -> list[Option]:
    """Return the options of a permission.

    A suggested rule often allows more than this command (`npm test:*`). One that does not is left out, since Penstock
    has an option of its own for it.
    """
    is_more = bool(suggestions) and not all(_is_for(rule, command) for rule in suggestions)
    return [
        Option("once", "Allow once", "allow_once"),
        *([Option("all", _for_the_session(suggestions), "allow_always", wide=True)] if is_more else []),
        Option("reject", "Reject", "reject_once"),
    ]


def _is_for(suggestion: Fields, command: str | None) -> bool:
    """Return whether a suggestion allows this command and nothing else."""
    exact = {"toolName": SHELL_TOOL, "ruleContent": command}
    rules = as_list(suggestion.get("rules"))
    return (
        suggestion.get("type") == "addRules" and command is not None and bool(rules) and rules == [exact] * len(rules)
    )


def _for_the_session(suggestions: list[Fields]) -> str:
    rules = ", ".join(words for rule in suggestions for words in _words(rule))
    return f"Allow for the session: {rules}" if rules else "Allow for the session"


def _words(rule: Fields) -> list[str]:
    """Describe what a suggestion would allow."""
    if rule.get("mode") == "acceptEdits":
        return ["all edits"]
    if rule.get("mode"):
        return [f"mode {text_of(rule['mode'])}"]
    words = [f"in {text_of(folder)}" for folder in as_list(rule.get("directories"))]
    for each in map(as_dict, as_list(rule.get("rules"))):
        tool, about = text_of(each.get("toolName")), text_of(each.get("ruleContent"))
        words.append(f"{tool}({about})" if about else tool)
    return [" ".join(each.split())[:MAX_RULE_CHARS] for each in words]
