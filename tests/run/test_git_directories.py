"""Git directories below the one in which a confined run works: what it plants in them does not run when git is used."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from penstock.run import git_directories
from penstock.run.git_directories import GitSearch, are_harmless
from penstock.run.planted import put_aside, watched

PROGRAM = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch PLANTED;"\n'
AS_GIT = "mkdir -p objects refs; echo 'ref: refs/heads/main' >HEAD"
SUB = "git init -q sub; git -C sub commit -q --allow-empty -m x"
LINKED = "git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub"
MONITOR = "config core.fsmonitor 'touch PLANTED;'"

PLANTS = {
    "the directory itself as a repository": (f"rm .git/HEAD; {AS_GIT}; echo 'CONFIG' >config", "git status"),
    "a directory that is no .git": (f"mkdir sub; cd sub; {AS_GIT}; echo 'CONFIG' >config", "cd sub && git status"),
    "a repository below": (f"{SUB}; git -C sub {MONITOR}", "cd sub && git status"),
    "a submodule that the index names": (f"{SUB}; {LINKED}; git -C sub {MONITOR}", "git status"),
    "a .git that is a file": (
        f"{SUB}; {LINKED}; git -C sub {MONITOR}; mv sub/.git .git/objects/x;"
        " echo 'gitdir: ../.git/objects/x' >sub/.git",
        "git status",
    ),
    "a .git that is a link": (f"{SUB}; git -C sub {MONITOR}; mv sub/.git y; ln -s ../y sub/.git", "cd sub; git status"),
    "a .git that leads elsewhere": (
        f"{SUB}; {LINKED}; rm -rf sub/.git; echo 'gitdir: AWAY/.git' >sub/.git",
        "git status",
    ),
    "a hook": (
        f"{SUB}; mkdir -p sub/.git/hooks; printf '#!/bin/sh\\ntouch PLANTED\\n' >sub/.git/hooks/post-checkout;"
        " chmod +x sub/.git/hooks/post-checkout",
        "cd sub && git checkout -q -b z",
    ),
    "an included file": (f"{SUB}; {LINKED}; echo 'CONFIG' >c; git -C sub config include.path ../../c", "git status"),
    "the settings of one worktree": (
        f"{SUB}; {LINKED}; git -C sub config extensions.worktreeConfig true; git -C sub config --worktree"
        " core.fsmonitor 'touch PLANTED;'",
        "git status",
    ),
    "a common directory": (
        f"{SUB}; {LINKED}; mkdir AWAY/gone; mv sub/.git/objects sub/.git/refs AWAY/gone;"
        " echo 'CONFIG' >AWAY/gone/config; echo AWAY/gone >sub/.git/commondir",
        "git status",
    ),
    "a directory that cannot be written": (f"{SUB}; {LINKED}; git -C sub {MONITOR}; chmod 555 sub/.git", "git status"),
}
"""What an agent does, and the command of a person that would run its program."""


def run(command: str, folder: Path) -> None:
    """Run a command of a shell with git, without settings of this machine."""
    away = folder.parent / "away"
    text = command.replace("CONFIG", PROGRAM).replace("PLANTED", str(folder.parent / "planted"))
    who = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": ":"}
    subprocess.run(["sh", "-c", text.replace("AWAY", str(away))], cwd=folder, env=env, capture_output=True, check=False)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a commit, and another one away from it that starts a program."""
    for name in ("shop", "away"):
        (tmp_path / name).mkdir()
        run("git init -q -b main . && echo 1 >a && git add a && git commit -q -m x", tmp_path / name)
    run(f"git {MONITOR}", tmp_path / "away")
    return tmp_path / "shop"


def now(folder: Path) -> float:
    """A time after which no file of the test was changed so far. The kernel's own clock is not a fine one."""
    mark = folder.parent / "mark"
    mark.touch()
    before = mark.stat().st_ctime_ns
    while mark.stat().st_ctime_ns == before:
        mark.write_text("")
        mark.chmod(0o600)
    return (mark.stat().st_ctime_ns - 1000) / 1e9


def settle(shop: Path, since: float) -> list[str]:
    """Put aside what was made since a time."""
    known = str(shop.parent / "known.json")
    return put_aside(str(shop.parent / "data"), watched(str(shop), (), since=since, known=known))


@pytest.mark.slow
@pytest.mark.parametrize("what", PLANTS)
def test_what_an_agent_plants_does_not_run(shop: Path, what: str) -> None:
    """It would run without this; then it is put aside, the person is told, and git works as before."""
    script, command = PLANTS[what]
    planted = shop.parent / "planted"
    since = now(shop)
    run(script, shop)
    run(command, shop)
    assert planted.exists(), "the try is real"
    planted.unlink()
    said = settle(shop, since)
    run(command, shop)
    assert not planted.exists()
    assert [text for text in said if "later runs would obey" in text]


