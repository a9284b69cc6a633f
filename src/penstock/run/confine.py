"""The view of a confined run, and its bubblewrap command line.

`view` looks at the file system once; `arguments` is a pure function of what it found. The guard adds the descriptor of
the exit status.

What they leave open: a run can make files that were missing from `.git`. A new `commondir` leads git to hooks and a
configuration elsewhere, and so do new `hooks` where there were none. A directory without `.git` can be given one.
Before git runs outside, these must be looked for.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Mapping
from shutil import which

import msgspec

from penstock.agents._facts import StateFolder
from penstock.errors import UsageError, shown
from penstock.run.process import output_of

EMPTY = ("/tmp", "/var/tmp", "/run")
"""Directories that are empty inside: sockets and files of other programs are there. `/dev/shm` is new with `/dev`."""
GIT_READ_ONLY = ("hooks", "info", "config", "config.worktree")
"""Parts of a git directory that start programs or say which are started."""
PROBE_SECONDS = 10.0
"""Seconds for the start of bubblewrap, which takes a few milliseconds."""
INSTALL = "install it: apt install bubblewrap, dnf install bubblewrap, or pacman -S bubblewrap"
INSIDE_ID = 1000
"""User and group inside for root, whom some agents reject."""


class View(msgspec.Struct, frozen=True):
    """Real paths of what a confined run sees besides the file system, which is read-only."""

    cwd: str
    home: str
    visible: tuple[str, ...] = ()
    """Read-only, below a directory that is empty inside."""
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """Read-only, below a writable directory."""


def view(
    cwd: str, home: str, *, visible: Iterable[str] = (), state: Iterable[str] = (), settings: Iterable[str] = ()
) -> View:
    """Return the view of a run in `cwd`; paths that do not exist are left out.

    Raises:
        UsageError: the directory holds the home directory, or its `.git` could be replaced by the run.
    """
    cwd, home = os.path.realpath(cwd), os.path.realpath(home)
    for path in (cwd, *state):
        if _is_below(home, os.path.realpath(path)):
            raise UsageError(f"a run in {shown(path)} cannot be confined: it holds the home directory {shown(home)}")
    seen = [os.path.realpath(path) for path in visible if os.path.exists(path)]
    hidden = (*EMPTY, home)
    git, protected = _git(cwd)
    return View(
        cwd=cwd,
        home=home,
        visible=tuple(path for path in seen if any(_is_below(path, place) and path != place for place in hidden)),
        writable=(*(os.path.realpath(path) for path in state if os.path.exists(path)), *git),
        read_only=(*(os.path.realpath(path) for path in settings if os.path.exists(path)), *protected),
    )


def _git(cwd: str) -> tuple[list[str], list[str]]:
    """Return the git directory, a mount point so that it cannot be moved away, and its parts that stay read-only.

    Raises:
        UsageError: one of them is a link, which the run could replace.
    """
    git = os.path.join(cwd, ".git")
    found = [os.path.join(git, name) for name in GIT_READ_ONLY if os.path.lexists(os.path.join(git, name))]
    for path in (git, *found):
        if os.path.islink(path):
            raise UsageError(f"a run in {shown(cwd)} cannot be confined: {shown(path)} is a link")
    if os.path.isdir(git):
        return [git], found
    return [], [git] if os.path.exists(git) else []


def arguments(view: View, *, as_root: bool) -> list[str]:
    """Return the words before the agent's command."""
    words = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    if as_root:
        words += ["--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID)]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in (*EMPTY, view.home):
        words += ["--tmpfs", path]
    binds = [(path, "--ro-bind") for path in view.visible]
    binds += [(path, "--bind") for path in (view.cwd, *view.writable)]
    binds += [(path, "--ro-bind") for path in view.read_only]
    for path, how in sorted(binds, key=lambda bind: bind[0].count(os.sep)):  # parents first, else they cover children
        words += [how, path, path]
    return [*words, "--chdir", view.cwd, "--"]


def confinement(
    program: str, folders: Iterable[StateFolder], env: Mapping[str, str], cwd: str, files: Iterable[str]
) -> tuple[str, ...]:
    """Return the words before the command of a confined run; directories of the agent's state are made.

    Args:
        program: path of the agent's program.
        folders: where the agent keeps its state.
        env: its environment.
        cwd: its directory.
        files: paths that the user named for the run.

    Raises:
        UsageError: bubblewrap is missing or does not work here, or this directory cannot be confined.
    """
    bwrap = which("bwrap", path=env.get("PATH", os.defpath))
    if bwrap is None:
        raise UsageError("a confined run needs bubblewrap, which is not installed", help=INSTALL)
    home = env.get("HOME") or os.path.expanduser("~")
    state, settings = _state(folders, env, home, cwd)
    view(cwd, home, state=state)  # before a directory is made
    for path in state:
        os.makedirs(path, mode=0o700, exist_ok=True)
    seen = [*_programs(program, env), *files, os.path.realpath("/etc/resolv.conf")]
    inside = os.path.realpath(cwd)
    visible = [path for path in seen if not _is_below(os.path.realpath(path), inside)]
    words = arguments(view(cwd, home, visible=visible, state=state, settings=settings), as_root=os.geteuid() == 0)
    words[0] = bwrap
    status, said = output_of([*words, "/bin/true"], env, cwd, PROBE_SECONDS)
    if status != 0:
        why = " ".join(said.split()) or "it does not end"
        raise UsageError(f"bubblewrap cannot confine a run here: {why}", help="see docs/sandbox.md, or --sandbox off")
    return tuple(words)


def _state(folders: Iterable[StateFolder], env: Mapping[str, str], home: str, cwd: str) -> tuple[list[str], list[str]]:
    """Return the directories that the agent writes, and what in them it only reads."""
    state, settings = [], []
    for folder in folders:
        root = os.path.join(cwd, env.get(folder.variable) or os.path.join(home, folder.path))
        path = os.path.normpath(os.path.join(root, folder.below))
        if folder.is_kept:
            state.append(path)
        for pattern in folder.settings:
            settings += glob.glob(os.path.join(glob.escape(path), pattern))
    return state, settings


def _programs(program: str, env: Mapping[str, str]) -> Iterable[str]:
    """Return the places of the agent, of the directories in PATH, and of Penstock, which an agent may start."""
    for path in (program, which("node", path=env.get("PATH", os.defpath))):
        if path is not None:
            real = os.path.realpath(path)
            before, found, _ = real.partition(f"{os.sep}node_modules{os.sep}")
            yield os.path.join(before, "node_modules") if found else real
            yield path
    yield from (path for path in env.get("PATH", "").split(os.pathsep) if os.path.isabs(path))
    yield from (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))


def _is_below(path: str, place: str) -> bool:
    return os.path.commonpath((path, place)) == place
