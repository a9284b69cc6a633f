"""`--quiet-ok`: nothing is written if the run ends well, and everything if not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

how = sys.argv[1]
sys.stdin.read()
say(type="system", subtype="init", session_id=how, model="m1")
say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": "Some words."}]})
if how == "slow":
    open(sys.argv[2], "w")
    time.sleep(600)
say(type="result", subtype="success", is_error=how == "bad", result="over", session_id=how,
    **({"api_error_status": 529} if how == "bad" else {}),
    **({"permission_denials": [{"tool_use_id": "t0"}]} if how == "denied" else {}))
"""


class Desk:
    """Scripted agents."""

    def __init__(self, folder: Path) -> None:
        self.begun = folder / "begun"
        (folder / "agent.py").write_text(AGENT, "utf-8")
        config = [
            f'[agents.{how}]\nadapter = "claude"\n'
            f'command = ["{sys.executable}", "{folder / "agent.py"}", "{how}", "{self.begun}"]\n'
            for how in ("good", "bad", "denied", "slow")
        ]
        config.append(f'[agents.claude]\ncommand = ["{folder / "claude"}"]\n')
        (folder / "claude").write_text(f"#!/bin/sh\nexec {sys.executable} {folder / 'agent.py'} denied\n")
        (folder / "claude").chmod(0o755)
        config.append('[agents.absent]\nadapter = "claude"\ncommand = ["no-such-program-anywhere"]\n')
        self.config = folder / "config.toml"
        self.config.write_text("\n".join(config), "utf-8")
        self.env = {**os.environ, "PENSTOCK_CONFIG": str(self.config), "PENSTOCK_DATA": str(folder / "data")}

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start a run."""
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", "run", *words, "--quiet-ok"],
            env=self.env | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **more: str) -> tuple[int, str, str]:
        """Run a command to its end; return its exit status, and what it wrote."""
        with self.start(*words, **more) as process:
            out, errors = process.communicate(timeout=TIMEOUT)
        return process.returncode, out, errors


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


@pytest.mark.slow
def test_a_good_run_writes_nothing(desk: Desk) -> None:
    """Nor do several, another agent that takes over, and a denied action that does not count."""
    assert desk.run("good", "hi") == (0, "", "")
    assert desk.run("good,good", "hi", CI="true") == (0, "", "")
    assert desk.run("bad", "hi", "--fallback", "good") == (0, "", "")
    assert desk.run("denied", "hi") == (0, "", "")


@pytest.mark.slow
def test_a_run_that_failed_writes_everything(desk: Desk) -> None:
    """The whole log, in the order in which it was written, on stdout."""
    status, out, errors = desk.run("bad", "hi", "--fallback", "absent")
    assert (status, errors) == (1, "")
    places = [out.index(text) for text in ("session bad", "failed: the provider is overloaded", "no other agent")]
    assert places == sorted(places)
    assert desk.run("good,bad", "hi")[1].count("Some words.") == 2
    status, out, _ = desk.run("claude", "hi", "--route=exec", "--fail-on-refusal")
    assert (status, "Some words." in out) == (7, True)
    status, out, errors = desk.run("absent", "hi")
    assert (status, out) == (127, "")
    assert "no-such-program-anywhere" in errors


@pytest.mark.slow
def test_warnings_about_the_configuration(desk: Desk) -> None:
    """They are a part of the log: a good run does not write them, and one that failed or cannot start does."""
    with desk.config.open("a", encoding="utf-8") as file:
        file.write("[output]\nnosuch = 1\n")
    warning = "penstock: warning: "
    assert desk.run("good", "hi") == (0, "", "")
    status, out, errors = desk.run("bad", "hi")
    assert (status, errors) == (1, "")
    assert out.startswith(warning)
    assert "output.nosuch" in out.splitlines()[0]
    status, out, errors = desk.run("nobody", "hi")
    assert (status, out.count(warning), out.count("\n")) == (2, 1, 1)
    assert "there is no agent 'nobody'" in errors


@pytest.mark.slow
def test_a_collector_that_is_away(desk: Desk) -> None:
    """Spans that nobody takes are no reason to write something about a good run."""
    pytest.importorskip("opentelemetry", reason="needs the extra otel")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_TIMEOUT": "2"}
    assert desk.run("good", "hi", "--otel", **away) == (0, "", "")


@pytest.mark.slow
def test_a_run_that_is_stopped_writes_everything(desk: Desk) -> None:
    """What was said before a signal is there."""
    with desk.start("slow", "hi") as process:
        while not desk.begun.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 143
    assert "Some words." in out


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_crash(desk: Desk) -> None:
    """The status is that of a closed pipe."""
    with desk.start("bad", "hi") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(TIMEOUT) == 141


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "reply"], "--quiet-ok writes nothing if all ends well, and --to reply is for a reader of the output"),
        (["--interactive"], "--quiet-ok shows what has failed, and --interactive is a conversation"),
    ],
)
def test_options_that_do_not_fit(desk: Desk, words: list[str], said: str) -> None:
    """They are rejected before anything starts."""
    status, out, errors = desk.run("good", "hi", *words)
    assert (status, out) == (2, "")
    assert said in errors


@pytest.mark.slow
def test_without_a_place_for_the_output(desk: Desk) -> None:
    """The error comes before the start."""
    status, out, errors = desk.run("good", "hi", TMPDIR="/dev/null", TEMP="/dev/null", TMP="/dev/null")
    assert status == 0 or (out, "--quiet-ok needs a file" in errors) == ("", True)
