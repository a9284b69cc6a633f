"""Earlier runs as a user meets them: what is kept in a terminal, and `penstock last`, `show`, `history` and `cost`."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from hostile_text import HOSTILE, assert_harmless
from terminal_reader import read_terminal
from waiting import until

from penstock.cli.cost import totals
from penstock.cli.display import RUN_FACTS, OutputContext
from penstock.run.history import History, HistoryLine, RunRecord, now_ms
from penstock.run.recording import DisplayFacts
from penstock.sinks.text.run_summary import Guidance

TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, os, subprocess, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

def call(id, name, input, result, is_error=False):
    use = {"type": "tool_use", "id": id, "name": name, "input": input}
    say(type="assistant", message={"id": id, "content": [use]})
    returned = {"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": result}
    say(type="user", message={"role": "user", "content": [returned]})

prompt = sys.stdin.read()
time.sleep(0.12)  # a shorter run is shown without its time
say(type="system", subtype="init", session_id="s-1", model="m1", claude_code_version="2.1.197")
call("t1", "Bash", {"command": "pytest -q"}, "Exit code 1\\nFAILED test_a.py\\n1 failed", True)
call("t2", "Edit", {"file_path": "a.py", "old_string": "x = 1\\n", "new_string": "x = 2\\n"}, "updated")
call("t3", "Bash", {"command": "pytest -q"}, "1 passed")
text = "You said: " + prompt
if prompt.startswith("read "):
    script = "cat " + prompt[5:] + "/recordings/*/meta.json " + prompt[5:] + "/history.ndjson"
    text = "found: " + subprocess.run(["sh", "-c", script], capture_output=True, text=True).stdout
while prompt.startswith("wait for ") and not os.path.exists(prompt[9:]):
    time.sleep(0.02)
if prompt.startswith("hostile"):
    text = json.loads(prompt[8:])
say(type="assistant", message={"id": "m9", "content": [{"type": "text", "text": text}]})
usage = {"input_tokens": 1200, "output_tokens": 7}
say(type="result", subtype="success", is_error=False, result=text, session_id="s-1", usage=usage, total_cost_usd=0.1)
"""


