"""Merge of a reply into a document that may have changed since it was submitted. The user's text always wins.

The place of the reply is carried from the submitted text to the text on disk through their differences: there is no
line merge, so there are no conflicts and no conflict markers, and no line of the user's is removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from penstock.doc.components import Component, find_component, line_number, scan
from penstock.doc.document import SEND, Document, line_of, newline_of
from penstock.doc.front_matter import FrontMatter, with_fields
from penstock.doc.lines import carry, split_lines, without_end
from penstock.doc.queue_items import QUEUE, with_struck
from penstock.doc.reply import ASSISTANT_HEADING, USER_HEADING, Patch, Reply, cleaned, closed

PROPOSED = "**Proposed by the agent**, as this part was edited in the meantime:"
"""First line of a quoted block below the user's text of a component that was to be replaced."""


_ROW = re.compile(r"[ \t]*(?:[-*+][ \t]|\d{1,9}[.)][ \t]|\|)")
"""Beginning of an item of a list and of a row of a table, which go on without a blank line."""


class Merged(msgspec.Struct, frozen=True):
    """A document with its reply.

    `snapshot` is the submitted text with the reply: what differs from it later is the next question. `proposals` names
    the components that were not replaced, as the user has edited them. `notes` are messages for the user.
    """

    text: str
    snapshot: str
    proposals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def merge(
    base: str,
    now: str,
    reply: Reply,
    *,
    fields: Mapping[str, str] | None = None,
    at_boundary: bool = True,
    done: str | None = None,
) -> Merged:
    """Insert a reply to the text `base` into the text `now`.

    `fields` are fields of the front matter, which are set unless the user has changed them. `at_boundary`: whether the
    boundary marker is the place of the reply, see `Submission.at_boundary`. `done` is the line of a queue item that is
    struck through, unless the user has changed it.
    """
    submitted = Document.parse(base)
    job = _route(submitted, now, reply, at_boundary)
    notes = [*job.notes, *(_hidden_by(submitted) if job.lines else ())]
    proposals = [patch.component for patch in job.patches if _is_edited(submitted, now, patch.component)]
    text, found = _apply(submitted, now, job, proposals)
    snapshot, _ = _apply(submitted, base, job, proposals)
    if job.lines and not found:
        notes.append("the text that was asked about is no longer in the document; the reply is at the end")
    if done is not None:
        struck = with_struck(text, done)
        if struck is None:
            notes.append("the item of the queue was changed meanwhile and is not struck through")
        text, snapshot = struck or text, with_struck(snapshot, done) or snapshot
    front, latest = submitted.front, FrontMatter.parse(now)
    wanted = {key: value for key, value in (fields or {}).items() if front.get(key) == latest.get(key)}
    text, skipped = with_fields(text, wanted, _newline(submitted, text))
    snapshot, _ = with_fields(snapshot, wanted, submitted.newline)
    notes += [
        f"{key} stays as it is in the front matter: it was changed meanwhile, or is not one line of text"
        for key in fields or {}
        if key not in wanted or key in skipped
    ]
    return Merged(text, snapshot, tuple(proposals), tuple(notes))


def _hidden_by(submitted: Document) -> list[str]:
    """Return notes about what is not closed in a document, so that what follows it is not shown as text."""
    text, kinds = submitted.text, {"open_fence": "code fence", "open_comment": "comment"}
    found = next((token for token in scan(text, submitted.front.end) if token.kind in kinds), None)
    if found is None or (
        found.kind == "open_comment" and text[text.rfind("\n", 0, found.start) + 1 : found.start].strip()
    ):
        return []  # in the middle of a line it is text
    line = line_number(text, found.start)
    return [f"the {kinds[found.kind]} that begins in line {line} is not closed: a preview shows the reply inside it"]


class _Job(msgspec.Struct, frozen=True):
    """A reply, divided by its places: lines for the exchange, and patches for components that are still there."""

    lines: tuple[str, ...]
    patches: tuple[Patch, ...]
    notes: tuple[str, ...]
    at_boundary: bool


