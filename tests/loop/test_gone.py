"""L14: trees, repositories and disk space that go away while a loop is under way."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loop_desk import TIMEOUT, Desk

from penstock.errors import UsageError
from penstock.loop.fold import fold
from penstock.loop.journal import read_rows
from penstock.loop.rows import LoopBudget

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
"""Command that starts another one in a mount namespace of its own."""


def test_l14_a_tree_that_is_gone(desk: Desk) -> None:
    """A round whose agent removes its tree does not count as good: another tree has the files of the round before."""
    desk.agent("worker", 'if [ $(count worker) = 2 ]; then rm -rf "$PWD"; fi; touch done; reply "Add done"')
    before = desk.user.state()
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    assert done.returncode == 0, done.stderr
    assert "the tree is gone while the agent worked" in done.stderr
    assert "Traceback" not in done.stderr
    assert fold(read_rows(desk.data / "loops" / "l1")).used.rounds == 3
    assert desk.user.state() == before
    assert desk.penstock("loop", "land").returncode == 0
    assert (desk.user.root / "done").exists()


def test_l14_a_tree_that_was_removed_is_made_again(desk: Desk) -> None:
    """A loop that is resumed without its tree has the files of its last step again, red ones too, and goes on."""
    desk.agent("worker", 'if [ -e half ]; then cp half done; else echo $$ > half; fi; reply "Add a part"')
    status, state = desk.run(desk.settings("worker", setup="touch deps", budget=LoopBudget(rounds=1)))
    assert status == 1
    left = desk.user.git("show", "refs/penstock/l1/1:half")
    shutil.rmtree(state.path)
    before = desk.user.state()
    status, state = desk.resume(rounds=3)
    assert status == 0
    assert desk.user.git("show", "penstock/l1:done") == left
    assert Path(state.path, "deps").exists()
    assert desk.user.state() == before


def test_l14_a_tree_that_was_removed_under_an_agent(desk: Desk) -> None:
    """Penstock is killed while an agent works, and the tree is removed: the step is lost, and the loop goes on."""
    desk.agent("worker", 'if [ $(count worker) = 2 ]; then sleep 1000; fi; [ -e done ] || echo b >> parts; '
        'if [ "$(wc -l < parts)" = 2 ]; then touch done; fi; reply "Add a part"')  # fmt: skip
    desk.begin(desk.settings("worker")).close()
    journal = desk.data / "loops" / "l1"
    process = subprocess.Popen([sys.executable, str(SUPPORT / "killed_loop.py"), str(journal), "0", "never"],
        env=desk.environment)  # fmt: skip
    while not (desk.scripts / "worker.count").exists() or len((desk.scripts / "worker.count").read_text()) < 4:
        time.sleep(0.05)
    process.kill()
    process.wait()
    shutil.rmtree(desk.folder / "work" / "app.l1")
    status, state = desk.resume()
    assert state.rounds[1].work is not None
    assert state.rounds[1].work.outcome == "lost"
    assert state.rounds[1].work.tree == (state.rounds[0].work.tree if state.rounds[0].work else "")
    assert status == 0
    assert desk.user.git("show", "penstock/l1:parts") == "b\nb"


def test_l14_a_conflict_is_merged_again_in_a_new_tree(desk: Desk) -> None:
    """The tree is removed while a conflict waits to be resolved: the merge is made again, and nothing is reverted."""
    desk.agent("worker", 'if grep -q "<<<<" src/a.py; then [ $(count worker) = 1 ] || echo "a = 5" > src/a.py; '
        'reply "Resolve a"; exit; fi; echo "a = 3" > src/a.py; touch done; reply "Add done"')  # fmt: skip
    assert desk.run(desk.settings("worker", budget=LoopBudget(rounds=2)))[0] == 0
    mine = desk.user.commit("Mine", {"src/a.py": "a = 2\n", "other": "mine\n"})
    status, state = desk.resume(rounds=1, merges=mine, merges_name="main")
    assert status == 1
    shutil.rmtree(state.path)
    status, _ = desk.resume(rounds=2)
    assert status == 0
    assert desk.user.git("show", "penstock/l1:src/a.py") == "a = 5"
    assert desk.user.git("show", "penstock/l1:other") == "mine"
    assert desk.user.git("log", "-1", "--format=%P", "penstock/l1").split()[1] == mine


def test_l14_a_lock_that_a_crash_left(desk: Desk) -> None:
    """A lock file of the private index, as a loss of power leaves it, does not stop the loop."""
    desk.agent("worker", 'if [ -e half ]; then touch done; else touch half; fi; reply "Add a part"')
    assert desk.run(desk.settings("worker", budget=LoopBudget(rounds=1)))[0] == 1
    (desk.data / "trees" / "l1" / "index.lock").touch()
    assert desk.resume(rounds=3)[0] == 0


def can_mount(folder: Path) -> bool:
    """Return whether a process may make a file system of its own."""
    words = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("when", ["before", "check", "agent"])
def test_l14_a_disk_that_is_really_full(tmp_path: Path, when: str) -> None:
    """The disk is full before the loop, in a check or while an agent works: the loop ends in words and loses nothing,
    and when there is space again, it is begun or resumed and done."""
    if not can_mount(tmp_path):
        pytest.skip("no process may mount a file system here")
    words = [*NAMESPACE, sys.executable, str(SUPPORT / "full_disk.py"), str(tmp_path), when]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_l14_a_row_that_cannot_be_written(desk: Desk) -> None:
    """A loop that cannot write ends in words with a whole journal, and is resumed when there is space."""
    desk.agent("worker", 'touch done; reply "Add done"')
    desk.begin(desk.settings("worker")).close()
    folder = desk.data / "loops" / "l1"
    size = (folder / "journal.ndjson").stat().st_size
    before = desk.user.state()
    # A limit on the size of files fails as a full disk does: the row is written in part. So would compiled modules be,
    # which Python then cannot read any more.
    words = f"ulimit -f {size // 512 + 1}; exec {sys.executable} -m penstock loop resume l1"
    env = {**desk.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["bash", "-c", words], cwd=desk.user.root, env=env, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    fold(read_rows(folder))
    assert desk.user.state() == before
    status, _ = desk.resume()
    assert status == 0


def test_l14_a_repository_that_was_moved(desk: Desk) -> None:
    """A loop whose repository is elsewhere is not resumed, and the error names the directory; back there, it is."""
    desk.agent("worker", 'touch done; reply "Add done"')
    desk.begin(desk.settings("worker")).close()
    away = desk.user.root.rename(desk.user.root.with_name("away"))
    argv = [sys.executable, "-m", "penstock", "loop", "resume", "l1"]
    done = subprocess.run(argv, cwd=away, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2
    assert str(desk.user.root) in done.stderr
    assert "Traceback" not in done.stderr
    away.rename(desk.user.root)
    assert desk.resume()[0] == 0


def test_l14_a_branch_of_that_name(desk: Desk) -> None:
    """A loop does not begin if its branch exists, and one that appears meanwhile is left where it is: status 4."""
    desk.user.git("branch", "penstock/l1")
    with pytest.raises(UsageError, match="the branch penstock/l1 exists already"):
        desk.begin(desk.settings("worker"))
    assert not (desk.data / "loops").exists()
    desk.user.git("branch", "-D", "penstock/l1")
    desk.agent("worker", f'git -C "{desk.user.root}" branch -q penstock/l1 main; touch done; reply "Add done"')
    main = desk.user.git("rev-parse", "main")
    status, state = desk.run(desk.settings("worker"))
    assert status == 4
    assert state.ended is not None
    assert "penstock/l1 was moved by somebody else" in state.ended.reason
    assert desk.user.git("rev-parse", "penstock/l1") == main
