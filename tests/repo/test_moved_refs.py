from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import UserRepository

from penstock.repo.protected import differences, read_protected

MISSING = "1234567890" * 4


@pytest.mark.parametrize(("target", "is_harm"), [(MISSING, True), ("older", True), ("newer", False)])
def test_a_ref_that_moves_anywhere_but_forward_is_harm(
    user: UserRepository, home: Path, target: str, is_harm: bool
) -> None:
    """A ref that moves back, or to a commit that does not exist, has lost commits; one that moves forward has not."""
    older = user.git("rev-parse", "HEAD")
    at = user.commit("More", {"src/c.py": "c = 1\n"})
    newer = user.git("commit-tree", "-p", at, "-m", "Newer", f"{at}^{{tree}}")
    user.git("branch", "other", at)
    before = read_protected(user.repository)
    new = {"older": older, "newer": newer}.get(target, target)
    (user.root / ".git/refs/heads/other").write_text(f"{new}\n")
    moved = [one for one in differences(before, user.repository, home) if one.name == "refs/heads/other"]
    assert [(one.kind, one.is_harm) for one in moved] == [("ref", is_harm)]