def _route(submitted: Document, now: str, reply: Reply, at_boundary: bool) -> _Job:
    exchange = submitted.exchange.name
    component = submitted.component(exchange) if exchange else None
    patched = component is not None and component.mode != "append"
    texts = [reply.rest]
    patches: list[Patch] = []
    notes: list[str] = []
    for patch in reply.patches:
        if patch.component == exchange:
            texts.append(patch.text)
        elif submitted.component(patch.component) and _find(now, patch.component):
            patches.append(patch)
        else:
            texts[0] = closed(texts[0])  # or it would be inside a code fence that the reply has left open
            texts.append(patch.text)
            notes.append(f"the document has no component {patch.component}; its text is in the reply")
    text = "\n\n".join(text.strip("\n") for text in texts if text.strip())
    if exchange is not None and patched and text and _find(now, exchange):
        return _Job((), (Patch(exchange, text), *patches), tuple(notes), at_boundary)
    if any(patch.component == QUEUE for patch in patches):
        notes.append("the agent has changed the queue; --queue does its items as it does yours: look at them first")
    return _Job(tuple(cleaned(text)), tuple(patches), tuple(notes), at_boundary)


def _find(text: str, name: str) -> Component | None:
    return find_component(text, name, FrontMatter.parse(text).end)


def _apply(submitted: Document, text: str, job: _Job, proposals: Collection[str]) -> tuple[str, bool]:
    """Return the text with the reply, and whether the place of the reply was found."""
    text, found = _insert_reply(submitted, text, job)
    for patch in job.patches:
        text = _patch(submitted, text, patch, patch.component in proposals)
    return text, found


def _insert_reply(submitted: Document, text: str, job: _Job) -> tuple[str, bool]:
    """Insert the lines for the exchange; return the text and whether the place was found."""
    region = submitted.exchange
    component = _find(text, region.name) if region.name else None
    start, end = FrontMatter.parse(text).end, len(text)
    if component:
        start, end = component.start, component.end
    asked, _ = _inner(submitted.text, region.start, region.end)
    lines, indent = _inner(text, start, end)
    _remove_send_line(submitted, asked, lines)
    boundary = submitted.boundary
    marker = submitted.text[boundary.start : boundary.end] if boundary else ""
    old, new = _boundary_line(asked, marker), _boundary_line(lines, marker)
    moved = bool(old is not None and new is not None and job.lines and not job.at_boundary)
    if moved:
        asked, lines = _without(asked, old), _without(lines, new)
    place = None if region.name and not component else _place(asked, lines, old, new, job.at_boundary)
    newline = _newline(submitted, text)
    if job.lines:
        at = len(lines) if place is None else _outside_code(lines, place)
        lines = _inserted(lines, at, _rows(submitted, job, lines[at:], marker, moved), newline)
    return _put(text, start, end, lines, indent, newline), place is not None


def _remove_send_line(submitted: Document, asked: list[str], lines: list[str]) -> None:
    span = submitted.send_line
    if span is None:
        return
    number = len(split_lines(submitted.text[submitted.exchange.start : span[0]]))
    place = carry(asked, lines, number + 1)
    del asked[number]
    if place and lines[place - 1].strip() == SEND:
        del lines[place - 1]


def _boundary_line(lines: Sequence[str], marker: str) -> int | None:
    """Return the index of the last line that is this boundary; one in code or in a comment is text."""
    text, found = "".join(lines), None
    for token in scan(text) if marker else ():
        if text[token.start : token.end] == marker and line_of(text, token.start).strip() == marker:
            found = text.count("\n", 0, token.start)
    return found


def _without(lines: list[str], index: int | None) -> list[str]:
    return [line for number, line in enumerate(lines) if number != index]


def _place(asked: list[str], lines: list[str], old: int | None, new: int | None, at_boundary: bool) -> int | None:
    """Return the number of lines before the reply; None if the lines before it are gone.

    `old` and `new` are the lines of the boundary in what was asked and now.
    """
    if not at_boundary or old is None:
        return carry(asked, lines, len(asked))
    return new if new is not None else carry(asked, lines, old)


def _outside_code(lines: Sequence[str], place: int) -> int:
    """Return the place, or the one after the code fence or the comment that it is in."""
    position = sum(map(len, lines[:place]))
    for token in scan("".join(lines)):
        if token.start < position < token.end and token.kind in ("fence", "comment", "note"):
            return len(split_lines("".join(lines)[: token.end]))
    return place


def _newline(submitted: Document, text: str) -> str:
    """Return the line end of a text. An editor may have changed it; a text of one line has none."""
    return newline_of(text) if "\n" in text else submitted.newline


