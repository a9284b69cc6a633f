from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of

from penstock.errors import UsageError
from penstock.repo.commit import Stamp
from penstock.repo.repository import Author
from penstock.repo.result import save_result
from penstock.repo.tree import Tree
from penstock.repo.trees import home_of, homes, old_trees, remove, status_of

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)
DAY_MS = 86_400_000


def test_a_result_is_one_commit_on_the_branch_of_the_tree(user: UserRepository, home: Path) -> None:
    """The files of a tree become one commit with trailers on its branch, and nothing else of the user's changes."""
    user.write({"src/b.py": "changed by the user\n"})
    tree = user.tree(home)
    before = user.state()
    user.write({"src/a.py": "a = 2\n", ".env": "KEY=1\n"}, tree.path)
    result = save_result(tree, "Set a to 2", {"Penstock-Run": "t1", "Penstock-Agent": "claude"}, STAMP)
    assert (result.branch, result.size.text) == ("penstock/t1", "1 file, +1 −1")
    assert [one.path for one in result.held] == [".env"]
    assert user.git("log", "-1", "--format=%B", "penstock/t1") == (
        "Set a to 2\n\nPenstock-Run: t1\nPenstock-Agent: claude"
    )
    assert user.state() == before


def test_a_tree_without_changes_has_no_commit(user: UserRepository, home: Path) -> None:
    """An agent that changed nothing, or committed nothing new, leaves no branch."""
    tree = user.tree(home)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "empty"], cwd=tree.path, check=True)
    assert save_result(tree, "Nothing", {}, STAMP).commit is None
    assert user.git("branch", "--list", "penstock/*") == ""


def test_a_result_that_a_hook_rejects_has_no_branch(user: UserRepository, home: Path) -> None:
    """The branch is not made, the output of the hook is there, and a ref has the files nevertheless."""
    (user.root / ".git/hooks").mkdir(exist_ok=True)
    (user.root / ".git/hooks/pre-commit").write_text("#!/bin/sh\necho no; exit 1\n")
    (user.root / ".git/hooks/pre-commit").chmod(0o755)
    tree = user.tree(home)
    user.write({"src/a.py": "a = 2\n"}, tree.path)
    result = save_result(tree, "Change", {}, STAMP)
    assert (result.branch, result.hook.name, result.hook.output) == (None, "pre-commit", "no\n")
    assert user.git("show", "refs/penstock/t1/result:src/a.py") == "a = 2"
    assert user.git("branch", "--list", "penstock/*") == ""
    assert status_of(home).text == "in refs/penstock/t1/result"


def test_l15_a_tree_with_work_that_is_in_no_ref_is_kept(user: UserRepository, home: Path) -> None:
    """L15: a changed, a new and a held-back file each keep the tree, and the files are named; saved, it can go."""
    tree = user.tree(home)
    user.write({"src/a.py": "a = 2\n"}, tree.path)
    found = remove(home)
    assert (found.state, found.paths, found.is_removable) == ("unsaved", ["src/a.py"], False)
    save_result(tree, "Change", {}, STAMP)
    assert status_of(home).text == "in penstock/t1"
    user.write({".env": "KEY=1\n"}, tree.path)
    assert save_result(tree, "Change", {}, STAMP).held
    assert remove(home).paths == [".env"]
    assert tree.path.is_dir()
    (tree.path / ".env").unlink()
    assert remove(home).state == "saved"
    assert not Path(tree.record.path).exists()
    assert not home.exists()
    assert user.git("show", "penstock/t1:src/a.py") == "a = 2"
    assert user.git("for-each-ref", "--format=%(refname)", "refs/penstock") == "refs/penstock/t1/result"


def test_l15_staged_work_whose_refs_are_gone_is_kept(user: UserRepository, home: Path) -> None:
    """L15: if the branch and the refs of a result were deleted, only the tree has the files, and it is kept."""
    tree = user.tree(home)
    user.write({"src/a.py": "a = 2\n"}, tree.path)
    result = save_result(tree, "Change", {}, STAMP)
    assert result.commit
    user.git("branch", "-qD", "penstock/t1")
    user.git("update-ref", "-d", "refs/penstock/t1/result")
    assert remove(home).text == "its files are in no ref"
    assert (tree.path / "src/a.py").exists()


def test_l15_a_nested_repository_keeps_the_tree(user: UserRepository, home: Path) -> None:
    """L15: commits of a repository that an agent made in its tree are in no ref of the user's, so the tree is kept."""
    tree = user.tree(home)
    subprocess.run(["git", "init", "-q", "sub"], cwd=tree.path, check=True)
    (tree.path / "sub/x").write_text("1")
    assert remove(home).paths == ["sub/"]


def test_a_tree_in_use_is_kept(user: UserRepository, home: Path) -> None:
    """A tree is kept while its owner has its lock, and while a process has its directory."""
    tree = user.tree(home)
    lock = tree.lock()
    with pytest.raises(UsageError, match="another process of Penstock"):
        tree.lock()
    assert remove(home).state == "used"
    os.close(lock)
    process = subprocess.Popen(["cat"], cwd=tree.path / "src", stdin=subprocess.PIPE)
    try:
        found = remove(home)
        assert (found.state, found.text) == ("used", f"process {process.pid} works in it")
    finally:
        process.communicate()
    assert remove(home).state == "saved"


