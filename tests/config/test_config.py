"""Configuration: what wins, and how a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.config import config_as_json, config_as_text
from penstock.config import settings
from penstock.config.notify import Webhook
from penstock.errors import ConfigError


def loaded(folder: Path, project: str = "", env: dict[str, str] | None = None, user: str = "") -> settings.Config:
    """The configuration that holds in a folder with these two files."""
    (folder / "home" / "penstock").mkdir(parents=True, exist_ok=True)
    (folder / "work" / "deep").mkdir(parents=True, exist_ok=True)
    if user:
        (folder / "home" / "penstock" / "config.toml").write_text(user, "utf-8")
    if project:
        (folder / "work" / "penstock.toml").write_text(project, "utf-8")
    variables = {"XDG_CONFIG_HOME": str(folder / "home"), **(env or {})}
    return settings.load(variables, str(folder / "work" / "deep"))


def test_nothing_is_configured(tmp_path: Path) -> None:
    """Without files and variables the documented defaults hold."""
    found = loaded(tmp_path)
    assert found.streaming() == settings.StreamingSettings(
        "normal", realtime=True, mark_partial=True, show_unknown=True
    )
    assert (found.output("color"), found.output("mode"), found.output("prefix")) == ("auto", "auto", "agent")
    assert (found.files, found.problems) == ([], [])


def test_the_project_is_over_the_user_and_the_environment_over_both(tmp_path: Path) -> None:
    """A key is taken from the strongest place that names it, and the others stay in force."""
    user = '[output]\ncolor = "never"\nmode = "none"\nprefix = "both"\n'
    project = '[output]\ncolor = "always"\nmode = "basic"\n'
    found = loaded(tmp_path, project, {"PENSTOCK_COLOR": "auto"}, user)
    assert (found.output("color"), found.output("mode"), found.output("prefix")) == ("auto", "basic", "both")
    assert found.settings[("output", "mode")].origin == f"{tmp_path}/work/penstock.toml:3"
    assert found.settings[("output", "color")].origin == "PENSTOCK_COLOR"
    assert [Path(file).name for file in found.files] == ["penstock.toml", "config.toml"]


def test_an_agent_has_its_own_streaming(tmp_path: Path) -> None:
    """`[agents.NAME.json_streaming]` is over `[json_streaming]`, for that agent alone."""
    text = '[json_streaming]\ndelta_display = "minimal"\n[agents.pi.json_streaming]\ndelta_display = "verbose"\n'
    found = loaded(tmp_path, text)
    assert found.streaming("pi").detail == "verbose"
    assert found.streaming("codex").detail == "minimal"


def test_the_environment_is_over_an_agents_own_file_setting(tmp_path: Path) -> None:
    """Strength is by place first: a variable beats even the agent's own table in a file."""
    text = '[agents.pi.json_streaming]\ndelta_display = "verbose"\nshow_delta_in_realtime = false\n'
    found = loaded(tmp_path, text, {"PENSTOCK_DETAIL": "quiet"})
    assert found.streaming("pi").detail == "quiet"
    assert found.streaming("pi").realtime is False


@pytest.mark.parametrize(("word", "value"), [("0", False), ("false", False), ("ON", True), ("yes", True)])
def test_switches_in_the_environment(tmp_path: Path, word: str, value: bool) -> None:
    """A variable is text; the usual words for true and false are understood."""
    found = loaded(tmp_path, env={"PENSTOCK_MARK_PARTIAL_CONTENT": word})
    assert found.streaming().mark_partial is value
    assert found.problems == []


