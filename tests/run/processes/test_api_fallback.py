"""`fallback=` in Python: the rules of `penstock run --fallback`, in one run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import AgentFailed, AgentNotFound, RunEnded, RunStarted, UnknownAgent, UsageError, agent

AGENT = """\
import json, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

how = sys.argv[1]
prompt = sys.stdin.read()
say(type="system", subtype="init", session_id=how, model="m1")
if how == "worked":
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    say(type="assistant", message={"id": "m1", "content": [call]})
    say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]})
if how == "stuck":
    time.sleep(600)
if how == "good":
    say(type="assistant", message={"id": "m2", "content": [{"type": "text", "text": "You said: " + prompt}]})
    say(type="result", subtype="success", is_error=False, result="You said: " + prompt, session_id=how)
else:
    status = {"worked": 401, "loggedout": 401, "broken": 400}[how]
    say(type="result", subtype="success", is_error=True, result="no", api_error_status=status, session_id=how)
"""


@pytest.fixture(autouse=True)
def _agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted agents in a configuration."""
    program = tmp_path / "agent.py"
    program.write_text(AGENT, "utf-8")
    config = [
        f'[agents.{how}]\nadapter = "claude"\ncommand = ["{sys.executable}", "{program}", "{how}"]\n'
        for how in ("good", "loggedout", "worked", "broken", "stuck")
    ]
    config.append('[agents.absent]\nadapter = "claude"\ncommand = ["no-such-program-anywhere"]\n')
    (tmp_path / "config.toml").write_text("\n".join(config), "utf-8")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "config.toml"))


def test_the_next_agent_answers() -> None:
    """If an agent cannot work, the next one that can answers; the result is that of the last one."""
    result = agent("loggedout", fallback=["absent", "loggedout", "good"]).ask("hello")
    assert (result.reply, result.agent) == ("You said: hello", "good")


def test_the_next_agent_answers_in_async_code() -> None:
    """The same in an event loop, for one prompt."""

    async def ask() -> str:
        return (await agent("loggedout").ask_async("hello", fallback=["good"])).reply

    assert asyncio.run(ask()) == "You said: hello"


def test_the_events_of_both() -> None:
    """The events of both agents come one after the other, and each agent has a number."""
    with agent("loggedout", fallback=["good"]).run("hello") as run:
        events = list(run)
    ends = [(event.agent, event.run, event.outcome) for event in events if isinstance(event, RunEnded)]
    assert ends == [("loggedout", 1, "error"), ("good", 2, "ok")]
    assert [event.run for event in events if isinstance(event, RunStarted)] == [1, 2]
    assert [event.run for event in events] == sorted(event.run or 0 for event in events)
    assert (run.agent, run.label, run.result.outcome) == ("good", "good", "ok")


def test_polled_events_of_both() -> None:
    """A program that polls gets the events of both, and is notified of them."""
    import threading

    there = threading.Event()
    events: list[Any] = []
    with agent("loggedout", fallback=["good"]).run("hello") as run:
        run.on_news(there.set)
        while [event.outcome for event in events if isinstance(event, RunEnded)] != ["error", "ok"]:
            assert there.wait(30)
            there.clear()
            while found := run.poll():
                events += found
    assert run.result.reply == "You said: hello"


def test_the_first_agent_is_not_installed() -> None:
    """An agent that is not installed is passed over before anything starts."""
    assert agent("absent", fallback=["good"]).ask("hello").agent == "good"
    with pytest.raises(AgentNotFound):
        agent("absent", fallback=["absent"]).run("hello")


@pytest.mark.parametrize("how", ["worked", "broken"])
def test_no_agent_takes_over(how: str) -> None:
    """An agent that has begun to work, or failed for a reason of its own, is not replaced."""
    with pytest.raises(AgentFailed) as caught:
        agent(how, fallback=["good"]).ask("hello")
    assert caught.value.agent == how


def test_all_have_failed() -> None:
    """If no agent can work, the error is that of the last one."""
    with pytest.raises(AgentFailed) as caught:
        agent("loggedout", fallback=["loggedout"]).ask("hello")
    assert caught.value.cause == "auth"


@pytest.mark.parametrize("when", ["before its end", "after its end"])
def test_a_cancelled_run_has_no_successor(when: str) -> None:
    """After a cancel no agent starts, not even if the first one has just ended."""
    with agent("loggedout", fallback=["good"]).run("hello") as run:
        if when == "before its end":
            run.cancel()
        for event in run:
            if isinstance(event, RunEnded):
                run.cancel()
    assert run.label == "loggedout"
    assert run.result.outcome in ("cancelled", "error")


def test_a_run_that_is_left_has_no_successor() -> None:
    """Leaving the block at the first end starts nothing more."""
    with agent("loggedout", fallback=["good"]).run("hello") as run:
        for event in run:
            if isinstance(event, RunEnded):
                break
    assert (run.label, run.result.outcome) == ("loggedout", "error")


def test_the_successor_can_be_cancelled() -> None:
    """A cancel reaches the agent that has taken over."""
    with agent("loggedout", fallback=["stuck"]).run("hello") as run:
        for event in run:
            if isinstance(event, RunStarted) and event.run == 2:
                run.cancel()
    assert (run.label, run.result.outcome) == ("stuck", "cancelled")


def test_options_of_the_first_agent_alone() -> None:
    """A command that was given for one agent does not start another one's run."""
    failing = [sys.executable, "-c", 'print(\'{"type":"result","is_error":true,"api_error_status":401}\')']
    mine = agent("mine", command=failing, adapter="claude", label="first", fallback=["good"])
    assert mine.ask("hello").agent == "good"


def test_what_does_not_go_together() -> None:
    """A conversation and chunks are of one agent; names are checked before anything starts."""
    chain = agent("good", fallback=["good"])
    with pytest.raises(UsageError, match="a conversation belongs to one agent"):
        chain.run("hello", session_id="s1")
    with pytest.raises(UsageError, match="a conversation belongs to one agent"):
        chain.conversation()
    with pytest.raises(UsageError, match="chunks show one run"):
        chain.send_streaming("hello")
    with pytest.raises(UnknownAgent):
        agent("good", fallback=["no-such-agent"]).run("hello")
    with pytest.raises(UsageError, match="fallback"):
        agent("good", fallback="good")
    assert [*chain.run("hello", fallback=[]).start()][-1].run is None
