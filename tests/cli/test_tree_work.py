"""`penstock trees diff` and `penstock trees merge`: the work of trees, compared and made part of the user's branch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from git_repository import UserRepository, identity

from penstock.cli import main
from penstock.repo.commit import Stamp
from penstock.repo.repository import Author
from penstock.repo.result import save_result
from penstock.repo.tree import Tree
from penstock.repo.trees import home_of

__all__ = ["identity"]

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)


class Place:
    """A repository with two trees, and the command line in it."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.user = UserRepository(folder / "work" / "app")
        self.data = folder / "data"
        self._capfd = capfd

    def tree(self, label: str, name: str = "", owner: str = "run") -> Tree:
        """Make a tree of the newest commit."""
        name = name or f"run-1-{label}"
        return self.user.tree(home_of(self.data, name), name, owner, label)

    def saved(self, label: str, files: dict[str, str], name: str = "", owner: str = "run") -> Tree:
        """Make a tree with the saved work of an agent."""
        tree = self.tree(label, name, owner)
        self.user.write(files, tree.path)
        save_result(tree, f"Work of {label}", {}, STAMP)
        return tree

    def trees(self, *words: str) -> tuple[int, str, str]:
        """Run `penstock trees`; return the exit status and what it wrote."""
        self._capfd.readouterr()
        status = main.main(["trees", *words])
        found = self._capfd.readouterr()
        return status, found.out, found.err


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Place:
    """A place, with the user in the top directory of the repository."""
    made = Place(tmp_path, capfd)
    monkeypatch.setenv("PENSTOCK_DATA", str(made.data))
    monkeypatch.setenv("PENSTOCK_CONFIG", os.devnull)
    monkeypatch.chdir(made.user.root)
    return made


@pytest.mark.slow
def test_the_work_of_two_trees_is_compared(place: Place) -> None:
    """By agent, name, branch or directory: what B has that A has not, and nothing of the user's changes."""
    one = place.saved("claude", {"src/a.py": "a = 2\n", "same": "x\n"})
    place.saved("codex", {"src/a.py": "a = 3\n", "same": "x\n", "new": "y\n"})
    before = place.user.state()
    for first in ("claude", "run-1-claude", "penstock/run-1-claude", one.record.path, f"{one.record.path}/"):
        status, out, err = place.trees("diff", first, "codex")
        assert (status, err) == (0, "")
        assert out == (
            "--- /dev/null\n+++ new\n@@ -0,0 +1 @@\n+y\n--- src/a.py\n+++ src/a.py\n@@ -1 +1 @@\n-a = 2\n+a = 3\n"
        )
    assert "-a = 1\n+a = 2\n" in place.trees("diff", "claude")[1]
    assert place.trees("diff", "claude", "claude") == (0, "", "penstock: the work of both is the same\n")
    assert place.user.state() == before


def test_a_diff_is_cleaned_for_the_terminal(place: Place) -> None:
    """Names and lines of agents move no cursor, and start no command of a CI service; binary files are named."""
    place.saved("claude", {"e\x1b[2Jvil": "\x1b]0;title\x07\u202e::error::x\n::error::y\n##[error]z\n", "bin": "a\0b"})
    status, out, _ = place.trees("diff", "claude")
    assert status == 0
    assert not {"\x1b", "\x07", "\u202e"} & {*out}
    assert "\n::" not in out
    assert "+++ bin\n… no lines to compare\n" in out


@pytest.mark.slow
def test_what_was_not_saved_is_said(place: Place) -> None:
    """A file that is in no ref, an agent that still works, and trees of different commits."""
    tree = place.saved("claude", {"new": "x\n"})
    place.user.write({".env": "KEY=1\n"}, tree.path)
    assert "run-1-claude: only what was saved counts: 1 file is in no ref: .env\n" in place.trees("diff", "claude")[2]
    place.user.commit("Next", {"README": "next\n"})
    later = place.tree("codex")
    lock = later.lock()
    status, out, err = place.trees("diff", "claude", "codex")
    os.close(lock)
    assert status == 0
    assert "+next\n" in out
    assert "run-1-codex: only what was saved counts" in err
    assert "began with different commits" in err


@pytest.mark.slow
def test_a_branch_is_merged(place: Place) -> None:
    """The first one as a fast-forward, the next as a merge, each at once and only once."""
    place.saved("claude", {"src/a.py": "a = 2\n"})
    place.saved("codex", {"src/b.py": "b = 2\n"})
    place.user.write({"README": "changed by the user\n", "untracked": "mine\n"})
    status, out, _ = place.trees("merge", "claude")
    tip = place.user.git("rev-parse", "--short=10", "HEAD")
    assert (status, out) == (
        0,
        f"main is at {tip} (fast-forward of penstock/run-1-claude).\nclean up: penstock trees clean\n",
    )
    assert place.trees("merge", "claude")[:2] == (0, "main has all of penstock/run-1-claude already.\n")
    status, out, _ = place.trees("merge", "penstock/run-1-codex")
    assert (status, "(merge of penstock/run-1-codex)" in out) == (0, True)
    assert place.user.git("log", "-1", "--format=%an %P %B").split("\n")[0].startswith("Uma User ")
    message = place.user.git("log", "-1", "--format=%B")
    assert message == "Work of codex\n\nPenstock-Run: run-1-codex\nPenstock-Agent: codex"
    assert (place.user.root / "src/a.py").read_text() == "a = 2\n"
    assert (place.user.root / "src/b.py").read_text() == "b = 2\n"
    assert place.user.git("status", "--porcelain") == " M README\n?? untracked"


