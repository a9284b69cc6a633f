"""Kinds of lines that each agent is known to print: the tables `kinds.json` in the folders of the agents.

`make kinds` writes the tables from the recordings. A table is read only when something in a stream is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from mmap import mmap
from typing import Any, Literal

import msgspec

from penstock.agents._facts import KindSource
from penstock.agents._json import as_dict
from penstock.agents.registry import AGENTS, load

State = Literal["read", "ignored", "schema only"]
"""State of a kind: a reader handles it and a recording has it; there is a reason to ignore it; the agent can print it,
and nothing is known about it."""

Content = bytes | mmap
"""Content of a file of an installed program."""

MAX_NAME_CHARS = 120
"""Characters of the name of a kind: names come from the agent."""


class RouteKinds(msgspec.Struct, frozen=True):
    """Kinds of one route of an agent."""

    versions: tuple[str, ...] = ()
    """Versions that the recordings are of."""
    kinds: Mapping[str, State] = {}
    reasons: Mapping[str, str] = {}
    """Reasons for the kinds that are ignored."""
    unseen: Mapping[str, str] = {}
    """Kinds that the agent can print and no recording has, with the reason why that is known; `*` stands for any
    characters."""
    meta: Mapping[str, State] = {}
    """Names in `_meta`, on routes that have it; see `names_in_meta`."""

    def judge(self, kind: str) -> tuple[State, str]:
        """Return the state of a kind that the agent can print, and the reason if it is ignored.

        A kind from the agent's own schema may have fewer parts than those of lines: it stands for all that begin so.
        """
        below = {name: state for name, state in self.kinds.items() if name == kind or name.startswith(f"{kind}/")}
        if below:
            state: State = "read" if "read" in below.values() else "ignored"
            reasons = dict.fromkeys(self.reasons[name] for name in below if name in self.reasons)
            return state, "; ".join(reasons) if state == "ignored" else ""
        reason = next((why for pattern, why in self.unseen.items() if fnmatchcase(kind, pattern)), None)
        return ("ignored", reason) if reason is not None else ("schema only", "")


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


def of_source(agent: str, route: str) -> RouteKinds:
    """Return the kinds of a route with those of all routes whose programs have the same list of kinds.

    These are other routes of the agent, and those of the agent that it starts.
    """
    source = AGENTS[agent].routes[route].source
    found = table(agent).routes
    alike = [found[name] for name, it in AGENTS[agent].routes.items() if name in found and it.source == source]
    if source is not None and source.started:
        alike.append(of_source(source.started, route))
    return RouteKinds(
        kinds={kind: state for it in alike for kind, state in it.kinds.items()}
        | {kind: "read" for it in alike for kind, state in it.kinds.items() if state == "read"},
        reasons={kind: why for it in alike for kind, why in it.reasons.items()},
        unseen={kind: why for it in alike for kind, why in it.unseen.items()},
    )


def printable(content: Content, source: KindSource) -> set[str]:
    """Return the names of the kinds that a file of an installed program has."""
    if source.reader:
        return {name[:MAX_NAME_CHARS] for name in load(source.reader)(content)}
    return {
        f"{beginning}{'/'.join(part.decode() for part in found.groups() if part)}"[:MAX_NAME_CHARS]
        for beginning, pattern in source.patterns
        for found in re.finditer(pattern.encode(), content)
    }


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
