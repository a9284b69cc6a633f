"""Confined runs through the real guard: what the agent can do, how it ends, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from penstock.errors import AgentNotFound, UsageError
from penstock.events import Notice, RunEnded
from penstock.run import guard
from penstock.run.agent import agent
from penstock.run.git_directories import SLACK_SECONDS
from penstock.run.lifecycle import Limits
from penstock.run.planted import settle
from penstock.run.process import marked
from penstock.run.sandbox import Surroundings

HOST = """
import os, sys
from penstock import agent
run = agent("demo", command=["sh", "-c", "setsid sleep 1000 & echo >ready; wait"], adapter="generic",
            cwd=sys.argv[1], sandbox="on").run("hi").start()
open(sys.argv[2], "w").write(run.mark)
import time; time.sleep(1000)
"""


def run(shop: Path, script: str, **options: Any) -> Any:
    """A confined run of a script."""
    given: dict[str, Any] = {"sandbox": "on", **options}
    return agent("demo", command=["sh", "-c", script], adapter="generic", cwd=shop, **given).run("hi")


def ended(started: Any) -> RunEnded:
    """The end of a run that leaves nothing."""
    with started:
        result: RunEnded = started.wait()
    assert marked(started.mark) == []
    return result


@pytest.mark.usefixtures("_bubblewrap")
def test_only_its_directory_is_there(shop: Path) -> None:
    """A key of the home directory is not there, a write outside fails, one in the directory stays."""
    outside = Path(__file__).parents[3] / "build"
    outside.mkdir(exist_ok=True)
    planted = outside / f"planted-{os.getpid()}"
    ended(run(shop, f"cat ../key >read; echo x >made; echo x >{planted}"))
    assert (shop / "made").read_text() == "x\n"
    assert (shop / "read").read_text() == ""
    assert not planted.exists()


@pytest.mark.sample(5)
@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("script", ["exit 3", "kill -9 $$", "kill -TERM $$", "kill -SEGV $$", "cat >/dev/null; exit 0"])
def test_the_end_is_that_of_an_unconfined_run(shop: Path, script: str) -> None:
    """Exit statuses and signals of the agent arrive as without confinement."""
    confined, free = run(shop, script), run(shop, script, sandbox="off")
    ends = [(end.outcome, end.reason) for end in (ended(confined), ended(free))]
    assert ends[0] == ends[1]
    assert confined.exit_status == free.exit_status


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("stop", [lambda run: run.cancel(), None], ids=["cancelled", "time limit"])
def test_an_interrupt_reaches_the_agent(shop: Path, stop: Callable[[Any], None] | None) -> None:
    """The agent's own handler runs when the run is stopped, and its exit status arrives; bubblewrap does not die."""
    script = "trap 'echo >handled; exit 5' INT; echo >ready; while :; do sleep 0.01; done"
    patient = Limits(interrupt=1000, terminate=1000)
    started = run(shop, script, limits=patient, **({} if stop else {"timeout": 1.0}))
    with started:
        until((shop / "ready").exists)
        if stop is not None:
            stop(started)
        result = started.wait()
    assert result.outcome == ("cancelled" if stop else "timed_out")
    assert (shop / "handled").exists()
    assert started.exit_status == 5
    assert marked(started.mark) == []


@pytest.mark.usefixtures("_bubblewrap")
def test_deaf_agents_and_daemons_are_killed(shop: Path) -> None:
    """An agent that ignores signals, and a process in a session of its own, end with the run."""
    started = run(shop, "trap '' INT TERM; setsid sleep 1000 & echo >ready; while :; do sleep 0.01; done")
    with started:
        until((shop / "ready").exists)
        started.kill()
        assert started.wait().outcome == "cancelled"
    assert started.exit_status == -signal.SIGKILL
    assert marked(started.mark) == []


@pytest.mark.usefixtures("_bubblewrap")
def test_penstock_is_killed(shop: Path, tmp_path: Path) -> None:
    """No process of a confined run outlives Penstock."""
    note = tmp_path / "mark"
    host = subprocess.Popen([sys.executable, "-c", HOST, str(shop), str(note)])
    try:
        until((shop / "ready").exists)
        until(lambda: note.exists() and note.read_text())
        assert marked(note.read_text())
    finally:
        host.kill()
        host.wait()
    until(lambda: not marked(note.read_text()))


