"""The user's repository beside a loop. The letter and number of a test is that of its promise."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from git_repository import UserRepository
from hostile_agents import HOSTILE, REACHED
from loop_desk import Desk, Watcher, ended

from penstock.errors import UsageError
from penstock.events import Event
from penstock.loop.engine import Engine
from penstock.loop.loops import begin_loop
from penstock.loop.rows import RoleAgents
from penstock.loop.state import LoopState
from penstock.loop.steps import AgentEnded, RunAgent
from penstock.repo import git as git_module
from penstock.repo.landing import UNDER_WAY
from penstock.run.run import Run

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
TIMEOUT = 120
"""Seconds after which a process hangs."""


def penstock(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the user's repository."""
    argv = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(
        argv, cwd=desk.user.root, env=desk.environment, capture_output=True, text=True, timeout=TIMEOUT
    )


def make_dirty(user: UserRepository, *, rebase: bool) -> None:
    """Leave staged, changed, untracked, removed and ignored files, a stash, a branch, a hook, and maybe a rebase."""
    user.commit("More", {"gone": "1\n", ".gitignore": "ignored\n", "c": "main\n"})
    user.write({"README": "stashed\n"})
    user.git("stash")
    user.git("branch", "second")
    if rebase:
        user.git("switch", "-qc", "other", "HEAD~1")
        user.commit("Other", {"c": "other\n"})
        subprocess.run(["git", "rebase", "main"], cwd=user.root, capture_output=True)  # stops at a conflict in c
    user.write({"src/a.py": "staged\n", "ignored": "x", "untracked": "new\n"})
    user.git("add", "src/a.py")
    user.write({"src/a.py": "changed after that\n"})
    (user.root / "gone").unlink()
    hook = user.root / ".git/hooks/post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")


# --- L2: what a loop leaves as it is --------------------------------------------------------------------


def test_l2_a_loop_leaves_the_users_repository_as_it_is(desk: Desk) -> None:
    """A dirty checkout in a rebase is the same to the byte after a loop, a kill, a resume, and a landing that fails."""
    make_dirty(desk.user, rebase=True)
    desk.agent("worker", 'touch done; reply "Add done"')
    desk.begin(desk.settings("worker")).close()
    before = desk.user.state()
    words = [sys.executable, str(SUPPORT / "killed_loop.py"), str(desk.data / "loops" / "l1")]
    killed = subprocess.run([*words, "10", "after"], env=desk.environment, capture_output=True, timeout=TIMEOUT)
    assert killed.returncode == -9, killed.stderr.decode()
    assert desk.user.state() == before
    status, _ = desk.resume()
    assert status == 0
    assert desk.user.state() == before
    landed = penstock(desk, "loop", "land")
    assert (landed.returncode, UNDER_WAY["rebase-merge"] in landed.stderr) == (4, True)
    assert desk.user.state() == before


def test_l2_landing_leaves_what_is_not_committed(desk: Desk) -> None:
    """After a landing only the branch, its files and their place in the index are new; all else is as it was."""
    make_dirty(desk.user, rebase=False)
    desk.agent("worker", 'touch done; reply "Add done"')
    assert desk.run(desk.settings("worker"))[0] == 0
    before = desk.user.state()
    status = desk.user.git("status", "--porcelain=v2", "--ignored")
    assert penstock(desk, "loop", "land").returncode == 0
    after = desk.user.state()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    moved = {"refs", "/done", "/.git/index", "/.git/ORIG_HEAD", "/.git/logs/HEAD", "/.git/refs/heads/main"}
    assert changed <= {*moved, "/.git/logs/refs/heads/main"}
    assert desk.user.git("status", "--porcelain=v2", "--ignored") == status
    assert desk.user.git("stash", "list", "--format=%gs") == "WIP on main: " + desk.user.git(
        "log", "-1", "--format=%h %s", "second"
    )


