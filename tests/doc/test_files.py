"""D6: documents as they are on real disks: line ends, links, modes, owners, mounts, full disks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.doc import publish as module
from penstock.doc.exchange import ExchangeUnsupported
from penstock.doc.pending_reply import pending_reply
from penstock.doc.publish import Published, check_publishable
from penstock.doc.recovery import publish_pending
from penstock.doc.state import DocumentState
from penstock.errors import UsageError

QUESTION = "# Notes\n\n## User\n\nA question.\n"
NOBODY = 65534
TIMEOUT = 60


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody saves late in these tests."""
    monkeypatch.setattr(module, "LATE_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document."""
    path = tmp_path / "notes.md"
    path.write_text(QUESTION)
    return path


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of a user who is not root, as whom the test runs."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() != 0:
        yield folder
    else:
        os.chown(folder, NOBODY, NOBODY)
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        yield folder
        os.seteuid(0)
        os.setegid(0)
    folder.chmod(0o700)
    shutil.rmtree(folder)


def answered(path: Path, data: Path | None = None) -> Published:
    """Publish a reply into a document as the command does."""
    state = DocumentState(data or path.parent / "data", "an-id")
    with state.lock():
        text = path.read_bytes().decode()
        state.write_pending(pending_reply("r1", os.fspath(path), text, "The answer.", {}, 0))
        done = publish_pending(path, state)
    assert done is not None
    assert "The answer." in path.read_bytes().decode()
    return done


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A.\r\n", "A.\r\n\r\n## Assistant\r\n\r\nThe answer.\r\n\r\n## User\r\n\r\n"),
        ("\ufeffA.\n", "\ufeffA.\n\n## Assistant\n\nThe answer.\n\n## User\n\n"),
        ("A.", "A.\n\n## Assistant\n\nThe answer.\n\n## User\n\n"),
    ],
    ids=["CRLF", "BOM", "no last newline"],
)
def test_d6_bytes_of_a_text(path: Path, before: str, after: str) -> None:
    """Line ends and the byte order mark stay; what is added ends with a newline, so that more can be added."""
    path.write_bytes(before.encode())
    answered(path)
    assert path.read_bytes().decode() == after


def test_d6_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    """The file that a link points to gets the reply; the link stays a link."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link.md"
    link.symlink_to("../notes.md")
    done = answered(link)
    assert (done.path, done.method) == (path, "exchange")
    assert link.is_symlink()
    assert "The answer." in path.read_text()
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "notes.md"]


def test_d6_a_hard_link(path: Path, tmp_path: Path) -> None:
    """A file with two names is written in place, so that both have the reply; a note says what is not promised."""
    other = tmp_path / "other.md"
    other.hardlink_to(path)
    done = answered(path)
    assert (done.method, other.read_text()) == ("in place", path.read_text())
    assert path.samefile(other)
    [note] = done.notes
    assert "hard links" in note
    assert "a save at the same instant can be lost" in note
    assert (tmp_path / "data/docs/an-id/backup").read_text() == QUESTION
    assert list((tmp_path / "data/docs/an-id").glob("replaced*")) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o4755])
def test_d6_a_mode(path: Path, mode: int) -> None:
    """The mode of the file is kept."""
    path.chmod(mode)
    assert answered(path).method == "exchange"
    assert path.stat().st_mode & 0o7777 == mode


def test_d6_extended_attributes(path: Path) -> None:
    """Extended attributes are kept."""
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError as error:
        pytest.skip(f"extended attributes: {error.strerror}")
    assert answered(path).method == "exchange"
    assert os.getxattr(path, "user.note") == b"kept"


def test_d6_another_owner(path: Path) -> None:
    """Root keeps the owner and the group of a file."""
    if os.geteuid() != 0:
        pytest.skip("another owner: this test needs root")
    os.chown(path, 1234, 2345)
    assert answered(path).method == "exchange"
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def test_d6_another_owner_without_rights(unprivileged: Path) -> None:
    """A writable file of another user is written in place, and stays that user's."""
    if os.getuid() != 0:
        pytest.skip("another owner: this test needs root")
    path = unprivileged / "notes.md"
    path.write_text(QUESTION)
    path.chmod(0o666)
    os.seteuid(0)
    os.chown(path, 1234, 2345)
    os.seteuid(NOBODY)
    assert answered(path).method == "in place"
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)
    assert sorted(os.listdir(unprivileged)) == ["data", "notes.md"]


def test_d6_a_read_only_directory(unprivileged: Path) -> None:
    """A document in a directory that cannot be written is written in place."""
    folder = unprivileged / "folder"
    folder.mkdir()
    path = folder / "notes.md"
    path.write_text(QUESTION)
    folder.chmod(0o555)
    done = answered(path, unprivileged / "data")
    assert done.method == "in place"
    assert "Permission denied" in done.notes[0]
    folder.chmod(0o755)
    assert os.listdir(folder) == ["notes.md"]