def test_an_agents_table(tmp_path: Path) -> None:
    """All that an agent can be told, is read."""
    text = """
[agents."ccs-glm"]
adapter = "ccs"
label = "ccs/glm"
command = ["ccs", "glm"]
prompt = "stdin"
[agents.ccs-glm.env]
TOKEN_FILE = "/run/token"
[agents.ccs-glm.events]
"foo.bar" = "delta"
"""
    found = loaded(tmp_path, text)
    assert found.problems == []
    assert found.agents() == ["ccs-glm"]
    agent = found.agent("ccs-glm")
    assert (agent.adapter, agent.label, agent.command, agent.prompt) == ("ccs", "ccs/glm", ["ccs", "glm"], "stdin")
    assert (agent.env, agent.events) == ({"TOKEN_FILE": "/run/token"}, {"foo.bar": "delta"})
    assert found.agent("other") == settings.AgentConfig()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[json_streaming]\ndelta_displai = "quiet"', ":2: there is no key json_streaming.delta_displai; did you mean"),
        ("[json_streming]\nx = 1", ":1: there is no key json_streming; did you mean json_streaming?"),
        (
            '\n[output]\n# a comment\ncolor = "red"',
            ':4: output.color is "red"; expected one of "auto", "always", "never"',
        ),
        ("[output]\ncolor = true", ":2: output.color is true; expected one of"),
        ('output.mode = "fast"', ':1: output.mode is "fast"; expected one of "auto", "full"'),
        (
            '[json_streaming]\nmark_partial_content = "no"',
            ':2: json_streaming.mark_partial_content is "no"; expected true',
        ),
        ("[agents.pi]\ncommand = []", ":2: agents.pi.command is []; expected a list of texts"),
        ("[agents.pi]\nlabel = ''", ':2: agents.pi.label is ""; expected a text that is not empty'),
        ("[agents.pi]\nenv = 3", ":2: agents.pi.env is 3; expected a table: [agents.pi.env]"),
        ("[agents]\npi = 3", ":2: agents.pi is 3; expected a table: [agents.pi]"),
        ("agents = 3", ":1: agents is 3; expected a table: [agents]"),
        ("[agents.pi.env]\nA = 3", ":2: agents.pi.env.A is 3; expected a text"),
        ('[agents.pi.events]\n"a.b" = "x"', ':2: agents.pi.events."a.b" is "x"; expected one of "delta", "snapshot"'),
        ('[agents.pi]\ncomand = ["x"]', ":2: there is no key agents.pi.comand; did you mean command?"),
        ('[output]\nx = """\ncolor = 1\n"""\nmode = 5', ":5: output.mode is 5; expected one of"),
        ("[output]\nprefix = ", ":2: no valid TOML"),
        ("[output\nprefix = 1", ":1: no valid TOML"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    """Every wrong key or value is told where it stands and what was expected."""
    found = loaded(tmp_path, text)
    assert any(problem.startswith(f"{tmp_path}/work/penstock.toml{told}") for problem in found.problems), found.problems


def test_nothing_but_the_mistake_fails(tmp_path: Path) -> None:
    """The rest of a file with a mistake, and the file below one that is no TOML, stay in force."""
    found = loaded(tmp_path, '[output]\ncolor = "red"\nmode = "none"\n')
    assert (found.output("color"), found.output("mode"), len(found.problems)) == ("auto", "none", 1)
    found = loaded(tmp_path, "= =", user='[output]\nprefix = "kind"\n')
    assert (found.output("prefix"), len(found.problems)) == ("kind", 1)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "PENSTOCK_COLOR",
            "blue",
            ['PENSTOCK_COLOR: output.color is "blue"; expected one of "auto", "always", "never"'],
        ),
        ("PENSTOCK_COLOUR", "never", ["PENSTOCK_COLOUR: there is no such variable; did you mean PENSTOCK_COLOR?"]),
        ("PENSTOCK_BUILD_NUMBER", "7", []),
        ("PENSTOCK_COLOR", "", []),
    ],
)
def test_mistakes_in_the_environment(tmp_path: Path, name: str, value: str, told: list[str]) -> None:
    """A wrong value and a slip of the pen are told; other programs' variables and empty ones are not."""
    assert loaded(tmp_path, env={name: value}).problems == told


def test_a_file_named_by_hand_replaces_the_search(tmp_path: Path) -> None:
    """`PENSTOCK_CONFIG` is read alone, and must be readable."""
    (tmp_path / "my.toml").write_text('[output]\nmode = "none"\n', "utf-8")
    found = loaded(tmp_path, '[output]\nprefix = "kind"\n', {"PENSTOCK_CONFIG": str(tmp_path / "my.toml")})
    assert (found.output("mode"), found.output("prefix")) == ("none", "agent")
    with pytest.raises(ConfigError, match=r"cannot be read: .*; correct or unset PENSTOCK_CONFIG"):
        loaded(tmp_path, env={"PENSTOCK_CONFIG": str(tmp_path / "not.toml")})


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """Binary rubbish in the place of a configuration is one problem, and no exception."""
    (tmp_path / "penstock.toml").write_bytes(bytes(range(256)))
    found = settings.load({}, str(tmp_path))
    assert len(found.problems) == 1
    assert "no valid TOML" in found.problems[0]


