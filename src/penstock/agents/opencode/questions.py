"""What opencode's server asks, and how it is answered: permissions, and the questions of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.agents._values import as_dict, as_list, text_of, text_or
from penstock.agents.base import HINT_ALLOW, HINT_REFUSE
from penstock.updates import Hint, HintAnswer, Notice, Update

REPLIES = ["once", "always", "reject"]
REFUSED = "This was not allowed. Go on without it, or say what is needed."
"""What the model is told: a refusal without a word ends the turn."""

Fields = dict[str, Any]


class Questions:
    """The questions that wait for an answer. `edits`: those about changes to files are answered with yes at once."""

    def __init__(self, edits: bool) -> None:
        self._edits = edits
        self._waiting: dict[str, list[Fields] | None] = {}  # None: a permission

    def forget(self) -> None:
        """Nobody will answer any more."""
        self._waiting.clear()

    def reply(self, id: str, text: str) -> tuple[str, Fields]:
        """The path and the body of the request that answers `id`.

        A permission: `once`, `always`, `reject`, or other words to refuse with. Several questions that were asked
        at once are answered by a line each.

        Raises:
            KeyError: no such question is waiting.
        """
        questions = self._waiting.pop(id)
        if questions is not None:
            if text in (HINT_ALLOW, HINT_REFUSE):  # it is no permission that is asked for
                return f"/question/{id}/reject", {}
            lines = [text] if len(questions) == 1 else text.split("\n")[: len(questions)]
            lines += [""] * (len(questions) - len(lines))
            return f"/question/{id}/reply", {"answers": [[line] if line else [] for line in lines]}
        if text in (HINT_ALLOW, "once", "always"):
            body = {"reply": "always" if text == "always" else "once"}
        else:
            body = {"reply": "reject", "message": REFUSED if text in (HINT_REFUSE, "reject", "") else text}
        return f"/permission/{id}/reply", body

    def permission(self, said: Fields, lane: str | None) -> tuple[Sequence[Update], bool]:
        """What `permission.asked` means, and whether it is to be allowed at once."""
        id, permission = text_or(said.get("id"), ""), text_or(said.get("permission"), "permission")
        about = as_dict(said.get("metadata"))
        patterns = ", ".join(text_of(pattern) for pattern in as_list(said.get("patterns")))
        what = text_or(about.get("command"), "") or text_or(about.get("filepath"), "") or patterns
        text = f"{permission}: {what}" if what else permission
        if not id:
            return (Notice("permission", text, "warning", lane),), False
        self._waiting[id] = None
        granted = self._edits and permission == "edit"
        return (Hint(id, text, list(REPLIES), not granted, lane),), granted

    def question(self, said: Fields, lane: str | None) -> Sequence[Update]:
        """What `question.asked` means."""
        id, questions = text_or(said.get("id"), ""), [as_dict(entry) for entry in as_list(said.get("questions"))]
        text = "\n".join(text_of(question.get("question")) for question in questions)
        if not id or not questions:
            return (Notice("status", text or "a question without words", "warning", lane),)
        self._waiting[id] = questions
        labels = [text_of(as_dict(option).get("label")) for option in as_list(questions[0].get("options"))]
        return (Hint(id, text, labels if len(questions) == 1 and labels else None, True, lane),)

    def settled(self, said: Fields, lane: str | None) -> Sequence[Update]:
        """What `permission.replied`, `question.replied` and `question.rejected` mean."""
        id = text_or(said.get("requestID"), "")
        self._waiting.pop(id, None)
        answers = [text_of(answer, ", ") for answer in as_list(said.get("answers"))]
        text = text_or(said.get("reply"), "") or "\n".join(answers) or "reject"
        return (HintAnswer(id, text, lane),) if id else ()
