"""Every option of every command, with values that it cannot have: one sentence that names it, never a traceback."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from penstock.cli import demo, doc, main, nodes, store
from penstock.cli.loop import options as loop
from penstock.cli.parser import Parser
from penstock.cli.serve import server

FILE, FOLDER = "recording.ndjson", "folder"
ODD = [
    "0", "-1", "-0.5", "nan", "inf", "-inf", "1e400", "", " ", "x", "9" * 400, "9" * 5000, "٣", "1_0", "0x10", "a\0b",
    "\udcff", "\x1b[31m", "a\nb", "=", "A=", "=b", "A=a\0b", "-", "--", ".", "/", "/dev/null", FOLDER, f"{FILE}/below",
    "missing/below", "n" * 300, "n" * 5000, "%s", "{prompt}", ",",
]  # fmt: skip
"""Words that somebody may type by mistake, or a script may put where a variable is empty."""
STATUSES = {0, 1, 2, 3, 124, 126, 127}
"""All of `docs/exit-status.md` but those for signals and closed pipes."""

ABOUT = {
    "--uds": "socket",
    "--token-file": "the token in",
    "--record": "no record can be written",
    "--data": "data dir",
    "--store": "URL of a database",
    "--store-file": "URL of a database",
    "--person": "no server runs",
    "--label": "no run of this directory",
    "--var": "-e sets a variable",
}
"""What the sentence is about, where it names neither the option nor the value as it was typed."""

BEFORE: dict[str, list[str]] = {
    "run": ["none", "hi"],
    "read": [FILE],
    "replay": [FILE],
    "demo": ["--speed=1000"],
    "serve": ["--port=0", "--data=data"],
    "loop": ["status", "--json"],
    "agents": [],
    "models": [],
    "drift": [],
    "config": [],
    "last": [],
    "show": [],
    "history": [],
    "cost": [],
    "sessions": [],
    "trees": [],
    "acp": ["--data=none"],
    "mcp": ["--data=none"],
    "link": ["--data=none"],
    "chats": ["--data=none"],
    "browsers": ["--data=none"],
    "people": ["--data=none"],
    "share": ["0f3a", "--data=none"],
    "audit": ["--data=none"],
    "nodes": ["--store=postgresql:///none"],
    "store": ["migrate", "--store=postgresql:///none"],
    "doc": ["--agent=none", FILE],
    "completion": ["bash"],
}
"""What a command needs, so that the option alone is wrong."""


class Captured(Exception):
    """The parser of a command, taken out of it."""


def parser_of(command: str, patch: pytest.MonkeyPatch) -> Any:
    """The parser that a command makes for its words."""

    def parse(self: Parser, words: object) -> NoReturn:
        raise Captured(self)

    patch.setattr(Parser, "parse", parse)
    try:
        import_module(main.COMMANDS[command]).command(["--x"])
    except Captured as captured:
        return captured.args[0]
    raise AssertionError(f"{command} parses nothing")


def options() -> Iterator[Any]:
    """Each option of each command that takes a value."""
    for command in main.COMMANDS:
        with pytest.MonkeyPatch.context() as patch:
            parser = parser_of(command, patch)
        for action in parser._actions:
            if action.option_strings and action.nargs != 0:
                yield pytest.param(command, action.option_strings[-1], id=f"{command} {action.option_strings[-1]}")


def test_every_command_is_there() -> None:
    """A new command comes into this table."""
    assert set(BEFORE) == set(main.COMMANDS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with an agent that says nothing; what would serve or connect does nothing.

    At the end, `/`, which is one of the words, can be read by the same users as before. Records in it are removed.
    """
    mode = Path("/").stat().st_mode
    (tmp_path / FILE).write_text('{"type":"result","subtype":"success","is_error":false,"result":"hi"}\n')
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "own.toml").write_text('[agents.none]\ncommand = ["true", "{model}", "{session_id}"]\n')
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "own.toml"))
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "history"))

    async def nothing(*_: object) -> None:
        return None

    async def no_removal(*_: object) -> str:
        return ""

    monkeypatch.setattr(server, "_serve", nothing)
    monkeypatch.setattr(store, "_migrate", lambda url: 0)
    monkeypatch.setattr(nodes, "_remove", no_removal)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for record in Path("/").glob("none-20*Z-*"):
        shutil.rmtree(record, ignore_errors=True)  # another test may do so at the same time
    assert Path("/").stat().st_mode == mode


