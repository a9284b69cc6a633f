"""goose's wires: its own sentences among the model's, and changes. The shapes are those of goose 1.52.0."""

from __future__ import annotations

from typing import Any

import adapter_harness
import msgspec
import pytest

from penstock.events import Event, Notice, Option, QuestionAsked, RunEnded, ToolReturned
from penstock.stream import Stream

END = {"type": "complete", "total_tokens": 1234, "input_tokens": 1200, "output_tokens": 34}
WHY = (
    "Ran into this error: Server error: Server error (500 Internal Server Error) at http://x: Broken..\n\nPlease retry."
)
TURNS = "I've reached the maximum number of actions I can do without user input. Would you like me to continue?"
OWN_ID = "msg_2e0129c4-7085-476d-b4c9-49c1164ec0c1"


def message(*content: Any, id: str = "chatcmpl-1", by_model: bool = True, role: str = "assistant") -> dict[str, Any]:
    """A line with parts of a message of the model, of goose, or with results."""
    inference = {"inference": {"provider": "openai", "requestedModel": "m"}} if by_model else {}
    said = {"id": id, "role": role, "content": list(content)}
    return {"type": "message", "message": {**said, "metadata": {"userVisible": True, **inference}}}


def text(said: str) -> dict[str, Any]:
    """A part with text."""
    return {"type": "text", "text": said}


def run(*lines: dict[str, Any]) -> tuple[list[Event], RunEnded]:
    """The events of a run, and its end."""
    events = adapter_harness.run("goose", *lines)
    assert isinstance(events[-1], RunEnded)
    return events, events[-1]


@pytest.mark.parametrize(("why", "cause"), [(WHY, "provider"), (TURNS, None)])
def test_what_goose_says_itself_is_no_reply(why: str, cause: str | None) -> None:
    """The run is an error, though it ends as if all were well."""
    _, end = run(message(text("Half of a reply")), message(text(why), id=OWN_ID, by_model=False), END)
    assert (end.outcome, end.reply, end.reason, end.cause) == ("error", "Half of a reply", why, cause)


def test_a_model_that_quotes_the_sentence_has_said_it() -> None:
    """Neither a model nor a file that it shows can make an error of a good run."""
    _, end = run(message(text(WHY)), END)
    assert (end.outcome, end.reply) == ("ok", WHY)


def test_an_error_after_which_the_model_goes_on_is_over() -> None:
    """The run is as good as what follows."""
    _, end = run(message(text(WHY), id=OWN_ID, by_model=False), message(text("Again. Done.")), END)
    assert (end.outcome, end.reply) == ("ok", "Again. Done.")


@pytest.mark.parametrize(
    ("part", "cause"),
    [
        ({"type": "error", "kind": "authentication", "message": "No."}, "auth"),
        ({"type": "systemNotification", "notificationType": "creditsExhausted", "msg": "No."}, "usage_limit"),
        (
            {
                "type": "systemNotification",
                "notificationType": "inlineMessage",
                "msg": "Unable to continue: Context limit still exceeded after compaction.",
            },
            "context",
        ),
    ],
)
def test_a_run_that_gave_up_is_an_error(part: dict[str, Any], cause: str) -> None:
    """Even if its last line says that it is complete."""
    _, end = run(message(part, id=OWN_ID, by_model=False), END)
    assert (end.outcome, end.cause, end.reason) == ("error", cause, part.get("message") or part["msg"])


def test_a_remark_is_no_reply() -> None:
    """What goose adds besides is a notice."""
    remark = message(text("A new version is there."), id=OWN_ID, by_model=False)
    events, end = run(message(text("Done.")), remark, END)
    assert (end.outcome, end.reply) == ("ok", "Done.")
    assert [it.text for it in adapter_harness.of(events, Notice)] == ["A new version is there."]


def test_the_limit_of_tokens_is_an_error() -> None:
    """It stands in the metadata of the last piece."""
    last = message()
    last["message"]["metadata"]["outputTokenLimitReached"] = True
    _, end = run(message(text("in the mid")), last, END)
    assert (end.outcome, end.reply, end.cause) == ("error", "in the mid", "length")


