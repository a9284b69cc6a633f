"""What is piped into `penstock run`: real pipes, files, sockets and terminals, and an agent that repeats its prompt."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import UsageError, agent
from penstock.adapter import MAX_ARGUMENT_BYTES, MAX_STDIN_BYTES, with_stdin
from penstock.cli import piped
from penstock.config.settings import load
from penstock.run.launch import plan
from penstock.run.spec import spec_of

ROOT = Path(__file__).parents[2]
TIMEOUT = 60
"""Seconds after which a process hangs."""
SOON, NEVER = 0.05, 1000.0
"""Times after which something happens, so that no test waits."""

ECHO = """\
import json, sys

prompt = sys.stdin.buffer.read() if sys.argv[1] == "stdin" else sys.argv[-1].encode(errors="surrogateescape")
text = prompt.decode(errors="replace")
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": "s1"}))
"""
ACP = """\
import json, sys

def say(**line):
    print(json.dumps({"jsonrpc": "2.0", **line}), flush=True)

for line in sys.stdin:
    got = json.loads(line)
    match got.get("method"):
        case "initialize":
            say(id=got["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            say(id=got["id"], result={"sessionId": "s1"})
        case "session/prompt":
            chunk = {"sessionUpdate": "agent_message_chunk", "content": got["params"]["prompt"][0]}
            say(method="session/update", params={"sessionId": "s1", "update": chunk})
            say(id=got["id"], result={"stopReason": "end_turn"})
"""
PENSTOCK = """\
import sys
from penstock.cli import main, piped

piped.FIRST_BYTE_SECONDS, piped.NOTICE_SECONDS = {first}, {notice}
sys.exit(main.main({words}))
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment in which agents are configured that get their prompt by stdin, as an argument, and over ACP."""
    (tmp_path / "echo.py").write_text(ECHO)
    config = "".join(
        f'[agents.{name}]\ncommand = ["{sys.executable}", "{tmp_path}/echo.py", "{how}"]\n'
        f'adapter = "claude"\nprompt = "{how}"\n'
        for name, how in (("good", "stdin"), ("other", "stdin"), ("words", "argument"))
    )
    (tmp_path / "acp.py").write_text(ACP)
    config += f'[agents.two-way]\ncommand = ["{sys.executable}", "{tmp_path}/acp.py"]\nprotocol = "acp"\n'
    (tmp_path / "own.toml").write_text(config)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**clean, "PENSTOCK_CONFIG": str(tmp_path / "own.toml"), "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}


@pytest.fixture
def start(env: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start `penstock run` with these words, with `first` and `notice` for the times of `piped`."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, first: float = NEVER, notice: float = NEVER, **more: Any) -> subprocess.Popen[bytes]:
        program = PENSTOCK.format(first=first, notice=notice, words=["run", *words, "--to", "reply"])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen([sys.executable, "-c", program], env=env, cwd=tmp_path, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(TIMEOUT)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def said(process: subprocess.Popen[bytes], given: bytes | None = None) -> tuple[int, str, str]:
    """Exit status, reply and stderr of a process that is given these bytes."""
    out, err = process.communicate(given, TIMEOUT)
    return process.returncode, out.decode(), err.decode()


def joined(prompt: str, text: str) -> str:
    """What an agent gets, and says again as its reply."""
    return f"{prompt}\n\n<stdin>\n{text}\n</stdin>\n"


# --- what is handed on ---


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", ["good", "words", "two-way"])
@pytest.mark.parametrize("text", ["one line", "größe 👋\r\n\ttwo", "a </stdin> and a <stdin> are data"])
def test_both_are_handed_on(start: Start, name: str, text: str) -> None:
    """The prompt, and what is piped in, however the agent gets its prompt."""
    assert said(start(name, "review this"), text.encode()) == (0, joined("review this", text), "")


@pytest.mark.slow
def test_the_last_line_is_ended_once(start: Start) -> None:
    """A text that ends its last line itself gets no empty one."""
    assert said(start("good", "hi"), b"a\n")[1] == joined("hi", "a")
    assert said(start("good", "hi"), b"a\n\n")[1] == joined("hi", "a\n")


@pytest.mark.slow
def test_every_agent_of_the_run_gets_it(start: Start) -> None:
    """`run a,b,c`: the same for each."""
    status, out, _ = said(start("good,other,words", "hi"), b"shared")
    assert (status, out.count(f" <==\n{joined('hi', 'shared')}\n")) == (0, 3)


def test_a_file(start: Start, tmp_path: Path) -> None:
    """`< FILE` is as good as a pipe."""
    (tmp_path / "diff").write_text("+ line")
    with (tmp_path / "diff").open("rb") as file:
        assert said(start("good", "hi", stdin=file)) == (0, joined("hi", "+ line"), "")


@pytest.mark.slow
def test_a_socket(start: Start) -> None:
    """As ssh and other programs hand them on."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start("good", "hi", stdin=theirs)
        ours.sendall(b"from a socket")
        ours.shutdown(socket.SHUT_WR)
        assert said(process) == (0, joined("hi", "from a socket"), "")


@pytest.mark.slow
def test_a_pipe_that_does_not_block(start: Start) -> None:
    """Another program may have set it so."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = start("good", "hi", stdin=reading)
    os.close(reading)
    os.write(writing, b"late")
    os.close(writing)
    assert said(process) == (0, joined("hi", "late"), "")


@pytest.mark.slow
def test_bytes_that_are_no_utf_8(start: Start) -> None:
    """An agent that reads its prompt gets them as they are (and shows them replaced)."""
    assert said(start("good", "hi"), b"caf\xe9")[1] == joined("hi", "caf�")


@pytest.mark.slow
def test_all_that_fits(start: Start) -> None:
    """10 MiB arrive whole."""
    text = b"x" * (MAX_STDIN_BYTES - 4) + b"end."
    status, out, err = said(start("good", "hi"), text)
    assert (status, len(out), out[-14:], err) == (0, len(joined("hi", text.decode())), "end.\n</stdin>\n", "")


# --- what is left alone ---


def test_nothing_in_it(start: Start) -> None:
    """A pipe that ends at once, and an empty file, add nothing, and nobody is notified."""
    assert said(start("good", "hi"), b"") == (0, "hi\n", "")


@pytest.mark.slow
def test_nothing_at_all(start: Start) -> None:
    """/dev/null, for reading or, as `nohup` leaves it, for writing alone; no stdin."""
    assert said(start("good", "hi", stdin=subprocess.DEVNULL)) == (0, "hi\n", "")
    for mode in (os.O_WRONLY, os.O_RDWR):
        null = os.open(os.devnull, mode)
        assert said(start("good", "hi", stdin=null)) == (0, "hi\n", "")
        os.close(null)


@pytest.mark.sample(2)
@pytest.mark.parametrize("redirected", ["<&-", "0>written"])
@pytest.mark.slow
def test_no_stdin(env: dict[str, str], tmp_path: Path, redirected: str) -> None:
    """Closed, or open for writing alone: there is nothing to lose, and the agent gets a sound stdin of its own."""
    line = f'"{sys.executable}" -m penstock run good hi --to reply {redirected}'
    done = subprocess.run(["sh", "-c", line], env=env, cwd=tmp_path, capture_output=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b"")


@pytest.mark.slow
def test_never(start: Start) -> None:
    """`--stdin never` reads no byte of it."""
    reading, writing = os.pipe()
    os.write(writing, b"the loop's")
    assert said(start("good", "hi", "--stdin", "never", stdin=reading)) == (0, "hi\n", "")
    assert os.read(reading, 100) == b"the loop's"
    os.close(reading)
    os.close(writing)


@pytest.mark.slow
def test_a_terminal(start: Start) -> None:
    """What is typed there is no text for the agent."""
    ours, theirs = pty.openpty()
    process = start("good", "hi", stdin=theirs)
    os.write(ours, b"typed\n")
    assert said(process) == (0, "hi\n", "")
    os.close(ours)
    os.close(theirs)


BACKGROUND = """\
import fcntl, os, subprocess, sys, termios

os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
words = [sys.executable, "-m", "penstock", "run", "good", "hi", "--to", "reply"]
sys.exit(subprocess.run(words, process_group=0, timeout=50, check=False).returncode)
"""


def test_a_terminal_in_the_background(env: dict[str, str], tmp_path: Path) -> None:
    """A background job of a shell is not stopped for reading its terminal, as it does not read it."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", BACKGROUND]
    done = subprocess.run(words, stdin=theirs, env=env, cwd=tmp_path, capture_output=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b"")
    os.close(ours)
    os.close(theirs)


@pytest.mark.slow
def test_a_loop_over_lines(env: dict[str, str], tmp_path: Path) -> None:
    """A run eats what a loop still has to read, unless it is kept from it."""
    (tmp_path / "list").write_text("one\ntwo\n")
    run = f'"{sys.executable}" -m penstock run good "$line" --to reply'

    def loop(more: str) -> str:
        line = f"while read -r line; do {run} {more}; done < list"
        return subprocess.run(
            ["sh", "-c", line], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=True
        ).stdout

    assert loop("--stdin never") == loop("< /dev/null") == "one\ntwo\n"
    assert loop("") == joined("one", "two")


# --- what is refused ---


@pytest.mark.sample(3)
@pytest.mark.parametrize("words", [("good", "hi"), ("good", "-"), ("good",)])
def test_a_stream_without_an_end(start: Start, words: tuple[str, ...]) -> None:
    """It is refused in one line, beside a prompt and as one."""
    with open("/dev/zero", "rb") as zero:
        status, out, err = said(start(*words, stdin=zero))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "stdin holds more than 10,485,760 bytes" in err
    assert "--stdin never" in err


@pytest.mark.parametrize("read", [piped.read_beside, piped.read_prompt])
def test_what_cannot_be_read(read: Callable[..., str]) -> None:
    """A folder (with which Python itself does not start), as any file that fails: a sentence."""
    folder = os.open("/", os.O_RDONLY)
    with pytest.raises(UsageError, match="stdin cannot be read: Is a directory; expected a file or a pipe"):
        read(pytest.fail, folder)
    os.close(folder)


def test_one_byte_too_much(start: Start) -> None:
    """10 MiB and a byte are refused, never cut."""
    status, out, err = said(start("good", "hi"), b"x" * (MAX_STDIN_BYTES + 1))
    assert (status, out) == (2, "")
    assert "more than 10,485,760 bytes" in err


def test_binary_data(start: Start) -> None:
    """A NUL byte is no text."""
    status, out, err = said(start("good", "hi"), b"\x7fELF\0\1")
    assert (status, out) == (2, "")
    assert "stdin holds binary data" in err


def test_an_agent_that_takes_an_argument(start: Start) -> None:
    """What is too long for an argument is refused in words before anything starts."""
    status, out, err = said(start("words", "hi"), b"x" * MAX_ARGUMENT_BYTES)
    assert (status, out) == (2, "")
    assert (
        "the prompt, with all that goes with it, has 131,092 bytes, which is too long for words; expected at most"
        in err
    )


@pytest.mark.parametrize(
    ("name", "route", "size"),
    [
        ("claude", "exec", 10 << 20),
        ("ccs", "exec", 10 << 20),
        ("gemini", "exec", 8 << 20),
        ("qwen", "exec", 8 << 20),
        ("codex", "server", 1 << 20),
        ("codex", "exec", 1 << 20),
        ("cline", "exec", MAX_ARGUMENT_BYTES),
    ],
)
def test_agents_that_drop_or_refuse_long_prompts(name: str, route: str, size: int) -> None:
    """What the real agent would cut or refuse is refused before it starts; what it takes is not."""
    for more, is_long in ((0, False), (1, True)):
        text = "x" * (size - len(with_stdin("hi", "x")) + 1 + more)
        asked = {"agent": name, "prompt": "hi", "stdin_text": text, "route": route}
        try:
            plan(spec_of({**asked, "environ": {"PATH": "/nowhere"}}), load({}))
            problem = ""
        except UsageError as error:
            problem = str(error)
        assert ("with all that goes with it" in problem) is is_long, problem


def test_an_empty_prompt_stays_one(start: Start) -> None:
    """Text beside it makes no prompt of nothing, and is not waited for."""
    status, out, err = said(start("good", " "))
    assert (status, out) == (2, "")
    assert "the prompt is empty" in err


@pytest.mark.slow
def test_never_and_no_prompt(start: Start) -> None:
    """`--stdin never` and a prompt from stdin contradict each other."""
    for words in (("good",), ("good", "-")):
        status, out, err = said(start(*words, "--stdin", "never"))
        assert (status, out) == (2, "")
        assert "--stdin never leaves no prompt" in err


# --- time ---


@pytest.mark.slow
def test_a_pipe_that_nobody_writes_to(start: Start) -> None:
    """The run starts without it, and stderr says so."""
    process = start("good", "hi", first=SOON)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read() == b"hi\n"  # with stdin still open
    assert process.wait(TIMEOUT) == 0
    err = process.stderr.read().decode()
    assert err.startswith("penstock: nothing came from stdin in 0.05 s, and the run starts without it")
    assert err.count("\n") == 1


def test_how_long_is_waited() -> None:
    """3 s: what other programs need to begin."""
    assert piped.FIRST_BYTE_SECONDS == 3.0


@pytest.mark.slow
def test_a_pipe_that_stalls(start: Start) -> None:
    """What has begun is read to its end, however long it takes, and the user is notified."""
    process = start("good", "hi", notice=SOON)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"begun")
    process.stdin.flush()
    assert b"stdin is still open" in process.stderr.readline()
    process.stdin.write(b" and ended")
    assert said(process) == (0, joined("hi", "begun and ended"), "")


