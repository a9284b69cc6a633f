"""People whom a reverse proxy signs in: the real nginx with a stand-in for an identity provider; and everybody else.

nginx gets the text of docs/deploy.md, with the ports and paths of the test.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM
from typing import Any

import httpx
import pytest
from served import PLAIN, PLAYER, RECORDINGS, SECONDS
from starlette.requests import Request
from waiting import until

from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, records
from penstock.chat.people.persons import People
from penstock.chat.web.trusted_proxy import RejectedProxy, trusted_proxy
from penstock.cli import main
from penstock.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"
HOST = "chat.example.org"
SECRET = "the-secret-of-a-proxy-in-the-tests-0123456789"
PROXY_USER = "www-data"
SSO = {"cookie-of-ana": "ana", "cookie-of-olga": "olga", "cookie-of-owner": "owner", "cookie-of-nobody": "zoe"}
"""Cookies of the identity provider, and whom each is of. Penstock does not know the last one."""

PROVIDER = """
    map $cookie_sso $sso_user {{ default ""; {users} }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            if ($sso_user = "") {{ return 401; }}
            add_header Remote-User $sso_user always;
            return 204;
        }}
    }}
"""

MAIN = """
daemon off;
user {user} root;
pid nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {provider}
    {server}
}}
"""

AS = """
import os, socket, sys
os.setgroups([]); os.setgid(0); os.setuid(int(sys.argv[1]))
one = socket.socket(socket.AF_UNIX); one.settimeout(20); one.connect(sys.argv[2])
one.sendall(sys.stdin.buffer.read())
answer = b""
while data := one.recv(65536): answer += data
sys.stdout.buffer.write(answer)
"""
"""Program that sends its input to a Unix socket as another user, of the group of the socket."""


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def request(*headers: str, method: str = "GET", path: str = "/api/about") -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


class Front:
    """A server, and nginx before it. `at_socket`: they speak over a Unix socket."""

    def __init__(self, folder: Path, *, at_socket: bool) -> None:
        self.folder, self.at_socket = folder, at_socket
        self.data, self.socket, self.port = folder / "data", folder / "penstock.sock", free_port()
        self.front = free_port()
        self.data.mkdir(mode=0o700)
        persons.add(self.data, "ana", "member", 1)
        persons.add(self.data, "olga", "owner", 1)
        (folder / "secret").write_text(SECRET + "\n")
        (folder / "secret").chmod(0o600)
        player = [sys.executable, "-S", str(PLAYER), str(RECORDINGS / "text"), "--speed=0", "--lines=1", "--stay"]
        agents = "\n".join(["[agents.staying]", f"command = {player}".replace("'", '"'), 'adapter = "claude"'])
        (folder / "agents.toml").write_text(agents)
        place = [f"--uds={self.socket}", f"--proxy={PROXY_USER}"]
        if not at_socket:
            place = [f"--port={self.port}", "--proxy=127.0.0.1", f"--proxy-secret-file={folder / 'secret'}"]
        command = [sys.executable, "-m", "penstock", "serve", f"--data={self.data}", f"--root={folder}", *place]
        command += ["--person-header=Remote-User", f"--allow-host={HOST}", "--agent=staying"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        environ |= {"HOME": str(folder), "PENSTOCK_CONFIG": str(folder / "agents.toml"), "PENSTOCK_SANDBOX": "off"}
        self.log = (folder / "log").open("ab")
        self.processes = [subprocess.Popen(command, env=environ, cwd=folder, stdout=self.log, stderr=self.log)]
        (folder / "nginx.conf").write_text(self._config())
        nginx = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
        self.processes.append(subprocess.Popen(nginx, stdout=self.log, stderr=self.log))
        until(self._answers, "nginx and the server answer")

    def _config(self) -> str:
        provider = free_port()
        (block,) = re.findall(r"^```conf\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        changes = {"listen 443 ssl": f"listen 127.0.0.1:{self.front}", "127.0.0.1:9091": f"127.0.0.1:{provider}"}
        if self.at_socket:
            changes["unix:/run/penstock/penstock.sock"] = f"unix:{self.socket}"
        else:
            changes["unix:/run/penstock/penstock.sock"] = f"127.0.0.1:{self.port}"
            line = '# over a port, also:  proxy_set_header X-Penstock-Proxy "THE SECRET"'
            changes[line] = f'proxy_set_header X-Penstock-Proxy "{SECRET}"'
        for old, new in changes.items():
            assert old in block, old
            block = block.replace(old, new)
        block = re.sub(r"^\s*ssl_\w+ .*\n", "", block, flags=re.MULTILINE)
        users = " ".join(f"{cookie} {name};" for cookie, name in SSO.items())
        made = PROVIDER.format(port=provider, users=users)
        return MAIN.format(user=PROXY_USER, provider=made, server=block)

    def _answers(self) -> bool:
        assert all(process.poll() is None for process in self.processes), (self.folder / "log").read_text()
        try:
            with self.client("ana") as client:
                return client.get("/api/about").status_code == 200
        except httpx.TransportError:
            return False

    def client(self, person: str | None, **headers: str) -> httpx.Client:
        """A browser at nginx that the identity provider knows as this person."""
        url = f"http://127.0.0.1:{self.front}"
        cookie = {"Cookie": next(f"sso={cookie}" for cookie, name in SSO.items() if name == person)} if person else {}
        given = {"Host": HOST, **cookie, **headers}
        return httpx.Client(base_url=url, headers=given, timeout=SECONDS, trust_env=False, verify=PLAIN)

    def raw(self, data: bytes, *, uid: int = 0) -> str:
        """What the server itself answers to these bytes, by the status and the body; `uid`: user of who sends them."""
        if self.at_socket:
            command = [sys.executable, "-c", AS, str(uid), str(self.socket)]
            answer = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=True).stdout
        else:
            with socket.create_connection(("127.0.0.1", self.port), SECONDS) as one:
                one.sendall(data)
                answer = b""
                while piece := one.recv(65536):
                    answer += piece
        return answer.decode()

    def status(self, *headers: str, uid: int = 0, **options: Any) -> int:
        """The status of what the server itself answers."""
        return int(self.raw(request(*headers, **options), uid=uid).split()[1])

    def refused(self) -> list[dict[str, Any]]:
        """What the record has of headers that were rejected."""
        return [it.details for it in records(self.data / AUDIT) if it.what == "proxy" and it.status == 403]

    def close(self) -> None:
        """End both."""
        for process in reversed(self.processes):
            process.send_signal(SIGTERM)
        for process in self.processes:
            process.wait(SECONDS)
        self.log.close()


@pytest.fixture(scope="module", params=["socket", "port"])
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    """A server behind nginx."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed (on Debian and Ubuntu: apt install nginx-light)")
    if os.geteuid() != 0 or not any(it.pw_name == PROXY_USER for it in pwd.getpwall()):
        pytest.skip(f"only root can start a proxy with another user ({PROXY_USER})")
    folder = Path(tempfile.mkdtemp(prefix="penstock-proxy-"))
    folder.chmod(0o710)  # the proxy's group reaches the socket, as in /run/penstock
    made = Front(folder, at_socket=request.param == "socket")
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.mark.slow
def test_the_proxy_signs_people_in(front: Front) -> None:
    """Each is who the identity provider says, with their role and without a cookie; others are sent away."""
    for person, role in (("ana", "member"), ("olga", "owner")):
        with front.client(person) as client:
            answer = client.get("/api/about")
            assert answer.json()["person"] == {"name": person, "role": role}
            assert "set-cookie" not in answer.headers
            assert client.get("/metrics").status_code == (200 if role == "owner" else 403)
    with front.client(None) as client:
        assert client.get("/api/about").status_code == 401
    before = len(front.refused())
    for person in ("owner", "zoe"):
        with front.client(person) as client:
            assert client.get("/api/about").status_code == 403
    assert [it["named"] for it in front.refused()[before:]] == ["owner", "zoe"]


