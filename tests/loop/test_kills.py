"""L1: Penstock is killed before and after rows and at random times; the loop is resumed and ends as without."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from effort import at_most
from loop_desk import Desk

from penstock.loop.fold import fold
from penstock.loop.journal import Journal, process_of, read_rows
from penstock.loop.loops import resume
from penstock.loop.rows import RoleAgents
from penstock.run.inside import LOOP_MARK

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
TIMEOUT = 120
"""Seconds after which a process hangs."""

WORKER = """
if [ -e half ]; then echo b > done; else sleep 0.05; echo a > half; fi; sleep 0.05
reply "Add a part"
"""
"""A worker whose tree follows from the tree that it finds, as that of a good agent does."""

JUDGE = """cat <<'END'
{"type":"result","subtype":"success","is_error":false,"result":"{\\"approved\\": true}","total_cost_usd":0.01}
END
"""

ROWS = 28
"""Rows of the loop if nobody kills it."""


def run(desk: Desk, row: int, when: str) -> int:
    """Run the loop in a process that kills itself, and return its exit status."""
    words = [sys.executable, str(SUPPORT / "killed_loop.py"), str(desk.data / "loops" / "l1"), str(row), when]
    done = subprocess.run(words, env=desk.environment, capture_output=True, timeout=TIMEOUT)
    assert done.returncode in (0, -9), done.stderr.decode()
    return done.returncode


def begin(desk: Desk) -> None:
    """Begin a loop of two rounds and a review."""
    desk.agent("worker", WORKER)
    desk.agent("judge", JUDGE)
    settings = desk.settings(
        "worker", checks=("test -e half", "test -e done"), reviews=(RoleAgents(agents=("judge",)),)
    )
    desk.begin(settings).close()


def check_end(desk: Desk, before: dict[str, object]) -> None:
    """Check that the loop has ended as one that nobody killed."""
    folder = desk.data / "loops" / "l1"
    state = fold(read_rows(folder))
    assert state.ended is not None
    assert (state.ended.status, state.ended.reason) == (0, "done")
    assert set(desk.files()) == {"PROMPT.md", "README", "done", "half", "src/a.py", "src/b.py"}
    greens = [it for it in state.rounds if state.stage(it) == "green"]
    assert [it.commit.commit for it in greens if it.commit is not None] == desk.user.git(
        "rev-list", "--reverse", "main..penstock/l1"
    ).splitlines()
    assert state.used.rounds == len([it for it in state.rounds if it.work is not None])
    assert process_of(folder) is None
    assert desk.user.state() == before


def left() -> list[str]:
    """Return the processes of agents and checks of the loop that still run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{LOOP_MARK}=l1".encode() in environment and f"PWD={Path.cwd()}".encode() not in environment:
            found.append(name)
    return found


def check_nothing_is_left(desk: Desk) -> None:
    """Check that no agent or check of this loop runs; a guard may still be ending them."""
    end = time.monotonic() + 10
    marks = str(desk.folder).encode()
    while any(marks in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left() if Path(f"/proc/{pid}").exists()):
        assert time.monotonic() < end, "a process of the loop is left"
        time.sleep(0.05)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("row", range(2, ROWS + 1, at_most(9, 1)))
def test_l1_killed_at_a_row(desk: Desk, row: int, when: str) -> None:
    """A kill at any row, and a resume: the same tree, each green round one commit, the user's files untouched."""
    begin(desk)
    before = desk.user.state()
    if run(desk, row, when) == -9:
        assert run(desk, 0, "never") == 0
    check_end(desk, before)


