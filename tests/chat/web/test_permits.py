"""A right that ends while a request is handled: after its checks, and before its change is made, or its answer sent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from git_repository import IDENTITY
from loop_desk import Desk
from msgspec.structs import replace
from served import AGENTS, Gateway, held_and_asking
from waiting import until

from penstock.chat.history.export.parts import TurnToExport
from penstock.chat.history.frames import TurnView
from penstock.chat.people import persons
from penstock.chat.people.persons import Role
from penstock.chat.service.exports import Exports
from penstock.chat.store import permits
from penstock.chat.store.rows import ChatChanges, ChatRule
from penstock.chat.web import app, compression
from penstock.chat.web.routes import ADDRESSES
from penstock.config.ownership import Ownership, write_ownership
from penstock.loop.loops import FOLDER as LOOPS

CHANGES = (
    "submit", "create_chat", "update_chat", "delete_chat", "put_directory", "put_share", "delete_share",
    "put_attachment", "delete_attachment",
)  # fmt: skip
"""Calls of the store that people ask for."""

NO_CHANGE = {
    "agent_models": "it lists models",
    "undo": "it changes files, which test_undo.py looks at",
    "land": "it changes a repository, which test_trees.py looks at",
    "followed_entries": "it reads, and a stop is Penstock's own",
    "remove_node": "a server with a file has no nodes",
    "stop_run": "loops are not in the store",
    "message_run": "loops are not in the store",
    "land_run": "loops are not in the store",
    "change_run": "documents and loops are not in the store",
}
"""Operations with a right that change nothing in the store, and why."""

ALIKE = {"ui_chat_with": "ui_chat", "agui_run_with": "agui_run", "ui_stop": "stop", "steer": "send_now"}
"""Operations that are another one by a second address, or submit another entry in the same way."""

OCTETS = {"Content-Type": "application/octet-stream"}
MESSAGE = {"role": "user", "content": "hello"}
UI_MESSAGE = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}


class Asked(NamedTuple):
    """Request of an operation."""

    method: str
    path: str
    body: Any = None
    """JSON, or bytes."""


class Scene:
    """Chats of ana that the team sees, with something to change at each address."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        tokens = (persons.add(gateway.folder, name, "member", 0) for name in ("ana", "cat"))
        ana, cat = (client_of(gateway, token) for token in tokens)
        with ana, cat:
            self.chat = self._waiting(ana, cat)
            self.held = self._waiting(ana, cat)
            assert ana.post(f"/api/chats/{self.held}/stop", json={"turn": 1}).json()["turns"] == [1]
            until(lambda: all(it["state"] != "running" for it in self._turns(self.held)), "the turn ends")
            self.asking, self.question = self._asking(ana)
            self.share = ana.post(f"/api/chats/{self.chat}/shares", json={}).json()["share"]["id"]
            path = f"/api/chats/{self.chat}/attachments?name=a"
            self.file = ana.post(path, content=b"a", headers=OCTETS).json()["id"]
        rule = ChatRule("rule", "ls", "ana")
        gateway.call(gateway.service.log(self.chat).change_rules(lambda rules: [rule]))

    def _new(self, client: httpx.Client, agent: str) -> str:
        answer = client.post("/api/chats", json={"agent": agent, "visibility": "team"})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def _waiting(self, client: httpx.Client, other: httpx.Client) -> str:
        """A chat with a turn that runs and two that wait, which somebody else has asked for."""
        chat = self._new(client, "staying")
        for text in ("one", "two", "three"):
            assert other.post(f"/api/chats/{chat}/turns", json={"text": text}).status_code == 202
        until(lambda: self._turns(chat)[0]["state"] == "running", "the first turn runs")
        return chat

    def _asking(self, client: httpx.Client) -> tuple[str, str]:
        chat = self._new(client, "peer")
        assert client.post(f"/api/chats/{chat}/turns", json={"text": "permission"}).status_code == 202
        until(lambda: self._turns(chat)[0].get("question"), "the agent asks")
        return chat, str(self._turns(chat)[0]["question"]["id"])

    def _turns(self, chat: str) -> list[dict[str, Any]]:
        with self.gateway.client() as owner:
            found: list[dict[str, Any]] = owner.get(f"/api/chats/{chat}/turns").json()["turns"]
        return found

    def state(self) -> Any:
        """All that requests could change."""

        async def read() -> Any:
            store = self.gateway.store
            rows = [replace(row, visibility="team") for row in await store.list_chats()]
            kept = [await store.list_attachments(row.id) for row in rows]
            return rows, kept, await store.list_shares(), await store.list_directories()

        chats = (self.chat, self.held, self.asking)
        turns = [[(it["turn"], it["prompt"], it["state"]) for it in self._turns(chat)] for chat in chats]
        return self.gateway.call(read()), turns

    def requests(self) -> dict[str, Asked]:
        """A request of each operation that would do something."""
        chat, held, asking = (f"/api/chats/{id}" for id in (self.chat, self.held, self.asking))
        folder = self.gateway.root / "new"
        folder.mkdir(exist_ok=True)
        return {
            "create": Asked("POST", "/api/chats", {"agent": "scripted"}),
            "change": Asked("PATCH", chat, {"allow": "all"}),
            "delete": Asked("DELETE", held),
            "prompt": Asked("POST", f"{chat}/turns", {"text": "four"}),
            "attach": Asked("POST", f"{chat}/attachments?name=b", b"b"),
            "detach": Asked("DELETE", f"{chat}/attachments/{self.file}"),
            "edit": Asked("PATCH", f"{chat}/turns/2", {"text": "other", "edits": 0}),
            "branch": Asked("POST", f"{chat}/turns/1/branch", {}),
            "send_now": Asked("POST", f"{chat}/turns/3/now", {"stops": 1}),
            "move": Asked("POST", f"{chat}/queue", {"seen": [2, 3], "turns": [3, 2]}),
            "stop": Asked("POST", f"{chat}/stop", {}),
            "release": Asked("POST", f"{held}/release", {}),
            "answer": Asked("POST", f"{asking}/questions", {"id": self.question, "answer": "Yes, once"}),
            "remove_rule": Asked("DELETE", f"{chat}/rules/rule"),
            "share": Asked("POST", f"{chat}/shares", {}),
            "revoke_share": Asked("DELETE", f"{chat}/shares/{self.share}"),
            "trust": Asked("POST", "/api/workspaces", {"path": str(folder)}),
            "complete_chat": Asked("POST", "/v1/chat/completions", {"model": "scripted", "messages": [MESSAGE]}),
            "ui_chat": Asked("POST", "/ai", {"id": uuid.uuid4().hex, "messages": [UI_MESSAGE]}),
            "agui_run": Asked("POST", "/agui", {"threadId": uuid.uuid4().hex, "runId": "r", "messages": [MESSAGE]}),
        }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, page: Path) -> Iterator[Scene]:
    """Chats at a gateway that people share."""
    folder = tmp_path_factory.mktemp("permits")
    (folder / "agents.toml").write_text(AGENTS + held_and_asking(folder / "gate"))
    gateway = Gateway(folder, page)
    try:
        yield Scene(gateway)
    finally:
        gateway.close()


