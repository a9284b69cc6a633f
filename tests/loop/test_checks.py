from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from penstock.loop.checks import MAX_KEPT_BYTES, CommandRun
from penstock.loop.steps import MAX_OUTPUT_CHARS, CommandEnded


def run(command: str, cwd: Path, seconds: float = 60.0) -> CommandEnded:
    """Run a check to its end."""
    return CommandRun(command, cwd, os.environ, seconds).to_end(cwd / "log" / "check.txt")


@pytest.mark.parametrize(
    ("command", "status"), [("true", 0), ("exit 3", 3), ("no-such-program", 127), ("kill -9 $$", -9)]
)
def test_the_exit_status_is_the_result(tmp_path: Path, command: str, status: int) -> None:
    """A check is green if its exit status is 0, whatever it prints."""
    ended = run(f"echo 0 failed; {command}", tmp_path)
    assert ended.status == status
    assert ended.is_green == (status == 0)
    assert "0 failed" in ended.output


def test_l10_a_check_that_hangs_is_ended(tmp_path: Path) -> None:
    """A check that hangs, whatever signals it ignores, is ended by its time limit."""
    ended = run("trap '' TERM INT HUP; while :; do sleep 1; done", tmp_path, seconds=0.5)
    assert ended.status is None
    assert ended.reason == "it did not end within 0.5 s"


def test_l10_a_daemon_of_a_check_does_not_stay(tmp_path: Path) -> None:
    """A process that a check leaves behind in a session of its own is gone when the check is over."""
    ended = run("setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -s pid ]; do sleep 0.01; done", tmp_path)
    assert ended.status == 0
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_l10_endless_output_is_bounded(tmp_path: Path) -> None:
    """Of a large output the end is kept, in memory, on disk and in the journal."""
    ended = run("head -c 300000000 /dev/zero | tr '\\0' 'x'; echo; echo the end", tmp_path)
    assert ended.status == 0
    assert ended.output.endswith("the end\n")
    assert len(ended.output) == MAX_OUTPUT_CHARS
    assert (tmp_path / "log" / "check.txt").stat().st_size <= MAX_KEPT_BYTES + 65536


def test_secrets_of_the_output_are_removed(tmp_path: Path) -> None:
    """A known token, and the value of a variable of the check, are neither in the journal's part nor in the file."""
    token, value = "ghp_" + "a1" * 18, "a value of the test"
    env = {**os.environ, "DEPLOY_TOKEN": value}
    log = tmp_path / "check.txt"
    ended = CommandRun(f'echo "before {token} behind"; echo "got $DEPLOY_TOKEN" >&2; false', tmp_path, env).to_end(log)
    assert ended.status == 1
    assert ended.output == "before [removed: a token of GitHub] behind\ngot [removed: the value of DEPLOY_TOKEN]\n"
    assert log.read_bytes().decode() == ended.output


@pytest.mark.slow
def test_no_half_of_a_secret_is_left_where_the_output_is_cut(tmp_path: Path) -> None:
    """The kept part of a large output does not begin in the middle of a line: it could be that of a token."""
    token, log = "ghp_" + "a1" * 18, tmp_path / "check.txt"
    line = f"{token} {'x' * 58}"  # whatever the place of the cut, a token is near
    ended = CommandRun(f"yes {shlex.quote(line)} | head -n 60000", tmp_path, os.environ).to_end(log)
    assert ended.is_green
    assert MAX_KEPT_BYTES / 2 < log.stat().st_size < 60_000 * len(line)
    assert set(log.read_text().splitlines()) == {f"[removed: a token of GitHub] {'x' * 58}"}


def test_l10_a_check_has_no_terminal(tmp_path: Path) -> None:
    """A check that asks a person finds no terminal and no input, and ends."""
    ended = run("read answer; cat; cat /dev/tty", tmp_path)
    assert ended.status == 1
    assert "/dev/tty" in ended.output


def test_a_check_can_be_stopped(tmp_path: Path) -> None:
    """A stop ends a running check, and the result says so."""
    command = CommandRun("sleep 1000", tmp_path, os.environ, 60.0, lambda: True)
    began = time.monotonic()
    ended = command.to_end()
    assert ended.reason == "it was stopped"
    assert time.monotonic() - began < 30  # instead of 1000 seconds


def test_output_of_both_streams_is_in_order(tmp_path: Path) -> None:
    """Lines of stdout and stderr are kept in the order in which they were written."""
    assert run("echo 1; echo 2 >&2; echo 3", tmp_path).output == "1\n2\n3\n"
