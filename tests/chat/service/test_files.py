"""Files of a chat's directory, read for clients: nothing outside of the directory is read, whatever the path is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pictures import gif, jpeg, png, webp

from penstock.chat.errors import Invalid
from penstock.chat.service import files
from penstock.chat.service.files import NoSuchFile, UnreadableFile, read_picture, read_text

PNG = png()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of a chat, beside a secret."""
    made = tmp_path.resolve() / "shop"
    (made / "src").mkdir(parents=True)
    (made / "src" / "app.ts").write_text("one\ntwo\r\nthree\n")
    (made.parent / "secret.txt").write_text("secret")
    (made.parent / "secret.png").write_bytes(PNG)
    return made


def test_lines_of_a_file(root: Path) -> None:
    """A file is found by its relative and by its absolute path, and through a link that stays inside."""
    (root / "link.ts").symlink_to("src/app.ts")
    for path in ("src/app.ts", "./src/../src/app.ts", f"{root}/src/app.ts", "link.ts"):
        found = read_text(str(root), path, 2)
        assert (found.path, found.first, found.lines, found.total) == ("src/app.ts", 1, ["one", "two", "three"], 3)


def test_a_part_of_a_long_file(root: Path) -> None:
    """Of a long file the lines around the one that is meant are sent, and of a long line its beginning."""
    lines = [f"line {number}" for number in range(1, 10_001)]
    lines[4999] = "x" * 5000
    (root / "long.txt").write_text("\n".join(lines))
    found = read_text(str(root), "long.txt", 5000)
    assert (found.first, len(found.lines), found.total) == (3001, files.SHOWN_LINES, 10_000)
    assert found.lines[1999] == "x" * files.MAX_LINE_CHARACTERS
    assert read_text(str(root), "long.txt", 0).first == 1
    assert read_text(str(root), "long.txt", 10**15).lines[-1] == "line 10000"


def test_no_path_leads_out(root: Path) -> None:
    """Neither dots, an absolute path, a link to a file or a folder, nor a directory with the same beginning."""
    (root / "out.txt").symlink_to("../secret.txt")
    (root / "folder").symlink_to("..")
    (root.parent / "shop-2").mkdir()
    (root.parent / "shop-2" / "a.txt").write_text("another")
    outside = ["../secret.txt", f"{root.parent}/secret.txt", "out.txt", "folder/secret.txt", "src/../../secret.txt"]
    for path in (*outside, f"{root.parent}/shop-2/a.txt", "/etc/passwd", ".", "src", "none.txt", "src/app.ts/x"):
        with pytest.raises(NoSuchFile):
            read_text(str(root), path, 0)
    for path in ("", "a\0b", "x" * 5000):
        with pytest.raises(Invalid):
            read_text(str(root), path, 0)


def test_what_is_no_file_is_not_waited_for(root: Path) -> None:
    """A pipe without a writer, a socket's directory and a device are no files."""
    os.mkfifo(root / "pipe")
    (root / "null").symlink_to("/dev/null")
    for path in ("pipe", "null"):
        with pytest.raises(NoSuchFile):
            read_text(str(root), path, 0)


def test_penstocks_own_files_are_hidden(root: Path) -> None:
    """A chat in the home directory does not show the token that lies below it."""
    data = root / ".local" / "penstock"
    data.mkdir(parents=True)
    (data / "token").write_text("secret")
    (root / "way").symlink_to(".local/penstock/token")
    for path in (".local/penstock/token", "way"):
        assert read_text(str(root), path, 0).lines == ["secret"]
        with pytest.raises(NoSuchFile):
            read_text(str(root), path, 0, [str(data)])


def test_a_directory_that_became_a_link(root: Path) -> None:
    """An agent that puts a link in the place of its directory shows nothing of where the link leads."""
    root.rename(root.parent / "moved")
    root.symlink_to(root.parent)
    with pytest.raises(NoSuchFile):
        read_text(str(root), "secret.txt", 0)


def test_a_folder_that_is_replaced_meanwhile(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that takes the place of a folder after the path was resolved is not followed."""
    real = os.path.realpath

    def resolved(path: str) -> str:
        found = real(path)
        if path.endswith("app.ts"):
            (root / "src").rename(root / "old")
            (root / "src").symlink_to(root.parent / "elsewhere")
        return found

    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "app.ts").write_text("secret")
    monkeypatch.setattr(os.path, "realpath", resolved)
    with pytest.raises(NoSuchFile):
        read_text(str(root), "src/app.ts", 0)


@pytest.mark.parametrize("data", [PNG, gif(3, 2), jpeg(3, 2), webp(b"VP8X", 3, 2)])
def test_a_picture_is_known_by_its_bytes(root: Path, data: bytes) -> None:
    """The name of a picture says nothing."""
    (root / "picture.html").write_bytes(data)
    found, media = read_picture(str(root), "picture.html")
    assert found == data
    assert media in ("image/gif", "image/png", "image/jpeg", "image/webp")


NO_PICTURES = [b"", b"<svg xmlns='x' onload='hurt()'/>", b"<html>", b"\x89PNG\r\n\x1a\n", png(claims=(50_000, 50_000))]


@pytest.mark.parametrize("data", NO_PICTURES)
def test_what_is_no_picture(root: Path, data: bytes) -> None:
    """SVG, HTML, half of a picture, and one that would fill the memory are not sent as pictures."""
    (root / "picture.png").write_bytes(data)
    with pytest.raises(UnreadableFile):
        read_picture(str(root), "picture.png")


def test_what_is_too_large_or_no_text(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of any size are read up to a limit."""
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 8)
    monkeypatch.setattr(files, "MAX_PICTURE_BYTES", 8)
    (root / "large").write_bytes(PNG)
    (root / "binary").write_bytes(b"a\0b")
    with pytest.raises(UnreadableFile, match="too large"):
        read_picture(str(root), "large")
    with pytest.raises(UnreadableFile, match="too large"):
        read_text(str(root), "large", 0)
    with pytest.raises(UnreadableFile, match="not text"):
        read_text(str(root), "binary", 0)