@pytest.mark.usefixtures("_bubblewrap")
def test_no_descriptor_of_penstock_is_inherited(shop: Path) -> None:
    """The agent has its three standard descriptors alone: no directory outside can be entered through another."""
    outside = os.open("/etc", os.O_RDONLY)
    try:
        ended(run(shop, "for it in /proc/$$/fd/*; do readlink $it; done >../shop/fds 2>&1"))
    finally:
        os.close(outside)
    places = (shop / "fds").read_text().split()
    assert len(places) >= 3
    assert all(place.startswith("pipe:") or place == str(shop / "fds") for place in places)


@pytest.mark.usefixtures("_bubblewrap")
def test_a_program_that_cannot_be_executed(shop: Path) -> None:
    """It is not found, as without confinement."""
    program = shop / "broken"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    started = agent("demo", command=[str(program)], adapter="generic", cwd=shop, sandbox="on").run("hi")
    with pytest.raises(AgentNotFound, match="cannot be executed where it is confined: bwrap: execvp"), started:
        started.wait()


def test_bubblewrap_is_missing(shop: Path) -> None:
    """Nothing is started, and the error says how it is installed."""
    with pytest.raises(UsageError, match=r"needs bubblewrap.*apt install bubblewrap"):
        agent("demo", command=["/bin/sh"], cwd=shop, sandbox="on", environ={"PATH": str(shop)}).run("hi")


def test_bubblewrap_is_not_permitted(shop: Path, tmp_path: Path) -> None:
    """Nothing is started, and the error has bubblewrap's own words."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho bwrap: setting up uid map: Permission denied >&2; exit 1\n")
    fake.chmod(0o755)
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(UsageError, match=r"cannot confine a run here: bwrap: setting up uid map: Permission denied"):
        agent("demo", command=["/bin/sh"], cwd=shop, sandbox="on", environ=environ).run("hi")


def test_the_home_directory_is_no_place_to_confine(shop: Path, tmp_path: Path) -> None:
    """A run in the home directory, or of an agent whose state is not known, is rejected."""
    with pytest.raises(UsageError, match=r"holds the home directory|needs bubblewrap"):
        run(tmp_path, "true")
    with pytest.raises(UsageError, match="cannot be confined: its directories are unknown"):
        agent("cline", command=["sh"], cwd=shop, sandbox="on").run("hi")


def fake_agent(tmp_path: Path, name: str, script: str) -> dict[str, str]:
    """An environment in which an agent is a script that runs in a home of its own, with the data of Penstock there."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data/token").write_text("TOKEN")
    return {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}


LOOK = "cat ../data/token ../key >seen 2>/dev/null; ls -d /proc/[0-9]* | wc -l >count; cat >/dev/null"


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize(
    ("agent_name", "allow", "auto", "mode", "seen"),
    [
        ("pi", "default", "off", "on", ""),  # it cannot ask
        ("claude", "default", "off", "off", "TOKENKEY"),
        ("claude", "default", "own", "own", "KEY"),  # a chat
        ("claude", "edits", "on", "on", ""),  # a loop
        ("ours", "default", "on", "own", "KEY"),  # a command of which no state is known
    ],
)
def test_auto_depends_on_the_agent_and_on_what_starts_it(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent_name: str, allow: Any, auto: Any, mode: str,
    seen: str,
) -> None:  # fmt: skip
    """The mode is what the design says, and the agent sees accordingly."""
    environ = fake_agent(tmp_path, agent_name, LOOK)
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    known: dict[str, Any] = {"command": [str(tmp_path / "bin/ours")]} if agent_name == "ours" else {}
    started = agent(agent_name, **known).run(
        "hi", sandbox="auto", allow=allow, surroundings=Surroundings(auto=auto), cwd=shop, environ=environ, route="exec"
    )
    assert started.confinement.mode == mode
    assert started.confinement.problem == ""
    ended(started)
    assert (shop / "seen").read_text() == seen
    assert (int((shop / "count").read_text()) < 8) == (mode != "off")


@pytest.mark.usefixtures("_bubblewrap")
def test_auto_goes_on_where_nothing_can_be_confined(shop: Path, tmp_path: Path) -> None:
    """Without bubblewrap, and in the home directory, the agent runs unconfined, and the reason is known."""
    environ = {**fake_agent(tmp_path, "pi", "echo ran >ran; cat >/dev/null"), "PATH": f"{tmp_path}/bin"}
    (tmp_path / "bin/cat").symlink_to(shutil.which("cat") or "")
    started = agent("pi", route="exec").run("hi", sandbox="auto", cwd=shop, environ=environ)
    assert started.confinement.problem == "a confined run needs bubblewrap, which is not installed"
    ended(started)
    assert (shop / "ran").exists()
    environ["PATH"] = os.environ["PATH"]
    at_home = agent("pi", route="exec", command=[str(tmp_path / "bin/pi")]).run(
        "hi", sandbox="auto", cwd=tmp_path, environ=environ
    )
    assert "holds the home directory" in at_home.confinement.problem


