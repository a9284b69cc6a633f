"""`penstock run` with real agents: a conversation is continued, and another agent takes over at a limit."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import scenarios
from setups import Target, bench

if TYPE_CHECKING:
    from collections.abc import Mapping

    from setups import Bench

ONLY = ("claude-exec", "codex-server", "opencode-server", "pi-exec")
"""Targets of the tests that take one: the default route of each agent where nobody can be asked."""
SECONDS = 120


def penstock(*words: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command line as a script does, with nobody to ask."""
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_three_turns(at: Bench, tmp_path: Path) -> None:
    """Three prompts with `--continue` are one conversation: the model gets all of them."""
    env = {**at.env, "XDG_DATA_HOME": str(tmp_path)}
    agent = at.target.name
    first = ["run", agent, "scenario=text please", "--to", "reply"]
    for words in (first, [*first[:2], "-c", "scenario=thinking please"], [*first[:2], "-c", "scenario=history please"]):
        ran = penstock(*words, folder=at.folder, env=env)
        assert ran.returncode == 0, ran.stderr
    assert scenarios.history(["text", "thinking", "history"]) in ran.stdout
    listed = penstock("sessions", "--json", folder=at.folder, env=env).stdout.splitlines()
    assert [json.loads(line)["agent"] for line in listed] == [agent]


def typed(line: str, folder: Path, env: Mapping[str, str]) -> str:
    """Type a line into a shell at a terminal of 40 columns; what is on the terminal then."""
    ours, theirs = pty.openpty()
    shell = f'penstock() {{ {shlex.quote(sys.executable)} -m penstock "$@"; }}\n{line}'
    given = {**env, "COLUMNS": "40", "NO_COLOR": "1"}
    with subprocess.Popen(
        ["sh", "-c", shell], cwd=folder, env=given, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # once nobody has the terminal open any more
            while piece := os.read(ours, 65_536):
                seen += piece
        process.wait(SECONDS)
    os.close(ours)
    return seen.decode().replace("\r\n", "\n")


def test_the_printed_command_goes_on(at: Bench, tmp_path: Path) -> None:
    """The last line of a run, typed as it is from another directory, continues that conversation with its model."""
    env = {**at.env, "XDG_DATA_HOME": str(tmp_path / "data")}
    model = shlex.quote(at.target.setup.model)
    seen = typed(
        f'penstock run {at.target.name} --cwd {shlex.quote(str(at.folder))} --model {model} "scenario=text please"',
        tmp_path,
        env,
    )
    for scenarios_so_far in (["text", "history"], ["text", "history", "history"]):
        [command] = re.findall(r"go on: (.*) \"…\"$", seen, re.M)
        assert command.endswith(" -c"), seen
        seen = typed(f'{command} "scenario=history please"', tmp_path, env)
        assert scenarios.history(scenarios_so_far) in seen.replace("\n", " ").replace("  ", " "), seen
    arrives = at.target.setup.arrives or at.target.setup.model
    last = [request for request in at.server.requests if request.scenario is not None][-1]
    assert f'"{arrives}"' in last.body


def test_two_agents_with_a_tree_each(tmp_path: Path) -> None:
    """Claude and Codex both commit a file in a tree of their own; each has a branch, and the checkout is as before."""
    app, claude, codex = (tmp_path / name for name in ("app", "claude", "codex"))
    for folder in (app, claude, codex):
        folder.mkdir()
    script = "git init -q -b main && git -c user.name=U -c user.email=u@x commit -q --allow-empty -m Begin"
    subprocess.run(script, shell=True, cwd=app, check=True)
    with bench(Target("claude", "exec"), claude) as first, bench(Target("codex", "server"), codex) as second:
        path = os.pathsep.join((first.env["PATH"], second.env["PATH"]))
        user = {f"GIT_{who}_{what}": "u@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {**second.env, **first.env, **user, "PATH": path, "PENSTOCK_DATA": str(tmp_path / "data")}
        words = "run", "claude,codex", "scenario=here please", "--worktree", "--allow", "all"
        settings = Path(second.env["CODEX_HOME"], "config.toml").read_bytes()
        ran = penstock(*words, folder=app, env=env)
        assert Path(second.env["CODEX_HOME"], "config.toml").read_bytes() == settings  # also nothing about the tree
        listed = penstock("trees", "--json", folder=app, env=env).stdout.splitlines()
    assert ran.returncode == 0, ran.stderr
    trees = {row["label"]: row for row in map(json.loads, listed)}
    assert trees.keys() == {"claude", "codex"}, ran.stderr
    for tree in trees.values():
        shown = subprocess.run(["git", "show", f"{tree['branch']}:here.txt"], cwd=app, capture_output=True, text=True)
        assert shown.stdout == "here\n", ran.stderr
    assert os.listdir(app) == [".git"]


def test_another_agent_at_a_usage_limit(tmp_path: Path) -> None:
    """Claude has no credit left, so Codex does the work; stderr says why."""
    claude, codex = tmp_path / "claude", tmp_path / "codex"
    claude.mkdir()
    codex.mkdir()
    with bench(Target("claude", "exec"), claude) as first, bench(Target("codex", "server"), codex) as second:
        path = os.pathsep.join((first.env["PATH"], second.env["PATH"]))
        env = {**second.env, **first.env, "PATH": path, "XDG_DATA_HOME": str(tmp_path / "data")}
        first.server.rejects = scenarios.Refuse(400, "Your credit balance is too low to access the API.")
        prompt = "scenario=text please"
        ran = penstock("run", "claude", prompt, "--fallback", "codex", "--to", "reply", folder=second.folder, env=env)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == scenarios.texts("text")[-1]
    assert "claude has reached its usage limit; codex takes over" in ran.stderr
