"""`--retry` and `--fallback-on`: the run is repeated after a failure that passes, and only then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock import agent, conversation
from penstock.errors import UsageError
from penstock.events import RunEnded, decode
from penstock.run import fallback
from penstock.testing.verify import verify

TIMEOUT = 60
"""Seconds after which a process hangs."""
SESSION = "4ea1ae76-dc7b-42b3-84c4-f5a681059724"
AGENT = f"""\
import json, os, sys

def say(**line):
    print(json.dumps(line), flush=True)

how, folder, session = (*sys.argv[1:], "")[:3]
prompt = sys.stdin.read()
with open(folder + "/log", "a") as log:
    log.write(json.dumps([os.getcwd(), session, prompt]) + "\\n")
count = len(open(folder + "/log").readlines())
say(type="system", subtype="init", session_id="{SESSION}", model="m1")

def work(**more):
    call = {{"type": "tool_use", "id": "t%d" % count, "name": "Bash", "input": {{"command": "ls"}}}}
    say(type="assistant", message={{"id": "m%d" % count, "content": [call]}})
    result = {{"type": "tool_result", "tool_use_id": "t%d" % count, "content": "x", **more}}
    say(type="user", message={{"content": [result]}})

def fail(status):
    say(type="result", subtype="success", is_error=True, result="no", api_error_status=status, session_id="{SESSION}")
    sys.exit(1)

if how == "overloaded" or (how == "once" and count == 1):
    fail(529)
if how == "login":
    fail(401)
if count == 1 and how in ("worked", "cut", "halfway"):
    if how == "halfway":
        say(type="assistant", message={{"id": "h", "content": [{{"type": "text", "text": "Half of"}}]}})
    else:
        work()
    if how == "worked":
        fail(529)
    os.kill(os.getpid(), 9)
open(folder + "/file", "a").write("x")
say(type="assistant", message={{"id": "m9", "content": [{{"type": "text", "text": "Done."}}]}})
say(type="result", subtype="success", is_error=False, result="Done.", session_id="{SESSION}")
"""
HOWS = ("overloaded", "once", "worked", "cut", "halfway", "login", "good")
FAST = "import sys; from penstock.run import fallback; fallback.FIRST_WAIT_MS = {}; from penstock.cli import main; "
START = "sys.exit(main.main(sys.argv[1:]))"


class Desk:
    """Scripted agents, one for each way to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "agent.py").write_text(AGENT, "utf-8")
        config = [
            f'[agents.{how}]\nadapter = "claude"\n'
            f'command = ["{sys.executable}", "{folder / "agent.py"}", "{how}", "{folder}", "{{session_id}}"]\n'
            for how in HOWS
        ]
        (folder / "config.toml").write_text("\n".join(config), "utf-8")
        self.env = {**os.environ, "PENSTOCK_CONFIG": str(folder / "config.toml"), "PENSTOCK_DATA": str(folder / "data")}

    def words(self, *words: str, wait_ms: int = 20) -> list[str]:
        """The command line of `penstock run`, with a short first wait."""
        return [sys.executable, "-c", FAST.format(wait_ms) + START, "run", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.words(*words), env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )

    @property
    def log(self) -> list[tuple[str, str, str]]:
        """Directory, conversation and prompt of each start."""
        return [tuple(json.loads(line)) for line in (self.folder / "log").read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


@pytest.mark.slow
def test_a_prompt_is_sent_again_after_an_overload(desk: Desk) -> None:
    """The line says so before the wait, the figures of the failure are shown, and the status is that of the last."""
    done = desk.run("once", "hi", "--retry", "2")
    assert done.returncode == 0, done.stdout
    shown = done.stdout.splitlines()
    failed, retried, finished = (
        next(index for index, line in enumerate(shown) if text in line)
        for text in (
            "failed: the provider is overloaded",
            "retry 1 of 2, in 0.0 s: the provider is overloaded",
            "Done.",
        )
    )
    assert failed < retried < finished
    assert [(session, prompt) for _, session, prompt in desk.log] == [("", "hi")] * 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["worked", "cut"])
def test_work_goes_on_in_its_conversation(desk: Desk, how: str) -> None:
    """After an overload, and after a stream that was cut off; what was done is not to be repeated."""
    done = desk.run(how, "fix it", "--retry", "1", "--to", "reply")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "it is tried again" in done.stderr
    (_, first, one), (_, second, two) = desk.log
    assert (first, one, second) == ("", "fix it", SESSION)
    assert two.startswith("Your last turn was cut off by a failure. Continue where it stopped")
    assert two.endswith("The request was:\n\nfix it")


