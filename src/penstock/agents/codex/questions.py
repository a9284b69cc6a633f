"""Requests of `codex app-server` to its client, as questions for a person, and the answers to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_list, compact, text_of
from penstock.agents.codex.changes import changes_of, kind_of
from penstock.agents.codex.items import unwrapped
from penstock.events import Ask, Change, Option, ToolKind
from penstock.updates import Answer, Question

MAX_SHOWN_CHARS = 4000
"""Characters shown of a change that needs an approval."""

RequestId = int | str


class PendingQuestion(msgspec.Struct, kw_only=True):
    """One question that codex waits for; a request may hold several."""

    request: RequestId
    text: str
    ask: Ask
    options: list[Option]
    results: dict[str, Any]
    """Meaning of each option's id for codex: a result, or the list of answers to `key`."""
    rejected: Any
    """The same for an answer that is none of the options."""
    free: Callable[[str], Any] | None = None
    """Meaning of an answer in free text; None: there is no way to send one."""
    key: str | None = None
    """The question's own id if a request holds several."""
    call_id: str | None = None
    tool_kind: ToolKind | None = None
    title: str | None = None
    lane: str | None = None
    changes: list[Change] | None = None
    command: str | None = None
    command_cwd: str | None = None

    def as_update(self, name: str) -> Question:
        """Return the question for a person, under this id."""
        return Question(
            name,
            self.text,
            self.ask,
            self.options or None,
            blocking=True,
            free_text=self.free is not None,
            call_id=self.call_id,
            tool_kind=self.tool_kind,
            title=self.title,
            lane=self.lane,
            changes=self.changes,
            command=self.command,
            command_cwd=self.command_cwd,
        )

    def result(self, answer: Answer) -> Any:
        """Return codex's form of an answer."""
        if answer.option in self.results:
            return self.results[answer.option]
        return self.free(answer.text) if self.free is not None and answer.text is not None else self.rejected


def questions_of(request: RequestId, method: str, params: dict[str, Any], changes: Any) -> list[PendingQuestion]:
    """Read the questions of a request; none if its kind cannot be answered.

    `changes` are those of the file change that the request is about; the request itself lacks them.
    """
    reader = _REQUESTS.get(method)
    return reader(request, params, changes) if reader is not None else []


def _approval(
    request: RequestId, params: dict[str, Any], text: str, ask: Ask, title: str, rules: dict[str, Any]
) -> list[PendingQuestion]:
    """Return the question for an approval. `rules`: what may always be allowed, in words, and the decision for it."""
    always = [
        Option(f"rule-{number}", f"Always allow {words}", "allow_always", wide=True)
        for number, words in enumerate(rules, 1)
    ]
    options = [
        Option("accept", "Allow once", "allow_once"),
        Option("acceptForSession", "Allow for the session", "allow_always"),
        *always,
        Option("decline", "Reject", "reject_once"),
        Option("cancel", "Reject and stop the turn", "reject_once"),
    ]
    decisions = {option.id: option.id for option in options} | {
        option.id: decision for option, decision in zip(always, rules.values(), strict=True)
    }
    results = {id: {"decision": decision} for id, decision in decisions.items()}
    return [
        PendingQuestion(
            request=request,
            text=text,
            ask=ask,
            options=options,
            results=results,
            rejected=results["decline"],
            call_id=text_of(params.get("itemId")) or None,
            tool_kind="edit" if ask == "edit" else "execute",
            title=title or None,
        )
    ]


def _command(request: RequestId, params: dict[str, Any], changes: Any) -> list[PendingQuestion]:
    rules: dict[str, Any] = {}
    for decision in as_list(params.get("availableDecisions")):
        rule = as_dict(as_dict(decision).get("acceptWithExecpolicyAmendment")).get("execpolicy_amendment")
        if rule:
            rules[text_of(rule, " ")] = decision
    network = as_dict(params.get("networkApprovalContext"))
    asked = f"connect to {text_of(network.get('host'))}" if network else unwrapped(text_of(params.get("command")))
    text = _lines(text_of(params.get("reason")), asked)
    [question] = _approval(request, params, text, "network" if network else "command", asked, rules)
    if not network and not params.get("additionalPermissions"):  # more than to run it is decided by a person
        question.command = text_of(params.get("command")) or None
        question.command_cwd = text_of(params.get("cwd")) or None
    return [question]


