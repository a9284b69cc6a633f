"""Words that changed within a line of a diff are marked in a terminal with colours, and nothing else is different."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.changes import as_diff
from penstock.events import Change
from penstock.sinks.text.changed_words import MAX_COMPARED_CHARS, changed_words
from penstock.sinks.text.edits import Paths, diffs
from penstock.sinks.text.styles import COLOURS, PLAIN, painted

CASES = json.loads((Path(__file__).parents[1] / "page/unit/changed_words.json").read_text("utf-8"))
"""Lines whose changed words are in brackets, and diffs in which none are marked. The page has the same cases."""
LONG = "word " * MAX_COMPARED_CHARS
SGR = re.compile(r"\x1b\[[\d;]*m")
WORDS = ["a", "bc", "word", " ", "  ", "(", ",", "é", "e\u0301", "漢字", "👍🏽", "\x1b[31m", "\t", "\r"]
LINES = st.lists(
    st.builds(str.__add__, st.sampled_from(["+", "-", " ", "\\", "@@"]), st.lists(st.sampled_from(WORDS)).map("".join)),
    max_size=12,
)


def marked(*lines: str) -> list[str]:
    """Return lines of a diff with their changed words in brackets."""
    found = changed_words(lines)
    return [
        line[:1] + "".join(f"[{text}]" if changed else text for changed, text in found.get(number, [(False, line[1:])]))
        for number, line in enumerate(lines)
    ]


@pytest.mark.parametrize(("old", "new"), CASES["changed"])
def test_changed_words_are_marked(old: str, new: str) -> None:
    """In both lines, and only they."""
    lines = [sign + line.replace("[", "").replace("]", "") for sign, line in (("-", old), ("+", new))]
    assert marked(*lines) == [f"-{old}", f"+{new}"]


@pytest.mark.parametrize("lines", [*CASES["unchanged"], [f"-{LONG}", f"+{LONG}more"]])
def test_other_lines_have_no_marks(lines: list[str]) -> None:
    """Lines with little in common, of blocks of different sizes, that do not follow each other, and very long ones."""
    assert changed_words(lines) == {}


def test_lines_of_a_block_are_compared_in_order() -> None:
    """Also if the last one has no line break at its end."""
    lines = ["-first line of two", "-second line of two", "\\ No newline", "+first line of 2", "+second line of 2"]
    assert marked(*lines) == [
        "-first line of [two]",
        "-second line of [two]",
        "\\ No newline",
        "+first line of [2]",
        "+second line of [2]",
    ]


def test_a_line_of_many_words_is_compared_by_its_ends() -> None:
    """An agent cannot make the comparison slow: beyond a number of words all between the ends counts as changed."""
    lines = ["-" + "same " * 60 + "(" * 80, "+" + "same " * 60 + ")(" * 40]
    assert marked(*lines) == ["-" + "same " * 60 + f"[{'(' * 79}](", "+" + "same " * 60 + f"[{')(' * 39 + ')'}]("]


@given(LINES)
def test_without_colours_a_diff_is_as_it_was(lines: list[str]) -> None:
    """Codes are all that is added: the rest of a diff stays the same, byte for byte."""
    change = Change("a.py", "update", diff="".join(f"{line}\n" for line in lines))
    coloured, plain = (as_diff([change], Paths(), colours, without_lines="") for colours in (COLOURS, PLAIN))
    assert "\x1b" not in plain
    assert SGR.sub("", coloured) == plain
    pieces = diffs([change], Paths(), None)
    assert SGR.sub("", "".join(painted(COLOURS, style, text) for style, text in pieces)) == "".join(
        it for _, it in pieces
    )
    for number, parts in changed_words(lines).items():
        assert lines[number][:1] in "+-"
        assert "".join(text for _, text in parts) == lines[number][1:]


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_is_not_marked_is_in_both_lines(old: str, new: str) -> None:
    """In the same order."""
    found = changed_words([f"-{old}", f"+{new}"])
    if found:
        was, now = ("".join(text for changed, text in found[number] if not changed) for number in (0, 1))
        assert was == now
