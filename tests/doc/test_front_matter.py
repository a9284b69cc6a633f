"""Fields of the front matter: read, and edited without touching anything else."""

from __future__ import annotations

import pytest

from penstock.doc.front_matter import FrontMatter, with_fields


def document(*lines: str, end: str = "---") -> str:
    """A document with these lines as front matter."""
    return "".join(f"{line}\n" for line in ("---", *lines, end, "text"))


@pytest.mark.parametrize(
    ("line", "value", "edited"),
    [
        ("resume: s-1", "s-1", "resume: new"),
        ("resume: s-1  # mine", "s-1", "resume: new  # mine"),
        ("resume:   s-1", "s-1", "resume:   new"),
        ("resume : s-1", "s-1", "resume : new"),
        ('resume: "a # b" # c', "a # b", 'resume: "new" # c'),
        ('resume: "a\\"b"', 'a"b', 'resume: "new"'),
        ("resume: 'it''s'", "it's", 'resume: "new"'),
        ("resume: a#b", "a#b", "resume: new"),
        ("resume: two words", "two words", "resume: new"),
        ("resume: 12", "12", "resume: new"),
        ("resume:", None, "resume: new"),
        ("resume: null", None, "resume: new"),
        ("resume: ~", None, "resume: new"),
        ("resume: # none yet", None, "resume: new # none yet"),
    ],
)
def test_a_value_is_read_and_replaced_in_its_line(line: str, value: str | None, edited: str) -> None:
    """Space, comment and quotes stay; the other lines are not touched."""
    others = ("# a comment", "tags: [a, b]", "nested:", "  resume: inner", "list:", "- x")
    text = document(*others, line, "after: 'x'")
    assert FrontMatter.parse(text).get("resume") == value
    assert with_fields(text, {"resume": "new"}) == (document(*others, edited, "after: 'x'"), [])


@pytest.mark.parametrize(
    "lines",
    [
        ("resume: |", "  text"),
        ("resume: >-",),
        ("resume: [a]",),
        ("resume: {a: 1}",),
        ("resume: *anchor",),
        ("resume: words", "  that go on"),
        ("resume:", "- a"),
        ("resume:", "  a: 1"),
        ('resume: "not closed',),
        ("resume: 'a' b",),
        ('resume: "\\x"',),
    ],
)
def test_a_value_of_more_than_one_line_of_text_is_left_alone(lines: tuple[str, ...]) -> None:
    """It has no value for us, and it is not written over."""
    text = document(*lines)
    assert FrontMatter.parse(text).get("resume") is None
    if lines != ('resume: "\\x"',):
        assert with_fields(text, {"resume": "new"}) == (text, ["resume"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("claude", "claude"),
        ("anthropic/claude-x.1", "anthropic/claude-x.1"),
        ("123e4567", '"123e4567"'),
        ("true", '"true"'),
        ("a: b", '"a: b"'),
        ("line\nagent: other", '"line\\nagent: other"'),
        ("end\n", '"end\\n"'),
        ("ö", '"ö"'),
        ("", '""'),
    ],
)
def test_a_new_field_is_one_line_that_yaml_reads_as_text(value: str, shown: str) -> None:
    """Values that YAML would read as something else, or as more lines, are quoted."""
    assert with_fields(document("a: 1"), {"resume": value}) == (document("a: 1", f"resume: {shown}"), [])


def test_missing_front_matter_is_made() -> None:
    """It is at the start of the file, behind a BOM, with a blank line and the line ends of the document."""
    assert with_fields("Text\n", {"a": "x", "b": "z"})[0] == "---\na: x\nb: z\n---\n\nText\n"
    assert with_fields("\nText", {"a": "x"})[0] == "---\na: x\n---\n\nText"
    assert with_fields("", {"a": "x"})[0] == "---\na: x\n---\n"
    assert with_fields("\ufeffText\r\n", {"a": "x"}, "\r\n")[0] == "\ufeff---\r\na: x\r\n---\r\n\r\nText\r\n"


