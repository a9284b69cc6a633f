"""Publish of a reply into a document: what is there at each step, and saves that come between."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.doc import publish as module
from penstock.doc.exchange import exchange
from penstock.doc.publish import Published, PublishError, check_publishable, publish
from penstock.doc.state import DocumentState, Pending
from penstock.errors import UsageError

REPLY = "## Assistant\n\nThe answer.\n"
LATE_SECONDS = 0.01


def prepare(now: str, _pending: Pending) -> str:
    """Put the reply at the end, unless it is there."""
    return now if REPLY in now else now + REPLY


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DocumentState]:
    """The state of a document, whose lock is held."""
    monkeypatch.setattr(module, "LATE_SECONDS", LATE_SECONDS)
    state = DocumentState(tmp_path / "data", "an-id")
    with state.lock():
        yield state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document."""
    path = tmp_path / "notes.md"
    path.write_text("Hello\n")
    return path


def published(path: Path, state: DocumentState) -> Published:
    """Publish the reply into a file."""
    base = path.read_bytes().decode()
    state.write_pending(Pending(id="r1", path=str(path), base=base, reply=REPLY, snapshot=base + REPLY))
    return publish(path, prepare, state)


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    """A document whose path cannot be kept is an error before an agent starts, also if only its directory is so."""
    folder = tmp_path / os.fsdecode(b"n\xff")
    folder.mkdir()
    for path in (folder / "notes.md", tmp_path / os.fsdecode(b"n\xff.md")):
        path.write_text("Hello\n")
        with pytest.raises(UsageError, match="is not UTF-8"):
            check_publishable(path)
    link = tmp_path / "link.md"
    link.symlink_to(folder / "notes.md")
    with pytest.raises(UsageError, match="is not UTF-8"):
        check_publishable(link)


