"""Rules for values: each has the check of a value, and the error for a value that breaks it.

The options in Python, on the command line and in the configuration are tables of such rules, each in the module that
uses it. `check` checks values against a table. Pure.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from penstock.errors import UsageError, nearest, shown

MAX_EXACT_INTEGER = 2**53 - 1
"""Largest whole number that every JSON parser keeps exactly."""


class Rule(NamedTuple):
    """Check of a value, and a description of the expected values."""

    fits: Callable[[Any], bool]
    expected: str
    noun: str = ""
    """Noun with its article, for "is not a …", if it explains more than the value alone."""


Rules = Mapping[str, Rule]


def check(given: Mapping[str, Any], rules: Rules, *, what: str = "option") -> None:
    """Check each value against the rule of its name. `what` is the noun for a name, in the error for an unknown one.

    Raises:
        UsageError: a name is unknown, or its value does not fit.
    """
    for name, value in given.items():
        rule = rules.get(name)
        if rule is None:
            raise unknown(what, name, rules)
        if not rule.fits(value):
            none = f", which is not {rule.noun}" if rule.noun else ""
            raise UsageError(f"{name} is {shown(value)}{none}", expected=rule.expected)


def unknown(what: str, name: str, known: Mapping[str, Any]) -> UsageError:
    """Return the error for a name that is not one of the known names."""
    guess = nearest(name, known)
    return UsageError(
        f"there is no {what} {name!r}",
        expected="" if guess else "one of " + ", ".join(known),
        help=f"did you mean {guess!r}?" if guess else "",
    )


# --- rules ---


def one_of(*words: str, quote: str = "") -> Rule:
    """Return the rule for one of these words."""
    return Rule(
        lambda value: isinstance(value, str) and value in words,
        "one of " + ", ".join(f"{quote}{word}{quote}" for word in words),
    )


def optional(rule: Rule) -> Rule:
    """Return the rule for None and the values of another rule."""
    return Rule(lambda value: value is None or rule.fits(value), f"{rule.expected}, or None", rule.noun)


def instance_of(kind: type | tuple[type, ...], expected: str) -> Rule:
    """Return the rule for an instance of this class, or of one of these."""
    return Rule(lambda value: isinstance(value, kind), expected)


def whole(least: int, most: int) -> Rule:
    """Return the rule for a whole number from `least` to `most`."""
    return Rule(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        f"a whole number from {least} to {most}",
    )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _has_no_nul(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_path(value: object) -> bool:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return isinstance(path, str) and path != "" and "\0" not in path


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _texts(value: object) -> TypeGuard[Sequence[Any]]:
    return _is_list(value) and all(map(_has_no_nul, value))


def _environment(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _has_no_nul(name) and name and "=" not in name and _has_no_nul(text) for name, text in value.items()
    )


SWITCH = Rule(lambda value: isinstance(value, bool), "True or False")
FUNCTION = Rule(callable, "a function")
STRING = Rule(lambda value: isinstance(value, str), "a string")
NAME = Rule(lambda value: isinstance(value, str) and value != "", "a string that is not empty")
PATH = Rule(_is_path, "a path")
PATHS = Rule(lambda value: _is_list(value) and all(map(_is_path, value)), "a list of paths")
DIRECTORY = Rule(lambda value: _is_path(value) and os.path.isdir(value), "one that is there", "a directory")
VARIABLE = Rule(lambda value: _has_no_nul(value) and value.find("=") > 0, "NAME=VALUE")
STRINGS = Rule(_texts, "a list of strings without NUL characters")
COMMAND = Rule(lambda value: _texts(value) and len(value) > 0, "a list of strings, the program and its arguments")
ENVIRONMENT = Rule(_environment, "an environment: a mapping of names to strings without NUL characters")
ABOVE_0 = Rule(lambda value: _number(value) and value > 0, "a number above 0")
SECONDS = Rule(ABOVE_0.fits, "a number of seconds above 0")
SECONDS_OR_0 = Rule(lambda value: _number(value) and value >= 0, "a number of seconds, 0 or more")
NODE_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
NODE_NAME = Rule(
    lambda value: isinstance(value, str) and NODE_NAME_PATTERN.fullmatch(value) is not None,
    "the name of a node: 1 to 63 of the characters A-Z a-z 0-9 . _ -, a letter or digit first",
)
RUN_NUMBER = whole(0, MAX_EXACT_INTEGER)
