"""`penstock run` as a user meets it: real processes, real pipes, a real terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import is_alive, until

from penstock.cli.main import main
from penstock.run.history import History
from penstock.run.process import marked

ROOT = Path(__file__).parents[2]
PENSTOCK = [sys.executable, "-m", "penstock"]
TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, os, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

how = sys.argv[1]
prompt = sys.stdin.read()
say(type="system", subtype="init", session_id="s1", model="m1", claude_code_version="2.1.197")
say(type="stream_event", event={"type": "message_start", "message": {"id": "m1"}})
begin, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "You said: "}
say(type="stream_event", event={"type": "content_block_start", "index": 0, "content_block": begin})
say(type="stream_event", event={"type": "content_block_delta", "index": 0, "delta": delta})
if how == "stays":
    open(os.environ["PIDS"], "w").write(str(os.getpid()))
    time.sleep(1000)
text = "You said: " + prompt
say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": text}]})
failed = how == "fails"
usage = {"input_tokens": 1200, "output_tokens": 7}
say(type="result", subtype="success", is_error=failed, result=text, session_id="s1", usage=usage, total_cost_usd=0.0125)
"""

CONFIG = """
[agents.{name}]
command = ["{python}", "{file}", "{how}"]
adapter = "claude"
"""

ASKS = """\
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
            turn = got["id"]
            call = {"toolCallId": "c1", "title": "rm -rf build", "kind": "execute", "status": "pending"}
            options = [{"optionId": "yes", "name": "Do it", "kind": "allow_once"}]
            options += [{"optionId": "no", "name": "Leave it", "kind": "reject_once"}]
            asked = {"sessionId": "s1", "toolCall": call, "options": options}
            say(id=0, method="session/request_permission", params=asked)
        case None:
            text = "answered: " + json.dumps(got["result"]["outcome"])
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
            say(method="session/update", params={"sessionId": "s1", "update": chunk})
            say(id=turn, result={"stopReason": "end_turn"})
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment in which the agents of the test are configured, and nothing else."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "asks.py").write_text(ASKS)
    (tmp_path / "flat").write_text("no program")
    file, python = tmp_path / "agent.py", sys.executable
    config = "".join(
        CONFIG.format(name=name, python=python, file=file, how=how)
        for name, how in [("good", "answers"), ("other", "answers"), ("bad", "fails"), ("slow", "stays")]
    )
    config += f'[agents.asks]\ncommand = ["{python}", "{tmp_path}/asks.py"]\nprotocol = "acp"\n'
    config += f'[agents.flat]\ncommand = ["{tmp_path}/flat"]\n[agents.gone]\ncommand = ["{tmp_path}/gone"]\n'
    (tmp_path / "own.toml").write_text(config)
    ours = ("PENSTOCK_", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "GITLAB_CI")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    places = {"PENSTOCK_CONFIG": str(tmp_path / "own.toml"), "PENSTOCK_DATA": str(tmp_path / "data")}
    more = {**places, "PYTHONPATH": path, "PYTHONUTF8": "1"}
    return {**clean, **more, "PIDS": str(tmp_path / "pids")}


@pytest.fixture
def run(env: dict[str, str], tmp_path: Path) -> Run:
    """Run `penstock run` with these words; `stdin` is piped in."""

    def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*PENSTOCK, "run", *words],
            input=stdin,
            capture_output=True,
            env=env,
            cwd=tmp_path,
            timeout=TIMEOUT,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def begun(env: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start `penstock run` and wait until its agent has said something."""

    def begun(*words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        command = [*before, *PENSTOCK, "run", *words]
        penstock = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=tmp_path)
        until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
        return penstock

    return begun


@pytest.mark.slow
def test_an_agent_is_run(run: Run) -> None:
    """The run for people on stdout, nothing on stderr, status 0."""
    done = run("good", "hello")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"\[good\] · good 2\.1\.197 · m1 · in /\S+ · session s1", lines[0])
    assert lines[1:4] == ["", "[good] You said: hello", ""]
    assert lines[4].startswith("[good] ● done")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [("good", "-"), ("good",)])
@pytest.mark.slow
def test_the_prompt_comes_from_stdin(run: Run, words: tuple[str, ...]) -> None:
    """With `-` for it, or without any."""
    assert run(*words, "--to", "reply", stdin="grüße\n".encode()).stdout == "You said: grüße\n"


