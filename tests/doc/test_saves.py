"""D2: an editor that saves at random times, in three ways, while replies are published."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from effort import at_most

from penstock.doc import publish as module
from penstock.doc.publish import Prepare, PublishError, publish
from penstock.doc.state import DocumentState, Pending

SAVER = Path(__file__).parent / "programs" / "saver.py"
PUBLISHES_OF_A_DOCUMENT = 50
TIMEOUT = 60
MAX_TRIES = 5


def with_reply(reply: str) -> Prepare:
    """Return what puts a reply at the end of a text, unless it is there."""
    return lambda now, _pending: now if reply in now else now + reply


def publish_until_done(path: Path, prepare: Prepare, state: DocumentState) -> str:
    """Publish, again if the editor saved too often, and return the text."""
    for _ in range(MAX_TRIES - 1):
        with suppress(PublishError):
            return publish(path, prepare, state).text
    return publish(path, prepare, state).text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(at_most(1, 40)))
def test_d2_no_save_is_lost(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line that an editor saved is in the document once, and each reply was published once."""
    monkeypatch.setattr(module, "LATE_SECONDS", 0.03)
    path, log = tmp_path / "notes.md", tmp_path / "log"
    path.write_text("A line of the user.\n")
    state = DocumentState(tmp_path / "data", "an-id")
    saver = subprocess.Popen([sys.executable, SAVER, path, log, str(seed)], stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + TIMEOUT
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        with state.lock():
            for number in range(PUBLISHES_OF_A_DOCUMENT):
                reply = f"reply {number}\n"
                base = path.read_text()
                state.write_pending(
                    Pending(id=f"r{number}", path=str(path), base=base, reply=reply, snapshot=base + reply)
                )
                text = publish_until_done(path, with_reply(reply), state)
                assert text.count(reply) <= 1
    finally:
        saver.terminate()
        _, stderr = saver.communicate(timeout=TIMEOUT)
    assert (saver.returncode, stderr) == (0, b"")
    lines = Counter(path.read_text().splitlines())
    saved = [f"saved {number}" for number in log.read_text().split()]
    assert len(saved) > PUBLISHES_OF_A_DOCUMENT // 2
    assert [line for line in saved if lines[line] != 1] == []
    assert lines["A line of the user."] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"notes.md", "log", "data"}
