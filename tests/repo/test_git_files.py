"""Files of a git directory that start or redirect something: each difference is named, and its command restores it."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of

from penstock.repo import git_files
from penstock.repo.git_files import FileDifference, file_differences, put_pipes_aside, read_git_files


class Kept:
    """A repository with a worktree and a submodule's git directory, whose files are kept."""

    def __init__(self, user: UserRepository, copies: Path) -> None:
        self.root = user.root
        self.git = user.root / ".git"
        self.copies = copies
        user.git("worktree", "add", "-q", "-b", "side", "../side")
        for name in ("lib", "libs/deep"):
            user.git("init", "-q", "--bare", str(self.git / "modules" / name))
        (self.git / "info").mkdir(exist_ok=True)
        (self.git / "info/exclude").write_text("mine\n")
        (self.git / "shallow").write_text("")
        (self.git / "info/link").symlink_to("exclude")
        self.before = read_git_files(self.git, self.git, copies)

    def found(self) -> list[FileDifference]:
        """Return the differences to what was kept."""
        return [*file_differences(self.before, read_git_files(self.git, self.git), self.git, self.copies)]


@pytest.fixture
def kept(user: UserRepository, tmp_path: Path) -> Kept:
    """Make the repository."""
    return Kept(user, tmp_path / "copies")


CHANGES = {
    "exclude": ("echo x >> info/exclude", {("info/exclude", False)}),
    "attributes": ("echo x > info/attributes", {("info/attributes", True)}),
    "grafts": ("echo x > info/grafts", {("info/grafts", True)}),
    "alternates": ("echo /x > objects/info/alternates", {("objects/info/alternates", True)}),
    "shallow": ("echo x > shallow", {("shallow", False)}),
    "shallow removed": ("rm shallow", {("shallow", False)}),
    "mode": ("chmod 600 info/exclude", {("info/exclude", False)}),
    "another git directory": ("echo /x > commondir", {("commondir", True)}),
    "old remote": ("mkdir -p remotes branches; echo x > remotes/o; echo x > branches/o",
                   {("remotes/o", True), ("branches/o", True)}),
    "commands of a rebase": ("mkdir rebase-merge; echo 'exec evil' > rebase-merge/git-rebase-todo",
                             {("rebase-merge/git-rebase-todo", False)}),
    "strategies": (
        "mkdir rebase-merge sequencer; echo x/y | tee rebase-merge/strategy > sequencer/opts;"
        " echo noop > rebase-merge/git-rebase-todo",
        {("rebase-merge/git-rebase-todo", False), ("rebase-merge/strategy", False), ("sequencer/opts", False)}),
    "settings of a submodule": ("echo x >> modules/lib/config", {("modules/lib/config", True)}),
    "settings of a submodule in a folder": ("echo x >> modules/libs/deep/config", {("modules/libs/deep/config", True)}),
    "hook of a submodule": ("echo x > modules/lib/hooks/post-checkout", {("modules/lib/hooks/post-checkout", True)}),
    "settings of a submodule without a HEAD": (
        "rm modules/lib/HEAD; echo x >> modules/lib/config", {("modules/lib/config", True)}),
    "hook of a submodule without settings": (
        "rm modules/lib/config; echo x > modules/lib/hooks/update",
        {("modules/lib/config", True), ("modules/lib/hooks/update", True)}),
    "new submodule": ("git init -q --bare --template= modules/new", {("modules/new/config", False)}),
    "settings of a worktree": ("echo x > worktrees/side/config.worktree", {("worktrees/side/config.worktree", True)}),
    "another place of a worktree": ("echo /x > worktrees/side/gitdir", {("worktrees/side/gitdir", False)}),
    "git directory of a worktree": ("echo /x > worktrees/side/commondir", {("worktrees/side/commondir", True)}),
    "branch of a worktree": ("echo ref: refs/heads/x > worktrees/side/HEAD", {("worktrees/side/HEAD", False)}),
    "pipe": ("rm info/exclude; mkfifo info/exclude", {("info/exclude", False)}),
    "directory": ("rm info/exclude; mkdir -p info/exclude/x", {("info/exclude", False)}),
    "link to a pipe": ("mkfifo pipe; rm info/exclude; ln -s ../pipe info/exclude", {("info/exclude", False)}),
    "another link": ("ln -sfn /x info/link", {("info/link", True)}),
    "link in place of a directory": (
        "mv info away; ln -s away info", {("info", True), ("info/exclude", False), ("info/link", True)}),
}  # fmt: skip
"""Scripts in the git directory, and the names of the differences with whether they are harm."""


