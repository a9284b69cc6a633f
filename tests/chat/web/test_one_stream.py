"""One stream of several chats and of the list: as exact as the stream of each, and no wider than the rights of each."""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_rows import begun, rows_of, said
from served import SECONDS, TOKEN, Gateway, start
from viewer import Lines, Viewer, shown
from waiting import until

from penstock.chat.people import persons
from penstock.chat.web.handlers.streams import MAX_FOLLOWED

CUTS = 40
"""Connections of the test that cuts them at random bytes."""


class Several:
    """What one knows who follows several things by one stream, each as a viewer of its own stream would."""

    def __init__(self, *names: str) -> None:
        self.names = [*names]
        self.viewers = {name: Viewer() for name in names if name != "list"}
        self.listed: dict[str, Any] = {}
        self.list_number: int | None = None
        self.times: dict[str, int] = {}
        """Times of the entries with which the chats are to be asked for again."""
        self.resets = 0
        """How often the list had to be asked for."""
        self.ends: dict[str, str] = {}
        """The last frame of what has ended."""
        self.others: list[str] = []
        """Events that are of no chat."""
        self._lines = Lines()

    @property
    def query(self) -> dict[str, str]:
        """What to return with."""
        numbers = {name: viewer.after for name, viewer in self.viewers.items()} | {"list": self.list_number}
        chats = ",".join(it if numbers[it] is None else f"{it}:{numbers[it]}" for it in self.names)
        return {"chats": chats, "at": ",".join(str(self.times.get(it, "")) for it in self.names)}

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        for id, event, text in self._lines.feed(data):
            assert id is None, "several chats have no common number"
            if event != "frame":
                self.others.append(json.loads(text)["type"])
                continue
            envelope = json.loads(text)
            name, frame = envelope["chat"], envelope["frame"]
            assert self.names[envelope["place"]] == name
            assert name not in self.ends, "a frame after the end"
            if frame["type"] in ("missing", "deleted", "goodbye"):
                self.ends[name] = frame["type"]
            if "number" in envelope:
                self.times.pop(name, None)
            if "at" in envelope:
                assert envelope["number"] > 0
                self.times[name] = envelope["at"]
            if name == "list":
                self._show(frame, envelope["number"])
            elif frame["type"] not in ("missing", "goodbye"):
                number = f"id: {envelope['number']}\n" if "number" in envelope else ""
                self.viewers[name].feed(f"{number}event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode())

    def _show(self, frame: dict[str, Any], number: int) -> None:
        assert self.list_number is None or number > self.list_number or frame["type"] == "list"
        self.list_number = number
        if frame["type"] == "list":
            self.resets += 1
        elif frame["type"] == "listed":
            self.listed[frame["chat"]["id"]] = frame["chat"]
        else:
            self.listed[frame["id"]] = None

    def cut(self) -> None:
        """The connection is lost."""
        self._lines = Lines()
        for viewer in self.viewers.values():
            viewer.cut()


def follow(
    gateway: Gateway, several: Several, *, until: Callable[[Several], Any], deltas: bool = False, token: str = TOKEN
) -> None:
    """Follow until this is true; then the connection is cut."""
    query = {**several.query, **({"delta": "1"} if deltas else {})}
    client = gateway.client(Authorization=f"Bearer {token}")
    with client, client.stream("GET", "/api/events", params=query) as answer:
        assert answer.status_code == 200, answer.read()
        pieces = answer.iter_raw()
        while not until(several):
            several.feed(next(pieces))
    several.cut()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, page: Path) -> Iterator[tuple[Gateway, dict[str, str]]]:
    """A gateway that people share, and their tokens."""
    gateway = start(tmp_path_factory.mktemp("team"), page)
    yield gateway, {name: persons.add(gateway.folder, name, "member", 0) for name in ("ana", "ben")}
    gateway.close()


