"""Each real agent, on each of its routes, run through Penstock against the model server.

Every run's stream is judged as well: the contract holds, and no line is unknown, malformed or read leniently
(`playing.play`). Where an agent differs from the others, a table says how and why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playing import Played
    from setups import Bench

    from penstock.run.run import Run

import playing
import scenarios
from dialects import OUTPUT_TOKENS
from playing import kill_agent, left, play, started

from penstock import agent
from penstock.agents._facts import RouteFacts
from penstock.agents.registry import AGENTS
from penstock.errors import AgentFailed, UsageError
from penstock.events import Delta, Event, PlanChanged, QuestionAsked, RunEnded, decode

HIDES_THINKING = {"gemini-exec", "kimi-exec"}
"""Routes that never print the model's thinking."""
DRESSES_THINKING = {"gemini-acp", "codex-acp"}
"""Routes that put titles or empty lines of their own into it."""
HIDES_USAGE = {"kimi-exec", "copilot-exec", "codex-acp", "cline-acp", "goose-acp"}
"""Routes that never tell how many tokens a run used; goose tells those of the last model call alone."""
HIDES_SESSION = {"cline-exec", "goose-exec"}
"""Routes that never tell the session id."""
LOSES_RESULTS = {"codex-acp": "parallel"}
"""Routes that do not always tell what a call returned, and in which scenario."""
HAS_NO_PLAN = {"claude", "qwen", "copilot", "pi", "cline", "droid", "kimi", "goose", "vibe"}
"""Agents that offer the model no tool for a plan; some have one behind a search for tools."""
HAS_NO_HELPERS = {"codex", "pi", "droid", "kimi", "vibe"}
"""Agents that offer the model no tool for a sub-agent, or not the model of these tests, or that run sub-agents in a
service of their own, which is not always there in time."""
HIDES_REFUSAL = {"codex-acp", "goose-acp"}
"""Routes that say only that a login is needed when the server refuses the key."""
SAYS_REFUSAL = {"vibe": "Invalid API key"}
"""Agents that say in words of their own that the server refuses the key."""
FEW_PIECES = {"vibe-acp"}
"""Routes that show a short answer in one piece or two, though it is live."""
REPEATS_ATTEMPTS = {"vibe-acp"}
"""Routes on which each attempt at an answer that breaks off is shown, and only the last one is whole."""
SAYS_LIMIT = {
    "claude": "output token maximum",
    "ccs": "output token maximum",
    "cline": "maximum output token limit",
    "codex": "output limit",
    "codex-acp": "max_output_tokens",
    "opencode": "output limit",
    "kilo": "output limit",
    "pi": "output limit",
    "goose": "output limit",
    "vibe": "output limit",
}
"""Agents, or routes, that say that the model has reached its limit of tokens, and words of the reason then."""
GOES_ON = {"droid"}
"""Agents that ask the model for the rest of its answer as long as it meets the limit."""
SAYS_NO_LIMIT = {
    "gemini-exec",
    "gemini-acp",
    "qwen-exec",
    "qwen-acp",
    "copilot-exec",
    "copilot-acp",
    "opencode-acp",
    "kilo-acp",
}
"""Routes that say that all is well when the model has reached its limit: it cannot be seen."""
TAKES_ARGUMENTS = {"cline-exec", "kimi-exec"}
"""Routes that take the prompt as an argument alone, which cannot be that long."""
STOPS_ITSELF = {"copilot-acp": "long"}
"""Routes that at times answer that they were cancelled, though nobody did, and in which scenario. What came is kept."""
SHORTENS = {"vibe"}
"""Agents that take the middle out of a megabyte before the model gets it."""
WINDOW = {"copilot": "prompt budget"}
"""Agents that refuse a megabyte themselves, as they know no model with so large a window, and their words for it."""
LOSES_YOUNG_SESSIONS = {"gemini-acp"}
"""Routes that lose a conversation that is gone on with in the minute of the clock in which it began."""
SAVES_LATE = {"claude-acp"}
"""Routes that may have answered, and ended, before the conversation is saved: one time in about fifteen."""
RETRIES_FOR_LONG = {"opencode", "kilo", "qwen", "copilot", "droid", "kimi"}
"""Agents that ask again for minutes, or for ever, when the server is broken."""
STARTED_SECONDS = 20
"""The time limit of a run that would retry for long: enough for a slow machine to start the agent and hear it once."""

AWKWARD = {
    "flag": "--help scenario=text",
    "quotes": 'it\'s "quoted", `ticked`, $HOME and \\ — ünï 👋\n\n\tscenario=text\nlast line',
    "short": "scenario=text",
    "megabyte": "-" + "word " * 200_000 + "\nscenario=text",
}


def route(at: Bench) -> RouteFacts:
    """What the registry says of the route."""
    return AGENTS[at.target.agent].routes[at.target.route]


