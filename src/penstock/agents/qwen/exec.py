"""Qwen Code: `qwen -p … --output-format stream-json [--include-partial-messages]`.

It has Claude Code's shapes with two differences. Each change of block kind makes a whole line under a new message id,
so ids identify nothing: a whole line belongs to the message that is open. And the model's text ends with `[API Error:
…]` if a call failed, which older versions then report as a success.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._causes import cause_of_sdk
from penstock.agents._exit_status import split_status
from penstock.agents._flags import each, granted, limits, option, path_of, piped
from penstock.agents._json import as_bool, as_dict
from penstock.agents._stream_json import ClaudeLike
from penstock.agents._stream_json_wire import (
    ApiMessage,
    Assistant,
    BlockDelta,
    BlockStop,
    MessageStop,
    ResultLine,
    StreamEvent,
    System,
    TextDelta,
)
from penstock.agents.qwen.result_frame import FRAME_END, FRAME_START
from penstock.events import Cause
from penstock.updates import MessageEnd, MessageStart, ModelUsage, Notice, Result, Text, ToolCall, Traits, Update

# The remark of qwen 0.15.10 on a failed call; after a 429 it ends with advice.
_API_ERROR = re.compile(
    r"\[API Error: (?:(?P<status>\d{3}) )?.*\]"
    r"(?:\n(?:Possible quota limitations in place|Please wait and try again later)[^\n]*)?\s*\Z",
    re.DOTALL,
)
_REMARK = "[API Error: "
_EXIT_LINE = re.compile(FRAME_END)
_OUTPUT = re.compile(FRAME_START)
_TURN_LIMIT = 53
"""Exit status of qwen 0.15.10 at the limit of `--max-session-turns`. It then prints no result."""
_QUOTA = "Qwen OAuth quota exceeded:"
"""Beginning of the remark of qwen 0.15.10 instead, if the free quota of an account is used up."""


class Qwen(ClaudeLike):
    """Dialect in which messages end with `message_stop`; without partial messages, with the tool results."""

    name: ClassVar[str] = "qwen"
    traits: ClassVar[Traits] = Traits(block_ends=True, finals=True, command_status=False)
    cached_inside: ClassVar[bool] = True
    is_resumed: bool = False
    """True if the run continues a session. The usage of its result is then that of all runs of the session, and the sum
    of its model calls is the run's."""

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command `qwen --output-format=stream-json`, with the prompt through stdin, which needs no flag."""
        output = ("--output-format=stream-json", "--include-partial-messages")
        made = piped(
            request,
            "qwen",
            *output,
            *_options(request),
            *limits(request, {"max_turns": "--max-session-turns"}),
            *option("--mcp-config", path_of(request.mcp_config)),
            *option("--json-schema", path_of(request.schema, "@")),
            *option("--resume", request.session_id),
            *request.args,
        )
        return msgspec.structs.replace(made, turn_limit_status=_TURN_LIMIT)

    def __init__(self) -> None:
        super().__init__()
        self._remark: str | None = None
        """Piece of text that is a remark of the program on a failed call, unless more text follows it."""
        self._is_streamed = False
        """The main agent's message has a start on the wire, and so an end."""
        self._waiting: tuple[Update, ...] = ()
        """End of a text and of its message: the next line may take both back. A message with calls does not wait."""

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one line into updates."""
        api = event.event if type(event) is StreamEvent else None
        is_top = type(event) is StreamEvent and event.parent_tool_use_id is None
        if is_top and not self._waiting and type(api) is BlockDelta and type(api.delta) is TextDelta:
            text = api.delta.text
            if self._remark is None and not text.startswith(_REMARK):  # fast path: nearly all lines
                return (Text("text", "delta", text, api.index),)
            return self._piece(event, text)
        held = self._waiting
        updates = super().read(event)
        if self._remark is not None and type(api) is not BlockStop:
            updates = (*self._left(), *updates)  # no whole line has the text that the remark ends
        if not held or not updates or not self._waiting:
            return updates
        self._waiting = self._waiting[len(held) :]
        return (*held, *updates)

    def finish(self) -> Sequence[Update]:
        """Return the remark that is left, and what waited for another line."""
        held, self._waiting = self._waiting, ()
        return (*self._left(), *held)

    def _left(self) -> Sequence[Update]:
        held, self._remark = self._remark, None
        return (_noticed(held),) if held is not None else ()

    def _api(self, api: Any, lane: str | None) -> Iterator[Update]:
        for update in super()._api(api, lane):
            if lane is None and isinstance(update, MessageStart):
                self._is_streamed = True
            yield update

    def _message_stop(self, api: MessageStop, lane: str | None) -> Iterator[Update]:
        ends = super()._message_stop(api, lane)
        if lane is None and self._waiting:
            self._waiting += tuple(ends)
        else:
            yield from ends
        self._is_streamed = self._is_streamed and lane is not None

    def _assistant(self, event: Assistant) -> Iterator[Update]:
        updates = tuple(super()._assistant(event))
        is_final = self._is_streamed and event.parent_tool_use_id is None
        if is_final and not any(isinstance(update, ToolCall) for update in updates):
            self._waiting += updates
        else:
            yield from updates

    def _piece(self, event: StreamEvent, text: str) -> Sequence[Update]:
        """Hold a piece that is a remark, and return it as text if more text follows."""
        held, self._remark = self._remark, None
        if text.startswith(_REMARK) and _API_ERROR.fullmatch(text) is not None:
            self._remark = text
            return self._held(event, held)
        return (*self._held(event, held), *super().read(event)) if held is not None else super().read(event)

    def _held(self, event: StreamEvent, held: str | None) -> Sequence[Update]:
        place = event.event.index if isinstance(event.event, BlockDelta) else None
        return (Text("text", "delta", held, place),) if held is not None else ()

    def _whole(self, block: dict[str, Any], key: str | None, lane: str | None) -> Iterator[Update]:
        text, held = block.get("text"), self._remark
        if lane is None and block.get("type") == "text" and held is not None:
            self._remark = None
            if isinstance(text, str) and text.endswith(held):
                block = {**block, "text": text.removesuffix(held)}
                yield _noticed(held)
                if not block["text"]:
                    return
        yield from super()._whole(block, key, lane)

    def _output(self, text: str, failed: bool) -> tuple[str, int | None]:
        end = _EXIT_LINE.search(text)
        framed = _OUTPUT.fullmatch(text[: end.start()]) if end is not None else None
        if end is None or framed is None or not (failed or framed[1] == ""):  # a command may print such lines itself
            return split_status(text, _EXIT_LINE) if failed else (text, None)
        signal = f"Signal: {end['signal']}" if end["signal"] else ""
        return framed[1] or signal, int(end[1])

    def _key(self, message: ApiMessage) -> str | None:
        return None

    def _system(self, event: System) -> Iterator[Update]:
        if event.subtype != "retry":
            yield from super()._system(event)
            return
        data = as_dict(event.data)
        if as_bool(data.get("preserveText")) is False:  # else the text goes on in the same message
            held, self._waiting = self._waiting, ()
            for update in held:
                if isinstance(update, ModelUsage):  # the attempt was paid for
                    yield msgspec.structs.replace(update, whole=True)
                elif isinstance(update, Notice):
                    yield update
            yield MessageEnd(status="superseded", lane=None)
            what = "text and its calls so far, which were not run," if data.get("discardedToolCalls") else "text so far"
            yield Notice("retry", f"the agent takes back its {what} and asks the model again")

    def _result(self, event: ResultLine) -> Iterator[Update]:
        for update in super()._result(event):
            if isinstance(update, Result):
                update = _failed(update, event.result)
                if self.is_resumed:
                    update = msgspec.structs.replace(update, usage=None)
            yield update


def _failed(result: Result, said: Any) -> Result:
    """Return the result as an error if the model's text is, or ends with, the program's remark on a failed call."""
    said = result.reason if result.is_error else said  # a newer version has the remark as the reason
    if not isinstance(said, str):
        return result
    if said.startswith(_QUOTA):
        return msgspec.structs.replace(result, reply=None, is_error=True, reason=said.strip(), cause="usage_limit")
    found = _API_ERROR.search(said)
    if found is None:
        return result
    cause = _cause_of(found[0])
    return msgspec.structs.replace(result, reply=None, is_error=True, reason=found[0].strip(), cause=cause)


def _noticed(remark: str) -> Notice:
    return Notice("error", remark.strip(), "error", cause=_cause_of(remark))


def _cause_of(remark: str) -> Cause | None:
    """Return the cause of a failed call, by the program's remark on it."""
    return cause_of_sdk(remark.removeprefix(_REMARK))


def acp(request: Request) -> Command:
    """Return the command `qwen --acp`; the dialogue sets the session."""
    return Command(argv=("qwen", "--acp", *_options(request), *request.args))


def _options(request: Request) -> tuple[str, ...]:
    default = ("--approval-mode=default",)  # its own is another one, and `auto-edit` writes anywhere
    allow = granted(request, read=default, ask=default, edits=default, everything=("--approval-mode=yolo",))
    return (
        *option("--model", request.model),
        *allow,
        *option("--append-system-prompt", request.system_prompt),
        *each("--allowed-tools", request.allow_tools),
        *each("--exclude-tools", request.deny_tools),
    )
