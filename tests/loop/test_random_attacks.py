"""Random attacks on trees: what an agent and a check do in the place of their tree never reaches the user's files.

Each attack is a script of random steps. They run in the agent or the check, at once or from a daemon that goes on when
the step is over. The judge compares all of the user's checkout with what it was, and knows nothing of Penstock.
"""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from effort import SOAK
from loop_desk import TIMEOUT, Desk
from outside_judge import everything, processes_with

from penstock.loop.fold import fold
from penstock.loop.journal import read_rows

pytestmark = pytest.mark.slow

SEEDS = range(100 if SOAK else 8)

STEPS = (
    'mv "$T" "$T.away"',
    'mv "$T" "$T.away"; ln -s "$U" "$T"',
    'mv "$T" "$T.away"; ln -s "$U/.git" "$T"',
    'mv "$T" "$T.away"; mkdir "$T"; ln -s "$U/.git" "$T/.git"',
    'mv "$T.away" "$T"',
    'mv "$T" "$T.two"; cp -r "$U" "$T"',
    'rm -rf "$T/.git"; ln -s "$U/.git" "$T/.git"',
    'rm -rf "$T/.git"; echo "gitdir: $U/.git" > "$T/.git"',
    'rm -rf "$T/.git"; cp -r "$U/.git" "$T/.git"',
    'mv "$T/.git" "$T/.git.penstock-old"; ln -s "$U/.git" "$T/.git.penstock-new"',
    'ln -s "$U" "$T/.git.penstock-new"; ln -s "$U/.git" "$T/.git.penstock-old"',
    'rm -rf "$T/src"; ln -s "$U/src" "$T/src"',
    'ln "$U/README" "$T/hard"; rm -f "$T/README"; ln "$U/README" "$T/README"',
    'rm -f "$T/PROMPT.md"; ln "$U/PROMPT.md" "$T/PROMPT.md"',
    'rm -f "$T/PROMPT.md"; ln -s "$U/PROMPT.md" "$T/PROMPT.md"',
    'mkdir -p "$T/in"; mount --bind "$U" "$T/in"',
    'mount --bind "$U/.git" "$T/.git"',
    'mount --bind "$U" "$T"',
    'rm -f "$T/.gitignore"; mkfifo "$T/.gitignore"',
    '[ -L "$T/src" ] || mkfifo "$T/src/.gitattributes"',
    'git init -q "$T/sub"; rm -f "$T/sub/.git/HEAD"; mkfifo "$T/sub/.git/HEAD"',
    'mkdir -p "$T/sub2"; echo "gitdir: $U/.git" > "$T/sub2/.git"; touch "$T/sub2/x"',
    "python3 -c \"import socket,os; socket.socket(socket.AF_UNIX).bind(os.environ['T'] + '/s')\"",
    'mkdir -p "$T/no/no"; chmod 0 "$T/no/no" "$T/no"',
    'chmod 0 "$T"',
    'rm -f "$T/.gitattributes"; echo "* working-tree-encoding=bogus" > "$T/.gitattributes"',
    'rm -f "$T/.gitignore"; echo "*" > "$T/.gitignore"',
    'rm -rf "$T"',
    'find "$T" -mindepth 1 -delete',
    'touch "$T/HEAD" "$T/main" "$T/-x"',
    "sleep 0.05",
)
"""Steps of an attack. `$T` is the tree, `$U` the user's checkout, which none of them writes to."""

LEADS = '[ "$T" -ef "$U" ] || [ "$T" -ef "$U/.git" ] || grep -q " $T[ /]" /proc/self/mountinfo'
"""Condition that an earlier step has made `$T` lead to the user's files: a further step would itself write to them."""


def attack(random_: random.Random, daemon_seconds: str) -> str:
    """Return a script with some of the steps; a part of it may go on in a daemon."""
    chosen = random_.choices(STEPS, k=random_.randint(1, 4))
    steps = [f"( {LEADS} || {{ {step}; }} ) </dev/null >/dev/null 2>&1" for step in chosen]
    text = "; ".join(steps)
    if random_.random() < 0.4:
        later = f"sleep 0.{random_.randint(0, 9)}; {text}; sleep {daemon_seconds}".replace("'", "'\\''")
        clears = "env -i PATH=$PATH T=$T U=$U" if random_.random() < 0.5 else ""
        kills = "kill -9 $PPID" if random_.random() < 0.3 else "true"
        text = f"setsid {clears} sh -c '{later}' </dev/null >/dev/null 2>&1 & sleep 0.{random_.randint(0, 9)}; {kills}"
    return text


def unmount(desk: Desk) -> None:
    """Undo the mounts of an attack, so that the judge and the removal of the test's files see what is there."""
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        point = line.split(" ", 5)[4]
        if point.startswith(f"{desk.folder}/"):
            subprocess.run(["umount", "--lazy", point], capture_output=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_attack_in_the_place_of_the_tree_reaches_nothing_of_the_users(desk: Desk, seed: int) -> None:
    """The user's files, index, refs and settings are equal to the byte; nothing hangs, and no process is left."""
    random_ = random.Random(seed)
    user = desk.user
    user.write({"README": "stashed\n"})
    user.git("stash")
    user.write({"src/a.py": "edited\n", "notes.txt": "not committed\n"})
    seconds = f"4{seed:03}{random_.randint(0, 999):03}"
    set_up = f'U="{user.root}"; T=$(pwd -P); export T U'
    once = f'[ $(wc -l < "$DESK/worker.count") -gt 2 ] || {{ {attack(random_, seconds)}; }}'
    desk.agent("worker", f'{set_up}; count worker >/dev/null; touch done; {once}; reply "Add done"')
    check = f'DESK="{desk.scripts}"; {set_up}; touch "$DESK/checked"; '
    check += f'[ ! -e "$DESK/worker.count" ] || {{ {once}; }}; test -e done'
    before = everything(user.root)
    began = time.monotonic()
    try:
        done = desk.penstock("loop", "PROMPT.md", "--work=worker", f"--check={check}", "--rounds=5", "--name=l1")
    finally:
        unmount(desk)
    assert everything(user.root) == before, done.stderr
    assert time.monotonic() - began < TIMEOUT
    assert done.returncode in (0, 1, 4), done.stderr
    assert "Traceback" not in done.stderr
    assert processes_with(f"sleep {seconds}") == []
    state = fold(read_rows(desk.data / "loops" / "l1"))
    assert state.touched == ()
    assert all(path.split(" ")[0] in done.stderr for path in state.abandoned)
    subprocess.run(["git", "fsck", "--strict"], cwd=user.root, check=True, capture_output=True)
    assert desk.penstock("trees", "clean").returncode == 0
    assert everything(user.root) == before
