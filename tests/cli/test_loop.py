"""`penstock loop` as a process: what it prints, its statuses, and what the other words say of it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from itertools import product
from pathlib import Path
from shutil import which

import msgspec
import pytest
from git_repository import UserRepository, identity
from loop_desk import Desk
from simulated_loop import Script, Simulation
from simulated_loop import settings as loop_defaults

from penstock.cli.loop.main import command, parser
from penstock.cli.loop.options import COMMANDS, LoopConfig, settings_of, with_plan
from penstock.cli.loop.run import run_notify
from penstock.cli.screen import local_time
from penstock.config.settings import load
from penstock.errors import UsageError
from penstock.loop.fold import fold
from penstock.loop.journal import read_rows
from penstock.loop.loops import begin_loop
from penstock.loop.rows import LoopBudget, LoopEnded, Settings, StepBegan, StepEnded
from penstock.loop.steps import CommandEnded, RunAgent, RunCheck, Step
from penstock.repo.snapshot import MAX_KEPT_FILE_BYTES
from penstock.run.history import now_ms

__all__ = ["identity"]

TIMEOUT = 120
"""Seconds after which a process hangs."""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Make a user's repository with a worker that is done in one round."""
    desk = Desk(tmp_path)
    desk.agent("worker", 'touch done; reply "Add done"')
    return desk


