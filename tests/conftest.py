"""What all tests share: the recordings, and the parameter `recording`, which calls a test with each of them."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import os
import signal
import tempfile
import zlib
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from effort import SOAK, at_most
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("normalized")  # what helpers assert is shown as in a test

# A slow machine is not a failure: no test of random inputs has a time limit, neither for a test of one of them nor for
# making them. The inputs are the same in each run, so that a failure is one of the change at hand; only `make soak`
# draws new ones.
settings.register_profile(
    "penstock",
    max_examples=at_most(20, 100),
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("penstock")

FOLDER = Path(__file__).parent / "recordings"

# No test adds to the history of the person who runs it. The folder is made by the first line, and rarely.
os.environ["PENSTOCK_DATA"] = os.path.join(tempfile.gettempdir(), f"penstock-tests-{os.getuid()}")

# No test depends on what confinement this machine permits, unless it asks for one.
os.environ["PENSTOCK_SANDBOX"] = "off"

# A job in the background of a shell ignores Ctrl-C, and so would each program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = SOAK or bool(os.environ.get("PENSTOCK_ALL_TESTS"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the workers for `-n auto`: more than there are cores, as many tests wait for a process or a clock.

    Those of several machines do little else: each waits for leases that run out and for nodes that start. The slow
    ones start programs that need a core for themselves: browsers, real agents, git.
    """
    cores = os.cpu_count() or 1
    if any("cluster" in word for word in config.args):
        return cores * 5 // 2
    if SLOW or any(folder in word for word in config.args for folder in ("page", "real")):
        return cores + (cores + 1) // 2
    return cores * 2


RECORDING_STEP = 5
"""In `make test`, each test reads every fifth recording of an agent, and not all tests the same ones. All recordings
are read by `test_recordings.py`, and by each test in a soak."""

REST_STEP = 12
"""Targets of slow tests run every twelfth case that `make test` leaves out, and none that it runs; a soak runs all."""


ELSEWHERE = ("project", "cluster")
"""Folders that `make test` does not even collect: the rules of the project, which `make check` runs, and the tests of
several machines, which are imported slowly and need PostgreSQL."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders whose tests run elsewhere, unless they are named."""
    folder = collection_path.name
    if SLOW or folder not in ELSEWHERE or collection_path.parent != FOLDER.parent:
        return None
    return None if any(folder in word for word in config.args) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are marked as slow, and a part of the cases of tests that are sampled.

    They have targets of their own, which do not run again what `make test` ran. A test that is named on the command
    line runs with all of its cases.
    """
    if SOAK or any("::" in word for word in config.args):
        return
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        sample = item.get_closest_marker("sample")
        step = sample.args[0] if sample and not reads_recordings(item) else 1
        slow = item.get_closest_marker("slow") is not None
        (kept if is_chosen(seen[test], step, slow=slow, here=item.path) else left).append(item)
        seen[test] += 1
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def is_chosen(place: int, step: int, *, slow: bool, here: Path) -> bool:
    """Return whether a case of a test runs: in `make test` every `step`-th of tests that are fast, else of the rest."""
    if not SLOW:
        return not slow and place % step == 0
    if slow or step == 1 or here.relative_to(FOLDER.parent).parts[0] in ELSEWHERE:
        return True
    rest = place - place // step - 1  # its number among those that `make test` leaves out
    return place % step != 0 and rest % REST_STEP == 0


def reads_recordings(item: pytest.Item) -> bool:
    """Return whether the test is called with groups of recordings: of these, a part of each group is left out."""
    return isinstance(item, pytest.Function) and "recording" in item.fixturenames


class Recording:
    """One folder of `tests/recordings`: what an agent printed, and what a reader must get from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.relative_to(FOLDER).as_posix()
        self.case = folder.name

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def data(self) -> bytes:
        """The agent's bytes."""
        return (self.folder / "input.ndjson").read_bytes()

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What `expected.json` says; see the README there."""
        expected: dict[str, Any] = json.loads((self.folder / "expected.json").read_text("utf-8"))
        return expected

    @property
    def agent(self) -> str:
        """The agent's name in the registry."""
        return str(self.expected["agent"])

    def sibling(self, case: str) -> Recording:
        """Another case of the same agent."""
        return Recording(self.folder.parent / case)


def shortened(text: str) -> str | dict[str, Any]:
    """A text as `expected.json` holds it: a very long one by its hash and length."""
    if len(text) <= 4000:
        return text
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "length": len(text)}


RECORDINGS = [Recording(path.parent) for path in sorted(FOLDER.glob("*/*/input.ndjson"))]

LONG_RUNS = ("gemini/long", "codex/long")
"""The recordings of a long reply that each test reads: one in thousands of deltas, one in a single item. The others
differ from them as the shorter recordings of their agents do; they are read by `test_recordings`, and by all tests with
`PENSTOCK_SOAK=1`."""


def groups_of(recordings: list[Recording], step: int, test: str) -> dict[str, list[Recording]]:
    """The recordings of each agent: a report for each of thousands of small tests takes longer than the tests.

    With `PENSTOCK_SOAK=1` each recording is a test of its own. `make test` reads every `step`-th, from one that the
    name of the test decides; the targets of slow tests read every twelfth one of the others.
    """
    if SOAK:
        return {recording.name: [recording] for recording in recordings}
    agents = {name: list(group) for name, group in itertools.groupby(recordings, lambda one: one.folder.parent.name)}
    begin = zlib.crc32(test.encode())
    fast = {name: group[begin % min(step, len(group)) :: step] for name, group in agents.items()}
    if not SLOW:
        return fast
    rest = {name: [one for one in group if one not in fast[name]][::REST_STEP] for name, group in agents.items()}
    return {name: group for name, group in rest.items() if group} if step > 1 else agents


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for `recording` run once for each agent, those that ask for `unpartial` for each pair."""
    if "recording" in metafunc.fixturenames:
        reads_all = metafunc.module.__name__.rpartition(".")[2] == "test_recordings"
        chosen = [r for r in RECORDINGS if SOAK or reads_all or r.case != "long" or r.name in LONG_RUNS]
        sample = metafunc.definition.get_closest_marker("sample")
        step = sample.args[0] if sample else 1 if reads_all else RECORDING_STEP
        groups = groups_of(chosen, step, metafunc.function.__name__)
        marks = [pytest.mark.sample(step)] if step > 1 else []  # so that `make test-cases` reads the others
        metafunc.parametrize("recording", [pytest.param(group, id=name, marks=marks) for name, group in groups.items()])
    if "unpartial" in metafunc.fixturenames:
        metafunc.parametrize("unpartial", [r for r in RECORDINGS if r.case.endswith(".nopartial")], ids=str)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test that asks for `recording` with each recording of its agent; the failure names those that fail."""
    if "recording" not in pyfuncitem.funcargs:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    failures: dict[str, Exception] = {}
    group: Any = pyfuncitem.funcargs["recording"]
    for recording in group:
        try:
            pyfuncitem.obj(**arguments | {"recording": recording})
        except Exception as error:
            failures[recording.name] = error
    for first in failures.values():
        first.add_note(f"It fails with {', '.join(failures)}; this is the first.")
        raise first
    return True


@pytest.fixture(scope="session")
def recordings() -> list[Recording]:
    """All recordings."""
    return RECORDINGS


@pytest.fixture(scope="session")
def shorten() -> Any:
    """The function that brings a text to the form of `expected.json`."""
    return shortened
