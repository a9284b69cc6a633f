"""Replies that did not reach their document, or are missing in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.doc import publish as module
from penstock.doc.merge import PROPOSED
from penstock.doc.opened import OpenDocument
from penstock.doc.pending_reply import pending_reply
from penstock.doc.publish import PublishError
from penstock.doc.recovery import OVERWRITTEN, PUBLISHED_NOW, is_overwritten, publish_again, recover
from penstock.doc.state import DocumentState, Pending

QUESTION = "---\nagent: claude\n---\n# Notes\n\n## User\n\nA question.\n"
ANSWERED = f"{QUESTION}\n## Assistant\n\nThe answer.\nIn two lines.\n\n## User\n\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A document with a question."""
    path = tmp_path / "notes.md"
    path.write_text(QUESTION)
    return path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DocumentState]:
    """The state of the document, with a reply that is pending."""
    monkeypatch.setattr(module, "LATE_SECONDS", 0.0)
    state = DocumentState(tmp_path / "data", "an-id")
    with state.lock():
        state.write_pending(answer())
        yield state


def answer() -> Pending:
    """A reply."""
    return pending_reply("r1", "", QUESTION, "The answer.\nIn two lines.\n", {}, 0)


def test_a_pending_reply_is_published_first(path: Path, state: DocumentState) -> None:
    """It is published once, and the user is told."""
    assert recover(path, state) == (PUBLISHED_NOW,)
    assert path.read_text() == ANSWERED
    assert recover(path, state) == ()
    assert path.read_text() == ANSWERED


def test_a_pending_reply_that_is_there(path: Path, state: DocumentState) -> None:
    """A reply that is in the document, with more text of the user, is not published a second time."""
    state.write_pending(msgspec.structs.replace(answer(), tries=1))
    path.write_text(f"{ANSWERED}And more.\n")
    recover(path, state)
    assert path.read_text() == f"{ANSWERED}And more.\n"
    assert state.pending() is None
    assert state.snapshot == ANSWERED


def test_a_pending_reply_whose_words_the_user_has_typed(path: Path, state: DocumentState) -> None:
    """A reply that was never written is not taken for words of the user that are the same."""
    asked = "<!-- agent:exchange -->\nA question.\n<!-- /agent:exchange -->\n"
    state.write_pending(pending_reply("r2", "", asked, "Yes.\n", {}, 0))
    path.write_text(asked.replace("question.\n", "question.\nYes.\n"))
    recover(path, state)
    assert path.read_text().count("Yes.\n") == 2


LISTED = "<!-- agent:status -->\n- a\n- b\n- c\n<!-- /agent:status -->\n"


@pytest.mark.parametrize("left", ["- a\n- c\n", "- c\n", ""], ids=["the middle", "the beginning", "all"])
@pytest.mark.parametrize("typed", [False, True], ids=["as asked", "edited"])
def test_a_reply_that_only_removes_lines(path: Path, state: DocumentState, left: str, *, typed: bool) -> None:
    """A component gets the shorter text, or a proposal if the user has edited it; recover repeats it if overwritten."""
    reply = f"<!-- patch:status -->\n{left}<!-- /patch:status -->"
    state.write_pending(pending_reply("r2", "", LISTED, reply, {}, 0))
    path.write_text(LISTED.replace("- c", "- c\n- d") if typed else LISTED)
    recover(path, state)
    done = path.read_text()
    if typed:
        assert "- b\n- c\n- d\n" in done
        assert done.count(PROPOSED) == 1
        return
    assert done == LISTED.replace("- a\n- b\n- c\n", left)
    assert publish_again(path, state) is None
    path.write_text(LISTED)
    assert publish_again(path, state) is not None
    assert path.read_text() == done


def test_an_overwritten_reply(path: Path, state: DocumentState) -> None:
    """A reply over which an editor saved its old text is reported, and published again only if the user asks."""
    recover(path, state)
    path.write_text(QUESTION.replace("question.", "question. And more."))
    [note] = recover(path, state)
    assert note == f"{OVERWRITTEN}; penstock doc recover {path} puts it back"
    assert "The answer." not in path.read_text()
    assert publish_again(path, state) is not None
    assert path.read_text() == ANSWERED.replace("question.", "question. And more.")
    assert publish_again(path, state) is None
    assert recover(path, state) == ()


def test_a_reply_that_cannot_be_kept(path: Path, state: DocumentState) -> None:
    """If the data directory cannot be written, as on a full disk, the error says where the reply is."""
    (state.directory / "pending.json.new").mkdir()
    with pytest.raises(PublishError, match=r"the reply cannot be kept: .* recording of the run"):
        OpenDocument(path, state, ()).publish("The answer.", {})
    assert path.read_text() == QUESTION


@pytest.mark.parametrize(
    ("text", "overwritten"),
    [
        (QUESTION, True),
        (QUESTION + "And more.\n", True),
        ("Above.\n" + QUESTION, True),
        (ANSWERED, False),
        (ANSWERED.replace("In two lines.\n", ""), False),
        (ANSWERED.replace("The answer.", "The true answer."), False),
        ("# Notes\n\n## User\n\nAnother question.\n", False),
        ("", False),
        (QUESTION + "\n## Assistant\n\nSomething else.\n\n## User\n\n", False),
        (QUESTION + "The anser.\n", False),
    ],
    ids=[
        "old text",
        "typed on",
        "typed above",
        "there",
        "shortened",
        "edited",
        "all is new",
        "empty",
        "rewritten",
        "moved",
    ],
)
def test_what_counts_as_overwritten(text: str, overwritten: bool) -> None:
    """Nothing of the reply is there, and all of the text that it answered is."""
    assert is_overwritten(answer(), text) is overwritten
