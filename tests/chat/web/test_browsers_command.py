"""`penstock browsers`: who is signed in, as the operator of a server sees and ends it from its own machine."""

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

from penstock.chat.people import persons
from penstock.cli import main


def run(started: Serve, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command about the server."""
    environ = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
    command = [sys.executable, "-m", "penstock", *words, f"--data={started.data}"]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False)


def signed_in(started: Serve, url: str, *words: str) -> httpx.Client:
    """A browser that is signed in with a new link."""
    link = run(started, "link", *words).stdout.strip()
    client = browser(url)
    client.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
    assert client.post("/api/login", json={"code": link.partition("#code=")[2]}).status_code == 204
    return client


@pytest.mark.slow
def test_browsers_are_listed_and_signed_out(serve: Callable[..., Serve]) -> None:
    """One by its id, all of a person, and everybody's; an unknown id changes nothing."""
    started = serve("--port=0")
    found = LINK.fullmatch(started.line())
    assert found
    assert run(started, "browsers").stdout == "No browser is signed in.\n"
    persons.add(started.data, "ana", "member", 1)
    owner, other = (signed_in(started, found[1]) for _ in range(2))
    ana, phone = (signed_in(started, found[1], "--person=ana") for _ in range(2))
    try:

        def statuses() -> list[int]:
            return [it.get("/api/about").status_code for it in (owner, other, ana, phone)]

        assert statuses() == [200] * 4
        rows = run(started, "browsers").stdout.splitlines()
        assert rows[0].split() == ["used", "signed", "in", "person", "name", "browser"]
        assert sum("Firefox on Linux" in row for row in rows) == 4
        listed = [json.loads(line) for line in run(started, "browsers", "--json", "--person=ana").stdout.splitlines()]
        assert [it["person"] for it in listed] == ["ana", "ana"]
        wrong = run(started, "browsers", "sign-out", listed[0]["id"], "0123")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert statuses() == [200] * 4
        done = run(started, "browsers", "sign-out", listed[0]["id"])
        assert done.stdout == f"signed out {listed[0]['id']}  Firefox on Linux, ana\n"
        assert sorted(statuses()) == [200, 200, 200, 401]
        assert run(started, "browsers", "sign-out", "--person=ana").returncode == 0
        assert statuses() == [200, 200, 401, 401]
        assert run(started, "browsers", "sign-out", "--person=ana").stdout == "No browser is signed in.\n"
        assert run(started, "browsers", "sign-out", "--all").stdout == "signed out 2 of 2 browsers\n"
        assert statuses() == [401] * 4
    finally:
        for client in (owner, other, ana, phone):
            client.close()
    audited = run(started, "audit", "--json").stdout
    assert audited.count('"what":"revoke"') == 2
    assert '"everywhere":true' in audited


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sign-out"], "it is not clear who"),
        (["sign-out", "0f3a", "--all"], "it is not clear who"),
        (["sign-out", "--person=ana", "--all"], "it is not clear who"),
        (["sign-out", "../x"], "'../x' is not the id of a browser"),
        (["sign-out", "0f3a", "--json"], "--json is for the list"),
        (["--all"], "--all belongs to penstock browsers sign-out"),
        (["delete"], "delete"),
    ],
)
def test_words_that_do_not_fit(words: list[str], expected: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One line says what is wrong, before a server is asked."""
    assert main.main(["browsers", *words]) == 2
    error = capfd.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
