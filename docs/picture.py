"""Makes the pictures of the documents: what a terminal shows of a real run. Run by `make picture`.

Penstock writes to a terminal; the few SGR codes that it uses are read here, and each run of characters in one style
becomes a piece of SVG text. Nothing is drawn that no program wrote, but for what a user typed. The first run is drawn
from the output that `tests/real/record_demo.py` has recorded, the editors from the screens of
`tests/real/record_editors.py`, and the other picture from what Penstock writes today.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import termios
import unicodedata
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "src" / "penstock" / "cli" / "demo" / "claude.ndjson"
PICTURE = ROOT / "docs" / "terminal.svg"
FIRST_RUN, FIRST_PICTURE = ROOT / "docs" / "first-run.ansi", ROOT / "docs" / "first-run.svg"
EDITORS = {
    "doc-vim": "Vim with a document that claude has answered",
    "doc-vim-changed": "Vim warns that the document and the buffer have both changed",
    "doc-emacs": "Emacs with a document that claude has answered, and the run below it",
    "doc-emacs-changed": "Emacs asks before it saves over the document, which has changed",
}
"""Names of the screens of editors, each with a description."""
COMMAND = 'penstock run claude "fix the failing test" --allow all'

COLUMNS, ROWS = 100, 50
CELL, LINE, MARGIN, BAR = 8.4, 21, 20, 34
"""Width of a character and height of a line in pixels, for a monospaced font of 14 pixels; what is around them."""

GROUND, FRAME, PLAIN, FAINT = "#16181d", "#2a2e37", "#d8dce4", "#868d9b"
COLOURS = {31: "#f0717b", 32: "#8fce7a", 33: "#e6c06c", 35: "#c49be0", 36: "#62c1cf"}
FAINT_COLOURS = {36: "#3f7d86"}
REVERSE = 7
"""Code of text whose colours are those of the ground and of text, exchanged."""
ON_PLAIN = f'fill="{GROUND}"'
SGR = re.compile(r"\x1b\[([0-9;]*)m")

LABEL = "A run of an agent in a terminal, shown by Penstock"

Piece = tuple[int, str, str]
"""The column where a piece begins, its text, and its SVG attributes."""


def output() -> str:
    """What Penstock writes for the recording to a terminal, with its codes."""
    # As on a machine where nothing is configured, and in no CI service.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PENSTOCK_", "GITHUB_", "GITLAB_"))}
    env = {key: value for key, value in env.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"PENSTOCK_CONFIG": os.devnull, "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color"}
    outer, inner = os.openpty()
    termios.tcsetwinsize(inner, (ROWS, COLUMNS))
    with subprocess.Popen([sys.executable, "-m", "penstock", "read", str(RECORDING)], env=env, stdout=inner) as process:
        os.close(inner)
        written = b"".join(iter(lambda: _piece(outer), b""))
    os.close(outer)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return written.decode().replace("\r\n", "\n")


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has ended
        return b""


def attributes(codes: set[int]) -> str:
    """The SVG attributes for the SGR codes that are on."""
    if REVERSE in codes:
        return ON_PLAIN + (' font-weight="bold"' if 1 in codes else "")
    colour = next((code for code in codes if code in COLOURS), None)
    bright, faint = (COLOURS[colour], FAINT_COLOURS.get(colour, FAINT)) if colour is not None else (PLAIN, FAINT)
    fill = faint if 2 in codes else bright
    return f'fill="{fill}"' + (' font-weight="bold"' if 1 in codes else "")


def rows(text: str) -> list[list[Piece]]:
    """The screen's rows: pieces in one style each, broken at the right edge as a terminal breaks them."""
    found: list[list[Piece]] = [[]]
    codes: set[int] = set()
    column = 0
    for number, part in enumerate(SGR.split(text)):
        if number % 2:
            codes = set() if part in ("", "0") else codes | {int(code) for code in part.split(";")}
            continue
        for character in part:
            wide = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if character == "\n" or column + wide > COLUMNS:
                found.append([])
                column = 0
            if character == "\n":
                continue
            style = attributes(codes)
            last = found[-1][-1] if found[-1] else None
            if last is not None and last[2] == style:
                found[-1][-1] = (last[0], last[1] + character, style)
            else:
                found[-1].append((column, character, style))
            column += wide
    return found[:-1] if not found[-1] else found


def drawn(screen: list[list[Piece]], label: str = LABEL) -> str:
    """The rows as an SVG window."""
    width, height = round(2 * MARGIN + COLUMNS * CELL), BAR + 2 * MARGIN + LINE * len(screen) - 6
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}">',
        f'<rect width="{width}" height="{height}" rx="10" fill="{GROUND}"/>',
        f'<path d="M0 {BAR}V10a10 10 0 0 1 10-10H{width - 10}a10 10 0 0 1 10 10V{BAR}z" fill="{FRAME}"/>',
        *(f'<circle cx="{22 + 20 * dot}" cy="{BAR / 2:g}" r="6" fill="#4b5160"/>' for dot in range(3)),
        "<g font-family=\"ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\" "
        'xml:space="preserve">',
    ]
    for row, pieces in enumerate(screen):
        y = BAR + MARGIN + 10 + LINE * row
        for column, text, style in pieces:
            if style.startswith(ON_PLAIN):
                place = f'x="{MARGIN + CELL * column:.1f}" y="{y - 15}" width="{CELL * len(text):.1f}"'
                lines.append(f'<rect {place} height="{LINE}" fill="{PLAIN}"/>')
            column += len(text) - len(text.lstrip())
            # Browsers join spaces, but not these.
            text = text.strip().replace(" ", "\xa0")
            if not text:
                continue
            # The length is fixed, so that a font of another width cannot move what follows.
            size = CELL * sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
            lines.append(
                f'<text x="{MARGIN + CELL * column:.1f}" y="{y}" {style} textLength="{size:.1f}" '
                f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
            )
    return "\n".join([*lines, "</g>", "</svg>", ""])


def picture() -> str:
    """The whole picture: the command that is typed, and what comes out."""
    return drawn(rows(f"\x1b[2m$ \x1b[0m{COMMAND}\n" + output()))


def first_picture() -> str:
    """The picture of the first run."""
    return drawn(rows(FIRST_RUN.read_text("utf-8")))


def editor_picture(name: str) -> str:
    """The picture of an editor's screen."""
    screen = (ROOT / "docs" / f"{name}.ansi").read_text("utf-8")
    return drawn(rows(screen.rstrip("\n") + "\n"), EDITORS[name])


def main() -> None:
    """Draw all pictures."""
    pictures = {PICTURE: picture(), FIRST_PICTURE: first_picture()}
    pictures |= {ROOT / "docs" / f"{name}.svg": editor_picture(name) for name in EDITORS}
    for path, drawing in pictures.items():
        path.write_text(drawing, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
