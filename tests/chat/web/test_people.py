"""Persons at one server: what each may do, over the API alone, by rules that this test knows by itself."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from effort import at_most
from git_repository import IDENTITY, identity
from loop_desk import Desk
from served import Gateway, start
from waiting import until

from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, records
from penstock.chat.web.routes import ADDRESSES, Address
from penstock.config import ownership
from penstock.errors import UsageError

__all__ = ["identity"]

PEOPLE = {"ana": "member", "cat": "member", "ben": "viewer", "olga": "owner"}
CHATS = {"owner/private": ("", "private"), "ana/private": ("ana", "private"), "ana/team": ("ana", "team")}
"""Chats of the test by name: whose each is, and who sees it. There is a loop of each name, too."""

# Who may send what, written down a second time: by the name of the operation.
ANYBODY = {"health", "ready", "log_in", "shared_chat", "shared_details", "shared_attachment"}
SIGNED_IN = {
    "document", "log_out", "browsers", "revoke", "link", "about", "agents", "workspaces", "nodes", "chats", "find",
    "costs", "list_runs", "list_shares", "models", "ui_stream", "make_push_key", "subscribe", "unsubscribe",
    "all_events", "mark_read",
}  # fmt: skip
WRITERS = {
    "create", "agent_models", "agent_commands", "prompts", "directories", "directory", "complete_chat", "ui_chat",
    "ui_chat_with", "ui_stop", "agui_run", "agui_run_with",
}  # fmt: skip
OWNERS = {"metrics", "trust", "remove_node", "sessions"}
READS = {
    "run", "run_details", "run_output", "run_changes", "run_candidate_changes", "run_events",
    "chat", "attachment", "turns", "details", "trajectory", "turn_entries", "activity", "commands", "export", "events",
    "picture", "turn_changes", "chat_changes",
}  # fmt: skip
WRITES = {
    "file",
    "file_names",
    "change",
    "attach",
    "detach",
    "prompt",
    "stop",
    "release",
    "answer",
    "followed_entries",
    "edit",
    "move",
    "send_now",
    "steer",
    "branch",
    "terminal",
    "remove_rule",
    "undo",
    "undo_plan",
    "stop_run",
    "message_run",
}
DECIDES = {"delete", "share", "revoke_share", "change_run", "land_run", "land_plan", "land"}


def expected(person: str, address: Address, chat: str) -> str:
    """What happens to a request: it is `allowed`, `refused`, or its chat is `unknown` to this person."""
    role = PEOPLE.get(person, "owner")
    does = address.does
    if does in ANYBODY | SIGNED_IN or role == "owner":
        return "allowed"
    if does in WRITERS:
        return "allowed" if role == "member" else "refused"
    if does in OWNERS:
        return "refused"
    assert does in READS | WRITES | DECIDES, f"this test has no rule for {does}"
    whose, seen_by = CHATS[chat]
    if whose != person and seen_by == "private":
        return "unknown"
    if does in READS:
        return "allowed"
    if role == "viewer" or (does in DECIDES and whose != person):
        return "refused"
    return "allowed"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, page: Path) -> Iterator[Gateway]:
    """A gateway that people share."""
    gateway = start(tmp_path_factory.mktemp("team"), page)
    yield gateway
    gateway.close()


@pytest.fixture(scope="module")
def tokens(team: Gateway) -> dict[str, str]:
    """The tokens of the people, by name; "owner" is who started the server."""
    found = {name: persons.add(team.folder, name, role, 0) for name, role in PEOPLE.items()}  # type: ignore[arg-type]
    return {**found, "owner": team.bearer["Authorization"].removeprefix("Bearer ")}


def client_of(gateway: Gateway, token: str) -> httpx.Client:
    """A program of the person who has this token."""
    return gateway.client(Authorization=f"Bearer {token}")


@pytest.fixture(scope="module")
def chats(team: Gateway, tokens: dict[str, str]) -> dict[str, str]:
    """The ids of the chats, by name."""
    made = {}
    for name, (whose, visibility) in CHATS.items():
        with client_of(team, tokens[whose or "owner"]) as client:
            answer = client.post("/api/chats", json={"agent": "scripted", "visibility": visibility, "title": name})
            assert answer.status_code == 201, answer.text
            made[name] = answer.json()["id"]
    return made


class Ids(NamedTuple):
    """Ids of the chats and of the loops, by their names."""

    chats: dict[str, str]
    loops: dict[str, str]


@pytest.fixture(scope="module")
def ids(chats: dict[str, str], loops: dict[str, str]) -> Ids:
    """The ids of all that belongs to people."""
    return Ids(chats, loops)


@pytest.fixture(scope="module")
def loops(team: Gateway, tokens: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The ids of loops that belong to the people, by the names of the chats."""
    made: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as environ:
        for name, value in IDENTITY.items():
            environ.setenv(name, value)
        desk = Desk(tmp_path_factory.mktemp("desk"))
        desk.data = team.folder
        for name, (whose, visibility) in CHATS.items():
            environ.setenv("PENSTOCK_PERSON", whose)
            journal = desk.begin(desk.settings("nobody"), f"l{len(made)}")
            journal.close()
            made[name] = f"loop-{journal.folder.name}"
            with client_of(team, tokens[whose or "owner"]) as client:
                answer = client.patch(f"/api/runs/{made[name]}", json={"visibility": visibility})
                assert answer.status_code == 200, answer.text
                assert answer.json()["run"]["person"] == (whose or "owner")
    return made