def when_at_the_gate(at: Bench, act: Callable[[], None]) -> None:
    """Do something when an answer waits at the server's gate; for routes that show nothing of it."""

    def wait() -> None:
        if at.server.waiting.wait(playing.SECONDS):
            act()

    threading.Thread(target=wait, daemon=True).start()


def notes_are_written(at: Bench) -> None:
    """The file that the model writes in `tools` is there; it is taken away for the next test."""
    notes = at.folder / "notes.txt"
    assert notes.read_text("utf-8").rstrip("\n") == scenarios.NOTES.rstrip("\n")  # one tool drops the last newline
    notes.unlink()


@pytest.mark.parametrize("scenario", ["text", "thinking", "thinktools", "tools", "parallel", "toolerror", "long"])
def test_what_the_model_said(at: Bench, scenario: str) -> None:
    """Text, thinking, calls and reply are what the server told, with a session id, usage and a good outcome."""
    name = str(at.target)
    played = play(at, f"scenario={scenario} please")
    if STOPS_ITSELF.get(name) == scenario and "nobody did it" in str(played.result.reason):
        assert scenarios.texts(scenario)[-1].startswith(played.live)
        return
    assert (played.result.outcome, played.result.reason) == ("ok", None)
    assert played.result.reply == scenarios.texts(scenario)[-1]
    assert played.blocks("text") == scenarios.texts(scenario)
    thoughts = [] if name in HIDES_THINKING else scenarios.thoughts(scenario)
    if name in DRESSES_THINKING:
        assert len(played.blocks("thinking")) == len(thoughts)
    else:
        assert played.blocks("thinking") == thoughts
    assert len(played.calls) == len(scenarios.calls(scenario))
    assert sorted(call.call_id for call in played.calls) == sorted(back.call_id for back in played.returned)
    assert all(back.complete for back in played.returned) or LOSES_RESULTS.get(name) == scenario
    assert (played.result.session_id is None) == (name in HIDES_SESSION)
    if name not in HIDES_USAGE:
        assert played.result.usage is not None
        assert played.result.usage.output_tokens
    if scenario == "tools":
        notes_are_written(at)
    if route(at).live and (name not in FEW_PIECES or scenario == "long"):
        deltas = [event for event in played.events if isinstance(event, Delta) and event.kind == "text"]
        assert len(deltas) > len(played.blocks("text"))


def test_a_plan_is_no_part_of_the_reply(at: Bench) -> None:
    """What is said before the plan changes is no part of the reply, though a change of plan may be told as no call."""
    if at.target.agent in HAS_NO_PLAN:
        pytest.skip("it has no plan")
    played = play(at, "scenario=todo please")
    assert (played.result.outcome, played.result.reply) == ("ok", scenarios.texts("todo")[-1])
    assert played.blocks("text") == scenarios.texts("todo")


def test_the_tasks_of_claude_are_its_plan(at: Bench) -> None:
    """Its tools add a step and complete it, and the plan follows."""
    if at.target.agent != "claude" or at.target.route == "acp":
        pytest.skip("it has other tools for its plan")
    played = play(at, "scenario=todo please")
    if not {"TodoWrite", "TaskUpdate"} & {tool.name for tool in played.conversation[0].asked.tools}:
        pytest.skip("this version offers the model no tool for a plan")
    plans = [event.items for event in played.events if isinstance(event, PlanChanged)]
    assert [(items[0].text, items[0].status) for items in plans] == [
        ("Do the work", "pending"),
        ("Do the work", "completed"),
    ]


def test_a_sub_agent_is_no_part_of_the_reply(at: Bench) -> None:
    """What a sub-agent says is in a lane of its own, or not told at all."""
    if at.target.agent in HAS_NO_HELPERS:
        pytest.skip("it has no sub-agents")
    played = play(at, "scenario=subagent please")
    assert (played.result.outcome, played.result.reply) == ("ok", scenarios.texts("subagent")[-1])
    said = scenarios.texts("subagent")
    assert played.blocks("text")[: len(said)] == said  # claude may go on when a helper in the background is back
    assert not set(scenarios.texts("helper")) & set(played.blocks("text"))
    assert len([request for request in played.requests if request.scenario == "helper"]) >= 2


def test_the_limit_of_tokens(at: Bench) -> None:
    """A reply that was cut off is kept, and is an error on each route that tells it."""
    if at.target.agent in GOES_ON:
        pytest.skip("it asks for the rest, and the model of this test never gives it")
    played = play(at, "scenario=maxtok please")
    assert played.result.reply.startswith(scenarios.texts("maxtok")[0])
    if str(at.target) in SAYS_NO_LIMIT:
        assert played.result.outcome == "ok"
        return
    failed(played)
    assert SAYS_LIMIT.get(str(at.target), SAYS_LIMIT.get(at.target.agent, "?")) in str(played.result.reason)


