"""The command line as a user meets it: in a process of its own, with real pipes and files."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.agents import registry
from penstock.cli import demo
from penstock.cli.main import main
from penstock.run.replay import read_times
from penstock.stream import Stream
from penstock.testing.verify import verify

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests" / "recordings"
TOOLS = RECORDINGS / "claude" / "tools" / "input.ndjson"
LONG = RECORDINGS / "claude" / "long" / "input.ndjson"
KILLED = RECORDINGS / "claude" / "killed_sigterm" / "input.ndjson"
ERROR = RECORDINGS / "claude" / "err500" / "input.ndjson"
REPLY = "All done: `notes.txt` has two lines. FINAL-REPLY."
PENSTOCK = [sys.executable, "-m", "penstock"]
TIMEOUT = 60
"""Seconds after which a process hangs; none takes a hundredth of it."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is configured and no CI service is at work."""
    ours = ("PENSTOCK_", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "GITLAB_CI", "PYTHONUNBUFFERED")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**clean, "XDG_CONFIG_HOME": str(tmp_path / "nowhere"), "PYTHONPATH": path, "PYTHONUTF8": "1"}


@pytest.fixture
def run(env: dict[str, str], tmp_path: Path) -> Run:
    """Run penstock with these words; `stdin` is piped in."""

    def run(*words: str | Path, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*PENSTOCK, *map(str, words)],
            input=stdin,
            capture_output=True,
            env={**env, **more},
            cwd=tmp_path,
            timeout=TIMEOUT,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def start(env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start penstock with pipes to all sides; whatever happens, it is gone after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str | Path, **more: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen([*PENSTOCK, *map(str, words)], env=env, cwd=tmp_path, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(TIMEOUT)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def objects(text: str) -> list[dict[str, Any]]:
    """NDJSON as objects."""
    return [json.loads(line) for line in text.splitlines()]


# --- the words ---


def test_the_version_is_the_projects_and_costs_nothing(env: dict[str, str]) -> None:
    """`--version` prints the version that the package is built with, and imports nothing that takes time."""
    words = [sys.executable, "-X", "importtime", "-c", "from penstock.cli.main import main; main(['--version'])"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=TIMEOUT, check=True)
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["version"]["path"]
    assert f'"{done.stdout.split()[1]}"' in (ROOT / built).read_text("utf-8")
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert imported.isdisjoint({"msgspec", "argparse", "typing", "re", "enum", "importlib.metadata", "penstock.events"})


def test_the_help_names_every_command(run: Run) -> None:
    """`--help` shows each command and examples, and ends well."""
    done = run("--help")
    assert done.returncode == 0
    for command in ("read", "demo", "replay", "agents", "config", "serve"):
        assert re.search(rf"^  {command}\b", done.stdout, re.MULTILINE)
    assert "| penstock\n" in done.stdout
    assert run("help").stdout == done.stdout


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", ["read", "demo", "replay", "agents", "config", "serve"])
def test_each_command_has_its_help(run: Run, command: str) -> None:
    """Each command explains itself."""
    done = run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: penstock {command}")


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reed", "x"], "'reed' is neither a command nor a file; .*did you mean 'read'"),
        (["ccs/glm", "x"], "'ccs/glm' is an agent and not a command; to run it: penstock run ccs/glm"),
        (["read", "none.ndjson"], "cannot open 'none.ndjson': No such file"),
        (["read", "."], "cannot read '.': it is a folder"),
        (["read", "--agent", "claud"], "there is no agent 'claud'; .*did you mean 'claude'"),
        (["read", "--detail", "loud"], "invalid choice: 'loud'"),
        (["--to", "xml"], "invalid choice: 'xml'"),
        (["read", "--lable", "x"], "there is no option '--lable'; did you mean --label"),
        (["read", TOOLS, KILLED, "--label", "x"], "--label names one input"),
        (["read", TOOLS, KILLED, "--to", "chunks"], "--to chunks reads one input"),
        (["replay", TOOLS, "--speed", "0"], "expected a number above 0"),
        (["replay", "none.ndjson"], "cannot read 'none.ndjson'"),
        (["replay"], "the following arguments are required: FILE"),
    ],
)
def test_wrong_usage(run: Run, words: list[str | Path], told: str) -> None:
    """What cannot be done is told on stderr in words, with status 2 and nothing on stdout."""
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(told, done.stderr), done.stderr
    assert "Traceback" not in done.stderr


