"""Measures the work with git around an agent in a large repository, as ratios to `git status` there."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.config.settings import load
from penstock.events import Event
from penstock.loop.engine import Engine
from penstock.loop.fold import fold
from penstock.loop.loops import begin_loop
from penstock.loop.rows import AnyRow, LoopBudget, RoleAgents, Settings, StepBegan, StepEnded
from penstock.loop.state import LoopState
from penstock.loop.steps import AgentEnded, CommandEnded, MakeCommit, MakeTree, Publish, RunAgent, RunCheck, Step
from penstock.repo.commit import Stamp, commit_tree, run_hooks
from penstock.repo.protected import differences, keep, read_protected
from penstock.repo.refs import publish
from penstock.repo.repository import Author, Repository
from penstock.repo.snapshot import snapshot
from penstock.repo.staging import stage
from penstock.repo.tree import Tree, TreeRecord, place_of
from penstock.run.run import Run

FILES, QUICK_FILES = 20_000, 2_000
CHANGED = 20
STAMP = Stamp(Author("Bench", "bench@example.org"), 1_700_000_000)


def report(quick: bool) -> Iterator[str]:
    count = QUICK_FILES if quick else FILES
    yield from (
        "",
        f"### Trees: a repository of {count:,} files",
        "",
        f"`git status` in the user's checkout = 1; {CHANGED} files change a round. A tree is made once; "
        "`git clone --shared` writes the same files; the other steps are those of a round.",
        "",
        "| step | time | `git status` = 1 |",
        "| --- | ---: | ---: |",
    )
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "app"
        make_repository(root, count)
        status = least(lambda: git(root, "status"), 5)
        yield line("`git status`", status, status)
        for name, seconds in steps(Path(place), root, 1 if quick else 3):
            yield line(name, seconds, status)
        yield from (
            "",
            f"### Loops: the same repository of {count:,} files",
            "",
            "What a loop adds to its agents and checks: a round in which an agent changes one file and the check "
            "`true` runs, without the time of both. `git status` in the user's checkout = 1.",
            "",
            "| step | time | `git status` = 1 |",
            "| --- | ---: | ---: |",
        )
        status = least(lambda: git(root, "status"), 5)
        yield line("`git status`", status, status)
        for name, seconds in loop_steps(Path(place), root, 2 if quick else 5):
            yield line(name, seconds, status)


AGENT = """cat > /dev/null
date +%N >> d1/f200.py
printf '{"type":"system","subtype":"init","session_id":"s1","model":"m1"}\\n'
printf '{"type":"result","subtype":"success","is_error":false,"result":"Change","session_id":"s1"}\\n'
"""
"""Agent that changes one file; its frames are those of claude."""

NAMES: dict[type[Step], str] = {
    MakeTree: "start: tree, snapshot, refs",
    RunAgent: "around the agent: comparison, git directory, snapshot",
    RunCheck: "around the check: comparison, git directory, files put back",
    MakeCommit: "commit",
    Publish: "branch",
}


class Clock:
    """Listener that takes the times between rows, without those of agents and checks."""

    def __init__(self) -> None:
        self.rows: list[AnyRow] = []
        self.times: dict[type[Step], list[float]] = {}
        self._began = 0.0

    def row(self, row: AnyRow, state: LoopState) -> None:
        now = time.perf_counter()
        self.rows.append(row)
        if isinstance(row, StepBegan):
            self._began = now
            self._step = type(row.does)
        elif isinstance(row, StepEnded):
            ms = row.result.ms if isinstance(row.result, AgentEnded | CommandEnded) else 0
            self.times.setdefault(self._step, []).append(now - self._began - ms / 1000)

    def events(self, step: RunAgent, run: Run, events: list[Event]) -> None:
        pass


def loop_steps(place: Path, root: Path, rounds: int) -> Iterator[tuple[str, float]]:
    (place / "agent.sh").write_text(AGENT)
    file = place / "config.toml"
    file.write_text(f'[agents.bench]\nadapter = "claude"\ncommand = ["sh", "{place}/agent.sh"]\n')
    (root / "PROMPT.md").write_text("Change one file.\n")
    settings = Settings(
        work=RoleAgents(agents=("bench",)), checks=("true",), budget=LoopBudget(rounds=rounds), hooks=True
    )
    clock = Clock()
    journal = begin_loop(place / "data", root / "PROMPT.md", settings, "bench-loop")
    Engine(journal, load({"PENSTOCK_CONFIG": str(file)}, str(place)), clock).run()
    times = {name: min(clock.times[kind]) for kind, name in NAMES.items()}
    yield from times.items()
    yield "a whole round", sum(list(times.values())[1:])
    rows = journal.rows
    yield f"state from the journal of {rounds} rounds", least(lambda: fold(rows), 5)
    journal.close()


def steps(place: Path, root: Path, rounds: int) -> Iterator[tuple[str, float]]:
    repository = Repository.at(root)
    clones = (str(place / f"clone{number}") for number in range(rounds))
    yield "`git clone --shared`", least(lambda: git(place, "clone", "-q", "--shared", "app", next(clones)), rounds)
    trees: list[Tree] = []
    yield "tree", least(lambda: trees.append(make_tree(repository, place, len(trees))), rounds)
    tree = trees[-1]
    home, record = tree.home, tree.record
    (root / "mine").write_text("of the user")
    before = read_protected(repository)
    yield "snapshot of the user's checkout", least(lambda: snapshot(repository, home, STAMP.author, 1), rounds)
    yield "the agent's git directory, anew", least(lambda: tree.renew(record.base), rounds)
    keep(repository, before, home / "kept", "bench", STAMP)
    yield "comparison of the user's repository", least(lambda: differences(before, repository, home / "kept"), rounds)
    staging, committing = [], []
    for number in range(rounds):
        change(tree.path, number)
        staging.append(least(lambda: stage(tree.git), 1))
        committing.append(least(lambda: commit(tree), 1))
    yield "staging", min(staging)
    yield "hooks, commit, branch", min(committing)


def make_tree(repository: Repository, place: Path, number: int) -> Tree:
    name, home = f"bench{number}", place / f"home{number}"
    record = TreeRecord(
        name=name,
        owner="loop",
        label="bench",
        path=str(place_of(repository, name, home)),
        repository=str(repository.root),
        base=repository.head() or "",
        branch=f"penstock/{name}",
        made_at=0,
    )
    return Tree.make(home, record, repository)


def commit(tree: Tree) -> None:
    old = tree.repository.git.commit_of("refs/heads/penstock/bench")
    hook = run_hooks(tree, "Change\n")
    made = tree.git.text("write-tree")
    new = commit_tree(tree.git, made, [old or tree.record.base], hook.message, STAMP)
    publish(tree.repository, "penstock/bench", new, old)
    tree.set_head(new)


def make_repository(root: Path, count: int) -> None:
    for number in range(count):
        path = root / f"d{number // 200}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"x = {number}\n" * 20)
    git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "Bench"), ("user.email", "bench@example.org"), ("gc.auto", "0")):
        git(root, "config", key, value)
    git(root, "add", ".")
    git(root, "commit", "-qm", "Begin")
    git(root, "repack", "-adq")  # as in a clone


def change(root: Path, number: int) -> None:
    for file in range(CHANGED):
        (root / f"d{file % 10}" / f"new{number}-{file}.py").write_text(f"{number}\n")


def git(root: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=root, check=True, stdout=subprocess.DEVNULL)


def least(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def line(name: str, seconds: float, status: float) -> str:
    return f"| {name} | {seconds * 1e3:.0f} ms | {seconds / status:.1f} |"