def test_line_ends_and_bom_are_kept() -> None:
    """A field that is edited or added has the line ends of the document."""
    text = "\ufeff" + document("a: 1 # c", "b: 2").replace("\n", "\r\n")
    edited = with_fields(text, {"a": "x", "c": "z"}, "\r\n")[0]
    assert edited == "\ufeff" + document("a: x # c", "b: 2", "c: z").replace("\n", "\r\n")


@pytest.mark.parametrize("text", ["---\nno fields here\n---\ntext\n", "---\na: 1\n", "---", "text\n---\na: 1\n---\n"])
def test_a_rule_at_the_start_is_not_front_matter(text: str) -> None:
    """Front matter has fields and a second line of dashes."""
    front = FrontMatter.parse(text)
    assert not front.exists
    assert front.end == 0
    assert front.get("a") is None


def test_front_matter_may_be_empty_or_end_with_dots() -> None:
    """Both are YAML; comments alone are too."""
    assert with_fields("---\n---\ntext", {"a": "x"})[0] == "---\na: x\n---\ntext"
    assert with_fields(document("# note", end="..."), {"a": "x"})[0] == document("# note", "a: x", end="...")


def test_the_first_of_several_names_with_a_value_counts() -> None:
    """agent-doc has renamed fields; an old one is read if there is no new one."""
    assert (
        FrontMatter.parse(document("session: old", "agent_doc_session: null")).get("agent_doc_session", "session")
        == "old"
    )


TOML = """\
+++
title = "A page"  # kept
date = 2026-01-02
resume = 's-1' # mine
text = '''
resume = "no field"
'''
[extra]
resume = "inner"
+++
text
"""


def test_toml_is_edited_as_toml() -> None:
    """A field of the root table is replaced in its line or added before the first table; the rest stays as it is."""
    assert FrontMatter.parse(TOML).get("nosuch", "resume") == "s-1"
    assert FrontMatter.parse(TOML).get("date") is None
    text, skipped = with_fields(TOML, {"resume": 'a"b\\', "agent": "claude"})
    expected = TOML.replace("resume = 's-1' # mine", 'resume = "a\\"b\\\\" # mine').replace(
        "[extra]", 'agent = "claude"\n[extra]'
    )
    assert (text, skipped) == (expected, [])
    assert with_fields(text, {"resume": 'a"b\\', "agent": "claude"}) == (text, [])
    above = '+++\ntext = """\nresume = \'no field\'\n"""\nresume = \'s-1\'\n+++\n'
    assert with_fields(above, {"resume": "new"}) == (above.replace("'s-1'", '"new"'), [])
    crlf = TOML.replace("\n", "\r\n")
    assert with_fields("\ufeff" + crlf, {"agent": "x"}, "\r\n")[0] == "\ufeff" + crlf.replace(
        "[extra]", 'agent = "x"\r\n[extra]'
    )


@pytest.mark.parametrize(
    "lines", ["title = \n", "resume = 12\n", "[resume]\na = 1\n", "resume = '''a\nb'''\n", 'a = "\n', "resume.a = 1\n"]
)
def test_toml_that_cannot_be_edited_is_left_alone(lines: str) -> None:
    """Broken TOML, and a field that is no line of text, stay byte for byte; there is no second front matter."""
    text = f"+++\n{lines}+++\ntext\n"
    assert with_fields(text, {"resume": "new"}) == (text, ["resume"])
    assert FrontMatter.parse(text).get("resume") == ("a\nb" if "'''" in lines else None)


@pytest.mark.parametrize("text", ["+++\ntext\n", "+++ a\nb = 1\n+++\n", "++\na = 1\n++\n"])
def test_pluses_without_an_end_are_text(text: str) -> None:
    """A document that only begins like TOML has no front matter."""
    assert not FrontMatter.parse(text).exists
