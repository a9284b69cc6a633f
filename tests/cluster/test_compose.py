"""The image and the team of `compose.yaml`: started where there is a container tool, by its own programs elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from machines import RECORDINGS, SCRIPTED, SECONDS
from postgres import programs
from restarts import free_port
from waiting import until

from penstock.cli.main import main

if TYPE_CHECKING:
    from postgres import Server

ROOT = Path(__file__).parents[2]
IMAGE = (ROOT / "Containerfile").read_text("utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
HOST = "chat.example.org"
BUILD_SECONDS = 900
GIVEN = {"PENSTOCK_HOST": HOST, "PENSTOCK_TOKEN": "t" * 40, "POSTGRES_PASSWORD": "secret1"}
USER, RESTORED = "penstock", "restored"
"""The user and the database of the file, and the database of a restored backup."""


def filled(text: str) -> str:
    """The text with the variables that a user gives."""
    return re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: GIVEN[found[1]], text)


def test_what_the_image_copies_is_sent_to_the_build() -> None:
    """The build sees the files that the package is made of, and no other: no data, no environment, no `.git`."""
    names = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert names[0] == "*"
    sent = {name[1:] for name in names if name.startswith("!")}
    assert all((ROOT / name).exists() for name in sent)
    installed = set(re.findall(r"--requirement ([\w./]+)", IMAGE))
    assert {name.split("/")[0] for name in installed} <= sent
    assert {
        "src",
        "page",
        "packaging",
        "docs/penstock.1",
        "hatch_build.py",
        "pyproject.toml",
        "LICENSE",
        "README.md",
    } <= sent


def test_the_image_runs_as_an_ordinary_user() -> None:
    """No process of the last stage is root, and no package comes without a hash."""
    last = IMAGE[IMAGE.rindex("\nFROM ") :]
    assert last.index("\nUSER penstock\n") < last.index("\nENTRYPOINT ")
    for line in re.findall(r"pip install (.*?)(?: \\)?$", IMAGE, re.MULTILINE):
        assert line.startswith(("--require-hashes ", "--no-deps --no-build-isolation .")), line


@pytest.mark.parametrize("node", ["paris", "oslo"])
def test_the_options_of_a_node_are_accepted(
    node: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of the file is one of Penstock's; only the address of the database leads nowhere here."""
    [line] = [line for line in re.findall(r"command: (\[.*\])", filled(COMPOSE)) if f'"{node}"' in line]
    places = {"/srv/work": str(tmp_path), "/data": str(tmp_path / "data"), "8377": "0"}
    words = [places.get(word, word) for word in json.loads(line)]
    monkeypatch.setenv("PENSTOCK_TOKEN", GIVEN["PENSTOCK_TOKEN"])
    monkeypatch.setenv("PENSTOCK_STORE", "postgresql://penstock:secret1@127.0.0.1:1/penstock")
    assert main(words) != 0
    shown = capfd.readouterr().err
    assert "127.0.0.1" in shown
    assert "usage" not in shown
    assert "secret1" not in shown


