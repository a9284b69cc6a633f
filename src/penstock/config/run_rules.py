"""Rules for commands in the configuration: the tables `[[run.rules]]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from penstock.config.command_rules import CommandRules, Verdict, mistake

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""Keys of a table; each has a list of rules."""


def mistakes(value: object) -> Iterator[str]:
    """Yield the mistakes in `[[run.rules]]`."""
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        yield "run.rules is no list of tables; expected tables: [[run.rules]]"
        return
    for number, table in enumerate(value):
        place = f"run.rules[{number}]"
        for key in table:
            if key not in VERDICTS:
                yield f"there is no key {place}.{key}; expected one of {', '.join(VERDICTS)}"
        for verdict in VERDICTS:
            rules = table.get(verdict, [])
            if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
                yield f'{place}.{verdict} is no list of commands; expected e.g. ["npm test", "pytest *"]'
                continue
            for rule in rules:
                if problem := mistake(rule, verdict):
                    yield f"{place}.{verdict} has a rule that {problem}: {rule!r}"


def joined(tables: list[dict[str, Any]]) -> CommandRules:
    """Return the rules of all tables."""
    found = {verdict: tuple(rule for table in tables for rule in table.get(verdict, ())) for verdict in VERDICTS}
    return CommandRules(**found)


def with_denied(users: list[dict[str, Any]], projects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the user's tables, with the denials of a project's tables. A project's file cannot allow anything."""
    return [*users, *({"deny": table["deny"]} for table in projects if table.get("deny"))]
