"""Digests of the text of all recordings, as pipes and terminals without rendered Markdown get it.

`make digests` writes them anew, after the text was changed on purpose. The digest of the events is beside that of the
text: a recording or adapter that has changed says nothing about the sink.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock import events as ev
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds

FOLDER = Path(__file__).parents[1] / "recordings"
FILE = FOLDER.parent / "sinks" / "shown_digests.json"

LOOKS: dict[str, dict[str, Any]] = {
    "quiet": {"mode": "none", "detail": "quiet"},
    "minimal": {"mode": "none", "detail": "minimal"},
    "normal": {"mode": "none", "detail": "normal"},
    "verbose": {"mode": "none", "detail": "verbose"},
    "terminal": {"mode": "full", "color": True, "width": 80, "render": "off"},
    "narrow": {"mode": "full", "detail": "verbose", "width": 40, "render": "off"},
}
"""Options of the sink by the name of a look: a pipe at each detail, and a terminal with colours, and a narrow one."""


def digest(data: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(data).hexdigest()[:16]


def shown(events: Sequence[ev.Event], look: str) -> str:
    """Return the text of a run."""
    sink = TextSink(**LOOKS[look])
    return sink.render(events) + sink.close()


def has_known_widths(text: str) -> bool:
    """Return whether all versions of the package that knows the widths of characters agree about a text.

    They do not about emoji and marks that are joined with other characters.
    """
    return all(mark < "\uffff" and unicodedata.category(mark) not in ("Mn", "Me", "Mc", "Cf") for mark in text)


def digests(agent: str, data: bytes) -> dict[str, str]:
    """Return the digests of the events of a recording, and of its text in each look that is the same everywhere."""
    events = feeds.whole(Stream(agent), data)
    found = {"events": digest(ev.encode(events))}
    is_wrapped_alike = has_known_widths(shown(events, "verbose"))
    for look, options in LOOKS.items():
        if "width" not in options or is_wrapped_alike:
            found[look] = digest(shown(events, look).encode())
    return found


def main() -> None:
    """Write the digests of all recordings."""
    found = {}
    for path in sorted(FOLDER.glob("*/*/input.ndjson")):
        agent = json.loads(path.with_name("expected.json").read_text("utf-8"))["agent"]
        found[path.parent.relative_to(FOLDER).as_posix()] = digests(agent, path.read_bytes())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
