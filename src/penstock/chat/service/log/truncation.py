"""Truncation of entries that are too long for the log: texts are cut and marked in words, lists are shortened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.history.entries import decode_one, encode

MAX_OUTPUT_CHARS = 256 * 1024
"""Maximum characters of a tool's output that are kept; people do not read more of it in the details of a turn."""

LEAST_CHARS = 64
"""Minimum number of characters to which the texts of an oversized entry are cut."""

ENTRY_CHARS = 64
"""Characters that an element of a list or an object is estimated to have, if there are too many of them."""

LEAST_ENTRIES = 32
"""Minimum number of elements that are kept in lists made by Penstock itself."""

MAX_DEPTH = 20
"""Number of levels kept of an oversized value. People do not nest deeper."""

FREE = "input"
"""Name of the field with arbitrary content: the input of a tool."""

MARK = "\n… [the rest of this output is not kept]"


_WHOLE = (ev.BlockEnded, ev.BlockRevised)
"""Events with the whole text of a block."""


class Shortener:
    """Filter of the events of one run to shorten long outputs of tools."""

    def __init__(self, limit: int = MAX_OUTPUT_CHARS) -> None:
        self._limit = limit
        self._lengths: dict[int, int] = {}  # characters of each output block that is open

    def take(self, events: Iterable[ev.Event]) -> list[ev.Event]:
        """Return the events, with long tool outputs shortened."""
        return list(self._taken(events))

    def _taken(self, events: Iterable[ev.Event]) -> Iterator[ev.Event]:
        for event in events:
            if isinstance(event, ev.ToolReturned):
                yield event if len(event.text) <= self._limit else replace(event, text=self._middle_out(event.text))
            elif isinstance(event, ev.Delta) and event.kind == "tool_output":
                yield from self._grown(event)
            elif isinstance(event, _WHOLE) and event.kind == "tool_output":
                yield self._whole(event)
            else:
                yield event

    def _grown(self, event: ev.Delta) -> Iterator[ev.Event]:
        before = self._lengths.get(event.block, 0)
        self._lengths[event.block] = before + len(event.text)
        if before + len(event.text) <= self._limit:
            yield event
        elif before <= self._limit:
            yield replace(event, text=event.text[: self._limit - before] + MARK)

    def _whole(self, event: ev.BlockEnded | ev.BlockRevised) -> ev.Event:
        if isinstance(event, ev.BlockEnded):
            self._lengths.pop(event.block, None)
        else:
            self._lengths[event.block] = len(event.text)
        if len(event.text) <= self._limit:
            return event
        return replace(event, text=event.text[: self._limit] + MARK)

    def _middle_out(self, text: str) -> str:
        """Return the beginning and the end of a text: errors are at the end."""
        tail = self._limit // 4
        head = self._limit - tail
        return f"{text[:head]}\n… [{len(text) - self._limit:,} characters are not kept] …\n{text[-tail:]}"


def fitted(items: Iterable[Any], limit: int) -> tuple[list[bytes], list[Any]]:
    """Encode each item in at most `limit` bytes; return the encoded items, and the items as they were encoded.

    In items that are larger, texts are cut, with a mark in words, and lists are cut as well.
    """
    items = list(items)
    try:
        encoded = encode(items)
    except UnicodeEncodeError:
        encoded = [_clean(item) for item in items]
        items = [decode_one(data) for data in encoded]
    for place, data in enumerate(encoded):
        if len(data) > limit:
            encoded[place] = _shrunk(data, limit)
            items[place] = decode_one(encoded[place])
    return encoded, items


def _shrunk(row: bytes, limit: int) -> bytes:
    whole = msgspec.json.decode(row)
    budget = limit // 8  # a character may need six bytes
    while len(row) > limit and budget >= LEAST_CHARS:
        row = msgspec.json.encode({name: _cut(value, budget, name == FREE) for name, value in whole.items()})
        budget //= 2
    return row


def _cut(value: Any, budget: int, free: bool, depth: int = 0) -> Any:
    """Return a value with shorter texts, and, if it is `free`, fewer elements and levels.

    If it is not `free`, all its fields are needed.
    """
    if isinstance(value, str) and len(value) > budget:
        return f"{value[:budget]}… [{len(value) - budget:,} characters are not kept]"
    if not isinstance(value, list | dict):
        return value
    if free and depth > MAX_DEPTH:
        return "… [not kept]"
    if isinstance(value, list):
        entries = max(1 if free else LEAST_ENTRIES, budget // ENTRY_CHARS)
        return [_cut(entry, budget, free, depth + 1) for entry in value[:entries]]
    pairs = [*value.items()]
    if free:
        pairs = pairs[: max(1, budget // ENTRY_CHARS)]
    return {_cut(name, budget, free): _cut(entry, budget, free, depth + 1) for name, entry in pairs}


def _clean(item: Any) -> bytes:
    """Encode an item that contains half a character, which no encoding has."""
    return msgspec.json.encode(_whole_characters(msgspec.to_builtins(item)))


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_whole_characters(entry) for entry in value]
    if isinstance(value, dict):
        return {_whole_characters(name): _whole_characters(entry) for name, entry in value.items()}
    return value
