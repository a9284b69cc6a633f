"""D9: several documents at once, one document twice, a copy with the same id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from doc.conftest import Desk

TEXT = "# Notes\n\n## User\n\nA question.\n"


def test_two_documents_at_once(desk: Desk) -> None:
    """Both are answered, side by side."""
    holds = [desk.hold(1), desk.hold(2)]
    files = [desk.write(name, TEXT) for name in ("a.md", "b.md")]
    processes = [desk.start(file.name, "--agent", "scripted") for file in files]
    desk.until_asked(2)
    for hold in holds:
        hold.unlink()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    assert all("## Assistant" in file.read_text("utf-8") for file in files)


def test_the_same_document_twice(desk: Desk) -> None:
    """The second command is refused with the process of the first, also before the document has an id."""
    hold = desk.hold(1)
    file = desk.write("notes.md", TEXT)
    process = desk.start("notes.md", "--agent", "scripted")
    desk.until_asked(1)
    second = desk.doc("notes.md", "--agent", "scripted")
    assert second.returncode == 2
    assert f"by process {process.pid}" in second.stderr
    hold.unlink()
    process.communicate()
    assert (process.returncode, len(desk.asked)) == (0, 1)
    assert file.read_text("utf-8").count("## Assistant") == 1


def test_a_copy_with_the_same_id(desk: Desk) -> None:
    """A copied document is refused until it has an id of its own; a renamed one goes on."""
    file = desk.write("notes.md", TEXT)
    assert desk.doc("notes.md", "--agent", "scripted").returncode == 0
    text = file.read_text("utf-8")
    copy = desk.write("copy.md", text + "In the copy.\n")
    refused = desk.doc("copy.md")
    assert refused.returncode == 2
    assert "two documents have the same id" in refused.stderr
    assert len(desk.asked) == 1
    desk.write("copy.md", re.sub("agent_doc_session: .*\n", "", text))
    assert desk.doc("copy.md").returncode == 0
    ids = [re.findall("agent_doc_session: (.*)", path.read_text("utf-8")) for path in (file, copy)]
    assert len({*ids[0], *ids[1]}) == 2
    file.rename(desk.folder / "renamed.md")
    desk.write("renamed.md", text + "Renamed.\n")
    assert desk.doc("renamed.md").returncode == 0
    assert desk.asked[-1]["resume"] == "session-1"