@pytest.mark.slow
def test_the_events_of_all_attempts(desk: Desk) -> None:
    """Each has a number, the second begins with a notice that has the figures, and all obey the contract."""
    done = desk.run("halfway", "hi", "--retry", "2", "--to", "ndjson")
    events = [decode(line) for line in done.stdout.splitlines()]
    assert verify(events) == []
    assert [(event.run, event.outcome) for event in events if isinstance(event, RunEnded)] == [
        (1, "cut_off"),
        (2, "ok"),
    ]
    notice = next(event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "notice")
    assert (notice["run"], notice["code"], notice["attempt"], notice["max_attempts"]) == (2, "retry", 1, 2)
    assert [session for _, session, _ in desk.log] == ["", SESSION]


@pytest.mark.slow
def test_the_last_attempt_counts(desk: Desk) -> None:
    """After N retries the failure is the result; another agent then takes over, if nothing was done."""
    done = desk.run("overloaded", "hi", "--retry", "2")
    assert (done.returncode, len(desk.log)) == (1, 3)
    assert "retry 2 of 2" in done.stdout
    done = desk.run("overloaded", "hi", "--retry", "1", "--fallback", "good", "--to", "ndjson")
    ends = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "run_ended"]
    assert [(end["agent"], end["run"], end["outcome"]) for end in ends] == [
        ("overloaded", 1, "error"),
        ("overloaded", 2, "error"),
        ("good", 3, "ok"),
    ]
    assert done.returncode == 0


@pytest.mark.slow
def test_each_of_several_agents_has_its_own_retries(desk: Desk) -> None:
    """The other one goes on meanwhile; numbers are used once."""
    done = desk.run("overloaded,good", "hi", "--retry", "1", "--to", "ndjson")
    ends = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "run_ended"]
    assert sorted((end["agent"], end["run"]) for end in ends) == [("good", 2), ("overloaded", 1), ("overloaded", 3)]
    assert done.returncode == 1


@pytest.mark.slow
def test_other_failures_are_final(desk: Desk) -> None:
    """A login that is not accepted is not accepted a second later."""
    done = desk.run("login", "hi", "--retry", "5")
    assert (done.returncode, len(desk.log)) == (1, 1)
    assert "retry" not in done.stdout


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_person_ends_the_wait(desk: Desk, number: signal.Signals) -> None:
    """During the pause a signal ends the run at once, and nothing is started afterwards."""
    words = desk.words("overloaded", "hi", "--retry", "5", wait_ms=50_000)
    with subprocess.Popen(words, env=desk.env, stdin=subprocess.DEVNULL, stdout=-1, stderr=-2, text=True) as process:
        assert process.stdout is not None
        while "retry 1 of 5, in 50 s" not in process.stdout.readline():
            assert process.poll() is None
        began = time.monotonic()
        process.send_signal(number)
        shown = process.stdout.read()
        assert process.wait(TIMEOUT) == 128 + number
    assert time.monotonic() - began < 10
    assert "cancelled" in shown
    assert len(desk.log) == 1


