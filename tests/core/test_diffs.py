"""Diffs of edits: applied to the text before, they give the text after; counts and limits hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import diffs
from penstock.core.diffs import Hunk
from penstock.events import Change

LINES = st.lists(
    st.sampled_from(["a", "b", "", " c", "-d", "+e", "@@ f", "\\ g", "caf\u00e9\u2028x", "h\r"]), max_size=30
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def patched(folder: Path, before: str, diff: str) -> str:
    """Apply a diff with Git, as an independent judge."""
    (folder / "f").write_bytes(before.encode())
    patch = "--- a/f\n+++ b/f\n" + diff
    subprocess.run(
        ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"],
        input=patch.encode(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return (folder / "f").read_bytes().decode()


@settings(max_examples=at_most(20, 60))
@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_git_makes_the_text_after_of_the_text_before(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str
) -> None:
    """Git applies the diff of two random texts, and the counts are those of its lines."""
    change = diffs.from_texts("f", before, after)
    if before == after:
        assert change == Change("f", "update", added=0, removed=0)
        return
    assert change.diff is not None
    assert patched(tmp_path_factory.mktemp("diff"), before, change.diff) == after


def test_a_change_in_a_long_file_has_three_lines_of_context() -> None:
    """Only the lines around a change are kept, with their numbers."""
    before = "".join(f"{number}\n" for number in range(1, 101))
    change = diffs.from_texts("f", before, before.replace("50\n", "fifty\n"))
    assert (change.added, change.removed) == (1, 1)
    assert change.diff == "@@ -47,7 +47,7 @@\n 47\n 48\n 49\n-50\n+fifty\n 51\n 52\n 53\n"


def test_files_that_appear_and_disappear() -> None:
    """A new file is all added, a deleted one all removed; a text without a line end has its mark."""
    assert diffs.from_texts("f", None, "a\nb") == Change(
        "f", "add", added=2, removed=0, diff="@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
    )
    assert diffs.from_texts("f", "a\n", None) == Change("f", "delete", added=0, removed=1, diff="@@ -1 +0,0 @@\n-a\n")
    assert diffs.from_texts("f", None, "") == Change("f", "add", added=0, removed=0)
    assert diffs.from_texts("f", "a\n", "a\n", to="g") == Change("f", "move", to="g", added=0, removed=0)


def test_a_write_may_replace_a_file() -> None:
    """Of a file that is written whole it is not known what was there before."""
    assert diffs.from_content("f", "a\n") == Change("f", "add", added=1, diff="@@ -0,0 +1 @@\n+a\n")


def test_fragments_have_no_position() -> None:
    """Parts of a file are compared line by line, below a header without numbers."""
    change = diffs.from_fragments("f", [("a\nold\n", "a\nnew\n"), ("x", "")])
    assert change == Change("f", "update", added=1, removed=2, diff="@@\n a\n-old\n+new\n@@\n-x\n")


def test_hunks_of_a_wire() -> None:
    """Hunks with their numbers become a diff; an empty range has the number of the line before it."""
    hunks = [diffs.Hunk(1, 0, 1, 2, ["+a", "+b"]), diffs.Hunk(9, 1, 11, 1, ["-c", "+d"])]
    change = diffs.from_hunks("f", hunks)
    assert change == Change("f", "update", added=3, removed=1, diff="@@ -0,0 +1,2 @@\n+a\n+b\n@@ -9 +11 @@\n-c\n+d\n")


def test_a_unified_diff_loses_its_file_headers() -> None:
    """What stands before the first hunk is left out; a removed line that looks like a header is counted."""
    diff = "Index: f\n=====\n--- f\n+++ f\n@@ -1,2 +1 @@\n--- a\n b\n"
    change = diffs.from_unified("f", diff)
    assert change == Change("f", "update", added=0, removed=1, diff="@@ -1,2 +1 @@\n--- a\n b\n")
    assert diffs.from_unified("f", "no diff at all") == Change("f", "update", added=0, removed=0)


def test_a_line_without_a_sign_is_context() -> None:
    """Only a hunk's own signs begin a line: whatever else does is text of the file, also nothing at all."""
    lines = "\x1b[2J\nx\n\n\r\n+a\n-b\n c\n\\ No newline at end of file\n"
    expected = " \x1b[2J\n x\n \n \r\n+a\n-b\n c\n\\ No newline at end of file\n"
    assert diffs.from_unified("f", f"--- a\n@@ -1 +1 @@\n{lines}").diff == f"@@ -1 +1 @@\n{expected}"
    hunk = Hunk(1, 1, 1, 1, lines.removesuffix("\n").split("\n"))
    change = diffs.from_hunks("f", [hunk, Hunk(9, 1, 9, 1, ["@@ -1 +1 @@"])])
    assert change.diff == f"@@ -1 +1 @@\n{expected}@@ -9 +9 @@\n @@ -1 +1 @@\n"
    assert (change.added, change.removed) == (1, 1)


