"""What a newer version of an agent once broke: it is right on that version and on the one before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from penstock import events as ev
from penstock.stream import Stream

sys.path.insert(0, str(Path(__file__).parents[1] / "real"))

import scenarios  # what the model was told to say

RECORDINGS = Path(__file__).parents[1] / "recordings"
GOES_ON = "".join(scenarios.texts("goeson"))
HALF = scenarios.texts("errstream")[0]
FAILS = scenarios.texts("toolerror")[-1]
DONE = scenarios.texts("tools")[-1]
BACK = "The helper is back. FINAL-REPLY."


class Right(NamedTuple):
    """What a run must show."""

    reply: str
    outcome: str = "ok"
    cause: str | None = None
    usage: tuple[int, int] | None = None
    """Tokens of input and output; None if the wire has none."""
    made: int = 0
    """Changes of files that were made."""
    exit_codes: tuple[int | None, ...] = ()
    """Of the calls, in the order of their results."""
    plans: int = 0


def call(text: str = "", calls: int = 1, **fields: Any) -> Right:
    """A run of so many calls of the model, each of which is 1,200 tokens of input and 34 of output."""
    return Right(text, usage=(1200 * calls, 34 * calls), **fields)


AUTH, CONTEXT = Right("", "error", "auth"), Right("", "error", "context")
CUT = Right(HALF, "error", "overloaded")
FOUND: dict[str, Right] = {
    # An error of the model server became the reply, with exit status 0.
    "acp/codex-err400": CONTEXT,
    "acp/codex-err400_2": CONTEXT,
    "acp/codex-errstream": CUT,
    "acp/codex-errstream_2": CUT,
    "acp/codex-maxtok_2": Right(scenarios.texts("maxtok")[0], "error", "length"),
    # Output and status of commands were lost.
    "acp/codex-toolerror": Right(FAILS, exit_codes=(3,)),
    "acp/codex-toolerror_2": call(FAILS, 2, exit_codes=(3,)),
    "acp/codex-tools": Right(DONE, made=1, exit_codes=(0, None)),
    "acp/codex-tools_2": call(DONE, 3, made=1, exit_codes=(0, None)),
    # A reply that goes on after the limit of tokens was broken in the middle of a word.
    "claude/goeson": call(GOES_ON, 2),
    "claude-2.1.332/goeson": call(GOES_ON, 2),
    "claude-server-2.1.197/goeson": call(GOES_ON, 2),
    "claude-server-2.1.332/goeson": call(GOES_ON, 2),
    "acp/claude-goeson_before": call(GOES_ON, 2),
    "acp/claude-goeson": call(GOES_ON, 2),
    # Reply, rounds and figures of a run whose sub-agent works in the background.
    "claude-2.1.331/background": call(BACK, 5, exit_codes=(None, None)),
    "claude-server-2.1.331/background": call(BACK, 5, exit_codes=(None, None)),
    "qwen-0.24.4/background": call(BACK, 5, exit_codes=(None,)),
    # An attempt that the agent threw away stayed in the reply.
    "qwen-0.24.4/goeson": call(GOES_ON, 4),
    "qwen-0.24.4/cutcalls": call(scenarios.texts("cutcalls")[-1], 3, exit_codes=(None, None)),
    "acp/vibe-maxtok": call(scenarios.texts("maxtok")[0], outcome="error", cause="length"),
    # Errors had no cause.
    "qwen/err400": call(outcome="error", cause="context"),
    "qwen-0.24.4/err400": Right("", "error", "context", (0, 0)),
    "acp/qwen-err400_before": CONTEXT,
    "acp/qwen-err400": CONTEXT,
    "qwen/errstream": Right(HALF, "error", "overloaded", (0, 0)),
    "qwen-0.24.4/errstream": Right(HALF, "error", "overloaded", (0, 0)),
    "acp/qwen-errstream_before": CUT,
    "acp/qwen-errstream": CUT,
    "acp/claude-err401_before": AUTH,
    "acp/claude-err401": AUTH,
    "acp/codex-err401": AUTH,
    "acp/codex-err401_2": AUTH,
    "acp/vibe-err401": AUTH,
    "kilo/err401": AUTH,
    # The plan of a version that has one.
    "claude/todo": call(scenarios.texts("todo")[-1], 3, exit_codes=(None, None), plans=2),
    "acp/claude-todo": call(scenarios.texts("todo")[-1], 3, plans=2),
    # A run that goes on with a session counted the runs before it.
    "acp/vibe-tools": call(DONE, 3, made=1, exit_codes=(None, None)),
    "acp/vibe-resume": call(scenarios.history(["tools", "history"])),
}
"""The recordings; those of the version before are first."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_right(name: str) -> None:
    """Reply, outcome, cause, changes, status of commands and usage; and no error is glued to the reply."""
    folder = RECORDINGS / name
    stream = Stream(msgspec.json.decode((folder / "expected.json").read_bytes())["agent"], strict=True)
    events = [*stream.feed((folder / "input.ndjson").read_bytes()), *stream.close()]
    end = events[-1]
    assert isinstance(end, ev.RunEnded)
    returned = [event for event in events if isinstance(event, ev.ToolReturned)]
    usage = None if end.usage is None else (end.usage.input_tokens, end.usage.output_tokens)
    assert FOUND[name] == Right(
        end.reply,
        end.outcome,
        end.cause,
        usage,  # type: ignore[arg-type]
        sum(len(event.changes or ()) for event in returned),
        tuple(event.exit_code for event in returned),
        sum(isinstance(event, ev.PlanChanged) for event in events),
    )
    assert stream.health.warnings == []


