"""Random edits while an agent works: nothing of the user's is lost, and the reply is there once."""

from __future__ import annotations

from collections import Counter
from random import Random

import random_documents
from effort import at_most

from penstock.doc.components import DocumentError, find_component
from penstock.doc.document import Document
from penstock.doc.front_matter import FrontMatter
from penstock.doc.lines import split_lines, without_end
from penstock.doc.merge import Merged, merge
from penstock.doc.reply import Reply
from penstock.doc.submission import submission

BOUNDARY = "<!-- agent:boundary:a0cfeb34 -->"


def rows(text: str) -> list[str]:
    """Lines of a text without their ends, and without a BOM."""
    return [without_end(line) for line in split_lines(text.removeprefix("\ufeff"))]


def is_within(part: list[str], whole: list[str]) -> bool:
    """Whether all lines of one list are in the other, in the same order."""
    rest = iter(whole)
    return all(line in rest for line in part)


def check(base: str, now: str, said: str, merged: Merged) -> None:
    """Check the rules of the merge for one trial."""
    before, after = rows(now), rows(merged.text)
    reply = Reply.parse(said)
    replaced: set[str] = set()
    exchange = None
    try:
        latest = Document.parse(now)
    except DocumentError:
        pass
    else:
        found = Document.parse(merged.text)
        exchange = found.component("exchange") if Document.parse(base).component("exchange") else None
        assert [item.name for item in found.markers.components] == [item.name for item in latest.markers.components]
        assert [item.attributes for item in found.markers.components] == [
            item.attributes for item in latest.markers.components
        ]
        assert [item.id for item in found.markers.boundaries] == [item.id for item in latest.markers.boundaries]
    for patch in reply.patches:
        component = find_component(now, patch.component, FrontMatter.parse(now).end)
        if component and component.mode == "replace" and patch.component not in merged.proposals:
            replaced.update(rows(now[component.start : component.end]))
    kept = [line for line in before if line not in replaced and line != BOUNDARY and line.strip()]
    assert is_within(kept, after)
    count = Counter(after)
    first = after.index(reply.rest.split("\n")[0])
    assert after[first : first + len(reply.rest.split("\n"))] == reply.rest.split("\n")
    assert all(count[line] == 1 for line in reply.rest.split("\n"))
    if exchange:
        assert exchange.start <= merged.text.index(reply.rest.split("\n")[0]) < exchange.end
    for patch in reply.patches:
        assert count[patch.text] + count[f"> {patch.text}"] == 1
    assert merged.text.startswith("\ufeff") == now.startswith("\ufeff")
    assert merged.text.count("\ufeff") == now.count("\ufeff")
    if "\r\n" in (now if "\n" in now else base):
        assert merged.text.count("\n") == merged.text.count("\r\n")
    else:
        assert "\r" not in merged.text


def test_d1_no_line_of_the_user_is_lost_and_the_reply_is_whole_and_there_once() -> None:
    """Whatever the user edits meanwhile, each line stays in its order, the reply is one piece, and no marker breaks."""
    for seed in range(at_most(200, 10_000)):
        random = Random(seed)
        base = random_documents.document(random)
        now = random_documents.edited(random, base)
        said = random_documents.reply(random)
        merged = merge(base, now, Reply.parse(said), at_boundary=random.random() < 0.5)
        try:
            check(base, now, said, merged)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}:\n{base!r}\n{now!r}\n{said!r}\n{merged!r}") from error
        asked = submission(Document.parse(merged.snapshot), merged.snapshot)
        assert not asked.is_new, seed
