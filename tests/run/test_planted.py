"""What a confined run has planted is put aside, also if it was made so that it cannot be moved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.run.planted import MAX_SAID, Record, put_aside, settle, watched


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A directory with a git directory, and the state of an agent beside it."""
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "state").mkdir()
    return tmp_path / "shop"


def test_what_cannot_be_copied_is_not_obeyed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes, and directories without end, cannot be moved to another file system: they lose their name."""

    def fail(*_: Any) -> None:
        raise RecursionError

    place = watched(str(shop), ())
    (shop / ".git/hooks").mkdir()
    (shop / ".git/hooks/pre-commit").write_text("x")
    monkeypatch.setattr(shutil, "move", fail)
    [said] = put_aside(str(shop.parent / "data"), place)
    assert not (shop / ".git/hooks").exists()
    [left] = (shop / ".git").iterdir()
    assert left.name.startswith(".penstock-aside-")
    assert str(left) in said


def test_a_directory_that_the_agent_has_made_read_only(shop: Path) -> None:
    """What is in it is moved nevertheless."""
    place = watched(str(shop), ())
    (shop / ".git/config").write_text("x")
    (shop / ".git").chmod(0o555)
    [said] = put_aside(str(shop.parent / "data"), place)
    assert list((shop / ".git").iterdir()) == []
    assert "it is in" in said


def test_many_entries_are_one_sentence(shop: Path) -> None:
    """All are moved; the first ones are named."""
    state = shop.parent / "state"
    place = watched(str(shop), ((str(state), "settings*"),))
    for number in range(MAX_SAID + 30):
        (state / f"settings{number}").write_text("x")
    said = put_aside(str(shop.parent / "data"), place)
    assert len(said) == MAX_SAID + 1
    assert said[-1].startswith("30 more entries")
    assert list(state.iterdir()) == []


def test_a_record_is_settled_by_the_next_run(shop: Path) -> None:
    """Also if paths are no text, and if it was cut off."""
    odd = Path(os.fsdecode(os.fsencode(shop) + b"\xff"))
    odd.mkdir()
    data = str(shop.parent / "data")
    Record(data, watched(str(odd), ())).close()
    (shop.parent / "data/confined/cut.json").write_text("{")
    (odd / ".git").symlink_to("/elsewhere")
    [said] = settle(data)
    assert said.encode()
    assert not os.path.lexists(odd / ".git")
    assert os.listdir(shop.parent / "data/confined") == []
