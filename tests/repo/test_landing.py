from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository

from penstock.repo.commit import Stamp, commit_tree
from penstock.repo.landing import Landed, NotLanded, land, merge_to_land
from penstock.repo.repository import Author
from penstock.repo.staging import stage
from penstock.repo.tree import Tree

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)


@pytest.fixture
def tree(user: UserRepository, home: Path) -> Tree:
    """Make a tree."""
    return user.tree(home)


def result(user: UserRepository, tree: Tree, files: dict[str, str]) -> str:
    """Return a commit of the tree with these files."""
    user.write(files, tree.path)
    stage(tree.git, ["*"])
    return commit_tree(tree.git, tree.git.text("write-tree"), [tree.record.base], "Result\n", STAMP)


def test_a_result_lands_as_a_fast_forward(user: UserRepository, tree: Tree) -> None:
    """If the branch has not moved, it moves to the result; landing again changes nothing, and other changes stay."""
    made = result(user, tree, {"src/a.py": "a = 2\n", "new": "1\n"})
    user.write({"README": "changed by the user\n", "mine": "untracked\n"})
    assert land(user.repository, made, "Merge\n", STAMP) == Landed("fast_forward", "main", made)
    assert user.git("status", "--porcelain") == " M README\n?? mine"
    assert (user.root / "src/a.py").read_text() == "a = 2\n"
    before = user.state()
    assert land(user.repository, made, "Merge\n", STAMP) == Landed("nothing", "main", made)
    assert user.state() == before


def test_a_result_lands_as_a_merge(user: UserRepository, tree: Tree) -> None:
    """If the user has gone on, the result is merged, with both as parents."""
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    mine = user.commit("Mine", {"src/b.py": "b = 2\n"})
    landed = land(user.repository, made, "Merge the result\n", STAMP)
    assert isinstance(landed, Landed)
    assert landed.way == "merge"
    assert user.git("log", "-1", "--format=%P %s") == f"{mine} {made} Merge the result"
    assert user.git("status", "--porcelain") == ""
    assert (user.root / "src/a.py").read_text() == "a = 2\n"


def test_a_result_lands_as_one_commit(user: UserRepository, tree: Tree) -> None:
    """A squash is one commit on top of the branch, forward or merged; landing it again changes nothing."""
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    mine = user.commit("Mine", {"src/b.py": "b = 2\n"})
    landed = land(user.repository, made, "All of it\n", STAMP, squash=True)
    assert isinstance(landed, Landed)
    assert user.git("log", "-1", "--format=%P %s") == f"{mine} All of it"
    again = land(user.repository, made, "All of it\n", STAMP, squash=True)
    assert again == Landed("nothing", "main", landed.commit)


def test_the_merge_that_a_landing_makes_is_known_before(user: UserRepository, tree: Tree) -> None:
    """It is what lands then, and nothing for a fast-forward, for a result that is there already, and in a conflict."""
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    repository, base = user.repository, tree.record.base
    assert merge_to_land(repository, made) is None
    assert merge_to_land(repository, base) is None
    mine = user.commit("Mine", {"src/b.py": "b = 2\n"})
    found = merge_to_land(repository, made)
    assert user.git("status", "--porcelain") == ""
    assert user.git("rev-parse", "HEAD") == mine
    assert isinstance(land(repository, made, "Merge\n", STAMP), Landed)
    assert found == (mine, user.git("rev-parse", "HEAD^{tree}"))
    assert merge_to_land(repository, made) is None
    user.git("reset", "-q", "--hard", base)
    user.commit("Mine", {"src/a.py": "a = 3\n"})
    assert merge_to_land(repository, made) is None


def test_a_conflict_changes_nothing(user: UserRepository, tree: Tree) -> None:
    """L12: if both have changed the same lines, the files are named, and no conflict marker is in the checkout."""
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    user.commit("Mine", {"src/a.py": "a = 3\n"})
    before = user.state()
    landed = land(user.repository, made, "Merge\n", STAMP)
    assert isinstance(landed, NotLanded)
    assert landed.conflicts == ["src/a.py"]
    assert user.state() == before


