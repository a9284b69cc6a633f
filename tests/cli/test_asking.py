"""Questions of an agent at a real terminal: only what is typed behind the prompt answers them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

ROOT = Path(__file__).parents[2]
LIMIT = 60
"""Seconds after which nothing comes any more. Only a test that fails waits for them."""

PROMPT = re.compile(r"Answer asks \([^)]*\): ")

# The options come in the order in which gemini and claude over ACP give them: the one that lasts comes first.
ASKS = """\
import json, os, sys, threading, time

def say(**line):
    print(json.dumps({"jsonrpc": "2.0", **line}), flush=True)

answers = []

def leave():
    while not os.path.exists("leave"):
        time.sleep(0.01)
    os._exit(1)

def ask():
    threading.Thread(target=leave, daemon=True).start()
    call = {"toolCallId": f"c{len(answers)}", "title": "rm -rf build", "kind": "execute", "status": "pending"}
    options = [{"optionId": id, "name": name, "kind": kind} for id, name, kind in (
        ("session", "Allow for this session", "allow_always"),
        ("once", "Do it", "allow_once"),
        ("no", "Leave it", "reject_once"),
    )]
    asked = {"sessionId": "s1", "toolCall": call, "options": options}
    say(id=len(answers), method="session/request_permission", params=asked)

for line in sys.stdin:
    got = json.loads(line)
    match got.get("method"):
        case "initialize":
            say(id=got["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            say(id=got["id"], result={"sessionId": "s1"})
        case "session/prompt":
            turn, wanted = got["id"], int(got["params"]["prompt"][0]["text"][0])
            while not os.path.exists("go"):
                time.sleep(0.01)
            ask()
        case "session/cancel":
            say(id=turn, result={"stopReason": "cancelled"})
        case None:
            answers.append(got["result"]["outcome"].get("optionId", "none"))
            if len(answers) < wanted:
                ask()
                continue
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "; ".join(answers)}}
            say(method="session/update", params={"sessionId": "s1", "update": chunk})
            say(id=turn, result={"stopReason": "end_turn"})
"""


WORKS = """\
import json, os, time

while not os.path.exists("is-asked"):
    time.sleep(0.01)
open("worked", "w").close()
print(json.dumps({"type": "text", "text": "done"}))
"""
"""An agent that begins to work while the other one asks."""


class Person:
    """Somebody at a terminal of their own, in which `penstock run` runs these agents: `asks`, or it and `works`."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        agents: str = "asks",
        stdin: int | None = None,
        stdout: int | None = None,
    ) -> None:
        self.seen = ""
        self._ours, theirs = pty.openpty()
        config = f'[agents.asks]\ncommand = ["{sys.executable}", "{folder}/asks.py"]\nprotocol = "acp"\n'
        config += f'[agents.works]\ncommand = ["{sys.executable}", "{folder}/works.py"]\n'
        (folder / "works.py").write_text(WORKS)
        (folder / "asks.py").write_text(ASKS)
        (folder / "own.toml").write_text(config)
        env = {**os.environ, "PENSTOCK_CONFIG": str(folder / "own.toml"), "PYTHONPATH": str(ROOT / "src")}

        def own_terminal() -> None:
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "run", agents, *words, "--color=never"],
            stdin=theirs if stdin is None else stdin,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            env=env,
            cwd=folder,
            start_new_session=True,
            preexec_fn=own_terminal,  # nothing else runs in this process
        )
        self._theirs = theirs
        self._folder = folder

    def let_it_ask(self) -> None:
        """Let the agent ask what it has to ask."""
        (self._folder / "go").touch()

    def let_it_leave(self) -> None:
        """Let the agent exit while its question waits."""
        (self._folder / "leave").touch()

    def type(self, keys: bytes) -> None:
        """Press keys. The terminal has them when this returns, since it echoes them."""
        os.write(self._ours, keys)

    def read_until(self, there: Callable[[str], Any]) -> None:
        """Read the screen until it shows what is waited for."""
        while not there(self.seen):
            assert select.select([self._ours], [], [], LIMIT)[0], f"nothing more came after {self.seen!r}"
            self.seen += os.read(self._ours, 65_536).decode().replace("\r\n", "\n")

    def prompts(self, number: int) -> None:
        """Wait until there were so many prompts."""
        self.read_until(lambda seen: len(PROMPT.findall(seen)) >= number)

    def end(self) -> int:
        """Read all that still comes; the exit status."""
        status = self.process.wait(LIMIT)
        while select.select([self._ours], [], [], 0)[0]:
            self.seen += os.read(self._ours, 65_536).decode().replace("\r\n", "\n")
        return status

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def sit_down(tmp_path: Path) -> Iterator[Callable[..., Person]]:
    """Start `penstock run` with these words in front of somebody."""
    people = []

    def sit_down(*words: str, **given: Any) -> Person:
        people.append(Person(tmp_path, *words, **given))
        return people[-1]

    yield sit_down
    for person in people:
        person.close()


@pytest.mark.slow
def test_what_was_typed_before_the_prompt_answers_nothing(sit_down: Callable[..., Person]) -> None:
    """Neither a line nor the beginning of one; what is typed behind the prompt does."""
    person = sit_down("1 question")
    person.type(b"1\ny\nsession")
    person.read_until(lambda seen: "session" in seen)  # the terminal has it all
    person.let_it_ask()
    person.prompts(1)
    person.type(b"n\n")
    assert person.end() == 0
    assert "[asks] no" in person.seen
    assert len(PROMPT.findall(person.seen)) == 1


@pytest.mark.slow
def test_an_answer_typed_twice_answers_one_question(sit_down: Callable[..., Person]) -> None:
    """The second question waits for an answer of its own."""
    person = sit_down("2 questions")
    person.let_it_ask()
    person.prompts(1)
    person.type(b"y\ny\n")
    person.prompts(2)
    person.type(b"n\n")
    assert person.end() == 0
    assert "[asks] once; no" in person.seen


