"""The changes of a turn, taken back: exactly, or not at all, and never over what somebody has changed since."""

from __future__ import annotations

import errno
import os
import random
import re
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.core import diffs
from penstock.core.diffs import join
from penstock.errors import UsageError
from penstock.events import Change, ToolReturned
from penstock.repo import left_files, names_before, patches, replace_file
from penstock.repo.file_undo import FileUndo
from penstock.repo.left_files import LeftFile
from penstock.repo.names_before import NamesBefore
from penstock.repo.undo import TurnUndo
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

PATTERNS = (".claude/settings.json", ".mcp.json", ".claude/hooks")
"""Files that start programs, as agents have them."""

Tree = dict[str, tuple[bytes, int]]


def tree_of(root: Path) -> Tree:
    """All files of a directory, with their permissions, however they got there."""
    found: Tree = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            status = path.lstat()
            content = os.readlink(path).encode() if stat.S_ISLNK(status.st_mode) else path.read_bytes()
            found[path.relative_to(root).as_posix()] = content, stat.S_IMODE(status.st_mode)
    return found


class Turn:
    """A turn that edits files, and reports its edits as an agent does."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.changes: list[Change] = []
        self.left: dict[str, LeftFile] = {}
        self._names: NamesBefore | None = None

    def begin(self) -> None:
        """Note the names of the files before the turn, once."""
        if self._names is None:
            self._names = NamesBefore(str(self.root))
            self._names.read()

    def edit(self, name: str, new: str | None, *, to: str | None = None) -> None:
        """Give a file another text, or none, or another name as well."""
        self.begin()
        path = self.root / name
        old = path.read_bytes().decode() if path.exists() else None
        target = self.root / (to or name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if new is None:
            path.unlink()
        else:
            mode = stat.S_IMODE(path.stat().st_mode) if old is not None else None
            target.write_bytes(new.encode())
            if mode is not None:
                target.chmod(mode)
            if target != path:
                path.unlink()
        self.changes.append(diffs.from_texts(str(path), old, new, to=None if to is None else str(target)))

    def report(self, change: Change) -> None:
        """Report a change of an agent's choice."""
        self.begin()
        self.changes.append(change)

    def end(self) -> Turn:
        """Note what the turn leaves."""
        self.begin()
        assert self._names is not None
        joined = join(self.changes)
        paths = [path for it in joined for path in (it.path, it.to) if path]
        self.left = left_files.left_files(str(self.root), paths, self._names.lacks)
        return self

    def undo(self, *, redo: bool = False, closed: tuple[str, ...] = ()) -> TurnUndo:
        """The undo of it."""
        return TurnUndo(str(self.root), join(self.changes), self.left, redo=redo, patterns=PATTERNS, closed=closed)


