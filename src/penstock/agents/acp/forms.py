"""Forms of an ACP agent (`elicitation/create`): each field is a question for a person.

The answers fill the form, and are sent together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from penstock.agents._json import as_dict, as_list, text_of, text_or
from penstock.core.decoding import well_formed
from penstock.events import Option
from penstock.updates import Answer, Question

MAX_FIELDS = 20
"""Fields of a form: a person answers one after the other. A longer form is declined."""
MAX_OPTIONS = 100
"""Options of a field."""
MAX_TEXT_CHARS = 4000
"""Characters shown of the text of a question."""
MAX_LABEL_CHARS = 400
"""Characters shown of one option."""

DECLINED: dict[str, Any] = {"action": "decline"}
CANCELLED: dict[str, Any] = {"action": "cancel"}

MAX_NUMBER_CHARS = 64
"""Characters of a number."""

Kind = Literal["string", "number", "integer", "boolean", "array"]
_OWN_WORDS = "_custom"
"""End of the name of a field for words of one's own, beside the field for a choice that it is named after."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    name: str
    kind: Kind
    options: dict[str, str] = {}
    """Labels of the values that can be chosen; empty if the field takes any value of its kind."""
    text: str
    is_required: bool = False
    own_words: str | None = None
    """Name of the field for words of one's own, if the form has one for this choice."""
    minimum: float = -math.inf
    maximum: float = math.inf

    def values(self, answer: Answer) -> dict[str, Any]:
        """Return the values that an answer gives to fields of the form; none if it rejects the question.

        Raises:
            ValueError: the answer is not a value of this field.
        """
        words = answer.option if answer.option is not None else well_formed(answer.text or "").strip()
        if answer.option is None and not words:
            return {}
        if self.kind == "array":
            return self._several(words)
        if self.options:
            if (value := self._chosen(words)) is not None:
                return {self.name: value == "yes" if self.kind == "boolean" else value}
            if self.own_words is not None and answer.option is None:
                return {self.own_words: words}
            raise ValueError("none of its options")
        if self.kind in ("number", "integer"):
            return {self.name: self._number(words)}
        return {self.name: words}

    def _chosen(self, words: str) -> str | None:
        """Return the value that words name: itself, or by its label."""
        if words in self.options:
            return words
        key = words.casefold()
        return next(
            (value for value, label in self.options.items() if key in (value.casefold(), label.casefold())), None
        )

    def _several(self, words: str) -> dict[str, Any]:
        """Return the values that words name, separated by commas. One value may have a comma itself."""
        whole = self._chosen(words)
        if whole is not None:
            return {self.name: [whole]}
        named = {part: self._chosen(part) for part in dict.fromkeys(map(str.strip, words.split(","))) if part}
        values = [value for value in named.values() if value is not None]
        others = ", ".join(part for part, value in named.items() if value is None)
        if others and self.own_words is None:
            raise ValueError("none of its options")
        own = {self.own_words: others} if self.own_words is not None and others else {}
        return {**({self.name: list(dict.fromkeys(values))} if values else {}), **own}

    def _number(self, words: str) -> int | float:
        number: int | float
        try:
            number = int(words[:MAX_NUMBER_CHARS]) if self.kind == "integer" else float(words)
        except ValueError:
            raise ValueError("no number" if self.kind == "number" else "no whole number") from None
        if len(words) > MAX_NUMBER_CHARS or not math.isfinite(number) or not self.minimum <= number <= self.maximum:
            raise ValueError("a number out of its bounds")
        return number

    def as_question(self, id: str, head: str, call_id: str | None) -> Question:
        """Return the question for a person. `head` is the text of the form, before that of the field."""
        several = "Several may be chosen: separate them with commas." if self.kind == "array" else ""
        text = "\n".join(filter(None, (head, self.text, several)))
        return Question(
            id,
            text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS] + "…",
            "choice" if self.options else "text",
            [Option(value, label, "choice") for value, label in self.options.items()] or None,
            blocking=True,
            free_text=not self.options or self.own_words is not None or self.kind == "array",
            call_id=call_id,
        )