def penstock(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the user's repository."""
    argv = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(
        argv, cwd=desk.user.root, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT
    )


@pytest.mark.slow
def test_a_loop_from_begin_to_landing(desk: Desk) -> None:
    """A loop is run, looked at and landed; each step has a line, and the end says what to type next."""
    done = penstock(desk, "loop", "PROMPT.md", "--work", "worker", "--check", "test -e done", "--name", "l1")
    assert done.returncode == 0, done.stderr
    assert "work/worker" in done.stdout
    assert f"in {desk.user.root.parent / 'app.l1'} · session s1\n" in done.stdout
    assert "Add done" in done.stdout
    assert "round 1 · check test -e done · green" in done.stderr
    assert done.stderr.endswith("to merge it:       penstock loop land l1\n")
    assert "l1: done (status 0), began at " in penstock(desk, "loop", "status").stdout
    [line] = penstock(desk, "loop", "status", "--json").stdout.splitlines()
    assert json.loads(line)["reason"] == "done"
    assert "round 2 · work worker · ok" in penstock(desk, "loop", "log").stdout
    assert not (desk.user.root / "done").exists()
    landed = penstock(desk, "loop", "land")
    assert landed.returncode == 0, landed.stderr
    assert (desk.user.root / "done").exists()
    assert not (desk.user.root.parent / "app.l1").exists()
    assert penstock(desk, "loop", "resume").returncode == 2
    history = (desk.data / "history.ndjson").read_text()
    assert '"kind":"loop"' in history


@pytest.mark.slow
def test_a_loop_goes_on_with_more_rounds(desk: Desk) -> None:
    """A loop that used its rounds names the command that goes on, and that command goes on."""
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--rounds=1", "--name=l1")
    assert done.returncode == 1
    assert "penstock loop resume l1 --rounds 5" in done.stderr
    assert penstock(desk, "loop", "resume", "l1", "--rounds", "5").returncode == 0


@pytest.mark.slow
def test_a_message_of_the_user(desk: Desk) -> None:
    """`loop tell` leaves a message that the next round reads."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--rounds=1", "--name=l1")
    assert "penstock loop resume l1" in penstock(desk, "loop", "tell", "use the new API").stdout
    assert "message · use the new API" in penstock(desk, "loop", "resume", "--rounds=2").stderr


@pytest.mark.sample(16)
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["PROMPT.md", "--work", "worker"], "there is no check"),
        (["PROMPT.md", "--check", "true", "--work", "nobody"], "there is no agent 'nobody'"),
        (["PROMPT.md", "--check", "true", "--work", "worker,nobody"], "there is no agent 'nobody'"),
        (
            ["PROMPT.md", "--check", "true", "--work", "worker", "--review=worker,nobody"],
            "there is no agent 'nobody'",
        ),
        (["none.md", "--check", "true", "--work", "worker"], "none.md cannot be read"),
        (["status"], "there is no loop of this repository yet"),
        (["land", "x y"], "there is no loop 'x y'"),
        (["resume", "--allow=all"], "--allow is an option of a new loop"),
        (["resume", "l1", "--check", "true"], "--check is an option of a new loop"),
        (["land", "--no-hooks"], "--no-hooks is an option of a new loop"),
        (["status", "--check-timeout=9"], "--check-timeout is an option of a new loop"),
        (["status", "--rounds=3"], "penstock loop status has no option --rounds; penstock loop resume has it"),
        (["land", "--now"], "penstock loop land has no option --now; penstock loop stop has it"),
        (["PROMPT.md", "--squash"], "--squash is an option of penstock loop land, not of a new loop"),
        (["tell"], "one message is expected"),
        (["one", "two"], "needs one prompt"),
    ],
)
def test_what_cannot_start(desk: Desk, words: list[str], part: str) -> None:
    """A loop that cannot start has status 2 and one line, and makes nothing."""
    done = penstock(desk, "loop", *words)
    assert done.returncode == 2
    assert part in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (desk.data / "loops").exists()


@pytest.mark.slow
def test_the_project_cannot_start_programs(desk: Desk) -> None:
    """A check of the project's own configuration needs --trust; one of the command line does not."""
    desk.user.write({"penstock.toml": '[loop]\ncheck = ["touch /tmp/never"]\n'})
    del_config = {name: value for name, value in desk.environment.items() if name != "PENSTOCK_CONFIG"}
    argv = [sys.executable, "-m", "penstock", "loop", "PROMPT.md", "--work", "worker"]
    done = subprocess.run(argv, cwd=desk.user.root, env=del_config, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2
    assert "--trust" in done.stderr


ALLOW = '[loop.work]\nallow = "all"\n[loop.review]\nagents = ["codex"]\nallow = "all"\n'


def loop_settings(folder: Path, project: str, user: str, *words: str) -> Settings:
    """Return the settings of a loop with these words, a project's configuration and the user's own."""
    (folder / "project").mkdir()
    (folder / "user" / "penstock").mkdir(parents=True)
    (folder / "project" / "penstock.toml").write_text(project)
    (folder / "user" / "penstock" / "config.toml").write_text(user)
    config = load({"XDG_CONFIG_HOME": str(folder / "user")}, str(folder / "project"))
    options = parser().parse(["PROMPT.md", "--check", "true", "--work", "claude", *words])
    return settings_of(options, LoopConfig(config, trust=options.trust))


def test_a_flag_takes_precedence_over_the_rights_of_the_project(tmp_path: Path) -> None:
    """--allow is what the worker may do, whatever a configuration says."""
    project = '[loop.work]\nallow = "all"\n'
    assert loop_settings(tmp_path, project, "", "--allow", "edits", "--trust").work.allow == "edits"


@pytest.mark.parametrize("role", ["work", "review"])
def test_the_project_cannot_permit_agents_everything(tmp_path: Path, role: str) -> None:
    """Rights that a project's own configuration gives its agents need --trust."""
    with pytest.raises(UsageError, match="sets allow of the loop") as raised:
        loop_settings(tmp_path, f'[loop.{role}]\nagents = ["codex"]\nallow = "all"\n', "")
    assert "--trust" in str(raised.value)


def test_a_trusted_project_permits_its_agents(tmp_path: Path) -> None:
    """With --trust the rights of a project's configuration count."""
    found = loop_settings(tmp_path, ALLOW, "", "--trust")
    assert (found.work.allow, found.reviews[0].allow) == ("all", "all")


def test_the_project_only_lowers_limits_of_the_user(tmp_path: Path) -> None:
    """Of the limits of a project and of the user the lower ones count, also that of rounds by default."""
    project = '[loop]\nrounds = 50\ntime = "9h"\ncost = 1\ntokens = 7\n'
    budget = loop_settings(tmp_path, project, '[loop]\ntime = "90m"\ncost = 3\n').budget
    assert budget == LoopBudget(rounds=10, ms=5_400_000, cost_usd=1, tokens=7)


def test_a_trusted_project_sets_limits(tmp_path: Path) -> None:
    """With --trust the limits of a project's configuration override those of the user's own."""
    budget = loop_settings(tmp_path, "[loop]\nrounds = 50\ncost = 9\n", "[loop]\ncost = 3\n", "--trust").budget
    assert budget == LoopBudget(rounds=50, cost_usd=9)


@pytest.mark.slow
def test_a_dry_run_starts_nothing(desk: Desk) -> None:
    """--dry-run shows commands and prompt, and makes neither a loop nor a tree."""
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=make test", "--dry-run")
    assert done.returncode == 0
    assert "check       make test" in done.stdout
    assert "Make it work." in done.stdout
    assert not (desk.data / "loops").exists()


@pytest.mark.slow
def test_reviewers_of_the_configuration(desk: Desk) -> None:
    """Several reviewers are configured as they are named by --review, which takes precedence."""
    desk.agent("judge", 'reply "no"')
    with desk.config_file.open("a") as file:
        file.write('[loop.review]\nreviewers = ["judge", "worker,judge"]\n')
    words = "loop", "PROMPT.md", "--work=worker", "--check=true", "--dry-run"
    assert "review      judge\nreview      worker, judge\n" in penstock(desk, *words).stdout
    assert "review      worker\nrounds" in penstock(desk, *words, "--review=worker").stdout


PLANNER = """if grep -q "Plan the work" "$DESK/prompt.$$"; then reply "- [ ] add done"
else touch done; reply "Add done"; fi"""


@pytest.mark.slow
def test_the_user_is_asked_at_the_terminal(desk: Desk) -> None:
    """With --ask the loop waits for what is typed, here about the plan, and goes on with it."""
    desk.agent("planner", PLANNER)
    words = "PROMPT.md", "--work=planner", "--check=test -e done", "--plan=ask", "--ask", "--name=l1"
    command = [sys.executable, "-m", "penstock", "loop", *words]
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(desk.user.root)
        os.execvpe(command[0], command, {**desk.environment, "TERM": "vt100"})
    shown = read_until(terminal, "what to change in the plan: ")
    assert "1. add done" in shown
    os.write(terminal, b"shorter\r")
    read_until(terminal, "what to change in the plan: ")
    os.write(terminal, b"yes\r")
    read_until(terminal, "penstock loop land l1")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(terminal)
    state = fold(read_rows(desk.data / "loops" / "l1"))
    assert [message.text for message in state.messages] == ["shorter"]
    assert state.plan_is_approved


def read_until(terminal: int, text: str) -> str:
    """Read a terminal until it shows a text, and return all that was read."""
    shown = ""
    while text not in shown:
        assert select.select([terminal], [], [], TIMEOUT)[0], shown
        shown += os.read(terminal, 65_536).decode(errors="replace")
    return shown


@pytest.mark.slow
def test_asking_needs_a_terminal(desk: Desk) -> None:
    """Without a terminal --ask is rejected before anything is made."""
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=true", "--ask")
    assert (done.returncode, "--ask needs a terminal" in done.stderr) == (2, True)


@pytest.mark.slow
def test_a_prompt_to_begin_with(desk: Desk) -> None:
    """`loop init` writes a prompt, never over one that is there, and a loop does not start with it unedited."""
    assert penstock(desk, "loop", "init").returncode == 2
    desk.prompt.unlink()
    assert "PROMPT.md is written" in penstock(desk, "loop", "init").stdout
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=true")
    assert done.returncode == 2
    assert "does not say what is to be done yet" in done.stderr


@pytest.mark.slow
def test_l15_clean_keeps_work_that_has_not_landed(desk: Desk) -> None:
    """`loop clean` keeps the tree of a loop that has not landed and says what to type; after that, it removes it."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    tree = desk.user.root.parent / "app.l1"
    kept = penstock(desk, "loop", "clean")
    assert (kept.returncode, kept.stdout) == (0, f"kept  {tree}  the loop has not landed: penstock loop land l1\n")
    desk.user.git("merge", "-q", "penstock/l1")
    (tree / "notes").write_text("of the user\n")
    assert "1 file is in no ref: notes" in penstock(desk, "loop", "clean").stdout
    (tree / "notes").unlink()
    assert penstock(desk, "loop", "clean", "--dry-run").stdout.startswith("would be removed")
    assert tree.exists()
    assert penstock(desk, "loop", "clean", "l1").stdout.startswith("removed")
    assert not tree.exists()
    assert penstock(desk, "loop", "clean").stdout == "There are no trees of loops.\n"


@pytest.mark.slow
def test_l15_clean_is_about_the_repository_in_which_it_is_typed(desk: Desk, tmp_path: Path) -> None:
    """Trees of other repositories are neither looked at nor removed without --all."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    desk.user.git("merge", "-q", "penstock/l1")
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)

    def clean(*flags: str) -> str:
        words = [sys.executable, "-m", "penstock", "loop", "clean", *flags]
        done = subprocess.run(words, cwd=other, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert clean() == "There are no trees of loops.\n"
    assert clean("--all").startswith("removed")
    assert not (desk.user.root.parent / "app.l1").exists()


@pytest.mark.slow
def test_l15_landing_keeps_a_tree_with_other_files(desk: Desk) -> None:
    """A file that somebody put into the tree is in no ref: the landing keeps the tree and names the file."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    tree = desk.user.root.parent / "app.l1"
    (tree / "notes").write_text("of the user\n")
    landed = penstock(desk, "loop", "land")
    assert landed.returncode == 0
    assert landed.stdout.endswith(f"The tree is kept: {tree}: 1 file is in no ref: notes\n")
    assert (tree / "notes").exists()


@pytest.mark.slow
def test_l15_clean_keeps_what_can_be_resumed(desk: Desk) -> None:
    """The tree of a loop that was killed at work is kept, and the line has the command that goes on."""
    desk.begin(desk.settings("worker")).close()
    script = str(Path(__file__).parents[1] / "support" / "killed_loop.py")
    words = [sys.executable, script, str(desk.data / "loops" / "l1"), "7", "after"]
    subprocess.run(words, env=desk.environment, capture_output=True, timeout=TIMEOUT)
    assert "the loop was interrupted: penstock loop resume l1" in penstock(desk, "loop", "clean").stdout
    assert (desk.user.root.parent / "app.l1").exists()


@pytest.mark.slow
def test_a_loop_is_resumed_only_with_agents_that_can_run(desk: Desk) -> None:
    """A resume whose agent is not known any more has status 2, and writes no row."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--rounds=1", "--name=l1")
    journal = (desk.data / "loops" / "l1" / "journal.ndjson").read_bytes()
    desk.configure("")
    done = penstock(desk, "loop", "resume", "l1", "--rounds=2")
    assert done.returncode == 2
    assert "there is no agent 'worker'" in done.stderr
    assert (desk.data / "loops" / "l1" / "journal.ndjson").read_bytes() == journal


@pytest.mark.slow
def test_notify_of_the_project_is_rejected_before_the_work(desk: Desk) -> None:
    """A `notify` that needs --trust is an error at the start, not after the work."""
    desk.user.write({"penstock.toml": '[loop]\nnotify = "touch /tmp/never"\n'})
    environment = {name: value for name, value in desk.environment.items() if name != "PENSTOCK_CONFIG"}
    environment["XDG_CONFIG_HOME"] = str(desk.folder / "user")
    (desk.folder / "user" / "penstock").mkdir(parents=True)
    desk.config_file.rename(desk.folder / "user" / "penstock" / "config.toml")
    argv = [sys.executable, "-m", "penstock", "loop", "PROMPT.md", "--work=worker", "--check=true"]
    done = subprocess.run(argv, cwd=desk.user.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2
    assert "sets notify of the loop" in done.stderr
    assert not (desk.data / "loops").exists()


@pytest.mark.parametrize(
    ("repository", "reason"), [(".", "x" * 1_000_000), (".", "a\0b"), ("is-gone", "done")], ids=["long", "nul", "moved"]
)
def test_notify_never_raises(tmp_path: Path, capfd: pytest.CaptureFixture[str], repository: str, reason: str) -> None:
    """Whatever the reason of the end and the repository are, the status of the loop is kept."""
    loop = Simulation(loop_defaults(), Script([]))
    began = msgspec.structs.replace(loop.state.began, repository=str(tmp_path / repository))
    ended = LoopEnded(n=2, at=0, status=4, reason=reason)
    state = msgspec.structs.replace(loop.state, began=began, ended=ended)
    run_notify(f"printf %.2s > {tmp_path}/line", state)
    assert ("notify failed" in capfd.readouterr().err) == (repository == "is-gone")
    assert (tmp_path / "line").exists() == (repository != "is-gone")


@pytest.mark.slow
def test_a_loop_that_was_killed_before_its_first_row(desk: Desk) -> None:
    """A folder with an empty journal is no loop: it has no status, and its name is free."""
    folder = desk.data / "loops" / "l1"
    folder.mkdir(parents=True)
    (folder / "journal.ndjson").touch()
    done = penstock(desk, "loop", "status", "l1")
    assert (done.returncode, "there is no loop 'l1'" in done.stderr) == (2, True)
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_tree_of_a_loop_is_kept_until_it_has_landed(desk: Desk) -> None:
    """`trees clean` does not end a loop that used its rounds: it goes on, and its tree goes when it has landed."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--rounds=1", "--name=l1")
    assert "the loop has not landed: penstock loop land l1" in penstock(desk, "trees", "clean").stdout
    assert penstock(desk, "loop", "resume", "l1", "--rounds=5").returncode == 0
    assert penstock(desk, "loop", "land", "l1").returncode == 0
    penstock(desk, "trees", "clean")
    assert not (desk.user.root.parent / "app.l1").exists()


def test_a_loop_that_does_not_end_at_once_is_no_success(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stop --now` has the status 1 if the loop still runs when it has waited long enough."""
    journal = desk.begin(desk.settings("worker"))
    monkeypatch.setattr("penstock.cli.loop.main.STOP_SECONDS", 0.0)
    monkeypatch.setenv("PENSTOCK_DATA", str(desk.data))
    monkeypatch.chdir(desk.user.root)
    assert command(["stop", "l1", "--now"]) == 1
    assert command(["stop", "l1"]) == 0
    journal.close()
    assert command(["stop", "l1", "--now"]) == 0


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (["--plan", "PROMPT.md"], "auto"),
        (["PROMPT.md", "--plan"], "auto"),
        (["--plan", "ask", "PROMPT.md"], "ask"),
        (["--plan=ask", "PROMPT.md"], "ask"),
        (["PROMPT.md"], None),
    ],
)
def test_a_plan_does_not_take_the_prompt(words: list[str], plan: str | None) -> None:
    """The prompt may follow `--plan`, which has a value only if it is one of its own."""
    options = parser().parse(with_plan(words))
    assert (options.words, options.plan) == (["PROMPT.md"], plan)


