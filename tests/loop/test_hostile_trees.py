"""Trees that agents and checks replace: Penstock never writes through what stands in the place of a tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from loop_desk import Desk

from penstock.loop.rows import LoopBudget

pytestmark = pytest.mark.slow

SWAP = 'mv "$PWD" "$PWD.bak"; ln -s "{user}" "$PWD"'
"""Replaces the directory in which it runs by a link to the user's checkout."""


def everything(root: Path) -> dict[str, object]:
    """Return all that is in the user's checkout and its git directory but Penstock's own refs and new objects."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        own = "penstock" in name or name.startswith(".git/objects/")
        if not own and (path.is_symlink() or not path.is_dir()):
            status = path.lstat()
            content = str(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[name] = (status.st_mode, status.st_ino, content)
    return found


@pytest.mark.parametrize("who", ["agent", "check", "reviewer", "setup", "hook"])
@pytest.mark.parametrize("target", ["checkout", "git directory"])
def test_a_tree_that_is_swapped_for_a_link(desk: Desk, who: str, target: str):
    """Nothing of the user's changes; the round does not count as good, another tree is made, and the end says so."""
    user = desk.user
    user.write({"notes.txt": "not committed\n", "src/a.py": "edited\n"})
    user.git("stash")
    user.write({"notes.txt": "not committed\n", "src/a.py": "edited again\n"})
    link = user.root if target == "checkout" else user.root / ".git"
    swap = SWAP.format(user=link)
    once = f'if [ ! -e "{desk.folder}/swapped" ]; then touch "{desk.folder}/swapped"; {swap}; fi'
    if who == "hook":
        hook = user.root / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{once}\n")
        hook.chmod(0o755)
    desk.agent("worker", f'touch done; {once if who == "agent" else "true"}; reply "Add done"')
    verdict = '{"type":"result","subtype":"success","is_error":false,"result":"{\\"approved\\": true}"}'
    desk.agent("reviewer", f"{once if who == 'reviewer' else ''}\ncat <<'END'\n{verdict}\nEND")
    before = everything(user.root)
    words = ["--work=worker", f"--check={once if who == 'check' else 'true'}; test -e done", "--name=l1"]
    words += ["--review=reviewer"] if who == "reviewer" else []
    words += [f"--setup={once}"] if who == "setup" else []
    done = desk.penstock("loop", "PROMPT.md", *words)
    assert everything(user.root) == before, done.stderr
    assert (desk.folder / "swapped").exists()
    assert done.returncode == (2 if who == "setup" else 0), done.stderr
    assert "app.l1 was replaced by a link" in done.stderr
    assert "left as it is" in done.stderr
    assert Path(desk.folder, "work", "app.l1").is_symlink()
    subprocess.run(["git", "fsck", "--strict"], cwd=user.root, check=True, capture_output=True)
    if who != "setup":
        assert desk.penstock("loop", "land").returncode == 0
        assert user.git("show", "main:done") == ""
    assert desk.penstock("trees", "clean").returncode == 0
    assert Path(desk.folder, "work", "app.l1").is_symlink()


def test_a_tree_that_is_always_swapped_ends_the_loop(desk: Desk):
    """An agent that replaces each of its trees uses up its rounds, and nothing of the user's changes."""
    desk.agent("worker", f'touch done; {SWAP.format(user=desk.user.root)}; reply "Add done"')
    before = everything(desk.user.root)
    status, state = desk.run(desk.settings("worker", budget=LoopBudget(rounds=3)))
    assert everything(desk.user.root) == before
    assert status == 1
    assert len(state.abandoned) == 3
    assert state.ended is not None
    assert "was replaced by a link" in state.ended.reason
