"""Tags are taken out of a text, code is not, and it makes no difference how the text was cut."""

from __future__ import annotations

import itertools

import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.chat.reasoning_tags import (
    CALLS,
    MAX_LINE_CHARS,
    MAX_RUN_CHARS,
    MAX_SPAN_CHARS,
    MAX_TAG_CHARS,
    THOUGHTS,
    TagStripper,
    strip_tags,
)

MANY = examples(25, 400)

PIECES = st.sampled_from([
    "<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call >", "<function=ls>", "</function>",
    '<invoke name="a">', "</invoke>", "<x:invoke>", "<think/>", "<", ">", "</", "<thi", "nk>", "`", "``", "```", "~~~",
    "\n", "\n\n", " ", "  ", "> ", "- ", "1. ", "a", "Hello", "😀", "```py\n", "\n```\n", "`<think>`", "\r\n", "<b>",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=24).map("".join)


def in_pieces(pieces: list[str]) -> str:
    """What comes out of a text that comes in pieces."""
    stripper = TagStripper()
    return "".join([*map(stripper.feed, pieces), stripper.close()])


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Hello.", "Hello."),
        ("<think>Hm.</think>\n\nHello.", "Hello."),
        ("<THINK>Hm.</Think>Hello.", "Hello."),
        ("<thinking>Hm, <b>.</thinking>Hello.", "Hello."),
        ("<reasoning>Hm.</reasoning>\n\nHello.", "Hello."),
        ("<think>a <thinking>b</think>Hello.", "Hello."),
        ("One.\n\n<think>Hm.</think>\n\nTwo.", "One.\n\nTwo."),
        ("One.\n<think>Hm.</think>\n\nTwo.", "One.\n\nTwo."),
        ("One.\n\n<think>Hm.</think> <think>Hm.</think>\n    code", "One.\n\n    code"),
        ("One <think>Hm.</think> two.", "One two."),
        ("One<think>Hm.</think> two.", "One two."),
        ('Look:\n\n<tool_call>\n{"name": "ls"}\n</tool_call>', "Look:"),
        ("Look: <function=ls>\n<parameter=path>.</parameter>\n</function> done", "Look: done"),
        ('<x:function_calls><x:invoke name="ls"></x:invoke></x:function_calls>So.', "So."),
        ('a <invoke name="ls" /> b', "a b"),
        ("<tool_code>print(1)</tool_code>", ""),
        ("I say <think>and never stop.\n\n```py\n1\n```", "I say"),
        ("Thoughts without a beginning</think>\n\nHello.", "Thoughts without a beginning\n\nHello."),
        ("1 < 2, a <b> c, <thinker>, <function>, <think", "1 < 2, a <b> c, <thinker>, <function>, <think"),
        ("`<code>` and <code>x</code> are HTML", "`<code>` and <code>x</code> are HTML"),
        ("Write `<think>` and ``a ` <think> b``.", "Write `<think>` and ``a ` <think> b``."),
        ("A ` alone <think>Hm.</think>so.", "A ` alone so."),
        ("A ` alone\n<think>Hm.</think>so `b`.", "A ` alone\nso `b`."),
        ("```xml\n<think>\n</think>\n```\n<think>Hm.</think>So.", "```xml\n<think>\n</think>\n```\nSo."),
        ("- a\n  ```<think>\n  <think>x</think>\n  ```\n- b", "- a\n  ```<think>\n  <think>x</think>\n  ```\n- b"),
        ("~~~\n```\n<think>\n~~~~ \n<think>a</think>b", "~~~\n```\n<think>\n~~~~ \nb"),
        ("````\n```\n<think>\n````", "````\n```\n<think>\n````"),
        ("```a``` <think>Hm.</think>b", "```a``` b"),
        ("text ~~~ <think>Hm.</think>b", "text ~~~ b"),
        ("<think>a</think>```\n<think>\n```", "```\n<think>\n```"),
        ("```\nnever closed <think>", "```\nnever closed <think>"),
        ("\n  Hello. \n", "\n  Hello. \n"),
        ("", ""),
    ],
)
def test_what_is_seen(text: str, seen: str) -> None:
    """Tags go with what is in them, code stays whole, and one gap is left; whole and one character at a time."""
    assert strip_tags(text) == seen
    assert in_pieces([*text]) == seen


@pytest.mark.parametrize("name", [*THOUGHTS, *CALLS])
def test_every_name(name: str) -> None:
    """Each name is taken out as a tag, and stays in inline and in fenced code."""
    assert strip_tags(f"a <{name}>secret</{name}>b") == "a b"
    code = f"`<{name}>x</{name}>`\n```\n<{name}>x</{name}>\n```"
    assert strip_tags(code) == code


@given(text=TEXTS, cuts=st.lists(st.integers(0, 200)))
@example("``" + "<think>" + "a" * MAX_SPAN_CHARS + "``", [])
@example("a `" * 3 + "<think " + "a" * MAX_TAG_CHARS + ">", [])
@example("```\n" + " " * MAX_LINE_CHARS + "```\n<think>", [])
@example("`" * (MAX_RUN_CHARS * 2 + 1) + "\n<think>", [])
@MANY
def test_cuts_are_invisible(text: str, cuts: list[int]) -> None:
    """However a text is cut, the same comes out; the finest cut too."""
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    assert in_pieces(pieces) == strip_tags(text)
    assert in_pieces([*text]) == strip_tags(text)


@given(text=TEXTS)
@MANY
def test_nothing_is_made_up(text: str) -> None:
    """What comes out is what went in with parts left out, and a text without tags is not changed."""
    rest = iter(text)
    assert all(char in rest for char in strip_tags(text))
    bare = text.replace("<", "(")
    assert strip_tags(bare) == bare


@given(before=st.sampled_from(["", "a", "a\n\n", "`b` "]), secret=st.text(max_size=20), after=st.text(max_size=10))
@MANY
def test_what_is_hidden_stays_hidden(before: str, secret: str, after: str) -> None:
    """Whatever stands in a tag makes no difference to what is seen."""
    secret = secret.replace("<", "")
    hidden, empty = (strip_tags(f"{before}<think>{inner}</think>{after}") for inner in (secret, ""))
    assert hidden == empty


def test_a_stripper_is_ready_for_the_next_block() -> None:
    """A tag without an end hides its own block and no other."""
    stripper = TagStripper()
    assert stripper.feed("a <think>b") + stripper.close() == "a"
    assert stripper.feed(" c") + stripper.close() == " c"


def test_little_is_held_back() -> None:
    """Text comes out at once: only white space, runs and what may be a tag wait."""
    stripper = TagStripper()
    said = [stripper.feed(piece) for piece in ["Hel", "lo ", "wor", "ld <", "b> ", "<thi", "s> `x", "` ``", "`py\n"]]
    assert said == ["Hel", "lo", " wor", "ld", " <b>", "", " <this> `x", "`", " ```py"]