@pytest.mark.slow
@pytest.mark.parametrize("deltas", [False, True])
def test_cut_at_any_byte_nothing_is_lost_and_nothing_comes_twice(own: Callable[..., Gateway], deltas: bool) -> None:
    """Three chats grow while the one connection is cut at random bytes: each viewer ends as one who was never cut."""
    gateway = own()
    chats = [gateway.chat() for _ in range(3)]
    rows = {chat: rows_of(*cases) for chat, cases in zip(chats, (("text", "tools"), ("parallel",), ()), strict=True)}
    for chat in chats:
        gateway.loop.call_soon_threadsafe(gateway.service.log(chat).live.watch, lambda _: None)
    dice = random.Random(7)
    several = Several("list", *chats)
    order = [chat for chat, all in rows.items() for _ in all]
    dice.shuffle(order)

    def write() -> None:
        for chat in order:
            gateway.append(chat, [rows[chat].pop(0)])

    writing = threading.Thread(target=write)
    writing.start()
    for _ in range(CUTS):
        with socket.create_connection(("127.0.0.1", gateway.port), SECONDS) as connection:
            query = httpx.QueryParams({**several.query, **({"delta": "1"} if deltas else {})})
            head = f"GET /api/events?{query} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            connection.sendall(head.encode())
            data, most = b"", dice.randrange(1, 4000)
            while len(data.partition(b"\r\n\r\n")[2]) < most and writing.is_alive():
                data += (got := connection.recv(dice.randrange(1, 500)))
                if not got:
                    break
            several.feed(data.partition(b"\r\n\r\n")[2][:most])
        several.cut()
    writing.join()
    ends = {chat: viewer.after for chat, viewer in _whole(gateway, chats).viewers.items()}
    follow(
        gateway,
        several,
        deltas=deltas,
        until=lambda it: {name: one.after for name, one in it.viewers.items()} == ends and it.list_number is not None,
    )
    for chat, viewer in _whole(gateway, chats).viewers.items():
        assert shown(several.viewers[chat].turns) == shown(viewer.turns)
        assert several.viewers[chat].snapshots == 1


@pytest.mark.slow
def test_after_a_restore_who_was_ahead_is_told(tmp_path: Path, page: Path) -> None:
    """The chat has grown past what a viewer saw before a backup was restored: it gets all anew, and not a mixture."""
    gateway = start(tmp_path, page)
    chat, other = gateway.chat(), gateway.chat()
    for name in (chat, other):
        gateway.append(name, rows_of("text"))
    gateway.close()
    shutil.copytree(tmp_path, tmp_path / "backup")
    gateway = start(tmp_path, page)
    gateway.append(chat, rows_of("text", "thinking")[len(rows_of("text")) :])
    several = _whole(gateway, [chat, other])
    before = several.viewers[chat].after or 0
    gateway.close()
    for file in tmp_path.glob("chats.db*"):
        file.unlink()
    for file in (tmp_path / "backup").glob("chats.db*"):
        shutil.copy(file, tmp_path / file.name)
    gateway = start(tmp_path, page)
    try:
        rows = rows_of("text", "tools")[len(rows_of("text")) :]
        number = 0
        while number <= before:  # it has the viewer's number again, and is in the midst of a turn
            number = gateway.append(chat, [rows.pop(0)])
        numbers = {**several.query, "at": ""}
        with gateway.client() as client, client.stream("GET", "/api/events", params=numbers) as answer:
            assert "snapshot" not in next(answer.iter_text()), "a number alone does not tell"
        last = f"{before}-{several.times[chat]}"
        for asked in ({"params": {"after": last}}, {"headers": {"Last-Event-ID": last}}):
            assert "event: snapshot" in first_of(gateway, f"/api/chats/{chat}/events", **asked)
        follow(gateway, several, until=lambda it: it.viewers[chat].snapshots == 2)
        follow(gateway, several, until=lambda it: it.viewers[chat].after == number)
        whole = _whole(gateway, [chat, other])
        for name in (chat, other):
            assert shown(several.viewers[name].turns) == shown(whole.viewers[name].turns)
        assert several.viewers[other].snapshots == 1, "a chat that was not ahead goes on"
    finally:
        gateway.close()


