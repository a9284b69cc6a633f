"""Models that an agent's program lists without a run. Its output is data: a name that no run accepts is left out."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from penstock.adapter import EFFORT, MODEL

MAX_MODELS = 1000
"""Models of an agent: one that lists those of many providers has some 400."""
MAX_EFFORTS = 16
"""Levels of effort of a model: the agents know of up to seven."""


class AgentModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """Model as an agent lists it."""

    name: str
    """Name by which a run chooses it."""
    efforts: list[str] | UnsetType = UNSET
    """Its levels of effort, in the agent's order; none if it has no levels. Unset: the agent does not list them."""
    default_effort: str | UnsetType = UNSET
    """Level that the agent uses unless it is given one, if it says so."""


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """Command of an agent that lists its models, and how its output is read."""

    arguments: tuple[str, ...]
    """Arguments of the program of the agent's default route."""
    reader: str
    """Function, as `module:name` in `penstock.agents`, that returns the models in the output. It accepts any bytes:
    what it cannot read is left out."""


def listed(name: object, efforts: Iterable[object] | None = None, default: object = None) -> AgentModel | None:
    """Return a model, without levels that no run accepts; None if no run accepts its name. `efforts` None: unknown."""
    if not isinstance(name, str) or not MODEL.fits(name):
        return None
    if efforts is None:
        return AgentModel(name)
    levels = [it for it in dict.fromkeys(it for it in efforts if isinstance(it, str)) if EFFORT.fits(it)][:MAX_EFFORTS]
    return AgentModel(name, levels, default if isinstance(default, str) and default in levels else UNSET)


def each_once(models: Iterable[AgentModel | None]) -> list[AgentModel]:
    """Return the models that there are, the first of each name, and no more than `MAX_MODELS`."""
    found: dict[str, AgentModel] = {}
    for model in models:
        if model is not None:
            found.setdefault(model.name, model)
        if len(found) >= MAX_MODELS:
            break
    return list(found.values())
