"""Folders of documents: what is watched in them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import until

from penstock.doc import folders as module
from penstock.doc.folders import DocumentFolder

if TYPE_CHECKING:
    from doc.conftest import Desk


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A folder of documents in a repository, with all that is left out."""
    vault = tmp_path / "vault"
    for name in ("a.md", "b/c.MD", "b/d.markdown", ".hidden/e.md", ".f.md", "built/g.md", "h.txt", "secret.md"):
        (vault / name).parent.mkdir(parents=True, exist_ok=True)
        (vault / name).write_text("text\n")
    (vault / ".gitignore").write_text("built/\nsecret.md\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "i.md").write_text("text\n")
    (vault / "linked").symlink_to(outside)
    (vault / "j.md").symlink_to(outside / "i.md")
    os.mkfifo(vault / "k.md")
    subprocess.run(["git", "init", "-q"], cwd=vault, check=True)
    return vault


def names(folder: DocumentFolder) -> list[str]:
    """The names of the documents that a look has found."""
    return [path.relative_to(folder.path).as_posix() for path in folder.new_documents()]


def test_documents_are_found_once_and_when_they_come(vault: Path) -> None:
    """No hidden file, none that git ignores, no link and nothing that is not a regular file is a document."""
    folder = DocumentFolder(vault)
    assert names(folder) == ["a.md", "b/c.MD", "b/d.markdown"]
    assert names(folder) == []
    (vault / "b" / "new").mkdir()
    (vault / "b" / "new" / "l.md").write_text("text\n")
    (vault / "built" / "m.md").write_text("text\n")
    assert names(folder) == ["b/new/l.md"]
    assert not folder.is_full


def test_a_folder_outside_of_a_repository(tmp_path: Path) -> None:
    """Nothing is ignored there; a folder that is gone has no documents."""
    (tmp_path / "a.md").write_text("text\n")
    assert names(DocumentFolder(tmp_path)) == ["a.md"]
    assert names(DocumentFolder(tmp_path / "gone")) == []


def test_the_number_is_bounded(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further documents, and names of a tree that is too large, are left out, and that is known."""
    monkeypatch.setattr(module, "MAX_DOCUMENTS", 2)
    folder = DocumentFolder(vault)
    assert (names(folder), folder.is_full) == (["a.md", "b/c.MD"], True)
    (vault / "n.md").write_text("text\n")
    assert names(folder) == []
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    assert (names(folder := DocumentFolder(vault)), folder.is_full) == ([], True)


@pytest.mark.slow
def test_watching_a_folder(desk: Desk, tmp_path: Path) -> None:
    """A note that is written later is answered; one that becomes a link to a file outside is not."""
    (desk.folder / "vault").mkdir()
    desk.write("vault/old.md", "Old.\n")
    private = tmp_path / "private.md"
    private.write_text("Private.\n/send\n")
    process = desk.start("watch", "vault", "--agent", "scripted")
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("penstock: watching vault/: ")
        second = desk.doc("watch", "vault", "--agent", "scripted")
        assert (second.returncode, "is watched by another process" in second.stderr) == (2, True)
        (desk.folder / "vault" / "old.md").unlink()
        (desk.folder / "vault" / "old.md").symlink_to(private)
        file = desk.write("vault/new.md", "A question.\n/send\n")
        until(lambda: "Reply 1." in file.read_text("utf-8"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert private.read_text() == "Private.\n/send\n"
    assert len(desk.asked) == 1
