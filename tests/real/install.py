"""Install the real agents from npm into a cache outside the repository: `python tests/real/install.py [PROGRAM…]`.

Which and in what version says `agents.toml`. Each has a folder of its own, `agents/<package>@<version>` in the
user's cache, which is put in its place whole; a second call finds it there. Several calls at once wait for one
another. One that cannot be installed is named, with the reason, and its tests are skipped by that name. Node is one of
the packages: the agents run on it, whatever Node npm itself runs on.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("agents.toml")
INSTALL_SECONDS = 900
NODE = "node"
"""Program in the table that runs all others."""


class NotInstalled(Exception):
    """An agent is not there; the text says which and why."""


class Package(NamedTuple):
    """One line of the table."""

    program: str
    package: str
    version: str
    file: str = ""
    """Program below the package's folder, if npm is not told of it: in a package that is for one kind of machine."""
    published: str = ""
    """Package that people install, if it only fetches `package`."""

    def __str__(self) -> str:
        return f"{self.program} ({self.package}@{self.version})"

    @property
    def folder(self) -> Path:
        """Where it is installed, or will be."""
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(root) / "penstock" / "agents" / f"{self.package}@{self.version}"

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return self.folder / "node_modules" / ".bin"

    def is_installed(self) -> bool:
        """Whether its program is there."""
        return (self.bin / self.program).exists()


def packages() -> dict[str, Package]:
    """The table, by program."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    return {program: Package(program, **line) for program, line in table.items()}


def search_path(needed: Iterable[Package]) -> str:
    """PATH with the programs of packages first, and the table's Node before any other."""
    return os.pathsep.join((*(str(it.bin) for it in (*needed, packages()[NODE])), os.environ["PATH"]))


def install(package: Package) -> None:
    """Install one package, if it is not there yet.

    Raises:
        NotInstalled: npm is missing or failed, here or for Node.
    """
    if package.is_installed():
        return
    if package.program != NODE:
        install(packages()[NODE])
    folder = package.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(folder.name + ".lock")):
        if package.is_installed():
            return
        shutil.rmtree(folder, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=".installing-", dir=folder.parent))
        try:
            _npm(package, made)
            if package.file:
                bin = made / "node_modules" / ".bin"
                bin.mkdir(exist_ok=True)
                (bin / package.program).symlink_to(Path("..") / package.package / package.file)
            made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    if not package.is_installed():
        raise NotInstalled(f"{package} brings no program of that name")


def _npm(package: Package, folder: Path) -> None:
    argv = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(
            [*argv, f"{package.package}@{package.version}"],
            env={**os.environ, "PATH": search_path([])},  # packages may run Node while they are installed
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{package}: {error}") from error
    if done.returncode != 0:
        raise NotInstalled(f"{package}: npm install failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(names: list[str]) -> int:
    """Install those named, or all; the number of those that are not there afterwards is the exit status."""
    table = packages()
    unknown = [name for name in names if name not in table]
    if unknown:
        print(f"not in {TABLE.name}: {', '.join(unknown)}; there are: {', '.join(table)}", file=sys.stderr)
        return 64
    missing = []
    for package in [table[name] for name in names] or table.values():
        try:
            install(package)
            print(f"{package}: {package.folder}")
        except NotInstalled as error:
            missing.append(package.program)
            print(f"NOT INSTALLED: {error}", file=sys.stderr)
    if missing:
        print(f"NOT INSTALLED, so their tests are skipped: {', '.join(missing)}", file=sys.stderr)
    return len(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
