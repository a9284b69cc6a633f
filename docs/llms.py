"""Write `docs/llms.txt`, the index of the documents for language models (https://llmstxt.org).

It is made of `docs/README.md` by `make options`; a test holds it equal.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parent
INTRO = """\
Penstock starts coding agents (Claude Code, Codex, Gemini CLI and others), reads the JSON that each prints in its own
format, and turns it into one stream of events: for a terminal, a log, a program, a chat in the browser, a document that
answers, or a loop over a repository."""


def text() -> str:
    """Return the index: a heading for each list of `docs/README.md`, and a line for each of its pages."""
    sentence = (DOCS.parent / "README.md").read_text("utf-8").split("\n")[2]
    lists = (DOCS / "README.md").read_text("utf-8").split("\n\n", 1)[1]
    lists = re.sub(r"^(\w[\w ]+):$", r"## \1", lists, flags=re.MULTILINE)
    return f"# Penstock\n\n> {sentence}\n\n{INTRO}\n\n{lists}"


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(text(), "utf-8")
