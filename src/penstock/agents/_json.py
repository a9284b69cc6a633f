"""Tolerant readers of wire values, shared by the adapters.

A wire promises little: a field that is text today is a list of blocks tomorrow, or null. These helpers accept any value
that JSON can hold, never raise, and lose no text. Those for values on which success and figures depend note a value of
any other type (`penstock.core.misfits`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from penstock.core.misfits import note, note_type
from penstock.core.tool_titles import compact as compact
from penstock.events import PlanItem

MAX_DEPTH = 8
"""Levels of nesting that `text_of` looks through; anything deeper becomes JSON. No wire nests text that deep, and
without a bound an input could push the recursion into Python's own limit."""

MAX_MS = 1 << 53
"""Milliseconds above every valid time; JavaScript counts exactly up to here."""

_TEXT_KEYS = ("text", "content", "message", "output", "thinking", "summary", "title", "detail", "error")
_MEDIA_TYPES = frozenset({"image", "image_url", "audio", "video", "document", "file", "resource", "input_image"})
_MIME_KEYS = ("mimeType", "mime_type", "media_type", "mime")
_PLAN_KEYS = ("content", "text", "step", "description", "title", "task")
_DONE = frozenset({"completed", "complete", "done", "cancelled", "canceled"})
_RUNNING = frozenset({"in_progress", "in-progress", "inProgress", "active", "running"})

PlanStatus = Literal["pending", "in_progress", "completed"]


def text_of(value: Any, sep: str = "\n") -> str:
    """Return the text of a value: a string, a list of content blocks (joined by `sep`), one block, or None (`""`).

    An image, a document or a sound becomes its label, as `[image image/png]`. A number, and an object without any text,
    becomes JSON.
    """
    return value if type(value) is str else _text_of(value, sep, MAX_DEPTH, compact)


def words_of(value: Any, sep: str = "\n") -> str:
    """Return a text of a model, as `text_of` does. A value without any text is left out and noted, and so is None."""
    if type(value) is str:
        return value
    if value is None:
        note("a text that is missing")
    return _text_of(value, sep, MAX_DEPTH, _left_out)


def text_in(fields: dict[str, Any], depth: int = 3) -> str:
    """Return a text of an object of an unknown kind, or of the objects in it; "" if there is none."""
    for key in _TEXT_KEYS[:3]:
        if found := _text_of(fields.get(key), "\n", depth, lambda value: ""):
            return found
    if depth <= 0:
        return ""
    return next((found for it in fields.values() if isinstance(it, dict) and (found := text_in(it, depth - 1))), "")


def _left_out(value: Any) -> str:
    note_type(value, "a text")
    return ""


def _text_of(value: Any, sep: str, depth: int, other: Callable[[Any], str]) -> str:
    """Return the text of a value. `other`: what a value without any text becomes."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if depth <= 0 or not isinstance(value, (list, tuple, dict)):
        return other(value)
    if isinstance(value, dict):
        return _text_of_block(value, sep, depth - 1, other)
    return sep.join(text for part in value if (text := _text_of(part, sep, depth - 1, other)))


def _text_of_block(block: dict[str, Any], sep: str, depth: int, other: Callable[[Any], str]) -> str:
    if not block:
        return ""
    for key in _TEXT_KEYS:
        if block.get(key) not in (None, ""):
            return _text_of(block[key], sep, depth, other)
    kind = block.get("type")
    if isinstance(kind, str) and kind in _MEDIA_TYPES:
        return media_label(block)
    if any(key in block for key in _TEXT_KEYS):
        return ""
    return other(block)


def media_label(block: dict[str, Any]) -> str:
    """Return the label of a picture, document or sound in text: `[image image/png]`."""
    kind = text_or(block.get("type"), "media")
    source = block.get("source")
    for place in (block, source if isinstance(source, dict) else {}):
        for key in _MIME_KEYS:
            if isinstance(place.get(key), str):
                return f"[{kind} {place[key]}]"
    return f"[{kind}]"


def text_or(value: Any, default: str) -> str:
    """Return `value` if it is a string that is not empty, else `default`."""
    return value if isinstance(value, str) and value else default


def as_int(value: Any) -> int | None:
    """Return a whole number, or None. A fraction is cut off; booleans and texts do not count as numbers: a misfit."""
    if type(value) is int:
        return value
    if isinstance(value, float):
        try:
            return int(value)
        except (ValueError, OverflowError):  # NaN and the infinities
            return None
    note_type(value, "a number")
    return None


def as_ms(value: Any) -> int | None:
    """Return a duration or a time in milliseconds; None if it is not a number, negative, or absurdly large."""
    number = as_int(value)
    return number if number is not None and 0 <= number < MAX_MS else None


def ms_between(start: Any, end: Any) -> int | None:
    """Return the milliseconds between two times; None if they are not in this order, or not both known."""
    first, last = as_ms(start), as_ms(end)
    return None if first is None or last is None else as_ms(last - first)


def as_float(value: Any) -> float | None:
    """Return a finite number, or None. Booleans and texts do not count as numbers: a misfit."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        note_type(value, "a number")
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None  # False for NaN and the infinities


