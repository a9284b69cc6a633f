"""The view of a confined run, and its bubblewrap command line.

`view` looks at the file system once; `arguments` is a pure function of what it found. The guard adds the descriptor of
the exit status. `confined` chooses between the modes: `on` shows what a run needs and nothing else, `own` hides what is
Penstock's.

A run can make files that were missing from `.git` and from the agent's state; `planted` puts them aside.
"""

from __future__ import annotations

import glob
import hashlib
import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from functools import cache
from shutil import which

import msgspec

from penstock.agents._facts import AgentFacts, StateFolder
from penstock.agents.registry import AGENTS
from penstock.config.data import data_path
from penstock.errors import UsageError, shown
from penstock.run import children
from penstock.run.apart import copy_missing
from penstock.run.network import Network, reach_of
from penstock.run.planted import KNOWN, watched
from penstock.run.sandbox import Confinement, Mode, Surroundings
from penstock.run.tried import has_worked, note_worked
from penstock.run.user_namespaces import what_helps

EMPTY = ("/tmp", "/var/tmp", "/run")
"""Directories that are empty inside: sockets and files of other programs are there. `/dev/shm` is new with `/dev`."""
TEMPORARY = ("TMPDIR", "TMP", "TEMP")
"""Variables that may name a directory for temporary files other than `/tmp`."""
GIT_READ_ONLY = ("hooks", "info", "config", "config.worktree")
"""Parts of a git directory that start programs or say which are started."""
MADE = ("agents", "commands", "extensions", "hooks", "plugins", "rules", "skills", "workflows")
"""Names of settings that are directories for every agent, and mean nothing while they are empty."""
CACHES = (".cache", ".npm", ".cargo/registry", ".cargo/git", "go/pkg", ".gradle", ".m2/repository")
"""Directories of the home in which tools keep what they have fetched. A confined run has others in their place."""
TOOLCHAINS = (
    *(".rustup", ".cargo/bin", ".cargo/env", ".nvm", ".fnm", ".volta", ".bun/bin", ".deno/bin", ".pyenv", ".rbenv"),
    *(".asdf", ".sdkman", "go/bin", ".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools"),
    *(".local/share/mise", ".local/share/pnpm", ".local/share/fnm", ".local/share/pipx", ".local/pipx"),
    *(".cache/ms-playwright", ".cache/puppeteer"),
)
"""Entries of the home with programs that people install there, without logins."""
PROBE_SECONDS = 10.0
"""Seconds for the start of bubblewrap, which takes a few milliseconds."""
SIZE_OPTION = "--size"
"""Option of bubblewrap for the size of a directory in memory; an older one calls it unknown."""
SOCKET_SECONDS = 10.0
"""Age of a socket that is looked for: servers are older, and it is likely that they stay."""
INSTALL = "install it: apt install bubblewrap, dnf install bubblewrap, or pacman -S bubblewrap"
SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/sbin", "/sys", "/usr")
"""Directories of the system, which some accounts have as their home: what is in them is not hidden."""
IN_MEMORY = ":memory:"
"""Path of a database of SQLite that is in no file."""
MIB = 1024 * 1024
TMPFS_SHARE, LEAST_TMPFS, MOST_TMPFS = 8, 256 * MIB, 4096 * MIB
"""Size of a directory in memory, unless the configuration has another one: this part of the machine's memory, within
these bytes. A run has five or more, and without a limit each may have half of the memory."""
INSIDE_ID = 1000
"""User and group inside for root, whom some agents reject."""


class View(msgspec.Struct, frozen=True):
    """Real paths of what a confined run sees."""

    cwd: str
    home: str
    visible: tuple[str, ...] = ()
    """Read-only, below a directory that is empty inside."""
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """Read-only, below a writable directory."""
    hidden: tuple[str, ...] = ()
    """Empty inside, wherever they are."""
    hidden_files: tuple[str, ...] = ()
    caches: tuple[tuple[str, str], ...] = ()
    """Directories that are written in the place of others."""
    is_writable: bool = True
    """Whether the directory can be written."""
    has_network: bool = True
    is_own: bool = False
    """Everything is as outside, but for what is hidden."""
    tmpfs_bytes: int | None = None
    """Size of each directory in memory; None: that of the kernel, which is half of the memory."""


