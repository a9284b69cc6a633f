"""An agent that misbehaves: `agent.py MODE [ARG]` prints lines as claude does, and does what its mode says."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

FOREVER = 1000
SAID = "hello, all of it is here"


def say(**line: object) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def init() -> None:
    """The first line of a run."""
    say(type="system", subtype="init", session_id="s1", model="m1")


def text(words: str, message: str = "m1") -> None:
    """A whole message."""
    say(type="assistant", message={"id": message, "content": [{"type": "text", "text": words}]})


def result(words: str = SAID) -> None:
    """The answer."""
    say(type="result", subtype="success", is_error=False, result=words, session_id="s1", num_turns=1)


def answer(words: str = SAID, message: str = "m1") -> None:
    """A message and the answer that has it."""
    text(words, message)
    result(words)


def deaf() -> None:
    """Take no notice of what may be ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def stay() -> None:
    """Stay to the end of the test."""
    time.sleep(FOREVER)


def told(name: str = "ready") -> None:
    """Say in a file that it is so far, with the process's id."""
    path = os.path.join(os.environ["NOTES"], name)
    with open(f"{path}.{os.getpid()}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{path}.{os.getpid()}.new", path)


def wait_for(name: str) -> None:
    """Wait until somebody made this file."""
    while not os.path.exists(os.path.join(os.environ["NOTES"], name)):
        time.sleep(0.01)


def behind(*, pipe: bool, session: bool) -> None:
    """Leave a grandchild that ignores signals: with stdout still open, or in a session of its own."""
    child = os.fork()
    if child:
        os.waitpid(child, 0) if session else wait_for("grandchild")
        return
    if session:
        os.setsid()
        if os.fork():
            os._exit(0)
    deaf()
    if not pipe:
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
    told("grandchild")
    stay()
    os._exit(0)


def works(then: str) -> None:
    """Answer while a task still runs in the background, and tell of that task later."""
    say(type="system", subtype="task_started", task_id="t1", description="builds")
    answer("it is being built")
    told()
    wait_for("go")
    say(type="system", subtype="task_notification", task_id="t1", status="completed")
    if then == "turn":
        answer("it is built", "m2")


def forks(count: int) -> None:
    """Start many processes, which start more, and leave them."""
    for _ in range(count):
        subprocess.Popen(["sh", "-c", "sleep 1000 & exec sleep 1000"], start_new_session=True)


def flood(size: int) -> None:
    """Fill stderr."""
    part = b"noise " * 10000 + b"\n"
    while size > 0:
        size -= os.write(2, part)
    os.write(2, b"the last line of stderr\n")


def spends(turns: int, end: str) -> None:
    """Call a tool in each of many turns, each of 1000 tokens; then stay, or answer and exit."""
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": "ls"}}
        usage = {"input_tokens": 1000, "output_tokens": 1}
        say(type="assistant", message={"id": f"m{turn}", "content": [call], "usage": usage})
        say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": "x"}]})
    if end == "stay":
        told()
        stay()
    answer(message="last")


def deltas(count: int) -> None:
    """Stream so many pieces of text at once."""
    say(type="stream_event", event={"type": "message_start", "message": {"id": "m1"}})
    block = {"type": "text", "text": ""}
    say(type="stream_event", event={"type": "content_block_start", "index": 0, "content_block": block})
    words = [f"{number} " for number in range(count)]
    lines = (
        json.dumps(
            {
                "type": "stream_event",
                "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}},
            }
        )
        for word in words
    )
    sys.stdout.write("\n".join(lines) + "\n")
    answer("".join(words))


def grows(count: int) -> None:
    """A message that grows piece by piece, each written by itself, after its beginning was written by itself."""
    init()
    say(type="stream_event", event={"type": "message_start", "message": {"id": "m1", "content": []}})
    block = {"type": "text", "text": ""}
    say(type="stream_event", event={"type": "content_block_start", "index": 0, "content_block": block})
    wait_for("go")
    for _ in range(count):
        delta = {"type": "text_delta", "text": "x"}
        say(type="stream_event", event={"type": "content_block_delta", "index": 0, "delta": delta})
        time.sleep(0.002)


def hasty(count: int) -> None:
    """Stream as agents in JavaScript do, which exit without waiting for whoever reads them; a little patience apart."""
    told("pid")
    os.set_blocking(1, False)
    real, sys.stdout = sys.stdout, io.StringIO()
    init()
    deltas(count)
    left = memoryview(sys.stdout.getvalue().encode())
    sys.stdout = real
    end = time.monotonic() + 2
    while left and time.monotonic() < end:
        try:
            left = left[os.write(1, left) :]
            end = time.monotonic() + 2
        except BlockingIOError:
            time.sleep(0.001)


def main(mode: str, value: str = "") -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each mode
    """Misbehave."""
    told("agent")
    if mode == "closes_stdin":
        os.close(0)
    init()
    match mode:
        case "writes":
            for number, path in enumerate(value.split(",")):
                made = {"id": f"t{number}", "name": "Write", "input": {"file_path": path, "content": "words\n"}}
                say(type="assistant", message={"id": f"w{number}", "content": [{"type": "tool_use", **made}]})
                back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "File created."}
                say(type="user", message={"content": [back]})
            answer()
        case "spends":
            spends(5, value)
        case "well" | "closes_stdin":
            answer()
        case "echoes":
            answer(sys.stdin.read())
        case "deaf_after_result":
            deaf()
            answer()
            stay()
        case "never_answers":
            text(SAID)
            told()
            stay()
        case "deaf":
            deaf()
            text(SAID)
            told()
            stay()
        case "never_reads":
            answer()
            told()
            stay()
        case "pipe_behind" | "session_behind" | "pipe_and_session_behind":
            behind(pipe="pipe" in mode, session="session" in mode)
            answer()
        case "behind_while_it_works":
            behind(pipe=False, session=True)
            text(SAID)
            told()
            stay()
        case "works_and_closes":
            say(type="system", subtype="task_started", task_id="t1", description="builds")
            answer()
            os.close(1)
            stay()
        case "forks":
            forks(int(value))
            answer()
        case "floods_and_fails":
            text(SAID)
            flood(int(value))
            sys.exit(3)
        case "half_a_line":
            text(SAID)
            os.write(1, b'{"type":"assistant","message":{"id":"m2","content":[{"type":"te')
            os.kill(os.getpid(), signal.SIGKILL)
        case "exits_1":
            text(SAID)
            sys.stderr.write("it is no good\n")
            sys.exit(1)
        case "exits_with_odd_bytes":
            os.write(2, b"caf\xe9 is \xff\xfe no good\n")
            sys.exit(1)
        case "leaks":
            text(SAID)
            sys.stderr.write(f"{value}\n" * 2000 + f"{value} {'x' * 1865}\n")  # the last 2000 characters begin in it
            sys.stderr.write(f"fatal: secret {value} {os.environ['ACME_TOKEN']}\n")
            sys.exit(137)
        case "closes_stdout":
            text(SAID)
            os.close(1)
            stay()
        case "works":
            works(value)
        case "deltas":
            deltas(int(value))
        case "grows":
            grows(100)
            answer("x" * 100)
        case "grows_and_stays":
            grows(1)
            stay()
        case "hasty":
            hasty(int(value))
        case _:
            sys.exit(f"no such mode: {mode}")


if __name__ == "__main__":
    main(*sys.argv[1:])
