"""What git finds changed in a directory between two times: all that differs, without a trace, and running nothing."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of

from penstock.repo import found_changes, git
from penstock.repo.compared import Compared
from penstock.repo.found_changes import FoundChanges


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git take as long as it needs: the machine may be slow."""
    monkeypatch.setattr(found_changes, "SECONDS", 60.0)


def compare(
    directory: Path, folder: Path, act: Callable[[], object], *left_out: str, closed: str = ""
) -> Compared | None:
    """What is found after something was done in a directory."""
    compared = FoundChanges(str(directory), folder, [closed] if closed else [])
    compared.begin()
    try:
        act()
        return compared.end(left_out)
    finally:
        compared.close()
        assert not folder.exists() or not any(folder.iterdir()), "the private directory is left"


def kinds(found: Compared | None, root: Path) -> dict[str, str]:
    """The kinds of the changes by paths from the top."""
    assert found is not None
    assert found.problem is None
    assert [it.path for it in found.changes] == sorted(it.path for it in found.changes)
    return {it.path.removeprefix(f"{root}/"): it.kind for it in found.changes}


def test_only_what_has_changed_since(user: UserRepository, tmp_path: Path) -> None:
    """A file that differed before counts if it is changed again; never an ignored one. Nothing else is touched."""
    user.commit("More", {".gitignore": "ignored\n", "gone": "1\n", "kept": "1\n", "script": "1\n"})
    user.write({"src/a.py": "mine\n", "src/b.py": "mine\n", "new": "mine\n", "other": "mine\n", "kept": "mine\n"})
    user.git("add", "kept")
    (user.root / ".git" / "index.lock").touch()  # of another git, which is at work
    before, objects = user.state(), files_of(user.root / ".git" / "objects")

    def act() -> None:
        (user.root / "gone").unlink()
        (user.root / "script").chmod(0o755)
        user.write({"src/a.py": "theirs\n", "new": "theirs\n", "more/x": "theirs\n", "ignored": "theirs\n"})

    found = compare(user.root, tmp_path / "own", act)
    expected = {"gone": "delete", "more/x": "add", "new": "update", "script": "update", "src/a.py": "update"}
    assert kinds(found, user.root) == expected
    assert found is not None
    lines = {it.path.removeprefix(f"{user.root}/"): it.diff for it in found.changes}
    assert lines["src/a.py"] == lines["new"] == "@@ -1 +1 @@\n-mine\n+theirs\n"
    assert (lines["gone"], lines["more/x"], lines["script"]) == (
        "@@ -1 +0,0 @@\n-1\n",
        "@@ -0,0 +1 @@\n+theirs\n",
        None,
    )
    assert files_of(user.root / ".git" / "objects") == objects
    after = user.state()
    assert {it for it in (*before, *after) if before.get(it) != after.get(it)} == {
        f"/{it}" for it in (*lines, "ignored")
    }


@pytest.mark.parametrize("setting", ["fileMode = false", "fileMode", "fileMode = true"])
def test_settings_of_the_repository_count(user: UserRepository, tmp_path: Path, setting: str) -> None:
    """Whether a mode alone is a change is for the repository to say; a setting without a value is true."""
    user.commit("More", {"script": "1\n"})
    config = user.root / ".git" / "config"
    config.write_text(config.read_text().replace("filemode = true", setting))

    found = compare(user.root, tmp_path / "own", lambda: (user.root / "script").chmod(0o755))
    assert kinds(found, user.root) == ({} if setting == "fileMode = false" else {"script": "update"})


PROGRAMS = (
    "core.fsmonitor",
    "diff.x.command",
    "diff.x.textconv",
    "filter.x.clean",
    "filter.x.process",
    "filter.x.smudge",
    "alias.diff-files",
    "diff.external",
    "core.sshCommand",
)