@pytest.mark.usefixtures("_bubblewrap")
def test_own_hides_penstock_alone(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data directory is empty, a file that is named cannot be read, and everything else is as outside."""
    environ = fake_agent(tmp_path, "claude", "")
    (tmp_path / "chats.db").write_text("CHATS")
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    script = f"cat ../data/token {tmp_path}/chats.db ../key >seen 2>/dev/null; echo x >../beside; rm -r ../data/token"
    started = run(
        shop, script, sandbox="own", environ=environ, surroundings=Surroundings(hidden=(str(tmp_path / "chats.db"),))
    )
    ended(started)
    assert (shop / "seen").read_text() == "KEY"
    assert (tmp_path / "beside").exists()
    assert (tmp_path / "data/token").read_text() == "TOKEN"
    assert (tmp_path / "chats.db").read_text() == "CHATS"


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("sandbox", ["on", "own"])
def test_another_sandbox_works_inside(shop: Path, sandbox: str) -> None:
    """Agents bring sandboxes of their own, which need a name space in that of Penstock."""
    ended(run(shop, "bwrap --unshare-user --unshare-pid --ro-bind / / /bin/echo nested >out 2>&1", sandbox=sandbox))
    assert (shop / "out").read_text() == "nested\n"


STARTS = """
import sys, time
from penstock import agent
run = agent("claude", sandbox="on", route="exec", cwd=sys.argv[1]).run("x").start()
time.sleep(1000)
"""

PLANT = """
mkdir -p .git/hooks ~/.claude/hooks; echo x >.git/hooks/pre-commit; echo /elsewhere >.git/commondir
echo '{"hooks":{}}' >~/.claude/settings.json; echo x >~/.claude/hooks/h; echo kept >~/.claude/session
"""


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("ends", ["by itself", "killed", "with Penstock"])
def test_what_is_planted_does_not_reach_the_next_run(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """New hooks, settings and a `commondir` are put aside at the end, or before the next run, confined or not."""
    subprocess.run(["git", "init", "-q", "--template=", str(shop)], check=True)
    script = PLANT + ("cat >/dev/null" if ends == "by itself" else "echo >ready; sleep 1000")
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    environ = fake_agent(tmp_path, "claude", script)
    if ends == "with Penstock":
        with subprocess.Popen([sys.executable, "-c", STARTS, str(shop)], env=environ) as killed:
            until((shop / "ready").exists)
            killed.kill()
        until(lambda: not (marked_any(str(shop))))
        assert (tmp_path / ".claude/settings.json").exists()
    else:
        started = agent("claude").run("hi", sandbox="on", cwd=shop, environ=environ, route="exec")
        with started:
            if ends == "killed":
                until((shop / "ready").exists)
                started.kill()
            said = [event.text for event in started if isinstance(event, Notice)]
        assert len([text for text in said if "later runs would obey" in text]) == 3, said
    free = "ls .git/hooks .git/commondir ~/.claude/settings.json ~/.claude/hooks/h >found 2>/dev/null; cat >/dev/null"
    ended(
        agent("claude").run("hi", sandbox="off", cwd=shop, environ=fake_agent(tmp_path, "claude", free), route="exec")
    )
    assert (shop / "found").read_text() in ("", ".git/hooks:\n")
    assert (tmp_path / ".claude/session").read_text() == "kept\n"
    assert len(list((tmp_path / "data/aside").glob("*/settings.json"))) == 1
    assert list((tmp_path / "data/confined").iterdir()) == []


LINKS = """
rm ~/.claude/settings.json; echo '{"hooks":{}}' >~/.claude/settings.json
rm ~/.claude/hooks; mkdir ~/.claude/hooks; echo x >~/.claude/hooks/h
rm ~/.claude/CLAUDE.md; mv dotfiles mine; mkdir dotfiles; echo '{"hooks":{}}' >dotfiles/settings.local.json
"""


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("ends", ["by itself", "with Penstock"])
def test_settings_that_are_links(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """A link to settings that the agent replaces or removes is there again, and what replaced it is put aside."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    for name in ("dotfiles/hooks", "shop/dotfiles", ".claude"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("dotfiles/settings.json", "dotfiles/CLAUDE.md", "shop/dotfiles/settings.local.json"):
        (tmp_path / name).write_text("{}\n")
        (tmp_path / ".claude" / Path(name).name).symlink_to(f"../{name}")
    (tmp_path / ".claude/hooks").symlink_to(tmp_path / "dotfiles/hooks")
    environ = fake_agent(tmp_path, "claude", f"{LINKS}echo >ready; cat >/dev/null")
    run = agent("claude").run("hi", sandbox="on", cwd=shop, environ=environ, route="exec")
    if ends == "by itself":
        with run:
            said = "\n".join(event.text for event in run if isinstance(event, Notice))
    else:
        fake_agent(tmp_path, "claude", f"{LINKS}echo >ready; sleep 1000")
        with subprocess.Popen([sys.executable, "-c", STARTS, str(shop)], env=environ) as killed:
            until((shop / "ready").exists)
            killed.kill()
        until(lambda: not marked_any(str(shop)))
        said = "\n".join(settle(str(tmp_path / "data")))
    links = {path.name: path.readlink() for path in (tmp_path / ".claude").iterdir() if path.is_symlink()}
    assert sorted(links) == ["CLAUDE.md", "hooks", "settings.json", "settings.local.json"]
    assert links["settings.json"] == Path("../dotfiles/settings.json")
    assert (tmp_path / ".claude/settings.json").read_text() == "{}\n"
    assert list((tmp_path / "dotfiles/hooks").iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "data/aside").glob("*/*")) == ["hooks", "settings.json"]
    assert said.count("is there again") == 3
    assert "settings.local.json leads to another file than before the run" in said


