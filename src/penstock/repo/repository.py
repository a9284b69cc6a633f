"""The user's repository: its paths, whether it can have trees, and the settings that a tree inherits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from penstock.errors import UsageError, shown
from penstock.repo.git import Git, GitError, check_common_directory, check_version

DROPPED_SECTIONS = frozenset(
    {
        "remote",
        "branch",
        "url",
        "include",
        "includeif",
        "alias",
        "credential",
        "http",
        "submodule",
        "extensions",
        "gc",
        "maintenance",
    }
)
"""Sections of the local configuration that a tree does not inherit: they name remotes, passwords and programs."""

DROPPED_KEYS = frozenset(
    {
        "core.worktree",
        "core.bare",
        "core.fsmonitor",
        "core.hookspath",
        "core.repositoryformatversion",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "core.splitindex",
        "core.sshcommand",
        "core.askpass",
        "core.gitproxy",
    }
)
"""Further keys that a tree does not inherit: they belong to one git directory, or start a program."""

COPIED_FILES = ("info/exclude", "info/attributes", "shallow")
"""Files of the git directory that a tree inherits. Without them, git would ignore or filter different files in the
tree, and the history would not end where the user's ends."""


STARTS_PROGRAMS = re.compile(
    r"filter\..*\.(clean|smudge|process)|merge\..*\.driver|gpg\.(.*\.)?program|gpg\.ssh\.defaultkeycommand", re.DOTALL
)
"""Pattern of the settings with programs that git starts when it reads, merges or checks out files."""

LFS_FILTER = {
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.smudge": "git-lfs smudge -- %f",
    "filter.lfs.process": "git-lfs filter-process",
}
"""Such settings as `git lfs install --local` writes them. The program is found in PATH, not in the repository."""

MAX_ALTERNATES = 5
"""Depth to which object stores borrow from each other; git itself follows as many."""

PROBE_BYTES = 4096
"""Bytes of an object that is written to test the disk: a disk with less than a block left counts as full."""


class Author(msgspec.Struct, frozen=True):
    """Name and address of a person."""

    name: str
    email: str


