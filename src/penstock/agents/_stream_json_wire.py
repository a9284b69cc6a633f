"""Lines of `stream-json`, as typed structs. They name the fields that Penstock reads.

A field without a default is in each such line of all recordings: a line that lacks it is a loss of text or of calls.
"""

from __future__ import annotations

from typing import Any

import msgspec


class TextDelta(msgspec.Struct, tag="text_delta", gc=False):
    """New text."""

    text: str


class ThinkingDelta(msgspec.Struct, tag="thinking_delta", gc=False):
    """New thinking."""

    thinking: str


class InputDelta(msgspec.Struct, tag="input_json_delta", gc=False):
    """More of a call's input."""

    partial_json: str


class SignatureDelta(msgspec.Struct, tag="signature_delta", gc=False):
    """Proof of thinking, of no use to readers."""


class CitationsDelta(msgspec.Struct, tag="citations_delta", gc=False):
    """Source of a text; the text names it too."""


class ApiMessage(msgspec.Struct):
    """Model message, whole or as it begins. `content` of a user's message may be a text."""

    id: str | None = None
    model: str | None = None
    content: Any = None
    usage: Any = None


class Abandoned(msgspec.Struct):
    """Blocks that the CLI withdrew."""

    from_block_index: int = 0


class BlockDelta(msgspec.Struct, tag="content_block_delta", gc=False):
    """New part of a block."""

    index: int | None = None
    delta: TextDelta | ThinkingDelta | InputDelta | SignatureDelta | CitationsDelta | None = None


class BlockBegin(msgspec.Struct, tag="content_block_start"):
    """Start of a block."""

    index: int | None = None
    content_block: Any = None


class BlockStop(msgspec.Struct, tag="content_block_stop"):
    """End of a block, or withdrawal."""

    index: int | None = None


class MessageBegin(msgspec.Struct, tag="message_start"):
    """Start of a message."""

    message: ApiMessage | None = None


class Stopped(msgspec.Struct):
    """Reason for the end of a message."""

    stop_reason: str | None = None


class MessageDelta(msgspec.Struct, tag="message_delta"):
    """Figures of a message, and the reason for its end."""

    delta: Stopped | None = None
    usage: Any = None


class MessageStop(msgspec.Struct, tag="message_stop"):
    """End of a message, or its restart, or the withdrawal of a part."""

    abandoned_blocks: Abandoned | None = None


class StreamEvent(msgspec.Struct, tag="stream_event", gc=False):
    """One API event of a lane."""

    event: BlockDelta | BlockBegin | BlockStop | MessageBegin | MessageDelta | MessageStop | None = None
    parent_tool_use_id: str | None = None


class Assistant(msgspec.Struct, tag="assistant"):
    """Whole blocks of a model message."""

    message: ApiMessage
    parent_tool_use_id: str | None = None
    error: Any = None


class User(msgspec.Struct, tag="user"):
    """Tool results, and texts in the user's role."""

    message: ApiMessage
    parent_tool_use_id: str | None = None
    tool_use_result: Any = None
    """Details of the only tool result of the line; a text if the tool failed."""


class System(msgspec.Struct, tag="system"):
    """Report of the CLI on itself, with the fields of all its many subtypes."""

    subtype: str = ""
    session_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    claude_code_version: str | None = None
    qwen_code_version: str | None = None
    tools: Any = None
    slash_commands: Any = None
    """Names of the commands, at the start."""
    commands: Any = None
    """Commands with their descriptions, when they have changed."""
    capabilities: Any = None
    status: Any = None
    attempt: Any = None
    max_retries: Any = None
    retry_delay_ms: Any = None
    error_status: Any = None
    error: Any = None
    hook_name: str | None = None
    outcome: Any = None
    exit_code: Any = None
    stderr: Any = None
    description: Any = None
    summary: Any = None
    content: Any = None
    message: Any = None
    text: Any = None
    data: Any = None
    tool_name: Any = None
    compact_metadata: Any = None
    task_id: str | None = None
    task_type: Any = None
    tool_use_id: str | None = None
    output_file: Any = None
    patch: Any = None
    state: Any = None
    statuses: Any = None


class ResultLine(msgspec.Struct, tag="result"):
    """End of an answer."""

    subtype: str = ""
    is_error: bool = False
    result: Any = None
    structured_output: Any = None
    errors: Any = None
    error: Any = None
    session_id: str | None = None
    num_turns: Any = None
    origin: Any = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    duration_ms: Any = None
    total_cost_usd: Any = None
    usage: Any = None
    model_usage: Any = msgspec.field(default=None, name="modelUsage")
    """Totals of each model over all answers of the process, with those of sub-agents, as the cost is. With claude
    2.1.331 these are totals of all runs of the session."""
    usage_since_result: Any = msgspec.field(default=None, name="model_usage_since_last_result")
    """The part of the totals since the result before this one."""
    permission_denials: Any = None
    api_error_status: Any = None


Wire = StreamEvent | Assistant | User | System | ResultLine