class Desk:
    """A directory with scripted agents, and a data directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        script = self.folder / "agent.py"  # where a confined agent sees it
        script.write_text(AGENT, "utf-8")
        command = f'adapter = "claude"\ncommand = ["{sys.executable}", "-S", "{script}"]\n'
        self.config = folder / "config.toml"
        self.config.write_text(f"[agents.claude]\n{command}[agents.other]\n{command}", "utf-8")
        self.data = folder / "data"
        ours = ("CI", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD")
        self.env = {name: value for name, value in os.environ.items() if name not in ours}
        self.env |= {
            "PENSTOCK_DATA": str(self.data),
            "PENSTOCK_CONFIG": str(self.config),
            "PENSTOCK_COLOR": "never",
            "TERM": "xterm",
        }

    @property
    def kept(self) -> list[Path]:
        """Folders of the recordings that are kept."""
        return sorted((self.data / "recordings").glob("*"))

    def has_recorded(self, words: str) -> bool:
        """Return whether a recording has these words in a complete line."""
        files = [one / "input.ndjson" for one in self.kept]
        return any(words in file.read_text("utf-8").rpartition("\n")[0] for file in files if file.exists())

    def piped(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            cwd=cwd or self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def started(self, *words: str) -> tuple[subprocess.Popen[bytes], bytearray, threading.Thread]:
        """Start a command with stdout in a terminal, which is read, and stderr in a pipe."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        os.close(theirs)
        found, reader = read_terminal(ours)
        return process, found, reader

    def in_terminal(self, *words: str) -> tuple[int, str, str]:
        """Run a command with stdout in a terminal; return its status, and what it wrote there and to stderr."""
        process, found, reader = self.started(*words)
        _, errors = process.communicate(timeout=TIMEOUT)
        reader.join()
        return process.returncode, found.decode().replace("\r\n", "\n"), errors.decode()

    def run(self, prompt: str = "fix it", *words: str, agent: str = "claude") -> tuple[int, str, str]:
        """Run an agent in a terminal."""
        return self.in_terminal("run", agent, prompt, "--route=exec", *words)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A new one."""
    return Desk(tmp_path)


def without_times(text: str) -> str:
    """Return the output without the words that depend on how long a run took."""
    return "\n".join(line.partition(" done in ")[0] for line in text.split("\n"))


@pytest.mark.slow
def test_the_last_run_is_shown_as_it_looked(desk: Desk) -> None:
    """Its output is the same, with its time and the command that goes on; the first run says that it is kept."""
    status, shown, errors = desk.run("fix it", "--prefix=both")
    assert status == 0
    assert errors.count("kept for 14 days") == 1
    status, again, _ = desk.in_terminal("last")
    assert status == 0
    assert again == shown
    assert "done in" in again
    assert "changed: a.py" in again
    assert 'go on: penstock run claude --route exec -c "…"' in again
    assert "kept for" not in desk.run()[2]


@pytest.mark.slow
def test_a_run_that_is_still_at_work_has_not_failed(desk: Desk, tmp_path: Path) -> None:
    """Another shell asks for the last run while it goes on: what it has done so far is shown, and no end."""
    gate = tmp_path / "gate"
    process, _, reader = desk.started("run", "claude", f"wait for {gate}", "--route=exec")
    try:
        until(lambda: desk.has_recorded("1 passed"), "the last call is recorded")
        last = desk.piped("last")
        assert last.returncode == 0
        assert "FAILED test_a.py" in last.stdout
        assert last.stdout.endswith("✓ 1 passed\n")
        assert "claude is still at work; this is what it has done so far\n" in last.stderr
        assert "not complete" not in last.stderr
        events = [json.loads(line)["type"] for line in desk.piped("last", "--to=ndjson").stdout.splitlines()]
        assert events[-1] == "run_ended"
        gate.touch()
        process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.wait(TIMEOUT)
        reader.join()
    last = desk.piped("last")
    assert (last.returncode, "done in" in last.stdout, "still at work" in last.stderr) == (0, True, False)


@pytest.mark.slow
def test_several_agents_are_shown_side_by_side_again(desk: Desk) -> None:
    """With their labels and the table, whatever the order of their lines was."""
    _, shown, errors = desk.run(agent="claude,other")
    status, again, more = desk.in_terminal("last")
    assert status == 0
    assert sorted(without_times(again).split("\n")) == sorted(without_times(shown).split("\n"))
    assert [line.split()[:2] for line in errors.split("\n")[-4:]] == [
        line.split()[:2] for line in more.split("\n")[-4:]
    ]


@pytest.mark.slow
def test_parts_of_a_run(desk: Desk) -> None:
    """The diff, the reply, the log and the failures, each without the rest."""
    desk.run()
    diff = desk.piped("last", "--diff").stdout
    assert diff == "--- a.py\n+++ a.py\n@@\n-x = 1\n+x = 2\n"
    assert desk.piped("last", "--reply").stdout == "You said: fix it\n"
    failures = desk.piped("last", "--failures").stdout
    assert "FAILED test_a.py" in failures
    assert "1 passed" not in failures
    assert "You said" not in failures
    log = desk.piped("last", "--log").stdout
    assert "1 passed" in log
    assert "session s-1" in log
    wrong = desk.piped("last", "--diff", "--to", "ndjson")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    events = [json.loads(line)["type"] for line in desk.piped("show", "1", "--to=ndjson").stdout.splitlines()]
    assert (events[0], events[-1]) == ("run_started", "run_ended")


@pytest.mark.slow
def test_an_earlier_run_is_found_by_its_number_or_id(desk: Desk) -> None:
    """Numbers count in this directory, from the newest; an id is found everywhere."""
    for prompt in ("one", "two", "three"):
        desk.run(prompt)
    desk.piped("run", "claude", "piped", "--route=exec")
    assert len(desk.kept) == 3
    assert desk.piped("show", "--reply").stdout == "You said: three\n"
    assert desk.piped("show", "3", "--reply").stdout == "You said: one\n"
    assert "1 newer run was not kept" in desk.piped("show", "2").stderr
    assert desk.piped("show", "4").returncode == 2
    table = desk.piped("history").stdout.splitlines()
    assert (table[-1][0], table[-1].endswith("not kept")) == (" ", True)
    number, *_, id = table[1].split()
    assert number == "3"
    elsewhere = desk.folder.parent
    assert desk.piped("show", id, "--reply", cwd=elsewhere).stdout == "You said: one\n"
    assert desk.piped("last", cwd=elsewhere).returncode == 2
    assert desk.piped("show", "zzz").returncode == 2


@pytest.mark.slow
def test_what_is_not_kept(desk: Desk) -> None:
    """Runs without a terminal, of CI services, and where the configuration says so."""
    desk.piped("run", "claude", "x", "--route=exec")
    desk.env["CI"] = "true"
    desk.run()
    del desk.env["CI"]
    for key in ("record", "keep"):
        with desk.config.open("a") as config:
            config.write(f"[history]\n{key} = false\n")
        desk.run()
        desk.config.write_text(desk.config.read_text("utf-8").partition("[history]")[0], "utf-8")
    assert desk.kept == []
    assert desk.run("x", "--record", "runs")[0] == 0
    assert desk.kept == []
    assert desk.piped("last", "--reply").stdout == "You said: x\n"


def test_a_history_that_fails_is_no_failure_of_the_run(desk: Desk) -> None:
    """The output and the status are those of the run; what is missing is said after it."""
    desk.data.mkdir()
    (desk.data / "recordings").write_text("a file")
    status, shown, errors = desk.run()
    assert (status, "You said: fix it" in shown) == (0, True)
    assert "cannot show all of this run" in errors
    assert "Notice" not in shown


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="needs a file system of its own")
def test_a_full_disk_is_no_failure_of_the_run(desk: Desk) -> None:
    """The recording ends with a complete line, and the run goes on."""
    desk.data.mkdir(mode=0o700)
    script = (
        'mount -t tmpfs -o size=64k tmpfs "$1" && head -c 40960 /dev/zero > "$1/fill" && shift && '
        'script -qec "$*" /dev/null && cat "$PENSTOCK_DATA"/recordings/*/input.ndjson | tail -c 1 | od -c'
    )
    big = "z" * 30_000
    words = [sys.executable, "-m", "penstock", "run", "claude", big, "--route=exec", "--to=reply"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(desk.data), *words],
        cwd=desk.folder,
        env=desk.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"You said: {big}" in done.stdout
    assert "No space left on device" in done.stdout
    assert "\\n" in done.stdout.split("recording")[-1]


@pytest.mark.slow
def test_two_runs_at_once_are_both_kept(desk: Desk) -> None:
    """Each in a folder of its own, while both remove old ones."""
    desk.run()
    for number in range(50):
        folder = desk.data / "recordings" / f"claude-20200101T000000Z-{number:08x}"
        shutil.copytree(desk.kept[-1], folder)
    both = [desk.started("run", "claude", word, "--route=exec") for word in ("one", "two")]
    for process, _, reader in both:
        assert process.communicate(timeout=TIMEOUT)[1] == b""
        assert process.returncode == 0
        reader.join()
    assert len(desk.kept) == 3
    assert sorted(desk.piped("show", n, "--reply").stdout for n in "12") == ["You said: one\n", "You said: two\n"]


@pytest.mark.slow
def test_clear_forgets_all(desk: Desk) -> None:
    """The recordings, and the list too if nothing else is said; nothing else of the data directory."""
    desk.run()
    other = desk.data / "chats.db"
    other.write_text("mine")
    done = desk.piped("history", "clear", "--recordings")
    assert done.stdout.startswith("Removed 1 recording, ")
    assert desk.kept == []
    assert "not kept" in desk.piped("history").stdout
    desk.run()
    assert "forgot all runs" in desk.piped("history", "clear").stdout
    assert "There are no earlier runs" in desk.piped("history").stdout
    assert desk.kept == []
    assert other.read_text() == "mine"


@pytest.mark.parametrize("sandbox", ["on", "own"])
@pytest.mark.slow
def test_a_confined_agent_does_not_see_what_is_kept(desk: Desk, sandbox: str) -> None:
    """Not even in its own directory; an agent that is not confined does."""
    desk.data = desk.folder / "data"
    desk.env["PENSTOCK_DATA"] = str(desk.data)
    secret = "the-secret-prompt"
    desk.run(secret)
    _, free, _ = desk.run(f"read {desk.data}", "--sandbox=off", "--to=reply")
    assert secret in free
    status, confined, _ = desk.run(f"read {desk.data}", f"--sandbox={sandbox}", "--to=reply")
    assert (status, confined) == (0, "found: \n")
    assert len(desk.kept) == 3


@pytest.mark.slow
def test_a_project_cannot_change_what_is_kept(desk: Desk) -> None:
    """It may only keep less: no recording of runs in it. The days are the user's, as they hold for all directories."""
    home = desk.folder.parent / "home" / "penstock"
    home.mkdir(parents=True)
    users = desk.config.read_text("utf-8")
    (home / "config.toml").write_text(f"{users}[history]\nrecord = false\n", "utf-8")
    del desk.env["PENSTOCK_CONFIG"]
    desk.env["XDG_CONFIG_HOME"] = str(home.parent)
    (desk.folder / "penstock.toml").write_text("[history]\nrecord = true\ndays = 1\n", "utf-8")
    _, _, errors = desk.run()
    assert "can only set false" in errors
    assert "history.days is the user's alone" in errors
    assert desk.kept == []
    (home / "config.toml").write_text(users, "utf-8")
    (desk.folder / "penstock.toml").write_text("[history]\nrecord = false\n", "utf-8")
    desk.run()
    assert desk.kept == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.slow
