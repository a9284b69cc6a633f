"""`--fallback`: another agent takes over from one that cannot work, and from no other."""

from __future__ import annotations

import json
import os
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
prompt = sys.stdin.read()
say(type="system", subtype="init", session_id=how, model="m1")
if how == "stuck":
    time.sleep(600)
if how == "halfway":
    say(type="assistant", message={"id": "m0", "content": [{"type": "text", "text": "Half of"}]})
    time.sleep(600)
if how == "limited":
    info = {"status": "rejected", "resetsAt": 4102444800, "rateLimitType": "five_hour"}
    say(type="rate_limit_event", rate_limit_info=info, session_id=how)
if how == "worked":
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    say(type="assistant", message={"id": "m1", "content": [call]})
    say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]})
if how == "good":
    text = "You said: " + prompt
    say(type="assistant", message={"id": "m2", "content": [{"type": "text", "text": text}]})
    say(type="result", subtype="success", is_error=False, result=text, session_id=how)
else:
    status = {"limited": 429, "worked": 401, "loggedout": 401, "broken": 400,
              "overloaded": 529, "failing": 500, "quota": 429}[how]
    why = "429 You exceeded your current quota, please check your plan." if how == "quota" else "no"
    say(type="result", subtype="success", is_error=True, result=why, api_error_status=status, session_id=how)
"""

HOWS = (*("good", "limited", "loggedout", "worked", "broken", "overloaded", "failing", "quota", "stuck", "halfway"),)


class Desk:
    """Scripted agents, one for each way to end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "agent.py").write_text(AGENT, "utf-8")
        config = [
            f'[agents.{how}]\nadapter = "claude"\ncommand = ["{sys.executable}", "{folder / "agent.py"}", "{how}"]\n'
            for how in HOWS
        ]
        config.append('[agents.absent]\nadapter = "claude"\ncommand = ["no-such-program-anywhere"]\n')
        (folder / "config.toml").write_text("\n".join(config), "utf-8")
        self.env = {**os.environ, "PENSTOCK_CONFIG": str(folder / "config.toml"), "PENSTOCK_DATA": str(folder / "data")}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", "run", *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


@pytest.mark.sample(3)
@pytest.mark.parametrize("first", ["absent", "loggedout", "limited"])
def test_the_next_agent_takes_over(desk: Desk, first: str) -> None:
    """An agent that is not installed or not logged in is replaced; the reply is that of the other one alone."""
    done = desk.run(first, "hi", "--fallback", "good", "--to", "reply")
    assert (done.returncode, done.stdout) == (0, "You said: hi\n")
    assert "good takes over" in done.stderr
    assert first in done.stderr


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("overloaded", "overloaded has an overloaded provider"),
        ("failing", "failing has a provider that fails"),
        ("quota", "quota has reached its usage limit"),
        ("stuck", "stuck has not answered in time"),
    ],
)
def test_another_provider_may_do_better(desk: Desk, first: str, why: str) -> None:
    """An agent whose provider fails, after its own retries, or which says nothing until its time limit, is replaced."""
    done = desk.run(first, "hi", "--fallback", "good", "--to", "reply", "--idle-timeout", "1")
    assert (done.returncode, done.stdout) == (0, "You said: hi\n")
    assert f"{why}; good takes over" in done.stderr


