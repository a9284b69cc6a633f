"""`penstock people`: limits are set, kept by other changes, and taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.chat.people import persons
from penstock.cli.main import main


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (["--role=viewer"], (2, 5.0)),
        (["--max-runs=3"], (3, 5.0)),
        (["--max-runs=none"], (None, 5.0)),
        (["--max-cost-per-day=none"], (2, None)),
        (["--max-runs=none", "--max-cost-per-day=none"], (None, None)),
    ],
)
def test_a_limit_can_be_taken_away(tmp_path: Path, words: list[str], limits: tuple[int | None, float | None]) -> None:
    """`none` takes a limit away; what is not named stays."""
    data = f"--data={tmp_path}"
    assert main(["people", "add", "ana", "--max-runs=2", "--max-cost-per-day=5", data]) == 0
    assert main(["people", "change", "ana", *words, data]) == 0
    [ana] = persons.read(tmp_path / persons.PEOPLE)
    assert (ana.max_runs, ana.max_cost) == limits
    assert main(["people", "change", "ana", data]) == 2
