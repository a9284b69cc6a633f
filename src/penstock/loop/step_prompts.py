"""Prompt of a step: the texts of `prompts`, filled with facts about its tree and the repository."""

from __future__ import annotations

import msgspec

from penstock.loop import prompts
from penstock.loop.results import change_text
from penstock.loop.state import LoopState, Round, round_of
from penstock.loop.steps import RunAgent
from penstock.loop.workspace import LoopWorkspace


def prompt_of(step: RunAgent, state: LoopState, workspace: LoopWorkspace) -> str:
    """Return the prompt of an agent's step. `workspace` is that of the loop itself."""
    if step.role == "plan":
        return prompts.plan_prompt(state)
    if step.role == "judge":
        it = state.rounds[step.round - 1]
        return prompts.judge_prompt(state, it, *(_patch(it.candidates[n - 1], workspace) for n in step.pair))
    it = round_of(state, step)
    if step.role == "review":
        assert it.work is not None
        old, new = it.head_tree, it.work.tree
        diff = workspace.patch(old, new, prompts.MAX_DIFF_CHARS) if old != new else ""
        look_at = workspace.look_at(old, new) if old != new else ()
        return prompts.review_prompt(state, it, diff=diff, tests=tuple(map(change_text, look_at)))
    before = state.rounds[it.number - 2] if it.number > 1 else None  # it is the same for all candidates
    stat = workspace.stat(before.head_tree, before.work.tree) if before is not None and before.work else ""
    # The prompt of a round that has just begun is about those before it.
    return prompts.work_prompt(
        msgspec.structs.replace(state, rounds=state.rounds[:-1]),
        step.task,
        commits=workspace.commits(state.head),
        diff_stat=stat,
        conventional=workspace.is_conventional(),
        is_again=it.work is not None,
    )


def _patch(it: Round, workspace: LoopWorkspace) -> str:
    """Return what a candidate has changed."""
    if it.work is None or not it.has_changed:
        return ""
    return workspace.patch(it.head_tree, it.work.tree, prompts.MAX_DIFF_CHARS)
