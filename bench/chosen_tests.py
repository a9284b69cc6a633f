"""Plugin of pytest for `mutants.py`: runs the tests that a file names, in its order, and writes how long each took.

`PENSTOCK_CHOSEN_TESTS`: a JSON list of node ids. `PENSTOCK_TEST_SECONDS`: the file for the seconds by node id.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

CHOSEN = os.environ.get("PENSTOCK_CHOSEN_TESTS")
SECONDS = os.environ.get("PENSTOCK_TEST_SECONDS")

seconds: defaultdict[str, float] = defaultdict(float)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if CHOSEN is None:
        for item in items:  # the data of coverage cannot be written by another user
            if SECONDS is not None and "unprivileged" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="acts as another user; it runs on each mutant"))
        return
    places = {name: place for place, name in enumerate(json.loads(Path(CHOSEN).read_text("utf-8")))}
    kept = sorted((item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in places])
    items[:] = kept


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if SECONDS is not None and not hasattr(session.config, "workerinput"):
        Path(SECONDS).write_text(json.dumps(seconds), "utf-8")
