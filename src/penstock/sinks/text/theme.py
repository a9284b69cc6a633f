"""Theme of the text sink: marks, colours and words. Pure functions; `layout` decides where the text goes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.core.causes import retry_text
from penstock.core.questions import ASKS, answer_in_words, label_of
from penstock.events import (
    BlockEnded,
    Malformed,
    Notice,
    PlanChanged,
    PlanItem,
    QuestionAnswered,
    QuestionAsked,
    Unknown,
)
from penstock.sinks.sanitize import clean, clean_line
from penstock.sinks.text.edits import MAX_ASKED_DIFF_LINES, Paths, diffs
from penstock.sinks.text.styles import Piece, Style, shortened

MAX_EXCERPT_CHARS = 160
"""Maximum characters shown of an unreadable line."""
MAX_NOTICE_CHARS = 2000
"""Maximum characters of a notice below `verbose`: a line of noise can have megabytes."""
MAX_JSON_CHARS = 64 * 1024
"""Maximum characters of a notice that is parsed as JSON."""
MAX_NOTICE_LINES = 5
"""Maximum lines of a notice below `verbose`: agents print whole stack traces."""
THOUGHT = "∴ "  # "therefore": it distinguishes thinking from text without colours
OUTPUT = "│ "  # output of a running command
CALL = "▸ "
REVISED = "↻ "
CUT_OFF = "(cut off)"
GIVEN_UP = "(attempt given up)"
CUT_SHORT = "(cut short here, the block was too large)"


def taken_back(count: int) -> str:
    """Return words for text that was shown and then withdrawn."""
    return f"(the last {count:,} characters were taken back)" if count > 1 else "(the last character was taken back)"


def indented(text: str, by: str = "  ") -> str:
    """Return `text` with all lines indented except blank ones."""
    return "\n".join(by + line if line else "" for line in text.split("\n"))


def whole_block(event: BlockEnded, *, marked: bool) -> list[Piece]:
    """Return the pieces of a block of text or thinking that is shown once it has ended."""
    pieces: list[Piece] = [("dim" if event.kind == "thinking" else "text", clean(event.text))]
    if event.truncated:
        pieces.append(("dim", f" {CUT_SHORT}"))
    if marked and not event.complete:
        pieces.append(("dim", f" {CUT_OFF}"))
    return pieces


_BOXES = {"pending": "☐", "in_progress": "◐", "completed": "☑"}


def plan(event: PlanChanged, before: Sequence[PlanItem] = ()) -> list[Piece]:
    """Return a plan as a header line, then one line for each item that was not in the plan before it."""
    done = sum(item.status == "completed" for item in event.items)
    pieces: list[Piece] = [("mark", "☰ "), ("name", "plan"), ("dim", f" ({done} of {len(event.items)} done)")]
    for item in event.items:
        if item not in before:
            style: Style = "dim" if item.status == "completed" else "text"
            pieces.append((style, f"\n{_BOXES[item.status]} {clean_line(item.text)}"))
    gone = len({item.text for item in before} - {item.text for item in event.items})
    if gone:
        pieces.append(("dim", f"\n… {gone:,} no longer in it"))
    return pieces


_LEVELS: dict[str, Piece] = {"info": ("dim", "· "), "warning": ("warn", "! "), "error": ("bad", "✗ ")}


def notice(event: Notice, *, whole: bool) -> list[Piece]:
    """Return a notice with the mark of its level."""
    text = event.text
    if not whole:
        text = _limited(shortened(message_in_json(text), MAX_NOTICE_CHARS))
    text = clean(retry_text(event, text))
    text = text.rstrip() if event.code == "noise" else text.strip()  # plain text keeps its indentation
    return [_LEVELS[event.level], ("dim" if event.level != "error" else "bad", text or event.code)]


def _limited(text: str) -> str:
    lines = text.strip("\n").split("\n")
    left_out = len(lines) - MAX_NOTICE_LINES
    return "\n".join([*lines[:MAX_NOTICE_LINES], f"… {left_out:,} more lines"]) if left_out > 1 else text


def message_in_json(text: str) -> str:
    """Return the message in an error that an agent printed as a JSON object, else `text`."""
    if text[:1] != "{" or len(text) > MAX_JSON_CHARS:
        return text
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text
    while isinstance(found, dict):
        found = next((found[key] for key in ("message", "error", "data", "detail") if found.get(key)), None)
    return found if isinstance(found, str) else text


def malformed(event: Malformed) -> list[Piece]:
    """Return a line that could not be read, with the reason."""
    excerpt = shortened(clean_line(event.excerpt), MAX_EXCERPT_CHARS)
    return [("warn", "! "), ("dim", f"line {event.line} could not be read ({clean_line(event.reason)}): {excerpt}")]


def unknown(event: Unknown) -> list[Piece]:
    """Return an unknown event, as the agent printed it."""
    return [("dim", f"· unknown event {clean_line(event.wire_type or '')}".rstrip() + f": {clean_line(event.raw)}")]


def question_words(event: QuestionAsked, paths: Paths) -> str:
    """Return what is asked, and the agent's words with relative paths.

    The path is left out, alone on a line or after a colon, if the diff below has the same one as its title.
    """
    changes = event.changes or ()
    title = changes[0].path if len(changes) == 1 else None
    said = (line.removesuffix(f": {title}") for line in event.text.split("\n") if line != title)
    lines = [", ".join(map(paths.short, line.split(", "))) for line in said]
    return ": ".join(filter(None, (ASKS[event.ask], clean("\n".join(lines)))))


def question(event: QuestionAsked, paths: Paths) -> list[Piece]:
    """Return a question: its kind, the agent's words, the diff that it is about, and the options with their numbers."""
    pieces: list[Piece] = [("warn", "? "), ("text", question_words(event, paths))]
    if event.changes:
        pieces += diffs(event.changes, paths, MAX_ASKED_DIFF_LINES, named=True)
    pieces += [("text", f"\n{n}. {clean_line(label_of(option))}") for n, option in enumerate(event.options or (), 1)]
    return pieces


def answer(event: QuestionAnswered, asked: QuestionAsked | None) -> list[Piece]:
    """Return the answer to a question, or the reason why there is none."""
    return [("mark", "→ "), ("text", clean(answer_in_words(event, asked)))]
