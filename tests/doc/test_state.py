"""State of a document: its lock, its id, what is kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.doc.opened import session_of
from penstock.doc.state import DocumentState, Pending, document_states
from penstock.errors import UsageError


def document(path: Path, session: str = "an-id") -> Path:
    """Write a document with an id."""
    path.write_text(f"---\nagent_doc_session: {session}\n---\nHello\n")
    return path


def claim(state: DocumentState, path: Path) -> None:
    """Use a document as a command does."""
    with state.lock():
        state.claim(path, session_of)


def test_another_process_has_the_lock(tmp_path: Path) -> None:
    """The error names the process that holds the document; when that has ended, the lock is free."""
    script = "import sys; from pathlib import Path; from penstock.doc.state import DocumentState\n"
    script += "with DocumentState(Path(sys.argv[1]), 'an-id').lock(): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(tmp_path)]
    state = DocumentState(tmp_path, "an-id")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"answered by process {holder.pid};"), state.lock():
            pass
        with DocumentState(tmp_path, "another-id").lock():
            holder.kill()
            holder.wait()
    with state.lock():
        pass


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """The directory and its files are closed to other users."""
    state = DocumentState(tmp_path / "data", "an-id")
    claim(state, document(tmp_path / "notes.md"))
    with state.lock():
        state.write_snapshot("text")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in state.directory.iterdir()}
    assert (stat.S_IMODE(state.directory.stat().st_mode), modes) == (0o700, {0o600})


@pytest.mark.parametrize("session", ["../../elsewhere", "", ".", "..", "a/b", "a" * 300, "ü", "a\x00b", "-rf"])
def test_an_id_is_no_path(tmp_path: Path, session: str) -> None:
    """Whatever the front matter says, the directory is one in `docs`, and the id is found again."""
    state = DocumentState(tmp_path, session)
    claim(state, document(tmp_path / "notes.md"))
    assert state.directory.parent == tmp_path / "docs"
    assert [one.session for one in document_states(tmp_path)] == [session]
    assert state.directory != DocumentState(tmp_path, "another").directory


def test_a_renamed_document(tmp_path: Path) -> None:
    """A document that was renamed has its state, also if a new document has its old name."""
    state = DocumentState(tmp_path / "data", "an-id")
    old = document(tmp_path / "old.md")
    claim(state, old)
    new = old.rename(tmp_path / "new.md")
    document(old, "another-id")
    claim(state, new)
    assert state.path == new


def test_a_copied_document(tmp_path: Path) -> None:
    """A copy with the same id is refused with both paths; a second name of the same file is not a copy."""
    state = DocumentState(tmp_path / "data", "an-id")
    path = document(tmp_path / "notes.md")
    claim(state, path)
    copy = document(tmp_path / "copy.md")
    with pytest.raises(UsageError) as caught:
        claim(state, copy)
    assert str(path) in str(caught.value)
    assert str(copy) in str(caught.value)
    copy.unlink()
    os.link(path, copy)
    claim(state, copy)


def test_a_damaged_file(tmp_path: Path) -> None:
    """A `pending.json` that cannot be read is an error that names it, not a reply that is forgotten."""
    state = DocumentState(tmp_path, "an-id")
    with state.lock():
        state.write_pending(Pending(id="r", path="", base="", reply="", snapshot=""))
    file = state.directory / "pending.json"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(UsageError, match=r"pending\.json is damaged"):
        state.pending()