def test_interrupted_while_stdin_is_read(start: Start) -> None:
    """Ctrl-C ends the wait, and nothing is started."""
    process = start("good", "hi", notice=SOON)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"begun")
    process.stdin.flush()
    assert b"stdin is still open" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert said(process) == (130, "", "")


# --- in Python ---


def test_in_python(tmp_path: Path) -> None:
    """`stdin_text` has the same form, in `run` and in `send_streaming`."""
    (tmp_path / "echo.py").write_text(ECHO)
    echo = agent("echo", command=[sys.executable, str(tmp_path / "echo.py"), "stdin"], adapter="claude")
    with echo.run("hi", stdin_text="a\nb") as run:
        assert run.wait().reply + "\n" == joined("hi", "a\nb")
    chunks = [*echo.send_streaming("hi", stdin_text="a\nb")]
    assert f"{chunks[-1].reply}\n" == joined("hi", "a\nb")
    with echo.run("hi", stdin_text="") as run:
        assert run.wait().reply == "hi"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"bytes", "stdin_text is b'bytes'; expected a string, or None"),
        (5, "stdin_text is 5; expected a string, or None"),
        ("x" * (MAX_STDIN_BYTES + 1), "stdin_text has 10,485,761 bytes; expected at most 10,485,760"),
        ("€" * (MAX_STDIN_BYTES // 3 + 1), "stdin_text has 10,485,762 bytes"),
        ("a\0b", "NUL character"),
        ("\ud800", "half a character"),
    ],
    ids=["bytes", "a number", "long", "long in bytes", "NUL", "half a pair"],
)
def test_in_python_it_cannot_be(text: Any, problem: str) -> None:
    """A wrong type, too much, or what no agent can be given: refused before anything starts."""
    echo = agent("echo", command=["cat"], adapter="claude")
    with pytest.raises(UsageError) as caught:
        echo.run("hi", stdin_text=text)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 300
