"""Kinds of lines that each agent is known to print: the tables `kinds.json` in the folders of the agents.

`make kinds` writes the tables from the recordings. A table is read only when something in a stream is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from penstock.agents._json import as_dict
from penstock.agents.registry import AGENTS

State = Literal["read", "ignored", "schema only"]
"""State of a kind: a reader handles it and a recording has it; a recording has it and it adds nothing that is shown;
the agent can print it and no recording has it."""

MAX_NAME_CHARS = 120
"""Characters of the name of a kind: names come from the agent."""


class RouteKinds(msgspec.Struct, frozen=True):
    """Kinds of one route of an agent."""

    versions: tuple[str, ...] = ()
    """Versions that the recordings are of."""
    kinds: Mapping[str, State] = {}
    reasons: Mapping[str, str] = {}
    """Reasons for the kinds that are ignored."""
    meta: Mapping[str, State] = {}
    """Names in `_meta`, on routes that have it; see `names_in_meta`."""


class AgentKinds(msgspec.Struct, frozen=True):
    """Table of one agent."""

    live: Mapping[str, str] = {}
    """Versions of the programs that the tests run, by program."""
    routes: Mapping[str, RouteKinds] = {}


@cache
def table(agent: str) -> AgentKinds:
    """Return the table of an agent; an empty one if it has none."""
    try:
        data = files("penstock.agents").joinpath(agent, "kinds.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return AgentKinds()
    return msgspec.json.decode(data, type=AgentKinds)


def of_adapter(adapter: Any) -> RouteKinds | None:
    """Return the kinds of the route that an adapter reads; None if there are no recordings of it."""
    agent = getattr(adapter, "spoken_by", None) or adapter.name
    facts = AGENTS.get(agent)
    if facts is None:
        return None
    place = f"{type(adapter).__module__.removeprefix('penstock.agents.')}:{type(adapter).__qualname__}"
    return next((table(agent).routes.get(name) for name, it in facts.routes.items() if it.reader == place), None)


def names_of(line: Any, tags: Sequence[str]) -> list[str]:
    """Return the names of the kinds of a decoded line: the values at the paths `tags`, joined by slashes.

    A path that leads through a list has several values, each with a name of its own. A line without any value has no
    name.
    """
    base: list[str] = []
    for path in tags:
        values = list(dict.fromkeys(_values(line, path.split("."))))
        if _is_listed(line, path.split(".")):
            if values:
                return ["/".join((*base, value)) for value in values]
        else:
            base += values
    return ["/".join(base)] if base else []


def _values(value: Any, path: Sequence[str]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _values(item, path)
    elif not path:
        if isinstance(value, str):
            yield value[:MAX_NAME_CHARS]
    elif isinstance(value, dict) and path[0] in value:
        yield from _values(value[path[0]], path[1:])


def _is_listed(value: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, dict):
            return isinstance(value, list)
        value = value.get(key)
    return False


def metas(message: Any) -> Iterator[dict[str, Any]]:
    """Yield the `_meta` objects of a message of ACP."""
    fields = as_dict(message)
    params, result = as_dict(fields.get("params")), as_dict(fields.get("result"))
    for holder in (params, as_dict(params.get("update")), as_dict(params.get("toolCall")), result):
        if isinstance(meta := holder.get("_meta"), dict):
            yield meta


def names_in_meta(meta: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names in a `_meta` object: `key`, `key.key` and, if that has a `type`, `key.key/type`."""
    for key, value in meta.items():
        yield key[:MAX_NAME_CHARS]
        for inner, below in as_dict(value).items():
            name = f"{key}.{inner}"[:MAX_NAME_CHARS]
            yield name
            kind = as_dict(below).get("type")
            if isinstance(kind, str):
                yield f"{name}/{kind}"[:MAX_NAME_CHARS]
