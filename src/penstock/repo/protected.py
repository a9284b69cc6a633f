"""State of the user's repository that no agent may change: refs, pushes, stash, settings, hooks, index, other files.

It is kept before agents run, and compared after each round. An agent with a shell can change every path that its user
can change. The comparison shows such changes, and the kept state can undo them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from penstock.errors import PenstockError
from penstock.repo.commit import Stamp, commit_tree
from penstock.repo.git import Git, GitError
from penstock.repo.git_files import SAMPLE, file_differences, put_pipes_aside, read_git_files
from penstock.repo.place import identity_of
from penstock.repo.refs import set_ref
from penstock.repo.repository import Repository
from penstock.run.secrets import redacted

LEFT_OUT_REFS = ("refs/penstock/", "refs/heads/penstock/", "refs/remotes/")
"""Prefixes of the refs that are not compared: Penstock itself moves those of the first two, and a fetch moves or
removes those of the last. Pushes are found in the log of the ref."""

REMOTES = "refs/remotes/"
"""Prefix of remote-tracking branches."""

PUSHED = "update by push"
"""Message that git writes into the log of a remote-tracking branch after a push; a fetch writes a different one."""

MAX_PUSHES = 100
"""Maximum number of newest pushes of a branch that are compared: more than one step makes."""

USUAL_SECTIONS = frozenset({"branch"})
"""Sections of the configuration that git changes during a user's work with branches."""

KEY_CHARS = 16
"""Length in characters of the name of a folder with kept files."""

ASIDE = "aside"
"""Folder of entries that were moved out of the git directory because git would have waited for them."""

FILES = "files"
"""Folder of the kept files other than settings, hooks and index."""

MAX_PARENTS = 200
"""Maximum number of parents of one commit that keeps the targets of refs; more targets need several commits."""

KEPT_SUBJECT = "Commits of the user's refs"
"""First line of the messages of commits that keep the targets of refs."""

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""Id of a commit."""

Kind = Literal["ref", "push", "head", "stash", "config", "hook", "index", "file"]


class Protected(msgspec.Struct, frozen=True):
    """State of a repository, for comparison."""

    head: str
    """Branch that is checked out, or the commit of a detached HEAD."""
    refs: Mapping[str, str]
    """Refs with their targets, without refs of Penstock and of remote repositories."""
    stash: tuple[str, ...]
    """Commits of the stash, the newest first."""
    config: Mapping[str, tuple[str, ...]]
    """Values of each key of the local configuration."""
    hooks: Mapping[str, str]
    """Hooks, each with a hash of its mode and content."""
    index: str
    """Hash of the entries of the index."""
    hooks_folder: str = ""
    """Directory of the hooks; "" in a state from an earlier version."""
    pushes: Mapping[str, tuple[str, ...]] = {}
    """Log lines of the newest pushes, by remote-tracking branch."""
    files: Mapping[str, str] | None = None
    """Other files that start or redirect something, with hashes; None in a state from an earlier version."""
    remotes: Mapping[str, str] = {}
    """Remote-tracking branches, as of the last push or fetch."""
    place: tuple[int, int] = (0, 0)
    """Device and inode of the git directory that all checkouts share; zeros in a state from an earlier version."""

    @property
    def key(self) -> str:
        """Name of the folder with the kept files of this state, so that commands printed earlier still find them.

        It is the same for all states with the same files; "" in a state from an earlier version.
        """
        if self.files is None:
            return ""
        parts = sorted(self.config.items()), sorted(self.hooks.items()), self.index, sorted(self.files.items())
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:KEY_CHARS]


class Difference(msgspec.Struct, frozen=True):
    """One difference of a repository from its earlier state."""

    kind: Kind
    name: str
    text: str
    """Difference as a phrase for people."""
    is_harm: bool
    """True for differences that a user's own work rarely makes: a ref removed or moved back, a stash entry lost,
    changed settings, changed hooks. False for pushes, new commits, branches and stash entries, staged files, and a
    switch to another branch."""
    restore: str
    """Command that undoes the difference, to be run in the repository."""


def read_protected(repository: Repository) -> Protected:
    """Return the state of a repository.

    Raises:
        GitError: git cannot read the repository, for instance because its configuration is broken.
    """
    config = _config(repository)  # first: if it is broken, nothing else can be read
    listed = repository.git.text("for-each-ref", "--format=%(refname) %(objectname) %(symref)").split("\n")
    targets = [tuple(line.split(" ")) for line in listed if line]
    refs = {ref: target for ref, target, _ in targets if not ref.startswith(LEFT_OUT_REFS)}
    common = os.stat(repository.common)
    entries = repository.git.run("ls-files", "--stage", "-z").out
    return Protected(
        head=repository.branch() or repository.head() or "",
        refs={ref: target for ref, target in refs.items() if ref != "refs/stash"},
        stash=_stash(repository),
        config=config,
        hooks=dict(_hooks(repository.hooks())),
        index=hashlib.sha256(entries).hexdigest(),
        hooks_folder=str(repository.hooks()),
        pushes=dict(_pushes(repository.common / "logs" / "refs" / "remotes")),
        files=read_git_files(repository.common, repository.git_dir),
        remotes={ref: target for ref, target, link in targets if ref.startswith(REMOTES) and not link},
        place=(common.st_dev, common.st_ino),
    )


def keep(repository: Repository, state: Protected, folder: Path, name: str, stamp: Stamp) -> str:
    """Keep a state: the commits of its refs and stash through a ref, its files in a folder. Return the ref.

    Because of this ref, the commits of the user's refs stay in the repository even if an agent deletes those refs.

    Raises:
        GitError: git could not write the commit.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in _config_files(repository):
        if file.exists():
            shutil.copy2(file, folder / file.name)
    if (repository.git_dir / "index").exists():
        shutil.copy2(repository.git_dir / "index", folder / "index")
    _keep_hooks(repository.hooks(), folder / "hooks")
    read_git_files(repository.common, repository.git_dir, folder / FILES)
    ref = f"refs/penstock/{name}/kept"
    _keep_commits(repository, state, ref, stamp)
    return ref


