from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of
from hostile_agents import HOSTILE, REACHED

from penstock.repo.commit import Stamp, commit_tree
from penstock.repo.protected import Difference, Protected, differences, keep, read_protected
from penstock.repo.refs import publish
from penstock.repo.repository import Author, Repository
from penstock.repo.staging import stage
from penstock.repo.tree import Tree

STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)


class Watched:
    """A user's repository with a stash, a second branch, a tag and a hook, whose state is kept, and a tree of it."""

    def __init__(self, user: UserRepository, home: Path) -> None:
        self.user = user
        self.repository = user.repository
        user.git("branch", "other")
        user.commit("More", {"src/c.py": "c = 1\n"})
        user.git("tag", "-a", "v1", "-m", "one")
        for name in ("one", "two"):
            user.write({"README": f"stashed {name}\n"})
            user.git("stash", "push", "-qm", name)
        (user.root / ".git/hooks").mkdir(exist_ok=True)
        (user.root / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 0\n")
        (user.root / ".git/hooks/pre-commit").chmod(0o755)
        user.write({"src/a.py": "staged\n"})
        user.git("add", "src/a.py")
        self.tree: Tree = user.tree(home)
        self.kept = home / "kept"
        self.before: Protected = read_protected(user.repository)
        self.ref = keep(user.repository, self.before, self.kept, "t1", STAMP)

    def agent(self, script: str) -> None:
        """Run a hostile script in the tree, which knows where the user's repository is."""
        env = {**os.environ, "USER_REPO": str(self.user.root)}
        subprocess.run(["sh", "-c", script], cwd=self.tree.path, env=env, capture_output=True, stdin=subprocess.DEVNULL)

    def found(self) -> list[Difference]:
        """Return the differences of the user's repository."""
        return differences(self.before, self.repository, self.kept)


@pytest.fixture
def watched(user: UserRepository, home: Path) -> Watched:
    """Make a repository with everything in it, and keep its state."""
    return Watched(user, home)


@pytest.mark.sample(6)
@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE.keys())
def test_l3_a_hostile_agent_changes_nothing_of_the_users(
    watched: Watched, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: whatever an agent does in its tree, the user's repository is as before when the round is published; nothing
    planted was run, and the result is the files of the tree."""
    planted = tmp_path / "planted"
    monkeypatch.setenv("PLANTED", str(planted))
    user, tree = watched.user, watched.tree
    before = user.state()
    watched.agent(f"{script}\necho 'the result' > result")
    planted.unlink(missing_ok=True)  # by the agent's own git, which may run what it likes
    tree.renew(tree.record.base)
    held = stage(tree.git)
    made = commit_tree(tree.git, tree.git.text("write-tree"), [tree.record.base], "Result\n", STAMP)
    publish(user.repository, "penstock/t1", made, None)
    tree.renew(made)
    assert watched.found() == []
    tree.restore(made)
    assert not planted.exists()
    assert user.state() == before
    assert user.git("show", "penstock/t1:result") == "the result"
    assert {one.reason for one in held} <= {"nested"}
    subprocess.run(["git", "fsck", "--strict"], cwd=user.root, check=True, capture_output=True)


def test_a_repository_as_before_has_no_differences(watched: Watched) -> None:
    """Nothing is reported if nothing has changed, also if the user's git has refreshed its index."""
    os.utime(watched.user.root / "README")
    watched.user.git("status")
    assert watched.found() == []


@pytest.mark.sample(5)
@pytest.mark.parametrize(("script", "expected"), REACHED.values(), ids=REACHED.keys())
def test_l3_what_an_agent_reaches_by_path_is_seen_and_restored(
    watched: Watched, script: str, expected: set[tuple[str, str, bool]]
) -> None:
    """L3: a change by the path of the user's repository is reported, and the command of the report restores it."""
    before = watched.user.state()
    watched.agent(script)
    found = watched.found()
    assert {(one.kind, one.name, one.is_harm) for one in found} == expected
    for one in found:
        subprocess.run(one.restore, shell=True, cwd=watched.user.root, check=True, capture_output=True)
    assert watched.found() == []
    after = watched.user.state()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    # What is left is the history of refs, and the times of files in the index.
    assert {name for name in changed if not name.startswith("/.git/logs/")} <= {"/.git/index"}


@pytest.mark.slow
def test_l3_lost_commits_come_back_after_garbage_collection(watched: Watched) -> None:
    """L3: branches and stash entries that were deleted and collected come back by the commands of the report."""
    watched.agent(
        'cd "$USER_REPO" && git branch -D other && git stash clear && git tag -d v1 '
        "&& git update-ref -d refs/heads/main && git reflog expire --expire=now --all && git gc -q --prune=now"
    )
    found = watched.found()
    assert [one.kind for one in found if one.is_harm] == ["ref", "ref", "ref", "stash", "stash"]
    for one in found:
        if one.kind in ("ref", "stash") and one.name != "refs/tags/v1":
            subprocess.run(one.restore, shell=True, cwd=watched.user.root, check=True, capture_output=True)
    user = watched.user
    assert user.git("log", "--format=%s", "main", "--") == "More\nBegin"
    assert user.git("stash", "list", "--format=%gd").splitlines() == ["stash@{0}", "stash@{1}"]
    assert user.git("show", "stash@{0}:README") == "stashed two"
    assert user.git("cat-file", "-t", f"{watched.ref}^{{commit}}") == "commit"


@pytest.mark.slow
def test_l12_work_of_the_user_is_no_harm(watched: Watched) -> None:
    """L12: commits, branches, a fetch and a stash of the user are differences, and none of them counts as harm."""
    user = watched.user
    user.git("commit", "-qm", "Mine")
    user.git("switch", "-qc", "feature")
    user.git("config", "branch.feature.description", "new")
    user.write({"README": "stashed three\n"})
    user.git("stash")
    found = watched.found()
    assert {one.kind for one in found} == {"ref", "head", "stash", "config"}
    assert [one for one in found if one.is_harm] == []


def test_work_of_the_user_is_named_and_can_be_undone(user: UserRepository, tmp_path: Path) -> None:
    """Branches, staged files and settings are named as what they are, and one command each undoes what was done."""
    user.git("config", "user.email", "old@example.org")
    user.git("config", "core.pager", "cat")
    user.git("branch", "old")
    before = read_protected(user.repository)
    keep(user.repository, before, tmp_path / "kept", "t1", STAMP)
    assert differences(before, user.repository, tmp_path / "kept") == []
    user.git("branch", "-q", "-D", "old")
    user.git("branch", "it's-new")
    user.git("rm", "-q", "--cached", "README")
    user.git("config", "user.email", "hunter2")
    user.git("config", "--unset", "core.pager")
    user.git("config", "branch.main.description", "hunter2")
    found = differences(before, user.repository, tmp_path / "kept")
    head = user.git("rev-parse", "HEAD")
    assert [(one.kind, one.name, one.text, one.is_harm) for one in found] == [
        ("ref", "refs/heads/it's-new", f"is new, at {head}", False),
        ("ref", "refs/heads/old", f"was removed; it was at {head}", True),
        ("config", "branch.main.description", "the setting is new", False),
        ("config", "core.pager", "the setting was removed", True),
        ("config", "user.email", "has another value", True),
        ("index", "index", "other files are staged", False),
    ]
    assert "hunter2" not in repr(found)
    for one in found:
        subprocess.run(one.restore, shell=True, cwd=user.root, check=True, capture_output=True)
    assert differences(before, user.repository, tmp_path / "kept") == []


@pytest.mark.slow
def test_values_of_settings_are_not_shown(watched: Watched) -> None:
    """A report names a setting and never its value, which may be a password."""
    watched.user.git("config", "http.extraHeader", "Bearer 12345")
    assert "12345" not in repr(watched.found())


@pytest.mark.slow
def test_many_refs_are_kept(user: UserRepository, home: Path) -> None:
    """Hundreds of branches are kept by one ref, however many parents a commit may have."""
    first = user.git("rev-parse", "HEAD")
    tree = user.git("rev-parse", "HEAD^{tree}")
    made = [user.git("commit-tree", tree, "-p", first, "-m", str(number)) for number in range(5)]
    lines = "".join(f"create refs/heads/b{number} {made[number % 5]}\n" for number in range(300))
    subprocess.run(["git", "update-ref", "--stdin"], cwd=user.root, input=lines.encode(), check=True)
    before = read_protected(user.repository)
    ref = keep(user.repository, before, home / "kept", "t1", STAMP)
    reachable = user.git("rev-list", ref).splitlines()
    assert set(made) <= set(reachable)
    assert keep(user.repository, before, home / "kept", "t1", STAMP) == ref


@pytest.mark.slow
def test_the_kept_files_are_those_of_the_user(watched: Watched) -> None:
    """Configuration, index, hooks and other files are kept byte by byte."""
    git = files_of(watched.user.root / ".git")
    kept = files_of(watched.kept)
    assert kept == {name: git[name.removeprefix("files/")] for name in kept}
    assert {"config", "index", "hooks/pre-commit", "files/info/exclude"} <= kept.keys()


@pytest.mark.slow
def test_hooks_with_links_are_kept_again(watched: Watched) -> None:
    """Hooks are kept before each agent: links among them are no obstacle, and removed ones do not stay."""
    hooks = watched.user.root / ".git" / "hooks"
    (hooks / "post-merge").symlink_to("pre-commit")
    for _ in range(2):
        keep(watched.repository, read_protected(watched.repository), watched.kept, "t1", STAMP)
    assert os.readlink(watched.kept / "hooks" / "post-merge") == "pre-commit"
    (hooks / "pre-commit").unlink()
    keep(watched.repository, read_protected(watched.repository), watched.kept, "t1", STAMP)
    assert not (watched.kept / "hooks" / "pre-commit").exists()


@pytest.mark.slow
def test_a_branch_with_a_line_separator_in_its_name(watched: Watched) -> None:
    """Only a newline ends the line of a ref, so a branch may have U+2028 in its name."""
    watched.user.git("branch", "a\u2028b")
    assert "refs/heads/a\u2028b" in read_protected(watched.repository).refs


@pytest.mark.slow
def test_what_was_kept_before_stays_kept(watched: Watched) -> None:
    """A branch that was deleted between two agents stays in the repository by the ref of both."""
    lost = watched.user.git("rev-parse", "v1^{commit}")
    watched.user.git("reset", "-q", "--hard", "HEAD~1")
    watched.user.git("stash", "clear")
    watched.user.git("tag", "-d", "v1")
    keep(watched.repository, read_protected(watched.repository), watched.kept, "t1", STAMP)
    assert lost in watched.user.git("rev-list", watched.ref).splitlines()


@pytest.mark.slow
def test_a_fetch_is_no_harm(watched: Watched) -> None:
    """A fetch moves and removes the branches of remote repositories as they are there: only a removal is named."""
    for ref in ("refs/remotes/origin/one", "refs/remotes/origin/two"):
        watched.user.git("update-ref", ref, "HEAD")
    before = read_protected(watched.repository)
    keep(watched.repository, before, watched.kept, "t1", STAMP)
    watched.user.git("update-ref", "-d", "refs/remotes/origin/one")
    watched.user.git("update-ref", "refs/remotes/origin/two", "HEAD~1")
    [found] = differences(before, watched.repository, watched.kept)
    assert (found.name, found.is_harm) == ("refs/remotes/origin/one", False)


def test_a_detached_head_is_restored_by_its_command(user: UserRepository, tmp_path: Path) -> None:
    """The command that undoes a switch works for a user who had checked out a commit."""
    user.git("switch", "-q", "--detach")
    before = read_protected(user.repository)
    user.git("switch", "-q", "main")
    [found] = differences(before, user.repository, tmp_path)
    subprocess.run(found.restore, shell=True, cwd=user.root, check=True, capture_output=True)
    assert differences(before, user.repository, tmp_path) == []


@pytest.mark.slow
def test_settings_of_a_linked_worktree_are_compared(user: UserRepository, tmp_path: Path) -> None:
    """The settings of the checkout in which the user works are those of its own git directory too."""
    user.git("config", "extensions.worktreeConfig", "true")
    user.git("worktree", "add", "-q", "-b", "feature", "../linked")
    linked = user.root.parent / "linked"
    user.git("config", "--worktree", "core.pager", "cat", cwd=linked)
    repository = Repository.at(linked)
    before = read_protected(repository)
    keep(repository, before, tmp_path, "t1", STAMP)
    user.git("config", "--worktree", "core.pager", "touch planted", cwd=linked)
    [found] = differences(before, repository, tmp_path)
    assert (found.name, found.is_harm) == ("core.pager", True)
    subprocess.run(found.restore, shell=True, cwd=linked, check=True)
    assert differences(before, repository, tmp_path) == []


def with_remote(user: UserRepository, folder: Path) -> Path:
    """Give the user a remote repository with the branch main."""
    user.git("init", "-q", "--bare", str(folder))
    user.git("remote", "add", "origin", str(folder))
    user.git("push", "-q", "origin", "main")
    return folder


def test_a_push_is_reported_and_undone(user: UserRepository, tmp_path: Path) -> None:
    """A push from the user's checkout is named with its commits, and the command of the report takes it back."""
    remote = with_remote(user, tmp_path / "remote.git")
    pushed = user.git("rev-parse", "main")
    before = read_protected(user.repository)
    user.commit("Evil", {"evil": "x"})
    user.git("push", "-q", "origin", "HEAD:evil/one", "HEAD:main")
    head = user.git("rev-parse", "main")
    found = [one for one in differences(before, user.repository, tmp_path) if one.kind == "push"]
    assert [(one.name, one.text, one.is_harm) for one in found] == [
        ("refs/remotes/origin/evil/one", f"was pushed: it is at {head}", False),
        ("refs/remotes/origin/main", f"was pushed: it is at {head}, and was at {pushed}", False),
    ]
    for one in found:
        subprocess.run(one.restore, shell=True, cwd=user.root, check=True, capture_output=True)
    assert user.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=remote) == f"refs/heads/main {pushed}"


