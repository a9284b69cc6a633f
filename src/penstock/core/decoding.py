"""Decoding of lines to wire events.

There are two passes. The fast one is a `msgspec` decoder made once from an adapter's wire model. Lines that it rejects
are read again by a lenient pass, which accepts unexpected types, unknown kinds, lone surrogates, raw control
characters, NaN, a BOM and bad UTF-8. A line that both passes reject is malformed.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.core import misfits
from penstock.core.framing import Oversized

EXCERPT_CHARS = 200
"""Number of characters shown of an unreadable line."""

MAX_NESTING = 200
"""Maximum depth of a value that the lenient pass reads, since it checks all strings recursively. The fast decoder has
its own limit."""

MAX_NOISE_CHARS = 2000
"""Number of characters shown of a line without JSON."""


class Noise(msgspec.Struct, frozen=True):
    """Line, or part of one before its JSON, that is not JSON: a banner, a package manager's message."""

    text: str


class MalformedLine(msgspec.Struct, frozen=True):
    """Line that looks like an event but cannot be read."""

    reason: str
    excerpt: str


class Decoded(msgspec.Struct, frozen=True):
    """Wire event that the second pass returns. `lenient`: the line was not clean JSON."""

    event: Any
    lenient: bool


class Decoder:
    """Decoder of one agent's lines.

    Call `fast` (one line) or `fast_lines` (a region of lines) first; for a line that they reject, call `slow`.
    """

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        decoder = msgspec.json.Decoder(wire)
        self.fast: Callable[[bytes | str], Any] = decoder.decode
        self.fast_lines: Callable[[bytes | str], list[Any]] = decoder.decode_lines

    def slow(self, line: bytes | Oversized) -> list[Decoded | Noise | MalformedLine]:
        """Decode a line that `fast` rejected; return an empty list for a blank one. Never raises."""
        if isinstance(line, Oversized):
            return [MalformedLine(f"the line is too long: {line.size:,} bytes", excerpt(line.head))]
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._lenient(line)
        if isinstance(value, dict | list):
            return [Decoded(fit(value, self._wire), lenient=False)]
        return self._lenient(line)  # a bare number or word is not an event

    def _lenient(self, line: bytes) -> list[Decoded | Noise | MalformedLine]:
        text = line.decode("utf-8", "replace").replace("\ufeff", "").strip(" \t\r\n\0")
        if not text:
            return []
        found: list[Decoded | Noise | MalformedLine] = []
        start = text.find("{")
        if start and (start < 0 or text[start : start + 2] != '{"'):
            return [Noise(text[:MAX_NOISE_CHARS])]
        if start > 0:
            values, reason = _objects(text[start:])
            if reason:
                return [Noise(text[:MAX_NOISE_CHARS])]
            found.append(Noise(text[:start].strip()[:MAX_NOISE_CHARS]))
        else:
            values, reason = _objects(text)
        found.extend(Decoded(fit(value, self._wire), lenient=True) for value in values)
        if values and "\ufffd" in text and not _is_utf8(line):
            misfits.note("text that is not UTF-8")
        if reason:
            found.append(MalformedLine(reason, excerpt(line)))
        return found


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def excerpt(line: bytes, limit: int = EXCERPT_CHARS) -> str:
    """Return the first `limit` characters of a line, as text that can be shown and encoded."""
    text = line[: limit * 4].decode("utf-8", "replace")
    return text[:limit] + ("…" if len(text) > limit or len(line) > limit * 4 else "")


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined and lone halves replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def half_formed(text: str) -> str:
    """Apply `well_formed`, but keep a lone half at either end: the adjacent text may have the other half."""
    head = text[:1] if "\udc00" <= text[:1] <= "\udfff" else ""
    tail = text[-1:] if len(text) > len(head) and "\ud800" <= text[-1:] <= "\udbff" else ""
    return head + well_formed(text[len(head) : len(text) - len(tail)]) + tail


