"""Steps of a loop, and their results. A step is written to the journal before it begins, its result when it has ended.

A step says all that is needed to do it again after a crash: the time stamp and the parent of a commit, the old and the
new value of a ref.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.events import Cause

Role = Literal["plan", "work", "review", "judge"]
"""Task of an agent in a loop."""

AgentOutcome = Literal["ok", "error", "cancelled", "timed_out", "cut_off", "empty", "lost"]
"""Outcome of an agent's step: that of its run, or `lost` if Penstock was killed meanwhile."""

MAX_REPLY_CHARS = 2_000
"""Characters at the end of a reply that the journal keeps: the next round reads them."""

MAX_SUMMARY_CHARS = 200
"""Characters of the first line of a reply that the journal keeps: more than the subject of a commit has."""

MAX_OUTPUT_CHARS = 6_000
"""Characters at the end of a check's output that the journal keeps: a failure is reported there."""


class JournalStruct(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, kw_only=True):
    """Options of all structs of the journal."""


# --- steps -------------------------------------------------------------------------------------------


class MakeTree(JournalStruct, frozen=True, tag="make_tree"):
    """Make the tree of the loop, or that of a candidate."""

    candidate: int = 0
    """Number of the candidate, from 1; 0: the tree of the loop itself. It means the same in all steps."""
    tree: str = ""
    """Tree of git whose files it gets; "": the base."""


class RunSetup(JournalStruct, frozen=True, tag="setup"):
    """Run the user's command that makes the tree ready to work in."""

    command: str
    candidate: int = 0


class ResetTree(JournalStruct, frozen=True, tag="reset_tree"):
    """Put the files with which a round begins into the tree of a candidate."""

    candidate: int
    tree: str
    held: tuple[str, ...] = ()
    """Paths that were held back in it, which are moved to the folder of the loop."""


class RunCheck(JournalStruct, frozen=True, tag="check"):
    """Run a check."""

    round: int
    """Number of the round; 0 is the base."""
    number: int
    """Number of the check in the settings, from 0."""
    command: str
    attempt: int = 1
    """2: the check was red, and is run again at once."""
    candidate: int = 0
    with_base: bool = False
    """The last green commit is checked, with the tests and build files of the base in the place of its own."""


class RunAgent(JournalStruct, frozen=True, tag="agent"):
    """Run an agent."""

    role: Role
    round: int
    agent: str
    number: int = 0
    """Number of the reviewer in the settings, from 0."""
    task: str | None = None
    """Text of the open box that the round works on; None: the whole."""
    session_id: str | None = None
    """Conversation that is resumed."""
    cost_left: float | None = None
    """US dollars that the step may cost."""
    tokens_left: int | None = None
    """Tokens that the step may use."""
    ms_left: int | None = None
    """Milliseconds that the step may take."""
    candidate: int = 0
    pair: tuple[int, int] = (0, 0)
    """Candidates that a judge compares, in the order in which they are shown."""


class MergeBranch(JournalStruct, frozen=True, tag="merge_branch"):
    """Merge the user's branch into the tree, with the marks of conflicts, which the next round resolves."""

    commit: str
    """Commit of the user's branch."""
    head: str
    """Last green commit of the loop."""


class ChooseCandidate(JournalStruct, frozen=True, tag="choose"):
    """Make the result of a candidate that of its round, and put its files into the tree of the loop."""

    round: int
    candidate: int
    tree: str
    reason: str
    """Why it is the best."""


class MakeCommit(JournalStruct, frozen=True, tag="commit"):
    """Make a commit of a green round. The same step always makes the same commit."""

    round: int
    tree: str
    parent: str
    at: int
    """Time of the commit, in milliseconds since 1970."""
    agent: str
    task: str | None = None
    merges: str = ""
    """Commit of the user's branch that becomes the second parent."""


class Publish(JournalStruct, frozen=True, tag="publish"):
    """Move the branch of the loop from `old` to `commit`."""

    round: int
    commit: str
    old: str


Step = MakeTree | RunSetup | ResetTree | RunCheck | RunAgent | ChooseCandidate | MergeBranch | MakeCommit | Publish

# --- results -----------------------------------------------------------------------------------------


class TreeMade(JournalStruct, frozen=True, tag="tree_made"):
    """The tree is there."""

    path: str
    uncommitted: int = 0
    """Number of files that differ from the base in the user's checkout, so that the tree does not have them."""
    left_out: tuple[str, ...] = ()
    """Those that the snapshot of the checkout does not have either: very large files and nested repositories."""


class TreeReset(JournalStruct, frozen=True, tag="tree_reset"):
    """The tree of a candidate has the files with which the round begins."""


class PutBackFile(JournalStruct, frozen=True):
    """A file by which agents are ruled, and which was put back as it was before the first agent worked."""

    path: str
    """Path from the top; a directory that was new, with all that is in it, ends with a slash."""
    what: Literal["added", "changed", "removed"] = "changed"
    """What was done to it."""


