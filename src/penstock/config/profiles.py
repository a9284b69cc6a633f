"""Keys of profiles: a table `[run.NAME]` of the configuration holds the options of a run under a name.

A profile of a project came with somebody else's files. It grants nothing: keys that could are in `NEEDS_TRUST`.
"""

from __future__ import annotations

import re

from penstock.config.rules import ABOVE_0, MAX_EXACT_INTEGER, SECONDS, Rule, one_of, whole
from penstock.config.run_keys import OF_PROFILES

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
    **OF_PROFILES,
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
    "retry": whole(0, 100),
    "record": _text,
    "args": _words,
    "fallback": _words,
    "fallback_on": _words,
    "worktree": _switch,
}
"""Rules of the keys, besides those of the tables in `TABLES`."""

TABLES = ("env", "variables")
"""Tables of a profile: the environment of its agent, and the values of the variables in its prompt."""

FREE = frozenset(
    {
        *("agent", "prompt", "prompt_file", "variables", "model", "effort", "system_prompt", "deny_tools"),
        *(
            "timeout",
            "idle_timeout",
            "max_cost",
            "max_turns",
            "max_tokens",
            "retry",
            "fallback",
            "fallback_on",
            "worktree",
            "allow",
            "sandbox",
            "network",
        ),
    }
)
"""Keys that the profile of a project may have. The values of some are limited too: see `penstock.cli.profiles`."""

NEEDS_TRUST = frozenset(
    {"args", "env", "allow_tools", "mcp_config", "network_hosts", "route", "files", "schema", "record"}
)
"""Keys of a project's profile that need trust: they pass flags, start servers, name addresses, choose a route on which
the agent does not ask, or read and write elsewhere."""