@pytest.mark.slow
def test_nobody_is_another_person_at_the_proxy(front: Front) -> None:
    """What a browser sends as the header does not reach the server; nor does it help where there is no login."""
    with front.client("ana", **{"Remote-User": "olga", "Remote_User": "olga", "X-Penstock-Proxy": SECRET}) as client:
        assert client.get("/api/about").json()["person"]["name"] == "ana"
    with front.client(None, **{"Remote-User": "olga", "X-Penstock-Proxy": SECRET}) as client:
        assert client.get("/api/about").status_code == 401
        assert client.get("/api/shared").status_code == 404  # no login is needed here, and nothing is shown
        assert client.get("/api/shared/../about").status_code == 401


@pytest.mark.slow
def test_another_page_does_nothing_in_the_name_of_a_browser(front: Front) -> None:
    """The proxy's login comes with every request of the browser, also with those of other pages."""
    with front.client("ana") as client:
        body = {"agent": "staying"}
        assert client.post("/api/chats", json=body).status_code == 403
        foreign = {"Origin": "https://other.example", "Sec-Fetch-Site": "cross-site"}
        assert client.post("/api/chats", json=body, headers=foreign).status_code == 403
        assert client.get("/api/chats", headers=foreign).status_code == 403
        own = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
        assert client.post("/api/link", json={}, headers=own).status_code == 200