def well_formed_values(value: Any) -> Any:
    """Apply `well_formed` to every string in plain data or in a struct."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_values(item) for item in value]
    if isinstance(value, dict):
        return {well_formed_values(key): well_formed_values(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {name: well_formed_values(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, float) and value != value:
        return None  # JSON has no NaN
    return value


def _objects(text: str) -> tuple[list[Any], str]:
    """Return the consecutive JSON objects of `text`, and why reading stopped before its end."""
    import json  # only lines that the fast pass rejects need it

    reader = json.JSONDecoder(strict=False)
    values: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, at = reader.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            what = "JSON nested too deeply" if isinstance(error, RecursionError) else f"no valid JSON: {error}"
            return values, what
        if not isinstance(value, dict | list):
            return values, f"no JSON object at column {at}"
        if _nests_deeper(value, MAX_NESTING):
            return values, "JSON nested too deeply"
        values.append(value)
        while at < len(text) and text[at] in " \t\r\0":
            at += 1
    return values, ""


def _nests_deeper(value: Any, limit: int) -> bool:
    """Return whether plain data is nested deeper than `limit`. Recursion is avoided, as it would overflow the stack."""
    level = [value]
    for _ in range(limit):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


_MISFIT = object()
_EMPTY: dict[Any, Callable[[], Any]] = {it: it for it in (str, int, float, bool, list, dict)}


def fit(value: Any, kind: Any) -> Any:
    """Convert plain data to the wire model `kind`; values that do not fit become their defaults, and are noted.

    A field without a default has to be there: if it is missing, or null, it is empty, which is noted too. Objects whose
    tag the model does not have, at the top or inside, and data that is not an object stay as they are.
    """
    fitted = _fit(value, kind)
    return value if fitted is _MISFIT else fitted


def _fit(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, ValueError, RecursionError, OverflowError):  # before 0.21 it is not a ValueError
        pass  # another type somewhere, or a key that is not text
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        for option in typing.get_args(kind):
            fitted = _fit(value, option) if _could_be(value, option) else _MISFIT
            if fitted is not _MISFIT:
                return fitted
        return value if isinstance(value, dict) and _is_tagged(kind) else _MISFIT
    if origin is list and isinstance(value, list):
        items = [_fit(item, typing.get_args(kind)[0]) for item in value]
        found = [item for item in items if item is not _MISFIT]
        if len(found) < len(items):
            misfits.note("an element of a list")
        return found
    if kind is str and isinstance(value, int | float):
        return str(value)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and _could_be(value, kind):
        return _fit_struct(value, kind)
    return _MISFIT


def _is_tagged(kind: Any) -> bool:
    """Return whether `kind` is a union of tagged structs: an object with another tag stays plain data."""
    return any(getattr(getattr(option, "__struct_config__", None), "tag", None) for option in typing.get_args(kind))


def _could_be(value: Any, kind: Any) -> bool:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return True
    if not isinstance(value, dict):
        return False
    config = kind.__struct_config__
    return config.tag is None or value.get(config.tag_field) == config.tag


def _fit_struct(value: dict[str, Any], kind: type[msgspec.Struct]) -> msgspec.Struct:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        given = value.get(field.encode_name, _MISFIT)
        fitted = given if given is _MISFIT else _fit(given, field.type)
        if fitted is not _MISFIT:
            fields[field.name] = fitted
        elif field.required or (given is not None and given is not _MISFIT):
            misfits.note(f"{kind.__struct_config__.tag or kind.__name__}.{field.encode_name}")
        if field.required and fitted is _MISFIT:
            fields[field.name] = _empty(field.type)
    return kind(**fields)


def has_empty_value(kind: Any) -> bool:
    """Return whether a field of this type may be without a default: a struct, or a type of JSON."""
    origin = typing.get_origin(kind) or kind
    return origin in _EMPTY or (isinstance(origin, type) and issubclass(origin, msgspec.Struct))


def _empty(kind: Any) -> Any:
    """Return the value of a field that has to be there and is not; None if its type has no empty value."""
    origin = typing.get_origin(kind) or kind
    if origin in _EMPTY:
        return _EMPTY[origin]()
    return _fit_struct({}, origin) if has_empty_value(kind) else None
