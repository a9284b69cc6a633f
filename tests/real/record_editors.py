"""Record what Vim and Emacs show of a document that a real claude answers: `python tests/real/record_editors.py`.

The editors run in a terminal with the settings of `docs/doc.md`; the model server plays the model. `docs/picture.py`
draws the screens.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import pyte  # noqa: E402
from scenarios import Say  # noqa: E402
from setups import Bench, Target, bench  # noqa: E402
from tmux_screen import Screen  # noqa: E402

FOLDER = ROOT / "docs"
COLUMNS = 100
PROJECT = Path("/tmp/pen")
"""Folder of the document, whose name is on the screen. It is made for the recording."""

QUESTION = "Which feathers of a goose make the best quills?"
REPLY = """\
The outer five of the left wing: they curve away from the eyes of a right-handed writer.
"""
NOTES = f"""\
# Notes

## User

{QUESTION}
"""
COLOURS = {"red": 31, "green": 32, "brown": 33, "yellow": 33, "blue": 36, "magenta": 35, "cyan": 36}
"""Codes of the colours that the pictures have, by pyte's names."""


def settings_of(language: str) -> str:
    """Return the settings of an editor as the page has them."""
    page = (FOLDER / "doc.md").read_text("utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def drawable(screen: str) -> str:
    """Return a screen with the few codes that `docs/picture.py` draws: bold, reverse, and colours."""
    rows = screen.count("\n")
    terminal = pyte.Screen(COLUMNS, rows)
    pyte.Stream(terminal).feed(screen.rstrip("\n").replace("\n", "\r\n"))
    lines = []
    for row in range(rows):
        cells = [terminal.buffer[row][column] for column in range(COLUMNS)]
        pieces, before = [], ""
        for cell in cells:
            is_marked = cell.reverse or cell.bg != "default"
            codes = [1] if cell.bold else []
            codes += [7] if is_marked else [COLOURS[cell.fg]] if cell.fg in COLOURS else []
            style = "".join(f"\x1b[{code}m" for code in codes)
            pieces.append(("\x1b[0m" + style if style != before else "") + cell.data)
            before = style
        lines.append("".join(pieces).rstrip() if not before else "".join(pieces) + "\x1b[0m")
    return re.sub(r"^\x1b\[0m|(?<=\n)\x1b\[0m(?=\n|\Z)", "", "\n".join(lines)) + "\n"


def save(screen: Screen, name: str) -> None:
    """Keep the screen for the picture of this name."""
    (FOLDER / f"{name}.ansi").write_text(drawable(screen.styled), "utf-8")
    sys.stdout.write(f"docs/{name}.ansi\n")


@contextmanager
def editor(at: Bench, root: Path, command: str, rows: int) -> Iterator[Screen]:
    """Open a new document in an editor."""
    own = {"PENSTOCK_CONFIG": os.devnull, "PENSTOCK_DATA": str(root / "data"), "TERM": "screen-16color"}
    (PROJECT / "notes.md").write_text(NOTES, "utf-8")
    shutil.rmtree(root / "data", ignore_errors=True)
    screen = Screen(command, at.env | own, PROJECT, COLUMNS, rows)
    try:
        screen.shows(QUESTION)
        yield screen
    finally:
        screen.close()


def answer(at: Bench, root: Path) -> None:
    """Answer the document from another terminal."""
    own = {"PENSTOCK_CONFIG": os.devnull, "PENSTOCK_DATA": str(root / "data")}
    words = [sys.executable, "-m", "penstock", "doc", "notes.md", "--agent", "claude"]
    subprocess.run(words, env=at.env | own, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


def record_vim(at: Bench, root: Path) -> None:
    """Record a key in Vim that saves and asks, and a buffer that was changed meanwhile."""
    (root / "vimrc").write_text("set nocompatible laststatus=2 shortmess+=I\n" + settings_of("vim"))
    command = f"vim -u {root}/vimrc -i NONE notes.md"
    with editor(at, root, command, 20) as vim:
        vim.type("\\", "p")
        vim.shows("Press ENTER")
        vim.type("Enter")
        vim.shows("## Assistant")
        save(vim, "doc-vim")
    with editor(at, root, command, 12) as vim:
        vim.type("G", "o", "And how are they cut?", "Escape")
        answer(at, root)
        vim.type(":checktime", "Enter")
        vim.shows("W12")
        save(vim, "doc-vim-changed")


def record_emacs(at: Bench, root: Path) -> None:
    """Record a key in Emacs that saves and asks, and a buffer that was changed meanwhile."""
    (root / "init.el").write_text(settings_of("elisp") + "(menu-bar-mode -1)\n")
    command = f"emacs -nw -Q -l {root}/init.el notes.md"
    with editor(at, root, command, 32) as emacs:
        emacs.type("C-c", "p")
        emacs.shows("answered")
        emacs.shows("## Assistant")
        save(emacs, "doc-emacs")
    with editor(at, root, command, 12) as emacs:
        emacs.type("M->", "And how are they cut?")
        answer(at, root)
        emacs.type("C-x", "C-s")
        emacs.shows("Save anyway?")
        save(emacs, "doc-emacs-changed")


def main() -> int:
    """Record both editors anew."""
    records: tuple[Callable[[Bench, Path], None], ...] = (record_vim, record_emacs)
    PROJECT.mkdir()
    try:
        for record in records:
            with tempfile.TemporaryDirectory() as folder, bench(Target("claude", "exec"), Path(folder)) as at:
                at.server.scripts[QUESTION] = [[Say(REPLY)]]
                path = f"{Path(sys.executable).parent}:{at.env['PATH']}"
                record(at._replace(env=at.env | {"PATH": path}), Path(folder))
    finally:
        shutil.rmtree(PROJECT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
