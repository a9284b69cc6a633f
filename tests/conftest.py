"""What all tests share: the recordings, and a fixture that runs a test once for each of them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("normalized")  # what helpers assert is shown as in a test

# A slow machine is not a failure: no test of random inputs has a time limit, neither for a test of one of them nor for
# making them.
settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")

FOLDER = Path(__file__).parent / "recordings"

# No test adds to the history of the person who runs it. The folder is made by the first line, and rarely.
os.environ["PENSTOCK_DATA"] = os.path.join(tempfile.gettempdir(), f"penstock-tests-{os.getuid()}")


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for `recording` run for each folder, those that ask for `unpartial` for each pair."""
    if "recording" in metafunc.fixturenames:
        metafunc.parametrize("recording", RECORDINGS, ids=str)
    if "unpartial" in metafunc.fixturenames:
        metafunc.parametrize("unpartial", [r for r in RECORDINGS if r.case.endswith(".nopartial")], ids=str)


@pytest.fixture(scope="session")
def recordings() -> list[Recording]:
    """All recordings."""
    return RECORDINGS


@pytest.fixture(scope="session")
def shorten() -> Any:
    """The function that brings a text to the form of `expected.json`."""
    return shortened
