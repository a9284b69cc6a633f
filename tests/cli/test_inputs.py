"""Bytes out of pipes and files: order, bounds, following, and the pace of a replay."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from penstock.cli import sources
from penstock.cli.sources import Inbox, chunks, labels, open_sources
from penstock.errors import UsageError
from penstock.run.read_sizes import READ_BYTES
from penstock.run.replay import read_times, replay


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a.ndjson", "x/b.json"], ["a", "b"]),
        (["claude/text.ndjson", "pi/text.ndjson"], ["claude/text", "pi/text"]),
        (["x/a/t.ndjson", "y/a/t.ndjson"], ["x/a/t", "y/a/t"]),
        (["r/x/a/t.ndjson", "r/y/a/t.ndjson"], ["x/a/t", "y/a/t"]),
        (["r/claude/tools/input.ndjson", "r/codex/tools/input.ndjson"], ["claude/tools", "codex/tools"]),
        (["r/one/input.ndjson", "r/two/input.ndjson"], ["one", "two"]),
        (["input.ndjson", "r/two/input.ndjson"], ["input", "two/input"]),
        (["/input", "input"], ["/input", "input"]),
        (["a", "a"], ["a", "a"]),
        (["-", "run.ndjson", "/dev/fd/63"], [None, "run", None]),
    ],
)
def test_labels(names: list[str], told: list[str | None]) -> None:
    """Inputs are called by the shortest part of their path that tells them apart."""
    assert labels(names) == told


def test_files_come_one_after_another(tmp_path: Path) -> None:
    """Files are read whole, in their order, without a stamp of time."""
    names = [str(tmp_path / name) for name in ("a", "b")]
    Path(names[0]).write_bytes(b"x" * (READ_BYTES + 1))
    Path(names[1]).write_bytes(b"")
    found = list(chunks(open_sources(names)))
    assert [(number, len(data or b""), at) for number, data, at in found] == [
        (0, READ_BYTES, None),
        (0, 1, None),
        (0, None or 0, None),
        (1, 0, None),
    ]
    assert [data for _, data, _ in found if data is None] == [None, None]


def test_a_pipe_is_stamped_and_ends(tmp_path: Path) -> None:
    """Bytes of a pipe arrive whole, with the milliseconds since the start, and then its end."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(b"one\ntwo\n"))
    writer.start()
    found = list(chunks(open_sources([str(fifo)])))
    writer.join()
    assert b"".join(data or b"" for _, data, _ in found) == b"one\ntwo\n"
    assert found[-1][1] is None
    assert all(at is not None and at >= 0 for _, _, at in found)


def test_one_bad_name_and_nothing_is_read(tmp_path: Path) -> None:
    """Inputs are opened before the first is read, so a slip costs no half output."""
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(UsageError, match="cannot open"):
        open_sources([str(tmp_path / "a"), str(tmp_path / "b")])


def test_the_inbox_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its limit the inbox waits until something is taken, and keeps the order."""
    inbox = Inbox(limit=4)
    taken = []
    # In place of another thread: whoever waits for room finds that a chunk was taken.
    monkeypatch.setattr(inbox._changed, "wait", lambda: taken.append(inbox.take()[1]))
    for data in (b"aaa", b"bbb", b"ccc"):
        inbox.put(0, data, stamped=False)
    assert taken == [b"aaa"]
    assert [inbox.take()[1], inbox.take()[1]] == [b"bbb", b"ccc"]


def test_a_followed_file_grows_and_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added is read, a file begun again is read from its start, and a run that replied is over when quiet."""
    file = tmp_path / "run.ndjson"
    file.write_bytes(b"one\n")
    (source,) = open_sources([str(file)], follow=True)

    def first() -> None:
        with file.open("ab") as handle:
            handle.write(b"two\n")

    def then() -> None:
        file.write_bytes(b"new\n")
        source.replied = True

    steps = [first, then]
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if steps:
            steps.pop(0)()

    monkeypatch.setattr(time, "sleep", nap)
    assert [data for _, data, _ in chunks([source])] == [b"one\n", b"two\n", b"new\n", None]
    assert sum(naps[2:]) == pytest.approx(sources.FOLLOW_QUIET_SECONDS, abs=sources.FOLLOW_POLL_SECONDS)


class Clock:
    """Time that passes only while someone sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Seconds, as of a clock."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let it pass."""
        self.now += seconds


@pytest.mark.parametrize("name", ["run.times", "run.ndjson.times", "times"])
def test_the_pace_of_a_replay(tmp_path: Path, name: str) -> None:
    """Each line comes at its time, divided by the speed; lines without a time of their own follow at once."""
    file = tmp_path / "run.ndjson"
    file.write_bytes(b"a\nb\nc\nd")
    (tmp_path / name).write_text("0.5\n1.0\n3\n")
    clock = Clock()
    found = [(line, at, clock.now) for line, at in replay(file, 2.0, clock=clock, sleep=clock.sleep)]
    assert found == [(b"a\n", 500, 100.25), (b"b\n", 1000, 100.5), (b"c\n", 3000, 101.5), (b"d", 3000, 101.5)]


def test_a_replay_without_times(tmp_path: Path) -> None:
    """Where no times are known all lines come at once, unstamped."""
    file = tmp_path / "run.ndjson"
    file.write_bytes(b"a\nb\n")
    clock = Clock()
    assert list(replay(file, clock=clock, sleep=clock.sleep)) == [(b"a\n", None), (b"b\n", None)]
    assert clock.now == 100.0


@pytest.mark.parametrize("line", ["soon", "nan", "-1", "inf", "1795230048.6"])
def test_times_that_are_none(tmp_path: Path, line: str) -> None:
    """A line of the times that is no time is named with file and line."""
    (tmp_path / "run.times").write_text(f"0.1\n{line}\n")
    with pytest.raises(UsageError, match=r"run\.times:2: .* is not a time; expected seconds"):
        read_times(tmp_path / "run.ndjson")
