from __future__ import annotations

import pytest

from penstock.loop.tasks import open_tasks


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("", ()),
        ("- [ ] one\n- [x] two\n* [ ] three\n1. [ ] four\n", ("one", "three", "four")),
        ("- [ ] one\n  with detail\n  - [ ] below it\n\ntext\n", ("one\n  with detail\n  - [ ] below it",)),
        ("text\n  - [ ] indented\n", ()),
        ("```\n- [ ] in code\n```\n- [ ] out\n", ("out",)),
        ("~~~~\n```\n- [ ] in code\n~~~~\n- [ ] out\n", ("out",)),
        ("<!--\n- [ ] hidden\n-->\n- [ ] seen\n", ("seen",)),
        ("text <!--\n- [ ] hidden\n-->\n- [ ] seen\n", ("seen",)),
        ("write `<!--` here\n- [ ] seen\n", ("seen",)),
        ("text <!-- short -->\n- [ ] seen\n", ("seen",)),
        ("- [ ]\n- [] no\n- [2026-01-01] date\n-[ ] no\n", ()),
        ("- [ ] same\n- [ ] same\n", ("same",)),
        ("- [ ] first\r\n- [ ] second\r\n", ("first", "second")),
    ],
)
def test_open_boxes_are_the_tasks(text: str, tasks: tuple[str, ...]) -> None:
    """Open boxes at the top level, outside code and comments, are tasks with the lines below them."""
    assert open_tasks(text) == tasks
