"""Acp against an agent that is made with the protocol's own package, over a socket and over the pipes of a process."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from penstock.adapter import Request
from penstock.agents.acp.dialogue import Acp
from penstock.core.questions import answer_in_words, rejected, resolve
from penstock.events import Event, QuestionAnswered, QuestionAsked, RunEnded, ToolReturned
from penstock.run.directory import stays_inside
from penstock.stream import Stream
from penstock.testing.verify import verify
from penstock.updates import Answer

LIMIT_SECONDS = 60

REQUESTS = {
    "initialize": "InitializeRequest",
    "session/new": "NewSessionRequest",
    "session/load": "LoadSessionRequest",
    "session/fork": "ForkSessionRequest",
    "session/resume": "ResumeSessionRequest",
    "session/set_mode": "SetSessionModeRequest",
    "session/set_config_option": "SetSessionConfigOptionSelectRequest",
    "session/prompt": "PromptRequest",
    "session/cancel": "CancelNotification",
}
"""Types of the protocol's package for the parameters of each method."""
# The package is imported by the tests: it makes hundreds of classes, which would cost each run of other tests a second.
PEER = Path(__file__).parents[1] / "support" / "acp_peer.py"


Pipes = tuple[IO[bytes], IO[bytes]]
"""What the client writes into, and what it reads."""
Peer = Callable[[], AbstractContextManager[Pipes]]


