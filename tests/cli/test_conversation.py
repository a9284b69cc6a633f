"""`penstock run -i` in a terminal: one prompt after the other, in one conversation."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .test_sessions import TIMEOUT, Desk

PENSTOCK = ["-m", "penstock", "run", "claude", "--route", "exec"]

MISSED = """
import signal, threading
from penstock.cli.conversation import read_line

def interrupt():
    signal.sigwait({signal.SIGUSR1})
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
threading.Thread(target=interrupt).start()
try:
    read_line("> ")
except KeyboardInterrupt:
    print("interrupted", signal.getitimer(signal.ITIMER_REAL)[0], read_line("again> "))
"""
"""A prompt whose wait for keys a signal does not interrupt: another thread gets it."""


class Talk:
    """A `penstock run -i` in a terminal of its own, or the code behind `-c`."""

    def __init__(self, desk: Desk, *words: str) -> None:
        self.shown = ""
        self._seen = 0  # end of what was waited for
        command = [sys.executable, *(words if words[0] == "-c" else [*PENSTOCK, *words])]
        self.process, self._terminal = pty.fork()
        if self.process == 0:
            os.chdir(desk.folder)
            os.execvpe(command[0], command, {**desk.env, "TERM": "vt100"})

    def until(self, text: str) -> None:
        """Read the terminal until a text is shown, after what was waited for before."""
        while (at := self.shown.find(text, self._seen)) < 0:
            if not select.select([self._terminal], [], [], TIMEOUT)[0]:
                raise AssertionError(f"{text!r} is not in {self.shown!r}")
            self.shown += os.read(self._terminal, 65536).decode(errors="replace")
        self._seen = at + len(text)

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self._terminal, keys.encode())

    def end(self, keys: str) -> int:
        """Type keys and return the exit status, once it has ended."""
        self.type(keys)
        with contextlib.suppress(OSError):  # the other side is closed
            while select.select([self._terminal], [], [], TIMEOUT)[0] and (piece := os.read(self._terminal, 65536)):
                self.shown += piece.decode(errors="replace")
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A directory with a scripted claude."""
    return Desk(tmp_path)


def test_prompts_follow_each_other(desk: Desk) -> None:
    """Each prompt resumes the conversation of the one before, with the model of the moment; /stop ends it."""
    talk = Talk(desk, "-i", "first prompt")
    talk.until("You said: first prompt")
    talk.until("> ")
    talk.type("second prompt\r")
    talk.until("You said: second prompt")
    talk.until("> ")
    talk.type("/model opus\r")
    talk.until("opus")
    talk.until("> ")
    talk.type("third prompt\r")
    talk.until("You said: third prompt")
    talk.until("> ")
    assert talk.end("/stop\r") == 0
    assert desk.resumed() == [None, "s-first", "s-first"]
    calls = desk.calls.read_text("utf-8").splitlines()
    assert ["--model=opus" in call for call in calls] == [False, False, True]


@pytest.mark.slow
def test_pasted_lines_are_one_prompt(desk: Desk) -> None:
    """A terminal marks what is pasted; nothing is sent before Enter, and then all of it is."""
    talk = Talk(desk, "-i")
    talk.until("> ")
    talk.type("\x1b[200~an error\rof three\rlines\x1b[201~")
    talk.until("lines")
    assert not desk.calls.exists()
    talk.type("\r")
    talk.until("You said: an error")
    talk.until("> ")
    assert talk.end("/stop\r") == 0
    assert desk.resumed() == [None]


@pytest.mark.slow
def test_ctrl_c_drops_a_line_that_is_half_typed(desk: Desk) -> None:
    """The next prompt begins empty; at an empty line Ctrl-C ends the conversation."""
    talk = Talk(desk, "-i")
    talk.until("> ")
    talk.type("half")
    talk.until("half")
    talk.type("\x03")
    talk.until("> ")
    talk.type("whole prompt\r")
    talk.until("You said: whole prompt")
    talk.until("> ")
    assert talk.end("\x03") == 0, talk.shown
    assert desk.resumed() == [None]


def test_ctrl_c_that_the_wait_for_keys_missed(desk: Desk) -> None:
    """It has its effect without another key, and the next line is read as any."""
    talk = Talk(desk, "-c", MISSED)
    talk.until("> ")
    os.kill(talk.process, signal.SIGUSR1)
    talk.until("again> ")
    assert talk.end("line\r") == 0
    assert "interrupted 0.0 line" in talk.shown


@pytest.mark.sample(2)
@pytest.mark.parametrize("keys", ["\x04", "\x03"])
def test_a_key_ends_it(desk: Desk, keys: str) -> None:
    """Ctrl-D and Ctrl-C at the prompt end the conversation; a prompt is asked for if none was given."""
    talk = Talk(desk, "-i")
    talk.until("> ")
    talk.type("only prompt\r")
    talk.until("You said: only prompt")
    talk.until("> ")
    assert talk.end(keys) == 0, talk.shown
    assert desk.resumed() == [None]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("claude", "-i", "hi"), "there is no terminal"),
        (("claude", "-i", "hi", "--to", "ndjson"), "--to ndjson for programs"),
        (("claude,codex", "-i", "hi"), "--interactive talks to one agent"),
        (("claude", "-i", "hi", "--fallback", "codex"), "--interactive talks to one agent"),
    ],
)
def test_where_it_is_not_possible(desk: Desk, words: tuple[str, ...], problem: str) -> None:
    """Without a terminal, for programs and with several agents it is rejected, and nothing is started."""
    done: subprocess.CompletedProcess[str] = desk.penstock("run", *words)
    assert done.returncode == 2
    assert problem in done.stderr
    assert not desk.calls.exists()