REBASE = (
    "mkdir .git/rebase-merge; printf 'STEP\\n' >.git/rebase-merge/git-rebase-todo; for name in onto orig-head; do"
    " git rev-parse HEAD >.git/rebase-merge/$name; done; echo refs/heads/main >.git/rebase-merge/head-name;"
    " touch .git/rebase-merge/interactive"
)
RUNS = REBASE.replace("STEP", "exec touch PLANTED")
CONFLICT = "git checkout -q -b side; echo 2 >a; git commit -qam 2; git checkout -q main; echo 3 >a; git commit -qam 3"
STRATEGY = (
    f"{CONFLICT}; mkdir git-merge-x; printf '#!/bin/sh\\ntouch PLANTED\\n' >git-merge-x/y; chmod +x git-merge-x/y"
)
"""A program among the files, to which the name of a strategy can lead."""
WORKTREE = REBASE.replace("STEP", "  x\ttouch PLANTED").replace(".git/", "")

UNFINISHED = {
    "a step of a rebase": (RUNS, "git rebase --continue"),
    "a step of the repository's own worktree": (
        f"git worktree add -q w; cd .git/worktrees/w; {WORKTREE}",
        "cd w && git rebase --continue",
    ),
    "a step in a repository below": (f"{SUB}; cd sub; {RUNS}", "cd sub && git rebase --continue"),
    "a step in a new repository": (
        f"rm -rf .git; git init -q -b main; git add a; git commit -qm x; {RUNS}",
        "git rebase --continue",
    ),
    "the strategy of a rebase": (
        f"{STRATEGY}; {REBASE.replace('STEP', 'pick side')}; echo x/y >.git/rebase-merge/strategy",
        "git rebase --continue",
    ),
    "the strategy of a cherry-pick": (
        f"{STRATEGY}; mkdir .git/sequencer; cd .git/sequencer; git rev-parse main | tee head >abort-safety;"
        " printf 'pick side\\npick side\\n' >todo; printf '[options]\\n\\tstrategy = x/y\\n' >opts",
        "git cherry-pick --continue",
    ),
    "a rebase that is a link": (
        f"{RUNS}; mv .git/rebase-merge x; ln -s ../x .git/rebase-merge",
        "git rebase --continue",
    ),
    "a file that is a link": (
        f"{RUNS}; cd .git/rebase-merge; mv git-rebase-todo ../x; ln -s ../x git-rebase-todo",
        "git rebase --continue",
    ),
}
"""What an agent leaves of an operation of git, and the command of a person that would run its program."""


@pytest.mark.slow
@pytest.mark.parametrize("what", UNFINISHED)
def test_what_an_agent_leaves_unfinished_does_not_run(shop: Path, what: str) -> None:
    """Git would start the program when the operation is continued."""
    script, command = UNFINISHED[what]
    planted = shop.parent / "planted"
    place = watched(str(shop), (), since=now(shop))
    if what == "a step in a new repository":
        place = msgspec.structs.replace(place, had_git=False)
    run(script, shop)
    shutil.copytree(shop, shop.parent / "copy", symlinks=True)
    run(command, shop)
    assert planted.exists(), "the try is real"
    planted.unlink()
    shutil.rmtree(shop)
    (shop.parent / "copy").rename(shop)
    said = put_aside(str(shop.parent / "data"), place)
    run(command, shop)
    assert not planted.exists()
    assert [text for text in said if str(shop) in text and str(shop.parent / "data") in text]


def test_a_rebase_goes_on_without_new_commands(shop: Path) -> None:
    """Its commits are kept, and so are commands that were there before: they are a person's."""
    run(
        f"{CONFLICT}; git checkout -q side; echo 4 >b; git add b; git commit -qm 4; git rebase -q -x 'touch MINE' main",
        shop,
    )
    todo = shop / ".git/rebase-merge/git-rebase-todo"
    mine = todo.read_text()
    place = watched(str(shop), (), since=now(shop))
    todo.write_text(f"exec touch PLANTED\n{mine}".replace("PLANTED", str(shop.parent / "planted")))
    [said] = put_aside(str(shop.parent / "data"), place)
    assert "commands into" in said
    assert todo.read_text() == mine
    run("echo 5 >a; git add a; git rebase --continue", shop)
    assert (shop / "MINE").exists()
    assert not (shop.parent / "planted").exists()
    assert subprocess.check_output(["git", "log", "--format=%s"], cwd=shop, text=True).split() == ["4", "2", "3", "x"]


