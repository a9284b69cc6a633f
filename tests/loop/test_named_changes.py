"""The end of a loop names each change of the user's repository, and each can be undone by the command beside it.

Agent and check write to the repository by its path, at random. The judge lists it before and after with git and hashes
of files, and knows nothing of Penstock.
"""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from effort import SOAK
from git_repository import UserRepository, files_of
from loop_desk import Desk

pytestmark = pytest.mark.slow

SEEDS = range(100) if SOAK else (*range(7), 66)
"""Seeds; with 66, a push follows the removal of the setting by which it would be seen."""

HARMLESS = (
    '$G commit -q --allow-empty -m "Evil $N"',
    "$G branch new$N",
    "$G tag new$N",
    "$G push -q origin HEAD:refs/heads/pushed$N",
    "$G push -q origin HEAD~1:refs/heads/shared",
    "$G push -q origin --delete shared",
    'echo "$N" >> "$U/README"; $G stash push -q -m "new $N"',
    'echo "$N" > "$U/staged$N"; $G add "staged$N"',
    "$G config branch.side.description new$N",
    "$G config branch.new$N.remote origin",
    "$G switch -q --detach",
    'echo "$N" >> "$U/.git/info/exclude"',
    '$G worktree add -q --detach "../beside$N"',
    'mkdir -p "$U/.git/rebase-merge"; echo "exec $N" > "$U/.git/rebase-merge/git-rebase-todo"',
)
"""Steps after which a loop goes on. `$G` is git of the user's checkout `$U`; `$N` is another number for each step."""

HARM = (
    "$G branch -D side",
    "$G branch -f side main~1",
    "$G tag -d v1",
    "$G tag -f v1 HEAD~1",
    "$G stash drop -q 'stash@{1}'",
    "$G stash clear",
    "$G config core.fsmonitor evil$N",
    "$G config --unset remote.origin.fetch",
    "$G config alias.a$N evil; $G config alias.b$N evil; $G config alias.c$N evil; $G config alias.d$N evil",
    'echo "$N" > "$U/.git/hooks/post-commit"',
    'echo "$N" >> "$U/.git/hooks/pre-push"',
    'rm -f "$U/.git/hooks/pre-push"',
    'echo "* filter=evil$N" > "$U/.git/info/attributes"',
    'mkdir -p "$DESK/objects$N"; echo "$DESK/objects$N" > "$U/.git/objects/info/alternates"',
    'rm "$U/.git/info/exclude"; ln -s /nowhere "$U/.git/info/exclude"; echo "$N" > "$U/.git/info/more"',
    'mkdir -p "$U/.git/remotes"; echo "URL: /evil" > "$U/.git/remotes/evil$N"',
)
"""Steps that end the loop."""


