"""From a name and a request to what would be started; nothing is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.adapter import MAX_ARGUMENT_BYTES
from penstock.cli.run_factory import split_names
from penstock.config import settings as configuration
from penstock.errors import AgentNotFound, ConfigError, UnknownAgent, UsageError
from penstock.run.launch import Launch, plan
from penstock.run.spec import spec_of

CONFIG = """
[agents.mine]
command = ["mine", "--model={model}", "--resume={session_id}", "--json"]
adapter = "claude"
label = "my own"

[agents.mine.env]
MINE = "1"

[agents.late]
command = ["mine", "-p"]
prompt = "argument"

[agents.placed]
command = ["mine", "{prompt}", "--json"]

[agents.spoken]
command = ["mine", "--acp"]
protocol = "acp"

[agents.odd]
command = ["mine"]
protocol = "telegraph"

[agents.claude]
command = ["mine"]
"""


@pytest.fixture
def found(tmp_path: Path) -> configuration.Config:
    """A user's configuration, and the program that it names."""
    program = tmp_path / "bin" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "bin" / "flat").write_text("no program\n")
    users = tmp_path / "penstock" / "config.toml"
    users.parent.mkdir()
    users.write_text(CONFIG)
    return configuration.load({"XDG_CONFIG_HOME": str(tmp_path)}, str(tmp_path))


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the programs of the test are installed."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CLAUDECODE", "1")


def planned(found: configuration.Config, name: str, prompt: str = "hi", **asked: object) -> Launch:
    """What would be started."""
    return plan(spec_of({"agent": name, "prompt": prompt, **asked}), found)


def words(launch: Launch) -> list[str]:
    """The command line without the folder of its program."""
    return [os.path.basename(launch.command.argv[0]), *launch.command.argv[1:]]


def test_a_configured_command_has_places(found: configuration.Config) -> None:
    """What is asked stands in its place, and a word with a place that nothing is asked for is left out."""
    assert words(planned(found, "mine")) == ["mine", "--json"]
    launch = planned(found, "mine", model="m1", session_id="s1")
    assert words(launch) == ["mine", "--model=m1", "--resume=s1", "--json"]
    assert (launch.command.stdin, launch.label, launch.env["MINE"]) == (b"hi", "my own", "1")


def test_a_prompt_is_never_a_flag(found: configuration.Config) -> None:
    """It goes after `--`, to its place, or is refused; never where it would be read as a flag."""
    assert words(planned(found, "late", "--version"))[-3:] == ["-p", "--", "--version"]
    assert words(planned(found, "placed", "what?")) == ["mine", "what?", "--json"]
    with pytest.raises(UsageError, match="put '--' before"):
        planned(found, "placed", "--version")


def test_what_has_no_place_is_refused(found: configuration.Config) -> None:
    """A model, a session or a fork that the command has no place for."""
    with pytest.raises(UsageError, match=r"late cannot be given a model; put \{model\} into its command"):
        planned(found, "late", model="m")
    with pytest.raises(UsageError, match="session id"):
        planned(found, "late", session_id="s")
    with pytest.raises(UsageError, match="fork"):
        planned(found, "mine", session_id="s", fork=True)


def test_an_argument_has_a_limit(found: configuration.Config) -> None:
    """A prompt that is too long for an argument is refused; through stdin it goes."""
    with pytest.raises(UsageError, match="at most 131,071 bytes"):
        planned(found, "late", "x" * (MAX_ARGUMENT_BYTES + 1))
    assert len(planned(found, "mine", "x" * (1 << 20)).command.stdin) == 1 << 20


def test_a_known_agent_may_have_another_program(found: configuration.Config) -> None:
    """`command` of a known agent stands for its program; the rest of its command line is its own."""
    launch = planned(found, "claude")
    assert words(launch)[:2] == ["mine", "--print"]
    assert (launch.route, launch.agent, launch.label) == ("exec", "claude", "claude")


@pytest.mark.parametrize(
    ("asked", "route"),
    [
        ({}, "exec"),
        ({"ask": True}, "server"),
        ({"ask": True, "allow": "edits"}, "server"),
        ({"allow": "edits"}, "exec"),
        ({"allow": "all"}, "exec"),
        ({"ask": True, "route": "exec"}, "exec"),
        ({"route": "server"}, "server"),
        ({"ask": True, "route": "acp"}, "acp"),
    ],
)
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_route_that_asks_is_taken_if_somebody_can_answer(
    found: configuration.Config, name: str, asked: dict[str, Any], route: str
) -> None:
    """Claude's server asks first, so it needs a person or a program that answers; codex's is the best in any case."""
    if name == "codex" and "route" not in asked:
        route = "server"
    launch = planned(found, name, command=["mine"], **asked)
    assert launch.route == route


def test_a_nested_agent_is_not_told_of_the_outer_one(found: configuration.Config) -> None:
    """Claude Code started by Claude Code would wait for it."""
    assert "CLAUDECODE" not in planned(found, "claude").env
    given = planned(found, "claude", env={"CLAUDECODE": "mine"})
    assert given.env["CLAUDECODE"] == "mine", "who asks for it gets it"


def test_programs_behind_a_bridge(found: configuration.Config, tmp_path: Path) -> None:
    """What is looked up, missed and replaced is the agent's program, not the bridge before it."""
    with pytest.raises(AgentNotFound, match="no 'opencode' in PATH"):
        planned(found, "opencode")
    behind = planned(found, "opencode", command=["mine", "--flag"]).command
    assert behind.argv[behind.program : behind.program + 3] == (str(tmp_path / "bin" / "mine"), "--flag", "serve")


