"""goose: `goose run --output-format stream-json`.

Messages in pieces, with the id of the model's answer. What goose says itself comes as a message of the model too. See
`docs/agents/goose.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._edits import path_of, proposed
from penstock.agents._flags import granted, option, piped
from penstock.agents._json import (
    as_bool,
    as_dict,
    as_int,
    as_list,
    id_of,
    name_of,
    object_of,
    output_of,
    text_of,
    text_or,
    word_of,
    words_of,
)
from penstock.agents._unknown import unknown
from penstock.agents.goose.words import CREATED, EDIT_TOOLS, SKIPPED, cause_of_words, is_own_error
from penstock.core import diffs
from penstock.core.bounded import BoundedDict
from penstock.core.misfits import note
from penstock.events import Cause
from penstock.updates import (
    Failure,
    MessageEnd,
    MessageStart,
    Notice,
    Result,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
    Usage,
)

MAX_CALLS = 1024
"""Number of calls whose input is remembered until they return."""

_SHELL = "shell"
_CAUSES: dict[str, Cause] = {
    "authentication": "auth",
    "contextLengthExceeded": "context",
    "creditsExhausted": "usage_limit",
}
"""Causes by the kind of an error in a message."""
_GIVEN_UP = re.compile(r"Unable to continue: ")
"""Beginning of the notice after which a run ends as if all were well (goose 1.52.0)."""


class Message(msgspec.Struct, tag_field="type", tag="message"):
    """Piece of a message of the model or of goose itself, or results of calls (`role` user)."""

    message: Any = None


class ErrorLine(msgspec.Struct, tag_field="type", tag="error"):
    """Error after which nothing follows."""

    error: Any = None


class Complete(msgspec.Struct, tag_field="type", tag="complete"):
    """End of a run, good or bad, with the tokens of all its model calls."""

    total_tokens: Any = None
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_write_input_tokens: Any = None


class Notification(msgspec.Struct, tag_field="type", tag="notification"):
    """Report of an extension while one of its tools runs."""

    log: Any = None
    progress: Any = None


class Goose:
    """Adapter of `goose run --output-format stream-json`."""

    name: ClassVar[str] = "goose"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = Message | ErrorLine | Complete | Notification

    @staticmethod
    def command(request: Request) -> Command:
        """Return `goose run` with the prompt through stdin."""
        mode = granted(request, everything=("auto",))
        return piped(
            request,
            *("goose", "run", "--quiet", "--output-format=stream-json"),
            *option("--model", request.model),
            *option("--system", request.system_prompt),
            *request.args,
            *("--instructions", "-"),
            env={"GOOSE_MODE": mode[0]} if mode else None,
        )

    def __init__(self) -> None:
        self._message: str | None = None  # the open message
        self._model: str | None = None
        self._is_marked = False  # messages of the model have the mark `inference`
        self._is_cut = False  # the latest message ended at the limit of tokens
        self._failure: Failure | None = None  # the latest error, if no text of the model has followed
        self._inputs: BoundedDict[str, tuple[str, Any]] = BoundedDict(MAX_CALLS)

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if isinstance(event, Message):
            return list(self._read_message(as_dict(event.message)))
        if isinstance(event, Complete):
            return (self._read_complete(event),)
        if isinstance(event, ErrorLine):
            reason = text_of(event.error) or "goose gave no message"
            if self._failure is not None and self._failure.reason == reason:
                return (self._failure,)  # that of the message before
            return self._failed(reason)
        if isinstance(event, Notification):
            text = text_of(as_dict(event.log).get("message")) or text_of(as_dict(event.progress).get("message"))
            return (Notice("status", text),) if text else ()
        return (unknown(text_or(as_dict(event).get("type"), ""), event),)

    def _read_message(self, message: dict[str, Any]) -> Iterator[Update]:
        id, metadata = text_or(message.get("id"), "") or None, as_dict(message.get("metadata"))
        made_by = as_dict(metadata.get("inference"))
        is_models = message.get("role") == "assistant"
        self._is_marked = self._is_marked or bool(made_by)
        model = text_or(made_by.get("requestedModel"), "")
        if model and model != self._model:
            self._model = model
            yield RunStart(model=model)
        for part in map(as_dict, as_list(message.get("content"))):
            kind = part.get("type")
            text = words_of(part.get("text")) if kind == "text" else ""
            if kind == "text" and is_models and not made_by and (self._is_marked or is_own_error(text)):
                yield from self._own_text(text)
            elif kind == "text" and is_models:
                yield from self._begun(id)
                yield Text("text", "delta", text, message=id)
            elif kind == "thinking":
                yield from self._begun(id)
                yield Text("thinking", "delta", words_of(part.get("thinking")), message=id)
            elif kind == "toolRequest":
                yield from self._begun(id)
                yield self._read_call(part, id)
            else:
                yield from self._read_other(part, message.get("role"))
        if metadata.get("outputTokenLimitReached") is True:
            self._is_cut = True

    def _begun(self, id: str | None) -> Iterator[Update]:
        """Begin the message with this id, if it is not open. It shows that the model goes on after an error."""
        self._failure, self._is_cut = None, False
        if id != self._message:
            if self._message is not None:
                yield MessageEnd(self._message)
            self._message = id
            yield MessageStart(id)

    def _own_text(self, text: str) -> Sequence[Update]:
        """Translate text of goose itself: why it gave up, or a remark."""
        return self._failed(text.strip()) if is_own_error(text) else (Notice("status", text.strip()),)

    def _failed(self, reason: str, cause: Cause | None = None) -> Sequence[Update]:
        self._failure = Failure(reason, cause or cause_of_words(reason))
        return (Notice("error", reason, "error", cause=self._failure.cause), self._failure)

    def _read_other(self, part: dict[str, Any], role: Any) -> Sequence[Update]:
        kind = text_or(part.get("type"), "")
        if kind == "toolResponse":
            # All calls of the message have been printed: what follows answers their results.
            ended, self._message = self._message, None
            return (*((MessageEnd(ended),) if ended is not None else ()), self._read_return(part))
        if kind == "error":
            reason = text_of(part.get("message")) or "goose gave no message"
            return self._failed(reason, _CAUSES.get(text_or(part.get("kind"), "")))
        if kind == "systemNotification":
            return self._notified(text_or(part.get("notificationType"), ""), text_of(part.get("msg")))
        if kind == "redactedThinking":
            return (Notice("redacted", "thinking that the provider hides"),)
        if kind in ("image", "document"):
            return (Notice("media", text_of([part])),)
        if kind == "text" and role == "user":
            return ()  # words for the model
        kind = kind if role in ("user", "assistant") else f"{text_or(role, '')}/{kind}"
        return (Unknown(f"message/{kind}", text_of(part) or None),)

    def _notified(self, kind: str, text: str) -> Sequence[Update]:
        if kind == "creditsExhausted":
            return self._failed(text, "usage_limit")
        if found := _GIVEN_UP.match(text):
            return self._failed(text, "context" if "Context limit" in text[found.end() :] else None)
        return (Notice("compaction" if "compact" in text.lower() else "status", text),)

    def _read_call(self, part: dict[str, Any], message: str | None) -> ToolCall:
        call_id, call = id_of(part.get("id"), "a call"), as_dict(as_dict(part.get("toolCall")).get("value"))
        name, given = name_of(call.get("name")), call.get("arguments")
        changes = proposed(given) if name in EDIT_TOOLS else None
        self._inputs[call_id] = name, given
        return ToolCall(call_id, name, given, message=message, changes=changes)

    def _read_return(self, part: dict[str, Any]) -> ToolReturn:
        call_id, result = id_of(part.get("id"), "a result"), object_of(part.get("toolResult"))
        name, given = self._inputs.pop(call_id, ("", None))
        value = object_of(result.get("value"))
        text = text_of(result.get("error")) or text_of(output_of(value.get("content")))
        output = as_dict(value.get("structuredContent")) if name == _SHELL else {}
        if output:
            streams = (text_of(output.get("stdout")), text_of(output.get("stderr")))
            text = "\n".join(filter(None, streams))
        refused, exit_code = not output and SKIPPED.match(text) is not None, as_int(output.get("exit_code"))
        if value and value.get("isError") is None and name in (_SHELL, *EDIT_TOOLS):
            note("a result without isError")
        failed = as_bool(value.get("isError")) is True or word_of(result.get("status")) == "error" or refused
        failed = failed or bool(exit_code)
        changes = None
        if name == "write" and not failed:
            content = proposed(given) if CREATED.match(text) else None
            new = [msgspec.structs.replace(change, removed=0) for change in content or ()]
            changes = new or [diffs.named(path_of(given), "update")]
        return ToolReturn(call_id, text, failed, exit_code, name or None, changes=changes, refused=refused)

    def _read_complete(self, event: Complete) -> Result:
        failure = self._failure
        return Result(
            is_error=failure is not None,
            reason=failure.reason if failure is not None else None,
            cause=failure.cause if failure is not None else None,
            usage=_usage(event),
            stop_reason="max_tokens" if self._is_cut else "end_turn",
        )


def _usage(event: Complete) -> Usage | None:
    given, out = as_int(event.input_tokens), as_int(event.output_tokens)
    read, write = as_int(event.cache_read_input_tokens), as_int(event.cache_write_input_tokens)
    if not given and not out:
        return None
    cached = (read or 0) + (write or 0)
    beside = (as_int(event.total_tokens) or 0) - (given or 0) - (out or 0)
    return Usage((given or 0) + (cached if cached and beside == cached else 0), out, read, write)


def acp(request: Request) -> Command:
    """Return `goose acp`, which has no flags for model and permissions: the dialogue sets everything."""
    return Command(argv=("goose", "acp", *request.args))
