"""`penstock loop show`: shows one round in full: the replies of its agents, the output of its checks, its changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.cli.console import one_line
from penstock.cli.loop.words import cost_text_of, seconds_text, task_text
from penstock.errors import PenstockError, UsageError
from penstock.loop.agent_run import reply_of
from penstock.loop.loops import LoopFolder, check_log, recording_folder
from penstock.loop.results import result_of
from penstock.loop.rows import AnyRow, StepBegan, StepEnded
from penstock.loop.state import LoopState, Round
from penstock.loop.steps import AgentEnded, CommandEnded, CommitRejected, Committed, RunAgent, RunCheck
from penstock.repo.diffs import patch_between, size_between, stat_between
from penstock.repo.repository import Repository

MAX_FILES = 20
"""Maximum number of changed files that are named; the number of files and the sum of lines include all."""

MAX_DIFF_CHARS = 1_000_000
"""Maximum characters of a diff that are shown: more than a person reads, and `git show` has the rest."""


def round_number(state: LoopState, word: str | None) -> int:
    """Return the number of a round: the newest one by default.

    Raises:
        UsageError: there is no such round.
    """
    count = len(state.rounds)
    if not count:
        raise UsageError(f"the loop {state.began.loop} has no round yet")
    if word is None:
        return count
    if not word.isdecimal() or not 1 <= int(word) <= count:
        expected = "1" if count == 1 else f"1 to {count}"
        raise UsageError(f"the loop {state.began.loop} has no round {one_line(word)}", expected=expected)
    return int(word)


def changes_text(state: LoopState) -> str:
    """Return the files that a loop has changed, and the size of uncommitted changes; "" if there are none."""
    try:
        git = Repository.at(Path(state.began.repository)).git
        head = (
            stat_between(git, state.began.base, state.head, files=MAX_FILES) if state.head != state.began.base else ""
        )
        left = size_between(git, state.head, state.files) if state.files != state.head_tree else None
    except PenstockError:
        return ""  # its commits are gone, or the repository
    lines = [f"  changed:\n{_indented(_indented(head))}"] if head else []
    if left is not None and left.files:
        lost = "-lost" if (work := state.rounds[-1].work) is not None and work.outcome == "lost" else ""
        ref = f"refs/penstock/{state.began.loop}/{len(state.rounds)}{lost}"
        lines.append(f"  not committed:     {left.text}, in {ref}: penstock loop show {state.began.loop} --diff\n")
    return "".join(lines)


def round_text(loop: LoopFolder, rows: Sequence[AnyRow], number: int, *, with_diff: bool) -> str:
    """Return one round in full; or, with `with_diff`, its changes as a patch."""
    it = loop.state.rounds[number - 1]
    if with_diff:
        return _diff(loop.state, it) or "Nothing was changed.\n"
    lines = [f"round {number} of {loop.id}: {' · '.join(_heads(loop.state, it))}\n"]
    lines += [f"task: {one_line(task_text(it.task))}\n"] if it.task else []
    lines += _steps(loop, rows, number)
    lines += _changes(loop.state, it)
    return "".join(lines)


def _heads(state: LoopState, it: Round) -> Iterator[str]:
    yield it.agent
    yield one_line(result_of(state, it))
    yield seconds_text(it.ms)
    if it.cost_usd is not None:
        yield cost_text_of(it.cost_usd)


def _steps(loop: LoopFolder, rows: Sequence[AnyRow], number: int) -> Iterator[str]:
    began: dict[int, StepBegan] = {}
    for row in rows:
        if isinstance(row, StepBegan):
            began[row.step] = row
        elif isinstance(row, StepEnded) and row.step in began:
            yield from _step(loop, began[row.step], row, number)


def _step(loop: LoopFolder, began: StepBegan, ended: StepEnded, number: int) -> Iterator[str]:
    step, result = began.does, ended.result
    if isinstance(step, RunAgent) and isinstance(result, AgentEnded) and step.round == number:
        label = loop.state.settings.candidate_labels[step.candidate - 1] if step.candidate else ""
        who = " of ".join(part for part in (f"{step.role} {step.agent}", label if step.role != "work" else "") if part)
        yield f"\n{one_line(who)} · {_outcome(result)} · {seconds_text(result.ms)}\n"
        reply = reply_of(recording_folder(loop.path, step, began.step)) or result.reply
        yield _indented(result.reason)
        yield _indented(reply)
    elif isinstance(step, RunCheck) and isinstance(result, CommandEnded) and step.round == number:
        again = " again" if step.attempt > 1 else ""
        word = "green" if result.is_green else "red"
        reason = f", {result.reason}" if result.reason else "" if result.is_green else f", status {result.status}"
        yield f"\ncheck {one_line(step.command)}{again} · {word}{one_line(reason)} · {seconds_text(result.ms)}\n"
        yield _indented(_output(check_log(loop.path, step)) or result.output)
    elif isinstance(result, Committed) and getattr(step, "round", 0) == number:
        yield f"\ncommit {result.commit[:10]} · {one_line(result.subject)}\n"
    elif isinstance(result, CommitRejected) and getattr(step, "round", 0) == number:
        yield f"\n{result.hook} rejected the commit\n"
        yield _indented(result.output)
    compared = AgentEnded | CommandEnded | Committed | CommitRejected
    if isinstance(result, compared) and getattr(step, "round", 0) == number:
        changes = (*result.touched, *result.changed)
        yield "".join(f"  your repository: {one_line(text)}\n" for text in changes)


def _outcome(result: AgentEnded) -> str:
    if result.verdict is not None:
        return "approved" if result.verdict.approved else "not approved"
    return result.outcome.replace("_", " ")


def _output(log: Path) -> str:
    try:
        return log.read_text("utf-8", "replace")
    except OSError:
        return ""


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.strip("\n").splitlines())


def _changes(state: LoopState, it: Round) -> Iterator[str]:
    try:
        git = Repository.at(Path(state.began.repository)).git
        stat = stat_between(git, it.head_tree, it.work.tree) if it.has_changed and it.work is not None else ""
    except PenstockError as error:
        yield f"\nThe changes cannot be read: {one_line(error.what)}\n"
        return
    yield f"\nchanges\n{_indented(stat)}" if stat else "\nno changes\n"
    if it.work is not None and it.work.held:
        yield "held back\n" + _indented("\n".join(one_line(f"{one.path}: {one.reason}") for one in it.work.held))


def _diff(state: LoopState, it: Round) -> str:
    if it.work is None or not it.has_changed:
        return ""
    git = Repository.at(Path(state.began.repository)).git
    return patch_between(git, it.head_tree, it.work.tree, MAX_DIFF_CHARS)