@pytest.fixture
def turn(tmp_path: Path) -> Turn:
    """A turn in a directory with a file."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.py").write_text("one\ntwo\nthree\n")
    return Turn(root)


def done(found: list[FileUndo]) -> list[tuple[str, str, str | None]]:
    """What was done to each file."""
    return [(it.path, it.does, it.reason) for it in found]


def stays(found: list[FileUndo]) -> str | None:
    """Why the only file stays."""
    (one,) = found
    assert one.does == "stay"
    assert one.text
    return one.reason


# --- exactly ---


def test_a_turn_is_taken_back_and_made_again(turn: Turn) -> None:
    """Each kind of change goes back, and again forward; the plan says the same, and writes nothing."""
    (turn.root / "gone.txt").write_text("bye")
    (turn.root / "old.txt").write_text("1\n2\n3\n")
    (turn.root / "a.py").chmod(0o750)
    before = tree_of(turn.root)
    turn.edit("a.py", "one\n2\nthree\nfour\n")
    turn.edit("a.py", "zero\none\n2\nthree\nfour\n")
    turn.edit("new/x.py", "new\n")
    turn.edit("gone.txt", None)
    turn.edit("old.txt", "1\ntwo\n3\n", to="dir/moved.txt")
    turn.end()
    after = tree_of(turn.root)
    plan = turn.undo().plan()
    assert tree_of(turn.root) == after
    assert done(plan) == [
        ("a.py", "restore", None), ("new/x.py", "remove", None), ("gone.txt", "write", None), ("old.txt", "move", None),
    ]  # fmt: skip
    assert plan[3].to == "dir/moved.txt"
    assert turn.undo().apply() == plan
    assert tree_of(turn.root) == before
    assert {it.does for it in turn.undo().apply()} == {"nothing"}  # once more does nothing more
    again = turn.undo(redo=True).plan()
    assert turn.undo(redo=True).apply() == again
    assert tree_of(turn.root) == after
    assert {it.does for it in turn.undo(redo=True).apply()} == {"nothing"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\r\nb\r\nc\r\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("a\nb", "a\nc"),
        ("", "a"),
        ("a", ""),
        ("\ufeffa\n", "a\n"),
        ("a\u2028b\x0cc\x85d\n", "a\u2028B\x0cc\x85d\n"),
        ("x\n" * 30, "x\n" * 15 + "y\n" + "x\n" * 15),
        ("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "@@ -1 +1 @@\n-a\n+c\n\\ No newline at end of file\n"),
    ],
)
def test_line_ends_and_characters_survive(turn: Turn, old: str, new: str) -> None:
    """What a file was before comes back byte for byte."""
    (turn.root / "ü \n'x.txt").write_bytes(old.encode())
    before = tree_of(turn.root)
    turn.edit("ü \n'x.txt", new)
    assert [it.does for it in turn.end().undo().apply()] == ["restore"]
    assert tree_of(turn.root) == before


@settings(max_examples=at_most(5, 300))
@given(st.integers(0, 2**32))
def test_random_turns(seed: int) -> None:
    """Random edits, joined as a turn has them: the directory is the copy that was made before, or files say why not."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        turn = Turn(Path(folder))
        names = ["a", "b", "sub/c", "sub/d e", "é"]
        (turn.root / "sub").mkdir()
        for name in names[:3]:
            (turn.root / name).write_bytes(_text(chance).encode())
            (turn.root / name).chmod(chance.choice([0o600, 0o644, 0o755]))
        before = tree_of(turn.root)
        for _ in range(chance.randint(1, 6)):
            there = [name for name in names if (turn.root / name).exists()]
            name = chance.choice(names)
            if name in there and chance.random() < 0.2:
                turn.edit(name, None)
            elif name in there and chance.random() < 0.2:
                free = [it for it in names if it not in there]
                if free:
                    turn.edit(name, _edited((turn.root / name).read_bytes().decode(), chance), to=chance.choice(free))
            else:
                old = (turn.root / name).read_bytes().decode() if name in there else ""
                turn.edit(name, _edited(old, chance))
        turn.end()
        after = tree_of(turn.root)
        plan = turn.undo().plan()
        assert tree_of(turn.root) == after
        touched = chance.random() < 0.5
        if not touched:
            found = turn.undo().apply()
            assert found == plan
            stay = [it for it in found if it.does == "stay"]
            assert {it.reason for it in stay} <= {"overwritten", "counted", "changed"}
            kept = {name for it in stay for name in (it.path, it.to) if name}
            got, was, has = (
                {name: content for name, (content, _) in it.items()} for it in (tree_of(turn.root), before, after)
            )
            for name in {*got, *was, *has}:
                assert got.get(name) == was.get(name) or (name in kept and got.get(name) == has.get(name))
            turn.undo(redo=True).apply()
            assert tree_of(turn.root).keys() == after.keys()
            assert {n: c for n, (c, _) in tree_of(turn.root).items()} == {n: c for n, (c, _) in after.items()}
            return
        # Somebody saves between the look and the click: whatever that is, it stays.
        if not after:
            return
        mine = chance.choice(sorted(after))
        (turn.root / mine).write_bytes(after[mine][0] + b"mine\n")
        turn.undo().apply()
        assert tree_of(turn.root)[mine][0] == after[mine][0] + b"mine\n"


def _text(chance: random.Random) -> str:
    lines = [
        chance.choice(["x", "y", "", "é", "\r"]) + chance.choice(["\n", "\r\n"]) for _ in range(chance.randint(0, 30))
    ]
    return "".join(lines) + chance.choice(["", "end"])