@pytest.mark.usefixtures("_bubblewrap")
def test_a_directory_apart_cannot_be_moved_away(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of the agent is in the place of those that runs outside start, though a directory above is written."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    script = "cd ~/.gemini; mv tmp old; mkdir -p tmp/bin; echo x >tmp/bin/rg; echo kept >tmp/chat; cat >/dev/null"
    environ = fake_agent(tmp_path, "gemini", script)
    ended(agent("gemini").run("hi", sandbox="on", cwd=shop, environ=environ, route="exec"))
    assert (tmp_path / ".gemini/tmp/chat").read_text() == "kept\n"
    assert list((tmp_path / ".gemini/tmp/bin").iterdir()) == []


PLANTED = {
    "claude": (".claude", ".config.json", "chrome/chrome-native-host", "cowork_plugins/x/y", "loop.md"),
    "codex": (".codex", ".env"),
    "copilot": (".copilot", "lsp-config.json", "permissions-config.json", "extensions/x/extension.mjs"),
    "goose": (".local/share/goose", "schedule.json", "scheduled_recipes/x.yaml"),
    "gemini": (".gemini", "bin/litert/lit", "acknowledgments/agents.json"),
    "pi": (".pi/agent", "mcp.json", "npm/node_modules/x/index.js", "git/x/index.js"),
    "qwen": (".qwen", "trustedFolders.json", "mcpApprovals.json", "workflows/x.js", "updates/npm/x.js"),
}
"""Files of agents' states, by the names in their programs, with which a later run starts something, or asks less."""


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("name", PLANTED)
def test_no_file_that_later_runs_obey_is_left(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever a confined run has written there, what it may write stays."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    state, *files = PLANTED[name]
    script = "".join(f"mkdir -p {Path(file).parent}; echo x >{file}; " for file in (*files, "session"))
    environ = fake_agent(tmp_path, name, f"cd ~/{state}; {script}cat >/dev/null")
    ended(agent(name).run("hi", sandbox="on", cwd=shop, environ=environ, route="exec"))
    assert [file for file in (*files, "session") if (tmp_path / state / file).exists()] == ["session"]


OUT = """
cd ~/.claude; ln -s ~/.bashrc history.jsonl; mv projects kept; ln -s ../keys projects; ln -s kept latest
ln -s gone dangling; cat >/dev/null
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("allow", ["edits", "read"])
def test_links_out_of_the_state_are_put_aside(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: Any
) -> None:
    """A later run does not write its history through one of them. Links in the state and those of the user stay."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    state = tmp_path / ".claude"
    (state / "projects").mkdir(parents=True)
    (state / "mine").symlink_to("../elsewhere")
    until(lambda: time.time() - (state / "mine").lstat().st_ctime > 2 * SLACK_SECONDS)
    environ = fake_agent(tmp_path, "claude", OUT)
    run = agent("claude").run("hi", sandbox="on", cwd=shop, environ=environ, route="exec", allow=allow)
    with run:
        said = [event.text for event in run if isinstance(event, Notice)]
    assert sorted(path.name for path in state.iterdir() if path.is_symlink()) == ["dangling", "latest", "mine"]
    assert len([text for text in said if "later runs would obey" in text]) == 2


CATALOGUE = "echo '{}' >~/.pi/agent/models-store.json; echo '{}' >~/.pi/agent/models.json; cat >/dev/null"


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize("had", [False, True])
def test_a_catalogue_that_the_agent_writes_by_itself_is_removed_without_a_word(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, had: bool
) -> None:
    """It could lead a later run to another model server. One that was there before stays as it was."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    environ = fake_agent(tmp_path, "pi", CATALOGUE)
    store = tmp_path / ".pi/agent/models-store.json"
    if had:
        store.parent.mkdir(parents=True)
        store.write_text("[]")
    with agent("pi", route="exec").run("hi", sandbox="on", cwd=shop, environ=environ) as started:
        said = [event.text for event in started if isinstance(event, Notice) and "later runs would obey" in event.text]
    assert [words for words in said if "models-store.json" in words] == []
    assert len([words for words in said if "models.json" in words]) == 1
    assert (store.read_text() if store.exists() else None) == ("[]" if had else None)
    assert not list((tmp_path / "data/aside").glob("*/models-store.json"))


@pytest.mark.usefixtures("_bubblewrap")
def test_a_key_that_is_a_command_is_put_aside(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent can renew its login, and leave no command to a later run."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    keys = tmp_path / ".pi/agent/auth.json"
    for key, is_kept in (("renewed", True), ("!sh planted", False)):
        text = json.dumps({"anthropic": {"type": "api_key", "key": key}})
        environ = fake_agent(tmp_path, "pi", f"cat >~/.pi/agent/auth.json <<'END'\n{text}\nEND\ncat >/dev/null")
        with agent("pi", route="exec").run("hi", sandbox="on", cwd=shop, environ=environ) as started:
            said = [event.text for event in started if isinstance(event, Notice) and "auth.json" in event.text]
        assert keys.exists() == is_kept
        assert len(said) == (0 if is_kept else 1)


@pytest.mark.usefixtures("_bubblewrap")
def test_a_directory_in_the_place_of_the_catalogue_is_put_aside_with_a_warning(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of this name and an empty directory are removed without a word; all else may tell later runs something."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    environ = fake_agent(tmp_path, "pi", "mkdir -p ~/.pi/agent/models-store.json/x ~/.pi/agent/prompts; cat >/dev/null")
    with agent("pi", route="exec").run("hi", sandbox="on", cwd=shop, environ=environ) as started:
        said = [event.text for event in started if isinstance(event, Notice) and "later runs would obey" in event.text]
    assert len(said) == 1
    assert not (tmp_path / ".pi/agent/models-store.json").exists()
    assert not (tmp_path / ".pi/agent/prompts").exists()
    assert list((tmp_path / "data/aside").glob("*/models-store.json"))


def marked_any(place: str) -> bool:
    """Whether a process has this directory as its own."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd").startswith(place):
                return True
        except OSError:
            continue
    return False


@pytest.mark.usefixtures("_bubblewrap")
@pytest.mark.parametrize(
    ("script", "stays"),
    [
        ("git init -q . && git config user.name me", True),
        ("git init -q . && git config core.fsmonitor 'touch /tmp/x'", False),
        ("git init -q . && git config remote.o.url 'ext::sh -c true'", False),
        ("git init -q . && echo x >.git/hooks/post-checkout", False),
        ("git init -q . && printf '[include]\\n path = /x\\n' >>.git/config", False),
        ("git init -q . && rm .git/config && mkfifo .git/config", False),
        ("git init -q ../other 2>/dev/null; mkdir o; git init -q o; echo 'gitdir: o/.git' >.git", False),
        ("mkdir o; git init -q o; ln -s o/.git .git", False),
    ],
)
def test_a_new_repository_stays_if_it_starts_nothing(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, stays: bool
) -> None:
    """An agent may make a repository; one with programs in it is put aside."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    started = run(shop, script)
    ended(started)
    assert os.path.lexists(shop / ".git") == stays
    assert any(".git" in os.listdir(path) for path in (tmp_path / "data").glob("aside/*")) != stays


KEYS = """
import ctypes, os, subprocess, sys
call = ctypes.CDLL(None).syscall
add, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219), "riscv64": (217, 219)}[os.uname().machine]
if sys.argv[1] == "inside":
    found = call(keyctl, 10, -3, b"user", b"of a person", 0)
    open("found", "w").write("nothing" if found < 0 else "a key")
    sys.exit()
