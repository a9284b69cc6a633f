"""What `codex app-server` asks of its client, as questions for a person, and what is answered to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.agents._values import as_dict, as_list, compact, text_of
from penstock.agents.base import HINT_ALLOW, HINT_REFUSE
from penstock.agents.codex.items import unwrapped

MAX_SHOWN_CHARS = 4000
"""What is shown of a change that is asked about."""

ALLOW_FOR_SESSION = "allow for the session"
STOP = "stop the turn"
"""The options of an approval, besides `HINT_ALLOW` and `HINT_REFUSE`."""

RequestId = int | str


class Question(msgspec.Struct, kw_only=True):
    """One question; a request may hold several."""

    request: RequestId
    text: str
    options: dict[str, Any]
    """What may be answered, and what that is in codex's words: a result, or the list of answers to `key`."""
    allow: Any
    refuse: Any
    free: Callable[[str], Any] | None = None
    """What other text than an option means; None: no other text can be answered."""
    key: str | None = None
    """The question's own id where a request holds several."""
    lane: str | None = None

    def understood(self, text: str) -> str:
        """An answer as it is taken: what a permission has no option for refuses it."""
        return text if text in self.options or text == HINT_ALLOW or self.free is not None else HINT_REFUSE

    def meaning(self, text: str) -> Any:
        """What an answer is in codex's words."""
        if text in self.options:
            return self.options[text]
        if text in (HINT_ALLOW, HINT_REFUSE):
            return self.allow if text == HINT_ALLOW else self.refuse
        return self.free(text) if self.free is not None else self.refuse


def questions_of(request: RequestId, method: str, params: dict[str, Any], changes: Any) -> list[Question]:
    """The questions of a request, none where it is of a kind that nobody can answer.

    `changes` are those of the file change that the request is about, which it does not tell itself.
    """
    reader = _REQUESTS.get(method)
    return reader(request, params, changes) if reader is not None else []


def _approval(request: RequestId, text: str, more: dict[str, Any]) -> list[Question]:
    decisions = {HINT_ALLOW: "accept", ALLOW_FOR_SESSION: "acceptForSession", **more}
    decisions |= {HINT_REFUSE: "decline", STOP: "cancel"}
    options = {label: {"decision": decision} for label, decision in decisions.items()}
    return [
        Question(request=request, text=text, options=options, allow=options[HINT_ALLOW], refuse=options[HINT_REFUSE])
    ]


def _command(request: RequestId, params: dict[str, Any], changes: Any) -> list[Question]:
    more: dict[str, Any] = {}
    for decision in as_list(params.get("availableDecisions")):
        rule = as_dict(as_dict(decision).get("acceptWithExecpolicyAmendment")).get("execpolicy_amendment")
        if rule:
            more[f"always allow {text_of(rule, ' ')}"] = decision
    network = as_dict(params.get("networkApprovalContext"))
    asked = f"connect to {text_of(network.get('host'))}" if network else unwrapped(text_of(params.get("command")))
    return _approval(request, _lines(text_of(params.get("reason")), asked), more)


def _file_change(request: RequestId, params: dict[str, Any], changes: Any) -> list[Question]:
    shown = [text_of(params.get("reason"))]
    for change in map(as_dict, as_list(changes)):
        kind = as_dict(change.get("kind")).get("type", change.get("kind"))
        shown += [f"{text_of(kind)} {text_of(change.get('path'))}", text_of(change.get("diff")).rstrip("\n")]
    if params.get("grantRoot"):
        shown.append(f"write below {text_of(params['grantRoot'])}")
    return _approval(request, _lines(*shown) or "change files", {})


def _permissions(request: RequestId, params: dict[str, Any], changes: Any) -> list[Question]:
    asked = {key: value for key, value in as_dict(params.get("permissions")).items() if value is not None}
    words = [f"{key}: {compact(value)}" for key, value in asked.items()]
    options = {
        HINT_ALLOW: {"permissions": asked, "scope": "turn"},
        ALLOW_FOR_SESSION: {"permissions": asked, "scope": "session"},
        HINT_REFUSE: {"permissions": {}, "scope": "turn"},
    }
    text = _lines(text_of(params.get("reason")), "more permissions", *words)
    return [
        Question(request=request, text=text, options=options, allow=options[HINT_ALLOW], refuse=options[HINT_REFUSE])
    ]


def _elicitation(request: RequestId, params: dict[str, Any], changes: Any) -> list[Question]:
    refused: dict[str, Any] = {"action": "decline", "content": None, "_meta": None}
    wanted = as_dict(as_dict(params.get("requestedSchema")).get("properties"))

    def filled(text: str) -> Any:
        """The form, given as a JSON object; a form with one field also as that field's text."""
        try:
            content = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            content = None
        if not isinstance(content, dict):
            content = dict.fromkeys(wanted, text) if len(wanted) == 1 else None
        return {**refused, "action": "accept", "content": content} if content is not None else refused

    accepted: dict[str, Any] = {**refused, "action": "accept", "content": {}}
    fields = f"fields: {', '.join(map(text_of, wanted))}" if wanted else ""
    text = _lines(text_of(params.get("serverName")), text_of(params.get("message")), text_of(params.get("url")), fields)
    return [
        Question(
            request=request,
            text=text,
            options={HINT_REFUSE: refused} if wanted else {HINT_ALLOW: accepted, HINT_REFUSE: refused},
            allow=refused if wanted else accepted,
            refuse=refused,
            free=filled,
        )
    ]


def _user_input(request: RequestId, params: dict[str, Any], changes: Any) -> list[Question]:
    found = []
    for question in map(as_dict, as_list(params.get("questions"))):
        labels = [text_of(as_dict(option).get("label")) for option in as_list(question.get("options"))]
        found.append(
            Question(
                request=request,
                text=_lines(text_of(question.get("header")), text_of(question.get("question"))),
                options={label: [label] for label in labels if label},
                allow=labels[:1],
                refuse=[],
                free=lambda text: [text],
                key=text_of(question.get("id")),
            )
        )
    return found


_REQUESTS: dict[str, Callable[[RequestId, dict[str, Any], Any], list[Question]]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _file_change,
    "item/permissions/requestApproval": _permissions,
    "item/tool/requestUserInput": _user_input,
    "mcpServer/elicitation/request": _elicitation,
}


def _lines(*parts: str) -> str:
    text = "\n".join(part for part in parts if part)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"


def result_of(questions: Sequence[tuple[Question, Any]]) -> Any:
    """What a request is answered, once all of its questions are."""
    first, meaning = questions[0]
    if first.key is None:
        return meaning
    return {"answers": {question.key: {"answers": answers} for question, answers in questions}}
