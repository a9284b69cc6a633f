"""One installation has everything, and a command imports only the packages that it needs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RECORDINGS = ROOT / "tests" / "recordings" / "claude"
RECORDING = str(RECORDINGS / "text" / "input.ndjson")
SECONDS = 60

EXTRAS = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
NAMES = [re.split(r"[\[<>=]", line)[0] for line in [*PROJECT["dependencies"], *EXTRAS]]
PACKAGES = {"opentelemetry" if name.startswith("opentelemetry-") else name.replace("-", "_") for name in NAMES}
"""Modules of the packages that Penstock declares."""

SERVER = {"h11", "msgspec", "starlette", "uvicorn", "uvloop"}
NEEDS = {
    "--version": set(),
    "demo --speed 1000": {"msgspec"},
    f"read {RECORDING}": {"msgspec"},
    "agents": {"msgspec"},
    "config": {"msgspec"},
    "completion bash": {"msgspec", "shtab"},
    "run nosuch hello": {"msgspec"},
    "doc --help": {"msgspec"},
    "loop --help": {"msgspec"},
    "store --help": {"msgspec"},
}
"""Packages that a command imports."""

FOREIGN = re.compile(
    r"penstock\.(chat\.web\.(doors\.(?!bodies)|foreign_turns|openai|ai_sdk|agui)|cli\.(acp|mcp|stdio)|sinks\.(atif|spans)|run\.collector)"
)
"""Modules of protocols that other programs speak, which are imported by the first request in one of them. The bodies of
such requests are described with all others."""


def imported(log: str) -> set[str]:
    """The declared packages in the log of Python's imports."""
    return {line.split("|")[-1].strip().partition(".")[0] for line in log.splitlines()} & PACKAGES


def foreign(log: str) -> set[str]:
    """The modules for other programs in the log of Python's imports."""
    return {name for line in log.splitlines() if FOREIGN.match(name := line.split("|")[-1].strip())}


@pytest.mark.sample(4)
@pytest.mark.parametrize("command", NEEDS)
def test_a_command_imports_what_it_needs(command: str, tmp_path: Path) -> None:
    """A command starts without the packages of the others."""
    words = [sys.executable, "-X", "importtime", "-m", "penstock", *command.split()]
    env = {**os.environ, "PENSTOCK_DATA": str(tmp_path), "PENSTOCK_CONFIG": os.devnull}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=SECONDS, check=False)
    assert imported(done.stderr) == NEEDS[command]
    assert not foreign(done.stderr) or command.startswith("completion"), "only it needs the options of all commands"


NOT_OF_A_PIPE = {"difflib", "penstock.run.queues", "penstock.sinks.text.changed_words"}
"""Modules that a pipe without a diff, a second input or a mistake does not need, and other packages do not import."""


def test_a_pipe_of_one_line_imports_nothing_that_it_does_not_use() -> None:
    """The start is most of the time of a short run. A run with a diff imports what compares its lines."""
    words = [sys.executable, "-X", "importtime", "-m", "penstock", "read", "-"]
    env = {**os.environ, "PENSTOCK_CONFIG": os.devnull}

    def modules(stream: bytes) -> set[str]:
        done = subprocess.run(words, input=stream, capture_output=True, env=env, timeout=SECONDS, check=False)
        return {line.split("|")[-1].strip() for line in done.stderr.decode().splitlines()}

    wire = (RECORDINGS / "tools" / "input.ndjson").read_bytes()
    assert not modules(wire.splitlines(keepends=True)[0]) & NOT_OF_A_PIPE
    assert "penstock.sinks.text.changed_words" in modules(wire)


@pytest.mark.slow
def test_the_server_imports_what_it_needs(tmp_path: Path) -> None:
    """`penstock serve` on one machine needs no database, no client of HTTP, no protocol of other programs."""
    words = [sys.executable, "-X", "importtime", "-m", "penstock", "serve", "--port", "0", "--link"]
    log = tmp_path / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*words, "--data", tmp_path / "data", "--root", tmp_path], stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()  # it accepts requests
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(SECONDS) == 0
    assert imported(log.read_text("utf-8")) == SERVER
    assert not foreign(log.read_text("utf-8"))


def test_what_is_imported_is_declared() -> None:
    """The extras hold what some do not need, and each package that the code imports directly is named."""
    assert set(PROJECT["optional-dependencies"]) <= {"cluster", "otel", "push"}
    lines = [line for path in (ROOT / "src").rglob("*.py") for line in path.read_text("utf-8").splitlines()]
    found = {match[1] for line in lines if (match := re.match(r"\s*(?:import|from) (\w+)", line))}
    installed = set(importlib.metadata.packages_distributions()) - set(sys.stdlib_module_names) - {"penstock"}
    assert (found & installed) - PACKAGES == set()