class PendingForm(msgspec.Struct, kw_only=True):
    """Form that the agent waits for."""

    id: Any
    """Id of the agent's request."""
    fields: dict[str, Field]
    """Fields by the ids of their questions."""
    questions: list[Question]
    call_id: str | None = None
    values: dict[str, Any] = {}
    answered: set[str] = msgspec.field(default_factory=set)

    @property
    def open(self) -> list[str]:
        """Ids of the questions that wait for an answer."""
        return [id for id in self.fields if id not in self.answered]

    def take(self, answer: Answer) -> tuple[dict[str, Any] | None, str | None]:
        """Apply an answer; return the result of the request if the form is done, and why it is declined, if it is.

        A form is declined if a field that it needs is not answered, or an answer is not a value of its field.
        """
        field = self.fields[answer.id]
        self.answered.add(answer.id)
        try:
            found = field.values(answer)
        except ValueError as error:
            return DECLINED, f"the form was declined: the answer for {field.name} is {error}"
        if not found and field.is_required:
            return DECLINED, None
        self.values = {**self.values, **found}
        if self.open:
            return None, None
        return ({"action": "accept", "content": self.values} if self.values else DECLINED), None


def read_form(id: Any, name: str, params: dict[str, Any]) -> PendingForm | None:
    """Read a request for a form; None if it cannot be shown: another mode, no field or too many, an unknown kind.

    `name` is the beginning of the ids of its questions.
    """
    schema = as_dict(params.get("requestedSchema"))
    found = _fields(schema) if params.get("mode", "form") == "form" else None
    if not found:
        return None
    call_id = text_or(params.get("toolCallId"), "") or None
    names = [name] if len(found) == 1 else [f"{name}.{number}" for number in range(len(found))]
    texts = (params.get("message"), schema.get("title"), schema.get("description"))
    head = "\n".join(dict.fromkeys(text for each in texts if (text := text_of(each))))
    questions = [
        field.as_question(one, head if number == 0 else "", call_id)
        for number, (one, field) in enumerate(zip(names, found, strict=True))
    ]
    return PendingForm(id=id, fields=dict(zip(names, found, strict=True)), questions=questions, call_id=call_id)


def _fields(schema: dict[str, Any]) -> list[Field] | None:
    properties = as_dict(schema.get("properties"))
    required = as_list(schema.get("required"))
    if len(properties) > 2 * MAX_FIELDS:
        return None
    found: list[Field] = []
    for name, given in properties.items():
        if (
            found
            and name == found[-1].name + _OWN_WORDS
            and found[-1].options
            and _is_free(given)
            and name not in required
        ):
            found[-1] = msgspec.structs.replace(found[-1], own_words=name)
            continue
        field = _field(name, as_dict(given), is_required=name in required)
        if field is None:
            return None
        found.append(field)
    return found if len(found) <= MAX_FIELDS else None


def _is_free(given: Any) -> bool:
    fields = as_dict(given)
    return fields.get("type") == "string" and not any(key in fields for key in ("oneOf", "enum"))


def _field(name: str, given: dict[str, Any], *, is_required: bool) -> Field | None:
    """Read one field; None if no answer in words could fill it."""
    kind, options = given.get("type"), _options(given)
    if kind not in ("string", "number", "integer", "boolean", "array") or options is None:
        return None
    if kind == "boolean":
        options = {"yes": "Yes", "no": "No"}
    if kind == "array" and not options:
        return None
    texts = [text_of(given.get(key)) for key in ("title", "description")]
    return Field(
        name=name,
        kind=kind,
        options=options if kind in ("string", "boolean", "array") else {},
        text="\n".join(filter(None, texts)) or name,
        is_required=is_required,
        minimum=_bound(given.get("minimum"), -math.inf),
        maximum=_bound(given.get("maximum"), math.inf),
    )


def _bound(value: Any, default: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else default


def _options(given: dict[str, Any]) -> dict[str, str] | None:
    """Return the labels of the values that can be chosen; None if there are too many or one of them is no text."""
    items = as_dict(given.get("items")) if given.get("type") == "array" else given
    titled: Sequence[Any] = as_list(items.get("oneOf")) or as_list(items.get("anyOf"))
    plain = as_list(items.get("enum"))
    named = [*(as_dict(one) for one in titled), *({"const": value} for value in plain if not titled)]
    if len(named) > MAX_OPTIONS:
        return None
    found: dict[str, str] = {}
    for one in named:
        value = one.get("const")
        if not isinstance(value, str) or not value:
            return None
        label, about = text_or(one.get("title"), value), text_of(one.get("description"))
        found.setdefault(value, (f"{label}: {about}" if about else label)[:MAX_LABEL_CHARS])
    return found
