"""The workflows of docs/ci.md: their steps run as scripts, with the variables of a runner and scripted agents."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from .test_sessions import AGENT, TIMEOUT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
WORKFLOWS = {text.split("\n")[0]: text for text in re.findall(r"```yaml\nname: (.*?)```", PAGE, re.DOTALL)}
GEMINI = ROOT / "tests" / "recordings" / "gemini" / "text" / "input.ndjson"

LIMITED = """\
import json
info = {"status": "rejected", "resetsAt": 4102444800, "rateLimitType": "five_hour"}
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "rate_limit_event", "rate_limit_info": info}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": True, "result": "no", "api_error_status": 429}))
"""


class Job(NamedTuple):
    """What a job has left behind."""

    folder: Path
    log: str
    summary: str
    outputs: str


def steps(workflow: str) -> list[str]:
    """Return the scripts of a workflow's steps."""
    blocks = re.findall(r"^ +(?:- )?run: \|\n((?: {10}.*\n)+)", WORKFLOWS[workflow], re.MULTILINE)
    return [re.sub(r"(?m)^ {10}", "", block) for block in blocks]


def run(
    workflow: str, folder: Path, agents: dict[str, str], status: int = 0, extra: Mapping[str, str] | None = None
) -> Job:
    """Run the steps in a repository, as a runner does: `bash -e`, with the files of the step, and `extra` variables."""
    config = []
    for name, code in agents.items():
        script = folder / f"{name}.py"
        script.write_text(code, "utf-8")
        config.append(f'[agents.{name}]\ncommand = ["{sys.executable}", "{script}"]\nadapter = "claude"\n')
    (folder / "config.toml").write_text("\n".join(config), "utf-8")
    work = folder / "work"
    work.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main", "."], cwd=work, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=work, check=True)
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], cwd=work, check=True)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PENSTOCK_CONFIG": str(folder / "config.toml"),
        "PENSTOCK_DATA": str(folder / "data"),
        "CALLS": str(folder / "calls"),
        "GITHUB_ACTIONS": "true",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "GITHUB_OUTPUT": str(folder / "output"),
        **(extra or {}),
    }
    found = steps(workflow)
    assert found
    log = ""
    for step in found:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step],
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        log += done.stdout + done.stderr
        assert done.returncode == status, log
    texts = [path.read_text("utf-8") if path.exists() else "" for path in (folder / "summary", folder / "output")]
    return Job(work, log, *texts)


def test_all_workflows_are_tried() -> None:
    """The page has the workflows that are tried here."""
    assert set(WORKFLOWS) == {"Review", "Fix", "Report", "Nightly"}


def block(first: str, indent: int) -> str:
    """Return the last script of another service's example, which begins with `first`."""
    [text] = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if text.startswith(first)]
    script = re.findall(rf"(?m)^ +- (?:bash: )?\|\n((?: {{{indent}}}.*\n)+)", text)[-1]
    return re.sub(rf"(?m)^ {{{indent}}}", " " * 10, script)


def run_block(first: str, folder: Path, agent: str, status: int, extra: Mapping[str, str]) -> Job:
    """Run the script of another service's example."""
    folder.mkdir()
    WORKFLOWS[first] = f"      - run: |\n{block(first, 6)}"
    return run(first, folder, {"claude": agent}, status, {"GITHUB_ACTIONS": "", "CI": "true", **extra})


@pytest.mark.slow
@pytest.mark.parametrize("first", ["fix:", "trigger: none"])
def test_a_report_for_other_services(tmp_path: Path, first: str) -> None:
    """The scripts of GitLab and Azure leave a report, whether or not the agent fails, and their status is its own."""
    variables = {"fix:": {"GITLAB_CI": "true"}, "trigger: none": {"TF_BUILD": "True", "TARGET": "main"}}[first]
    variables |= {"AGENT_TEMPDIRECTORY": str(tmp_path)}
    for status, agent in ((0, AGENT), (1, LIMITED)):
        job = run_block(first, tmp_path / str(status), agent, status, variables)
        assert f'failures="{status}"' in (job.folder / "agent.xml").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("reply", "status"), [("NONE", 0), ("a.py divides by zero", 1), (None, 1)])
def test_the_hook_of_pre_commit(tmp_path: Path, reply: str | None, status: int) -> None:
    """It passes if the agent finds nothing, and fails if it names a bug or cannot be asked."""
    [entry] = re.findall(r"(?m)entry: >-\n((?: {10}.*\n)+)", PAGE)
    folded = " ".join(line.strip() for line in entry.splitlines())
    WORKFLOWS["Hook"] = f"      - run: |\n          {folded}\n"
    agent = LIMITED if reply is None else AGENT.replace('"You said: " + prompt', repr(reply))
    folder = tmp_path / "hook"
    folder.mkdir()
    job = run("Hook", folder, {"claude": agent}, status, {"GITHUB_ACTIONS": "", "PRE_COMMIT_FROM_REF": "HEAD"})
    assert reply is None or f"{reply}\n" in job.log


NIGHTLY = """\
import json, os
open("done", "w").write("x")
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "Make", "total_cost_usd": 0.1}))
"""


@pytest.mark.slow
def test_nightly(tmp_path: Path) -> None:
    """The loop's branch is pushed with the work of the agent."""
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    prepare = (
        f"          git remote add origin {remote}\n"
        "          mkdir .github; echo 'Make it green.' > .github/nightly.md\n"
        "          printf 'test:\\n\\ttest -e done\\n' > Makefile; git add .\n"
        "          git -c user.name=a -c user.email=a@b commit -qm task\n"
    )
    WORKFLOWS["Nightly"] = WORKFLOWS["Nightly"].replace("        run: |\n", f"        run: |\n{prepare}", 1)
    run("Nightly", tmp_path, {"claude": NIGHTLY}, extra={"GITHUB_RUN_ID": "7"})
    files = subprocess.run(
        ["git", "ls-tree", "--name-only", "nightly-7"], cwd=remote, capture_output=True, text=True, check=True
    )
    assert "done" in files.stdout.split()


