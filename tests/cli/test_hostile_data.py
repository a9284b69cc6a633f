"""Commands that print what is stored, found or reported: paths, titles, ids and errors of somebody hostile."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hostile_text import HOSTILE, assert_harmless
from terminal_reader import read_terminal

from penstock.chat.service.nodes import NodeAbout, NodeChat, NodeView
from penstock.cli import nodes
from penstock.cli.console import columns, notify, notify_problem, one_line, pass_on, say
from penstock.cli.main import main
from penstock.doc.state import DocumentFacts
from penstock.loop.rows import (
    AnyRow,
    LoopBegan,
    LoopEnded,
    MessageAdded,
    RoleAgents,
    Settings,
    StepBegan,
    StepEnded,
    Waiting,
    encode,
)
from penstock.loop.steps import AgentEnded, CommandEnded, HeldPath, MakeTree, RunAgent, RunCheck, TreeMade
from penstock.repo.tree import TreeRecord, write_record
from penstock.run.history import RunRecord

TIMEOUT = 60
"""Seconds after which a process hangs."""

NAME = "a\x1b[2Jb\x9b2Jc\rd\u202ee\U000e0041f"
"""Name of a file that would act, without what a file system or a table of names does not take."""


def seen(argv: Sequence[str]) -> tuple[int, bytes]:
    """Run a command with stdout and stderr on a terminal; return its status and what the terminal got."""
    ours, theirs = pty.openpty()
    found, reader = read_terminal(ours)
    before = os.dup(1), os.dup(2)
    os.dup2(theirs, 1)
    os.dup2(theirs, 2)
    os.close(theirs)
    try:
        status = main(list(argv))
    finally:
        for fd, saved in enumerate(before, 1):
            os.dup2(saved, fd)
            os.close(saved)
        reader.join()
    return status, bytes(found).replace(b"\r\n", b"\n")  # the terminal begins a line with two characters


class Data:
    """A data directory and a configuration in which everything is hostile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir()
        self._write_history()
        self._write_trees()
        self._write_loop()
        self._write_document()
        self._write_recording()
        self._write_config()

    def _write_history(self) -> None:
        runs = [
            RunRecord(run=f"{n}", at=1, agent=text, cwd=text, title=text, session_id=text, model=text, recording=text)
            for n, text in enumerate(HOSTILE)
        ]
        (self.data / "history.ndjson").write_bytes(msgspec.json.Encoder().encode_lines(runs))

    def _write_trees(self) -> None:
        for number, text in enumerate(HOSTILE):
            home = self.data / "trees" / f"loop-{number}"
            home.mkdir(parents=True)
            fields: dict[str, Any] = dict.fromkeys(
                ("name", "label", "path", "repository", "base", "branch"), text.replace("\0", "")
            )
            write_record(home, TreeRecord(owner="run", made_at=number, **fields))

    def _write_loop(self) -> None:
        for number, text in enumerate(HOSTILE):
            path = self.data / "loops" / f"loop-{number}" / "journal.ndjson"
            path.parent.mkdir(parents=True)
            path.write_bytes(b"".join(map(encode, loop_rows(path.parent.name, text))))

    def _write_document(self) -> None:
        path = self.data / "docs" / "d1" / "document.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.encode(DocumentFacts("d1", str(self.folder / f"{NAME}.md"))))
        (self.folder / f"{NAME}.md").write_text("".join(HOSTILE), "utf-8")

    def _write_recording(self) -> None:
        recording = self.folder / "recording"
        recording.mkdir()
        meta = {"penstock": NAME, "agent": NAME, "label": NAME, "route": NAME, "argv": [NAME], "started_at": NAME}
        (recording / "meta.json").write_text(json.dumps(meta), "utf-8")
        (recording / "stdout.ndjson").write_text(json.dumps({"type": NAME}) + "\n", "utf-8")

    def _write_config(self) -> None:
        hostile = json.dumps(HOSTILE[0] + HOSTILE[5] + HOSTILE[6] + "\nproblems:\n  none", ensure_ascii=False)
        text = f"[output]\nprefix = {hostile}\n[agents.{hostile}]\ncommand = [{hostile}]\nlabel = {hostile}\n"
        text += f"{hostile} = 1\n"
        self.config = self.folder / "config.toml"
        self.config.write_text(text, "utf-8")

    @property
    def env(self) -> dict[str, str]:
        """Variables that name both, and one that is hostile."""
        hostile = {"PENSTOCK_AGENST": NAME, "PENSTOCK_DETAIL": NAME}
        return {"PENSTOCK_DATA": str(self.data), "PENSTOCK_CONFIG": str(self.config), **hostile}