@pytest.mark.slow
@pytest.mark.parametrize("at_end", [False, True], ids=["before", "meanwhile"])
def test_no_program_of_the_repository_runs(user: UserRepository, tmp_path: Path, at_end: bool) -> None:
    """Filters, hooks, monitors and diff programs that were set up before or meanwhile are not started."""
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch "{mark}"\ncat "$@" 2>/dev/null\n')
    program.chmod(0o755)

    def set_up() -> None:
        for name in PROGRAMS:
            user.git("config", name, str(program))
        user.git("config", "filter.x.required", "true")
        hooks = user.root / ".git" / "hooks"
        for name in ("post-index-change", "pre-commit", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
            (hooks / name).write_text(program.read_text())
            (hooks / name).chmod(0o755)
        user.write({".gitattributes": "* filter=x diff=x\n", ".git/info/attributes": "* filter=x diff=x\n"})

    def act() -> None:
        if at_end:
            set_up()
        user.write({"src/a.py": "theirs\n", "new": "theirs\n"})

    if not at_end:
        set_up()
        os.utime(user.root / "src" / "b.py")  # git would have to read it
    found = compare(user.root, tmp_path / "own", act)
    expected = {"new": "add", "src/a.py": "update"} | ({".gitattributes": "add"} if at_end else {})
    assert kinds(found, user.root) == expected
    assert not mark.exists()


@pytest.mark.slow
def test_a_part_of_a_repository(user: UserRepository, tmp_path: Path) -> None:
    """Of a directory in a repository, only what is in it counts, by the rules of the whole; also of a linked one."""
    user.commit("More", {".gitignore": "*.log\n", "srcs/c.py": "1\n"})
    user.git("worktree", "add", "-q", str(tmp_path / "linked"))

    def act() -> None:
        files = {"README": "theirs\n", "src/a.py": "theirs\n", "src/x.log": "theirs\n", "srcs/c.py": "theirs\n"}
        user.write(files)
        user.write(files, tmp_path / "linked")

    assert kinds(compare(user.root / "src", tmp_path / "own", act), user.root) == {"src/a.py": "update"}
    user.git("checkout", "-q", ".", cwd=tmp_path / "linked")
    found = compare(tmp_path / "linked", tmp_path / "own", act)
    assert kinds(found, tmp_path / "linked") == {"README": "update", "src/a.py": "update", "srcs/c.py": "update"}


def test_where_there_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found, and git is not even started; nor is anything found where git knows of no repository."""
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    assert compare(tmp_path / "broken", tmp_path / "own", lambda: None) is None
    monkeypatch.setattr(git, "run_program", lambda *_, **__: pytest.fail("git was started"))
    assert compare(tmp_path, tmp_path / "own", lambda: (tmp_path / "a").touch()) is None
    assert not (tmp_path / "own").exists()


@pytest.mark.slow
def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """It has no index either; and ids of the other kind are no obstacle."""
    root = tmp_path / "app"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", root], check=True)
    (root / "a").write_text("mine\n")

    def act() -> None:
        (root / "a").write_text("theirs\n")
        (root / "b").write_text("theirs\n")

    assert kinds(compare(root, tmp_path / "own", act), root) == {"a": "update", "b": "add"}


@pytest.mark.slow
def test_conflicts_links_and_odd_names(user: UserRepository, tmp_path: Path) -> None:
    """A merge under way, nested repositories, links in place of directories, pipes, and names of all kinds."""
    odd = ["-dash", "line\nfeed", "star*", ":(top)x", "quote\"'", "ünï", "tab\t"]
    user.commit("More", {"c": "base\n", "dir/a": "1\n", "dir/b": "1\n"})
    user.git("switch", "-qc", "other")
    user.commit("Other", {"c": "other\n"})
    user.git("switch", "-q", "main")
    user.commit("Main", {"c": "main\n"})
    subprocess.run(["git", "merge", "-q", "other"], cwd=user.root, capture_output=True, check=False)
    user.write(dict.fromkeys(odd, "mine\n"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("secret\n")
    nested = user.root / "nested"
    subprocess.run(["git", "init", "-q", nested], check=True)

    def act() -> None:
        user.write(dict.fromkeys(odd, "theirs\n"))
        user.write({"c": "theirs\n"})
        (user.root / os.fsdecode(b"bad\xff")).write_text("theirs\n")
        (nested / "x").write_text("theirs\n")
        os.rename(user.root / "dir", tmp_path / "moved")
        (user.root / "dir").symlink_to(tmp_path / "elsewhere")
        (user.root / "README").unlink()
        os.mkfifo(user.root / "README")
        os.mkfifo(user.root / "pipe")

    found = compare(user.root, tmp_path / "own", act)
    expected = dict.fromkeys([*odd, "c"], "update") | {"bad\ufffd": "add", "dir": "add"}
    assert kinds(found, user.root) == expected | dict.fromkeys(["dir/a", "dir/b", "README"], "delete")
    assert found is not None
    assert "secret" not in str(found.changes)


@pytest.mark.slow
def test_line_ends_and_large_files(user: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line ends are those of the user's settings; what is too large to be read is compared by size and times."""
    monkeypatch.setattr(found_changes, "MAX_FILE_BYTES", 1000)
    user.git("config", "core.autocrlf", "true")
    user.commit("More", {"tracked": "x" * 2000, "reverted": "x" * 2000, "ends": "1\n"})
    user.git("config", "core.safecrlf", "true")
    user.write({"large": "x" * 2000, "same": "x" * 2000, "gone": "x" * 2000, "grows": "x", "reverted": "y" * 2000})

    def act() -> None:
        user.write({"large": "y" * 2001, "tracked": "y" * 2001, "grows": "y" * 2000, "made": "y" * 2000})
        (user.root / "ends").write_bytes(b"1\r\n")
        (user.root / "gone").unlink()
        user.git("checkout", "-q", "reverted")

    found = compare(user.root, tmp_path / "own", act)
    expected = dict.fromkeys(["grows", "large", "reverted", "tracked"], "update") | {"gone": "delete", "made": "add"}
    assert kinds(found, user.root) == expected
    assert found is not None
    assert all(it.diff is None for it in found.changes)


HIDES = {
    "its time": "true",
    "a setting that ignores times": "git config core.trustctime false; git config core.checkStat minimal",
    "a mark that it is unchanged": "git update-index --assume-unchanged src/a.py",
    "a mark that it is left out": "git update-index --skip-worktree src/a.py",
}
"""Commands of an earlier turn, by what hides a change."""


@pytest.mark.parametrize("what", HIDES)
def test_a_change_that_is_hidden(
    user: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A change of the same length whose time is set back counts, in a small file and in one that is not read."""
    monkeypatch.setattr(found_changes, "MAX_FILE_BYTES", 1000)
    user.commit("More", {"large": "x" * 2000})
    user.write({"own": "x" * 2000})
    subprocess.run(HIDES[what], shell=True, cwd=user.root, check=True)

    def act() -> None:
        for name in ("src/a.py", "large", "own"):
            path = user.root / name
            status = path.stat()
            path.write_bytes(path.read_bytes().swapcase())
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    found = compare(user.root, tmp_path / "own", act)
    assert kinds(found, user.root) == dict.fromkeys(["src/a.py", "large", "own"], "update")


@pytest.mark.slow
def test_limits(user: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some files are read, and of some of these the lines compared; too many are not compared at all."""
    monkeypatch.setattr(found_changes, "MAX_READ_FILES", 3)
    monkeypatch.setattr(found_changes, "MAX_COMPARED", 2)
    names = [f"n{number}" for number in range(5)]
    found = compare(user.root, tmp_path / "own", lambda: user.write(dict.fromkeys(names, "theirs\n")))
    assert kinds(found, user.root) == dict.fromkeys(names, "add")
    assert found is not None
    assert [it.diff is not None for it in found.changes] == [True, True, False, False, False]
    monkeypatch.setattr(found_changes, "MAX_NAMES", 4)
    assert compare(user.root, tmp_path / "own", lambda: None) == Compared([], "large")
    monkeypatch.setattr(found_changes, "MAX_INDEX_BYTES", 10)
    assert compare(user.root, tmp_path / "own", lambda: None) == Compared([], "large")


@pytest.mark.slow
def test_git_that_waits_or_fails(user: UserRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe in place of a file that git reads costs the time limit, and no more; a broken index is said as such."""
    monkeypatch.setattr(found_changes, "SECONDS", 0.0)
    assert compare(user.root, tmp_path / "own", lambda: None) == Compared([], "slow")
    monkeypatch.setattr(found_changes, "SECONDS", 60.0)

    def act() -> None:
        monkeypatch.setattr(found_changes, "SECONDS", 0.5)
        os.mkfifo(user.root / ".gitignore")

    assert compare(user.root, tmp_path / "own", act) == Compared([], "slow")
    (user.root / ".gitignore").unlink()
    monkeypatch.setattr(found_changes, "SECONDS", 60.0)
    index = user.root / ".git" / "index"
    index.write_bytes(b"DIRC broken")
    assert compare(user.root, tmp_path / "own", lambda: None) == Compared([], "failed")
    index.unlink()
    os.mkfifo(index)
    assert kinds(compare(user.root, tmp_path / "own", lambda: user.write({"README": "theirs\n"})), user.root) == {
        "README": "update"
    }


def test_a_full_disk(user: UserRepository, tmp_path: Path) -> None:
    """Where no private directory can be made, nothing is compared."""
    (tmp_path / "own").touch()
    compared = FoundChanges(str(user.root), tmp_path / "own")
    compared.begin()
    assert compared.end() == Compared([], "failed")
    compared.close()


@pytest.mark.slow
def test_a_work_tree_elsewhere(user: UserRepository, tmp_path: Path) -> None:
    """Settings that an agent wrote cannot turn the comparison to other files."""
    (tmp_path / "elsewhere").mkdir()
    user.git("config", "core.worktree", str(tmp_path / "elsewhere"))
    found = compare(user.root, tmp_path / "own", lambda: (tmp_path / "elsewhere" / "a").write_text("secret\n"))
    assert found in (None, Compared([], "failed"))


@pytest.mark.slow
def test_what_is_left_out(user: UserRepository, tmp_path: Path) -> None:
    """Files that the agent reported, and those of Penstock; and the lines of files that have secrets."""
    key = "ghp_" + "a1B2" * 9
    closed = user.root / "data"

    def act() -> None:
        user.write({"src/a.py": "theirs\n", "data/chats": "theirs\n", ".env": "A=1\n", "b": f"key = {key}\n"})

    found = compare(user.root, tmp_path / "own", act, str(user.root / "src/a.py"), closed=str(closed))
    assert kinds(found, user.root) == {".env": "add", "b": "add"}
    assert found is not None
    assert [(it.added, it.diff) for it in found.changes] == [(1, None), (1, None)]


@pytest.mark.slow
def test_old_private_directories_are_removed(user: UserRepository, tmp_path: Path) -> None:
    """What a killed server has left goes after a day; that of another comparison stays. Others see none of it."""
    own = tmp_path / "own"
    for name, age in (("old", 2 * found_changes.OLD_SECONDS), ("young", 0.0)):
        (own / name / "objects").mkdir(parents=True)
        os.utime(own / name, (time.time() - age, time.time() - age))
    compared = FoundChanges(str(user.root), own)
    compared.begin()
    (private,) = [it for it in own.iterdir() if it.name != "young"]
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    compared.close()
    assert [it.name for it in own.iterdir()] == ["young"]
    assert compared.end() == Compared([], "slow")  # it does nothing more


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_changes(user: UserRepository, tmp_path: Path, seed: int) -> None:
    """Whatever is changed, staged and committed before and meanwhile: exactly those files are found that differ."""
    chance = random.Random(seed)
    names = [f"{folder}f{number}" for folder in ("", "d/", "d/e/") for number in range(5)]
    user.commit("Ignore", {".gitignore": "f4\n"})

    def act() -> None:
        for _ in range(12):
            path = user.root / chance.choice(names)
            what = chance.random()
            if what < 0.6:
                user.write({str(path.relative_to(user.root)): f"{chance.randrange(4)}\n" * chance.randrange(3)})
            elif what < 0.8:
                path.unlink(missing_ok=True)
            elif path.exists() and path.name != "f4":
                user.git("add", str(path))
                if chance.random() < 0.5:
                    user.git("commit", "-qm", "More", "--allow-empty")

    act()
    before = files_of(user.root, without=".git")
    found = kinds(compare(user.root, tmp_path / "own", act), user.root)
    after = files_of(user.root, without=".git")
    differing = {it for it in {*before, *after} if before.get(it) != after.get(it) and not it.endswith("f4")}
    assert set(found) == differing
    for name, kind in found.items():
        assert kind == ("add" if name not in before else "delete" if name not in after else "update")