class CommandEnded(JournalStruct, frozen=True, tag="command_ended"):
    """A check or the setup has ended."""

    status: int | None = None
    """Exit status; None if it was ended because of its time limit, or could not be started."""
    ms: int = 0
    """Duration in milliseconds."""
    output: str = ""
    """End of its output, stdout and stderr."""
    reason: str = ""
    """Why there is no exit status."""
    touched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    """All three as in `AgentEnded`: a check runs the agent's code."""
    put_back_settings: tuple[PutBackFile, ...] = ()
    """As in `AgentEnded`."""

    @property
    def is_green(self) -> bool:
        """Whether it succeeded. The exit status alone decides."""
        return self.status == 0


class ReviewVerdict(JournalStruct, frozen=True):
    """Judgement of a reviewer."""

    approved: bool
    remarks: tuple[str, ...] = ()


class ChangeSize(JournalStruct, frozen=True):
    """Size of what a candidate has changed since the last green commit; binary files count no lines."""

    files: int = 0
    added: int = 0
    removed: int = 0


class HeldPath(JournalStruct, frozen=True):
    """An uncommitted path, and the reason."""

    path: str
    reason: str
    is_final: bool = False
    """True if git cannot commit it, which rules out accepting it."""


class FileChange(JournalStruct, frozen=True):
    """Change of a test, or of a file that a check reads, since the base."""

    path: str
    change: Literal["new", "changed", "removed"]
    is_read: bool = False
    """A check runs or reads it; False: a test, by its name."""
    added: int = 0
    removed: int = 0
    """Lines, both 0 for a binary file."""


class AgentEnded(JournalStruct, frozen=True, tag="agent_ended"):
    """An agent has ended."""

    outcome: AgentOutcome
    tree: str = ""
    """Tree that the agent left, without what is held back, and with the protected files as they were."""
    ms: int = 0
    """Duration in milliseconds."""
    reply: str = ""
    """End of its reply."""
    summary: str = ""
    """First line of its reply that has text, for the message of a commit."""
    reason: str = ""
    """Why it did not end well."""
    cause: Cause | None = None
    resets_at: int | None = None
    session_id: str | None = None
    cost_usd: float | None = None
    """Cost in US dollars; None if unknown, which is not 0."""
    tokens: int | None = None
    """Tokens of input and output; None if unknown."""
    question: str = ""
    """Question for a person, which ended the step."""
    unusable: str = ""
    """Why what a worker left cannot be used, whatever the outcome: git cannot store it, or the tree was replaced."""
    refused: tuple[str, ...] = ()
    """Edits that were denied."""
    denied: int = 0
    """Number of other actions that were denied, such as commands."""
    conflicts: tuple[str, ...] = ()
    """Files that still have marks of a conflict."""
    held: tuple[HeldPath, ...] = ()
    """Paths that are held back from commits."""
    put_back: tuple[str, ...] = ()
    """Protected files that were changed, removed or added, and put back."""
    touched: tuple[str, ...] = ()
    """Harm to the user's repository during the step, each with how to restore it."""
    changed: tuple[str, ...] = ()
    """Other changes of it, which users make as well, each with how to undo it."""
    aside: tuple[str, ...] = ()
    """What was put aside of the tree, as git would wait for it, or as it was not Penstock's: why, and where it is."""
    put_back_settings: tuple[PutBackFile, ...] = ()
    """Files that would start or redirect something for other agents, and were put back after the step."""
    verdict: ReviewVerdict | None = None
    """Judgement, of a reviewer."""
    tasks: tuple[str, ...] = ()
    """Tasks, of a planner."""
    size: ChangeSize = ChangeSize()
    """Size of the changes, of a candidate."""
    better: int = 0
    """Choice of a judge: 1 or 2, as the two were shown; 0: none."""


class CandidateChosen(JournalStruct, frozen=True, tag="chosen"):
    """The round has the result of the candidate."""


class BranchMerged(JournalStruct, frozen=True, tag="branch_merged"):
    """The files of the tree are those of the merge."""

    conflicts: tuple[str, ...] = ()
    """Files that both sides have changed."""


class Committed(JournalStruct, frozen=True, tag="committed"):
    """The commit exists."""

    commit: str
    tree: str
    """Its tree, which hooks may have changed."""
    subject: str = ""
    look_at: tuple[FileChange, ...] = ()
    """Tests, and files that the checks read, that differ from the base."""
    touched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Both as in `AgentEnded`: a hook may run the agent's code."""
    put_back_settings: tuple[PutBackFile, ...] = ()
    """As in `AgentEnded`."""


class CommitRejected(JournalStruct, frozen=True, tag="commit_rejected"):
    """A hook of the user's rejected the commit."""

    hook: str
    output: str = ""
    touched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class BranchPublished(JournalStruct, frozen=True, tag="published"):
    """The branch has the commit; `branch` is empty if only the ref of the loop could be moved."""

    branch: str = ""
    reason: str = ""
    """Why the branch was not moved."""


class PublishRejected(JournalStruct, frozen=True, tag="publish_rejected"):
    """Another program has moved the branch."""

    reason: str


Result = (
    TreeMade
    | TreeReset
    | CommandEnded
    | AgentEnded
    | CandidateChosen
    | BranchMerged
    | Committed
    | CommitRejected
    | BranchPublished
    | PublishRejected
)