# --- reading ---


def test_an_error_in_a_narrow_terminal(env: dict[str, str]) -> None:
    """Its parts have lines of their own if one line has no room for them, so that no word and no command is torn."""
    parts = (
        "there is no agent 'nobody'",
        "expected one of ",
        "an agent of no known kind is read with the name 'generic'",
    )
    for columns in (80, 1000):
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        words = [*PENSTOCK, "run", "nobody", "hi"]
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stderr=theirs, timeout=TIMEOUT, check=False)
        os.close(theirs)
        lines = os.read(ours, 65536).decode().splitlines()
        os.close(ours)
        assert done.returncode == 2
        assert len(lines) == (3 if columns == 80 else 1)
        assert lines[0].startswith(f"penstock: {parts[0]}")
        assert lines[-1].endswith(parts[2])
        assert columns == 1000 or [lines[1].startswith(f"  {parts[1]}"), lines[2]] == [True, f"  {parts[2]}"]


def test_a_pipe_is_read_without_any_words(run: Run) -> None:
    """`… | penstock` shows the run in plain lines, each prefixed, and ends well."""
    done = run(stdin=TOOLS.read_bytes())
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert f"[claude] {REPLY}" in lines
    assert all(line.startswith(("[claude] ", " ")) for line in lines if line)
    assert "\x1b" not in done.stdout


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "words", [[TOOLS], ["read", TOOLS], ["read", "--agent", "claude", TOOLS], [TOOLS, "--mode=none"]]
)
def test_a_file_is_read_like_a_pipe(run: Run, words: list[str | Path]) -> None:
    """Files may be named with and without `read`, before and after the flags; the text is the same."""
    assert run(*words).stdout == run("read", "-", stdin=TOOLS.read_bytes()).stdout


def test_the_reply_alone(run: Run) -> None:
    """`--to reply` puts out the reply, with an end to its last line, and nothing else."""
    done = run("--to", "reply", stdin=TOOLS.read_bytes())
    assert (done.returncode, done.stdout, done.stderr) == (0, REPLY + "\n", "")


def test_the_reply_of_a_run_that_failed(run: Run) -> None:
    """Where there is no good reply, the reason is on stderr and the status tells."""
    done = run("--to", "reply", ERROR)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"penstock: claude: error: .+\n", done.stderr)


