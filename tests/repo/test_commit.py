from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from git_repository import UserRepository
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.repo.commit import MAX_SUBJECT_CHARS, HookResult, Stamp, commit_tree, run_hooks, subject_of, with_trailers
from penstock.repo.git import GitError
from penstock.repo.refs import RefMoved, checked_out_at, free_branch, publish, set_ref
from penstock.repo.repository import Author
from penstock.repo.staging import stage
from penstock.repo.tree import Tree

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)


def change(tree: Tree, text: str = "a = 2\n") -> str:
    """Change a file of the tree as an agent, and return the commit of it."""
    (tree.path / "src/a.py").write_text(text)
    stage(tree.git)
    parent = tree.git.commit_of("HEAD")
    assert parent is not None
    return commit_tree(tree.git, tree.git.text("write-tree"), [parent], "Change a\n", STAMP)


def hook(user: UserRepository, name: str, script: str, folder: str = ".git/hooks") -> None:
    """Install a hook of the user."""
    path = user.root / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_commit_of_the_tree_is_one_of_the_users_repository(user: UserRepository, home: Path) -> None:
    """The commit can be published at once, has author and date as given, and is the same when made again."""
    tree = user.tree(home)
    before = user.state()
    made = change(tree)
    assert change(tree) == made
    assert publish(user.repository, "penstock/t1", made, None) is None
    assert user.git("log", "-1", "--format=%an <%ae> %at %cn %ct %s", "penstock/t1") == (
        "Uma User <uma@example.org> 1700000000 Uma User 1700000000 Change a"
    )
    assert user.git("diff", "--name-only", "main", "penstock/t1") == "src/a.py"
    assert user.state() == before


def test_a_commit_may_have_any_date(user: UserRepository) -> None:
    """A clock that is at its beginning gives a commit too."""
    tree = user.git("rev-parse", "HEAD^{tree}")
    made = commit_tree(user.repository.git, tree, [], "First\n", Stamp(STAMP.author, 1))
    assert user.git("log", "-1", "--format=%at", made) == "1"


def test_a_commit_is_not_signed_in_spite_of_the_configuration(user: UserRepository, home: Path) -> None:
    """Signing would ask for a passphrase, so a configuration that asks for it does not count."""
    user.git("config", "commit.gpgSign", "true")
    user.git("config", "gpg.program", "false")
    assert change(user.tree(home))


def test_a_ref_moves_only_from_where_it_was_seen(user: UserRepository, home: Path) -> None:
    """A ref that somebody has moved is left there, and one that is at its target already counts as moved."""
    tree, repository = user.tree(home), user.repository
    first, second = change(tree, "1\n"), change(tree, "2\n")
    base = tree.record.base
    set_ref(repository, "refs/penstock/t1/1", first)
    set_ref(repository, "refs/penstock/t1/1", first)
    set_ref(repository, "refs/penstock/t1/1", second, first)
    with pytest.raises(RefMoved) as caught:
        set_ref(repository, "refs/penstock/t1/1", base, first)
    assert caught.value.found == second
    assert str(caught.value).startswith(f"refs/penstock/t1/1 was moved by somebody else: it is at {second}")
    with pytest.raises(RefMoved):
        set_ref(repository, "refs/penstock/t1/1", base, None)
    user.git("update-ref", "-d", "refs/penstock/t1/1", second)
    with pytest.raises(RefMoved) as caught:
        set_ref(repository, "refs/penstock/t1/1", base, first)
    assert caught.value.found is None


def test_l12_a_branch_that_is_checked_out_is_not_moved(user: UserRepository, home: Path) -> None:
    """L12: if the user has checked out the branch, also in a linked worktree or for a rebase, it stays where it is."""
    tree, repository = user.tree(home), user.repository
    made = change(tree)
    base = tree.record.base
    user.git("branch", "penstock/t1")
    assert checked_out_at(repository, "penstock/t1") is None
    user.git("worktree", "add", "-q", "../linked", "penstock/t1")
    assert publish(repository, "penstock/t1", made, base) == str(user.root.parent / "linked")
    assert user.git("rev-parse", "penstock/t1") == base
    user.git("worktree", "remove", "../linked")
    user.git("switch", "-q", "penstock/t1")
    assert publish(repository, "penstock/t1", made, base) == str(user.root)
    assert user.git("status", "--porcelain") == ""
    user.commit("Mine", {"c": "1\n"})
    user.git("switch", "-q", "main")
    user.commit("Other", {"c": "2\n"})
    user.git("switch", "-q", "penstock/t1")
    subprocess.run(["git", "rebase", "main"], cwd=user.root, capture_output=True)  # stops at a conflict
    assert user.repository.branch() is None
    assert checked_out_at(repository, "penstock/t1") is not None
    user.git("rebase", "--abort")
    user.git("switch", "-q", "main")
    assert checked_out_at(repository, "penstock/t1") is None


