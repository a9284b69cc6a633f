"""D8: `penstock doc watch` answers once for each line `/send`, and never itself."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from waiting import until

from penstock.doc.opened import hash_of
from penstock.doc.watch import MAX_UNCHANGED_RUNS, QUIET_SECONDS, WatchedDocument, watch

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pathlib import Path

    from doc.conftest import Desk


class Times:
    """A clock that each sleep moves; at its times a user saves the document."""

    def __init__(self, file: Path, saves: dict[float, str], end: float) -> None:
        self.now = 0.0
        self.submitted: list[tuple[float, str]] = []
        self._file = file
        self._saves = saves
        self._end = end
        self.replies: list[str] = []
        """Texts that are published, one for each submission; without one the agent fails."""
        self.asked = "a question"

    def sleep(self, seconds: float) -> None:
        """Go on, and save what is to be saved by then."""
        self.now += seconds
        for at in [at for at in self._saves if at <= self.now]:
            self._file.write_text(self._saves.pop(at), "utf-8")

    def submit(self, document: WatchedDocument) -> bool:
        """Publish the next reply, as a command would."""
        self.submitted.append((self.now, self._file.read_text("utf-8")))
        if self.replies:
            text = self.replies.pop(0)
            self._file.write_text(text, "utf-8")
            document.published(self.asked, hash_of(text))
        return self.now < self._end

    def watch(self) -> WatchedDocument:
        """Watch the document until the end, and return it."""
        document = WatchedDocument(self._file)
        ends = WatchedDocument(self._file.with_name("end.md"))

        def sleep(seconds: float) -> None:
            self.sleep(seconds)
            if self.now >= self._end:
                ends.stopped = document.stopped = True

        watch([document, ends], self.submit, clock=lambda: self.now, sleep=sleep)
        return document


def test_an_editor_that_saves_every_second(tmp_path: Path) -> None:
    """While the user types nothing is submitted; after the line /send and a pause it is, once."""
    saves = {float(second): f"typing {'x' * second}\n" for second in range(10)}
    saves[10.0] = "typed\n/send\n"
    times = Times(tmp_path / "notes.md", saves, end=30.0)
    times.replies = ["typed\nanswered\n"]
    times.watch()
    [(at, text)] = times.submitted
    assert text == "typed\n/send\n"
    assert 10.0 + QUIET_SECONDS <= at <= 10.0 + QUIET_SECONDS + 0.5


def test_own_writes_are_known(tmp_path: Path) -> None:
    """A published text that ends with /send itself is not submitted, nor is a text whose agent failed."""
    times = Times(tmp_path / "notes.md", {0.25: "a\n/send\n"}, end=30.0)
    times.replies = ["a\n/send\n/send\n"]
    times.watch()
    assert len(times.submitted) == 1
    failing = Times(tmp_path / "other.md", {0.25: "a\n/send\n", 10.0: "b\n/send\n"}, end=30.0)
    failing.watch()
    assert [text for _, text in failing.submitted] == ["a\n/send\n", "b\n/send\n"]


def test_a_loop_is_stopped(tmp_path: Path) -> None:
    """A program that adds /send to each reply gets three answers, and the document is not watched any more."""
    saves = {5.0 * number: f"{'reply ' * number}\n/send\n" for number in range(1, 10)}
    times = Times(tmp_path / "notes.md", saves, end=100.0)
    times.replies = [f"{number}\n" for number in range(9)]
    document = times.watch()
    assert document.stopped
    assert len(times.submitted) == MAX_UNCHANGED_RUNS


def test_watching_a_document(desk: Desk) -> None:
    """One answer for /send, which the publish removes; a second watch is refused, a command beside it is not."""
    file = desk.write("notes.md", "# Notes\n\n## User\n\nnot yet\n")
    process = desk.start("watch", "notes.md", "--agent", "scripted")
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("penstock: watching notes.md")
        second = desk.doc("watch", "notes.md", "--agent", "scripted")
        assert (second.returncode, "is watched by another process" in second.stderr) == (2, True)
        assert desk.asked == []
        desk.write("notes.md", "# Notes\n\n## User\n\nnow\n/send\n")
        text = until(lambda: (text := file.read_text("utf-8")) and "Reply 1." in text and text)
        assert "/send" not in text
        assert desk.doc("notes.md").returncode in (0, 2)  # nothing new, or the watch is just ending its publish
        desk.write("notes.md", text + "more\n/send\n")
        until(lambda: "Reply 2." in file.read_text("utf-8"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert len(desk.asked) == 2
    assert "/send" not in desk.asked[1]["prompt"]
