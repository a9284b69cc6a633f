"""List the agents of which npm or PyPI has a newer version than the tests run: `python tests/real/outdated.py`.

The registry is asked for each package of `agents.toml`, and for each that the facts of an agent tell people to install,
one by one. Exit status 1 if there is a newer version that can be installed, 2 if a registry could not be asked for one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable

from install import NotInstalled, packages, python_for

from penstock.agents.registry import AGENTS
from penstock.cli.agents import is_newer

SECONDS = 60
"""Timeout in seconds for one question to the registry."""
TRY_SECONDS = 300
"""Timeout in seconds for the search of all that a package needs."""
NPM = "npm install -g "
PIP = "pip install "


def names() -> dict[str, str | None]:
    """Return the packages with the version that the tests run; None if they do not run it."""
    found: dict[str, str | None] = {it.package: it.version for it in packages().values()}
    found |= {it.published: it.version for it in packages().values() if it.published}
    for facts in AGENTS.values():
        if facts.install.startswith((NPM, PIP)):
            found.setdefault(facts.install.removeprefix(NPM).removeprefix(PIP), None)
    return found


def of_pypi() -> set[str]:
    """Return those of the packages that come from PyPI."""
    told = (facts.install for facts in AGENTS.values())
    return {it.package for it in packages().values() if it.pypi} | {
        it.removeprefix(PIP) for it in told if it.startswith(PIP)
    }


def newest(package: str) -> str | None:
    """Return the newest version in its registry, or None if that could not be asked."""
    argv = ["npm", "view", package, "version", "--loglevel=error"]
    if package in of_pypi():
        # The agent may need a newer Python than this one: a version counts on whatever Python it runs.
        argv = [sys.executable, "-m", "pip", "index", "versions", package, "--ignore-requires-python", "--json"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said(done.stdout) if done.returncode == 0 else None


def said(answer: str) -> str | None:
    """Return the version in the answer of npm, which is all of it, or of pip, which is JSON; None if there is none."""
    if not answer.startswith("{"):
        return answer.strip() or None
    latest = json.loads(answer).get("latest")
    return latest if isinstance(latest, str) else None


def can_be_installed(package: str, version: str) -> bool:
    """Return whether the registry has all that a version of a package needs, its program included."""
    own = next((it for it in packages().values() if package in (it.package, it.published)), None)
    if own is not None and own.published == package and newest(own.package) != version:
        return False  # npm leaves out a program that is not there for this kind of machine
    with tempfile.TemporaryDirectory() as folder:
        argv = ["npm", "install", "--dry-run", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", folder]
        argv.append(f"{package}@{version}")
        try:
            if own is not None and own.pypi:
                argv = [python_for(own), "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
                argv.append(f"{package}=={version}")
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_SECONDS)
        except (OSError, subprocess.TimeoutExpired, NotInstalled):
            return True  # nothing is known, and a person has to look
    return done.returncode == 0


def report(
    ask: Callable[[str], str | None] = newest, try_it: Callable[[str, str], bool] = can_be_installed
) -> tuple[int, list[str]]:
    """Return the exit status, and a line for each package that is behind, not run, or could not be asked for.

    `ask`: function that returns the newest version; `try_it`: function that returns whether it can be installed.
    """
    status, lines = 0, []
    for package, version in names().items():
        found = ask(package)
        if found is None:
            status = 2
            lines.append(f"{package}: the registry could not be asked")
        elif version is None:
            lines.append(f"{package}: newest {found}; the facts name it, and no test runs it")
            status = max(status, 1)
        elif is_newer(found, [version]):
            is_there = try_it(package, found)
            why = "" if is_there else ", which needs packages that the registry does not have"
            lines.append(f"{package}: tests run {version}, newest {found}{why}")
            status = max(status, int(is_there))
    return status, lines


def main() -> int:
    """Print the report and return the exit status."""
    status, lines = report()
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "all packages are the newest\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