def _keep_hooks(hooks: Path, kept: Path) -> None:
    """Copy all hooks. Hooks that were kept before are removed only when the copy is complete."""
    new = kept.with_name("hooks.new")
    shutil.rmtree(new, ignore_errors=True)
    if hooks.is_dir():
        shutil.copytree(hooks, new, symlinks=True)
    else:
        new.mkdir()
    shutil.rmtree(kept, ignore_errors=True)
    os.replace(new, kept)


def differences(before: Protected, repository: Repository, folder: Path) -> list[Difference]:
    """Return the differences of a repository from an earlier state that was kept in this folder.

    Pipes and devices in its git directory are first moved into that folder, because git would wait for them.
    """
    if not (repository.common.is_dir() and repository.git_dir.is_dir()):
        return [_gone(before, repository)]
    moved = put_pipes_aside(repository.common, repository.git_dir, folder / ASIDE)
    found = [Difference("file", one.name, one.text, one.is_harm, one.restore) for one in moved]
    try:
        after = read_protected(repository)
    except (GitError, PenstockError) as error:
        restore = _restore_config(repository, folder)
        text = f"git can no longer read the repository: {error.what}"
        return [*found, Difference("config", "config", text, True, restore)]
    found += [*_ref_differences(before, after, repository.git), *_push_differences(before, after)]
    found += _removed_remotes(before, after)
    found += _stash_differences(before, after)
    found += _config_differences(before, after, repository, folder)
    # A changed directory of hooks is a difference of its own; hooks in the new directory are not compared with the old.
    hooks = Path(before.hooks_folder) if before.hooks_folder else repository.hooks()
    found += _hook_differences(before.hooks, dict(_hooks(hooks)), hooks, folder / "hooks")
    if before.files is not None and after.files is not None:
        for one in file_differences(before.files, after.files, repository.common, folder / FILES):
            found.append(Difference("file", one.name, one.text, one.is_harm, one.restore))
    if before.head != after.head:
        detach = "--detach " if _ID.fullmatch(before.head) else ""
        restore = f"git switch {detach}{shlex.quote(before.head)}"
        found.append(Difference("head", "HEAD", f"was {before.head}, is {after.head}", False, restore))
    if before.index != after.index:
        restore = f"cp {_quoted(folder / 'index')} {_quoted(repository.git_dir / 'index')}"
        found.append(Difference("index", "index", "other files are staged", False, restore))
    return found


