from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sinks.sanitize import MAX_SEQUENCE_CHARS, CommandFilter, Sanitizer, clean, clean_line

HARMLESS = [
    ("plain — 日本語 ✓ 👩‍👩‍👧", "plain — 日本語 ✓ 👩‍👩‍👧"),
    ("tab\tand\nline", "tab\tand\nline"),
    ("\x1b[31mred\x1b[0m \x1b[2K\x1b[1;1Hx\x1b[?25l", "red x"),
    ("\x9b31mred\x9bm", "red"),
    ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b\x1b]52;c;AAAA\x9cc", "alinkbc"),
    ("\x9d0;title\x9ca", "a"),
    ("\x1bPdcs\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
    ("\x1b(B\x1b)0a\x1b7\x1b8\x1bc\x1b=b", "ab"),
    ("a\r\nb\rc\r\r\nd", "a\nb␍c␍\nd"),
    ("\0\x07\x08\x0b\x0c\x7f", "␀␇␈␋␌␡"),
    ("a\u202eb\u2066c\u200fd\u061c", "a<U+202E>b<U+2066>c<U+200F>d<U+061C>"),
    ("a\u2028b\u2029c\x85d", "a⏎b⏎c⏎d"),
    ("a\x84b\ufffe", "a<U+0084>b<U+FFFE>"),
    ("\ud800x\udc00", "\ufffdx\ufffd"),
    ("hidden\U000e0041\U000e007f", "hidden<U+E0041><U+E007F>"),
    ("\x1b", "␛"),
    ("\x1b\x1b[0m[31m", "␛[31m"),
    ("\x1b[12", "␛[12"),
    ("\x1b[1\n2", "␛[1\n2"),
    ("\x1b]never ends\nnext line", "␛]never ends\nnext line"),
    ("\x1b]a\x1b[31mb", "␛]ab"),
]


@pytest.mark.parametrize(("text", "expected"), HARMLESS)
def test_what_acts_is_dropped_or_made_visible(text: str, expected: str) -> None:
    """Sequences go, controls become visible, text stays; whole or character by character."""
    assert clean(text) == expected
    sanitizer = Sanitizer()
    assert "".join(map(sanitizer.feed, text)) + sanitizer.flush() == expected


def test_a_string_over_the_limit_is_shown() -> None:
    """An introducer without an end swallows nothing for ever."""
    sanitizer = Sanitizer()
    shown = sanitizer.feed("\x1b]" + "x" * MAX_SEQUENCE_CHARS)
    assert shown == ""
    assert sanitizer.feed("yz") == "␛]" + "x" * MAX_SEQUENCE_CHARS + "yz"
    assert sanitizer.flush() == ""


def test_printable_text_is_given_back_as_it_is() -> None:
    """The common case costs no copy."""
    text = "some text"
    assert Sanitizer().feed(text) is text


hostile = st.text(
    alphabet=st.sampled_from(
        "\x1b\x1b\x1b[]P\\X^_?;0159mKH(B \x07\x9b\x9d\x9c\x90\r\n\r\n\tab\x00\u202e\u2028\ud800#:"
    ),
    max_size=40,
)
texts = hostile | st.text(max_size=30) | st.builds(lambda a, b: a + "\x1b]8;;" + b, hostile, hostile)
ACTING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@given(texts, st.lists(st.integers(0, 60), max_size=8))
def test_cuts_do_not_show(text: str, cuts: list[int]) -> None:
    """The same text, however cut, comes out the same, and nothing in it acts."""
    expected = clean(text)
    assert not ACTING.search(expected)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    sanitizer = Sanitizer()
    pieces = [sanitizer.feed(text[a:b]) for a, b in pairwise(edges)]
    assert "".join(pieces) + sanitizer.flush() == expected


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp", "Cn"])))
def test_plain_text_is_unchanged(text: str) -> None:
    """What is only text is never altered."""
    assert clean(text) == text


COMMANDS = [
    ("::set-env name=A::b", ": :set-env name=A::b"),
    ("  \t::error::x", "  \t: :error::x"),
    ("a ::error::x", "a ::error::x"),
    ("ok\n::stop-commands::t\n", "ok\n: :stop-commands::t\n"),
    (":::", ": ::"),
    ("a ##vso[task.setvariable]b", "a ##vso [task.setvariable]b"),
    ("##[group]x", "## [group]x"),
    ("##teamcity[x]", "##teamcity [x]"),
    ("###[x]", "### [x]"),
    ("## Heading [link](x)", "## Heading [link](x)"),
    ("#[derive(Debug)]", "#[derive(Debug)]"),
    ("\u3000::debug::x", "\u3000: :debug::x"),
]


@pytest.mark.parametrize(("text", "expected"), COMMANDS)
def test_workflow_commands_are_broken(text: str, expected: str) -> None:
    """What a CI service would obey gets a space; whole or character by character."""
    assert CommandFilter(at_start=True).feed(text) == expected
    guard = CommandFilter(at_start=True)
    assert "".join(map(guard.feed, text)) == expected


def test_behind_a_prefix_only_the_later_lines_begin_one() -> None:
    """In the middle of a line `::` is text."""
    assert CommandFilter().feed("::a\n::b") == "::a\n: :b"


@given(
    st.text(alphabet=st.sampled_from(":#[ \n\tvsoX"), max_size=30),
    st.booleans(),
    st.lists(st.integers(0, 30), max_size=6),
)
def test_commands_are_broken_however_they_are_cut(text: str, at_start: bool, cuts: list[int]) -> None:
    """No cut lets a command through or changes the text otherwise."""
    expected = CommandFilter(at_start=at_start).feed(text)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    guard = CommandFilter(at_start=at_start)
    assert "".join(guard.feed(text[a:b]) for a, b in pairwise(edges)) == expected
    assert not re.search(r"##[A-Za-z]{0,32}\[", expected)
    lines = expected.split("\n")
    assert not any(line.lstrip().startswith("::") for line in (lines if at_start else lines[1:]))
    assert expected.replace(" ", "") == text.replace(" ", "")


def test_clean_line_is_one_line() -> None:
    """Names and titles stay in their line."""
    assert clean_line("a\nb\x1b[31m ##vso[x]") == "a⏎b ##vso [x]"