def view(
    cwd: str,
    home: str,
    *,
    visible: Iterable[str] = (),
    state: Iterable[str] = (),
    settings: Iterable[str] = (),
    hidden: Iterable[str] = (),
    more: Iterable[str] = (),
    caches: Iterable[tuple[str, str]] = (),
    sockets: Iterable[str] = (),
    is_writable: bool = True,
    has_network: bool = True,
) -> View:
    """Return the view of a run in `cwd`; paths that do not exist are left out. `more` are further writable places.

    `sockets` are those of programs outside. With the network of this machine, the ones of the directory stay.

    Raises:
        UsageError: the directory holds the home directory, or its `.git` could be replaced by the run.
    """
    cwd, home = os.path.realpath(cwd), os.path.realpath(home)
    for path in (cwd, *state):
        if _is_below(home, os.path.realpath(path)):
            raise UsageError(f"a run in {shown(path)} cannot be confined: it holds the home directory {shown(home)}")
    covered = [os.path.realpath(path) for path in hidden if os.path.exists(path)]
    seen = [os.path.realpath(path) for path in visible if os.path.exists(path)]
    empty = (*EMPTY, home, *covered)
    git, protected = _git(cwd) if is_writable else ([], [])
    shown_again = [path for path in seen if any(_is_below(path, place) and path != place for place in empty)]
    writable = [*(os.path.realpath(path) for path in (*state, *more) if os.path.exists(path)), *git]
    for path in map(os.path.realpath, sockets):
        if _is_below(path, cwd):
            can_stay = has_network
        elif any(_is_below(path, place) for place in (*shown_again, *writable)):
            can_stay = False
        else:
            can_stay = has_network or any(_is_below(path, place) for place in empty)  # it is not seen there
        if not can_stay:
            covered.append(path)
    return View(
        cwd=cwd,
        home=home,
        visible=tuple(shown_again),
        writable=tuple(writable),
        read_only=(*(os.path.realpath(path) for path in settings if os.path.exists(path)), *protected),
        hidden=tuple(path for path in covered if os.path.isdir(path)),
        hidden_files=tuple(path for path in covered if not os.path.isdir(path)),
        caches=tuple(caches),
        is_writable=is_writable,
        has_network=has_network,
    )


