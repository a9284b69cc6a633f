"""The place of a reply, and what is written beside it."""

from __future__ import annotations

import pytest

from penstock.doc.document import Document
from penstock.doc.merge import merge
from penstock.doc.reply import Reply
from penstock.doc.submission import submission

EXCHANGE = "# T\n\n<!-- agent:exchange -->\nq\n<!-- /agent:exchange -->\n\nbelow\n"
GONE = "the text that was asked about is no longer in the document; the reply is at the end"
SAID = Reply.parse("R.")


@pytest.mark.parametrize(
    ("base", "now", "merged"),
    [
        ("q", "q", "q\n\n## Assistant\n\nR.\n\n## User\n\n"),
        ("q\n", "q\n", "q\n\n## Assistant\n\nR.\n\n## User\n\n"),
        ("q\n\n", "q\n\n", "q\n\n## Assistant\n\nR.\n\n## User\n\n"),
        ("q\n", "q\n\nmore\n", "q\n\n## Assistant\n\nR.\n\n## User\n\nmore\n"),
        ("q\n", "q\nmore", "q\n\n## Assistant\n\nR.\n\n## User\n\nmore"),
        ("q", "q, and more\nlast", "q, and more\n\n## Assistant\n\nR.\n\n## User\n\nlast"),
        ("q\r\n", "q\r\n", "q\r\n\r\n## Assistant\r\n\r\nR.\r\n\r\n## User\r\n\r\n"),
        ("\ufeffq", "\ufeffq", "\ufeffq\n\n## Assistant\n\nR.\n\n## User\n\n"),
        ("---\na: 1\n---", "---\na: 1\n---", "---\na: 1\n---\n## Assistant\n\nR.\n\n## User\n\n"),
        ("# a\n\nb\n", "b\n# a\n", "b\n\n## Assistant\n\nR.\n\n## User\n\n# a\n"),
        ("q\n\n```\nx\n", "q\n\n```\nx\ny\n```\nz\n", "q\n\n```\nx\ny\n```\n\n## Assistant\n\nR.\n\n## User\n\nz\n"),
        ("q\n", "<!--\nq\nx\n-->\nz\n", "<!--\nq\nx\n-->\n\n## Assistant\n\nR.\n\n## User\n\nz\n"),
    ],
)
def test_a_reply_in_append_format(base: str, now: str, merged: str) -> None:
    """It is behind what was asked, with one blank line around, and keeps line ends and BOM. It ends with a newline."""
    result = merge(base, now, SAID)
    assert result.text == merged
    assert bool(result.notes) == ("```" in base)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("---\na: 1\n---\nq\n\n```\nx\n", "the code fence that begins in line 6 is not closed"),
        ("q\n<!-- private\nmore\n", "the comment that begins in line 2 is not closed"),
        ("q <!-- is text in a line\n", ""),
        ("```\nq\n```\n<!-- x -->\n", ""),
    ],
)
def test_what_hides_a_reply_is_told(text: str, note: str) -> None:
    """The user's text is left as it is; a preview would show the reply as code, or not at all."""
    notes = merge(text, text, SAID).notes
    assert (len(notes) == 1 and note in notes[0]) if note else notes == ()


def test_a_reply_to_text_that_is_gone_is_at_the_end() -> None:
    """If the user has deleted all that was asked, the reply is at the end, with a note."""
    merged = merge("Old question\n", "Something else entirely.\n\nNew.\n", SAID)
    assert merged.text == "Something else entirely.\n\nNew.\n\n## Assistant\n\nR.\n\n## User\n\n"
    assert merged.notes == (GONE,)
    merged = merge(EXCHANGE, EXCHANGE.replace("q\n", ""), SAID)
    assert "<!-- agent:exchange -->\nR.\n<!-- /agent:exchange -->" in merged.text
    assert merged.notes == (GONE,)
    merged = merge(EXCHANGE, "# T\n\nbelow\n", SAID)
    assert merged.text == "# T\n\nbelow\n\nR.\n"
    assert merged.notes == (GONE,)


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_template_without_an_exchange_gets_the_reply_at_its_end(end: str) -> None:
    """The reply ends with a newline; the end of a component that has one is kept."""
    text = f"<!-- agent:status -->ok<!-- /agent:status -->\ntext{end}"
    assert merge(text, text, SAID).text == "<!-- agent:status -->ok<!-- /agent:status -->\ntext\n\nR.\n"
    output = f"<!-- agent:output -->\n<!-- /agent:output -->{end}"
    assert merge(output, output, SAID).text == f"<!-- agent:output -->\nR.\n<!-- /agent:output -->{end}"


