"""The files of docs/deploy.md: two nodes behind nginx and Caddy, by the very texts of the page, and systemd's units.

The texts get the ports, paths and certificate of the test, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGKILL
from typing import Any

import httpx
import pytest
from machines import SECONDS, Cluster, Machine
from restarts import free_port
from waiting import until

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
HOST = "chat.example.org"
NODES = ["10.0.0.11:8377", "10.0.0.12:8377"]
STREAMS = 6


def _blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(found) == 2, "one for a single machine, one for several"
    return found


def _replaced(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def _needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (on Debian and Ubuntu: apt install {program})")


class Node(Machine):
    """A machine that is started with the command of the unit."""

    def start(self, *, waits: bool = True) -> None:
        """Start it, and wait until it answers."""
        command = re.search(r"^ExecStart=\S*/penstock ((?:.*\\\n)*.*)$", _blocks("ini")[1], re.MULTILINE)
        assert command is not None
        (self.folder / "store").write_text(self._url)
        (self.folder / "token").write_text(f"token-of-{self.name}-of-forty-characters-or-more\n")
        (self.folder / "token").chmod(0o600)
        changes = {"10.0.0.11": "127.0.0.1", "8377": str(self.port), "paris": self.name, "/srv/shop": str(self.work)}
        changes |= {f"/etc/penstock/{file}": str(self.folder / file) for file in ("store", "token")}
        words = shlex.split(
            _replaced(command[1].replace("\\\n", " "), changes | {"/var/lib/penstock": str(self.folder / "data")})
        )
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", *words],
                env={**os.environ, "PENSTOCK_CONFIG": str(self.folder / "config.toml")},
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        until(self.answers, f"the node {self.name} answers")

    def client(self) -> httpx.Client:
        """A program that has its token."""
        bearer = {"Authorization": f"Bearer {(self.folder / 'token').read_text().strip()}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=bearer, timeout=SECONDS, trust_env=False)


class Front:
    """A reverse proxy with TLS, and two nodes behind it."""

    def __init__(self, cluster: Cluster) -> None:
        self.folder = cluster.folder / "front"
        self.folder.mkdir()
        self.port = free_port()
        self.nodes = [Node(cluster, name, works=True, url=cluster.url) for name in ("paris", "oslo")]
        cluster.machines += self.nodes
        for node in self.nodes:
            node.start()
        self.nodes[0].post("/api/workspaces", {"path": str(self.nodes[0].work)})
        subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
        files = ["-keyout", "privkey.pem", "-out", "fullchain.pem"]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *subject]
        subprocess.run(made, cwd=self.folder, check=True, capture_output=True)
        self._context = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
        self._process: subprocess.Popen[bytes] | None = None

    def addresses(self) -> dict[str, str]:
        """The addresses of the page's nodes, and those of these ones, by which a request may not name them either."""
        return {old: f"[::ffff:127.0.0.1]:{node.port}" for old, node in zip(NODES, self.nodes, strict=True)}

    def start(self, command: list[str]) -> None:
        """Start the proxy, and wait until it passes requests on."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        until(self._passes, "the proxy answers")

    def close(self) -> None:
        """End the proxy."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(SECONDS)

    def client(self) -> httpx.Client:
        """A program that has the token of one node, at the proxy."""
        token = (self.nodes[0].folder / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Host": HOST}
        url = f"https://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, headers=headers, timeout=SECONDS, trust_env=False, verify=self._context)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request by a connection of its own."""
        with self.client() as client:
            return client.request(method, path, extensions={"sni_hostname": HOST}, **more)

    def _passes(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            return self.request("GET", "/healthz").status_code == 200
        except httpx.TransportError:
            return False


class Stream:
    """A viewer of a chat, who connects again after each end with the number of the last frame."""

    def __init__(self, front: Front, chat: str) -> None:
        self.frames: list[tuple[int, dict[str, Any]]] = []
        self.connections = 0
        self._front = front
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(f"/api/chats/{chat}/events",), daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether it has the end of the turn."""
        return any(frame["type"] == "finalized" for _, frame in self.frames)

    def _read(self, path: str) -> None:
        while not self.has_ended and not self._ends.wait(0.1):
            last = {"Last-Event-ID": str(self.frames[-1][0])} if self.frames else {}
            try:
                with (
                    self._front.client() as client,
                    client.stream("GET", path, headers=last, extensions={"sni_hostname": HOST}) as answer,
                ):
                    self.connections += answer.status_code == 200
                    self._take(answer.iter_lines())
            except httpx.TransportError:
                pass  # its node or its proxy ended the connection

    def _take(self, lines: Iterator[str]) -> None:
        number = self.frames[-1][0] if self.frames else 0  # a frame without one has that of the frame before
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
            elif name == "data":
                self.frames.append((number, json.loads(value)))
            if self.has_ended or self._ends.is_set():
                return

    def close(self) -> None:
        """Watch no longer."""
        self._ends.set()


def _nginx(folder: Path, block: str) -> list[str]:
    """Write the settings around a server of nginx; return the command that starts it."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    user = "user root;" if os.getuid() == 0 else ""
    around = f"{user} daemon off; pid {folder / 'pid'}; error_log stderr; events {{}}"
    (folder / "nginx.conf").write_text(f"{around}\nhttp {{ access_log off; {places}\n{block} }}")
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def _caddy(folder: Path, block: str) -> list[str]:
    """Write the settings of Caddy; return the command that starts it."""
    options = f"{{\n admin off\n auto_https disable_redirects\n storage file_system {folder}\n}}\n"
    (folder / "Caddyfile").write_text(options + block)
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


def _command(front: Front, program: str) -> list[str]:
    files = {name: str(front.folder / name) for name in ("fullchain.pem", "privkey.pem")}
    if program == "nginx":
        changes = {"listen 443": f"listen 127.0.0.1:{front.port}"}
        changes |= {f"/etc/letsencrypt/live/{HOST}/{name}": file for name, file in files.items()}
        return _nginx(front.folder, _replaced(_blocks("nginx")[1], front.addresses() | changes))
    own = f"https://{HOST}:{front.port} {{\n    bind 127.0.0.1\n    tls {' '.join(files.values())}\n"
    return _caddy(front.folder, _replaced(_blocks("caddyfile")[1], front.addresses() | {f"{HOST} {{\n": own}))


@pytest.mark.parametrize("program", ["nginx", "caddy"])
def test_two_nodes_behind_a_proxy(cluster: Cluster, program: str) -> None:
    """Streams are not held back, and continue at another node when theirs is killed; requests go to one that lives."""
    _needs(program)
    with closing(Front(cluster)) as front:
        front.start(_command(front, program))
        answer = front.request("GET", "/")
        assert answer.status_code == 200
        assert "<html" in answer.text
        assert front.request("GET", "/", headers={"Host": "elsewhere.example.org"}).text != answer.text
        chat = front.nodes[0].chat("held")
        _check_bodies(front, chat)
        _check_requests(front)
        _check_streams(front, chat)


def _check_bodies(front: Front, chat: str) -> None:
    assert front.request("POST", f"/api/chats/{chat}/turns", json={"text": "x" * 500_000}).status_code == 202
    rejected = front.request("POST", f"/api/chats/{chat}/turns", json={"text": "x" * 1_900_000})
    assert rejected.status_code == 413  # by the proxy, or by the node


def _check_requests(front: Front) -> None:
    """Requests of one client, which go to one node after the other, each find what those before them did."""
    for _ in range(10):
        made = front.request("POST", "/api/chats", json={"agent": "quick", "home": "paris"})
        assert made.status_code == 201, made.text
        path = made.headers["location"]
        assert front.request("GET", path).status_code == 200
        assert front.request("POST", f"{path}/turns", json={"text": "hi"}).json() == {"turn": 1}
        assert [turn["turn"] for turn in front.request("GET", f"{path}/turns").json()["turns"]] == [1]
        assert front.request("GET", f"{path}/turns/1/details").status_code == 200
        assert front.request("POST", f"{path}/stop", json={"turn": 1}).status_code == 202


def _check_streams(front: Front, chat: str) -> None:
    streams = [Stream(front, chat) for _ in range(STREAMS)]
    until(lambda: all(stream.frames for stream in streams), "what is there comes while the stream is open")
    front.nodes[1].end(SIGKILL)
    assert [front.request("GET", "/api/chats").status_code for _ in range(20)] == [200] * 20
    until(lambda: sum(stream.connections for stream in streams) > STREAMS, "viewers connect again")
    front.nodes[0].cluster.gate.touch()
    until(lambda: all(stream.has_ended for stream in streams), "all see the end")
    for stream in streams:
        numbers = [number for number, _ in stream.frames]
        assert numbers == sorted(numbers)
        assert [frame["type"] for _, frame in stream.frames].count("snapshot") == 1
    front.nodes[1].start()


@pytest.mark.parametrize("number", [0, 1])
def test_the_units_are_valid(tmp_path: Path, number: int) -> None:
    """Systemd accepts the units: it knows each setting, and each value."""
    _needs("systemd-analyze")
    unit = _replaced(_blocks("ini")[number], {"/opt/penstock/bin/penstock": sys.executable})
    file = tmp_path / "penstock.service"
    file.write_text(unit)
    command = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "penstock.service" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
