"""Models in the output of `opencode models --verbose`: lines with a name, each followed by an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.agents._json import as_dict
from penstock.agents._models import AgentModel, each_once, listed


def read(output: bytes) -> list[AgentModel]:
    """Return the models. The levels of one whose object is damaged are unknown."""
    return each_once(_models(output.decode("utf-8", "replace").split("\n")))


def _models(lines: list[str]) -> Iterator[AgentModel | None]:
    name, facts = "", []
    for line in [*lines, "/"]:  # a last line that ends the last model
        if line[:1] in ("{", "}", " ", "\t", ""):
            facts.append(line)
            continue
        if "/" in name and len(name.split()) == 1:  # else it is a sentence
            yield listed(name, _efforts("\n".join(facts)))
        name, facts = line.rstrip("\r"), []


def _efforts(text: str) -> list[str] | None:
    try:
        facts: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    variants = as_dict(facts).get("variants")
    return list(variants) if isinstance(variants, dict) else None
