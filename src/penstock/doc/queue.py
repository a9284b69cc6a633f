"""Queue of a document: its items are asked one by one, and each is struck through when its reply is published."""

from __future__ import annotations

import os
from collections.abc import Callable

from penstock.doc.answers import DocumentAnswer, Steps, Wanted, ask_document, publish_reply
from penstock.doc.opened import opened
from penstock.doc.queue_items import queue_items
from penstock.doc.submission import submission


def queue_steps(
    path: str | os.PathLike[str], wanted: Wanted, on_answer: Callable[[DocumentAnswer], None]
) -> Steps[list[DocumentAnswer]]:
    """Ask the items of a document's queue: yield each, get its run, and return the answers, as `on_answer` got them.

    The list is that of the start: items that are added or edited meanwhile wait for the next time. It ends at the first
    run that did not end well.
    """
    answers: list[DocumentAnswer] = []
    with opened(path) as document:
        for item in queue_items(document.document.text):
            document.read()
            if item not in queue_items(document.document.text):
                continue
            file = os.fspath(document.path)
            found = submission(document.document, document.snapshot, file=file, item=item)
            ask, run = yield from ask_document(document, wanted, found)
            options = {"at_boundary": found.at_boundary, "done": item.line}
            answers.append(publish_reply(document, ask, run, wanted, options))
            on_answer(answers[-1])
            if run.result.outcome != "ok":
                break
    return answers