def test_an_exchange_that_the_user_moves_gets_the_reply_where_it_is() -> None:
    """A component is found by its name, wherever it is by then."""
    part = EXCHANGE[EXCHANGE.index("<!--") : EXCHANGE.index("\nbelow")]
    now = EXCHANGE.replace(part, "") + part
    merged = merge(EXCHANGE, now, SAID)
    assert merged.text.endswith("below\n<!-- agent:exchange -->\nq\n\nR.\n<!-- /agent:exchange -->\n")


def test_an_indented_end_marker_stays_indented() -> None:
    """The space before a marker belongs to it."""
    text = "- item\n  <!-- agent:exchange -->\n  q\n  <!-- /agent:exchange -->\n"
    assert merge(text, text, SAID).text == "- item\n  <!-- agent:exchange -->\n  q\n\nR.\n  <!-- /agent:exchange -->\n"
    status = "  <!-- agent:status -->\n  old\n  <!-- /agent:status -->\n"
    said = Reply.parse("<!-- patch:status -->\nnew\n<!-- /patch:status -->")
    assert merge(status, status, said).text == "  <!-- agent:status -->\nnew\n  <!-- /agent:status -->\n"


BOUNDARY = "<!-- agent:boundary:1 -->\n"


def test_a_boundary_is_the_place_of_the_reply_and_is_behind_it_then() -> None:
    """Old text behind it stays behind; what is typed before it meanwhile is before the reply."""
    text = EXCHANGE.replace("q\n", f"q\n{BOUNDARY}old\n")
    assert f"q\n\nR.\n{BOUNDARY}old\n<!-- /agent" in merge(text, text, SAID).text
    typed = text.replace("q\n", "q\nx\n").replace("old\n", "old\ny\n")
    assert f"q\nx\n\nR.\n{BOUNDARY}old\ny\n<!-- /agent" in merge(text, typed, SAID).text
    removed = text.replace(BOUNDARY, "")
    assert "q\n\nR.\n\nold\n<!-- /agent" in merge(text, removed, SAID).text


def test_a_boundary_above_the_question_moves_behind_the_reply() -> None:
    """In both formats there is one boundary afterwards."""
    text = EXCHANGE.replace("q\n", f"old\n{BOUNDARY}q\n")
    assert f"old\nq\n\nR.\n{BOUNDARY}<!-- /agent" in merge(text, text, SAID, at_boundary=False).text
    append = f"old\n{BOUNDARY}q\n"
    merged = merge(append, append + "more\n", SAID, at_boundary=False)
    assert merged.text == f"old\nq\n\n## Assistant\n\nR.\n\n## User\n\n{BOUNDARY}\nmore\n"
    assert merge(append, append, SAID, at_boundary=True).text.startswith(
        "old\n\n## Assistant\n\nR.\n\n## User\n\n" + BOUNDARY
    )


def test_a_reply_of_patches_alone_leaves_the_exchange_alone() -> None:
    """Without text there is no insertion; empty patches add nothing."""
    text = (
        EXCHANGE
        + "<!-- agent:log patch=append -->\n<!-- /agent:log -->\n<!-- agent:status -->\nx\n<!-- /agent:status -->\n"
    )
    said = "<!-- patch:log -->\n<!-- /patch:log -->\n<!-- patch:status -->\n<!-- /patch:status -->"
    assert merge(text, text, Reply.parse(said)).text == text.replace("x\n<!--", "<!--")
    assert merge(EXCHANGE, EXCHANGE, Reply("")).text == EXCHANGE
    assert merge(EXCHANGE, "gone\n", Reply("")).notes == ()