def test_a_patch_of_many_files() -> None:
    """Codex's own form of a patch: files that are added, changed, moved and deleted."""
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+one\n+two\n*** Update File: old.py\n*** Move to: moved.py\n"
        "@@ def f():\n a\n\n-b\n+c\n*** Update File: plain.py\n-x\n+y\n*** Delete File: gone.py\n*** End Patch\n+z\n"
    )
    assert diffs.from_patch(patch) == [
        Change("new.py", "add", added=2, removed=0, diff="@@ -0,0 +1,2 @@\n+one\n+two\n"),
        Change("old.py", "move", to="moved.py", added=1, removed=1, diff="@@\n a\n \n-b\n+c\n"),
        Change("plain.py", "update", added=1, removed=1, diff="@@\n-x\n+y\n"),
        Change("gone.py", "delete"),
    ]
    assert diffs.from_patch("nothing of the kind") == []


@pytest.mark.parametrize(
    ("before", "after"), [("", "a\n" * 6_000), ("", "\u00e9" * 300_000), ("a\n" * 9_000, "b\n" * 9_000)]
)
def test_a_diff_is_bounded_and_its_counts_are_not(before: str, after: str) -> None:
    """A large diff is cut at a line; the counts are of all lines."""
    change = diffs.from_texts("f", before, after)
    assert change.truncated
    assert (change.added, change.removed) == (after.count("\n") or 1, before.count("\n"))
    kept = change.diff or ""
    assert len(kept.encode()) <= diffs.MAX_DIFF_BYTES
    assert kept.count("\n") <= diffs.MAX_DIFF_LINES


def test_changes_of_one_file_are_joined() -> None:
    """Counts are added, kinds combined; a file that is added and deleted again is left out."""
    update = diffs.from_texts("f", "a\n", "b\n")
    assert diffs.join([diffs.from_texts("f", None, "a\n"), update]) == [
        Change("f", "add", added=2, removed=1, diff="@@ -0,0 +1 @@\n+a\n@@ -1 +1 @@\n-a\n+b\n")
    ]
    assert diffs.join([diffs.from_texts("f", None, "a\n"), diffs.from_texts("f", "a\n", None)]) == []
    deleted_and_back = diffs.join([Change("f", "delete"), diffs.from_texts("f", None, "a\n")])
    assert deleted_and_back == [Change("f", "update")]
    other = Change("g", "update", added=1, removed=2)
    assert [change.path for change in diffs.join([update, other, update])] == ["f", "g"]


def test_a_file_that_is_moved_is_still_the_same_one() -> None:
    """It has its first name and its newest one; what takes its old name is another file."""
    moved = Change("a", "move", to="b", added=0, removed=0)
    update = diffs.from_texts("b", "x\n", "y\n")
    assert diffs.join([moved, update]) == [
        Change("a", "move", to="b", added=1, removed=1, diff="@@ -1 +1 @@\n-x\n+y\n")
    ]
    assert diffs.join([moved, Change("b", "move", to="c")]) == [Change("a", "move", to="c")]
    assert diffs.join([moved, Change("b", "move", to="a", added=2, removed=0)]) == [
        Change("a", "update", added=2, removed=0)
    ]
    assert diffs.join([moved, Change("b", "delete", added=0, removed=5)]) == [Change("a", "delete", added=0, removed=5)]
    assert diffs.join([moved, Change("a", "add", added=3, removed=0)]) == [
        moved,
        Change("a", "add", added=3, removed=0),
    ]
    assert diffs.join([Change("a", "add", added=3, removed=0), moved]) == [Change("b", "add", added=3, removed=0)]
    assert diffs.join([Change("a", "add"), moved, Change("b", "delete")]) == []


def test_nothing_follows_the_beginning_of_a_change() -> None:
    """A diff that was cut off is not continued behind the gap; counts go on, and lines that are unknown stay so."""
    begun = Change("f", "update", added=9, removed=0, diff="@@\n+a\n", truncated=True)
    more = Change("f", "update", added=1, removed=0, diff="@@\n+b\n")
    assert diffs.join([begun, more]) == [Change("f", "update", added=10, removed=0, diff="@@\n+a\n", truncated=True)]
    assert diffs.join([Change("f", "update"), more]) == [Change("f", "update")]


def test_many_changes_of_one_file_have_one_limit() -> None:
    """Their diff ends where any diff ends, however small its parts are, and says so; the counts are those of all."""
    part = Change("f", "update", added=1, removed=0, diff="@@\n+x\n")
    (joined,) = diffs.join([part] * 10_000)
    assert joined.diff is not None
    assert (joined.added, joined.truncated, joined.diff.count("\n")) == (10_000, True, diffs.MAX_DIFF_LINES)
    line = "+" + "x" * diffs.MAX_DIFF_BYTES + "\n"
    large = Change("f", "update", added=1, removed=0, diff=line)
    assert diffs.join([part, large, part]) == [
        Change("f", "update", added=3, removed=0, diff="@@\n+x\n", truncated=True)
    ]


def test_words_between_the_lines_of_a_patch_are_left_out() -> None:
    """A line that is neither context, added nor removed is no part of the change."""
    patch = "*** Begin Patch\n*** Update File: f\nwords\n-a\n+b\n*** End of File\n*** End Patch"
    assert diffs.from_patch(patch) == [Change("f", "update", added=1, removed=1, diff="@@\n-a\n+b\n")]
