"""The other commands of `penstock doc`: init, diff, patch, reset, status, and what --commit does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.doc import committing
from penstock.errors import UsageError

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pathlib import Path

    from doc.conftest import Desk

PLAN = """\
# Plan

<!-- agent:status patch=replace -->
old
<!-- /agent:status -->

<!-- agent:exchange -->
A question.
<!-- /agent:exchange -->
"""


def test_init_write_answer(desk: Desk) -> None:
    """A newcomer begins a document, writes, and is answered; nothing is asked before something is written."""
    made = desk.doc("init", "my-notes.md", "--agent", "scripted")
    assert (made.returncode, made.stderr) == (0, "")
    file = desk.folder / "my-notes.md"
    text = file.read_text("utf-8")
    assert text.endswith("agent: scripted\n---\n\n# My notes\n\n## User\n\n")
    assert "there is no question in it yet" in desk.doc("my-notes.md").stderr
    file.write_text(text + "Hello?\n", "utf-8")
    assert desk.doc("my-notes.md").returncode == 0
    assert file.read_text("utf-8").endswith("Hello?\n\n## Assistant\n\nReply 1.\n\n## User\n\n")
    again = desk.doc("init", "my-notes.md")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_init_template(desk: Desk) -> None:
    """A template has components; a reply goes into the exchange, a block into its component."""
    assert desk.doc("init", "plan.md", "--template", "--agent", "scripted").returncode == 0
    file = desk.folder / "plan.md"
    assert "there is no question in it yet" in desk.doc("plan.md").stderr
    text = file.read_text("utf-8")
    file.write_text(text.replace("patch=append -->\n", "patch=append -->\nHello?\n"), "utf-8")
    desk.reply(1, "Hi.\n\n<!-- patch:status -->\nbusy\n<!-- /patch:status -->")
    assert desk.doc("plan.md").returncode == 0
    text = file.read_text("utf-8")
    assert "<!-- agent:status patch=replace -->\nbusy\n<!-- /agent:status -->" in text
    assert "Hello?\n\nHi.\n" in text.partition("agent:exchange")[2].partition("/agent:exchange")[0]


def test_a_file_with_the_name_of_a_command(desk: Desk) -> None:
    """The word of a command wins; a file of that name is written with its directory."""
    desk.write("status", "# Status\n\n## User\n\nHello?\n")
    assert desk.doc("status").stdout == "No document was answered yet.\n"
    assert desk.doc("./status", "--agent", "scripted").returncode == 0
    assert len(desk.asked) == 1


def test_diff(desk: Desk) -> None:
    """It shows what would be asked, and comments of the user are not."""
    file = desk.write("plan.md", PLAN)
    assert "A question." in desk.doc("diff", "plan.md").stdout
    assert desk.doc("plan.md", "--agent", "scripted").returncode == 0
    done = desk.doc("diff", "plan.md")
    assert (done.stdout, "nothing new" in done.stderr) == ("", True)
    text = file.read_text("utf-8")
    file.write_text(text.replace("<!-- /agent:exchange", "<!-- for me -->\nNext.\n<!-- /agent:exchange"), "utf-8")
    new = desk.doc("diff", "plan.md").stdout
    assert "+Next." in new
    assert "for me" not in new


def test_patch(desk: Desk) -> None:
    """A component gets the text on stdin, and what was new in the document stays new."""
    file = desk.write("plan.md", PLAN)
    assert desk.doc("patch", "plan.md", "status", stdin="new\n").returncode == 0
    assert "<!-- agent:status patch=replace -->\nnew\n<!-- /agent:status -->" in file.read_text("utf-8")
    assert "A question." in desk.doc("diff", "plan.md").stdout
    assert desk.doc("plan.md", "--agent", "scripted").returncode == 0
    file.write_text(file.read_text("utf-8").replace("A question.", "Another question."), "utf-8")
    assert desk.doc("patch", "plan.md", "status", stdin="newer\n").returncode == 0
    new = desk.doc("diff", "plan.md").stdout
    assert "+Another question." in new
    assert "newer" not in new
    assert desk.doc("plan.md").returncode == 0
    assert desk.asked[1]["resume"] == "session-1"
    unknown = desk.doc("patch", "plan.md", "nothing", stdin="x\n")
    assert (unknown.returncode, "expected one of status, exchange" in unknown.stderr) == (2, True)


def test_patch_with_bytes_that_are_not_text(desk: Desk) -> None:
    """Text on stdin that is not UTF-8 is an error, and the document stays as it is."""
    file = desk.write("plan.md", PLAN)
    words = [sys.executable, "-m", "penstock", "doc", "patch", "plan.md", "status"]
    done = subprocess.run(words, input=b"\xff\n", capture_output=True, env=desk.env, cwd=desk.folder, check=False)
    assert (done.returncode, b"the text on stdin is not UTF-8" in done.stderr) == (2, True)
    assert file.read_text("utf-8") == PLAN


def test_recover(desk: Desk) -> None:
    """A reply over which an editor saved its old text is reported, asks nothing, and is put back."""
    text = "# Notes\n\n## User\n\nHello?\n"
    file = desk.write("notes.md", text)
    assert desk.doc("notes.md", "--agent", "scripted").returncode == 0
    answered = file.read_text("utf-8")
    assert "the last reply is in the document" in desk.doc("recover", "notes.md").stdout
    desk.write("notes.md", answered.partition("## Assistant")[0])
    done = desk.doc("notes.md")
    assert done.returncode == 0
    assert "as if an editor had saved its old text over it" in done.stderr
    assert len(desk.asked) == 1
    assert desk.doc("recover", "notes.md").returncode == 0
    assert file.read_text("utf-8") == answered
    desk.write("notes.md", answered.partition("## Assistant")[0] + "And more.\n")
    assert desk.doc("notes.md").returncode == 0
    assert "+And more." in desk.asked[1]["prompt"]


def test_recover_the_first_reply(desk: Desk) -> None:
    """An editor that saves the text from before the first reply removes the id too; the document is still known."""
    text = "# Notes\n\n## User\n\nHello?\n"
    file = desk.write("notes.md", text)
    assert desk.doc("notes.md", "--agent", "scripted").returncode == 0
    answered = file.read_text("utf-8")
    desk.write("notes.md", text + "And more.\n")
    assert "as if an editor had saved its old text over it" in desk.doc("notes.md", "--dry-run").stderr
    assert desk.doc("recover", "notes.md").returncode == 0
    recovered = file.read_text("utf-8")
    assert recovered.startswith(answered.rstrip())
    assert recovered.endswith("And more.\n")


def test_reset(desk: Desk) -> None:
    """After a reset the whole document is asked, in a new conversation, and the document keeps its replies."""
    file = desk.write("notes.md", "# Notes\n\n## User\n\nHello?\n")
    assert desk.doc("notes.md", "--agent", "scripted").returncode == 0
    text = file.read_text("utf-8")
    assert desk.doc("reset", "notes.md").returncode == 0
    assert file.read_text("utf-8") == text
    assert desk.doc("notes.md").returncode == 0
    assert desk.asked[1]["resume"] is None
    assert "Reply 1." in desk.asked[1]["prompt"]


def test_status(desk: Desk) -> None:
    """The list has each document that was answered, and what is new or missing."""
    for name in ("a.md", "b.md", "c.md"):
        desk.write(name, "# Notes\n\n## User\n\nHello?\n")
        assert desk.doc(name, "--agent", "scripted").returncode == 0
    desk.write("b.md", (desk.folder / "b.md").read_text("utf-8") + "More.\n")
    (desk.folder / "c.md").unlink()
    rows = [re.split(r" {2,}", line) for line in desk.doc("status").stdout.splitlines()[1:]]
    assert [tuple(row[1:]) for row in rows] == [
        ("scripted", "answered", "a.md"),
        ("scripted", "new text", "b.md"),
        ("scripted", "missing", "c.md"),
    ]
    [one] = desk.doc("status", "b.md", "--json").stdout.splitlines()
    found = json.loads(one)
    assert (found["state"], found["session_id"]) == ("new text", "session-2")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return what it prints."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_commit_of_a_name_with_brackets(desk: Desk) -> None:
    """A name is not a pattern: other files of the user that it matches stay uncommitted."""
    git(desk.folder, "init", "-q")
    git(desk.folder, "config", "user.name", "A")
    git(desk.folder, "config", "user.email", "a@example.org")
    desk.write("n1.md", "One\n")
    git(desk.folder, "add", "n1.md")
    git(desk.folder, "commit", "-qm", "One")
    desk.write("n1.md", "Two\n")
    desk.write("n[1].md", "# Notes\n\n## User\n\nHello?\n")
    assert desk.doc("n[1].md", "--agent", "scripted", "--commit").returncode == 0
    assert git(desk.folder, "show", "--format=", "--name-only") == "n[1].md\n"
    assert git(desk.folder, "status", "--short") == " M n1.md\n"


def test_commit(desk: Desk) -> None:
    """--commit commits the document with hooks and nothing else; one that is ignored or rejected keeps its reply."""
    git(desk.folder, "init", "-q")
    git(desk.folder, "config", "user.name", "A")
    git(desk.folder, "config", "user.email", "a@example.org")
    desk.write("staged.txt", "staged")
    git(desk.folder, "add", "staged.txt")
    file = desk.write("notes.md", "# Notes\n\n## User\n\nHello?\n")
    assert desk.doc("notes.md", "--agent", "scripted", "--commit").returncode == 0
    assert git(desk.folder, "log", "--format=%s", "--name-only") == "notes.md: answered by scripted\n\nnotes.md\n"
    assert git(desk.folder, "status", "--short") == "A  staged.txt\n"

    hook = desk.folder / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho no notes >&2\nexit 1\n")
    hook.chmod(0o755)
    file.write_text(file.read_text("utf-8") + "More?\n", "utf-8")
    rejected = desk.doc("notes.md", "--commit")
    assert (rejected.returncode, "no notes" in rejected.stderr) == (1, True)
    assert "Reply 2." in file.read_text("utf-8")
    hook.unlink()

    desk.write(".gitignore", "secret.md\n")
    secret = desk.write("secret.md", "# Secret\n\n## User\n\nHello?\n")
    assert desk.doc("secret.md", "--agent", "scripted", "--commit").returncode == 1
    assert "Reply 3." in secret.read_text("utf-8")
    assert "secret.md" not in git(desk.folder, "ls-files")


def test_commit_of_a_document_with_a_secret(desk: Desk) -> None:
    """A document with a new token is not committed, and says so; one that its last commit has does not matter."""
    git(desk.folder, "init", "-q")
    git(desk.folder, "config", "user.name", "A")
    git(desk.folder, "config", "user.email", "a@example.org")
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"
    file = desk.write("notes.md", f"# Notes\n\n## User\n\nIs {token} right?\n")
    done = desk.doc("notes.md", "--agent", "scripted", "--commit")
    assert done.returncode == 1
    assert "notes.md was not committed: it has what looks like a token of GitHub" in done.stderr
    assert git(desk.folder, "status", "--short") == "?? notes.md\n"
    git(desk.folder, "add", "notes.md")
    git(desk.folder, "commit", "-qm", "Mine")
    file.write_text(file.read_text("utf-8") + "More?\n", "utf-8")
    assert desk.doc("notes.md", "--commit").returncode == 0


HOOK = "mkdir -p {0} && echo 'touch started' >{0}/pre-commit && chmod +x {0}/pre-commit"
PLANTED = {
    "a hook": HOOK.format(".git/hooks"),
    "a hook that has no end": HOOK.format(".git/hooks") + "; truncate -s 64G .git/hooks/pre-commit",
    "a hook of the project": HOOK.format(".githooks"),
    "a setting": f"{HOOK.format('other')}; git config core.hooksPath other",
    "another repository": f"mv .git moved; git init -q; {HOOK.format('.git/hooks')}",
    "a file that a generated hook starts": "echo 'touch started' >.husky/pre-commit",
}


@pytest.mark.parametrize("what", PLANTED)
def test_commit_starts_nothing_that_the_agent_has_made(desk: Desk, what: str) -> None:
    """It would run outside of the agent's confinement, before anybody has seen it. The reply is in the document."""
    git(desk.folder, "init", "-q")
    git(desk.folder, "config", "user.name", "A")
    git(desk.folder, "config", "user.email", "a@example.org")
    if what == "a hook of the project":
        git(desk.folder, "config", "core.hooksPath", ".githooks")
    if what == "a file that a generated hook starts":
        git(desk.folder, "config", "core.hooksPath", ".husky/_")
        (desk.folder / ".husky/_").mkdir(parents=True)
        desk.write(".husky/_/pre-commit", "#!/bin/sh\n. .husky/pre-commit\n").chmod(0o755)
        desk.write(".husky/pre-commit", "true\n")
    file = desk.write("notes.md", "# Notes\n\n## User\n\nHello?\n")
    desk.does(1, PLANTED[what])
    done = desk.doc("notes.md", "--agent", "scripted", "--commit")
    assert done.returncode == 1
    assert "have changed since this command began" in done.stderr
    assert "Reply 1." in file.read_text("utf-8")
    assert not (desk.folder / "started").exists()