@pytest.mark.parametrize("agent", ["Kilo", "OpenCode", "@agentclientprotocol/claude-agent-acp", "qwen-code"])
@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("Internal error: invalid x-api-key (mock)", "auth"),
        ("Internal error: Incorrect API key provided: sk-…", "auth"),
        ("Internal error: prompt is too long: 210000 tokens > 200000 maximum", "context"),
        ("Internal error: Overloaded", "overloaded"),
    ],
)
def test_the_words_of_a_provider_have_one_cause(agent: str, words: str, cause: str) -> None:
    """Over ACP an agent may have no more of an error than these words."""
    lines = [
        {"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": agent}}},
        {"id": 1, "result": {"sessionId": "s"}},
        {"id": 2, "error": {"code": -32603, "message": words, "data": {"service": "session", "errorName": "APIError"}}},
    ]
    stream = Stream("acp")
    events = [*stream.feed(msgspec.json.Encoder().encode_lines(lines)), *stream.close()]
    end = events[-1]
    assert isinstance(end, ev.RunEnded)
    assert (end.outcome, end.cause, end.reply) == ("error", cause, "")


@pytest.mark.parametrize("name", ["pi/text", "pi-1.6.0/text"])
def test_a_line_at_the_end_of_every_run_is_known(name: str) -> None:
    """Advice to look at what is new, at the end of each run, teaches people to look away."""
    stream = Stream("pi", strict=True)
    stream.feed((RECORDINGS / name / "input.ndjson").read_bytes())
    stream.close()
    assert stream.health.drift == []


@pytest.mark.parametrize(
    ("case", "end", "returned"),
    [
        ("tools", ("ok", None, DONE), [(False, 0), (False, 1)]),
        ("toolerror", ("ok", None, FAILS), [(True, 0)]),
        (
            "edits",
            ("ok", None, "All is edited. FINAL-REPLY."),
            [*[(False, it) for it in (0, 1, 1)], (True, 0), (False, 1)],
        ),
        ("err401", ("error", "auth", ""), []),
    ],
)
def test_an_input_that_is_written_into_the_content_is_no_output(case: str, end: Any, returned: Any) -> None:
    """Kimi 2.1.0 over ACP, which Penstock runs by its command: each call has its input, and nothing is revised."""
    stream = Stream("acp")
    path = Path(__file__).parent / "foreign" / f"kimi-acp-{case}.ndjson"
    events = [*stream.feed(path.read_bytes()), *stream.close()]
    over = events[-1]
    assert isinstance(over, ev.RunEnded)
    assert (over.outcome, over.cause, over.reply) == end
    results = [event for event in events if isinstance(event, ev.ToolReturned)]
    assert [(event.is_error, len(event.changes or ())) for event in results] == returned
    calls = [event for event in events if isinstance(event, ev.ToolCalled)]
    assert len(calls) == len(results)
    assert all(isinstance(event.input, dict) for event in calls)
    assert not [event for event in events if isinstance(event, ev.BlockRevised)]
    assert stream.health.warnings == []