def test_a_reply_that_goes_on_after_the_limit(at: Bench) -> None:
    """The text is one, even where the limit came in the middle of a word."""
    if at.target.agent not in ("claude", *GOES_ON):
        pytest.skip("it does not go on by itself, or its wire does not say that it does")
    played = play(at, "scenario=goeson please")
    assert (played.result.outcome, played.result.reply) == ("ok", "".join(scenarios.texts("goeson")))


def test_live(at: Bench) -> None:
    """Text is seen while the model still writes: it goes on only when the test has seen its beginning."""
    server, seen = at.server, ""

    def heed(run: object, event: Event) -> None:
        nonlocal seen
        if isinstance(event, Delta) and event.kind == "text" and not server.gate.is_set():
            seen += event.text
            if seen == scenarios.FIRST_HALF:
                server.gate.set()

    server.close_gate()
    if not route(at).live:
        when_at_the_gate(at, server.gate.set)
    played = play(at, "scenario=slow please", heed=heed)
    assert not server.timed_out
    assert played.result.reply == scenarios.FIRST_HALF + scenarios.SECOND_HALF
    assert seen == (scenarios.FIRST_HALF if route(at).live else "")


def test_model(at: Bench) -> None:
    """The model that is asked for is the one that the server is asked for."""
    setup = at.target.setup
    played = play(at, "scenario=text please", model=setup.model)
    assert {request.asked.model for request in played.conversation} == {setup.arrives or setup.model}


@pytest.mark.parametrize("prompt", AWKWARD.values(), ids=AWKWARD)
def test_awkward_prompts(at: Bench, prompt: str) -> None:
    """A prompt arrives as it is, whatever it looks like; one that is too long is refused in clear words."""
    huge = len(prompt) > 100_000
    if huge and str(at.target) in TAKES_ARGUMENTS:
        with pytest.raises(UsageError, match="bytes"):
            started(at, prompt)
        return
    played = play(at, prompt)
    if huge and at.target.agent in WINDOW:
        failed(played)
        assert WINDOW[at.target.agent] in str(played.result.reason)
        return
    assert played.result.reply == scenarios.MARKDOWN
    arrived = prompt.strip()[-1000:] if huge and at.target.agent in SHORTENS else prompt.strip()
    assert any(arrived in said for said in played.conversation[0].prompts)


def test_text_beside_the_prompt(at: Bench) -> None:
    """The model is asked with both, and the agent does not add or drop a line."""
    played = play(at, "look at this", stdin_text="größe\n\n  scenario=text\n")
    assert played.result.reply == scenarios.MARKDOWN
    whole = "look at this\n\n<stdin>\ngröße\n\n  scenario=text\n</stdin>"
    assert any(whole in said for said in played.conversation[0].prompts)


def test_resume(at: Bench) -> None:
    """A second run goes on with the conversation of the first: the model sees both prompts."""
    first = play(at, "scenario=text please")
    if not route(at).resume:
        with pytest.raises(UsageError):
            started(at, "scenario=history please", session_id="some-session")
        return
    if str(at.target) in LOSES_YOUNG_SESSIONS:
        time.sleep(61 - time.time() % 60)
    second = play(at, "scenario=history please", session_id=first.result.session_id)
    for _ in range(3):
        if not (str(at.target) in SAVES_LATE and second.result.outcome == "error" and not second.requests):
            break  # the model was asked: the session was there
        first = play(at, "scenario=text please")
        second = play(at, "scenario=history please", session_id=first.result.session_id)
    assert second.result.reply == scenarios.history(["text", "history"])
    assert second.blocks("text") == [second.result.reply]
    assert second.result.session_id == first.result.session_id
    for one in (first, second):  # a total of the session would count the first run again in the second one
        usage, calls = one.result.usage, {len(one.requests), len(one.conversation)}  # some agents count titles too
        if usage is not None:
            assert usage.output_tokens in {None, *(OUTPUT_TOKENS * number for number in calls)}


def test_fork(at: Bench) -> None:
    """A fork has a new session id and the history; the conversation that was forked has nothing of it."""
    if not route(at).fork:
        with pytest.raises(UsageError):
            started(at, "scenario=history please", session_id="some-session", fork=True)
        return
    first = play(at, "scenario=text please")
    session = first.result.session_id
    fork = play(at, "scenario=history please", session_id=session, fork=True)
    assert fork.result.session_id not in (None, session)
    assert fork.result.reply == scenarios.history(["text", "history"])
    again = play(at, "scenario=history please", session_id=session)
    assert again.result.reply == scenarios.history(["text", "history"])


def failed(played: Played) -> None:
    """The run ended as an error, with a reason, and `check` says so."""
    assert played.result.outcome == "error"
    assert played.result.reason
    with pytest.raises(AgentFailed):
        played.run.check()