@pytest.mark.sample(4)
@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize(
    "overlap",
    [
        {"src/a.py": "edited by the user\n"},
        {"new": "untracked file of the user\n"},
        {"ignored": "ignored file of the user\n"},
        {"folder": "file where the result has a directory\n"},
    ],
)
def test_l12_changes_of_the_user_are_never_overwritten(
    user: UserRepository, tree: Tree, overlap: dict[str, str], squash: bool
) -> None:
    """L12: if a changed, untracked or ignored file of the user is in the way, nothing changes, and it is named."""
    (user.root / ".git/info").mkdir(exist_ok=True)
    (user.root / ".git/info/exclude").write_text("ignored\n")
    made = result(user, tree, {"src/a.py": "a = 2\n", "new": "1\n", "ignored": "1\n", "folder/x": "1\n"})
    user.write(overlap)
    before = user.state()
    landed = land(user.repository, made, "Merge\n", STAMP, squash=squash)
    assert isinstance(landed, NotLanded)
    assert landed.conflicts == [*overlap]
    assert "git stash" in landed.help
    assert user.state() == before


def test_a_staged_change_of_the_user_is_never_overwritten(user: UserRepository, tree: Tree) -> None:
    """L12: a staged change is in the way as one in the files is, also if the configuration wants it stashed."""
    user.git("config", "merge.autoStash", "true")
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    user.write({"src/a.py": "staged\n"})
    user.git("add", "src/a.py")
    before = user.state()
    assert isinstance(land(user.repository, made, "Merge\n", STAMP), NotLanded)
    assert user.state() == before


def test_l2_nothing_lands_during_a_rebase(user: UserRepository, tree: Tree) -> None:
    """L2: while a rebase is under way, or no branch is checked out, nothing changes, and the reason is given."""
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    user.git("switch", "-qc", "other")
    user.commit("Other", {"README": "other\n"})
    user.git("switch", "-q", "main")
    user.commit("Mine", {"README": "mine\n"})
    subprocess.run(["git", "rebase", "other"], cwd=user.root, capture_output=True)
    before = user.state()
    landed = land(user.repository, made, "Merge\n", STAMP)
    assert isinstance(landed, NotLanded)
    assert landed.reason.startswith("a rebase is under way")
    assert user.state() == before
    user.git("rebase", "--abort")
    user.git("switch", "-q", "--detach")
    landed = land(user.repository, made, "Merge\n", STAMP)
    assert isinstance(landed, NotLanded)
    assert landed.reason == "no branch is checked out"


def test_landing_starts_no_program_of_the_repository(user: UserRepository, tree: Tree, tmp_path: Path) -> None:
    """Neither a hook nor a monitor runs when a result lands."""
    planted = tmp_path / "planted"
    user.git("config", "core.fsmonitor", f"touch {planted};")
    (user.root / ".git/hooks").mkdir(exist_ok=True)
    for name in ("post-merge", "post-checkout", "reference-transaction", "post-index-change"):
        path = user.root / ".git/hooks" / name
        path.write_text(f"#!/bin/sh\ntouch {planted}\n")
        path.chmod(0o755)
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    assert isinstance(land(user.repository, made, "Merge\n", STAMP), Landed)
    assert not planted.exists()


def test_a_link_in_place_of_a_directory_is_in_the_way(user: UserRepository, tree: Tree) -> None:
    """A result with a file in a new directory does not replace the user's link of that name, dangling or not."""
    made = result(user, tree, {"new/file": "1\n"})
    (user.root / "new").symlink_to("nowhere")
    before = user.state()
    landed = land(user.repository, made, "Merge\n", STAMP)
    assert isinstance(landed, NotLanded)
    assert (landed.reason, landed.conflicts) == ("files of yours in the checkout are in the way", ["new"])
    assert user.state() == before


def test_a_checkout_that_is_locked_is_left_as_it_is(user: UserRepository, tree: Tree) -> None:
    """While another git of the user works in it, nothing lands, and the reason is that of git; later it lands."""
    made = result(user, tree, {"src/a.py": "a = 2\n"})
    lock = user.root / ".git/index.lock"
    lock.touch()
    before = user.state()
    landed = land(user.repository, made, "Merge\n", STAMP)
    assert isinstance(landed, NotLanded)
    assert "index.lock': File exists" in landed.reason
    assert {name: value for name, value in user.state().items() if name != "/.git/ORIG_HEAD"} == before
    lock.unlink()
    assert land(user.repository, made, "Merge\n", STAMP) == Landed("fast_forward", "main", made)
