"""A loop whose agents and checks are confined: what they see of the user, and what they can write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from loop_desk import Desk, ended

from penstock.errors import UsageError
from penstock.loop.reach import check_sandbox, environment_of
from penstock.loop.rows import RoleAgents, Settings
from penstock.loop.steps import CommandEnded
from penstock.run.network import Network
from penstock.run.sandbox import Sandbox

FRAMES = [
    {"type": "system", "subtype": "init", "session_id": "s1", "claude_code_version": "2.0", "cwd": "/", "model": "m"},
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "s1",
        "result": "done",
        "total_cost_usd": 0,
    },
]

TRIES = """
cat {home}/.ssh/id {data}/token {root}/PROMPT.md {root}/.git/config 2>/dev/null
echo "$OPENAI_API_KEY" | tr -d '\\n'
echo x >{root}/planted; echo x >{data}/planted; echo x >{home}/planted; mkdir -p {root}/.git/hooks
echo x >{root}/.git/hooks/pre-commit
"""


@pytest.fixture
def place(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with a home, keys and data, on a machine that can confine."""
    name = shutil.which("bwrap")
    if name is None:
        pytest.skip("bubblewrap is not installed")
    words = [name, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "/bin/true"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    (desk.folder / "home/.ssh").mkdir(parents=True)
    (desk.folder / "home/.ssh/id").write_text("KEY")
    desk.data.mkdir()
    (desk.data / "token").write_text("TOKEN")
    monkeypatch.setenv("HOME", str(desk.folder / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "OPENAI")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "ANTHROPIC")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(desk.folder / "agent.sock"))
    return desk


def tries(desk: Desk) -> str:
    """What hostile code tries: keys and the data directory are read, and files outside of the tree are written."""
    return TRIES.format(home=desk.folder / "home", data=desk.data, root=desk.user.root)


def claude(desk: Desk, script: str) -> None:
    """Make claude a script, which is confined as claude is."""
    lines = "\n".join(f"echo '{json.dumps(frame)}'" for frame in FRAMES)
    program = desk.scripts / "claude"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\n[ -e done ] || {{ {script}; }}\n{lines}\n")
    program.chmod(0o755)
    desk.configure(f'[agents.claude]\ncommand = ["{program}"]\n')


def left(desk: Desk) -> list[Path]:
    """Files that the tries have planted."""
    places = [desk.user.root / "planted", desk.data / "planted", desk.folder / "home/planted"]
    return [path for path in (*places, desk.user.root / ".git/hooks/pre-commit") if path.exists()]


def checked(desk: Desk, check: str, **fields: object) -> list[CommandEnded]:
    """Run a loop with this check, and return its ends."""
    settings = Settings(work=RoleAgents(agents=("claude",)), checks=(check,), **fields)  # type: ignore[arg-type]
    journal = desk.begin(settings)
    try:
        engine, watcher = desk.engine(journal)
        engine.run()
    finally:
        journal.close()
    return [row.result for row in ended(watcher.rows) if isinstance(row.result, CommandEnded)]


