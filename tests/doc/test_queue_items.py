"""The queue of a document: which prompts it has, and how they look when they are done."""

from __future__ import annotations

from itertools import count

import pytest

from penstock.doc.document import Document
from penstock.doc.merge import merge
from penstock.doc.queue_items import QueueItem, queue_items, struck
from penstock.doc.reply import Reply
from penstock.doc.submission import submission

QUEUE = """\
# Work

<!-- agent:exchange -->
<!-- /agent:exchange -->

<!-- agent:queue auto -->
Some words of the user.
- write tests
  for the queue
  - all of them

* [ ] tick me
- [x] ticked
- [X] ticked too
- ~~struck through~~
- ~~~~
1. numbered
2) ~~done~~
```prompt
Several lines

of a prompt.
```
~~~ prompt done
Done before.
~~~
```
```
- last
<!-- /agent:queue -->
- elsewhere
"""
ITEMS = (
    QueueItem("- write tests", "write tests\n  for the queue\n  - all of them"),
    QueueItem("* [ ] tick me", "tick me"),
    QueueItem("- ~~~~", "~~~~"),
    QueueItem("1. numbered", "numbered"),
    QueueItem("```prompt", "Several lines\n\nof a prompt."),
    QueueItem("- last", "last"),
)


def test_items_are_what_is_not_done() -> None:
    """List items with what is indented below them, and prompts in code fences; words between them are the user's."""
    queue = QUEUE.replace("- ~~~~\n", "")
    assert queue_items(queue) == tuple(item for item in ITEMS if item.line != "- ~~~~")
    assert queue_items(queue.replace("\n", "\r\n")) == queue_items(queue)
    assert queue_items("# No queue\n- an item\n") == ()


@pytest.mark.parametrize(
    ("line", "done"),
    [
        ("- write tests", "- ~~write tests~~"),
        ("  * write tests ", "  * ~~write tests~~"),
        ("- [ ] tick me", "- [x] tick me"),
        ("12. write tests", "12. ~~write tests~~"),
        ("1) [ ] tick me", "1) [x] tick me"),
        ("```", "```done"),
        ("~~~~", "~~~~done"),
        ("```prompt ", "```prompt done"),
    ],
)
def test_a_done_item_is_edited_in_its_line(line: str, done: str) -> None:
    """It is struck through or ticked; the line that opens a fence gets a word. It is no item any more."""
    assert struck(line) == done
    closing = "\n" + line.split("p")[0] if line[0] in "`~" else ""
    text = f"<!-- agent:queue -->\n{done}\nwords{closing}\n<!-- /agent:queue -->\n"
    assert queue_items(text) == ()


def test_the_publish_strikes_the_item_through() -> None:
    """The reply and the done item come together, in the text and in the snapshot."""
    queue = QUEUE.replace("- ~~~~\n", "")
    merged = merge(queue, queue + "Typed on.\n", Reply.parse("Written."), done="- write tests")
    assert "\n- ~~write tests~~\n  for the queue\n" in merged.text
    assert "<!-- agent:exchange -->\nWritten.\n<!-- /agent:exchange -->" in merged.text
    assert merged.snapshot + "Typed on.\n" == merged.text
    assert [item.line for item in queue_items(merged.text)] == ["* [ ] tick me", "1. numbered", "```prompt", "- last"]
    assert not submission(Document.parse(merged.snapshot), merged.snapshot).is_new


@pytest.mark.parametrize(
    "now",
    [
        QUEUE.replace("- ~~~~\n", "").replace("write tests", "write more tests"),
        QUEUE[: QUEUE.index("<!-- agent:queue")],
    ],
    ids=count(),
)
def test_an_item_that_was_edited_meanwhile_stays_as_it_is(now: str) -> None:
    """The user's line wins, and there is a note."""
    base = QUEUE.replace("- ~~~~\n", "")
    merged = merge(base, now, Reply.parse("Written."), done="- write tests")
    assert "~~write" not in merged.text
    assert merged.notes == ("the item of the queue was changed meanwhile and is not struck through",)
