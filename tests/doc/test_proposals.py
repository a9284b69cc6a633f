"""A component that is replaced while the user edits it: the user's text stays, and the new one is a proposal."""

from __future__ import annotations

import pytest

from penstock.doc.document import Document
from penstock.doc.merge import merge
from penstock.doc.reply import Reply
from penstock.doc.submission import submission

BASE = """\
<!-- agent:status -->
Green.
<!-- /agent:status -->

<!-- agent:exchange -->
How is it?
<!-- /agent:exchange -->
"""
SAID = Reply.parse("Not well.\n<!-- patch:status -->\nRed.\n\n- a test fails\n<!-- /patch:status -->")


def test_d7_a_component_that_the_user_left_alone_is_replaced() -> None:
    """Text elsewhere may change; the component has the new text only."""
    merged = merge(BASE, BASE.replace("How is it?", "How is it?\nNow?"), SAID)
    assert "<!-- agent:status -->\nRed.\n\n- a test fails\n<!-- /agent:status -->" in merged.text
    assert merged.proposals == ()


def test_d7_a_component_that_the_user_edits_keeps_its_text_with_the_proposal_below() -> None:
    """The proposal is a quoted block below the user's text; the user's edit alone is the next question."""
    merged = merge(BASE, BASE.replace("Green.", "Green, I think.\nAsk Ada."), SAID)
    assert (
        "<!-- agent:status -->\nGreen, I think.\nAsk Ada.\n\n"
        "> **Proposed by the agent**, as this part was edited in the meantime:\n>\n> Red.\n>\n> - a test fails\n"
        "<!-- /agent:status -->" in merged.text
    )
    assert merged.proposals == ("status",)
    changes = submission(Document.parse(merged.text), merged.snapshot).changes
    assert [line for line in changes.split("\n") if line.startswith(("+", "-"))] == [
        "-Green.",
        "+Green, I think.",
        "+Ask Ada.",
    ]


def test_a_block_for_the_exchange_is_part_of_the_reply() -> None:
    """The reply goes to the exchange, with a block and without."""
    merged = merge(BASE, BASE, Reply.parse("One.\n<!-- patch:exchange -->\nTwo.\n<!-- /patch:exchange -->"))
    assert "How is it?\n\nOne.\n\nTwo.\n<!-- /agent:exchange -->" in merged.text


def test_d7_blank_lines_alone_are_no_edit() -> None:
    """An editor that changes white space at the edges or line ends does not turn a new text into a proposal."""
    assert merge(BASE, BASE.replace("Green.\n", "Green.\n\n"), SAID).proposals == ()
    assert merge(BASE, BASE.replace("\n", "\r\n"), SAID).proposals == ()


def test_d7_a_component_that_the_user_removes_meanwhile_is_not_lost() -> None:
    """Its new text is in the reply, and there is a note."""
    now = BASE[BASE.index("<!-- agent:exchange") :]
    merged = merge(BASE, now, SAID)
    assert "How is it?\n\nNot well.\n\nRed.\n\n- a test fails\n<!-- /agent:exchange -->" in merged.text
    assert merged.notes == ("the document has no component status; its text is in the reply",)


@pytest.mark.parametrize("mode", ["replace", "prepend"])
def test_d7_an_exchange_may_have_another_mode(mode: str) -> None:
    """The reply follows the attribute of the exchange, and is a proposal if the user edits what it replaces."""
    base = BASE.replace("agent:exchange -->\nHow", f"agent:exchange patch={mode} -->\nHow")
    merged = merge(base, base, Reply.parse("Well."))
    body = "Well.\n" if mode == "replace" else "Well.\n\nHow is it?\n"
    assert f"patch={mode} -->\n{body}<!-- /agent:exchange -->" in merged.text
    edited = merge(base, base.replace("is it?", "is it today?"), Reply.parse("Well."))
    assert "How is it today?" in edited.text
    assert edited.proposals == (("exchange",) if mode == "replace" else ())