def test_its_proxy_is_that_of_the_page(tmp_path: Path) -> None:
    """The file of Caddy is the one of docs/deploy.md with the names of the nodes, and Caddy accepts it."""
    [content] = re.findall(r"    content: \|\n((?: {6}.*\n)+)", filled(COMPOSE))
    content = re.sub("(?m)^ {6}", "", content)
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8").replace("10.0.0.11", "paris").replace("10.0.0.12", "oslo")
    assert content in page
    caddy = shutil.which("caddy")
    if caddy is not None:
        (tmp_path / "Caddyfile").write_text(content)
        words = [caddy, "adapt", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
        env = {**os.environ, "HOME": str(tmp_path)}
        assert json.loads(subprocess.run(words, capture_output=True, env=env, check=True).stdout)["apps"]["http"]


@pytest.mark.slow
def test_the_team_starts() -> None:
    """The image is built, and both nodes become ready behind the proxy."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no container tool works here")
    if subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose here")
    compose = [
        docker,
        "compose",
        "--project-name",
        f"penstock-test-{os.getpid()}",
        "--file",
        str(ROOT / "compose.yaml"),
    ]
    env = {**os.environ, **GIVEN}
    try:
        up = subprocess.run(
            [*compose, "up", "--build", "--detach", "--wait"], env=env, timeout=BUILD_SECONDS, check=False
        )
        assert up.returncode == 0
        code = (
            "import urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:8377/readyz', headers={'Host': '%s'}))"
        )
        for node in ("paris", "oslo"):
            words = ["exec", "--no-TTY", node, "python", "-c", code % HOST]
            assert subprocess.run([*compose, *words], env=env, timeout=60, check=False).returncode == 0
    finally:
        subprocess.run([*compose, "down", "--volumes"], env=env, timeout=120, check=False)


class Team:
    """The services of the file, each as a process of its own with the environment and the command of the file."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.ports = {name: free_port() for name in ("paris", "oslo", "caddy")}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        # The image has no agent: a team adds its own.
        words = [sys.executable, "-S", str(SCRIPTED), str(RECORDINGS / "text"), "--speed=0"]
        agents = f'[agents.quick]\ncommand = {json.dumps(words)}\nadapter = "claude"\n'
        (folder / "agents.toml").write_text(agents)
        self._make_database()

    def _make_database(self) -> None:
        """What the image of PostgreSQL makes of its environment: a user with a password, and a database."""
        rules = self.server.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {USER} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.sql(f"CREATE ROLE {USER} SUPERUSER LOGIN PASSWORD '{GIVEN['POSTGRES_PASSWORD']}'")
        self.sql(f"CREATE DATABASE {USER} OWNER {USER} TEMPLATE template0 ENCODING 'UTF8'")
        self.sql("SELECT pg_reload_conf()")

    def sql(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.server.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def environment(self, database: str = USER) -> dict[str, str]:
        """The environment of Penstock's services."""
        lines = re.findall(r"^    (PENSTOCK_\w+): \"(.*)\"$", filled(COMPOSE), re.MULTILINE)
        found = {name: self.placed(value) for name, value in lines}
        assert found.keys() == {"PENSTOCK_STORE", "PENSTOCK_TOKEN"}
        found["PENSTOCK_STORE"] = re.sub(r"/\w+$", f"/{database}", found["PENSTOCK_STORE"])
        return {**os.environ, **found, "PENSTOCK_CONFIG": str(self.folder / "agents.toml"), "HOME": str(self.folder)}

    def placed(self, text: str) -> str:
        """Text of the file with the addresses of this machine in the place of the services' names."""
        text = text.replace("@database/", f"@127.0.0.1:{self.server.port}/")
        for name in ("paris", "oslo"):
            text = text.replace(f"{name}:8377", f"127.0.0.1:{self.ports[name]}")
        return text

    def words(self, service: str) -> list[str]:
        """The command of a service."""
        [part] = re.findall(rf"^  {service}:\n((?:    .*\n)+)", filled(COMPOSE), re.MULTILINE)
        [line] = re.findall(r"command: (\[.*\])", part)
        places = {"/srv/work": self.folder / service / "work", "/data": self.folder / service / "data"}
        changes = {name: str(place) for name, place in places.items()}
        changes |= {"0.0.0.0": "127.0.0.1", "8377": str(self.ports.get(service, 0))}
        return [changes.get(word, word) for word in json.loads(line)]

    def penstock(self, *words: str, database: str = USER) -> str:
        """Run a command, and return what it prints."""
        command = [sys.executable, "-m", "penstock", *words]
        env = self.environment(database)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, node: str, database: str = USER) -> None:
        """Start a node, and wait until it is ready."""
        (self.folder / node / "work").mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "penstock", *self.words(node)]
        self._spawn(node, command, self.environment(database), self.folder / node / "work")

        def is_ready() -> bool:
            headers = {"Host": HOST}
            try:
                url = f"http://127.0.0.1:{self.ports[node]}/readyz"
                return httpx.get(url, headers=headers, trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        until(is_ready, f"{node} is ready: {self.said(node)}")

    def start_caddy(self, caddy: str) -> None:
        """Start the proxy with a certificate of its own authority; all else is as in the file."""
        [content] = re.findall(r"    content: \|\n((?: {6}.*\n)+)", filled(COMPOSE))
        site = f"https://{HOST}:{self.ports['caddy']} {{\n    bind 127.0.0.1\n    tls internal\n"
        content = self.placed(re.sub("(?m)^ {6}", "", content)).replace(f"{HOST} {{\n", site, 1)
        options = "{\n admin off\n auto_https disable_redirects\n skip_install_trust\n}\n"
        (self.folder / "Caddyfile").write_text(options + content)
        env = {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder / "caddy")}
        command = [caddy, "run", "--config", str(self.folder / "Caddyfile"), "--adapter", "caddyfile"]
        self._spawn("caddy", command, env, self.folder)

    def _spawn(self, name: str, command: list[str], env: dict[str, str], cwd: Path) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")[-2000:]

    def stop(self, name: str) -> None:
        """Stop a service as `docker compose stop` does."""
        process = self.processes.pop(name)
        process.terminate()
        assert process.wait(SECONDS) in (0, -15)

    def close(self) -> None:
        """Kill what is left."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def browser(self) -> httpx.Client:
        """A browser of the site, whose name leads to the proxy."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Host": HOST, "Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}
        url = f"https://127.0.0.1:{self.ports['caddy']}"
        return httpx.Client(base_url=url, headers=headers, verify=context, trust_env=False, timeout=SECONDS)


