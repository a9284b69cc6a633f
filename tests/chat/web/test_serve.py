"""`penstock serve` as people start it: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serve_process import LINK, TOKEN, Serve, browser
from served import PLAIN, SECONDS
from viewer import Viewer
from waiting import until

from penstock.chat.web import sockets, static
from penstock.chat.web.server import Server
from penstock.chat.web.sockets import listen, listen_at_path
from penstock.cli.serve import server as serving
from penstock.config.data import data_directory
from penstock.errors import UsageError
from penstock.run.history import History


@pytest.mark.slow
def test_the_link_leads_to_a_chat(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """Who follows the link is logged in, and chats; a signal ends it all, and the next start has the chat."""
    started = serve("--port=0", "--agent=scripted")
    found = LINK.fullmatch(started.line())
    assert found
    with browser(found[1]) as client:
        assert client.get("/").status_code == 200
        assert client.get("/api/chats").status_code == 401
        assert client.post("/api/login", json={"code": found[2]}).status_code == 204
        assert client.post("/api/workspaces", json={"path": str(tmp_path)}).status_code == 200
        chat = client.post("/api/chats", json={}).json()["id"]
        viewer = Viewer()
        with client.stream("GET", f"/api/chats/{chat}/events?delta=1") as stream:
            pieces = stream.iter_raw()
            client.post(f"/api/chats/{chat}/turns", json={"text": "Hello"})
            while not viewer.is_quiet:
                viewer.feed(next(pieces))
            cookies = client.cookies
            started.process.send_signal(signal.SIGTERM)
            for piece in pieces:
                viewer.feed(piece)
        assert viewer.goodbye
    status, out, err = started.wait()
    assert (status, out) == (0, "")
    assert f"the token in {started.data / 'token'}" in err
    assert "Traceback" not in err
    assert viewer.turns[1]["outcome"] == "ok"
    assert [(run.kind, run.title) for run in History(started.data).runs()] == [("chat", "Hello")]

    again = serve(f"--port={found[1].rpartition(':')[2]}", "--agent=scripted")
    assert LINK.fullmatch(again.line())
    with browser(found[1], cookies=cookies) as client:  # a cookie outlives the restart
        [turn] = client.get(f"/api/chats/{chat}/turns").json()["turns"]
    assert turn["message"] == viewer.turns[1]["message"]


@pytest.mark.slow
def test_what_it_keeps_is_for_its_owner_alone(serve: Callable[..., Serve]) -> None:
    """The data directory and every file in it can be read by nobody else."""
    started = serve("--port=0")
    assert LINK.fullmatch(started.line())
    assert stat.S_IMODE(started.data.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in started.data.iterdir()}
    assert files["token"] == 0o600
    assert all(not mode & 0o077 for mode in files.values()), files


@pytest.mark.slow
def test_a_directory_that_others_can_read_is_closed(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """One that existed becomes private, and the user is notified."""
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data").chmod(0o755)
    started = serve("--port=0")
    assert LINK.fullmatch(started.line())
    assert stat.S_IMODE(started.data.stat().st_mode) == 0o700
    assert f"{started.data} could be read by others (mode 0755); now it cannot (0700)" in started.end()[2]


@pytest.mark.sample(72)
@pytest.mark.parametrize("name", [".profile", "home", "docs-of-mine", "history"])
@pytest.mark.slow
def test_a_directory_with_files_of_others_stays_open(serve: Callable[..., Serve], tmp_path: Path, name: str) -> None:
    """`--data /` or a home directory is an error: closed, nobody else could work on this machine."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    (data / name).touch()
    started = serve("--port=0")
    if name == "history":
        assert LINK.fullmatch(started.line())
        return
    status, _, err = started.wait()
    assert status == 2
    assert f"it has files that are not Penstock's, such as {name}; expected a directory of its own" in err
    assert f"--data {data}/penstock" in err
    assert stat.S_IMODE(data.stat().st_mode) == 0o755
    assert [path.name for path in data.iterdir()] == [name]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is that of Linux")
