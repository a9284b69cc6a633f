"""Check of the texts that PostgreSQL keeps: it has none with a NUL, or with half a character."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from penstock.errors import UsageError


def check_fields(fields: Mapping[str, object]) -> None:
    """Check that PostgreSQL can keep all texts in these fields of a row.

    Raises:
        UsageError: it cannot.
    """
    for name, value in fields.items():
        for text in _texts(msgspec.to_builtins(value)):
            check_text(f"the field {name!r}", text)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value, and in what it contains."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def check_text(what: str, text: str) -> None:
    """Check that PostgreSQL can keep a text: it has no NUL, and is text at all.

    Raises:
        UsageError: it cannot.
    """
    if "\0" in text or (not text.isascii() and text != text.encode("utf-8", "replace").decode("utf-8")):
        raise UsageError(f"{what} has characters that cannot be kept: {text[:40]!r}", expected="text without NUL")
