"""Theme of the text sink: marks, colours and words. Pure functions; `layout` decides where the text goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from penstock.core.questions import ASKS, answer_in_words
from penstock.core.tool_titles import compact
from penstock.events import (
    BlockEnded,
    Malformed,
    Notice,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunStarted,
    ToolReturned,
    Unknown,
    Usage,
    UsageReported,
)
from penstock.sinks.sanitize import clean, clean_line

Style = Literal["text", "head", "live", "dim", "name", "good", "bad", "warn", "mark"]
"""Role of a piece of text: `head` is the prefix of a line, `live` the same while its block still streams."""

Palette = Mapping[Style, str]
"""SGR parameters of each style; a missing style is plain."""

COLOURS: Palette = {
    "head": "36",
    "live": "2;36",
    "dim": "2",
    "name": "1",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "mark": "36",
}
PLAIN: Palette = {}

Piece = tuple[Style, str]
"""Styled piece of a line. Lines after a break in it are indented."""

MAX_RESULT_CHARS = 160
"""Characters of a result's first line that are shown: about two lines of a terminal."""
MAX_REASON_CHARS = 400
"""Characters of a failure's reason in the closing line; `replied` and the health report have the rest."""
MIN_SHOWN_MS = 100
"""Milliseconds of the shortest run whose duration by Penstock's clock is shown: a shorter one was read from a file."""
MAX_NOTICE_CHARS = 2000
"""Characters of a notice that are shown below `verbose`: a line of noise can be megabytes."""

THOUGHT = "∴ "  # "therefore": it distinguishes thinking from text without colours
CALL = "▸ "
REVISED = "↻ "
CUT_OFF = "(cut off)"
GIVEN_UP = "(attempt given up)"
CUT_SHORT = "(cut short here, the block was too large)"


def taken_back(count: int) -> str:
    """Return words for text that was shown and has been withdrawn."""
    return f"(the last {count:,} characters were taken back)" if count > 1 else "(the last character was taken back)"


def painted(palette: Palette, style: Style, text: str) -> str:
    """Return `text` (one line) between the codes of its style."""
    on, off = codes(palette, style)
    return on + text + off


def codes(palette: Palette, style: Style) -> tuple[str, str]:
    """Return the codes before and behind text of a style."""
    found = palette.get(style)
    return (f"\x1b[{found}m", "\x1b[0m") if found else ("", "")


def result(event: ToolReturned, name: str, *, marked: bool) -> list[Piece]:
    """Return the short line of a result: its first line that is not blank, the count of its lines, the exit status.

    `name` precedes it, unless "". Empty if there is nothing to show: the result is not complete and `marked` is off.
    """
    first = _first_line(event.text)
    if event.exit_code and "\n" in event.text and _is_exit_status(first, event.exit_code):
        first = _first_line(event.text.partition("\n")[2]) or first
    notes = [] if event.complete or not marked else ["no result was told"]
    if event.exit_code:
        notes.append(f"exit {event.exit_code}")
    if not (event.complete or notes or first):
        return []
    words = ": ".join([*([name] if name else []), *notes, *([first] if first else [])])
    lines = event.text.rstrip("\n").count("\n") + 1
    count = f" ({lines} lines)" if lines > 1 else ""
    return [result_mark(event), ("dim", (words or "(no output)") + count)]


def result_header(event: ToolReturned, name: str, *, marked: bool) -> list[Piece]:
    """Return the line above a result that is shown in full."""
    count = event.text.rstrip("\n").count("\n") + 1
    words = [name] if name else []
    if marked and not event.complete:
        words.append("cut off, the run ended first")
    if event.exit_code:
        words.append(f"exit {event.exit_code}")
    return [result_mark(event), ("dim", ": ".join([*words, f"{count} lines"]))]


def result_mark(event: ToolReturned) -> Piece:
    """Return `✓`, `✗`, or `◌` for a result that is not complete."""
    if event.is_error or event.exit_code:
        return ("bad", "✗ ")
    return ("good", "✓ ") if event.complete else ("warn", "◌ ")


