"""Limits of one turn and of a person's day: a turn that passes one is stopped, and says which."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import served
from msgspec.structs import replace
from served import PLAYER, RECORDINGS, Gateway
from waiting import until

from penstock.chat.errors import TooMany
from penstock.chat.people import persons
from penstock.chat.people.persons import PEOPLE, People
from penstock.chat.people.spending import SPENDING, DailySpending
from penstock.chat.service.chats.costs import beginnings
from penstock.chat.service.limits import ServiceLimits

COST = 0.002932
"""Cost of the recorded turn of pi, which its three messages have in equal parts."""

PI = f'"{PLAYER}", "{RECORDINGS.parent / "pi" / "tools"}", "--speed=0"'
COSTLY = f"""
[agents.costly]
command = ["{sys.executable}", "-S", {PI}]
adapter = "pi"

[agents.lasting]
command = ["{sys.executable}", "-S", {PI}, "--lines=56", "--stay"]
adapter = "pi"

[agents.free]
command = ["{sys.executable}", "-S", "{PLAYER}", "{RECORDINGS.parent / "codex" / "tools"}", "--speed=0"]
adapter = "codex"
"""
"""An agent that reports what its messages cost, and one that stays after the second, and one that reports none."""


@pytest.fixture
def costly(own: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Gateway]:
    """Makes gateways with these agents."""
    monkeypatch.setattr(served, "AGENTS", served.AGENTS + COSTLY)
    return own


def ended(client: httpx.Client, chat: str, turn: int = 1) -> dict[str, Any]:
    """A turn, once it is over."""

    def found() -> dict[str, Any]:
        return next(it for it in client.get(f"/api/chats/{chat}/turns").json()["turns"] if it["turn"] == turn)

    until(lambda: found()["state"] == "completed" and found().get("finalized"))
    return found()


def asked(client: httpx.Client, agent: str) -> str:
    """A chat with a turn of this agent; its id."""
    chat: str = client.post("/api/chats", json={"agent": agent}).json()["id"]
    assert client.post(f"/api/chats/{chat}/turns", json={"text": "go"}).status_code == 202
    return chat


@pytest.mark.slow
def test_a_turn_that_costs_too_much_is_stopped(costly: Callable[..., Gateway]) -> None:
    """It ends as if a person had stopped it, with the limit; the next turn has the whole limit again."""
    gateway = costly(limits=ServiceLimits(max_turn_cost=0.0015))
    with gateway.client() as client:
        chat = asked(client, "lasting")
        turn = ended(client, chat)
        assert (turn["outcome"], turn["reason"]) == ("cancelled", "the limit of $0.0015 a turn is reached")
        assert client.post(f"/api/chats/{chat}/turns", json={"text": "again"}).status_code == 202
        assert ended(client, chat, 2)["outcome"] == "cancelled"


@pytest.mark.slow
def test_the_budget_of_a_chat(costly: Callable[..., Gateway]) -> None:
    """At the budget a turn is stopped, and none begins until the budget is higher, nor one that waited."""
    with costly().client() as client:
        chat = client.post("/api/chats", json={"agent": "lasting"}).json()["id"]
        address = f"/api/chats/{chat}"
        assert client.patch(address, json={"budget": COST / 2}).json()["budget"] == COST / 2
        for text in ("go", "and this"):
            assert client.post(f"{address}/turns", json={"text": text}).status_code == 202
        for turn in (1, 2):
            told = ended(client, chat, turn)
            assert (told["outcome"], told["reason"]) == ("cancelled", "the budget of $0.001466 of this chat is used up")
        spent = client.get(address).json()["spent"]
        assert COST / 2 < spent < COST  # the second turn has cost nothing
        refused = client.post(f"{address}/turns", json={"text": "again"})
        assert refused.status_code == 429
        assert refused.json()["detail"] == "the budget of $0.001466 of this chat is used up"
        assert client.patch(address, json={"budget": 1}).json()["budget"] == 1
        assert client.post(f"{address}/turns", json={"text": "again"}).status_code == 202


@pytest.mark.slow
def test_what_a_chat_has_cost_is_added_up(costly: Callable[..., Gateway]) -> None:
    """Each turn that has ended counts, as far as its agent reports its cost."""
    gateway = costly()
    with gateway.client() as client:
        chat = asked(client, "costly")
        assert ended(client, chat)["outcome"] == "ok"
        assert client.post(f"/api/chats/{chat}/turns", json={"text": "again"}).status_code == 202
        assert ended(client, chat, 2)["outcome"] == "ok"
        until(lambda: client.get(f"/api/chats/{chat}").json()["spent"] == pytest.approx(2 * COST))


@pytest.mark.slow
def test_costs_are_shown_by_day_agent_and_chat(costly: Callable[..., Gateway]) -> None:
    """Turns of an agent that reports a cost and of one that does not, each in its own sum."""
    gateway = costly()
    with gateway.client() as client:
        first, second = asked(client, "costly"), asked(client, "free")
        for chat in (first, second):
            ended(client, chat)

        def sums(**query: Any) -> list[dict[str, Any]]:
            found = client.get("/api/costs", params=query).json()
            assert found["complete"]
            assert found["days"] == query.get("days", 30)
            shown: list[dict[str, Any]] = found["sums"]
            return shown

        until(lambda: len(sums(by="chat")) == 2)
        by_agent = {it["name"]: it for it in sums(by="agent", days=1)}
        assert by_agent["costly"]["cost_usd"] == pytest.approx(COST)
        assert (by_agent["free"]["cost_usd"], by_agent["free"]["turns_without_cost"]) == (None, 1)
        assert [(it["name"], it["title"]) for it in sums(by="chat")] == [(first, "go"), (second, "go")]
        (day,) = sums()
        assert (day["turns"], day["turns_without_cost"]) == (2, 1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", day["name"])
        assert [it["name"] for it in sums(by="person")] == ["owner"]


@pytest.mark.parametrize(
    "query", ["by=directory", "by=", "by=agent;--", "days=0", "days=367", "days=-1", "days=x", "days=1e2"]
)
def test_costs_that_cannot_be_asked_for(shared: Gateway, query: str) -> None:
    """Sums and times have bounds."""
    with shared.client() as client:
        assert client.get(f"/api/costs?{query}").status_code == 400


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "UTC", "Pacific/Auckland"])
def test_days_begin_at_midnight_where_the_server_is(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on days that have 23 or 25 hours; each has its own beginning."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = beginnings(1_793_000_000_000, 366)
        assert len(found) == 366
        assert list(found) == sorted(found)
        for at, name in found.items():
            assert time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000)) == f"{name} 00:00"
        assert max(found) <= 1_793_000_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("budget", [0, -1, "1", True, 1e9, [], {"usd": 1}])
def test_what_is_no_budget(shared: Gateway, budget: object) -> None:
    """Each is an error, and the chat stays as it is."""
    with shared.client() as client:
        chat = client.post("/api/chats", json={"agent": "scripted"}).json()["id"]
        assert client.patch(f"/api/chats/{chat}", json={"budget": budget}).status_code == 400
        assert client.get(f"/api/chats/{chat}").json()["budget"] is None
        client.delete(f"/api/chats/{chat}")


@pytest.mark.slow
def test_a_turn_below_the_limit_is_not(costly: Callable[..., Gateway]) -> None:
    """Nor one of an agent that reports no cost."""
    gateway = costly(limits=ServiceLimits(max_turn_cost=COST + 0.0001))
    with gateway.client() as client:
        assert ended(client, asked(client, "costly"))["outcome"] == "ok"
        assert ended(client, asked(client, "scripted"))["outcome"] == "ok"


def test_a_turn_that_takes_too_long_is_stopped(costly: Callable[..., Gateway]) -> None:
    """Its reason has the limit, and nothing of it is left running."""
    gateway = costly(limits=ServiceLimits(max_turn_seconds=0.5))
    with gateway.client() as client:
        turn = ended(client, asked(client, "lasting"))
        assert (turn["outcome"], turn["reason"]) == ("timed_out", "the time limit of 0.5 s was reached")


@pytest.mark.slow
def test_a_person_has_a_limit_a_day(costly: Callable[..., Gateway]) -> None:
    """A turn beyond it is stopped; then the person begins none, also after a restart, until they get more."""
    gateway = costly()
    folder = gateway.folder
    tokens = {
        name: persons.add(folder, name, "member", 0, max_cost=most) for name, most in (("ana", 0.004), ("cat", 9))
    }
    ana, cat = ({"Authorization": f"Bearer {tokens[name]}"} for name in ("ana", "cat"))
    with gateway.client(**ana) as client:
        assert ended(client, asked(client, "costly"))["outcome"] == "ok"
        chat = asked(client, "lasting")
        turn = ended(client, chat)
        assert (turn["outcome"], turn["reason"]) == ("cancelled", "ana has reached the limit of $0.004 a day")
        answer = client.post(f"/api/chats/{chat}/turns", json={"text": "more"})
        assert answer.status_code == 429
        assert "ana has reached the limit of $0.004 a day" in answer.json()["detail"]
        heartbeat = gateway.service._chats.require(chat).ask("news?", "heartbeat", person="ana")
        with pytest.raises(TooMany):  # it is tried again an interval later
            gateway.call(heartbeat)
        completion = {"model": "costly", "messages": [{"role": "user", "content": "more"}]}
        assert client.post("/v1/chat/completions", json=completion).status_code == 429
    with gateway.client(**cat) as client:
        assert ended(client, asked(client, "costly"))["outcome"] == "ok"
    kept = json.loads((folder / SPENDING).read_text())["dollars"]
    assert kept["cat"] == pytest.approx(COST)
    assert kept["ana"] > 0.004
    gateway.close()
    again = costly()
    with again.client(**ana) as client:
        assert client.post(f"/api/chats/{chat}/turns", json={"text": "more"}).status_code == 429
        persons.change(folder, "ana", lambda person: replace(person, max_cost=1.0))
        assert ended(client, asked(client, "costly"))["outcome"] == "ok"


@pytest.mark.slow
def test_a_turn_that_waited_does_not_begin_beyond_the_limit(costly: Callable[..., Gateway]) -> None:
    """The turns of a person that were queued before end with the reason, and no agent is started."""
    gateway = costly(limits=ServiceLimits(max_runs=1))
    token = persons.add(gateway.folder, "ana", "member", 0, max_cost=0.0015)
    with gateway.client(Authorization=f"Bearer {token}") as client:
        first = asked(client, "staying")  # it has the only slot
        chats = [asked(client, "lasting") for _ in range(3)]
        assert client.post(f"/api/chats/{first}/stop", json={}).status_code == 202
        turns = [ended(client, chat) for chat in chats]
    assert {turn["reason"] for turn in turns} == {"ana has reached the limit of $0.0015 a day"}
    assert [turn["outcome"] for turn in turns] == ["cancelled"] * 3
    assert [turn.get("steps", 0) > 0 for turn in turns] == [True, False, False]


def test_the_owner_alone_has_no_limit_and_no_file(costly: Callable[..., Gateway]) -> None:
    """Without people nothing is counted against anybody."""
    gateway = costly()
    with gateway.client() as client:
        assert ended(client, asked(client, "costly"))["outcome"] == "ok"
    assert not (gateway.folder / SPENDING).exists()


def test_a_day(tmp_path: Path) -> None:
    """What was spent yesterday does not count today; a damaged file does not, either."""
    now = 1_790_000_000.0
    persons.add(tmp_path, "ana", "member", 0, max_cost=1.0)
    people = People(tmp_path / PEOPLE)
    spending = DailySpending(tmp_path / SPENDING, people, lambda: now)
    spending.add("ana", 0.75)
    spending.check("ana")
    assert spending.left("ana") == pytest.approx(0.25)
    spending.add("ana", 0.24995)
    assert spending.left("ana") == 0  # no agent can be told a rest as small as this
    spending.add("ana", 0.5)
    with pytest.raises(TooMany, match=r"ana has reached the limit of \$1\.00 a day"):
        spending.check("ana")
    assert DailySpending(tmp_path / SPENDING, people, lambda: now).left("ana") == 0
    now += 24 * 60 * 60
    assert spending.left("ana") == 1
    assert DailySpending(tmp_path / SPENDING, people, lambda: now).left("ana") == 1
    assert (spending.left("owner"), spending.left("zoe")) == (None, None)
    (tmp_path / SPENDING).write_text("{")
    assert DailySpending(tmp_path / SPENDING, people, lambda: now).left("ana") == 1
