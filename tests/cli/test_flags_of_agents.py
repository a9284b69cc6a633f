"""The flags that some agents have, at the command line: they reach the agent, or nothing starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PENSTOCK = [sys.executable, "-m", "penstock", "run"]
STATUS_USAGE = 2

PROGRAM = """\
#!{python}
import json, sys
json.dump({{"argv": sys.argv[1:], "stdin": sys.stdin.read()}}, open({seen!r}, "w"))
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s1"}}))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory with a program that is named as claude and as gemini, and writes down what it is given."""
    for name in ("claude", "gemini"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM.format(python=sys.executable, seen=str(tmp_path / "seen.json")), "utf-8")
        program.chmod(0o755)
    (tmp_path / "a.txt").write_text("some text\n", "utf-8")
    (tmp_path / "i.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8))
    (tmp_path / "s.json").write_text('{"type": "object"}', "utf-8")
    (tmp_path / "m.json").write_text('{"mcpServers": {"zoo": {"command": "zoo"}}}', "utf-8")
    return tmp_path


def run(desk: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `penstock run` there, without a terminal."""
    home = {"HOME": str(desk), "XDG_CONFIG_HOME": str(desk), "XDG_DATA_HOME": str(desk)}
    env = {**os.environ, **home, "PATH": f"{desk / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    argv = [*PENSTOCK, *words, "--stdin", "never", "--to", "reply"]
    return subprocess.run(argv, cwd=desk, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_they_reach_the_agent(desk: Path) -> None:
    """Each flag becomes a flag of the agent, files become part of its input, and paths are absolute."""
    flags = ["--effort", "high", "--system-prompt", "Be brief.", "--schema", "s.json", "--mcp-config", "m.json"]
    tools = ["--allow-tool", "Bash(git *)", "--allow-tool", "Read", "--deny-tool", "Write"]
    done = run(desk, "claude", "hi", *flags, *tools, "--file", "a.txt", "--file", "i.png")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    seen = json.loads((desk / "seen.json").read_text("utf-8"))
    wanted = [
        "--effort=high",
        "--append-system-prompt=Be brief.",
        '--json-schema={"type":"object"}',
        f"--mcp-config={desk / 'm.json'}",
        "--allowed-tools=Bash(git *)",
        "--allowed-tools=Read",
        "--disallowed-tools=Write",
    ]
    assert [word for word in seen["argv"] if word in wanted] == wanted
    image, text = json.loads(seen["stdin"])["message"]["content"]
    assert image["source"]["media_type"] == "image/png"
    assert text["text"] == 'hi\n\n<file path="a.txt">\nsome text\n</file>'


@pytest.mark.parametrize("words", [["-m", "opus"], ["-mopus"], ["--model", "opus"]])
@pytest.mark.slow
def test_the_model_has_a_short_flag(desk: Path, words: list[str]) -> None:
    """`-m` is `--model`, as it is for most agents."""
    done = run(desk, "claude", *words, "hi")
    assert done.returncode == 0, done.stderr
    seen = json.loads((desk / "seen.json").read_text("utf-8"))
    assert [word for word in seen["argv"] if "opus" in word] == ["--model=opus"]


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--effort", "high"], "gemini cannot be given a level of effort (--effort); these agents can: claude, codex,"),
        (["--file", "i.png"], "gemini cannot be sent an image (--file); use --route acp"),
        (
            ["--file", "i.png", "--deny-tool", "x"],
            "(--file); these agents can: claude, opencode, copilot, ccs",
        ),
        (["--file", "gone"], "'gone' cannot be read: there is no such file"),
        (["--effort", "VERY"], "'VERY' is not a level of effort"),
        (["--schema", "a.txt"], "'a.txt' is not JSON"),
    ],
)
def test_nothing_starts_without_them(desk: Path, words: list[str], problem: str) -> None:
    """An agent that lacks a flag is not started; the message names what has it."""
    done = run(desk, "gemini", "hi", *words)
    assert done.returncode == STATUS_USAGE
    assert problem in " ".join(done.stderr.split())
    assert not (desk / "seen.json").exists()


def test_a_text_goes_to_any_agent(desk: Path) -> None:
    """A text file needs no support: it is part of the prompt."""
    assert run(desk, "gemini", "hi", "--file", "a.txt").returncode in (0, 1)
    seen = json.loads((desk / "seen.json").read_text("utf-8"))
    assert seen["stdin"] == 'hi\n\n<file path="a.txt">\nsome text\n</file>'


@pytest.mark.slow
def test_a_command_of_the_configuration_needs_placeholders(desk: Path) -> None:
    """A configured command gets what it has a placeholder for; anything else is an error that says so."""
    (desk / "penstock").mkdir()
    config = '[agents.mine]\ncommand = ["claude", "--effort={effort}", "--schema={schema}"]\nadapter = "claude"\n'
    (desk / "penstock" / "config.toml").write_text(config, "utf-8")
    assert run(desk, "mine", "hi", "--effort", "high", "--schema", "s.json").returncode == 0
    seen = json.loads((desk / "seen.json").read_text("utf-8"))
    assert seen["argv"] == ["--effort=high", f"--schema={desk / 's.json'}"]
    lacking = run(desk, "mine", "hi", "--system-prompt", "x")
    assert (lacking.returncode, "put {system_prompt} into its command" in lacking.stderr) == (STATUS_USAGE, True)
    image = run(desk, "mine", "hi", "--file", "i.png")
    assert (image.returncode, "mine cannot be sent an image" in image.stderr) == (STATUS_USAGE, True)
