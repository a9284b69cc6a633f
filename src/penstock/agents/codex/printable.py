"""Kinds of lines in the JSON Schema that codex writes of its server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_list
from penstock.agents.kinds import Content

_OF_ITEMS = ("item/started", "item/completed")


def names(content: Content) -> Iterator[str]:
    """Yield the methods of the notifications and requests, and the types of items of those that have one."""
    schema: Any = msgspec.json.decode(bytes(content))
    items = list(_values(as_dict(as_dict(as_dict(schema).get("definitions")).get("ThreadItem")), "type"))
    for method in _values(as_dict(schema), "method"):
        if method in _OF_ITEMS and items:
            yield from (f"{method}/{item}" for item in items)
        else:
            yield method


def _values(schema: dict[str, Any], name: str) -> Iterator[str]:
    for one in as_list(schema.get("oneOf")):
        field = as_dict(as_dict(as_dict(one).get("properties")).get(name))
        for value in as_list(field.get("enum")) or [field.get("const")]:
            if isinstance(value, str):
                yield value
