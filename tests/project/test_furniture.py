"""The files around the code agree with each other: pages, workflows, what the project says that it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main
from penstock.config.settings import load

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))

MAX_DECISION_LINES = 35
"""Lines of a decision record: longer ones are not read."""


def test_one_sentence_says_what_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    """The README, the package, the command and the metadata begin with the same sentence."""
    sentence = PROJECT["description"]
    assert (ROOT / "README.md").read_text("utf-8").startswith(f"# Penstock\n\n{sentence}\n")
    assert (penstock.__doc__ or "").startswith(f"{sentence}\n")
    assert main(["--help"]) == 0
    assert capfd.readouterr().out.startswith(f"{sentence}\n")
    assert f"site_description: {sentence}\n" in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_every_page_is_in_the_navigation() -> None:
    """The site's navigation has each page of `docs` once, and no other but those of the rest of the repository."""
    named = re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(named) == len(set(named))
    assert {name for name in named if not name.startswith("project/")} == pages
    for name in set(named) - pages:
        assert (ROOT / name.removeprefix("project/")).exists(), name


def test_the_workflow_runs_what_ci_runs() -> None:
    """The workflow file calls each make target that `.ci/run` calls."""
    targets = re.compile(r"\bmake (test-[a-z-]+|test|check)\b")
    ours = set(targets.findall((ROOT / ".ci" / "run").read_text("utf-8")))
    assert ours >= {"test", "check", "test-page", "test-agents"}
    assert ours <= set(targets.findall(WORKFLOW))


def test_each_python_that_is_claimed_is_tested() -> None:
    """The workflow's matrix has the Python versions of the classifiers, and no other."""
    claimed = [found[1] for line in PROJECT["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", line))]
    [matrix] = re.findall(r"python: \[(.*)\]", WORKFLOW)
    assert re.findall(r'"([\d.]+)"', matrix) == claimed


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_decisions_are_short_and_complete(path: Path) -> None:
    """A decision record has a context, a decision and consequences, its number in its title, and a row in the index."""
    text = path.read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert text.count("\n") <= MAX_DECISION_LINES
    title = text.split("\n")[0].removeprefix("# ")
    number, name = title.split(". ", 1)
    assert path.name.startswith(f"{number:0>2}-")
    assert f"| {number} | [{name}]({path.name}) |" in (path.parent / "README.md").read_text("utf-8")


def test_the_variables_of_the_tests_look_like_no_setting(tmp_path: Path) -> None:
    """Penstock warns about a variable whose name is nearly that of a setting: tests of what it prints would meet it."""
    text = "".join((ROOT / name).read_text("utf-8") for name in ("Makefile", ".ci/run"))
    env = dict.fromkeys(re.findall(r"\bPENSTOCK_[A-Z_]+", text), "1")
    assert "PENSTOCK_SOAK" in env
    assert load(env, str(tmp_path)).problems == []