class Repository(msgspec.Struct, frozen=True):
    """The user's repository, seen from one of its checkouts."""

    root: Path
    """Top directory of the checkout."""
    git_dir: Path
    """Git directory of this checkout; in a linked worktree it differs from the common one."""
    common: Path
    """Git directory that all checkouts of the repository share."""
    objects: Path
    object_format: str

    @classmethod
    def at(cls, path: Path) -> Repository:
        """Return the repository whose checkout contains this path.

        Raises:
            UsageError: there is none, it has no checkout or no commit, its path is not UTF-8, its git directory leads
                to another one, or git is too old.
        """
        check_version()
        words = "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "objects"
        try:
            text = Git(path).text("rev-parse", "--path-format=absolute", *words, "--show-object-format")
        except GitError as error:
            raise _no_repository(path, error) from error
        root, git_dir, common, objects, object_format = text.split("\n")
        if any("\ud800" <= character <= "\udfff" for character in text):  # bytes that are not UTF-8
            raise UsageError(f"the path of the repository {shown(root)} is not UTF-8", expected="a path in UTF-8")
        check_common_directory(root, git_dir, common)
        found = cls(Path(root), Path(git_dir), Path(common), Path(objects), object_format)
        if found.head() is None:
            what = f"the repository {root} has no commit yet"
            raise UsageError(what, help="git add . && git commit -m 'Begin' makes one of your files")
        return found

    @property
    def git(self) -> Git:
        """Git of the user's checkout."""
        return Git(self.root, self.git_dir)

    def head(self) -> str | None:
        """Return the commit of HEAD."""
        return self.git.commit_of("HEAD")

    def branch(self) -> str | None:
        """Return the name of the branch that is checked out; None if HEAD is detached."""
        done = self.git.run("symbolic-ref", "--quiet", "--short", "HEAD", accepts=(0, 1))
        return done.text if done.status == 0 else None

    def can_store(self) -> bool:
        """Return whether an object can be written. If not, the disk is full or broken, whatever else has failed."""
        try:
            self.git.run("hash-object", "-w", "--stdin", data=os.urandom(PROBE_BYTES))
        except GitError:
            return False
        return True

    def author(self) -> Author:
        """Return the identity of the user in this repository.

        Raises:
            UsageError: none is configured.
        """
        # Looked up in the user's repository, since settings may depend on its path.
        try:
            ident = self.git.text("var", "GIT_AUTHOR_IDENT")
        except GitError as error:
            what = "git does not know who makes the commits"
            help = 'git config --global user.name "NAME" and git config --global user.email ADDRESS'
            raise UsageError(what, help=help) from error
        name, _, rest = ident.rpartition(" <")
        return Author(name, rest.partition(">")[0])

    def hooks(self) -> Path:
        """Return the directory of the user's hooks, wherever it is configured."""
        # A relative `core.hooksPath` is relative to the user's checkout, where the user has installed the hooks.
        place = self.git.run("config", "--type=path", "--get", "core.hooksPath", accepts=(0, 1), hooks=None)
        return self.root / place.text if place.status == 0 else self.common / "hooks"

    def check_complete(self, *, with_setup: bool) -> None:
        """Check that a tree of the repository would have all its files.

        Raises:
            UsageError: it is a partial clone, or it has submodules and no command that sets them up.
        """
        if self.git.succeeds("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$"):
            raise UsageError(
                f"{self.root} is a partial clone: some of its files have to be fetched, and a tree has no remote",
                expected="a complete clone",
                help="git config --unset remote.origin.promisor; git config --unset remote.origin.partialclonefilter; "
                "git fetch --refetch",
            )
        if not with_setup and self._has_submodules():
            raise UsageError(
                f"{self.root} has submodules, which a tree does not have by itself",
                help="a setup command fetches them: git submodule update --init --recursive",
            )

    def _has_submodules(self) -> bool:
        return bool(self.git.text("ls-tree", "HEAD", "--", ".gitmodules"))

    def settings(self) -> list[tuple[str, str | None]]:
        """Return the local settings that a tree inherits, with those of included files."""
        kept = [(key, value) for key, value in self._local_settings() if _is_inherited(key)]
        if all(key != "lfs.storage" for key, _ in kept):
            # No file is then fetched twice, and files that an agent adds stay when the tree is removed.
            kept.append(("lfs.storage", str(self.common / "lfs")))
        return kept

    def programs(self) -> list[str]:
        """Return the names of the local settings with programs that git would start when it reads or writes files.

        Those of git-lfs are not among them.
        """
        pairs = self._local_settings()
        return [key for key, value in pairs if STARTS_PROGRAMS.fullmatch(key) and LFS_FILTER.get(key) != value]

    def stores(self) -> tuple[str, ...]:
        """Return the paths of its object store, and of those from which it borrows."""
        found, todo = [], [(self.objects, 0)]
        while todo:
            place, depth = todo.pop()
            found.append(str(place))
            try:
                lines = (place / "info" / "alternates").read_text(errors="surrogateescape").splitlines()
            except OSError:
                continue
            if depth < MAX_ALTERNATES:
                todo += [(place / line, depth + 1) for line in lines if line and not line.startswith("#")]
        return tuple(found)

    def _local_settings(self) -> list[tuple[str, str | None]]:
        """Return the settings of the repository and of this checkout, with those of included files."""
        pairs: list[tuple[str, str | None]] = []
        scopes = ["--local"]
        if self.git.succeeds("config", "--type=bool", "--get", "extensions.worktreeConfig"):
            scopes.append("--worktree")
        for scope in scopes:
            for item in self.git.run("config", scope, "--includes", "--list", "-z").items:
                key, newline, value = item.partition("\n")
                pairs.append((key, value if newline else None))
        return pairs


def root_of(path: Path) -> str | None:
    """Return the top directory of the checkout that contains this path; None if there is none. It needs no commit."""
    try:
        check_version()
        return Git(path).text("rev-parse", "--path-format=absolute", "--show-toplevel")
    except (GitError, UsageError):
        return None


def config_text(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Return settings as the text of a configuration file. None is the value of a key without `=`."""
    lines = []
    for key, value in pairs:
        section, _, name = key.rpartition(".")
        section, dot, part = section.partition(".")
        heading = f'[{section} "{_escaped(part)}"]' if dot else f"[{section}]"
        lines.append(heading)
        if value is None:
            lines.append(f"\t{name}")
        else:
            quoted = _escaped(value).replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
            lines.append(f'\t{name} = "{quoted}"')
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _is_inherited(key: str) -> bool:
    return key.partition(".")[0] not in DROPPED_SECTIONS and key not in DROPPED_KEYS


def _no_repository(path: Path, error: GitError) -> UsageError:
    if "dubious ownership" in error.stderr:
        return UsageError(
            f"git does not trust {path}: it belongs to another user", help=error.stderr.splitlines()[-1].strip()
        )
    if "must be run in a work tree" in error.stderr:
        return UsageError(f"{path} is in a repository without a checkout", expected="a checkout with files")
    if "not a git repository" in error.stderr:
        return UsageError(f"{path} is not in a git repository", help="git init makes one")
    return UsageError(f"git cannot use the repository at {path}: {' '.join(error.stderr.split())}")