call(keyctl, 1, None)
if call(add, b"user", b"of a person", b"KEY", 3, -3) < 0:
    sys.exit("no keys here")
from penstock import agent
words = [sys.executable, __file__, "inside"]
with agent("demo", command=words, adapter="generic", cwd=sys.argv[2], sandbox=sys.argv[1]).run("hi") as run:
    run.wait()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_bubblewrap")
def test_keys_of_the_session_are_not_there(shop: Path) -> None:
    """No namespace separates the session keyring, which may have tickets and passwords: a run has an empty one."""
    if os.uname().machine not in guard.KEYCTL:
        pytest.skip("the numbers of the calls are not known here")
    (shop / "keys.py").write_text(KEYS)
    for sandbox, found in (("on", "nothing"), ("off", "a key")):
        words = [sys.executable, str(shop / "keys.py"), sandbox, str(shop)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if "no keys here" in done.stderr:
            pytest.skip("no keyrings here")
        assert done.returncode == 0, done.stderr
        assert (shop / "found").read_text() == found


FAMILIES = """
import errno, socket
for family in (40, 17, 31, 42, 1, 2, 10):
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
        print(family, "made")
    except OSError as error:
        print(family, errno.errorcode[error.errno])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_bubblewrap")
def test_no_socket_leaves_the_network_namespace(shop: Path) -> None:
    """A virtual machine reaches its host by sockets that no namespace separates; a run without the network has none."""
    if not guard.socket_filter(os.uname().machine):
        pytest.skip("the numbers of the calls are not known here")
    (shop / "families.py").write_text(FAMILIES)
    ended(run(shop, f"{sys.executable} -S families.py >found", network="none"))
    others = "".join(f"{family} EAFNOSUPPORT\n" for family in (40, 17, 31, 42))
    assert (shop / "found").read_text() == f"{others}1 made\n2 made\n10 made\n"


REACH = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as one:
        print("refused" if one.connect_ex(path) else "reached")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_bubblewrap")
def test_sockets_of_programs_outside(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the agent that runs outside would work unconfined; one of the directory is part of the network."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    (tmp_path / ".claude").mkdir()
    (shop / "reach.py").write_text(REACH)
    paths = [tmp_path / ".claude/control.sock", shop / "app.sock"]
    open_ones = [socket.socket(socket.AF_UNIX) for _ in paths]
    for one, path in zip(open_ones, paths, strict=True):
        one.bind(str(path))
        one.listen()
        os.utime(path, (0, 0))  # a server that has been there for long
    script = f"{sys.executable} -S reach.py {' '.join(map(str, paths))} >found; cat >/dev/null"
    environ = fake_agent(tmp_path, "claude", script)
    expected: dict[Any, str] = {"all": "refused\nreached\n", "none": "refused\nrefused\n"}
    for network, found in expected.items():
        ended(agent("claude").run("hi", sandbox="on", network=network, cwd=shop, environ=environ, route="exec"))
        assert (shop / "found").read_text() == found
    for one in open_ones:
        one.close()


@pytest.mark.usefixtures("_bubblewrap")
def test_scripts_of_other_sessions_are_not_there(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shells of a session that runs outside read a script in the agent's state; no confined run changes it."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    scripts = tmp_path / ".claude/shell-snapshots"
    scripts.mkdir(parents=True)
    (scripts / "a.sh").write_text("good")
    script = "cd ~/.claude/shell-snapshots; echo x >a.sh; echo x >b.sh; cp b.sh ../kept; cat >/dev/null"
    ended(
        agent("claude").run("hi", sandbox="on", cwd=shop, environ=fake_agent(tmp_path, "claude", script), route="exec")
    )
    assert [(path.name, path.read_text()) for path in scripts.iterdir()] == [("a.sh", "good")]
    assert (tmp_path / ".claude/kept").read_text() == "x\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_a_directory_whose_name_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have any bytes, and so may what the agent makes: the warning can be encoded."""
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    with run(odd, "git init -q .; echo x >.git/hooks/post-checkout") as started:
        said = [event.text for event in started if isinstance(event, Notice)]
    assert len([text for text in said if "later runs would obey" in text and text.encode()]) == 1
