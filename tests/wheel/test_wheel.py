"""What is published: a wheel and an sdist are built, and the wheel works in an environment that has nothing else.

`make test-wheel` runs it. It asks a package registry for what builds them and for what Penstock needs.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

if not os.environ.get("PENSTOCK_WHEEL"):
    pytest.skip("PENSTOCK_WHEEL=1 builds and installs the wheel: make test-wheel", allow_module_level=True)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VENDOR = "penstock/chat/page/vendor"
BUILD_SECONDS = 600
"""For a registry that answers slowly; a build takes seconds."""
SECONDS = 60
"""For one command of Penstock's, on a machine that is busy."""


def run(command: list[str | Path], env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """The output of a command, which succeeds."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment(folder: Path) -> Path:
    """The `bin` of a new environment."""
    run([sys.executable, "-m", "venv", folder])
    return folder / "bin"


def install(place: Path, *what: str | Path, env: dict[str, str] | None = None) -> None:
    """Install packages in an environment."""
    run([place / "python", "-m", "pip", "--disable-pip-version-check", "install", *what], env)


def without_node(place: Path) -> dict[str, str]:
    """An environment whose programs are those of `place` alone, so neither Node nor npm."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PENSTOCK"))}
    return {**kept, "PATH": str(place), "HOME": str(place.parent), "XDG_CONFIG_HOME": str(place.parent)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("build")
    place = environment(folder / "tools")
    pip: list[str | Path] = [place / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    done = subprocess.run([*pip, *PROJECT["build-system"]["requires"]], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"what builds the wheel cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    run([place / "python", "-m", "hatchling", "build", "-d", folder / "dist"], cwd=ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment where the wheel is, and nothing else but what it needs."""
    place = environment(tmp_path_factory.mktemp("clean") / "env")
    install(place, built[0], env=without_node(place))
    return place


def names_of(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def version_of(wheel: Path) -> str:
    """The version in a wheel's name."""
    return wheel.name.split("-")[1]


def test_the_wheel_has_the_package_and_its_page(built: tuple[Path, Path]) -> None:
    """The wheel has each module, the page with what it loads, and the demo; no tests and no caches."""
    names = names_of(built[0])
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert {f"{VENDOR}/manifest.json", "penstock/py.typed"} <= names
    version = version_of(built[0])
    assert f"penstock-{version}.data/data/share/man/man1/penstock.1" in names
    around = {f"penstock-{version}.dist-info", f"penstock-{version}.data"}
    assert {name.split("/")[0] for name in names - wanted} == around


def test_an_sdist_builds_without_node(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Whoever builds from the sdist gets the same wheel, and needs no Node for it."""
    wheel, sdist = built
    place = environment(tmp_path / "env")
    pip: list[str | Path] = [place / "python", "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, sdist], without_node(place))
    (again,) = tmp_path.glob("*.whl")
    assert names_of(again) == names_of(wheel)


def test_the_sdist_has_the_tests(built: tuple[Path, Path]) -> None:
    """The sdist has what somebody needs who changes Penstock, and nothing that was only lying about."""
    with tarfile.open(built[1]) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
    top = {name.split("/")[0] for name in names}
    assert {"src", "tests", "docs", "page", "bench", "Makefile", "README.md", "LICENSE", "pyproject.toml"} <= top
    assert not top & {".venv", "build", "dist", "node_modules"}
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/real/installed")]


def test_its_licences_are_inside(built: tuple[Path, Path]) -> None:
    """The metadata names the licences of all that the wheel contains, and the wheel has their texts."""
    inside = f"penstock-{version_of(built[0])}.dist-info"
    with zipfile.ZipFile(built[0]) as archive:
        metadata = email.message_from_bytes(archive.read(f"{inside}/METADATA"))
        texts = [archive.read(f"{inside}/licenses/{name}") for name in metadata.get_all("License-File", [])]
        vendored = [archive.read(name) for name in archive.namelist() if re.match(f"{VENDOR}/.*LICENSE$", name)]
    assert metadata["License-Expression"] == PROJECT["project"]["license"]
    assert "License" not in metadata
    assert vendored
    assert sorted(texts) == sorted([(ROOT / "LICENSE").read_bytes(), *vendored])


def test_its_page_on_an_index_has_no_paths(built: tuple[Path, Path]) -> None:
    """What an index shows of the wheel and of the sdist names no file that is not there."""
    with zipfile.ZipFile(built[0]) as archive:
        shown = archive.read(f"penstock-{version_of(built[0])}.dist-info/METADATA").decode()
    assert "Description-Content-Type: text/markdown\n" in shown
    assert "\n# Penstock\n" in shown
    assert not re.search(r"\]\((?!https?:|#)", shown)


def test_its_version(built: tuple[Path, Path], installed: Path) -> None:
    """The command, the package and what is known of its installation name the same version."""
    env = without_node(installed)
    version = version_of(built[0])
    assert run([installed / "penstock", "--version"], env).split()[-1] == version
    code = "import importlib.metadata, penstock; print(penstock.__version__, importlib.metadata.version('penstock'))"
    assert run([installed / "python", "-c", code], env).split() == [version, version]


def test_the_demo(installed: Path, tmp_path: Path) -> None:
    """`penstock demo` shows its recording, in a directory that has nothing."""
    shown = run([installed / "penstock", "demo", "--speed", "1000"], without_node(installed), tmp_path)
    assert len(shown.splitlines()) > 5


def test_the_demo_without_an_installation(built: tuple[Path, Path], tmp_path: Path) -> None:
    """`uvx --from WHEEL penstock demo` works in an empty home, where neither Node nor npm is found."""
    tools = environment(tmp_path / "tools")
    install(tools, *[line for line in PROJECT["dependency-groups"]["release"] if line.startswith("uv")])
    programs, home = tmp_path / "programs", tmp_path / "home"
    home.mkdir()
    programs.mkdir()
    # The scripts that uv installs are for a shell that has these.
    for name in ("sh", "realpath", "dirname"):
        (programs / name).symlink_to(shutil.which(name) or name)
    env = {**without_node(tools), "PATH": str(programs), "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    words: list[str | Path] = [tools / "uvx", "--python", sys.executable, "--from", built[0], "penstock", "demo"]
    shown = run([*words, "--speed", "1000"], env, tmp_path)
    assert len(shown.splitlines()) > 5


def test_run(installed: Path, tmp_path: Path) -> None:
    """`penstock run` shows what a scripted agent does, and keeps its recording."""
    agent = f"{ROOT / 'tests' / 'support' / 'scripted.py'}"
    recording = ROOT / "tests" / "recordings" / "claude" / "text"
    config = f'[agents.scripted]\ncommand = ["{installed / "python"}", "-S", "{agent}", "{recording}", "--speed=0"]\n'
    (tmp_path / "config.toml").write_text(f'{config}adapter = "claude"\n', "utf-8")
    env = without_node(installed) | {"PENSTOCK_CONFIG": str(tmp_path / "config.toml")}
    words: list[str | Path] = [installed / "penstock", "run", "scripted", "hello", "--record", tmp_path / "runs"]
    shown = run(words, env, tmp_path)
    assert "done" in shown
    [kept] = (tmp_path / "runs").glob("*/input.ndjson")
    assert kept.read_bytes() == (recording / "input.ndjson").read_bytes()


def test_the_action_installs_itself(tmp_path: Path) -> None:
    """The first step of `action.yml` installs the checkout of the action, with the packages that it pins alone."""
    checkout = tmp_path / "checkout"
    hidden = shutil.ignore_patterns(".*", "build", "dist", "node_modules", "__pycache__", "recordings")
    shutil.copytree(ROOT, checkout, ignore=hidden)
    script, _ = re.findall(r"run: \|\n((?: {8}.*\n)+)", (ROOT / "action.yml").read_text("utf-8"))
    given = {"RUNNER_TEMP": tmp_path / "temp", "GITHUB_ACTION_PATH": checkout, "GITHUB_PATH": tmp_path / "path"}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PENSTOCK"))}
    run(["bash", "-e", "-o", "pipefail", "-c", script], env | {name: str(path) for name, path in given.items()})
    place = tmp_path / "temp" / "penstock" / "bin"
    assert (tmp_path / "path").read_text("utf-8") == f"{place}\n"
    assert run([place / "penstock", "--version"], without_node(place)).startswith("penstock ")
    pinned = "".join((ROOT / name).read_text("utf-8") for name in ("constraints.txt", "packaging/tools.txt"))
    for line in run([place / "python", "-m", "pip", "list", "--format", "freeze"], env).splitlines():
        name, _, version = line.partition("==")
        assert f"{name.lower().replace('_', '-')}=={version}" in pinned or name in ("penstock", "pip", "setuptools")


@pytest.fixture
def served(installed: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A `penstock serve` of the wheel: its process, its address, and the token of programs."""
    options: list[str | Path] = ["--port", "0", "--data", tmp_path / "data", "--root", tmp_path, "--link"]
    with subprocess.Popen(
        [installed / "penstock", "serve", *options],
        env=without_node(installed),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = re.match(r"(http://127\.0\.0\.1:\d+)/#code=", first_line(process.stdout))
            assert found is not None
            yield process, found[1], (tmp_path / "data" / "token").read_text().strip()
        finally:
            process.kill()


def first_line(stdout: IO[str]) -> str:
    """The link, which comes as soon as it can be opened."""
    line: str = stdout.readline()
    return line


def get(url: str, token: str | None = None) -> tuple[int, str, bytes]:
    """The status, the type and the body of a response."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=SECONDS) as response:
            return response.status, response.headers.get_content_type(), response.read()
    except urllib.error.HTTPError as error:
        return error.code, "", b""


def test_serve(installed: Path, served: tuple[subprocess.Popen[str], str, str]) -> None:
    """`penstock serve` answers with the page, each of its files and the API, and ends well at SIGTERM."""
    process, url, token = served
    status, kind, page = get(url)
    assert (status, kind) == (200, "text/html")
    loaded = re.findall(rb'(?:src|href)="(/[^"#]*)"', page)
    assert loaded
    (folder,) = installed.parent.glob(f"lib/*/site-packages/{VENDOR}")
    vendor = json.loads((folder / "manifest.json").read_text("utf-8"))["files"]
    wanted = [name.decode() for name in loaded] + [f"/vendor/{name}" for name in vendor if name.endswith(".js")]
    assert {path: get(url + path)[0] for path in wanted} == dict.fromkeys(wanted, 200)
    for path in ("/main.js", "/vendor/marked.js"):
        assert get(url + path)[1] == "text/javascript", path
    assert get(f"{url}/api/chats")[0] == 401
    assert json.loads(get(f"{url}/api/chats", token)[2]) == {"chats": []}
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