# --- L3: hostile agents ---------------------------------------------------------------------------------


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE.keys())
def test_l3_a_hostile_agent_changes_nothing_of_the_users(
    desk: Desk, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an agent does in its tree: the user's repository is as before, the round's result is its tree, and
    nothing planted is run, though the check runs git."""
    planted = tmp_path / "planted"
    monkeypatch.setenv("PLANTED", str(planted))
    monkeypatch.setenv("USER_REPO", str(desk.user.root))
    once = f"if [ $(count evil) = 1 ]; then\n{script}\nfi"
    desk.agent("evil", f'( {once} ) >/dev/null 2>&1\necho "the result" > result; rm -f "$PLANTED"; reply "Add it"')
    check = "git status && git log -1 && git diff HEAD >/dev/null && test -e result"
    before = desk.user.state()
    status, state = desk.run(desk.settings("evil", checks=(check,)))
    assert desk.user.state() == before
    assert not planted.exists()
    work = state.rounds[0].work
    assert work is not None
    assert (work.touched, work.changed) == ((), ())
    assert desk.user.git("show", f"{work.tree}:result") == "the result"
    if status == 0:
        assert desk.user.git("show", "penstock/l1:result") == "the result"
    else:  # a repository in the tree is held back, and the user is asked
        assert status == 4
        assert {held.reason for held in work.held} == {"has a git directory of its own"}
    subprocess.run(["git", "fsck", "--strict"], cwd=desk.user.root, check=True, capture_output=True)


@pytest.mark.parametrize(("script", "expected"), REACHED.values(), ids=REACHED.keys())
def test_l3_what_an_agent_reaches_by_path_is_reported(
    desk: Desk, script: str, expected: set[tuple[str, str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change by the path of the user's repository is in the journal with the command that undoes it; harm ends the
    loop with 4 before anything is committed."""
    user = desk.user
    user.git("branch", "other")
    user.commit("More", {"src/c.py": "c = 1\n"})
    user.git("tag", "-a", "v1", "-m", "one")
    (user.root / ".git/hooks").mkdir(exist_ok=True)
    (user.root / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 0\n")
    (user.root / ".git/hooks/pre-commit").chmod(0o755)
    user.write({"src/a.py": "staged\n"})
    user.git("add", "src/a.py")
    monkeypatch.setenv("USER_REPO", str(user.root))
    once = f"if [ $(count evil) = 1 ]; then\n{script}\nfi"
    desk.agent("evil", f'( {once} ) >/dev/null 2>&1\ntouch done; reply "Add done"')
    before = user.state()
    status, state = desk.run(desk.settings("evil"))
    is_harm = any(harm for _, _, harm in expected)
    work = state.rounds[0].work
    assert work is not None
    assert status == (4 if is_harm else 0)
    reported = work.touched if is_harm else work.changed
    assert len(reported) == len(expected)
    for text, (_, name, _) in zip(sorted(reported), sorted(expected), strict=True):
        assert text.startswith(name)
        command = text.rpartition(" it: ")[2].removesuffix(")")
        subprocess.run(command, shell=True, cwd=user.root, check=True, capture_output=True)
    after = user.state()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    # What is left is the history of refs and HEAD, and the times of files in the index.
    assert {name for name in changed if not name.startswith("/.git/logs/")} <= {"/.git/index", "/.git/ORIG_HEAD"}


def test_l3_a_check_that_reaches_the_repository_ends_the_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check runs the agent's code: a branch that it removes is reported with the command that restores it."""
    desk.user.git("branch", "other")
    monkeypatch.setenv("USER_REPO", str(desk.user.root))
    desk.agent("evil", 'echo \'git -C "$USER_REPO" branch -D other\' > test.sh; reply "Add a test"')
    before = desk.user.state()
    status, state = desk.run(desk.settings("evil", checks=("test ! -e test.sh || sh test.sh",)))
    assert status == 4
    assert state.ended is not None
    assert "refs/heads/other was removed" in state.ended.reason
    command = state.ended.reason.rpartition(" it: ")[2].removesuffix(")")
    subprocess.run(command, shell=True, cwd=desk.user.root, check=True, capture_output=True)
    assert desk.user.state()["refs"] == before["refs"]


def test_l3_a_reviewer_that_reaches_the_repository_ends_the_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The approval of a reviewer that removes a branch of the user's does not count."""
    desk.user.git("branch", "other")
    monkeypatch.setenv("USER_REPO", str(desk.user.root))
    desk.agent("worker", 'touch done; reply "Add done"')
    verdict = '{"type":"result","subtype":"success","is_error":false,"result":"{\\"approved\\": true}"}'
    desk.agent("evil", f"git -C \"$USER_REPO\" branch -qD other; cat <<'END'\n{verdict}\nEND")
    status, _ = desk.run(desk.settings("worker", reviews=(RoleAgents(agents=("evil",)),)))
    assert status == 4
    assert desk.user.git("for-each-ref", "refs/heads/penstock") == ""


# --- L12: the user works while the loop runs -------------------------------------------------------------


class BusyUser(Watcher):
    """Listener that lets the user act once, while the first agent works."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._has_acted = False

    def events(self, step: RunAgent, run: Run, events: list[Event]) -> None:
        """Act as the user."""
        super().events(step, run, events)
        if self._has_acted:
            return
        self._has_acted = True
        user = self._desk.user
        user.commit("Mine", {"src/b.py": "b = 2\n"})
        user.git("switch", "-qc", "feature")
        user.commit("Mine too", {"src/b.py": "b = 3\n"})
        user.write({"README": "edited\n", "staged": "1\n"})
        user.git("add", "staged")
        (self._desk.scripts / "go").touch()


def run_beside_user(desk: Desk, script: str) -> tuple[int, LoopState, Watcher]:
    """Run a loop whose agent waits until the user has acted."""
    wait = 'while [ ! -e "$DESK/go" ]; do sleep 0.02; done'
    desk.agent("worker", f'{wait}\n{script}\ntouch done; reply "Add done"')
    watcher = BusyUser(desk)
    journal = desk.begin(desk.settings("worker"))
    engine = Engine(journal, desk.config, watcher)
    try:
        return engine.run(), engine.state, watcher
    finally:
        journal.close()


def test_l12_the_user_works_while_the_loop_runs(desk: Desk) -> None:
    """Commits, another branch and edits of the user are reported and no harm; the result lands on the new branch."""
    status, state, watcher = run_beside_user(desk, "echo 2 > src/a.py")
    assert status == 0
    works = [row.result for row in ended(watcher.rows) if isinstance(row.result, AgentEnded)]
    names = {text.split()[0] for text in works[0].changed}
    assert names == {"refs/heads/main", "refs/heads/feature", "HEAD", "index"}
    assert all(it.work is not None and it.work.touched == () for it in state.rounds)
    landed = penstock(desk, "loop", "land")
    assert landed.returncode == 0, landed.stderr
    assert desk.user.git("status", "--porcelain") == " M README\nA  staged"
    assert desk.user.git("log", "-1", "--format=%p", "feature").count(" ") == 1
    assert (desk.user.root / "src/a.py").read_text() == "2\n"


def test_l12_an_overlap_is_not_landed(desk: Desk) -> None:
    """Lines that the user and the loop have changed are named; nothing lands, and no file gets marks of a conflict."""
    status, _, _ = run_beside_user(desk, "echo 2 > src/b.py")
    assert status == 0
    before = desk.user.state()
    landed = penstock(desk, "loop", "land")
    assert landed.returncode == 4
    assert "src/b.py" in landed.stderr
    assert desk.user.state() == before


def test_l12_a_file_in_the_way_is_not_overwritten(desk: Desk) -> None:
    """A file that the user is editing, and that the result changes, is named; nothing lands."""
    status, _, _ = run_beside_user(desk, "echo 2 > README")
    assert status == 0
    before = desk.user.state()
    landed = penstock(desk, "loop", "land")
    assert landed.returncode == 4
    assert "README" in landed.stderr
    assert desk.user.state() == before


def test_a_conflict_is_resolved_in_the_tree_of_the_loop(desk: Desk) -> None:
    """`land --resolve` merges the user's branch into the tree, and an agent resolves it. The user's repository is as it
    was until the result lands, as a fast-forward."""
    desk.agent("worker", 'if grep -q "<<<<" src/a.py; then echo "a = 5" > src/a.py; reply "Resolve a"; exit; fi; '
        'echo "a = 3" > src/a.py; touch done; reply "Add done"')  # fmt: skip
    assert desk.run(desk.settings("worker"))[0] == 0
    mine = desk.user.commit("Mine", {"src/a.py": "a = 2\n", "PROMPT.md": "Another prompt.\n"})
    before = desk.user.state()
    landed = penstock(desk, "loop", "land")
    assert landed.returncode == 4
    assert "penstock loop land l1 --resolve" in landed.stderr
    resolved = penstock(desk, "loop", "land", "--resolve")
    assert resolved.returncode == 0, resolved.stderr
    assert "merge · main · src/a.py" in resolved.stderr
    assert desk.user.state() == before
    assert desk.user.git("log", "-1", "--format=%P", "penstock/l1").split()[1] == mine
    assert penstock(desk, "loop", "land").returncode == 0
    assert desk.user.git("show", "main:src/a.py") == "a = 5"
    assert desk.user.git("show", "main:PROMPT.md") == "Another prompt."
    assert desk.user.git("status", "--porcelain") == ""


# --- L13: several loops ----------------------------------------------------------------------------------


def test_l13_ten_loops_at_once(desk: Desk) -> None:
    """Ten loops of one repository end with their own branches, and leave the user's repository as it was."""
    desk.agent("worker", 'touch done; reply "Add done"')
    before = desk.user.state()
    statuses: dict[str, int] = {}

    def run(name: str) -> None:
        statuses[name] = desk.run(desk.settings("worker"), name)[0]

    names = [f"l{number}" for number in range(10)]
    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == dict.fromkeys(names, 0)
    assert [desk.subjects(f"penstock/{name}") for name in names] == [["Add done"]] * 10
    assert desk.user.state() == before


# --- L19, L20: kinds of repositories ----------------------------------------------------------------------


def test_l19_filters_excludes_and_line_ends_are_those_of_the_user(desk: Desk) -> None:
    """A clean filter, info/exclude, info/attributes and autocrlf of the local configuration count in a loop."""
    user = desk.user
    user.git("config", "filter.rot.clean", "tr a-z b-za")
    user.git("config", "filter.rot.smudge", "tr b-za a-z")
    user.git("config", "core.autocrlf", "input")
    (user.root / ".git/info").mkdir(exist_ok=True)
    (user.root / ".git/info/exclude").write_text("notes\n")
    (user.root / ".git/info/attributes").write_text("*.secret filter=rot\n")
    user.commit("Filtered", {"x.secret": "abc\n"})
    desk.agent(
        "worker", 'echo hello > y.secret; echo x > notes; printf "a\\r\\nb\\r\\n" > text; touch done; reply "Add"'
    )
    status, _ = desk.run(desk.settings("worker", checks=("test -e done && grep -q abc x.secret",)))
    assert status == 0
    assert "notes" not in desk.files()
    assert user.git("cat-file", "blob", "penstock/l1:y.secret") == "ifmmp"
    assert user.git("cat-file", "-s", "penstock/l1:text") == "4"


def test_l20_a_shallow_clone(desk: Desk, tmp_path: Path) -> None:
    """A loop works in a shallow clone, and its branch ends where the history of the clone ends."""
    clone = tmp_path / "shallow" / "app"
    desk.user.git("clone", "-q", "--depth=1", f"file://{desk.user.root}", str(clone))
    desk.prompt = clone / "PROMPT.md"
    desk.agent("worker", 'touch done; reply "Add done"')
    assert desk.run(desk.settings("worker"))[0] == 0
    assert desk.user.git("log", "--format=%s", "penstock/l1", cwd=clone) == "Add done\nAsk"


def test_l20_a_partial_clone_and_submodules(desk: Desk, tmp_path: Path) -> None:
    """A partial clone, and submodules without a setup, are rejected before anything is made."""
    desk.user.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial" / "app"
    desk.user.git("clone", "-q", "--filter=blob:none", f"file://{desk.user.root}", str(clone))
    with pytest.raises(UsageError, match="is a partial clone"):
        begin_loop(desk.data, clone / "PROMPT.md", desk.settings("worker"), "l1")
    other = UserRepository(tmp_path / "other")
    desk.user.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "sub")
    desk.user.git("commit", "-qm", "Submodule")
    with pytest.raises(UsageError, match="git submodule update --init"):
        desk.begin(desk.settings("worker"))
    assert not (desk.data / "loops").exists()


def test_l20_submodules_with_a_setup(desk: Desk, tmp_path: Path) -> None:
    """With a setup that fetches them, submodules are in the tree, and are held back from no commit."""
    other = UserRepository(tmp_path / "other")
    desk.user.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "sub")
    desk.user.git("commit", "-qm", "Submodule")
    desk.agent("worker", 'touch done; reply "Add done"')
    setup = "git -c protocol.file.allow=always submodule update --init --recursive"
    status, state = desk.run(desk.settings("worker", setup=setup, checks=("test -e done && test -e sub/README",)))
    assert state.ended is not None
    assert status == 0, state.ended.reason
    assert "sub" in desk.files()


