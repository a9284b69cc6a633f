from __future__ import annotations

import subprocess
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


def test_removed_entries_of_the_stash_come_back_in_their_order(user: UserRepository, home: Path) -> None:
    """The commands, run one after the other, make the stash what it was."""
    for name in ("one", "two"):
        user.write({"README": f"stashed {name}\n"})
        user.git("stash", "push", "-qm", name)
    stash = user.git("stash", "list", "--format=%H").splitlines()
    before = read_protected(user.repository)
    user.git("stash", "clear")
    for one in differences(before, user.repository, home):
        subprocess.run(one.restore, shell=True, cwd=user.root, check=True)
    assert len(stash) == 2
    assert user.git("stash", "list", "--format=%H").splitlines() == stash