def client_of(gateway: Gateway, token: str) -> httpx.Client:
    """A program of the person who has this token."""
    return gateway.client(Authorization=f"Bearer {token}")


def before_each_change(gateway: Gateway, patch: pytest.MonkeyPatch, end: Callable[[], Awaitable[None]]) -> list[str]:
    """Let a right end in the last moment before each change of the store; return the names of the calls, as they come.

    All of them were allowed by the checks before.
    """
    called: list[str] = []
    for name in CHANGES:
        made = getattr(gateway.store, name)

        async def ending(*given: Any, _made: Any = made, _name: str = name, **named: Any) -> Any:
            called.append(_name)
            with permits.acting(None):
                await end()
            return await _made(*given, **named)

        patch.setattr(gateway.store, name, ending)
    return called


RIGHTS = {address.does: address.right for address in ADDRESSES if address.method != "GET"}
OPERATIONS = sorted(does for does, right in RIGHTS.items() if right in ("begin", "drive", "manage", "operate"))


def test_each_operation_is_tried() -> None:
    """An operation that needs a right has a request here, or a reason why not."""
    assert {*OPERATIONS} <= {*TRIED, *NO_CHANGE, *ALIKE}
    assert {*NO_CHANGE, *ALIKE} <= {*OPERATIONS, "agent_models"}


TRIED = [does for does in OPERATIONS if does not in NO_CHANGE and does not in ALIKE]
DEPENDS = {does for does in TRIED if RIGHTS[does] == "drive" and does != "branch"}
"""Operations that depend on who sees a chat when it is changed; a branch has read it before."""

