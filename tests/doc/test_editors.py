"""Real Vim and Emacs in a terminal, with a clean and with a changed buffer: what their users see is in `docs/doc.md`.

They run when they are asked for, with `make test-editors`, or with PENSTOCK_EDITORS=1.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tmux_screen import Screen
from waiting import until

if TYPE_CHECKING:
    from doc.conftest import Desk

PAGE = Path(__file__).parents[2] / "docs" / "doc.md"
TEXT = "# Notes\n\n## User\n\nHello?\n"

pytestmark = pytest.mark.skipif(not os.environ.get("PENSTOCK_EDITORS"), reason="editors run with make test-editors")


def settings_of(language: str) -> str:
    """Return the settings of an editor as the page has them."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def vim(desk: Desk) -> Iterator[Screen]:
    """Vim with the settings of the page, on a document that was saved."""
    (desk.folder.parent / "vimrc").write_text("set nocompatible\n" + settings_of("vim"))
    yield from opened(desk, f"vim -u {desk.folder.parent}/vimrc notes.md", "vim")


@pytest.fixture
def emacs(desk: Desk) -> Iterator[Screen]:
    """Emacs with the settings of the page, on a document that was saved."""
    (desk.folder.parent / "init.el").write_text(settings_of("elisp"))
    yield from opened(desk, f"emacs -nw -Q -l {desk.folder.parent}/init.el notes.md", "emacs")


def opened(desk: Desk, command: str, program: str) -> Iterator[Screen]:
    """Open the document in an editor."""
    if shutil.which(program) is None or shutil.which("tmux") is None:
        pytest.skip(f"{program} or tmux is not installed")
    desk.write("notes.md", f"---\nagent: scripted\n---\n{TEXT}")
    # The command of the tests stands where a user has the one that is installed.
    bin = desk.folder.parent / "bin"
    bin.mkdir()
    penstock = bin / "penstock"
    penstock.write_text(f'#!/bin/sh\nexec {desk.python} -m penstock "$@"\n')
    penstock.chmod(0o755)
    path = f"{bin}:{desk.env['PATH']}"
    env = {**desk.env, "PATH": path, "TERM": "xterm-256color", "HOME": str(desk.folder.parent)}
    screen = Screen(command, env, desk.folder)
    try:
        screen.shows("Hello?")
        yield screen
    finally:
        screen.close()


def test_vim_one_key(desk: Desk, vim: Screen) -> None:
    """One key saves and asks; the reply is then in the buffer, which was clean."""
    vim.type("G", "o", "How are you?", "Escape")
    vim.type("\\", "p")
    vim.shows("answered")
    vim.type("Enter")
    vim.shows("Reply 1.")
    assert "How are you?" in desk.asked[0]["prompt"]
    vim.type(":w", "Enter")
    vim.shows("written")
    assert (desk.folder / "notes.md").read_text("utf-8").count("Reply 1.") == 1


def test_vim_changed_buffer(desk: Desk, vim: Screen) -> None:
    """A buffer with unsaved text is kept, and Vim warns (W12) that the file has changed.

    If the user then saves over the reply, `penstock doc recover` puts it back.
    """
    vim.type("G", "o", "unsaved", "Escape")
    assert desk.doc("notes.md").returncode == 0
    vim.type(":checktime", "Enter")
    vim.shows("W12")
    vim.type("Enter")
    text = vim.shows("unsaved")
    assert "Reply 1." not in text
    file = desk.folder / "notes.md"
    assert "Reply 1." in file.read_text("utf-8")
    vim.type(":w", "Enter")
    vim.shows("Do you really want to write to it")
    vim.type("y")
    until(lambda: "unsaved" in file.read_text("utf-8"))
    assert desk.doc("recover", "notes.md").returncode == 0
    vim.type(":edit", "Enter")
    vim.shows("Reply 1.")
    assert "unsaved" in file.read_text("utf-8")


def test_emacs_one_key(desk: Desk, emacs: Screen) -> None:
    """One key saves and asks; the reply is then in the buffer, which was clean."""
    emacs.type("M->", "How are you?")
    emacs.type("C-c", "p")
    emacs.shows("Reply 1.")
    emacs.shows("## Assistant")
    assert "How are you?" in desk.asked[0]["prompt"]


def test_emacs_changed_buffer(desk: Desk, emacs: Screen) -> None:
    """A buffer with unsaved text is kept, and Emacs asks before it saves over the newer file."""
    emacs.type("M->", "unsaved")
    assert desk.doc("notes.md").returncode == 0
    emacs.type("C-x", "C-s")
    emacs.shows("has changed since visited or saved")
    emacs.type("no", "Enter")
    assert "Reply 1." in (desk.folder / "notes.md").read_text("utf-8")
    assert "unsaved" not in (desk.folder / "notes.md").read_text("utf-8")