def test_a_push_after_a_removal_is_undone_to_what_was_there(user: UserRepository, tmp_path: Path) -> None:
    """The log begins anew then, and the branch of the remote is not taken for a new one, which would be removed."""
    remote = with_remote(user, tmp_path / "remote.git")
    user.git("config", "receive.denyDeleteCurrent", "ignore", cwd=remote)
    pushed = user.git("rev-parse", "main")
    before = read_protected(user.repository)
    evil = user.git("commit-tree", "-m", "Evil", "HEAD^{tree}")
    user.git("push", "-q", "origin", ":main")
    user.git("push", "-q", "origin", f"{evil}:refs/heads/main")
    [found] = [one for one in differences(before, user.repository, tmp_path) if one.kind == "push"]
    assert found.text == f"was pushed: it is at {evil}, and was at {pushed}"
    subprocess.run(found.restore, shell=True, cwd=user.root, capture_output=True, check=False)
    assert user.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=remote) == f"refs/heads/main {pushed}"


@pytest.mark.slow
def test_a_setting_without_which_a_push_leaves_no_trace(user: UserRepository, tmp_path: Path) -> None:
    """Where git notes no push, the removed setting is named with the command that shows the remote's branches."""
    remote = with_remote(user, tmp_path / "remote.git")
    before = read_protected(user.repository)
    user.git("config", "--unset", "remote.origin.fetch")
    user.git("push", "-q", "origin", "HEAD:refs/heads/evil")
    [found] = differences(before, user.repository, tmp_path)
    assert (found.name, found.is_harm) == ("remote.origin.fetch", True)
    words = found.text.partition(" leaves no trace here: ")[2].split()
    assert words == ["git", "ls-remote", "origin"]
    assert "refs/heads/evil" in user.git(*words[1:], cwd=user.root)
    assert user.git("for-each-ref", "refs/heads/evil", cwd=remote)


