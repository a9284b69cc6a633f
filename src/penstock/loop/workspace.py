"""Tree of a loop, and what the loop writes into the user's repository: its own refs and its branch."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.config.data import write_private
from penstock.errors import UsageError
from penstock.loop.check_files import changes_to_look_at
from penstock.loop.loops import tree_names
from penstock.loop.project_guard import ProjectGuard
from penstock.loop.prompts import is_conventional
from penstock.loop.reach import hidden_variables
from penstock.loop.rows import LoopBegan
from penstock.loop.state import LoopState
from penstock.loop.steps import (
    MAX_OUTPUT_CHARS,
    AgentEnded,
    BranchMerged,
    BranchPublished,
    ChangeSize,
    ChooseCandidate,
    CommandEnded,
    CommitRejected,
    Committed,
    FileChange,
    HeldPath,
    MakeCommit,
    MergeBranch,
    Publish,
    PublishRejected,
    PutBackFile,
    TreeMade,
)
from penstock.repo.base_files import BaseFiles
from penstock.repo.commit import HookResult, Stamp, commit_tree, run_hooks, subject_of, with_trailers
from penstock.repo.diffs import lines_between, patch_between, paths_between, size_between, stat_between
from penstock.repo.git import Git, GitError
from penstock.repo.landing import merge_trees
from penstock.repo.place import TreeAbandoned, changing
from penstock.repo.protected import Difference, Protected, differences, keep, read_protected
from penstock.repo.refs import RefMoved, publish, set_ref
from penstock.repo.repository import Author, Repository
from penstock.repo.snapshot import CheckoutSnapshot, keep_snapshot, snapshot
from penstock.repo.staging import add_paths, stage, unstage_held
from penstock.repo.tree import Tree, TreeRecord, abandon, free_place, read_record
from penstock.repo.trees import home_of
from penstock.run.inside import FOLDER_MARK

MAX_SHOWN_COMMITS = 50
"""Commits that a prompt lists."""

MAX_SUBJECTS = 20
"""Commits of the user's that are looked at for the form of their subjects."""

MAX_PUT_BACK = 50
"""Protected files whose names are kept; more of them say nothing more."""

MAX_LOOK_AT = 1_000
"""Changed tests and build files that are kept."""

MAX_TOGETHER = 100
"""Number of differences of the user's repository named before the one command to restore them all: more than a person
makes of settings and hooks, and no flood."""

MAX_REASON_CHARS = 500
"""Characters of git's messages that the reason of a round has: the next agent needs the names of files."""

PROTECTED_STATE = "protected.json"
KEPT = "kept"


_Ended = TypeVar("_Ended", AgentEnded, CommandEnded, Committed, CommitRejected)


class RepositoryChanges(msgspec.Struct, frozen=True):
    """Changes of the user's repository, each with the command that restores or undoes it."""

    touched: tuple[str, ...] = ()
    """Harm: what a user's own work rarely does."""
    changed: tuple[str, ...] = ()

    def added_to(self, ended: _Ended) -> _Ended:
        """Return the result of a step with these changes."""
        return msgspec.structs.replace(ended, touched=self.touched, changed=self.changed)


class TakenFiles(msgspec.Struct, frozen=True):
    """Files that an agent left in a tree."""

    tree: str
    """Tree of git with them, with the protected files as they were."""
    held: tuple[HeldPath, ...] = ()
    put_back: tuple[str, ...] = ()


class CannotStore(UsageError):
    """Git cannot store what is in a tree: a file that it cannot read, or an attribute that it cannot follow."""

    def __init__(self, error: GitError) -> None:
        reason = " ".join(error.stderr.split())[:MAX_REASON_CHARS] or error.what
        super().__init__(f"git cannot store this: {reason}")


