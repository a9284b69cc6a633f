"""Differences of texts, and a place carried from one text to another."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from effort import at_most

from penstock.doc.lines import MAX_COMPARED_PAIRS, carry, compare, split_lines, unified_diff


def test_only_newlines_end_lines() -> None:
    """Form feeds, lone carriage returns and separators of Unicode are part of their line."""
    assert split_lines("a\x0cb\u2028c\x85\rd\r\ne\n\nf") == ["a\x0cb\u2028c\x85\rd\r\n", "e\n", "\n", "f"]
    assert split_lines("") == []
    assert split_lines("\n") == ["\n"]


def test_changes_cover_both_texts() -> None:
    """Equal parts are equal, and the parts in their order are the two texts."""
    for seed in range(at_most(300, 5_000)):
        random = Random(seed)
        a = random.choices("abcdefgh  ", k=random.randint(0, 30))
        b = a[:]
        for _ in range(random.randint(0, 6)):
            at = random.randint(0, len(b))
            b[at : at + random.randint(0, 3)] = random.choices("abxyz ", k=random.randint(0, 3))
        changes = compare(a, b)
        position = (0, 0)
        for change in changes:
            assert (change.a_start, change.b_start) == position
            position = (change.a_end, change.b_end)
            assert (a[change.a_start : change.a_end] == b[change.b_start : change.b_end]) == change.equal
        assert position == (len(a), len(b))
        assert all(first.equal != second.equal for first, second in pairwise(changes))


def test_a_large_part_without_a_common_anchor_is_replaced_as_a_whole() -> None:
    """Between two such parts, difflib would need minutes; the beginning and the end are still found."""
    size = int(MAX_COMPARED_PAIRS**0.5) + 1
    a = ["start", *["x", "y"] * size, "end"]
    b = ["start", *["y", "y", "x"] * size, "end"]
    changes = compare(a, b)
    assert [change.equal for change in changes] == [True, False, True]
    assert (changes[1].a_start, changes[1].a_end) == (1, 1 + 2 * size)


@pytest.mark.slow
def test_texts_of_a_hundred_thousand_lines_are_compared() -> None:
    """Each of a thousand edits is found, and no unchanged line is part of a change."""
    random = Random(7)
    a = [f"line {number}\n" if number % 2 else "\n" for number in range(100_000)]
    b = a[:]
    edited = random.sample(range(1, 100_000, 2), 1_000)
    for index in edited:
        b[index] = "edited\n"
    found = [index for change in compare(a, b) if not change.equal for index in range(change.a_start, change.a_end)]
    assert found == sorted(edited)
    assert carry(a, b, 50_000) == 50_000


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        ("", "", 0),
        ("", "new", 0),
        ("q", "q", 1),
        ("q", "q|more", 1),
        ("q", "above|q|more", 2),
        ("q", "q and more", 1),
        ("q is this", "above|q is this one|more", 2),
        ("what is this?", "waht is this?|more", 1),
        ("a|b", "a", 1),
        ("a|b", "a|c1 c2 c3 c4|d", 3),
        ("a||", "a||", 3),
        ("q||", "q more||", 3),
        ("q||", "q more|x||", 1),
        ("a|q|", "a|q1||and", 3),
        ("a|", "a", 1),
        ("a| ", "a|b|c", 1),
        ("|", "x", 0),
        ("|x", "y||x", 3),
        ("a|b|c", "c|a|b", 3),
        ("only this", "", None),
        ("only this", "all new", None),
        ("|only this", "|", None),
    ],
)
def test_a_place_is_carried(a: str, b: str, place: int | None) -> None:
    """Lines before the place stay before it, edited ones too; lines that were added at the place are behind it."""
    rows, others = (text.split("|") if text else [] for text in (a, b))
    assert carry(rows, others, len(rows)) == place


def test_a_diff_reads_like_one_of_diff_u() -> None:
    """Changes near each other share a hunk, with three lines around them."""
    a = [f"{number}\n" for number in range(1, 30)]
    b = a[:]
    b[4] = "five\r\n"
    b[8:10] = []
    b[24:24] = ["more\n"]
    assert unified_diff(a, b) == (
        "@@ -2,12 +2,10 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n-10\n 11\n 12\n 13\n"
        "@@ -24,6 +22,7 @@\n 24\n 25\n 26\n+more\n 27\n 28\n 29\n"
    )
    assert unified_diff(a, a) == ""