def test_d6_a_file_system_without_an_exchange(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the new file is renamed over the old one, and a note says what is not promised."""

    def unsupported(first: Path, second: Path) -> None:
        raise ExchangeUnsupported

    monkeypatch.setattr(module, "exchange", unsupported)
    done = answered(path)
    assert done.method == "rename"
    assert "plain rename" in done.notes[0]
    assert "a save at the same instant can be lost" in done.notes[0]
    assert sorted(os.listdir(path.parent)) == ["data", "notes.md"]


def test_d6_files_that_are_refused(unprivileged: Path) -> None:
    """What cannot be published to is an error before an agent starts."""
    read_only = unprivileged / "read-only.md"
    read_only.write_text(QUESTION)
    read_only.chmod(0o444)
    pipe = unprivileged / "pipe"
    os.mkfifo(pipe)
    for path, why in [
        (read_only, "cannot be written"),
        (pipe, "not a regular file"),
        (unprivileged, "not a regular file"),
        (unprivileged / "missing.md", "does not exist"),
    ]:
        with pytest.raises(UsageError, match=why):
            check_publishable(path)


ON_A_MOUNT = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from penstock.doc import publish as module
from penstock.doc.pending_reply import pending_reply
from penstock.doc.publish import PublishError
from penstock.doc.recovery import publish_pending
from penstock.doc.state import DocumentState

module.LATE_SECONDS = 0
path, data = Path(sys.argv[2]), Path(sys.argv[3])
state = DocumentState(data, "an-id")
before = path.read_text()
found = {}

def fill():
    try:
        with path.with_name("filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
    except OSError:
        pass

with state.lock():
    if sys.argv[4:] == ["fill"]:
        fill()
    state.write_pending(pending_reply("r1", str(path), before, "The answer. " * 1000, {}, 0))
    try:
        found["method"] = publish_pending(path, state).method
    except PublishError as error:
        found["error"] = str(error)
        found["same"] = path.read_text() == before
        found["pending"] = state.pending() is not None
        path.with_name("filler").unlink()
        found["files"] = os.listdir(path.parent)
        found["method"] = publish_pending(path, state).method
found["answered"] = path.read_text().count("The answer. " * 1000) == 1
print(json.dumps(found))
"""


def inside_mount(folder: Path, mount: str, *arguments: object) -> dict[str, object]:
    """Run the script above where `mount`, a command, has been executed in `folder`."""
    inside = ("unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', str(folder))
    try:
        subprocess.run([*inside, "true"], check=True, capture_output=True, timeout=TIMEOUT)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounts: this machine gives no file system of its own (unshare -rm)")
    source = str(Path(module.__file__).parents[2])
    command = [*inside, sys.executable, "-c", ON_A_MOUNT, source, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("links", [1, 2])
def test_d6_a_full_disk(tmp_path: Path, links: int) -> None:
    """A full disk leaves the document as it is and the reply pending; with space again, it is published."""
    disk = tmp_path / "disk"
    disk.mkdir()
    second = 'ln "$0/notes.md" "$0/other.md"' if links == 2 else "true"
    mount = f'mount -t tmpfs -o size=96k none "$0" && echo Question > "$0/notes.md" && {second}'
    found = inside_mount(disk, mount, disk / "notes.md", tmp_path / "data", "fill")
    help = f"No space left on device; the reply is kept; penstock doc recover {disk / 'notes.md'} publishes it"
    assert help in str(found.pop("error"))
    files = ["notes.md"] if links == 1 else ["notes.md", "other.md"]
    assert sorted(found.pop("files")) == files  # type: ignore[call-overload]
    method = "exchange" if links == 1 else "in place"
    assert found == {"same": True, "pending": True, "method": method, "answered": True}


def test_d6_a_bind_mount(path: Path, tmp_path: Path) -> None:
    """A file that is a mount of its own, as in containers, is written in place."""
    mount = 'mount --bind "$0/notes.md" "$0/notes.md"'
    found = inside_mount(tmp_path, mount, path, tmp_path / "data")
    assert found == {"method": "in place", "answered": True}
    assert "The answer." in path.read_text()
    assert sorted(os.listdir(tmp_path)) == ["data", "notes.md"]


def test_a_read_only_file_is_not_written(path: Path) -> None:
    """Its mode says that nobody writes to it. Root could, and the exchange needs the directory alone."""
    path.write_text("Question.\n")
    path.chmod(0o400)
    with pytest.raises(UsageError, match="is read-only") as raised:
        check_publishable(path)
    assert f"chmod u+w {path}" in str(raised.value)
    assert path.read_text() == "Question.\n"
