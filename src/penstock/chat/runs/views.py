"""Views of documents and loops for clients; `docs/gateway-api.md` is the public format."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import events as ev
from penstock.config.ownership import RunVisibility

RunKind = Literal["document", "loop"]
RunState = Literal["running", "asks", "idle"]
StepKind = Literal["tree", "setup", "check", "plan", "work", "review", "judge", "choose", "merge", "commit", "publish"]
StepState = Literal["running", "ok", "failed"]


class RunView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Document or loop, as the list shows it. Times are milliseconds since 1970."""

    id: str
    kind: RunKind
    title: str
    """File name of the document, name of the loop."""
    path: str
    """Path of the document, directory of the loop's repository."""
    state: RunState
    """`asks`: it waits for a person."""
    note: str
    """The state in words: "new text", "stopped"."""
    used_at: int
    """Time of its last change."""
    agent: str | None = None
    """Agent of the last reply."""
    person: str
    """Person to whom it belongs."""
    visibility: RunVisibility
    """Who sees it besides its person and the owners: nobody, or the team."""


class LoopStepView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Step of a loop."""

    step: int
    kind: StepKind
    state: StepState
    round: int = 0
    """Number of its round; 0: before the first one."""
    turn: int | None = None
    """Turn of the agent, for an agent's step."""
    agent: str | None = None
    candidate: str | None = None
    """Name of the candidate that the step is about."""
    text: str = ""
    """Command of a check, commit that is merged, subject of a commit, branch that was published, path of the tree,
    chosen candidate."""
    note: str = ""
    """Result in words, if it is more than success or failure."""
    remarks: list[str] = []
    """Remarks of a reviewer."""
    began_at: int = 0
    ms: int | None = None
    """Duration in milliseconds."""
    status: int | None = None
    """Exit status of a command."""
    has_output: bool = False
    """True if its output can be requested."""
    cost_usd: float | None = None


class LoopCandidateView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Result of a candidate in a round."""

    name: str
    result: str
    """Result in words, as that of a round."""
    changes: str
    """Size of its changes in words: "1 file, +3 −1"."""
    ms: int = 0
    cost_usd: float | None = None
    ref: str = ""
    """Ref in the repository that has its result; "" if it has none."""
    chosen: str | None = None
    """Why it was chosen, if it was."""


class LoopRoundView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Round of a loop."""

    round: int
    result: str
    """Result in words: "green", "red: make test"."""
    is_over: bool = False
    task: str | None = None
    ms: int = 0
    cost_usd: float | None = None
    commit: str | None = None
    has_changes: bool = False
    """True if its changes can be requested."""
    candidates: list[LoopCandidateView] = []


class LoopMessageView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Message of the user to a loop."""

    text: str
    round: int = 0
    """Number of rounds when it was read."""
    is_read: bool = False


class LoopView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """State of a loop."""

    prompt: str
    branch: str
    begun_at: int
    rounds: list[LoopRoundView]
    steps: list[LoopStepView]
    messages: list[LoopMessageView]
    ms: int
    """Milliseconds of work."""
    cost_usd: float
    """Known cost in US dollars."""
    max_rounds: int
    charged_rounds: int
    """Rounds that count for `max_rounds`."""
    is_cost_known: bool = False
    """True if all agents report what they cost."""
    max_cost_usd: float | None = None
    max_ms: int | None = None
    tasks: list[str] = []
    finished_tasks: list[str] = []
    question: str | None = None
    """Question that waits for a person."""
    plan: list[str] | None = None
    """Plan that waits for the approval of a person."""
    waits_until: int | None = None
    is_stopping: bool = False
    """True if a stop was requested and the run has not ended."""
    status: int | None = None
    """Exit status, if it has ended."""
    reason: str | None = None
    """Why it has ended."""
    can_land: bool = False
    """True if it does not run and its result is not in a branch of the user yet."""
    landed: str | None = None
    """Branch that has its work."""


class RunDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """Document or loop, with the state of the loop."""

    run: RunView
    loop: LoopView | None = None


class RunChanged(msgspec.Struct, frozen=True, omit_defaults=True, tag="run"):
    """State of a document or loop; it replaces the one before."""

    run: RunView
    loop: LoopView | None = None


class StepOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """Output of a command of a loop."""

    output: str
    shortened: int = 0
    """Number of characters that are left out at its beginning."""


class RoundChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of a round against the last green commit before it."""

    changes: list[ev.Change]
    more_changes: int = 0
    """Number of files that are left out."""