def outcome(answer: httpx.Response) -> str:
    """What happened to a request, in the words of `expected`."""
    body = answer.json() if answer.headers.get("content-type", "").startswith("application/") and answer.content else {}
    code = body.get("code") or (body.get("error") or {}).get("code") if isinstance(body, dict) else None
    if code == "not_allowed":
        assert answer.status_code == 403
        return "refused"
    is_unknown = "no such chat" in answer.text or "no such document or loop" in answer.text
    return "unknown" if code == "not_found" and is_unknown else "allowed"


def send(client: httpx.Client, address: Address, chat: str, loop: str) -> httpx.Response:
    """Send a request that would do as little as possible if it is allowed: its body is not valid, or its id unknown."""
    path = address.path.replace("{chat}", chat).replace("{run}", loop)
    for name in ("turn", "step", "round", "candidate"):
        path = path.replace(f"{{{name}}}", "999")
    for name in ("rule", "browser", "agent", "foreign", "node", "share", "attachment"):
        path = path.replace(f"{{{name}}}", "nobody")
    given: dict[str, Any] = {} if address.body is None else {"json": {"no_such_field": 1}}
    if address.media == "text/event-stream" and address.method == "GET":
        return client.head(path)
    return client.request(address.method, path, **given)


@pytest.fixture(scope="module")
def clients(team: Gateway, tokens: dict[str, str]) -> Iterator[dict[str, httpx.Client]]:
    """A program of each person, with connections that it keeps."""
    found = {person: client_of(team, token) for person, token in tokens.items()}
    yield found
    for client in found.values():
        client.close()


def judged(clients: dict[str, httpx.Client], ids: Ids, person: str, address: Address, chat: str) -> None:
    """Send a request of a person, and compare what happens with what is expected."""
    answer = send(clients[person], address, ids.chats[chat], ids.loops[chat])
    wanted = expected(person, address, chat)
    if answer.request.method == "HEAD":  # its answers have no body
        wanted, found = {"allowed": "200", "refused": "403", "unknown": "404"}[wanted], str(answer.status_code)
        if address.does in ("turn_entries", "ui_stream") and wanted == "200":
            wanted = "404"  # there is no such turn or chat
    else:
        found = outcome(answer)
        if address.does == "ui_stop" and found == "unknown":
            found = "allowed"  # a program's own id, of which there is no chat
    assert found == wanted, (person, address.method, address.path, chat, answer.status_code, answer.text)


KEPT = [address for address in ADDRESSES if address.does not in ("delete", "log_out", "ui_stream")]
"""Addresses that may be asked again and again: the others change what the test relies on, or need a chat of theirs."""


