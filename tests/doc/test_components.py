"""Components, boundaries and comments, and documents that cannot be answered."""

from __future__ import annotations

from itertools import count

import pytest

from penstock.doc.components import DocumentError, find_component, parse_markers, scan, without_comments
from penstock.doc.document import Document, check_settings


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\n<!-- agent:x -->\nb\n", 2, "the component x is not closed; write <!-- /agent:x --> after it"),
        (
            "<!-- agent:x -->\n\n```\n<!-- /agent:x -->\n",
            1,
            "the component x is not closed; close the code fence of line 3, or write <!-- /agent:x --> after it",
        ),
        (
            "<!-- agent:x -->\n<!-- agent:y -->\n",
            2,
            "the component y begins inside the component x of line 1; write <!-- /agent:x --> before it",
        ),
        (
            "<!-- agent:x --><!-- /agent:x -->\n\n<!-- agent:x -->",
            3,
            "the component x is there twice, first in line 1; rename or remove one of them",
        ),
        (
            "\n\n<!-- /agent:x -->",
            3,
            "<!-- /agent:x --> closes a component that is not open; write <!-- agent:x --> before it, or remove it",
        ),
        (
            "<!-- agent:y -->\n<!-- /agent:x -->",
            2,
            "<!-- /agent:x --> closes a component that is not open; the open component is y; "
            "write <!-- agent:x --> before it, or remove it",
        ),
        ("<!-- agent:a_b -->", 1, "agent:a_b is not the name of a component; use letters, digits and hyphens"),
    ],
    ids=count(),
)
def test_a_broken_component_is_an_error_with_its_line(text: str, line: int, message: str) -> None:
    """The error has the problem, its line, and what to do."""
    with pytest.raises(DocumentError) as error:
        Document.parse("---\na: 1\n---\n" + text)
    assert error.value.line == line + 3
    expected = (
        message.replace("of line 1", "of line 4").replace("in line 1", "in line 4").replace("of line 3", "of line 6")
    )
    assert str(error.value) == f"line {line + 3}: {expected}"


@pytest.mark.parametrize(
    "code",
    [
        "```\n<!-- agent:x -->\n```",
        "````md\n```\n<!-- agent:x -->\n```\n````",
        "~~~~\n<!-- agent:x -->\n~~~\n~~~~",
        "- ```\n  <!-- agent:x -->\n  ```",
        "2. a\n   ```\n   <!-- agent:x -->\n   ```",
        "`<!-- agent:x -->`",
        "``a ` <!-- agent:x -->``",
        "<!-- about <!-- agent:x --> markers",
        "<!--\nnote\n<!-- agent:x -->",
        "<!-- agent: remember this -->",
        "\ufeff```\n<!-- agent:x -->\n```",
    ],
)
def test_markers_in_code_and_in_comments_are_text(code: str) -> None:
    """A component around them is read as usual."""
    if code.startswith("\ufeff"):
        text = code + "\n<!-- agent:y --><!-- /agent:y -->"
    else:
        text = f"<!-- agent:y -->\n{code}\n<!-- /agent:y -->"
    assert [item.name for item in parse_markers(text).components] == ["y"]


@pytest.mark.parametrize("code", ["```a`b``` ", "` and\n", "```` `` ` ```", "``` x ``` y", "` ``\n"])
def test_backticks_that_open_no_code_are_text(code: str) -> None:
    """Inline code ends on its own line, with as many backticks as it began with."""
    assert [item.name for item in parse_markers(f"{code}<!-- agent:y --><!-- /agent:y -->").components] == ["y"]


def test_inline_code_is_looked_for_in_a_part_of_a_very_long_line() -> None:
    """Backticks that nothing closes nearby are text, so that a line of backticks is read in time."""
    text = "`" + " " * 20_000 + "<!-- agent:y --><!-- /agent:y -->`"
    assert [item.name for item in parse_markers(text).components] == ["y"]


def test_a_limit_of_lines_is_a_number() -> None:
    """Another value is as none."""
    limits = []
    for value in ("5", "0", "many", "-1", "²", ""):
        component = find_component(f"<!-- agent:log max_lines={value} --><!-- /agent:log -->", "log")
        assert component is not None
        limits.append(component.max_lines)
    assert limits == [5, None, None, None, None, None]


def test_a_component_is_found_in_a_document_that_is_being_edited() -> None:
    """Other markers may be broken; a component without its end is not there."""
    text = "<!-- /agent:y -->\n<!-- agent:z -->\n<!-- /agent:x -->\n<!-- agent:x -->\nin x\n<!-- /agent:x -->\n"
    found = find_component(text, "x")
    assert found is not None
    assert text[found.start : found.end] == "in x\n"
    assert find_component(text, "z") is None


def test_comments_are_removed_with_their_lines_and_markers_stay() -> None:
    """A comment in a line leaves the rest of it; code keeps its comments."""
    text = (
        "a\n<!-- gone -->\nb <!-- gone --> c\n<!-- over\n\nlines -->\n<!-- agent:x -->\n<!-- agent:boundary:1 -->\n"
        "<!-- /agent:x -->\n`<!-- kept -->`\n<!-- a --> <!-- b -->\n<!-- not closed"
    )
    assert without_comments(text) == (
        "a\nb  c\n<!-- agent:x -->\n<!-- /agent:x -->\n`<!-- kept -->`\n \n<!-- not closed"
    )


def test_a_scan_passes_what_is_not_closed() -> None:
    """An open comment is text, and an open fence reaches to the end."""
    assert [token.kind for token in scan("<!-- a\n```\nx")] == ["open_comment", "open_fence"]
    assert [token.kind for token in scan("<!-- a --> <!-- b")] == ["comment", "open_comment"]
    assert [token.kind for token in scan("```")] == ["open_fence"]


SETTINGS = """
[log]
mode = "append"
max_entries = 100
[metrics]
pre_patch = "scripts/validate.sh"
[status]
mode = "replace"
[exchange]
mode = "odd"
"""


def test_a_mode_that_only_a_file_of_agent_doc_names_is_an_error() -> None:
    """The file is not used, so a component that it appends to would be replaced; the error has what to write."""
    text = "x\n<!-- agent:log{} -->\n- a\n<!-- /agent:log -->\n<!-- agent:status -->\n<!-- /agent:status -->\n"
    with pytest.raises(DocumentError) as error:
        check_settings(Document.parse(text.format("")), SETTINGS)
    assert str(error.value) == (
        "line 2: the component log has its mode in .agent-doc/components.toml, which is not used; "
        "write <!-- agent:log patch=append -->"
    )
    for named in (" patch=append", " mode=replace"):
        check_settings(Document.parse(text.format(named)), SETTINGS)
    check_settings(Document.parse(text.format("")), "[log")
    check_settings(Document.parse(text.format("")), "log = 1")
    check_settings(Document.parse("<!-- agent:exchange --><!-- /agent:exchange -->"), SETTINGS)
