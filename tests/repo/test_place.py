"""What an agent leaves in a tree to stop git is found by its name and kind, and nothing is opened or followed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.repo import place
from penstock.repo.place import identity_of, mount_below, move_out, obstacles, problem_of

LARGE = "truncate -s 200M"

FOUND = {
    "a pipe that git reads": ("mkfifo sub/.gitignore", {"sub/.gitignore": "git would wait"}),
    "a pipe under another spelling": ("mkfifo .GitAttributes", {".GitAttributes": "git would wait"}),
    "a large file that git reads": (f"{LARGE} .gitmodules", {".gitmodules": "bytes, which git would read"}),
    "files that git reads": ("touch .gitignore; ln -s /dev/zero .gitattributes; mkdir .gitmodules", {}),
    "a pipe and a large file that git does not read": (f"mkfifo pipe; {LARGE} large", {}),
    "its own git directory": ("mkdir .git; mkfifo .git/HEAD", {}),
    "a repository": ("git init -q sub/inner", {}),
    "a pipe for a repository": ("mkfifo sub/.git", {"sub/.git": "is neither a file nor a directory"}),
    "a link to a pipe for a repository": ("mkfifo p; ln -s ../p sub/.git", {"sub/.git": "neither a file nor"}),
    "a pipe in a repository": (
        "git init -q sub; rm sub/.git/HEAD; mkfifo sub/.git/HEAD", {"sub/.git": "has a HEAD that is neither"}),
    "a pipe in a directory of a repository": ("git init -q sub; mkfifo sub/.git/refs/x", {"sub/.git": "has a x that"}),
    "a link to a device in a repository": ("git init -q sub; ln -sf /dev/zero sub/.git/config", {"sub/.git": "config"}),
    "a pipe among the objects of a repository": ("git init -q sub; mkfifo sub/.git/objects/x", {}),
    "a repository under another spelling": ("mkdir -p sub/.GIT; mkfifo sub/.GIT/HEAD", {"sub/.GIT": "has a HEAD"}),
    "a repository elsewhere": ("echo gitdir: ../../other > sub/.git", {"sub/.git": "has a HEAD"}),
    "a repository that is nowhere": ("echo gitdir: nowhere > sub/.git; echo x > .gitmodules", {}),
    "a repository with too many files": (
        "git init -q sub; touch $(seq -f sub/.git/%g 90)", {"sub/.git": "too many entries"}),
    "a link to a directory": ("ln -s ../other sub/link", {}),
}  # fmt: skip
"""Scripts in a tree, and what is found after them: paths, each with words of the reason."""


@pytest.mark.parametrize(("script", "expected"), FOUND.values(), ids=FOUND.keys())
def test_what_would_stop_git_is_found(
    tmp_path: Path, script: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each such entry is named with its reason, and what git reads without trouble is not."""
    monkeypatch.setattr(place, "MAX_GIT_ENTRIES", 80)
    top, other = tmp_path / "tree", tmp_path / "other"
    (top / "sub").mkdir(parents=True)
    other.mkdir()
    os.mkfifo(other / "HEAD")
    other.chmod(0o500)
    subprocess.run(["sh", "-ec", script], cwd=top, check=True)
    found = {os.path.relpath(path, top): reason for path, reason in obstacles(str(top))}
    assert found.keys() == expected.keys()
    assert all(words in found[path] for path, words in expected.items())
    assert other.stat().st_mode & 0o777 == 0o500  # it is no part of the tree


def test_directories_become_usable_for_their_owner(unprivileged: Path) -> None:
    """Git could neither read nor remove them. Those of nested repositories do too; those outside stay as they are."""
    top, other = unprivileged / "tree", unprivileged / "other"
    (top / "a/b").mkdir(parents=True)
    (top / "sub/.git/refs").mkdir(parents=True)
    other.mkdir()
    os.mkfifo(top / "a/b/.gitignore")
    os.mkfifo(top / "sub/.git/refs/x")
    (top / "link").symlink_to(other)
    (top / "far").mkdir()
    (top / "far/.git").write_text(f"gitdir: {other}\n")
    for folder in (top / "a/b", top / "a", top / "sub/.git/refs", top / "sub/.git", other):
        folder.chmod(0)
    assert {path for path, _ in obstacles(str(top))} == {str(top / "a/b/.gitignore"), str(top / "sub/.git")}
    assert (top / "a/b").stat().st_mode & 0o777 == (top / "sub/.git/refs").stat().st_mode & 0o777 == 0o700
    assert other.stat().st_mode & 0o777 == 0


def test_a_directory_is_the_one_that_was_made(tmp_path: Path) -> None:
    """Whatever is in its place now is named, and neither a link nor another directory counts."""
    made = tmp_path / "tree"
    made.mkdir()
    identity = identity_of(made)
    assert identity is not None
    assert problem_of(str(made), identity) == ""
    assert problem_of(str(made), (*identity[:2], -1)) == ""
    assert problem_of(str(made), (*identity[:2], identity[2] + 1)) == "belongs to another user now"
    made.rename(tmp_path / "moved")
    assert problem_of(str(made), identity) == "is gone"
    made.symlink_to("moved")
    assert problem_of(str(made), identity) == "was replaced by a link"
    made.unlink()
    made.write_text("x")
    assert problem_of(str(made), identity) == "was replaced by a file"
    made.unlink()
    made.mkdir()
    assert problem_of(str(made), identity) == "was replaced by another directory"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_file_system_in_a_directory_is_seen() -> None:
    """Also below it; one with a name that only begins so is another one."""
    assert mount_below("/proc") == "/proc"
    assert mount_below("/pro") == ""
    assert mount_below("/") != ""


def test_an_entry_is_moved_out_as_it_is(tmp_path: Path) -> None:
    """A link is moved, not what it leads to, and entries of the same name do not replace each other."""
    tree = tmp_path / "tree"
    tree.mkdir()
    places = []
    for target in ("one", "two"):
        (tree / ".gitignore").symlink_to(tmp_path / target)
        places.append(move_out(str(tree / ".gitignore"), tmp_path / "aside" / "t1", tree))
    assert [os.readlink(at) for at in places] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert os.listdir(tree) == []
    with pytest.raises(FileNotFoundError):
        move_out(str(tree / "nothing"), tmp_path / "aside" / "t1", tree)
    assert sorted(os.listdir(tmp_path)) == ["aside", "tree"]
    assert len(os.listdir(tmp_path / "aside" / "t1")) == 2
