"""Trees that agents and checks replace: Penstock never writes through what stands in the place of a tree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loop_desk import TIMEOUT, Desk
from outside_judge import everything, processes_with
from waiting import until

from penstock.loop.rows import LoopBudget

pytestmark = pytest.mark.slow

SWAP = 'mv "$PWD" "$PWD.bak"; ln -s "{user}" "$PWD"'
"""Replaces the directory in which it runs by a link to the user's checkout."""


@pytest.mark.parametrize("who", ["agent", "check", "reviewer", "setup", "hook"])
@pytest.mark.parametrize("target", ["checkout", "git directory"])
def test_a_tree_that_is_swapped_for_a_link(desk: Desk, who: str, target: str) -> None:
    """Nothing of the user's changes; the round does not count as good, another tree is made, and the end says so."""
    user = desk.user
    user.write({"notes.txt": "not committed\n", "src/a.py": "edited\n"})
    user.git("stash")
    user.write({"notes.txt": "not committed\n", "src/a.py": "edited again\n"})
    link = user.root if target == "checkout" else user.root / ".git"
    swap = SWAP.format(user=link)
    once = f'if [ ! -e "{desk.folder}/swapped" ]; then touch "{desk.folder}/swapped"; {swap}; fi'
    if who == "hook":
        hook = user.root / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{once}\n")
        hook.chmod(0o755)
    desk.agent("worker", f'touch done; {once if who == "agent" else "true"}; reply "Add done"')
    verdict = '{"type":"result","subtype":"success","is_error":false,"result":"{\\"approved\\": true}"}'
    desk.agent("reviewer", f"{once if who == 'reviewer' else ''}\ncat <<'END'\n{verdict}\nEND")
    before = everything(user.root)
    words = ["--work=worker", f"--check={once if who == 'check' else 'true'}; test -e done", "--name=l1"]
    words += ["--review=reviewer"] if who == "reviewer" else []
    words += [f"--setup={once}"] if who == "setup" else []
    done = desk.penstock("loop", "PROMPT.md", *words)
    assert everything(user.root) == before, done.stderr
    assert (desk.folder / "swapped").exists()
    assert done.returncode == (2 if who == "setup" else 0), done.stderr
    assert "app.l1 was replaced by a link" in done.stderr
    assert "left as it is" in done.stderr
    assert Path(desk.folder, "work", "app.l1").is_symlink()
    subprocess.run(["git", "fsck", "--strict"], cwd=user.root, check=True, capture_output=True)
    if who != "setup":
        assert desk.penstock("loop", "land").returncode == 0
        assert user.git("show", "main:done") == ""
    before = everything(user.root)
    cleaned = desk.penstock("loop", "clean")
    assert cleaned.returncode == 0
    assert not os.path.lexists(Path(desk.folder, "work", "app.l1")), cleaned.stdout
    assert everything(user.root) == before


def test_a_tree_that_is_always_swapped_ends_the_loop(desk: Desk) -> None:
    """An agent that replaces each of its trees uses up its rounds, and nothing of the user's changes."""
    desk.agent("worker", f'touch done; {SWAP.format(user=desk.user.root)}; reply "Add done"')
    before = everything(desk.user.root)
    status, state = desk.run(desk.settings("worker", budget=LoopBudget(rounds=3)))
    assert everything(desk.user.root) == before
    assert status == 1
    assert len(state.abandoned) == 3
    assert state.ended is not None
    assert "was replaced by a link" in state.ended.reason


KILLERS = {
    "the guard": "kill -9 $PPID",
    "both above": "kill -9 $(ps -o ppid= -p $PPID) $PPID",
    "one after the other": "above=$(ps -o ppid= -p $PPID); kill -9 $above; kill -9 $PPID",
}
"""Commands by which a process kills what guards it."""


@pytest.mark.parametrize("killer", KILLERS.values(), ids=KILLERS.keys())
@pytest.mark.parametrize("who", ["agent", "check"])
def test_a_daemon_whose_guard_is_killed_does_not_outlive_the_step(desk: Desk, who: str, killer: str) -> None:
    """A process in a session of its own, without any variable, is gone when the loop goes on."""
    seconds = str(30_000 + os.getpid() % 10_000) + ("1" if who == "agent" else "2")
    once = f'if [ ! -e "{desk.folder}/once" ]; then touch "{desk.folder}/once"; ' + (
        f"setsid env -i /bin/sh -c 'sleep {seconds}' </dev/null >/dev/null 2>&1 & sleep 0.3; {killer}; sleep 9; fi"
    )
    desk.agent("worker", f'touch done; {once if who == "agent" else "true"}; reply "Add done"')
    check = f"{once if who == 'check' else 'true'}; test -e done"
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", f"--check={check}", "--name=l1")
    assert done.returncode == 0, done.stderr
    assert (desk.folder / "once").exists()
    assert processes_with(f"sleep {seconds}") == []


# --- git, which waits for pipes ------------------------------------------------------------------------

