"""Models in the output of `codex debug models`."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.agents._json import as_dict, as_list
from penstock.agents._models import AgentModel, each_once, listed


def read(output: bytes) -> list[AgentModel]:
    """Return the models that codex itself offers; none if the output is not its JSON."""
    try:
        whole: Any = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    models = map(as_dict, as_list(as_dict(whole).get("models")))
    return each_once(_model(it) for it in models if it.get("visibility") == "list")


def _model(entry: dict[str, Any]) -> AgentModel | None:
    levels = entry.get("supported_reasoning_levels")
    efforts = [as_dict(it).get("effort") for it in levels] if isinstance(levels, list) else None
    return listed(entry.get("slug"), efforts, entry.get("default_reasoning_level"))
