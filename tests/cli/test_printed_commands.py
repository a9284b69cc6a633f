"""Commands that Penstock prints for a person to type: they are typed into a shell, and do what they say."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli.completion import all_commands, has_subcommands, subparsers_of

TIMEOUT = 60
"""Seconds after which a process hangs."""
COLUMNS = 40
"""Width of a narrow terminal: no command is broken into lines in it."""

# It knows the conversations that it began in its directory, as the real one does.
AGENT = """\
import json, os, sys

def say(**line):
    print(json.dumps(line), flush=True)

def end(session, **more):
    say(type="result", session_id=session, **{"subtype": "success", "is_error": False, "result": "Yes.", **more})

def flag(name):
    return next((word.partition("=")[2] for word in sys.argv if word.startswith(name + "=")), None)

here = {"cwd": os.getcwd(), "argv": sys.argv[1:], "prompt": sys.stdin.read().strip()}
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps({**here, "session": flag("--resume"), "model": flag("--model")}) + "\\n")
known = open("sessions").read().split() if os.path.exists("sessions") else []
session = flag("--resume")
if session and session not in known:
    end(session, subtype="error_during_execution", is_error=True, errors=[f"No conversation found: {session}"])
    sys.exit(1)
session = session or f"s-{len(known)}-{os.getpid()}"
open("sessions", "a").write(session + "\\n")
say(type="system", subtype="init", session_id=session, model="m1", cwd=os.getcwd())
say(type="assistant", message={"id": "m1", "content": [{"type": "text", "text": "Yes."}]})
end(session)
"""


class Desk:
    """A shell at a narrow terminal, in which `penstock` runs with a claude that is scripted."""

    def __init__(self, folder: Path) -> None:
        (folder / "agent.py").write_text(AGENT, "utf-8")
        (folder / "config.toml").write_text(
            f'[agents.claude]\ncommand = ["{sys.executable}", "{folder / "agent.py"}"]\n', "utf-8"
        )
        self.folder = folder / "a project"
        self.folder.mkdir()
        self.calls = folder / "calls"
        self.env = {
            **os.environ,
            "PENSTOCK_DATA": str(folder / "data"),
            "PENSTOCK_CONFIG": str(folder / "config.toml"),
            "CALLS": str(self.calls),
            "COLUMNS": str(COLUMNS),
            "NO_COLOR": "1",
        }

    def type(self, line: str) -> str:
        """Type a line into the shell; return what is on the terminal then."""
        ours, theirs = pty.openpty()
        shell = f'penstock() {{ {shlex.quote(sys.executable)} -m penstock "$@"; }}\n{line}'
        with subprocess.Popen(
            ["sh", "-c", shell], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            seen = b""
            try:
                while piece := os.read(ours, 65536):
                    seen += piece
            except OSError:
                pass  # nobody has the terminal open any more
            process.wait(TIMEOUT)
        os.close(ours)
        return seen.decode().replace("\r\n", "\n")

    def go_on(self, seen: str) -> list[str]:
        """Return the commands of a terminal that continue a conversation."""
        return re.findall(r"go on: (penstock run .* \"…\")$", seen, re.M)

    def asked(self) -> dict[str, str]:
        """Return what the agent was asked last."""
        found: dict[str, str] = json.loads(self.calls.read_text("utf-8").splitlines()[-1])
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk."""
    return Desk(tmp_path)


