"""`penstock run -i` in a terminal: one prompt after the other, in one conversation."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from talk import Talk

from .test_sessions import Desk

PENSTOCK = ["-m", "penstock", "run", "claude", "--route", "exec"]

MISSED = """
import signal, threading
from penstock.cli.editor.plain_line import read_line

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


def talking(desk: Desk, *words: str, term: str = "vt100") -> Talk:
    """Begin a `penstock run` of claude in a terminal of its own, or the code behind `-c`."""
    return Talk(desk.folder, desk.env, *(words if words[:1] == ("-c",) else [*PENSTOCK, *words]), term=term)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A directory with a scripted claude."""
    return Desk(tmp_path)


@pytest.mark.slow
def test_prompts_follow_each_other(desk: Desk) -> None:
    """Each prompt resumes the conversation of the one before, with the model of the moment; /stop ends it."""
    talk = talking(desk, "-i", "first prompt")
    talk.until("You said: first prompt")
    talk.asked()
    talk.type("second prompt\r")
    talk.until("You said: second prompt")
    talk.asked()
    talk.type("/model opus\r")
    talk.until("opus")
    talk.asked()
    talk.type("third prompt\r")
    talk.until("You said: third prompt")
    talk.asked()
    assert talk.end("/stop\r") == 0
    assert desk.resumed() == [None, "s-first", "s-first"]
    calls = desk.calls.read_text("utf-8").splitlines()
    assert ["--model=opus" in call for call in calls] == [False, False, True]


@pytest.mark.slow
def test_pasted_lines_are_one_prompt(desk: Desk) -> None:
    """A terminal marks what is pasted; nothing is sent before Enter, and then all of it is."""
    talk = talking(desk, "-i")
    talk.asked()
    talk.type("\x1b[200~an error\rof three\rlines\x1b[201~")
    talk.until("lines")
    assert not desk.calls.exists()
    talk.type("\r")
    talk.until("You said: an error")
    talk.asked()
    assert talk.end("/stop\r") == 0
    assert desk.resumed() == [None]


@pytest.mark.slow
def test_ctrl_c_drops_a_line_that_is_half_typed(desk: Desk) -> None:
    """The next prompt begins empty; Ctrl-D ends the conversation."""
    talk = talking(desk, "-i")
    talk.asked()
    talk.type("half")
    talk.until("half")
    talk.type("\x03")
    talk.asked()
    talk.type("whole prompt\r")
    talk.until("You said: whole prompt")
    talk.asked()
    assert talk.end("\x04") == 0, talk.text
    assert desk.resumed() == [None]


def test_ctrl_c_that_the_wait_for_keys_missed(desk: Desk) -> None:
    """It has its effect without another key, and the next line is read as any."""
    talk = talking(desk, "-c", MISSED)
    talk.asked()
    os.kill(talk.process, signal.SIGUSR1)
    talk.until("again>")
    assert talk.end("line\r") == 0
    assert "interrupted 0.0 line" in talk.shown


@pytest.mark.sample(2)
@pytest.mark.parametrize(("keys", "term"), [("\x04", "vt100"), ("\x04", "dumb"), ("\x03", "dumb")])
@pytest.mark.slow
def test_a_key_ends_it(desk: Desk, keys: str, term: str) -> None:
    """Ctrl-D at the prompt ends the conversation, and Ctrl-C in a plain terminal; a missing prompt is asked for."""
    talk = talking(desk, "-i", term=term)
    talk.asked()
    talk.type("only prompt\r")
    talk.until("You said: only prompt")
    talk.asked()
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