def _rows(submitted: Document, job: _Job, after: Sequence[str], marker: str, moved: bool) -> list[str]:
    """Return the lines to insert: the reply, headings and markers, with one blank line on both sides."""
    append = submitted.format == "append"
    rows = ["", ASSISTANT_HEADING, "", *job.lines, "", USER_HEADING] if append else ["", *job.lines]
    if moved:
        rows += ["", marker] if append else [marker]
    if after:
        separated = not after[0].strip() or (not append and after[0].strip() == marker)
        return rows if separated else [*rows, ""]
    return [*rows, ""] if append else rows


def _inserted(lines: Sequence[str], at: int, rows: list[str], newline: str) -> list[str]:
    before = list(lines[:at])
    if before and not before[-1].endswith("\n"):
        before[-1] += newline
    if rows[0] == "" and (not before or not before[-1].strip()):
        rows = rows[1:]
    return [*before, *(row + newline for row in rows), *lines[at:]]


def _inner(text: str, start: int, end: int) -> tuple[list[str], str]:
    """Return the lines of a part, and the indentation of a marker that ends it."""
    lines = split_lines(text[start:end])
    indent = lines.pop() if end < len(text) and lines and not lines[-1].strip() and "\n" not in lines[-1] else ""
    return lines, indent


def _put(text: str, start: int, end: int, lines: Sequence[str], indent: str, newline: str) -> str:
    """Replace a part of the text. Lines after something that does not end its line get a line end before them."""
    middle = "".join(lines) + indent
    if middle == text[start:end]:
        return text
    if "\n" in middle and text[:start].removeprefix("\ufeff")[-1:] not in ("", "\n"):
        middle = newline + middle
    return text[:start] + middle + text[end:]


def _is_edited(submitted: Document, now: str, name: str) -> bool:
    """Return whether the user has edited a component that is replaced."""
    old, new = submitted.component(name), _find(now, name)
    if old is None or new is None or new.mode != "replace":
        return False
    return not _same(submitted.text[old.start : old.end], now[new.start : new.end])


def _same(a: str, b: str) -> bool:
    return a.replace("\r\n", "\n").strip() == b.replace("\r\n", "\n").strip()


def _patch(submitted: Document, text: str, patch: Patch, proposed: bool) -> str:
    """Apply a patch to its component: replace it, add to it, or put the patch as a proposal below the user's text."""
    component = _find(text, patch.component)
    old = submitted.component(patch.component)
    assert component is not None  # _route keeps patches for components that are in both texts
    assert old is not None
    newline = _newline(submitted, text)
    block = [line + newline for line in cleaned(patch.text)]
    if not block and component.mode != "replace":
        return text
    lines, indent = _inner(text, component.start, component.end)
    asked, _ = _inner(submitted.text, old.start, old.end)
    if proposed:
        quoted = [f"> {line}".rstrip(" \r\n") for line in [PROPOSED, "", *block]]
        lines = _inserted(lines, len(lines), ["", *quoted], newline)
    elif component.mode == "replace":
        lines = block
        if text[component.start - 1] != "\n" and len(block) <= 1 and not asked[1:]:
            lines = [without_end(line) for line in block]
    else:
        place = carry(asked, lines, len(asked)) if component.mode == "append" else 0
        at = len(lines) if place is None else _outside_code(lines, place)
        same = _same("".join(asked), "".join(lines))
        lines = _inserted(lines, at, _entry(list(map(without_end, block)), lines, at), newline)
        if same and component.max_lines:
            lines = _cut(lines, max(component.max_lines, len(block)), component.mode == "append")
    return _put(text, component.start, component.end, lines, indent, newline)


def _entry(block: list[str], lines: Sequence[str], at: int) -> list[str]:
    """Return the lines of an entry, with blank lines around it that keep it apart; items of a list need none."""
    above, below = [line for line in lines[:at] if line.strip()][-1:], lines[at : at + 1]
    if below and below[0].strip() and not (_ROW.match(block[-1]) and _ROW.match(below[0])):
        block = [*block, ""]
    joined = above and _ROW.match(above[0]) and _ROW.match(block[0])
    return block if joined else ["", *block]


def _cut(lines: list[str], limit: int, from_top: bool) -> list[str]:
    """Return at most `limit` lines, but no part of a code fence or of a comment."""
    if len(lines) <= limit:
        return lines
    text = "".join(lines)
    position = sum(map(len, lines[:-limit])) if from_top else sum(map(len, lines[:limit]))
    cut = next((token for token in scan(text) if token.start < position < token.end), None)
    if cut:
        position = text.rfind("\n", 0, cut.start) + 1 if from_top else text.find("\n", cut.end) + 1 or len(text)
    return split_lines(text[position:] if from_top else text[:position])
