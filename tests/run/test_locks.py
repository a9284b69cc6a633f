"""Lock files: one process holds one, and others may look at it at any time."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.run import locks


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    """An open lock file that nobody holds."""
    fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    yield fd
    os.close(fd)


def test_the_holder_of_a_lock_is_known(lock: int, tmp_path: Path) -> None:
    """The file has the id of the process as long as it holds the lock; without a lock or a file there is no holder."""
    assert locks.holder(tmp_path / "lock") is None
    assert locks.holder(tmp_path / "nothing") is None
    assert locks.take(lock)
    assert locks.holder(tmp_path / "lock") == os.getpid()
    fcntl.flock(lock, fcntl.LOCK_UN)
    assert locks.holder(tmp_path / "lock") is None


def test_a_lock_that_is_held_is_not_taken(lock: int, tmp_path: Path) -> None:
    """A second process does not get the lock, and the file keeps the id of the first."""
    assert locks.take(lock)
    other = os.open(tmp_path / "lock", os.O_RDWR)
    assert not locks.take(other)
    os.close(other)
    assert locks.holder(tmp_path / "lock") == os.getpid()


def test_a_look_at_a_lock_makes_no_command_fail(lock: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is taken while another process looks at it, as soon as it has looked."""
    looking = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    tried = threading.Event()

    def look_and_yield(seconds: float) -> None:
        tried.set()
        os.sched_yield()

    monkeypatch.setattr("time.sleep", look_and_yield)
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 30.0)
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.append(locks.take(lock)))
    thread.start()
    assert tried.wait(30)
    os.close(looking)
    thread.join()
    assert taken == [True]