def test_rules_of_a_project_only_deny(tmp_path: Path) -> None:
    """`run.rules` of a project adds what is denied to the user's rules; what it allows is reported and ignored."""
    assert not loaded(tmp_path).command_rules
    users = '[[run.rules]]\nallow = ["npm test"]\ndeny = ["rm"]\n'
    found = loaded(tmp_path, '[[run.rules]]\nallow = ["ls"]\ndeny = ["git push"]\n', user=users)
    assert found.command_rules.allow == ("npm test",)
    assert found.command_rules.deny == ("rm", "git push")
    assert found.problems[0].endswith("run.rules allows commands; a file of the project can only deny them")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[run]\nrules = 1", "run.rules is no list of tables; expected tables: [[run.rules]]"),
        ('[[run.rules]]\nalow = ["x"]', "there is no key run.rules[0].alow; expected one of allow, deny"),
        ('[[run.rules]]\nallow = "x"', "run.rules[0].allow is no list of commands"),
        ("[[run.rules]]\ndeny = [1]", "run.rules[0].deny is no list of commands"),
        ('[[run.rules]]\n[[run.rules]]\nallow = ["*"]', "run.rules[1].allow has a rule that would allow any program"),
        ('[[run.rules]]\nallow = ["cd x"]', "run.rules[0].allow has a rule that cannot be kept"),
    ],
)
def test_wrong_rules(tmp_path: Path, text: str, told: str) -> None:
    """A rule that cannot be kept is reported, and none of the file's rules is used."""
    found = loaded(tmp_path, user=text)
    assert told in found.problems[0]
    assert not found.command_rules


def test_a_project_can_only_confine_more(tmp_path: Path) -> None:
    """`run.sandbox` of a project counts if it is `on`; any other value is reported and ignored."""
    assert loaded(tmp_path).sandbox == "auto"
    assert loaded(tmp_path, '[run]\nsandbox = "on"\n', user='[run]\nsandbox = "off"\n').sandbox == "on"
    for value in ("off", "own", "auto"):
        found = loaded(tmp_path, f'[run]\nsandbox = "{value}"\n', user='[run]\nsandbox = "on"\n')
        assert found.sandbox == "on"
        assert found.problems[0].endswith(f'run.sandbox is "{value}"; a file of the project can only set "on"')
    assert loaded(tmp_path, env={"PENSTOCK_SANDBOX": "own"}, user='[run]\nsandbox = "on"\n').sandbox == "own"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('url = "ftp://a"', 'notify[0].url is "ftp://a"; expected an address without a login in it'),
        ('url = "https://user:password@a/"', "notify[0].url is"),
        ('secret = "s"', "notify[0] has no url"),
        ('url = "https://a"\non = ["done"]', 'notify[0].on is [\'done\']; expected a list of "asks" and "ended"'),
        ('url = "https://a"\nsecret = "line\\nbreak"', 'notify[0].secret is "…"; expected a text of printable ASCII'),
        ('url = "https://a"\nwhen = "asks"', "there is no key notify[0].when; expected one of url, secret"),
    ],
)
def test_webhooks_are_checked(tmp_path: Path, lines: str, problem: str) -> None:
    """A mistake in one says what is wrong with it; no secret is shown."""
    file = tmp_path / "config.toml"
    file.write_text(f"[[notify]]\n{lines}\n")
    config = settings.load({"PENSTOCK_CONFIG": str(file)})
    assert len(config.problems) == 1
    assert problem in config.problems[0]
    assert config.webhooks == []


def test_webhooks_are_the_users_alone(tmp_path: Path) -> None:
    """A project's file sends nothing anywhere, and what the user has set stays in force; no secret is printed."""
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock/config.toml").write_text(
        '[[notify]]\nurl = "https://mine/"\nsecret = "s3cret"\non = ["asks"]\n'
    )
    (tmp_path / "penstock.toml").write_text('[[notify]]\nurl = "https://theirs/"\n')
    config = settings.load({"XDG_CONFIG_HOME": str(tmp_path)}, str(tmp_path))
    assert config.webhooks == [Webhook("https://mine/", "s3cret", ("asks",))]
    assert [problem.partition(": ")[2] for problem in config.problems] == [
        "notify is the user's alone; a file of the project cannot set it"
    ]
    assert "s3cret" not in config_as_text(config)
    assert b"s3cret" not in config_as_json(config)
    assert b"https://mine/" in config_as_json(config)
