"""`penstock loop` with real agents. `docs/loop.md` has what it prints, so its transcripts stay true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from model_server import ModelServer
from scenarios import Answer, Call, Refuse, Say
from setups import Target, bench

from penstock.repo.git import clean_environment

SECONDS = 300
DOCS = Path(__file__).parents[2] / "docs" / "loop.md"

PRICES = """\
def total(prices):
    return max(prices)


def average(prices):
    return total(prices) / len(prices)
"""
TESTS = """\
import unittest

from prices import average, total


class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2, 6]), 9)

    def test_average_of_nothing(self):
        self.assertEqual(average([]), 0)
"""
PROMPT = "Make the tests of prices.py succeed.\n"
CHECK = "python3 -m unittest -q"

SUM: list[Answer] = [
    [Say("I read the module first."), Call("read", "", "prices.py")],
    [Call("edit", "    return sum(prices)\n", "prices.py", "    return max(prices)\n")],
    [Say("Return the sum of the prices as their total")],
]
DIVISION = "    return total(prices) / len(prices)\n"
EMPTY: list[Answer] = [
    [Say("The division by zero is left."), Call("read", "", "prices.py")],
    [Call("edit", f"    if not prices:\n        return 0\n{DIVISION}", "prices.py", DIVISION)],
    [Say("Return 0 as the average of no prices")],
]
APPROVED: list[Answer] = [[Say('{"approved": true, "remarks": []}')]]
NOTHING: list[Answer] = [[Say("Both tests succeed; nothing is left to do.")]]

SCRIPTS = {
    PROMPT.strip(): SUM,
    "ZeroDivisionError": EMPTY,
    "Commits so far": NOTHING,
    "You review a change": APPROVED,
}
"""Answers of the model by what the prompt of a loop has in it; the last one that matches counts."""


class Shop(NamedTuple):
    """A repository with a red test, two agents, and the environment to run them."""

    folder: Path
    claude: ModelServer
    codex: ModelServer
    env: Mapping[str, str]

    def penstock(self, *words: str) -> tuple[int, str]:
        """Run the command line; return the status, and what it prints to both outputs in order."""
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        return done.returncode, done.stdout

    def git(self, *words: str) -> str:
        """Run the user's git."""
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


@contextmanager
def shop(root: Path) -> Iterator[Shop]:
    """Make the repository and start the models."""
    folder = root / "shop"
    folder.mkdir()
    for name in ("claude", "codex"):
        (root / name).mkdir()
    first = bench(Target("claude", "exec"), root / "claude")
    second = bench(Target("codex", "server"), root / "codex")
    with first as claude, second as codex:
        path = os.pathsep.join((claude.env["PATH"], codex.env["PATH"]))
        user = {f"GIT_{who}_{what}": "u@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {**codex.env, **claude.env, **clean_environment(user), **user}
        env |= {"PATH": path, "PENSTOCK_DATA": str(root / "data"), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "110"}
        made = Shop(folder, claude.server, codex.server, env)
        for server in (claude.server, codex.server):
            server.folder = root / "shop.prices"  # where the loop has its tree
            server.scripts = SCRIPTS
        for name, text in {"prices.py": PRICES, "test_prices.py": TESTS, "PROMPT.md": PROMPT}.items():
            (folder / name).write_text(text, "utf-8")
        made.git("init", "-qb", "main")
        made.git("add", ".")
        made.git("commit", "-qm", "Begin")
        yield made


VARIES = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=session )[0-9a-f]{8}\b", "SESSION"),
    (r"\b[0-9a-f]{10}\b", "COMMIT"),
    (r"\d+(\.\d+)? s\b| in 0 s", "TIME"),
    (r"\$\d+\.\d+", "COST"),
    (r"\d[\d,.]*k? (?=in\b|out\b|cached\b)", "N "),
    (r" *─+ *| {2,}", " "),
)
"""Patterns of what differs between two runs."""


def steady(text: str, root: str = "/home/me") -> str:
    """Return output without what differs between two runs."""
    text = text.replace(root, "/home/me")
    for pattern, word in VARIES:
        text = re.sub(pattern, word, text)
    return text