@pytest.mark.slow
def test_an_agent_is_no_proxy(front: Front) -> None:
    """A process of the server's user is rejected, whatever else it has, and so is another user of the machine."""
    before = len(front.refused())
    token = f"Authorization: Bearer {(front.data / 'token').read_text().strip()}"
    assert front.status(token) == 200
    assert front.status("Remote-User: olga") == 403
    assert front.status("remote-user: olga", token) == 403
    assert front.status("Remote-User: olga", f"X-Penstock-Proxy: {SECRET[:-1]}") == 403
    assert front.status("Remote-User: olga", "X-Penstock-Proxy:") == 403
    assert front.status("Remote-User: olga", method="POST", path="/api/link") == 403
    if front.at_socket:
        assert front.status("Remote-User: olga", f"X-Penstock-Proxy: {SECRET}") == 403
        assert front.status("Remote-User: olga", uid=65534) == 403
        assert {it["uid"] for it in front.refused()[before:]} == {0, 65534}
    assert len(front.refused()) - before == (7 if front.at_socket else 5)


@pytest.mark.slow
def test_the_proxy_itself_names_one_person(front: Front) -> None:
    """Twice, none, two in one, or a name that cannot be one: rejected, also from the proxy."""
    user = pwd.getpwnam(PROXY_USER).pw_uid
    known = () if front.at_socket else (f"X-Penstock-Proxy: {SECRET}",)
    assert front.status("Remote-User: ana", *known, uid=user) == 200
    before = len(front.refused())
    wrong = (
        ("Remote-User: ana", "Remote-User: ana"),
        ("Remote-User: ana", "Remote-User: olga"),
        ("Remote-User:",),
        ("Remote-User: ana, olga",),
        ("Remote-User: ANA",),
        ("Remote-User: owner",),
        ("Remote-User: \xc3\xa4na",),
    )
    for headers in wrong:
        assert front.status(*headers, *known, uid=user) == 403, headers
    assert len(front.refused()) - before == len(wrong)
    if not front.at_socket:
        assert front.status("Remote-User: ana", *known, *known) == 403
    assert front.status(*known, uid=user) == 401


@pytest.mark.slow
def test_a_stream_ends_with_its_person(front: Front) -> None:
    """Somebody who is removed sees nothing more, although the proxy still knows them; other streams go on."""
    own = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
    with front.client("olga", **own) as olga:
        assert olga.post("/api/workspaces", json={"path": str(front.folder)}).status_code == 200
        chat = olga.post("/api/chats", json={"agent": "staying", "visibility": "team"}).json()["id"]
        with front.client("ana") as ana, ana.stream("GET", f"/api/chats/{chat}/events") as stream:
            assert stream.status_code == 200
            lines = stream.iter_lines()
            assert next(lines)
            persons.remove(front.data, "ana")
            rest = [*lines]  # it ends
            assert not [line for line in rest if "ana" in line]
            assert ana.get("/api/about").status_code == 403
        assert olga.get(f"/api/chats/{chat}").status_code == 200
    persons.add(front.data, "ana", "member", 1)


