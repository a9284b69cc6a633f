"""Install the real agents into a cache outside the repository: `python tests/real/install.py [PROGRAM…]`.

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
PYTHON = (3, 12)
"""Oldest Python that the agents of PyPI run on."""
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
    pypi: bool = False
    """It comes from PyPI, into an environment of its own."""
    by_name: str = ""
    """Agent whose name has to be given for it to be installed and tested, as both take long."""

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
        return self.folder / ("bin" if self.pypi else "node_modules/.bin")

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
    if package.program != NODE and not package.pypi:
        install(packages()[NODE])
    folder = package.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(folder.name + ".lock")):
        if package.is_installed():
            return
        shutil.rmtree(folder, ignore_errors=True)
        if package.pypi:  # its programs name their place, so it is made there, and the lock keeps others away
            try:
                _pip(package, folder)
            except NotInstalled:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            return
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


def _pip(package: Package, folder: Path) -> None:
    _run(package, [python_for(package), "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(package, [*pip, f"{package.package}=={package.version}"])


def python_for(package: Package) -> str:
    """Return a Python that PyPI's agents run on: this one, one in PATH, or one of pyenv.

    Raises:
        NotInstalled: there is none.
    """
    if sys.version_info >= PYTHON:
        return sys.executable
    minors = range(PYTHON[1], PYTHON[1] + 8)
    in_path = (shutil.which(f"python3.{minor}") for minor in minors)
    of_pyenv = (it for minor in minors for it in Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    for found in (*map(str, of_pyenv), *filter(None, in_path)):
        if subprocess.run([found, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            return found
    raise NotInstalled(f"{package}: it needs Python {'.'.join(map(str, PYTHON))} or newer, and there is none")


def _npm(package: Package, folder: Path) -> None:
    argv = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"]
    _run(package, [*argv, f"{package.package}@{package.version}"])


def _run(package: Package, argv: list[str]) -> None:
    try:
        done = subprocess.run(
            argv,
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
        raise NotInstalled(f"{package}: the installation failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wanted(asked: str) -> list[Package]:
    """Return all packages but those of an agent that has to be named, and is not among those asked for.

    `asked`: names of agents, or of routes of agents (`vibe-acp`), with commas or blanks between them.
    """
    words = asked.replace(",", " ").split()
    agents = {*words, *(word.rpartition("-")[0] for word in words)}
    return [it for it in packages().values() if not it.by_name or it.by_name in agents]


def main(names: list[str]) -> int:
    """Install those named, or those of `wanted`; the exit status is the number of those that failed."""
    table = packages()
    unknown = [name for name in names if name not in table]
    if unknown:
        print(f"not in {TABLE.name}: {', '.join(unknown)}; there are: {', '.join(table)}", file=sys.stderr)
        return 64
    missing = []
    for package in [table[name] for name in names] or wanted(os.environ.get("AGENTS", "")):
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
