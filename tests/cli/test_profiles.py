"""Profiles and prompt files of `penstock run`: what they set, what overrides them, and what a project may not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.agents.registry import AGENTS
from penstock.cli.profiles import check_trust, distrusted
from penstock.config import settings
from penstock.config.profile_values import profile
from penstock.config.profiles import FREE, KEYS, NEEDS_TRUST, TABLES
from penstock.errors import UsageError
from penstock.run.prompt_template import Template

TIMEOUT = 60
"""Seconds after which a process hangs."""

AGENT = """\
import json, os, sys

def say(**line):
    print(json.dumps(line), flush=True)

text = json.dumps([sys.stdin.read(), sys.argv[1:], os.environ.get("DEMO", "")])
say(type="system", subtype="init", session_id="s-1", model="m1")
say(type="assistant", message={"id": "m9", "content": [{"type": "text", "text": text}]})
say(type="result", subtype="success", is_error=False, result=text, session_id="s-1")
"""


class Desk:
    """A user's configuration and a project, with a claude that repeats what it got."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.home = folder / "config" / "penstock"
        self.project.mkdir()
        self.home.mkdir(parents=True)
        (folder / "agent.py").write_text(AGENT, "utf-8")
        self.base = f'[agents.claude]\ncommand = ["{sys.executable}", "-S", "{folder / "agent.py"}"]\n'
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.env |= {
            "XDG_CONFIG_HOME": str(self.home.parent),
            "PENSTOCK_DATA": str(folder / "data"),
            "PENSTOCK_SANDBOX": "off",
        }
        self.user("")

    def user(self, text: str) -> None:
        """Write the user's file; the agent is in it too."""
        # A command of several words would be the whole command line: a program of one word gets the agent's flags.
        program = self.home.parent / "claude.sh"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{self.home.parents[1] / "agent.py"}" "$@"\n')
        program.chmod(0o755)
        (self.home / "config.toml").write_text(f'[agents.claude]\ncommand = ["{program}"]\n{text}', "utf-8")

    def theirs(self, text: str) -> None:
        """Write the project's file."""
        (self.project / "penstock.toml").write_text(text, "utf-8")

    def run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `penstock run` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", "run", *words, "--to=reply"],
            cwd=self.project,
            env=self.env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def got(self, *words: str, stdin: str | None = None) -> tuple[str, list[str], str]:
        """Run, and return the prompt, the arguments and the variable that the agent got."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        prompt, argv, variable = json.loads(done.stdout)
        return prompt, argv, variable

    def fails(self, *words: str) -> str:
        """Run, and return the error."""
        done = self.run(*words)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A new one."""
    return Desk(tmp_path)


REVIEW = """
[run.review]
agent = "claude"
prompt = "Review the changes since {{base}}."
model = "opus"
allow = "edits"
deny_tools = ["WebFetch"]
args = ["--verbose-errors"]

[run.review.variables]
base = "main"

[run.review.env]
DEMO = "1"
"""


@pytest.mark.slow
def test_a_profile_sets_the_options_of_a_run(desk: Desk) -> None:
    """Flags override it; lists are added to those of it."""
    desk.user(REVIEW)
    prompt, argv, variable = desk.got("review", "only the parser")
    assert prompt == "Review the changes since main.\n\nonly the parser"
    assert variable == "1"
    assert "--model=opus" in argv
    assert any("WebFetch" in word for word in argv)
    assert any("acceptEdits" in word for word in argv)
    assert "--verbose-errors" in argv
    prompt, argv, variable = desk.got(
        *("review", "-e", "base=dev", "-m", "haiku", "--deny-tool", "Bash", "--env", "DEMO=2", "--allow=own")
    )
    assert prompt == "Review the changes since dev."
    assert variable == "2"
    assert "--model=haiku" in argv
    assert "WebFetch" in " ".join(argv)
    assert "Bash" in " ".join(argv)
    assert not any("acceptEdits" in word for word in argv)
    assert desk.got("review", stdin="a diff")[0].startswith("Review the changes since main.\n\n<stdin>\na diff")
    assert desk.got("review", "-", stdin="from stdin")[0] == "Review the changes since main.\n\nfrom stdin"


@pytest.mark.slow
def test_a_prompt_file_has_variables(desk: Desk) -> None:
    """Only those that are named, each once; a value is not read again, and other braces stay."""
    file = desk.project / "p.md"
    file.write_text("Compare {{a}} with {{b}}: {{prompt}} { {{ c }} {x} $HOME\n", "utf-8")
    words = ["claude", "now", "--prompt-file", "p.md", "-e", "a={{b}}", "--var", "b=$HOME"]
    assert desk.got(*words)[0] == "Compare {{b}} with $HOME: now { {{ c }} {x} $HOME\n"
    assert "has no variable 'c'" in desk.fails(*words, "-e", "c=1")
    assert "variable b, which has no value" in desk.fails(*words[:-2])
    assert "{{prompt}} is the prompt" in desk.fails(*words, "-e", "prompt=1")
    assert "and there is none" in desk.fails("claude", "x", "-e", "a=1")
    assert "cannot be read" in desk.fails("claude", "--prompt-file", "missing.md")
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in desk.fails("claude", "--prompt-file", "p.md")


@pytest.mark.slow
def test_the_prompt_file_of_a_profile_is_beside_the_configuration(desk: Desk) -> None:
    """Whatever the directory of the run is."""
    (desk.home / "review.md").write_text("Look at {{prompt}}", "utf-8")
    desk.user('[run.review]\nagent = "claude"\nprompt_file = "review.md"\n')
    assert desk.got("review", "this")[0] == "Look at this"
    assert desk.got("review", stdin="that")[0] == "Look at that"