def timeless(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events without what only a clock knows."""
    return [
        {
            name: value
            for name, value in event.items()
            if name != "at" and (name, event["type"]) != ("duration_ms", "tool_returned")
        }
        for event in events
    ]


def test_events(run: Run) -> None:
    """`--to ndjson` puts out every event; those of a pipe have their times, and calls their durations."""
    piped, read = (
        objects(run("--to", "ndjson", stdin=TOOLS.read_bytes()).stdout),
        objects(run(TOOLS, "--to", "ndjson").stdout),
    )
    assert piped[-1]["type"] == "run_ended"
    assert piped[-1]["reply"] == REPLY
    assert all(type(event["at"]) is int for event in piped)
    assert timeless(piped) == timeless(read)
    assert not any("at" in event for event in read)
    assert not any("duration_ms" in event for event in read if event["type"] == "tool_returned")
    assert not any("at" in event or "run" in event for event in read)


def test_chunks(run: Run) -> None:
    """`--to chunks` puts out new text, messages apart, and one final chunk with reply, session id and outcome."""
    found = objects(run("--to", "chunks", TOOLS).stdout)
    assert [chunk["is_final"] for chunk in found] == [False] * (len(found) - 1) + [True]
    assert "".join(chunk["text"] for chunk in found) == f"I will look around first.\n\nNow I write the file.\n\n{REPLY}"
    assert found[-1] == {
        "text": "",
        "is_final": True,
        "session_id": "4ea1ae76-dc7b-42b3-84c4-f5a681059724",
        "reply": REPLY,
        "outcome": "ok",
    }


def test_the_chunks_of_a_run_that_failed(run: Run) -> None:
    """The reason is in the final chunk, and on stderr as with `--to reply`."""
    done = run("--to", "chunks", ERROR)
    final = objects(done.stdout)[-1]
    assert (done.returncode, final["outcome"]) == (1, "error")
    assert done.stderr == f"penstock: claude: error: {final['reason']}\n" == run("--to", "reply", ERROR).stderr


def test_a_reason_cannot_act_on_a_terminal_or_a_ci_service(run: Run) -> None:
    """On stderr it is one line of harmless text."""
    reason = "no\x1b]0;title\x07 quota\n::set-env name=A::b"
    line = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "errors": [reason],
        "session_id": "s",
    }
    for sink in ("reply", "chunks"):
        done = run("--agent", "claude", "--to", sink, stdin=json.dumps(line).encode() + b"\n")
        assert done.stderr == "penstock: claude: error: no quota ::set-env name=A::b\n"


@pytest.mark.slow
def test_health(run: Run) -> None:
    """`--to health` is one object on stdout; `--health` a report on stderr; trouble is told unasked."""
    (report,) = objects(run("--to", "health", TOOLS).stdout)
    assert (report["agent"], report["outcome"], report["lines"]) == (
        "claude",
        "ok",
        len(TOOLS.read_bytes().splitlines()),
    )
    assert run("--health", "--to", "reply", TOOLS).stderr.startswith("claude: ")
    broken = run("--to", "reply", "--agent", "claude", stdin=b'{"type": \n' + TOOLS.read_bytes())
    assert (broken.stdout, broken.returncode) == (REPLY + "\n", 0)
    assert broken.stderr == "penstock: claude: 1 line could not be parsed (first: line 1)\n"


def test_several_files(run: Run) -> None:
    """Each file is a run of its own: labelled, numbered, and the status is the worst."""
    done = run("read", TOOLS, KILLED, ERROR, "--to", "ndjson")
    events = objects(done.stdout)
    assert {(event["run"], event["agent"]) for event in events} == {
        (1, "tools"),
        (2, "killed_sigterm"),
        (3, "err500"),
    }
    ends = [(event["run"], event["outcome"]) for event in events if event["type"] == "run_ended"]
    assert ends == [(1, "ok"), (2, "cut_off"), (3, "error")]
    assert done.returncode == 3
    assert run("read", TOOLS, ERROR, "--to", "reply").stdout.startswith(f"==> tools <==\n{REPLY}\n\n")


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("data", "status"),
    [(TOOLS, 0), (ERROR, 1), (None, 1), (KILLED, 3)],
    ids=["ok", "error", "nothing", "cut off"],
)
def test_exit_status(run: Run, data: Path | None, status: int) -> None:
    """The exit status tells how the run ended."""
    assert run(stdin=data.read_bytes() if data else b"").returncode == status


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        *("run claude x", "run claude x --continue", "run claude x --worktree"),
        *("last", "show 1", "history", "sessions", "trees", "loop status", "loop init", "doc init x.md"),
    ],
)
def test_a_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: str
) -> None:
    """The user is told where to look, whatever comes upon it first: another shell has removed the directory."""
    config, gone = tmp_path / "penstock.toml", tmp_path / "gone"
    config.write_text(f"[agents.claude]\ncommand = [{json.dumps(sys.executable)}, '-c', '']\n", "utf-8")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(config))
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main([*words.split(), *(["--stdin", "never"] if words.startswith("run ") else [])]) == 2
    out, problem = capfd.readouterr()
    assert "directory" in problem
    assert problem.count("\n") == 1
    assert "Traceback" not in problem
    assert out == ""


def test_settings(run: Run, tmp_path: Path) -> None:
    """Flags are over the environment, that over the file; a mistake is a warning and costs nothing else."""
    (tmp_path / "penstock.toml").write_text('[output]\nprefix = "none"\ncolour = "always"\n', "utf-8")
    done = run(TOOLS)
    assert REPLY in done.stdout.splitlines()
    where = f"{tmp_path}/penstock.toml:3"
    assert done.stderr == f"penstock: warning: {where}: there is no key output.colour; did you mean color?\n"
    assert f"[claude] {REPLY}" in run(TOOLS, PENSTOCK_PREFIX="agent").stdout.splitlines()
    assert REPLY in run(TOOLS, "--prefix", "none", PENSTOCK_PREFIX="agent").stdout.splitlines()
    assert "\x1b" in run(TOOLS, "--color", "always", NO_COLOR="1").stdout


def test_an_agent_of_the_configuration(run: Run, tmp_path: Path) -> None:
    """`--agent` takes a name of one's own, with the adapter, label and detail that it is configured to have."""
    text = (
        '[agents.mine]\nadapter = "claude"\nlabel = "my/own"\n[agents.mine.json_streaming]\ndelta_display = "quiet"\n'
    )
    (tmp_path / "penstock.toml").write_text(text, "utf-8")
    lines = run(TOOLS, "--agent", "mine").stdout.splitlines()
    assert f"[my/own] {REPLY}" in lines
    assert not any("Bash" in line for line in lines)


def test_events_of_the_configuration(run: Run, tmp_path: Path) -> None:
    """`[agents.NAME.events]` decides how the generic reader takes an event, whatever it looks like."""
    (tmp_path / "penstock.toml").write_text('[agents.ours.events]\n"tick" = "control"\n', "utf-8")
    data = b'{"type":"tick","text":"no"}\n{"type":"message","text":"yes"}\n'
    done = run("--agent", "ours", "--to", "reply", stdin=data)
    assert (done.stdout, done.stderr) == ("yes\n", "")


# --- pipes, terminals and signals ---


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["read", "--help"], ["config"], ["agents"], ["read", TOOLS]]
)
def test_nobody_reads_the_output(start: Callable[..., subprocess.Popen[bytes]], words: list[str | Path]) -> None:
    """A pipe that was closed before the first byte ends everything quietly, as it ends `cat`."""
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*words, stdout=writer)
    os.close(writer)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors) == (141, b"")


