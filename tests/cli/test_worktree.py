"""`penstock run --worktree` and `penstock trees`: each agent works in a tree of its own, and its result is a branch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from git_repository import IDENTITY, UserRepository, identity

from penstock.cli.worktree import slug
from penstock.repo.commit import subject_of

__all__ = ["identity"]

TIMEOUT = 120
"""Seconds after which a process hangs."""

AGENT = """\
import json, os, sys

def say(**line):
    print(json.dumps(line), flush=True)

sys.stdin.read()
say(type="system", subtype="init", session_id="s", model="m1")
exec(sys.argv[1])
say(type="assistant", message={"id": "m2", "content": [{"type": "text", "text": "Done."}]})
say(type="result", subtype="success", is_error=False, result="Done.", session_id="s")
"""

AGENTS = {
    "writer": "open('src/a.py', 'w').write('a = 2\\n')",
    "other": "open('new', 'w').write(os.getcwd() + '\\n' + ' '.join(os.environ))",
    "idle": "pass",
    "careless": "open('.env', 'w').write('KEY=1'); open('new', 'w').write('x')",
    "runner": "os.mkdir('src/__pycache__'); open('src/__pycache__/a.cpython-311.pyc', 'w').write('x'); "
    "open('new', 'w').write('x')",
    "stray": "[say(type='assistant', message={'id': 'm1', 'content': [{'type': 'tool_use', 'id': at, 'name': 'Write', "
    "'input': {'file_path': at + '/src/a.py', 'content': 'x'}}]}) for at in (os.getcwd(), os.environ['CHECKOUT'])]",
    "committer": "open('new', 'w').write('x'); os.system('git add . && git commit -qm mine && git switch -qc y')",
}
"""Scripts of the agents, by name."""


class Workplace:
    """A user's repository, and scripted agents."""

    def __init__(self, folder: Path) -> None:
        self.user = UserRepository(folder / "work" / "app")
        self.data = folder / "data"
        (folder / "agent.py").write_text(AGENT, "utf-8")
        config = [
            f'[agents.{name}]\nadapter = "claude"\n'
            f"command = {json.dumps([sys.executable, str(folder / 'agent.py'), script])}\n"
            for name, script in AGENTS.items()
        ]
        config.append('[agents.absent]\nadapter = "claude"\ncommand = ["no-such-program-anywhere"]\n')
        (folder / "config.toml").write_text("\n".join(config), "utf-8")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        places = {"PENSTOCK_CONFIG": str(folder / "config.toml"), "PENSTOCK_DATA": str(self.data)}
        self.env = {**inherited, **IDENTITY, **places}

    def penstock(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Penstock to its end."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            cwd=cwd or self.user.root,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT,
        )

    def trees(self) -> dict[str, dict[str, object]]:
        """Return the trees that are listed, by the agent's name."""
        done = self.penstock("trees", "--json")
        return {row["label"]: row for row in map(json.loads, done.stdout.splitlines())}

    def branches(self) -> list[str]:
        """Return the branches of the user's repository."""
        return self.user.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    """Make a repository and agents."""
    return Workplace(tmp_path)


@pytest.mark.slow
def test_each_agent_has_a_tree_and_its_result_is_a_branch(work: Workplace) -> None:
    """Two agents change different files side by side; each result is a branch, and the checkout is as before."""
    work.user.write({"README": "changed by the user\n"})
    before = work.user.state()
    done = work.penstock("run", "writer,other,idle", "# Set a to 2\nplease", "--worktree")
    assert done.returncode == 0, done.stderr
    assert work.user.state() == before
    main, *branches = work.branches()
    assert main == "main"
    assert [branch.rpartition("-")[2] for branch in branches] == ["other", "writer"]
    assert work.user.git("log", "-1", "--format=%s", branches[1]) == "Set a to 2"
    assert "Penstock-Agent: writer" in work.user.git("log", "-1", "--format=%B", branches[1])
    assert work.user.git("diff", "--name-only", "main", branches[1]) == "src/a.py"
    assert work.user.git("diff", "--name-only", "main", branches[0]) == "new"
    assert "without the 1 file that you have changed and not committed" in done.stderr
    assert f"1 file, +1 −1  {branches[1]}" in done.stderr
    assert "src/a.py | 2 +-" in done.stderr
    writer, other = (branch.removeprefix("penstock/") for branch in reversed(branches))
    assert f"compare:  penstock trees diff {writer} {other}\nuse:      penstock trees merge {writer}\n" in done.stderr
    work.user.git("checkout", "-q", "README")
    work.user.git("merge", "-q", branches[1])
    assert (work.user.root / "src/a.py").read_text() == "a = 2\n"


@pytest.mark.slow
def test_an_agent_works_in_the_same_directory_of_its_tree(work: Workplace) -> None:
    """A run in a sub-directory works in that of the tree, and a variable that names the user's does not reach it."""
    git_dir = str(work.user.root / ".git")
    done = work.penstock("run", "other", "x", "--worktree", cwd=work.user.root / "src", GIT_DIR=git_dir)
    assert done.returncode == 0, done.stderr
    branch = work.branches()[1]
    directory, variables = work.user.git("show", f"{branch}:src/new").splitlines()
    assert directory == f"{work.user.root}.{branch.removeprefix('penstock/')}/src"
    assert "GIT_DIR" not in variables.split()