def loop_rows(name: str, text: str) -> list[AnyRow]:
    """Return the journal of a loop in which each text is hostile."""
    settings = Settings(work=RoleAgents((text,)), checks=(text,), reviews=(RoleAgents((text,)),), setup=text)
    began = LoopBegan(
        n=1, at=1, version=1, loop=name, repository=text, base=text, base_tree=text, branch=text, prompt_path=text,
        prompt=text, settings=settings,
    )  # fmt: skip
    held = HeldPath(path=text, reason=text)
    work = RunAgent(role="work", round=1, agent=text, task=text)
    ended = AgentEnded(outcome="error", reason=text, reply=text, summary=text, held=(held,), changed=(text,))
    check = RunCheck(round=1, number=0, command=text)
    red = CommandEnded(status=1, output=f"{text}\n{text}", reason=text, changed=(text,))
    return [
        began,
        StepBegan(n=2, at=2, step=1, does=MakeTree()),
        StepEnded(n=3, at=3, step=1, result=TreeMade(path=text, left_out=(text,))),
        StepBegan(n=4, at=4, step=2, does=work),
        StepEnded(n=5, at=5, step=2, result=ended),
        StepBegan(n=6, at=6, step=3, does=check),
        StepEnded(n=7, at=7, step=3, result=red),
        MessageAdded(n=8, at=8, text=text),
        Waiting(n=9, at=9, until=9, reason=text),
        LoopEnded(n=10, at=10, status=4, reason=text),
    ]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    """Data of somebody hostile, in force."""
    made = Data(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return made


COMMANDS: list[list[str]] = [
    ["sessions", "--all"],
    ["trees"],
    ["trees", "clean", "--dry-run"],
    *(["loop", "status", f"loop-{number}"] for number in range(len(HOSTILE))),
    *(["loop", "log", f"loop-{number}"] for number in range(len(HOSTILE))),
    ["loop", "clean", "--dry-run"],
    ["doc", "status"],
    ["doc", "diff", f"{NAME}.md"],
    ["agents"],
    ["config"],
]
AS_JSON = [["sessions", "--all"], ["trees"], ["loop", "status"], ["doc", "status"], ["agents"], ["config"]]
WRONG: list[list[str]] = [
    ["read", NAME],
    ["read", "--agent", NAME, "/dev/null"],
    ["read", f"--{NAME}"],
    [NAME],
    ["run", NAME, "x"],
    ["run", "claude", "x", "--cwd", NAME],
    ["replay", NAME],
    ["replay", "recording"],
    ["loop", NAME],
    ["loop", "status", NAME],
    ["doc", f"{NAME}.txt"],
    ["sessions", NAME],
]


@pytest.mark.slow
def test_what_is_stored(data: Data, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a terminal nor a log of a CI service gets anything that acts."""
    for words in COMMANDS:
        status, shown = seen(words)
        assert status == 0, (words, shown)
        assert shown.count(b"\n") > 1, words
        assert_harmless(shown, str(words), ci=words[1:2] != ["diff"])
        assert main(words) == 0
        out, err = capfd.readouterr()
        if words[1:2] != ["diff"]:  # a program may apply it
            assert_harmless(out, str(words), ci=True)
        assert_harmless(err, str(words), ci=True)


def test_a_text_makes_no_lines_of_its_own(data: Data) -> None:
    """A row of a table is one line, whatever is in it, and so is a setting."""
    assert seen(["sessions", "--all"])[1].count(b"\n") == 1 + len(HOSTILE)
    assert seen(["trees"])[1].count(b"\n") == 1 + len(HOSTILE)
    assert b"\nproblems:\n  none" not in seen(["config"])[1]


def test_json_on_a_terminal(data: Data, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON is escaped on a terminal, where it means the same; a program gets it as it is."""
    for words in AS_JSON:
        status, shown = seen([*words, "--json"])
        assert status == 0, (words, shown)
        assert_harmless(shown, str(words))
        shown = b"".join(line for line in shown.splitlines(keepends=True) if not line.startswith(b"penstock: "))
        assert main([*words, "--json"]) == 0
        out = capfd.readouterr().out
        if words == ["config"]:
            assert json.loads(shown) == json.loads(out)
        else:
            assert list(map(json.loads, shown.splitlines())) == list(map(json.loads, out.split("\n")[:-1])), words


def test_errors(data: Data) -> None:
    """Words of the command line and names of files are repeated in errors, and do not act."""
    for words in WRONG:
        status, shown = seen(words)
        assert status != 0, words
        assert_harmless(shown, str(words), styled=True, ci=True)
        assert shown, words


def test_nodes_of_a_database(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever can write to the database chooses names, ids and titles there."""
    made = NodeAbout(version=NAME, host=NAME, pid=1, roots=[NAME])
    chats = [NodeChat(id=text, title=text) for text in HOSTILE]
    found = [NodeView(text, False, True, 1.0, made, chats) for text in HOSTILE]
    text = nodes.as_text(found)
    assert_harmless(text, ci=True)
    assert text.count("\n") == 1 + len(found) + 2 + len(found) * len(chats)


AGENT = """\
import json, sys
text = json.loads(sys.argv[1])
sys.stderr.write(text + "\\n")
def say(**line): print(json.dumps(line), flush=True)
say(type="system", subtype="init", session_id=text, model=text, cwd=text, claude_code_version=text)
say(type=text)
say(type="assistant", message={"id": "m", "content": [{"type": "text", "text": text}]})
print("no " + text)
say(type="result", subtype="success", is_error=True, result=text, session_id=text)
sys.exit(1)
"""


@pytest.mark.sample(15)
@pytest.mark.parametrize("to", ["text", "reply", "health", "chunks", "ndjson"])
@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.slow
def test_a_run(to: str, number: int, tmp_path: Path) -> None:
    """An agent that reports hostile names, warnings and errors, in a terminal and in a GitHub job."""
    text = HOSTILE[number]
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    agent = [sys.executable, str(tmp_path / "agent.py"), json.dumps(text)]
    (tmp_path / "penstock.toml").write_text(f"[agents.claude]\ncommand = {json.dumps(agent)}\n", "utf-8")
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    env = {**os.environ, **files, "PENSTOCK_CONFIG": str(tmp_path / "penstock.toml")}
    ours, theirs = pty.openpty()
    words = ["run", "claude", "--route", "exec", "hello", "--to", to, "--health", "--label", text.replace("\0", "")]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words], cwd=tmp_path, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = bytearray()
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:
        pass  # it has ended
    assert process.wait(TIMEOUT) == 1, bytes(shown)
    os.close(ours)
    assert_harmless(bytes(shown).replace(b"\r\n", b"\n"), to, styled=to == "text")


def test_one_writer(capfd: pytest.CaptureFixture[str]) -> None:
    """Each way to write is harmless by itself, so that no caller has to remember it."""
    for text in HOSTILE:
        for write in (say, notify):
            write(text)
            assert_harmless("".join(capfd.readouterr()), write.__name__, ci=True)
        notify_problem(text)
        assert capfd.readouterr().err.count("\n") == 1
        assert_harmless(columns([(text, text), ("a", text)]), ci=True)
        assert_harmless(one_line(text))
        pass_on(text.replace("\0", ""))
        assert capfd.readouterr().out == text.replace("\0", "").encode("utf-8", "replace").decode()


def test_plain_text_is_not_touched(capfd: pytest.CaptureFixture[str]) -> None:
    """What is only text is written as it is."""
    text = "café — 日本語 ✓\n\ttabs: a::b # c\n"
    say(text)
    notify(text)
    assert capfd.readouterr() == (text, text)


def test_a_bug_is_reported_harmlessly(tmp_path: Path) -> None:
    """The message of an exception may have text of an agent, and a traceback shows it."""
    code = "import sys; from penstock.cli import main as m; m._command = lambda args: {}[args[0]].x; "
    code += "m._command = lambda args: (_ for _ in ()).throw(RuntimeError(args[0])); sys.exit(m.main())"
    done = subprocess.run([sys.executable, "-c", code, NAME], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 1
    assert "RuntimeError: a" in done.stderr
    assert_harmless(done.stderr)


def test_the_log_of_the_server() -> None:
    """A message is one line, whatever is in it; a traceback follows in lines of its own, and does not act either."""
    from penstock.cli.serve.server import _HarmlessFormatter

    formatter = _HarmlessFormatter("penstock: %(message)s")
    for text in HOSTILE:
        record = logging.LogRecord("x", logging.WARNING, "f", 1, "%s", (text,), None)
        assert "\n" not in formatter.format(record)
        try:
            raise RuntimeError(text)
        except RuntimeError:
            record.exc_info = sys.exc_info()
        assert_harmless(formatter.format(record))
        assert "RuntimeError" in formatter.format(record)


def test_wide_cells_are_aligned() -> None:
    """A Chinese character and an emoji fill two columns of a terminal each, so the next cell begins where it should."""
    table = columns([("when", "prompt", "runs"), ("now", "日本語", "1"), ("now", "fix 👍🏽 it", "12")], right_from=2)
    assert table == "when  prompt     runs\nnow   日本語        1\nnow   fix 👍🏽 it    12\n"
