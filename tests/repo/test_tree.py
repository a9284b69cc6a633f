from __future__ import annotations

import itertools
import logging
import operator
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import is_alive, until

from penstock.cli import console
from penstock.errors import UsageError
from penstock.repo.commit import Stamp
from penstock.repo.git import Git, GitError
from penstock.repo.place import TreeAbandoned
from penstock.repo.repository import Author, config_text
from penstock.repo.result import save_result
from penstock.repo.staging import stage
from penstock.repo.tree import ASIDE, Tree, abandon, free_place, read_record, remove_directory
from penstock.run import programs


def agent(tree: Tree, script: str) -> str:
    """Run a shell script in the tree, as an agent with a shell would."""
    done = subprocess.run(["sh", "-c", script], cwd=tree.path, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_a_tree_has_the_files_of_its_base_beside_the_repository(user: UserRepository, home: Path) -> None:
    """A new tree is a clean checkout of the base, on the branch of its result; the user's repository is as before."""
    user.write({"src/a.py": "changed by the user\n", "new": "untracked\n"})
    before = user.state()
    tree = user.tree(home)
    assert tree.path == user.root.parent / "app.t1"
    assert files_of(tree.path, without=".git").keys() == {"README", "src/a.py", "src/b.py"}
    assert (
        agent(tree, "git status --porcelain; git branch --show-current; git log --format=%s") == "penstock/t1\nBegin\n"
    )
    assert user.state() == before


def test_the_agents_git_directory_has_branches_and_tags_but_no_remotes(user: UserRepository, home: Path) -> None:
    """The agent can compare with other branches, and cannot push by accident."""
    user.git("tag", "-a", "v1", "-m", "one")
    user.git("branch", "other")
    user.git("remote", "add", "origin", "https://example.org/x")
    user.git("config", "branch.main.remote", "origin")
    tree = user.tree(home)
    assert agent(tree, "git describe; git diff other --stat; git remote; git config --get-regexp branch") == "v1\n"


def test_the_agents_git_directory_is_new_each_round(user: UserRepository, home: Path) -> None:
    """Nothing that an agent put into its git directory is there in the next round, and the files stay."""
    tree = user.tree(home)
    agent(tree, "git config core.fsmonitor /tmp/x; echo x > .git/hooks; git commit -qam mine; echo 2 > src/a.py")
    tree.renew(tree.record.base)
    assert (
        agent(tree, "git config core.fsmonitor; test -e .git/hooks || git log --format=%s; git status --porcelain")
        == "Begin\n M src/a.py\n"
    )
    assert not [name for name in os.listdir(tree.path) if name.startswith(ASIDE)]


@pytest.mark.parametrize(
    "script",
    ["rm -rf .git", "rm -rf .git; echo gitdir: $USER_REPO/.git > .git", "rm -rf .git; ln -s $USER_REPO/.git .git"],
)
def test_a_git_directory_that_became_something_else_is_replaced(
    user: UserRepository, home: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing `.git`, a file, or a link to the user's is replaced and never followed."""
    monkeypatch.setenv("USER_REPO", str(user.root))
    tree = user.tree(home)
    before = user.state()
    agent(tree, script)
    tree.renew(tree.record.base)
    assert (tree.path / ".git").is_dir()
    assert not (tree.path / ".git").is_symlink()
    assert agent(tree, "git status --porcelain") == ""
    assert user.state() == before


def test_a_git_directory_of_an_agents_own_is_put_aside(user: UserRepository, home: Path) -> None:
    """After a check of the tree no git directory is there that Penstock did not make."""
    tree = user.tree(home)
    agent(tree, "mv .git ../kept; git init -q .")
    tree.check()
    assert not os.path.lexists(tree.path / ".git")


def test_a_git_directory_that_was_being_replaced_is_never_staged(user: UserRepository, home: Path) -> None:
    """After a crash in the middle of a replacement nothing of it is staged, and the next round has a git directory."""
    tree = user.tree(home)
    (tree.path / ".git").rename(tree.path / f"{ASIDE}old")
    assert stage(tree.git) == []
    assert tree.git.text("write-tree") == tree.git.tree_of(tree.record.base)
    tree.renew(tree.record.base)
    assert agent(tree, "git status --porcelain") == ""


@pytest.mark.slow
def test_l13_trees_of_one_repository_work_at_once(user: UserRepository, tmp_path: Path) -> None:
    """L13: six trees that are made, committed and published at the same time have six branches, each with its files."""

    def work(name: str) -> None:
        tree = user.tree(tmp_path / name, name)
        (tree.path / name).write_text(name)
        assert save_result(tree, f"Add {name}", {}, Stamp(Author("U", "u@example.org"), 1)).commit

    names = [f"t{number}" for number in range(6)]
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(work, names))
    for name in names:
        assert user.git("diff", "--name-only", "main", f"penstock/{name}") == name
    user.git("fsck", "--strict")


def test_a_tree_is_put_back_exactly(user: UserRepository, home: Path) -> None:
    """Changes, new files, nested repositories and links out of the tree are gone after it; what a link named is not."""
    tree = user.tree(home)
    before = files_of(tree.path, without=".git")
    agent(tree, f"rm -rf src; ln -s {user.root}/src src; git init -q nested; touch nested/x y; rm README; mkdir README")
    state = user.state()
    tree.restore(tree.record.base)
    assert files_of(tree.path, without=".git") == before
    assert user.state() == state


def test_a_half_made_tree_is_made_again(user: UserRepository, home: Path) -> None:
    """A tree whose making was interrupted is removed and made again, also if only its directory was there."""
    tree = user.tree(home)
    (tree.path / "src" / "a.py").unlink()
    assert agent(user.tree(home), "git status --porcelain") == ""
    remade = read_record(home)
    assert remade is not None
    path = Path(remade.path)
    subprocess.run(["rm", "-rf", str(path)], check=True)
    (home / "tree.json").write_text((home / "tree.json").read_text().replace(f'"inode":{remade.inode}', '"inode":0'))
    path.mkdir()
    assert agent(user.tree(home), "git status --porcelain") == ""


def test_a_directory_of_somebody_else_is_never_used(user: UserRepository, home: Path) -> None:
    """A directory that exists already is not touched, and neither is one that replaced a tree."""
    place = user.root.parent / "app.t1"
    place.mkdir()
    (place / "theirs").write_text("x")
    with pytest.raises(UsageError, match="exists already"):
        user.tree(home)
    assert (place / "theirs").read_text() == "x"
    assert read_record(home) is None


def test_a_new_tree_is_never_at_the_place_of_one_that_was_given_up(user: UserRepository, home: Path) -> None:
    """What is there may be somebody's work, also if nothing is there now; else a tree is made again at its place."""
    repository, above = user.repository, user.root.parent
    assert free_place(repository, "t1", home) == above / "app.t1"
    tree = user.tree(home)
    assert free_place(repository, "t1", home) == tree.path
    tree.path.rename(above / "moved")
    (above / "app.t1").mkdir()
    assert free_place(repository, "t1", home) == above / "app.t1-2"
    abandon(home)
    (above / "app.t1-2").symlink_to("nothing")
    assert free_place(repository, "t1", home) == above / "app.t1-3"


def test_l14_a_tree_that_is_gone_is_reported(user: UserRepository, home: Path) -> None:
    """L14: a tree that was deleted or replaced, and a repository that was moved, are errors that say so."""
    tree = user.tree(home)
    path = tree.path
    path.rename(path.with_name("elsewhere"))
    for use in (lambda: Tree.open(home), lambda: tree.path, lambda: tree.git.text("status")):
        with pytest.raises(TreeAbandoned, match="is gone"):
            use()
    path.with_name("elsewhere").rename(path)
    assert Tree.open(home).record == tree.record
    user.root.rename(user.root.with_name("moved"))
    with pytest.raises(UsageError, match="there is no directory"):
        Tree.open(home)


def test_a_tree_in_a_directory_of_another_checkout_is_elsewhere(user: UserRepository, home: Path) -> None:
    """A repository inside another one gets its trees in the data directory, not in the other checkout."""
    inner = UserRepository(user.root / "vendor" / "inner")
    assert inner.tree(home).path == home / "inner.t1"


def test_a_git_that_hangs_is_killed_with_its_filters(user: UserRepository) -> None:
    """A call ends with its time limit, and the filter that hung is gone too."""
    user.git("config", "filter.slow.clean", "sleep 1000 & echo $! > ../pid; wait")
    user.write({".gitattributes": "* filter=slow\n", "x": "1"})
    file = user.root.parent / "pid"
    for seconds in itertools.accumulate(itertools.repeat(2.0), operator.mul, initial=0.2):
        with pytest.raises(GitError, match="did not end within"):
            user.repository.git.run("add", "x", seconds=seconds)
        if file.exists() and file.read_text():
            break  # the filter had started when the time was up
    until(lambda: not is_alive(int(file.read_text())))


@pytest.mark.slow
def test_a_git_that_is_slow_is_named(
    user: UserRepository, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever waits reads once which command of git takes long, and when it will be ended."""
    monkeypatch.setattr(programs, "SLOW_SECONDS", 0.2)
    monkeypatch.setattr(logging.getLogger("penstock"), "handlers", [])
    console.show_warnings()
    console.show_warnings()
    user.git("config", "filter.slow.clean", "sleep 1; cat")
    user.write({".gitattributes": "* filter=slow\n", "x": "1"})
    user.repository.git.run("add", "x", seconds=100)
    line = f"penstock: git add has been running for 10 s in {user.root}; it is ended after 100 s\n"
    assert capfd.readouterr().err == line


names = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(names, st.one_of(st.none(), texts.filter(lambda text: "\n" not in text)), names, st.none() | texts),
        max_size=5,
    )
)
def test_settings_are_written_as_git_reads_them(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str | None, str, str | None]]
) -> None:
    """Whatever the values of settings are, git reads the same from the copied configuration."""
    pairs = [
        (f"{section}.{part}.{key}" if part is not None else f"{section}.{key}", value)
        for section, part, key, value in parts
    ]
    file = tmp_path_factory.mktemp("config") / "config"
    file.write_text(config_text(pairs))
    items = Git(file.parent).run("config", "--file", str(file), "--list", "-z").items
    read = [(key, value if newline else None) for key, newline, value in (item.partition("\n") for item in items)]
    assert read == pairs


def test_a_record_is_read_back(tmp_path: Path) -> None:
    """A file that is not a record counts as none."""
    (tmp_path / "tree.json").write_text("{")
    assert read_record(tmp_path) is None


def test_a_directory_is_removed_whatever_its_permissions(unprivileged: Path) -> None:
    """Also if a directory that cannot be read has one that cannot be written; what a link leads to stays as it is."""
    top, theirs = unprivileged / "top", unprivileged / "theirs"
    (top / "closed" / "deep" / "deeper").mkdir(parents=True)
    theirs.mkdir()
    for folder in (theirs, top / "closed", top / "closed/deep", top / "closed/deep/deeper"):
        (folder / "file").write_text("x")
    for name, target in (("link", theirs), ("dangling", unprivileged / "nothing")):
        (top / "closed/deep" / name).symlink_to(target)
    theirs.chmod(0o555)
    for name, mode in (("closed/deep/deeper", 0o500), ("closed/deep", 0o500), ("closed", 0), ("", 0o500)):
        (top / name).chmod(mode)
    remove_directory(top)
    assert not top.exists()
    assert (theirs.stat().st_mode & 0o777, os.listdir(theirs)) == (0o555, ["file"])


def test_a_directory_that_cannot_be_removed_is_an_error(unprivileged: Path) -> None:
    """The directory above it may not be the user's; it is not tried forever."""
    if os.getuid() != 0:
        pytest.skip("only root makes files of two users")
    (unprivileged / "top" / "in" / "mine").mkdir(parents=True)
    os.seteuid(0)
    for name in ("top/in/mine", "top/in"):
        os.chown(unprivileged / name, 0, 0)
    os.seteuid(65534)
    with pytest.raises(PermissionError):
        remove_directory(unprivileged / "top")
    assert (unprivileged / "top/in/mine").is_dir()
