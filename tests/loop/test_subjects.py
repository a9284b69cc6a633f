"""Subjects of the commits of a loop."""

from __future__ import annotations

import pytest

from penstock.loop.prompts import is_conventional
from penstock.repo.commit import subject_of

FORM = ["fix: a", "feat(parser): b", "refactor!: c", "docs: d", "Chore(deps)!: e"]


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        (FORM, True),
        (FORM[:4], False),
        ([*FORM, "Fix the parser"], False),
        ([*FORM, "fixed: it"], False),
        ([*FORM, "feat(): it"], False),
        ([], False),
    ],
)
def test_subjects_in_the_form_of_conventional_commits(subjects: list[str], expected: bool) -> None:
    """All of the user's last commits have to have the form, and a few are no habit."""
    assert is_conventional(subjects) is expected


def test_the_subject_is_the_first_line_of_the_reply() -> None:
    """Marks of Markdown around it are left out, and so is what does not fit into a line."""
    assert subject_of("\n**fix(parser): accept `x`**\n\nMore.", "", "p") == "fix(parser): accept `x`"
    assert subject_of("`fix: a`", "", "p") == "fix: a"
    assert subject_of("", "task\nmore", "p") == "task"
    assert len(subject_of("x" * 100, "", "p")) == 72
