"""Loops of the data directory: begin one, find one, list them."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock._version import __version__
from penstock.config.ownership import own_new, person_named
from penstock.errors import PenstockError, UsageError
from penstock.loop.check_files import files_of_checks
from penstock.loop.fold import fold
from penstock.loop.inbox import LoopInbox
from penstock.loop.journal import Journal, has_begun, process_of, read_rows
from penstock.loop.rows import VERSION, LoopBegan, LoopResumed, Settings
from penstock.loop.state import LoopState
from penstock.loop.steps import RunAgent, RunCheck
from penstock.repo.git import LONG_SECONDS
from penstock.repo.refs import free_branch
from penstock.repo.repository import Repository, root_of
from penstock.run.history import now_ms
from penstock.run.inside import marks
from penstock.run.secrets import redacted

FOLDER = "loops"

DEFAULT_PROTECT = (
    *("penstock.toml", ".husky/**", ".pre-commit-config.yaml", ".overcommit.yml"),
    *("lefthook.*", ".lefthook.*", "lefthook-local.*", ".config/lefthook*", ".lefthook/**", ".lefthook-local/**"),
)
"""Files that are put back before each check, besides the prompt, the files that the checks name, and the hooks: agents
would otherwise judge themselves, and start programs with the user's next commit."""

MAX_PROMPT_BYTES = 1 << 20
"""Bytes of a prompt: it is written by hand, and each round sends it."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class LoopFolder(msgspec.Struct, frozen=True):
    """One loop on disk."""

    path: Path
    state: LoopState

    @property
    def id(self) -> str:
        """Id of the loop, which is the name of its folder."""
        return self.path.name


def begin_loop(
    data: Path, prompt: Path, settings: Settings, name: str | None = None, directory: Path | None = None
) -> Journal:
    """Begin a loop in the repository of its prompt, and return its journal with the first row. Nothing has run yet.

    Args:
        data: the data directory.
        prompt: file of the prompt.
        settings: agents, checks and budget.
        name: name of the loop; by default one is made of the prompt's name.
        directory: directory of the repository in which all work; its top by default, and if it is outside of it.

    Raises:
        UsageError: the prompt, the repository, the name, the directory or the person to whom it is to belong cannot be
            used.
    """
    text = read_prompt(prompt)
    repository = repository_of(prompt)
    repository.check_complete(with_setup=bool(settings.setup))
    repository.author()
    loop = name or f"{_slug(redacted(prompt.stem))}-{uuid.uuid4().hex[:6]}"
    if _NAME.fullmatch(loop) is None:
        raise UsageError(f"{loop!r} cannot be the name of a loop", expected="lower-case letters, digits and dashes")
    folder = data / FOLDER / loop
    if has_begun(folder):
        raise _taken(folder, repository)
    person = person_named()
    base = repository.head()
    assert base is not None
    below = directory_in(repository, directory)
    row = LoopBegan(
        n=1,
        at=now_ms(),
        version=VERSION,
        loop=loop,
        repository=str(repository.root),
        base=base,
        base_tree=repository.git.tree_of(base),
        branch=free_branch(repository, loop),
        prompt_path=str(prompt.absolute()),
        prompt=text,
        settings=_with_protected(settings, repository, prompt, below),
        penstock=__version__,
        marks=tuple(sorted(marks())),
        directory=below,
    )
    journal = Journal.open(folder)
    own_new(folder, person)
    journal.append(row)
    return journal


def _taken(folder: Path, repository: Repository) -> UsageError:
    """Return the error for a name that a loop has already, in this repository or in another one."""
    try:
        owner = fold(read_rows(folder)).began.repository
    except (UsageError, ValueError):
        owner = ""  # of another version
    if owner in ("", str(repository.root)):
        help = f"penstock loop resume {folder.name}, or another --name"
        return UsageError(f"there is a loop {folder.name} already", help=help)
    return UsageError(f"there is a loop {folder.name} already, in {owner}", help="choose another --name")


def resume(
    journal: Journal,
    *,
    rounds: int = 0,
    ms: int = 0,
    cost_usd: float = 0.0,
    tokens: int = 0,
    accepts: Sequence[str] = (),
    merges: str = "",
    merges_name: str = "",
) -> None:
    """Write the row that resumes a loop, and forget earlier requests to stop.

    With `merges`, a commit of the user's branch, the next round resolves the conflicts with it.
    """
    LoopInbox(journal.folder).remove_stops()
    row = LoopResumed(len(journal.rows) + 1, now_ms(), rounds=rounds, ms=ms, cost_usd=cost_usd, tokens=tokens)
    journal.append(msgspec.structs.replace(row, accepts=tuple(accepts), merges=merges, merges_name=merges_name))


def repository_of(prompt: Path) -> Repository:
    """Return the repository in whose checkout a prompt is, or a link to it.

    Raises:
        UsageError: there is none, or it cannot be used.
    """
    return Repository.at(prompt.absolute().parent.resolve())


def read_prompt(path: Path) -> str:
    """Return the text of a prompt.

    Raises:
        UsageError: it cannot be read, is empty, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        what = f"the prompt {path} cannot be read: {error.strerror}"
        raise UsageError(what, help="penstock loop init writes one to begin with") from error
    text = data.decode("utf-8-sig", "replace")  # some editors of Windows write a mark at the beginning
    if not text.strip():
        raise UsageError(f"the prompt {path} is empty", expected="what is to be done")
    if len(data) > MAX_PROMPT_BYTES:
        raise UsageError(f"the prompt {path} is larger than {MAX_PROMPT_BYTES:,} bytes")
    return text


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:24] or "loop"


