"""Reply on its way into a document: it is merged into each text of the document that does not have it yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from penstock.doc.components import find_component
from penstock.doc.document import Document
from penstock.doc.front_matter import FrontMatter
from penstock.doc.lines import compare, split_lines, without_ends
from penstock.doc.merge import PROPOSED, Merged, merge
from penstock.doc.reply import Reply
from penstock.doc.state import Pending

MERGES_KEPT = 4
"""Merges that are kept: one publish asks several times for the reply in the submitted text and in the newest one, and
each merge of a large document takes longer than the exchange."""


def pending_reply(id: str, path: str, base: str, reply: str, options: dict[str, Any], at: int) -> Pending:
    """Return the reply to the text `base` with the snapshot that is kept once it is published."""
    made = Pending(id=id, path=path, base=base, reply=reply, snapshot="", options=options, at=at)
    made.snapshot = merged(made, base).snapshot
    return made


def patched_snapshot(snapshot: str, component: str, reply: str) -> str:
    """Return a snapshot with a reply that is only a patch of one component: what was new in the document stays new."""
    if find_component(snapshot, component) is None:
        return snapshot
    return merge(snapshot, snapshot, Reply.parse(reply)).text


def item_snapshot(pending: Pending, snapshot: str | None) -> str:
    """Return the snapshot after the reply to an item of the queue: the exchange was not asked, so it stays new."""
    base, before = Document.parse(pending.base), Document.parse(snapshot or "")
    old = before.text[before.exchange.start : before.exchange.end] if snapshot is not None else ""
    unasked = base.text[: base.exchange.start] + old + base.text[base.exchange.end :]
    return merged(msgspec.structs.replace(pending, base=unasked), unasked).text


def merged(pending: Pending, now: str) -> Merged:
    """Return the document with the reply."""
    return _merged(pending.base, pending.reply, msgspec.json.encode(pending.options), now)


@lru_cache(maxsize=MERGES_KEPT)
def _merged(base: str, reply: str, options: bytes, now: str) -> Merged:
    given = msgspec.json.decode(options)
    return merge(
        base,
        now,
        Reply.parse(reply),
        fields=given.get("fields"),
        at_boundary=given.get("at_boundary", True),
        done=given.get("done"),
    )


def with_reply(now: str, pending: Pending) -> str:
    """Return the document with the reply, which may already be there, but only if it was written before.

    The user may have typed the same words as the agent.
    """
    return now if pending.tries and has_reply(pending, now) else merged(pending, now).text


def has_reply(pending: Pending, text: str) -> bool:
    """Return whether all that the reply adds to the document and removes from it is so in this text, or proposed."""
    placed = _placed(pending)
    before, after, lines = body_lines(pending.base), body_lines(placed), body_lines(text)
    # An earlier reply may have been the same, so each part is counted.
    added = all(
        _count(part, lines) >= _count(part, after) or _count(_quoted(part), lines) for part in _parts(before, after)
    )
    replaced = [one.name for one in Document.parse(pending.base).markers.components if one.mode == "replace"]
    return added and all(_has_removals(name, pending.base, placed, text) for name in replaced)


def _has_removals(name: str, base: str, placed: str, text: str) -> bool:
    """Return whether the lines that the reply only removes from a component are gone, or their removal is proposed."""
    before, after, lines = (_component_lines(one, name) for one in (base, placed, text))
    if _parts(before, after):
        return True  # the lines that replace others prove it
    block = [PROPOSED, "", *_stripped(after)]
    gone = all(_count(part, lines) <= _count(part, after) for part in _parts(after, before))
    return gone or bool(_count(_stripped(_quoted(block)), lines))


def _component_lines(text: str, name: str) -> list[str]:
    component = find_component(text, name, FrontMatter.parse(text).end)
    return without_ends(split_lines(text[component.start : component.end])) if component else []


def _quoted(lines: Sequence[str]) -> list[str]:
    return [f"> {line}".rstrip() for line in lines]


def reply_line(pending: Pending, text: str) -> int | None:
    """Return the line of the text, from 1, at which the reply begins; None if it is not there."""
    before, after, lines = body_lines(pending.base), body_lines(_placed(pending)), body_lines(text)
    for part in _parts(before, after):
        places = _places(part, lines)
        if places:
            return len(split_lines(text)) - len(lines) + places[-1] + 1
    return None


def body_lines(text: str) -> list[str]:
    """Return the lines after the front matter, without their line ends."""
    return without_ends(split_lines(text[FrontMatter.parse(text).end :]))


def _placed(pending: Pending) -> str:
    # An item of the queue is not struck through if the user has edited it, so it proves nothing.
    options = {name: value for name, value in pending.options.items() if name != "done"}
    return merged(msgspec.structs.replace(pending, options=options), pending.base).text


def _parts(before: Sequence[str], after: Sequence[str]) -> list[list[str]]:
    """Return the groups of lines that were added, without the blank lines around them."""
    parts = [_stripped(after[change.b_start : change.b_end]) for change in compare(before, after) if not change.equal]
    return [part for part in parts if part]


def _stripped(lines: Sequence[str]) -> list[str]:
    filled = [index for index, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1]) if filled else []


def _count(part: Sequence[str], lines: Sequence[str]) -> int:
    return len(_places(part, lines))


def _places(part: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Return the indexes at which a part is in these lines, whole."""
    size, first = len(part), part[0]
    return [at for at in range(len(lines) - size + 1) if lines[at] == first and lines[at : at + size] == part]
