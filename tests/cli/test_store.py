"""The store in PostgreSQL is an extra: nothing of it is imported, or needed, for chats of one machine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

WITHOUT = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *rest):
        hidden = name.partition(".")[0] in ("psycopg", "psycopg_pool", "procrastinate")
        return None if hidden else self.finder.find_spec(name, *rest)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Hiding, sys.meta_path)
import importlib, pkgutil
import penstock
from penstock.cli.main import COMMANDS, main

for module in COMMANDS.values():
    importlib.import_module(module)
for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
    if not module.name.startswith(("penstock.chat.store.postgres", "penstock.chat.cluster", "penstock.__main__")):
        importlib.import_module(module.name)
"""


@pytest.mark.slow
def test_nothing_of_the_extra_is_imported() -> None:
    """Every module outside of the store in PostgreSQL and of the cluster can be imported without their packages."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_missing_extra_is_named() -> None:
    """A store in PostgreSQL without its packages is an error that says what to install."""
    program = WITHOUT + "raise SystemExit(main(['store', 'check', '--store', 'postgresql://db/penstock']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    [command] = re.findall(r"install with: (.*)", done.stderr)
    words = shlex.split(command)
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert sorted(re.split(r"[<>=\[]", word)[0] for word in words[4:]) == ["procrastinate", "psycopg", "psycopg-pool"]