@pytest.mark.parametrize("address", KEPT, ids=lambda it: it.does)
def test_each_person_at_each_address(clients: dict[str, httpx.Client], ids: Ids, address: Address) -> None:
    """Everybody may do what their role says, with the chats and loops that they see, and nothing else."""
    for person in clients:
        for chat in CHATS if {"{chat}", "{run}"} & {*address.path.split("/")} else ["owner/private"]:
            judged(clients, ids, person, address, chat)


@pytest.mark.slow
def test_random_requests(clients: dict[str, httpx.Client], ids: Ids) -> None:
    """The same for random requests, one after another over kept connections."""
    random_ = random.Random(7)
    for _ in range(at_most(150, 10_000)):
        person, address = random_.choice([*clients]), random_.choice(KEPT)
        judged(clients, ids, person, address, random_.choice([*CHATS]))


def test_the_list_and_the_search_have_what_a_person_sees(
    team: Gateway, tokens: dict[str, str], chats: dict[str, str]
) -> None:
    """A private chat of somebody else is in no list, and its words find nothing; the team's is there for all."""
    private = chats["ana/private"]
    with client_of(team, tokens["ana"]) as ana:
        assert ana.post(f"/api/chats/{private}/turns", json={"text": "a secret pelican"}).status_code == 202
        until(lambda: ana.get("/api/search", params={"q": "pelican"}).json()["hits"])
    seen = {}
    for person, token in tokens.items():
        with client_of(team, token) as client:
            listed = {it["title"] for it in client.get("/api/chats").json()["chats"] if it["title"] in CHATS}
            hits = client.get("/api/search", params={"q": "pelican"}).json()["hits"]
            seen[person] = (listed, private in {hit["chat"] for hit in hits})
    everything = {*CHATS}
    assert seen == {
        "owner": (everything, True),
        "olga": (everything, True),
        "ana": ({"ana/private", "ana/team"}, True),
        "cat": ({"ana/team"}, False),
        "ben": ({"ana/team"}, False),
    }


def test_the_list_of_documents_and_loops_has_what_a_person_sees(clients: dict[str, httpx.Client], ids: Ids) -> None:
    """A private loop of somebody else is in no list and no stream; the team's is there for all."""
    names = {loop: name for name, loop in ids.loops.items()}
    seen = {}
    for person, client in clients.items():
        found = {names[run["id"]]: run for run in client.get("/api/runs").json()["runs"]}
        seen[person] = {*found}
        for name, run in found.items():
            assert (run["person"].replace("owner", ""), run["visibility"]) == CHATS[name]
    assert seen == {
        "owner": {*CHATS},
        "olga": {*CHATS},
        "ana": {"ana/private", "ana/team"},
        "cat": {"ana/team"},
        "ben": {"ana/team"},
    }


def test_a_loop_is_shared_and_given_away(own: Callable[..., Gateway], tmp_path: Path, identity: None) -> None:
    """Its person shares it; only an owner gives it to another known person; each change is recorded."""
    gateway = own()
    ana, cat = (client_of(gateway, persons.add(gateway.folder, name, "member", 0)) for name in ("ana", "cat"))
    desk = Desk(tmp_path / "desk")
    desk.data = gateway.folder
    desk.begin(desk.settings("nobody")).close()
    with ana, cat, gateway.client() as owner:
        path = f"/api/runs/{owner.get('/api/runs').json()['runs'][0]['id']}"
        assert ana.get(path).status_code == 404
        assert owner.patch(path, json={"person": "zoe"}).status_code == 400
        assert owner.patch(path, json={"person": "ana"}).json()["run"]["person"] == "ana"
        assert ana.patch(path, json={"person": "cat"}).status_code == 403
        assert cat.get(path).status_code == 404
        assert ana.patch(path, json={"visibility": "team"}).status_code == 200
        assert cat.get(path).json()["run"]["person"] == "ana"
        assert cat.patch(path, json={"visibility": "private"}).status_code == 403
        assert cat.post(f"{path}/land", json={}).status_code == 403
        assert cat.post(f"{path}/messages", json={"text": "go on"}).status_code == 202
        begun: list[str] = []
        reader = threading.Thread(target=lines_until_the_end, args=(cat, f"{path}/events", begun))
        reader.start()
        until(lambda: begun == ["200"])
        assert ana.patch(path, json={"visibility": "private"}).status_code == 200
        reader.join(60)
        assert not reader.is_alive(), "the stream of somebody who no longer sees it ends"
        assert cat.get(path).status_code == 404
    found = [(it.person, it.details) for it in records(gateway.folder / AUDIT) if it.what == "change_run"]
    assert [person for person, _ in found] == ["owner", "owner", "ana", "ana", "cat", "ana"]
    assert found[1][1]["person"] == "ana"


