"""What a newcomer pipes in: plain text, binary files, other encodings. Each gets one line that names the way."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.agents.detection import foreign_json, plain_text, stream_flags
from penstock.agents.registry import AGENTS
from penstock.cli.help import text

PENSTOCK = [sys.executable, "-m", "penstock"]
TIMEOUT = 60
LINES = b'{"type":"token","text":"Hel"}\n{"type":"token","text":"lo."}\n{"type":"done"}\n'


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is configured."""
    ours = ("PENSTOCK_", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "GITLAB_CI")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**clean, "XDG_CONFIG_HOME": str(tmp_path / "nowhere"), "PYTHONUTF8": "1"}


def run(env: dict[str, str], *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run penstock, with bytes piped in."""
    return subprocess.run([*PENSTOCK, *words], input=stdin, capture_output=True, env=env, timeout=TIMEOUT, check=False)


@pytest.mark.sample(5)
@pytest.mark.parametrize("to", ["text", "ndjson", "reply", "chunks", "health"])
def test_plain_text_gets_one_line_that_says_what_to_do(env: dict[str, str], to: str) -> None:
    """On stderr, whatever the sink; nothing was read as a stream, so the status is not 0."""
    done = run(env, "--to", to, stdin=b"All done. I changed two files.\n\nBye")
    assert done.returncode == 1
    assert done.stderr.decode() == f"penstock: {plain_text()}\n"
    assert "penstock run claude" in plain_text()
    assert "--output-format stream-json --verbose" in plain_text()


@pytest.mark.sample(9)
@pytest.mark.parametrize("text", ['{"a":1}', '{"a":1}\n{"b":{"c":[2]}}\n', '{"type":"x"}'])
def test_json_of_no_agent_gets_the_same_advice(env: dict[str, str], text: str) -> None:
    """Nothing of it was understood, and that is said, also if an agent is named."""
    done = run(env, stdin=text.encode())
    assert done.returncode == 1
    assert foreign_json() in done.stdout.decode()
    assert b"cut off" not in done.stdout
    assert run(env, "--agent", "claude", stdin=text.encode()).returncode != 0
    assert run(env, stdin=LINES).returncode == 0


def test_plain_text_is_passed_through(env: dict[str, str]) -> None:
    """For people line by line; for `--to reply` as it came."""
    text = "All done. " + "Long line. " * 500 + "\n\n  Bye"
    shown = run(env, stdin=text.encode()).stdout.decode()
    assert "All done." in shown
    assert (shown.count("Long"), shown.count("line.")) == (500, 500)
    assert "Bye" in shown
    assert run(env, "--to", "reply", stdin=text.encode()).stdout.decode() == text + "\n"


def test_plain_text_is_not_held(env: dict[str, str]) -> None:
    """A line is shown before the next one comes."""
    with subprocess.Popen(
        PENSTOCK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        for word in (b"one", b"two"):
            it.stdin.write(word + b"\n")
            it.stdin.flush()
            assert word in it.stdout.readline()
        it.stdin.close()
        it.stdout.read()
        assert it.wait(TIMEOUT) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("banner", [b"Loading ...\n", b"warning: x\n" * 200, b"\x1b[33mnpm\x1b[0m notice\n\n"])
def test_a_banner_is_no_plain_text(env: dict[str, str], banner: bytes) -> None:
    """However long: the stream after it is read, and nothing is said on stderr."""
    done = run(env, "--to", "reply", stdin=banner + LINES)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Hello.\n", b"")


def test_a_binary_file_is_named_and_not_shown(env: dict[str, str], tmp_path: Path) -> None:
    """With the command that makes text of it, where there is one."""
    path = tmp_path / "run.ndjson.gz"
    path.write_bytes(gzip.compress(LINES))
    done = run(env, "read", str(path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"cannot read '{path}': it is binary data (gzip)" in done.stderr.decode()
    assert f"gzip -dc {path} | penstock" in done.stderr.decode()
    done = run(env, stdin=path.read_bytes())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"stdin is binary data (gzip)" in done.stderr


def test_utf_16_is_read(env: dict[str, str], tmp_path: Path) -> None:
    """What PowerShell's `>` writes."""
    path = tmp_path / "run.ndjson"
    path.write_bytes(("\ufeff" + LINES.decode()).encode("utf-16-le"))
    assert run(env, "read", str(path), "--to", "reply").stdout == b"Hello.\n"


def test_garbage_in_the_middle_of_a_stream_is_read_over(env: dict[str, str]) -> None:
    """Only the beginning decides."""
    first, rest = LINES.split(b"\n", 1)
    done = run(env, "--to", "reply", stdin=first + b"\n\x1f\x8b\0\0\xff\n" + rest)
    assert (done.returncode, done.stdout) == (0, b"Hello.\n")


def test_the_help_has_every_agents_flag() -> None:
    """As the table has it, which names the agents that have a stream of their own."""
    assert {*stream_flags()} == {*AGENTS} - {"ccs", "ollama", "vibe", "acp", "generic"}
    for flags in stream_flags().values():
        assert flags in text()
