"""What a newer agent says in another way is not lost without a word, and its wire is not shown as text.

Random changes of all recordings have found these: a kind with another name at the first or the last text, a text in an
object, pieces without their number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.core.health import Health
from penstock.events import RunEnded
from penstock.stream import Stream
from penstock.testing.verify import verify

RECORDINGS = Path(__file__).parents[1] / "recordings"
Line = dict[str, Any]


def read(agent: str, lines: list[Any]) -> tuple[RunEnded, Health]:
    """Read a run; return its end and its health."""
    stream = Stream(agent)
    events = [*stream.feed(msgspec.json.Encoder().encode_lines(lines)), *stream.close()]
    assert verify(events) == []
    end = events[-1]
    assert isinstance(end, RunEnded)
    return end, stream.health


def changed(name: str, change: Callable[[list[Line]], None]) -> tuple[RunEnded, Health]:
    """Read a recording after a change of its lines, without which it is healthy."""
    folder = RECORDINGS / name
    agent = msgspec.json.decode((folder / "expected.json").read_bytes())["agent"]
    lines = msgspec.json.Decoder().decode_lines((folder / "input.ndjson").read_bytes())
    assert not read(agent, lines)[1].warnings
    change(lines)
    return read(agent, lines)


def put_first(before: list[Line], lines: list[Line]) -> None:
    """Put lines before the others."""
    lines[:0] = before


def last(lines: list[Line], sign: Callable[[Line], bool]) -> Line:
    """The last line with a sign."""
    return next(line for line in reversed(lines) if sign(line))


def says(line: Line) -> bool:
    """Whether a line of codex is a text of the model."""
    return bool(line.get("item", {}).get("type") == "agent_message")


def chunk(line: Line) -> bool:
    """Whether a line of ACP is a piece of text."""
    return bool(line.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk")


RENAMED: dict[str, tuple[str, Callable[[list[Line]], None]]] = {
    "the last text of codex": ("codex/todo", lambda lines: last(lines, says).update(type="item.finished")),
    "the first text of codex": ("codex/todo", lambda lines: next(filter(says, lines)).update(type="item.finished")),
    "a method of ACP": ("acp/codex-text", lambda lines: next(filter(chunk, lines)).update(method="session/updated")),
    "a kind of ACP": (
        "acp/codex-text",
        lambda lines: next(filter(chunk, lines))["params"]["update"].update(sessionUpdate="agent_text"),
    ),
    "a role of goose": (
        "goose/toolerror",
        lambda lines: last(lines, lambda it: it["type"] == "message")["message"].update(role="model"),
    ),
    "a role of droid": (
        "droid/tools",
        lambda lines: last(lines, lambda it: it["type"] == "message").update(role="model"),
    ),
    "a kind of event of opencode": (
        "opencode-server/text",
        lambda lines: last(lines, lambda it: "FINAL" in str(it) or "delta" in str(it)).update(
            event={"type": "message.text.added", "properties": {"part": {"text": "the end"}}}
        ),
    ),
}


@pytest.mark.parametrize("name", RENAMED)
def test_a_text_of_an_unknown_kind_is_a_warning_at_any_place(name: str) -> None:
    """Also if it is the first or the last text, which no known text is around."""
    recording, change = RENAMED[name]
    _, health = changed(recording, change)
    assert len(health.warnings) == 1
    assert [it.warns for it in health.drift] == [True]


def test_a_text_of_an_unknown_kind_after_the_end_is_no_warning() -> None:
    """Nor is a kind without a text, that of a sub-agent, or a report of the agent on itself."""
    tip = {"type": "tip_of_the_day", "text": "Try another model."}
    _, health = changed("claude-2.1.332/text", lambda lines: lines.append(tip))
    assert [it.warns for it in health.drift] == [False]
    _, health = changed("claude-2.1.332/text", lambda lines: lines.insert(0, {**tip, "text": " "}))
    assert [it.warns for it in health.drift] == [False]
    block = {"type": "assistant", "parent_tool_use_id": "t", "message": {"content": [{"type": "tip", "text": "Try."}]}}
    report = {"type": "system", "subtype": "tip", "text": "Try another model."}
    for line in (block, report):
        _, health = changed("claude-2.1.332/text", partial(put_first, [line]))
        assert [it.warns for it in health.drift] == [False]


def value(text: Any) -> dict[str, Any]:
    """A text in an object that no reader knows."""
    return {"value": text}


OBJECTS: dict[str, list[Any]] = {
    "gemini": [{"type": "message", "role": "assistant", "content": value("Hello"), "delta": True}],
    "codex": [{"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": value("Hello")}}],
    "opencode": [{"type": "text", "sessionID": "s", "part": {"type": "text", "text": value("Hello"), "time": {}}}],
    "claude": [
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": value("Hello")}]}},
    ],
    "pi": [
        {"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": value("Hello")}]}}
    ],
    "kimi": [{"role": "assistant", "content": value("Hello")}],
    "goose": [
        {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": value("Hello")}]}}
    ],
}


@pytest.mark.parametrize("agent", OBJECTS)
def test_a_text_in_another_form_is_not_shown_as_json(agent: str) -> None:
    """It is left out, and a misfit; the same with a value that is no text at all."""
    lines = OBJECTS[agent]
    for given in (lines, msgspec.json.decode(msgspec.json.encode(lines).replace(b'{"value":"Hello"}', b"true"))):
        end, health = read(agent, given)
        assert end.reply == ""
        assert health.misfits
        assert health.warnings


def without(name: str, key: str) -> Callable[[list[Line]], None]:
    """Remove a field of the objects of this name."""

    def change(lines: list[Line]) -> None:
        for line in lines:
            line.get(name, {}).pop(key, None)

    return change


def moved(path: str, lines: list[Line], *, is_null: bool = False) -> None:
    """Give the field at a path (`message.content`) another name in all lines, or set it to null."""
    *outer, key = path.split(".")
    holders: list[Any] = [*lines]
    for name in outer:
        inner = [it.get(name) for it in holders if isinstance(it, dict)]
        holders = [it for value in inner for it in (value if isinstance(value, list) else [value])]
    for holder in holders:
        if isinstance(holder, dict) and key in holder:
            value = holder.pop(key)
            holder.update({key: None} if is_null else {f"{key}V2": value})


MOVED: dict[str, list[str]] = {
    "claude/text.nopartial": ["message", "message.content", "message.content.text"],
    "claude/tools.nopartial": ["message", "message.content", "message.content.text"],
    "claude/thinking.nopartial": ["message.content.thinking"],
    "claude/thinking": ["event.delta", "event.delta.text", "event.delta.thinking"],
    "claude/toolerror": ["message.content.is_error"],
    "ccs/restart": ["event", "event.delta", "event.delta.text"],
    "qwen/tools.nopartial": ["message", "message.content", "message.content.text"],
    "qwen/thinking.nopartial": ["message.content.thinking"],
    "cline/thinktools": ["event", "event.text", "event.reasoning"],
    "goose/thinking": ["message.content.thinking", "message.content.text"],
    "goose/edit": ["message.content.toolResult.value.isError"],
    "kimi/tools": ["content"],
    "opencode/toolerror": ["part.state", "part.state.status", "part.state.metadata"],
    "opencode-server/tools": ["event.properties.part.state", "event.properties.part.state.status"],
    "pi/toolerror": ["isError"],
    "copilot/toolerror": ["data.shellExecution", "data.shellExecution.exitCode"],
    "acp/codex-tools": ["params.update.status"],
    "acp/gemini-thinktools": ["params.update.status"],
}
"""Fields of recordings without which a text, a thought, a call or the failure of a call cannot be read."""

OUTPUTS = {
    "claude/tools": ["message.content.content"],
    "qwen/tools": ["message.content.content"],
    "opencode/tools": ["part.state.output"],
    "pi/tools": ["result", "result.content"],
    "copilot/tools": ["data.result"],
    "droid/tools": ["value"],
    "cline/tools": ["event.output"],
    "goose/tools": ["message.content.toolResult", "message.content.toolResult.value.content"],
}
"""The same with the output of calls."""


@pytest.mark.parametrize("is_null", [False, True])
@pytest.mark.parametrize(
    ("name", "path"), [(name, path) for table in (MOVED, OUTPUTS) for name, paths in table.items() for path in paths]
)
def test_a_field_that_has_the_content_is_not_missed_silently(name: str, path: str, is_null: bool) -> None:
    """Its line is read without it, and the run warns."""
    _, health = changed(name, partial(moved, path, is_null=is_null))
    assert health.warnings


def test_an_exit_status_that_is_missing_is_not_that_of_a_killed_command() -> None:
    """The latter is null in opencode's metadata, and no sign of anything lost."""
    assert changed("opencode/toolerror", partial(moved, "part.state.metadata.exit"))[1].misfits
    assert not changed("opencode/toolerror", partial(moved, "part.state.metadata.exit", is_null=True))[1].misfits


