"""Regular files are opened and read; whatever is in their place is neither read nor waited for."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.config.regular_files import NotRegular, content_of, open_regular, read_start

MOST = 8


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)


OTHERS: dict[str, Callable[[Path], None]] = {"pipe": _pipe, "directory": Path.mkdir, "socket": _socket}


def _descriptors() -> list[str]:
    return os.listdir("/dev/fd")


def _fill(file: Path, stopped: threading.Event) -> None:
    """Append to a file for as long as it is read."""
    with open(file, "ab", buffering=0) as opened:
        while not stopped.is_set():
            opened.write(b"more")


def test_a_regular_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read up to the bound, by its path or from a directory; a larger one has no content."""
    file = tmp_path / "file"
    file.write_bytes(b"12345678")
    assert content_of(file, MOST) == b"12345678" == content_of(str(file), MOST)
    assert content_of(file, MOST - 1) is None
    assert read_start(file, 3) == b"123"
    file.write_bytes(b"")
    assert content_of(file, MOST) == b""
    folder = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.chdir("/")
    try:
        file.write_bytes(b"123")
        assert content_of("file", MOST, within=folder) == b"123" == read_start("file", MOST, within=folder)
        assert content_of("file", MOST) is None, "the working directory has none"
        fd = open_regular("file", os.O_RDWR, within=folder)
        assert not os.get_inheritable(fd)
        os.write(fd, b"x")
        os.close(fd)
        assert file.read_bytes() == b"x23", "no content is removed by opening it"
    finally:
        os.close(folder)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is read or waited for, also not through a link that is followed or to be written, and none is left open."""
    monkeypatch.chdir(tmp_path)  # the path of a socket has a limit
    OTHERS[kind](tmp_path / "it")
    (tmp_path / "link").symlink_to("it")
    before = _descriptors()
    for flags in (os.O_RDONLY, os.O_RDWR):
        with pytest.raises(NotRegular, match=r"not a regular file: .*it'$"):
            open_regular(tmp_path / "it", flags)
        with pytest.raises(NotRegular):
            open_regular(tmp_path / "link", flags, follows=True)
    assert content_of("it", MOST) is None is content_of("link", MOST, follows=True)
    assert len(_descriptors()) == len(before)


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/tty"])
def test_devices(device: str, tmp_path: Path) -> None:
    """A device may have no end, and a terminal would become that of this process."""
    (tmp_path / "link").symlink_to(device)
    with pytest.raises(NotRegular):
        open_regular(device)
    with pytest.raises(NotRegular):
        read_start(tmp_path / "link", MOST, follows=True)
    assert content_of(device, MOST) is None is content_of(tmp_path / "link", MOST, follows=True)


def test_a_pipe_with_a_writer(tmp_path: Path) -> None:
    """What somebody has written into it is not read."""
    _pipe(tmp_path / "pipe")
    fd = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(fd, b"1234")
        assert content_of(tmp_path / "pipe", MOST) is None
        with pytest.raises(NotRegular):
            read_start(tmp_path / "pipe", 1)
        assert os.read(fd, MOST) == b"1234"
    finally:
        os.close(fd)


def test_links(tmp_path: Path) -> None:
    """One is followed if the caller says so. A dangling one makes no file."""
    (tmp_path / "file").write_bytes(b"123")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "second").symlink_to("link")
    (tmp_path / "dangling").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("link", "second", "dangling", "loop"):
        with pytest.raises(OSError, match="symbolic links") as raised:
            open_regular(tmp_path / name, os.O_RDWR)
        assert raised.value.errno == errno.ELOOP
        assert content_of(tmp_path / name, MOST) is None
    assert content_of(tmp_path / "second", MOST, follows=True) == b"123"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "dangling", os.O_RDWR, follows=True)
    assert not (tmp_path / "missing").exists()


def test_a_link_in_a_directory_that_is_open(tmp_path: Path) -> None:
    """It is not followed either, and a directory that was replaced by a link meanwhile is still the one opened."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(b"mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_bytes(b"other")
    (tmp_path / "folder/link").symlink_to("../other/file")
    folder = os.open(tmp_path / "folder", os.O_RDONLY)
    try:
        assert content_of("link", MOST, within=folder) is None
        assert content_of("link", MOST, within=folder, follows=True) == b"other"
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").symlink_to("other")
        assert content_of("file", MOST, within=folder) == b"mine"
    finally:
        os.close(folder)


def test_what_replaces_a_file_after_the_open(tmp_path: Path) -> None:
    """The kind was checked on the open file, which is the one that is read."""
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "other").write_bytes(b"other")
    fd = open_regular(tmp_path / "file")
    try:
        (tmp_path / "file").unlink()
        (tmp_path / "file").symlink_to("other")
        assert os.read(fd, MOST) == b"mine"
    finally:
        os.close(fd)


def test_a_swapped_file(tmp_path: Path) -> None:
    """While somebody exchanges it with a pipe and a link, each read returns all of it or nothing of anything else."""
    file, spare = tmp_path / "file", tmp_path / "spare"
    (tmp_path / "secret").write_bytes(b"secret")
    file.write_bytes(b"mine")
    stopped = threading.Event()

    def swap() -> None:
        while not stopped.is_set():
            os.mkfifo(spare)
            spare.replace(file)
            spare.symlink_to("secret")
            spare.replace(file)
            spare.write_bytes(b"mine")
            spare.replace(file)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = {content_of(file, MOST) for _ in range(2000)}
    finally:
        stopped.set()
        thread.join()
    assert found <= {b"mine", None}


def test_a_growing_file(tmp_path: Path) -> None:
    """One that is never at its end is read up to the bound."""
    file = tmp_path / "file"
    file.write_bytes(b"x")
    stopped = threading.Event()
    thread = threading.Thread(target=_fill, args=(file, stopped))
    thread.start()
    try:
        while file.stat().st_size <= MOST:
            pass
        assert content_of(file, MOST) is None
        assert read_start(file, MOST) == b"xmoremor"
    finally:
        stopped.set()
        thread.join()


PROGRAM = """
import os, sys
from penstock.config.regular_files import content_of, read_start
os.chdir(sys.argv[1])
if os.getuid() == 0:  # root may read all
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert content_of("open", 8) == b"123", "else this test finds nothing"
assert content_of("closed", 8) is None and content_of("folder/open", 8) is None
for path in ("closed", "folder/open"):
    try:
        read_start(path, 8)
    except PermissionError:
        continue
    raise AssertionError(path)
"""


def test_no_permission(tmp_path: Path) -> None:
    """A file that may not be read has no content, and the error has its class."""
    for name, mode in {"open": 0o644, "closed": 0o000}.items():
        (tmp_path / name).write_bytes(b"123")
        (tmp_path / name).chmod(mode)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/open").write_bytes(b"123")
    (tmp_path / "folder").chmod(0o000)
    tmp_path.chmod(0o755)
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], check=True)


def test_a_path_that_is_none(tmp_path: Path) -> None:
    """A missing file, one below a file, and a NUL."""
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")
    with pytest.raises(NotADirectoryError):
        open_regular(tmp_path / "file/below")
    with pytest.raises(ValueError, match="null"):
        open_regular("a\0b")
    assert content_of(tmp_path / "missing", MOST) is None is content_of("a\0b", MOST)