def directory_in(repository: Repository, directory: Path | None) -> str:
    """Return the path of a directory from the top of a repository; "" for the top and for one that is outside.

    Raises:
        UsageError: it is not in the last commit.
    """
    root = repository.root.resolve()
    if directory is None or not directory.resolve().is_relative_to(root):
        return ""
    below = directory.resolve().relative_to(root).as_posix()
    if below == ".":
        return ""
    found = repository.git.run("cat-file", "-t", f"HEAD:{below}", accepts=(0, 128))
    if found.text != "tree":
        what = f"{below} is not in the last commit, so a tree does not have it"
        raise UsageError(what, help="commit it first, or begin the loop in another directory")
    return below


def _with_protected(settings: Settings, repository: Repository, prompt: Path, below: str) -> Settings:
    """Add to the protected files the prompt and the files that a check names, and note what the checks read."""
    git = repository.git
    items = git.run("ls-tree", "-r", "-z", "--full-tree", "HEAD", seconds=LONG_SECONDS).items
    modes = {path: fields.split()[0] for fields, _, path in (item.partition("\t") for item in items)}

    def read(path: str) -> str:
        blob = git.run("cat-file", "blob", f"HEAD:{path}").out
        return blob[:MAX_PROMPT_BYTES].decode("utf-8", "replace")

    found = files_of_checks(settings.checks, modes, read, below)
    own = [Path(os.path.normpath(prompt.absolute())), prompt.resolve()]  # of a link, both ends
    own.append(Path(os.path.normpath(repository.hooks())))  # `core.hooksPath` may name a directory of the files
    roots = repository.root, repository.root.resolve()
    inside = [str(path.relative_to(root)) for path in own for root in roots if path.is_relative_to(root)]
    protect = (*settings.protect, *DEFAULT_PROTECT, *inside, *found.protects)
    return msgspec.structs.replace(settings, protect=tuple(dict.fromkeys(protect)), reads=found.reads)