def test_a_damaged_ownership_is_the_owners(tmp_path: Path) -> None:
    """What is in the file is data: anything else than a name and who sees it leaves the run with the owner alone."""
    for content in (b"{", b'{"person":"../x"}', b'{"person":"ana","visibility":"all"}', b"[" * 100_000, b"\xff"):
        (tmp_path / ownership.FILE).write_bytes(content)
        assert ownership.ownership_in(tmp_path) == ownership.Ownership("owner", "private")
    (tmp_path / ownership.FILE).unlink()
    os.mkfifo(tmp_path / ownership.FILE)
    assert ownership.ownership_in(tmp_path) == ownership.Ownership()
    with pytest.raises(UsageError, match="PENSTOCK_PERSON"):
        ownership.person_named({"PENSTOCK_PERSON": "no/name"})


def test_costs_are_those_of_what_a_person_asked_for(
    team: Gateway, tokens: dict[str, str], chats: dict[str, str]
) -> None:
    """A member sees the own turns, an owner those of all; a title of a chat that is private by now is not shown."""
    chat = chats["ana/team"]

    def sums(person: str, by: str) -> dict[str, dict[str, Any]]:
        with client_of(team, tokens[person]) as client:
            return {it["name"]: it for it in client.get("/api/costs", params={"by": by}).json()["sums"]}

    with client_of(team, tokens["cat"]) as cat, client_of(team, tokens["ana"]) as ana:
        assert cat.post(f"/api/chats/{chat}/turns", json={"text": "count this"}).status_code == 202
        until(lambda: sums("cat", "chat").get(chat))
        assert sums("cat", "chat")[chat]["title"] == "ana/team"
        assert set(sums("cat", "person")) == {"cat"}
        assert "cat" not in sums("ana", "person")
        assert "cat" in sums("owner", "person")
        assert "cat" in sums("olga", "person")
        assert sums("ben", "chat") == {}
        assert ana.patch(f"/api/chats/{chat}", json={"visibility": "private"}).status_code == 200
        assert sums("cat", "chat")[chat]["title"] is None
        assert ana.patch(f"/api/chats/{chat}", json={"visibility": "team"}).status_code == 200


def test_an_entry_names_who_wrote(team: Gateway, tokens: dict[str, str], chats: dict[str, str]) -> None:
    """A member writes to a chat of the team: the turn is theirs, and all clients see whose it is."""
    chat = chats["ana/team"]
    with client_of(team, tokens["cat"]) as cat, client_of(team, tokens["ben"]) as ben:
        turn = cat.post(f"/api/chats/{chat}/turns", json={"text": "hello"}).json()["turn"]
        views = ben.get(f"/api/chats/{chat}/turns").json()["turns"]
        assert next(view["person"] for view in views if view["turn"] == turn) == "cat"
        assert ben.post(f"/api/chats/{chat}/turns", json={"text": "me too"}).status_code == 403