CASES = [(does, how) for does in TRIED for how in ("removed", "viewer", "token", "signed out")]
CASES += [(does, "private") for does in sorted(DEPENDS)]


async def ended(gateway: Gateway, name: str, how: str) -> None:
    """End what a person may do, in one of the ways in which it ends."""
    if how == "signed out":
        await gateway.logins.browsers.sign_out([it for it in gateway.logins.browsers.listed() if it.person == name])
    elif how in ("viewer", "member"):
        await asyncio.to_thread(persons.change, gateway.folder, name, lambda it: replace(it, role=how))
    elif how == "token":
        await asyncio.to_thread(persons.renew, gateway.folder, name)
    elif any(it.name == name for it in gateway.logins.people.all()):
        await asyncio.to_thread(persons.remove, gateway.folder, name)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("does", "how"), CASES, ids=lambda it: it.replace(" ", "_"))
def test_a_right_that_ended_changes_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch, does: str, how: str) -> None:
    """The person is removed, becomes a viewer, gets another token, is signed out, or the chat becomes private."""
    gateway, right = scene.gateway, RIGHTS[does]
    # What only the person of the chat may do is asked for by them, the rest by somebody else of the team.
    name = "ana" if right == "manage" else "cat"
    token = renewed(gateway, name, "owner" if right == "operate" else "member")
    asked = scene.requests()[does]

    async def end() -> None:
        if how == "private":
            row = ChatChanges(visibility="private")
            for chat in (scene.chat, scene.held, scene.asking):
                await type(gateway.store).update_chat(gateway.store, chat, row)
        else:
            await ended(gateway, name, how)

    before = scene.state()
    with client_as(gateway, name, token, by_cookie=how == "signed out") as client, monkeypatch.context() as patch:
        called = before_each_change(gateway, patch, end)
        given = {"json": asked.body}
        if isinstance(asked.body, bytes):
            given = {"content": asked.body, "headers": OCTETS}
        answer = client.request(asked.method, asked.path, **given)
    assert answer.status_code == {"viewer": 403, "private": 404}.get(how, 401), answer.text
    assert called or does == "delete", "nothing was tried"
    assert scene.state() == before
    if how == "private":
        for chat in (scene.chat, scene.held, scene.asking):
            gateway.call(gateway.service.change(chat, visibility="team"))


READ = [it for it in ADDRESSES if it.method == "GET" and it.right != "public" and it.media != "text/event-stream"]
"""Addresses that are read; streams look at the right by themselves, as test_one_stream.py and test_people.py prove."""

NOT_THERE = {
    "trajectory": "the turn has not ended",
    "undo_plan": "the turn has not ended",
    "file": "there is no such file",
    "picture": "there is no such file",
    "land_plan": "the chat has no tree",
    "run_output": "the loop has no step",
    "run_changes": "the loop has no round",
    "run_candidate_changes": "the loop has no round",
    "run_details": "the loop has no turn",
}
"""Operations whose answer here is an error of its own, and why."""

READS = [(it.does, how) for it in READ if it.does not in NOT_THERE for how in ("removed", "token", "signed out")]
READS += [(it.does, "private") for it in READ if it.right in ("read", "drive") and it.does not in NOT_THERE]
READS += [(it.does, "viewer") for it in READ if it.right in ("begin", "drive", "manage") and it.does not in NOT_THERE]
READS += [(it.does, "member") for it in READ if it.right in ("operate", "signed in") and it.does not in NOT_THERE]


