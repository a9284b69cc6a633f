"""The append format: a reply below what was asked, and an empty heading for the next question."""

from __future__ import annotations

from penstock.doc.document import Document
from penstock.doc.merge import merge
from penstock.doc.reply import Reply
from penstock.doc.submission import submission

ASKED = "---\nagent_doc_session: d1\n---\n\n# Sums\n\n## User\n\nWhat is 2+2?\n"
FOUR = Reply.parse("4\n")


def test_a_reply_is_below_the_question_and_an_empty_heading_is_below_it() -> None:
    """The reply has a heading, and the next question can be written at the end of the file."""
    merged = merge(ASKED, ASKED, FOUR)
    assert merged.text == ASKED + "\n## Assistant\n\n4\n\n## User\n\n"
    assert merged.snapshot == merged.text


def test_what_was_typed_meanwhile_is_below_the_reply_and_is_the_next_question() -> None:
    """A last line that was typed on is in one piece before the reply; new lines are behind it."""
    now = ASKED.replace("2+2?\n", "2+2? And why?\nTake your time.\n")
    merged = merge(ASKED, now, FOUR)
    assert merged.text.endswith("What is 2+2? And why?\n\n## Assistant\n\n4\n\n## User\n\nTake your time.\n")
    asked = submission(Document.parse(merged.text), merged.snapshot)
    assert "+Take your time." in asked.changes
    assert "+What is 2+2? And why?" in asked.changes


def test_an_answered_document_asks_nothing() -> None:
    """Directly after a reply there is nothing to ask."""
    merged = merge(ASKED, ASKED, FOUR)
    assert submission(Document.parse(ASKED), None).is_new
    assert not submission(Document.parse(merged.text), merged.snapshot).is_new
