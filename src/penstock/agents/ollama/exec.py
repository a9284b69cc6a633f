"""Ollama: the NDJSON of `POST /api/chat` and `POST /api/generate` with `stream: true`.

One object a line, all of one shape; `done: true` ends a response. There is no agent behind it, so several responses may
follow each other, as a caller's tool loop made them.

Thoughts and calls come in their own fields, or between marks at the very beginning of the content, if the server does
not parse what the model writes (`penstock.agents.ollama.content`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request, as_json_text, unsupported
from penstock.agents._json import parsed, text_of, text_or
from penstock.agents.ollama.content import Content
from penstock.core.bounded import BoundedDict
from penstock.updates import (
    MessageEnd,
    ModelUsage,
    Notice,
    Result,
    RoundEnd,
    RunStart,
    Text,
    ToolCall,
    ToolReturn,
    Traits,
    Unknown,
    Update,
    Usage,
)

MAX_PENDING_CALLS = 1024
"""Number of calls whose results may still come. Without a bound a tool loop without results would let them grow."""

NS_PER_MS = 1_000_000

CHAT_URL = "http://127.0.0.1:11434/api/chat"
"""Ollama's default address. The bridge uses OLLAMA_HOST instead, if it is set."""


class Message(msgspec.Struct, gc=False):
    """`message` of /api/chat: one piece of the answer, or a whole message of another role."""

    role: str = "assistant"
    content: str = ""
    thinking: str = ""
    tool_calls: list[dict[str, Any]] = []
    tool_name: str = ""
    tool_call_id: str = ""
    images: list[Any] = []


class Chunk(msgspec.Struct, gc=False):
    """One line. `total_duration` is nanoseconds, the counts are tokens."""

    model: str = ""
    message: Message | None = None
    response: str | None = None
    thinking: str = ""
    image: str = ""
    done: bool = False
    done_reason: str = ""
    total_duration: int | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None
    status: str = ""


class Ollama:
    """Adapter of the stream of an Ollama server."""

    name: ClassVar[str] = "ollama"
    traits: ClassVar[Traits] = Traits(command_status=False, runs_tools=False)
    wire: ClassVar[Any] = Chunk

    def __init__(self) -> None:
        self._content = Content()
        self._model = ""
        self._calls = 0
        # Calls without a result: id to name, oldest first.
        self._pending: BoundedDict[str, str] = BoundedDict(MAX_PENDING_CALLS)

    @staticmethod
    def command(request: Request) -> Command:
        """Return the bridge, which posts the prompt to the server. `allow` has no effect: there are no tools.

        Raises:
            UsageError: no model is named, or a conversation is to be resumed, which the server does not keep.
        """
        if request.model is None:
            raise unsupported(
                "ollama", "choose a model", can="name one with --model; `ollama list` shows what is there"
            )
        prompt = as_json_text(request.prompt)
        message: dict[str, Any] = {"role": "user", "content": prompt}
        if request.images:
            message["images"] = [image.base64 for image in request.images]
        chat: dict[str, Any] = {"model": request.model, "messages": [message], "stream": True}
        if request.effort is not None:
            chat["think"] = request.effort
        if request.schema is not None:
            chat["format"] = request.schema.value
        argv = (sys.executable, "-P", "-m", "penstock.run.http_bridge", "post", "--host-from", "OLLAMA_HOST", CHAT_URL)
        return Command(argv=argv, stdin=msgspec.json.encode(chat))

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        if not isinstance(event, Chunk):
            return (Unknown(wire_type=type(event).__name__),)
        message = event.message
        # Fast path of the common case: one more piece of text and nothing else.
        if message is not None and self._content.where == "text" and message.content and not event.done:
            alone = not (message.thinking or message.tool_calls or message.images or event.response or event.error)
            if alone and message.role == "assistant" and event.model == self._model:
                return (Text("text", "delta", message.content, "text"),)
        updates: list[Update] = []
        if event.model and event.model != self._model:
            self._model = event.model
            updates.append(RunStart(model=event.model))
        if event.message is not None:
            self._message(event.message, updates)
        if event.response is not None or event.thinking:
            self._say(event.thinking, event.response or "", updates)
        if event.image:
            updates.append(Notice("media", "an image"))
        if event.error is not None:
            self._error(event.error, updates)
        elif event.done:
            self._done(event, updates)
        elif event.status:
            updates.append(Notice("status", event.status))
        elif not (updates or event.model):  # each line of an answer names the model
            updates.append(Unknown())
        return updates

    def finish(self) -> Sequence[Update]:
        """Return the text that was held back, if the stream has no end."""
        updates: list[Update] = []
        self._flush(updates)
        return updates

    # Each kind of text has one open block at a time; with its place named, the normalizer finds it at once.

    def _say(self, thinking: str, content: str, updates: list[Update]) -> None:
        if thinking:
            updates.append(Text("thinking", "delta", thinking, "thinking"))
        if content:
            updates.extend(Text(kind, "delta", text, kind) for kind, text in self._content.feed(content))

    def _flush(self, updates: list[Update]) -> None:
        rest = self._content.flush()
        updates.extend(Text(kind, "delta", text, kind) for kind, text in rest.pieces)
        for call in rest.calls:
            self._called(call, updates)

    def _message(self, message: Message, updates: list[Update]) -> None:
        if message.role == "tool":
            self._returned(message, updates)
        elif message.role != "assistant":
            if message.content:
                updates.append(Notice("user", message.content))
        else:
            self._say(message.thinking, message.content, updates)
            for call in message.tool_calls:
                self._called(call, updates)
        if message.images:
            count = len(message.images)
            updates.append(Notice("media", "an image" if count == 1 else f"{count} images"))

    def _called(self, call: dict[str, Any], updates: list[Update]) -> None:
        function = call.get("function")
        if not isinstance(function, dict):
            function = call
        name = text_or(function.get("name"), "tool")
        self._calls += 1
        call_id = text_or(call.get("id"), f"call_{self._calls}")
        self._pending[call_id] = name
        updates.append(ToolCall(call_id, name, _arguments(function.get("arguments"))))

    def _returned(self, message: Message, updates: list[Update]) -> None:
        call_id = message.tool_call_id
        if not call_id:
            named = (key for key, name in self._pending.items() if not message.tool_name or name == message.tool_name)
            call_id = next(named, "")
        name = self._pending.pop(call_id, None) or message.tool_name or None
        if not call_id:  # a result whose call was not seen
            self._calls += 1
            call_id = f"call_{self._calls}"
        updates.append(ToolReturn(call_id, message.content, name=name))

    def _error(self, error: Any, updates: list[Update]) -> None:
        self._flush(updates)
        updates.append(Result(is_error=True, reason=text_of(error) or None))

    def _done(self, event: Chunk, updates: list[Update]) -> None:
        self._flush(updates)
        updates.append(MessageEnd(stop_reason=event.done_reason or None))
        if event.prompt_eval_count is not None or event.eval_count is not None:
            usage = Usage(input_tokens=event.prompt_eval_count, output_tokens=event.eval_count)
            updates.append(ModelUsage(usage, model=event.model or None, whole=True))
        updates.append(RoundEnd())
        duration = event.total_duration
        updates.append(Result(duration_ms=None if duration is None else duration // NS_PER_MS))


def _arguments(value: Any) -> Any:
    """Return the arguments as an object; some models' templates leave them as JSON text."""
    return {} if value is None else parsed(value)
