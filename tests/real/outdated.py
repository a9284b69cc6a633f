"""List the agents of which npm has a newer version than the tests run: `python tests/real/outdated.py`.

The registry is asked for each package of `agents.toml`, and for each that the facts of an agent tell people to install,
one by one. Exit status 1 if there is a newer version, 2 if the registry could not be asked for one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from install import packages

from penstock.agents.registry import AGENTS
from penstock.cli.agents import is_newer

SECONDS = 60
"""Timeout in seconds for one question to the registry."""
NPM = "npm install -g "


def names() -> dict[str, str | None]:
    """Return the packages with the version that the tests run; None if they do not run it."""
    found: dict[str, str | None] = {it.package: it.version for it in packages().values()}
    found |= {it.published: it.version for it in packages().values() if it.published}
    for facts in AGENTS.values():
        if facts.install.startswith(NPM):
            found.setdefault(facts.install.removeprefix(NPM), None)
    return found


def newest(package: str) -> str | None:
    """Return the newest version in the registry, or None if it could not be asked."""
    argv = ["npm", "view", package, "version", "--loglevel=error"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def report(ask: Callable[[str], str | None] = newest) -> tuple[int, list[str]]:
    """Return the exit status, and a line for each package that is behind, not run, or could not be asked for."""
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
            lines.append(f"{package}: tests run {version}, newest {found}")
            status = max(status, 1)
    return status, lines


def main() -> int:
    """Print the report and return the exit status."""
    status, lines = report()
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "all packages are the newest\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
