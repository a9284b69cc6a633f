"""Files that an agent reported to have changed and that are not there are found, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.events import Change, RunStarted, ToolCalled, ToolReturned
from penstock.run.made_files import MAX_FILES, MadeFiles


def returned(name: str, *changes: Change) -> ToolReturned:
    """The result of a call."""
    return ToolReturned(
        agent="a", call_id="c", text="", is_error=False, complete=True, name=name, changes=[*changes] or None
    )


def called(kind: Any) -> ToolCalled:
    """A call of a tool of this kind."""
    return ToolCalled(agent="a", call_id="c", name="x", input={}, title="", tool_kind=kind)


def edit(path: str, kind: Any = "add", to: str | None = None) -> ToolReturned:
    """The result of an edit."""
    return returned("edit", Change(path, kind, to))


@pytest.mark.parametrize(
    ("events", "missing"),
    [
        ([edit("there"), edit("sub/there")], None),
        ([edit("gone")], "a change of a file, and there is no such file: gone"),
        ([edit("gone", "update"), edit("gone", "update")], "a change of a file, and there is no such file: gone"),
        ([edit(f"{number}") for number in range(5)], "5 files, and there is no such file: 0, 1, 2 and 2 more"),
        ([edit("gone"), edit("gone", "delete")], None),
        ([edit("gone"), edit("gone", "move", "there")], None),
        ([edit("there", "move", "gone")], "there is no such file: gone"),
        ([edit("gone"), called("execute")], None),
        ([called("execute"), edit("gone"), returned("Bash")], None),
        ([called("execute"), returned("Bash"), edit("gone")], "no such file: gone"),
        ([edit("gone"), called("read"), returned("Read")], "no such file: gone"),
        ([edit("link")], None),
        ([edit("there/below")], None),
        ([edit("../gone"), edit("/nowhere/gone"), edit("~/gone"), edit("a\0b"), edit("x" * 5000)], None),
        ([RunStarted(agent="a", cwd="sub"), edit("gone")], None),
    ],
)
def test_what_is_missing(tmp_path: Path, events: list[Any], missing: str | None) -> None:
    """Only files of the directory count, and only if no command could have removed them."""
    for path in ("there", "sub/there"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "link").symlink_to("nowhere")
    made = MadeFiles(str(tmp_path))
    made.observe(events)
    found = made.missing()
    assert found == missing if missing is None else found is not None and found.endswith(missing)


def test_paths_of_the_agents_own_directory(tmp_path: Path) -> None:
    """A relative path is one of the directory that the agent names; a folder with the same beginning is another one."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "there").touch()
    made = MadeFiles(str(tmp_path))
    made.observe([RunStarted(agent="a", cwd=str(tmp_path / "sub")), edit("there"), edit(f"{tmp_path}-2/gone")])
    assert made.missing() is None


def test_memory_is_bounded(tmp_path: Path) -> None:
    """An agent that reports any number of files costs a bounded number of looks, and a sentence of bounded length."""
    made = MadeFiles(str(tmp_path))
    made.observe(edit(f"{number}{'x' * 240}") for number in range(MAX_FILES + 5))
    found = made.missing()
    assert found is not None
    assert f"{MAX_FILES} files" in found
    assert len(found) < 1000
