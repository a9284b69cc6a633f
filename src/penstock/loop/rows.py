"""Rows of the journal: everything that a loop knows about itself.

A row is one JSON object with `row` first. Rows are numbered from 1 without a gap. The first one has the version of the
format and the settings, which never change; budgets can be raised by later rows.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from penstock.adapter import Allow
from penstock.loop.steps import JournalStruct, Result, Step
from penstock.run.network import Network
from penstock.run.sandbox import Sandbox

VERSION = 1
"""Version of the format. A journal of another version is rejected, never read in part."""

DEFAULT_ROUNDS = 10
"""Rounds of work if the user sets no number: enough for a day's task, and a bound for what it can cost."""


class LoopBudget(JournalStruct, frozen=True):
    """Limits over the whole loop: all agents, all rounds, all processes that ran it. None: no limit."""

    rounds: int = DEFAULT_ROUNDS
    ms: int | None = None
    """Milliseconds of work. Waiting for a limit to reset does not count, nor does the time between two processes."""
    cost_usd: float | None = None
    tokens: int | None = None


class RoleAgents(JournalStruct, frozen=True):
    """Agents of one role, in the order of preference, and how they are run."""

    agents: tuple[str, ...]
    model: str | None = None
    allow: Allow = "edits"
    route: Literal["exec", "server", "acp"] | None = None


class Settings(JournalStruct, frozen=True):
    """Settings of a loop, frozen at its start."""

    work: RoleAgents
    checks: tuple[str, ...] = ()
    """Commands, in order."""
    unchecked: bool = False
    """The user wants a loop without checks."""
    reviews: tuple[RoleAgents, ...] = ()
    """Reviewers; all of them have to approve."""
    candidates: tuple[str, ...] = ()
    """Agents that work side by side in each round, each in a tree of its own; the best result is that of the round.

    None: the agents of `work` are a chain. What `work` has besides its agents counts for candidates as well.
    """
    judge: RoleAgents | None = None
    """Agent that compares candidates with equal checks and reviews."""
    plan: RoleAgents | None = None
    plan_is_asked: bool = False
    """The user approves the plan before work begins."""
    setup: str = ""
    copy_globs: tuple[str, ...] = ()
    """Ignored files that are copied into the tree."""
    protect: tuple[str, ...] = ()
    """Files that are put back as they were before each check."""
    reads: tuple[str, ...] = ()
    """Patterns of other files that the checks read; their changes are named in reports."""
    accept: tuple[str, ...] = ()
    """Paths, patterns and directories that are committed whatever is held back by rule."""
    keep_session: bool = False
    """All rounds are one conversation."""
    hooks: bool = True
    """The user's commit hooks are run."""
    sign: bool = False
    """Commits are signed, as git is configured to do it."""
    sandbox: Sandbox = "auto"
    """Confinement of agents and commands."""
    network: Network = "all"
    """Network of confined agents; a restricted one confines them."""
    check_network: Network = "none"
    """Network of confined checks."""
    wait_ms: int = 0
    """Milliseconds to wait at most until a limit of the agents resets."""
    step_seconds: float | None = None
    """Time limit of one agent's step in seconds."""
    check_seconds: float | None = None
    """Time limit of one check in seconds; None: the default of `checks`."""
    budget: LoopBudget = LoopBudget()

    @property
    def candidate_labels(self) -> tuple[str, ...]:
        """Names of the candidates in paths and refs: those of their agents, with a number if one is there twice."""
        labels: list[str] = []
        for agent in self.candidates:
            name = re.sub(r"[^a-z0-9]+", "-", agent.lower()).strip("-") or "agent"
            others = sum(label.rpartition("-")[0] == name or label == name for label in labels)
            labels.append(f"{name}-{others + 1}" if others else name)
        return tuple(labels)


class JournalRow(JournalStruct, frozen=True, tag_field="row"):
    """Fields of all rows."""

    n: int
    """Number, from 1."""
    at: int
    """Time in milliseconds since 1970."""