def test_l14_a_branch_that_exists_is_not_used(user: UserRepository) -> None:
    """L14: a branch of that name is an error with a way out, and a branch `penstock` gives the other name."""
    repository = user.repository
    assert free_branch(repository, "work") == "penstock/work"
    user.git("branch", "penstock/work")
    with pytest.raises(UsageError, match="penstock/work exists already"):
        free_branch(repository, "work")
    user.git("branch", "penstock/other/more")
    with pytest.raises(UsageError, match="penstock/other exists already"):
        free_branch(repository, "other")
    with pytest.raises(UsageError, match="cannot be part of the name"):
        free_branch(repository, "a..b")
    user.git("branch", "-D", "penstock/work", "penstock/other/more")
    user.git("branch", "penstock")
    assert free_branch(repository, "work") == "penstock-work"


def test_hooks_of_the_user_decide(user: UserRepository, home: Path) -> None:
    """A hook that fails rejects the commit with its output, and its name is given."""
    hook(user, "pre-commit", "echo checked; git diff --cached --name-only; exit 3")
    tree = user.tree(home)
    change(tree)
    result = run_hooks(tree, "Change\n")
    assert (result.passed, result.name, result.output) == (False, "pre-commit", "checked\nsrc/a.py\n")


def test_hooks_change_index_and_message(user: UserRepository, home: Path) -> None:
    """What a formatter adds to the index is in the commit, as is the message that a hook changed, with line feeds."""
    hook(user, "pre-commit", "echo formatted > src/a.py; git add src/a.py")
    hook(user, "commit-msg", 'printf "Ticket: 7\r\n" >> "$1"')
    tree = user.tree(home)
    change(tree)
    result = run_hooks(tree, "Change\n")
    assert (result.passed, result.message) == (True, "Change\nTicket: 7\n")
    assert tree.git.text("show", ":src/a.py") == "formatted"


def test_hooks_never_see_the_git_directory_of_the_agent(user: UserRepository, home: Path, tmp_path: Path) -> None:
    """The git of a hook reads Penstock's directory: a program that the agent has configured in its own is not run."""
    hook(user, "pre-commit", "git status > /dev/null; git diff --cached --quiet && exit 9; exit 0")
    tree = user.tree(home)
    change(tree)
    planted = tmp_path / "planted"
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {planted};"], cwd=tree.path, check=True)
    (tree.path / ".git/hooks").mkdir(exist_ok=True)
    (tree.path / ".git/hooks/pre-commit").write_text(f"#!/bin/sh\ntouch {planted}\n")
    (tree.path / ".git/hooks/pre-commit").chmod(0o755)
    assert run_hooks(tree, "Change\n").passed
    assert not planted.exists()


def test_hooks_of_a_configured_directory_are_those_of_the_users_checkout(user: UserRepository, home: Path) -> None:
    """A relative `core.hooksPath` means the user's hooks: a version that the agent has written does not run."""
    hook(user, "pre-commit", "exit 0", ".husky")
    user.git("config", "core.hooksPath", ".husky")
    user.git("add", ".husky")
    user.git("commit", "-qm", "Hooks")
    tree = user.tree(home)
    (tree.path / ".husky/pre-commit").write_text("#!/bin/sh\nexit 5\n")
    change(tree)
    assert run_hooks(tree, "Change\n").passed


def test_a_hook_that_hangs_is_killed(user: UserRepository, home: Path) -> None:
    """A hook that waits for a person ends with its time limit."""
    hook(user, "pre-commit", "sleep 1000")
    tree = user.tree(home)
    change(tree)
    with pytest.raises(GitError, match="hook did not end within"):
        run_hooks(tree, "Change\n", seconds=0.2)


