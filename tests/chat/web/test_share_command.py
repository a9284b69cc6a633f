"""`penstock share`: links of single chats, made, listed and revoked on the machine of the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import httpx
import pytest
from serve_process import LINK, Serve, browser
from served import SECONDS


def share(started: Serve, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `penstock share`."""
    environ = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
    command = [sys.executable, "-m", "penstock", "share", *words, f"--data={started.data}"]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False)


@pytest.mark.slow
def test_links_are_made_listed_and_revoked(serve: Callable[..., Serve]) -> None:
    """The link that is printed shows the chat until it is revoked; the address of the page says nothing without it."""
    started = serve("--port=0")
    found = LINK.fullmatch(started.line())
    assert found
    with browser(found[1]) as client:
        assert client.post("/api/login", json={"code": found[2]}).status_code == 204
        assert client.post("/api/workspaces", json={"path": str(started.data.parent)}).status_code == 200
        chat: str = client.post("/api/chats", json={"agent": "scripted", "title": "pelican"}).json()["id"]
    assert share(started, "list").stdout == "No chat is shared.\n"
    made = share(started, chat, "--days=1", "--details")
    assert made.returncode == 0, made.stderr
    assert "it is shown this once" in made.stderr
    place, _, code = made.stdout.strip().partition("#")
    assert place == f"{found[1]}/s"
    page = httpx.get(place, trust_env=False)
    assert (page.status_code, "pelican" in page.text) == (200, False)
    assert page.headers["referrer-policy"] == "no-referrer"
    reading = {"headers": {"X-Penstock-Share": code}, "trust_env": False}
    shown = httpx.get(f"{found[1]}/api/shared", **reading)  # type: ignore[arg-type]
    assert (shown.json()["title"], shown.json()["details"]) == ("pelican", True)
    (row,) = share(started, "list").stdout.splitlines()[1:]
    assert "the chat, with details" in row
    (listed,) = map(json.loads, share(started, "list", "--json").stdout.splitlines())
    assert (listed["chat"], listed["id"]) == (chat, row.split()[-1])
    unknown = share(started, "revoke", "0" * 16, listed["id"])
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)
    assert share(started, "revoke", listed["id"]).stdout == f"revoked {listed['id']}\n"
    assert httpx.get(f"{found[1]}/api/shared", **reading).status_code == 404  # type: ignore[arg-type]
    missing = share(started, "0" * 32)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "there is no such chat" in missing.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["revoke"], "needs a share"),
        (["list", "0f3a"], "is one argument too many"),
        (["0f3a", "17be"], "is one argument too many"),
        (["list", "--details"], "belong to penstock share CHAT"),
        (["revoke", "0f3a", "--json"], "--json is for shares"),
        (["what"], "'what' is not the id of a chat"),
        (["revoke", "../x"], "'../x' is not the id of a share"),
    ],
)
def test_words_that_do_not_fit(words: list[str], expected: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One line says what is wrong, before a server is asked."""
    from penstock.cli import main

    assert main.main(["share", *words]) == 2
    error = capfd.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
