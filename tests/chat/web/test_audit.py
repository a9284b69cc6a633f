"""The record of what people did: what is written of it when its disk is full, and what a crash leaves."""

from __future__ import annotations

import asyncio
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import Gateway

from penstock.chat.people import audit
from penstock.chat.people.audit import AUDIT, LOST, Audit, records


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Let no file become larger, as on a disk that is full: the kernel writes what fits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def written(folder: Path) -> list[tuple[str, object]]:
    """The operations that the record has, in their order; of lost ones their number."""
    return [(it.what, it.details.get("count")) for it in records(folder)]


def file_in(folder: Path) -> Path:
    """The one file of a record."""
    (path,) = folder.iterdir()
    return path


def test_a_full_disk_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Records that cannot be written are counted; the log says so, and the record itself once it goes on."""
    folder = tmp_path / AUDIT
    writer = Audit(folder)
    writer.write("ana", "before")
    for left in (0, 30):  # nothing fits, or a part of a record
        with full_at(file_in(folder).stat().st_size + left):
            writer.write("ana", "one")
            writer.write("ana", "two")
        writer.write("ana", "after")
    assert written(folder) == [("before", None), (LOST, 2), ("after", None), (LOST, 2), ("after", None)]
    assert writer.lost == 4
    said = [record.message for record in caplog.records]
    assert [text for text in said if "is not recorded" in text] == said[::2]
    assert said[1::2] == ["what people do is recorded again; records that are lost: 2"] * 2


def test_requests_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a month has a limit, and what does not fit is counted."""
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 1000)
    folder = tmp_path / AUDIT
    writer = Audit(folder)
    for _ in range(100):
        writer.write("ben", "trust", status=403)
    assert file_in(folder).stat().st_size <= 1000
    assert 0 < len([*records(folder)]) == 100 - writer.lost


@pytest.mark.parametrize("sender", [None, "ben"])
def test_nobody_prevents_the_record_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sender: str | None
) -> None:
    """One who sends many requests, with or without a login, has a part of the file: the rest is for the others."""
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 10_000)
    folder = tmp_path / AUDIT
    writer = Audit(folder)
    for _ in range(200):
        writer.write(sender, "log_in", status=401)
    lost = writer.lost
    writer.write("ana", "change")
    for _ in range(10):
        writer.write("owner", "trust")
    assert lost > 100
    assert written(folder)[-12:] == [(LOST, lost), ("change", None), *[("trust", None)] * 10]


def test_the_owner_fills_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nobody else, all of it is theirs; in another month there is another file."""
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 10_000)
    now = 0.0
    writer = Audit(tmp_path / AUDIT, lambda: now)
    for _ in range(300):
        writer.write("owner", "trust")
        writer.write("ben", "change")
    assert (tmp_path / AUDIT / "1970-01.ndjson").stat().st_size > 9_900
    now = 40 * 24 * 3600
    writer.write("ben", "change")
    assert written(tmp_path / AUDIT)[-1] == ("change", None)


def test_a_record_that_is_too_large_has_no_details(tmp_path: Path) -> None:
    """A request with a list of many numbers is recorded, and its list is not."""
    writer = Audit(tmp_path / AUDIT)
    writer.write("ana", "move", details={"turns": [*range(100_000)]})
    (found,) = records(tmp_path / AUDIT)
    assert (found.what, [*found.details]) == ("move", ["too_large"])


def test_a_line_that_was_cut_off_is_ended(tmp_path: Path) -> None:
    """A server that died while it wrote leaves a part of a line: the next record does not become a part of it."""
    folder = tmp_path / AUDIT
    Audit(folder).write("ana", "one")
    path = file_in(folder)
    with open(path, "ab") as file:
        file.write(path.read_bytes()[:20])
    Audit(folder).write("ana", "two")
    assert written(folder) == [("one", None), ("two", None)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_without_an_end_is_read_in_pieces(tmp_path: Path) -> None:
    """A file that somebody has filled takes little memory, and the end of a line that is too long is no record."""
    folder = tmp_path / AUDIT
    Audit(folder).write("ana", "one")
    path = file_in(folder)
    record = path.read_bytes()
    huge = 8 * 1024 * 1024
    with open(path, "ab") as file:
        file.truncate(len(record) + huge)
        file.write(record.replace(b"one", b"planted"))
    Audit(folder).write("ana", "two")
    with open(path, "ab") as file:
        file.truncate(path.stat().st_size + huge)  # and this one has no end at all
    tracemalloc.start()
    try:
        assert written(folder) == [("one", None), ("two", None)]
        assert tracemalloc.get_traced_memory()[1] < huge / 8
    finally:
        tracemalloc.stop()


def test_many_wait_for_one_write_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is on the disk when `settle` returns; requests that come meanwhile share the next write."""
    written: list[bytes] = []
    fsync = audit._fsync

    def noted(path: Path) -> None:
        content = path.read_bytes()
        fsync(path)
        written.append(content)

    monkeypatch.setattr(audit, "_fsync", noted)
    writer = Audit(tmp_path / AUDIT, is_durable=True)

    async def request(number: int) -> None:
        writer.write("ana", f"did-{number}")
        await writer.settle()
        assert any(b"did-%d" % number in content for content in written)

    async def all_of_them() -> None:
        await asyncio.gather(*map(request, range(50)))

    asyncio.run(all_of_them())
    assert len(written) <= 2


def test_the_record_never_fails_a_request(own: Callable[[], Gateway]) -> None:
    """If the record cannot be written at all, people work on, and the figures of the server say what is lost."""
    gateway = own()
    folder = gateway.folder / AUDIT
    folder.write_text("no directory")
    with gateway.client() as owner:
        assert owner.post("/api/link", json={}).status_code == 200
        assert lost_by(owner.get("/metrics").text) == 1
        folder.unlink()
        assert owner.post("/api/link", json={}).status_code == 200
    assert written(folder) == [(LOST, 1), ("link", None)]


def lost_by(metrics: str) -> int:
    """The number of lost records among the figures of a server."""
    (line,) = [line for line in metrics.splitlines() if line.startswith("penstock_audit_lost_total ")]
    return int(line.split()[1])