def _gone(before: Protected, repository: Repository) -> Difference:
    """Return the difference for a git directory that is not in its place, and where it is now, if it is nearby."""
    device, inode = before.place
    common, root = repository.common, repository.root
    for folder in dict.fromkeys((common.parent, root, common.parent.parent, root.parent, Path(tempfile.gettempdir()))):
        for name in _names(folder):
            found = identity_of(folder / name)
            if inode and found is not None and found[:2] == (device, inode) and folder / name != common:
                restore = f"mv -n {_quoted(folder / name)} {_quoted(common)}"
                return Difference("file", common.name, f"was moved away; it is at {folder / name}", True, restore)
    text = "is gone; look for it before you make a new one, as all commits are in it"
    return Difference("file", common.name, text, True, f"find / -type d -inum {inode} 2>/dev/null")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _config_files(repository: Repository) -> tuple[Path, Path]:
    """Return the two files with local settings: that of the repository, and that of this checkout only."""
    return repository.common / "config", repository.git_dir / "config.worktree"


def _restore_config(repository: Repository, folder: Path) -> str:
    kept = [file for file in _config_files(repository) if (folder / file.name).exists()]
    return " && ".join(f"cp {_quoted(folder / file.name)} {_quoted(file)}" for file in kept)


def _config(repository: Repository) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for file in _config_files(repository):
        if file.exists():
            # Run outside of the repository, since git reads a repository's configuration before anything else.
            for item in Git(Path("/")).run("config", "--file", str(file), "--no-includes", "--list", "-z").items:
                key, _, value = item.partition("\n")
                found[key] = (*found.get(key, ()), value)
    return found


def _stash(repository: Repository) -> tuple[str, ...]:
    if repository.git.commit_of("refs/stash") is None:
        return ()
    return tuple(repository.git.text("rev-list", "--walk-reflogs", "refs/stash", "--").splitlines())