@pytest.mark.parametrize("end", ["true", "exit 1", "kill -9 $PPID"])
def test_what_a_hook_leaves_in_gits_way_is_put_aside(user: UserRepository, home: Path, end: str) -> None:
    """A pipe that a hook has made, also one that fails or is killed, is not opened by the next call of git."""
    hook(user, "pre-commit", f"rm -f .gitignore; mkfifo .gitignore; {end}")
    tree = user.tree(home)
    change(tree)
    try:
        run_hooks(tree, "Change\n")
    except GitError:
        pass
    tree.check()
    assert not os.path.lexists(tree.path / ".gitignore")
    [aside] = tree.taken_aside()
    assert aside.startswith(".gitignore is neither a file nor a link")


@pytest.mark.parametrize(
    "step", ["rm", "rm FILE; mkfifo", "rm FILE; mkdir", "rm FILE; ln -s /etc/passwd", "head -c 2000000 /dev/zero >"]
)
def test_a_message_that_a_hook_has_replaced(user: UserRepository, home: Path, step: str) -> None:
    """A program that a hook runs may have made anything of the file: it is not waited for, and nothing is committed."""
    tree = user.tree(home)
    file = tree.home / "COMMIT_EDITMSG"
    hook(user, "commit-msg", f"{step.replace('FILE', str(file))} {file}; exit 0")
    change(tree)
    ended: list[HookResult] = []
    thread = threading.Thread(target=lambda: ended.append(run_hooks(tree, "Change\n")), daemon=True)
    thread.start()
    thread.join(20)
    [result] = ended
    assert (result.name, result.message) == ("commit-msg", "Change\n")
    assert "the file with the message cannot be read" in result.output


def test_without_hooks_the_message_stays(user: UserRepository, home: Path) -> None:
    """A repository without hooks, or with samples only, has nothing that decides."""
    tree = user.tree(home)
    change(tree)
    result = run_hooks(tree, "Change é\n")
    assert (result.passed, result.output, result.message) == (True, "", "Change é\n")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Subject", "Subject\n\nPenstock-Run: t1\n"),
        ("Subject\n\nBody: of text\nand more\n", "Subject\n\nBody: of text\nand more\n\nPenstock-Run: t1\n"),
        ("Subject\n\nText\n\nCo-Authored-By: A <a>\n", "Subject\n\nText\n\nCo-Authored-By: A <a>\nPenstock-Run: t1\n"),
        ("fix: subject", "fix: subject\n\nPenstock-Run: t1\n"),
    ],
)
def test_trailers_are_the_last_paragraph(message: str, expected: str) -> None:
    """Trailers join those of a message, and never its text."""
    assert with_trailers(message, {"Penstock-Run": "t1"}) == expected


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1), st.booleans())
def test_trailers_keep_the_message(text: str, trailed: bool) -> None:
    """Whatever the message is, it is the beginning of the message with trailers."""
    message = text + ("\n\nA-B: c" if trailed else "")
    assert with_trailers(message, {"X": "1", "Y": "2"}).startswith(message + "\n")
    assert with_trailers(message, {}) == message + "\n"


def test_the_author_is_that_of_the_repository(user: UserRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local identity counts, and without any the error names the commands that set one."""
    assert user.repository.author() == Author("Uma User", "uma@example.org")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    user.git("config", "user.name", "Local")
    user.git("config", "user.email", "local@example.org")
    assert user.repository.author() == Author("Local", "local@example.org")
    user.git("config", "--unset", "user.name")
    user.git("config", "--unset", "user.email")
    user.git("config", "user.useConfigOnly", "true")
    with pytest.raises(UsageError, match=r"git config --global user\.name"):
        user.repository.author()


def test_without_hooks_nothing_has_to_be_put_back(user: UserRepository, home: Path) -> None:
    """The result says whether there are hooks, as only they change the tree before a commit."""
    tree = user.tree(home)
    assert run_hooks(tree, "Change\n") == HookResult("", "", "Change\n")
    hook(user, "commit-msg", "exit 0")
    assert run_hooks(tree, "Change\n") == HookResult("", "", "Change\n", ran=True)


def test_the_subject_is_the_first_line_of_text() -> None:
    """Marks of Markdown and empty lines are left out, and a long line is cut; without any text there is a default."""
    assert subject_of("", "\n## **Fix** the parser\nmore") == "Fix** the parser"
    assert subject_of("`make test`", "x") == "make test"
    assert subject_of("\x1b[2J\nSecond") == "Second"
    long = subject_of("word " * 40)
    assert long.endswith("…")
    assert len(long) <= MAX_SUBJECT_CHARS
    assert subject_of(" \n\n", "#") == subject_of() == "Work of an agent"
