"""Git as a program: the only module that starts it, with a safe environment and a time limit.

Variables that name another repository are not inherited, and no call waits for a person. Hooks run only if a call asks
for them; file system monitors never run.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from penstock.errors import TransportError, UsageError, shown
from penstock.repo.place import LEFT_RUNNING, TreeAbandoned
from penstock.run.programs import SLOW_SECONDS, ProgramEnd, run_program

_log = logging.getLogger("penstock.repo")

QUICK_SECONDS = 60.0
"""Timeout in seconds for calls that read or write a few objects; long enough for slow disks and networks."""

LONG_SECONDS = 900.0
"""Timeout in seconds for calls that touch every file of a work tree, with filters such as those of git-lfs."""

MIN_VERSION = (2, 38)
"""Oldest version of git that can be used: the first with `merge-tree --write-tree`."""

MAX_ERROR_CHARS = 2_000
"""Maximum characters of git's messages in an error: their end, which has the reason."""

KEPT_VARIABLES = frozenset(
    {
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    }
)
"""Git's variables that are inherited: they define whose configuration and identity are used. All others can name
another repository, index or program."""

NO_HOOKS = "/dev/null"
"""Value of `core.hooksPath` that has no hooks."""

SAFE_SETTINGS = (
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "i18n.commitEncoding=utf-8",
)
"""Settings of every call: no program of a repository is started, nothing is cleaned up, indexes can be copied, and
messages are UTF-8."""

SAFE_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # otherwise reading a status rewrites the user's index
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


class GitError(TransportError):
    """Git ended with a status that its caller did not expect, or did not end in time."""

    def __init__(
        self, args: Sequence[str], status: int | None, stderr: str, *, seconds: float = 0, is_stopped: bool = False
    ) -> None:
        self.command: tuple[str, ...] = tuple(args)
        self.status = status
        """Exit status; None if git timed out or was stopped."""
        self.is_stopped = is_stopped
        """Whether git was ended because Penstock is stopping."""
        self.stderr: str = stderr.strip()[-MAX_ERROR_CHARS:]
        name = f"git {args[0] if args else ''}".strip()
        if is_stopped:
            super().__init__(f"{name} was stopped")
        elif status is None:
            what = f"{name} did not end within {seconds:g} s and was killed"
            super().__init__(what, help="look for a filter or a hook that waits, and for a slow disk")
        else:
            reason = " ".join(self.stderr.split()) or "no message"
            super().__init__(f"{name} failed with status {status}: {reason}")