def listed(user: UserRepository, remote: Path) -> dict[str, object]:
    """Return all that the end has to name, by the names that it has to use."""
    found: dict[str, object] = {}
    for line in user.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines():
        ref, _, target = line.partition(" ")
        if not ref.startswith(("refs/penstock/", "refs/heads/penstock/", "refs/remotes/")) and ref != "refs/stash":
            found[ref] = target
    for line in user.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=remote).splitlines():
        ref, _, target = line.partition(" ")
        found[f"refs/remotes/origin/{ref.removeprefix('refs/heads/')}"] = target
    for commit in user.git("stash", "list", "--format=%H").splitlines():
        found[commit] = "an entry of the stash"
    for item in user.git("config", "--local", "--list", "-z").split("\0"):
        key, _, value = item.partition("\n")
        found[key] = (found.get(key), value)
    git = user.root / ".git"
    watched = [*git.glob("info/*"), *git.glob("remotes/*"), *git.glob("rebase-merge/*"), *git.glob("objects/info/alt*")]
    for path in (*watched, *git.glob("worktrees/*/gitdir")):
        found[str(path.relative_to(git))] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
    found |= {name: state for name, state in files_of(git / "hooks").items() if not name.endswith(".sample")}
    found["HEAD"] = user.git("rev-parse", "--symbolic-full-name", "HEAD")
    found["index"] = user.git("ls-files", "--stage")
    return found


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return the names of what differs."""
    return sorted(name for name in before.keys() | after.keys() if name and before.get(name) != after.get(name))


def prepared(desk: Desk) -> Path:
    """Give the user a branch, a tag, two entries of the stash, a hook, and a remote repository, which is returned."""
    user, remote = desk.user, desk.folder / "remote.git"
    user.commit("More", {"src/c.py": "c = 1\n"})
    user.git("branch", "side")
    user.git("tag", "v1")
    user.git("init", "-q", "--bare", str(remote))
    user.git("remote", "add", "origin", str(remote))
    user.git("push", "-q", "origin", "main", "HEAD~2:refs/heads/shared")
    for name in ("one", "two"):
        user.write({"README": f"{name}\n"})
        user.git("stash", "push", "-qm", name)
    hooks = user.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").write_text("#!/bin/sh\n")
    (hooks / "pre-push").chmod(0o755)
    (user.root / ".git/info").mkdir(exist_ok=True)
    (user.root / ".git/info/exclude").write_text("# mine\n")
    return remote


def script(random_: random.Random, desk: Desk, numbers: list[int], *, is_harm: bool) -> str:
    """Return a script of random steps."""
    steps = random_.sample(HARMLESS, random_.randint(1, 4))
    steps += random_.sample(HARM, random_.randint(1, 4)) if is_harm else []
    random_.shuffle(steps)
    git = f"git -C {desk.user.root} -c user.name=Eve -c user.email=eve@example.org"
    head = f'U="{desk.user.root}"; DESK="{desk.scripts}"; G="{git}"; '
    return head + " ".join(f"N={numbers.pop()}; ( {step} ) </dev/null >/dev/null 2>&1;" for step in steps)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_names_each_change_and_how_to_undo_it(desk: Desk, seed: int) -> None:
    """Every ref, push, entry of the stash, setting, hook and file that differs is named by `loop` and `loop status`."""
    random_ = random.Random(seed)
    user, remote = desk.user, prepared(desk)
    numbers = list(range(100, 200))
    by_agent = script(random_, desk, numbers, is_harm=seed % 3 == 0)
    by_check = script(random_, desk, numbers, is_harm=seed % 3 == 1)
    desk.agent("worker", f'[ $(count worker) -gt 1 ] || {{ {by_agent} }}; touch done; reply "Add done"')
    once = f'if [ -e done ] && mkdir "{desk.scripts}/checked" 2>/dev/null; then {by_check} fi; test -e done'
    before = listed(user, remote)
    done = desk.penstock("loop", "PROMPT.md", "--work=worker", f"--check={once}", "--rounds=3", "--name=l1")
    after = listed(user, remote)
    assert done.returncode == (0 if seed % 3 == 2 else 4), done.stderr
    status = desk.penstock("loop", "status", "l1").stdout
    names = changed(before, after)
    assert names
    # Without this setting git keeps no trace of a push, and only the remote repository shows it.
    is_blind = "remote.origin.fetch" in names and "a push to origin after that leaves no trace here" in status
    names = [name for name in names if not (is_blind and name.startswith("refs/remotes/"))]
    unnamed = [name for name in names if not re.search(rf"(?<![\w/.]){re.escape(name)} ", status)]
    assert unnamed == [], (by_agent, by_check, status)
    lines = [line for line in status.splitlines() if line.startswith("  your repository: ")]
    assert len(set(lines)) == len(lines)
    assert all(line in done.stderr for line in lines)
    shown = desk.penstock("loop", "show", "l1", "1").stdout
    assert all(line in shown for line in lines)
    # What was done last is undone first; a command for a state that was changed again does nothing.
    commands = re.findall(r"\(to (?:undo|restore) it: (.*?)\)(?=$|; |\n)", status, re.MULTILINE)
    assert commands
    for command in commands * 2:
        subprocess.run(command, shell=True, cwd=user.root, capture_output=True, timeout=60)
    left = [name for name in changed(before, listed(user, remote)) if name in names]
    assert left == [], (by_agent, by_check, status)
