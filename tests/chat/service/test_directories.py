"""Directories that are offered while somebody writes a path, and the state of their repositories."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.errors import Invalid, OutsideRoots
from penstock.chat.service.agents import directories
from penstock.chat.service.agents.directories import MAX_SHOWN, DirectoryState, FoundDirectory
from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.store.rows import Directory
from penstock.repo.found_changes import FoundChanges


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with directories, a file, and a link that leads out."""
    root = tmp_path / "work"
    for name in ("shop/src", "Shed", "workshop", ".hidden", "data"):
        (root / name).mkdir(parents=True)
    (tmp_path / "workbench").mkdir()
    (root / "sheet").touch()
    (root / "shadow").symlink_to(tmp_path / "workbench")
    return root


def places(*roots: Path, trusted: Path | None = None) -> Workspaces:
    """The directories of a service with these roots."""
    store: Any = None  # nothing is written
    return Workspaces(roots, store, [Directory(str(trusted), 1)] if trusted else [], lambda: 1)


def named(workspaces: Workspaces, typed: str, *hidden: str) -> list[str]:
    """The paths that are offered for what is typed."""
    return [it.path for it in directories.find(workspaces, typed, hidden)]


def state_of(workspaces: Workspaces, path: str) -> DirectoryState:
    """The state of a directory."""
    return directories.state_of(workspaces, path, partial(FoundChanges, folder=workspaces.roots[0].parent / "own"))


def test_a_path_is_continued(root: Path) -> None:
    """By its last part, whatever its case; those that begin with it are first, and links and files are left out."""
    workspaces = places(root)
    shed, shop, workshop = (str(root / it) for it in ("Shed", "shop", "workshop"))
    assert named(workspaces, "") == [str(root)]
    assert named(workspaces, str(root)[:-2]) == [str(root)]
    assert named(workspaces, f"{root}/sh") == [shed, shop, workshop]
    assert named(workspaces, "SHO") == [shop, workshop]
    assert named(workspaces, f"{shop}/") == [f"{shop}/src"] == named(workspaces, "shop/s")
    assert named(workspaces, f"{root}/.h") == [f"{root}/.hidden"]
    assert f"{root}/.hidden" not in named(workspaces, f"{root}/")


def test_nothing_outside_of_the_roots_is_shown(root: Path) -> None:
    """Neither by its path, nor by dots, nor through a link; nor what is hidden."""
    workspaces = places(root)
    for typed in ("/", "/e", f"{root.parent}/", f"{root}/../", "../", f"{root}/shadow/", "shop/../../", f"{root}x/"):
        assert set(named(workspaces, typed)) <= {str(root)}, typed
    assert f"{root}/data" in named(workspaces, f"{root}/")
    assert f"{root}/data" not in named(workspaces, f"{root}/", str(root / "data"))
    for typed in ("\0", "x" * 5000):
        with pytest.raises(Invalid):
            directories.find(workspaces, typed)
    assert named(workspaces, f"{root}/\ud800/") == []


def test_a_large_directory_has_a_limit(root: Path) -> None:
    """More directories than a person reads are not sent; names that act on a terminal are never offered."""
    for number in range(MAX_SHOWN + 1):
        (root / f"shop{number}").mkdir()
    (root / "shop\x1b[2J").mkdir()
    os.mkdir(os.fsencode(root) + b"/shop\xff")
    found = named(places(root), f"{root}/shop")
    assert len(found) == MAX_SHOWN
    assert all(path.isprintable() for path in found)


def test_the_branch_is_read_without_git(root: Path) -> None:
    """What an agent may have put in the place of the file is no branch, and holds nothing up."""
    workspaces = places(root)
    git = root / "shop" / ".git"
    git.mkdir()
    for text, branch in (("ref: refs/heads/main\n", "main"), ("4b825dc6\n", None), ("ref: refs/heads/a\x1bb\n", None)):
        (git / "HEAD").write_text(text)
        assert directories.find(workspaces, f"{root}/shop") == [
            FoundDirectory(f"{root}/shop", False, branch),
            FoundDirectory(f"{root}/workshop", False),
        ]
    (git / "HEAD").unlink()
    os.mkfifo(git / "HEAD")
    assert state_of(workspaces, f"{root}/shop") == DirectoryState(f"{root}/shop", False)


@pytest.mark.slow
def test_changes_are_counted_in_a_trusted_directory_alone(root: Path, tmp_path: Path) -> None:
    """No filter runs: an agent that works there may have made it."""
    shop = root / "shop"
    ran = tmp_path / "ran"
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(shop)]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run([*git, *words], check=True)
    (shop / "one").write_text("1")
    (shop / "two").write_text("2")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "two files"], check=True)
    subprocess.run([*git, "mv", "one", "three"], check=True)
    (shop / "two").write_text("changed")
    (shop / "new").touch()
    subprocess.run([*git, "config", "filter.evil.clean", f"touch {ran}; cat"], check=True)
    (shop / ".gitattributes").write_text("two filter=evil\n")
    assert state_of(places(root), str(shop)) == DirectoryState(str(shop), False, "main")
    state = state_of(places(root, trusted=shop), str(shop))
    assert state == DirectoryState(str(shop), True, "main", 4)
    assert state_of(places(root, trusted=shop / "src"), str(shop / "src")).changes == 4
    assert not ran.exists()
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    state = state_of(places(root, trusted=shop), str(shop))
    assert state == DirectoryState(str(shop), True, None, 4)


PLANTED = {
    "in a submodule": (
        "git init -q sub; echo 1 >sub/f; echo '* filter=x' >sub/.gitattributes; git -C sub add .;"
        " git -C sub commit -qm y; git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub;"
        " git commit -qm z; touch sub/f"
    ),
    "in another git directory": (
        "mkdir away; cp -r .git/objects .git/refs .git/config away; echo '* filter=x' >.gitattributes;"
        " git add .; git commit -qm z; rm -r away/*; cp -r .git/objects .git/refs .git/config away;"
        " echo ../away >.git/commondir; touch one"
    ),
}
"""Commands of a confined agent that make settings of git which its own repository does not have."""


@pytest.mark.slow
@pytest.mark.parametrize("where", PLANTED)
def test_no_filter_of_an_agent_at_work_runs(root: Path, tmp_path: Path, where: str) -> None:
    """A confined agent could leave its confinement by it, before what it has planted is put aside."""
    shop = root / "shop"
    who = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    program = f"touch {tmp_path / 'ran'}; cat"
    script = f"git init -q -b main; echo 1 >one; git add .; git commit -qm x; {PLANTED[where]}"
    name = "sub/.git/config" if "sub" in where else "away/config"
    script += f"; git config -f {name} filter.x.clean '{program}'"
    subprocess.run(["sh", "-ec", script], cwd=shop, env=os.environ | who, check=True)
    subprocess.run(["git", "status"], cwd=shop, capture_output=True, check=True)
    assert (tmp_path / "ran").exists(), "the try is real"
    (tmp_path / "ran").unlink()
    subprocess.run("touch one; ls sub && touch sub/f", shell=True, cwd=shop, check=False)
    assert state_of(places(root, trusted=shop), str(shop)).changes is not None
    assert not (tmp_path / "ran").exists()


def test_only_directories_below_roots_have_a_state(root: Path) -> None:
    """As for a chat that begins there."""
    workspaces = places(root, trusted=root)
    assert state_of(workspaces, str(root)) == DirectoryState(str(root), True)
    with pytest.raises(OutsideRoots):
        state_of(workspaces, str(root / "shadow"))
    with pytest.raises(Invalid):
        state_of(workspaces, str(root / "sheet"))
