"""The text of every recording without rendered Markdown, byte for byte: a change of it is one that somebody wanted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import shown_digests

if TYPE_CHECKING:
    from conftest import Recording

KNOWN: dict[str, dict[str, str]] = json.loads(shown_digests.FILE.read_text("utf-8"))


def check(recording: Recording) -> None:
    """Check the text of a recording, if its events are still those of its digests."""
    known = KNOWN.get(recording.name, {})
    found = shown_digests.digests(recording.agent, recording.data)
    if found["events"] != known.get("events"):
        return  # the recording or its adapter has changed
    changed = [look for look in found if found[look] != known.get(look)]
    assert not changed, (
        f"the text of {recording.name} has changed in {', '.join(changed)}; if it should, run: make digests"
    )


def test_the_text_is_as_before(recording: Recording) -> None:
    """In pipes at each detail, and in terminals."""
    if recording.case != "long":
        check(recording)


@pytest.mark.slow
def test_long_texts_are_as_before(recordings: list[Recording]) -> None:
    """With thousands of deltas too."""
    for recording in recordings:
        if recording.case == "long":
            check(recording)


def test_most_recordings_have_digests(recordings: list[Recording]) -> None:
    """A recording that is new has none yet; `make digests` adds it."""
    names = {it.name for it in recordings}
    assert len(names & {*KNOWN}) > 0.8 * len(names), "most recordings have no digest; run: make digests"
