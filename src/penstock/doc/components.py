"""Markers of a document: components, boundaries and comments. Markers in code are text.

A component is `<!-- agent:NAME key=value … -->` … `<!-- /agent:NAME -->`, a boundary `<!-- agent:boundary:ID -->`.
Every other HTML comment is the user's scratchpad.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from penstock.errors import UsageError

_NEXT = re.compile(r"`|~~~|<!--|%%|\[//\]:|\[comment\]:")
"""Begin of the next run of backticks or tildes, or of the next comment. Alternatives that all begin with a fixed
character are searched some 10 times as fast as others, and a long document is scanned several times."""

_RUN = re.compile("`+|~+")

_LINK_COMMENT = re.compile(
    r"""\[(?://|comment)\]:[ \t]*(?:\#|<>)(?:[ \t]+(?:\(.*\)|".*"|'.*'))?[ \t]*\r?$""", re.MULTILINE
)
"""Definition of a link that nothing uses, `[//]: # (text)`: Markdown's way to a comment without HTML."""

_BEFORE_FENCE = re.compile(r"\ufeff?[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*")
"""What a code fence may have before it on its line: it may begin an item of a list."""

MAX_INLINE_CODE_CHARS = 10_000
"""Characters of inline code; a line may have millions of backticks, and each would search all of it."""

_INDENTS = ("", " ", "  ", "   ")
"""What the definition of a link may have before it."""

_MARKED = re.compile(r"<!--\s*/?agent:")
_MARKER = re.compile(r"\s*(?P<close>/?)agent:(?P<name>\S+)(?P<attributes>(?:\s.*)?)$", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*$")
_ATTRIBUTE = re.compile(r"""([A-Za-z_][\w-]*)(?:=("[^"]*"|'[^']*'|\S+))?""")
_BOUNDARY = "boundary:"

APPENDED = frozenset(["exchange", "output", "findings"])
"""Components that are appended to, as in agent-doc, unless an attribute names another mode; others are replaced."""

PatchMode = Literal["append", "prepend", "replace"]
MODES: dict[str, PatchMode] = {"append": "append", "prepend": "prepend", "replace": "replace"}


class DocumentError(UsageError):
    """A document cannot be answered as it is. `line` counts from 1."""

    def __init__(self, what: str, *, line: int, help: str = "") -> None:
        self.line = line
        super().__init__(f"line {line}: {what}", help=help)


class Token(NamedTuple):
    """A piece of a document that is not plain text. An open fence or comment ends with the document."""

    kind: Literal["comment", "note", "fence", "open_comment", "open_fence"]
    """`note`: a comment that is not HTML, and so never a marker."""
    start: int
    end: int


class Component(msgspec.Struct, frozen=True):
    """A component: what is between its markers is `text[start:end]`. Unknown attributes are kept."""

    name: str
    attributes: dict[str, str]
    open_start: int
    start: int
    end: int
    close_end: int

    @property
    def mode(self) -> PatchMode:
        """Way in which a patch changes the component."""
        mode = self.attributes.get("patch", self.attributes.get("mode", ""))
        return MODES.get(mode) or ("append" if self.name in APPENDED else "replace")

    @property
    def max_lines(self) -> int | None:
        """Number of lines to which the component is cut from the top when it is appended to, if it has a limit."""
        value = self.attributes.get("max_lines", "")
        return int(value) if value.isascii() and value.isdigit() and int(value) else None


class Boundary(NamedTuple):
    """A boundary marker and its place."""

    id: str
    start: int
    end: int


class Markers(msgspec.Struct, frozen=True):
    """All markers of a text, in their order."""

    components: tuple[Component, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    comments: tuple[tuple[int, int], ...] = ()

    def component(self, name: str) -> Component | None:
        """Return the component of this name."""
        return next((component for component in self.components if component.name == name), None)


def scan(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the comments and code fences of a text. Inline code is skipped: it ends on its own line."""
    position = 0 if text[:start] == "\ufeff" else start  # a BOM is not part of the first line
    last_end = text.rfind("-->")
    while found := _NEXT.search(text, position):
        begin = found.start()
        if text[begin] == "<":
            end = text.find("-->", found.end()) if found.end() <= last_end else -1
            kind: Literal["comment", "open_comment"] = "comment" if end >= 0 else "open_comment"
            position = end + 3 if end >= 0 else found.end()
            yield Token(kind, begin, position)
            continue
        if text[begin] in "%[":
            note_end = _note_end(text, begin)
            position = found.end() if note_end is None else note_end
            if note_end is not None:
                yield Token("note", begin, note_end)
            continue
        run = _RUN.match(text, begin)
        assert run is not None
        marks = run[0]
        line_start = _fence_line(text, position, begin, marks)
        if line_start is not None:
            token = _fence(text, line_start, begin + len(marks), marks)
            position = token.end
            yield token
        elif marks[0] == "`":
            position = _after_inline_code(text, begin + len(marks), marks)
        else:
            position = begin + len(marks)


def _note_end(text: str, begin: int) -> int | None:
    """Return the end of the comment that begins here, `%%…%%` or `[//]: # (…)`; None if there is none.

    A comment of Obsidian is in one line, or begins a line. Lines that all begin with `%%` are none: it is a comment of
    other languages; and none has a marker of a component.
    """
    if text[begin] == "[":
        found = _LINK_COMMENT.match(text, begin)
        return found.end() if found and text[max(0, begin - 4) : begin].rpartition("\n")[2] in _INDENTS else None
    before, end = text[begin - 1 : begin], text.find("%%", begin + 2)
    if before.isalnum() or before == "%" or end < 0 or text[begin + 2] == "%":
        return None
    if text.find("\n", begin, end) >= 0:
        last, next_line = text.rfind("\n", 0, end) + 1, text.find("\n", end)
        rest = text[end + 2 : next_line if next_line >= 0 else len(text)]
        if text[text.rfind("\n", 0, begin) + 1 : begin].strip() or (not text[last:end].strip() and rest.strip()):
            return None
        if _MARKED.search(text, begin, end):
            return None
    return end + 2


def _fence_line(text: str, position: int, begin: int, marks: str) -> int | None:
    """Return the start of the line if these backticks or tildes begin a code fence. `position` is where the scan is."""
    line_start = text.rfind("\n", position, begin) + 1 or position
    if len(marks) < 3 or (line_start == position and text[position - 1 : position] not in ("", "\n")):
        return None
    if not _BEFORE_FENCE.fullmatch(text, line_start, begin):
        return None
    end_of_line = text.find("\n", begin)
    is_inline = marks[0] == "`" and text.find("`", begin + len(marks), end_of_line if end_of_line >= 0 else None) >= 0
    return None if is_inline else line_start


def _fence(text: str, start: int, marks_end: int, marks: str) -> Token:
    """Return a code fence from its first line to its last one, or to the end of the text."""
    closing = re.compile(rf"^[ \t]*{marks[0]}{{{len(marks)},}}[ \t]*\r?$", re.MULTILINE)
    end_of_line = text.find("\n", marks_end)
    closed = closing.search(text, end_of_line + 1) if end_of_line >= 0 else None
    return Token("fence", start, closed.end()) if closed else Token("open_fence", start, len(text))


def _after_inline_code(text: str, start: int, ticks: str) -> int:
    """Return the end of the inline code that these backticks open; if nothing closes it, they are text."""
    position = start
    end_of_line = text.find("\n", position, position + MAX_INLINE_CODE_CHARS)
    end = end_of_line if end_of_line >= 0 else position + MAX_INLINE_CODE_CHARS
    while position < end:
        at = text.find(ticks, position, end)
        if at < 0:
            break
        run = at + len(ticks)
        while text[run : run + 1] == "`":
            run += 1
        if run - at == len(ticks):
            return run
        position = run
    return start


def parse_markers(text: str, start: int = 0) -> Markers:
    """Return the markers of a text. Raise `DocumentError` if a component is not closed, nested or there twice."""
    components: dict[str, Component] = {}
    boundaries: list[Boundary] = []
    comments: list[tuple[int, int]] = []
    opened: tuple[str, str, int, int] | None = None  # name, attributes, start and end of the marker
    open_fence: int | None = None
    for token in scan(text, start):
        if token.kind == "open_fence":
            open_fence = token.start
        if token.kind != "comment":
            continue
        marker = _marker(text, token)
        if marker is None:
            comments.append((token.start, token.end))
        elif not marker["close"] and marker["name"].startswith(_BOUNDARY):
            boundaries.append(Boundary(marker["name"].removeprefix(_BOUNDARY), token.start, token.end))
        elif marker["close"]:
            components[marker["name"]] = _closed(text, opened, marker["name"], token)
            opened = None
        else:
            _check_opening(text, components, opened, marker["name"], token)
            opened = (marker["name"], marker["attributes"], token.start, token.end)
    if opened is not None:
        raise _unclosed(text, opened, open_fence)
    return Markers(tuple(components.values()), tuple(boundaries), tuple(comments))


def _marker(text: str, token: Token) -> re.Match[str] | None:
    return _MARKER.match(text[token.start + 4 : token.end - 3]) if token.kind == "comment" else None


def find_component(text: str, name: str, start: int = 0) -> Component | None:
    """Return a component of a text whose other markers may be broken, as of a document in the middle of an edit."""
    opened: tuple[str, str, int, int] | None = None
    for token in scan(text, start):
        marker = _marker(text, token)
        if marker is None or marker["name"] != name:
            continue
        if not marker["close"]:
            opened = opened or (name, marker["attributes"], token.start, token.end)
        elif opened:
            return _closed(text, opened, name, token)
    return None


def without_comments(text: str) -> str:
    """Return a text without the user's comments and without boundaries; lines that hold nothing else go with them."""
    parts: list[str] = []
    position = 0
    for token in scan(text):
        marker = _marker(text, token)
        is_marker = marker is not None and not marker["name"].startswith(_BOUNDARY)
        if token.kind not in ("comment", "note") or is_marker:
            continue
        start, end = token.start, token.end
        # What is before `position` is not looked at again: a line may have very many comments.
        line_start = text.rfind("\n", position, start) + 1 or position
        is_start = line_start > position or text[position - 1 : position] in ("", "\n")
        if is_start and not text[line_start:start].strip():
            line_end = text.find("\n", end) + 1 or len(text)
            if not text[end:line_end].strip():
                start, end = line_start, line_end
        parts.append(text[position:start])
        position = end
    return "".join(parts) + text[position:]


def _check_opening(
    text: str, components: dict[str, Component], opened: tuple[str, str, int, int] | None, name: str, token: Token
) -> None:
    if not _NAME.match(name):
        raise DocumentError(
            f"agent:{name} is not the name of a component",
            line=line_number(text, token.start),
            help="use letters, digits and hyphens",
        )
    if opened is not None:
        raise DocumentError(
            f"the component {name} begins inside the component {opened[0]} of line {line_number(text, opened[2])}",
            line=line_number(text, token.start),
            help=f"write <!-- /agent:{opened[0]} --> before it",
        )
    if name in components:
        raise DocumentError(
            f"the component {name} is there twice, first in line {line_number(text, components[name].open_start)}",
            line=line_number(text, token.start),
            help="rename or remove one of them",
        )


def _closed(text: str, opened: tuple[str, str, int, int] | None, name: str, token: Token) -> Component:
    if opened is None or opened[0] != name:
        inside = f"; the open component is {opened[0]}" if opened else ""
        raise DocumentError(
            f"<!-- /agent:{name} --> closes a component that is not open{inside}",
            line=line_number(text, token.start),
            help=f"write <!-- agent:{name} --> before it, or remove it",
        )
    attributes = {key: value.strip("\"'") for key, value in _ATTRIBUTE.findall(opened[1])}
    line_end = re.compile(r"\r?\n").match(text, opened[3])
    start = line_end.end() if line_end and line_end.end() <= token.start else opened[3]
    return Component(name, attributes, opened[2], start, token.start, token.end)


def _unclosed(text: str, opened: tuple[str, str, int, int], open_fence: int | None) -> DocumentError:
    help = f"write <!-- /agent:{opened[0]} --> after it"
    if open_fence is not None:
        help = f"close the code fence of line {line_number(text, open_fence)}, or {help}"
    return DocumentError(f"the component {opened[0]} is not closed", line=line_number(text, opened[2]), help=help)


def line_number(text: str, position: int) -> int:
    """Return the number of the line of a position, from 1."""
    return text.count("\n", 0, position) + 1