@pytest.fixture
def team(tmp_path: Path, server: Server) -> Iterator[Team]:
    """A team that is not started yet."""
    made = Team(tmp_path, server)
    yield made
    made.close()
    for name in (USER, RESTORED):
        made.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    made.sql(f"DROP ROLE IF EXISTS {USER}")


def ask(client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
    """Send a request of the browser; the name of the site is that of the certificate, too."""
    return client.request(method, path, extensions={"sni_hostname": HOST}, **more)


@pytest.mark.slow
def test_the_services_without_containers(team: Team) -> None:
    """Each service runs by its own program; a person signs in, a node is stopped and started, a backup is restored."""
    caddy = shutil.which("caddy")
    if caddy is None:
        pytest.skip("caddy is not installed (on Debian and Ubuntu: apt install caddy)")
    team.penstock(*team.words("migration"))
    for node in ("paris", "oslo"):
        team.start(node)
    team.start_caddy(caddy)
    link = team.penstock("link", "--data", str(team.folder / "paris" / "data")).strip()
    code = link.partition("/#code=")[2]
    assert code, link
    with team.browser() as person:

        def passes() -> bool:
            try:
                return ask(person, "GET", "/readyz").status_code == 200
            except httpx.TransportError:
                return False

        until(passes, f"the proxy has a certificate and a node: {team.said('caddy')}")
        signed_in = ask(person, "POST", "/api/login", json={"code": code})
        assert signed_in.status_code == 204, signed_in.text
        assert "Secure" in signed_in.headers["set-cookie"]
        work = str(team.folder / "paris" / "work")
        trusted = ask(person, "POST", "/api/workspaces", json={"path": work, "home": "paris"})
        assert trusted.status_code == 200, trusted.text
        made = ask(person, "POST", "/api/chats", json={"agent": "quick", "cwd": work, "home": "paris"})
        assert made.status_code == 201, made.text
        path = made.headers["location"]
        asked = ask(person, "POST", f"{path}/turns", json={"text": "hello"})
        assert asked.status_code == 202, asked.text

        def outcomes() -> list[str]:
            turns = ask(person, "GET", f"{path}/turns").json()["turns"]
            return [turn.get("outcome") for turn in turns if turn.get("finalized")]

        until(lambda: outcomes() == ["ok"], "the turn ends")
        for node in ("oslo", "paris"):
            team.stop(node)
            assert [ask(person, "GET", "/api/chats").status_code for _ in range(20)] == [200] * 20
            team.start(node)
        backup = dumped(team)
        assert ask(person, "DELETE", path).status_code == 204
        for node in ("paris", "oslo"):
            team.stop(node)
        restored(team, backup)
        for node in ("paris", "oslo"):
            team.start(node, RESTORED)
        until(lambda: ask(person, "GET", "/api/chats").status_code == 200, "the browser is still signed in")
        assert outcomes() == ["ok"], "the chat is as it was when the backup was made"
        assert ask(person, "POST", f"{path}/turns", json={"text": "again"}).json() == {"turn": 2}
        until(lambda: outcomes() == ["ok", "ok"], "the chat goes on")
    team.penstock("store", "check", database=RESTORED)
    for node in ("paris", "oslo"):
        assert GIVEN["POSTGRES_PASSWORD"] not in team.said(node)
        assert "#code=" not in team.said(node), "no link in a log"
        team.stop(node)


def dumped(team: Team) -> Path:
    """A backup as docs/deploy.md makes it."""
    file = team.folder / "backup"
    bin = programs()
    assert bin is not None
    env = team.environment()
    command = [str(bin / "pg_dump"), "--schema=penstock", "--format=custom", f"--file={file}", env["PENSTOCK_STORE"]]
    subprocess.run(command, env=env, check=True, timeout=SECONDS)
    return file


def restored(team: Team, backup: Path) -> None:
    """The backup in a new database, as docs/deploy.md restores it."""
    team.sql(f"CREATE DATABASE {RESTORED} OWNER {USER} TEMPLATE template0 ENCODING 'UTF8'")
    bin = programs()
    assert bin is not None
    env = team.environment(RESTORED)
    command = [str(bin / "pg_restore"), "--exit-on-error", f"--dbname={env['PENSTOCK_STORE']}", str(backup)]
    subprocess.run(command, env=env, check=True, timeout=SECONDS)