@pytest.mark.parametrize(
    ("header", "proxy", "secret", "at_socket", "expected"),
    [
        ("Remote-User", None, False, True, "--person-header needs --proxy"),
        (None, "www-data", False, True, "--proxy needs --person-header"),
        (None, None, True, False, "--proxy-secret-file needs --person-header"),
        ("Remote-User", str(os.geteuid()), False, True, "the user of this server"),
        ("Remote-User", pwd.getpwuid(os.geteuid()).pw_name, False, True, "the user of this server"),
        ("Remote-User", "nobody-at-all", False, True, "names no user of this machine"),
        ("Remote-User", "99999999999999999999", False, True, "names no user of this machine"),
        ("Remote-User", "www-data", True, True, "--proxy-secret-file is for a port"),
        ("Remote-User", "127.0.0.1", False, False, "needs --proxy-secret-file"),
        ("Remote-User", "10.0.0.5", False, False, "needs --proxy-secret-file"),
        ("Remote-User", "www-data", True, False, "--proxy cannot be 'www-data'"),
        ("Remote-User", "10.0.0.5/8", True, False, "--proxy cannot be '10.0.0.5/8'"),
        ("Cookie", "10.0.0.5", True, False, "--person-header cannot be 'Cookie'"),
        ("X-Penstock-Proxy", "10.0.0.5", True, False, "--person-header cannot be"),
        ("Remote User", "10.0.0.5", True, False, "--person-header cannot be"),
    ],
)
def test_options_that_an_agent_could_use(
    tmp_path: Path, header: str | None, proxy: str | None, secret: bool, at_socket: bool, expected: str
) -> None:
    """The server does not start with them."""
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    with pytest.raises(UsageError, match=re.escape(expected)):
        trusted_proxy(header, proxy, file if secret else None, at_socket=at_socket)


@pytest.mark.parametrize(
    ("host", "secret", "is_proxy"),
    [
        ("10.0.0.5", SECRET, True),
        ("::ffff:10.0.0.5", SECRET, True),
        ("10.0.0.6", SECRET, False),
        ("127.0.0.1", SECRET, False),
        ("", SECRET, False),
        ("10.0.0.5", SECRET + "x", False),
        ("10.0.0.5", "", False),
        ("10.0.0.5", None, False),
    ],
)
def test_another_machine_is_no_proxy(tmp_path: Path, host: str, secret: str | None, is_proxy: bool) -> None:
    """Another node is not at the proxy's address, whatever it knows; at that address, it has to know the secret."""
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    persons.add(tmp_path, "ana", "member", 1)
    proxy = trusted_proxy("Remote-User", "10.0.0.5", file, at_socket=False)
    assert proxy is not None
    headers = [(b"remote-user", b"ana"), *([] if secret is None else [(b"x-penstock-proxy", secret.encode())])]
    request = Request({"type": "http", "headers": headers, "client": (host, 1) if host else None, "state": {}})
    people = People(tmp_path / persons.PEOPLE)
    if is_proxy:
        found = proxy.person_of(request, people)
        assert found is not None
        assert found.name == "ana"
    else:
        with pytest.raises(RejectedProxy):
            proxy.person_of(request, people)


def test_a_secret_that_others_can_read(tmp_path: Path) -> None:
    """It is rejected, and so is a short one."""
    file = tmp_path / "secret"
    for text, mode, expected in ((SECRET, 0o644, "others can read"), ("short", 0o600, "at least 32 characters")):
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(UsageError, match=expected):
            trusted_proxy("Remote-User", "10.0.0.5", file, at_socket=False)


def test_the_configuration_names_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its keys are those of the options; a file of the project has no say."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.toml"
    own.write_text('[serve]\nperson_header = "Remote-User"\nproxy = "10.0.0.5"\n')
    monkeypatch.setenv("PENSTOCK_CONFIG", str(own))
    assert main.main(["serve", "--port=0", "--data=data"]) == 2
    assert "needs --proxy-secret-file" in capfd.readouterr().err
    monkeypatch.delenv("PENSTOCK_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (tmp_path / "penstock.toml").write_text('[serve]\nproxy = "10.0.0.5"\n')
    main.main(["config"])
    assert "serve.proxy is the user's alone" in "".join(capfd.readouterr())
