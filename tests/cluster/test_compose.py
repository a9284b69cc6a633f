"""The image and the team of `compose.yaml`: started where there is a container tool, checked by parts elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.cli.main import main

ROOT = Path(__file__).parents[2]
IMAGE = (ROOT / "Containerfile").read_text("utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
HOST = "chat.example.org"
BUILD_SECONDS = 900
GIVEN = {"PENSTOCK_HOST": HOST, "PENSTOCK_TOKEN": "t" * 40, "POSTGRES_PASSWORD": "secret1"}


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