def loops(data: Path) -> list[LoopFolder]:
    """Return all loops that can be read, the oldest first."""
    found = []
    try:
        folders = [path for path in (data / FOLDER).iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    for path in folders:
        try:
            found.append(LoopFolder(path, fold(read_rows(path))))
        except (UsageError, ValueError):
            continue  # begun and not written, or of another version
    return sorted(found, key=lambda loop: loop.state.began.at)


def recording_folder(folder: Path, step: RunAgent, number: int) -> Path:
    """Return the directory of the recording of an agent's step, in the folder of its loop."""
    return round_folder(folder, step.round) / f"{step.role}-{number}"


def check_log(folder: Path, step: RunCheck) -> Path:
    """Return the file with the output of a check."""
    candidate = "base-" if step.with_base else f"candidate-{step.candidate}-" if step.candidate else ""
    return round_folder(folder, step.round) / f"{candidate}check-{step.number + 1}-{step.attempt}.txt"


def setup_log(folder: Path, candidate: int = 0) -> Path:
    """Return the file with the output of the setup."""
    return round_folder(folder, 0) / (f"candidate-{candidate}-setup.txt" if candidate else "setup.txt")


def tree_names(settings: Settings, loop: str) -> list[str]:
    """Return the names of the trees of a loop: its own, and those of its candidates."""
    return [loop, *(f"{loop}.{label}" for label in settings.candidate_labels)]


def held_folder(folder: Path, state: LoopState, candidate: int) -> Path:
    """Return the directory for what was held back in the tree of a candidate in the last round."""
    return round_folder(folder, len(state.rounds)) / f"held-{state.settings.candidate_labels[candidate - 1]}"


def round_folder(folder: Path, number: int) -> Path:
    """Return the directory with the results of a round, in the folder of its loop."""
    return folder / "rounds" / f"{number:03}"


def find_loop(data: Path, name: str | None, cwd: Path) -> LoopFolder:
    """Return the loop of a name, or the newest of the repository, or the one of the tree, in which `cwd` is.

    Raises:
        UsageError: there is none, it has not begun, its journal cannot be read, or it belongs to another repository.
    """
    if name is not None:
        folder = data / FOLDER / name
        if _NAME.fullmatch(name) is None or not has_begun(folder):
            raise UsageError(f"there is no loop {name!r}", help="penstock loop status --json lists all")
        found = LoopFolder(folder, fold(read_rows(folder)))
        _check_belongs(found, cwd)
        return found
    return loops_here(data, cwd)[-1]


def _check_belongs(loop: LoopFolder, cwd: Path) -> None:
    """Check that a loop belongs to the repository of `cwd`, as the loops of all repositories share their names.

    A loop whose repository is gone can be named anywhere.
    """
    owner = loop.state.began.repository
    if root_of(cwd) in (owner, loop.state.path) or not Path(owner).is_dir():
        return
    what = f"the loop {loop.id} belongs to the repository {owner}"
    raise UsageError(what, expected="a command in that directory", help=f"cd {shlex.quote(owner)}")


def find_running(data: Path, name: str | None, cwd: Path, *, example: str) -> LoopFolder:
    """Return the loop of a name, or the one that runs in the repository; the newest one if none runs.

    Raises:
        UsageError: as `find_loop`, or several run; `example` is the command with a name in the place of `LOOP`.
    """
    if name is not None:
        return find_loop(data, name, cwd)
    here = loops_here(data, cwd)
    running = [loop for loop in here if process_of(loop.path) is not None]
    if len(running) > 1:
        names = ", ".join(loop.id for loop in running)
        help = example.replace("LOOP", running[-1].id)
        raise UsageError(f"{len(running)} loops of this repository run: {names}", expected="one of them", help=help)
    return running[0] if running else here[-1]


def loops_here(data: Path, cwd: Path) -> list[LoopFolder]:
    """Return the loops of the repository, or the one of the tree, in which `cwd` is, the oldest first.

    Raises:
        UsageError: there is none.
    """
    root = str(Repository.at(cwd).root)
    here = [loop for loop in loops(data) if root in (loop.state.began.repository, loop.state.path)]
    if not here:
        raise UsageError("there is no loop of this repository yet", help="penstock loop PROMPT.md begins one")
    return here


def reason_to_keep(loop: LoopFolder) -> str:
    """Return the reason why the tree of a loop is still needed; "" if it is not."""
    state = loop.state
    if process_of(loop.path) is not None:
        return "the loop runs"
    if state.landed is None and state.head != state.began.base and not _is_in_branch(state):
        return f"the loop has not landed: penstock loop land {loop.id}"
    if state.ended is None:
        return f"the loop was interrupted: penstock loop resume {loop.id}"
    return ""


def _is_in_branch(state: LoopState) -> bool:
    """Return whether the branch that is checked out has the result, as after a merge by hand."""
    try:
        repository = Repository.at(Path(state.began.repository))
        return repository.git.succeeds("merge-base", "--is-ancestor", state.head, "HEAD")
    except PenstockError:
        return False
