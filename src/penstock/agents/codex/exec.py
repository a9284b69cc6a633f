"""codex: `codex exec --json`.

Text comes in whole items and nothing is printed while the model writes. Each `agent_message` and each `reasoning` item
is a message of its own; see `docs/agents/codex.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from penstock.adapter import Command, Request
from penstock.agents._flags import each, granted, option, path_of, piped
from penstock.agents._json import as_dict, inner_message, text_of, text_or
from penstock.agents._unknown import unknown
from penstock.agents.codex.errors import cause_of, retry
from penstock.agents.codex.items import Item as Item
from penstock.agents.codex.items import failure, read_item, usage_of
from penstock.agents.codex.items import unwrapped as unwrapped
from penstock.agents.codex.messages import Phases
from penstock.updates import MessageEnd, Notice, Result, RunStart, Traits, Update


class ThreadStarted(msgspec.Struct, tag_field="type", tag="thread.started"):
    """First line: the id of the conversation."""

    thread_id: str | None = None


class TurnStarted(msgspec.Struct, tag_field="type", tag="turn.started"):
    """Acceptance of the prompt."""


class ItemStarted(msgspec.Struct, tag_field="type", tag="item.started"):
    """Start of an item."""

    item: Item = msgspec.field(default_factory=Item)


class ItemUpdated(msgspec.Struct, tag_field="type", tag="item.updated"):
    """Change of an item, with the whole item."""

    item: Item = msgspec.field(default_factory=Item)


class ItemCompleted(msgspec.Struct, tag_field="type", tag="item.completed"):
    """End of an item, well or not."""

    item: Item = msgspec.field(default_factory=Item)


class TurnCompleted(msgspec.Struct, tag_field="type", tag="turn.completed"):
    """Regular end; `usage` sums over the turn's model calls."""

    usage: Any = None


class TurnFailed(msgspec.Struct, tag_field="type", tag="turn.failed"):
    """End after an error."""

    error: Any = None


class StreamError(msgspec.Struct, tag_field="type", tag="error"):
    """Error that is not the end; retries are reported this way too."""

    message: Any = None


class Codex:
    """Adapter of `codex exec --json`."""

    name: ClassVar[str] = "codex"
    traits: ClassVar[Traits] = Traits()
    wire: ClassVar[Any] = (
        ThreadStarted
        | TurnStarted
        | ItemStarted
        | ItemUpdated
        | ItemCompleted
        | TurnCompleted
        | TurnFailed
        | StreamError
    )

    is_resumed: bool = False
    """True if the run continues a session. Its usage is then that of all runs of the session, and is left out."""

    @staticmethod
    def command(request: Request) -> Command:
        """Return `codex exec … -`, with the prompt through stdin. The sandbox is read-only by default."""
        session: tuple[str, ...] = ()
        if request.session_id is not None:
            session = ("fork" if request.fork else "resume", request.session_id)
        return piped(
            request,
            "codex",
            "exec",
            "--json",
            "--skip-git-repo-check",
            *option("--model", request.model),
            *granted(
                request,
                read=("--sandbox=read-only",),
                edits=("--sandbox=workspace-write",),
                everything=("--dangerously-bypass-approvals-and-sandbox",),
            ),
            *each("--config", _settings(request)),
            *option("--output-schema", path_of(request.schema)),
            *each("--image", (image.path for image in request.images)),
            *request.args,
            *session,  # after the flags: `resume` and `fork` do not accept all of them
            "-",
        )

    def __init__(self) -> None:
        self._phases = Phases()

    def read(self, event: Any) -> Sequence[Update]:
        """Translate one wire event into updates."""
        if isinstance(event, ItemCompleted):
            return (*read_item(event.item, "item.completed"), *self._phases.end(event.item))
        if isinstance(event, ItemStarted):
            self._phases.begin(event.item)
            return read_item(event.item, "item.started")
        if isinstance(event, ItemUpdated):
            return read_item(event.item, "item.updated")
        if isinstance(event, StreamError):
            return _read_error(text_of(event.message))
        if isinstance(event, TurnCompleted):
            return (Result(usage=None if self.is_resumed else usage_of(event.usage)),)
        if isinstance(event, TurnFailed):
            error = text_of(event.error)
            return (failure(inner_message(error), cause_of(None, error)),)
        if isinstance(event, ThreadStarted):
            return (RunStart(session_id=event.thread_id),)
        if isinstance(event, TurnStarted):
            return ()
        return (unknown(text_or(as_dict(event).get("type"), ""), event),)


def acp(request: Request) -> Command:
    """Return the command `codex-acp`; the dialogue sets the session.

    Versions 0 take codex's settings as flags. Later ones ignore them, and the dialogue sets all but one: a model that
    codex does not list is accepted only in the variable.
    """
    model = {} if request.model is None else {"model": request.model}
    settings = dict(model)
    match request.allow:
        case "edits":
            settings["sandbox_mode"] = "workspace-write"
        case "all":
            settings |= {"sandbox_mode": "danger-full-access", "approval_policy": "never"}
    words = (*(f"{key}={_quoted(value)}" for key, value in settings.items()), *_settings(request))
    env = {"CODEX_CONFIG": msgspec.json.encode(model).decode()} if model else {}
    return Command(argv=("codex-acp", *each("--config", words), *request.args), env=env)


def _settings(request: Request) -> Iterator[str]:
    """Yield the settings of codex for what has no flag."""
    if request.effort is not None:
        yield f"model_reasoning_effort={_quoted(request.effort)}"
    if request.system_prompt is not None:
        yield f"developer_instructions={_quoted(request.system_prompt)}"


def _quoted(value: str) -> str:
    """Return a string as TOML writes it; JSON writes it so too."""
    return msgspec.json.encode(value).decode()


def _read_error(message: str) -> Sequence[Update]:
    if message.startswith("Reconnecting"):
        # The text of the broken attempt comes again, under a new item id.
        return (MessageEnd(status="superseded"), retry(message))
    return (Notice("error", inner_message(message), "error", cause=cause_of(None, message)),)