PIPES = {
    "ignore": "rm -f .gitignore; mkfifo .gitignore",
    "attributes below": "mkdir -p deep/er; mkfifo deep/er/.gitattributes",
    "in capitals": "mkfifo .GITIGNORE .gitignore src/.gitmodules .mailmap",
    "head of a nested repository": "mkdir -p sub/.git/objects sub/.git/refs; mkfifo sub/.git/HEAD; touch sub/x",
    "common directory": "git init -q sub; mkfifo sub/.git/commondir; touch sub/x",
    "settings by a link": "git init -q sub; mkfifo p; rm sub/.git/config; ln -s ../../p sub/.git/config; touch sub/x",
    "a file that leads to a pipe": "mkdir -p at/objects at/refs sub; mkfifo at/HEAD; "
    'echo "gitdir: ../at" > sub/.git; touch sub/x',
    "a branch": "git init -q sub; touch sub/x; rm -f sub/.git/refs/heads/*; mkfifo sub/.git/refs/heads/$("
    "git -C sub symbolic-ref --short HEAD)",
    "directories that nobody may read": "mkdir -p no/sub; mkfifo no/sub/.gitignore; chmod 0 no/sub no",
    "a pipe in place of git": "mkdir sub; mkfifo sub/.git; touch sub/x",
}
"""Scripts that make what git would wait for."""


@pytest.mark.parametrize("script", PIPES.values(), ids=PIPES.keys())
def test_a_pipe_stops_nothing(desk: Desk, script: str) -> None:
    """What git would wait for is put aside, and named; the loop goes on at once."""
    desk.agent("worker", f'if [ $(count worker) = 1 ]; then {script}; fi >/dev/null 2>&1; touch done; reply "Add done"')
    before = everything(desk.user.root)
    began = time.monotonic()
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    assert everything(desk.user.root) == before
    assert done.returncode in (0, 4), done.stderr  # 4: the rest of a nested repository is held back
    assert "it is in" in done.stderr, done.stderr
    assert time.monotonic() - began < TIMEOUT / 2
    assert desk.penstock("loop", "clean").returncode == 0


def hanging_filter(desk: Desk) -> str:
    """Let git wait for ever, by a filter of the user's, and return a text of its command line."""
    text = f"sleep 7{os.getpid()}"
    desk.user.git("config", "filter.slow.clean", f"[ -e '{desk.folder}/go' ] || {text}; cat")
    desk.user.commit("Filter", {".gitattributes": "*.slow filter=slow\n"})
    return text


@pytest.mark.parametrize("how", ["stop", "interrupt", "terminate", "kill"])
def test_git_that_hangs_is_ended_by_a_stop_and_by_signals(desk: Desk, how: str) -> None:
    """It is gone within seconds, no lock is left, and the loop goes on where it was."""
    text = hanging_filter(desk)
    desk.agent("worker", 'touch done; [ $(count worker) = 1 ] && echo x > a.slow || rm -f a.slow; reply "Add done"')
    argv = [sys.executable, "-m", "penstock", "loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1"]
    process = subprocess.Popen(argv, cwd=desk.user.root, env=desk.environment, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    until(lambda: bool(processes_with(text)), seconds=TIMEOUT)
    began = time.monotonic()
    if how == "stop":
        desk.penstock("loop", "stop", "--now")
    else:
        signals = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "kill": signal.SIGKILL}
        process.send_signal(signals[how])
    process.communicate(timeout=TIMEOUT)
    until(lambda: not processes_with(text), seconds=10)
    assert time.monotonic() - began < 15
    (desk.folder / "go").touch()
    done = desk.penstock("loop", "resume")
    assert done.returncode == 0, done.stderr


# --- what git cannot store -----------------------------------------------------------------------------

UNSTORABLE = {
    "an encoding that does not exist": "echo '*.txt working-tree-encoding=bogus' > .gitattributes; echo a > a.txt",
}


@pytest.mark.parametrize("script", UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_what_git_cannot_store_is_a_red_round(desk: Desk, script: str) -> None:
    """The next agent is shown why, and can repair it; the loop goes on."""
    repair = 'grep -q "cannot store" "$DESK"/prompt.$$ && rm -f .gitattributes a.txt'
    desk.agent("worker", f'if [ $(count worker) = 1 ]; then {script}; else {repair}; fi; touch done; reply "Add done"')
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", "--check=test -e done", "--name=l1")
    assert done.returncode == 0, done.stderr
    assert "git cannot store this: " in done.stderr
    assert "bogus" in done.stderr


def test_files_that_are_named_as_git_names_things(desk: Desk) -> None:
    """Files named `HEAD`, as a branch, as an option, as a path or a commit stop neither a loop nor its landing."""
    base = desk.user.git("rev-parse", "HEAD")
    names = (
        "HEAD",
        "main",
        "-x",
        "--all",
        ":(top)x",
        ":0:x",
        "penstock",
        "stash",
        base,
        f"{base}..",
        "@",
        "FETCH_HEAD",
    )
    desk.user.write(dict.fromkeys(names, "mine\n"))
    made = " ".join(f"'./{name}.theirs'" for name in names)
    desk.agent("worker", f"touch done {made} ./ORIG_HEAD; [ -e HEAD ] || echo x | tee ./HEAD2 ./-y ./{base}x; "
        'reply "Add done"')  # fmt: skip
    status, state = desk.run(desk.settings("worker"))
    assert status == 0, (state.ended, state.rounds)
    landed = desk.penstock("loop", "land")
    assert landed.returncode == 0, landed.stderr
    desk.agent("second", '[ -e again ] || touch HEAD main ./-x "$(git rev-parse HEAD)" again; reply "Add HEAD"')
    for name in names:
        (desk.user.root / name).unlink()
    assert desk.run(desk.settings("second", checks=("test -e again",)), "l2")[0] == 0
    assert desk.penstock("loop", "land", "l2").returncode == 0
    assert desk.user.git("log", "-1", "--format=%s", "HEAD", "--") == "Add HEAD"
    desk.agent("third", 'touch third; reply "Add third"')
    assert desk.run(desk.settings("third", checks=("test -e third",)), "l3")[0] == 0