def test_stored_text_is_harmless(desk: Desk, number: int) -> None:
    """Of prompts, replies, ids and directories, in a terminal and in a pipe."""
    desk.run(f"hostile {json.dumps(HOSTILE[number])}")
    folder = desk.kept[0]
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    hostile = HOSTILE[number]
    meta["display"] |= {"permission": hostile, "not_confined": hostile, "allow": hostile, "carried": {"model": hostile}}
    (folder / "meta.json").write_text(json.dumps(meta), "utf-8")
    line = HistoryLine(
        run=hostile, at=now_ms(), kind="run", agent=hostile, cwd=str(desk.folder), title=hostile, session_id=hostile,
        recording=str(folder),
    )  # fmt: skip
    History(desk.data).append(line)
    line.cwd = hostile
    History(desk.data).append(line)
    commands = ["last", "last --log", "last --diff", "last --failures", "history --all", "cost --by directory"]
    for words in (*commands, "cost --by agent", "sessions --all", "show 2"):
        _, shown, errors = desk.in_terminal(*words.split())
        assert_harmless(shown, words, styled=True)
        assert_harmless(errors, words)
    assert_harmless(desk.piped("history", "--all").stdout, ci=True)


@pytest.mark.slow
def test_conversations_are_searched_by_their_prompts(desk: Desk) -> None:
    """All words must be in them, in any prompt of the conversation, in any case."""
    history = History(desk.data)
    for run, session, title in (("1", "a", "Fix the Parser"), ("2", "a", "now the docs"), ("3", "b", "fix the page")):
        line = HistoryLine(run=run, at=now_ms(), kind="run", agent="claude", cwd=str(desk.folder.resolve()))
        history.append(msgspec.structs.replace(line, title=title, session_id=session))

    def found(*words: str) -> list[str]:
        lines = desk.piped("sessions", "--json", "--search", *words).stdout.splitlines()
        return [json.loads(line)["session_id"] for line in lines]

    assert found("FIX") == ["a", "b"]
    assert found("docs", "parser") == ["a"]
    assert found("the  page") == ["b"]
    assert found("parser", "page") == []
    assert desk.piped("sessions", "--search", "nothing").stdout.startswith("No conversation has all")