@pytest.mark.slow
def test_review(tmp_path: Path) -> None:
    """The reply is the only content of the comment; the summary has it as well."""
    job = run("Review", tmp_path, {"claude": AGENT})
    review = (job.folder / "review.md").read_text("utf-8")
    assert review.startswith("You said: Review this diff.")
    assert "claude: ok" in job.summary
    assert "session_id<<" in job.outputs


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "status"), [("", 0), (', "permission_denials": [{"tool_use_id": "t"}]', 7)])
def test_fix(tmp_path: Path, extra: str, status: int) -> None:
    """A run in which an action was denied fails the job, with an annotation."""
    code = (
        "import json\n"
        'print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))\n'
        'text = [{"type": "text", "text": "Done."}]\n'
        'print(json.dumps({"type": "assistant", "message": {"id": "m", "content": text}}))\n'
        f'print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "Done."{extra}}}))\n'
    )
    # The scripted agent speaks claude's dialect, whose denied actions are counted.
    WORKFLOWS["Fix"] = WORKFLOWS["Fix"].replace("run codex", "run claude --route exec")
    job = run("Fix", tmp_path, {"claude": code}, status)
    assert ("::warning title=claude%3A actions denied::1 action was not allowed" in job.log) == bool(status)
    assert (job.folder / "fix.patch").exists() != bool(status)


@pytest.mark.slow
def test_review_on_gitlab(tmp_path: Path) -> None:
    """The job's script keeps the reply as a file, and a failure of the agent fails the job."""
    [job] = re.findall(r"```yaml\nreview:\n(.*?)```", PAGE, re.DOTALL)
    [script] = re.findall(r"  script:\n    - \|\n((?: {6}.*\n)+)", job)
    WORKFLOWS["GitLab"] = f"run: |\n{re.sub('(?m)^ {6}', ' ' * 10, script)}".replace("run:", "      - run:", 1)
    gitlab = {"GITLAB_CI": "true", "CI": "true", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "GITHUB_ACTIONS": ""}
    (tmp_path / "good").mkdir()
    good = run("GitLab", tmp_path / "good", {"claude": AGENT}, extra=gitlab)
    assert (good.folder / "review.md").read_text("utf-8").startswith("You said: Review this diff.")
    assert (good.summary, good.outputs) == ("", "")
    (tmp_path / "bad").mkdir()
    run("GitLab", tmp_path / "bad", {"claude": LIMITED}, 1, gitlab)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("agent", "options", "problem", "asked"),
    [
        (
            "claude",
            "--timeout=60\n\n  --system-prompt=it's; $(touch hacked) `touch hacked`  \r\n",
            "",
            "it's; $(touch hacked) `touch hacked`",
        ),
        ("claude", "", "", None),
        ("claude", "--timeout=60\n--\nother prompt", "a line that is no option: --;", None),
        ("claude", "--system-prompt\nsay no", "a line that is no option: say no;", None),
        ("--help", "", "the input agent is no agent: --help", None),
    ],
)
def test_the_action(tmp_path: Path, agent: str, options: str, problem: str, asked: str | None) -> None:
    """Each line of its options is one option, and nothing of an input is executed; it installs what it is itself."""
    installs, runs = re.findall(r"run: \|\n((?: {8}.*\n)+)", (ROOT / "action.yml").read_text("utf-8"))
    assert 'pip --no-deps --no-build-isolation "$GITHUB_ACTION_PATH"\n' in installs
    bin = tmp_path / "temp" / "penstock" / "bin"
    bin.mkdir(parents=True)
    (bin / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin / "python").chmod(0o755)
    WORKFLOWS["Action"] = "      - run: |\n" + re.sub("(?m)^ {8}", " " * 10, runs)
    prompt = "-- $(touch hacked) now"
    inputs = {"AGENT": agent, "PROMPT": prompt, "ALLOW": "edits", "OPTIONS": options}
    env = {f"INPUT_{name}": value for name, value in inputs.items()} | {"RUNNER_TEMP": str(tmp_path / "temp")}
    job = run("Action", tmp_path, {"claude": AGENT}, 1 if problem else 0, env)
    if problem:
        assert problem in job.log
        assert not (tmp_path / "calls").exists()
        return
    [call] = [json.loads(line) for line in (tmp_path / "calls").read_text("utf-8").splitlines()]
    assert asked is None or any(word.endswith(asked) for word in call)
    assert "--permission-mode=acceptEdits" in call
    assert "You said: -- $(touch hacked) now" in job.outputs
    assert not list(tmp_path.rglob("hacked"))


def test_no_registry_is_asked_for_penstock() -> None:
    """No page, message or workflow installs a package that is only named `penstock`: anybody could register it."""
    texts = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = re.compile(r"""\b(?:install|uvx|pipx run|uv tool run)\b[^\n`]{0,60}[\s"']penstock(?![\w@/.-])""")
    found = [f"{path}: {match[0]}" for path in texts for match in named.finditer(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.slow
def test_report(tmp_path: Path) -> None:
    """An agent at its limit is replaced, and the log says so."""
    job = run("Report", tmp_path, {"claude": LIMITED, "gemini": f"print(open({str(GEMINI)!r}).read(), end='')"})
    assert "gemini takes over" in job.log
    assert "gemini: ok" in job.summary
    assert "outcome<<" in job.outputs