def first_of(gateway: Gateway, path: str, **asked: Any) -> str:
    """The beginning of a stream, up to its first number."""
    with gateway.client() as client, client.stream("GET", path, **asked) as answer:
        assert answer.status_code == 200
        text, pieces = "", answer.iter_text()
        while not re.search(r"^id: .+\n", text, re.MULTILINE):
            text += next(pieces)
    return text


def test_numbers_of_one_stream_have_times_if_they_are_asked_for(shared: Gateway) -> None:
    """The stream goes on after such a number as after the number alone, and keeps to its form; other ids are none."""
    chat = shared.chat()
    shared.append(chat, rows_of("text"))
    path = f"/api/chats/{chat}/events"
    number, time = _numbers(first_of(shared, path, params={"times": "1"}))[-1]
    assert time != ""
    assert _numbers(first_of(shared, path))[-1] == (number, "")
    known = f"{int(number) - 1}"
    at = {entry.number: entry.at for entry in shared.call(shared.store.read(chat)).entries}
    for last, is_new in (
        (f"{known}-{at[int(known)]}", False),
        (f"{known}-7", True),
        (f"{known}-", True),
        ("1-2-3", True),
    ):
        text = first_of(shared, path, headers={"Last-Event-ID": last})
        assert ("event: snapshot" in text) == is_new, last
        assert (_numbers(text)[-1] == (number, time)) == bool(re.fullmatch(r"\d+-\d+", last)), last