@pytest.mark.slow
def test_odd_prompts(run: Run) -> None:
    """One that begins with a dash, with quotes and line breaks, of a megabyte, and an empty one."""
    assert run("good", "--to", "reply", "--", "--model").stdout == "You said: --model\n"
    assert run("good", 'it\'s "so"\n$HOME', "--to=reply").stdout == 'You said: it\'s "so"\n$HOME\n'
    assert run("good", "--to", "reply", stdin=b"x" * (1 << 20)).stdout == "You said: " + "x" * (1 << 20) + "\n"
    done = run("good", stdin=b"")
    assert (done.returncode, "the prompt is empty" in done.stderr) == (2, True)


@pytest.mark.slow
def test_several_side_by_side(run: Run) -> None:
    """Whole lines with labels, a table at the end with the figures of the closing lines, the worst status."""
    done = run("good,bad,other", "hi")
    lines = done.stdout.splitlines()
    assert {"[good]  You said: hi", "[bad]   You said: hi", "[other] You said: hi"} <= set(lines)
    assert all(line.startswith(("[good] ", "[bad] ", "[other] ", "        ")) for line in lines if line)
    blank, *table = [line.split() for line in done.stderr.splitlines()]
    assert (blank, table[0]) == ([], ["outcome", "time", "tokens", "in", "out", "cost"])
    rows = {row[0]: row for row in table[1:]}
    [closing] = [line for line in lines if line.startswith("[good]  ● ")]
    time = " ".join(rows["good"][2:4]) if "s" in rows["good"] else ""
    assert closing == f"[good]  ● done{' in ' * bool(time)}{time} · 1 round · 1.2k in, 7 out · $0.01"
    assert [rows[name][1] for name in ("good", "bad", "other")] == ["ok", "error", "ok"]
    assert rows["good"][-3:] == ["1.2k", "7", "$0.01"]
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("names", ["claude,", ",claude", "claude,,codex", " "])
def test_a_name_that_is_missing(names: str, capfd: pytest.CaptureFixture[str]) -> None:
    """As after a comma with a space: the sentence has what was typed, and how names are written."""
    assert main(["run", names, "codex", "--stdin", "never"]) == 2
    said = capfd.readouterr().err
    assert "name" in said
    assert said.endswith("expected names of agents with commas and no spaces between them\n")


def test_replies_of_several_are_labelled(run: Run) -> None:
    """Each reply is under its label; the reply of a run alone has none."""
    done = run("good,other", "hi", "--to", "reply")
    assert sorted(done.stdout.split("==> ")) == ["", "good <==\nYou said: hi\n\n", "other <==\nYou said: hi\n\n"]
    assert run("good", "hi", "--to", "reply").stdout == "You said: hi\n"


@pytest.mark.slow
def test_the_same_agent_twice(run: Run) -> None:
    """Each run has a label of its own, and its number in the events."""
    done = run("good,good", "hi", "--to", "ndjson")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(event["agent"], event["run"]) for event in events} == {("good-1", 1), ("good-2", 2)}
    assert sum(event["type"] == "run_ended" for event in events) == 2


@pytest.mark.slow
def test_the_first_line_names_the_program(run: Run) -> None:
    """The version is that of the program: the line has its name, whatever label the run has among others."""
    said = run("good,good", "hi").stdout
    for label in ("good-1", "good-2"):
        assert re.search(rf"^\[{label}\] · good 2\.1\.197 · m1 · in /\S+ · session s1$", said, re.MULTILINE)


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("bad", "hi"), 1, ""),
        (("gone", "hi"), 127, "gone is not installed"),
        (("flat", "hi"), 126, "is not executable"),
        (("nobody", "hi"), 2, "there is no agent 'nobody'"),
        (("good", "hi", "--fork"), 2, "there is nothing to fork: --fork needs --continue or --session ID"),
        (("good", "hi", "--cwd", "/no/such"), 2, "is not a directory"),
        (
            ("good", "hi", "--timeout", "0"),
            2,
            "argument --timeout: expected a number of seconds above 0, not '0'",
        ),
        (("good,other", "hi", "--session", "s1"), 2, "a session belongs to one agent"),
        (("good,other", "hi", "--label", "x"), 2, "--label names one agent"),
        (("good", "hi", "--env", "novalue"), 2, "argument --env: expected NAME=VALUE, not 'novalue'"),
        (("good", "fix", "the", "test"), 2, "quote the prompt: penstock run good 'fix the test'"),
        (("good", "fix", "--timeuot", "1"), 2, "there is no option '--timeuot'; did you mean --timeout?"),
        (("good", "--resume", "x"), 2, "there is no option '--resume'; did you mean --session ID?"),
        (("good", "-p", "hi"), 2, "the prompt follows the agent's name"),
    ],
)
@pytest.mark.slow
def test_exit_statuses(run: Run, words: tuple[str, ...], status: int, said: str) -> None:
    """What cannot be done is said in one line, before anything starts."""
    done = run(*words)
    assert (done.returncode, said in done.stderr) == (status, True)
    assert done.stderr.count("\n") <= 1