class Done(msgspec.Struct, frozen=True):
    """Result of one call."""

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Output as text without the last newline."""
        return os.fsdecode(self.out).rstrip("\n")

    @property
    def items(self) -> list[str]:
        """Output as a list of the items that end with a zero byte (`-z`)."""
        return [item for item in os.fsdecode(self.out).split("\0") if item]


class Git(msgspec.Struct, frozen=True):
    """Git in one work tree. Without a git directory, git searches for one from the work tree upwards."""

    work_tree: Path
    git_dir: Path | None = None
    index: Path | None = None
    """Index file; by default that of the git directory."""
    objects: Path | None = None
    """Object store, if it is not that of the git directory."""
    before: Callable[[], object] | None = None
    """Function that is called before each call; it raises if the work tree cannot be trusted."""
    is_private: bool = False
    """True if nothing else uses the index, so that the lock of a killed call can be removed."""

    def run(
        self,
        *args: str,
        data: bytes = b"",
        seconds: float = QUICK_SECONDS,
        env: Mapping[str, str] | None = None,
        accepts: Sequence[int] = (0,),
        hooks: str | None = NO_HOOKS,
        sweeps: bool = True,
    ) -> Done:
        """Run git to its end and return the result.

        Args:
            args: the words after `git`.
            data: its input.
            seconds: its time limit, after which git and everything that it started are killed.
            env: variables that this call adds.
            accepts: exit statuses that count as success.
            hooks: directory of the hooks that may run, or None for the one that is configured; no hooks by default.
            sweeps: whether to kill processes that hooks and filters leave in the background.

        Raises:
            GitError: git ended with another status, timed out, or was stopped (see
                `penstock.run.programs.stopped_by`).
            UsageError: there is no git, or no such work tree; or `before` raised it.
            TreeAbandoned: a hook or a filter of a tree has started a process that cannot be killed.
        """
        if self.before is not None:
            self.before()
        if "\0" in str(self.work_tree):  # for instance in a record that is not Penstock's
            raise UsageError(f"there is no directory {shown(str(self.work_tree))}", expected="a path")
        safe = SAFE_SETTINGS if hooks is None else (*SAFE_SETTINGS, f"core.hooksPath={hooks}")
        settings = [word for setting in safe for word in ("-c", setting)]
        argv = ["git", "--no-pager", *settings, *args]

        def warn() -> None:
            what = "git %s has been running for %g s in %s; it is ended after %g s"
            _log.warning(what, args[0], SLOW_SECONDS, self.work_tree, seconds)

        whole_env = {**self._environment(), **(env or {})}
        ended = run_program(argv, data, seconds, whole_env, str(self.work_tree), sweeps=sweeps, when_slow=warn)
        if ended.failed:
            raise self._cannot_start(ended)
        if ended.has_left and self.before is not None:
            raise TreeAbandoned(str(self.work_tree), LEFT_RUNNING)
        if ended.status is None or ended.status < 0:
            self._remove_lock()
        if ended.status not in accepts:
            err = ended.err.decode("utf-8", "replace")
            raise GitError(args, ended.status, err, seconds=seconds, is_stopped=ended.is_stopped)
        return Done(ended.status or 0, ended.out, ended.err)

    def _remove_lock(self) -> None:
        """Remove the lock of the index that a killed call has left, because it would block all later calls."""
        if self.index is not None and self.is_private:
            Path(f"{self.index}.lock").unlink(missing_ok=True)

    def _cannot_start(self, ended: ProgramEnd) -> UsageError:
        if not ended.is_directory_missing:
            return UsageError("git is not installed: there is no 'git' in PATH", help="install git")
        if ended.failed == errno.ENOTDIR:
            return UsageError(f"{self.work_tree} is not a directory")
        return UsageError(f"there is no directory {self.work_tree}", help="check whether it was moved or removed")

    def text(self, *args: str) -> str:
        """Return the output of a quick call as text."""
        return self.run(*args).text

    def succeeds(self, *args: str) -> bool:
        """Return whether a call that answers by its status (0 for yes, 1 for no) answers yes."""
        return self.run(*args, accepts=(0, 1)).status == 0

    def with_index(self, index: Path) -> Git:
        """Return a copy with another index file."""
        return msgspec.structs.replace(self, index=index)

    def commit_of(self, name: str) -> str | None:
        """Return the id of the commit that a name refers to; None if there is none."""
        done = self.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", accepts=(0, 1, 128)
        )
        return done.text if done.status == 0 else None

    def tree_of(self, name: str) -> str:
        """Return the id of the tree of a commit."""
        return self.text("rev-parse", "--verify", "--end-of-options", f"{name}^{{tree}}")

    def _environment(self) -> dict[str, str]:
        env = clean_environment(os.environ) | SAFE_ENVIRONMENT
        places = {
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": self.work_tree if self.git_dir is not None else None,
            "GIT_INDEX_FILE": self.index,
            "GIT_OBJECT_DIRECTORY": self.objects,
        }
        return env | {name: str(path) for name, path in places.items() if path is not None}


def check_common_directory(root: str, git_dir: str, common: str) -> None:
    """Check that a git directory does not lead to the settings of another one, which could start programs.

    Only linked worktrees do so, and their git directory is not in them.

    Raises:
        UsageError: it has a file `commondir`, which an agent can have made.
    """
    if git_dir == os.path.join(root, ".git") != common:
        what = f"the repository {shown(root)} takes its settings from {shown(common)}"
        raise UsageError(what, help=f"remove {os.path.join(git_dir, 'commondir')}, if you have not made it")


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables by which git would find another repository, index or program.

    An agent in a tree needs this environment too, because a program that a git hook started inherits such variables.
    """
    return {name: value for name, value in env.items() if not name.startswith("GIT_") or name in KEPT_VARIABLES}


def check_version() -> None:
    """Check that git is installed and new enough.

    Raises:
        UsageError: it is not.
    """
    text = Git(Path("/")).text("version")
    words = text.split()
    numbers = tuple(int(part) for part in words[2].split(".")[:2] if part.isdigit()) if len(words) > 2 else ()
    if numbers < MIN_VERSION:
        wanted = ".".join(map(str, MIN_VERSION))
        raise UsageError(f"{text} is too old", expected=f"git {wanted} or newer", help="install a newer git")