def _numbers(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^id: (\d+)-?(\d*)$", text, re.MULTILINE)


def test_times_that_are_none(shared: Gateway) -> None:
    """Times that are too few, too many or no numbers are none, and a wrong one costs a snapshot."""
    chat = shared.chat()
    shared.append(chat, rows_of("text"))
    several = _whole(shared, [chat])
    number, time = several.viewers[chat].after, several.times[chat]
    with shared.client() as client:
        for at, is_new in (("", 0), (f"{time}", 0), (f"{time},7,,", 0), ("x", 0), ("-1", 0), ("9" * 19, 0), ("7", 1)):
            query = {"chats": f"list,{chat}:{number},list", "at": f",{at}"}
            with client.stream("GET", "/api/events", params=query) as answer:
                assert answer.status_code == 200
                text, pieces = "", answer.iter_text()
                while text.count('"chat":"list"') < 2:
                    text += next(pieces)
                assert text.count('"snapshot"') == is_new, at


def _whole(gateway: Gateway, chats: list[str]) -> Several:
    """What one knows of these chats who comes now."""
    several = Several(*chats)
    follow(gateway, several, until=lambda it: all(one.snapshots for one in it.viewers.values()))
    return several


def test_one_chat_at_two_places(shared: Gateway) -> None:
    """Two tabs know the same chat up to different entries: each place goes on where it is."""
    chat = shared.chat()
    shared.append(chat, rows_of("text"))
    known = _whole(shared, [chat]).viewers[chat].after
    with shared.client() as client:
        query = {"chats": f"{chat}:{known},{chat}"}
        places: dict[int, list[str]] = {0: [], 1: []}
        with client.stream("GET", "/api/events", params=query) as answer:
            lines, pieces = Lines(), answer.iter_raw()
            shared.append(chat, rows_of("text", "text")[len(rows_of("text")) :])
            while not all("finalized" in names for names in places.values()):
                for _, event, text in lines.feed(next(pieces)):
                    assert event == "frame"
                    envelope = json.loads(text)
                    frame = envelope["frame"]
                    names = places[envelope["place"]]
                    ended = [it for it in frame.get("turns", []) if it["turn"] == 2 and it.get("finalized")]
                    names.extend([frame["type"], *(["finalized"] if ended else [])])
    assert "snapshot" not in places[0]
    assert places[1][0] == "snapshot"


def test_a_right_that_is_revoked_ends_its_chat_alone(team: tuple[Gateway, dict[str, str]]) -> None:
    """A chat that becomes private ends in the stream of everybody else; what is written later is not sent to them."""
    gateway, tokens = team
    mine, theirs, secret = gateway.chat(visibility="team"), gateway.chat(visibility="team"), gateway.chat()
    several = Several("list", mine, theirs, secret, "nobody", "runs/doc-nothing")
    did: list[bool] = []

    def steps(it: Several) -> bool:
        if not did and it.viewers[mine].snapshots and it.viewers[theirs].snapshots and it.resets:
            did.append(True)
            with gateway.client() as client:
                client.patch(f"/api/chats/{theirs}", json={"visibility": "private"})
        if len(did) == 1 and theirs in it.ends:
            did.append(True)
            gateway.append(theirs, rows_of("text"))
            gateway.append(secret, rows_of("text"))
            gateway.append(mine, rows_of("text"))
        return len(did) == 2 and it.viewers[mine].is_quiet and 1 in it.viewers[mine].turns and mine in it.listed

    follow(gateway, several, until=steps, token=tokens["ana"])
    assert several.ends == dict.fromkeys((theirs, secret, "nobody", "runs/doc-nothing"), "missing")
    assert not several.viewers[theirs].turns
    assert not several.viewers[secret].turns
    # The list names to nobody a chat that they never could see.
    assert several.listed[theirs] is None
    assert secret not in several.listed


def test_a_person_who_is_removed_is_shown_nothing_more(team: tuple[Gateway, dict[str, str]]) -> None:
    """The whole stream of a person ends with their right to be there."""
    gateway, tokens = team
    chat = gateway.chat(visibility="team")
    several = Several(chat)

    def steps(it: Several) -> bool:
        if it.viewers[chat].snapshots and persons.People(gateway.folder / "people.json").find("ben") is not None:
            persons.remove(gateway.folder, "ben")
        return False

    with pytest.raises((StopIteration, httpx.HTTPError)):
        follow(gateway, several, until=steps, token=tokens["ben"])
    gateway.append(chat, rows_of("text"))
    with gateway.client(Authorization=f"Bearer {tokens['ben']}") as client:
        assert client.get("/api/events", params={"chats": chat}).status_code == 401


def test_the_list_changes_as_it_happens(own: Callable[..., Gateway]) -> None:
    """A new chat, a title, a turn and a deletion come by the stream, each once; who returns gets what was missed."""
    gateway = own(linger=SECONDS)
    several = Several("list")
    follow(gateway, several, until=lambda it: it.resets)
    chat = gateway.chat(title="first")
    with gateway.client() as client:
        client.patch(f"/api/chats/{chat}", json={"title": "second"})
    follow(gateway, several, until=lambda it: it.listed.get(chat, {}).get("title") == "second")
    gateway.append(chat, begun())
    follow(gateway, several, until=lambda it: it.listed[chat]["state"] == "running")
    numbers = several.list_number
    gateway.append(chat, [said("text changes nothing in the list")])
    with gateway.client() as client:
        assert client.get(f"/api/chats/{chat}").json() == several.listed[chat]
        client.delete(f"/api/chats/{chat}")
    follow(gateway, several, until=lambda it: it.listed[chat] is None)
    assert several.resets == 1
    assert numbers is not None
    several.list_number = numbers + 1_000_000_000
    follow(gateway, several, until=lambda it: it.resets == 2)


def test_what_changes_after_the_list_was_read_is_streamed(own: Callable[..., Gateway]) -> None:
    """Who follows the list from the number that it was read at gets all changes since, and need not read it again."""
    gateway = own(linger=SECONDS)
    gone, kept = gateway.chat(title="gone"), gateway.chat(title="kept")
    several = Several("list")
    with gateway.client() as client:
        read = client.get("/api/chats", params={"page": 10}).json()
        assert {it["id"] for it in read["chats"]} == {gone, kept}
        client.delete(f"/api/chats/{gone}")
        client.patch(f"/api/chats/{kept}", json={"title": "changed"})
    made = gateway.chat(title="made")
    several.list_number = read["number"]
    follow(gateway, several, until=lambda it: len(it.listed) == 3)
    titles = {id: it and it["title"] for id, it in several.listed.items()}
    assert titles == {gone: None, kept: "changed", made: "made"}
    assert several.resets == 0


@pytest.mark.slow
def test_pages_of_the_list(own: Callable[..., Gateway]) -> None:
    """Each chat is in a page; the first one has what wants a person and what is named, however old that is."""
    gateway = own()
    chats = [gateway.chat(title=str(number)) for number in range(7)]
    gateway.append(chats[1], begun())
    with gateway.client() as client:
        client.patch(f"/api/chats/{chats[2]}", json={"pinned": True})
        order = [it["id"] for it in client.get("/api/chats").json()["chats"]]

        def page(**query: Any) -> dict[str, Any]:
            answer = client.get("/api/chats", params={"page": 2, **query})
            assert answer.status_code == 200
            found: dict[str, Any] = answer.json()
            return found

        old = next(id for id in reversed(order) if id not in chats[1:3])
        first = page(**{"with": old})
        ids = [it["id"] for it in first["chats"]]
        assert ids[:2] == order[:2]
        assert set(ids[2:]) == {chats[1], chats[2], old} - set(order[:2])
        assert first["number"] > 0
        seen, cursor = order[:2], first.get("next")
        while cursor:
            found = page(cursor=cursor)
            assert "number" not in found
            seen += [it["id"] for it in found["chats"]]
            cursor = found.get("next")
        assert seen == order
        assert page(page=7).get("next") is None
        for wrong in ("page=0", "page=1001", "page=x", "page=1&cursor=x", "page=1&cursor=1-'"):
            assert client.get(f"/api/chats?{wrong}").status_code == 400


def test_a_deleted_chat_ends_and_a_goodbye_is_for_all(own: Callable[..., Gateway]) -> None:
    """The end of a chat leaves the others; the server's end is an event of the stream."""
    gateway = own()
    first, second = gateway.chat(), gateway.chat()
    several = Several(first, second)
    did: list[bool] = []

    def steps(it: Several) -> bool:
        if not did and all(one.snapshots for one in it.viewers.values()):
            did.append(True)
            with gateway.client() as client:
                client.delete(f"/api/chats/{first}")
        if len(did) == 1 and first in it.ends:
            did.append(True)
            gateway.loop.call_soon_threadsafe(gateway.server.drain)
        return "goodbye" in it.others

    follow(gateway, several, until=steps)
    assert several.ends == {first: "deleted"}


@pytest.mark.slow
def test_who_reads_nothing_is_dropped_and_comes_back(own: Callable[..., Gateway]) -> None:
    """A client that reads nothing costs a bounded buffer and is dropped; with its numbers it lacks nothing."""
    gateway = own(patience=0.3)
    chat, other = gateway.chat(), gateway.chat()
    gateway.append(chat, begun())
    several = Several(chat, other)
    follow(gateway, several, until=lambda it: all(one.snapshots for one in it.viewers.values()))
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", gateway.port))
        head = f"GET /api/events?{httpx.QueryParams(several.query)} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        connection.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        until(lambda: gateway.metrics.clients == 1)
        for _ in range(40):
            gateway.append(chat, [said("many words " * 20_000)])
        until(lambda: gateway.metrics.dropped == 1 and gateway.metrics.clients == 0)
    gateway.close()
    gateway = own()  # with patience for a slow machine; it ends the turn, which nobody works on
    last = Several(chat)
    for one in (several, last):
        follow(gateway, one, until=lambda it: it.viewers[chat].turns.get(1, {}).get("state") == "completed")
    assert several.viewers[chat].turns[1]["message"] == last.viewers[chat].turns[1]["message"]


@pytest.mark.parametrize(
    "given",
    [",", "list,", "a b", "../x", "runs/", "runs/a/b", "a:", "a:-1", "a:1:2", "a:1234567890123456789",
     ",".join(["list"] * (MAX_FOLLOWED + 1))],
)  # fmt: skip
def test_what_cannot_be_followed(shared: Gateway, given: str) -> None:
    """A name that cannot be, and more names than a browser shows, are refused before anything is looked for."""
    with shared.client() as client:
        answer = client.get("/api/events", params={"chats": given})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
