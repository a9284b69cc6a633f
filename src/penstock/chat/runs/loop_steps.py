"""Views of the steps of a loop, from the rows of their begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.chat.runs.views import LoopStepView, StepKind
from penstock.loop.rows import StepBegan, StepEnded
from penstock.loop.steps import (
    AgentEnded,
    BranchMerged,
    BranchPublished,
    CandidateChosen,
    ChooseCandidate,
    CommandEnded,
    CommitRejected,
    Committed,
    MakeCommit,
    MakeTree,
    MergeBranch,
    Publish,
    PublishRejected,
    ResetTree,
    RunAgent,
    RunCheck,
    RunSetup,
    TreeMade,
    TreeReset,
)

COMMIT_CHARS = 10
"""Characters of a commit's id that are shown."""


def began_view(row: StepBegan, labels: Sequence[str] = ()) -> LoopStepView:
    """Return the view of a step that has begun. `labels`: names of the candidates."""
    kind: StepKind
    fields: dict[str, Any] = {}
    match row.does:
        case MakeTree():
            kind = "tree"
        case RunSetup(command):
            kind, fields = "setup", {"text": command}
        case RunCheck() as check:
            kind, fields = "check", {"text": check.command, "round": check.round}
            notes = ["with the tests of the base"] * check.with_base + ["again"] * (check.attempt > 1)
            fields["note"] = ", ".join(notes)
        case ResetTree():
            kind, fields = "tree", {"text": "as the last round left it"}
        case ChooseCandidate() as choice:
            kind, fields = "choose", {"round": choice.round, "text": labels[choice.candidate - 1]}
            fields["note"] = choice.reason
        case RunAgent(role="judge") as step:
            pair = " and ".join(labels[number - 1] for number in step.pair)
            kind, fields = "judge", {"agent": step.agent, "round": step.round, "note": pair}
        case RunAgent() as step:
            kind, fields = step.role, {"agent": step.agent, "round": step.round, "text": step.task or ""}
        case MergeBranch(commit=merged):
            kind, fields = "merge", {"text": merged[:COMMIT_CHARS]}
        case MakeCommit() as commit:
            kind, fields = "commit", {"round": commit.round}
        case Publish() as publish:
            kind, fields = "publish", {"round": publish.round}
    candidate = getattr(row.does, "candidate", 0)
    if candidate and kind != "choose":
        fields["candidate"] = labels[candidate - 1]
    return LoopStepView(step=row.step, kind=kind, state="running", began_at=row.at, **fields)


def ended_view(view: LoopStepView, row: StepEnded) -> LoopStepView:
    """Return the view of a step that has ended."""
    took = max(0, row.at - view.began_at)
    match row.result:
        case TreeReset() | CandidateChosen():
            return replace(view, state="ok", ms=took)
        case TreeMade(path):
            return replace(view, state="ok", text=path, ms=took)
        case CommandEnded() as command:
            return replace(
                view,
                state="ok" if command.is_green else "failed",
                note=", ".join(part for part in (view.note, command.reason) if part),
                ms=command.ms,
                status=command.status,
                has_output=bool(command.output),
            )
        case AgentEnded() as agent:
            return _agent_view(view, agent)
        case BranchMerged(conflicts):
            note = f"conflicts: {', '.join(conflicts)}" if conflicts else ""
            return replace(view, state="ok", note=note, ms=took)
        case Committed() as made:
            return replace(view, state="ok", text=f"{made.commit[:COMMIT_CHARS]} {made.subject}".strip(), ms=took)
        case CommitRejected() as rejected:
            note = f"{rejected.hook} rejected it"
            return replace(view, state="failed", note=note, ms=took, has_output=bool(rejected.output))
        case BranchPublished() as published:
            return replace(view, state="ok", text=published.branch, note=published.reason, ms=took)
        case PublishRejected(reason):
            return replace(view, state="failed", note=reason, ms=took)


def _agent_view(view: LoopStepView, ended: AgentEnded) -> LoopStepView:
    is_ok = ended.outcome == "ok"
    notes = [view.note] if view.note else []
    notes += [] if is_ok else [ended.reason or ended.outcome.replace("_", " ")]
    remarks: list[str] = []
    if is_ok and ended.verdict is not None:
        notes.append("approved" if ended.verdict.approved else "not approved")
        remarks += ended.verdict.remarks
    notes += [f"held back: {it.path} ({it.reason})" for it in ended.held]
    notes += [f"not allowed: {it}" for it in ended.refused]
    remarks += ended.touched
    return replace(
        view,
        state="ok" if is_ok else "failed",
        note=", ".join(notes),
        remarks=remarks,
        ms=ended.ms,
        cost_usd=ended.cost_usd,
    )
