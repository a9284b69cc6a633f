"""The addresses of other programs' protocols over PostgreSQL: odd requests, and one request at two machines at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from odd_requests import AGUI, OPENAI, Odd, check_answer, check_end, door_of, odd_request
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster, Machine

pytestmark = pytest.mark.slow

COUNT = 60
"""Requests of each seed, as on SQLite."""


def at_the_cluster(odd: Odd) -> Odd:
    """The same request, for an agent that the machines have."""
    return odd._replace(
        address=odd.address.replace("scripted", "quick"), body=odd.body.replace(b'"scripted"', b'"quick"')
    )


def all_turns(machine: Machine) -> dict[str, list[dict[str, Any]]]:
    """The turns of all chats that are stored."""
    chats = [it["id"] for it in machine.get("/api/chats")["chats"]]
    with machine.client() as client:
        answers = {id: client.get(f"/api/chats/{id}/turns") for id in chats}
    return {id: it.json()["turns"] for id, it in answers.items() if it.status_code == 200}


@pytest.mark.parametrize("seed", [1, 7])
def test_odd_requests(cluster: Cluster, seed: int) -> None:
    """By turns at the home of the agents and at a machine without any: each ends as its protocol has it.

    One that is rejected leaves no chat, another one is one turn at most, and no machine has an error inside of it.
    """
    home, other = machines = (cluster.machine("a"), cluster.machine("b", works=False))
    dice, taken = random.Random(seed), 0
    with home.client() as first, other.client() as second:
        for number in range(COUNT):
            odd = at_the_cluster(odd_request(dice))
            client, door = (first, second)[number % 2], door_of(odd.address)
            try:
                answer = client.request(odd.method, odd.address, headers=odd.headers, content=odd.body)
                taken += check_answer(door, answer)
            except BaseException as error:
                error.add_note(f"request {number}: {odd}"[:3000])
                raise
    assert taken
    for machine in machines:
        until(lambda at=machine: all(all_turns(at).values()), "no chat is left by a request that was rejected")
        assert sum(len(it) for it in all_turns(machine).values()) <= taken
        assert "Traceback" not in machine.said()


@pytest.mark.parametrize(
    ("address", "body", "headers"),
    [
        ("/v1/chat/completions", {**OPENAI, "model": "quick"}, {"Idempotency-Key": "one"}),
        ("/agui/quick", AGUI, {}),
    ],
)
def test_a_repeated_request_is_one_turn(
    cluster: Cluster, address: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    """Sent four times at once to one machine, and again to the other one, it is one turn of one chat."""
    home, other = cluster.machine("a"), cluster.machine("b", works=False)

    def ask(machine: Machine) -> httpx.Response:
        with machine.client() as client:
            answer = client.post(address, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        check_end(door_of(address), answer)
        return answer

    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(ask, [home] * 4)]
    [chat] = {it.headers["x-penstock-chat"] for it in answers}
    until(lambda: other.has_chat(chat), "the other machine knows the chat")
    until(lambda: all_turns(other).get(chat), "the other machine knows the turn")
    assert ask(other).headers["x-penstock-chat"] == chat
    assert {id: [it["turn"] for it in turns] for id, turns in all_turns(home).items()} == {chat: [1]}