RESOLVER = """
if grep -q "<<<<" src/a.py; then echo "a = 5" > src/a.py; sleep 0.05; reply "Resolve a"
elif [ ! -e done ]; then echo "a = 3" > src/a.py; touch done; reply "Add done"
else reply "All is done."; fi
"""
MERGE_ROWS = 16
"""Rows from the one that resumes a loop for a merge to its end, if nobody kills it."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("row", range(2, MERGE_ROWS + 1, at_most(5, 1)))
def test_l1_killed_while_a_conflict_is_resolved(desk: Desk, row: int, when: str) -> None:
    """A kill at any row of a merge, and a resume: one commit with both parents, and the user's files untouched."""
    desk.agent("worker", RESOLVER)
    assert desk.run(desk.settings("worker"))[0] == 0
    mine = desk.user.commit("Mine", {"src/a.py": "a = 2\n"})
    before = desk.user.state()
    folder = desk.data / "loops" / "l1"
    journal = Journal.open(folder)
    count = len(journal.rows)
    resume(journal, rounds=1, merges=mine, merges_name="main")
    journal.close()
    if run(desk, count + row, when) == -9:
        assert run(desk, 0, "never") == 0
    state = fold(read_rows(folder))
    assert state.ended is not None
    assert (state.ended.status, state.ended.reason) == (0, "done")
    assert desk.user.git("rev-list", "--parents", "--merges", "main..penstock/l1").split()[2:] == [mine]
    assert desk.user.git("show", "penstock/l1:src/a.py") == "a = 5"
    assert desk.user.state() == before
    assert process_of(folder) is None


SMALL = """
sleep 0.05; if [ -e done ]; then :; elif grep -q "After the last round" "$DESK/prompt.$$"; then echo b > done; \
else echo a > half; fi; sleep 0.05; reply "Add a small part"
"""
LARGE = """
sleep 0.03; if grep -q "After the last round" "$DESK/prompt.$$"; then seq 9 > done; \
elif [ ! -e done ]; then seq 9 > half; fi; sleep 0.07; reply "Add a large part"
"""
"""Candidates whose tree follows from the round, also if they are begun again in it."""

CANDIDATE_ROWS = 78
"""Rows of the loop with candidates if nobody kills it."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("row", range(2, CANDIDATE_ROWS + 1, at_most(24, 1)))
def test_l1_killed_while_candidates_work(desk: Desk, row: int, when: str) -> None:
    """A kill at any row of a loop with candidates, and a resume: the same candidate is chosen, with the same tree."""
    desk.agent("large", LARGE)
    desk.agent("small", SMALL)
    desk.agent("judge", JUDGE.replace("approved", "better").replace("true", "1"))
    settings = desk.settings("large", "small", candidates=("large", "small"), judge=RoleAgents(agents=("judge",)),
        checks=("test -e half", "test -e done"))  # fmt: skip
    desk.begin(settings).close()
    before, folder = desk.user.state(), desk.data / "loops" / "l1"
    if run(desk, row, when) == -9:
        assert run(desk, 0, "never") == 0
    rows = read_rows(folder)
    state = fold(rows)
    assert state.ended is not None
    assert (state.ended.status, state.ended.reason) == (0, "done")
    assert {it.agent for it in state.rounds if it.commit is not None} == {"small"}
    assert (desk.user.git("show", "penstock/l1:half"), desk.user.git("show", "penstock/l1:done")) == ("a", "b")
    assert len(desk.subjects()) == 1
    assert state.used.rounds == len(state.rounds) == 3
    assert process_of(folder) is None
    check_nothing_is_left(desk)
    assert desk.user.state() == before


@pytest.mark.parametrize("seed", range(at_most(2, 100)))
def test_l1_killed_at_random_times(desk: Desk, seed: int) -> None:
    """A loop that is killed at random times and resumed each time ends as one that nobody killed."""
    begin(desk)
    before, chance = desk.user.state(), random.Random(seed)
    words = [sys.executable, str(SUPPORT / "killed_loop.py"), str(desk.data / "loops" / "l1"), "0", "never"]
    for _ in range(3):
        process = subprocess.Popen(words, env=desk.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.3, 3.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert run(desk, 0, "never") == 0
    check_end(desk, before)
    check_nothing_is_left(desk)
