"""Tests with the real agents. They run when they are asked for.

With `make test-agents`, or by hand:

    python tests/real/install.py && PENSTOCK_REAL_AGENTS=1 pytest tests/real -n auto --dist loadgroup

`PENSTOCK_REAL_AGENTS=codex,claude-exec` takes only these agents or these routes of agents. All tests run on one route
of each protocol, and on each other route those that differ most, with a part of the rest; `PENSTOCK_SOAK=1` runs all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ASKED = os.environ.get("PENSTOCK_REAL_AGENTS", "")

if ASKED:
    sys.path.insert(0, str(Path(__file__).parent))  # the harness is no package: its files are scripts too
    from install import NotInstalled
    from setups import KEPT, TARGETS, Bench, bench
else:
    collect_ignore_glob = ["test_*.py"]

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
EVERYWHERE = (
    "test_what_the_model_said[tools]",
    "test_live",
    "test_resume",
    "test_cancel",
    "test_questions",
    "test_three_turns",
)
"""Tests that run on each route: what a route is most likely to do in its own way."""
WHOLE = {"claude-exec", "codex-server", "gemini-acp"}
"""Routes on which all tests run: a plain stream of events, an agent's own protocol, and ACP."""
SEEN_ELSEWHERE = {"kilo", "kimi", "goose", "vibe"}
"""Agents that run with `PENSTOCK_SOAK=1` or by name alone, to save time.

kilo is opencode by another name, kimi prints a plain stream of a few kinds of lines, and the recordings have both
streams of goose.
"""
PART = 20
"""On the other routes, one of so many of the other tests runs."""

MINE = ("HOME", "PATH", "XDG_CACHE_HOME", "PYTHONPATH", *(KEPT if ASKED else ()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for `at` run for each agent on each of its routes, or for those in `ONLY` of their module."""
    if "at" in metafunc.fixturenames:
        words = set(ASKED.split(","))
        only = getattr(metafunc.module, "ONLY", None)
        asked = [t for t in TARGETS if words & {"1", t.agent, str(t)} and (only is None or str(t) in only)]
        # One worker takes all that belongs to a target: it has one home.
        marked = [pytest.param(target, id=str(target), marks=pytest.mark.xdist_group(str(target))) for target in asked]
        metafunc.parametrize("at", marked, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out a part of the tests, the same one each time. What is named on the command line by hand is not."""
    if SOAK or not ASKED or ASKED != "1":
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    seen: dict[str, int] = {}
    for item in items:
        target = (
            item.callspec.params.get("at") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
        )
        if target is not None and target.agent in SEEN_ELSEWHERE:
            left.append(item)
            continue
        if target is None or str(target) in WHOLE:
            kept.append(item)
            continue
        # Each test begins at another route, so that all of them run on some of the routes.
        test = item.name.replace(f"{target}-", "").replace(f"[{target}]", "")
        number = seen[test] = seen.get(test, sum(map(ord, test))) + 1
        (kept if test in EVERYWHERE or number % PART == 0 else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture(scope="session", autouse=ASKED != "")
def _clean_environment() -> Iterator[None]:
    """No key, proxy or setting of whoever runs the tests reaches an agent."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name not in MINE and not name.startswith(("PYTEST", "PENSTOCK_REAL_AGENTS")):
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
