"""Lines of a save that another save replaced."""

from __future__ import annotations

from collections import Counter

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock.doc.saves import merge_saves


@pytest.mark.parametrize(
    ("base", "older", "newer", "result"),
    [
        ("a\nb\n", "a\nnew\nb\n", "a\nb\nreply\n", "a\nnew\nb\nreply\n"),
        ("a\nb\n", "a\nnew\nb\n", "a\nnew\nb\nreply\n", "a\nnew\nb\nreply\n"),
        ("a\n", "a\nolder\n", "a\nnewer\n", "a\nolder\nnewer\n"),
        ("a\nb\n", "b\n", "a\nb\nreply\n", "a\nb\nreply\n"),
        ("a\nb\n", "a\nb\nnew\n", "a\n", "a\nnew\n"),
        ("a", "a\nnew", "a", "a\nnew\n"),
        ("a\n", "", "a\nreply\n", "a\nreply\n"),
    ],
    ids=["added", "there already", "both added", "removed by older", "removed by newer", "no line end", "half a save"],
)
def test_cases(base: str, older: str, newer: str, result: str) -> None:
    """Lines that the older save added are there once, at their places; nothing of the newer one is removed."""
    assert merge_saves(base, older, newer) == result


TEXT = st.lists(st.sampled_from("abcdef"), max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines))


@examples(100, 2000)
@given(TEXT, TEXT, TEXT)
def test_no_line_is_lost(base: str, older: str, newer: str) -> None:
    """The result has every line of the newer text in its order, every new one of the older text, and no others."""
    merged = merge_saves(base, older, newer).splitlines()
    rest = iter(merged)
    assert all(line in rest for line in newer.splitlines())
    new = Counter(older.splitlines()) - Counter(base.splitlines())
    assert Counter(merged) >= new
    assert Counter(merged) <= Counter(newer.splitlines()) | Counter(older.splitlines())
