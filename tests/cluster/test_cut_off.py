"""A node that is cut off from its database: it is not ready, and accepts no login that it cannot know to be valid."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from machines import Cluster, Machine
from waiting import until

from penstock.chat.cluster.nodes import OWN_TTL_SECONDS
from penstock.chat.web.auth import FOLLOW_SECONDS, LOOK_SECONDS

if TYPE_CHECKING:
    from postgres import Server

pytestmark = pytest.mark.slow

LATE_SECONDS = 1.5
"""Seconds by which a busy machine may be late."""


def at(machine: Machine, **headers: str) -> httpx.Client:
    """A client without the machine's own token."""
    client = machine.client()
    client.headers.pop("authorization", None)
    client.headers.update({"Origin": f"http://127.0.0.1:{machine.port}", "Sec-Fetch-Site": "same-origin", **headers})
    return client


@contextmanager
def frozen(server: Server, url: str, name: str) -> Iterator[None]:
    """Stop the database's processes of one client, and the one that would accept new connections."""

    async def processes() -> list[int]:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
            return [pid for (pid,) in await (await connection.execute(query, (name,))).fetchall()]

    assert server._process is not None
    stopped = [*asyncio.run(processes()), server._process.pid]
    assert len(stopped) > 3
    for pid in stopped:
        os.kill(pid, SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            try:
                os.kill(pid, SIGCONT)
            except ProcessLookupError:
                pass


def test_a_node_that_is_cut_off_forgets(cluster: Cluster, server: Server) -> None:
    """Cookies and tokens of other nodes hold as long as the lease, streams end with it, and all is well afterwards."""
    paris = cluster.machine("paris", works=False)
    oslo = cluster.machine("oslo", works=False, url=f"{cluster.url}?application_name=oslo")
    home = cluster.machine("home")
    chat = home.chat("quick")
    code = paris.post("/api/link", {})["url"].partition("#code=")[2]
    with at(paris) as person:
        cookie = person.post("/api/login", json={"code": code}).headers["set-cookie"].partition(";")[0]
    bearer = f"Bearer {paris.token}"
    limit = OWN_TTL_SECONDS + FOLLOW_SECONDS + LOOK_SECONDS + LATE_SECONDS
    with (
        at(paris, Cookie=cookie) as signing_out,
        at(oslo, Cookie=cookie) as person,
        at(oslo, Authorization=bearer) as program,
    ):
        for client in (person, program):
            assert client.get("/api/chats").status_code == 200
        with (
            person.stream("GET", f"/api/chats/{chat}/events", timeout=30) as first,
            program.stream("GET", f"/api/chats/{chat}/events", timeout=30) as second,
            oslo.watching(chat) as own,
        ):
            assert first.status_code == second.status_code == 200
            with frozen(server, cluster.url, "oslo"):
                began = time.monotonic()
                assert signing_out.post("/api/logout", json={"everywhere": True}).status_code == 204
                read = [stream.read().decode() for stream in (first, second)]
                assert time.monotonic() - began < limit, "open streams end with the lease"
                assert all("event: goodbye" in text for text in read)
                assert "goodbye" not in own.kinds(), "the node's own token is its own"
                asked = time.monotonic()
                for client in (person, program):
                    for path in ("/api/chats", f"/api/chats/{chat}/turns", "/metrics"):
                        answer = client.get(path)
                        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
                    assert client.get(f"/api/chats/{chat}/events").status_code == 503
                assert time.monotonic() - asked < LATE_SECONDS * 2, "none of these waits for the database"
                until(lambda: person.get("/readyz").status_code == 503)
                assert person.get("/readyz").json()["reason"] == "this node cannot reach its database"
                assert person.get("/healthz").status_code == 200
                assert oslo.get("/api/chats")["chats"]
                until(lambda: "nothing can be kept: the database is away" in oslo.said(), "the log has it")
        until(lambda: person.get("/readyz").status_code == 200)
        assert person.get("/api/chats").status_code == 401, "signed out, as it is known now"
        until(lambda: program.get("/api/chats").status_code == 200)
    until(lambda: "the store works again" in oslo.said())
    assert oslo.said().count("nothing can be kept") == oslo.said().count("the store works again") == 1