def _file_change(request: RequestId, params: dict[str, Any], changes: Any) -> list[PendingQuestion]:
    asked = [as_dict(change) for change in as_list(changes)]
    paths = list(filter(None, (text_of(change.get("path")) for change in asked)))
    root, made = text_of(params.get("grantRoot")), changes_of(changes)
    shown = [text_of(params.get("reason")), f"write below {root}" if root else ""]
    if not made:  # otherwise they are shown as changes, and would be told twice
        for change in asked:
            shown += [f"{kind_of(change)} {text_of(change.get('path'))}", text_of(change.get("diff")).rstrip("\n")]
    title = root or ", ".join(paths)
    text = _lines(*shown) or ", ".join(paths) or "change files"
    [question] = _approval(request, params, text, "outside" if root else "edit", title, {})
    question.changes = made
    return [question]


def _permissions(request: RequestId, params: dict[str, Any], changes: Any) -> list[PendingQuestion]:
    asked = {key: value for key, value in as_dict(params.get("permissions")).items() if value is not None}
    words = [f"{key}: {compact(value)}" for key, value in asked.items()]
    results: dict[str, Any] = {
        "turn": {"permissions": asked, "scope": "turn"},
        "session": {"permissions": asked, "scope": "session"},
        "reject": {"permissions": {}, "scope": "turn"},
    }
    return [
        PendingQuestion(
            request=request,
            text=_lines(text_of(params.get("reason")), "more permissions", *words),
            ask="network" if set(asked) == {"network"} else "outside" if "fileSystem" in asked else "tool",
            options=[
                Option("turn", "Allow for this turn", "allow_once"),
                Option("session", "Allow for the session", "allow_always"),
                Option("reject", "Reject", "reject_once"),
            ],
            results=results,
            rejected=results["reject"],
            call_id=text_of(params.get("itemId")) or None,
        )
    ]


def _elicitation(request: RequestId, params: dict[str, Any], changes: Any) -> list[PendingQuestion]:
    rejected: dict[str, Any] = {"action": "decline", "content": None, "_meta": None}
    wanted = as_dict(as_dict(params.get("requestedSchema")).get("properties"))

    def filled(text: str) -> Any:
        """Return the form, given as a JSON object; a form with one field also as that field's text."""
        try:
            content = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            content = None
        if not isinstance(content, dict):
            content = dict.fromkeys(wanted, text) if len(wanted) == 1 else None
        return {**rejected, "action": "accept", "content": content} if content is not None else rejected

    accepted: dict[str, Any] = {**rejected, "action": "accept", "content": {}}
    fields = f"fields: {', '.join(map(text_of, wanted))}" if wanted else ""
    text = _lines(text_of(params.get("serverName")), text_of(params.get("message")), text_of(params.get("url")), fields)
    accept, decline = Option("accept", "Allow once", "allow_once"), Option("decline", "Reject", "reject_once")
    return [
        PendingQuestion(
            request=request,
            text=text,
            ask="text" if wanted else "tool",
            options=[decline] if wanted else [accept, decline],
            results={"decline": rejected} if wanted else {"accept": accepted, "decline": rejected},
            rejected=rejected,
            free=filled if wanted else None,
        )
    ]


def _user_input(request: RequestId, params: dict[str, Any], changes: Any) -> list[PendingQuestion]:
    found = []
    for question in map(as_dict, as_list(params.get("questions"))):
        labels = [text_of(as_dict(option).get("label")) for option in as_list(question.get("options"))]
        found.append(
            PendingQuestion(
                request=request,
                text=_lines(text_of(question.get("header")), text_of(question.get("question"))),
                ask="choice" if any(labels) else "text",
                options=[Option(label, label, "choice") for label in labels if label],
                results={label: [label] for label in labels if label},
                rejected=[],
                free=lambda text: [text],
                key=text_of(question.get("id")),
            )
        )
    return found


_REQUESTS: dict[str, Callable[[RequestId, dict[str, Any], Any], list[PendingQuestion]]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _file_change,
    "item/permissions/requestApproval": _permissions,
    "item/tool/requestUserInput": _user_input,
    "mcpServer/elicitation/request": _elicitation,
}


def _lines(*parts: str) -> str:
    text = "\n".join(part for part in parts if part)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"


def result_of(questions: Sequence[tuple[PendingQuestion, Any]]) -> Any:
    """Return the answer to a request whose questions are all answered."""
    first, meaning = questions[0]
    if first.key is None:
        return meaning
    return {"answers": {question.key: {"answers": answers} for question, answers in questions}}