def list_of(value: Any) -> list[Any]:
    """Return a list; an empty one if there is none. Any other value is a misfit."""
    if isinstance(value, list):
        return value
    note_type(value, "a list")
    return []


def as_dict(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def object_of(value: Any) -> dict[str, Any]:
    """Return an object; an empty one if there is none. Any other value is a misfit."""
    if isinstance(value, dict):
        return value
    note_type(value, "an object")
    return {}


def id_of(value: Any, holder: str) -> str:
    """Return an id; "" if there is none, which is noted of its holder."""
    if isinstance(value, str) and value:
        return value
    note(f"{holder} without an id")
    return ""


def output_of(value: Any) -> Any:
    """Return the output in a result that has one in each recording, also if it is empty; noted if it is missing."""
    if value is None:
        note("a result without its output")
    return value


def as_bool(value: Any) -> bool | None:
    """Return a true or a false, or None. Any other value is a misfit."""
    if isinstance(value, bool):
        return value
    note_type(value, "a boolean")
    return None


def word_of(value: Any) -> str:
    """Return a word such as a status; "" if there is none. Any other value is a misfit."""
    if isinstance(value, str):
        return value
    note_type(value, "a text")
    return ""


def name_of(value: Any) -> str:
    """Return the name of a tool, `tool` if there is none. A value that is no text is a misfit."""
    return word_of(value) or "tool"


def as_list(value: Any) -> list[Any]:
    """Return `value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def plan_items(value: Any) -> list[PlanItem]:
    """Return the items of a plan: a list of texts, or of objects with a text and a status (or `completed`).

    An item that was cancelled counts as completed: nothing is left to do. An unknown status is pending. Items without
    text are left out.
    """
    items = []
    for entry in as_list(value):
        fields = as_dict(entry) if isinstance(entry, dict) else {"text": entry}
        text = next((found for key in _PLAN_KEYS if (found := text_of(fields.get(key)))), "")
        if text:
            items.append(PlanItem(text, _plan_status(fields)))
    return items


def _plan_status(fields: dict[str, Any]) -> PlanStatus:
    status = fields.get("status")
    if fields.get("completed") is True or (isinstance(status, str) and status in _DONE):
        return "completed"
    return "in_progress" if isinstance(status, str) and status in _RUNNING else "pending"


def inner_message(text: str) -> str:
    """Return the message inside an error text that is itself JSON, else the text as it is."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return text
    try:
        found = msgspec.json.decode(stripped)
    except Exception:
        return text
    error = found.get("error")
    nested = error.get("message") if isinstance(error, dict) else error
    for candidate in (nested, found.get("message"), found.get("detail")):
        if isinstance(candidate, str) and candidate:
            return candidate
    return text


def canonical(value: Any) -> str | None:
    """Return `value` as JSON whose keys are sorted, to compare it; None if it has no JSON or is nested too deep."""
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def parsed(value: Any) -> Any:
    """JSON text as data; a value that is not JSON text, as it is."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return value
    return value
