"""Logins of several machines: tokens, one-time links and browsers of each are valid at all of them."""

from __future__ import annotations

import subprocess
import sys
from signal import SIGKILL
from typing import TYPE_CHECKING

import httpx
import pytest
from push_service import Device
from waiting import until

from penstock.chat.people import persons

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


def test_a_person_is_known_where_they_were_added(cluster: Cluster) -> None:
    """A machine that does not know a person rejects them, and does not sign them out elsewhere.

    What they write to a chat of the other machine has their name.
    """
    one, other = cluster.machine("a"), cluster.machine("b", works=False)
    persons.add(one.folder / "data", "ana", "member", 0)
    code = one.post("/api/link", {"person": "ana"})["url"].partition("#code=")[2]
    with at(one) as browser:
        cookie = browser.post("/api/login", json={"code": code}).headers["set-cookie"].partition(";")[0]
    with at(one, Cookie=cookie) as here, at(other, Cookie=cookie) as there:
        assert here.get("/api/about").json()["person"]["name"] == "ana"
        assert there.get("/api/about").status_code == 401
        chat = here.post("/api/chats", json={"agent": "quick", "home": "a"}).json()["id"]
        persons.add(other.folder / "data", "ana", "member", 0)
        until(lambda: there.get("/api/about").status_code == 200)
        assert there.post(f"/api/chats/{chat}/turns", json={"text": "hi"}).status_code == 202
        assert one.settled(chat)[0]["person"] == "ana"
        assert here.get("/api/about").status_code == 200
        persons.remove(one.folder / "data", "ana")
        until(lambda: here.get("/api/about").status_code == 401)


def test_a_machine_that_is_gone_for_good_is_removed(cluster: Cluster) -> None:
    """Its token and the browsers that signed in there are no longer valid; its chats stay. One that is up stays too."""
    gone, stays = cluster.machine("a"), cluster.machine("b", works=False)
    chat = gone.chat("quick")
    gone.prompt(chat, "hi")
    said = stays.settled(chat)[0]["message"]
    token = gone.token
    code = gone.post("/api/link", {})["url"].partition("#code=")[2]
    with at(gone) as browser:
        cookie = browser.post("/api/login", json={"code": code}).headers["set-cookie"].partition(";")[0]

    def remove(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", "nodes", f"--store={cluster.url}", f"--remove={name}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    refused = remove("a")
    assert (refused.returncode, "the node 'a' is up" in refused.stderr) == (2, True)
    with at(stays, Authorization=f"Bearer {stays.token}") as program:
        answer = program.delete("/api/nodes/a")
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert program.delete("/api/nodes/c").status_code == 404
    gone.end(SIGKILL)
    until(lambda: not stays.node("a")["is_live"])
    with at(stays, Authorization=f"Bearer {token}") as program, at(stays, Cookie=cookie) as browser:
        assert (program.get("/api/about").status_code, browser.get("/api/about").status_code) == (200, 200)
        done = remove("a")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[1:] == [
            "Browsers that are signed out: 1",
            "Chats that can be read, and work again once there is a node of this name: 1",
        ]
        until(lambda: program.get("/api/about").status_code == 401)
        until(lambda: browser.get("/api/about").status_code == 401)
    assert [node["name"] for node in stays.get("/api/nodes")["nodes"]] == ["b"]
    assert stays.turns(chat)[0]["message"] == said
    assert "there is no node 'a'" in remove("a").stderr
    gone.start()
    gone.prompt(chat, "again")
    assert [turn["outcome"] for turn in stays.settled(chat, 2)] == ["ok", "ok"]


def test_where_a_browser_is_called_is_known_at_all(cluster: Cluster) -> None:
    """The key that one machine makes is that of all, and what one is told ends with the login at another."""
    one, other = cluster.machine("a", works=False), cluster.machine("b", works=False)
    code = one.post("/api/link", {})["url"].partition("#code=")[2]
    with at(one) as browser:
        cookie = browser.post("/api/login", json={"code": code}).headers["set-cookie"].partition(";")[0]
    device = Device("https://fcm.googleapis.com/fcm/send/abc")
    body = {"endpoint": device.endpoint, "p256dh": device.p256dh, "auth": device.auth}
    with at(one, Cookie=cookie) as here, at(other, Cookie=cookie) as there:
        until(lambda: there.get("/api/about").status_code == 200)
        key = here.post("/api/push/key", json={}).json()
        assert there.post("/api/push/key", json={}).json() == key
        assert there.post("/api/push", json=body).status_code == 204
        assert here.post("/api/push/key", json={}).json() == key
        assert here.delete("/api/push").status_code == 204
        assert there.post("/api/push", json=body).status_code == 409
