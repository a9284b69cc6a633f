"""Each real agent, on each of its routes, changes files: its events have the changes that its facts promise.

The rows are the pairs of agents and routes, by `at`. A row's expectation is `RouteFacts.made`; the differences between
tools of one route are in the tables below.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import scenarios
from patching import apply, hunks, is_positioned
from playing import play

from penstock.agents.registry import AGENTS

if TYPE_CHECKING:
    from setups import Bench

    from penstock.agents._facts import Shown
    from penstock.events import Change

CANNOT_OVERWRITE = {"copilot", "cline", "codex"}
"""Agents whose tool for new files rejects a file that exists, or reports it as a new one (codex)."""

MADE_OTHERWISE: dict[tuple[str, str], Shown] = {
    ("codex-server", "tools"): "fragment",  # a new file may replace one
    ("opencode-server", "overwrite"): "names",
    ("opencode-exec", "overwrite"): "names",
    ("opencode-acp", "overwrite"): "fragment",
    ("kilo-exec", "overwrite"): "names",
    ("kilo-acp", "overwrite"): "fragment",
    ("droid-exec", "tools"): "fragment",  # its result has no content
    ("droid-exec", "overwrite"): "fragment",
    ("vibe-acp", "overwrite"): "diff",
    ("goose-acp", "overwrite"): "names",
    ("goose-exec", "overwrite"): "names",
    ("pi-exec", "tools"): "fragment",
    ("pi-exec", "overwrite"): "fragment",
    ("pi-server", "tools"): "fragment",
    ("pi-server", "overwrite"): "fragment",
}
"""Details of the changes of one scenario on one route, where they are not those that the facts have for the route."""

DROPS_LAST_LINE_END = {"cline-acp"}
"""Routes whose tool for new files drops the last line end, which its patch does not show."""

PROPOSES_IN_QUESTIONS = {"gemini-acp"}
"""Routes that show an edit before it is made only if they ask for the permission."""

CASES = {
    "edit": ("story.txt", scenarios.STORY, scenarios.STORY.replace(*scenarios.EDITED)),
    "tools": ("notes.txt", None, scenarios.NOTES),
    "overwrite": ("story.txt", scenarios.STORY, scenarios.NOTES),
}
"""Scenarios, each with its file and the text of this file before and after."""


@pytest.mark.parametrize("scenario", CASES)
def test_changes_of_a_file(at: Bench, scenario: str) -> None:
    """The changes that a run reports lead from the file before to the file after, in the detail that the facts name."""
    if scenario == "overwrite" and at.target.agent in CANNOT_OVERWRITE:
        pytest.skip("its tool for new files rejects a file that exists")
    name, before, after = CASES[scenario]
    file = at.folder / name
    if before is not None:
        file.write_text(before, "utf-8")
    played = play(at, f"scenario={scenario} please")
    assert played.result.outcome == "ok"
    written = file.read_text("utf-8")
    if str(at.target) in DROPS_LAST_LINE_END and not written.endswith("\n"):
        written += "\n"
    file.unlink()
    assert written.rstrip("\n") == after.rstrip("\n")  # one tool drops the last newline

    made = [change for returned in played.returned for change in returned.changes or ()]
    facts = AGENTS[at.target.agent].routes[at.target.route]
    shown = MADE_OTHERWISE.get((str(at.target), scenario), facts.made)
    if shown == "nothing":
        assert made == []
        return
    assert [_path(at.folder, change) for change in made] == [file.resolve()]
    check(made[0], shown, before, written)


def test_changes_that_are_proposed(at: Bench) -> None:
    """A call of an editing tool shows the edit before it is made, in the detail that the facts name."""
    (at.folder / "story.txt").write_text(scenarios.STORY, "utf-8")
    played = play(at, "scenario=edit please")
    written = (at.folder / "story.txt").read_text("utf-8")
    (at.folder / "story.txt").unlink()
    proposed = [change for called in played.calls for change in called.changes or ()]
    shown = AGENTS[at.target.agent].routes[at.target.route].proposed
    if shown == "nothing" or str(at.target) in PROPOSES_IN_QUESTIONS:
        assert proposed == []
        return
    assert [_path(at.folder, change) for change in proposed] == [(at.folder / "story.txt").resolve()]
    check(proposed[0], shown, scenarios.STORY, written)


def check(change: Change, shown: Shown, before: str | None, after: str) -> None:
    """Assert that a change has this detail and leads from one text of a file to the other."""
    counts = _counts(before or "", after)
    if shown == "fragment":
        assert change.diff is not None
        # A tool that writes a whole file does not say whether there was one.
        is_content = change.removed is None and change.added is not None
        assert apply(change.diff, "" if is_content else before or "") == after
    elif shown == "diff":
        assert change.diff is not None
        assert all(is_positioned(header) for header, _ in hunks(change.diff))
        assert apply(change.diff, before or "") == after
        assert (change.added, change.removed) == counts
        assert change.kind == ("add" if before is None else "update")
    elif shown == "counts":
        assert change.diff is None
        assert (change.added, change.removed) == counts
    else:
        assert (change.diff, change.added, change.removed) == (None, None, None)


def _path(folder: Path, change: Change) -> Path:
    return (folder / change.path).resolve()


def _counts(before: str, after: str) -> tuple[int, int]:
    compared = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return sum(line.startswith("+ ") for line in compared), sum(line.startswith("- ") for line in compared)
