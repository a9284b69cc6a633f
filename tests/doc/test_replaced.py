"""A document that is replaced while its agent works: the reply goes nowhere else, and nothing waits for ever."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from doc.conftest import Desk

TIMEOUT = 60
Act = Callable[[Path, Path], object]


def link(document: Path, other: Path) -> None:
    """Replace a document by a link to another file."""
    document.unlink()
    document.symlink_to(other)


def link_above(document: Path, other: Path) -> None:
    """Replace the directory of a document by a link to that of another file."""
    shutil.rmtree(document.parent)
    document.parent.symlink_to(other.parent)


def pipe(document: Path, other: Path) -> None:
    """Replace a document by a pipe."""
    document.unlink()
    os.mkfifo(document)


def directory(document: Path, other: Path) -> None:
    """Replace a document by a directory."""
    document.unlink()
    document.mkdir()


@pytest.mark.slow
@pytest.mark.parametrize("act", [link, link_above, pipe, directory])
def test_a_document_that_is_replaced(desk: Desk, act: Act) -> None:
    """The command ends with 2, and the reply is published when the document is there again."""
    other = desk.folder / "own" / "notes.md"
    other.parent.mkdir()
    other.write_text("Mine.\n")
    document = desk.folder / "vault" / "notes.md"
    document.parent.mkdir()
    document.write_text("Question?\n")
    hold = desk.hold(1)
    process = desk.start("vault/notes.md", "--agent=scripted")
    try:
        desk.until_asked(1)
        act(document, other)
        hold.unlink()
        _, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 2, err
    assert "the reply is kept; penstock doc recover vault/notes.md publishes it" in err
    assert other.read_text() == "Mine.\n"
    if document.parent.is_symlink():
        document.parent.unlink()
        document.parent.mkdir()
    elif document.is_dir():
        document.rmdir()
    else:
        document.unlink()
    document.write_text("Question?\n")
    assert desk.doc("recover", "vault/notes.md").returncode == 0
    assert "Reply 1." in document.read_text()
    assert len(desk.asked) == 1
