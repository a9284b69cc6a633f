"""Commit of a document, and of nothing else, in the git repository that it is in."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from penstock.config.regular_files import content_of
from penstock.errors import UsageError, shown
from penstock.repo.git import LONG_SECONDS, Git
from penstock.run.secrets import redacted, secrets_in

USUAL_SETTINGS = b"branch."
"""Beginning of the settings that git itself changes when somebody works with branches; they start nothing."""
HUSKY = "_"
"""Name of a directory of generated hooks: each starts the file of its name in the directory above."""
MAX_HOOK_BYTES, MAX_HOOKS = 1024 * 1024, 1000
"""Bytes of the largest hook that is read, and number of hooks that are: most are a few scripts of some lines."""


class Commits:
    """Commits of documents by one command, as long as git would start the same programs as at its beginning.

    An agent can write hooks, if they are files of the project, and outside of a confinement any hook and setting. A
    commit would start them, without the confinement, before anybody has seen them.
    """

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def look(self, folder: Path) -> None:
        """Look at the repository of a directory, before an agent works; the first look at each repository counts."""
        root, _, digest = _programs(folder)
        self._seen.setdefault(root, digest)

    def commit(self, path: Path, agent: str) -> str:
        """Commit a document, as `commit_document`.

        Raises:
            UsageError: also if hooks or settings have changed since the first look.
        """
        root, hooks, digest = _programs(path.parent)
        if self._seen.get(root) != digest:
            what = f"the hooks in {shown(hooks)}, or settings of git, have changed since this command began"
            raise UsageError(what, help="look at them, then commit it yourself")
        return commit_document(path, agent)


def _programs(folder: Path) -> tuple[str, str, str]:
    """Return the top directory of a repository, that of its hooks, and a digest of what a commit would start.

    The digest is "" where there is no repository.
    """
    git = Git(folder)
    words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    places = git.run("rev-parse", "--path-format=absolute", *words, accepts=(0, 128))
    if places.status != 0:
        return "", "", ""
    hooks = git.run("rev-parse", "--path-format=absolute", "--git-path", "hooks", hooks=None).text
    settings = git.run("config", "--list", "--null", hooks=None).out.split(b"\0")
    digest = hashlib.sha256()
    for part in (places.out, *(it for it in settings if not it.startswith(USUAL_SETTINGS)), *_files(hooks)):
        digest.update(hashlib.sha256(part).digest())
    return places.text.partition("\n")[0], hooks, digest.hexdigest()


def _files(hooks: str) -> Iterator[bytes]:
    """Yield name, mode and content of each hook, also of a link. If it is not read, yield when it was changed."""
    for folder in (hooks, os.path.dirname(hooks)) if os.path.basename(hooks) == HUSKY else (hooks,):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for number, name in enumerate(names):
            path = os.path.join(folder, name)
            try:
                status = os.stat(path)
            except OSError:
                continue  # a link that leads nowhere
            yield os.fsencode(path)
            yield b"%o" % status.st_mode
            content = content_of(path, MAX_HOOK_BYTES, follows=True) if number < MAX_HOOKS else None
            yield content if content is not None else b"%d" % status.st_ctime_ns


def commit_document(path: Path, agent: str) -> str:
    """Commit the document as the user would with `git commit`: with hooks and never forced; return the commit's id.

    Files that the user has staged stay staged.

    Raises:
        UsageError: there is no git, or the document has what looks like a secret that its last commit does not have.
        GitError: the document is in no repository, is ignored, has nothing to commit, or a hook rejects the commit.
    """
    git = Git(path.parent)
    name = f":(literal){path.name}"  # else n[1].md is a pattern, which n1.md matches too
    found = secrets_in(path.read_bytes())
    old = secrets_in(git.run("show", f"HEAD:./{path.name}", accepts=(0, 128)).out) if found else {}
    kinds = sorted({kind for secret, kind in found.items() if secret not in old})
    if kinds:
        raise UsageError(f"it has what looks like {', '.join(kinds)}", help="take that out, or commit it yourself")
    git.run("add", "--", name)  # a new document is not known to git yet
    message = redacted(f"{path.name}: answered by {agent}")
    git.run(
        *("commit", "--quiet", "--only", "-m", message, "--", name),
        hooks=None,
        seconds=LONG_SECONDS,
        sweeps=False,
    )
    return git.text("rev-parse", "--verify", "HEAD")
