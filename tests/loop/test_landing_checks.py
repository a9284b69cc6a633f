"""Landing on a branch that has gone on: the checks run on the merge first, and what lands is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from git_repository import UserRepository
from loop_desk import TIMEOUT, Desk

from penstock.run.inside import FOLDER_MARK

pytestmark = pytest.mark.slow

CHECK = f"{sys.executable} -B -m unittest -q"
BASE = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "import calc, unittest\nclass T(unittest.TestCase):\n    def test_add(self): calc.add(1, 2)\n",
}
MORE = {
    "test_more.py": "import unittest\nfrom calc import add\nclass M(unittest.TestCase):\n  def test(self): add(1, 2)\n"
}
"""Test that the user adds meanwhile, by the old name of the function."""

OTHER = {"test_more.py": "import unittest\nclass M(unittest.TestCase):\n    def test(self): pass\n"}
"""Test that the user adds meanwhile, which the work of the loop does not break."""


def land(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    """Land the loop of a desk."""
    return desk.penstock("loop", "land", *words)


@contextmanager
def marked(desk: Desk, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with the mark of the loop, as one that a killed loop has left, and end it at the end."""
    env = {**os.environ, FOLDER_MARK: os.path.realpath(desk.data / "loops" / "l1")}
    process = subprocess.Popen([*argv, "sh", "-c", "echo; exec sleep 3000"], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def user(desk: Desk) -> UserRepository:
    """Make a loop that has renamed a function."""
    desk.user.commit("Begin", BASE)
    repair = "if [ -e test_more.py ]; then sed -i s/add/plus/ test_more.py; reply Repair; exit; fi"
    desk.agent("worker", f"{repair}; sed -i s/add/plus/ calc.py test_calc.py; reply Rename")
    assert desk.run(desk.settings("worker", checks=(CHECK,)))[0] == 0
    return desk.user


def test_a_red_merge_does_not_land(desk: Desk, user: UserRepository) -> None:
    """The merge of two green branches is red: nothing lands, and the output and both ways out are printed."""
    user.commit("More", MORE)
    before = user.state()
    found = land(desk)
    assert found.returncode == 4
    assert "cannot import name 'add'" in found.stderr
    assert "a check fails on the merge with your branch" in found.stderr
    assert "land l1 --resolve" in found.stderr
    assert "--unchecked" in found.stderr
    assert user.state() == before
    assert land(desk, "--squash").returncode == 4
    assert user.state() == before


def test_a_red_merge_is_resolved(desk: Desk, user: UserRepository) -> None:
    """With --resolve an agent repairs the merge in the tree of the loop, and then it lands."""
    mine = user.commit("More", MORE)
    before = user.state()
    resolved = land(desk, "--resolve")
    assert resolved.returncode == 0, resolved.stderr
    prompts = [path.read_text() for path in desk.scripts.glob("prompt.*")]
    assert any("without conflicts, but the checks fail on the merge" in prompt for prompt in prompts)
    assert user.state() == before
    assert user.git("log", "-1", "--format=%P", "penstock/l1").split()[1] == mine
    assert land(desk).returncode == 0
    assert "plus" in user.git("show", "main:test_more.py")
    subprocess.run(CHECK, shell=True, cwd=user.root, check=True)


def test_a_red_merge_lands_unchecked(desk: Desk, user: UserRepository) -> None:
    """Who says --unchecked gets the merge as it is."""
    user.commit("More", MORE)
    found = land(desk, "--unchecked")
    assert found.returncode == 0
    assert "(merge)" in found.stdout
    assert "merge · check" not in found.stderr


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_green_merge_lands(desk: Desk, user: UserRepository, is_gone: bool) -> None:
    """The checks run on the merge, in a new tree if that of the loop is gone; the message says what to look at."""
    if is_gone:
        shutil.rmtree(f"{user.root}.l1")
    user.commit("More", OTHER)
    user.write({"README": "not committed\n"})
    found = land(desk)
    assert found.returncode == 0, found.stderr
    assert f"merge · check {CHECK} · green" in found.stderr
    assert user.git("status", "--porcelain") == " M README"
    message = user.git("log", "-1", "--format=%B")
    assert "look at: test_calc.py +1 −1" in message
    assert "done, with changed checks" in found.stdout
    assert "not green with the tests of the base" in found.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_a_killed_loop_has_left_running_is_ended_before_a_merge_is_checked(
    desk: Desk, user: UserRepository
) -> None:
    """A process with the mark of the loop is gone when the merge has landed, and the tree was used, and removed."""
    user.commit("More", OTHER)
    with marked(desk) as process:
        found = land(desk)
        assert process.poll() is not None
    assert found.returncode == 0, found.stderr
    assert not Path(f"{user.root}.l1").exists()


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs processes of two users")
def test_a_merge_is_checked_in_another_tree_if_a_process_cannot_be_ended(desk: Desk, user: UserRepository) -> None:
    """The tree that a process of another user may change is left, and the merge lands."""
    user.commit("More", OTHER)
    # Without this capability, root cannot kill processes of others.
    weak = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", sys.executable, "-m", "penstock", "loop", "land"]
    with marked(desk, "setpriv", "--reuid=61234", "--clear-groups") as process:
        found = subprocess.run(
            weak, cwd=user.root, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert process.poll() is None
    assert found.returncode == 0, found.stderr
    assert Path(f"{user.root}.l1").is_dir()  # it was the other tree that the landing has removed
    assert f"merge · check {CHECK} · green" in found.stderr


def test_a_fast_forward_is_not_checked_again(desk: Desk, user: UserRepository) -> None:
    """A commit that was checked lands at once, and an edit that is not committed stays."""
    user.write({"README": "not committed\n"})
    found = land(desk)
    assert found.returncode == 0
    assert "(fast-forward)" in found.stdout
    assert "check" not in found.stderr


def test_what_is_not_done_is_said(desk: Desk) -> None:
    """The result of a loop that was not done lands with a line that says how much of it there is."""
    desk.user.commit("Boxes", {"PROMPT.md": "- [ ] one\n- [ ] two\n- [ ] three\n"})
    desk.agent("worker", 'n=$(count worker); if [ $n -le 2 ]; then echo $n > done; else rm -f done; fi; reply "Add $n"')
    assert desk.run(desk.settings("worker"))[0] == 1
    found = land(desk)
    assert found.returncode == 0
    assert "2 of 3 tasks; the loop was not done (stuck: " in found.stdout
