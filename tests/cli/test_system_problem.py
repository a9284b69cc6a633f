"""Errors of the system, such as a full disk, at any step of a command: a sentence, and no traceback."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from git_repository import UserRepository

from penstock.cli.system_problem import system_problem

TIMEOUT = 60
WORKS = {
    "doc": ["doc", "notes.md", "--agent=still"],
    "init": ["doc", "init", "new.md"],
    "watch": ["doc", "watch", "notes.md", "--agent=still"],
    "tree": ["run", "still", "hello", "--worktree"],
    "serve": ["serve", "--port=0"],
}
"""Commands that write files before they start an agent."""


def without_space() -> None:
    """Let this process write nothing into files, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("words", WORKS.values(), ids=WORKS.keys())
def test_a_file_that_cannot_be_written(tmp_path: Path, words: list[str]) -> None:
    """The command ends with 2 and a sentence, and leaves nothing in the user's directory."""
    config = tmp_path / "config.toml"
    config.write_text('[agents.still]\nadapter = "claude"\ncommand = ["false"]\n')
    user = UserRepository(tmp_path / "app")
    user.commit("Begin", {"notes.md": "Question?\n"})
    before = sorted(os.listdir(user.root))
    env = {**os.environ, "PENSTOCK_CONFIG": str(config), "PENSTOCK_DATA": str(tmp_path / "data")}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        cwd=user.root,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        preexec_fn=without_space,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock: ")
    assert "File too large" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir(user.root)) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE])
def test_the_file_is_named_if_it_is_known(number: int) -> None:
    """With what the system says of it."""
    named = str(system_problem(OSError(number, os.strerror(number), "/data/docs\x1b")))
    assert named.startswith(f"'/data/docs\\x1b' cannot be used: {os.strerror(number)}; ")
    bare = str(system_problem(OSError(number, os.strerror(number))))
    assert bare.startswith(f"a file cannot be written or read: {os.strerror(number)}; ")


def test_a_bug_is_not_hidden() -> None:
    """A missing file, and every other error, has its traceback."""
    assert system_problem(FileNotFoundError(errno.ENOENT, "no such file", "x")) is None
    assert system_problem(NotADirectoryError(errno.ENOTDIR, "not a directory", "x")) is None
    assert system_problem(ValueError("x")) is None