@pytest.mark.slow
def test_a_removed_remote_branch_is_reported_and_pushed_again(user: UserRepository, tmp_path: Path) -> None:
    """A branch that `git push --delete` has removed is named, and its commit is kept for the command of the report."""
    remote = with_remote(user, tmp_path / "remote.git")
    user.commit("Shared", {"shared": "x"})
    user.git("push", "-q", "origin", "HEAD:shared")
    at = user.git("rev-parse", "HEAD")
    user.git("reset", "-q", "--hard", "HEAD~1")
    before = read_protected(user.repository)
    keep(user.repository, before, tmp_path / "kept", "t1", STAMP)
    user.git("push", "-q", "origin", "--delete", "shared")
    user.git("-c", "gc.reflogExpireUnreachable=now", "gc", "-q", "--prune=now")
    [found] = [one for one in differences(before, user.repository, tmp_path / "kept") if one.name != "info/refs"]
    assert (found.kind, found.name, found.is_harm) == ("push", "refs/remotes/origin/shared", False)
    assert found.text == f"was removed, by a push or by a fetch that has pruned it; it was at {at}"
    for _ in range(2):  # a branch that is there again stays as it is
        subprocess.run(found.restore, shell=True, cwd=user.root, capture_output=True, check=False)
        assert user.git("rev-parse", "refs/heads/shared", cwd=remote) == at
    user.git("push", "-q", "origin", "--delete", "shared")
    user.git("push", "-q", "origin", "main:shared")
    [found] = [one for one in differences(before, user.repository, tmp_path / "kept") if one.name != "info/refs"]
    subprocess.run(found.restore, shell=True, cwd=user.root, check=True, capture_output=True)
    assert user.git("rev-parse", "refs/heads/shared", cwd=remote) == at


