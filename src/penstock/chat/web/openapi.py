"""OpenAPI 3.1 document of the gateway's routes, made from the table of routes and the structs themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, get_args

import msgspec

from penstock._version import __version__
from penstock.chat.history.frames import Frame
from penstock.chat.service.chats.chat_view import ChatView
from penstock.chat.service.chats.search import MAX_QUERY_CHARS
from penstock.chat.store.costs import MAX_DAYS, CostGroup
from penstock.chat.web.doors.bodies import AgUiProblem, CompletionProblem
from penstock.chat.web.errors import AGUI_PATH, MEDIA_TYPE, Problem
from penstock.chat.web.routes import ADDRESSES, Address
from penstock.chat.web.schemas import MAX_PAGE_CHATS

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
BINARY = {"type": "string", "format": "binary"}

PARAMETERS: dict[str, tuple[str, dict[str, Any]]] = {
    "browser": ("The id of the browser", TEXT),
    "chat": ("The id of the chat", TEXT),
    "attachment": ("The id of the attachment", TEXT),
    "id": ("The id of the attachment", TEXT),
    "name": ("Name of the file, for people", TEXT),
    "share": ("The id of the share", TEXT),
    "rule": ("The id of the rule", TEXT),
    "run": ("The id of the document or loop", TEXT),
    "node": ("The name of the node", TEXT),
    "turn": ("The number of the turn", {**INTEGER, "minimum": 1}),
    "step": ("The number of the step", {**INTEGER, "minimum": 1}),
    "round": ("The number of the round", {**INTEGER, "minimum": 1}),
    "candidate": ("The number of the candidate", {**INTEGER, "minimum": 1}),
    "before": ("Only turns before this one; by default the last", {**INTEGER, "minimum": 1}),
    "limit": ("Maximum number", {**INTEGER, "minimum": 1, "maximum": 200, "default": 50}),
    "format": ("ndjson: the events, one a line", {**TEXT, "enum": ["json", "ndjson"], "default": "json"}),
    "form": ("Form of the file", {**TEXT, "enum": ["markdown", "html"], "default": "markdown"}),
    "details": ("1: with what the agents did", {**TEXT, "enum": ["0", "1"], "default": "0"}),
    "cwd": ("Directory in which the agent works", TEXT),
    "path": ("Path of a file, absolute or in the directory of the chat", TEXT),
    "line": ("Number of a line that is shown with those around it", {**INTEGER, "minimum": 0, "default": 0}),
    "q": ("Words to search for, all of which a turn or title must have", {**TEXT, "maxLength": MAX_QUERY_CHARS}),
    "by": ("What the turns of one sum have in common", {**TEXT, "enum": [*get_args(CostGroup)], "default": "day"}),
    "days": ("Number of days, today included", {**INTEGER, "minimum": 1, "maximum": MAX_DAYS, "default": 30}),
    "cursor": ("`next` of the page before", TEXT),
    "page": ("Number of chats of a page; by default all", {**INTEGER, "minimum": 1, "maximum": MAX_PAGE_CHATS}),
    "with": ("The id of a chat that the first page has too", TEXT),
    "after": ("The number of the last frame that was seen; Last-Event-ID takes precedence", TEXT),
    "chats": ("Names with commas: `list`, a chat, or `runs/` and a document or loop; `:` and a number to return", TEXT),
    "times": ("1: each `id` has the time of its entry, by which a restore of the store is noticed", TEXT),
    "at": ("Times of these numbers, with commas, as frames have them: after a restore, others have the numbers", TEXT),
    "redo": ("1: to make the changes again", {**TEXT, "enum": ["0", "1"], "default": "0"}),
    "delta": ("1: `assistant` frames have `delta` and `offset`", {**TEXT, "enum": ["0", "1"], "default": "0"}),
    "Last-Event-ID": ("The number of the last frame that was seen", TEXT),
    "agent": ("The name of the agent", TEXT),
    "foreign": ("The id of the chat at the program that asks", TEXT),
    "sdk": ("The major version of the AI SDK; from 6 on, permissions are asked for as approvals", INTEGER),
    "detail": ("full: thinking and the titles of calls, as reasoning", {**TEXT, "enum": ["final", "full"]}),
    "X-Penstock-Chat": ("The client's own id of the chat", TEXT),
    "X-Penstock-Share": ("The code of the share, which is in the fragment of its link", TEXT),
    "X-Penstock-Cwd": ("A trusted directory for a new chat; by default the first root", TEXT),
    "Idempotency-Key": ("A repeated prompt with this key is the same turn", {**TEXT, "pattern": "^[!-~]{1,200}$"}),
}

ALWAYS = (401, 403, 421, 431, 500, 503)
"""Statuses of problems that every route has; routes with a body have more."""
WITH_BODY = (400, 408, 413, 415)


IN_EACH_FRAME = ("turn", "completed_at")
"""Fields that are optional in a turn's events and always present in its frames."""