def _edited(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(lines))
        lines[place : place + chance.randint(0, 2)] = ["new" + str(chance.randint(0, 9))] * chance.randint(0, 2)
        lines = lines or [""]
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["new.py", "sub/dir/new.py"])
def test_a_new_file_of_an_agent_that_says_only_what_it_wrote(turn: Turn, name: str) -> None:
    """Most agents do. That there was no such file is known by the names before the turn."""
    turn.begin()
    (turn.root / name).parent.mkdir(parents=True, exist_ok=True)
    (turn.root / name).write_text("new\n")
    (turn.root / name).chmod(0o755)
    turn.report(diffs.from_content(str(turn.root / name), "new\n"))
    after = tree_of(turn.end().root)
    assert [it.does for it in turn.undo().apply()] == ["remove"]
    assert not (turn.root / name).exists()
    assert [it.does for it in turn.undo(redo=True).apply()] == ["write"]
    assert tree_of(turn.root) == after


def test_names_that_were_not_read(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in a directory that is not read, or that is read too late, may have been there."""
    (turn.root / "node_modules").mkdir()
    names = NamesBefore(str(turn.root))
    names.read()
    assert names.lacks(f"{turn.root}/b.py")
    assert names.lacks(f"{turn.root}/sub/b.py")
    for known in ("a.py", "A.PY", "node_modules/x", "../b", ""):
        assert not names.lacks(f"{turn.root}/{known}")
    monkeypatch.setattr(names_before, "MAX_NAMES", 1)
    few = NamesBefore(str(turn.root))
    few.read()
    assert not few.lacks(f"{turn.root}/b.py")


# --- what stays ---


@pytest.mark.parametrize(
    "text", ["one\n2\nthree\nmine\n", "one\n2\nthreE\n", "", "one\ntwo\nthree\n\n", "one\r\n2\r\nthree\r\n"]
)
def test_a_file_that_was_changed_since_stays(turn: Turn, text: str) -> None:
    """Also if the change is far from that of the turn, or of one character."""
    turn.edit("a.py", "one\n2\nthree\n")
    turn.end()
    (turn.root / "a.py").write_bytes(text.encode())
    assert stays(turn.undo().apply()) == "changed"
    assert (turn.root / "a.py").read_bytes() == text.encode()


def test_a_change_far_from_that_of_the_turn(turn: Turn) -> None:
    """A reverse patch alone would fit here, and take a file back that is not as the turn left it."""
    (turn.root / "a.py").write_text("x\n" * 100)
    turn.edit("a.py", "y\n" + "x\n" * 99)
    turn.end()
    (turn.root / "a.py").write_text("y\n" + "x\n" * 98 + "mine\n")
    assert stays(turn.undo().apply()) == "changed"


def test_other_files_go_back_nevertheless(turn: Turn) -> None:
    """One file that stays does not keep the others."""
    turn.edit("a.py", "one\n")
    turn.edit("b.py", "new\n")
    turn.end()
    (turn.root / "a.py").write_text("mine\n")
    assert done(turn.undo().apply()) == [("a.py", "stay", "changed"), ("b.py", "remove", None)]
    assert tree_of(turn.root)["a.py"][0] == b"mine\n"


def test_a_name_that_is_taken_again(turn: Turn) -> None:
    """A file that the turn deleted, and somebody has made again, is theirs; a directory in its place too."""
    turn.edit("a.py", None)
    turn.end()
    (turn.root / "a.py").write_text("mine\n")
    assert stays(turn.undo().apply()) == "changed"
    (turn.root / "a.py").unlink()
    (turn.root / "a.py").mkdir()
    assert stays(turn.undo().apply()) == "kind"
    (turn.root / "a.py").rmdir()
    assert [it.does for it in turn.undo().apply()] == ["write"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: diffs.named(path, "update"), "counted"),
        (lambda path: diffs.named(path, "update", added=1, removed=1), "counted"),
        (lambda path: diffs.named(path, "delete", added=0, removed=0), "counted"),
        (lambda path: diffs.from_fragments(path, [("two", "2")]), "unplaced"),
        (lambda path: diffs.from_content(path, "one\n2\nthree\n"), "overwritten"),
        (lambda path: diffs.from_texts(path, None, "one\n2\nthree\n"), "overwritten"),
        (lambda path: diffs.from_unified(path, "@@ -2 +2 @@\n-two\n+other\n"), "unfit"),
        (lambda path: diffs.from_unified(path, "@@ -1,9 +1,3 @@\n one\n-two\n+2\n three\n"), "unfit"),
        (lambda path: diffs.from_texts(path, "x\n" * 6_000, "y\n" * 6_000), "cut"),
    ],
)
def test_what_the_agent_did_not_report(turn: Turn, change: Callable[[str], Change], reason: str) -> None:
    """Without a whole, positioned diff that fits, nothing is guessed."""
    (turn.root / "a.py").write_text("one\n2\nthree\n")
    turn.report(change(str(turn.root / "a.py")))
    assert stays(turn.end().undo().apply()) == reason
    assert (turn.root / "a.py").read_text() == "one\n2\nthree\n"


def test_what_was_not_noted(turn: Turn) -> None:
    """A turn whose end was not seen has left something that is not known."""
    turn.edit("a.py", "one\n")
    assert stays(turn.undo().apply()) == "unknown"


def test_what_is_not_text(turn: Turn) -> None:
    """Bytes that no diff can show stay."""
    turn.report(diffs.from_texts(str(turn.root / "a.py"), "a", "b"))
    turn.end()
    for content in (b"b\0", b"b\xff"):
        (turn.root / "a.py").write_bytes(content)
        assert stays(turn.end().undo().apply()) == "binary"


def test_a_huge_file(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read as a whole."""
    turn.edit("a.py", "one\n")
    turn.end()
    monkeypatch.setattr(left_files, "MAX_FILE_BYTES", 1000)
    with open(turn.root / "a.py", "wb") as file:
        file.truncate(10**12)
    assert stays(turn.undo().apply()) == "large"


# --- attacks ---


def test_a_link_in_place_of_a_file_or_a_directory(turn: Turn, tmp_path: Path) -> None:
    """The files of others are never read, written or removed through a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    turn.edit("dir/x", "new\n")
    turn.edit("a.py", "one\n")
    turn.end()
    for name, content in (("x", "new\n"), ("a.py", "one\n")):
        (outside / name).write_text(content)
    before = tree_of(outside)
    os.rename(turn.root / "dir", tmp_path / "away")
    (turn.root / "dir").symlink_to(outside)
    (turn.root / "a.py").unlink()
    (turn.root / "a.py").symlink_to(outside / "a.py")
    assert done(turn.undo().apply()) == [("dir/x", "stay", "link"), ("a.py", "stay", "link")]
    assert tree_of(outside) == before
    # The directory of the chat itself became a link, or one above it.
    os.rename(turn.root, tmp_path / "real")
    turn.root.symlink_to(tmp_path / "real")
    with pytest.raises(UsageError):
        turn.undo().apply()


def test_another_name_of_the_file(turn: Turn, tmp_path: Path) -> None:
    """A file with a second name would be another one for it."""
    turn.edit("a.py", "one\n")
    turn.end()
    os.link(turn.root / "a.py", tmp_path / "other")
    assert stays(turn.undo().apply()) == "hard_link"
    assert (tmp_path / "other").read_text() == "one\n"


def test_a_pipe_or_a_socket_blocks_nothing(turn: Turn) -> None:
    """Nobody is waited for."""
    turn.edit("a.py", "one\n")
    turn.end()
    (turn.root / "a.py").unlink()
    os.mkfifo(turn.root / "a.py")
    assert stays(turn.undo().apply()) == "kind"


@pytest.mark.parametrize("path", ["/etc/x", "../x", "sub/../../x", "a\0b", "", "x/"])
def test_a_path_that_leads_out(turn: Turn, path: str) -> None:
    """A report of an agent names any path. Only plain ones in the directory count."""
    turn.report(diffs.from_texts(path if path.startswith("/") else f"{turn.root}/{path}", "planted\n", None))
    turn.end()
    turn.left |= {it.path: LeftFile("") for it in turn.changes}
    before = tree_of(turn.root.parent)
    assert stays(turn.undo().apply()) == "outside"
    assert tree_of(turn.root.parent) == before


@pytest.mark.parametrize(
    "name",
    [".git/hooks/pre-commit", "sub/.GIT/config", ".mcp.json", ".claude/settings.json", "x/.claude/hooks/a.sh", "own/x"],
)
def test_a_report_that_plants_a_program(turn: Turn, name: str) -> None:
    """A made-up deletion would let an undo write, outside of all confinement, what the next program runs."""
    turn.report(diffs.from_texts(f"{turn.root}/{name}", "#!/bin/sh\nevil\n", None))
    assert stays(turn.end().undo(closed=(str(turn.root / "own"),)).apply()) == "protected"
    assert not (turn.root / name).exists()


@pytest.mark.parametrize("saves", ["once", "each time"])
def test_a_save_at_the_last_moment(turn: Turn, monkeypatch: pytest.MonkeyPatch, saves: str) -> None:
    """Whoever saves between the last look and the exchange finds their text, and nothing is left beside it.

    Who saves again, in the moment of the exchange back, loses nothing either: an earlier text is beside it then.
    """
    for name in ("b", "c"):
        (turn.root / name).write_text("1\n")
    turn.edit("a.py", "one\n")
    turn.edit("b", "2\n", to="moved")
    turn.edit("new", "1\n")
    turn.end()
    made, left = replace_file._rename, ["a.py", "moved", "new"]

    def rename(folder: int, name: str, to: str, linux: int, macos: int) -> None:
        for it in {name, to} & {*left}:
            if saves == "once":
                left.remove(it)
            (turn.root / f"{it}.save").write_text(f"mine {it}\n")
            os.replace(turn.root / f"{it}.save", turn.root / it)
        made(folder, name, to, linux, macos)

    monkeypatch.setattr(replace_file, "_rename", rename)
    assert {it.reason for it in turn.undo().apply()} == {"changed"}
    monkeypatch.undo()
    kept = {name: content for name, (content, _) in tree_of(turn.root).items()}
    beside = [kept.pop(name) for name in [*kept] if name.startswith(replace_file.PREFIX)]
    assert len(beside) == (3 if saves == "each time" else 0)
    assert all(content.startswith(b"mine") for content in beside)
    assert kept == {
        **{it: f"mine {it}\n".encode() for it in ("a.py", "moved", "new")}, "c": b"1\n",
    }  # fmt: skip


@pytest.mark.parametrize("call", ["open", "write", "fsync", "_rename"])
def test_a_full_disk(turn: Turn, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A file that cannot be written is as it was, and nothing is left beside it."""
    (turn.root / "moved").write_text("1\n")
    (turn.root / "gone").write_text("1\n")
    turn.edit("a.py", "one\n")
    turn.edit("moved", "2\n", to="here")
    turn.edit("gone", None)
    turn.end()
    after = tree_of(turn.root)

    class Full:
        """The system calls of a disk that is full."""

        def __getattr__(self, name: str) -> object:
            return getattr(os, name) if name != call else self.fail

        def open(self, path: str, flags: int, *more: int, **named: int) -> int:
            if call == "open" and flags & os.O_CREAT:
                self.fail()
            return os.open(path, flags, *more, **named)

        def fail(self, *_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    if call == "_rename":
        monkeypatch.setattr(replace_file, "_rename", Full().fail)
    else:
        monkeypatch.setattr(replace_file, "os", Full())
    found = turn.undo().apply()
    monkeypatch.undo()
    assert [(it.does, it.reason) for it in found] == [("stay", "failed")] * 3
    assert all("No space left" in (it.text or "") for it in found)
    assert tree_of(turn.root) == after


def test_a_file_system_that_cannot_exchange(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain renames do it there."""

    def rename(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    (turn.root / "moved").write_text("1\n")
    (turn.root / "gone").write_text("1\n")
    before = tree_of(turn.root)
    turn.edit("a.py", "one\n")
    turn.edit("moved", "2\n", to="here")
    turn.edit("gone", None)
    turn.edit("new", "x")
    turn.end()
    monkeypatch.setattr(replace_file, "_rename", rename)
    assert [it.does for it in turn.undo().apply()] == ["restore", "move", "write", "remove"]
    assert tree_of(turn.root) == before


def test_a_directory_that_cannot_be_written(unprivileged: Path) -> None:
    """The reason is the system's own."""
    root = unprivileged / "work"
    root.mkdir()
    (root / "a").write_text("1\n")
    turn = Turn(root)
    turn.edit("a", "2\n")
    turn.end()
    root.chmod(0o500)
    (found,) = turn.undo().apply()
    assert found.text == "cannot be written: Permission denied"
    assert (root / "a").read_text() == "2\n"


def test_two_at_once(turn: Turn) -> None:
    """Of two undos each file is taken back by one, or found as it was, and is whole at any time."""
    for number in range(at_most(10, 40)):
        (turn.root / str(number)).write_text("1\n")
    before = tree_of(turn.root)
    for number in range(at_most(10, 40)):
        turn.edit(str(number), "2\n")
    turn.end()
    found: list[list[FileUndo]] = []
    threads = [threading.Thread(target=lambda: found.append(turn.undo().apply())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tree_of(turn.root) == before
    for each in zip(*found, strict=True):
        assert [it.does for it in each].count("restore") == 1


def test_extended_attributes_and_the_owner_stay(turn: Turn) -> None:
    """What a file has beside its text is that of the file as the turn left it."""
    turn.edit("a.py", "one\n")
    turn.end()
    try:
        os.setxattr(turn.root / "a.py", "user.penstock", b"kept")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes here")
    if os.geteuid() == 0:
        os.chown(turn.root / "a.py", 65534, 65534)
    owner = (turn.root / "a.py").stat().st_uid
    assert [it.does for it in turn.undo().apply()] == ["restore"]
    assert os.getxattr(turn.root / "a.py", "user.penstock") == b"kept"
    assert (turn.root / "a.py").stat().st_uid == owner


def test_the_patches_are_those_of_the_patch_program(turn: Turn) -> None:
    """An independent judge: `git apply -R` makes the same of random texts."""
    chance = random.Random(7)
    for _ in range(at_most(5, 40)):
        old, new = _text(chance), _text(chance)
        (turn.root / "a.py").write_bytes(new.encode())
        diff = diffs.from_texts("a.py", old, new).diff
        if diff is None:
            continue
        patch = f"--- a/a.py\n+++ b/a.py\n{diff}"
        command = ["git", "apply", "-R", "--unidiff-zero", "--whitespace=nowarn", "-"]
        subprocess.run(command, input=patch.encode(), cwd=turn.root, check=True)
        assert (turn.root / "a.py").read_bytes().decode() == old == patches.taken_back(diff, new)


def sides(change: Change) -> tuple[str | None, str]:
    """A file that a diff fits to, before and after: its lines are at their numbers, and others are between them."""
    before: list[str] = []
    after: list[str] = []
    last = ""
    for line in change.diff.removesuffix("\n").split("\n") if change.diff else ():
        if found := re.match(r"@@ -(\d+)(,0)?.* \+", line):
            gap = int(found[1]) - (0 if found[2] else 1) - len(before)
            lines = [f"between {number}\n" for number in range(gap)]
            before, after = before + lines, after + lines
        elif line.startswith("\\"):
            for side in [after] if last == "+" else [before] if last == "-" else [before, after]:
                side[-1] = side[-1][:-1]
        else:
            before += [line[1:] + "\n"] * (line[0] != "+")
            after += [line[1:] + "\n"] * (line[0] != "-")
        last = line[:1]
    return None if change.kind == "add" else "".join(before), "".join(after)


def test_what_real_agents_report(recording: Recording, tmp_path: Path) -> None:
    """The changes of recorded runs, made in a directory, are taken back; what an agent did not report stays."""
    events = feeds.whole(Stream(recording.agent), recording.data)
    returned = [it for it in events if isinstance(it, ToolReturned) and not it.failed and it.complete]
    root = tmp_path / recording.name  # one call reads several recordings
    root.mkdir(parents=True)
    turn = Turn(root)
    turn.begin()
    for number, change in enumerate(it for event in returned for it in event.changes or ()):
        change = replace(change, path=f"{turn.root}/{number}/{Path(change.path).name}", to=None)
        turn.report(change if change.kind != "move" else replace(change, kind="update"))
    before: Tree = {}
    for change in turn.changes:  # each is of a file of its own here
        old, new = sides(change)
        path = Path(change.path)
        path.parent.mkdir()
        if old is not None:
            path.write_bytes(old.encode())
            before |= {path.relative_to(turn.root).as_posix(): (old.encode(), 0)}
            turn._names = None
            turn.begin()
        if change.kind != "delete":
            path.write_bytes(new.encode())
        else:
            path.unlink()
    turn.end()
    after = tree_of(turn.root)
    for one in turn.undo().apply():
        found = tree_of(turn.root).get(one.path)
        if one.does == "stay":
            assert one.reason in ("counted", "unplaced", "overwritten", "cut", "protected")
            assert found == after.get(one.path)
        else:
            assert (found or (None,))[0] == before.get(one.path, (None,))[0]


def test_the_limits_of_what_is_noted(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn with very many files is noted up to a limit; the others stay."""
    monkeypatch.setattr(left_files, "MAX_LEFT_FILES", 1)
    turn.edit("a.py", "one\n")
    turn.edit("b.py", "new\n")
    assert done(turn.end().undo().apply()) == [("a.py", "restore", None), ("b.py", "stay", "unknown")]