@pytest.mark.parametrize("is_near", [True, False])
def test_a_git_directory_that_is_gone_is_one_difference(user: UserRepository, tmp_path: Path, is_near: bool) -> None:
    """It is named with the command that moves it back, or that looks for it."""
    before = read_protected(user.repository)
    keep(user.repository, before, tmp_path / "kept", "t1", STAMP)
    repository = user.repository
    away = user.root.parent / "it's away" if is_near else tmp_path / "far" / "away" / "git"
    away.parent.mkdir(parents=True, exist_ok=True)
    (user.root / ".git").rename(away)
    [found] = differences(before, repository, tmp_path / "kept")
    assert (found.kind, found.name, found.is_harm) == ("file", ".git", True)
    assert (str(away) in found.text) == is_near
    if is_near:
        subprocess.run(found.restore, shell=True, check=True)
        assert differences(before, repository, tmp_path / "kept") == []
    else:
        assert f"-inum {away.stat().st_ino}" in found.restore


@pytest.mark.slow
def test_a_fetch_is_no_push(user: UserRepository, tmp_path: Path) -> None:
    """What others have pushed, and a fetch brings, is not reported; nor is a push of before."""
    remote = with_remote(user, tmp_path / "remote.git")
    user.git("clone", "-q", str(remote), str(tmp_path / "other"))
    before = read_protected(user.repository)
    (tmp_path / "other" / "x").write_text("x")
    for words in (
        ["checkout", "-q", "main"],
        ["add", "x"],
        ["commit", "-qm", "x"],
        ["push", "-q", "origin", "HEAD:more"],
    ):
        user.git(*words, cwd=tmp_path / "other")
    user.git("fetch", "-q")
    assert "refs/remotes/origin/more" in user.git("for-each-ref", "--format=%(refname)")
    assert differences(before, user.repository, tmp_path) == []