def own_view(cwd: str, *, hidden: Iterable[str], visible: Iterable[str] = ()) -> View:
    """Return a view in which only these files and directories are hidden, but for what in them is visible."""
    cwd = os.path.realpath(cwd)
    covered = [os.path.realpath(path) for path in hidden if os.path.exists(path)]
    seen = [os.path.realpath(path) for path in visible if os.path.exists(path)]
    return View(
        cwd=cwd,
        home="",
        visible=tuple(path for path in seen if any(_is_below(path, place) and path != place for place in covered)),
        hidden=tuple(path for path in covered if os.path.isdir(path)),
        hidden_files=tuple(path for path in covered if not os.path.isdir(path)),
        is_own=True,
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
    size = [] if view.tmpfs_bytes is None else ["--size", str(view.tmpfs_bytes)]
    words = ["bwrap", "--unshare-user", "--unshare-pid", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    if view.is_own:
        # Root may map itself in a name space of its own, as the sandboxes of agents do; it gives no right outside.
        words += ["--cap-add", "CAP_SETFCAP"] if as_root else []
        words += ["--dev-bind", "/", "/", "--proc", "/proc"]
    else:
        words += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += [] if view.has_network else ["--unshare-net"]
        words += [word for name in TEMPORARY for word in ("--unsetenv", name)]
        words += ["--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID)] if as_root else []
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        if size:  # bubblewrap gives /dev no limit, so that only what is mounted below it can be written
            words += [*size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        for path in (*EMPTY, view.home):
            words += [*size, "--tmpfs", path]
    binds = [(path, [*size, "--tmpfs", path]) for path in view.hidden]
    binds += [(path, ["--ro-bind", "/dev/null", path]) for path in view.hidden_files]
    binds += [(path, ["--ro-bind", path, path]) for path in view.visible]
    if not view.is_own or any(_is_below(view.cwd, path) for path in view.hidden):
        how = "--bind" if view.is_writable else "--ro-bind"
        binds += [(view.cwd, [how, view.cwd, view.cwd])]
    binds += [(path, ["--bind", place, path]) for place, path in view.caches]
    binds += [(path, ["--bind", path, path]) for path in view.writable]
    binds += [(path, ["--ro-bind", path, path]) for path in view.read_only]
    for _, bind in sorted(binds, key=lambda bind: bind[0].count(os.sep)):  # parents first, else they cover children
        words += bind
    return [*words, "--chdir", view.cwd, "--"]


class ToConfine(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to be confined."""

    agent: str
    facts: AgentFacts | None
    """Facts of the agent; None for a command of the configuration."""
    program: str
    """Path of its program."""
    env: Mapping[str, str]
    cwd: str
    files: tuple[str, ...]
    """Paths that the user named for the run."""
    allow: str
    allow_tools: tuple[str, ...] = ()
    """Tools that it may use without asking."""
    surroundings: Surroundings
    network: Network = "all"
    hosts: tuple[str, ...] = ()
    """Addresses that it also reaches with the network `agent`."""
    urls: tuple[str, ...] = ()
    """Addresses of its MCP servers."""
    tmpfs_bytes: int | None = None
    """Size of each of its directories in memory; None for a part of the machine's memory."""


def confined(run: ToConfine, mode: Mode, *, is_asked: bool) -> Confinement:
    """Return the confinement of a run; directories of the agent's state are made.

    Raises:
        UsageError: it was asked for and is not possible.
    """
    try:
        return _in_mode(run, mode)
    except OSError as error:
        what = f"a confined run needs its directories, and {error.filename} cannot be made: {error.strerror}"
        if is_asked:
            raise UsageError(what, help="make it, or --sandbox off") from error
        return Confinement(problem=what)
    except UsageError as error:
        if is_asked:
            raise
        return Confinement(problem=error.what)


def _in_mode(run: ToConfine, mode: Mode) -> Confinement:
    bwrap = which("bwrap", path=run.env.get("PATH", os.defpath))
    if bwrap is None:
        raise UsageError("a confined run needs bubblewrap, which is not installed", help=INSTALL)
    data = str(data_path())
    hidden = (data, *run.surroundings.hidden)
    folders = _kept_folders(run)
    reach = reach_of(run.facts, run.env, run.hosts, run.urls) if run.network == "agent" else None
    found = (
        own_view(run.cwd, hidden=hidden, visible=(*run.files, *run.surroundings.read_only))
        if mode == "own"
        else _view_of(run, hidden)
    )
    words = _tried(bwrap, found, run, data)
    if mode != "on":
        return Confinement(mode, tuple(words))
    settings = tuple((path, pattern) for path, folder in folders for pattern in folder.settings)
    caches = tuple((path, pattern) for path, folder in folders for pattern in folder.caches)
    planted = watched(
        os.path.realpath(run.cwd),
        settings,
        caches,
        keys=tuple(os.path.join(path, name) for path, folder in folders for name in folder.keys),
        databases=tuple(_databases(folders, run.env)),
        granted=run.allow_tools,
        state=tuple(path for path, _ in folders),
        since=time.time() if run.allow != "read" else 0.0,
        known=os.path.join(_separate(run), KNOWN),
    )
    return Confinement(mode, tuple(words), network=run.network, reach=reach, watched=planted)


def _tried(bwrap: str, found: View, run: ToConfine, data: str) -> list[str]:
    """Return the words that start bubblewrap, with which it has started a program now or before.

    Directories in memory have a size if this bubblewrap can limit it: 0.7.0 and later can.

    Raises:
        UsageError: bubblewrap cannot do it here.
    """
    size = _tmpfs_bytes() if run.tmpfs_bytes is None else run.tmpfs_bytes
    sized, unsized = (
        [bwrap, *arguments(msgspec.structs.replace(found, tmpfs_bytes=it), as_root=os.geteuid() == 0)[1:]]
        for it in (size, None)
    )
    if has_worked(data, sized):
        return sized
    problem, words = _failure([*sized, "/bin/true"], run.cwd), sized
    if SIZE_OPTION in problem:
        if has_worked(data, unsized):
            return unsized
        problem, words = _failure([*unsized, "/bin/true"], run.cwd), unsized
    if not problem:
        note_worked(data, words)
        return words
    what = f"bubblewrap cannot confine a run here: {problem}"
    raise UsageError(what, help=what_helps(is_root=os.geteuid() == 0) or "see docs/sandbox.md, or --sandbox off")


def _tmpfs_bytes() -> int:
    """Return the size of a directory in memory on this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(memory // TMPFS_SHARE, LEAST_TMPFS), MOST_TMPFS) // MIB * MIB


def _real_home(home: str) -> list[str]:
    """Return the home of the user by the system's own list, if `HOME` names another directory; [] if it is the same."""
    try:
        found = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a user without an entry, as in some containers
        return []
    is_of_system = found == "/" or any(_is_below(found, place) for place in SYSTEM)
    return [] if is_of_system or not os.path.isdir(found) or found == os.path.realpath(home) else [found]


def _kept_folders(run: ToConfine) -> list[tuple[str, StateFolder]]:
    """Return the directories of the agent's state that outlast the run, by their real paths."""
    home = run.env.get("HOME") or os.path.expanduser("~")
    folders = run.facts.state if run.facts is not None else ()
    return [(os.path.realpath(_place(it, run.env, home, run.cwd)), it) for it in folders if it.writes == "kept"]


def _databases(folders: Iterable[tuple[str, StateFolder]], env: Mapping[str, str]) -> Iterable[str]:
    for path, folder in folders:
        named = env.get(folder.database_variable, "")
        names = (*folder.databases, named) if named and named != IN_MEMORY else folder.databases
        yield from dict.fromkeys(os.path.normpath(os.path.join(path, name)) for name in names)


def _view_of(run: ToConfine, hidden: Iterable[str]) -> View:
    facts, env, cwd = run.facts, run.env, run.cwd
    folders = facts.state if facts is not None else ()
    if facts is not None and not facts.state and facts.default.program:
        known = ", ".join(name for name, entry in AGENTS.items() if entry.state)
        raise UsageError(f"{run.agent} cannot be confined: its directories are unknown", expected=f"one of {known}")
    home = env.get("HOME") or os.path.expanduser("~")
    real = _real_home(home)
    state, settings = _state(folders, env, home, cwd)
    for place in (home, *real):
        view(cwd, place, state=state)  # before a directory is made
    apart = [(it, os.path.realpath(_place(it, env, home, cwd))) for it in folders if it.writes == "apart"]
    for path in (*state, *_missing_folders(folders, env, home, cwd), *(path for _, path in apart)):
        os.makedirs(path, mode=0o700, exist_ok=True)
    state, settings = _state(folders, env, home, cwd)
    around = run.surroundings
    places = [os.path.realpath(path) for path in (cwd, *around.writable)]
    toolchains = [path for place in (home, *real) for path in _toolchains(place)]
    seen = (*_programs(run.program, env), *toolchains, *run.files, os.path.realpath("/etc/resolv.conf"))
    visible = [path for path in seen if not any(_is_below(os.path.realpath(path), place) for place in places)]
    separate = _separate(run)
    return view(
        cwd,
        home,
        visible=[*visible, *around.read_only],
        state=state,
        settings=settings,
        hidden=[*hidden, *around.covered, *real],
        sockets=_sockets(),
        more=[*around.writable, *_above((path for _, path in apart), state)],
        caches=[*_caches(separate, home), *_apart(separate, run.agent, apart)],
        is_writable=run.allow != "read",
        has_network=run.network == "all",
    )


def _above(places: Iterable[str], state: Iterable[str]) -> Iterable[str]:
    """Return the directories between the agent's state and these places in it.

    They become mount points: the run could move another directory away, and its replacement would not be apart.
    """
    kept = [os.path.realpath(path) for path in state]
    for place in places:
        above = os.path.dirname(place)
        while any(above != path and _is_below(above, path) for path in kept):
            yield above
            above = os.path.dirname(above)


def _separate(run: ToConfine) -> str:
    """Return the directory with what is kept for the run's working directory."""
    around = run.surroundings
    key = hashlib.sha256(os.fsencode(os.path.realpath((run.cwd, *around.writable)[-1]))).hexdigest()[:16]
    return os.path.join(around.caches or str(data_path() / "caches"), key)


def _sockets() -> list[str]:
    """Return the sockets with a path of programs outside; none where there is no `/proc` that has them.

    Young ones are left out: one that is gone before the start would prevent that.
    """
    try:
        with open("/proc/net/unix", "rb") as file:
            rows = [line.rstrip(b"\n").split(None, 7) for line in file]
    except OSError:
        return []
    paths = {os.fsdecode(row[7]) for row in rows if len(row) > 7 and row[7].startswith(b"/")}
    return [path for path in sorted(paths) if _is_socket(path)]


def _is_socket(path: str) -> bool:
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(status.st_mode) and time.time() - status.st_mtime > SOCKET_SECONDS


def _missing_folders(folders: Iterable[StateFolder], env: Mapping[str, str], home: str, cwd: str) -> Iterable[str]:
    """Return directories of settings that are missing: they are made, since only what is there can be read-only."""
    for folder in folders:
        if folder.writes == "kept":
            place = _place(folder, env, home, cwd)
            yield from (os.path.join(place, name) for name in folder.settings if name in MADE)


def _toolchains(home: str) -> Iterable[str]:
    return (os.path.join(home, name) for name in TOOLCHAINS)


def _caches(separate: str, home: str) -> list[tuple[str, str]]:
    """Make the caches of a working directory; return each with the path that it replaces in the run."""
    pairs = []
    for name in CACHES:
        made = os.path.join(separate, name.replace("/", "-").lstrip("."))
        os.makedirs(made, mode=0o700, exist_ok=True)
        pairs.append((made, os.path.join(os.path.realpath(home), name)))
    return pairs


def _apart(separate: str, agent: str, folders: Iterable[tuple[StateFolder, str]]) -> list[tuple[str, str]]:
    """Make the directories apart of an agent's state; return them with the paths in whose place they are."""
    pairs = []
    for folder, path in folders:
        made = os.path.join(separate, f"{agent}-{folder.below.replace('/', '-')}")
        os.makedirs(made, mode=0o700, exist_ok=True)
        for name in folder.copied:
            copy_missing(os.path.join(path, name), os.path.join(made, name))
        pairs.append((made, path))
    return pairs


@cache
def machine_problem() -> str:
    """Return why no run can be confined on this machine; "" if runs can be."""
    bwrap = which("bwrap")
    if bwrap is None:
        return f"bubblewrap is not installed; {INSTALL}"
    words = [*arguments(own_view("/", hidden=()), as_root=os.geteuid() == 0), "/bin/true"]
    return _failure([bwrap, *words[1:]], "/")


def _failure(words: list[str], cwd: str) -> str:
    """Return why bubblewrap fails to start a program; "" if it does not."""
    try:
        process = children.start(
            words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        return error.strerror or str(error)
    try:
        said, _ = process.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"it does not end within {PROBE_SECONDS:g} s"
    finally:
        children.ended(process.pid)
    return "" if process.returncode == 0 else " ".join(said.decode("utf-8", "replace").split()) or "it says nothing"


def _state(folders: Iterable[StateFolder], env: Mapping[str, str], home: str, cwd: str) -> tuple[list[str], list[str]]:
    """Return the directories that the agent writes, and what in them it only reads."""
    state, settings = [], []
    for folder in folders:
        path = _place(folder, env, home, cwd)
        if folder.writes == "kept":
            state.append(path)
        for pattern in folder.settings:
            settings += glob.glob(os.path.join(glob.escape(path), pattern))
    return state, settings


def _place(folder: StateFolder, env: Mapping[str, str], home: str, cwd: str) -> str:
    root = os.path.join(cwd, env.get(folder.variable) or os.path.join(home, folder.path))
    return os.path.normpath(os.path.join(root, folder.below))


def _programs(program: str, env: Mapping[str, str]) -> Iterable[str]:
    """Return the places of the agent, of the directories in PATH, and of Penstock, which an agent may start."""
    folders = [path for path in env.get("PATH", "").split(os.pathsep) if os.path.isabs(path)]
    for path in (program, which("node", path=env.get("PATH", os.defpath))):
        if path is not None:
            real = os.path.realpath(path)
            before, found, _ = real.partition(f"{os.sep}node_modules{os.sep}")
            yield os.path.join(before, "node_modules") if found else real
            yield path
    yield from folders
    # The programs of an environment of Python need the rest of it.
    yield from (os.path.dirname(path) for path in folders if os.path.exists(os.path.join(path, "../pyvenv.cfg")))
    yield from (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))


def _is_below(path: str, place: str) -> bool:
    return os.path.commonpath((path, place)) == place