@pytest.mark.slow
def test_commits_of_an_agent_are_one_commit_of_the_result(work: Workplace) -> None:
    """An agent that commits and switches branches in its tree changes nothing but the files of its result."""
    assert work.penstock("run", "committer", "x", "--worktree").returncode == 0
    branch = work.branches()[1]
    assert work.user.git("log", "--format=%s", branch) == "x\nBegin"
    assert work.user.git("diff", "--name-only", "main", branch) == "new"


@pytest.mark.slow
def test_a_file_of_the_checkout_is_not_named_as_one_of_the_tree(work: Workplace) -> None:
    """Paths are short in the tree alone: an agent that leaves it cannot look as if it had stayed."""
    checkout = str(work.user.root)
    done = work.penstock("run", "stray", "--worktree", "x", CHECKOUT=checkout)
    assert re.findall(r"edit (\S*src/a\.py)", done.stdout)[:2] == ["src/a.py", f"{checkout}/src/a.py"]


@pytest.mark.slow
def test_what_is_held_back_is_named_and_keeps_the_tree(work: Workplace) -> None:
    """A file with secrets is in no commit; the run names it, and the tree that has it stays until it is gone."""
    done = work.penstock("run", "careless,idle", "x", "--worktree")
    assert "careless: not committed: .env: files of this name hold secrets" in done.stderr
    assert {name: row["state"] for name, row in work.trees().items()} == {"careless": "unsaved", "idle": "saved"}
    dry = work.penstock("trees", "clean", "--dry-run")
    cleaned = work.penstock("trees", "clean")
    assert dry.stdout.splitlines()[0].startswith("kept ")
    assert "would be removed" in dry.stdout
    assert "1 file is in no ref: .env" in cleaned.stdout
    tree = work.trees()["careless"]
    (Path(str(tree["path"])) / ".env").unlink()
    assert work.penstock("trees", "clean").stdout.startswith("removed ")
    assert work.penstock("trees").stdout == "There are no trees.\n"
    assert len(work.branches()) == 2
    assert os.listdir(work.user.root.parent) == ["app"]


@pytest.mark.slow
def test_bytecode_is_in_no_result(work: Workplace) -> None:
    """What Python leaves beside the sources is named, is in no commit, and keeps no tree."""
    done = work.penstock("run", "runner", f"use the token ghp_{'a' * 36}", "--worktree")
    assert "runner: not committed: src/__pycache__/: bytecode" in done.stderr
    branch = work.branches()[1]
    assert work.user.git("diff", "--name-only", "main", branch) == "new"
    assert work.user.git("log", "-1", "--format=%s", branch) == "use the token [removed: a token of GitHub]"
    assert work.penstock("trees", "clean").stdout.startswith("removed ")


@pytest.mark.slow
def test_an_agent_that_is_not_installed_leaves_no_tree(work: Workplace) -> None:
    """If a run cannot start, or another agent takes over, no tree of an agent that did not work is left."""
    assert work.penstock("run", "writer,absent", "x", "--worktree").returncode == 127
    assert work.trees() == {}
    assert os.listdir(work.user.root.parent) == ["app"]
    assert work.penstock("run", "absent", "x", "--worktree", "--fallback", "writer").returncode == 0
    assert list(work.trees()) == ["writer"]


@pytest.mark.slow
def test_a_hook_that_fails_makes_no_branch(work: Workplace) -> None:
    """The hooks of the repository decide about results too; the reason and the ref with the files are printed."""
    hook = work.user.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'a line is too long'; exit 1\n")
    hook.chmod(0o755)
    done = work.penstock("run", "writer", "x", "--worktree", "--to", "reply")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "no branch, as the hook pre-commit failed" in done.stderr
    assert "  a line is too long\n" in done.stderr
    assert work.branches() == ["main"]
    assert str(work.trees()["writer"]["text"]).endswith("/result")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--continue"], "an earlier conversation belongs to its directory"),
        (["--session", "s"], "an earlier conversation belongs to its directory"),
        (["--interactive"], "--interactive"),
    ],
)
def test_options_that_do_not_fit(work: Workplace, words: list[str], message: str) -> None:
    """A tree is new, so it has no earlier conversation and takes one prompt."""
    done = work.penstock("run", "writer", "x", "--worktree", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert os.listdir(work.user.root.parent) == ["app"]


@pytest.mark.slow
def test_without_a_repository_nothing_runs(work: Workplace, tmp_path: Path) -> None:
    """Outside of a repository the option is an error that says what is missing."""
    done = work.penstock("run", "writer", "x", "--worktree", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not in a git repository" in done.stderr


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("# Title\n\nText", "Title"),
        ("\n\n  fix   the\ttest ", "fix the test"),
        ("", "Work of an agent"),
        ("##\n", "Work of an agent"),
        ("x" * 100, "x" * 71 + "…"),
        ("a\x1b[31mred\nplain", "plain"),
    ],
)
def test_the_subject_of_a_result_is_the_beginning_of_the_prompt(prompt: str, expected: str) -> None:
    """The first line that says something is the subject, within the width of the lists of git."""
    assert subject_of(prompt) == expected


def test_names_of_agents_fit_into_branches() -> None:
    """Whatever an agent is called, its name is a part of a branch."""
    assert [slug(name) for name in ("claude", "ccs/glm", "acp:prog --x", "É", "..")] == [
        "claude", "ccs-glm", "acp-prog-x", "agent", "agent"
    ]  # fmt: skip
