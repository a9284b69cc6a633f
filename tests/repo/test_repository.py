from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of

from penstock.errors import UsageError
from penstock.repo.commit import Stamp
from penstock.repo.git import Git
from penstock.repo.repository import Author, Repository
from penstock.repo.result import save_result
from penstock.repo.tree import Tree, TreeRecord, place_of

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)


def tree_of(root: Path, home: Path) -> Tree:
    """Make a tree of a repository."""
    repository = Repository.at(root)
    record = TreeRecord(
        name="t1",
        owner="loop",
        label="work",
        path=str(place_of(repository, "t1", home)),
        repository=str(repository.root),
        base=repository.head() or "",
        branch="penstock/t1",
        made_at=0,
    )
    return Tree.make(home, record, repository)


def change(tree: Tree) -> str:
    """Change a file, save the result, and return its branch."""
    (tree.path / "src/a.py").write_text("a = 2\n")
    return save_result(tree, "Change", {}, STAMP).branch or ""


def test_l20_a_shallow_clone_can_have_trees(user: UserRepository, home: Path, tmp_path: Path) -> None:
    """L20: the history of a tree ends where that of a shallow clone ends, and its result is published."""
    user.commit("Second", {"src/c.py": "c = 1\n"})
    user.git("clone", "-q", "--depth=1", f"file://{user.root}", str(tmp_path / "shallow"))
    tree = tree_of(tmp_path / "shallow", home)
    tree.repository.check_complete(with_setup=False)
    assert user.git("log", "--format=%s", cwd=tree.path) == "Second"
    assert change(tree) == "penstock/t1"
    assert user.git("log", "--format=%s", "penstock/t1", cwd=tmp_path / "shallow") == "Change\nSecond"


def test_l20_a_partial_clone_is_refused_with_the_command_that_helps(user: UserRepository, tmp_path: Path) -> None:
    """L20: a partial clone cannot have trees, and can when the command of the error was run."""
    user.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial"
    user.git("clone", "-q", "--filter=blob:none", f"file://{user.root}", str(clone))
    with pytest.raises(UsageError, match="is a partial clone") as caught:
        Repository.at(clone).check_complete(with_setup=False)
    subprocess.run(caught.value.help, shell=True, cwd=clone, check=True, capture_output=True)
    Repository.at(clone).check_complete(with_setup=False)
    assert change(tree_of(clone, tmp_path / "home")) == "penstock/t1"


def test_l20_submodules_need_a_setup(user: UserRepository, tmp_path: Path) -> None:
    """L20: a repository with submodules is refused without a setup, and the error names the command for it."""
    other = UserRepository(tmp_path / "other")
    user.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "sub")
    user.git("commit", "-qm", "Submodule")
    with pytest.raises(UsageError, match="git submodule update --init"):
        user.repository.check_complete(with_setup=False)
    user.repository.check_complete(with_setup=True)


def test_a_linked_worktree_can_have_trees(user: UserRepository, home: Path) -> None:
    """A user who works in a linked worktree gets a tree of its commit, and the branch in the same repository."""
    user.git("worktree", "add", "-q", "-b", "feature", "../linked")
    linked = user.root.parent / "linked"
    before = user.state()
    tree = tree_of(linked, home)
    assert tree.path == user.root.parent / "linked.t1"
    assert change(tree) == "penstock/t1"
    assert user.git("show", "penstock/t1:src/a.py") == "a = 2"
    assert user.state() == before


def test_a_repository_with_longer_ids_can_have_trees(tmp_path: Path, home: Path) -> None:
    """A repository whose ids are made with SHA-256 works as any other."""
    root = tmp_path / "app"
    root.mkdir()
    script = "git init -q --object-format=sha256 && mkdir src && echo 1 > src/a.py && git add . && git commit -qm Begin"
    subprocess.run(script, shell=True, cwd=root, check=True)
    assert change(tree_of(root, home)) == "penstock/t1"


def test_a_clone_that_borrows_objects_can_have_trees(user: UserRepository, home: Path, tmp_path: Path) -> None:
    """A shared clone, whose objects are elsewhere, works as any other."""
    user.git("clone", "-q", "--shared", str(user.root), str(tmp_path / "shared"))
    assert change(tree_of(tmp_path / "shared", home)) == "penstock/t1"


def test_a_sparse_checkout_is_whole_in_the_tree(user: UserRepository, home: Path) -> None:
    """A tree has all files, also if the user's checkout has only some; none counts as removed."""
    user.commit("More", {"docs/a": "1\n"})
    user.git("sparse-checkout", "set", "src")
    tree = user.tree(home)
    assert (tree.path / "docs/a").read_text() == "1\n"
    assert change(tree) == "penstock/t1"
    assert user.git("diff", "--name-only", "main", "penstock/t1") == "src/a.py"


def test_variables_of_another_repository_do_not_count(
    user: UserRepository, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Penstock that was started by a hook of another repository, with variables of git, works in the right one."""
    other = UserRepository(tmp_path / "other")
    before = files_of(other.root)
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git/index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.hooksPath'='/tmp'")
    assert change(tree_of(user.root, home)) == "penstock/t1"
    assert files_of(other.root) == before


def test_a_git_directory_that_leads_to_another_one_is_refused(user: UserRepository, tmp_path: Path) -> None:
    """The settings there would start programs."""
    shutil.copytree(user.root / ".git", tmp_path / "other")
    (user.root / ".git/commondir").write_text(f"{tmp_path}/other\n")
    with pytest.raises(UsageError, match="takes its settings from") as raised:
        Repository.at(user.root)
    assert raised.value.help == f"remove {user.root}/.git/commondir, if you have not made it"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("true", "is not in a git repository; git init makes one"),
        ("git init -q", "has no commit yet; git add . && git commit"),
        ("git init -q --bare", "without a checkout"),
    ],
)
def test_a_place_without_a_commit_is_an_error(tmp_path: Path, script: str, message: str) -> None:
    """A directory that is no repository, has no commit or no checkout cannot have trees, and the error says why."""
    place = tmp_path / "place"
    place.mkdir()
    subprocess.run(["sh", "-c", script], cwd=place, check=True)
    with pytest.raises(UsageError, match=message):
        Repository.at(place)


def test_files_of_git_lfs_are_stored_with_those_of_the_user(user: UserRepository, home: Path) -> None:
    """Objects of git-lfs that an agent makes are in the user's repository, so that they stay when the tree goes."""
    tree = user.tree(home)
    assert not (user.root / ".git/lfs").exists()
    for where in (tree.git, Git(tree.path)):
        assert where.text("config", "lfs.storage") == str(user.root / ".git/lfs")
    user.git("config", "lfs.storage", "elsewhere")
    tree.renew(tree.record.base)
    assert Git(tree.path).text("config", "--get-all", "lfs.storage") == "elsewhere"