def test_a_directory_that_replaced_a_tree_is_kept(user: UserRepository, home: Path) -> None:
    """A directory of that name that Penstock did not make stays, and so does what a link names."""
    path = user.tree(home).path
    path.rename(path.with_name("moved"))
    path.mkdir()
    (path / "theirs").write_text("x")
    assert remove(home).state == "replaced"
    shutil.rmtree(path)
    path.symlink_to(user.root)
    before = user.state()
    assert remove(home).state == "replaced"
    assert user.state() == before


def test_l14_a_tree_whose_directory_is_gone_leaves_the_list(user: UserRepository, home: Path) -> None:
    """L14: the home of a tree that was deleted by hand is removed; refs and branches stay."""
    tree = user.tree(home)
    shutil.rmtree(tree.path)
    assert remove(home).state == "gone"
    assert not home.exists()


def test_l14_a_tree_whose_repository_is_gone_is_kept(user: UserRepository, home: Path) -> None:
    """L14: if the repository was moved, nobody can say what is in a ref, so the tree is kept."""
    tree = user.tree(home)
    user.root.rename(user.root.with_name("moved"))
    assert remove(home).state == "unknown"
    assert tree.path.is_dir()


def test_files_without_permission_to_write_are_removed_with_the_tree(user: UserRepository, home: Path) -> None:
    """Read-only directories, as module caches have them, do not keep a tree, and a link out of it is only a link."""
    (user.root / ".gitignore").write_text("cache\nout\n")
    user.git("add", ".gitignore")
    user.git("commit", "-qm", "Ignore")
    tree = user.tree(home)
    (tree.path / "cache/deep").mkdir(parents=True)
    (tree.path / "cache/deep/file").write_text("x")
    (tree.path / "cache/deep").chmod(0o500)
    (tree.path / "out").symlink_to(user.root)
    before = files_of(user.root)
    assert remove(home).state == "saved"
    assert not Path(tree.record.path).exists()
    assert {name: value for name, value in files_of(user.root).items() if ".git/" not in name} == {
        name: value for name, value in before.items() if ".git/" not in name
    }


def test_ignored_files_are_copied_and_never_staged(user: UserRepository, home: Path) -> None:
    """Files of `.worktreeinclude` and of `copy` come into the tree if git ignores them, and into no commit."""
    user.commit("Ignore", {".gitignore": "*.local\n.env\nbuild/\n", ".worktreeinclude": "*.local\nREADME\n"})
    user.write({".env": "KEY=1\n", "a.local": "x", "deep/b.local": "y", "build/x": "z", "untracked": "u"})
    tree = user.tree(home)
    assert sorted(tree.copy_ignored([".env"])) == [".env", "a.local", "deep/b.local"]
    assert (tree.path / "deep/b.local").read_text() == "y"
    (tree.path / ".gitignore").write_text("")
    result = save_result(tree, "Change", {}, STAMP)
    assert result.held == []
    assert user.git("diff", "--name-only", "main", "penstock/t1") == ".gitignore"
    assert remove(home).state == "saved"


def test_nothing_is_copied_without_patterns(user: UserRepository, home: Path) -> None:
    """A repository that names no files gives none."""
    assert user.tree(home).copy_ignored() == []


def test_the_list_has_the_trees_by_age(user: UserRepository, tmp_path: Path) -> None:
    """All trees of the data directory are listed, the oldest first, and old ones can be named."""
    data = tmp_path / "data"
    for name in ("b", "a"):
        user.tree(home_of(data, name), name)
    (data / "trees" / "broken").mkdir()
    listed = [Tree.open(home).record for home in homes(data)]
    assert [record.name for record in listed] == ["a", "b"]
    made = listed[0].made_at
    assert old_trees(data, made + 14 * DAY_MS) == []
    assert old_trees(data, made + 14 * DAY_MS + 1) == listed


def test_a_nested_repository_is_copied_without_its_git_directory(user: UserRepository, home: Path) -> None:
    """An ignored directory that is a repository of its own is copied; git names it as one path."""
    user.commit("Ignore", {".gitignore": "vendor/\n", ".worktreeinclude": "vendor/\n"})
    user.write({"vendor/x/a.py": "a = 1\n"})
    subprocess.run(["git", "init", "-q", "vendor/x"], cwd=user.root, check=True)
    tree = user.tree(home)
    tree.copy_ignored()
    assert (tree.path / "vendor" / "x" / "a.py").read_text() == "a = 1\n"
    assert not (tree.path / "vendor" / "x" / ".git").exists()
    (tree.path / "vendor" / "x" / "a.py").write_text("a = 2\n")
    tree.copy_ignored()  # as when the first attempt was interrupted
    assert (tree.path / "vendor" / "x" / "a.py").read_text() == "a = 1\n"


def test_a_file_that_cannot_be_copied(user: UserRepository, home: Path) -> None:
    """A file that cannot be copied is an error that names it."""
    user.commit("Ignore", {".gitignore": "*.local\n", ".worktreeinclude": "*.local\n"})
    user.write({"deep/b.local": "b\n"})
    tree = user.tree(home)
    (tree.path / "deep").write_text("in the way\n")
    with pytest.raises(UsageError, match=r"deep/b\.local cannot be copied"):
        tree.copy_ignored()
