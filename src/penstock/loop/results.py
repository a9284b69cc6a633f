"""Results of loops and rounds in words, for people: the terminal and the page use the same."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.loop.state import LoopState, Round
from penstock.loop.steps import FileChange

RESULTS = {
    "work": "not finished",
    "candidates": "not finished",
    "check": "not finished",
    "review": "not finished",
    "commit": "not finished",
    "publish": "not published",
    "failed": "agent failed",
    "red": "red",
    "conflict": "conflict left",
    "held": "files held back",
    "not_approved": "not approved",
    "green": "green",
    "approved": "approved",
    "unchanged": "no change",
    "refused": "edits denied",
}
"""Words for the stages of a round."""

UNDER_WAY = ("candidates", "check", "review", "commit", "publish")
"""Stages after which a round continues."""

MAX_PUT_BACK = 10
"""Maximum number of restored files that are named in one line; a person does not read more."""

MAX_COMMAND_CHARS = 40
"""Characters of a command that are named, so that a row fits into a usual terminal."""


MAX_REPOSITORY_LINES = 200
"""Lines about changes of the user's repository at the end: more than a person undoes one by one."""

MAX_SHOWN_CHANGES = 12
"""Changed tests and build files that one line names; `status --json` has them all."""


def change_text(one: FileChange) -> str:
    """Return the change of a test, or of a file that a check reads, as a phrase for people."""
    if one.change != "changed":
        return f"{one.path} ({one.change})"
    if one.is_read:
        return f"{one.path} (the check runs it)"
    return f"{one.path} +{one.added} −{one.removed}" if one.added or one.removed else f"{one.path} (changed)"


def proof_lines(state: LoopState) -> list[str]:
    """Return the lines about changed tests and build files in the result of a loop."""
    if not state.look_at:
        return []
    shown = [change_text(one) for one in state.look_at[:MAX_SHOWN_CHANGES]]
    left = len(state.look_at) - len(shown)
    lines = ["look at: " + " · ".join([*shown, *([f"and {left:,} more"] if left else [])])]
    results = state.current_base_tests.results
    red = [check for check, result in zip(state.settings.checks, results, strict=False) if not result.is_green]
    if red:
        lines.append("not green with the tests of the base: " + "; ".join(red))
    elif results and len(results) == len(state.settings.checks):
        lines.append("also green with the tests of the base")
    return lines


def repository_lines(state: LoopState) -> list[str]:
    """Return the changes of the user's repository that were seen, as lines, but those that the end's reason has."""
    reason = state.ended.reason if state.ended is not None else ""
    left = [text for text in state.repository_changes if text not in reason]
    lines = [f"your repository: {text}" for text in left[:MAX_REPOSITORY_LINES]]
    if len(left) > len(lines):
        lines.append(f"your repository: and {len(left) - len(lines):,} more, which `penstock loop status --json` has")
    return lines


def landing_line(state: LoopState) -> str:
    """Return the completed part of the work, as a phrase for people; "" for all of it."""
    parts = []
    if state.tasks:
        parts.append(f"{len(state.finished_tasks.intersection(state.tasks))} of {len(state.tasks)} tasks")
    if state.ended is None:
        parts.append("the loop was interrupted")
    elif state.ended.status:
        parts.append(f"the loop was not done ({state.ended.reason})")
    elif state.ended.reason != "done":
        parts.append(state.ended.reason)
    return "; ".join(parts)


def is_over(state: LoopState, it: Round) -> bool:
    """Return whether a round has ended; the last one may wait for an agent that could not work yet."""
    stage = state.stage(it)
    return stage not in UNDER_WAY and not (stage == "work" and it.number == len(state.rounds))


def result_of(state: LoopState, it: Round) -> str:
    """Return the result of a round in words."""
    stage = state.stage(it)
    if stage == "red":
        command = it.red_command.strip().partition("\n")[0]
        short = command if len(command) <= MAX_COMMAND_CHARS else command[: MAX_COMMAND_CHARS - 1] + "…"
        return f"red: {short}" + (", settings put back" if it.put_back_settings else "")
    if stage == "failed" and it.work is not None and it.work.unusable:
        return "cannot be used"
    if stage == "failed" and it.work is not None and it.work.outcome == "lost":
        return "lost"
    return (
        RESULTS[stage] + (", flaky check" if it.flaky else "") + (", settings put back" if it.put_back_settings else "")
    )


def put_back_text(paths: Sequence[str]) -> str:
    """Return the files that were put back, as a phrase for people; "" if there are none."""
    if not paths:
        return ""
    shown = ", ".join(paths[:MAX_PUT_BACK])
    more = f" and {len(paths) - MAX_PUT_BACK:,} more" if len(paths) > MAX_PUT_BACK else ""
    return f"put back: {shown}{more} ({'they' if len(paths) > 1 else 'it'} would start programs for other agents)"


def candidate_result_of(state: LoopState, one: Round) -> str:
    """Return the result of a candidate in words."""
    if one.work is None:
        return "could not work" if one.sits_out else "not finished"
    stage = state.stage(one)
    if stage == "commit":
        return "green" + (", approved" if one.reviews else "") + (", flaky check" if one.flaky else "")
    return result_of(state, one)


def size_text(one: Round) -> str:
    """Return the size of what a candidate has changed, as a phrase for people."""
    if one.work is None:
        return "–"
    size = one.work.size
    files = f"{size.files} file{'s' * (size.files != 1)}"
    return f"{files}, +{size.added} −{size.removed}" if size.files else "no changes"


def candidate_ref(state: LoopState, it: Round, number: int) -> str:
    """Return the ref in the user's repository that has what a candidate left in a round."""
    work = it.candidates[number - 1].work
    lost = "-lost" if work is not None and work.outcome == "lost" else ""
    return f"refs/penstock/{state.began.loop}.{state.settings.candidate_labels[number - 1]}/{it.number}{lost}"