def record(day: int, agent: str, cost: float | None, tokens: int | None = None, out: int | None = None) -> RunRecord:
    """A run of a day."""
    at = day * 86_400_000 + 43_200_000
    return RunRecord(
        run="1", at=at, agent=agent, cwd=f"/{agent}", cost_usd=cost, input_tokens=tokens, output_tokens=out
    )


def test_costs_are_added_exactly() -> None:
    """As the decimal numbers that the agents wrote; without a cost only tokens count."""
    runs = [
        *(record(1, "claude", 0.1, 3) for _ in range(3)),
        record(2, "claude", 0.029649999999999996),
        record(2, "codex", None, 5, 2),
    ]
    days = totals(runs, "day")
    assert [str(total.cost_usd) for total in days] == ["0.3", "0.029649999999999996"]
    assert [total.runs_without_cost for total in days] == [0, 1]
    claude, codex = totals(runs, "agent")
    assert str(claude.cost_usd) == "0.329649999999999996"
    assert (str(codex.cost_usd), codex.input_tokens, codex.output_tokens) == ("0", 5, 2)
    assert [total.name for total in totals(runs, "directory")] == ["/claude", "/codex"]


@pytest.mark.slow
def test_the_cost_of_runs(desk: Desk) -> None:
    """The history has what the agents reported."""
    for _ in range(3):
        desk.piped("run", "claude", "x", "--route=exec")
    assert [line.split()[1:] for line in desk.piped("cost").stdout.splitlines()[1:]] == [
        ["3", "$0.3000", "3,600", "21"]
    ]
    (line,) = desk.piped("cost", "--by", "agent", "--json").stdout.splitlines()
    assert '"cost_usd":0.3,' in line
    assert desk.piped("cost").stderr == ""


def test_the_facts_of_a_run_are_kept() -> None:
    """What its first and last lines need has the same name wherever it is passed on."""
    for kind in (OutputContext, Guidance, DisplayFacts):
        assert set(RUN_FACTS) <= set(kind.__struct_fields__), kind
    own = {"detail", "prefix", "carried", "is_one_of_several"}
    assert set(DisplayFacts.__struct_fields__) == own | set(RUN_FACTS), "a fact that is kept and not shown again"