def returned(name: str, given: dict[str, Any], said: str, **result: Any) -> ToolReturned:
    """The result of a call."""
    request = {
        "type": "toolRequest",
        "id": "c",
        "toolCall": {"status": "success", "value": {"name": name, "arguments": given}},
    }
    value = {"content": [text(said)], "isError": False, **result}
    response = {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": value}}
    events, _ = run(
        message(request), message(response, id=OWN_ID, by_model=False, role="user"), message(text("Done.")), END
    )
    [found] = (event for event in events if isinstance(event, ToolReturned))
    return found


WRITE = {"path": "/d/a", "content": "b\n"}


def test_a_file_that_may_have_been_there_is_named_only() -> None:
    """Its old content is unknown: an undo that took it for a new file would delete what was there."""
    [new] = returned("write", WRITE, "Created /d/a (1 lines)").changes or []
    [over] = returned("write", WRITE, "Wrote /d/a (1 lines)").changes or []
    assert (new.kind, new.added, new.removed) == ("add", 1, 0)
    assert (over.path, over.kind, over.diff, over.added) == ("/d/a", "update", None, None)


def test_a_tool_of_another_extension_changes_no_file() -> None:
    """Its name has a prefix, whatever its input looks like."""
    assert returned("zoo__write", WRITE, "Created /d/a (1 lines)").changes is None


def test_a_call_that_was_skipped_did_nothing() -> None:
    """The agent reports it as successful; a command that prints the same sentence has run."""
    said = "Let the user know the tool call was skipped in goose chat mode. DO NOT apologize"
    skipped = returned("write", WRITE, said)
    assert (skipped.refused, skipped.is_error, skipped.changes) == (True, True, None)
    echo = returned("shell", {"command": "echo"}, said, structuredContent={"stdout": said, "exit_code": 0})
    assert (echo.refused, echo.is_error, echo.exit_code) == (False, False, 0)


# Over ACP.

NEW = [
    {
        "jsonrpc": "2.0",
        "id": 1000,
        "result": {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "goose", "version": "1.52.0"}},
    },
    {"jsonrpc": "2.0", "id": 1001, "result": {"sessionId": "s"}},
]
OVER = {"jsonrpc": "2.0", "id": 1007, "result": {"stopReason": "end_turn", "usage": {"inputTokens": 9}}}


def update(kind: str, **fields: Any) -> dict[str, Any]:
    """A `session/update`."""
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(said: str, id: str, **meta: Any) -> dict[str, Any]:
    """A piece of text."""
    return update("agent_message_chunk", content=text(said), messageId=id, _meta={"goose": {"messageId": id, **meta}})


def over_acp(*lines: dict[str, Any]) -> list[Event]:
    """The events of a turn."""
    stream = Stream("acp")
    return [*stream.feed(b"".join(msgspec.json.encode(it) + b"\n" for it in (*NEW, *lines, OVER))), *stream.close()]


def test_over_acp_its_own_words_are_no_reply_either() -> None:
    """Errors have an id that goose made; a notice about the limit of tokens has a mark."""
    note = chunk("Response stopped because …", "chatcmpl-1", fallbackContent=True)
    end = over_acp(chunk("Half", "chatcmpl-1"), note, chunk(WHY, OWN_ID))[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reply, end.cause, end.usage) == ("error", "Half", "provider", None)
    quoted = over_acp(chunk(WHY, "chatcmpl-1"))[-1]
    assert isinstance(quoted, RunEnded)
    assert (quoted.outcome, quoted.reply) == ("ok", WHY)


def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A call."""
    meta = {"goose": {"toolCall": {"toolName": name, "extensionName": "developer"}}}
    return update("tool_call", toolCallId="c", title=name, rawInput=given, _meta=meta)


def ended(said: str) -> dict[str, Any]:
    """Its end."""
    content = [{"type": "content", "content": text(said)}]
    return update("tool_call_update", toolCallId="c", status="completed", content=content)


@pytest.mark.parametrize(
    ("name", "said", "kinds"),
    [
        ("write", "Created /d/a (1 lines)", [("add", 1, 0)]),
        ("write", "Wrote /d/a (1 lines)", [("update", None, None)]),
        ("write", "Let the user know the tool call was skipped in goose chat mode.", []),
        ("zoo__write", "Created /d/a (1 lines)", []),
    ],
)
def test_changes_over_acp(name: str, said: str, kinds: list[Any]) -> None:
    """They are those of the plain command."""
    [back] = adapter_harness.of(over_acp(call(name, WRITE), ended(said)), ToolReturned)
    assert [(it.kind, it.added, it.removed) for it in back.changes or ()] == kinds
    assert back.refused == ("skipped" in said)


def test_always_is_wide_for_commands_too() -> None:
    """It allows each later use of the shell, so no single key may select it."""
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_always", "allow_once", "reject_once")]
    asked = {
        "jsonrpc": "2.0",
        "id": "q",
        "method": "session/request_permission",
        "params": {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "kind": "other", "status": "pending", "rawInput": {"command": "ls"}},
            "options": options,
        },
    }
    [question] = adapter_harness.of(over_acp(call("shell", {"command": "ls"}), asked), QuestionAsked)
    assert {it.kind: it.wide for it in question.options or ()} == {
        "allow_once": False,
        "allow_always": True,
        "reject_once": False,
    }
    assert all(isinstance(it, Option) for it in question.options or ())
