"""Replies that did not reach their document, or that an editor overwrote with its old text.

Every command that works on a document publishes a pending reply first. A reply that was published and is missing is
only reported: the user may have deleted it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import msgspec

from penstock.doc.lines import is_edited
from penstock.doc.pending_reply import body_lines, has_reply, with_reply
from penstock.doc.publish import Published, publish
from penstock.doc.reply import ASSISTANT_HEADING, USER_HEADING
from penstock.doc.state import DocumentState, Pending

PUBLISHED_NOW = "the reply of an earlier command was not in the document; it is now"
"""Note after a pending reply was published."""

MAX_COMPARED_LINES = 400
"""Pairs of lines that are compared to find a corrected line: a longer reply has lines that are still as they were."""

OVERWRITTEN = "the last reply is missing from the document, as if an editor had saved its old text over it"
"""Note about a missing reply to a text that is still there."""


def publish_pending(path: Path, state: DocumentState) -> Published | None:
    """Publish the pending reply of a document whose lock is held. Return None if there is none.

    Raises:
        PublishError: the document cannot be written. The reply stays pending.
    """
    return publish(path, with_reply, state) if state.pending() else None


def publish_again(path: Path, state: DocumentState) -> Published | None:
    """Publish the pending reply, or else the last one if it is missing. Return None if there is nothing to do.

    Raises:
        PublishError: the document cannot be written. The reply stays pending.
    """
    last = state.published()
    if state.pending() is None and last is not None and not has_reply(last, _text(path)):
        state.write_pending(msgspec.structs.replace(last, attempts=[]))
    return publish_pending(path, state)


def recover(path: Path, state: DocumentState) -> tuple[str, ...]:
    """Do what every command does first with a document whose lock is held; return messages for the user.

    Raises:
        PublishError: a pending reply cannot be published. It stays pending.
    """
    done = publish_pending(path, state)
    if done is not None:
        return (PUBLISHED_NOW, *done.notes)
    last = state.published()
    if last is not None and is_overwritten(last, _text(path)):
        return (f"{OVERWRITTEN}; {shlex.join(['penstock', 'doc', 'recover', str(path)])} puts it back",)
    return ()


def is_overwritten(last: Pending, text: str) -> bool:
    """Return whether a text has no part of a reply, but everything that it answered."""
    base, now = _filled(last.base), _filled(text)
    headings = {ASSISTANT_HEADING, USER_HEADING}
    reply = Counter(line for line in _filled(last.snapshot) if line not in headings) - Counter(base)
    if not reply or reply & (Counter(now) - Counter(base)):
        return False
    if _count_headings(now) > _count_headings(base) or _has_edited(reply, Counter(now) - Counter(base)):
        return False  # the user has corrected the reply
    rest = iter(now)
    return all(any(line.startswith(asked) for line in rest) for asked in base)


def _count_headings(lines: list[str]) -> int:
    return lines.count(ASSISTANT_HEADING)


def _has_edited(reply: Counter[str], added: Counter[str]) -> bool:
    """Return whether a line that was added is an edited form of a line of the reply."""
    if len(reply) * len(added) > MAX_COMPARED_LINES:
        return False
    return any(is_edited(old, new) for old in reply for new in added)


def _filled(text: str) -> list[str]:
    return [line.rstrip() for line in body_lines(text) if line.strip()]


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
