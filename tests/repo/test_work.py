from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import UserRepository

from penstock.errors import UsageError
from penstock.repo.commit import Stamp
from penstock.repo.repository import Author
from penstock.repo.result import save_result
from penstock.repo.tree import Tree
from penstock.repo.work import TreeWork, find_work

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)


@pytest.fixture
def tree(user: UserRepository, home: Path) -> Tree:
    """Make a tree with a result on its branch."""
    tree = user.tree(home)
    user.write({"src/a.py": "a = 2\n"}, tree.path)
    save_result(tree, "Change a", {}, STAMP)
    return tree


def test_a_tree_is_found_by_each_of_its_names(
    user: UserRepository, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, its branch, its agent and its directory mean the same work; a mistyped word gets advice."""
    record = tree.record
    words = [record.name, record.branch, f"refs/heads/{record.branch}", record.label, record.path]
    found = [find_work(user.repository, [record], word) for word in words]
    assert {(it.name, it.branch, it.base) for it in found} == {(record.name, record.branch, record.base)}
    assert found[0].commit == user.git("rev-parse", record.branch)
    assert not found[0].is_empty
    monkeypatch.chdir(Path(record.path).parent)
    assert find_work(user.repository, [record], f"./{Path(record.path).name}") == found[0]
    with pytest.raises(UsageError, match="is no tree of this repository"):
        find_work(user.repository, [record], Path(record.path).name + "x")


def test_the_branch_of_a_removed_tree_is_found(user: UserRepository, tree: Tree) -> None:
    """Its base is the commit where it left the branch of the user."""
    user.commit("Later", {"README": "later\n"})
    branch = tree.record.branch
    commit = user.git("rev-parse", branch)
    expected = TreeWork("t1", "t1", commit, branch, tree.record.base)
    assert [find_work(user.repository, [], word) for word in ("t1", branch)] == [expected, expected]


def test_an_agent_of_several_trees_is_not_enough(user: UserRepository, tree: Tree) -> None:
    """The names of its trees are in the error."""
    with pytest.raises(UsageError, match="is the agent of 2 trees") as caught:
        find_work(user.repository, [tree.record, tree.record], tree.record.label)
    assert caught.value.expected == "one of t1, t1"
