"""Questions of opencode's server and their answers: permissions, and the questions of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.agents._json import as_dict, as_list, text_of, text_or
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

    def forget(self) -> None:
        """Drop the questions of a run that has ended."""
        self._waiting.clear()

    def note_call(self, call_id: str | None, given: Fields) -> None:
        """Keep the input of a call that begins: a permission for it lacks the directory."""
        if call_id:
            self._inputs[call_id] = given

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
        if answer.option in ("once", "always"):
            body = {"reply": answer.option}
        else:
            body = {"reply": "reject", "message": answer.text or REJECTED}
        return f"/permission/{id}/reply", body

    def permission(self, said: Fields, lane: str | None) -> tuple[Sequence[Update], bool]:
        """Translate `permission.asked`; return also whether to allow it at once."""
        id, permission = text_or(said.get("id"), ""), text_or(said.get("permission"), "permission")
        about = as_dict(said.get("metadata"))
        patterns = ", ".join(text_of(pattern) for pattern in as_list(said.get("patterns")))
        what = text_or(about.get("command"), "") or text_or(about.get("filepath"), "") or patterns
        text = f"{permission}: {what}" if what else permission
        if not id:
            return (Notice("permission", text, "warning", lane),), False
        self._waiting[id] = None
        granted = permission == "edit" and self._may_edit(_files(about))
        call_id = text_or(as_dict(said.get("tool")).get("callID"), "") or None
        given = self._inputs.get(call_id or "", {})
        command = text_or(about.get("command"), "") if permission == "bash" else ""
        ask, tool_kind = _ASKS.get(permission, ("tool", "other"))
        asked = Question(
            id,
            text,
            ask,
            _options(said),
            blocking=not granted,
            free_text=True,
            call_id=call_id,
            tool_kind=tool_kind,
            title=what or None,
            lane=lane,
            changes=changes.asked(about) if permission == "edit" else None,
            command=command if command and command == given.get("command") else None,
            command_cwd=text_or(given.get("workdir"), "") or None,
        )
        return (asked,), granted

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
            return (Answer(id, _OTHERS.get(reply, "withdrawn"), reply if reply in _OTHERS else None, lane=lane),)
        answers = [text_of(answer, ", ") for answer in as_list(said.get("answers"))]
        return (Answer(id, "person" if answers else "withdrawn", text="\n".join(answers) or None, lane=lane),)


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
        Option("always", always, "allow_always", wide=patterns == "*"),
        Option("reject", "Reject", "reject_once"),
    ]
