"""Odd requests to all addresses of other programs' protocols: each gets an error in the protocol's own shape.

`PENSTOCK_SOAK=1` sends 2,300 of them, 60 by each seed.
"""

from __future__ import annotations

import json
import logging
import random
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from effort import SOAK
from odd_requests import AGUI, OPENAI, UI, check_answer, check_end, door_of, odd_request
from served import AGENTS, SECONDS, Gateway, held_and_asking
from waiting import until

from penstock.chat.web import agui_api, foreign_turns

COUNTS = {0: 3}
COUNT = 60
"""Requests of each seed; fewer for the first."""

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40 if SOAK else 3))]


@pytest.fixture
def gateway(tmp_path: Path, page: Path) -> Iterator[Gateway]:
    """One with an agent that asks."""
    (tmp_path / "agents.toml").write_text(AGENTS + held_and_asking(tmp_path / "go"))
    made = Gateway(tmp_path, page)
    yield made
    made.close()


def all_turns(gateway: Gateway) -> dict[str, list[dict[str, Any]]]:
    """The turns of all chats that are stored: one that is being made is listed a moment before."""
    with gateway.client() as one:
        chats = one.get("/api/chats").json()["chats"]
        answers = {it["id"]: one.get(f"/api/chats/{it['id']}/turns") for it in chats}
    return {id: answer.json()["turns"] for id, answer in answers.items() if answer.status_code == 200}


@pytest.mark.parametrize("seed", SEEDS)
def test_odd_requests(gateway: Gateway, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Each ends as its protocol has it; one that is rejected leaves nothing, another one is one turn at most."""
    dice = random.Random(seed)
    taken = 0
    with gateway.client() as one, caplog.at_level(logging.ERROR):
        for number in range(COUNTS.get(seed, COUNT)):
            odd = odd_request(dice)
            door = door_of(odd.address)
            try:
                answer = one.request(odd.method, odd.address, headers=odd.headers, content=odd.body)
                taken += check_answer(door, answer)
                assert not caplog.records
            except BaseException as error:
                error.add_note(f"request {number}: {odd}"[:3000])
                raise
    found = all_turns(gateway)
    assert all(found.values()), "a request that was rejected has left a chat"
    assert sum(len(it) for it in found.values()) <= taken


ONCE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "/v1/chat/completions": ({**OPENAI, "model": "held"}, {"Idempotency-Key": "one"}),
    "/ai/held": (UI, {}),
    "/agui/held": (AGUI, {}),
}
"""What a client sends twice if it does not know whether the first one has arrived: a body and headers, by address."""


@pytest.mark.slow
@pytest.mark.parametrize("address", ONCE)
def test_the_same_request_at_once_is_one_turn(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Sent by several connections at the same time, two of which are cut at once, it is one turn."""
    for module in (foreign_turns, agui_api):  # the others may come late
        monkeypatch.setattr(module, "LEFT_SECONDS", 3600.0)
    body, headers = ONCE[address]
    data = json.dumps(body).encode()
    bearer = {**gateway.bearer, **headers, "Host": f"127.0.0.1:{gateway.port}", "Content-Type": "application/json"}
    head = "".join(f"{name}: {value}\r\n" for name, value in bearer.items())
    for cut in (len(data) // 2, len(data)):
        with socket.create_connection(("127.0.0.1", gateway.port)) as one:
            one.sendall(f"POST {address} HTTP/1.1\r\n{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:cut])

    def ask(_: int) -> str:
        with gateway.client(**headers) as client:
            answer = client.post(address, json=body)
        assert answer.status_code == 200, answer.text
        check_end("/" + address.split("/")[1], answer)
        return str(answer.headers["x-penstock-turn"])

    with ThreadPoolExecutor(4) as threads:
        asked = threads.map(ask, range(4))
        try:
            until(lambda: sum(gateway.watches.clients(it) for it in all_turns(gateway)) >= 4, "all follow the turn")
        finally:
            (tmp_path / "go").touch()  # whatever happened: the connections wait for it
        answers = list(asked)
    (turns,) = all_turns(gateway).values()
    assert [turn["outcome"] for turn in turns] == ["ok"]
    assert answers == ["1"] * 4


CUTS = [0, 1, 15, 60, 150, 300, 600, 900, 1500, 2500, 4000] if SOAK else [0, 150, 900]
"""Bytes of an answer after which a client is gone."""


@pytest.mark.slow
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("address", ONCE)
def test_a_request_whose_answer_was_cut(gateway: Gateway, tmp_path: Path, address: str, is_reset: bool) -> None:
    """The same request again gets the whole answer, of the same turn, and nobody is left who follows it."""
    (tmp_path / "go").touch()
    body, headers = ONCE[address]
    for count, after in enumerate(CUTS):
        name = f"{is_reset}-{count}"
        sent = {**body, **({"id": name} if "id" in body else {}), **({"threadId": name} if "threadId" in body else {})}
        more = dict.fromkeys(headers, name)
        data = json.dumps(sent).encode()
        bearer = {**gateway.bearer, **more, "Host": f"127.0.0.1:{gateway.port}", "Content-Type": "application/json"}
        head = "".join(f"{key}: {value}\r\n" for key, value in bearer.items())
        with socket.create_connection(("127.0.0.1", gateway.port), SECONDS) as one:
            one.sendall(f"POST {address} HTTP/1.1\r\n{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            while after > 0 and (read := one.recv(after)):
                after -= len(read)
            if is_reset:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with gateway.client(**more) as client:
            answer = client.post(address, json=sent)
        assert answer.status_code == 200, answer.text
        check_end("/" + address.split("/")[1], answer)
    found = all_turns(gateway)
    assert [[turn["outcome"] for turn in turns] for turns in found.values()] == [["ok"]] * len(CUTS)
    until(lambda: not any(gateway.watches.clients(chat) for chat in found), "nobody follows them")
