"""Reply of an agent: its patch blocks, the rest, and the changes that keep a reply from breaking the document."""

from __future__ import annotations

import html
import re
import unicodedata

import msgspec

from penstock.doc.components import scan
from penstock.doc.document import SEND, last_text_line
from penstock.doc.front_matter import FrontMatter

ASSISTANT_HEADING = "## Assistant"
USER_HEADING = "## User"

_PATCH = re.compile(r"\s*(?P<close>/?)patch:(?P<name>[A-Za-z0-9][A-Za-z0-9-]*)(?:\s.*)?$", re.DOTALL)
_MARKER = re.compile(r"<!--(?=\s*/?(?:agent|patch):)")
MAX_TURN_CHARS = 200
"""Characters of a heading that can name a turn: a longer one is about something."""

_HEADING = re.compile(r" {0,3}##(?:[ \t]+(?P<name>.*))?$")
_UNDERLINE = re.compile(r" {0,3}-+[ \t]*$")
_NAME_MARKS = " \t*_~`:"
"""Characters around a word that make it bold, or end a label: the heading is read as without them."""
_TURNS = frozenset({"assistant", "user"})
_LINE_ENDS = re.compile(r"\r\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Characters that a Markdown document cannot hold: control characters, halves of characters, byte order marks, and
those that show the characters of a line in another order."""


class Patch(msgspec.Struct, frozen=True):
    """Text for one component."""

    component: str
    text: str


class Reply(msgspec.Struct, frozen=True):
    """Patch blocks of a reply, one for each component, and the text outside of them, as the agent wrote them."""

    rest: str
    patches: tuple[Patch, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Reply:
        """Return the parts of a reply. If its patch blocks are broken, the whole text is `rest`."""
        text = _LINE_ENDS.sub("\n", text)
        rest: list[str] = []
        patches: dict[str, str] = {}
        opened: tuple[str, int] | None = None
        position = 0
        for token in scan(text):
            marker = _PATCH.match(text[token.start + 4 : token.end - 3]) if token.kind == "comment" else None
            if marker is None:
                continue
            name = marker["name"]
            if bool(marker["close"]) != (opened is not None and opened[0] == name):
                return cls(text)
            if opened is None:
                rest.append(text[position : token.start])
                opened = name, token.end
            else:
                block = text[opened[1] : token.start].strip("\n")
                patches[name] = f"{patches[name]}\n\n{block}" if name in patches else block
                opened, position = None, token.end
        if opened is not None:
            return cls(text)
        rest.append(text[position:])
        outside = "\n\n".join(part.strip("\n") for part in rest if part.strip())
        return cls(outside, tuple(Patch(name, block) for name, block in patches.items()))


def cleaned(text: str) -> list[str]:
    """Return the lines of a reply, without line ends, so that they break no document."""
    text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))
    lines = _without_headings(text.split("\n"))
    text = _MARKER.sub("&lt;!--", "\n".join(lines))
    if FrontMatter.parse(text + "\n").exists:
        text = "\\" + text
    lines = closed(text).split("\n")
    for index, _ in turn_lines("\n".join(lines)):
        lines[index] = re.sub("([#-])", r"\\\1", lines[index], count=1)
    last = last_text_line(lines)
    if last is not None and lines[last].strip() == SEND:
        lines[last] = lines[last].replace(SEND, "\\" + SEND)
    return lines if text else []


def turn_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that mark a turn, by their indexes, with its name: `user` or `assistant`.

    They are the headings of the second level with that name, in any spelling that is shown as it: other letters of the
    alphabet's cases, bold, a colon, closing hashes, a line of hyphens below. Headings in code and comments are text.
    """
    lines = text.split("\n")
    hidden: set[int] = set()
    for token in scan(text) if "##" in text or "\n-" in text or "\n " in text else ():
        first = text.count("\n", 0, token.start)
        begins = not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip()
        hidden.update(range(first if begins else first + 1, text.count("\n", 0, token.end) + 1))
    found: list[tuple[int, str]] = []
    for index, line in enumerate(lines):
        if index in hidden:
            continue
        heading = _HEADING.match(line.rstrip("\r"))
        if (heading and (name := _turn(heading["name"] or ""))) or (
            _UNDERLINE.match(line.rstrip("\r"))
            and index
            and (index == 1 or not lines[index - 2].strip())
            and (name := _turn(lines[index - 1]))
        ):
            found.append((index, name))
    return found


def _turn(text: str) -> str | None:
    """Return the turn that a heading's text names."""
    if len(text) > MAX_TURN_CHARS:
        return None
    shown = "".join(one for one in unicodedata.normalize("NFKC", html.unescape(text)) if not _is_invisible(one))
    name = shown.strip().rstrip("#").strip().strip(_NAME_MARKS).casefold()
    return name if name in _TURNS else None


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) == "Cf"


def _without_headings(lines: list[str]) -> list[str]:
    """Return the lines without blank ones around them and without headings that the document already gets."""
    lines = _stripped(lines)
    if lines and _is_heading(lines[0], "assistant"):
        lines = _stripped(lines[1:])
    if lines and _is_heading(lines[-1], "user"):
        lines = _stripped(lines[:-1])
    return lines


def _is_heading(line: str, name: str) -> bool:
    heading = _HEADING.match(line)
    return heading is not None and _turn(heading["name"] or "") == name


def _stripped(lines: list[str]) -> list[str]:
    filled = [index for index, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def closed(text: str) -> str:
    """Close a code fence that is left open, and escape comments that nothing closes: they would not end here."""
    position, parts = 0, []
    fence = ""
    for token in scan(text):
        if token.kind == "open_comment":
            parts += [text[position : token.start], "&lt;!--"]
            position = token.end
        elif token.kind == "open_fence":
            opening = re.match(r"([ \t]*)\D*?(`{3,}|~{3,})", text[token.start :])
            assert opening is not None  # a fence begins like this
            fence = f"\n{opening[1]}{opening[2]}"
    return "".join(parts) + text[position:] + fence
