"""Questions of opencode's server and their answers: permissions, and the questions of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.agents._json import as_dict, as_list, canonical, text_of, text_or
from penstock.agents.opencode import changes
from penstock.core.bounded import BoundedDict
from penstock.events import AnsweredBy, Ask, Option, ToolKind
from penstock.updates import Answer, Notice, Question, Update

_ASKS: dict[str, tuple[Ask, ToolKind]] = {
    "bash": ("command", "execute"),
    "edit": ("edit", "edit"),
    "external_directory": ("outside", "other"),
    "webfetch": ("network", "fetch"),
    "websearch": ("network", "fetch"),
    "codesearch": ("network", "fetch"),
}
"""Subjects of opencode's permissions. The others are each for a tool."""

_REPLIES = {"once": "once", "all": "always"}
"""Replies of opencode by the options that allow."""

_OTHERS: dict[str, AnsweredBy] = {"once": "person", "always": "allow"}
"""Author of a reply that was not ours: another client's user, or a rule that another question created."""

REJECTED = "This was not allowed. Go on without it, or say what is needed."
"""Message to the model for a rejection without words, which would end the turn."""

MAX_CALLS = 64
"""Calls whose input is kept: more than a model makes at once."""

Fields = dict[str, Any]


class Questions:
    """Questions that wait for an answer. `may_edit`: whether files of these paths are changed without a question."""

    def __init__(self, may_edit: Callable[[Sequence[str]], bool]) -> None:
        self._may_edit = may_edit
        self._waiting: dict[str, list[Fields] | None] = {}  # None: a permission
        self._answers: dict[str, Answer] = {}  # ours, until the server confirms them
        self._inputs: BoundedDict[str, Fields] = BoundedDict(MAX_CALLS)  # of the calls that began
        self._early: list[tuple[Fields, str | None]] = []  # permissions that came before the input of their call

    def forget(self) -> None:
        """Drop the questions of a run that has ended."""
        self._waiting.clear()
        self._early.clear()

    def note_call(self, call_id: str | None, given: Fields) -> None:
        """Keep the input of a call that begins: a permission for it lacks the directory."""
        if call_id:
            self._inputs[call_id] = given

    def early(self, call_id: str | None = None) -> list[Update]:
        """Return the questions that waited for the input of a call; with None, all that wait."""
        found = [it for it in self._early if call_id is None or _call_id(it[0]) == call_id]
        self._early = [it for it in self._early if it not in found]
        return [self._asked(said, lane) for said, lane in found]

    def reply(self, answer: Answer) -> tuple[str, Fields]:
        """Return the path and the body of the request that answers a question.

        Free text rejects a permission, and the model gets the text. Several questions that were asked at once are
        answered by a line each.

        Raises:
            KeyError: no such question is waiting.
        """
        id = answer.id
        questions = self._waiting.pop(id)
        self._answers[id] = answer
        if questions is not None:
            words = answer.option or answer.text
            if words is None:
                return f"/question/{id}/reject", {}
            lines = [words] if len(questions) == 1 else words.split("\n")[: len(questions)]
            lines += [""] * (len(questions) - len(lines))
            return f"/question/{id}/reply", {"answers": [[line] if line else [] for line in lines]}
        if answer.option in _REPLIES:
            body = {"reply": _REPLIES[answer.option]}
        else:
            body = {"reply": "reject", "message": answer.text or REJECTED}
        return f"/permission/{id}/reply", body

    def permission(self, said: Fields, lane: str | None) -> tuple[Sequence[Update], bool]:
        """Translate `permission.asked`; return also whether to allow it at once.

        The permission for a command lacks the directory in which it would run, and may come shortly before the input
        of its call, which has it. Then `early` returns the question.
        """
        id, about = text_or(said.get("id"), ""), as_dict(said.get("metadata"))
        if not id:
            return (Notice("permission", _text(said, about)[0], "warning", lane),), False
        self._waiting[id] = None
        call_id = _call_id(said)
        if said.get("permission") == "bash" and call_id and call_id not in self._inputs:
            self._early.append((said, lane))
            return (), False
        asked = self._asked(said, lane)
        return (asked,), not asked.blocking

    def _asked(self, said: Fields, lane: str | None) -> Question:
        permission, about = text_or(said.get("permission"), "permission"), as_dict(said.get("metadata"))
        text, what = _text(said, about)
        call_id = _call_id(said)
        given = self._inputs.get(call_id or "", {})
        command = text_or(about.get("command"), "") if permission == "bash" else ""
        is_known = bool(command) and command == given.get("command")
        ask, tool_kind = _ASKS.get(permission, ("tool", "other"))
        return Question(
            text_of(said.get("id")),
            text,
            ask,
            _options(said),
            blocking=not (permission == "edit" and self._may_edit(_files(about))),
            free_text=True,
            call_id=call_id,
            tool_kind=tool_kind,
            title=what or None,
            lane=lane,
            changes=changes.asked(about) if permission == "edit" else None,
            command=command if is_known else None,
            command_cwd=text_or(given.get("workdir"), "") or None,
            action=canonical([command, given.get("workdir")]) if is_known else None,
        )

    def question(self, said: Fields, lane: str | None) -> Sequence[Update]:
        """Translate `question.asked`."""
        id, questions = text_or(said.get("id"), ""), [as_dict(entry) for entry in as_list(said.get("questions"))]
        text = "\n".join(text_of(question.get("question")) for question in questions)
        if not id or not questions:
            return (Notice("status", text or "a question without words", "warning", lane),)
        self._waiting[id] = questions
        labels = [text_of(as_dict(option).get("label")) for option in as_list(questions[0].get("options"))]
        options = [Option(label, label, "choice") for label in labels if label] if len(questions) == 1 else []
        ask: Ask = "choice" if options else "text"
        return (Question(id, text, ask, options or None, blocking=True, free_text=True, lane=lane),)

    def settled(self, said: Fields, lane: str | None) -> Sequence[Update]:
        """Translate `permission.replied`, `question.replied` and `question.rejected`."""
        id = text_or(said.get("requestID"), "")
        self._waiting.pop(id, None)
        if not id:
            return ()
        ours = self._answers.pop(id, None)
        if ours is not None:
            return (replace(ours, lane=lane),)
        if reply := text_or(said.get("reply"), ""):
            option = next((option for option, known in _REPLIES.items() if known == reply), None)
            return (Answer(id, _OTHERS.get(reply, "withdrawn"), option, lane=lane),)
        answers = [text_of(answer, ", ") for answer in as_list(said.get("answers"))]
        return (Answer(id, "person" if answers else "withdrawn", text="\n".join(answers) or None, lane=lane),)


def _call_id(said: Fields) -> str | None:
    return text_or(as_dict(said.get("tool")).get("callID"), "") or None


def _text(said: Fields, about: Fields) -> tuple[str, str]:
    """Return the text of a permission, and what it is for."""
    permission = text_or(said.get("permission"), "permission")
    patterns = ", ".join(text_of(pattern) for pattern in as_list(said.get("patterns")))
    what = text_or(about.get("command"), "") or text_or(about.get("filepath"), "") or patterns
    return f"{permission}: {what}" if what else permission, what


def _files(about: Fields) -> list[str]:
    """Return the paths of all files that an edit would change."""
    files = [about, *(as_dict(file) for file in as_list(about.get("files")))]
    return [
        path for file in files for key in ("filepath", "filePath", "movePath") if (path := text_or(file.get(key), ""))
    ]


def _options(said: Fields) -> list[Option]:
    patterns = ", ".join(text_of(pattern) for pattern in as_list(said.get("always")))
    always = f"Allow always: {patterns}" if patterns not in ("", "*") else "Allow always"
    return [
        Option("once", "Allow once", "allow_once"),
        Option("all", always, "allow_always", wide=True),
        Option("reject", "Reject", "reject_once"),
    ]
