from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.repo.diffs import changes_between, patch_between, paths_between, size_between, stat_between
from penstock.repo.held import held_by_name
from penstock.repo.repository import Author
from penstock.repo.snapshot import keep_snapshot, snapshot
from penstock.repo.staging import stage

AUTHOR = Author("Uma User", "uma@example.org")


def test_l2_a_dirty_checkout_is_kept_and_not_touched(user: UserRepository, tmp_path: Path) -> None:
    """L2: staged, changed, untracked, removed and ignored files, a stash and a rebase under way stay as they are;
    the snapshot has all files but those that are ignored."""
    user.commit("More", {"gone": "1\n", ".gitignore": "ignored\n", "c": "main\n"})
    user.write({"src/a.py": "stashed\n"})
    user.git("stash")
    user.git("switch", "-qc", "other", "HEAD~1")
    user.commit("Other", {"c": "other\n"})
    subprocess.run(["git", "rebase", "main"], cwd=user.root, capture_output=True)  # stops at a conflict in c
    user.write({"src/a.py": "staged\n", "ignored": "x", "untracked": "new\n"})
    user.git("add", "src/a.py")
    user.write({"src/a.py": "changed after that\n"})
    (user.root / "gone").unlink()
    before = user.state()
    found = snapshot(user.repository, tmp_path, AUTHOR, 1_700_000_000)
    assert user.state() == before
    git = user.repository.git
    assert git.text("show", f"{found.commit}:src/a.py") == "changed after that"
    assert "<<<<<<<" in git.text("show", f"{found.commit}:c")
    assert git.run("ls-tree", "-r", "-z", "--name-only", found.tree).items == [
        ".gitignore", "README", "c", "src/a.py", "src/b.py", "untracked"
    ]  # fmt: skip
    assert snapshot(user.repository, tmp_path, AUTHOR, 1_700_000_000) == found


def test_lost_work_comes_back_by_the_ref_of_the_snapshot(user: UserRepository, tmp_path: Path) -> None:
    """After a hard reset and a clean, `git stash apply --index` of the ref restores files and index."""
    user.write({"src/a.py": "staged\n", "untracked": "new\n"})
    user.git("add", "src/a.py")
    user.write({"src/a.py": "changed after that\n"})
    status, files = user.git("status", "--porcelain"), files_of(user.root, without=".git")
    found = snapshot(user.repository, tmp_path, AUTHOR, 1_700_000_000)
    keep_snapshot(user.repository, found, "refs/penstock/t1/yours")
    user.git("reset", "-q", "--hard")
    user.git("clean", "-fdq")
    user.git("gc", "-q", "--prune=now")
    user.git("stash", "apply", "--index", "refs/penstock/t1/yours")
    user.git("reset", "-q", "untracked")
    assert (user.git("status", "--porcelain"), files_of(user.root, without=".git")) == (status, files)


def test_a_clean_checkout_is_its_own_snapshot(user: UserRepository, tmp_path: Path) -> None:
    """Without changes nothing is written, and nested repositories are named."""
    subprocess.run(["git", "init", "-q", "nested"], cwd=user.root, check=True)
    user.write({"nested/file": "x"})
    before = user.state()
    found = snapshot(user.repository, tmp_path, AUTHOR, 1)
    assert found.commit == user.git("rev-parse", "HEAD")
    assert user.state() == before
    assert list(tmp_path.glob("snapshot*")) == []


def test_differences_are_shown_as_figures_and_tables(user: UserRepository) -> None:
    """Two commits are compared by size, by file and as a patch, which is cut at its limit."""
    old = user.git("rev-parse", "HEAD")
    user.git("rm", "-q", "src/b.py")
    new = user.commit("Change", {"src/a.py": "a = 2\nb = 3\n", "née": "x\n"})
    git = user.repository.git
    size = size_between(git, old, new)
    assert (size.files, size.added, size.removed, size.text) == (3, 3, 2, "3 files, +3 −2")
    assert paths_between(git, old, new) == [("née", "A"), ("src/a.py", "M"), ("src/b.py", "D")]
    assert "src/a.py" in stat_between(git, old, new)
    assert "+a = 2" in patch_between(git, old, new, 10_000)
    assert patch_between(git, old, new, 20).endswith("characters more]\n")
    assert size_between(git, old, old).text == "no changes"


def test_differences_are_changes_of_files(user: UserRepository) -> None:
    """Each file is a change with its own diff, also behind one that became a link, and one that is binary."""
    old = user.commit("Begin", {"a": "one\n", "b": "to\n", "c": "diff --git a/x b/x\n", "d": "gone\n"})
    (user.root / "b").unlink()
    (user.root / "b").symlink_to("a")
    (user.root / "bin").write_bytes(b"\0\1")
    user.git("add", "-A")
    user.git("rm", "-q", "d")
    new = user.commit("Change", {"a": "two\n", "c": "diff --git a/x b/x\ndiff --git a/y b/y\n"})
    found = changes_between(user.repository.git, old, new)
    assert [(it.path, it.kind, it.added, it.removed) for it in found] == [
        ("a", "update", 1, 1),
        ("b", "update", 1, 0),
        ("bin", "add", None, None),
        ("c", "update", 1, 0),
        ("d", "delete", 0, 1),
    ]
    assert found[3].diff == "@@ -1 +1,2 @@\n diff --git a/x b/x\n+diff --git a/y b/y\n"


names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=6
)
# Names of secrets and of bytecode are left out of commits, by rules that have tests of their own.
names = names.filter(
    lambda name: (
        name not in (".", "..")
        and "git" not in name.lower()
        and name.lower() != ".ssh"
        and held_by_name(name) is None
        and len(os.fsencode(name)) < 200
    )
)
entries = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=40)),
    st.tuples(st.just("program"), st.binary(max_size=40)),
    st.tuples(st.just("link"), names.map(os.fsencode)),
)


def write_entries(root: Path, found: dict[str, tuple[str, bytes]]) -> None:
    """Write files, programs and links."""
    for name, (kind, content) in found.items():
        path = root / name
        if kind == "link":
            os.symlink(content, path)
        else:
            path.write_bytes(content)
            path.chmod(0o755 if kind == "program" else 0o644)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.dictionaries(names, entries, max_size=6),
    st.dictionaries(names, st.dictionaries(names, entries, min_size=1, max_size=4), max_size=3),
)
def test_random_trees_come_back_with_the_same_bytes_and_modes(
    top: dict[str, tuple[str, bytes]], below: dict[str, dict[str, tuple[str, bytes]]]
) -> None:
    """Whatever files, programs and links a tree has, its commit checks out with the same bytes and modes."""
    with tempfile.TemporaryDirectory() as place:
        user = UserRepository(Path(place) / "app")
        tree = user.tree(Path(place) / "home")
        write_entries(tree.path, {name: entry for name, entry in top.items() if name not in ("README", "src")})
        for folder, found in below.items():
            if folder not in top and folder not in ("README", "src"):
                (tree.path / folder).mkdir()
                write_entries(tree.path / folder, found)
        expected = files_of(tree.path, without=".git")
        stage(tree.git)
        made = tree.git.text("write-tree")
        tree.restore("HEAD")
        assert files_of(tree.path, without=".git").keys() == {"README", "src/a.py", "src/b.py"}
        tree.restore(made)
        assert files_of(tree.path, without=".git") == expected
        assert all(stat.S_IMODE(mode) in (0o644, 0o755, 0o777) for mode, _ in expected.values())