@pytest.mark.slow
def test_an_agent_reaches_its_tree_alone(place: Desk) -> None:
    """It sees no key, no file of Penstock's and none of the repository, writes nothing outside, and can commit."""
    script = f"{{ {tries(place)} }} >seen 2>/dev/null; echo $ANTHROPIC_API_KEY >own; git log --oneline >log; echo >done"
    claude(
        place,
        f"{script}; git add seen && git -c user.name=a -c user.email=a@b commit -qm x; git log -1 --format=%s >made",
    )
    status, state = place.run(Settings(work=RoleAgents(agents=("claude",)), checks=("test -e done",)))
    assert status == 0, state.ended
    assert place.user.git("show", "penstock/l1:seen") == ""
    assert place.user.git("show", "penstock/l1:own") == "ANTHROPIC"
    assert "Ask" in place.user.git("show", "penstock/l1:log")
    assert place.user.git("show", "penstock/l1:made") == "x"
    assert left(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("network", ["agent", "none"])
def test_the_network_of_an_agent_is_that_of_the_loop(place: Desk, network: Network) -> None:
    """It has no interface but a loopback of its own, and its model's addresses only by the proxy."""
    names = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"
    claude(place, f'{names} >seen; echo "${{HTTPS_PROXY:-no proxy}}" >>seen; echo >done')
    settings = Settings(work=RoleAgents(agents=("claude",)), checks=("test -e done",), network=network)
    status, state = place.run(settings)
    assert status == 0, state.ended
    proxy = "http://127.0.0.1:3128" if network == "agent" else "no proxy"
    assert place.user.git("show", "penstock/l1:seen").split("\n") == ["lo", proxy]


@pytest.mark.parametrize("sandbox", ["own", "off"])
def test_a_network_that_cannot_be_kept_is_an_error(place: Desk, sandbox: Sandbox) -> None:
    """Nothing runs where an agent could reach more than the loop says."""
    claude(place, "echo >done")
    with pytest.raises(UsageError, match="restricted with --sandbox on alone"):
        place.run(Settings(work=RoleAgents(agents=("claude",)), unchecked=True, sandbox=sandbox, network="agent"))


@pytest.mark.slow
def test_a_check_reaches_its_tree_alone(place: Desk) -> None:
    """It gets no variable of an agent and no login, sees and writes what the agent does, and has no network."""
    claude(place, "echo >done")
    names = "tail -n +3 /proc/net/dev | cut -d: -f1"
    check = f'{tries(place)}\ntest -e done && {names} && echo "$ANTHROPIC_API_KEY$SSH_AUTH_SOCK"'
    ends = checked(place, check)
    assert ends, "no check has run"
    for one in ends:
        assert "KEY" not in one.output
        assert "TOKEN" not in one.output
        assert "Make it work" not in one.output
        assert "ANTHROPIC" not in one.output
        assert "OPENAI" not in one.output
        assert "agent.sock" not in one.output
    assert "lo" in ends[-1].output.split()
    assert "eth0" not in ends[-1].output
    assert left(place) == []


@pytest.mark.slow
def test_without_confinement_the_same_tries_work(place: Desk) -> None:
    """The tries are real: unconfined, the check reads the key and plants its files."""
    claude(place, "echo >done")
    ends = checked(place, f"{tries(place)}\ntest -e done", sandbox="off")
    assert "KEYTOKEN" in ends[-1].output
    assert len(left(place)) >= 3


@pytest.mark.slow
def test_caches_are_those_of_the_tree(place: Desk) -> None:
    """What a check caches is there for the next one, and never in the cache of the user."""
    (place.folder / "home/.cache").mkdir()
    claude(place, "cat ~/.cache/kept >cached; echo >done")
    check = 'test -e "$HOME/.cache/kept" && test -e done || { echo warm >"$HOME/.cache/kept"; exit 1; }'
    status, _ = place.run(Settings(work=RoleAgents(agents=("claude",)), checks=(check,)))
    assert status == 0
    assert place.user.git("show", "penstock/l1:cached") == "warm"
    assert list((place.folder / "home/.cache").iterdir()) == []


def test_a_machine_that_cannot_confine(place: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """`on` is an error before anything runs; `auto` goes on."""
    monkeypatch.setattr("penstock.loop.reach.machine_problem", lambda: "no bubblewrap")
    claude(place, "echo >done")
    with pytest.raises(UsageError, match="no agent can be confined here: no bubblewrap"):
        place.run(Settings(work=RoleAgents(agents=("claude",)), unchecked=True, sandbox="on"))
    with pytest.raises(UsageError, match="no agent can be confined here: no bubblewrap"):
        check_sandbox(Settings(work=RoleAgents(agents=("claude",)), unchecked=True, network="agent"))
    monkeypatch.setenv("PATH", str(place.folder))
    agents_env = environment_of("l1", place.folder, place.config, "claude")
    assert agents_env["ANTHROPIC_API_KEY"] == "ANTHROPIC"
    assert "OPENAI_API_KEY" not in agents_env
    assert not {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SSH_AUTH_SOCK"} & set(
        environment_of("l1", place.folder, place.config)
    )
    assert os.environ["OPENAI_API_KEY"] == "OPENAI"


@pytest.mark.slow
def test_a_hook_of_the_user_gets_no_key(place: Desk) -> None:
    """The commit hooks of the user run without the variables of agents."""
    hook = place.user.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\necho "$OPENAI_API_KEY$ANTHROPIC_API_KEY$SSH_AUTH_SOCK" >{place.folder}/hooked\n')
    hook.chmod(0o755)
    claude(place, "echo >done")
    status, _ = place.run(Settings(work=RoleAgents(agents=("claude",)), checks=("test -e done",)))
    assert status == 0
    assert (place.folder / "hooked").read_text() == "\n"
