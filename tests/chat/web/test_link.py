"""Links to sign in: printed in a terminal or on request, and made by `penstock link` for who has the token."""

from __future__ import annotations

import os
import pty
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serve_process import LINK, SERVE, TOKEN, Serve, browser
from served import AGENTS, SECONDS
from waiting import until


def link(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `penstock link`."""
    command = [sys.executable, "-m", "penstock", "link", *words]
    environ = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
    return subprocess.run(command, capture_output=True, text=True, env={**environ, **env}, timeout=SECONDS, check=False)


def serving(started: Serve) -> str:
    """What a server says once it serves."""
    assert started.process.stderr is not None
    line = ""
    while "penstock link" not in line:
        line = started.process.stderr.readline()
        assert line, "it ended"
    return line


@pytest.mark.slow
def test_no_link_is_in_a_log(serve: Callable[..., Serve]) -> None:
    """Without a terminal the log has no code; `penstock link` prints one, which works once, and a new one each time."""
    started = serve("--port=0", prints_link=False)
    assert f"penstock link --data {started.data}" in serving(started)
    assert stat.S_IMODE((started.data / "serving.json").stat().st_mode) == 0o600
    codes = set()
    for _ in range(2):
        done = link(f"--data={started.data}")
        assert done.returncode == 0, done.stderr
        found = LINK.fullmatch(done.stdout)
        assert found
        codes.add(found[2])
        with browser(found[1]) as client:
            assert client.post("/api/login", json={"code": found[2]}).status_code == 204
            assert client.post("/api/login", json={"code": found[2]}).status_code == 401
    assert len(codes) == 2
    status, out, err = started.end()
    assert (status, out) == (0, "")
    assert "code" not in err


@pytest.mark.slow
def test_a_server_that_ended_gets_no_token(serve: Callable[..., Serve]) -> None:
    """Whoever has its port now is not asked."""
    started = serve("--port=0")
    found = LINK.fullmatch(started.line())
    assert found
    started.process.kill()
    started.process.wait()
    with socket.create_server(("127.0.0.1", int(found[1].rpartition(":")[2]))) as stranger:
        stranger.settimeout(0)
        done = link(f"--data={started.data}")
        assert (done.returncode, done.stdout) == (2, "")
        assert "no server runs with the data directory" in done.stderr
        with pytest.raises(BlockingIOError):
            stranger.accept()


@pytest.mark.slow
def test_a_token_of_the_environment(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """It is not in a file: the command needs it too, or a file with it; a wrong one is named as such."""
    started = serve("--port=0", prints_link=False, PENSTOCK_TOKEN=TOKEN)
    serving(started)
    data = f"--data={started.data}"
    assert "PENSTOCK_TOKEN" in link(data).stderr
    assert LINK.fullmatch(link(data, PENSTOCK_TOKEN=TOKEN).stdout)
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    assert LINK.fullmatch(link(data, f"--token-file={file}").stdout)
    assert "the token is not that of the server" in link(data, PENSTOCK_TOKEN=f"{TOKEN}x").stderr


@pytest.mark.slow
def test_a_unix_socket(serve: Callable[..., Serve], tmp_path: Path) -> None:
    """The link has the address that people use."""
    started = serve(f"--uds={tmp_path / 'socket'}", "--allow-host=penstock.example", prints_link=False)
    serving(started)
    done = link(f"--data={started.data}")
    assert re.fullmatch(r"https://penstock\.example/#code=[\w-]+\n", done.stdout), done.stderr


@pytest.mark.slow
def test_a_terminal_gets_the_link(tmp_path: Path, page: Path) -> None:
    """A person who starts the server sees it, also with stdout in a pipe."""
    (tmp_path / "agents.toml").write_text(AGENTS)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(page), "--port=0", f"--data={tmp_path / 'data'}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        found = LINK.fullmatch(process.stdout.readline())
        assert found
        until(lambda: httpx.get(f"{found[1]}/healthz").status_code == 200)
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
        os.close(theirs)