@pytest.mark.parametrize(
    ("mode", "old", "said", "new"),
    [
        ("append", "- a\n", "- b", "- a\n- b\n"),
        ("append", "- a\n\n", "- b", "- a\n\n- b\n"),
        ("append", "words\n", "- b", "words\n\n- b\n"),
        ("append", "| a |\n", "| b |", "| a |\n| b |\n"),
        ("append", "", "- b", "- b\n"),
        ("prepend", "- a\n", "- b", "- b\n- a\n"),
        ("prepend", "words\n", "- b", "- b\n\nwords\n"),
        ("prepend", "\nwords\n", "- b", "- b\n\nwords\n"),
        ("append max_lines=2", "- a\n- b\n", "- c", "- b\n- c\n"),
        ("append max_lines=1", "- a\n- b\n", "- c\n- d", "- c\n- d\n"),
        ("prepend max_lines=2", "- a\n- b\n", "- c", "- c\n- a\n"),
        ("append max_lines=9", "- a\n", "- c", "- a\n- c\n"),
        ("append max_lines=3", "```\na\nb\n```\n", "- c", "```\na\nb\n```\n\n- c\n"),
        ("prepend max_lines=3", "```\na\nb\n```\nx\n", "- c", "- c\n\n```\na\nb\n```\n"),
        ("prepend max_lines=3", "<!-- a\nb\nc -->", "- c", "- c\n\n<!-- a\nb\nc -->"),
    ],
)
def test_entries_of_a_component(mode: str, old: str, said: str, new: str) -> None:
    """Rows of lists and tables stay together; a limit cuts the oldest lines, but no code fence and no new line."""
    text = f"<!-- agent:log patch={mode} -->\n{old}<!-- /agent:log -->\n"
    merged = merge(text, text, Reply.parse(f"<!-- patch:log -->\n{said}\n<!-- /patch:log -->"))
    assert merged.text == text.replace(f"-->\n{old}", f"-->\n{new}", 1)


def test_a_limit_cuts_nothing_that_the_user_is_editing() -> None:
    """Lines are only cut from a component that is as it was submitted."""
    text = "<!-- agent:log patch=append max_lines=1 -->\n- a\n<!-- /agent:log -->\n"
    said = Reply.parse("<!-- patch:log -->\n- c\n<!-- /patch:log -->")
    assert "- a\n- c\n- b\n" in merge(text, text.replace("- a\n", "- a\n- b\n"), said).text
    assert "- x and y\n- c\n" in merge(text, text.replace("- a\n", "- x and y\n"), said).text


def test_fields_are_written_unless_the_user_has_changed_them() -> None:
    """They come with the reply, into the text and into the snapshot."""
    base = "---\nagent: claude # mine\nresume: s-1\n---\nq\n"
    merged = merge(base, base, SAID, fields={"resume": "s-2", "agent_doc_session": "d-1"})
    assert merged.text.startswith("---\nagent: claude # mine\nresume: s-2\nagent_doc_session: d-1\n---\nq\n")
    assert merged.snapshot == merged.text
    assert Document.parse(merged.text).session == "d-1"
    changed = merge(base, base.replace("s-1", "mine"), SAID, fields={"resume": "s-2"})
    assert "resume: mine\n" in changed.text
    assert "resume: s-1\n" in changed.snapshot
    assert changed.notes == (
        "resume stays as it is in the front matter: it was changed meanwhile, or is not one line of text",
    )
    listed = merge("---\nresume: [a]\n---\nq\n", "---\nresume: [a]\n---\nq\n", SAID, fields={"resume": "s-2"})
    assert "resume: [a]" in listed.text
    assert len(listed.notes) == 1


def test_a_named_format_goes_before_markers() -> None:
    """A document in append format may have components; `inline` is its other name."""
    text = "---\nagent_doc_format: inline\n---\n" + EXCHANGE
    document = Document.parse(text)
    assert document.format == "append"
    said = Reply.parse("R.\n<!-- patch:exchange -->\nx\n<!-- /patch:exchange -->")
    merged = merge(text, text, said)
    assert merged.text.endswith("below\n\n## Assistant\n\nR.\n\n## User\n\n")
    assert "q\n\nx\n<!-- /agent:exchange -->" in merged.text
    assert Document.parse("---\nagent_doc_mode: template\n---\nq\n").format == "template"
    assert not submission(Document.parse(merged.text), merged.snapshot).is_new


def test_the_same_reply_twice_is_there_twice() -> None:
    """Two replies that are equal are two replies."""
    once = merge("q\n", "q\n", SAID)
    again = once.text + "again\n"
    assert merge(again, again, SAID).text.count("R.\n") == 2