def test_the_directory_is_told_as_a_shell_would(found: configuration.Config, tmp_path: Path) -> None:
    """Some programs believe PWD over where they are."""
    assert planned(found, "mine", cwd=str(tmp_path / "bin")).env["PWD"] == str(tmp_path / "bin")
    assert planned(found, "mine").env["PWD"] == os.getcwd()


def test_any_program_that_speaks_acp(found: configuration.Config) -> None:
    """By its command, or by configuration."""
    launch = planned(found, "acp:mine --flag 'two words'", args=("--more",))
    assert words(launch) == ["mine", "--flag", "two words", "--more"]
    assert (launch.route, launch.label) == ("acp", "mine")
    assert planned(found, "spoken").route == "acp"
    with pytest.raises(ConfigError, match="telegraph"):
        planned(found, "odd")
    with pytest.raises(UsageError, match="needs a command"):
        planned(found, "acp:")
    with pytest.raises(UsageError, match="is not a command line"):
        planned(found, "acp:mine 'open")


def test_names_that_lead_nowhere(found: configuration.Config) -> None:
    """Unknown agents, routes that an agent does not have, readers without a command."""
    with pytest.raises(UnknownAgent, match="did you mean 'codex'"):
        planned(found, "codx")
    with pytest.raises(UsageError, match="gemini has no route 'server'; expected one of exec, acp"):
        planned(found, "gemini", route="server")
    for name in ("generic", "acp"):
        with pytest.raises(UsageError, match="has no command of its own"):
            planned(found, name)


def test_programs_that_are_not_there(found: configuration.Config) -> None:
    """Not installed: how to get it. There, but no program: that."""
    with pytest.raises(AgentNotFound, match=r"no 'gemini' in PATH; install it: npm install -g @google/gemini-cli"):
        planned(found, "gemini")
    with pytest.raises(AgentNotFound, match="not executable") as caught:
        planned(found, "acp:flat")
    assert caught.value.executable is False


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"prompt": " \n"}, "the prompt is empty"),
        ({"prompt": "a\0b"}, "NUL"),
        ({"fork": True}, "nothing to fork"),
        ({"session_id": "--help"}, "not a session id"),
        ({"session_id": "../../etc"}, "not a session id"),
        ({"session_id": "a" * 129}, "not a session id"),
        ({"session_id": ""}, "not a session id"),
        ({"model": "-m"}, "not a model name"),
        ({"model": ""}, "not a model name"),
        ({"model": "a\nb"}, "not a model name"),
        ({"cwd": "/no/such/folder"}, "no directory"),
        ({"agent": "claude/glm"}, "profile"),
    ],
)
def test_requests_that_are_refused(found: configuration.Config, asked: dict[str, object], said: str) -> None:
    """What an agent could misread never reaches one."""
    with pytest.raises(UsageError, match=said):
        planned(found, "claude", **asked)  # type: ignore[arg-type]


def test_a_project_starts_nothing_by_itself(tmp_path: Path) -> None:
    """`command`, `env` and `protocol` of a `penstock.toml` need somebody's word; its other keys do not."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "penstock.toml").write_text('[agents.claude.env]\nPATH = "."\n[agents.gemini]\nlabel = "g"\n')
    config = configuration.load({"XDG_CONFIG_HOME": str(tmp_path / "none")}, str(project))
    with pytest.raises(UsageError, match=r"penstock\.toml:2 says how claude is started.*--trust"):
        planned(config, "claude")
    with pytest.raises(AgentNotFound):
        planned(config, "gemini")
    named = configuration.load({"PENSTOCK_CONFIG": str(project / "penstock.toml")}, str(project))
    with pytest.raises(AgentNotFound):
        planned(named, "claude")


def test_lists_of_agents() -> None:
    """Commas part agents, but not the words of a command."""
    assert split_names("claude,codex") == ["claude", "codex"]
    assert split_names("acp:a --with=x,y,codex,acp:b") == ["acp:a --with=x,y", "codex", "acp:b"]


def test_an_environment_can_be_given(found: configuration.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `environ` the agent inherits that and nothing else; the configuration and `env` are set over it."""
    monkeypatch.setenv("SECRET", "of this process")
    environ = {"PATH": os.environ["PATH"], "MINE": "0", "CLAUDECODE": "1", "KEPT": "2"}
    launch = planned(found, "mine", environ=environ, env={"OWN": "3"})
    assert launch.env == {
        "PATH": os.environ["PATH"],
        "PWD": os.getcwd(),
        "MINE": "1",
        "CLAUDECODE": "1",
        "KEPT": "2",
        "OWN": "3",
    }
    assert "CLAUDECODE" not in planned(found, "claude", environ=environ).env
    with pytest.raises(AgentNotFound):
        planned(found, "claude", environ={"PATH": "/nowhere"})


@pytest.mark.parametrize("agent", ["codex", "qwen"])
def test_a_reader_knows_that_a_session_goes_on(found: configuration.Config, tmp_path: Path, agent: str) -> None:
    """Its totals are then those of the session: see the adapters."""
    (tmp_path / "bin" / "mine").rename(tmp_path / "bin" / agent)
    for session in (None, "s1"):
        launch = planned(found, agent, route="exec", session_id=session)
        assert launch.reader.is_resumed == (session is not None)