@pytest.mark.slow
def test_what_follows_a_wrong_answer_is_dropped(sit_down: Callable[..., Person]) -> None:
    """The question is asked again with the reason, and only what is typed after that counts."""
    person = sit_down("1 question")
    person.let_it_ask()
    person.prompts(1)
    person.type(b"what?\ny\n")
    person.prompts(2)
    assert '"what?" is not one of the answers; type 1-4, y, a or n.\n' in person.seen
    person.type(b"\n")
    person.prompts(3)
    assert "nothing was typed; type 1-4, y, a or n.\n" in person.seen
    person.type(b"n\n")
    assert person.end() == 0
    assert "[asks] no" in person.seen
    assert person.seen.count("1. Do it") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        (b"1\n", "once"),
        (b"2\n", "once"),  # Penstock allows this command again, the agent is not asked to
        (b"3\n", "session"),
        (b"4\n", "no"),
        (b"y\n", "once"),
        (b"Yes\n", "once"),
        (b"a\n", "once"),
        (b"n\n", "no"),
        (b"leave it\n", "no"),
        (b"\x04", "no"),
    ],
)
def test_the_answers_that_are_understood(sit_down: Callable[..., Person], typed: bytes, chosen: str) -> None:
    """Numbers in one order for all agents, short words, the option's own; the end of the input rejects."""
    person = sit_down("1 question")
    person.let_it_ask()
    person.prompts(1)
    person.type(typed)
    assert person.end() == 0
    assert f"[asks] {chosen}" in person.seen


def test_the_question_is_written_once_and_says_what_is_asked(sit_down: Callable[..., Person]) -> None:
    """It is in the output; behind it comes the prompt alone."""
    person = sit_down("1 question")
    person.let_it_ask()
    person.prompts(1)
    assert "[asks] ? asks to run a command: rm -rf build\n" in person.seen
    assert "1. Do it\n" in person.seen
    assert person.seen.count("rm -rf build") == 2  # the call, and the question about it
    person.type(b"y\n")
    assert person.end() == 0
    assert "[asks] → Do it\n" in person.seen


@pytest.mark.slow
def test_the_question_is_on_stderr_if_the_output_goes_elsewhere(
    sit_down: Callable[..., Person], tmp_path: Path
) -> None:
    """Whoever redirects stdout is asked all the same, and finds the events in the file."""
    with (tmp_path / "out").open("wb") as file:
        person = sit_down("1 question", "--to=ndjson", stdout=file.fileno())
        person.let_it_ask()
        person.prompts(1)
        shown = (
            "penstock: asks asks to run a command: rm -rf build\n  1. Do it\n"
            "  2. Allow this command for the session\n  3. Allow for this session (more than this)\n"
        )
        assert shown in person.seen
        person.type(b"y\n")
        assert person.end() == 0
    events = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [event["option"] for event in events if event["type"] == "question_answered"] == ["once"]
    [asked] = [event for event in events if event["type"] == "question_asked"]
    assert [option["kind"] for option in asked["options"]] == [
        "allow_once",
        "allow_always",
        "allow_always",
        "reject_once",
    ]
    assert asked["ask"] == "command"


@pytest.mark.slow
def test_the_terminal_is_asked_if_stdin_is_something_else(sit_down: Callable[..., Person]) -> None:
    """The question is read from /dev/tty, and what was typed before it is dropped there as well."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        person = sit_down("1 question", stdin=nothing)
        person.type(b"1\n")
        person.read_until(lambda seen: "1" in seen)
        person.let_it_ask()
        person.prompts(1)
        person.type(b"n\n")
        assert person.end() == 0
        assert "[asks] no" in person.seen
    finally:
        os.close(nothing)


@pytest.mark.slow
def test_ctrl_c_at_the_question(sit_down: Callable[..., Person]) -> None:
    """The run is cancelled, and what it still says begins on a line of its own."""
    person = sit_down("1 question")
    person.let_it_ask()
    person.prompts(1)
    person.type(b"\x03")
    assert person.end() == 128 + signal.SIGINT
    assert re.search(r"Answer asks \([^)]*\): \^C\n\[asks\]", person.seen)
    assert "[asks] → no longer asked" in person.seen


@pytest.mark.slow
def test_a_run_that_ends_does_not_wait_for_the_answer(sit_down: Callable[..., Person]) -> None:
    """An agent that exits in the middle of its question ends the run."""
    person = sit_down("1 question")
    person.let_it_ask()
    person.prompts(1)
    person.let_it_leave()
    assert person.end() == 1


@pytest.mark.slow
def test_the_time_for_an_answer_does_not_count(sit_down: Callable[..., Person]) -> None:
    """A person may read a question for longer than the agent may work."""
    person = sit_down("1 question", "--timeout=5", "--idle-timeout=5")
    person.let_it_ask()
    person.prompts(1)
    time.sleep(5.5)
    person.type(b"y\n")
    assert person.end() == 0
    assert "once" in person.seen


@pytest.mark.slow
def test_others_work_while_one_asks(sit_down: Callable[..., Person], tmp_path: Path) -> None:
    """A question holds back what is shown of the other agent, and not its work."""
    person = sit_down("1 question", agents="asks,works")
    person.let_it_ask()
    person.prompts(1)
    (tmp_path / "is-asked").touch()
    until((tmp_path / "worked").exists)
    assert person.seen.endswith("): "), "nothing is written behind the prompt"
    person.type(b"y\n")
    assert person.end() == 0, person.seen
    assert person.seen.index("[works] done") > person.seen.index("): y")
