"""`/undo` and `/redo` at a real terminal: what a prompt changed is shown, taken back after a yes, and made again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from talk import Talk

from penstock.cli.editor.run_edits import RunEdits
from penstock.cli.editor.undo import Undos, summary
from penstock.core import diffs
from penstock.events import ToolCalled, ToolReturned
from penstock.repo.file_undo import FileUndo

from .test_line_editor import CTRL_D, TAB, Place

AGENT = Path(__file__).parents[1] / "support" / "editing_agent.py"
A: dict[str, Any] = {"agent": "test"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place with an agent that really edits, whose conversations are ended."""
    made = Place(tmp_path)
    made.config.write_text(f'[agents.claude]\ncommand = ["{sys.executable}", "-S", "{AGENT}"]\n')
    yield made
    for talk in made.talks:
        talk.close()


def works(talk: Talk, times: int = 1, **asked: Any) -> None:
    """Send a prompt, and wait until the agent has done it."""
    talk.type(json.dumps(asked) + "\r")
    talk.until("Done.", times)
    talk.asked()


@pytest.mark.slow
def test_prompts_are_taken_back_one_after_another(place: Place) -> None:
    """The newest first; what was changed since stays; a no changes nothing; redo makes the last one again."""
    file, new = place.folder / "a.txt", place.folder / "new.txt"
    file.write_text("one\n")
    talk = place.talk(columns=200)
    talk.asked()
    works(talk, write={"a.txt": "two\n", "new.txt": "x\n"}, run="true")
    works(talk, 2, write={"a.txt": "three\n"})
    talk.type("/un" + TAB)
    talk.asked("/undo")
    talk.type("\r")
    talk.until("  a.txt gets its text from before")
    talk.until("Take back 1 file? [y/N]")
    talk.type("n\r")
    talk.until("Nothing was changed.")
    talk.asked()
    assert file.read_text() == "three\n"
    talk.type("/undo\r")
    talk.until("Take back 1 file? [y/N]", 2)
    talk.type("y\r")
    talk.until("1 file is as before.")
    talk.asked()
    assert file.read_text() == "two\n"
    talk.type("/undo\r")
    talk.until("  new.txt is removed")
    talk.until("A command ran as well. Changes by commands are not taken back.")
    talk.until("Take back 2 files? [y/N]")
    new.write_text("mine\n")  # between the look and the answer
    talk.type("yes\r")
    talk.until("new.txt was changed since, and stays.")
    talk.asked()
    assert (file.read_text(), new.read_text()) == ("one\n", "mine\n")
    talk.type("/undo\r")
    talk.until("There is nothing to take back.")
    talk.asked()
    talk.type("/redo\r")
    talk.until("Change 1 file again? [y/N]")
    talk.type("y\r")
    talk.until("1 file is changed again.")
    talk.asked()
    assert (file.read_text(), new.read_text()) == ("two\n", "mine\n")
    assert talk.end(CTRL_D) == 0


@pytest.mark.slow
@pytest.mark.parametrize("keys", [CTRL_D, "maybe\r"])
def test_only_a_yes_takes_back(place: Place, keys: str) -> None:
    """Ctrl-D or other words at the question leave the files and the conversation as they are."""
    file = place.folder / "a.txt"
    file.write_text("one\n")
    talk = place.talk(columns=200)
    talk.asked()
    works(talk, write={"a.txt": "two\n"})
    talk.type("/undo\r")
    talk.until("Take back 1 file? [y/N]")
    talk.type(keys)
    talk.asked()
    assert file.read_text() == "two\n"
    works(talk, 2, write={"a.txt": "three\n"})
    assert talk.end(CTRL_D) == 0


def collected(folder: Path, *changes: Any, may_edit: bool = True) -> RunEdits:
    """The edits of a run that reported these changes."""
    edits = RunEdits(str(folder), may_edit=may_edit)
    edits.begin()
    edits._reading.join()
    edits.observe([ToolCalled(call_id="c", name="Bash", input={}, title="", tool_kind="execute", **A)])
    for path, old, new in changes:
        Path(path).write_text(new)
        change = diffs.from_texts(str(path), old, new)
        result = ToolReturned(call_id="c", text="", is_error=False, complete=True, changes=[change], **A)
        edits.observe([result])
    edits.prompt = "fix \x1b[31mit"
    edits.end()
    return edits


def test_a_directory_by_a_link(tmp_path: Path) -> None:
    """An agent that names the directory as the user does has changed the same files."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("old\n")
    (tmp_path / "link").symlink_to("real")
    edits = collected(tmp_path / "link", (tmp_path / "link" / "a", "old\n", "new\n"))
    assert [(it.path, it.does) for it in edits.undo().apply()] == [("a", "restore")]
    assert (tmp_path / "real" / "a").read_text() == "old\n"
    assert edits.commands == 1


def test_an_agent_that_may_only_read(tmp_path: Path) -> None:
    """What it reports to have changed is no reason to write anything."""
    (tmp_path / "a").write_text("new\n")
    edits = collected(tmp_path, (tmp_path / "a", "planted\n", "new\n"), may_edit=False)
    assert [(it.does, it.reason) for it in edits.undo().apply()] == [("stay", "unknown")]


def test_without_a_terminal_nothing_is_taken_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """There is nobody who could agree; a prompt whose changes all stay gives way to the one before it."""
    (tmp_path / "a").write_text("old\n")
    undos = Undos()
    undos.add(collected(tmp_path, (tmp_path / "a", "old\n", "new\n")))
    undos.add(collected(tmp_path))
    undos.undo()
    undos.undo()
    said = capfd.readouterr().out
    assert "Nothing can be taken back here; /undo again looks at the prompt before it." in said
    assert "  a gets its text from before" in said
    assert "\x1b" not in said
    assert said.endswith("Nothing was changed.\n")
    assert (tmp_path / "a").read_text() == "new\n"
    assert os.listdir(tmp_path) == ["a"]


def test_what_was_done_in_words() -> None:
    """One sentence, and one for each file that stays."""
    files = [FileUndo("a", "restore"), FileUndo("b", "stay", reason="changed", text="was changed since")]
    assert summary(files, redo=False) == "1 file is as before.\nb was changed since, and stays.\n"
    assert summary(files[1:], redo=False).startswith("No file was changed.\n")
    assert summary([files[0]] * 2, redo=True) == "2 files are changed again.\n"
