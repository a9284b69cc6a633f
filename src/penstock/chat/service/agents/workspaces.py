"""Directories in which agents may work: they are below the roots, and a user has trusted each of them once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from penstock.chat.errors import Invalid, OutsideRoots, UntrustedDirectory
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import Directory
from penstock.errors import UsageError

MAX_PATH_CHARS = 4096
"""Characters of a path: the limit of Linux."""

MAX_RECENT = 10
"""Directories that are listed as recently used."""


class Workspace(msgspec.Struct, frozen=True):
    """Directory, and whether it is trusted."""

    path: str
    trusted: bool


class Workspaces:
    """Directories that agents may work in.

    Raises:
        UsageError: a root is not a directory.
    """

    def __init__(
        self, roots: Iterable[Path], store: ChatStore, trusted: Iterable[Directory], now: Callable[[], int]
    ) -> None:
        """Resolve the roots. `trusted` are the directories of the store. `now` returns milliseconds since 1970."""
        self.roots: list[Path] = list(dict.fromkeys(_root(path) for path in roots))
        self._store = store
        self._trusted = {directory.path: directory.trusted_at for directory in trusted}
        self._now = now

    def find(self, path: str | os.PathLike[str] | None) -> Path:
        """Return the real directory of this name, with all links resolved; for None, the first root.

        Raises:
            Invalid: it is not an absolute path, or not a directory.
            OutsideRoots: it is not below a root. The error does not reveal whether it exists.
        """
        if not self.roots:
            raise OutsideRoots("no agents work at this node", help="start penstock serve with --root there")
        if path is None:
            return self.roots[0]
        text = os.fspath(path)
        if not os.path.isabs(text) or len(text) > MAX_PATH_CHARS or "\0" in text:
            raise Invalid("this is not the name of a directory", expected="an absolute path")
        try:
            real = Path(text).resolve()
            is_inside = self._is_inside(real)
            is_directory = is_inside and real.is_dir()
        except (OSError, ValueError, RuntimeError) as error:  # a loop of links, half a character
            raise Invalid("the directory cannot be read", expected="an absolute path") from error
        if not is_inside:
            raise OutsideRoots(
                f"{text!r} is not below a root of this Penstock",
                expected="a directory below " + " or ".join(map(str, self.roots)),
                help="start penstock serve with another --root",
            )
        if not is_directory:
            raise Invalid(f"there is no directory {text!r}")
        return real

    def is_trusted(self, path: Path) -> bool:
        """Return whether this real directory is trusted. Trust does not extend to its subdirectories."""
        return str(path) in self._trusted

    def require(self, path: str | os.PathLike[str] | None) -> Path:
        """Return the real directory, as `find`, for an agent to work in.

        Raises:
            Invalid, OutsideRoots: as `find`.
            UntrustedDirectory: it is not trusted yet.
        """
        real = self.find(path)
        if not self.is_trusted(real):
            raise UntrustedDirectory(str(real))
        return real

    async def require_now(self, path: str | os.PathLike[str] | None) -> Path:
        """Return the directory as `require`, also if another node was asked to trust it just now.

        Raises:
            Invalid, OutsideRoots, UntrustedDirectory: as `require`.
            StoreFailed: the store cannot be read.
        """
        if not self.is_trusted(self.find(path)):
            await self.read_again()
        return self.require(path)

    async def trust(self, path: str | os.PathLike[str]) -> Workspace:
        """Trust this directory from now on.

        Raises:
            Invalid, OutsideRoots: as `find`.
            StoreFailed: the decision cannot be kept.
        """
        real = self.find(path)
        if not self.is_trusted(real):
            directory = Directory(str(real), self._now())
            await self._store.put_directory(directory)
            self._trusted[directory.path] = directory.trusted_at
        return Workspace(str(real), True)

    async def read_again(self) -> None:
        """Read the trusted directories again: another node may have added one.

        Raises:
            StoreFailed: the store cannot be read.
        """
        self._trusted = {directory.path: directory.trusted_at for directory in await self._store.list_directories()}

    @property
    def trusted(self) -> list[str]:
        """Paths of the trusted directories."""
        return [*self._trusted]

    def listed(self, used: Sequence[str]) -> tuple[list[Workspace], list[Workspace]]:
        """Return the roots, and other recent directories: those that chats `used`, newest first, then trusted ones."""
        roots = [str(root) for root in self.roots]
        newest = sorted(self._trusted, key=self._trusted.__getitem__, reverse=True)
        recent = [path for path in dict.fromkeys([*used, *newest]) if path not in roots and self._is_inside(path)]
        return self._seen(roots), self._seen(recent[:MAX_RECENT])

    def _is_inside(self, path: str | Path) -> bool:
        return any(Path(path).is_relative_to(root) for root in self.roots)

    def _seen(self, paths: Iterable[str]) -> list[Workspace]:
        return [Workspace(path, path in self._trusted) for path in paths]


def _root(path: Path) -> Path:
    try:
        real = path.resolve()
        if real.is_dir():
            return real
    except (OSError, ValueError, RuntimeError):
        pass
    raise UsageError(f"the root {str(path)!r} is not a directory", expected="a directory below which agents may work")