def test_head(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """`penstock … | head -1` ends quietly while there is more to put out."""
    process = start("read", LONG, "--to", "ndjson")
    assert process.stdout is not None
    assert b"run_started" in process.stdout.readline()
    process.stdout.close()
    assert process.wait(TIMEOUT) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_an_output_that_cannot_be_written(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A full disk is told in words."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        process = start("read", TOOLS, stdout=full)
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    assert errors.startswith(b"penstock: the output cannot be written: No space left")


def test_ctrl_c_ends_what_is_open(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """An interrupt closes open blocks and the run, in order, and the status is 130."""
    process = start("--to", "ndjson")
    assert process.stdin is not None
    assert process.stdout is not None
    lines = TOOLS.read_bytes().splitlines(keepends=True)
    process.stdin.write(b"".join(lines[:7]))
    process.stdin.flush()
    while b'"delta"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors) == (130, b"")
    events = [event for event in objects(output.decode()) if event["type"] not in ("delta", "usage")][-3:]
    assert [event["type"] for event in events] == ["block_ended", "message_ended", "run_ended"]
    assert events[0]["complete"] is False
    assert events[2]["outcome"] == "cancelled"


def test_reading_never_waits_for_writing(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """An agent can put out its whole stream although nobody takes a byte of the output."""
    process = start("--to", "ndjson")
    data = LONG.read_bytes() * 3
    assert process.stdin is not None
    feeder = threading.Thread(target=lambda: (process.stdin.write(data), process.stdin.close()), daemon=True)  # type: ignore[union-attr]
    feeder.start()
    feeder.join(TIMEOUT)
    assert not feeder.is_alive()
    assert process.stdout is not None
    assert b'"run_ended"' in process.stdout.read().splitlines()[-1]


def test_a_terminal_gets_text_as_it_comes(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """In a terminal a piece of text is there before the next line is read; no cursor is moved."""
    ours, theirs = pty.openpty()
    process = start("read", "-", stdout=theirs)
    os.close(theirs)
    assert process.stdin is not None
    seen = b""
    for line in TOOLS.read_bytes().splitlines(keepends=True)[:11]:
        process.stdin.write(line)
        process.stdin.flush()
        delta = json.loads(line).get("event", {}).get("delta", {}).get("text", "")
        while delta and not re.sub(rb"\x1b\[[\d;]*m", b"", seen).endswith(delta.encode()):
            seen += os.read(ours, 4096)
    process.stdin.close()
    process.wait(TIMEOUT)
    while chunk := _rest(ours):
        seen += chunk
    os.close(ours)
    assert b"\r" not in seen.replace(b"\r\n", b"")
    assert not re.search(rb"\x1b(?!\[[\d;]*m)", seen)


def _rest(fd: int) -> bytes:
    try:
        return os.read(fd, 4096)
    except OSError:  # a terminal whose other side is gone
        return b""


# --- the other commands ---


def test_demo(run: Run) -> None:
    """The demo needs nothing but the package, and shows each kind of work that Penstock has a look for."""
    done = run("demo", "--speed", "1000")
    assert done.returncode == 0
    assert done.stderr == demo.INTRO + demo.OUTRO
    assert max(map(len, done.stderr.splitlines())) <= 80
    marks = {"thinking": "∴", "plan": "☰ plan (3 of 3 done)", "diff": "2 +    ", "failure": "✗ $ pytest"}
    marks |= {"sub-agent": "[claude>Explore]", "Markdown": "**Fixed.**", "end": "● done"}
    assert [name for name, mark in marks.items() if mark not in done.stdout] == []


def test_the_demo_is_a_clean_recording() -> None:
    """Its events keep the contract, the stream needs no repair, and it takes between 9 and 18 seconds."""
    stream = Stream("claude")
    data = demo.RECORDING.read_bytes()
    events = stream.feed(data) + stream.close()
    assert verify(events) == []
    assert stream.health.warnings == []
    times = read_times(demo.RECORDING)
    assert len(times) == data.count(b"\n")
    assert 9 < times[-1] - times[0] < 18


def test_replay(run: Run) -> None:
    """A replay puts out what reading does, with the recorded times as stamps."""
    events = objects(run("replay", TOOLS, "--speed", "1000", "--to", "ndjson").stdout)
    times = (TOOLS.parent / "times").read_text().split()
    assert (events[0]["at"], events[-1]["at"]) == (int(float(times[0]) * 1000), int(float(times[-1]) * 1000))
    assert timeless(events) == timeless(objects(run(TOOLS, "--to", "ndjson").stdout))


@pytest.mark.slow
def test_agents(run: Run) -> None:
    """Every agent of the registry is listed, for people and for programs, with what it can do."""
    table = run("agents").stdout.splitlines()
    rows = objects(run("agents", "--json").stdout)
    assert [line.split()[0] for line in table[1:]] == [row["name"] for row in rows] == registry.names()
    for row, line in zip(rows, table[1:], strict=True):
        if entry := registry.AGENTS.get(row["name"]):
            assert (row["proven"], row["live"]) == (entry.proven, entry.default.live)
            assert [route.strip("()") for route in row["routes"]] == list(entry.routes)
            assert ("unproven" in line) is not entry.proven


@pytest.mark.slow
def test_config(run: Run, tmp_path: Path) -> None:
    """`config` tells the files, every setting with its origin, and the mistakes."""
    file = tmp_path / "penstock.toml"
    file.write_text('[output]\nmode = "none"\nprefix = 3\n', "utf-8")
    found = json.loads(run("config", "--json", PENSTOCK_COLOR="never").stdout)
    assert found["files"] == [str(file)]
    assert found["settings"]["output.mode"] == {"value": "none", "origin": f"{file}:2"}
    assert found["settings"]["output.color"] == {"value": "never", "origin": "PENSTOCK_COLOR"}
    assert found["settings"]["json_streaming.delta_display"] == {"value": "normal", "origin": "built in"}
    assert len(found["problems"]) == 1
    text = run("config").stdout
    assert f"  {file}\n" in text
    assert f"{file}:3: output.prefix is 3; expected one of" in text