def _is_exit_status(line: str, code: int) -> bool:
    """Return whether a line is only the exit status, which some agents print before the output."""
    return line.strip("[]. ").casefold().endswith(f"code {code}") and "exit" in line.casefold()


def _first_line(text: str) -> str:
    at = 0
    for _ in range(100):  # a result that begins with more blank lines has no short line
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        if shown := clean(line[: 8 * MAX_RESULT_CHARS].rstrip("\r")).strip():
            return shortened(shown, MAX_RESULT_CHARS)
        if end < 0:
            return ""
        at = end + 1
    return "…"


def shortened(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters and `…`."""
    return text if len(text) <= limit else text[:limit] + "…"


def input_lines(value: Any, title: str) -> str:
    """Return a tool input as `key: value` lines; "" if the title already shows all of it."""
    if not isinstance(value, dict):
        text = value if isinstance(value, str) else compact(value)
        return "" if value is None or text == title else clean(text)
    if len(value) <= 1 and all(item == title for item in value.values()):
        return ""
    return "\n".join(_entry(str(key), item) for key, item in value.items())


def _entry(key: str, value: Any) -> str:
    text = clean(value if isinstance(value, str) else compact(value)).rstrip("\n")
    return f"{clean_line(key)}: {text}" if "\n" not in text else f"{clean_line(key)}:\n" + indented(text)


def indented(text: str, by: str = "  ") -> str:
    """Return `text` with its lines indented, but for blank ones."""
    return "\n".join(by + line if line else "" for line in text.split("\n"))


def whole_block(event: BlockEnded, *, marked: bool) -> list[Piece]:
    """Return the pieces of a block of text or thinking that is shown once it has ended."""
    pieces: list[Piece] = [("dim" if event.kind == "thinking" else "text", clean(event.text))]
    if event.truncated:
        pieces.append(("dim", f" {CUT_SHORT}"))
    if marked and not event.complete:
        pieces.append(("dim", f" {CUT_OFF}"))
    return pieces


def call(name: str) -> list[Piece]:
    """Return the beginning of a call's line."""
    return [("mark", CALL), ("name", clean_line(name))]


_BOXES = {"pending": "☐", "in_progress": "◐", "completed": "☑"}


def plan(event: PlanChanged) -> list[Piece]:
    """Return a header line, then one line for each item."""
    done = sum(item.status == "completed" for item in event.items)
    pieces: list[Piece] = [("mark", "☰ "), ("name", "plan"), ("dim", f" ({done} of {len(event.items)} done)")]
    for item in event.items:
        style: Style = "dim" if item.status == "completed" else "text"
        pieces.append((style, f"\n{_BOXES[item.status]} {clean_line(item.text)}"))
    return pieces


_LEVELS: dict[str, Piece] = {"info": ("dim", "· "), "warning": ("warn", "! "), "error": ("bad", "✗ ")}


def notice(event: Notice, *, whole: bool) -> list[Piece]:
    """Return a notice with the mark of its level."""
    text = clean(event.text if whole else shortened(event.text, MAX_NOTICE_CHARS))
    text = text.rstrip() if event.code == "noise" else text.strip()  # plain text keeps its indentation
    return [_LEVELS[event.level], ("dim" if event.level != "error" else "bad", text or event.code)]


def malformed(event: Malformed) -> list[Piece]:
    """Return a line that could not be read, with the reason."""
    excerpt = shortened(clean_line(event.excerpt), MAX_RESULT_CHARS)
    return [("warn", "! "), ("dim", f"line {event.line} could not be read ({clean_line(event.reason)}): {excerpt}")]


def unknown(event: Unknown) -> list[Piece]:
    """Return an unknown event as the agent printed it."""
    return [("dim", f"· unknown event {clean_line(event.wire_type or '')}".rstrip() + f": {clean_line(event.raw)}")]


def question(event: QuestionAsked) -> list[Piece]:
    """Return a question: its kind, the agent's words, and the options with their numbers."""
    pieces: list[Piece] = [("warn", "? "), ("text", f"{ASKS[event.ask]}: {clean(event.text)}")]
    pieces += [("text", f"\n{n}. {clean_line(option.label)}") for n, option in enumerate(event.options or (), 1)]
    return pieces


def answer(event: QuestionAnswered, asked: QuestionAsked | None) -> list[Piece]:
    """Return the answer to a question, or the reason why there is none."""
    return [("mark", "→ "), ("text", clean(answer_in_words(event, asked)))]


def started(event: RunStarted) -> list[Piece]:
    """Return the session, model, version and directory that the agent reported."""
    facts = [("session", event.session_id), ("model", event.model), ("version", event.version), ("in", event.cwd)]
    words = " · ".join(f"{name} {clean_line(value)}" for name, value in facts if value)
    return [("dim", f"· {words}")] if words else []


def usage_line(event: UsageReported) -> list[Piece]:
    """Return the usage of one model call."""
    facts = [clean_line(event.model)] if event.model else []
    cached = f" ({tokens(event.cached_tokens)} cached)" if event.cached_tokens else ""
    counts = _in_out(event.input_tokens, event.output_tokens, cached)
    facts += [*counts, *money(event.cost_usd)]
    return [("dim", "· " + " · ".join(facts))] if facts else []


_PLAINLY = {"cut_off": "the stream broke before the agent had finished", "empty": "the agent said nothing"}
_ENDS: dict[str, tuple[Piece, str]] = {
    "ok": (("good", "● "), "done"),
    "error": (("bad", "✗ "), "failed"),
    "cancelled": (("warn", "■ "), "cancelled"),
    "timed_out": (("bad", "✗ "), "timed out"),
    "cut_off": (("bad", "✗ "), "cut off"),
    "empty": (("bad", "✗ "), "empty"),
}


def closing(event: RunEnded) -> list[Piece]:
    """Return the last line of a run: its outcome, duration and usage."""
    mark, words = _ENDS[event.outcome]
    if event.outcome != "ok" and (reason := event.reason or _PLAINLY.get(event.outcome)):
        words += ": " + clean_line(shortened(" ".join(reason.split()), MAX_REASON_CHARS))
    milliseconds = event.duration_ms
    if milliseconds is None and event.at is not None and event.at >= MIN_SHOWN_MS:
        milliseconds = event.at
    facts = list(_facts(event))
    if milliseconds:
        if event.outcome == "ok":
            words += f" in {duration(milliseconds)}"
        else:
            facts.insert(0, duration(milliseconds))
    style: Style = "text" if event.outcome == "ok" else mark[0]
    return [mark, (style, words), ("dim", "".join(f" · {fact}" for fact in facts))]


def _facts(event: RunEnded) -> Iterator[str]:
    if event.rounds:
        yield "1 round" if event.rounds == 1 else f"{event.rounds} rounds"
    usage = event.usage or Usage()
    yield from _in_out(usage.input_tokens, usage.output_tokens)
    yield from money(event.cost_usd if event.cost_usd is not None else usage.cost_usd)


def _in_out(given: int | None, made: int | None, cached: str = "") -> list[str]:
    sides = [f"{tokens(given)} in{cached}"] if given else []
    sides += [f"{tokens(made)} out"] if made else []
    return [", ".join(sides)] if sides else []


def duration(milliseconds: int) -> str:
    """Return a time for people: `0.3 s`, `47 s`, `3 min 5 s`, `1 h 2 min`."""
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def tokens(count: int) -> str:
    """Return a count for people: `64`, `3.2k`, `1.5M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def money(usd: float | None) -> list[str]:
    """Return US dollars with the digits that matter; an empty list for none."""
    if not usd:
        return []
    return [f"${usd:.2f}" if usd >= 0.01 else f"${usd:.4f}" if usd >= 0.00005 else "under $0.0001"]
