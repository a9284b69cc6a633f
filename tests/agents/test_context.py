"""How much of the model's context a run has filled, as the wires of real agents report it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import RunEnded, Stream
from penstock.agents._stream_json import _window_of

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.mark.parametrize(
    ("case", "tokens", "window"),
    [
        ("claude/thinking.nopartial", 1050, 200_000),
        ("codex-server/resume", 1011, 258_400),
        ("acp/claude-errstream", 1234, 1_000_000),
        ("codex/thinktools", None, None),
        ("opencode/thinktools", None, None),
    ],
)
def test_the_context_of_real_runs(case: str, tokens: int | None, window: int | None) -> None:
    """The figures were read by hand in the recordings; a wire without a window has none."""
    stream = Stream()
    end = [*stream.feed((RECORDINGS / case / "input.ndjson").read_bytes()), *stream.close()][-1]
    assert isinstance(end, RunEnded)
    assert (end.context_tokens, end.context_window) == (tokens, window)


@pytest.mark.parametrize(
    ("models", "model", "window"),
    [
        ({"a": 10}, "a-20260101", 10),
        ({"a": 10, "small": 5}, "a", 10),
        ({"a[1m]": 1000, "small": 5}, "a", 1000),
        ({"a": 10, "small": 5}, "b", None),
        ({"a": 10, "small": 10}, None, 10),
        ({}, "a", None),
        (["a"], "a", None),
        ({"a": "10"}, "a", None),
    ],
)
def test_the_window_is_that_of_the_model_that_answered(models: object, model: str | None, window: int | None) -> None:
    """Claude Code names the windows of all models of a run, also those of its sub-agents."""
    figures = {k: {"contextWindow": v} for k, v in models.items()} if isinstance(models, dict) else models
    assert _window_of(figures, model) == window