def test_a_reply_that_broke_off_is_not_begun_again(desk: Desk) -> None:
    """An agent that has said something before its time limit has not failed to work."""
    done = desk.run("halfway", "hi", "--fallback", "good", "--to", "reply", "--idle-timeout", "1")
    assert done.returncode == 124
    assert "takes over" not in done.stderr


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--fallback", "nosuch"), "there is no agent 'nosuch'"),
        (("--fallback", "limited", "--fallback", "nosuch"), "there is no agent 'nosuch'"),
        (("--fallback", "pi", "--allow", "edits"), "pi"),
    ],
)
def test_an_agent_that_cannot_take_over_is_rejected_before_the_start(
    desk: Desk, words: tuple[str, ...], problem: str
) -> None:
    """A name that is mistyped, or that cannot do what is asked, is not found out when it is needed."""
    done = desk.run("good", "hi", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


@pytest.mark.slow
def test_the_closing_line_comes_before_the_agent_that_takes_over(desk: Desk) -> None:
    """What stderr says of the change follows the end of the first agent, on a terminal that shows both."""
    words = [sys.executable, "-m", "penstock", "run", "overloaded", "hi", "--fallback", "good"]
    shown = subprocess.run(words, env=desk.env, stdin=subprocess.DEVNULL, stdout=-1, stderr=-2, text=True, timeout=60)
    assert 0 <= shown.stdout.index("failed: the provider is overloaded") < shown.stdout.index("good takes over")


def test_an_agent_that_works_is_left_alone(desk: Desk) -> None:
    """Without a failure nothing is different."""
    done = desk.run("good", "hi", "--fallback", "limited", "--to", "reply")
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hi\n", "")


def test_a_failure_of_another_kind_is_final(desk: Desk) -> None:
    """An agent that failed for a reason of its own is not replaced."""
    done = desk.run("broken", "hi", "--fallback", "good", "--to", "reply")
    assert (done.returncode, done.stdout) == (1, "")
    assert "takes over" not in done.stderr


def test_an_agent_that_has_begun_to_work(desk: Desk) -> None:
    """After the first call of a tool nobody takes over, and the message says why."""
    done = desk.run("worked", "hi", "--fallback", "good", "--to", "reply")
    assert (done.returncode, done.stdout) == (1, "")
    assert "it had begun to work" in done.stderr


@pytest.mark.slow
def test_several_take_over_in_turn(desk: Desk) -> None:
    """The agents are tried in the order in which they are named; each run has a number of its own."""
    done = desk.run("absent", "hi", "--fallback", "loggedout", "--fallback", "good", "--to", "ndjson")
    ends = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "run_ended"]
    assert [(end["agent"], end["run"], end["outcome"]) for end in ends] == [
        ("loggedout", 2, "error"),
        ("good", 3, "ok"),
    ]
    assert done.returncode == 0


def test_nobody_is_left(desk: Desk) -> None:
    """If none can work, the last failure is the result."""
    done = desk.run("loggedout", "hi", "--fallback", "absent", "--to", "reply")
    assert done.returncode == 1
    assert "there is no other agent to take over" in done.stderr


@pytest.mark.slow
def test_all_are_at_their_limits(desk: Desk) -> None:
    """If the last agent is at its usage limit too, the status says so, and the message has the time of the reset."""
    done = desk.run("loggedout", "hi", "--fallback", "limited", "--to", "reply")
    assert done.returncode == 6
    assert "limited has reached its usage limit (it resets at" in done.stderr
    assert "2100-01-01" in done.stderr or "2099-12-31" in done.stderr


def test_none_is_installed(desk: Desk) -> None:
    """If no program exists, the status is that of a program that is not installed."""
    done = desk.run("absent", "hi", "--fallback", "absent", "--to", "reply")
    assert done.returncode == 127


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("good,limited", "hi", "--fallback", "good"), "--fallback replaces one agent"),
        (("good", "hi", "--fallback", "limited", "--to", "chunks"), "--to chunks shows one run"),
        (("good", "hi", "--fallback", "limited", "--session", "x"), "a conversation belongs to one agent"),
        (("good", "hi", "--fallback", "limited", "--continue"), "a conversation belongs to one agent"),
    ],
)
def test_what_does_not_fit(desk: Desk, words: tuple[str, ...], problem: str) -> None:
    """Options that contradict a fallback are rejected before anything starts."""
    done = desk.run(*words)
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.slow
def test_denied_actions_fail_the_run(tmp_path: Path) -> None:
    """With `--fail-on-refusal` a good run with a denied action has a status of its own; other agents are rejected."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import json\n"
        'print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))\n'
        'text = [{"type": "text", "text": "I could not."}]\n'
        'print(json.dumps({"type": "assistant", "message": {"id": "m", "content": text}}))\n'
        'denied = [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "ls"}}]\n'
        'end = {"type": "result", "subtype": "success", "is_error": False, "result": "I could not."}\n'
        'print(json.dumps({**end, "permission_denials": denied}))\n',
        "utf-8",
    )
    (tmp_path / "config.toml").write_text(
        f'[agents.claude]\ncommand = ["{sys.executable}", "{script}"]\n[agents.mine]\ncommand = ["true"]\n'
        '[agents.qwen]\ncommand = ["true"]\n[agents.gemini]\ncommand = ["true"]\n',
        "utf-8",
    )
    desk = Desk(tmp_path / "desk")
    desk.env["PENSTOCK_CONFIG"] = str(tmp_path / "config.toml")
    asked = ("claude", "hi", "--route", "exec", "--to", "reply")
    assert desk.run(*asked).returncode == 0
    assert desk.run(*asked, "--fail-on-refusal").returncode == 7
    for withholds in ("qwen", "gemini"):  # tools that need a permission are not offered to the model
        assert "use --route acp" in desk.run(withholds, "hi", "--route", "exec", "--fail-on-refusal").stderr
    rejected = desk.run("mine", "hi", "--fail-on-refusal")
    assert rejected.returncode == 2
    assert "mine does not report denied actions" in rejected.stderr