class LoopWorkspace:
    """Tree of a loop. Its home is among those of all trees, so that one rule lists and removes them.

    Args:
        data: the data directory.
        folder: folder of the loop.
        began: first row of the loop.
        candidate: number of the candidate whose tree it is, from 1; 0: the tree of the loop itself.
    """

    def __init__(self, data: Path, folder: Path, began: LoopBegan, candidate: int = 0) -> None:
        self.folder = folder
        self.began = began
        self.repository: Repository = Repository.at(Path(began.repository))
        self._candidate = candidate
        self._name = tree_names(began.settings, began.loop)[candidate]
        self._home = home_of(data, self._name)
        self._tree: Tree | None = None
        self._lock = -1
        self._author: Author | None = None
        self.project: ProjectGuard = ProjectGuard(self._home, lambda: self.tree)
        """Guard over the files that rule agents."""
        self._reported: set[tuple[str, str]] = set()
        """Changes of the user's repository since `keep_state` that were returned."""

    @property
    def tree(self) -> Tree:
        """The tree.

        Raises:
            TreeAbandoned: it is gone, or was replaced.
            UsageError: it was never made, or another process works in it.
        """
        if self._tree is None:
            self._tree = Tree.open(self._home)
        if self._lock < 0:
            self._lock = self._tree.lock()
            self._tree.remove_stale_lock()
        return self._tree

    def directory(self) -> Path | None:
        """Return the directory for a process, in which all work, made again if an agent has removed it.

        None if something else is in its place, such as a link, which could lead anywhere. Call it while nothing runs in
        the tree.
        """
        place = self.tree.hand_over()
        for part in Path(self.began.directory).parts:
            place /= part
            try:
                mode = os.lstat(place).st_mode
            except FileNotFoundError:
                place.mkdir()
            else:
                if not stat.S_ISDIR(mode):
                    return None
        return place

    def close(self) -> None:
        """Release the tree, so that it can be removed."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _stamp(self, at: int) -> Stamp:
        # Looked up once: an agent may have broken the configuration since.
        self._author = self._author or self.repository.author()
        return Stamp(self._author, at // 1000)

    def _ref(self, name: str) -> str:
        return f"refs/penstock/{self._name}/{name}"

    # --- the tree ----------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Directory of the tree, as it was made; "" if there is none, or it was abandoned."""
        record = read_record(self._home)
        return record.path if record is not None else ""

    @property
    def problem(self) -> str:
        """Why the directory of the tree is not the one that was made, as a phrase; "" if it is."""
        record = read_record(self._home)
        return record.problem if record is not None else "was abandoned"

    def abandon(self) -> None:
        """Give up the tree: its directory is left as it is, and `make` makes another one."""
        abandon(self._home)
        self._tree = None

    def taken_aside(self) -> tuple[str, ...]:
        """Return what was put aside of the tree since the last call, as sentences."""
        return tuple(self._tree.taken_aside()) if self._tree is not None else ()

    def make(self, protects: str, files: str = "") -> TreeMade:
        """Make the tree, and keep the state of the user's checkout.

        Args:
            protects: commit whose settings rule the agents.
            files: tree of git that it gets; "": the base.
        """
        found = None if self._candidate else self.set_first_refs()
        repository, began = self.repository, self.began
        record = TreeRecord(
            name=self._name,
            owner="loop",
            label=self._name.partition(".")[2],
            path=str(free_place(repository, self._name, self._home)),
            repository=str(repository.root),
            base=began.base,
            branch=began.branch,
            made_at=began.at,
        )
        self._tree = Tree.make(self._home, record, repository)
        self.tree.copy_ignored(began.settings.copy_globs)
        if protects != began.base:
            self.tree.restore(protects)
        self.project.keep()
        if files or protects != began.base:
            self.tree.restore(files or began.base)
        if found is None or files:
            return TreeMade(path=record.path)  # what is not committed was shown before
        differs = paths_between(repository.git, began.base, found.tree)
        prompt = os.path.relpath(began.prompt_path, repository.root)  # its text is in the journal
        own = {*(path for path, _ in differs), *found.left_out} - {prompt}
        return TreeMade(path=record.path, uncommitted=len(own), left_out=tuple(found.left_out))

    def set_first_refs(self) -> CheckoutSnapshot:
        """Set the refs of the base and of the user's checkout, so that nothing of either is lost."""
        set_ref(self.repository, self._ref("base"), self.began.base)
        found = snapshot(self.repository, self.folder, self.repository.author(), self.began.at // 1000)
        if self.repository.git.commit_of(self._ref("yours")) is None:
            keep_snapshot(self.repository, found, self._ref("yours"))
        return found

    def renew(self, commit: str) -> None:
        """Make the agent's git directory anew, without anything planted in it."""
        self.tree.renew(commit)

    def take(self, state: LoopState, ref: str, at: int) -> TakenFiles:
        """Put protected files back, and return what is there now.

        The tree is kept as the commit of a ref, so that nothing lives in the directory alone.

        Raises:
            CannotStore: git cannot store what is in the tree.
            TreeAbandoned: it is not the tree that was made.
        """
        tree = self.tree
        try:
            base, put_back = self.put_back(state.protects)
            held = stage(tree.git, state.accepts, tree.copied)
            base.stage()
            self.project.stage(state.protects, state.accepts)
            found = tree.git.text("write-tree")
        except GitError as error:
            if error.is_stopped or not self.repository.can_store():
                raise
            raise CannotStore(error) from error
        commit = commit_tree(tree.git, found, [state.head], f"{ref} of {self.began.loop}", self._stamp(at))
        old = self.repository.git.commit_of(self._ref(ref))
        set_ref(self.repository, self._ref(ref), commit, old)
        faults = (one for one in held if not one.is_junk)
        paths = tuple(HeldPath(path=one.path, reason=one.text, is_final=one.is_final) for one in faults)
        return TakenFiles(found, paths, tuple(put_back[:MAX_PUT_BACK]))

    def put_back(self, commit: str) -> tuple[BaseFiles, list[str]]:
        """Put the protected files back as a commit has them, byte by byte; return them, and the paths that differed."""
        base = BaseFiles(self.tree, commit, self.began.settings.protect)
        return base, base.put_back()

    def put_base_tests(self, base: str, tree: str) -> list[str]:
        """Put all files of a tree into the directory, with the tests and build files of the base, and return these."""
        self.restore(tree)
        self.put_back(base)
        paths = [one.path for one in self.look_at(base, tree)]
        BaseFiles(self.tree, base, paths).put_back()
        return paths

    def remove_base_tests(self, paths: Sequence[str], tree: str) -> None:
        """Put all files of a tree back after that, also those that git ignores."""
        self.restore(tree)
        BaseFiles(self.tree, tree, paths).put_back()

    def put_held_aside(self, folder: Path) -> None:
        """Move what is held back from commits to a folder, so that nothing is lost when the files are put back.

        Raises:
            TreeAbandoned: git cannot read the tree, or a file cannot be moved, so nothing of it can be put back.
        """
        tree = self.tree
        try:
            found = stage(tree.git, never=tree.copied)
        except GitError as error:
            if error.is_stopped or not self.repository.can_store():
                raise
            raise TreeAbandoned(tree.record.path, f"cannot be stored: {error.what}") from error
        with changing(tree.record.path):
            for one in found:
                if one.is_junk:
                    continue
                target = folder / one.path.rstrip("/")
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.move(tree.path / one.path.rstrip("/"), target)

    def choose(self, step: ChooseCandidate, candidate: LoopWorkspace) -> None:
        """Put the files of a candidate into this tree, and keep its result by the ref of the round."""
        self.tree.restore(step.tree)
        git, ref = self.repository.git, self._ref(str(step.round))
        result = git.commit_of(candidate._ref(str(step.round)))
        if result is not None:
            set_ref(self.repository, ref, result, git.commit_of(ref))

    def merge(self, step: MergeBranch) -> BranchMerged:
        """Put the files of a merge into the tree, with the marks of its conflicts."""
        tree = self.tree
        merged, conflicts = merge_trees(tree.git, step.head, step.commit)
        tree.restore(step.commit)  # the user's settings rule the agents from now on
        self.project.keep("tracked")
        tree.restore(merged)
        return BranchMerged(conflicts=tuple(conflicts))

    def marked(self, tree: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the files of a tree that still have marks of a conflict."""
        if not paths:
            return ()
        wanted = [f":(top,literal){path}" for path in paths]
        words = "grep", "-z", "--name-only", "-e", "^<<<<<<< ", "-e", "^>>>>>>> ", tree, "--"
        found = self.tree.git.run(*words, *wanted, accepts=(0, 1)).items
        return tuple(path.removeprefix(f"{tree}:") for path in found)

    def restore(self, tree: str) -> None:
        """Put all files back as they are in a tree, but for ignored ones."""
        self.tree.restore(tree)

    # --- the user's repository -----------------------------------------------------------------------

    def keep_state(self, at: int) -> None:
        """Keep the state of the user's repository, to be compared after an agent has worked."""
        self._reported.clear()
        state = read_protected(self.repository)
        keep(self.repository, state, self.folder / KEPT / state.key, self.began.loop, self._stamp(at))
        write_private(self.folder / PROTECTED_STATE, msgspec.json.encode(state))

    def compared(self) -> RepositoryChanges:
        """Return what has changed in the user's repository since then.

        Call it after a step before anything else runs git there.
        """
        try:
            before = msgspec.json.decode((self.folder / PROTECTED_STATE).read_bytes(), type=Protected)
        except FileNotFoundError:
            return RepositoryChanges()  # no agent has worked yet
        found = differences(before, self.repository, self.folder / KEPT / before.key)
        new = [one for one in found if not one.is_harm and (one.name, one.text) not in self._reported]
        self._reported |= {(one.name, one.text) for one in new}
        harm = [one for one in found if one.is_harm]
        return RepositoryChanges(tuple(_described(harm, "restore")), tuple(_described(new, "undo")))

    # --- commits ---------------------------------------------------------------------------------------

    def commit(self, step: MakeCommit, reply: str, state: LoopState) -> Committed | CommitRejected:
        """Make the commit of a green round; the same step makes the same commit, unless it is signed.

        `reply`: the agent's, whose first line is the subject.
        """
        tree = self.tree
        tree.git.run("read-tree", "--reset", step.tree)
        tree.set_head(step.parent)
        result = HookResult("", "", subject_of(reply, step.task or "", state.prompt) + "\n")
        changes = RepositoryChanges()
        if self.began.settings.hooks:
            self.put_back(state.protects)
            env = {**hidden_variables(), FOLDER_MARK: os.path.realpath(self.folder)}
            result = run_hooks(tree, result.message, env=env)
            changes = self.compared() if result.ran else changes
            if not result.passed:
                tree.restore(step.tree)
                return changes.added_to(CommitRejected(hook=result.name, output=result.output[-MAX_OUTPUT_CHARS:]))
        put_back: tuple[PutBackFile, ...] = ()
        if result.ran:
            put_back = self._put_back_staged(state)
            unstage_held(tree.git, step.tree, state.accepts, tree.copied)
        written = tree.git.text("write-tree") if result.ran else step.tree
        trailers = {"Penstock-Run": self.began.loop, "Penstock-Agent": step.agent}
        stamp = self._stamp(step.at)
        parents = [step.parent, step.merges] if step.merges else [step.parent]
        text = with_trailers(result.message, trailers)
        commit = commit_tree(tree.git, written, parents, text, stamp, sign=self.began.settings.sign)
        if result.ran:
            tree.restore(written)
        subject, look_at = result.message.partition("\n")[0], self.look_at(state.protects, written)
        made = Committed(commit=commit, tree=written, subject=subject, look_at=look_at, put_back_settings=put_back)
        return changes.added_to(made)

    def _put_back_staged(self, state: LoopState) -> tuple[PutBackFile, ...]:
        """Put back what rules agents, also in the index, into which a hook may have put it."""
        git, found = self.tree.git, self.project.put_back(state.accepts)
        listed = git.run("ls-files", "-z").items if found else []
        add_paths(git, [path for path in listed if any(_is_in(path, one.path) for one in found)])
        self.project.stage(state.protects, state.accepts)
        return found

    def publish(self, step: Publish, ours: Sequence[str]) -> BranchPublished | PublishRejected:
        """Move the branch of the loop to a commit. `ours`: commits of the loop, at one of which the branch may be."""
        first = step.old == self.began.base
        git = self.repository.git
        try:
            set_ref(self.repository, self._ref("green"), step.commit, None if first else step.old)
            found = git.commit_of(f"refs/heads/{self.began.branch}")
            old = found if found in ours else None if first else step.old
            place = publish(self.repository, self.began.branch, step.commit, old)
        except RefMoved as error:
            return PublishRejected(reason=error.what)
        if place is not None:
            return BranchPublished(reason=f"{place} uses the branch; the work is at {self._ref('green')}")
        return BranchPublished(branch=self.began.branch)

    # --- for prompts -------------------------------------------------------------------------------------

    def commits(self, head: str) -> str:
        """Return the commits of the loop with their figures."""
        if head == self.began.base:
            return ""
        words = f"--max-count={MAX_SHOWN_COMMITS}", "--stat", "--no-color", "--format=%h %s"
        return self.tree.git.text("log", *words, f"{self.began.base}..{head}", "--")

    def is_conventional(self) -> bool:
        """Return whether the newest commits before the loop have subjects in the form of Conventional Commits."""
        words = "--no-merges", f"--max-count={MAX_SUBJECTS}", "--format=%s"
        return is_conventional(self.tree.git.text("log", *words, self.began.base, "--").splitlines())

    def stat(self, old: str, new: str) -> str:
        """Return the files that differ, with their figures."""
        return "" if old == new else stat_between(self.tree.git, old, new)

    def size(self, old: str, new: str) -> ChangeSize:
        """Return the size of a difference."""
        found = size_between(self.tree.git, old, new)
        return ChangeSize(files=found.files, added=found.added, removed=found.removed)

    def patch(self, old: str, new: str, max_chars: int) -> str:
        """Return the difference as a patch."""
        return patch_between(self.tree.git, old, new, max_chars)

    def look_at(self, old: str, new: str) -> tuple[FileChange, ...]:
        """Return the tests, and the files that the checks read, that differ, with their lines."""
        return _look_at(self.tree.git, self.began, old, new)


def _look_at(git: Git, began: LoopBegan, old: str, new: str) -> tuple[FileChange, ...]:
    def read(path: str, of_result: bool) -> bytes:
        return git.run("cat-file", "blob", f"{new if of_result else old}:{path}").out

    changes = paths_between(git, old, new)
    found = changes_to_look_at(changes, began.settings.reads, read, began.directory)[:MAX_LOOK_AT]
    lines = lines_between(git, old, new) if found else {}
    figures = [(one, *lines.get(one.path, (0, 0))) for one in found]
    return tuple(msgspec.structs.replace(one, added=added, removed=removed) for one, added, removed in figures)


def _described(found: Sequence[Difference], verb: str) -> list[str]:
    """Return differences in words, those together that the same command restores."""
    by_command: dict[str, list[str]] = {}
    for one in found:
        by_command.setdefault(one.restore, []).append(f"{one.name} {one.text}")
    lines = []
    for command, texts in by_command.items():
        more = f", and {len(texts) - MAX_TOGETHER:,} more" if len(texts) > MAX_TOGETHER else ""
        lines.append(f"{', '.join(texts[:MAX_TOGETHER])}{more} (to {verb} it: {command})")
    return lines


def _is_in(path: str, place: str) -> bool:
    """Return whether a path is a place, or in it if it is a directory, which ends with a slash."""
    return path == place or (place.endswith("/") and path.startswith(place))
