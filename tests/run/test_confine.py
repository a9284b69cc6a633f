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
from msgspec import structs

from penstock.agents.registry import AGENTS
from penstock.errors import UsageError
from penstock.run.apart import copy_missing
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


def of_vibe(place: Path) -> ToConfine:
    """Return a run of a script in the place of vibe."""
    return ToConfine(
        agent="vibe",
        facts=AGENTS["vibe"],
        program="/bin/sh",
        env={"HOME": str(place / "home"), "PATH": os.environ["PATH"]},
        cwd=str(place / "shop"),
        files=(),
        allow="all",
        surroundings=Surroundings(caches=str(place / "caches")),
    )


def run_confined(run: ToConfine, script: str) -> str:
    """Run a script in the confinement of a run; return its output."""
    if machine_problem():
        pytest.skip(machine_problem())
    words = confinement(run, "on", is_asked=True).words
    done = subprocess.run([*words, "/bin/sh", "-c", script], capture_output=True, timeout=60, check=False, text=True)
    return done.stdout + done.stderr


def test_a_run_of_vibe_leaves_nothing_that_later_runs_obey(place: Path) -> None:
    """Its conversation is kept; its settings, and all of its plugins, are as before: also those that are links."""
    vibe = place / "home/.vibe"
    plugins = vibe / "logs/session/plugins"
    skill, checked = plugins / "packages/ab/abcd/SKILL.md", plugins / "blobs/ef/efgh"
    skill.parent.mkdir(parents=True)
    skill.write_text("Write tests.")
    checked.parent.mkdir(parents=True)
    checked.hardlink_to(skill)
    (vibe / "config.toml").write_text("a = 1")
    script = f"""cd {vibe}; echo x >config.toml; mkdir -p skills/bad agents; echo x >skills/bad/SKILL.md; echo x >.env
        cd logs/session; echo said >unified/c
        cat plugins/blobs/ef/efgh; chmod u+w plugins/blobs/ef/efgh; echo x >plugins/blobs/ef/efgh
        mkdir -p plugins/packages/ab/abcd plugins/packages/ij/ijkl; echo x >plugins/packages/ab/abcd/SKILL.md
        rm -rf plugins/packages; mv plugins moved; ln -s {place}/outside plugins/packages"""
    assert run_confined(of_vibe(place), script).startswith("Write tests.")
    assert (vibe / "logs/session/unified/c").read_text() == "said\n"
    kept = {path.relative_to(vibe).as_posix() for path in vibe.rglob("*") if not path.is_dir()}
    of_plugins = {path.relative_to(vibe).as_posix() for path in (skill, checked)}
    assert kept == {"config.toml", "logs/session/unified/c", *of_plugins}
    assert (skill.read_text(), (vibe / "config.toml").read_text()) == ("Write tests.", "a = 1")


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("", []),
        ("other.db", [".local/share/opencode/other.db"]),
        ("/srv/x.sqlite", ["/srv/x.sqlite"]),
        (":memory:", []),
    ],
)
def test_each_database_of_opencode_is_searched(place: Path, named: str, found: list[str]) -> None:
    """That of a variable, and the usual one, which a run without the variable reads."""
    if machine_problem():
        pytest.skip(machine_problem())
    home = place / "home"
    of_opencode = structs.replace(
        of_vibe(place),
        agent="opencode",
        facts=AGENTS["opencode"],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "OPENCODE_DB": named},
        allow_tools=("bash",),
    )
    watched = confinement(of_opencode, "on", is_asked=True).watched
    assert watched is not None
    assert watched.databases == tuple(str(home / it) for it in (".local/share/opencode/opencode.db", *found))
    assert {path for path, _ in watched.keys} > set(watched.databases)
    assert watched.granted == ("bash",)


def test_a_directory_apart_is_one_file_system(place: Path) -> None:
    """Files can be linked from one of its directories to another, and the next confined run finds them."""
    script = f"""cd {place}/home/.vibe/logs/session/plugins; mkdir tmp blobs packages; echo a >tmp/a
        ln tmp/a blobs/a; ln blobs/a packages/a; stat -c %h packages/a"""
    run = of_vibe(place)
    assert run_confined(run, script) == "3\n"
    assert run_confined(run, f"cat {place}/home/.vibe/logs/session/plugins/*/*") == "a\na\na\n"
    assert list((place / "home/.vibe/logs/session/plugins").rglob("*")) == []


def test_state_that_is_kept_is_one_file_system() -> None:
    """An agent may rename and link within its home, so no two directories of it that are kept are separate mounts."""
    for name, facts in AGENTS.items():
        kept = [(it.path, it.variable) for it in facts.state if it.writes == "kept"]
        assert len(kept) == len(set(kept)), name
        assert all(it.copied == () or it.writes == "apart" for it in facts.state), name


def test_a_copy_follows_no_link_and_stops_at_no_obstacle(tmp_path: Path) -> None:
    """A confined run has put links, files and locked directories in the way: nothing outside is written."""
    source, target, outside = tmp_path / "source", tmp_path / "apart/blobs", tmp_path / "outside"
    for name in ("aa/1", "bb/2", "cc/3", "dd/4", "ee/5"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (source / "ee/link").symlink_to(tmp_path)
    os.mkfifo(source / "ee/pipe")
    outside.mkdir()
    target.mkdir(parents=True)
    (target / "aa").symlink_to(outside)
    (target / "bb").write_text("a file")
    (target / "cc").mkdir()
    (target / "cc/3").symlink_to(outside / "3")
    (target / "dd").mkdir(mode=0)
    copy_missing(str(source), str(target))
    assert list(outside.iterdir()) == []
    assert (target / "bb").read_text() == "a file"
    assert (target / "cc/3").is_symlink()
    (target / "dd").chmod(0o700)
    assert [(path.name, path.read_text()) for path in (target / "ee").iterdir()] == [("5", "ee/5")]
    (source / "ee/5").chmod(0o400)
    (target / "ee/5").write_text("kept")
    copy_missing(str(source), str(target))
    assert (target / "ee/5").read_text() == "kept"
    copy_missing(str(source / "none"), str(target))
    shutil.rmtree(target)
    target.symlink_to(outside)
    copy_missing(str(source), str(target))
    assert list(outside.iterdir()) == []