def test_a_conflict_changes_nothing(place: Place) -> None:
    """The paths and the way out are named, the status is 4, and all is as it was."""
    place.saved("claude", {"src/a.py": "a = 2\n"})
    place.user.commit("Mine", {"src/a.py": "a = 9\n"})
    before = place.user.state()
    status, out, err = place.trees("merge", "claude")
    assert (status, out) == (4, "")
    assert err == (
        "  src/a.py\npenstock: not merged, and nothing was changed: the same lines were changed in main and in the "
        "result; git merge penstock/run-1-claude lets you resolve it\n"
    )
    assert place.user.state() == before


@pytest.mark.parametrize("path", ["src/a.py", "new", "link/new"])
@pytest.mark.slow
def test_files_of_the_user_are_not_overwritten(place: Place, path: str) -> None:
    """Changed, untracked and ignored ones, and a link in place of a directory."""
    place.saved("claude", {path: "of the agent\n"})
    (place.user.root / ".git/info").mkdir(exist_ok=True)
    (place.user.root / ".git/info/exclude").write_text("new\n")
    if path == "link/new":
        (place.user.root / "link").symlink_to(place.user.root.parent)
    else:
        place.user.write({path: "mine\n"})
    before = place.user.state()
    status, _, err = place.trees("merge", "claude")
    assert status == 4
    assert f"  {'link' if path == 'link/new' else path}\n" in err
    assert "files of yours in the checkout are in the way; commit them, or move them away" in err
    assert place.user.state() == before


def test_an_unfinished_merge_and_a_detached_head_are_left_alone(place: Place) -> None:
    """Nothing begins in the middle of something else."""
    place.saved("claude", {"new": "x\n"})
    (place.user.root / ".git/MERGE_HEAD").write_text(place.user.git("rev-parse", "HEAD") + "\n")
    assert "a merge is under way" in place.trees("merge", "claude")[2]
    (place.user.root / ".git/MERGE_HEAD").unlink()
    place.user.git("checkout", "-q", "--detach")
    status, _, err = place.trees("merge", "claude")
    assert (status, "no branch is checked out" in err) == (4, True)
    assert place.user.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_what_has_no_branch_is_not_merged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing saved, a result that a hook rejected, and the tree of a loop: each has its way out."""
    place.saved("idle", {})
    assert "'run-1-idle' has nothing to merge: no change of it was saved" in place.trees("merge", "idle")[2]
    hook = place.user.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    place.saved("claude", {"new": "x\n"})
    status, _, err = place.trees("merge", "claude")
    assert status == 2
    assert "a hook rejected its result" in err
    assert "+x\n" in place.trees("diff", "claude")[1]
    place.tree("work", "l1", "loop")
    assert "'l1' is the tree of a loop; penstock loop land l1" in place.trees("merge", "l1")[2]
    assert place.user.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    tree = place.tree("codex")
    monkeypatch.chdir(tree.record.path)
    assert (
        f"this is the directory of an agent, which has nothing of yours to merge into; cd {place.user.root}"
        in (place.trees("merge", "claude")[2])
    )


@pytest.mark.slow
def test_a_branch_stays_after_its_tree(place: Place) -> None:
    """A tree that was cleaned is still compared and merged by its name or branch; two of one agent need names."""
    place.saved("claude", {"new": "x\n"})
    assert place.trees("clean")[0] == 0
    assert "+x\n" in place.trees("diff", "run-1-claude")[1]
    place.saved("claude", {"new": "y\n"}, "run-2-claude")
    place.saved("claude", {"new": "z\n"}, "run-3-claude")
    status, _, err = place.trees("merge", "claude")
    assert status == 2
    assert "'claude' is the agent of 2 trees; expected one of run-2-claude, run-3-claude" in err
    assert place.trees("merge", "run-1-claude")[0] == 0
    assert "did you mean 'run-2-claude'?" in place.trees("merge", "run-2-cluade")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["merge"], "penstock trees merge needs a tree"),
        (["diff"], "penstock trees diff needs a tree"),
        (["diff", "a", "b", "c"], "'c' is one argument too many"),
        (["clean", "a"], "'a' is one argument too many"),
        (["merge", "a", "--json"], "--json is for lists, not for penstock trees merge"),
        (["diff", "a", "--all"], "--all is for lists, not for penstock trees diff"),
        (["merge", "--", "--upload-pack=x"], "'--upload-pack=x' is no tree of this repository"),
        (["merge", "main"], "'main' is no tree of this repository"),
        (["merge", "a\0b"], "is no tree of this repository"),
        (["merge", ""], "'' is no tree of this repository"),
    ],
)
def test_words_that_do_not_fit(place: Place, words: list[str], said: str) -> None:
    """One sentence, and nothing is done."""
    status, out, err = place.trees(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_outside_of_a_repository(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to compare or to merge into."""
    monkeypatch.chdir(tmp_path)
    for action in ("diff", "merge"):
        assert "this directory is in no git repository" in place.trees(action, "claude")[2]
    shutil.rmtree(place.user.root / ".git")
    assert place.trees("merge", "claude")[0] == 2