def test_the_environment_of_the_server_has_no_secret(serve: Callable[..., Serve]) -> None:
    """Not even that with which it was started, which root can read."""
    started = serve("--port=0", PENSTOCK_TOKEN=TOKEN)
    assert LINK.fullmatch(started.line())
    environ = Path(f"/proc/{started.process.pid}/environ")
    if os.getuid() == 0:
        assert b"HOME=" in environ.read_bytes()
        assert TOKEN.encode() not in environ.read_bytes()
    else:
        with pytest.raises(PermissionError):
            environ.read_bytes()


@pytest.mark.slow
def test_ctrl_c_ends_it_while_an_agent_works(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """Ctrl-C kills what runs; the turn is marked, and nothing of it runs again."""
    started = serve("--port=0", "--agent=staying")
    found = LINK.fullmatch(started.line())
    assert found
    token = {"Authorization": f"Bearer {(started.data / 'token').read_text().strip()}"}
    with httpx.Client(base_url=found[1], headers=token, timeout=SECONDS, verify=PLAIN) as client:
        client.post("/api/workspaces", json={"path": str(tmp_path)})
        chat = client.post("/api/chats", json={}).json()["id"]
        client.post(f"/api/chats/{chat}/turns", json={"text": "Hello"})
        until(lambda: client.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("model"))
    status, _, err = started.end(signal.SIGINT)
    assert status == 130
    assert "Traceback" not in err
    again = serve("--port=0")
    found = LINK.fullmatch(again.line())
    assert found
    with httpx.Client(base_url=found[1], headers=token, timeout=SECONDS, verify=PLAIN) as client:
        [turn] = client.get(f"/api/chats/{chat}/turns").json()["turns"]
    assert (turn["state"], turn["outcome"]) == ("completed", "cut_off")


@pytest.mark.slow
def test_its_data_belongs_to_one(serve: Callable[..., Serve]) -> None:
    """A second one with the same data says so in one line, and leaves the first alone."""
    first = serve("--port=0")
    found = LINK.fullmatch(first.line())
    assert found
    status, out, err = serve("--port=0").wait()
    assert (status, out) == (2, "")
    assert err.startswith("penstock: ")
    assert len(err.splitlines()) == 1
    assert httpx.get(f"{found[1]}/healthz").status_code == 200


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused(serve: Callable[..., Serve]) -> None:
    """One that was named is not exchanged for another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, out, err = serve(f"--port={port}").wait()
    assert (status, out) == (2, "")
    assert err.startswith(f"penstock: port {port} of 127.0.0.1 is taken; ")


@pytest.mark.sample(54)
@pytest.mark.parametrize(
    ("flags", "env", "told"),
    [
        (["--host=0.0.0.0"], {}, "0.0.0.0 can be reached by other machines; expected the name"),
        (["--host=0.0.0.0", "--allow-host=a.example"], {}, "expected a token that you chose: PENSTOCK_TOKEN, or"),
        (["--host=::", "--allow-host=a.example"], {}, "expected a token that you chose"),
        (["--host=nowhere.invalid"], {}, "'nowhere.invalid' is not an address of this machine"),
        (["--host=203.0.113.7", "--allow-host=a"], {"PENSTOCK_TOKEN": TOKEN}, "203.0.113.7, port 0, cannot be bound"),
        ([], {"PENSTOCK_TOKEN": "short"}, "the token of PENSTOCK_TOKEN cannot be used; expected at least 32"),
        (["--token-file=none"], {}, "the token in none cannot be read: No such file"),
        (["--allow-host=a b"], {}, "'a b' is not a host"),
        (["--allow-origin=a.example"], {}, "'a.example' is not an origin"),
        (["--allow-origin=*"], {}, "'*' is not an origin"),
        (["--root=none"], {}, "the root 'none' is not a directory"),
        (["--agent=claud"], {}, "there is no agent 'claud' to chat with"),
        (["--data=/dev/null/x"], {}, "the data directory /dev/null/x cannot be used: Not a directory"),
        (["--port=70000"], {}, "argument --port: expected a whole number from 0 to 65535"),
        (["--max-runs=0"], {}, "argument --max-runs: expected a whole number from 1"),
        (["--max-chats=0"], {}, "argument --max-chats: expected a whole number from 1"),
        (["--keep-days=-1"], {}, "argument --keep-days: expected a number above 0"),
        (["--keep-size=x"], {}, "argument --keep-size: expected a number above 0"),
        (["--keep-days=1e9"], {}, "argument --keep-days: expected a number above 0 and below"),
        (["--keep-days=nan"], {}, "argument --keep-days: expected a number above 0"),
        (["--port=١٢"], {}, "argument --port: expected a whole number"),
        (["--port="], {}, "argument --port: expected a whole number"),
        (["--host="], {}, "'' is not an address of this machine"),
        (["--host=::1%nope"], {}, "'::1%nope' is not an address of this machine"),
        (["--uds=" + "x" * 300], {}, "cannot be bound: File name too long"),
        (["--uds=" + "x" * 200], {}, "cannot be bound: AF_UNIX path too long"),
        (["--uds=/dev/null/x"], {}, "/dev/null/x cannot be bound: Not a directory"),
        (["--uds="], {}, "argument --uds: expected a path"),
        (["--data="], {}, "argument --data: expected a path"),
        (["--data=" + "x" * 300], {}, "cannot be used: File name too long"),
        (["--root="], {}, "argument --root: expected a path"),
        (["--root=" + "x" * 5000], {}, "is not a directory"),
        (["--token-file="], {}, "argument --token-file: expected a path"),
        (["--token-file=."], {}, "the token in . cannot be read: Is a directory"),
        (["--agent=\udcff"], {}, "to chat with"),
        (["--env=KEY=secret"], {}, "argument --env: expected the name of a variable"),
        (["more"], {}, "unrecognized arguments: more"),
    ],
)
@pytest.mark.slow
def test_what_it_refuses(serve: Callable[..., Serve], flags: list[str], env: dict[str, str], told: str) -> None:
    """What cannot be done as asked is told in words, with status 2, and nothing is served."""
    status, out, err = serve("--port=0", *flags, **env).wait()
    assert (status, out) == (2, ""), err
    assert told in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_it_is_open_to_others_when_told_so(serve: Callable[..., Serve]) -> None:
    """With a name and a token that somebody chose it listens for other machines, and warns; the token is the chosen."""
    started = serve("--host=0.0.0.0", "--port=0", "--allow-host=Penstock.example", PENSTOCK_TOKEN=TOKEN)
    found = re.fullmatch(r"http://penstock\.example:(\d+)/#code=[\w-]+\n", started.line())
    assert found
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "penstock.example"}
    assert httpx.get(f"http://127.0.0.1:{found[1]}/api/about", headers=headers).status_code == 200
    headers["Host"] = "0.0.0.0"
    assert httpx.get(f"http://127.0.0.1:{found[1]}/api/about", headers=headers).status_code == 421
    status, _, err = started.end()
    assert status == 0
    assert "penstock: warning: 0.0.0.0 can be reached by other machines" in err
    assert TOKEN not in err
    assert not (started.data / "token").exists()


@pytest.mark.slow
def test_a_unix_socket_is_for_its_owner_and_group(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """It takes the place of one that was left behind, is for no stranger, and goes with the server."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    started = serve(f"--uds={path}", "--allow-host=penstock.example")
    assert started.line().startswith("https://penstock.example/#code=")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://penstock.example") as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
        with pytest.raises(UsageError, match="something listens at"):
            listen_at_path(path)
    assert started.end()[0] == 0
    assert not path.exists()


def test_a_file_is_not_taken_for_a_socket(tmp_path: Path) -> None:
    """What is there and is no socket is left alone."""
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is there already, and is not a socket"):
        listen_at_path(path)
    assert path.read_text() == "mine"


@pytest.mark.slow
def test_the_browser_is_opened_without_a_secret_in_its_words(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """Everybody can see the words of a command: the link is in a file, that only its owner can read, for a while."""
    seen = tmp_path / "seen"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" > {seen}.part\nmv {seen}.part {seen}\n')
    program.chmod(0o700)
    started = serve("--port=0", "--open", BROWSER=f"{program} %s")
    found = LINK.fullmatch(started.line())
    assert found
    until(seen.exists)
    words = seen.read_text()
    assert found[2] not in words
    opened = started.data / "open.html"
    assert words.strip() == opened.as_uri()
    assert stat.S_IMODE(opened.stat().st_mode) == 0o600
    assert found[0].strip() in opened.read_text()
    started.end()
    assert not opened.exists()


@pytest.mark.slow
def test_requests_are_logged_where_it_is_asked_for(serve: Callable[..., Serve]) -> None:
    """`--log` gives a line for each request, with nothing in it that somebody wrote."""
    started = serve("--port=0", "--log")
    found = LINK.fullmatch(started.line())
    assert found
    httpx.get(f"{found[1]}/api/chats/0f8e?secret=1", headers={"Authorization": "Bearer secret"})
    with httpx.Client(base_url=found[1], headers={"Origin": found[1]}) as browser:
        assert browser.post("/api/login", json={"code": found[2]}).status_code == 204
        assert browser.get("/api/chats/0f8e?secret=1").status_code == 404
    _, _, err = started.end()
    at = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"^penstock: {at} GET nothing 401 in \d+ ms$", err, re.MULTILINE)
    assert re.search(rf"^penstock: {at} GET /api/chats/{{chat}} 404 in \d+ ms by owner chat 0f8e$", err, re.MULTILINE)
    assert "secret" not in err
    assert found[2] not in err


# --- parts ---


def test_without_a_page_it_says_so(tmp_path: Path) -> None:
    """A copy of Penstock whose page was not built tells how to come by one."""
    for made in ((), ("index.html",)):
        for name in made:
            (tmp_path / name).write_text("")
        with pytest.raises(UsageError, match=r"the page was not built .* or run make page"):
            static.PageFiles(tmp_path)


def test_the_next_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the usual port is taken and none was asked for, it is the next that is free; or none is."""
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = taken.getsockname()[1]
        monkeypatch.setattr(sockets, "PORT", port)
        place = listen("127.0.0.1", None)
        stack.callback(place.close)
        found = place.sockets[0].getsockname()[1]
        assert port < found < port + sockets.OTHER_PORTS
        assert (place.url, place.cookie) == (f"http://127.0.0.1:{found}", f"penstock_{found}")
        monkeypatch.setattr(sockets, "OTHER_PORTS", 1)
        with pytest.raises(UsageError, match="is taken; end what uses it"):
            listen("127.0.0.1", None)


def test_the_loopback_has_two_families() -> None:
    """`localhost` is listened at in each family that it has, at one port."""
    place = listen("localhost", 0)
    try:
        assert len({one.getsockname()[1] for one in place.sockets}) == 1
        assert {one.getsockname()[0] for one in place.sockets} <= {"127.0.0.1", "::1"}
        assert place.url == f"http://localhost:{place.sockets[0].getsockname()[1]}"
    finally:
        place.close()


def test_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is in the place for data, and made private; one that others can write into is refused."""
    monkeypatch.delenv("PENSTOCK_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "named"))
    assert data_directory(None) == tmp_path / "named"
    assert data_directory(tmp_path / "flag") == tmp_path / "flag"
    monkeypatch.delenv("PENSTOCK_DATA")
    assert data_directory(None) == tmp_path / "xdg" / "penstock"
    (tmp_path / "xdg" / "penstock").chmod(0o755)
    assert stat.S_IMODE(data_directory(None).stat().st_mode) == 0o700
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_directory(None) == tmp_path / ".local" / "share" / "penstock"
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match="others can write into the data directory"):
        data_directory(tmp_path / "open")


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one begins the end, the second is it."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)

    async def end() -> None:
        pass

    server = Server(None, end)  # type: ignore[arg-type]
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.ended_by, ended) == (True, signal.SIGTERM, [])
    server.handle_exit(signal.SIGINT, None)
    assert ended == [130]


def test_the_token_leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent finds it there."""
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    assert serving._take_token() == TOKEN
    assert "PENSTOCK_TOKEN" not in os.environ
    assert serving._take_token() is None


@pytest.mark.sample(4)
@pytest.mark.parametrize("command", [["--version"], ["agents"], ["config"], ["read", os.devnull]])
def test_other_commands_know_nothing_of_it(command: list[str]) -> None:
    """What serves is imported by nothing else."""
    words = [sys.executable, "-X", "importtime", "-m", "penstock", *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    imported = {line.split("|")[-1].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert imported.isdisjoint({"starlette", "uvicorn", "h11", "anyio", "asyncio", "sqlite3"})
