"""Every string of every recording replaced by one that would act on a terminal: nothing of it arrives there."""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest
from effort import SOAK, at_most
from hostile_text import HOSTILE, assert_harmless, replaced

from penstock.cli.console import Output
from penstock.cli.display import Sink
from penstock.core.normalizer.outcome import Exit
from penstock.events import Event, encode
from penstock.sinks.chunks import ChunksSink
from penstock.sinks.ndjson import NdjsonSink
from penstock.sinks.reply import ReplySink
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream

if TYPE_CHECKING:
    from conftest import Recording

MAX_BYTES = at_most(12_000, 250_000)
"""Bytes of a recording that are read: the rest of a long one is more of the same."""

PATHS = at_most(2, 1_000_000)
"""Strings of a recording that are replaced alone, one after the other."""

SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "0"))

DIFF = "@@ -1 +1 @@\n-a\n+b\n"
"""Diff whose header is right, as a model may write it into any field of a tool that edits."""


def text_sinks() -> Iterator[tuple[str, TextSink]]:
    """Yield a sink for each detail, with all ways of prefixes, colours and services among them."""
    yield "verbose", TextSink("none", detail="verbose", prefix="both")
    yield "normal", TextSink("full", color=True, width=50)
    yield "github", TextSink("none", ci="github", prefix="kind")
    yield "minimal", TextSink("basic", color=True, detail="minimal", label_width=8, label_number=2)
    yield "quiet", TextSink("full", detail="quiet", prefix="none")


def on_terminal(sink: Sink, events: list[Event]) -> bytes:
    """Return what a terminal gets of these events."""
    with tempfile.TemporaryFile() as file:
        output = Output(file.fileno(), is_safe=True)
        output.write(sink.render(events))
        output.write(sink.close())
        file.seek(0)
        return file.read()


def check(agent: str, data: bytes, what: str) -> None:
    """Check all outputs of one stream."""
    stream = Stream(agent)
    events = stream.feed(data) + stream.close(Exit(code=1, stderr="no" + HOSTILE[1]))
    for name, sink in text_sinks():
        text = sink.render(events) + sink.close()  # of the sink itself, without the writer's help: as a log gets it
        assert_harmless(text, f"{what}, {name}", styled=True, ci=name != "github")
    programs: dict[str, Sink] = {"reply": ReplySink(), "chunks": ChunksSink(), "ndjson": NdjsonSink()}
    for name, program in programs.items():
        assert_harmless(on_terminal(program, events), f"{what}, {name}")
    shown = on_terminal(NdjsonSink(), events).splitlines()
    assert list(map(msgspec.json.decode, shown)) == list(map(msgspec.json.decode, encode(events).splitlines())), what


def lines_of(recording: Recording) -> list[bytes]:
    """Return the first lines of a recording."""
    return recording.data[:MAX_BYTES].split(b"\n")


def paths_of(lines: list[bytes]) -> list[str]:
    """Return the paths of all strings and keys."""
    found: dict[str, None] = {}

    def note(path: str, text: str) -> None:
        found[path] = None

    for line in lines:
        replaced(line, note)
    return list(found)


@pytest.mark.sample(9)
def test_one_string_after_the_other(recording: Recording) -> None:
    """A path, an id, a kind, a key or a text, wherever it comes in the stream, is hostile."""
    rng = random.Random(f"{recording.name} {SEED}")
    lines = lines_of(recording)
    paths = paths_of(lines)
    for path in rng.sample(paths, min(PATHS, len(paths))):
        for hostile in HOSTILE if SOAK else rng.sample(HOSTILE, 2):

            def change(at: str, text: str, path: str = path, hostile: str = hostile) -> str | None:
                return text + hostile if at == path else None

            data = b"\n".join(replaced(line, change) for line in lines)
            check(recording.agent, data, f"{recording.name} {path} {hostile!r}")


@pytest.mark.sample(9)
def test_all_texts_at_once(recording: Recording) -> None:
    """All strings with a space, a line break or a slash, and those of usual fields, are hostile at once."""
    for number, hostile in enumerate(HOSTILE):
        if not SOAK and number % 3 != len(recording.name) % 3:
            continue

        def change(at: str, text: str, hostile: str = hostile) -> str | None:
            is_text = any(char in text for char in " \n/") or at.rpartition(".")[2] in ("text", "content", "title")
            return hostile + text + hostile if is_text and not at.endswith("!") else None

        data = b"\n".join(replaced(line, change) for line in lines_of(recording))
        check(recording.agent, data, f"{recording.name} {hostile!r}")


@pytest.mark.sample(9)
def test_diffs_of_models(recording: Recording) -> None:
    """Each field of the recording that can hold a diff has one whose lines are hostile, without a sign and with one."""
    paths = (b"file_path", b"filePath", b"path")

    for number, hostile in enumerate(HOSTILE):
        if not SOAK and number % 4 != len(recording.name) % 4:
            continue
        lines = "".join(f"{sign}{hostile.removeprefix('a')}\n" for sign in ("", "+", "-", " ", "\\", "@@"))
        diff = msgspec.json.encode(DIFF + lines)

        def change(line: bytes, diff: bytes = diff) -> bytes:
            for path in paths:  # instead of the texts that the tools of most agents replace
                line = line.replace(b'"%s":' % path, b'"diff":%s,"patch":%s,"%s":' % (diff, diff, path))
            return re.sub(rb'"(?:old|new)_?(?:string|str|text)":', b'"other":', line, flags=re.IGNORECASE)

        data = b"\n".join(change(line) for line in lines_of(recording))
        check(recording.agent, data, f"{recording.name} {hostile!r}")