@pytest.fixture(scope="module")
def loop(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A loop of ana that the team sees; its id."""
    with pytest.MonkeyPatch.context() as environ:
        for name, value in IDENTITY.items():
            environ.setenv(name, value)
        environ.setenv("PENSTOCK_PERSON", "ana")
        desk = Desk(tmp_path_factory.mktemp("desk"))
        desk.data = scene.gateway.folder
        journal = desk.begin(desk.settings("nobody"), "l1")
        journal.close()
    write_ownership(journal.folder, Ownership("ana", "team"))
    return f"loop-{journal.folder.name}"


@pytest.mark.sample(2)
@pytest.mark.parametrize(("does", "how"), READS, ids=lambda it: it.replace(" ", "_"))
def test_a_right_that_ended_reads_nothing(
    scene: Scene, loop: str, monkeypatch: pytest.MonkeyPatch, does: str, how: str
) -> None:
    """The right ends when the answer is there, and before it is sent: it is not sent, and says no more than before."""
    gateway = scene.gateway
    [address] = [it for it in READ if it.does == does]
    name = "ana" if address.right == "manage" else "cat"
    needs_owner = address.right == "operate" or how == "member"
    token = renewed(gateway, name, "owner" if needs_owner else "member")
    path = address.path.replace("{chat}", scene.chat).replace("{turn}", "1").replace("{attachment}", scene.file)
    path = path.replace("{run}", loop).replace("{agent}", "scripted")
    query = {"q": "one", "path": str(gateway.root)}
    folder = gateway.folder / LOOPS / loop.removeprefix("loop-")

    async def end() -> None:
        if how == "private":
            await gateway.service.change(scene.chat, visibility="private")
            write_ownership(folder, Ownership("ana", "private"))
        else:
            await ended(gateway, name, how)

    async def ending(request: Any, response: Any) -> None:
        await compression.compress(request, response)
        if request.headers.get("x-ends"):
            with permits.acting(None):
                await end()

    with client_as(gateway, name, token, by_cookie=how == "signed out") as client, monkeypatch.context() as patch:
        assert client.get(path, params=query).status_code == 200
        patch.setattr(app, "compress", ending)
        answer = client.get(path, params=query, headers={"X-Ends": "1"})
    assert answer.status_code == {"viewer": 403, "member": 403, "private": 404}.get(how, 401), answer.text
    assert answer.json().keys() <= {"type", "title", "status", "detail", "code", "help", "error"}
    if how == "private":
        gateway.call(gateway.service.change(scene.chat, visibility="team"))
        write_ownership(folder, Ownership("ana", "team"))


def test_a_file_ends_with_the_right_to_read_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat is sent as a file turn by turn: what is read after it became private is not sent."""
    gateway = scene.gateway
    token = renewed(gateway, "cat", "member")
    read = Exports.turns

    async def ending(exports: Exports, id: str, *, with_details: bool) -> AsyncIterator[TurnToExport]:
        turns = read(exports, id, with_details=with_details)
        yield TurnToExport(TurnView(1, "the first one"))
        with permits.acting(None):
            await gateway.service.change(id, visibility="private")
        async for turn in turns:
            yield turn

    path = f"/api/chats/{scene.chat}/export"
    with client_of(gateway, token) as client, monkeypatch.context() as patch:
        assert "three" in client.get(path).text
        patch.setattr(Exports, "turns", ending)
        got: list[str] = []
        with client.stream("GET", path) as answer, pytest.raises(httpx.RemoteProtocolError):
            got.extend(answer.iter_text())
    assert "the first one" in "".join(got)
    assert "three" not in "".join(got)
    gateway.call(gateway.service.change(scene.chat, visibility="team"))


def renewed(gateway: Gateway, name: str, role: Role) -> str:
    """A token of a person, who is added if there is none of this name, with this role."""
    if any(it.name == name for it in persons.read(gateway.folder / persons.PEOPLE)):
        persons.change(gateway.folder, name, lambda it: replace(it, role=role))
        return persons.renew(gateway.folder, name)
    return persons.add(gateway.folder, name, role, 0)


def client_as(gateway: Gateway, name: str, token: str, *, by_cookie: bool) -> httpx.Client:
    """A program of a person, or a browser."""
    if not by_cookie:
        return client_of(gateway, token)
    return gateway.browser(gateway.call(gateway.logins.browsers.sign_in("Tests", person=name)))


@pytest.mark.slow
def test_the_turn_of_a_request_is_penstocks_own(scene: Scene) -> None:
    """A message whose right held when it was kept is carried out, also if the person is removed after that."""
    gateway = scene.gateway
    with client_of(gateway, renewed(gateway, "dan", "member")) as dan, gateway.client() as owner:
        chat = dan.post("/api/chats", json={"agent": "slow", "visibility": "team"}).json()["id"]
        assert dan.post(f"/api/chats/{chat}/turns", json={"text": "hello"}).status_code == 202
        persons.remove(gateway.folder, "dan")
        until(lambda: owner.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("finalized"), "the turn ends")
        [view] = owner.get(f"/api/chats/{chat}/turns").json()["turns"]
        assert (view["outcome"], view["person"]) == ("ok", "dan")
