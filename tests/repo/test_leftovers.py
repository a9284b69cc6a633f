"""What trees have left: trees that were given up, and what was moved out of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from penstock.repo.leftovers import clean_leftovers, days_ago, names_with_leftovers
from penstock.repo.tree import TreeRecord, abandon, abandoned_records, write_record
from penstock.repo.trees import home_of, remove

OLD = 4_000_000_000.0
"""A time in the year 2096: all that a test makes is older."""


def given_up(tmp_path: Path, name: str = "app.l1") -> tuple[Path, Path]:
    """Return the data directory and the place of a tree that was given up."""
    data, place = tmp_path / "data", tmp_path / name
    place.mkdir()
    (place / "text").write_text("work")
    made = place.lstat()
    record = TreeRecord(
        name="l1",
        owner="loop",
        label="l1",
        path=str(place),
        repository=str(tmp_path / "app"),
        base="",
        branch="penstock/l1",
        made_at=0,
        device=made.st_dev,
        inode=made.st_ino,
        user=made.st_uid,
    )
    home = home_of(data, "l1")
    home.mkdir(parents=True)
    write_record(home, record)
    abandon(home)
    return data, place


def test_a_link_in_the_place_of_a_tree_is_removed_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    """The record goes with it, so nothing is left in the data directory."""
    data, place = given_up(tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "text").write_text("of the user")
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "app")
    assert names_with_leftovers(data) == ["l1"]
    [dry] = clean_leftovers(data, "l1", dry=True)
    assert dry.is_removable
    assert place.is_symlink()
    assert clean_leftovers(data, "l1") == [dry]
    assert not os.path.lexists(place)
    assert (tmp_path / "app" / "text").read_text() == "of the user"
    assert (tmp_path / "moved" / "text").exists()
    assert not home_of(data, "l1").exists()
    assert names_with_leftovers(data) == []


def test_a_tree_that_was_given_up_is_removed_by_its_age_only(tmp_path: Path) -> None:
    """Its files are in no ref that could be compared, so they may be somebody's work."""
    data, place = given_up(tmp_path)
    [kept] = clean_leftovers(data, "l1")
    assert (kept.is_removable, kept.path) == (False, str(place))
    assert "--older-than DAYS removes it" in kept.text
    [young] = clean_leftovers(data, "l1", before=days_ago(1))
    assert young.text.endswith("is not so old")
    assert (place / "text").exists()
    assert clean_leftovers(data, "l1", before=OLD)[0].is_removable
    assert not place.exists()
    assert not home_of(data, "l1").exists()


def test_another_directory_is_never_removed(tmp_path: Path) -> None:
    """What Penstock has not made may be the user's own checkout, which an agent has moved there."""
    data, place = given_up(tmp_path)
    place.rename(tmp_path / "moved")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "text").write_text("of the user")
    (tmp_path / "app").rename(place)
    [kept] = clean_leftovers(data, "l1", before=OLD)
    assert kept.text == "was replaced by another directory, which Penstock has not made: remove it by hand"
    assert (place / "text").read_text() == "of the user"
    (place / "text").unlink()
    place.rmdir()
    place.write_text("a text")
    assert not clean_leftovers(data, "l1", before=OLD)[0].is_removable
    assert place.read_text() == "a text"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_tree_with_a_process_is_kept(tmp_path: Path) -> None:
    """A process that could not be ended may work there until somebody ends it."""
    data, place = given_up(tmp_path)
    process = subprocess.Popen(["sleep", "1000"], cwd=place)
    try:
        assert clean_leftovers(data, "l1", before=OLD)[0].text == f"process {process.pid} works in it"
    finally:
        process.kill()
        process.wait()
    assert (place / "text").exists()


def test_the_next_tree_at_the_same_place_is_no_leftover(tmp_path: Path) -> None:
    """A tree that was made again where the first one was is the tree of the loop."""
    data, place = given_up(tmp_path)
    [record] = abandoned_records(home_of(data, "l1")).values()
    write_record(home_of(data, "l1"), record)
    assert clean_leftovers(data, "l1", before=OLD) == []
    assert (place / "text").exists()


def test_a_look_removes_no_record(tmp_path: Path) -> None:
    """Only a removal forgets a tree that was given up and is gone."""
    data, place = given_up(tmp_path)
    place.rename(tmp_path / "moved")
    assert clean_leftovers(data, "l1", dry=True) == []
    assert names_with_leftovers(data) == ["l1"]
    assert clean_leftovers(data, "l1") == []
    assert names_with_leftovers(data) == []


def test_a_second_record_never_replaces_the_first(tmp_path: Path) -> None:
    """Also if the first of them was removed meanwhile."""
    data, _ = given_up(tmp_path)
    home = home_of(data, "l1")
    [(file, record)] = abandoned_records(home).items()
    for _ in range(2):
        write_record(home, record)
        abandon(home)
    file.unlink()
    write_record(home, record)
    abandon(home)
    assert len(abandoned_records(home)) == 3


def test_the_removal_of_a_tree_keeps_the_records_of_others(tmp_path: Path) -> None:
    """With its home removed, nothing would know the trees that were given up before."""
    data, place = given_up(tmp_path)
    home = home_of(data, "l1")
    [record] = abandoned_records(home).values()
    write_record(home, msgspec.structs.replace(record, path=str(tmp_path / "gone")))
    assert remove(home).state == "gone"
    assert names_with_leftovers(data) == ["l1"]
    assert clean_leftovers(data, "l1", before=OLD)[0].path == str(place)
    assert not home.exists()


def test_what_was_moved_out_goes_unless_it_has_files(tmp_path: Path) -> None:
    """Pipes, links and empty directories go; a git directory of an agent's goes by its age."""
    data = tmp_path / "data"
    names = ("pipe", "link", "git", "empty")
    pipe, link, git, empty = (data / "aside" / "l1" / name for name in names)
    for folder in (pipe, link, git, empty):
        folder.mkdir(parents=True)
    os.mkfifo(pipe / ".gitignore")
    (tmp_path / "text").write_text("of the user")
    (link / ".gitattributes").symlink_to(tmp_path / "text")
    (git / ".git").mkdir()
    (git / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (empty / "sub").mkdir()
    assert names_with_leftovers(data) == ["l1"]
    found = {Path(one.path).name: one for one in clean_leftovers(data, "l1")}
    assert {name: one.is_removable for name, one in found.items()} == dict.fromkeys(names, True) | {"git": False}
    assert "1 file, 21 bytes" in found["git"].text
    assert [path.name for path in (data / "aside" / "l1").iterdir()] == ["git"]
    assert (tmp_path / "text").read_text() == "of the user"
    assert clean_leftovers(data, "l1", before=OLD)[0].is_removable
    assert not (data / "aside").exists()


def test_what_was_moved_beside_a_tree_goes_without_files_only(tmp_path: Path) -> None:
    """An agent can make such a directory too, so its age says nothing."""
    data, place = given_up(tmp_path)
    beside = [place.with_name(f"{place.name}.aside-{name}") for name in ("a", "b")]
    for folder in beside:
        folder.mkdir()
    os.mkfifo(beside[0] / ".gitignore")
    (beside[1] / "text").write_text("of the user")
    texts = {one.path: one.text for one in clean_leftovers(data, "l1", before=OLD)}
    assert texts[str(beside[1])] == "moved out of a tree, 1 file, 11 bytes: remove it by hand"
    assert not beside[0].exists()
    assert (beside[1] / "text").exists()