@pytest.mark.slow
def test_another_directory_of_hooks_is_one_difference(watched: Watched, tmp_path: Path) -> None:
    """A new setting of the hooks' directory is reported as that, not as a change of each hook."""
    (watched.user.root / ".git/hooks/pre-push.sample").write_text("x")
    watched.user.git("config", "core.hooksPath", str(tmp_path))
    assert [one.name for one in watched.found()] == ["core.hookspath"]
    subprocess.run(watched.found()[0].restore, shell=True, cwd=watched.user.root, check=True)
    assert watched.found() == []


def test_one_hook_is_restored_by_itself_and_several_together(watched: Watched) -> None:
    """The command for one hook names it; those for several are the same, and restore the directory."""
    hooks = watched.user.root / ".git/hooks"
    (hooks / "pre-commit").unlink()
    [one] = watched.found()
    assert str(hooks / "pre-commit") in one.restore
    (hooks / "post-merge").write_text("#!/bin/sh\n")
    [command] = {it.restore for it in watched.found()}
    assert command.startswith(f"rm -rf {hooks} && cp")


def test_a_broken_configuration_is_reported_and_restored(watched: Watched) -> None:
    """If git can no longer read the repository, that is the difference, and its command mends it."""
    with (watched.user.root / ".git/config").open("a") as config:
        config.write("[broken\n")
    [found] = watched.found()
    assert (found.kind, found.name, found.is_harm) == ("config", "config", True)
    assert found.text.startswith("git can no longer read the repository: ")
    subprocess.run(found.restore, shell=True, cwd=watched.user.root, check=True)
    assert watched.found() == []


@pytest.mark.slow
def test_many_hooks_are_restored_by_one_command(watched: Watched) -> None:
    """Several hooks that were changed, removed or added have one command that restores them all."""
    hooks = watched.user.root / ".git/hooks"
    for name in ("commit-msg", "post-checkout", "post-merge"):
        (hooks / name).write_text("#!/bin/sh\n")
    (hooks / "pre-commit").unlink()
    found = watched.found()
    assert len(found) == 4
    [command] = {one.restore for one in found}
    subprocess.run(command, shell=True, cwd=watched.user.root, check=True)
    assert watched.found() == []