def _pushes(logs: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the remote-tracking branches that were pushed to, with the log lines of the pushes."""
    for path in sorted(logs.rglob("*")):
        try:
            text = path.read_text(errors="replace") if path.is_file() else ""
        except OSError:
            continue
        lines = tuple(line for line in text.split("\n") if line.partition("\t")[2] == PUSHED)
        if lines:
            yield f"refs/remotes/{path.relative_to(logs)}", lines[-MAX_PUSHES:]


def _hooks(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(name for name in os.listdir(folder) if not name.endswith(SAMPLE))
    except OSError:
        return
    for name in names:
        path = folder / name
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = os.fsencode(os.readlink(path))
        else:
            content = b""
        yield name, f"{status.st_mode:o} {hashlib.sha256(content).hexdigest()}"


def _keep_commits(repository: Repository, state: Protected, ref: str, stamp: Stamp) -> None:
    """Keep the commits through a ref. Each new commit of the ref descends from the one before, so none is lost."""
    git = repository.git
    refs = {**state.refs, **state.remotes}
    lines = [f"{at} {name}\n" for name, at in sorted(refs.items())]
    lines += [f"{at} stash\n" for at in state.stash] + [f"{state.head} HEAD\n"]
    message = redacted(f"{KEPT_SUBJECT}\n\n" + "".join(lines))
    old = git.commit_of(ref)
    if old is not None and git.text("log", "-1", "--format=%B", old, "--").rstrip("\n") == message.rstrip("\n"):
        return
    targets = sorted({*refs.values(), *state.stash, *filter(None, [repository.head()])})
    asked = "".join(f"{target}^{{commit}}\n" for target in targets).encode()
    answers = git.run("cat-file", "--batch-check=%(objecttype) %(objectname)", data=asked).text.splitlines()
    commits = sorted({answer.split()[1] for answer in answers if answer.startswith("commit ")})
    tree = git.run("mktree").text  # the empty tree
    while len(commits) > MAX_PARENTS:
        groups = [commits[start : start + MAX_PARENTS] for start in range(0, len(commits), MAX_PARENTS)]
        commits = [commit_tree(git, tree, group, KEPT_SUBJECT, stamp) for group in groups]
    parents = commits if old is None else [*commits, old]
    set_ref(repository, ref, commit_tree(git, tree, parents, message, stamp), old)


def _ref_differences(before: Protected, after: Protected, git: Git) -> Iterator[Difference]:
    for ref in sorted({*before.refs, *after.refs}):
        old, new = before.refs.get(ref), after.refs.get(ref)
        if old == new:
            continue
        name = shlex.quote(ref)
        if old is None:
            yield Difference("ref", ref, f"is new, at {new}", False, f"git update-ref -d {name} {new}")
        elif new is None:
            yield Difference("ref", ref, f"was removed; it was at {old}", True, f"git update-ref {name} {old}")
        else:
            is_harm = git.run("merge-base", "--is-ancestor", old, new, accepts=(0, 1, 128)).status != 0
            yield Difference("ref", ref, f"moved from {old} to {new}", is_harm, f"git update-ref {name} {old} {new}")


def _push_differences(before: Protected, after: Protected) -> Iterator[Difference]:
    for ref, lines in after.pushes.items():
        new = [line for line in lines if line not in before.pushes.get(ref, ())]
        if not new:
            continue
        old, at = new[0].split(" ")[0], new[-1].split(" ")[1]
        if set(old) == {"0"}:
            old = before.remotes.get(ref, old)  # it was removed and then pushed again
        remote, _, branch = ref.removeprefix(REMOTES).partition("/")
        is_first = set(old) == {"0"}
        text = f"was pushed: it is at {at}" + ("" if is_first else f", and was at {old}")
        lease = shlex.quote(f"--force-with-lease={branch}:{at}")
        change = shlex.quote(f":{branch}" if is_first else f"{old}:refs/heads/{branch}")
        yield Difference("push", ref, text, False, f"git push {lease} {shlex.quote(remote)} {change}")


def _removed_remotes(before: Protected, after: Protected) -> Iterator[Difference]:
    for ref in sorted(before.remotes.keys() - after.remotes.keys()):
        old = before.remotes[ref]
        remote, _, branch = ref.removeprefix(REMOTES).partition("/")
        text = f"was removed, by a push or by a fetch that has pruned it; it was at {old}"
        lease = shlex.quote(f"--force-with-lease={branch}:")  # only if the branch does not exist
        restore = f"git push {lease} {shlex.quote(remote)} {shlex.quote(f'{old}:refs/heads/{branch}')}"
        yield Difference("push", ref, text, False, restore)


def _stash_differences(before: Protected, after: Protected) -> Iterator[Difference]:
    for commit in reversed(before.stash):  # the newest is stored last, so that it is the first again
        if commit not in after.stash:
            restore = f"git stash store -m restored {commit}"
            yield Difference("stash", commit, "the entry of the stash was removed", True, restore)
    for commit in after.stash:
        if commit not in before.stash:
            # Named by its commit, since its number changes with each new entry.
            entry = f"$(git stash list --format='%H %gd' | sed -n 's/^{commit} //p')"
            yield Difference("stash", commit, "the entry of the stash is new", False, f'git stash drop "{entry}"')


def _config_differences(
    before: Protected, after: Protected, repository: Repository, folder: Path
) -> Iterator[Difference]:
    restore = _restore_config(repository, folder)
    for key in sorted({*before.config, *after.config}):
        old, new = before.config.get(key), after.config.get(key)
        if old != new:
            # Values are not shown: some are passwords.
            text = (
                "the setting is new"
                if old is None
                else "the setting was removed"
                if new is None
                else "has another value"
            )
            if key.startswith("remote.") and key.endswith(".fetch") and old is not None:
                remote = key.removeprefix("remote.").removesuffix(".fetch")
                text += f", and a push to {remote} after that leaves no trace here: git ls-remote {shlex.quote(remote)}"
            yield Difference("config", key, text, key.partition(".")[0] not in USUAL_SECTIONS, restore)


def _hook_differences(
    before: Mapping[str, str], after: Mapping[str, str], hooks: Path, kept: Path
) -> Iterator[Difference]:
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    whole = f"rm -rf {_quoted(hooks)} && cp -a {_quoted(kept)} {_quoted(hooks)}"
    for name in names:
        old, new = before.get(name), after.get(name)
        if old is None:
            text, restore = "the hook is new", f"rm -r {_quoted(hooks / name)}"
        else:
            text = "the hook was removed" if new is None else "the hook was changed"
            restore = f"cp -pP {_quoted(kept / name)} {_quoted(hooks / name)}"
        yield Difference("hook", name, text, True, restore if len(names) == 1 else whole)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
