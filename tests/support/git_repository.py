"""A user's repository in a temporary directory, with real git, and everything in it that must not change."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from penstock.repo.git import clean_environment
from penstock.repo.repository import Repository
from penstock.repo.tree import Tree, TreeRecord, place_of

IDENTITY = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Uma User",
    "GIT_AUTHOR_EMAIL": "uma@example.org",
    "GIT_COMMITTER_NAME": "Uma User",
    "GIT_COMMITTER_EMAIL": "uma@example.org",
}
"""Variables with which no configuration of the person who runs the tests counts."""


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the identity of a user, and nobody else's configuration."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


class UserRepository:
    """A repository with a first commit, as its user sees it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.commit("Begin", {"README": "hello\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\n"})

    def git(self, *args: str, cwd: Path | None = None) -> str:
        """Run the user's git, as a shell would."""
        env = {**clean_environment(os.environ), "GIT_EDITOR": ":"}
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.root, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout.rstrip("\n")

    def write(self, files: dict[str, str], root: Path | None = None) -> None:
        """Write files into the checkout, or into another directory."""
        for name, text in files.items():
            path = (root or self.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, message: str, files: dict[str, str]) -> str:
        """Commit files as the user."""
        self.write(files)
        self.git("add", "--", *files)
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")

    @property
    def repository(self) -> Repository:
        """The repository as Penstock sees it."""
        return Repository.at(self.root)

    def tree(self, home: Path, name: str = "t1", owner: str = "loop", label: str = "work") -> Tree:
        """Make a tree of the newest commit."""
        repository = self.repository
        record = TreeRecord(
            name=name,
            owner="run" if owner == "run" else "loop",
            label=label,
            path=str(place_of(repository, name, home)),
            repository=str(repository.root),
            base=repository.head() or "",
            branch=f"penstock/{name}",
            made_at=1_700_000_000_000,
        )
        return Tree.make(home, record, repository)

    def state(self) -> dict[str, object]:
        """Everything of the user's that must be the same afterwards: files with modes, and all of `.git` but objects.

        Penstock's own refs and branches are left out.
        """
        refs = self.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        found = files_of(self.root, without=".git")
        git = {name: value for name, value in files_of(self.root / ".git").items() if is_protected(name)}
        return {
            "refs": [line for line in refs if "refs/penstock/" not in line and "refs/heads/penstock/" not in line],
            **{f"/{name}": value for name, value in found.items()},
            **{f"/.git/{name}": value for name, value in git.items()},
        }


def is_protected(name: str) -> bool:
    """Return whether a file of `.git` may not change when Penstock works."""
    own = name.startswith(("objects/", "refs/penstock/", "refs/heads/penstock/", "logs/refs/heads/penstock/"))
    # Parent directories of Penstock's refs are not files; packed-refs is compared by what git reads of it.
    return not own and name != "packed-refs"


def files_of(root: Path, without: str = "") -> dict[str, tuple[int, str]]:
    """Return mode and content of each file below a directory."""
    found = {}
    for folder, names, files in os.walk(root):
        if without in names:
            names.remove(without)
        for name in [*files, *(name for name in names if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            content = os.fsencode(os.readlink(path)) if os.path.islink(path) else Path(path).read_bytes()
            found[os.path.relpath(path, root)] = (mode, hashlib.sha256(content).hexdigest())
    return found