def test_refused(at: Bench) -> None:
    """A server that refuses the key makes an error of the run, with the server's words as its reason."""
    played = play(at, "scenario=err401 please")
    failed(played)
    assert played.result.cause in ("auth", None)
    if str(at.target) in HIDES_REFUSAL:
        assert "Authentication required" in str(played.result.reason)
        return
    if at.target.agent in SAYS_REFUSAL:
        assert SAYS_REFUSAL[at.target.agent] in str(played.result.reason)
        return
    assert "401" in str(played.result.reason) or "not good enough" in str(played.result.reason)


def test_broken_server(at: Bench) -> None:
    """A server that fails makes an error of the run, unless the agent keeps on asking: then the time limit ends it."""
    if at.target.agent in RETRIES_FOR_LONG:
        played = play(at, "scenario=err500 please", timeout=8)
        assert played.result.outcome == "timed_out"
        return
    failed(play(at, "scenario=err500 please"))


def test_error_in_mid_stream(at: Bench) -> None:
    """A stream that breaks off is an error of the run, and what was said before it is not lost."""
    text = scenarios.texts("errstream")[0]
    long = at.target.agent in RETRIES_FOR_LONG
    played = play(at, "scenario=errstream please", timeout=STARTED_SECONDS if long else playing.SECONDS)
    assert played.result.outcome in (("error", "timed_out") if long else ("error",))
    if route(at).live:
        assert played.live.startswith(text) or (str(at.target) in REPEATS_ATTEMPTS and text in played.live)


def stopped_in_mid_stream(at: Bench, stop: Callable[[Run], None]) -> Played:
    """A run that `stop` ends when the model has said its first half."""
    server = at.server
    server.close_gate()
    done = threading.Event()

    def once(run: Run) -> None:
        if not done.is_set():
            done.set()
            stop(run)

    seen: list[str] = []

    def heed(run: Run, event: Event) -> None:
        if isinstance(event, Delta) and event.kind == "text":
            seen.append(event.text)
            if "".join(seen) == scenarios.FIRST_HALF:
                once(run)
        elif not route(at).live and len(seen) == 0:
            seen.append("")
            when_at_the_gate(at, lambda: once(run))

    played = play(at, "scenario=slow please", heed=heed)
    server.gate.set()
    assert not server.timed_out
    if route(at).live:
        assert played.live == scenarios.FIRST_HALF
        assert played.result.reply in ("", scenarios.FIRST_HALF)
    return played


def test_cancel(at: Bench) -> None:
    """A cancel in mid-stream ends the run as `cancelled`, with what was said, and leaves no process."""
    played = stopped_in_mid_stream(at, lambda run: run.cancel())
    assert played.result.outcome == "cancelled"
    assert left(played.run.mark) == []


def test_killed_agent(at: Bench) -> None:
    """An agent that is killed in mid-stream ends the run as an error or cut off, with what was said."""
    played = stopped_in_mid_stream(at, lambda run: kill_agent(run.mark))
    assert played.result.outcome in ("error", "cut_off")
    assert played.result.reason


def test_questions(at: Bench) -> None:
    """An agent that asks before it writes a file is answered, and then writes it."""
    if at.target.route == "exec":
        pytest.skip("an exec route has no way to answer")
    asked = []

    def heed(run: Run, event: Event) -> None:
        if isinstance(event, QuestionAsked) and event.blocking:
            asked.append(event.id)
            run.answer(event.id, "allow")

    played = play(at, "scenario=tools please", allow="default", ask=True, heed=heed)
    assert played.result.reply == scenarios.texts("tools")[-1]
    notes_are_written(at)


def test_chunks(at: Bench) -> None:
    """`send_streaming` gives the reply in new text alone, and one final chunk with the whole."""
    speaker = agent(at.target.name, route=at.target.route, cwd=at.folder, env=at.env, timeout=playing.SECONDS)
    chunks = list(speaker.send_streaming("scenario=text please"))
    assert [chunk.is_final for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join(chunk.text for chunk in chunks) == scenarios.MARKDOWN
    assert chunks[-1].reply == scenarios.MARKDOWN
    assert len(chunks) > 10 or not route(at).live or str(at.target) in FEW_PIECES


def test_the_command_line(at: Bench) -> None:
    """`penstock run` says the same on its stdout, as text for programs, and tells by its status that all is well."""
    words = [at.target.name, "scenario=tools please", "--route", at.target.route, "--allow", "all", "--to", "ndjson"]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", *words, "--timeout", str(playing.SECONDS)],
        env=at.env | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        cwd=at.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    (at.folder / "notes.txt").unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr.decode()
    end = decode(done.stdout.splitlines()[-1])
    assert isinstance(end, RunEnded)
    assert end.reply == scenarios.texts("tools")[-1]
