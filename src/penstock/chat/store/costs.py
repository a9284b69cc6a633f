"""What ended turns have cost: the table of it in SQLite, and the sums that both databases make of it.

A trigger fills the table from the summaries of turns, so it has a row for each ended turn that the store keeps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from penstock.chat.store.search import Reader
from penstock.errors import UsageError

CostGroup = Literal["day", "agent", "chat", "person"]
"""What the turns of one sum have in common."""

MAX_DAYS = 366
"""Number of days that one request covers."""

MAX_GROUPS = 1000
"""Number of sums that one request returns."""

END = 2**63 - 1
"""Time after all others."""


class CostSum(NamedTuple):
    """Sum of the turns of one day, agent, chat or person."""

    name: str
    """Name of the agent or person, id of the chat, or beginning of the day in milliseconds since 1970."""
    turns: int
    cost_usd: float
    """Cost of the turns whose agents reported one."""
    turns_without_cost: int
    input_tokens: int
    output_tokens: int


MAX_COST_USD, MAX_TOKENS = 10**9, 10**12
"""Largest numbers of one turn that are counted. An agent may print any number, and sums must not overflow."""

_VIEW = "CAST(new.view AS TEXT)"
_COLUMNS = "chat, turn, at, agent, person, cost, input, output"


def _text(path: str, default: str) -> str:
    return f"coalesce(json_extract({_VIEW}, '{path}'), '{default}')"


def _number(path: str, types: str, largest: int) -> str:
    """Return an expression for a number of a summary; NULL if it is not one of these types, or too large."""
    value = f"json_extract({_VIEW}, '{path}')"
    return f"CASE WHEN typeof({value}) IN ({types}) AND {value} BETWEEN 0 AND {largest} THEN {value} END"


def _cost(path: str) -> str:
    return _number(path, "'integer', 'real'", MAX_COST_USD)


def _tokens(path: str) -> str:
    return _number(path, "'integer'", MAX_TOKENS)


_VALUES = f"""new.chat, new.turn, new.at, {_text("$.agent", "")}, {_text("$.person", "owner")},
    coalesce({_cost("$.cost_usd")}, {_cost("$.usage.cost_usd")}),
    {_tokens("$.usage.input_tokens")}, {_tokens("$.usage.output_tokens")}"""
_ENDED = f"""new.last > 0 AND
    CASE WHEN json_valid({_VIEW}) THEN json_extract({_VIEW}, '$.began_at') IS NOT NULL ELSE 0 END"""
"""Turns that have ended, and were not taken back before they began."""

TABLES = [
    """CREATE TABLE costs (
        chat INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        at INTEGER NOT NULL,
        agent TEXT NOT NULL,
        person TEXT NOT NULL,
        cost REAL,
        input INTEGER,
        output INTEGER,
        PRIMARY KEY (chat, turn)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX costs_by_time ON costs (at, person, agent, cost, input, output)",
    f"""CREATE TRIGGER turn_cost AFTER INSERT ON turns BEGIN
        DELETE FROM costs WHERE chat = new.chat AND turn = new.turn;
        INSERT INTO costs ({_COLUMNS}) SELECT {_VALUES} WHERE {_ENDED};
    END""",
    """CREATE TRIGGER turn_cost_gone AFTER DELETE ON turns BEGIN
        DELETE FROM costs WHERE chat = OLD.chat AND turn = OLD.turn;
    END""",
    f"INSERT INTO costs ({_COLUMNS}) SELECT {_VALUES} FROM turns AS new WHERE {_ENDED}",
]
"""Statements for a table that files of this form had not from the beginning, with what the turns have cost so far."""

_SUMS = "count(*), round(total(cost), 6), count(*) - count(cost), coalesce(sum(input), 0), coalesce(sum(output), 0)"
_NAMES = {"agent": "agent", "person": "person", "chat": "(SELECT id FROM chats WHERE key = chat)"}


def missing_costs(tables: Collection[str]) -> list[str]:
    """Return the statements that make the table, if a file with these tables lacks it."""
    return [] if "costs" in tables else TABLES


def check_group(by: str, days: Sequence[int], limit: int) -> None:
    """Check the arguments of `ChatStore.costs`.

    Raises:
        UsageError: they are not valid.
    """
    if by not in get_args(CostGroup):
        raise UsageError(f"costs cannot be added up by {by!r}", expected=", ".join(get_args(CostGroup)))
    if not 1 <= len(days) <= MAX_DAYS or any(one >= next for one, next in pairwise(days)):
        raise UsageError("these are no days", expected=f"1 to {MAX_DAYS} times in their order")
    if not 1 <= limit <= MAX_GROUPS:
        raise UsageError(f"{limit} sums cannot be asked for", expected=f"1 to {MAX_GROUPS}")


def costs(
    connection: sqlite3.Connection, by: CostGroup, days: Sequence[int], reader: Reader, limit: int
) -> list[CostSum]:
    """Read the sums of turns."""
    where = "FROM costs WHERE at >= ? AND at < ? AND (? OR person = ?)"
    if by == "day":
        found = []
        connection.execute("BEGIN")
        try:
            for begin, end in pairwise((*days, END)):
                values = (str(begin), begin, end, reader.is_owner, reader.person)
                found += connection.execute(f"SELECT ?, {_SUMS} {where} HAVING count(*) > 0", values).fetchall()
        finally:
            connection.rollback()
        return [CostSum(*row) for row in reversed(found)][:limit]
    rows = connection.execute(
        f"SELECT {_NAMES[by]} AS name, {_SUMS} {where} GROUP BY {by} ORDER BY 3 DESC, 2 DESC, 1 LIMIT ?",
        (days[0], END, reader.is_owner, reader.person, limit),
    )
    return [CostSum(*row) for row in rows]