def test_a_hook_that_is_not_read_is_compared_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files beside the hooks would take long to read: of those beyond the first, the time of a change counts."""
    git(desk.folder, "init", "-q")
    (desk.folder / ".git/hooks").mkdir(exist_ok=True)
    monkeypatch.setattr(committing, "MAX_HOOKS", 1)
    names = [f".git/hooks/{name}" for name in ("a", "pre-commit")]
    for name in names:
        desk.write(name, "#!/bin/sh\n")
    commits = committing.Commits()
    commits.look(desk.folder)
    path = desk.write("notes.md", "# Notes\n")
    desk.write(names[1], "#!/bin/sh\n")
    with pytest.raises(UsageError, match="have changed since"):
        commits.commit(path, "scripted")


def test_commit_after_usual_work_with_git(desk: Desk) -> None:
    """A branch and a commit of the agent's are no reason to refuse."""
    git(desk.folder, "init", "-q", "-b", "main")
    git(desk.folder, "config", "user.name", "A")
    git(desk.folder, "config", "user.email", "a@example.org")
    desk.write("notes.md", "# Notes\n\n## User\n\nHello?\n")
    desk.does(1, "git commit -qm One --allow-empty && git checkout -q --track -b work main")
    assert desk.doc("notes.md", "--agent", "scripted", "--commit").returncode == 0
    assert git(desk.folder, "log", "--format=%s") == "notes.md: answered by scripted\nOne\n"
