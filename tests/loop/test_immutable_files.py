"""Files that Penstock cannot change in a tree: it is abandoned, and a new one is made. A loop never ends by them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from loop_desk import Desk

PLACES = (".claude/settings.json", ".git/config", "old")


def can_be_immutable(folder: Path) -> bool:
    """Whether root can make a file that not even root can remove (`chattr +i`, on most file systems of Linux)."""
    if os.getuid() != 0 or shutil.which("chattr") is None:
        return False
    (folder / "tried").touch()
    done = subprocess.run(["chattr", "+i", folder / "tried"], capture_output=True, check=False)
    subprocess.run(["chattr", "-i", folder / "tried"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def restored(desk: Desk) -> Iterator[None]:
    """Files can be removed again at the end."""
    yield
    subprocess.run(["chattr", "-R", "-i", desk.folder], capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("place", PLACES)
def test_an_immutable_file_costs_the_tree(desk: Desk, place: str, tmp_path: Path) -> None:
    """The agent's settings, its git directory, a file that the next round puts back."""
    if not can_be_immutable(tmp_path):
        pytest.skip("chattr +i: needs root, and a file system that has it")
    desk.user.commit("Old", {"old": "as the user has it\n"})
    plants = f'mkdir -p "$(dirname {place})"; echo "{{}}" >> {place}; chattr +i {place}'
    if place == "old":
        plants += " ."  # nor can anything else be written
    once = f'if [ ! -e "{desk.folder}/once" ]; then touch "{desk.folder}/once" done; {plants}; fi'
    desk.agent("worker", f'{once}; touch done; reply "Add done"')
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", "--name=l1", "--check=test -e done", "--rounds=6")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (desk.folder / "work" / "app.l1-2").is_dir(), done.stderr
    assert desk.user.git("show", "penstock/l1:done") == ""
    assert desk.user.git("show", "penstock/l1:old").startswith("as the user has it")
