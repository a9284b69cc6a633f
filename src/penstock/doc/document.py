"""Parts of a document: front matter, components, and the text that an agent is asked about."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Literal

import msgspec

from penstock.doc.components import MODES, Boundary, Component, DocumentError, Markers, line_number, parse_markers
from penstock.doc.front_matter import FrontMatter
from penstock.doc.lines import split_lines

Format = Literal["append", "template"]

SEND = "/send"
"""Line at the end of a document that submits it to `penstock doc watch`; the publish removes it."""

EXCHANGE = ("exchange", "output")
"""Components for the reply to the user, the preferred one first; a template without them gets it at its end."""

_NOT_TEXT = re.compile(r"<!--.*?-->", re.DOTALL)


class Region(msgspec.Struct, frozen=True):
    """Part of a document in which the reply is placed: the component `name`, or all text after the front matter."""

    name: str | None
    start: int
    end: int


class Document(msgspec.Struct, frozen=True):
    """A document as it is on disk, with its line ends and its BOM. Positions count characters of `text`."""

    text: str
    format: Format
    front: FrontMatter
    markers: Markers
    newline: str

    @classmethod
    def parse(cls, text: str) -> Document:
        """Return the parts of a document. Raise `DocumentError` if its components are broken."""
        front = FrontMatter.parse(text)
        markers = parse_markers(text, front.end)
        return cls(text, _format(front, markers), front, markers, newline_of(text))

    @property
    def session(self) -> str | None:
        """Id of the document, from its front matter."""
        return self.front.get("agent_doc_session", "session")

    def component(self, name: str) -> Component | None:
        """Return the component of this name."""
        return self.markers.component(name)

    @property
    def exchange(self) -> Region:
        """Part of the document in which the reply to the user is placed."""
        if self.format == "template":
            for name in EXCHANGE:
                component = self.component(name)
                if component:
                    return Region(name, component.start, component.end)
        return Region(None, self.front.end, len(self.text))

    @property
    def boundary(self) -> Boundary | None:
        """The last boundary marker in the exchange that has a line for itself."""
        region = self.exchange
        for boundary in reversed(self.markers.boundaries):
            inside = region.start <= boundary.start and boundary.end <= region.end
            if inside and line_of(self.text, boundary.start).strip() == self.text[boundary.start : boundary.end]:
                return boundary
        return None

    @property
    def send_line(self) -> tuple[int, int] | None:
        """Start and end of the line `/send`, if it is the last line of the exchange that is not a comment."""
        region = self.exchange
        lines = split_lines(self.text[region.start : region.end])
        last = last_text_line(lines)
        if last is None or lines[last].strip() != SEND:
            return None
        start = region.start + sum(map(len, lines[:last]))
        return start, start + len(lines[last])


def _format(front: FrontMatter, markers: Markers) -> Format:
    named = front.get("agent_doc_format", "agent_doc_mode")
    if named in ("append", "inline"):
        return "append"
    return "template" if named is not None or markers.components else "append"


def last_text_line(lines: Sequence[str]) -> int | None:
    """Return the index of the last line that is more than blanks and comments."""
    return next((i for i in range(len(lines) - 1, -1, -1) if _NOT_TEXT.sub("", lines[i]).strip()), None)


def check_settings(document: Document, settings: str) -> None:
    """Raise `DocumentError` if agent-doc's `components.toml` names a mode that the document itself does not.

    The file is not used: it holds commands too. But to replace a component that it appends to would lose text.
    """
    try:
        named = tomllib.loads(settings)
    except tomllib.TOMLDecodeError:
        return
    for component in document.markers.components:
        table = named.get(component.name)
        mode = (table.get("mode") or table.get("patch")) if isinstance(table, dict) else None
        if mode in MODES and mode != component.mode and not {"patch", "mode"} & component.attributes.keys():
            raise DocumentError(
                f"the component {component.name} has its mode in .agent-doc/components.toml, which is not used",
                line=line_number(document.text, component.open_start),
                help=f"write <!-- agent:{component.name} patch={mode} -->",
            )


def newline_of(text: str) -> str:
    """Return the line end that most lines have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def line_of(text: str, position: int) -> str:
    """Return the line at a position, without its line end."""
    end = text.find("\n", position)
    return text[text.rfind("\n", 0, position) + 1 : end if end >= 0 else len(text)].rstrip("\r")