@pytest.mark.slow
def test_the_time_of_the_reset_is_printed(desk: Desk) -> None:
    """A loop whose agents are all at their limits says when the first one can be used again."""
    desk.agent("limited", "limited 4102444800")
    done = penstock(desk, "loop", "PROMPT.md", "--work=limited", "--check=test -e done", "--name=l1")
    assert done.returncode == 6
    assert f"limited resets first at {local_time(4102444800_000)}" in done.stderr
    [line] = penstock(desk, "loop", "status", "--json").stdout.splitlines()
    assert json.loads(line)["resets_at"] == 4102444800_000


@pytest.mark.slow
def test_what_the_tree_does_not_have_is_printed(desk: Desk) -> None:
    """Files that are not committed are counted at the start, but for the prompt, and what no ref keeps is named."""
    desk.user.write({"NEW.md": "Make it work.\n", "README": "mine\n", "new.txt": "mine\n"})
    with open(desk.user.root / "video", "wb") as file:
        file.truncate(MAX_KEPT_FILE_BYTES + 1)
    done = penstock(desk, "loop", "NEW.md", "--work=worker", "--check=test -e done", "--name=l1")
    assert "tree · begins with the last commit, without 3 files that you have not committed" in done.stderr
    assert "too large or nested to be kept as they are: video" in done.stderr
    assert desk.user.git("show", "refs/penstock/l1/yours:new.txt") == "mine"


