"""Measures the publish of a reply in documents of several sizes."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest import mock

from penstock.doc import publish
from penstock.doc.exchange import exchange
from penstock.doc.opened import SESSION, opened

SIZES = {"2 KB": 2_000, "50 KB": 50_000, "1 MB": 1_000_000}
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "writes", "with", "ink"]


class Times(NamedTuple):
    """Seconds from the end of the run, with the reply in memory."""

    exchange: float
    """Until the reply is in the document."""
    end: float
    """Until the publish has ended, without the pause for late saves."""


def report(quick: bool) -> Iterator[str]:
    yield from (
        "",
        "### Documents: the publish of a reply",
        "",
        "From the end of the run until the reply of 2 KB is in the document, and until the publish has ended; the "
        f"pause of {publish.LATE_SECONDS} s for late saves is left out. Median of several replies in one document.",
        "",
        "| document | reply in the file | end |",
        "| --- | ---: | ---: |",
    )
    for name, size in SIZES.items():
        found = times(size, 1 if quick else 7)
        at, end = (median(column) * 1000 for column in zip(*found, strict=True))
        yield f"| {name} | {at:.0f} ms | {end:.0f} ms |"


def times(size: int, count: int) -> list[Times]:
    """Publish replies to one document, one after the other."""
    random.seed(0)
    with tempfile.TemporaryDirectory() as place, mock.patch.dict(os.environ, PENSTOCK_DATA=f"{place}/data"):
        path = Path(place) / "notes.md"
        path.write_text(document(size), "utf-8")
        return [published(path, number) for number in range(count)]


def document(size: int) -> str:
    """Return a document with questions, replies and code."""
    parts = ["# Notes\n\n## User\n"]
    while sum(map(len, parts)) < size:
        parts.append(f"{prose(400)}\n\n## Assistant\n\n{prose(1200)}\n\n```py\nx = 1\n```\n\n## User\n")
    return "\n".join([*parts, "And this?\n"])


def prose(size: int) -> str:
    """Return paragraphs of words."""
    text = " ".join(random.choices(WORDS, k=size // 5))
    return text.replace(" fox ", " fox.\n\n")


def published(path: Path, number: int) -> Times:
    """Publish one reply and write the next question."""
    exchanged: list[float] = []

    def timed(first: Path, second: Path) -> None:
        exchange(first, second)
        exchanged.append(time.perf_counter())

    with opened(path) as document, mock.patch.object(publish, "exchange", timed):
        started = time.perf_counter()
        document.publish(prose(2000), {"fields": {SESSION: document.state.session, "resume": f"conversation-{number}"}})
        ended = time.perf_counter()
    with path.open("a", encoding="utf-8") as file:
        file.write(f"And what of {number}?\n")
    return Times(exchanged[0] - started, ended - started - publish.LATE_SECONDS)
