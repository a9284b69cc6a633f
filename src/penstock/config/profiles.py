"""Profiles of the configuration: a table `[run.NAME]` holds the options of a run under a name.

A profile of a project came with somebody else's files. It grants nothing: keys that could are in `NEEDS_TRUST`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.config.rules import ABOVE_0, MAX_EXACT_INTEGER, SECONDS, Rule, one_of, whole
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.config.settings import Config, Setting

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
"""Name of a profile or of a variable: one word, which no agent with a profile or a command has."""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


_text = Rule(_is_text, "a text that is not empty")
_words = Rule(_is_list, "a list of texts")
_switch = Rule(lambda value: isinstance(value, bool), "true or false")
_count = whole(1, MAX_EXACT_INTEGER)

KEYS: dict[str, Rule] = {
    "agent": _text,
    "prompt": _text,
    "prompt_file": _text,
    "model": _text,
    "effort": _text,
    "system_prompt": _text,
    "allow": one_of("default", "read", "ask", "edits", "all", "own", quote='"'),
    "sandbox": one_of("auto", "on", "own", "off", quote='"'),
    "route": one_of("exec", "server", "acp", quote='"'),
    "files": _words,
    "schema": _text,
    "mcp_config": _text,
    "allow_tools": _words,
    "deny_tools": _words,
    "timeout": SECONDS,
    "idle_timeout": SECONDS,
    "max_cost": ABOVE_0,
    "max_turns": _count,
    "max_tokens": _count,
    "record": _text,
    "args": _words,
    "fallback": _words,
    "worktree": _switch,
}
"""Rules of the keys, besides those of the tables in `TABLES`."""

TABLES = ("env", "variables")
"""Tables of a profile: the environment of its agent, and the values of the variables in its prompt."""

FREE = frozenset(
    {
        *("agent", "prompt", "prompt_file", "variables", "model", "effort", "system_prompt", "deny_tools"),
        *("timeout", "idle_timeout", "max_cost", "max_turns", "max_tokens", "fallback", "worktree", "allow", "sandbox"),
    }
)
"""Keys that the profile of a project may have. The values of some are limited too: see `distrusted`."""

NEEDS_TRUST = frozenset({"args", "env", "allow_tools", "mcp_config", "route", "files", "schema", "record"})
"""Keys of a project's profile that need trust: they pass flags, start servers, choose a route on which the agent does
not ask, or read and write elsewhere."""

_FREEDOM: Mapping[str, int] = {"read": 0, "ask": 1, "default": 1, "own": 1, "edits": 2, "all": 3}
"""Order of the levels. The defaults of agents are unknown here: only `read` and `ask` allow no more than these do."""


class Profile(msgspec.Struct):
    """One profile."""

    name: str
    origin: str
    """File and line of its first key."""
    of_project: bool
    settings: dict[str, Setting]
    """Settings by their keys; those of a table by `table.name`."""

    def value(self, key: str) -> Any:
        """Return the value of a key; None if it is not set."""
        found = self.settings.get(key)
        return None if found is None else found.value

    def table(self, name: str) -> dict[str, str]:
        """Return the values of a table."""
        return {key[len(name) + 1 :]: it.value for key, it in self.settings.items() if key.startswith(f"{name}.")}

    @property
    def folder(self) -> str:
        """Directory of its file, to which its paths are relative."""
        return os.path.dirname(os.path.abspath(self.origin.rpartition(":")[0]))


def is_lower(value: str, users: str) -> bool:
    """Return whether a level allows no more than another one."""
    return value not in ("own", "default") and _FREEDOM[value] <= _FREEDOM[users]


def profile_names(config: Config) -> list[str]:
    """Return the names of all profiles."""
    return sorted({path[1] for path in config.settings if path[0] == "run" and len(path) > 2})


def profile(config: Config, name: str) -> Profile | None:
    """Return the profile of this name; None if there is none."""
    found = {
        ".".join(path[2:]): setting
        for path, setting in config.settings.items()
        if path[:2] == ("run", name) and len(path) > 2
    }
    if not found:
        return None
    first = next(iter(found.values()))
    return Profile(name, first.origin, first.of_project, found)


def check_trust(one: Profile, config: Config, agents: Mapping[str, object]) -> None:
    """Check that the profile of a project grants nothing. `agents` are the agents that Penstock knows.

    Raises:
        UsageError: it does.
    """
    for key, setting in one.settings.items():
        why = distrusted(one, key, setting.value, config, agents)
        if why:
            raise UsageError(
                f"{setting.origin} {why}, and it came with the files of this project",
                expected="your confirmation that you trust these files",
                help="read it, then --trust, or make a profile of your own",
            )


def distrusted(one: Profile, key: str, value: Any, config: Config, agents: Mapping[str, object]) -> str:
    """Return what a key of a project's profile does that needs trust, in words; "" if it needs none."""
    plain = key.partition(".")[0]
    if plain not in FREE:
        return f"sets {key} of the profile {one.name}"
    if plain == "allow" and not is_lower(value, config.allow):
        return f'sets allow = "{value}", which may be more than yours'
    if plain == "sandbox" and value != "on":
        return f'sets sandbox = "{value}"'
    if plain == "agent" and not all(name.strip().partition("/")[0] in agents for name in value.split(",")):
        return f"starts {value}"
    if plain == "fallback" and not all(name.partition("/")[0] in agents for name in value):
        return f"starts {', '.join(value)}"
    if plain == "prompt_file" and not _is_below(os.path.join(one.folder, value), one.folder):
        return f"reads {value}"
    return ""


def _is_below(path: str, folder: str) -> bool:
    real, place = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((real, place)) == place
