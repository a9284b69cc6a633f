"""Qwen Code: `qwen -p … --output-format stream-json [--include-partial-messages]`.

It has Claude Code's shapes with two differences. Each change of block kind makes a whole line under a new message id,
so ids identify nothing: a whole line belongs to the message that is open. And the model's text ends with `[API Error:
…]` if a call failed, which older versions then report as a success.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._flags import granted, option, piped
from penstock.agents._stream_json import ApiMessage, ClaudeLike, ResultLine
from penstock.updates import Result, Update

_API_ERROR = re.compile(r"\[API Error: .*\]\s*\Z", re.DOTALL)


class Qwen(ClaudeLike):
    """Dialect in which messages end with `message_stop`; without partial messages, with the tool results."""

    name: ClassVar[str] = "qwen"
    cached_inside: ClassVar[bool] = True

    @staticmethod
    def command(request: Request) -> Command:
        """Return the command `qwen --output-format=stream-json`, with the prompt through stdin, which needs no flag."""
        output = ("--output-format=stream-json", "--include-partial-messages")
        return piped(
            request, "qwen", *output, *_options(request), *option("--resume", request.session_id), *request.args
        )

    def _key(self, message: ApiMessage) -> str | None:
        return None

    def _result(self, event: ResultLine) -> Iterator[Update]:
        for update in super()._result(event):
            found = _API_ERROR.search(event.result) if isinstance(event.result, str) else None
            if found is not None and isinstance(update, Result) and not update.is_error:
                update = msgspec.structs.replace(update, reply=None, is_error=True, reason=found[0].strip())
            yield update


def acp(request: Request) -> Command:
    """Return the command `qwen --acp`; the dialogue sets the session."""
    return Command(argv=("qwen", "--acp", *_options(request), *request.args))


def _options(request: Request) -> tuple[str, ...]:
    allow = granted(request, edits=("--approval-mode=auto-edit",), everything=("--approval-mode=yolo",))
    return (*option("--model", request.model), *allow)
