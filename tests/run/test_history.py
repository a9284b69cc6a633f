"""The history of runs: lines of many writers, torn lines, the newest conversation of an agent in a directory."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.events import Event, RunEnded, RunStarted
from penstock.run import history as history_module
from penstock.run.history import FILE_NAME, History, HistoryLine, HistoryWriter, RunRecord, title_of


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A history without lines, in a directory that does not exist yet."""
    return History(tmp_path / "data")


def record(run: str, at: int = 1, **fields: Any) -> RunRecord:
    """Return a run of claude in a directory of the tests."""
    known: dict[str, Any] = {"agent": "claude", "cwd": "/project", "title": "hi"}
    return RunRecord(run=run, at=at, **known | fields)


def ended(session_id: str | None = "s1") -> list[Event]:
    """Return the events of a run that the history uses."""
    return [
        RunStarted(agent="claude", session_id=session_id, model="m"),
        RunEnded(agent="claude", outcome="ok", reply="x", rounds=1, session_id=session_id, cost_usd=0.25),
    ]


def test_a_run_has_its_lines_merged(history: History) -> None:
    """The start, the conversation and the end of a run are one record, with the time of its start."""
    recorder = HistoryWriter(history, record("a"))
    assert [run.outcome for run in history.runs()] == [None]
    recorder.apply_batch(ended())
    assert recorder.error is None
    expected = record("a", session_id="s1", model="m", outcome="ok", cost_usd=0.25)
    assert history.runs() == [expected]


def test_a_killed_run_has_its_conversation(history: History) -> None:
    """The session id is written when it is known: a run that never ends can be resumed."""
    HistoryWriter(history, record("a")).apply_batch(ended()[:1])
    newest = history.newest("claude", "/project")
    assert newest is not None
    assert (newest.session_id, newest.outcome) == ("s1", None)


def test_a_conversation_that_the_agent_does_not_know_is_left_out(history: History) -> None:
    """A failure may repeat an id that was mistyped. A conversation that began and failed later is kept."""
    failed = RunEnded(agent="claude", outcome="error", reply="", rounds=0, session_id="s1")
    HistoryWriter(history, record("a", session_id="s1")).apply_batch([failed])
    assert history.newest("claude", "/project") is None
    HistoryWriter(history, record("b", session_id="s1")).apply_batch([ended()[0], failed])
    assert [run.session_id for run in history.runs()] == [None, "s1"]


def test_only_its_owner_reads_it(history: History) -> None:
    """The file and its directory are private, whatever the umask is."""
    previous = os.umask(0)
    try:
        history.append(HistoryLine(run="a", at=1))
    finally:
        os.umask(previous)
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.path.parent.stat().st_mode) == 0o700


def test_a_torn_line_harms_no_other(history: History) -> None:
    """After a line that was cut off, the next one begins on a line of its own; what cannot be read is skipped."""
    history.append(HistoryLine(run="a", at=1, agent="claude"))
    with history.path.open("ab") as file:
        file.write(b'not json\n{"run":"b","at":\xff\n[]\n{"run":"c","at":3,"ag')
    history.append(HistoryLine(run="d", at=4, agent="codex"))
    assert [run.run for run in history.runs()] == ["a", "d"]


def test_names_that_are_not_utf_8_are_written(history: History) -> None:
    """A directory or a recording with other bytes in its name has U+FFFD in their place."""
    history.append(HistoryLine(run="a", at=1, agent="claude", cwd="/caf\udce9", recording="\udcff/r"))
    [run] = history.runs()
    assert (run.agent, run.cwd.rstrip("\ufffd"), (run.recording or "").strip("\ufffd")) == ("claude", "/caf", "/r")


def test_many_writers_at_once(history: History) -> None:
    """Lines of many writers stay whole."""
    title = "x" * 200
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: history.append(HistoryLine(run=str(number), at=number, title=title)), range(200)))
    runs = history.runs()
    assert {run.run for run in runs} == {str(number) for number in range(200)}
    assert {run.title for run in runs} == {title}


def test_a_lock_that_is_held_delays_the_line_only(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that holds the lock for ever does not stop a run."""
    import fcntl

    monkeypatch.setattr(history_module, "LOCK_SECONDS", 0.05)
    history.append(HistoryLine(run="a", at=1))
    with history.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        history.append(HistoryLine(run="b", at=2))
    assert [run.run for run in history.runs()] == ["a", "b"]


def test_the_newest_conversation(history: History, tmp_path: Path) -> None:
    """It is that of the same agent in the same directory, by its real path; runs without a session id and those of
    chats do not count."""
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    here = os.path.realpath(tmp_path / "here")
    for run in (
        record("1", session_id="old", cwd=here),
        record("2", session_id="new", cwd=here),
        record("3", session_id="other", cwd=here, agent="codex"),
        record("4", session_id="elsewhere"),
        record("5", cwd=here),
        record("6", session_id="of a chat", cwd=here, kind="chat"),
    ):
        HistoryWriter(history, run).apply_batch(ended(run.session_id))
    newest = history.newest("claude", str(tmp_path / "link"))
    assert newest is not None
    assert newest.session_id == "new"
    assert history.newest("gemini", here) is None


def test_no_history_is_empty(history: History) -> None:
    """Without a file there are no runs."""
    assert history.runs() == []
    assert history.newest("claude", "/project") is None


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """The failure is kept, and nothing is raised: a run does not depend on its history."""
    (tmp_path / "file").touch()
    recorder = HistoryWriter(History(tmp_path / "file"), record("a"))
    recorder.apply_batch(ended())
    assert isinstance(recorder.error, OSError)


def test_a_long_history_is_read_from_its_end(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest part of a large file is read; its first line may be half a line."""
    for number in range(50):
        history.append(HistoryLine(run=str(number), at=number, title="t"))
    line = len(msgspec.json.encode(HistoryLine(run="49", at=49, title="t"))) + 1
    monkeypatch.setattr(history_module, "MAX_READ_BYTES", 5 * line + line // 2)
    assert [run.run for run in history.runs()] == ["45", "46", "47", "48", "49"]


def test_a_title_is_one_short_line() -> None:
    """The beginning of the prompt, without line breaks."""
    assert title_of("fix\n the   test\t\n") == "fix the test"
    assert len(title_of("word " * 100_000)) == 200
    assert FILE_NAME.endswith(".ndjson")
