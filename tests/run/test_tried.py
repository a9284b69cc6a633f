"""Views of confined runs are tried once; one that works no longer is never a run without confinement."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.errors import AgentNotFound
from penstock.run import confine, tried

WORDS = ["/usr/bin/bwrap", "--ro-bind", "/", "/"]


def test_words_that_have_worked_are_known_until_all_are_forgotten(tmp_path: Path) -> None:
    """Other words, another directory and another user begin anew."""
    data = str(tmp_path / "data")
    assert not tried.has_worked(data, WORDS)
    tried.note_worked(data, WORDS)
    assert tried.has_worked(data, WORDS)
    assert not tried.has_worked(data, [*WORDS, "/home"])
    assert not tried.has_worked(str(tmp_path), WORDS)
    tried.forget_all(data)
    assert not tried.has_worked(data, WORDS)


@pytest.mark.parametrize("what", ["user", "program"])
def test_another_user_or_bubblewrap_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """What worked for one is no sign for the other."""
    program = tmp_path / "bwrap"
    program.write_text("")
    words = [str(program), *WORDS[1:]]
    tried.note_worked(str(tmp_path), words)
    if what == "user":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        os.utime(program, (1, 1))
    assert not tried.has_worked(str(tmp_path), words)


def test_the_number_of_views_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories come and go for years."""
    monkeypatch.setattr(tried, "MAX_VIEWS", 3)
    for number in range(10):
        tried.note_worked(str(tmp_path), [*WORDS, str(number)])
        assert tried.has_worked(str(tmp_path), [*WORDS, str(number)])
        assert len(os.listdir(tmp_path / tried.FOLDER)) <= 3


def test_a_data_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """Each view is tried each time then."""
    (tmp_path / "file").write_text("")
    tried.note_worked(str(tmp_path / "file"), WORDS)
    assert not tried.has_worked(str(tmp_path / "file"), WORDS)
    tried.forget_all(str(tmp_path / "file"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """The outcome of a run of a small program, confined by a bubblewrap that fails where `broken` is."""
    real = shutil.which("bwrap")
    if real is None or confine.machine_problem():
        pytest.skip("no run can be confined on this machine")
    place = tmp_path / "bin"
    place.mkdir()
    program = place / "bwrap"
    program.write_text(
        f'#!/bin/sh\n[ -e {tmp_path}/broken ] && {{ echo "no name space" >&2; exit 1; }}\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    line = '{"type": "result", "subtype": "success", "is_error": false, "result": "done"}'
    config = tmp_path / "penstock.toml"
    config.write_text(f"[agents.small]\nadapter = 'claude'\ncommand = ['/bin/echo', '{line}']\n")
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(config))
    monkeypatch.chdir(tmp_path)

    def started() -> str:
        with penstock.agent("small", sandbox="own").run("?") as small:
            assert list(small)
            return small.result.outcome

    return started


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_view_that_works_no_longer_fails_once_and_is_tried_again(
    run: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that relies on an earlier try is not started without confinement; the next one is tried."""
    tries: list[str] = []
    real = confine._failure

    def noted(words: list[str], cwd: str) -> str:
        tries.append(cwd)
        return real(words, cwd)

    monkeypatch.setattr(confine, "_failure", noted)
    for _ in range(3):
        assert run() == "ok"
    assert len(tries) == 1
    (tmp_path / "broken").touch()
    with pytest.raises(AgentNotFound, match="cannot be executed where it is confined: no name space"):
        run()
    assert len(tries) == 1
    with pytest.raises(penstock.UsageError, match="bubblewrap cannot confine a run here: no name space"):
        run()
    assert len(tries) == 2
    (tmp_path / "broken").unlink()
    assert run() == "ok"
    assert len(tries) == 3
