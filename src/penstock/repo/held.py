"""Rules for what is not committed without a person's word: secrets, junk, large files, nested repositories. Pure.

Only new content is looked at, so that an old fixture with a key in it never blocks a commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

MAX_FILE_BYTES = 5 * 1024 * 1024
"""Bytes of a file that is committed without a question; larger ones are mostly builds, dumps and videos."""

MAX_NEW_FILES = 500
"""New files below one new directory that are committed without a question; more are mostly dependencies or caches."""

SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials",
    "credentials.*",
    ".netrc",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
)
"""Names of files that hold secrets, in lower case."""

TEMPLATE_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
"""Names of files that look like those, and are made to be shared."""

SECRET_CONTENT: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("a private key", rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
        ("a key of AWS", rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("a token of GitHub", rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})"),
        ("a token of GitLab", rb"\bglpat-[A-Za-z0-9_-]{20,}"),
        ("a token of Slack", rb"\bxox[abeoprs]-[A-Za-z0-9-]{20,}"),
        ("a key of Anthropic", rb"\bsk-ant-[A-Za-z0-9_-]{30,}"),
        ("a key of OpenAI", rb"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{30,}|\bsk-[A-Za-z0-9]{48}\b"),
        ("a key of Google", rb"\bAIza[0-9A-Za-z_-]{35}"),
        ("a key of Stripe", rb"\b[rs]k_live_[0-9A-Za-z]{20,}"),
        ("a token of npm", rb"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a token of PyPI", rb"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
        ("a token of Hugging Face", rb"\bhf_[A-Za-z0-9]{34}\b"),
        ("a key of age", rb"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    )
)
"""Prefixes by which keys and tokens are known, with their names."""

GIT_NAMES = frozenset({".git", "git~1"})
"""Names of directories, in lower case, that git accepts in no commit."""

Reason = Literal["secret_name", "secret_content", "large", "many", "nested", "special"]


class Held(msgspec.Struct, frozen=True):
    """A path that was not staged."""

    path: str
    """Path from the top; a directory ends with a slash."""
    reason: Reason
    text: str
    """Reason as a phrase for people."""

    @property
    def is_final(self) -> bool:
        """Return whether git cannot commit it, so that nobody can allow it."""
        return self.reason in ("nested", "special")


def held_by_name(path: str) -> Held | None:
    """Return why a new file is held back for its name; None if it is not."""
    name = path.rpartition("/")[2].lower()
    if any(fnmatchcase(name, shape) for shape in TEMPLATE_NAMES):
        return None
    if any(fnmatchcase(name, shape) for shape in SECRET_NAMES):
        return Held(path, "secret_name", "files of this name hold secrets")
    return None


def held_by_size(path: str, size: int, old_size: int) -> Held | None:
    """Return why a file is held back for its size; one that was as large before is not."""
    if size <= MAX_FILE_BYTES or old_size > MAX_FILE_BYTES:
        return None
    return Held(path, "large", f"{size / 1024 / 1024:.1f} MiB, more than {MAX_FILE_BYTES // 1024 // 1024}")


def secrets_in(content: bytes) -> dict[bytes, str]:
    """Return the keys and tokens in a file, with the names of their kinds."""
    return {found.group(): name for name, pattern in SECRET_CONTENT for found in pattern.finditer(content)}


def held_by_content(path: str, found: Iterable[str]) -> Held | None:
    """Return why a file is held back for the kinds of secrets that are new in it; None if there are none."""
    kinds = sorted(set(found))
    return Held(path, "secret_content", "contains what looks like " + ", ".join(kinds)) if kinds else None


def held_directories(added: Iterable[str], tracked: Iterable[str]) -> list[Held]:
    """Return the new directories with too many new files; the highest directory without a tracked file counts."""
    known = {""}
    for path in tracked:
        folder = path.rpartition("/")[0]
        while folder not in known:
            known.add(folder)
            folder = folder.rpartition("/")[0]
    counts: dict[str, int] = {}
    for path in added:
        new = highest_new_directory(path, known)
        if new:
            counts[new] = counts.get(new, 0) + 1
    return [
        Held(f"{folder}/", "many", f"{count:,} new files, more than {MAX_NEW_FILES}")
        for folder, count in sorted(counts.items())
        if count > MAX_NEW_FILES
    ]


def highest_new_directory(path: str, known: Collection[str]) -> str:
    """Return the highest directory above a path that is not known; an empty text if all are."""
    end = path.find("/")
    while end >= 0:
        if path[:end] not in known:
            return path[:end]
        end = path.find("/", end + 1)
    return ""


def is_allowed(path: str, allowed: Sequence[str]) -> bool:
    """Return whether the user has allowed a path: by its name, by a pattern, or by a directory above it."""
    return any(
        path == shape or fnmatchcase(path, shape) or (shape.endswith("/") and path.startswith(shape))
        for shape in allowed
    )


def has_git_name(path: str) -> bool:
    """Return whether a part of a path is a name that git accepts in no commit."""
    return any(part.lower() in GIT_NAMES for part in path.split("/"))
