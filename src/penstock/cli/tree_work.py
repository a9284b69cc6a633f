"""`penstock trees diff` and `trees merge`: compare the work of trees, and make it part of the user's branch."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.changes import as_diff
from penstock.cli.console import notify, notify_problem, one_line, say, sink_output
from penstock.cli.display import decide
from penstock.cli.exit_status import OK
from penstock.cli.options import DisplayOptions
from penstock.cli.read import configured
from penstock.config.data import data_path
from penstock.errors import UsageError, shown
from penstock.repo.commit import Stamp, subject_of, with_trailers
from penstock.repo.diffs import changes_between
from penstock.repo.landing import NotLanded, land
from penstock.repo.repository import Repository
from penstock.repo.tree import TreeRecord
from penstock.repo.trees import home_of, status_of
from penstock.repo.work import TreeWork, find_work
from penstock.run.history import now_ms
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.styles import palette

NOT_MERGED = 4
"""Exit status if nothing was merged and the user has to act, as of `penstock loop land`."""


def diff_work(root: str | None, records: Sequence[TreeRecord], words: Sequence[str]) -> int:
    """Write the difference between the work of two trees, or what one has changed; return the exit status."""
    repository = _repository(root)
    first, *others = (find_work(repository, records, word) for word in words)
    for work in (first, *others):
        _notify_unsaved(work)
    if others and others[0].base != first.base:
        notify_problem("the trees began with different commits, so the difference between these is in it too")
    old, new = (first.commit, others[0].commit) if others else (first.base, first.commit)
    changes = changes_between(repository.git, old, new)
    if not changes:
        notify_problem("the work of both is the same" if others else f"{first.name} has changed nothing")
    colours = palette(decide(DisplayOptions(), configured(), several=False).color)
    sink_output("text").write(as_diff(changes, Paths(), colours, without_lines="no lines to compare"))
    return OK


def merge_work(root: str | None, records: Sequence[TreeRecord], word: str) -> int:
    """Merge the branch of a tree into the branch that is checked out, or change nothing; return the exit status."""
    repository = _repository(root)
    own = next((record for record in records if record.path == root), None)
    if own is not None:
        what = "this is the directory of an agent, which has nothing of yours to merge into"
        raise UsageError(what, help=f"cd {shlex.quote(own.repository)}")
    work = find_work(repository, records, word)
    _notify_unsaved(work)
    branch = _branch_of(work)
    text = f"{subject_of(repository.git.text('log', '-1', '--format=%s', work.commit))}\n"
    message = with_trailers(text, {"Penstock-Run": work.name, "Penstock-Agent": one_line(work.label)})
    landed = land(repository, work.commit, message, Stamp(repository.author(), now_ms() // 1000))
    if isinstance(landed, NotLanded):
        notify("".join(f"  {one_line(path)}\n" for path in landed.conflicts))
        notify_problem(f"not merged, and nothing was changed: {landed.reason}; {_next_step(landed, branch)}")
        return NOT_MERGED
    if landed.way == "nothing":
        return say(f"{landed.branch} has all of {branch} already.\n")
    say(f"{landed.branch} is at {landed.commit[:10]} ({landed.way.replace('_', '-')} of {branch}).\n")
    return say("clean up: penstock trees clean\n") if work.record is not None else OK


def _repository(root: str | None) -> Repository:
    if root is None:
        raise UsageError("this directory is in no git repository", help="go to the repository of the trees with cd")
    return Repository.at(Path(root))


def _branch_of(work: TreeWork) -> str:
    """Return the branch that can be merged.

    Raises:
        UsageError: there is none, or it is that of a loop, which has checks of its own.
    """
    if work.record is not None and work.record.owner == "loop":
        loop = work.name.partition(".")[0]
        raise UsageError(f"{shown(work.name)} is the tree of a loop", help=f"penstock loop land {loop}")
    if work.branch is not None:
        return work.branch
    if work.is_empty:
        raise UsageError(f"{shown(work.name)} has nothing to merge: no change of it was saved")
    what = f"{shown(work.name)} has no branch: a hook rejected its result, or the branch was deleted"
    raise UsageError(what, help=f"see penstock trees diff {work.name}; git merge {work.commit[:10]} merges it")


def _notify_unsaved(work: TreeWork) -> None:
    """Write which files of a tree are not in its branch."""
    if work.record is None:
        return
    status = status_of(home_of(data_path(), work.record.name))
    if status.state in ("unsaved", "used"):
        notify_problem(f"{work.name}: only what was saved counts: {status.text}")


def _next_step(landed: NotLanded, branch: str) -> str:
    if landed.is_resolvable:
        return f"git merge {shlex.quote(branch)} lets you resolve it"
    return landed.help or "look at git status"
