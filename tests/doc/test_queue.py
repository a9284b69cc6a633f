"""D10: the queue of a document, item by item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from waiting import is_alive, until

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from doc.conftest import Desk

QUEUE = """\
# Plan

<!-- agent:exchange -->
I have not asked this yet.
<!-- /agent:exchange -->

<!-- agent:queue -->
- one
- [ ] two
- three
- four
- five
<!-- /agent:queue -->
"""


def items(desk: Desk) -> list[str]:
    """Return the lines of the queue."""
    text = (desk.folder / "plan.md").read_text("utf-8")
    return text.partition("<!-- agent:queue -->\n")[2].partition("<!--")[0].splitlines()


def asked_items(desk: Desk) -> list[str]:
    """Return the items that the runs were asked to do, in their order."""
    prompts = [asked["prompt"].partition("Do this item")[2] for asked in desk.asked]
    return [prompt.partition("```\n")[2].partition("\n")[0] for prompt in prompts]


def test_the_queue_stops_at_a_failure_and_goes_on(desk: Desk) -> None:
    """Of five items the third fails: two are struck through. After a kill in the fourth, none that is done comes again.

    An item that the user edits while it is done is kept as the user wrote it.
    """
    desk.write("plan.md", QUEUE)
    desk.fail(3)
    done = desk.doc("plan.md", "--agent", "scripted", "--queue")
    assert done.returncode == 1
    assert items(desk) == ["- ~~one~~", "- [x] two", "- three", "- four", "- five"]
    assert asked_items(desk) == ["one", "two", "three"]

    desk.hold(5)
    process = desk.start("plan.md", "--queue")
    desk.until_asked(5)
    process.kill()
    process.communicate()
    until(lambda: not is_alive(desk.asked[4]["pid"]), "the agent is gone")
    assert asked_items(desk)[3:] == ["three", "four"]
    assert items(desk) == ["- ~~one~~", "- [x] two", "- ~~three~~", "- four", "- five"]

    hold = desk.hold(6)
    process = desk.start("plan.md", "--queue")
    desk.until_asked(6)
    text = (desk.folder / "plan.md").read_text("utf-8")
    desk.write("plan.md", text.replace("- four", "- four, but better"))
    hold.unlink()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert asked_items(desk)[5:] == ["four", "five"]
    assert items(desk) == ["- ~~one~~", "- [x] two", "- ~~three~~", "- four, but better", "- ~~five~~"]
    assert "the item of the queue was changed meanwhile" in errors


def test_items_that_are_added_meanwhile_wait(desk: Desk) -> None:
    """The list is frozen at the start; the next time has the new item. One that is removed meanwhile is not asked."""
    desk.write("plan.md", QUEUE.replace("- three\n- four\n", ""))
    hold = desk.hold(1)
    process = desk.start("plan.md", "--agent", "scripted", "--queue")
    desk.until_asked(1)
    text = (desk.folder / "plan.md").read_text("utf-8")
    desk.write("plan.md", text.replace("- [ ] two\n", "").replace("- five\n", "- five\n- six\n"))
    hold.unlink()
    process.communicate()
    assert asked_items(desk) == ["one", "five"]
    assert items(desk) == ["- ~~one~~", "- ~~five~~", "- six"]


def test_the_exchange_stays_a_question(desk: Desk) -> None:
    """What the user wrote in the exchange is not lost as a question by a run of the queue."""
    desk.write("plan.md", QUEUE)
    assert desk.doc("plan.md", "--agent", "scripted", "--queue").returncode == 0
    new = desk.doc("diff", "plan.md").stdout
    assert "+I have not asked this yet." in new
    assert "one" not in new
    desk.write("empty.md", "# No queue\n")
    assert "there is nothing to do in the queue" in desk.doc("empty.md", "--agent", "scripted", "--queue").stderr
