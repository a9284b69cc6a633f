"""`penstock chats`: what the operator of a server sees and ends from its own machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from serve_process import LINK, Serve, browser
from served import SECONDS
from waiting import until

HOSTILE = "ev\x1b[2Jil \u202etitle"


def chats(started: Serve, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `penstock chats`."""
    environ = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
    command = [sys.executable, "-m", "penstock", "chats", f"--data={started.data}", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False)


@contextmanager
def signed_in(started: Serve) -> Iterator[httpx.Client]:
    """A browser at the server, whose directory is trusted."""
    found = LINK.fullmatch(started.line())
    assert found
    with browser(found[1]) as client:
        assert client.post("/api/login", json={"code": found[2]}).status_code == 204
        assert client.post("/api/workspaces", json={"path": str(started.data.parent)}).status_code == 200
        yield client


def begun(client: httpx.Client, agent: str, state: str, **more: Any) -> str:
    """A chat whose first turn has come to this state; its id."""
    chat: str = client.post("/api/chats", json={"agent": agent, **more}).json()["id"]
    assert client.post(f"/api/chats/{chat}/turns", json={"text": "Hello"}).status_code == 202
    until(lambda: client.get(f"/api/chats/{chat}/turns").json()["turns"][0]["state"] == state)
    return chat


@pytest.mark.slow
def test_chats_are_listed_stopped_exported_and_deleted(serve: Callable[..., Serve]) -> None:
    """The list says which agent works since when; an export has all; what is stopped or deleted is so for everybody."""
    started = serve("--port=0")
    with signed_in(started) as client:
        assert chats(started).stdout == "There are no chats.\n"
        done = begun(client, "scripted", "completed", title=HOSTILE)
        works = begun(client, "staying", "running")
        listed = chats(started)
        assert listed.returncode == 0, listed.stderr
        assert "\x1b" not in listed.stdout
        assert "\u202e" not in listed.stdout
        rows = {line.split()[-1]: line for line in listed.stdout.splitlines()}
        assert "works, " in rows[works]
        assert " idle " in rows[done]
        as_json = [json.loads(line) for line in chats(started, "--json").stdout.splitlines()]
        assert {it["id"]: it["state"] for it in as_json} == {works: "running", done: "idle"}

        until(lambda: client.get(f"/api/chats/{done}/turns").json()["turns"][0].get("finalized"))
        whole = [json.loads(line) for line in chats(started, "export", done).stdout.splitlines()]
        assert whole[0]["chat"]["title"] == client.get(f"/api/chats/{done}").json()["title"]
        turn = client.get(f"/api/chats/{done}/turns").json()["turns"][0]
        assert [it["turn"]["message"] for it in whole[1:]] == [turn["message"]]
        assert whole[1]["turn"]["prompt"] == "Hello"
        events = client.get(f"/api/chats/{done}/turns/1/details?format=ndjson").text.splitlines()
        assert whole[1]["events"] == [json.loads(line) for line in events]

        assert "stopped turns: 1" in chats(started, "stop", works).stdout
        until(lambda: client.get(f"/api/chats/{works}").json()["state"] == "idle")
        assert "nothing ran and nothing waited" in chats(started, "stop", works).stdout
        gone = chats(started, "delete", works)
        assert (gone.returncode, gone.stdout.startswith(f"deleted {works}")) == (0, True)
        assert [it["id"] for it in client.get("/api/chats").json()["chats"]] == [done]


@pytest.mark.slow
def test_archived_chats_are_listed_when_asked_for(serve: Callable[..., Serve]) -> None:
    """Those that work are listed like others; the rest with --archived alone."""
    started = serve("--port=0")
    with signed_in(started) as client:
        rests, works = begun(client, "scripted", "completed"), begun(client, "staying", "running")
        until(lambda: client.get(f"/api/chats/{rests}").json()["state"] == "idle")
        for chat in (rests, works):
            assert client.patch(f"/api/chats/{chat}", json={"archived": True}).json()["archived"]
        listed = chats(started, "--json").stdout.splitlines()
        assert [json.loads(line)["id"] for line in listed] == [works]
        assert rests not in chats(started).stdout
        (row,) = [line for line in chats(started, "--archived").stdout.splitlines() if rests in line]
        assert " archived " in row
        assert "stopped turns" in chats(started, "stop", works).stdout
        until(lambda: client.get(f"/api/chats/{works}").json()["state"] == "idle")
        assert chats(started).stdout == "There are no chats but archived ones: --archived lists them.\n"
        wrong = chats(started, "stop", works, "--archived")
        assert (wrong.returncode, "--archived is for the list" in wrong.stderr) == (2, True)


