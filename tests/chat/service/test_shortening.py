"""What of a run is too long for the log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock.chat.history.entries import Prompted, decode, decode_one
from penstock.chat.service.log.truncation import MARK, Shortener, fitted

LIMIT = 10_000

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=400) | st.just("\x01" * 3000),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=300), inner, max_size=60),
    max_leaves=100,
)


def delta(text: str, block: int = 1) -> ev.Event:
    """A piece of a tool's output."""
    return ev.Delta(agent="a", block=block, kind="tool_output", text=text)


def ended(text: str, block: int = 1) -> ev.Event:
    """A tool's whole output."""
    return ev.BlockEnded(agent="a", block=block, kind="tool_output", text=text, complete=True)


@given(st.lists(st.text(min_size=1, max_size=30), max_size=12), st.integers(1, 60))
def test_pieces_of_an_output_are_its_whole(pieces: list[str], limit: int) -> None:
    """The deltas that are kept, joined, are the text of the block's end: the beginning, and a mark if there is more."""
    text = "".join(pieces)
    shortener = Shortener(limit)
    told = shortener.take([*map(delta, pieces), ended(text)])
    *deltas, end = told
    assert isinstance(end, ev.BlockEnded)
    assert "".join(it.text for it in deltas if isinstance(it, ev.Delta)) == end.text
    assert end.text == (text if len(text) <= limit else text[:limit] + MARK)


def test_blocks_are_counted_apart() -> None:
    """An output is not cut for what another one has; nor is a block of the model's."""
    told = Shortener(10).take(
        [delta("x" * 8), delta("y" * 8, 2), delta("z" * 2), ended("x" * 8 + "zz"), delta("w" * 8, 3)]
    )
    assert not [it for it in told if MARK in getattr(it, "text", "")]
    text = ev.Delta(agent="a", block=4, kind="text", text="t" * 50)
    assert Shortener(10).take([text]) == [text]


def test_a_result_keeps_its_beginning_and_its_end() -> None:
    """Errors stand at the end of an output."""
    whole = "begin" + "x" * 1000 + "end"
    event = ev.ToolReturned(agent="a", call_id="c", text=whole, is_error=False, complete=True)
    (told,) = Shortener(100).take([event])
    assert isinstance(told, ev.ToolReturned)
    assert told.text.startswith("begin")
    assert told.text.endswith("end")
    assert "[908 characters are not kept]" in told.text
    assert Shortener(2000).take([event]) == [event]


@pytest.mark.slow
@given(values, st.text(max_size=9000))
def test_every_row_fits(value: Any, text: str) -> None:
    """Whatever an agent gives to a tool, or says at its end, there is a row of it that can be read, of its own kind."""
    called = ev.ToolCalled(agent="a", call_id="c", name="n", input=value, title=text, tool_kind="edit")
    end = ev.RunEnded(agent="a", outcome="ok", reply=text * 3, rounds=1)
    rows, items = fitted([called, end], LIMIT)
    assert items == [decode_one(row) for row in rows]
    assert all(len(row) <= LIMIT for row in rows)
    first, second = (row.what for row in decode((number, 0, row) for number, row in enumerate(rows, 1)))
    assert isinstance(first, ev.ToolCalled)
    assert isinstance(second, ev.RunEnded)
    assert second.outcome == "ok"


def test_deep_values_fit() -> None:
    """Levels without end are cut as well."""
    value: Any = "x"
    for _ in range(400):
        value = {"k" * 40: [value, 1]}
    called = ev.ToolCalled(agent="a", call_id="c", name="n", input=value, title="t", tool_kind="edit")
    ((row,), _) = fitted([called], LIMIT)
    assert len(row) <= LIMIT
    assert b"not kept" in row


def test_what_fits_is_kept_to_the_letter() -> None:
    """Nothing is changed in a row that is not too large."""
    prompt = Prompted(1, "ü" * 500)
    assert [json.loads(row)["text"] for row in fitted([prompt], LIMIT)[0]] == [prompt.text]


def test_half_a_character_is_replaced() -> None:
    """What no encoding has does not keep the rest from the store."""
    ((row,), (item,)) = fitted([Prompted(1, "a\ud800b")], LIMIT)
    assert json.loads(row)["text"] == item.text == "a?b"
