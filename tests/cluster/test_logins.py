"""Logins of several machines: tokens, one-time links and browsers of each are valid at all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from waiting import until

if TYPE_CHECKING:
    from machines import Cluster, Machine

pytestmark = pytest.mark.slow


def at(machine: Machine, **headers: str) -> httpx.Client:
    """A program without a token."""
    client = machine.client()
    client.headers.pop("authorization", None)
    client.headers.update({"Origin": f"http://127.0.0.1:{machine.port}", "Sec-Fetch-Site": "same-origin", **headers})
    return client


def test_logins_of_one_machine_are_valid_at_all(cluster: Cluster) -> None:
    """A link works once, wherever it is opened, and a browser signed out at one machine is signed out at all."""
    one, other = cluster.machine("a", works=False), cluster.machine("b", works=False)
    token = (one.folder / "data" / "token").read_text().strip()
    with at(other, Authorization=f"Bearer {token}") as program:
        assert program.get("/api/about").status_code == 200
        assert program.get("/api/about", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
    code = one.post("/api/link", {})["url"].partition("#code=")[2]
    with at(other) as browser:
        signed_in = browser.post("/api/login", json={"code": code})
        assert signed_in.status_code == 204
        cookie = signed_in.headers["set-cookie"].partition(";")[0]
    with at(one) as stranger:
        assert stranger.post("/api/login", json={"code": code}).status_code == 401
    with at(one, Cookie=cookie) as browser:
        assert browser.get("/api/about").status_code == 200
        (listed,) = browser.get("/api/browsers").json()["browsers"]
        assert listed["current"]
        assert browser.delete(f"/api/browsers/{listed['id']}").status_code == 204
    with at(other, Cookie=cookie) as browser:
        until(lambda: browser.get("/api/about").status_code == 401)
