"""Somebody else's agent: one file and an entry point, used by the command and by Python as the built-in ones are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "third_party"
SOURCE = Path(__file__).parents[1] / "src"
PAGE = Path(__file__).parents[1] / "docs" / "writing-an-adapter.md"
STREAM = PACKAGE / "parrot.ndjson"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package as an installer leaves it: the module, and what its metadata says."""
    shutil.copy(PACKAGE / "penstock_parrot.py", tmp_path)
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, "utf-8")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in named.items())
        for group, named in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(points, "utf-8")
    return tmp_path


def run(site: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with that folder on its path, and no configuration of the machine's user."""
    config = site / "none.toml"
    config.touch()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PENSTOCK", "GITHUB", "GITLAB"))}
    env |= {
        "PYTHONPATH": f"{site}{os.pathsep}{SOURCE}",
        "PENSTOCK_CONFIG": str(config),
        "PYTHONIOENCODING": "utf-8",
        **more,
    }
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, encoding="utf-8", check=False)


def test_the_command_reads_its_stream(site: Path) -> None:
    """`penstock read --agent parrot` shows the run, and ends with 0."""
    done = run(site, "-m", "penstock", "read", "--agent", "parrot", str(STREAM))
    assert done.stdout == (
        "[parrot] · macaw · session p-1\n"
        "\n"
        "[parrot] I will look.\n"
        "[parrot] $ ls\n"
        "[parrot] ✓ nuts\n"
        "         seeds\n"
        "\n"
        "[parrot] There are nuts and seeds.\n"
        "\n"
        "[parrot] ● done · 2 rounds\n"
        "         session p-1\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_its_events_are_those_of_any_agent(site: Path) -> None:
    """Its events carry its name, and its reply, session and model."""
    done = run(site, "-m", "penstock", "read", "--agent", "parrot", "--to", "ndjson", str(STREAM))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["agent"] for event in events} == {"parrot"}
    assert events[0] == {"type": "run_started", "session_id": "p-1", "model": "macaw", "agent": "parrot"}
    assert (events[-1]["outcome"], events[-1]["reply"]) == ("ok", "There are nuts and seeds.")


def test_it_is_started_like_any_agent(site: Path) -> None:
    """`penstock run parrot` starts its program, with the prompt and the session; what it cannot do is refused."""
    program = site / "parrot"
    program.write_text(f'#!/bin/sh\necho "$@" > "{site}/argv"; cat > "{site}/prompt"; cat "{STREAM}"\n', "utf-8")
    program.chmod(0o755)
    env = {"PATH": f"{site}{os.pathsep}{os.environ['PATH']}"}
    done = run(site, "-m", "penstock", "run", "parrot", "hello", "--session", "p-1", "--to", "reply", **env)
    assert (done.returncode, done.stdout) == (0, "There are nuts and seeds.\n")
    assert (site / "argv").read_text("utf-8") == "--json --session=p-1\n"
    assert (site / "prompt").read_text("utf-8") == "hello"
    refused = run(site, "-m", "penstock", "run", "parrot", "hello", "--session", "p-1", "--fork", **env)
    assert (refused.returncode, "parrot cannot fork a session" in refused.stderr) == (2, True)


def test_the_command_lists_it(site: Path) -> None:
    """`penstock agents` names it, as a third party's."""
    rows = [json.loads(line) for line in run(site, "-m", "penstock", "agents", "--json").stdout.splitlines()]
    assert rows[-1] == {"name": "parrot", "built_in": False}


def test_without_its_package_it_is_unknown(tmp_path: Path) -> None:
    """The name comes from the entry point alone: where that is not installed, there is no such agent."""
    done = run(tmp_path, "-m", "penstock", "read", "--agent", "parrot", str(STREAM))
    assert done.returncode == 2
    assert "parrot" in done.stderr


def test_it_passes_the_conformance_check(site: Path) -> None:
    """`check_adapter` finds nothing, over the adapter that the entry point gives."""
    code = (
        "import sys; from penstock.agents import registry; from penstock.testing import check_adapter;"
        "check_adapter(lambda: registry.make('parrot'), [open(sys.argv[1], 'rb').read()])"
    )
    done = run(site, "-c", code, str(STREAM))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_conformance_check_can_fail(site: Path) -> None:
    """An adapter that understands nothing is found out."""
    (site / "deaf.py").write_text(
        "from penstock_parrot import Parrot\n\nclass Deaf(Parrot):\n    def read(self, event):\n        return ()\n",
        "utf-8",
    )
    code = (
        "import sys, deaf; from penstock.testing import check_adapter;"
        "check_adapter(deaf.Deaf, [open(sys.argv[1], 'rb').read()])"
    )
    done = run(site, "-c", code, str(STREAM))
    assert done.returncode == 1
    assert "does `read` understand this agent?" in done.stderr


@pytest.mark.parametrize("name", ["penstock_parrot.py", "pyproject.toml", "test_parrot.py", "parrot.ndjson"])
def test_the_page_shows_the_files(name: str) -> None:
    """`docs/writing-an-adapter.md` holds each file of the package as it is."""
    content = (PACKAGE / name).read_text("utf-8")
    assert f"\n{content}```\n" in PAGE.read_text("utf-8")
