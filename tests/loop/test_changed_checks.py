"""What an agent does to the checks themselves: it is put back, or it is said."""

from __future__ import annotations

import pytest
from loop_desk import Desk

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
def test_l6_attributes_do_not_change_a_check(desk: Desk, attributes: str, write: str):
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
