"""How an agent is asked for its models: what its program gets, and how it is ended."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

from penstock.config import settings
from penstock.errors import AgentNotFound, UsageError
from penstock.run import model_list
from penstock.run.confine import machine_problem
from penstock.run.model_list import models_of
from penstock.run.sandbox import Surroundings
from penstock.run.spec import RunSpec

LIST = {"models": [{"slug": "m1", "visibility": "list"}]}
NOTED = """
import json, os, sys
print("a warning", file=sys.stderr)
facts = {"argv": sys.argv[1:], "cwd": os.getcwd(), "files": os.listdir(), "stdin": sys.stdin.read(), "pid": os.getpid(),
         "key": os.environ.get("OPENAI_API_KEY")}
notes = os.environ["CODEX_NOTES"]
with open(notes + ".new", "w") as file:
    file.write(json.dumps(facts))
os.rename(notes + ".new", notes)
"""

LEAVES = f"""
import json, os, time
child = os.fork()
if child == 0:
    os.setsid()
    time.sleep(1000)
open(os.environ["CODEX_NOTES"], "w").write(json.dumps({{"pid": child}}))
print('''{json.dumps(LIST)}''')
"""
LOOKS = """
import json
seen = ""
for name in NAMES:
    try:
        seen += open(name).read()
    except OSError:
        pass
print(json.dumps({"models": [{"slug": "saw" + seen, "visibility": "list"}]}))
"""


class Desk:
    """A program that stands for codex, and what it has noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes.json"
        self.data = folder / "data"

    def install(self, script: str) -> None:
        """Let this be codex."""
        program = self.folder / "bin" / "codex"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!{sys.executable} -S\n{script}", "utf-8")
        program.chmod(0o755)

    def ask(self, is_stopped: Callable[[], bool] = lambda: False, sandbox: str = "off") -> list[str]:
        """The names of the models that it lists."""
        environ = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder)}
        environ |= {"CODEX_NOTES": str(self.notes), "OPENAI_API_KEY": "k"}
        around = Surroundings(auto="on", hidden=(str(self.folder / "secret"),))
        spec = RunSpec(agent="codex", prompt="x", environ=environ, surroundings=around)
        config = settings.load({"PENSTOCK_SANDBOX": sandbox, "HOME": str(self.folder)}, str(self.folder))
        return [it.name for it in models_of(spec, config, self.data, is_stopped)]

    def left(self) -> list[Path]:
        """What is left in the directory in which programs are asked."""
        return list((self.data / model_list.FOLDER).rglob("*"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A place for a program."""
    return Desk(tmp_path)


def test_what_the_program_gets(desk: Desk) -> None:
    """It gets its arguments, the environment of a run, no input, and an empty directory that is gone after it."""
    desk.install(NOTED + f"print(json.dumps({LIST}))\nopen('litter', 'w').write('x')\n")
    assert desk.ask() == ["m1"]
    noted = json.loads(desk.notes.read_text())
    assert (noted["argv"], noted["files"], noted["stdin"], noted["key"]) == (["debug", "models"], [], "", "k")
    assert Path(noted["cwd"]).is_relative_to(desk.data), "agents read settings in the directories above theirs"
    assert desk.left() == []


def test_a_program_that_is_not_there(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so; one that fails has no models."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AgentNotFound):
        desk.ask()
    desk.install("import sys; sys.exit(1)")
    assert desk.ask() == []
    assert desk.left() == []


def test_a_project_cannot_choose_the_program(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file of the project says how the agent is started, it is not asked."""
    (desk.folder / "penstock.toml").write_text('[agents.codex]\ncommand = ["evil"]\n')
    monkeypatch.chdir(desk.folder)
    desk.install(NOTED)
    with pytest.raises(UsageError, match="came with the files of this project"):
        desk.ask()
    assert not desk.notes.exists()


def test_output_without_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is killed at the largest size of a list, whatever it prints beside, and nothing is left."""
    monkeypatch.setattr(model_list, "MAX_BYTES", 200_000)
    desk.install(NOTED + "while True:\n    sys.stdout.write('x' * 9999)\n    sys.stderr.write('y' * 9999)\n")
    assert desk.ask() == []
    assert _is_gone(desk)


@pytest.mark.slow
def test_a_program_that_does_not_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time it is killed; what it has printed counts, though it holds the pipe open."""
    monkeypatch.setattr(model_list, "ASK_SECONDS", 2.0)
    desk.install(NOTED + f"print(json.dumps({LIST}), flush=True)\nimport time\ntime.sleep(1000)\n")
    found = desk.ask()
    assert found == (["m1"] if desk.notes.exists() else [])  # a machine with much to do may not get that far
    assert not desk.notes.exists() or _is_gone(desk)


def test_a_process_that_is_left(desk: Desk) -> None:
    """One in a session of its own, which holds the pipe open, is killed when the program has ended."""
    desk.install(LEAVES)
    assert desk.ask() == ["m1"]
    assert _is_gone(desk)


def test_a_server_that_ends(desk: Desk) -> None:
    """A program that is asked is killed as soon as the server wants to end."""
    desk.install(NOTED + "import time\ntime.sleep(1000)\n")
    assert desk.ask(is_stopped=desk.notes.exists) == []
    assert _is_gone(desk)


def test_it_is_confined(desk: Desk) -> None:
    """Where runs can be confined, the program sees no file of the home directory, and no secret of Penstock."""
    if machine_problem():
        pytest.skip(machine_problem())
    (desk.folder / "secret").write_text("KEY")
    names = [str(desk.folder / "secret"), str(desk.folder / "diary")]
    (desk.folder / "diary").write_text("PRIVATE")
    desk.install(f"NAMES = {names!r}\n{LOOKS}")
    assert desk.ask(sandbox="off") == ["sawKEYPRIVATE"]
    assert desk.ask(sandbox="auto") == ["saw"]
    assert desk.left() == []


def test_other_agents_are_not_asked(desk: Desk) -> None:
    """An agent without such a command has no models, and nothing is started for it."""
    spec = RunSpec(agent="claude", prompt="x", environ={"PATH": "/nowhere"})
    assert models_of(spec, settings.load({}, str(desk.folder)), desk.data, lambda: False) == []
    assert not desk.data.exists()


def _is_gone(desk: Desk) -> bool:
    """Whether the process that has noted its id has ended."""
    pid = json.loads(desk.notes.read_text())["pid"]
    until(lambda: not Path(f"/proc/{pid}").exists())
    return True
