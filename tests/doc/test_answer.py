"""`penstock.doc.answer`, for programs."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from penstock.doc import DocumentAnswer, answer, answer_async
from penstock.errors import AgentFailed, UsageError
from penstock.events import Event, RunEnded

if TYPE_CHECKING:
    from doc.conftest import Desk

FIRST = "# Notes\n\n## User\n\nHello?\n"


@pytest.fixture(autouse=True)
def _environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_CONFIG", "PENSTOCK_DATA"):
        monkeypatch.setenv(name, desk.env[name])


def test_the_result_describes_what_was_done(desk: Desk) -> None:
    """It has what was asked, what was published and where; events are passed on; the second time nothing is new."""
    file = desk.write("notes.md", FIRST)
    events: list[Event] = []
    done = answer(file, agent="scripted", cwd=desk.folder, on_event=events.append)
    assert (done.path, done.published, done.line, done.reply) == (str(file), True, 13, "Reply 1.")
    assert "Hello?" in done.asked
    assert done.result is not None
    assert done.result.session_id == "session-1"
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reply == "Reply 1."
    assert answer(file, cwd=desk.folder) == DocumentAnswer(path=str(file))
    assert len(desk.asked) == 1


def test_settings_of_agent_doc(desk: Desk) -> None:
    """A mode that only agent-doc's file sets is an error before an agent starts, also in a directory above."""
    (desk.folder / ".agent-doc").mkdir()
    desk.write(".agent-doc/components.toml", '[log]\nmode = "append"\n')
    (desk.folder / "notes").mkdir()
    text = "<!-- agent:log -->\n- a\n<!-- /agent:log -->\n<!-- agent:exchange -->\nHello?\n<!-- /agent:exchange -->\n"
    file = desk.write("notes/plan.md", text)
    with pytest.raises(UsageError, match="write <!-- agent:log patch=append -->"):
        answer(file, agent="scripted")
    assert desk.asked == []
    patched = desk.doc("patch", "notes/plan.md", "log", stdin="- b\n")
    assert (patched.returncode, file.read_text("utf-8")) == (2, text)
    desk.write("notes/plan.md", text.replace("agent:log -->", "agent:log patch=append -->", 1))
    assert answer(file, agent="scripted").published


@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
def test_settings_of_agent_doc_that_are_no_file(desk: Desk, kind: str) -> None:
    """An agent, or a repository with a link, could otherwise keep each document below from being written for ever."""
    (desk.folder / ".agent-doc").mkdir()
    settings = desk.folder / ".agent-doc/components.toml"
    if kind == "pipe":
        os.mkfifo(settings)
    else:
        settings.symlink_to("/dev/zero")
    file = desk.write("plan.md", "<!-- agent:log patch=append -->\n- a\n<!-- /agent:log -->\n")
    assert desk.doc("patch", "plan.md", "log", stdin="- b\n").returncode == 0
    assert "- a\n- b\n" in file.read_text("utf-8")


def test_in_an_event_loop(desk: Desk) -> None:
    """Two documents are answered in one event loop at once."""
    files = [desk.write(name, FIRST) for name in ("a.md", "b.md")]

    async def both() -> list[DocumentAnswer]:
        return list(await asyncio.gather(*(answer_async(file, agent="scripted") for file in files)))

    assert [done.published for done in asyncio.run(both())] == [True, True]


def test_errors(desk: Desk) -> None:
    """An agent that fails raises, and publishes nothing; so does a document that cannot be answered."""
    file = desk.write("notes.md", FIRST)
    desk.fail(1)
    with pytest.raises(AgentFailed) as failed:
        answer(file, agent="scripted")
    assert (failed.value.outcome, failed.value.reply) == ("error", "Reply 1.")
    assert file.read_text("utf-8") == FIRST
    desk.fail(2)
    assert answer(file, agent="scripted", partial=True).published
    with pytest.raises(UsageError, match="does not exist"):
        answer(desk.folder / "none.md", agent="scripted")
    with pytest.raises(UsageError, match="timeout"):
        answer(file, agent="scripted", timeout=-1)