@pytest.mark.parametrize(("script", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_named_and_its_command_restores_it(
    kept: Kept, script: str, expected: set[tuple[str, bool]]
) -> None:
    """Nothing waits for a pipe; after the commands the files are as they were."""
    subprocess.run(["sh", "-ec", script], cwd=kept.git, check=True)
    found = kept.found()
    assert {(one.name, one.is_harm) for one in found} == expected
    gone = {one.name for one in found if one.text == "the file was removed"}
    paths = {one.name: kept.git / one.name for one in found}
    assert gone == {name for name, path in paths.items() if path.parent.is_symlink() or not os.path.lexists(path)}
    for one in found:
        subprocess.run(one.restore, shell=True, cwd=kept.root, check=True)
    assert kept.found() == []
    for name in ("rebase-merge", "sequencer"):  # with them, git refuses to switch and to pick
        assert not (kept.git / name).exists()


def test_restoring_goes_through_no_link(kept: Kept) -> None:
    """A link in the place of a directory is replaced; what it names stays, whichever command is run first."""
    other = kept.root.parent / "other"
    other.mkdir()
    (other / "exclude").write_text("of somebody else\n")
    before = files_of(other)
    subprocess.run(["sh", "-ec", f"mv info away; ln -s '{other}' info"], cwd=kept.git, check=True)
    for one in reversed(kept.found()):
        subprocess.run(one.restore, shell=True, cwd=kept.root, check=True)
    assert files_of(other) == before
    assert kept.found() == []


def test_worktrees_of_the_user_are_no_harm(kept: Kept, user: UserRepository) -> None:
    """A user may add, move and remove worktrees while a loop runs, and change what is ignored."""
    user.git("worktree", "add", "-q", "-b", "more", "../more")
    user.git("worktree", "move", "../side", "../moved")
    assert {one.name for one in kept.found() if not one.is_harm} >= {"worktrees/more/gitdir", "worktrees/side/gitdir"}
    user.git("worktree", "remove", "../moved")
    assert [one for one in kept.found() if one.is_harm] == []


def test_large_files_are_compared_by_size_and_time(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that became large, and many large ones, are named and not read."""
    monkeypatch.setattr(git_files, "MAX_FILE_BYTES", 1 << 20)
    with open(kept.git / "info/exclude", "wb") as file:
        file.truncate(1 << 40)
    assert [one.name for one in kept.found()] == ["info/exclude"]
    subprocess.run(kept.found()[0].restore, shell=True, cwd=kept.root, check=True)
    assert kept.found() == []


def test_many_large_files_are_bounded_together(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beyond a total size are compared by size and times, so that an agent cannot make a comparison slow."""
    monkeypatch.setattr(git_files, "MAX_ALL_BYTES", 100)
    one, other = kept.git / "info/1", kept.git / "info/2"
    for path in (one, other):
        path.write_text("x" * 60)
    before = read_git_files(kept.git, kept.git)
    assert read_git_files(kept.git, kept.git) == before
    for path in (one, other):
        status = path.stat()
        while path.stat().st_ctime_ns == status.st_ctime_ns:  # the kernel's own clock is not a fine one
            path.write_text("y" * 60)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = read_git_files(kept.git, kept.git)
    assert [name for name in after if before[name] != after[name]] == ["info/1", "info/2"]


def test_many_files_are_bounded(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of files ends at a limit, and those that git has always are still compared."""
    monkeypatch.setattr(git_files, "MAX_FILES", 50)
    for number in range(200):
        (kept.git / f"info/{number}").write_text("x")
    assert len(read_git_files(kept.git, kept.git)) == 50
    (kept.git / "objects/info/alternates").write_text("/x\n")
    assert "objects/info/alternates" in {one.name for one in kept.found()}


def test_sockets_and_unreadable_files_are_named(kept: Kept) -> None:
    """What cannot be read is a difference like any other."""
    here = Path.cwd()
    os.chdir(kept.git / "info")  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("attributes")
    finally:
        os.chdir(here)
    assert [one.name for one in kept.found()] == ["info/attributes"]


def test_pipes_and_devices_are_moved_out_of_the_way(kept: Kept, tmp_path: Path) -> None:
    """At every level, also links to them: git would wait for them. All else stays, and no link is followed."""
    (kept.git / "deep/er").mkdir(parents=True)
    for name, target in {"out": str(kept.root), "dangling": "nothing", "to a file": "config"}.items():
        (kept.git / name).symlink_to(target)
    before = files_of(kept.git)
    os.mkfifo(kept.root / "pipe")
    os.mkfifo(kept.git / "deep/er/pipe")
    os.mkfifo(kept.git / "index.lock")
    (kept.git / "zero").symlink_to("/dev/zero")
    (kept.git / "deep/link").symlink_to("../../pipe")
    moved = put_pipes_aside(kept.git, kept.git, tmp_path / "aside")
    assert {one.name for one in moved} == {"deep/er/pipe", "index.lock", "zero", "deep/link"}
    assert all(one.is_harm for one in moved)
    assert files_of(kept.git) == before
    assert (kept.root / "pipe").is_fifo()
    for one in moved:
        subprocess.run(one.restore, shell=True, check=True)
    assert not [path for path in (tmp_path / "aside").rglob("*") if not path.is_dir()]
    assert put_pipes_aside(kept.git, kept.git, tmp_path / "aside") == []
