"""Checks of the costs of turns."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.chat.store.conformance.promises import Open, chat_row, raises, require, same, turn_row
from penstock.chat.store.costs import MAX_DAYS, MAX_GROUPS, CostGroup, CostSum
from penstock.chat.store.rows import TurnRow
from penstock.chat.store.search import Reader
from penstock.errors import UsageError


async def costs_are_added_up(make: Open, chat: str) -> None:
    """Check that the costs of ended turns are added up by day, agent, chat and person, as the reader may see them."""
    start, day = 2**40, 86_400_000
    ana, ben = Reader(f"{chat}-ana"), Reader(f"{chat}-ben")

    def ended(turn: int, at: int, **view: Any) -> TurnRow:
        shown = msgspec.json.encode({"turn": turn, "began_at": 5, "agent": "a", "person": ana.person, **view})
        return turn_row(turn, last=1, at=start + at, view=shown)

    used = {"input_tokens": 10, "output_tokens": 3}
    turns = [
        ended(1, 0, cost_usd=0.1, usage=used),
        ended(2, 5, usage={**used, "cost_usd": 0.2}, message="NUL \0 and \\u0000"),
        ended(3, day, agent="b", usage=used),
        ended(4, day, cost_usd=0.3, person=ben.person),
        ended(5, -1, cost_usd=9.0),
        ended(6, day, cost_usd=9.0, began_at=None),
        replace(ended(7, day, cost_usd=9.0), last=0),
        turn_row(8, last=1, at=start, view=b"\0 no \xff summary"),
        replace(ended(9, day), view=b'{"began_at": 5, "cost_usd": {}, "person": "x"'),
    ]
    async with make() as store:
        await store.create_chat(chat_row(chat))
        await store.append(chat, [b"1"], after=0, at=1, turns=turns)

        async def sums(by: CostGroup, reader: Reader = ana, limit: int = 9) -> list[CostSum]:
            return await store.costs(by, [start, start + day, start + 2 * day], reader, limit=limit)

        first = CostSum(str(start), 2, 0.3, 0, 20, 6)
        same("by day", await sums("day"), [CostSum(str(start + day), 1, 0.0, 1, 10, 3), first])
        same("the newest day", await sums("day", limit=1), [CostSum(str(start + day), 1, 0.0, 1, 10, 3)])
        same("by agent", await sums("agent"), [first._replace(name="a"), CostSum("b", 1, 0.0, 1, 10, 3)])
        same("by chat", await sums("chat"), [CostSum(chat, 3, 0.3, 1, 30, 9)])
        same("by person", await sums("person", ben), [CostSum(ben.person, 1, 0.3, 0, 0, 0)])
        everybody = await sums("chat", Reader("owner", is_owner=True), limit=1000)
        require(CostSum(chat, 4, 0.6, 1, 30, 9) in everybody, f"of everybody: {everybody!r:.200}")
        await store.append(chat, [b"2"], after=1, at=1, turns=[ended(3, day, cost_usd=0.5)])
        same("a summary that is replaced", await sums("agent"), [CostSum("a", 3, 0.8, 0, 20, 6)])
        for wrong in ([], [2, 1], [1, 1], list(range(MAX_DAYS + 1))):
            await raises(UsageError, store.costs("day", wrong, ana, limit=1))
        for limit in (0, MAX_GROUPS + 1):
            await raises(UsageError, sums("day", limit=limit))
        await raises(UsageError, store.costs("'; --", [1], ana, limit=1))  # type: ignore[arg-type]
        await store.trim(chat, 1)
        same("turns that were dropped", await sums("chat"), [])
        await store.append(chat, [b"3"], after=2, at=1, turns=[replace(ended(9, 0, cost_usd=1.0), last=3)])
        same("a turn after them", await sums("person"), [CostSum(ana.person, 1, 1.0, 0, 0, 0)])
        odd: list[Any] = [2**70, 2**63, 10**13, -1, "7", [], {}, None]
        last = 3
        for turn, value in enumerate(odd, 10):
            view = {"began_at": 5, "agent": "a", "person": ana.person, "cost_usd": value}
            row = turn_row(turn, last=last + 1, at=start, view=b"")
            shown = json.dumps({**view, "usage": {"input_tokens": value, "output_tokens": 1, "cost_usd": value}})
            last = await store.append(chat, [b"4"], after=last, at=1, turns=[replace(row, view=shown.encode())])
        expected = CostSum(ana.person, 1 + len(odd), 1.0, len(odd), 0, len(odd))
        same("numbers that cannot be counted", await sums("person"), [expected])
        await store.delete_chat(chat)
        same("a chat that was deleted", await sums("person"), [])
