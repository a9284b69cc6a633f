"""vibe's ACP: attempts under one message id, and files that it writes over. The shapes are those of vibe 3.0.2."""

from __future__ import annotations

from typing import Any

import adapter_harness
import msgspec
import pytest

from penstock.events import BlockEnded, Event, MessageEnded, Notice, RunEnded, ToolReturned
from penstock.stream import Stream

WHO = {"name": "@mistralai/mistral-vibe", "version": "3.0.2"}
BEGIN = [
    {"jsonrpc": "2.0", "id": 1000, "result": {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": WHO}},
    {"jsonrpc": "2.0", "id": 1001, "result": {"sessionId": "s"}},
]
OVER = {"jsonrpc": "2.0", "id": 1007, "result": {"stopReason": "end_turn"}}
RETRY = {"jsonrpc": "2.0", "method": "_session/retrying", "params": {"sessionId": "s", "detail": "IncompleteStream"}}


def update(told: str, **fields: Any) -> dict[str, Any]:
    """A `session/update`."""
    params = {"sessionId": "s", "update": {"sessionUpdate": told, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def said(text: str, id: str = "assistant-1") -> dict[str, Any]:
    """A piece of text."""
    return update("agent_message_chunk", content={"type": "text", "text": text}, messageId=id)


def run(*lines: dict[str, Any]) -> tuple[list[Event], RunEnded]:
    """The events of a turn, and its end."""
    stream = Stream("acp")
    data = b"".join(msgspec.json.encode(it) + b"\n" for it in (*BEGIN, *lines, OVER))
    events = [*stream.feed(data), *stream.close()]
    assert isinstance(events[-1], RunEnded)
    return events, events[-1]


def test_what_is_said_again_replaces_what_was_said() -> None:
    """The attempt that broke off is no part of the reply, however the second one is cut into pieces."""
    events, end = run(said("This re"), said("ply br"), RETRY, said("This"), said(" reply is whole."))
    assert (end.outcome, end.reply) == ("ok", "This reply is whole.")
    assert [it.text for it in adapter_harness.of(events, Notice)] == ["IncompleteStream"]
    assert [it.status for it in adapter_harness.of(events, MessageEnded)] == ["superseded", "ok"]


def test_another_message_after_a_retry_replaces_nothing() -> None:
    """Only the same id says that it is the same answer."""
    _, end = run(said("One.", "assistant-1"), RETRY, said("Two.", "assistant-2"))
    assert end.reply.endswith("Two.")
    again = run(said("One."), RETRY, said("One, anew."), said(" And on."))[1]
    assert again.reply == "One, anew. And on."


FIRST, SECOND = "7e60d44b-82a9-5a1b-8a83-826f40f5320e", "1a288204-eba3-5fcc-8c48-ea97bd75616b"


def thought(text: str, id: str) -> dict[str, Any]:
    """A piece of thinking."""
    return update("agent_thought_chunk", content={"type": "text", "text": text}, messageId=f"reasoning-{id}-0")


def test_an_answer_that_vibe_discarded_is_no_part_of_the_reply() -> None:
    """At the limit of tokens it asks for a shorter answer, and the wire has nothing of it but another id."""
    first = said("This reply is cut off at the limit, in the mid", f"assistant-{FIRST}")
    events, end = run(thought("Long.", FIRST), first, thought("Short.", SECOND), said("Whole.", f"assistant-{SECOND}"))
    assert (end.outcome, end.reply, end.rounds) == ("ok", "Whole.", 1)
    assert [it.status for it in adapter_harness.of(events, MessageEnded)] == ["ok", "superseded", "ok", "ok"]
    assert [it.code for it in adapter_harness.of(events, Notice)] == ["retry"]
    [ended] = [it.text for it in adapter_harness.of(events, BlockEnded) if "cut off" in it.text]
    assert ended == "This reply is cut off at the limit, in the mid"


@pytest.mark.parametrize("between", ["a call", "a message", "nothing"])
def test_an_answer_after_something_new_discards_nothing(between: str) -> None:
    """After a call, or a message of the user, the agent goes on; ids of another form say nothing."""
    middle = {
        "a call": [update("tool_call", toolCallId="c", kind="execute", status="completed", rawInput={"command": "ls"})],
        "a message": [update("user_message_chunk", content={"type": "text", "text": "And?"})],
    }.get(between, [])
    ids = ("1", "2") if between == "nothing" else (f"assistant-{FIRST}", f"assistant-{SECOND}")
    events, end = run(said("First.", ids[0]), *middle, said("Second.", ids[1]))
    assert [it.status for it in adapter_harness.of(events, MessageEnded)] == ["ok", "ok"]
    assert end.reply.endswith("Second.")


@pytest.mark.parametrize(
    ("result", "kind", "lines"),
    [
        ({"fileExisted": True, "content": "b\n", "previousContent": "a\n"}, "update", (1, 1)),
        ({"fileExisted": True, "content": "b\n"}, "update", (None, None)),
        ({"fileExisted": False, "content": "b\n", "previousContent": None}, "add", (1, 0)),
    ],
)
def test_a_file_that_was_there_is_not_new(result: dict[str, Any], kind: str, lines: tuple[Any, Any]) -> None:
    """Its `diff` has no old text either way: the result says whether there was a file."""
    diff = [{"type": "diff", "path": "/d/a", "newText": "b\n"}]
    call = {"toolCallId": "c", "kind": "edit", "_meta": {"tool_name": "write_file"}}
    begun = update("tool_call", **call, status="in_progress", content=diff, rawInput={"filePath": "/d/a"})
    events, _ = run(begun, update("tool_call_update", **call, status="completed", content=diff, rawOutput=result))
    [back] = adapter_harness.of(events, ToolReturned)
    assert [(it.path, it.kind, (it.added, it.removed)) for it in back.changes] == [("/d/a", kind, lines)]