@pytest.mark.slow
def test_an_export_for_people(serve: Callable[..., Serve]) -> None:
    """As Markdown or HTML, with details or without; nothing in it acts on a terminal; wrong options are told."""
    started = serve("--port=0")
    with signed_in(started) as client:
        chat = begun(client, "scripted", "completed", title=HOSTILE)
        reply = client.get(f"/api/chats/{chat}/turns").json()["turns"][0]["message"]
        short = chats(started, "export", chat, "--to=markdown").stdout
        assert short.startswith("# evil \\<U+202E\\>title\n\nscripted in `")
        assert "\n> Hello\n" in short
        assert reply in short
        assert "### Steps" not in short
        assert "### Steps" in chats(started, "export", chat, "--to=markdown", "--details").stdout
        page = chats(started, "export", chat, "--to", "html", "--details").stdout
        assert page.startswith("<!doctype html>")
        assert "<details>" in page
        assert page.endswith("</html>\n")
        assert not set("\x1b\u202e") & set(page)
        for words, what in {
            ("export", chat, chat, "--to=html"): "is of one chat",
            ("export", chat, "--details"): "--details is for an export",
            ("export", chat, "--to=ndjson", "--details"): "--details is for an export",
            ("stop", chat, "--to=html"): "--to is for an export",
            ("export", chat, "--to=pdf"): "pdf",
            ("export", "f" * 32, "--to=html"): "no such chat",
        }.items():
            done = chats(started, *words)
            assert (done.returncode, done.stdout) == (2, ""), words
            assert what in done.stderr, words


@pytest.mark.slow
def test_a_wrong_id_changes_nothing(serve: Callable[..., Serve]) -> None:
    """All ids are looked up before a chat is deleted; one that leads elsewhere, or is missing, is an error."""
    started = serve("--port=0")
    with signed_in(started) as client:
        chat = begun(client, "scripted", "completed")
        for wrong in (["f" * 32], ["../../browsers"], ["%2e%2e"]):
            for action in ("delete", "stop", "export"):
                done = chats(started, action, chat, *wrong)
                assert (done.returncode, done.stdout) == (2, ""), action
                assert "Traceback" not in done.stderr
        assert "needs a chat" in chats(started, "delete").stderr
        assert "--json is for the list" in chats(started, "export", chat, "--json").stderr
        assert [it["id"] for it in client.get("/api/chats").json()["chats"]] == [chat]


@pytest.mark.slow
def test_an_export_has_turns_beyond_a_page(serve: Callable[..., Serve], monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns that are more than one request gives come in order, each once."""
    from penstock.chat.service.chats.chat_view import ChatView
    from penstock.cli import chats as command
    from penstock.cli.serve.client import ServerClient, ServerOptions

    started = serve("--port=0")
    with signed_in(started) as client:
        chat = begun(client, "scripted", "completed")
        for number in range(2, 6):
            client.post(f"/api/chats/{chat}/turns", json={"text": f"turn {number}"})
        until(lambda: client.get(f"/api/chats/{chat}").json()["state"] == "idle")
        monkeypatch.setattr(command, "PAGE_TURNS", 2)
        monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
        found = ServerClient(ServerOptions(data=started.data, token_file=None))
        view = found.ask("GET", f"/api/chats/{chat}", ChatView)
        lines = [json.loads(line) for line in command.exported(found, view)]
        assert [line["turn"]["turn"] for line in lines[1:]] == [1, 2, 3, 4, 5]
