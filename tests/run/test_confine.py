"""A hostile script in a confined directory: what it tries, and what is left of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.agents.registry import AGENTS
from penstock.errors import UsageError
from penstock.run.confine import ToConfine, arguments, machine_problem, view
from penstock.run.confine import confined as confinement
from penstock.run.sandbox import Surroundings


def confined(place: Path, script: str, *, as_root: bool | None = None) -> tuple[int, str, int | None]:
    """Run a script confined; return bwrap's status, the output, and the status that its descriptor reported."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    seen = view(
        str(place / "shop"),
        str(place / "home"),
        state=[str(place / "home/.agent")],
        settings=[str(place / "home/.agent/settings.json")],
    )
    read, write = os.pipe()
    name, *words = arguments(seen, as_root=os.getuid() == 0 if as_root is None else as_root)
    words = [name, "--json-status-fd", str(write), *words]
    done = subprocess.run(
        [*words, "/bin/sh", "-c", script], pass_fds=[write], capture_output=True, text=True, timeout=20, check=False
    )
    os.close(write)
    with os.fdopen(read) as reports:
        rows = [json.loads(line) for line in reports if line.strip()]
    if "No permissions to create" in done.stderr or "setting up uid map" in done.stderr:
        pytest.skip("no user namespaces here")
    return done.returncode, done.stdout, next((row["exit-code"] for row in rows if "exit-code" in row), None)


@pytest.fixture
def place() -> Iterator[Path]:
    """A home with a key and the state of an agent, and a repository. Not in `/tmp`, which is always hidden."""
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as made:
        yield filled(Path(made))


def filled(tmp_path: Path) -> Path:
    """Make the files of a place."""
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id").write_text("KEY")
    (tmp_path / "home/.agent").mkdir()
    (tmp_path / "home/.agent/settings.json").write_text("{}")
    (tmp_path / "outside").write_text("before")
    subprocess.run(["git", "init", "-q", str(tmp_path / "shop")], check=True)
    return tmp_path


def test_key_is_not_there_and_the_directory_is_writable(place: Path) -> None:
    """A key of the home directory cannot be read; a file of the directory and the agent's state can be written."""
    _, out, code = confined(place, f"cat {place}/home/.ssh/id; echo a >made; echo b >{place}/home/.agent/session")
    assert "KEY" not in out
    assert code == 0
    assert (place / "shop/made").read_text() == "a\n"
    assert (place / "home/.agent/session").read_text() == "b\n"


@pytest.mark.parametrize("as_root", [None, False])  # False: root keeps its id inside, and only `--cap-drop` is left
def test_nothing_outside_is_written_not_even_after_a_remount(place: Path, as_root: bool | None) -> None:
    """A write outside, a remount and a device node are refused, as root too."""
    name = f"/etc/penstock-{os.getpid()}"
    script = f"echo x >{place}/outside; mount -o remount,rw,bind / && echo remounted; echo x >{name}; mknod n b 8 0"
    _, out, _ = confined(place, script, as_root=as_root)
    assert (place / "outside").read_text() == "before"
    assert "remounted" not in out
    assert not os.path.exists(name)
    assert not (place / "shop/n").exists()


@pytest.mark.parametrize("move", ["true", "mv .git away; mkdir -p .git/hooks"])
def test_no_hook_and_no_setting_is_planted(place: Path, move: str) -> None:
    """Hooks, the configuration of git and the agent's settings stay as they are, also if `.git` is moved first."""
    before = (place / "shop/.git/config").read_bytes()
    settings = place / "home/.agent/settings.json"
    script = f"{move}; echo x >.git/hooks/pre-commit; echo x >>.git/config; echo x >{settings}; rm -f {settings}"
    confined(place, script)
    assert not (place / "shop/.git/hooks/pre-commit").exists()
    assert (place / "shop/.git/config").read_bytes() == before
    assert settings.read_text() == "{}"


def test_other_processes_are_not_there(place: Path) -> None:
    """A process outside can be neither seen nor killed."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            _, out, _ = confined(
                place, f"kill -9 {other.pid} && echo killed; cat /proc/{other.pid}/environ && echo read"
            )
            assert other.poll() is None
            assert out == ""
        finally:
            other.kill()


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_exit_status_is_reported(place: Path, script: str, code: int) -> None:
    """The status descriptor has the status of the program, 128 and more for a signal."""
    assert confined(place, script)[2] == code


def test_places_that_cannot_be_confined_are_rejected(place: Path) -> None:
    """A directory that holds the home directory, and a `.git` that is a link, are rejected."""
    with pytest.raises(UsageError, match="holds the home directory"):
        view(str(place), str(place / "home"))
    (place / "linked").mkdir()
    (place / "linked/.git").symlink_to(place / "shop/.git")
    with pytest.raises(UsageError, match="is a link"):
        view(str(place / "linked"), str(place / "home"))


def test_a_run_of_vibe_leaves_nothing_that_later_runs_obey(place: Path) -> None:
    """Its conversation is kept; its settings, and the plugins that vibe uses without a check, are as before."""
    if machine_problem():
        pytest.skip(machine_problem())
    vibe = place / "home/.vibe"
    skill = vibe / "logs/session/plugins/packages/ab/abcd/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Write tests.")
    (vibe / "config.toml").write_text("a = 1")
    run = ToConfine(
        agent="vibe",
        facts=AGENTS["vibe"],
        program="/bin/sh",
        env={"HOME": str(place / "home"), "PATH": os.environ["PATH"]},
        cwd=str(place / "shop"),
        files=(),
        allow="all",
        surroundings=Surroundings(caches=str(place / "caches")),
    )
    script = f"""cd {vibe}; echo x >config.toml; mkdir -p skills/bad agents; echo x >skills/bad/SKILL.md; echo x >.env
        cd logs/session; echo said >unified/c
        echo x >plugins/packages/ab/abcd/SKILL.md; mkdir -p plugins/packages/ef/efgh
        rm -rf plugins/packages; mv plugins moved; ln -s {place}/outside plugins/packages"""
    words = confinement(run, "on", is_asked=True).words
    subprocess.run([*words, "/bin/sh", "-c", script], capture_output=True, timeout=60, check=False)
    assert (vibe / "logs/session/unified/c").read_text() == "said\n"
    kept = {path.relative_to(vibe).as_posix() for path in vibe.rglob("*") if not path.is_dir()}
    assert kept == {"config.toml", "logs/session/unified/c", skill.relative_to(vibe).as_posix()}
    assert (skill.read_text(), (vibe / "config.toml").read_text()) == ("Write tests.", "a = 1")
