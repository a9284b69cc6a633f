"""Files of a chat's directory, read for clients: nothing outside of the directory is read, whatever the path is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pictures import gif, jpeg, png, webp

from penstock.chat.errors import Invalid
from penstock.chat.service import files
from penstock.chat.service.files import DirectoryNames, NoSuchFile, UnreadableFile, read_picture, read_text

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


@pytest.mark.parametrize("has_git", [False, True])
def test_names_of_files(root: Path, has_git: bool) -> None:
    """The likely ones come first, folders end with a slash; hidden and ignored files and links out are left out."""
    shown = ["src/main.ts", "README.md", "docs/srcery.md", "deep/a/Src.ts"]
    for name in (*shown, ".env", ".github/src.yml", "src/.secret"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root / "src-out.txt").symlink_to("../secret.txt")
    (root / "src-far").symlink_to("..")
    (root / "src-in.md").symlink_to("README.md")
    (root / "src-gone.md").symlink_to("nowhere")
    if has_git:
        (root / ".gitignore").write_text("*.log\n")
        (root / "src.log").write_text("x")
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    names = DirectoryNames()
    assert names.find(str(root), "SRC").paths == [
        *("src-in.md", "src/", "src/app.ts", "src/main.ts", "docs/srcery.md", "deep/a/Src.ts")
    ]
    assert names.find(str(root), "src/m").paths == ["src/main.ts"]
    for typed in ("../", "secret", ".env", str(root), "x" * 4096, "[*"):
        assert names.find(str(root), typed).paths == [], typed
    for typed in ("a\0b", "x" * 5000):
        with pytest.raises(Invalid):
            names.find(str(root), typed)


def test_names_that_an_agent_plants(root: Path) -> None:
    """The index of another repository, to which an agent's `.git` leads, shows nothing of it."""
    other = root.parent / "other"
    for name in ("private-plan.txt", "src/private.ts"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text("x")
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    subprocess.run(["git", "-C", str(other), "add", "."], check=True)
    (root / ".git").write_text(f"gitdir: {other / '.git'}\n")
    assert "src/app.ts" in DirectoryNames().find(str(root), "").paths
    assert DirectoryNames().find(str(root), "private").paths == []


def test_names_are_limited(root: Path) -> None:
    """Of many files some are offered; only a few directories are kept."""
    for number in range(files.MAX_NAMES + 10):
        (root / f"n{number}.txt").write_text("x")
    names = DirectoryNames()
    assert len(names.find(str(root), "n").paths) == files.MAX_NAMES
    for number in range(files.KEPT_DIRECTORIES + 3):
        folder = root / f"folder{number}"
        folder.mkdir()
        assert names.find(str(folder), "").paths == []
    assert len(names._kept) == files.KEPT_DIRECTORIES


def test_names_that_are_not_shown(root: Path) -> None:
    """Neither Penstock's own files, nor those of where a directory leads that became a link."""
    (root / "data").mkdir()
    (root / "data" / "token").write_text("secret")
    assert DirectoryNames().find(str(root), "token").paths == ["data/token"]
    assert DirectoryNames().find(str(root), "data", [str(root / "data")]).paths == []
    root.rename(root.parent / "moved")
    root.symlink_to(root.parent)
    with pytest.raises(NoSuchFile):
        DirectoryNames().find(str(root), "secret")
