"""What an agent does to the checks themselves: it is put back, or it is said."""

from __future__ import annotations

import sys

import pytest
from loop_desk import Desk

from penstock.loop.results import proof_lines

pytestmark = pytest.mark.slow

SEARCH = "! grep -n x notes\n"
"""A check that is red as long as the notes have an x."""


@pytest.mark.parametrize(
    ("attributes", "write"),
    [
        ("*.sh text", r"printf '! grep -n x notes\r\n' > check.sh"),
        ("*.sh working-tree-encoding=UTF-16LE", "echo true | iconv -t UTF-16LE > check.sh"),
        ("*.sh text eol=crlf", "true"),
    ],
)
def test_l6_attributes_do_not_change_a_check(desk: Desk, attributes: str, write: str) -> None:
    """A check whose file git's attributes would change runs with the bytes that the user has, each time."""
    desk.user.commit("Check", {"check.sh": SEARCH, "notes": "x\n"})
    desk.agent("cheat", f'printf "{attributes}\\n" > .gitattributes; {write}; reply "Done"')
    status, state = desk.run(desk.settings("cheat", checks=("sh check.sh", "sh ./check.sh")))
    assert status == 1
    assert state.rounds[0].red is not None
    assert "1:x" in state.rounds[0].red.output
    desk.agent("worker", f'printf "{attributes}\\n" > .gitattributes; {write}; echo y > notes; reply "Done"')
    status, state = desk.run(desk.settings("worker", checks=("sh check.sh", "cmp check.sh ../app/check.sh")), "l2")
    assert status == 0
    assert desk.user.git("show", "penstock/l2:check.sh") == SEARCH.strip()


MAKEFILE = "test:\n\tpython3 -m unittest -q test_calc.py\n"
TEST = (
    "import unittest\nfrom calc import add\nclass T(unittest.TestCase):\n"
    "    def test_add(self): self.assertEqual(add(1, 2), 3)\n"
)
GUTTED = "import unittest\nclass T(unittest.TestCase):\n    def test_add(self): pass\n"
FILES = {
    "Makefile": MAKEFILE,
    "package.json": '{"name": "x", "scripts": {"test": "python3 -m unittest -q test_calc.py"}}\n',
    "calc.py": "def add(a, b): return a - b\n",
    "test_calc.py": TEST,
}

NPM = (
    'python3 -c "import json,os;exit(os.system(json.load(open(\\"package.json\\"))[\\"scripts\\"][\\"test\\"])>0)" npm'
)
"""What `npm test` does, on a machine without it."""

CHEATS = {
    "make": ("make test", r"printf 'test:\n\ttrue\n' > Makefile", "Makefile (the check runs it)"),
    "npm": (NPM, """echo '{"scripts": {"test": "true"}}' > package.json""", "package.json (the check runs it)"),
    "a gutted test": ("python3 -m unittest -q test_calc", f'printf "{GUTTED!s}" > test_calc.py', "test_calc.py +1 −2"),
    "settings": (
        f"{sys.executable} -m pytest -q",
        r"printf '[pytest]\naddopts = --collect-only\n' > pytest.ini",
        "pytest.ini (new)",
    ),
    "a new test that ends everything": (
        f"{sys.executable} -m pytest -q",
        "echo 'import os; os._exit(0)' > test_a.py",
        "test_a.py (new)",
    ),
}


@pytest.mark.parametrize(("check", "cheat", "look_at"), CHEATS.values(), ids=CHEATS)
def test_l6_a_check_that_was_made_easier_is_said(desk: Desk, check: str, cheat: str, look_at: str) -> None:
    """A loop whose checks an agent has made easier is not just done: its end says so, everywhere."""
    desk.user.commit("Begin", FILES)
    desk.agent("cheat", f'{cheat}; reply "Done"')
    settings = ["--work", "cheat", "--check", check, "--name", "l1"]
    done = desk.penstock("loop", "PROMPT.md", *settings)
    assert done.returncode == 0, done.stderr
    status = desk.penstock("loop", "status").stdout
    log = desk.penstock("loop", "log").stdout
    for text in (done.stderr, status, log):
        assert "done, with changed checks" in text
        assert f"look at: {look_at}" in text
        assert "not green with the tests of the base: " + check in text
    landed = desk.penstock("loop", "land")
    assert landed.returncode == 0
    assert look_at in landed.stdout


def test_l6_a_module_in_place_of_the_test_program_goes(desk: Desk) -> None:
    """New modules that Python would import in place of the program that tests are removed, and the agent reads that."""
    desk.user.commit("Begin", FILES)
    plant = "echo 'raise SystemExit(0)' > unittest.py; mkdir unittest; echo 'import os; os._exit(0)' > sitecustomize.py"
    desk.agent("cheat", f'{plant}; cp "$DESK/prompt.$$" "$DESK/prompt.$(count cheat)"; reply "Done"')
    status, state = desk.run(desk.settings("cheat", checks=("python3 -m unittest -q test_calc",)))
    assert status == 1
    work = state.rounds[0].work
    assert work is not None
    assert work.put_back == ("sitecustomize.py", "unittest.py")
    assert "put back as they were before" in (desk.scripts / "prompt.2").read_text()


def test_l6_new_tests_alone_are_listed(desk: Desk) -> None:
    """An agent that adds tests has not changed the checks: it is done, also green with the tests of the base."""
    desk.user.commit("Begin", FILES)
    desk.agent("worker", "echo 'def add(a, b): return a + b' > calc.py; cp test_calc.py test_more.py; reply \"Add\"")
    status, state = desk.run(desk.settings("worker", checks=("make test",)))
    assert status == 0
    assert state.ended is not None
    assert state.ended.reason == "done"
    assert proof_lines(state) == ["look at: test_more.py (new)", "also green with the tests of the base"]


def test_l6_a_loop_without_changed_checks_costs_no_further_check(desk: Desk) -> None:
    """Nothing is checked again if only other files were changed."""
    desk.user.commit("Begin", FILES)
    desk.agent("worker", "echo 'def add(a, b): return a + b' > calc.py; reply \"Add\"")
    status, state = desk.run(desk.settings("worker", checks=("make test",)))
    assert status == 0
    assert proof_lines(state) == []
    assert state.base_tests is None
