"""Measures the work with git around an agent in a large repository, as ratios to `git status` there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.repo.commit import Stamp, commit_tree, run_hooks
from penstock.repo.protected import differences, keep, read_protected
from penstock.repo.refs import publish
from penstock.repo.repository import Author, Repository
from penstock.repo.snapshot import snapshot
from penstock.repo.staging import stage
from penstock.repo.tree import Tree, TreeRecord, place_of

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


def steps(place: Path, root: Path, rounds: int) -> Iterator[tuple[str, float]]:
    repository, home = Repository.at(root), place / "home"
    yield "`git clone --shared`", least(lambda: git(place, "clone", "-q", "--shared", "app", "clone"), 1)
    shutil.rmtree(place / "clone")
    record = TreeRecord(
        name="bench",
        owner="loop",
        label="bench",
        path=str(place_of(repository, "bench", home)),
        repository=str(root),
        base=repository.head() or "",
        branch="penstock/bench",
        made_at=0,
    )
    yield "tree", least(lambda: Tree.make(home, record, repository), 1)
    tree = Tree.open(home)
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
    git(root, "add", ".")
    git(
        root, "-c", "user.name=Bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0", "commit", "-qm", "Begin"
    )


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