@pytest.mark.parametrize(("tokens", "losses"), [(0, 0), (5, 1)])
def test_a_final_text_without_any_message_is_a_loss_if_the_model_was_asked(tokens: int, losses: int) -> None:
    """It is the reply; the messages before it were not understood, unless the agent answered by itself."""
    usage = {"input_tokens": 9, "output_tokens": tokens}
    end, health = read("claude", [{"type": "result", "subtype": "success", "result": "This is said.", "usage": usage}])
    assert end.reply == "This is said."
    assert len(health.losses) == losses


def test_a_text_of_opencode_without_ids_is_shown_once() -> None:
    """Its pieces belong to the part that was begun last, of the right kind, and the run warns."""
    for name in ("text", "thinktools", "steer"):
        data = (RECORDINGS / "opencode-server" / name / "input.ndjson").read_bytes()
        before, _ = read("opencode/server", msgspec.json.Decoder().decode_lines(data))
        for path in ("event.properties.partID", "event.properties.part.id"):
            after, health = changed(f"opencode-server/{name}", partial(moved, path))
            assert after.reply == before.reply
            assert health.misfits


def test_parts_without_their_number_are_misfits() -> None:
    """The whole message that follows cannot be told from another one."""
    _, health = changed("pi/thinking", without("assistantMessageEvent", "contentIndex"))
    assert "a part of a message without a number" in health.misfits
    _, health = changed("codex-server/text", without("params", "itemId"))
    assert "a piece of text without an id" in health.misfits
    _, health = changed("codex-server/todo", partial(moved, "params.item.id"))
    assert "an item without an id" in health.misfits


@pytest.mark.parametrize(
    ("details", "misfits"),
    [("Structured output provided successfully", {}), ("Error: Exit code 3", {"a failed result without is_error": 1})],
)
def test_a_failure_of_claude_without_its_flag(details: str, misfits: dict[str, int]) -> None:
    """It is noticed by the details; those of a reply by a schema are a text too."""
    call = {"type": "tool_use", "id": "t1", "name": "StructuredOutput", "input": {}}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": details}
    lines = [
        {"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [block]}, "tool_use_result": details},
        {"type": "result", "subtype": "success", "result": "{}"},
    ]
    assert read("claude", lines)[1].misfits == misfits
