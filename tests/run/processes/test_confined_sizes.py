"""Confined runs with real bubblewrap: what they write into memory is bounded, and no home of the user is seen."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.run import confine
from penstock.run.agent import agent
from penstock.run.confine import arguments, own_view, view
from penstock.run.sandbox import Surroundings

MIB = 1024 * 1024
FILL = """
for place in /tmp /var/tmp /run "$HOME" /dev/shm /dev; do
    head -c 3145728 /dev/zero >"$place/big"
    stat -c %s "$place/big"
done
"""


def run(shop: Path, script: str) -> str:
    """What a confined script prints."""
    command = ["sh", "-c", f"({script}) >printed 2>&1"]
    with agent("demo", command=command, adapter="generic", cwd=shop, sandbox="on").run("hi") as started:
        started.wait()
    return (shop / "printed").read_text()


@pytest.mark.usefixtures("_bubblewrap")
def test_what_is_written_into_memory_is_bounded(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory in memory takes what the configuration says, and no more; `/dev` itself takes nothing."""
    config = tmp_path / "config.toml"
    config.write_text("[run]\nsandbox_tmpfs = 2\n")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(config))
    printed = run(shop, FILL)
    sizes = [int(line) for line in printed.split("\n") if line.isdecimal()]
    assert sizes == [2 * MIB] * 5, printed
    assert "/dev/big" in printed


@pytest.mark.usefixtures("_bubblewrap")
def test_the_size_by_itself(shop: Path) -> None:
    """Without a configuration, a directory has a part of the machine's memory, and two runs do not share it."""
    blocks = run(shop, "stat -f -c '%b %S' /tmp /dev/shm; echo x >/tmp/x; ls /tmp").split()
    size = confine._tmpfs_bytes()
    assert [int(blocks[0]) * int(blocks[1]), int(blocks[2]) * int(blocks[3])] == [size, size]
    assert 256 * MIB <= size <= 4096 * MIB
    assert "x" not in run(shop, "ls /tmp").split()


@pytest.mark.usefixtures("_bubblewrap")
def test_the_real_home_is_empty_where_the_environment_names_another(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home that the system has for the user is not seen, nor are its keys."""
    real = tmp_path / "real"
    (real / ".ssh").mkdir(parents=True)
    (real / ".ssh" / "id").write_text("a key")
    found = pwd.getpwuid(os.geteuid())
    entry = pwd.struct_passwd((*found[:5], str(real), *found[6:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
    assert "a key" not in run(shop, f"cat {real}/.ssh/id; ls -A {real}")
    assert run(shop, f"ls -A {real}") == ""
    inside = real / "shop"
    inside.mkdir()
    assert run(inside, f"ls -A {real}; pwd").split() == ["shop", str(inside)]


def test_a_bubblewrap_without_the_option_runs_as_before(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls the option unknown: then the same words without it are tried, and kept."""
    old = tmp_path / "bwrap"
    tries = tmp_path / "tries"
    old.write_text(
        f'#!/bin/sh\necho "$*" >>{tries}\n'
        'case "$*" in *--size*) echo "bwrap: Unknown option --size" >&2; exit 1;; esac\nexit 0\n'
    )
    old.chmod(0o755)
    asked = confine.ToConfine(
        agent="demo", facts=None, program="/bin/sh", env={}, cwd=str(shop), files=(), allow="all",
        surroundings=Surroundings(),
    )  # fmt: skip
    data = tmp_path / "data"
    words = confine._tried(str(old), own_view(str(shop), hidden=[str(tmp_path)]), asked, str(data))
    assert "--size" not in words
    assert len(tries.read_text().splitlines()) == 2
    assert confine._tried(str(old), own_view(str(shop), hidden=[str(tmp_path)]), asked, str(data)) == words
    assert len(tries.read_text().splitlines()) == 3, "the words without it are tried once"
    old.write_text(f'#!/bin/sh\necho "$*" >>{tries}\n')
    monkeypatch.setattr(confine, "has_worked", lambda data, words: "--size" not in words)
    assert "--size" in confine._tried(str(old), own_view(str(shop), hidden=[str(tmp_path)]), asked, str(data)), (
        "a newer one"
    )


@pytest.mark.parametrize("home", ["/", "/usr/sbin", "/nonexistent"])
def test_a_home_of_the_system_is_not_hidden(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts of services have such homes; with an empty one in its place, no program would start."""
    found = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd((*found[:5], home, *found[6:])))
    assert confine._real_home("/home/ann") == []


def test_each_directory_in_memory_has_a_size(shop: Path, tmp_path: Path) -> None:
    """Also those that hide something."""
    made = replace(view(str(shop), str(tmp_path / "home"), hidden=[str(tmp_path)]), tmpfs_bytes=7)
    words = arguments(made, as_root=False)
    places = [place for place, word in enumerate(words) if word == "--tmpfs"]
    assert len(places) == 6
    assert all(words[place - 2 : place] == ["--size", "7"] for place in places)
    assert "--size" not in arguments(replace(made, tmpfs_bytes=None), as_root=False)