@pytest.mark.slow
def test_a_name_is_that_of_an_agent_or_of_a_profile(desk: Desk) -> None:
    """Never of both; a mistyped name is found."""
    desk.user('[run.claude]\nagent = "claude"\n[run.review]\nmodel = "x"\n')
    assert "'claude' is an agent, and" in desk.fails("claude", "x")
    assert "has no agent" in desk.fails("review", "x")
    assert "did you mean 'review'?" in desk.fails("reviw", "x")
    assert "did you mean 'codex'?" in desk.fails("codx", "x")
    assert "it is used alone" in desk.fails("codex,review", "x")
    desk.theirs('[run.claude]\nagent = "claude"\n')
    assert "rename the profile" in desk.fails("claude", "x")


@pytest.mark.slow
def test_mistakes_in_profiles_are_reported(desk: Desk) -> None:
    """With their lines; the rest of the profile counts."""
    desk.user('[run.review]\nagent = "claude"\nmodle = "x"\nallow = "everything"\n[run."a b"]\nagent = "claude"\n')
    done = desk.run("review", "x")
    assert done.returncode == 0
    assert "there is no key run.review.modle; did you mean model?" in done.stderr
    assert 'run.review.allow is "everything"; expected one of' in done.stderr
    assert "is no name of a profile" in done.stderr
    desk.user('[run.review]\nagent = "claude"\nmodel = "--yolo\\u0000"\n')
    assert "expected a text that is not empty" in desk.run("review", "x").stderr


PROJECTS = {
    "allow": ['"all"', '"edits"', '"own"', '"default"'],
    "sandbox": ['"off"', '"auto"', '"own"'],
    "network_hosts": ['["evil.test:443"]'],
    "agent": ['"acp:sh -c evil"', '"claude,mine"', '"mine"'],
    "fallback": ['["acp:sh -c evil"]'],
    "prompt_file": ['"/etc/passwd"', '"../secret"', '"link"'],
    "route": ['"exec"'],
    "files": ['["/etc/passwd"]'],
    "schema": ['"s.json"'],
    "mcp_config": ['"m.json"'],
    "allow_tools": ['["Bash"]'],
    "args": ['["--dangerously-skip-permissions"]'],
    "record": ['"/tmp"'],
}
"""Values with which a project's profile would grant something."""


def test_each_key_of_a_profile_is_judged_for_projects() -> None:
    """A new key has to be sorted: a project may set it, or it needs trust."""
    assert {*KEYS, *TABLES} == FREE | NEEDS_TRUST
    assert not FREE & NEEDS_TRUST
    assert NEEDS_TRUST - {"env"} <= set(PROJECTS)


@pytest.mark.parametrize(("key", "values"), [*PROJECTS.items(), ("env.PATH", ['"/evil"'])])
def test_a_project_grants_nothing(tmp_path: Path, key: str, values: list[str]) -> None:
    """Each of these values of a project's profile needs trust; the same profile of the user is used."""
    (tmp_path / "project").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project" / "link").symlink_to(tmp_path / "secret")
    file = tmp_path / "project" / "penstock.toml"
    for value in values:
        agent = "" if key == "agent" else 'agent = "claude"\n'
        file.write_text(f'[agents.mine]\nadapter = "claude"\n[run.review]\n{agent}{key} = {value}\n', "utf-8")
        config = settings.load({"HOME": str(tmp_path)}, str(file.parent))
        assert config.problems == []
        found = profile(config, "review")
        assert found is not None
        with pytest.raises(UsageError, match="trust these files"):
            check_trust(found, config, AGENTS)
        own = settings.load({"PENSTOCK_CONFIG": str(file)}, str(file.parent))
        mine = profile(own, "review")
        assert mine is not None
        assert not mine.of_project


@pytest.mark.slow
def test_a_project_may_have_harmless_profiles(desk: Desk) -> None:
    """With a prompt, a model, limits and less permission; more only with --trust."""
    (desk.project / "review.md").write_text("Review it.", "utf-8")
    text = '[run.review]\nagent = "claude"\nprompt_file = "review.md"\nmodel = "opus"\nallow = "read"\ntimeout = 60\n'
    desk.theirs(text)
    prompt, argv, _ = desk.got("review")
    assert prompt == "Review it."
    assert "--model=opus" in argv
    desk.theirs(f'{text}args = ["--more"]\n')
    assert "--trust" in desk.fails("review")
    assert "--more" in desk.got("review", "--trust")[1]
    config = settings.load({"HOME": "/nowhere"}, str(desk.project))
    found = profile(config, "review")
    assert found is not None
    assert distrusted(found, "allow", "edits", config, AGENTS)
    assert not distrusted(found, "sandbox", "on", config, AGENTS)


@pytest.mark.slow
def test_a_project_does_not_change_a_profile_of_the_user(desk: Desk) -> None:
    """The user's permission never meets the project's prompt: the project's table of that name is ignored whole."""
    desk.user('[run.review]\nagent = "claude"\nallow = "all"\n')
    desk.theirs('[run.review]\nprompt = "Do evil."\nmodel = "theirs"\n')
    done = desk.run("review", "mine")
    prompt, argv, _ = json.loads(done.stdout)
    assert prompt == "mine"
    assert not any("theirs" in word for word in argv)
    assert done.stderr.count("is a profile of your own") == 1


def test_a_template_without_a_place_is_followed_by_the_prompt() -> None:
    """After an empty line; without a prompt nothing follows."""
    assert Template("Review.\n").filled("now") == "Review.\n\nnow"
    assert Template("Review.\n").filled(" ") == "Review.\n"
    assert Template("{{prompt}}, {{prompt}}").filled("a{{x}}") == "a{{x}}, a{{x}}"