def document() -> bytes:
    """Return the document as JSON."""
    found = [kind for address in ADDRESSES for kind in (address.body, *_kinds(address))]
    types = {str(kind): kind for kind in (Problem, CompletionProblem, AgUiProblem, *found)}
    types.pop("None")
    schemas, components = msgspec.json.schema_components(types.values(), ref_template="#/components/schemas/{name}")
    by_type = dict(zip(types, schemas, strict=True))
    for frame in get_args(Frame):
        schema = components[frame.__name__]
        schema["required"] += [
            name for name in IN_EACH_FRAME if name in schema["properties"].keys() - schema["required"]
        ]
    view = components[ChatView.__name__]
    view["required"] = [*view["properties"]]  # what equals a default is not left out
    for facts in view["properties"].values():
        facts.pop("default", None)
    paths: dict[str, dict[str, Any]] = {}
    for address in ADDRESSES:
        paths.setdefault(address.path, {})[address.method.lower()] = _operation(address, by_type)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Penstock", "version": __version__, "summary": "Chats with coding agents"},
            "paths": paths,
            "security": [{"token": []}, {"cookie": []}],
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer"},
                    "cookie": {"type": "apiKey", "in": "cookie", "name": "penstock_PORT"},
                },
            },
        }
    )


def _operation(address: Address, schemas: dict[str, Any]) -> dict[str, Any]:
    names = [(name, "path") for name in re.findall(r"{(\w+)}", address.path)]
    names += [(name, "query") for name in address.query] + [(name, "header") for name in address.headers]
    made: dict[str, Any] = {
        "operationId": address.does,
        "summary": address.summary,
        "parameters": [_parameter(name, place) for name, place in names],
        "responses": _responses(address, schemas),
    }
    if address.public:
        made["security"] = []
    if address.body is not None:
        made["requestBody"] = {"required": True, "content": _content("application/json", schemas[str(address.body)])}
    if address.takes:
        made["requestBody"] = {"required": True, "content": _content(address.takes, BINARY)}
    return {key: value for key, value in made.items() if value != [] or key == "security"}


def _parameter(name: str, place: str) -> dict[str, Any]:
    description, schema = PARAMETERS[name]
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": schema}


def _responses(address: Address, schemas: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(address.status).phrase}
    if address.answers is bytes:
        answer["content"] = _content(address.media, BINARY)
    elif address.answers is not None:
        answer["content"] = _content(address.media, _schema(address, schemas))
    responses = {str(address.status): answer}
    if address.does == "prompt":
        responses["200"] = {**answer, "description": "The turn that was submitted with this key before"}
    problem = {"content": _content(MEDIA_TYPE, schemas[str(Problem)])}
    if address.path.startswith("/v1/"):
        problem = {"content": _content("application/json", schemas[str(CompletionProblem)])}
    elif AGUI_PATH.match(address.path):
        problem = {"content": _content("application/json", schemas[str(AgUiProblem)])}
    for status in sorted({*ALWAYS, *(WITH_BODY if address.body or address.takes else ()), *address.problems}):
        responses[str(status)] = {"description": HTTPStatus(status).phrase, **problem}
    return responses


def _kinds(address: Address) -> Sequence[Any]:
    """Return the types of the response that have schemas: one, or each kind of frame."""
    answers = address.answers
    return (
        get_args(answers) or [answers]
        if address.media == "text/event-stream"
        else [*answers.values()]
        if isinstance(answers, dict)
        else [answers]
    )


def _schema(address: Address, schemas: dict[str, Any]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [schemas[str(kind)] for kind in _kinds(address)]
    if len(found) > 1:
        return {"anyOf": found, "description": "`data` of an event"}
    if not isinstance(address.answers, dict):
        return found[0]
    [name] = address.answers
    return {"type": "object", "required": [name], "properties": {name: found[0]}}


def _content(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {media: {"schema": schema}}
