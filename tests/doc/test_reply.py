"""Replies: patch blocks, and what would break a document."""

from __future__ import annotations

import pytest

from penstock.doc.document import Document
from penstock.doc.lines import split_lines
from penstock.doc.merge import merge
from penstock.doc.reply import Patch, Reply, cleaned

TEMPLATE = """\
---
agent_doc_session: x
---
<!-- agent:status -->
Green.
<!-- /agent:status -->
<!-- agent:exchange -->
Question.
<!-- /agent:exchange -->
<!-- agent:log patch=append -->
- one
<!-- /agent:log -->
"""
APPEND = "# Notes\n\n## User\n\nQuestion.\n"


@pytest.mark.parametrize(
    ("said", "rest", "patches"),
    [
        ("Just text.\n", "Just text.", ()),
        ("a\n<!-- patch:x -->\nb\n<!-- /patch:x -->\nc", "a\n\nc", (Patch("x", "b"),)),
        ("<!-- patch:x -->\r\nb\r\n<!-- /patch:x -->", "", (Patch("x", "b"),)),
        ("<!-- patch:x note=1 -->b<!-- /patch:x -->", "", (Patch("x", "b"),)),
        ("<!-- patch:x -->b<!-- /patch:x --><!-- patch:x -->c<!-- /patch:x -->", "", (Patch("x", "b\n\nc"),)),
        ("a <!-- a comment --> b", "a <!-- a comment --> b", ()),
        ("```\n<!-- patch:x -->\n```\n", "```\n<!-- patch:x -->\n```", ()),
        ("`<!-- patch:x -->` is a block", "`<!-- patch:x -->` is a block", ()),
    ],
)
def test_patch_blocks_are_for_their_components_and_the_rest_is_the_reply(
    said: str, rest: str, patches: tuple[Patch, ...]
) -> None:
    """Blocks of one component are joined; blocks in code are text."""
    assert Reply.parse(said) == Reply(rest, patches)


@pytest.mark.parametrize(
    "said",
    [
        "a\n<!-- patch:x -->\nb",
        "a\n<!-- /patch:x -->\nb",
        "<!-- patch:x -->a<!-- patch:y -->b<!-- /patch:y --><!-- /patch:x -->",
        "<!-- patch:x -->a<!-- /patch:y -->",
    ],
)
def test_a_reply_with_broken_blocks_is_in_the_exchange_as_a_whole(said: str) -> None:
    """Nothing of a reply is lost: its broken markers are shown as text."""
    assert Reply.parse(said) == Reply(said)
    merged = merge(TEMPLATE, TEMPLATE, Reply.parse(said)).text
    assert "\n".join(cleaned(said)).replace("&lt;", "<") == said
    assert "Question.\n\n" + "\n".join(cleaned(said)) + "\n<!-- /agent:exchange -->" in merged


HARMFUL = {
    "an open fence": "Look:\n\n```python\nx = 1",
    "an open fence in a list": "1. first\n   ````\n   x",
    "an open tilde fence": "~~~\nx",
    "a component": "<!-- agent:exchange -->\nnew\n<!-- /agent:exchange -->",
    "an end marker": "x <!-- /agent:exchange --> y",
    "a boundary": "<!-- agent:boundary:a0cfeb34 -->",
    "a marker over two lines": "<!--\nagent:status\n-->",
    "a stray patch marker": "<!-- /patch:status -->",
    "an open comment": "text <!-- and no end\n\nmore",
    "two open comments": "<!-- a --> <!-- b <!-- c",
    "front matter": "---\nagent: evil\nagent_doc_session: other\n---\n\nHello",
    "headings": "## Assistant\n\nHello\n\n## User\n",
    "a line that submits": "Do you agree?\n/send",
    "a line that submits above a comment": "Hm\n/send\n\n<!-- a --> <!-- b -->",
    "carriage returns": "one\r\ntwo\rthree\n",
    "control characters": "a\x00b\x1b[31mred\x1b[0m\x07\x9b1m \ud800 \ufeff end\x0c",
    "blank lines": "\n\n\n  \nHello\n\n\n",
}


@pytest.mark.parametrize("base", [TEMPLATE, APPEND, TEMPLATE.replace("\n", "\r\n")], ids=["template", "append", "crlf"])
@pytest.mark.parametrize("name", HARMFUL)
def test_d5_a_reply_does_not_change_how_the_document_is_read(name: str, base: str) -> None:
    """Components, front matter and format are the same with the reply, and text behind it is outside of it."""
    before = Document.parse(base)
    newline = before.newline
    merged = merge(base, base + "Typed on." + newline, Reply.parse(HARMFUL[name]))
    after = Document.parse(merged.text)
    assert after.front.lines == before.front.lines
    assert after.format == before.format
    assert after.send_line is None
    assert [item.name for item in after.markers.components] == [item.name for item in before.markers.components]
    assert after.markers.boundaries == ()
    for item in after.markers.components:
        if item.name != "exchange":
            old = before.component(item.name)
            assert old is not None
            assert after.text[item.start : item.end] == base[old.start : old.end]
    assert merged.text.count("\r") == merged.text.count("\r\n") == (newline == "\r\n") * merged.text.count("\n")
    merged.text.encode()
    again = merge(merged.text, merged.text + "<!-- agent:last -->x<!-- /agent:last -->\n", Reply.parse("Second."))
    assert Document.parse(again.text).component("last") is not None


def test_d5_a_reply_is_cleaned_as_little_as_possible() -> None:
    """Only what would break a document is changed, and each change can be read."""
    assert cleaned(HARMFUL["an open fence"]) == ["Look:", "", "```python", "x = 1", "```"]
    assert cleaned(HARMFUL["an open fence in a list"]) == ["1. first", "   ````", "   x", "   ````"]
    assert cleaned("- ~~~~\n  x") == ["- ~~~~", "  x", "~~~~"]
    assert cleaned(HARMFUL["an end marker"]) == ["x &lt;!-- /agent:exchange --> y"]
    assert cleaned(HARMFUL["two open comments"]) == ["<!-- a --> &lt;!-- b &lt;!-- c"]
    assert cleaned(HARMFUL["front matter"])[0] == "\\---"
    assert cleaned(HARMFUL["headings"]) == ["Hello"]
    assert cleaned(HARMFUL["a line that submits"]) == ["Do you agree?", "\\/send"]
    assert cleaned(HARMFUL["carriage returns"]) == ["one", "two", "three"]
    assert cleaned(HARMFUL["control characters"]) == ["ab[31mred[0m1m   end"]
    assert cleaned(HARMFUL["blank lines"]) == ["Hello"]
    assert cleaned("## Assistant\n") == cleaned("") == []
    plain = "# Title\n\n---\n\n<!-- a comment -->\n\n```\n<!-- ok\n```\n\tend\u2028still"
    assert cleaned(plain) == plain.split("\n")


@pytest.mark.slow
def test_d5_a_reply_of_five_megabytes_is_whole() -> None:
    """A large reply is in the document line by line."""
    said = "".join(f"line {number} with `code` and text\n" for number in range(150_000))
    lines = split_lines(merge(TEMPLATE, TEMPLATE, Reply.parse(said)).text)
    first = lines.index("line 0 with `code` and text\n")
    assert lines[first : first + 150_000] == split_lines(said)
