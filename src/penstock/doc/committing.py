"""Commit of a document, and of nothing else, in the git repository that it is in."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError
from penstock.repo.git import LONG_SECONDS, Git
from penstock.run.secrets import redacted, secrets_in


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