@contextmanager
def process() -> Iterator[Pipes]:
    """The agent as a process, which is killed in any case."""
    child = subprocess.Popen([sys.executable, PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watchdog = threading.Timer(LIMIT_SECONDS, child.kill)
    watchdog.start()
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with child.stdin, child.stdout:
            yield child.stdin, child.stdout
            child.kill()
    finally:
        watchdog.cancel()
        child.kill()
        child.wait()


@contextmanager
def thread() -> Iterator[Pipes]:
    """The agent in a thread, over a socket: a process takes a second to import the protocol's package."""
    import acp_peer

    ours, its = socket.socketpair()
    ours.settimeout(LIMIT_SECONDS)
    agent = threading.Thread(target=asyncio.run, args=(acp_peer.serve(its),), daemon=True)
    agent.start()
    try:
        with ours, ours.makefile("wb") as into, ours.makefile("rb") as out:
            yield into, out
            ours.shutdown(socket.SHUT_RDWR)
    finally:
        agent.join(LIMIT_SECONDS)


def drive(
    request: Request, on: Callable[[Acp, Event], Any] = lambda acp, event: None, peer: Peer = thread
) -> tuple[list[Event], list[Any]]:
    """Talk with the agent until it has answered: the events, and the messages that were said to it."""
    acp = Acp(request)
    stream = Stream(acp)
    events: list[Event] = []
    said: list[Any] = []
    with peer() as (into, out):
        lines = iter(out.readline, b"")
        while True:
            for line in acp.take().splitlines(keepends=True):
                said.append(json.loads(line))
                into.write(line)
            into.flush()
            if acp.over:
                break
            found = stream.feed(next(lines))
            for event in found:
                events.append(event)
                events += stream.apply(on(acp, event) or ())
    events += stream.close()
    assert verify(events) == []
    assert stream.health.unknown_kinds == {}
    for message in said:
        check(message)
    return events, said


def check(message: Any) -> None:
    """What is said is what the protocol's own types take."""
    from acp import schema

    assert message["jsonrpc"] == "2.0"
    method = message.get("method")
    if method in REQUESTS:
        getattr(schema, REQUESTS[method]).model_validate(message["params"])
    elif "result" in message:
        schema.RequestPermissionResponse.model_validate(message["result"])
    elif "error" in message:
        schema.Error.model_validate(message["error"])
    else:
        assert method.startswith("_penstock/")


def end_of(events: list[Event]) -> RunEnded:
    """The last event."""
    assert isinstance(events[-1], RunEnded)
    return events[-1]


def answering(text: str) -> Callable[[Acp, Event], Any]:
    """Answers each question so."""
    return lambda acp, event: (
        acp.answer(resolve(event, text) or rejected(event, "person")) if isinstance(event, QuestionAsked) else ()
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("peer", [thread, process])
def test_a_prompt_is_answered(tmp_path: Path, peer: Peer) -> None:
    """The reply, the session and the figures are the agent's; the tokens that were cached are part of the input."""
    events, said = drive(Request(prompt="hello — 世界", cwd=str(tmp_path)), peer=peer)
    end = end_of(events)
    assert (end.outcome, end.reply, end.session_id) == ("ok", "hello — 世界", f"new-in-{tmp_path.name}")
    assert end.usage is not None
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.cached_tokens) == (15, 4, 5)
    assert [message["method"] for message in said] == ["initialize", "session/new", "session/prompt"]


@pytest.mark.parametrize(
    ("answer", "chosen", "told", "failed"),
    [
        ("allow", "once", "Yes, once", False),
        ("y", "once", "Yes, once", False),
        ("a", "never", "No", True),  # it may allow more than this deletion
        ("refuse", "never", "No", True),
        ("n", "never", "No", True),
        ("Always", "always", "Always", False),
        ("once", "once", "Yes, once", False),
        ("what?", "never", "No", True),
    ],
)
def test_a_permission_is_asked_and_answered(answer: str, chosen: str, told: str, failed: bool) -> None:
    """By the words that allow and refuse, or by an option's name or id; anything else refuses."""
    events, _ = drive(Request(prompt="permission"), answering(answer))
    [asked] = [event for event in events if isinstance(event, QuestionAsked)]
    labels = [option.label for option in asked.options or ()]
    assert (asked.text, labels, asked.blocking) == ("Remove all: /all", ["Yes, once", "Always", "No"], True)
    assert [answer_in_words(event, asked) for event in events if isinstance(event, QuestionAnswered)] == [told]
    [returned] = [event for event in events if isinstance(event, ToolReturned)]
    assert (returned.text, returned.is_error) == (f"asked: {chosen}", failed)
    assert end_of(events).reply == f"asked: {chosen}"


def test_a_mode_that_allows_all_is_set() -> None:
    """Then nobody is asked."""
    events, said = drive(Request(prompt="permission", allow="all"))
    assert [message["params"]["modeId"] for message in said if message.get("method") == "session/set_mode"] == ["yolo"]
    assert not any(isinstance(event, QuestionAsked) for event in events)
    assert end_of(events).reply == "asked: nobody"


def test_edits_are_allowed_where_there_is_no_mode_for_them() -> None:
    """Penstock answers what is asked about files of the directory."""
    events, _ = drive(Request(prompt="permission", allow="edits", stays_inside=partial(stays_inside, "/")))
    assert not any(isinstance(event, QuestionAsked) for event in events)
    assert end_of(events).reply == "asked: once"


def test_an_edit_elsewhere_is_asked_about(tmp_path: Path) -> None:
    """The file is not in the directory, so the level does not cover it."""
    events, _ = drive(
        Request(prompt="permission", allow="edits", stays_inside=partial(stays_inside, str(tmp_path))),
        lambda acp, event: acp.answer(Answer(event.id, "person", "never")) if isinstance(event, QuestionAsked) else (),
    )
    assert [event.ask for event in events if isinstance(event, QuestionAsked)] == ["edit"]
    assert end_of(events).reply == "asked: never"


def test_a_cancel_ends_the_turn() -> None:
    """The text stays, and the outcome says it."""
    events, said = drive(
        Request(prompt="wait"), lambda acp, event: acp.cancel() and () if type(event).__name__ == "Delta" else ()
    )
    assert (end_of(events).outcome, end_of(events).reply) == ("cancelled", "waiting")
    assert said[-1]["method"] == "session/cancel"


def test_a_cancel_gives_up_the_question() -> None:
    """The agent is told so, and the reader too."""
    events, _ = drive(
        Request(prompt="permission"), lambda acp, event: acp.cancel() and () if isinstance(event, QuestionAsked) else ()
    )
    assert [event.by for event in events if isinstance(event, QuestionAnswered)] == ["withdrawn"]
    assert end_of(events).reply == "asked: cancelled"


def test_the_history_of_a_loaded_session_is_no_reply() -> None:
    """Neither what comes before the answer nor what comes after it."""
    events, said = drive(Request(prompt="new words", session_id="known-session"))
    end = end_of(events)
    assert (end.outcome, end.reply, end.session_id) == ("ok", "new words", "known-session")
    assert not any("old" in getattr(event, "text", "") for event in events)
    assert [message["method"] for message in said if not message["method"].startswith("_")] == [
        "initialize",
        "session/load",
        "session/prompt",
    ]


def test_a_fork_has_a_new_id() -> None:
    """The agent's own."""
    events, _ = drive(Request(prompt="hi there", session_id="known-session", fork=True))
    assert (end_of(events).session_id, end_of(events).reply) == ("fork-of-known-session", "hi there")


def test_an_unknown_session_is_an_error() -> None:
    """Nothing is prompted, and the reason is the agent's."""
    events, said = drive(Request(prompt="hi", session_id="nobody"))
    end = end_of(events)
    assert (end.outcome, end.reply) == ("error", "")
    assert "not found" in (end.reason or "")
    assert all(message.get("method") != "session/prompt" for message in said)


def test_a_failed_prompt_tells_its_reason() -> None:
    """With the details that the error carries."""
    events, _ = drive(Request(prompt="fail"))
    assert (end_of(events).outcome, end_of(events).reason) == ("error", "Internal error: nothing works today")


def test_what_was_not_offered_is_refused() -> None:
    """Files, terminals and made-up methods get a proper error, so the agent goes on."""
    events, _ = drive(Request(prompt="files"))
    assert end_of(events).reply == "-32601 -32601 -32601 -32601"
