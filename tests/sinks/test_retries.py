"""Retries in the recordings, as the terminal shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.events import Notice
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording


UNNUMBERED = {"acp/vibe-errstream", "acp/vibe-maxtok", "qwen-0.24.4/goeson", "qwen-0.24.4/cutcalls"}
"""Recordings of agents that begin again after an error, or at the limit of tokens, and report no number."""


def test_retries_of_the_recordings_show_what_is_known(recordings: list[Recording]) -> None:
    """Each retry has its attempt, and the number of attempts and the wait if the agent reports them."""
    agents = set()
    for recording in recordings:
        if recording.name in UNNUMBERED:
            continue
        events = feeds.whole(Stream(recording.agent), recording.data)
        retries = [event for event in events if isinstance(event, Notice) and event.code == "retry"]
        for retry in retries:
            agents.add(recording.agent)
            sink = TextSink(mode="none")
            shown = sink.render([retry]) + sink.close()
            most = f" of {retry.max_attempts}" if retry.max_attempts is not None else ""
            wait = ", in " if retry.wait_ms is not None else ": "
            assert f"! retry {retry.attempt}{most}{wait}" in shown, recording.name
    assert agents >= {"claude", "codex", "codex/server", "opencode/server", "pi", "copilot"}