@pytest.mark.sample(2)
@pytest.mark.parametrize(("flag", "why"), [("--timeout", "time limit of 2 s"), ("--idle-timeout", "no output for 2 s")])
@pytest.mark.slow
def test_time_limits(run: Run, tmp_path: Path, flag: str, why: str) -> None:
    """Status 124, what was said is there, why is told, and the agent is gone."""
    done = run("slow", "hi", flag, "2", "--to", "ndjson")
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, ended["outcome"], ended["reply"]) == (124, "timed_out", "You said: ")
    assert why in ended["reason"]
    assert not is_alive(int((tmp_path / "pids").read_text()))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.slow
def test_a_signal_stops_the_agent(
    begun: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, number: int, status: int
) -> None:
    """The run is closed in words, and the agent is gone when Penstock is."""
    penstock = begun("slow", "hi")
    penstock.send_signal(number)
    out, _ = penstock.communicate(timeout=TIMEOUT)
    assert penstock.returncode == status
    assert b"You said: " in out
    assert b"cancelled" in out
    assert not is_alive(int((tmp_path / "pids").read_text()))


@pytest.mark.slow
def test_a_signal_that_the_caller_ignores(begun: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Under `nohup` a hangup stops nothing; another signal does."""
    penstock = begun("slow", "hi", before=("sh", "-c", "trap '' HUP; exec \"$@\"", "sh"))
    penstock.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert penstock.poll() is None
    penstock.send_signal(signal.SIGTERM)
    penstock.communicate(timeout=TIMEOUT)
    assert penstock.returncode == 143


@pytest.mark.slow
def test_kill_9_of_penstock(begun: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """The agent does not outlive it, whoever is there to see."""
    penstock = begun("slow", "hi", "--record", "runs")
    pid = int((tmp_path / "pids").read_text())
    [record] = (tmp_path / "runs").iterdir()
    until(lambda: (record / "input.ndjson").read_bytes().count(b"\n") == 4)
    mark = Path(f"/proc/{pid}/environ").read_bytes().split(b"PENSTOCK_RUN=")[1].split(b"\0")[0].decode()
    penstock.kill()
    penstock.communicate(timeout=TIMEOUT)
    until(lambda: not marked(mark))
    replayed = subprocess.run([*PENSTOCK, "replay", str(record)], capture_output=True, timeout=TIMEOUT, check=False)
    assert (replayed.returncode, b"cut after 4 lines" in replayed.stderr) == (3, True)


@pytest.mark.slow
def test_nobody_reads_any_more(begun: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """`… | head` ends the agent as well, and the history has its end."""
    penstock = begun("slow", "hi", "--to", "ndjson")
    assert penstock.stdout is not None
    penstock.stdout.close()
    penstock.send_signal(signal.SIGINT)  # makes it write
    assert penstock.stderr is not None
    with penstock.stderr:
        assert penstock.wait(TIMEOUT) == 141
    assert not is_alive(int((tmp_path / "pids").read_text()))
    assert [run.outcome for run in History(tmp_path / "data").runs()] == ["cancelled"]


def test_a_record_is_kept(run: Run, tmp_path: Path) -> None:
    """Its place is told, and it replays to the same."""
    done = run("good", "hi", "--record", "runs")
    [record] = (tmp_path / "runs").iterdir()
    assert f"recorded in runs/{record.name}" in done.stderr
    assert (record / "input.ndjson").read_bytes().count(b"\n") == 6


@pytest.mark.slow
def test_a_question_without_a_terminal_is_refused(run: Run) -> None:
    """Unless everything is allowed."""
    assert '"optionId": "no"' in run("asks", "hi", "--to", "reply").stdout
    assert '"optionId": "yes"' in run("asks", "hi", "--to", "reply", "--allow", "all").stdout


@pytest.mark.slow
def test_the_first_line_says_confined(run: Run) -> None:
    """It does with `--sandbox on` alone. Where nothing can be confined, nothing is started."""
    assert "confined" not in run("good", "hi").stdout
    done = run("--sandbox", "on", "good", "hi")
    if done.returncode == 2:
        assert "bubblewrap" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("session s1 · confined")
