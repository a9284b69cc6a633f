"""Rendered Markdown loses no word, is the same wherever the text was cut, and holds text back only for a short time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock.sinks.sanitize import clean
from penstock.sinks.text.own_codes import clean_styled
from penstock.sinks.text.rendering.scanner import MARKER_SECONDS, MAX_RUN_CHARS
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

A: dict[str, Any] = {"agent": "a"}
CODES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
WORDS = re.compile(r"[^\W_]+")
FEW = examples(60, 1500)
Kind = Literal["auto", "on"]

PARTS = st.sampled_from([
    "word", "Wort ", " a", "1. ", "- ", "* ", "+ ", "> ", "#", "## ", "\n", "\n\n", "**", "*", "***", "`", "``", "```",
    "```py\n", "~~~", "_", "__", "[x](https://e.org/a)", "[b.org](https://e.org)", "[", "](", ")", "<https://e.org>",
    "<", "|", "| a | b |\n", "|--|:-:|\n", "---\n", "***\n", "    ", "\t", "\\", "漢字", "🎉", "é",
    "def f(): return 'x' # y\n",
    "longer-word-than-others",
    "`" * 18, "*" * 18, "-" * 18, "  ",
])  # fmt: skip
TEXTS = st.lists(PARTS, max_size=25).map("".join)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    """The text in pieces of these sizes, in turn."""
    found, at, number = [], 0, 0
    while at < len(text):
        size = cuts[number % len(cuts)] if cuts else len(text)
        found.append(text[at : at + size])
        at, number = at + size, number + 1
    return found


def show(pieces: list[str], render: Any, flushed: frozenset[int] = frozenset(), **look: Any) -> str:
    """What a terminal gets. After the pieces with the numbers `flushed`, held text is flushed."""
    sink = TextSink("full", color=True, render=render, prefix="none", **look)
    out = [sink.render([ev.BlockStarted(1, "text", 1, **A)])]
    for number, piece in enumerate(pieces):
        out.append(sink.render([ev.Delta(1, "text", piece, **A)]))
        if number in flushed:
            out.append(sink.flush_held())
            assert not sink.holds
    out.append(sink.render([ev.BlockEnded(1, "text", "".join(pieces), True, **A)]))
    return "".join(out) + sink.close()


def merged(output: str) -> list[tuple[str, str]]:
    """The characters of an output, each with the codes before it; how these were repeated makes no difference."""
    found, codes = [], ""
    for part in re.split(f"({CODES.pattern})", output):
        if CODES.fullmatch(part):
            codes = "" if part in ("\x1b[0m", "\x1b]8;;\x1b\\") else codes + part
        else:
            found += [(char, codes if char not in "\n" else "") for char in part]
    return found


def words(text: str) -> list[str]:
    """The words of a text without the codes of a terminal."""
    return WORDS.findall(CODES.sub("", text))


@FEW
@given(TEXTS, st.lists(st.integers(1, 9), max_size=5), st.sampled_from(["auto", "on"]), st.data())
def test_no_word_is_lost(text: str, cuts: list[int], kind: Kind, data: st.DataObject) -> None:
    """The words are those of the source, in its order, whatever the cuts are and whenever held text is flushed."""
    pieces = pieces_of(text, cuts)
    flushed = data.draw(st.frozensets(st.integers(0, max(0, len(pieces) - 1)), max_size=6))
    output = show(pieces, kind, flushed, width=data.draw(st.sampled_from([None, 30, 60])))
    assert squeezed(output) == squeezed(text)


def squeezed(text: str) -> str:
    """The words of a text as one string: a marker in a word that was dropped, and a break, divide nothing."""
    return "".join(words(text))


@FEW
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from(["auto", "on"]))
def test_cuts_change_nothing(text: str, cuts: list[int], kind: Kind) -> None:
    """Every character has the same styles and hyperlink; with `on` at the same place of a terminal too."""
    for width in (None, 40) if kind == "on" else (None,):
        look: dict[str, Any] = {"width": width, "hyperlinks": True}
        assert merged(show(pieces_of(text, cuts), kind, **look)) == merged(show([text], kind, **look))


@FEW
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_auto_holds_markers_only(text: str, cuts: list[int]) -> None:
    """After each delta, no more is held than a marker may have, for 100 ms, and then all has been written."""
    sink = TextSink("full", color=True, render="auto", prefix="none")
    sink.render([ev.BlockStarted(1, "text", 1, **A)])
    written, source = "", ""
    for piece in pieces_of(text, cuts):
        source += piece
        written += sink.render([ev.Delta(1, "text", piece, **A)])
        assert all(seconds == MARKER_SECONDS for seconds in sink.holds.values())
        held = squeezed(source).removeprefix(squeezed(written))
        assert len(held) <= 2  # of a number before the items of a list
        assert not held or held.isdigit()
        written += sink.flush_held()
        assert not sink.holds
        assert squeezed(written) == squeezed(source)
    assert MARKER_SECONDS <= 0.1
    assert MAX_RUN_CHARS <= 16


@FEW
@given(TEXTS, st.sampled_from(["auto", "on"]))
def test_the_second_barrier_lets_it_pass(text: str, kind: Kind) -> None:
    """The output has no codes but those of the sink, and none that moves the cursor."""
    output = show([text], kind, hyperlinks=True, width=50)
    assert clean_styled(output) == output
    assert "\x1b" not in CODES.sub("", output)


@pytest.mark.sample(9)
@pytest.mark.parametrize("kind", ["auto", "on"])
def test_recordings(recording: Recording, kind: Kind) -> None:
    """The words of each text of a recording are shown, and every cut gives the same."""
    for event in feeds.whole(Stream(recording.agent), recording.data):
        if isinstance(event, ev.BlockEnded) and event.kind == "text" and event.text:
            whole = show([event.text], kind)
            assert squeezed(whole) == squeezed(clean(event.text)), event.text
            for size in (1, 7):
                assert merged(show(pieces_of(event.text, [size]), kind)) == merged(whole)
