"""Bodies of requests and responses of other programs' protocols: OpenAI's interface, the AI SDK, and AG-UI."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.chat.web.schemas import Body

MAX_FILES_BODY_BYTES = 32 * 1024 * 1024
"""Bytes of the largest body with files in base64: one of the largest, and those of earlier messages, which some
programs send again."""


class CompletionImage(msgspec.Struct, frozen=True):
    """Picture in a part of a message."""

    url: str
    """Data URL. Other addresses are not fetched."""


class CompletionFile(msgspec.Struct, frozen=True):
    """File in a part of a message."""

    filename: str | None = None
    file_data: str | None = None
    """Data URL, or base64."""


class CompletionPart(msgspec.Struct, frozen=True):
    """Part of a message of OpenAI's interface."""

    type: str
    text: str | None = None
    image_url: CompletionImage | None = None
    file: CompletionFile | None = None


class CompletionMessage(msgspec.Struct, frozen=True):
    """Message of OpenAI's interface."""

    role: str
    content: str | list[CompletionPart] | None = None


class CompletionUsage(msgspec.Struct, frozen=True):
    """Options of a streamed completion."""

    include_usage: bool | None = None
    """True for a last chunk with the usage."""


class CompletionRequest(Body, frozen=True, forbid_unknown_fields=False):
    """Request of OpenAI's interface. Fields that are not here, as `temperature`, have no effect on an agent."""

    max_bytes = MAX_FILES_BODY_BYTES

    model: str
    """Agent, or agent and model: `claude`, `claude/sonnet`."""
    messages: list[CompletionMessage]
    stream: bool | None = None
    stream_options: CompletionUsage | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    tool_choice: str | dict[str, Any] | None = None


class CompletionModel(msgspec.Struct, frozen=True):
    """Agent, or one of its models, as a model of OpenAI's interface."""

    id: str
    object: Literal["model"] = msgspec.field(default_factory=lambda: "model")
    created: int = msgspec.field(default_factory=int)
    owned_by: str = msgspec.field(default_factory=lambda: "penstock")


class CompletionModels(msgspec.Struct, frozen=True):
    """Models of OpenAI's interface."""

    data: list[CompletionModel]
    object: Literal["list"] = msgspec.field(default_factory=lambda: "list")


class CompletionError(msgspec.Struct, frozen=True):
    """Error of OpenAI's interface."""

    message: str
    type: str
    param: str | None
    code: str | None


class CompletionProblem(msgspec.Struct, frozen=True):
    """Body of a response of OpenAI's interface from 400 on."""

    error: CompletionError


class UiApproval(msgspec.Struct, frozen=True):
    """Answer to a question about a tool, in a message of the AI SDK."""

    id: str
    approved: bool | None = None


class UiPart(msgspec.Struct, frozen=True):
    """Part of a message of the AI SDK."""

    type: str
    text: str | None = None
    state: str | None = None
    url: str | None = None
    """Data URL of a file. Other addresses are not fetched."""
    filename: str | None = None
    approval: UiApproval | None = None


class UiMessage(msgspec.Struct, frozen=True):
    """Message of the AI SDK."""

    id: str
    role: str
    parts: list[UiPart]


class UiRequest(Body, frozen=True, forbid_unknown_fields=False):
    """Request of the AI SDK's chat. Fields that are not here have no effect."""

    max_bytes = MAX_FILES_BODY_BYTES

    id: str
    """Id of the chat at the program."""
    messages: list[UiMessage]
    trigger: str | None = None
    message_id: str | None = msgspec.field(default=None, name="messageId")
    model: str | None = None


class AgUiSource(msgspec.Struct, frozen=True):
    """Content of a file in a message of AG-UI."""

    type: str
    value: str
    """The data in base64, or a data URL. Other addresses are not fetched."""
    mime_type: str | None = msgspec.field(default=None, name="mimeType")


class AgUiPart(msgspec.Struct, frozen=True):
    """Part of a message of AG-UI: text or a file, the latter as version 1.0 or as an earlier one has it."""

    type: str
    text: str | None = None
    source: AgUiSource | None = None
    data: str | None = None
    url: str | None = None
    mime_type: str | None = msgspec.field(default=None, name="mimeType")
    filename: str | None = None


class AgUiMessage(msgspec.Struct, frozen=True):
    """Message of the user in AG-UI."""

    role: str
    content: str | list[AgUiPart] = ""


class AgUiResume(msgspec.Struct, frozen=True):
    """Answer to an interrupt of AG-UI."""

    interrupt_id: str = msgspec.field(name="interruptId")
    status: Literal["resolved", "cancelled"]
    payload: Any = None
    """The answer: `{"answer": "…"}`, `{"approved": true}`, or one of these values by itself."""


class AgUiProperties(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Properties for Penstock in a request of AG-UI: `penstock` of its `forwardedProps`."""

    attach: bool = False
    """True to return to the newest turn of the thread: nothing is asked."""
    model: str | None = None


class AgUiRequest(Body, frozen=True, forbid_unknown_fields=False):
    """Request of AG-UI. Fields that are not here, as `tools` and `state`, have no effect."""

    max_bytes = MAX_FILES_BODY_BYTES

    thread_id: str = msgspec.field(name="threadId")
    """Id of the chat at the client."""
    run_id: str = msgspec.field(name="runId")
    messages: list[dict[str, Any]]
    """Messages that the client has; the last one is the prompt."""
    protocol_version: str | None = msgspec.field(default=None, name="protocolVersion")
    resume: list[AgUiResume] | None = None
    forwarded_props: Any = msgspec.field(default=None, name="forwardedProps")


class AgUiProblem(msgspec.Struct, frozen=True):
    """Body of a response of AG-UI from 400 on: the event of a run that failed."""

    type: Literal["RUN_ERROR"]
    message: str
    code: str
