"""Text in a stream of unknown fields: the last resort if nothing was read as text.

Strings are kept by their *path*, the names that lead to them, since a single piece ("I") does not look like prose: all
pieces of one path, joined, do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from penstock.agents._json import text_or
from penstock.agents.generic.classifier import MIN_PREFIX_CHARS, words
from penstock.agents.generic.fields import CLOSED, MODEL_ROLES, TOOL_WORDS

MAX_KEPT_CHARS = 1024 * 1024
"""Characters of unread text that are kept. An agent with more text than this, and none in the usual places, deserves an
adapter."""
MAX_PATHS = 64
"""Number of paths that are distinguished: formats have a few dozen fields."""
MAX_DEPTH = 8
"""Levels of nesting that are searched for strings."""

_NOT_TEXT = CLOSED | TOOL_WORDS | frozenset({
    "id", "ids", "uuid", "type", "kind", "event", "name", "role", "status", "state", "time", "timestamp", "date",
    "version", "cwd", "path", "file", "url", "uri", "model", "session", "subtype", "method", "level", "signature",
    "command", "stdout", "stderr", "description", "title", "tools",
})  # fmt: skip
"""Words in the names of fields without prose of the model, whatever their content looks like."""

_PROSE = re.compile(r"[^\W\d_]{2,}[,;:.!?]? +[^\W\d_]|[^\W\d_]{2,}[.!?…](\s|$)|[\u3040-\u9fff\uac00-\ud7af]{2}")
"""Two words, a word that ends a sentence, or a script without spaces between words."""


class Prose:
    """Collector of the strings of events that were not read as text."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []  # path and text, in order
        self._paths: dict[str, None] = {}
        self._size = 0

    def add(self, event: dict[str, Any]) -> None:
        """Keep the strings of an event."""
        for path, text in _strings(event, "", MAX_DEPTH):
            if self._size + len(text) > MAX_KEPT_CHARS or (path not in self._paths and len(self._paths) >= MAX_PATHS):
                continue
            self._paths[path] = None
            self._size += len(text)
            self._found.append((path, text))

    def texts(self) -> list[str]:
        """Return the texts of the paths that hold prose, in their order; whole ones each on lines of their own."""
        by_path: dict[str, list[str]] = {}
        for path, text in self._found:
            texts = by_path.setdefault(path, [])
            if texts and len(texts[-1]) >= MIN_PREFIX_CHARS and text.startswith(texts[-1]):
                texts.pop()  # all so far, longer each time
            texts.append(text)
        prose: dict[str, list[str]] = {}
        for path, texts in by_path.items():
            joined = "".join(texts)
            if _PROSE.search(joined) and joined.strip() not in ("".join(other).strip() for other in prose.values()):
                prose[path] = texts
        pieces = {path for path, texts in prose.items() if _are_pieces(texts)}
        out: list[str] = []
        last = ""
        for path, text in self._found:
            if prose.get(path, [])[:1] == [text]:
                del prose[path][0]
                if out and not (path == last and path in pieces):
                    out.append("\n")
                out.append(text)
                last = path
        return out


def _are_pieces(texts: list[str]) -> bool:
    """Return whether texts of one path are pieces of one: most end, or the next begins, within a sentence."""
    seams = [(before[-1:], after[:1]) for before, after in pairwise(texts)]
    inside = sum(end not in ".!?…:\n" or start.isspace() or start.islower() for end, start in seams)
    return inside * 2 > len(seams)


def _strings(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if value:
            yield path, value
    elif isinstance(value, list) and depth:
        for item in value:
            yield from _strings(item, path, depth - 1)
    elif isinstance(value, dict) and depth and text_or(value.get("role"), "").lower() in MODEL_ROLES:
        for key, inner in value.items():
            if not words(key) & _NOT_TEXT:
                yield from _strings(inner, f"{path}/{key}", depth - 1)