def status_and_errors(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """What the command line makes of these words. Whatever it lets out of itself fails the test."""
    capfd.readouterr()
    status = main.main(words)
    return status, capfd.readouterr().err


@pytest.mark.sample(30)
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("command", "flag"), [*options()])
@pytest.mark.slow
def test_every_option_with_odd_values(command: str, flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It works, or there is one line that says which option or value is wrong; the status is one of the page."""
    for word in ODD:
        status, err = status_and_errors([command, *BEFORE[command], f"{flag}={word}"], capfd)
        assert status in STATUSES, (word, err)
        assert "Traceback" not in err
        if status == 2:
            err = err.removeprefix(demo.INTRO)
            assert "\x1b" not in err
            assert err.startswith("penstock: "), (word, err)
            assert err.count("\n") == 1, (word, err)
            about = (flag, ABOUT.get(flag, flag), repr(word)[1:-1][:12])
            assert any(each in err for each in about), (word, err)


WORDS = [
    "-1",
    "0",
    "",
    " ",
    "x",
    "a\0b",
    "\udcff",
    "\x1b[31m",
    "n" * 300,
    "n" * 5000,
    FOLDER,
    "/",
    f"{FILE}/below",
    ",",
]


@pytest.mark.sample(16)
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", [*BEFORE])
@pytest.mark.parametrize("word", WORDS, ids=lambda word: ascii(word)[:12])
def test_every_command_with_odd_words(command: str, word: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The same for the words themselves, alone and beside others."""
    for words in ([word], ["--", word], [word, word], [word, word, word]):
        if command in ("agents", "config") and words == ["--", word]:
            continue
        status, err = status_and_errors([command, *words], capfd)
        assert status in STATUSES, (words, err)
        assert "Traceback" not in err
        assert "\x1b" not in err
        if status == 2:
            assert err.startswith("penstock: "), (words, err)
            assert err.count("\n") == 1, (words, err)


def commands_of(command: str) -> list[str]:
    """The commands that a command has of its own, as `clean` of `loop`."""
    if command in ("doc", "loop"):
        return list(doc.COMMANDS if command == "doc" else loop.COMMANDS)
    with pytest.MonkeyPatch.context() as patch:
        parser = parser_of(command, patch)
    words = (action for action in parser._actions if not action.option_strings and action.choices)
    return [str(choice) for action in words for choice in action.choices]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", [command for command in BEFORE if command != "demo"])
def test_every_command_without_words(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The same for a command, and for each command of its own, with nothing after it."""
    for words in ([], *([word] for word in commands_of(command))):
        status, err = status_and_errors([command, *words], capfd)
        assert status in STATUSES, (words, err)
        assert "Traceback" not in err
        if status == 2:
            assert err.startswith("penstock: "), (words, err)
            assert err.count("\n") == 1, (words, err)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("word", WORDS, ids=lambda word: ascii(word)[:12])
def test_words_that_are_no_command(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`penstock WORD`."""
    status, err = status_and_errors([word], capfd)
    assert status in STATUSES
    assert "Traceback" not in err


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--speed", "0"], "argument --speed: expected a number above 0, not '0'"),
        (["demo", "--speed", "-1"], "argument --speed: expected a number above 0, not '-1'"),
        (["replay", FILE, "--speed", "nan"], "argument --speed: expected a number above 0, not 'nan'"),
        (
            ["run", "none", "hi", "--timeout", "-1"],
            "expected a number of seconds above 0, not '-1'; see penstock run --help",
        ),
        (
            ["run", "none", "hi", "--session", "../x"],
            "argument --session: '../x' is not a session id; expected letters",
        ),
        (["run", "none", "hi", "--fork"], "there is nothing to fork: --fork needs --continue or --session ID"),
        (
            ["run", "none", "hi", "--cwd", "nowhere"],
            "argument --cwd: 'nowhere' is not a directory; expected one that is",
        ),
        (["run", "none", "fix", "the", "test"], "'the test' is after it; quote the prompt: penstock run none 'fix the"),
        (["run", "none", "hi", "--stdin", "always"], "argument --stdin: invalid choice: 'always'"),
        (["run", "none", "hi", "--record", "n" * 5000], "no record can be written"),
        (["run", "none", "-p", "hi"], "no option '-p'; the prompt follows the agent's name, without an option"),
        (["run", "none", "hi", "--yolo"], "there is no option '--yolo'; did you mean --allow all?"),
        (["run", "none", "hi", "--timeuot=1"], "there is no option '--timeuot'; did you mean --timeout?"),
        (["agents", "clawd"], "did you mean 'claude'?"),
        (["serve", "--port", "65536"], "argument --port: expected a whole number from 0 to 65535, not '65536'"),
    ],
)
def test_what_the_sentence_is(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What it was, what was expected and the way out, in the words of the command line."""
    status, err = status_and_errors(words, capfd)
    assert status == 2
    assert said in err
    assert "None" not in err


def test_a_record_is_replayed(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Who wants to read the folder of a record, or of several, is shown the command for it."""
    (place / "runs" / "one").mkdir(parents=True)
    (place / "runs" / "one" / "input.ndjson").write_text("{}\n")
    for name in ("runs", "runs/one", "runs/one/"):
        for words in (["read", name], [name]):
            _, err = status_and_errors(words, capfd)
            assert f"it is a folder; replay the record that it holds: penstock replay {name}\n" in err
    _, err = status_and_errors(["read", FOLDER], capfd)
    assert f"name its files: {FOLDER}/*.ndjson" in err


TOML = [
    "a = " + "9" * 5000,
    "a = " + "[" * 100_000,
    "a = " + "{b=" * 50_000,
    "[agents.none]\nlabel = nan",
    "[agents.none]\ncommand = [\"a\\u0000b\"]",
    "[agents.none]\ncommand = [[]]",
    '[agents.none.env]\n"" = "x"',
    '[agents.none.env]\n"A=B" = "x"',
    '[agents.none.env]\nA = "x\\u0000"',
    "[output]\nmode = inf\ncolor = 1979-05-27\ndetail = 99999999999999999999",
    "[output]\nmode = [" + '"x", ' * 10_000 + "]",
    "[json_streaming]\nshow_unknown_events = 1",
    '[""]\n"" = ""',
    "output = [[], {}]",
    "\0",
    "\ud800".encode(errors="surrogatepass").decode(errors="replace"),
]  # fmt: skip


@pytest.mark.sample(48)
@pytest.mark.parametrize("text", TOML, ids=lambda text: ascii(text)[:30])
@pytest.mark.parametrize("command", ["config", "agents", "read", "run"])
def test_a_configuration_of_odd_values(place: Path, command: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A warning for each mistake, on a line of its own, and the command does its work."""
    (place / "own.toml").write_text(text)
    status, err = status_and_errors([command, *BEFORE[command]], capfd)
    assert status in STATUSES
    warnings = [line for line in err.splitlines() if line.startswith("penstock: warning: ")]
    if command == "read":
        assert (status, len(warnings) > 0) == (0, True)
    assert all(len(line) < 500 for line in warnings)


@pytest.mark.parametrize("named", [FOLDER, "missing", "n" * 300, "n" * 5000, f"{FILE}/below"])
def test_a_configuration_that_cannot_be_read(
    place: Path, named: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`PENSTOCK_CONFIG` names what it cannot name."""
    monkeypatch.setenv("PENSTOCK_CONFIG", named)
    status, err = status_and_errors(["read", FILE], capfd)
    assert status == 2
    assert "cannot be read" in err


@pytest.mark.slow
def test_a_directory_that_is_gone(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Who works in a directory that was deleted gets an answer from every command."""
    with contextlib.chdir(place / FOLDER):
        (place / FOLDER).rmdir()
        for command, words in BEFORE.items():
            status, err = status_and_errors([command, *words], capfd)
            assert status in STATUSES, (command, err)
            assert "Traceback" not in err