class LoopBegan(JournalRow, frozen=True, tag="loop_began"):
    """The loop begins."""

    version: int
    loop: str
    """Id of the loop."""
    repository: str
    """Directory of the user's checkout."""
    base: str
    """Commit from which the loop works."""
    base_tree: str
    """Tree of that commit."""
    branch: str
    """Branch that gets the green rounds."""
    prompt_path: str
    prompt: str
    """Text of the prompt."""
    settings: Settings
    penstock: str = ""
    """Version of Penstock."""
    marks: tuple[str, ...] = ()
    """Starter of the process that began the loop: an agent, or a check of another loop."""
    directory: str = ""
    """Directory of the repository in which agents, checks and the setup start; "": its top."""


class StepBegan(JournalRow, frozen=True, tag="step_began"):
    """A step begins. `step` counts from 1."""

    step: int
    does: Step


class StepEnded(JournalRow, frozen=True, tag="step_ended"):
    """A step has ended."""

    step: int
    result: Result


class Waiting(JournalRow, frozen=True, tag="waiting"):
    """The loop waits until a time, in milliseconds since 1970."""

    until: int
    reason: str


class MessageAdded(JournalRow, frozen=True, tag="message"):
    """The user wrote to the agents, or answered a question."""

    text: str
    letter: str = ""
    """Id of the letter of the inbox, which is read only once."""
    is_held: bool = False
    """It came while an agent or a check worked, and counts when a person confirms it."""


class PromptChanged(JournalRow, frozen=True, tag="prompt_changed"):
    """The user has edited the prompt."""

    prompt: str
    is_held: bool = False
    """As for a message. An empty text then means that the edit was taken back."""


class HeldDecided(JournalRow, frozen=True, tag="held_decided"):
    """A person has confirmed or discarded what was held."""

    is_confirmed: bool
    prompt: str = ""
    """Text of the prompt that counts, or does not count, from now on; "" if it is about messages alone."""
    letters: tuple[str, ...] = ()
    """Ids of the letters with the messages."""


class LoopStopRequested(JournalRow, frozen=True, tag="stop_requested"):
    """The loop is to end after the step; `status` is its exit status."""

    status: int
    by: Literal["signal", "command", "page"] = "signal"


class LoopResumed(JournalRow, frozen=True, tag="loop_resumed"):
    """The loop is resumed, after an end or a crash, with these additions to its budget.

    A limit that it did not have counts from here on.
    """

    rounds: int = 0
    ms: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    accepts: tuple[str, ...] = ()
    """Further paths as in `Settings.accept`."""
    merges: str = ""
    """Commit of the user's branch with which the next round resolves the conflicts."""
    merges_name: str = ""
    """Name of that branch."""


class TreeGone(JournalRow, frozen=True, tag="tree_gone"):
    """A tree was removed or abandoned; it is made again. A step that was open in it begins again then."""

    candidate: int = 0
    """Number of the candidate, from 1; 0: the tree of the loop itself."""
    path: str = ""
    """Directory that was abandoned, and is left as it is; "" if it is gone."""
    reason: str = ""
    """Why, as a phrase after the name of the tree."""


class LoopEnded(JournalRow, frozen=True, tag="loop_ended"):
    """The loop has ended with an exit status."""

    status: int
    reason: str
    resets_at: int | None = None
    """Time at which the first agent can be used again, if all are at their limits; in milliseconds since 1970."""


class LoopLanded(JournalRow, frozen=True, tag="landed"):
    """The user's branch has the work."""

    commit: str
    into: str
    how: Literal["nothing", "fast_forward", "merge", "squash"]


AnyRow = (
    LoopBegan
    | StepBegan
    | StepEnded
    | Waiting
    | MessageAdded
    | PromptChanged
    | HeldDecided
    | LoopStopRequested
    | LoopResumed
    | TreeGone
    | LoopEnded
    | LoopLanded
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyRow).decode


def encode(row: AnyRow) -> bytes:
    """Return a row as one line, with its newline. Lone surrogates become U+FFFD: JSON has none."""
    try:
        return _encode(row) + b"\n"
    except UnicodeEncodeError:
        return _encode(_decode(_without_surrogates(row))) + b"\n"


def decode(line: bytes) -> AnyRow:
    """Return the row of one line.

    Raises:
        msgspec.DecodeError: the line is not a row of this version.
    """
    row: AnyRow = _decode(line)
    return row


def _without_surrogates(row: AnyRow) -> bytes:
    def clean(value: object) -> object:
        if isinstance(value, str):
            return value.encode("utf-8", "replace").decode()
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list | tuple) else value

    return _encode(clean(msgspec.to_builtins(row, str_keys=True)))