ELSEWHERE = "../$HOME 'x' \"y\""
"""Name of a directory that a shell must not read."""


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("options", "short"),
    [
        ("", "penstock run claude -c"),
        ("--model 'opus 4'", "penstock run claude --model 'opus 4' -c"),
        ("--route exec --arg=--verbose --effort low --allow edits --max-turns 3", "penstock run claude --route exec "
         "--effort low --arg=--verbose -c"),
        (f"--cwd {shlex.quote(ELSEWHERE)}", f"penstock run claude --cwd {shlex.quote(ELSEWHERE)} -c"),
        ("--cwd .", "penstock run claude -c"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_the_command_to_go_on_goes_on(desk: Desk, options: str, short: str) -> None:
    """It is short while the conversation is the newest one, and has what its next prompt needs, but no permission."""
    (desk.folder / ELSEWHERE).mkdir()
    [command] = desk.go_on(desk.type(f'penstock run claude {options} "first prompt"'))
    assert command == f'{short} "…"'
    first = desk.asked()
    desk.type(command)
    then = desk.asked()
    assert (then["cwd"], then["model"], then["prompt"]) == (first["cwd"], first["model"], "…")
    assert then["session"] == (Path(first["cwd"]) / "sessions").read_text("utf-8").split()[0]
    assert "--permission-mode=acceptEdits" not in then["argv"]


@pytest.mark.slow
def test_a_conversation_that_is_not_the_newest_is_named(desk: Desk) -> None:
    """Each of two that run side by side goes on by its own command, which no label or width breaks."""
    commands = desk.go_on(desk.type('penstock run claude,claude "first prompt"'))
    sessions = (desk.folder / "sessions").read_text("utf-8").split()
    assert all("--session" in command for command in commands)
    went_on = set()
    for command in commands:
        desk.type(command)
        went_on.add(desk.asked()["session"])
    assert went_on == set(sessions)


@pytest.mark.slow
def test_a_mistyped_conversation_is_not_remembered(desk: Desk) -> None:
    """It is no conversation to go on with: not in the closing lines, not by `--continue`, not in the list."""
    desk.type('penstock run claude "first prompt"')
    [session] = (desk.folder / "sessions").read_text("utf-8").split()
    seen = desk.type('penstock run claude --session 11111111-1111 "hi"')
    assert "No conversation found" in seen
    assert "go on" not in seen
    assert "session 1111" not in seen
    desk.type('penstock run claude -c "second prompt"')
    assert desk.asked()["session"] == session
    assert "1111" not in desk.type("penstock sessions --all --json")


def test_an_option_with_control_characters_is_in_no_command(desk: Desk) -> None:
    """A command that a terminal would change is not printed; the conversation is."""
    seen = desk.type('''penstock run claude --route exec --arg="$(printf 'a\\033[2Jb')" "first prompt"''')
    assert desk.go_on(seen) == []
    assert re.search(r"^ *session s-0-", seen, re.M)


# --- all commands in the words of Penstock ---

SOURCE = Path(penstock.__file__).parent
COMMAND = re.compile(r"penstock (?=[a-z])[^\"'`()…;·\n]*")


def words_of_the_source() -> list[tuple[str, str]]:
    """Return each beginning of a command line in a string of the source, with its place."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else "{}"  # type: ignore[misc]
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            found += [
                (match[0].partition(", ")[0].strip(), f"{path.name}:{node.lineno}") for match in COMMAND.finditer(text)
            ]
    return found


@pytest.mark.slow
def test_every_command_that_is_named_exists() -> None:
    """The command, its sub-command and each of its options are those of the parsers, in help, errors and advice."""
    commands = subparsers_of(all_commands()).choices
    wrong = []
    named = [(text, place) for text, place in words_of_the_source() if text.split()[1] in commands]
    assert len(named) > 100
    for text, place in named:
        words = text.split()[1:]
        parser = commands[words[0]]
        if has_subcommands(parser) and len(words) > 1 and words[1] in subparsers_of(parser).choices:
            parser = subparsers_of(parser).choices[words[1]]
        known = {option for action in parser._actions for option in action.option_strings}
        options = {word.partition("=")[0].rstrip(",:") for word in words if re.match(r"--?[a-z]", word)}
        wrong += [f"{place}: {text}: {option}" for option in sorted(options - known)]
    assert wrong == []


@pytest.mark.slow
def test_the_commands_about_trees_do_what_they_say(desk: Desk) -> None:
    """Compare, use, clean up: the lines below the results, typed one after the other in the repository."""
    desk.env |= {f"GIT_{who}_{what}": "u@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    desk.type("git init -q -b main && git commit -q --allow-empty -m Begin")
    seen = desk.type('penstock run claude --worktree --allow all "first prompt"')
    typed = dict(re.findall(r"^(compare|use|clean up): +(.*)$", seen, re.M))
    assert typed.keys() == {"compare", "use", "clean up"}, seen
    assert "sessions" in desk.type(f"GIT_PAGER=cat {typed['compare']}")
    desk.type(typed["use"])
    assert (desk.folder / "sessions").exists()
    assert "removed" in desk.type(typed["clean up"])
    [command] = desk.go_on(seen)
    assert "--cwd" in command