@pytest.mark.slow
def test_a_loop_is_found_from_its_tree(desk: Desk) -> None:
    """A user who looks around in the tree of a loop can ask for its status there."""
    penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    argv = [sys.executable, "-m", "penstock", "loop", "status"]
    place = desk.user.root.parent / "app.l1"
    done = subprocess.run(argv, cwd=place, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert "l1: done (status 0), began at " in done.stdout


@pytest.mark.slow
def test_the_agent_that_is_installed_works_if_none_is_named(desk: Desk) -> None:
    """Without --work the first agent in PATH works, and the start says which; without any, the error says so."""
    programs = desk.folder / "programs"
    programs.mkdir()
    for name in ("git", "sh", "cat", "wc", "touch"):
        (programs / name).symlink_to(which(name) or "")
    program = programs / "claude"
    program.write_text(f'#!/bin/sh\nexec sh "{desk.scripts}/worker.sh"\n')
    program.chmod(0o755)
    words = "loop", "PROMPT.md", "--check=test -e done", "--name=l1"
    argv = [sys.executable, "-m", "penstock", *words]
    env = {**desk.environment, "PATH": str(programs)}
    done = subprocess.run(argv, cwd=desk.user.root, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert "work · claude, the first agent that is installed; --work AGENT names another" in done.stderr
    assert done.returncode == 0, done.stderr
    program.unlink()
    done = subprocess.run(argv, cwd=desk.user.root, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, "no agent is installed" in done.stderr) == (2, True)


@pytest.mark.slow
def test_the_output_of_the_check_that_failed_is_shown_at_the_end(desk: Desk) -> None:
    """A loop that did not make its check green ends with the last lines of it, and so does its status."""
    check = "seq 100; echo 'assert 1 == 2'; false"
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", f"--check={check}", "--rounds=1", "--name=l1")
    assert done.returncode == 1
    for text in (done.stderr, penstock(desk, "loop", "status").stdout):
        shown = text.partition(f"{check}:\n")[2].partition("\n\n")[0].splitlines()
        assert shown[-1] == "  assert 1 == 2"
        assert 5 < len(shown) < 30
    done = penstock(desk, "loop", "PROMPT.md", "--work=worker", "--check=true", "--setup=echo broken; false")
    assert done.returncode == 2
    assert "echo broken; false:\n  broken\n" in done.stderr


@pytest.mark.slow
def test_init_says_what_is_missing(desk: Desk, tmp_path: Path) -> None:
    """`loop init` writes a prompt anywhere, and names what a loop needs there first."""
    place = tmp_path / "fresh"
    place.mkdir()
    argv = [sys.executable, "-m", "penstock", "loop", "init"]
    done = subprocess.run(argv, cwd=place, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert "first: " in done.stdout
    assert "is not in a git repository; git init makes one" in done.stdout
    (desk.user.root / "PROMPT.md").unlink()
    assert "first: " not in penstock(desk, "loop", "init").stdout


@pytest.mark.slow
def test_clean_removes_refs_that_nothing_needs(desk: Desk) -> None:
    """`clean --refs` removes the refs and the branch of a loop that has landed, and of no other; nothing else goes."""
    begin = ("loop", "PROMPT.md", "--work", "worker", "--check", "test -e done")
    penstock(desk, *begin, "--name", "l1")
    refs = "for-each-ref", "--format=%(refname)"
    before = desk.user.git(*refs)
    kept = penstock(desk, "loop", "clean", "--refs")
    assert "the loop has not landed: penstock loop land l1" in kept.stdout
    assert desk.user.git(*refs) == before
    penstock(desk, "loop", "land", "l1")
    dry = penstock(desk, "loop", "clean", "--refs", "--dry-run")
    assert "would be removed" in dry.stdout
    assert desk.user.git(*refs) == before.replace("refs/penstock/l1/base\n", "")
    assert "removed" in penstock(desk, "loop", "clean", "--refs").stdout
    assert desk.user.git(*refs) == "refs/heads/main"
    assert penstock(desk, "loop", "clean", "--refs").stdout == "There are no trees or refs of loops.\n"


@pytest.mark.slow
def test_clean_keeps_refs_with_what_no_branch_has(desk: Desk) -> None:
    """A branch with commits of the user's, commits of a deleted branch, and a result that was reset away are kept."""
    desk.user.git("branch", "precious")
    desk.user.git("switch", "-q", "precious")
    lost = desk.user.commit("Precious", {"precious": "1\n"})
    desk.user.git("switch", "-q", "main")
    penstock(desk, "loop", "PROMPT.md", "--work", "worker", "--check", "test -e done", "--name", "l1")
    penstock(desk, "loop", "land", "l1")
    desk.user.git("branch", "-D", "precious")
    desk.user.git("switch", "-q", "penstock/l1")
    desk.user.commit("Mine", {"mine": "1\n"})
    desk.user.git("switch", "-q", "main")
    cleaned = penstock(desk, "loop", "clean", "--refs").stdout
    assert "it has commits that no other branch has" in cleaned
    assert "it has commits that your branches no longer have" in cleaned
    refs = desk.user.git("for-each-ref", "--format=%(refname)").splitlines()
    assert refs == ["refs/heads/main", "refs/heads/penstock/l1", "refs/penstock/l1/kept"]
    assert lost in desk.user.git("rev-list", "refs/penstock/l1/kept")
    desk.user.git("reset", "-q", "--hard", "HEAD~1")
    assert "your branches no longer have" in penstock(desk, "loop", "clean", "--refs").stdout


@pytest.mark.slow
def test_the_directory_of_a_loop_is_printed(desk: Desk) -> None:
    """A loop that is begun in a sub-directory says so in the dry run, at its start and in its status."""
    below = desk.user.root / "src"
    words = [
        sys.executable,
        "-m",
        "penstock",
        "loop",
        "../PROMPT.md",
        "--work=worker",
        "--check=test -e done",
        "--name=l1",
    ]
    dry = subprocess.run([*words, "--dry-run"], cwd=below, env=desk.environment, capture_output=True, text=True)
    assert "directory   src\n" in dry.stdout
    done = subprocess.run(words, cwd=below, env=desk.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"tree · {desk.user.root.parent / 'app.l1'} · in src\n" in done.stderr
    assert "app.l1 in src\n" in penstock(desk, "loop", "status").stdout


@pytest.mark.slow
def test_which_loop_is_meant(desk: Desk) -> None:
    """Without a name `tell` and `stop` are about the loop that runs, and ask if several do; others name the newest."""
    first = desk.begin(desk.settings("worker"), "l1")  # its journal is open, so it counts as running
    desk.begin(desk.settings("worker"), "l2").close()
    told = penstock(desk, "loop", "tell", "use the new API")
    assert (told.returncode, told.stdout.startswith("The next round of l1 reads it.")) == (0, True)
    status = penstock(desk, "loop", "status")
    assert status.stderr == "loop l2, the newest of 2 of this repository\n"
    assert penstock(desk, "loop", "status", "l1").stderr == ""
    second = desk.begin(desk.settings("worker"), "l3")
    for words in (("tell", "use the new API"), ("stop",)):
        asked = penstock(desk, "loop", *words)
        assert asked.returncode == 2
        assert "2 loops of this repository run: l1, l3" in asked.stderr
        assert f"penstock loop {words[0]} l3" in asked.stderr
    assert "The next round of l3 reads it." in penstock(desk, "loop", "tell", "l3", "mine").stdout
    first.close()
    second.close()
    stopped = penstock(desk, "loop", "stop")
    assert stopped.stdout == "The loop l3 is not running.\n"


def test_a_loop_of_another_repository(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is about the repository in which it is typed: elsewhere nothing is done, and the error has the place."""
    desk.begin(desk.settings("worker"), "l1").close()
    other, folder = tmp_path / "other", tmp_path / "folder"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    monkeypatch.setenv("PENSTOCK_DATA", str(desk.data))
    root = desk.user.root

    def files() -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_size) for path in (desk.data / "loops").rglob("*"))

    before = files()
    for name, place in product(sorted(set(COMMANDS) - {"init"}), (other, folder)):
        monkeypatch.chdir(place)
        with pytest.raises(UsageError) as failed:
            command([name, "l1", *(["use the new API"] if name == "tell" else [])])
        expected = f"the loop l1 belongs to the repository {root}; expected a command in that directory; cd {root}"
        assert str(failed.value) == expected
    assert files() == before


def test_a_loop_without_its_repository(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A loop whose repository was moved or removed can still be looked at by its name."""
    desk.begin(desk.settings("worker"), "l1").close()
    desk.user.root.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    monkeypatch.setenv("PENSTOCK_DATA", str(desk.data))
    assert command(["status", "l1"]) == 0
    assert capfd.readouterr().out.startswith("l1: ")


def test_a_name_that_a_loop_of_another_repository_has(desk: Desk, tmp_path: Path) -> None:
    """The error does not offer to resume a loop that cannot be resumed here."""
    desk.begin(desk.settings("worker"), "l1").close()
    with pytest.raises(UsageError, match="there is a loop l1 already; penstock loop resume l1, or another --name"):
        desk.begin(desk.settings("worker"), "l1")
    other = UserRepository(tmp_path / "other")
    other.commit("Ask", {"PROMPT.md": "Make it work.\n"})
    with pytest.raises(UsageError) as failed:
        begin_loop(desk.data, other.root / "PROMPT.md", desk.settings("worker"), "l1")
    assert str(failed.value) == f"there is a loop l1 already, in {desk.user.root}; choose another --name"


@pytest.mark.slow
def test_the_report_of_a_loop_that_is_not_done(desk: Desk) -> None:
    """The end and the status have the last words, the changes, the budget, and the times; stuck asks to tell."""
    desk.agent("asker", 'echo 1 > half; reply "I could not do it.\\\\nShould I use a + b, or sum()?"')
    done = penstock(
        desk, "loop", "PROMPT.md", "--work=asker", "--name=l1", "--check=false", "--cost=5", "--tokens=9999"
    )
    assert done.returncode == 1
    status = penstock(desk, "loop", "status").stdout
    assert re.search(r"l1: not done \(status 1\), began at \d\d:\d\d, ended at \d\d:\d\d after \d+ s\n", status)
    assert "budget  3 of 10 rounds, 7 left · $0.03 of $5.00, $4.97 left · 330 of 9,999 tokens, 9,669 left\n" in status
    for text in (status, done.stderr):
        assert "asker said last:\n    I could not do it.\n    Should I use a + b, or sum()?\n" in text
        assert "not committed:     1 file, +1 −0, in refs/penstock/l1/3: penstock loop show l1 --diff\n" in text
        assert 'to say what to do: penstock loop tell l1 "…"\n  to go on:          penstock loop resume l1\n' in text
    assert "+1" in penstock(desk, "loop", "show", "--diff").stdout
    [line] = penstock(desk, "loop", "status", "--json").stdout.splitlines()
    assert json.loads(line)["ended_at"] >= json.loads(line)["begun_at"]


@pytest.mark.slow
def test_a_round_in_full(desk: Desk) -> None:
    """`show` has the whole reply, the output of the checks, the verdict, the files and the commit; --diff the patch."""
    long = "many words " * 400
    desk.agent("writer", f'echo 1 > done; reply "Add done\\\\n\\\\nFirst line.\\\\n{long}"')
    desk.agent("judge", 'reply "{\\\\\\"approved\\\\\\": true}"')
    check = "printf 'a \\033[31mred\\033[0m word\\n'; test -e done"
    words = "loop", "PROMPT.md", "--work=writer", "--review=judge", "--name=l1", "--check", check
    done = penstock(desk, *words)
    assert done.returncode == 0, done.stderr
    assert " done | 1 +\n" in done.stderr
    shown = penstock(desk, "loop", "show", "1").stdout
    assert shown.startswith("round 1 of l1: writer · green · ")
    assert "\nwork writer · ok · " in shown
    assert f"  Add done\n  \n  First line.\n  {long.strip()}" in shown
    assert "  a red word\n" in shown
    assert "\x1b" not in shown
    assert "\nreview judge · approved · " in shown
    assert "\ncommit " in shown
    assert " done | 1 +\n" in shown
    assert penstock(desk, "loop", "show", "l1", "1").stdout == shown == penstock(desk, "loop", "show", "l1").stdout
    assert "+++ b/done\n@@ -0,0 +1 @@\n+1\n" in penstock(desk, "loop", "show", "1", "--diff").stdout
    for wrong in ("2", "0", "l9"):
        assert penstock(desk, "loop", "show", wrong).returncode == 2


@pytest.mark.slow
def test_a_step_that_runs_has_its_time(desk: Desk) -> None:
    """The status of a loop that runs names the step and how long it has run, in the table as well."""
    journal = desk.begin(desk.settings("worker", setup=""), "l1")
    began = now_ms() - 3_900_000
    steps: tuple[Step, ...] = RunCheck(round=0, number=0, command="c"), RunAgent(role="work", round=1, agent="worker")
    for step, does in enumerate(steps, 1):
        journal.append(StepBegan(len(journal.rows) + 1, began, step, does))
        if step == 1:
            journal.append(StepEnded(len(journal.rows) + 1, began, step, CommandEnded(status=1)))
    status = penstock(desk, "loop", "status").stdout
    journal.close()
    assert "  step    round 1 · work worker · for 65 min\n" in status
    assert re.search(r"^1 +worker +– +not finished +– +65 min ", status, re.MULTILINE)


@pytest.mark.parametrize("name", [*COMMANDS])
def test_each_command_has_its_own_help(capfd: pytest.CaptureFixture[str], name: str) -> None:
    """`penstock loop COMMAND --help` is about that command, and short."""
    assert command([name, "--help"]) == 0
    text = capfd.readouterr().out
    assert text.startswith(f"usage: penstock loop {name}")
    assert COMMANDS[name][0] in text
    assert "--candidates" not in text
    for option in COMMANDS[name][1]:
        assert "--" + option.replace("_", "-") in text or option in ("wrap", "allow_absolute_links"), option
