"""The scan of a document for code and comments, by one rule written in another way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doc.components import parse_markers, scan, without_comments

FENCE = re.compile(r"\ufeff?[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?P<marks>`{3,}(?=[^`]*$)|~{3,})")
PIECES = ["`", "```", "````", "~~~", "~~~~", "<!--", "-->", "\n", "\n", "\r\n", " ", "\t", "- ", "1. ", "x", "\ufeff"]


def fences(text: str) -> list[tuple[int, int]]:
    """Return the code fences of a text without comments, line by line."""
    found: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    position = 0
    for line in text.splitlines(keepends=True):
        if opened is None:
            mark = FENCE.match(line.rstrip("\n"))
            opened = (position, mark["marks"]) if mark else None
        else:
            start, marks = opened
            closing = re.fullmatch(rf"[ \t]*{marks[0]}{{{len(marks)},}}[ \t]*\r?\n?", line)
            if closing:
                found.append((start, position + len(line.rstrip("\n"))))
                opened = None
        position += len(line)
    return [*found, (opened[0], len(text))] if opened else found


@given(st.lists(st.sampled_from([piece for piece in PIECES if piece not in ("<!--", "\r\n")])).map("".join))
def test_fences_are_found_line_by_line(text: str) -> None:
    """A fence begins on a line of its own, maybe of a list item, and ends with as many marks or with the text."""
    ranges = [(it.start, it.end) for it in scan(text)]
    assert ranges == fences(text)


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_tokens_follow_each_other(text: str) -> None:
    """No two tokens overlap, and each is a comment or begins with a mark of a fence."""
    end = 0
    for token in scan(text):
        assert end <= token.start < token.end <= len(text)
        end = token.end
        first = text[token.start : token.end].lstrip("\ufeff \t-1.")
        assert first.startswith(("<!--", "```", "~~~")), text


@pytest.mark.parametrize("text", ["a ~~struck~~ word", "a ``` b", "a ~~~ b", "``` a ``` b", "`` a ` b``"])
def test_marks_within_a_line_begin_no_fence(text: str) -> None:
    """Backticks and tildes in a text are code of this line, or text."""
    assert list(scan(text + "\n")) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a %%private%% b\n", "a  b\n"),
        ("%% private %%\nb\n", "b\n"),
        ("%%\nprivate\n\nmore\n%%\nb\n", "b\n"),
        ("%% private\nmore %%\nb\n", "b\n"),
        ("%%\r\nprivate\r\n%%\r\nb\r\n", "b\r\n"),
        ("[//]: # (private)\nb\n", "b\n"),
        ('  [//]: # "private"\n[comment]: <> (private)\nb\n', "b\n"),
        ("[//]: #\nb\n", "b\n"),
    ],
    ids=[f"comment {number}" for number in range(8)],
)
def test_comments_that_are_not_html_are_not_sent(text: str, left: str) -> None:
    """Those of Obsidian, and definitions of links that nothing uses."""
    assert without_comments(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "100%% of it and 50%% of that\n",
        "%%% a %%%\n",
        "%% never closed\nb\n",
        "%% a line of LaTeX\nx\n%% another line\n",
        "a %% b\nc %% d\n",
        "```\n%%\ncell\n%%\n```\n",
        "`%%a%%` is code\n",
        "see [//]: # here\n",
        "[a]: # (title)\n",
        "    [//]: # (in code)\n",
        "%%\n<!-- agent:x -->\n%%\n<!-- /agent:x -->\n",
    ],
    ids=[f"text {number}" for number in range(11)],
)
def test_text_that_looks_like_a_comment_is_sent(text: str) -> None:
    """What somebody asks is not lost, since it has the signs of a comment, and no component is hidden by them."""
    assert without_comments(text) == text
    assert len(parse_markers(text).components) == text.count("/agent:x")


@pytest.mark.slow
def test_a_million_signs_are_scanned() -> None:
    """No sign is looked for again and again: that would take hours."""
    for text in ("%% " * 300_000, "a%%" * 300_000, "%%\n" * 300_000, "%% a\n" * 200_000, "[//]: # " * 100_000):
        assert len(without_comments(text)) <= len(text)
