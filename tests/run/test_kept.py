"""Recordings that Penstock keeps by itself: their limits, their removal, and what is never removed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.run import kept
from penstock.run.kept import Keeper
from penstock.run.recording import DisplayFacts, RecordingWriter, read_meta

LAUNCH: Any = SimpleNamespace(
    reader=SimpleNamespace(name="claude"),
    label="claude",
    route="exec",
    command=SimpleNamespace(argv=["claude", "--api-key=topsecret1"]),
    cwd="/p",
    secrets=(),
)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    """A keeper of a data directory that does not exist yet."""
    return Keeper(tmp_path / "data", 14)


def begun(keeper: Keeper) -> RecordingWriter:
    """A recording that has begun."""
    writer = keeper.begin(LAUNCH, DisplayFacts(permission="asks"))
    assert writer is not None
    return writer


def stored(keeper: Keeper, days_ago: float, size: int = 10) -> Path:
    """A recording that ended some days ago."""
    writer = begun(keeper)
    writer.received(b"x" * (size - 1) + b"\n", 0)
    writer.end(outcome="ok", reason=None, exit_status=0, duration_ms=1)
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - days_ago * 86_400))
    label, _, digits = writer.folder.name.split("-")
    return writer.folder.rename(writer.folder.with_name(f"{label}-{at}-{digits}"))


def test_a_kept_recording_is_private_and_without_secrets(keeper: Keeper) -> None:
    """The first one makes the directory, which only its owner reads."""
    writer = begun(keeper)
    assert keeper.is_new
    assert [path.stat().st_mode & 0o777 for path in (keeper.directory, writer.folder)] == [0o700, 0o700]
    assert {path.stat().st_mode & 0o777 for path in writer.folder.iterdir()} == {0o600}
    meta = read_meta(writer.folder)
    assert meta is not None
    assert meta.argv == ["claude", "--api-key=[redacted]"]
    assert meta.display == DisplayFacts(permission="asks")
    again = Keeper(keeper.directory.parent, 14)
    keeper.directory.chmod(0o755)
    begun(again)
    assert not again.is_new
    assert keeper.directory.stat().st_mode & 0o777 == 0o700


def test_old_recordings_are_removed(keeper: Keeper) -> None:
    """By the time in their names."""
    old, young = stored(keeper, 14.1), stored(keeper, 13.9)
    assert keeper.sweep().runs == 1
    assert (old.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 4000), ("MAX_RUNS", 2)])
def test_the_oldest_are_removed_beyond_the_limits(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Of bytes and of runs."""
    monkeypatch.setattr(kept, "MAX_RUN_BYTES", 1000)
    monkeypatch.setattr(kept, limit, value)
    folders = [stored(keeper, days, 1000) for days in (4, 3, 2, 1)]
    keeper.sweep()
    assert [folder.exists() for folder in folders] == [False, False, True, True]


def test_a_recording_that_is_being_written_stays(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the limits are, until its writer is closed, as it is when a process is killed."""
    monkeypatch.setattr(kept, "MAX_RUNS", 0)
    writer = begun(keeper)
    other = Keeper(keeper.directory.parent, 14)
    done = other.sweep()
    assert (done.runs, done.in_use, writer.folder.exists()) == (0, 1, True)
    writer.close()
    assert other.sweep().runs == 1
    assert not writer.folder.exists()


def test_nothing_of_others_is_removed(keeper: Keeper, tmp_path: Path) -> None:
    """Not a folder of another name, one with another file in it, a link, or what a link names."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "input.ndjson").write_text("mine")
    with_note, with_link = stored(keeper, 30), stored(keeper, 31)
    (with_note / "notes.txt").write_text("mine")
    (with_link / "stderr").symlink_to(mine / "input.ndjson")
    named = keeper.directory / "my-runs"
    named.mkdir()
    link = keeper.directory / "claude-20200101T000000Z-00000000"
    link.symlink_to(mine)
    assert keeper.sweep().runs == 0
    assert sorted(path.name for path in with_note.iterdir()) == ["input.ndjson", "meta.json", "notes.txt", "times"]
    assert (with_link / "stderr").is_symlink()
    assert (mine / "input.ndjson").read_text() == "mine"
    assert named.exists()
    assert link.is_symlink()


def test_a_directory_behind_a_link_is_not_used(keeper: Keeper, tmp_path: Path) -> None:
    """Neither to write in it nor to remove anything."""
    other = tmp_path / "other"
    old = stored(Keeper(other, 14), 30)
    keeper.directory.parent.mkdir()
    keeper.directory.symlink_to(other / kept.FOLDER_NAME)
    assert keeper.begin(LAUNCH, DisplayFacts()) is None
    assert keeper.over() is not None
    with pytest.raises(OSError, match=r".*"):
        keeper.sweep()
    assert old.exists()


def test_a_long_run_is_kept_in_part(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to its last complete line."""
    monkeypatch.setattr(kept, "MAX_RUN_BYTES", 10)
    writer = begun(keeper)
    writer.received(b"12345\n123", 0)
    writer.received(b"45\n", 0)
    writer.end(outcome="ok", reason=None, exit_status=0, duration_ms=1)
    assert (writer.folder / "input.ndjson").read_bytes() == b"12345\n"
    assert "a run may have 10 bytes" in str(keeper.over())


def test_a_directory_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    """It is a reason to report, and no error."""
    (tmp_path / "data").write_text("a file")
    keeper = Keeper(tmp_path / "data", 14)
    assert keeper.begin(LAUNCH, DisplayFacts()) is None
    assert str(tmp_path / "data") in str(keeper.over())


def test_two_keepers_sweep_at_once(keeper: Keeper) -> None:
    """What one has removed is nothing to the other."""
    for _ in range(20):
        stored(keeper, 20)
    found = list(keeper.recordings())
    assert keeper.remove(found[:10]).runs == 10
    done = Keeper(keeper.directory.parent, 14).remove(found)
    assert (done.runs, done.in_use) == (10, 0)
    assert os.listdir(keeper.directory) == []