def before_exchanges(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
    """Do something right before the first exchanges, one action before each."""
    left = list(actions)

    def act_and_exchange(first: Path, second: Path) -> None:
        if left:
            left.pop(0)()
        exchange(first, second)

    monkeypatch.setattr(module, "exchange", act_and_exchange)


def in_first_pause(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Do something in the pause after the first exchange."""
    left = [action]
    sleep = time.sleep

    def act_and_sleep(seconds: float) -> None:
        if seconds == LATE_SECONDS and left:
            left.pop()()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", act_and_sleep)


def save(path: Path, text: str) -> None:
    """Save as most editors do: by a rename."""
    temporary = path.with_name("editor")
    temporary.write_text(text)
    temporary.replace(path)


def test_a_reply_is_published(path: Path, state: DocumentState) -> None:
    """The document has the reply, nothing is pending, and no temporary file is left."""
    inode = path.stat().st_ino
    result = published(path, state)
    assert path.read_text() == result.text == f"Hello\n{REPLY}"
    assert (result.method, result.notes) == ("exchange", ())
    assert path.stat().st_ino != inode
    assert state.pending() is None
    assert state.snapshot == f"Hello\n{REPLY}"
    assert state.backup.read_text() == "Hello\n"
    assert sorted(os.listdir(path.parent)) == ["data", "notes.md"]


def test_a_save_in_two_parts_is_read_when_it_is_whole(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that differs between two reads is read again, so that the exchange meets no half save."""
    left = [lambda: path.write_text("Hello, wor"), lambda: path.write_text("Hello, world\n")]
    sleep = time.sleep

    def act_and_sleep(seconds: float) -> None:
        if seconds == module.SETTLE_SECONDS and left:
            left.pop(0)()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", act_and_sleep)
    exchanges: list[str] = []
    before_exchanges(monkeypatch, lambda: exchanges.append(path.read_text()))
    result = published(path, state)
    assert exchanges == ["Hello, world\n"]
    assert path.read_text() == result.text == f"Hello, world\n{REPLY}"


def test_the_temporary_file_is_announced_first(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the exchange `pending.json` has the temporary file, complete, and the hash of what was read."""
    found: list[bool] = []

    def look() -> None:
        pending = state.pending()
        assert pending is not None
        [attempt] = pending.attempts
        found.append(Path(attempt.new).read_text() == f"Hello\n{REPLY}")
        found.append(attempt.read == hashlib.sha256(b"Hello\n").hexdigest())
        found.append(attempt.published == hashlib.sha256(Path(attempt.new).read_bytes()).hexdigest())

    before_exchanges(monkeypatch, look)
    published(path, state)
    assert found == [True, True, True]


def test_the_reply_stays_pending_until_its_snapshot_is_kept(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pending.json` is removed last: the snapshot is there, and all temporary files are gone."""
    found: list[object] = []
    finish = state.finish_pending

    def look_and_finish() -> None:
        found.extend([state.snapshot, sorted(os.listdir(path.parent))])
        finish()

    monkeypatch.setattr(state, "finish_pending", look_and_finish)
    published(path, state)
    assert found == [f"Hello\n{REPLY}", ["data", "notes.md"]]


def test_a_save_before_the_exchange(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save between the last read and the exchange is put back, and gets the reply."""
    before_exchanges(monkeypatch, lambda: save(path, "Hello, you\n"))
    assert published(path, state).text == path.read_text() == f"Hello, you\n{REPLY}"


LEASE = """
import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR)
signal.signal(signal.SIGIO, lambda *_: sys.exit())
try:
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError:
    print("none", flush=True)
    sys.exit()
print("held", flush=True)
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux'")
def test_a_lease(path: Path, state: DocumentState) -> None:
    """A server of files, such as Samba, has one for a client that has opened the document: its end is waited for."""
    with subprocess.Popen([sys.executable, "-c", LEASE, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        held = holder.stdout.readline()
        if held != "held\n":
            pytest.skip("this file system has no leases")
        published(path, state)
        assert path.read_text() == f"Hello\n{REPLY}"


@pytest.mark.parametrize("has_writer", [False, True])
def test_a_pipe_before_the_exchange(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch, has_writer: bool
) -> None:
    """It is not waited for when it comes out, also by the next publish, which completes the reply."""
    opened: list[int] = []

    def replace() -> None:
        path.unlink()
        os.mkfifo(path)
        if has_writer:
            opened.append(os.open(path, os.O_RDWR))

    before_exchanges(monkeypatch, replace)
    errors: list[PublishError] = []

    def fail() -> None:
        try:
            published(path, state)
        except PublishError as error:
            errors.append(error)

    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    thread.join(20)
    try:
        assert ["not a regular file" in str(error) for error in errors] == [True]
        assert path.read_text() == f"Hello\n{REPLY}"
        thread = threading.Thread(target=publish, args=(path, prepare, state), daemon=True)
        thread.start()
        thread.join(20)
        assert state.pending() is None
        assert path.read_text() == f"Hello\n{REPLY}"
        assert sorted(os.listdir(path.parent)) == ["data", "notes.md"]
    finally:
        for fd in opened:
            os.close(fd)


def test_a_save_before_the_exchange_back(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that is made from our text while an older one is put back becomes the document, with the older one."""
    before_exchanges(
        monkeypatch,
        lambda: save(path, "Hello\nfirst\n"),
        lambda: save(path, path.read_text() + "second\n"),
    )
    assert published(path, state).text == path.read_text() == f"Hello\nfirst\n{REPLY}second\n"


def test_a_save_of_a_text_that_was_taken_back(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that read our text just before a save was put back lacks that save, which is merged again."""
    ours: list[str] = []
    before_exchanges(
        monkeypatch,
        lambda: save(path, "Hello\nfirst\n"),
        lambda: ours.append(path.read_text()),
        lambda: save(path, ours[0] + "second\n"),
    )
    published(path, state)
    assert sorted(path.read_text().splitlines()) == sorted(f"Hello\nfirst\n{REPLY}second\n".splitlines())
    assert REPLY in path.read_text()


def test_a_late_save(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save through a handle from before the exchange replaces the old text below the reply."""
    with path.open("r+") as handle:

        def save_late() -> None:
            handle.write("Hello, late\n")
            handle.flush()

        in_first_pause(monkeypatch, save_late)
        published(path, state)
    assert path.read_text() == f"Hello, late\n{REPLY}"


def test_a_late_save_and_another(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late save is merged into a document that another save has changed already."""
    with path.open("r+") as handle:

        def save_late_and_again() -> None:
            handle.write("Hello\nlate\n")
            handle.flush()
            save(path, f"{path.read_text()}new\n")

        in_first_pause(monkeypatch, save_late_and_again)
        published(path, state)
    assert path.read_text() == f"Hello\nlate\n{REPLY}new\n"


def test_a_half_of_a_save_is_taken_for_the_document(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that is slow to write what has the reply, and another save meanwhile: the reply is there once."""
    sleep, pauses, whole = time.sleep, iter(range(1_000_000)), f"Hello\n{REPLY}slow\n"
    handle = path.open("a")  # replaced in the first pause

    def act_and_sleep(seconds: float) -> None:
        nonlocal handle
        if seconds == LATE_SECONDS and (pause := next(pauses)) < 2:
            if pause == 0:
                handle.close()
                handle = path.open("w")
                handle.write(whole[:20])
                handle.flush()
            else:
                assert path.read_text() == whole[:20] + REPLY
                handle.write(whole[20:])
                handle.close()
                save(path, f"{path.read_text()}new\n")
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", act_and_sleep)
    published(path, state)
    assert path.read_text() == f"Hello\n{REPLY}new\nslow\n"


def test_an_old_text_saved_over_the_reply(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that saves its old text during the pause gets the reply again."""
    in_first_pause(monkeypatch, lambda: save(path, "Hello, old\n"))
    published(path, state)
    assert path.read_text() == f"Hello, old\n{REPLY}"


def test_saves_without_an_end(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that saves before each exchange ends the publish with an error; the next publish completes it."""
    number = iter(range(1_000_000))
    with monkeypatch.context() as context:
        context.setattr(module, "MAX_ATTEMPTS", 5)
        before_exchanges(context, *[lambda: save(path, f"Hello\n{next(number)}\n")] * 1000)
        with pytest.raises(PublishError, match=r"do not stop saving.*penstock doc recover"):
            published(path, state)
    assert state.pending() is not None
    text = path.read_text()
    assert publish(path, prepare, state).text == path.read_text()
    assert path.read_text().count(REPLY) == 1
    assert set(text.splitlines()) <= set(path.read_text().splitlines())
    assert sorted(os.listdir(path.parent)) == ["data", "notes.md"]


def test_late_saves_without_an_end(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that saves after each exchange ends the publish with an error too; the next publish completes it."""
    number, sleep = iter(range(1_000_000)), time.sleep

    def save_and_sleep(seconds: float) -> None:
        if seconds == LATE_SECONDS:
            save(path, f"Hello\n{next(number)}\n")
        sleep(0 if seconds == LATE_SECONDS else seconds)

    with monkeypatch.context() as context:
        context.setattr(module, "MAX_ROUNDS", 3)
        context.setattr(time, "sleep", save_and_sleep)
        with pytest.raises(PublishError, match=r"do not stop writing.*penstock doc recover"):
            published(path, state)
    assert next(number) == 3
    assert state.pending() is not None
    publish(path, prepare, state)
    assert path.read_text() == f"Hello\n2\n{REPLY}"


def test_a_document_that_is_empty_for_a_moment(
    path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that empties the file before it writes is waited for, however often the file is read meanwhile."""
    monkeypatch.setattr(module, "MAX_UNSETTLED_SECONDS", 60)
    monkeypatch.setattr(module, "MAX_EMPTY_SECONDS", 50)
    path.write_text("")
    sleep, looks = time.sleep, iter(range(1_000_000))

    def write_and_sleep(seconds: float) -> None:
        if seconds == module.SETTLE_SECONDS and next(looks) == 4:
            path.write_text("Hello\n")
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", write_and_sleep)
    published(path, state)
    assert path.read_text() == f"Hello\n{REPLY}"


def test_a_document_that_was_deleted(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply stays pending, and is published once the document is back."""
    monkeypatch.setattr(module, "MAX_UNSETTLED_SECONDS", 0.01)
    before_exchanges(monkeypatch, path.unlink)
    with pytest.raises(PublishError, match="no longer exists"):
        published(path, state)
    path.write_text("Back\n")
    assert publish(path, prepare, state).text == f"Back\n{REPLY}"


def test_a_document_that_was_renamed(path: Path, state: DocumentState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pending reply is published to the new path, and the temporary file at the old one is removed."""
    with monkeypatch.context() as context:
        context.setattr(state, "finish_pending", lambda: 1 / 0)
        before_exchanges(context, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            published(path, state)
    assert len(os.listdir(path.parent)) == 3
    renamed = path.rename(path.with_name("renamed.md"))
    publish(renamed, prepare, state)
    assert renamed.read_text() == f"Hello\n{REPLY}"
    assert sorted(os.listdir(path.parent)) == ["data", "renamed.md"]