def test_a_red_test_becomes_green_in_two_rounds(tmp_path: Path) -> None:
    """Claude needs two rounds, as the check tells it what is left; Codex approves; the commit is the user's to land."""
    with shop(tmp_path) as at:
        words = "loop", "PROMPT.md", "--work", "claude", "--review", "codex", "--check", CHECK, "--name", "prices"
        status, output = at.penstock(*words)
        (tmp_path / "transcript.txt").write_text(output.replace(str(tmp_path), "/home/me"), "utf-8")
        assert status == 0, output
        assert "round 1 · check python3 -m unittest -q · red" in output
        assert "round 2 · review codex · approved" in output
        assert at.git("log", "--format=%s", "main..penstock/prices") == "Return 0 as the average of no prices"
        assert at.git("status", "--porcelain") == ""
        landed, said = at.penstock("loop", "land")
        assert landed == 0, said
        assert subprocess.run(CHECK, shell=True, cwd=at.folder, capture_output=True).returncode == 0
    assert steady(output, str(tmp_path)) in steady(DOCS.read_text("utf-8"))


def test_another_agent_works_on_at_a_usage_limit(tmp_path: Path) -> None:
    """Claude has no credit left: Codex does all the work, and no round is charged for Claude."""
    with shop(tmp_path) as at:
        at.claude.rejects = Refuse(400, "Your credit balance is too low to access the API.")
        words = "loop", "PROMPT.md", "--work", "claude,codex", "--allow", "all", "--check", CHECK, "--name", "prices"
        status, output = at.penstock(*words)
        (tmp_path / "transcript.txt").write_text(output.replace(str(tmp_path), "/home/me"), "utf-8")
        assert status == 0, output
        assert "round 1 · work codex · ok" in output
        assert at.git("log", "--format=%s", "main..penstock/prices") == "Return 0 as the average of no prices"
        assert at.penstock("loop", "status")[1].count("claude") == 0
    assert steady(output, str(tmp_path)) in steady(DOCS.read_text("utf-8"))


BOTH: list[Answer] = [
    *SUM[:2],
    [Call("edit", f"    if not prices:\n        return 0\n{DIVISION}", "prices.py", DIVISION)],
    [Say("Correct the total, and the average of nothing")],
]
LONGER = "    result = 0\n    for price in prices:\n        result += price\n    return result\n"
BOTH_LONGER: list[Answer] = [
    SUM[0],
    [Call("edit", LONGER, "prices.py", "    return max(prices)\n")],
    [Call("edit", f"    if len(prices) == 0:\n        return 0\n{DIVISION}", "prices.py", DIVISION)],
    [Say("Add the prices one by one, and return 0 as the average of no prices")],
]


def test_two_candidates_work_side_by_side(tmp_path: Path) -> None:
    """Claude and Codex both make the tests succeed; the smaller change is the user's to land, the other one is kept."""
    with shop(tmp_path) as at:
        for name, server, answers in (("claude", at.claude, BOTH), ("codex", at.codex, BOTH_LONGER)):
            server.folder = tmp_path / f"shop.prices.{name}"
            server.scripts = {PROMPT.strip(): answers, "Commits so far": NOTHING}
        words = "loop", "PROMPT.md", "--candidates", "claude,codex", "--allow", "all", "--check", CHECK
        status, output = at.penstock(*words, "--name", "prices")
        (tmp_path / "transcript.txt").write_text(output.replace(str(tmp_path), "/home/me"), "utf-8")
        assert status == 0, output
        assert at.git("log", "--format=%s", "main..penstock/prices") == "Correct the total, and the average of nothing"
        assert "result += price" in at.git("show", "refs/penstock/prices.codex/1")
        assert at.git("status", "--porcelain") == ""
        landed, said = at.penstock("loop", "land")
        assert landed == 0, said
        assert not list(tmp_path.glob("shop.prices*"))
    # What the agents print side by side is in another order each time.
    end = output[output.index("round  candidate") :]
    assert steady(end, str(tmp_path)) in steady(DOCS.read_text("utf-8"))
