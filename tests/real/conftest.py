"""Tests with the real agents. They run when they are asked for.

With `make test-agents`, or by hand:

    python tests/real/install.py && PENSTOCK_REAL=1 pytest tests/real -n auto --dist loadgroup

`PENSTOCK_REAL=codex,claude-exec` takes only these agents or these routes of agents.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ASKED = os.environ.get("PENSTOCK_REAL", "")

if ASKED:
    sys.path.insert(0, str(Path(__file__).parent))  # the harness is no package: its files are scripts too
    from install import NotInstalled
    from setups import KEPT, TARGETS, Bench, bench
else:
    collect_ignore_glob = ["test_*.py"]

MINE = ("HOME", "PATH", "XDG_CACHE_HOME", "PYTHONPATH", *(KEPT if ASKED else ()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for `at` run for each agent on each of its routes."""
    if "at" in metafunc.fixturenames:
        words = set(ASKED.split(","))
        asked = [t for t in TARGETS if words & {"1", t.agent, str(t)}]
        # One worker takes all that belongs to a target: it has one home.
        marked = [pytest.param(target, id=str(target), marks=pytest.mark.xdist_group(str(target))) for target in asked]
        metafunc.parametrize("at", marked, indirect=True, scope="module")


@pytest.fixture(scope="session", autouse=ASKED != "")
def _clean_environment() -> Iterator[None]:
    """No key, proxy or setting of whoever runs the tests reaches an agent."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name not in MINE and not name.startswith(("PYTEST", "PENSTOCK_REAL")):
                patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An agent on one of its routes, in its own home, with its own model server."""
    try:
        with bench(request.param, tmp_path_factory.mktemp(str(request.param))) as made:
            yield made
    except NotInstalled as error:
        pytest.skip(str(error))
