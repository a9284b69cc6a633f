"""Requests to an ACP agent before the prompt: the session, its model, its permission mode.

Pure functions of what the agent announced. Each returns the method and parameters of one request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock.adapter import Level
from penstock.agents._json import as_dict, as_list, text_of, text_or

_ASK = ("default", "ask", "readonly", "act", "agent")
_READ = ("plan", "readonly", *_ASK)
_EDITS = (
    *("default", "readonly", "act"),
    *("acceptedits", "autoedit", "autoedits", "acceptedit", "autoacceptedits", "workspacewrite"),
)
"""Modes for `edits`. Those that ask come first: some agents write anywhere in their own mode for edits."""
_ALL = ("bypasspermissions", "yolo", "fullaccess", "agentfullaccess", "dangerfullaccess", "allowall", "autoapproveall")
_MODES: dict[Level, tuple[str, ...]] = {"read": _READ, "ask": _ASK, "edits": _EDITS, "all": _ALL, "own": ()}
"""Names of modes by level, the best first. Where a mode asks, the run answers what the level decides."""
_SIGNS = re.compile(r"[^a-z0-9]")


class Choice(NamedTuple):
    """One possible value of a setting."""

    id: str
    name: str


class SessionSetting(NamedTuple):
    """Setting of a session, with the request that changes it."""

    current: str
    choices: list[Choice]
    method: str
    key: str
    """The parameter for the value."""
    fixed: dict[str, str]
    """The other parameters."""

    def name_of(self, value: str) -> str:
        """Return the name that the agent lists for a value, else the value."""
        return next((choice.name for choice in self.choices if choice.id == value and choice.name), value)

    def request(self, value: str) -> tuple[str, dict[str, str]]:
        """Return the method and the parameters, without the session id, that set `value`."""
        return self.method, {**self.fixed, self.key: value}


def session_request(
    capabilities: dict[str, Any], session_id: str | None, fork: bool
) -> tuple[str, dict[str, str]] | str:
    """Return the method and own parameters of the request that opens the session, or why it cannot be opened."""
    can = as_dict(capabilities.get("sessionCapabilities"))
    resume, load = can.get("resume") is not None, capabilities.get("loadSession") is True
    if session_id is None:
        return "session/new", {}
    known = {"sessionId": session_id}
    if fork:
        if can.get("fork") is not None:
            return "session/fork", known
        able = "it can resume a session, or begin one" if resume or load else "it can only begin new sessions"
        return f"the agent cannot fork a session; {able}"
    if resume or load:
        return "session/resume" if resume else "session/load", known
    return "the agent cannot resume a session; it can only begin new ones"


def takes_system_prompt(capabilities: dict[str, Any]) -> bool:
    """Return whether the request that opens a session can have instructions."""
    return as_dict(capabilities.get("sessionCapabilities")).get("systemPrompt") is not None


def system_prompt(text: str) -> dict[str, Any]:
    """Return the parameter that adds instructions to the agent's own."""
    return {"systemPrompt": {"mode": "append", "content": [{"type": "text", "text": text}]}}


def model_setting(answer: dict[str, Any]) -> SessionSetting | None:
    """Return the setting of a session's model, from the answer that opened it; None if the agent has none.

    An agent that offers it in both ways has the models alone in its options; the older list may have one entry for each
    model and effort.
    """
    models = as_dict(answer.get("models"))
    if (option := option_setting(answer, "model")) is not None or not models:
        return option
    choices = [
        Choice(text_of(model.get("modelId")), text_of(model.get("name")))
        for model in _objects(models.get("availableModels"))
    ]
    return SessionSetting(text_or(models.get("currentModelId"), ""), choices, "session/set_model", "modelId", {})


def effort_setting(answer: dict[str, Any]) -> SessionSetting | None:
    """Return the setting of the model's effort; None if the agent has none."""
    return option_setting(answer, "thought_level")


def mode_setting(answer: dict[str, Any]) -> SessionSetting | None:
    """Return the setting of a session's permission mode; None if the agent has none."""
    modes = as_dict(answer.get("modes"))
    if (option := option_setting(answer, "mode")) is not None or not modes:
        return option
    choices = [
        Choice(text_of(mode.get("id")), text_of(mode.get("name"))) for mode in _objects(modes.get("availableModes"))
    ]
    return SessionSetting(text_or(modes.get("currentModeId"), ""), choices, "session/set_mode", "modeId", {})


def model_value(setting: SessionSetting, model: str) -> str:
    """Return the value for the model that a person named: an id, a name, or the end of one id (`provider/model`).

    A model that the agent does not list is passed on as it is: lists are not complete.
    """
    for choice in setting.choices:
        if model in choice:
            return choice.id
    ends = [choice.id for choice in setting.choices if choice.id.endswith(f"/{model}")]
    return ends[0] if len(ends) == 1 else model


def mode_value(setting: SessionSetting, level: Level, named: Mapping[Level, str]) -> str | None:
    """Return the mode of a level; None if there is none, or the level is the agent's own.

    `named`: modes whose names do not say what they mean (`AcpQuirks.modes`).
    """
    if any(choice.id == named.get(level) for choice in setting.choices):
        return named[level]
    ids = {_SIGNS.sub("", re.split(r"[#/]", choice.id)[-1].lower()): choice.id for choice in setting.choices}
    if level == "edits" and "readonly" in ids and "auto" in ids:
        return ids["auto"]  # between "read only" and "full access": it edits and does not ask
    return next((ids[word] for word in _MODES[level] if word in ids), None)


def option_setting(answer: dict[str, Any], name: str) -> SessionSetting | None:
    """Return the setting of the option with an id, else of the first option of the category of that name."""
    options = [it for it in _objects(answer.get("configOptions")) if it.get("type", "select") == "select"]
    found = [*(it for it in options if it.get("id") == name), *(it for it in options if it.get("category") == name)]
    if not found:
        return None
    choices = [Choice(text_of(value.get("value")), text_of(value.get("name"))) for value in _values(found[0])]
    fixed = {"configId": text_of(found[0].get("id"))}
    current = text_or(found[0].get("currentValue"), "")
    return SessionSetting(current, choices, "session/set_config_option", "value", fixed)


def _values(option: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of an option, which may be in groups."""
    for value in _objects(option.get("options")):
        yield from _objects(value["options"]) if isinstance(value.get("options"), list) else [value]


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in as_list(values) if isinstance(value, dict)]
