"""The git directory of the user's repository is moved away while a loop runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import files_of
from loop_desk import Desk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("who", ["agent", "check", "hook"])
def test_a_git_directory_that_was_moved_away_is_named(desk: Desk, who: str) -> None:
    """The loop ends with 4 and the command that moves it back; then it goes on, and nothing of the user's is lost."""
    user = desk.user
    away = desk.folder / "work" / "away"
    once = f'if [ -e done ] && mkdir "{desk.folder}/once" 2>/dev/null; then mv "{user.root}/.git" "{away}"; fi'
    if who == "hook":
        hook = user.root / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{once}\n")
        hook.chmod(0o755)
    user.write({"README": "not committed\n"})
    before = files_of(user.root)
    desk.agent("worker", f'touch done; {once if who == "agent" else "true"}; reply "Add done"')
    check = f"--check={once if who == 'check' else 'true'}; test -e done"
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", check, "--rounds=3", "--name=l1")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert f"mv -n {away} {user.root}/.git" in done.stderr
    away.rename(user.root / ".git")
    assert {name: state for name, state in files_of(user.root).items() if not name.startswith(".git/")} == {
        name: state for name, state in before.items() if not name.startswith(".git/")
    }
    resumed = desk.penstock("loop", "resume", "l1")
    assert resumed.returncode == 0, resumed.stderr
    assert user.git("show", "penstock/l1:done") == ""
    assert Path(f"{user.root}.l1").is_dir()