def test_each_person_has_read_what_they_read(own: Callable[..., Gateway]) -> None:
    """A mark is its person's, on all devices at once; nobody marks what they do not see; it moves forward only."""
    gateway = own()
    ana, ben = (client_of(gateway, persons.add(gateway.folder, name, "member", 0)) for name in ("ana", "ben"))
    with ana, ben, gateway.client() as owner:
        chat, private = (
            ana.post("/api/chats", json={"agent": "scripted", "visibility": it}).json()["id"]
            for it in ("team", "private")
        )
        for text in ("one", "two"):
            ana.post(f"/api/chats/{chat}/turns", json={"text": text})
        until(lambda: ana.get(f"/api/chats/{chat}").json()["state"] == "idle", "both turns end")

        def read() -> list[int]:
            return [it.get(f"/api/chats/{chat}").json()["read"] for it in (ana, ben, owner)]

        def mark(client: httpx.Client, turns: dict[str, Any]) -> int:
            return client.post("/api/read", json={"chats": turns}).status_code

        assert read() == [0, 0, 0]
        number = ben.get("/api/chats", params={"page": 10}).json()["number"]
        marks = {chat: 1, private: 1, "0" * 32: 1, "no chat": 1}
        token = ben.headers["Authorization"].removeprefix("Bearer ")
        followed = {"chats": f"list:{number}"}
        with client_of(gateway, token) as device, device.stream("GET", "/api/events", params=followed) as stream:
            assert mark(ben, marks) == 204
            frame = next(json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        assert (frame["frame"]["chat"]["id"], frame["frame"]["chat"]["read"]) == (chat, 1)
        assert read() == [0, 1, 0]
        assert owner.get(f"/api/chats/{private}").json()["read"] == 0
        assert gateway.call(gateway.store.get_chat(private)).reads == {}
        assert mark(ben, {chat: 99}) == 204
        assert mark(ben, {chat: 0}) == 204
        assert mark(owner, {chat: 1}) == 204
        assert read() == [0, 2, 1]
        listed = [it["read"] for it in ben.get("/api/chats").json()["chats"] if it["id"] == chat]
        assert [*listed, ben.patch(f"/api/chats/{chat}", json={"title": "t"}).json()["read"]] == [2, 2]
        refused: list[dict[str, Any]] = [{chat: -1}, {chat: "1"}, {chat: 2**53}, {f"c{it}": 1 for it in range(501)}]
        assert [mark(ben, it) for it in refused] == [400] * 4
        late = client_of(gateway, persons.add(gateway.folder, "late", "viewer", gateway.service.now()))
        with late:
            assert late.get(f"/api/chats/{chat}").json()["read"] == 2
            assert mark(late, {chat: 1}) == 204
            assert late.get(f"/api/chats/{chat}").json()["read"] == 1
        assert not [it for it in records(gateway.folder / AUDIT) if it.what == "mark_read"]
        persons.remove(gateway.folder, "ben")
        until(lambda: "ben" not in gateway.call(gateway.store.get_chat(chat)).reads, "ben's marks are gone")
        assert [it.get(f"/api/chats/{chat}").json()["read"] for it in (ana, owner)] == [0, 1]
        (gateway.folder / persons.PEOPLE).write_text("damaged")
        assert gateway.logins.people.listed() is None, "nobody counts as removed"


def test_only_its_person_and_an_owner_decide_who_sees_a_chat(own: Callable[..., Gateway]) -> None:
    """Another member may change its title, and not its visibility, nor where the lists of all have it."""
    gateway = own()
    ana, cat = (client_of(gateway, persons.add(gateway.folder, name, "member", 0)) for name in ("ana", "cat"))
    with ana, cat:
        chat = ana.post("/api/chats", json={"agent": "scripted", "visibility": "team"}).json()["id"]
        assert cat.patch(f"/api/chats/{chat}", json={"title": "ours"}).status_code == 200
        answer = cat.patch(f"/api/chats/{chat}", json={"title": "mine", "visibility": "private"})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
        for change in ({"pinned": True}, {"archived": True}):
            assert cat.patch(f"/api/chats/{chat}", json=change).status_code == 403
            assert ana.patch(f"/api/chats/{chat}", json=change).status_code == 200
        assert ana.get(f"/api/chats/{chat}").json()["title"] == "ours"
        assert ana.patch(f"/api/chats/{chat}", json={"visibility": "private"}).json()["visibility"] == "private"
        assert cat.get(f"/api/chats/{chat}").status_code == 404


def lines_until_the_end(client: httpx.Client, path: str, begun: list[str]) -> list[str]:
    """The lines of a stream until it ends; `begun` gets its status."""
    with client.stream("GET", path) as answer:
        begun.append(str(answer.status_code))
        return [line for line in answer.iter_lines() if line]


@pytest.mark.parametrize("what", ["private", "removed", "token"])
def test_a_stream_ends_when_its_person_may_see_no_more(own: Callable[..., Gateway], what: str) -> None:
    """It ends within a second if the chat becomes private, the person is removed, or gets another token."""
    gateway = own()
    token = persons.add(gateway.folder, "ben", "viewer", 0)
    chat = gateway.chat(visibility="team")
    begun: list[str] = []
    seen: list[list[str]] = []
    with client_of(gateway, token) as ben, gateway.client() as owner:
        path = f"/api/chats/{chat}/events"
        reader = threading.Thread(target=lambda: seen.append(lines_until_the_end(ben, path, begun)))
        reader.start()
        until(lambda: begun == ["200"] and gateway.watches.clients(chat) == 1)
        if what == "private":
            assert owner.patch(f"/api/chats/{chat}", json={"visibility": "private"}).status_code == 200
        elif what == "removed":
            persons.remove(gateway.folder, "ben")
        else:
            persons.renew(gateway.folder, "ben")
        began = time.monotonic()
        until(lambda: gateway.watches.clients(chat) == 0)
        assert time.monotonic() - began < 5
        reader.join(10)
        assert ben.get(path).status_code == (404 if what == "private" else 401)


def test_a_removed_person_is_signed_out_everywhere(own: Callable[..., Gateway]) -> None:
    """Their browsers are signed out, links for them are void, and the same name added again begins anew."""
    gateway = own()
    token = persons.add(gateway.folder, "ana", "member", 0)
    with gateway.client() as owner:
        code = owner.post("/api/link", json={"person": "ana"}).json()["url"].partition("#code=")[2]
        second = owner.post("/api/link", json={"person": "ana"}).json()["url"].partition("#code=")[2]
    headers = {"Origin": gateway.url, "Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False) as browser:
        assert browser.post("/api/login", json={"code": code}).status_code == 204
        assert browser.get("/api/about").json()["person"] == {"name": "ana", "role": "member"}
        persons.remove(gateway.folder, "ana")
        assert browser.get("/api/about").status_code == 401
        with client_of(gateway, token) as program:
            assert program.get("/api/about").status_code == 401
        until(lambda: gateway.logins.browsers.listed() == [])
        assert browser.post("/api/login", json={"code": second}).status_code == 401
        persons.add(gateway.folder, "ana", "viewer", 0)
        assert browser.get("/api/about").status_code == 401


def test_a_member_makes_links_for_nobody_else(own: Callable[..., Gateway]) -> None:
    """Nor does a member see or sign out the browsers of others; an owner's browser stays when a member logs all out."""
    gateway = own()
    ana = client_of(gateway, persons.add(gateway.folder, "ana", "member", 0))
    with ana, gateway.browser():
        assert ana.post("/api/link", json={"person": "owner"}).status_code == 403
        assert ana.post("/api/link", json={"person": "ana"}).status_code == 200
        assert ana.get("/api/browsers").json() == {"browsers": []}
        (browser,) = gateway.logins.browsers.listed()
        assert ana.delete(f"/api/browsers/{browser.id}").status_code == 404
        assert ana.post("/api/logout", json={"everywhere": True}).status_code == 204
        assert len(gateway.logins.browsers.listed()) == 1


def test_a_limit_of_turns_at_once(own: Callable[..., Gateway]) -> None:
    """A person's turns that run or wait in all chats are counted; another person's are not."""
    gateway = own()
    ana = client_of(gateway, persons.add(gateway.folder, "ana", "member", 0, max_runs=2))
    with ana, gateway.client() as owner:
        chats = [ana.post("/api/chats", json={"agent": "staying", "visibility": "team"}).json()["id"] for _ in range(3)]
        statuses = [ana.post(f"/api/chats/{chat}/turns", json={"text": "go"}).status_code for chat in chats]
        assert statuses == [202, 202, 429]
        again = {"Idempotency-Key": "one"}
        assert ana.post(f"/api/chats/{chats[2]}/turns", json={"text": "go"}, headers=again).status_code == 429
        assert owner.post(f"/api/chats/{chats[2]}/turns", json={"text": "go"}).status_code == 202
        assert ana.post(f"/api/chats/{chats[0]}/stop", json={}).status_code == 202
        until(lambda: ana.get(f"/api/chats/{chats[0]}").json()["state"] == "idle")
        assert ana.post(f"/api/chats/{chats[0]}/turns", json={"text": "again"}).status_code == 202


def test_a_repeat_at_the_limit_is_the_same_turn(own: Callable[..., Gateway]) -> None:
    """A client whose answer was lost sends the prompt again, with its key: it is no further turn."""
    gateway = own()
    ana = client_of(gateway, persons.add(gateway.folder, "ana", "member", 0, max_runs=1))
    with ana:
        chat = ana.post("/api/chats", json={"agent": "staying"}).json()["id"]
        sent = {"url": f"/api/chats/{chat}/turns", "json": {"text": "go"}, "headers": {"Idempotency-Key": "one"}}
        answers = [ana.post(**sent) for _ in range(2)]  # type: ignore[arg-type]
        assert [(it.status_code, it.json()) for it in answers] == [(202, {"turn": 1}), (200, {"turn": 1})]


def test_programs_of_other_protocols_act_for_their_person(own: Callable[..., Gateway]) -> None:
    """A chat that a program begins is its person's; the same id from somebody else is another chat."""
    gateway = own()
    ana, cat = (client_of(gateway, persons.add(gateway.folder, name, "member", 0)) for name in ("ana", "cat"))
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
    with ana, cat, gateway.client() as owner:
        for client in (ana, cat):
            answer = client.post("/v1/chat/completions", json=body, headers={"X-Penstock-Chat": "one"})
            assert answer.status_code in (200, 403), answer.text
        run = {"threadId": "one", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}]}
        attach = {**run, "forwardedProps": {"penstock": {"attach": True}}}
        assert ana.post("/agui", json=attach).status_code == 404  # nobody's thread, and not the chat of OpenAI's client
        listed = owner.get("/api/chats").json()["chats"]
        assert sorted(it["person"] for it in listed) in ([], ["ana", "cat"])
        assert ana.post("/agui/scripted", json=run).status_code == 200
        assert ana.post("/agui", json=attach).status_code == 200
        assert cat.post("/agui", json=attach).status_code == 404