def test_what_was_there_stays(shop: Path) -> None:
    """Settings of a person, however odd they are, and what git itself writes there, are nobody's plant."""
    run(f"{SUB}; git -C sub {MONITOR}; echo true >sub/.git/hooks/pre-commit", shop)
    since = now(shop) + git_directories.SLACK_SECONDS
    run("cd sub; git checkout -q -b other; git commit -q --allow-empty -m y", shop)
    assert settle(shop, since) == []
    assert settle(shop, now(shop) + git_directories.SLACK_SECONDS) == []


@pytest.mark.parametrize(
    "script",
    [
        f"{SUB}; git -C sub config user.name me; {LINKED}",
        "git clone -q --no-hardlinks AWAY sub; cd sub; git remote set-url origin git@example.com:a/b.git;"
        " git remote add x https://x.test/y",
        "git worktree add -q .worktrees/x",
        "git init -q --bare sub.git",
        "git init -q sub; mv sub/.git .git/modules; echo 'gitdir: ../.git/modules' >sub/.git;"
        " git -C sub config core.worktree ../../sub",
    ],
)
def test_an_agent_may_make_repositories(shop: Path, script: str) -> None:
    """What git itself makes for a repository, a clone, a worktree and a submodule starts nothing, and stays."""
    since = now(shop)
    run(script, shop)
    assert settle(shop, since) == []


def test_what_becomes_a_repository_in_a_later_run(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run makes a file of settings and a hook, the next one turns what is around it into a git directory."""
    monkeypatch.setattr(git_directories, "SLACK_SECONDS", 0.0)
    run("mkdir -p sub/objects sub/refs sub/other; echo 'CONFIG' >sub/config; echo true >sub/other/post-checkout", shop)
    assert settle(shop, now(shop)) == []
    since = now(shop)
    run("mv sub/other sub/hooks; echo 'ref: refs/heads/main' >sub/HEAD", shop)
    assert len(settle(shop, since)) == 2
    run("cd sub && git status", shop)
    assert not (shop.parent / "planted").exists()


def test_what_cannot_be_searched_is_named(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More directories than are looked at do not hide a plant without a word."""
    monkeypatch.setattr(git_directories, "MAX_DIRECTORIES", 3)
    run("mkdir x y z", shop)
    said = settle(shop, now(shop))
    assert len(said) == 1
    assert "it has more than 3 directories" in said[0]


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ('[remote "o"]\nurl = https://a.test/b', True),
        ('[remote "o"]\nurl = ext::sh -c x', False),
        ('[remote "o"]\nurl = --upload-pack=x', False),
        ('[remote "o"]\nuploadpack = x', False),
        ("[core] fsmonitor = x", False),
        ("[core]\nfilemode = true\nfsmonitor = x", False),
        ("[core]\nhooksPath = x", False),
        ("[core]\nfilemode = \\\n x", False),
        ("[CORE]\nfsmonitor = x", False),
        ("[include]\npath = x", False),
        ('[filter "x"]\nclean = x', False),
        ("[alias]\nx = !y", False),
        ("[user]\nname = a\x0cfsmonitor = x", False),
        ("filemode = true", False),
        ('[submodule "x"]\nupdate = !x', False),
        ('[submodule "x"]\nactive = true', True),
        ("[commit]\ngpgsign = true", False),
    ],
)
def test_lines_of_settings(text: str, harmless: bool) -> None:
    """Only what is known to start nothing is harmless."""
    assert are_harmless(text.splitlines()) == harmless


def test_a_file_with_a_name_elsewhere(shop: Path) -> None:
    """A store of packages may have the same file, so a change of it is a change outside; one that stays is none."""
    for name in ("changed", "stays"):
        (shop.parent / name).write_text("1")
        (shop / name).hardlink_to(shop.parent / name)
    since = now(shop) + git_directories.SLACK_SECONDS
    run("echo 2 >a; ln a b; echo 2 >>a", shop)
    assert settle(shop, since) == []
    since = now(shop)
    os.utime(shop / "changed", (0, 0))
    found = GitSearch(str(shop), since + git_directories.SLACK_SECONDS).shared
    assert found == [str(shop / "changed")]
    assert "another name elsewhere (a hard link)" in settle(shop, since)[0]


def test_objects_that_clones_share(shop: Path) -> None:
    """Git gives an object that is there already the present time, which is no change; a script in its place is one."""
    run("git clone -q --local . ../clone", shop)
    clone, since = shop.parent / "clone", now(shop)
    run("git hash-object -w a", clone)
    [shared] = [path for path in clone.rglob(".git/objects/??/*") if path.stat().st_ctime >= since][:1]
    os.utime(shared)
    assert GitSearch(str(clone), since).shared == []
    shared.chmod(0o644)
    shared.write_text("#!/bin/sh")
    assert GitSearch(str(clone), since).shared == [str(shared)]
