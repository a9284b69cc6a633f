"""Keys of the configuration: the values that each can have, its default, and its environment variable.

`docs/configuration.md` lists every key. Those of `[run]` are in `run_keys.py`, and those of webhooks in `notify.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.config.addresses import ADDRESSES
from penstock.config.notify import ADDRESS, NOTIFY, mistakes
from penstock.config.rules import ABOVE_0, MAX_EXACT_INTEGER, SECONDS, Rule, one_of, whole
from penstock.config.run_keys import LEVELS, RUN
from penstock.errors import nearest

MAX_SHOWN_CHARS = 200
"""Maximum characters of a wrong value in a message."""

KeyPath = tuple[str, ...]


def _one_of(*words: str) -> Rule:
    return one_of(*words, quote='"')


def _text_without_nul(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_text_without_nul, value))


SWITCH = Rule(lambda value: isinstance(value, bool), "true or false")
_text = Rule(lambda value: _text_without_nul(value) and value != "", "a text that is not empty")
_words = Rule(_texts, 'a list of texts, e.g. ["claude", "-p"]')
_duration = Rule(
    lambda value: isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?[smhd]?", value, re.ASCII) is not None,
    'a duration, e.g. "4h"',
)
_word = Rule(_text_without_nul, "a text without NUL characters")

STREAMING: dict[str, Rule] = {
    "delta_display": _one_of("quiet", "minimal", "normal", "verbose"),
    "show_delta_in_realtime": SWITCH,
    "mark_partial_content": SWITCH,
    "show_unknown_events": SWITCH,
}
OUTPUT: dict[str, Rule] = {
    "color": _one_of("auto", "always", "never"),
    "mode": _one_of("auto", "full", "basic", "none"),
    "render": _one_of("auto", "on", "off"),
    "prefix": _one_of("agent", "kind", "both", "above", "none"),
    "detail": _one_of("quiet", "minimal", "normal", "verbose"),
}
HISTORY: dict[str, Rule] = {"keep": SWITCH, "record": SWITCH, "days": whole(1, MAX_EXACT_INTEGER)}
SERVE: dict[str, Rule] = {
    "person_header": _text,
    "proxy": _text,
    "proxy_secret_file": _text,
    "turn_timeout": SECONDS,
    "turn_max_cost": ABOVE_0,
    "push_hosts": ADDRESSES,
}
OTEL: dict[str, Rule] = {"enabled": SWITCH, "endpoint": ADDRESS, "content": SWITCH}
RUN_RULES: KeyPath = ("run", "rules")
LOOP: dict[str, Rule] = {
    "check": _words,
    "setup": _text,
    "copy": _words,
    "protect": _words,
    "rounds": whole(1, MAX_EXACT_INTEGER),
    "time": _duration,
    "wait": _duration,
    "cost": ABOVE_0,
    "tokens": whole(1, MAX_EXACT_INTEGER),
    "hooks": SWITCH,
    "sign": SWITCH,
    "candidates": _words,
    "notify": _text,
    "check_network": _one_of("all", "none"),
}
LOOP_ROLE: dict[str, Rule] = {"agents": _words, "model": _text, "allow": _one_of(*LEVELS)}
AGENT: dict[str, Rule] = {
    "adapter": _text,
    "label": _text,
    "command": _words,
    "prompt": _one_of("stdin", "argument"),
    "protocol": _text,
}
EVENT: Rule = _one_of("delta", "snapshot", "complete", "control")

DEFAULTS: dict[KeyPath, Any] = {
    ("json_streaming", "delta_display"): "normal",
    ("json_streaming", "show_delta_in_realtime"): True,
    ("json_streaming", "mark_partial_content"): True,
    ("json_streaming", "show_unknown_events"): True,
    ("output", "color"): "auto",
    ("output", "mode"): "auto",
    ("output", "render"): "auto",
    ("output", "prefix"): "agent",
    ("history", "keep"): True,
    ("history", "record"): True,
    ("history", "days"): 14,
    ("run", "sandbox"): "auto",
    ("run", "allow"): "default",
    ("run", "network"): "all",
    ("run", "network_hosts"): [],
}

VARIABLES: dict[str, KeyPath] = {
    "PENSTOCK_COLOR": ("output", "color"),
    "PENSTOCK_MODE": ("output", "mode"),
    "PENSTOCK_RENDER": ("output", "render"),
    "PENSTOCK_PREFIX": ("output", "prefix"),
    "PENSTOCK_DETAIL": ("output", "detail"),
    "PENSTOCK_DELTA_DISPLAY": ("json_streaming", "delta_display"),
    "PENSTOCK_SHOW_DELTA_IN_REALTIME": ("json_streaming", "show_delta_in_realtime"),
    "PENSTOCK_MARK_PARTIAL_CONTENT": ("json_streaming", "mark_partial_content"),
    "PENSTOCK_SHOW_UNKNOWN_EVENTS": ("json_streaming", "show_unknown_events"),
    "PENSTOCK_SANDBOX": ("run", "sandbox"),
    "PENSTOCK_ALLOW": ("run", "allow"),
    "PENSTOCK_NETWORK": ("run", "network"),
}
"""Environment variables and the keys that they set."""

OTHER_VARIABLES = ("PENSTOCK_CONFIG", "PENSTOCK_DATA")
"""Variables that set no key: they name the configuration file and the data directory."""


def is_table(path: KeyPath) -> bool:
    """Return whether a path is that of a table, whose keys are judged one by one."""
    match path:
        case ("json_streaming" | "output" | "history" | "run" | "serve" | "otel" | "agents" | "loop",) | ("agents", _):
            return True
        case ("loop", "work" | "review" | "judge"):
            return True
        case ("run", name) if name not in RUN and name != "rules":
            return True  # a profile
        case ("run", _, "env" | "variables"):
            return True
        case ("agents", _, "json_streaming" | "env" | "events"):
            return True
    return False


def judge(path: KeyPath, value: Any) -> tuple[str, bool]:  # noqa: C901, PLR0912 - one branch for each kind of key
    """Return the mistake in a key or its value ("" for none), and whether the value can be used."""
    rule: Rule
    match path:
        case ("agents", _, "events", _):
            rule = EVENT
        case ("agents", _, "env", name):
            if problem := _wrong_variable(path, name):
                return problem, False
            rule = _word
        case ("json_streaming", key) | ("agents", _, "json_streaming", key):
            if key not in STREAMING:
                return _unknown(path, STREAMING), False
            rule = STREAMING[key]
        case ("output", key):
            if key not in OUTPUT:
                return _unknown(path, OUTPUT), False
            rule = OUTPUT[key]
        case ("history", key):
            if key not in HISTORY:
                return _unknown(path, HISTORY), False
            rule = HISTORY[key]
        case ("serve", key):
            if key not in SERVE:
                return _unknown(path, SERVE), False
            rule = SERVE[key]
        case ("otel", key):
            if key not in OTEL:
                return _unknown(path, OTEL), False
            rule = OTEL[key]
        case ("run", "rules"):
            from penstock.config import run_rules

            problem = next(run_rules.mistakes(value), "")
            return problem, not problem
        case ("run", key):
            if key not in RUN:
                return _unknown(path, [*RUN, "rules"]), False
            rule = RUN[key]
        case ("run", _, *_):
            return _wrong_in_profile(path, value)
        case ("loop", "review", "reviewers"):
            rule = _words
        case ("loop", "work" | "review" | "judge", key):
            if key not in LOOP_ROLE:
                return _unknown(path, LOOP_ROLE), False
            rule = LOOP_ROLE[key]
        case ("loop", key) if key not in ("work", "review", "judge"):
            if key not in LOOP:
                return _unknown(path, [*LOOP, "work", "review", "judge"]), False
            rule = LOOP[key]
        case ("notify",):
            return _wrong_webhook(value)
        case (
            ("json_streaming" | "output" | "history" | "run" | "serve" | "otel" | "agents" | "loop",)
            | ("agents" | "loop", _)
            | ("agents", _, "json_streaming" | "env" | "events")
        ):
            return f"{dotted(path)} is {shown(value)}; expected a table: [{dotted(path)}]", False
        case ("agents", _, key):
            if key not in AGENT:
                return _unknown(path, [*AGENT, "env", "events", "json_streaming"]), False
            rule = AGENT[key]
        case _:
            return _unknown(
                path, ["json_streaming", "output", "history", "run", "serve", "otel", "loop", "notify", "agents"]
            ), False
    if not rule.fits(value):
        return f"{dotted(path)} is {shown(value)}; expected {rule.expected}", False
    return "", True


def _wrong_in_profile(path: KeyPath, value: Any) -> tuple[str, bool]:
    from penstock.config import profiles  # needed only if a file has some

    _, name, key, *rest = path
    if not profiles.NAME.fullmatch(name):
        return f"{dotted(path[:2])} is no name of a profile; expected letters, digits, _ and -", False
    if rest:
        if problem := _wrong_variable(path, rest[0]):
            return problem, False
        rule = _word
    elif key in profiles.TABLES:
        return f"{dotted(path)} is {shown(value)}; expected a table: [{dotted(path)}]", False
    elif key not in profiles.KEYS:
        return _unknown(path, [*profiles.KEYS, *profiles.TABLES]), False
    else:
        rule = profiles.KEYS[key]
    if not rule.fits(value):
        return f"{dotted(path)} is {shown(value)}; expected {rule.expected}", False
    return "", True


def _wrong_variable(path: KeyPath, name: str) -> str:
    if name == "" or "=" in name or "\0" in name:
        return f"{dotted(path)} names no variable; expected a name without = and NUL characters"
    return ""


def _wrong_webhook(value: Any) -> tuple[str, bool]:
    for place, key, found in mistakes(value):
        if key is None:
            return f"{place} is {shown(found)}; expected tables: [[notify]]", False
        if key not in NOTIFY:
            return _unknown((place, key), NOTIFY).replace(dotted((place,)), place), False
        what = f"{place} has no {key}" if found is None else f"{place}.{key} is {shown(found)}"
        return f"{what}; expected {NOTIFY[key].expected}", False
    return "", True


def _unknown(path: KeyPath, known: Mapping[str, Rule] | list[str]) -> str:
    guess = nearest(path[-1], known)
    advice = f"did you mean {guess}?" if guess else "expected one of " + ", ".join(known)
    return f"there is no key {dotted(path)}; {advice}"


def shown(value: Any) -> str:
    """Return a value approximately as TOML would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def dotted(path: KeyPath) -> str:
    """Return a key as TOML writes it, with quotes only if they are needed."""
    return ".".join(part if part.replace("-", "").replace("_", "").isalnum() else f'"{part}"' for part in path)