@pytest.mark.slow
def test_a_retry_works_in_the_same_tree(desk: Desk, tmp_path: Path) -> None:
    """With --worktree the work that was begun is there, and there is one result."""
    app = tmp_path / "app"
    app.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Begin"]):
        identity = ["-c", "user.name=U", "-c", "user.email=u@example.org"]
        subprocess.run(["git", *identity, *words], cwd=app, check=True)
    desk.env |= {f"GIT_{who}_{what}": "u@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = desk.run("worked", "hi", "--retry", "1", "--worktree", "--cwd", str(app))
    assert done.returncode == 0, done.stderr
    assert len({cwd for cwd, *_ in desk.log}) == 1
    assert len(desk.log) == 2


def test_it_is_the_same_in_python(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run has the events of all attempts, and the result of the last one."""
    monkeypatch.setenv("PENSTOCK_CONFIG", desk.env["PENSTOCK_CONFIG"])
    monkeypatch.setenv("PENSTOCK_DATA", desk.env["PENSTOCK_DATA"])
    monkeypatch.setattr(fallback, "FIRST_WAIT_MS", 20)
    with agent("worked", retry=1).run("fix it") as run:
        events = list(run)
    assert verify(events) == []
    assert [event.outcome for event in events if isinstance(event, RunEnded)] == ["error", "ok"]
    assert run.result.reply == "Done."
    assert agent("good").ask("hi", retry=3).reply == "Done."
    with pytest.raises(UsageError, match="retry"):
        agent("good", retry=-1)


@pytest.mark.slow
def test_a_conversation_is_busy_until_the_last_attempt(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other prompt comes between two attempts, and the conversation goes on after them; in `async` code too."""
    monkeypatch.setenv("PENSTOCK_CONFIG", desk.env["PENSTOCK_CONFIG"])
    monkeypatch.setenv("PENSTOCK_DATA", desk.env["PENSTOCK_DATA"])
    monkeypatch.setattr(fallback, "FIRST_WAIT_MS", 20)
    chat = conversation("worked", retry=1)
    with chat.run("fix it") as run:
        for event in run:
            if getattr(event, "code", "") == "retry":
                with pytest.raises(UsageError, match="answering another prompt"):
                    chat.run("more")
    assert chat.session_id == SESSION
    assert asyncio.run(chat.ask_async("more")).reply == "Done."
    assert [session for _, session, _ in desk.log] == ["", SESSION, SESSION]
    (desk.folder / "log").unlink()
    assert asyncio.run(agent("worked", retry=1).ask_async("fix it")).reply == "Done."
    assert len(desk.log) == 2
    with pytest.raises(UsageError, match="chunks show one run"):
        chat.stream("more")
    with pytest.raises(UsageError, match="chunks show one run"):
        agent("good", retry=1).send_streaming("hi")


def test_python_can_stop_the_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is left during the pause ends at once, as one that was cancelled."""
    monkeypatch.setenv("PENSTOCK_CONFIG", desk.env["PENSTOCK_CONFIG"])
    monkeypatch.setenv("PENSTOCK_DATA", desk.env["PENSTOCK_DATA"])
    began = time.monotonic()
    with agent("overloaded", retry=1).run("hi") as run:
        for event in run:
            if getattr(event, "code", "") == "retry":
                break
    assert run.result.outcome == "cancelled"
    assert not run.has_left
    assert time.monotonic() - began < 5
    assert len(desk.log) == 1


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("first", "causes", "takes_over"),
    [
        ("overloaded", "overloaded", True),
        ("overloaded", "usage_limit, auth", False),
        ("login", "auth", True),
        ("login", "overloaded", False),
        ("worked", "overloaded", False),
        ("halfway", "cut_off", True),
    ],
)
def test_which_causes_hand_over(desk: Desk, first: str, causes: str, takes_over: bool) -> None:
    """Those that are named and no others; never once a tool was called."""
    done = desk.run(first, "hi", "--fallback", "good", "--fallback-on", causes, "--to", "reply")
    assert ("good takes over" in done.stderr) == takes_over
    assert (done.returncode == 0) == takes_over


@pytest.mark.slow
def test_a_cut_hands_over_only_if_it_is_named(desk: Desk) -> None:
    """By default it is what it was: a failure of the run."""
    assert "takes over" not in desk.run("halfway", "hi", "--fallback", "good").stderr


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fallback-on", "overloaded"], "--fallback-on is for --fallback, and there is none"),
        (["--fallback", "good", "--fallback-on", "weather"], "argument --fallback-on: expected causes with commas"),
        (["--fallback", "good", "--fallback-on", ""], "argument --fallback-on: expected causes with commas"),
        (["--fallback", "good", "--fallback-on", "budget"], "argument --fallback-on: expected causes with commas"),
        (["--retry", "-1"], "argument --retry: expected a whole number from 0 to 100, not '-1'"),
        (["--retry", "101"], "argument --retry: expected a whole number from 0 to 100, not '101'"),
        (["--retry", "2", "--to", "chunks"], "--to chunks shows one run, and --retry may start another"),
    ],
)
def test_words_that_do_not_fit(desk: Desk, words: list[str], said: str) -> None:
    """They are rejected before anything starts."""
    done = desk.run("good", "hi", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (desk.folder / "log").exists()


@pytest.mark.slow
def test_a_run_that_was_repeated_is_shown_again_with_its_end(desk: Desk) -> None:
    """The exit status is that of the last attempt, as it was of the run."""
    ran = desk.run("once", "fix it", "--retry", "1", "--record", str(desk.folder / "kept"))
    assert ran.returncode == 0, ran.stderr
    again = subprocess.run(
        [sys.executable, "-m", "penstock", "show"], env=desk.env, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert again.returncode == 0, again.stderr
    assert "failed" in again.stdout
    assert "Done." in again.stdout