def door_requests(chat: str) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Requests of programs that name a chat by their own id: the method, the address, the body."""
    message = {"id": "u", "role": "user", "content": "hi"}
    run: dict[str, Any] = {"threadId": chat, "runId": "r", "messages": [message]}
    part = {"type": "dynamic-tool", "approval": {"id": "q", "approved": True}}
    resume = [{"interruptId": "q", "status": "resolved", "payload": "yes"}]
    return [
        ("GET", f"/ai/{chat}/stream", None),
        ("POST", f"/ai/{chat}/stop", None),
        ("POST", "/ai", {"id": chat, "messages": [{"id": "u", "role": "assistant", "parts": [part]}]}),
        ("POST", "/agui", {**run, "forwardedProps": {"penstock": {"attach": True}}}),
        ("POST", "/agui", {**run, "resume": resume}),
    ]


@pytest.mark.slow
def test_a_chat_of_another_person_is_none_at_the_addresses_of_programs(own: Callable[..., Gateway]) -> None:
    """Whoever guesses the id of somebody else's chat learns nothing: it is answered as one that does not exist."""
    gateway = own()
    ana, cat = (client_of(gateway, persons.add(gateway.folder, name, "member", 0)) for name in ("ana", "cat"))
    run = {"threadId": "one", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}]}
    ui = {"id": "one", "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
    with ana, cat, gateway.client() as owner:
        assert ana.post("/agui/scripted", json=run).status_code == 200
        assert ana.post("/ai/scripted", json=ui).status_code == 200
        ids = [it["id"] for it in owner.get("/api/chats").json()["chats"]]
        for client in (cat, owner):
            wanted = [client.request(method, path, json=sent) for method, path, sent in door_requests("nothing")]
            assert {it.status_code for it in wanted} == {404}
            for id in ("one", *ids):
                found = [client.request(method, path, json=sent) for method, path, sent in door_requests(id)]
                assert [(it.status_code, it.text) for it in found] == [(it.status_code, it.text) for it in wanted]
        assert sorted(it["id"] for it in owner.get("/api/chats").json()["chats"]) == sorted(ids)


@pytest.mark.slow
def test_a_program_at_the_limit_leaves_no_chats(own: Callable[..., Gateway]) -> None:
    """A first message that is rejected because of the turns that run leaves nothing, however often it is repeated."""
    gateway = own()
    ana = client_of(gateway, persons.add(gateway.folder, "ana", "member", 0, max_runs=1))
    body = {"model": "staying", "messages": [{"role": "user", "content": "hi"}]}
    run = {"threadId": "one", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}]}
    ui = {"id": "one", "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
    with ana:
        chat = ana.post("/api/chats", json={"agent": "staying"}).json()["id"]
        assert ana.post(f"/api/chats/{chat}/turns", json={"text": "go"}).status_code == 202
        for address, sent in (("/v1/chat/completions", body), ("/agui/staying", run), ("/ai/staying", ui)):
            for _ in range(3):
                assert ana.post(address, json=sent).status_code == 429
        assert [it["id"] for it in ana.get("/api/chats").json()["chats"]] == [chat]


def test_what_is_done_is_recorded(own: Callable[..., Gateway]) -> None:
    """Changes and refusals with who, what and which chat; never the text of a message, a code or a token."""
    gateway = own()
    token = persons.add(gateway.folder, "ana", "member", 0)
    with client_of(gateway, token) as ana:
        chat = ana.post("/api/chats", json={"agent": "scripted", "allow": "read"}).json()["id"]
        ana.post(f"/api/chats/{chat}/turns", json={"text": "the word is pelican"})
        ana.patch(f"/api/chats/{chat}", json={"allow": "ask"})
        ana.post("/api/workspaces", json={"path": "/srv/shop"})
        ana.get("/metrics")
        ana.get("/api/chats")
        ana.post("/api/login", json={"token": "wrong" * 8})
    found = [*records(gateway.folder / AUDIT)]
    assert [(it.person, it.what, it.status) for it in found] == [
        ("ana", "create", 201),
        ("ana", "prompt", 202),
        ("ana", "change", 200),
        ("ana", "trust", 403),
        ("ana", "metrics", 403),
        (None, "log_in", 401),
    ]
    assert found[2].details == {"allow": "ask"}
    assert {it.chat for it in found[:3]} == {chat, None}
    whole = b"".join(path.read_bytes() for path in (gateway.folder / AUDIT).iterdir())
    assert not any(secret in whole for secret in (b"pelican", b"wrongwrong", token.encode()))


def test_one_person_alone_has_no_limits_and_no_file(own: Callable[..., Gateway]) -> None:
    """Without `penstock people` nothing is asked for, and chats are as before."""
    gateway = own()
    with gateway.client() as owner:
        about = owner.get("/api/about").json()
        assert (about["person"], about["several"]) == ({"name": "owner", "role": "owner"}, False)
        chat = owner.post("/api/chats", json={"agent": "scripted"}).json()
        assert (chat["person"], chat["visibility"]) == ("owner", "private")
    assert not (gateway.folder / persons.PEOPLE).exists()


def test_a_damaged_file_leaves_the_owner_alone(own: Callable[..., Gateway], caplog: pytest.LogCaptureFixture) -> None:
    """A server that runs goes on for its owner, refuses everybody else, and says so once."""
    gateway = own()
    token = persons.add(gateway.folder, "ana", "member", 0)
    with client_of(gateway, token) as ana, gateway.client() as owner:
        assert ana.get("/api/about").status_code == 200
        path = gateway.folder / persons.PEOPLE
        kept = path.read_text()
        for damaged in ("{", kept.replace('"ana"', '"owner"'), kept.replace('"member"', '"admin"')):
            path.write_text(damaged)
            assert ana.get("/api/about").status_code == 401
            assert owner.get("/api/about").status_code == 200
        path.write_text(kept)
        assert ana.get("/api/about").status_code == 200
    assert json.loads(kept)["people"][0]["name"] == "ana"
    assert token not in kept