# --- what git would wait for -----------------------------------------------------------------------------

PIPES = {
    "exclude": "mkfifo {git}/info/exclude",
    "settings": "rm {git}/config; mkfifo {git}/config",
    "index": "rm {git}/index; mkfifo {git}/index",
    "head": "rm {git}/HEAD; mkfifo {git}/HEAD",
    "alternates": "mkfifo {git}/objects/info/alternates",
    "grafts": "mkfifo {git}/info/grafts",
    "shallow": "mkfifo {git}/shallow",
    "other git directory": "mkfifo {git}/commondir",
    "branch": "mkfifo {git}/refs/heads/planted",
    "link to a pipe": "mkfifo {git}/p; ln -s p {git}/packed-refs",
    "object": "cd {git}/objects; f=$(find ?? -type f | head -n 1); rm -f $f; mkfifo $f",
}


@pytest.mark.parametrize("name", PIPES)
@pytest.mark.parametrize("who", ["agent", "check"])
def test_a_pipe_in_the_users_git_directory_stops_nothing(desk: Desk, name: str, who: str) -> None:
    """It is moved out and named with the place where it is, and the loop ends at once: no git waits for it."""
    git = desk.user.root / ".git"
    (git / "info").mkdir(exist_ok=True)
    (git / "info/exclude").unlink(missing_ok=True)
    command = PIPES[name].format(git=git)
    desk.agent("worker", f'touch done; {command if who == "agent" else ":"}; reply "Add"')
    checks = (f"[ ! -e done ] || ({command}); true",) if who == "check" else ("true",)
    desk.begin(desk.settings("worker", checks=checks)).close()
    begun = time.monotonic()
    try:
        status, state = desk.resume()
    except UsageError as error:
        status, reason = 2, str(error)
    else:
        assert state.ended is not None
        reason = state.ended.reason
    assert time.monotonic() - begun < git_module.QUICK_SECONDS  # no call waited until its limit
    assert status in (2, 4), reason
    if status == 4:
        assert "so git would have waited for it" in reason
    assert not [path for path in git.rglob("*") if path.is_fifo()]
    assert [path for path in (desk.data / "loops" / "l1").rglob("*") if path.is_fifo()]
