"""What a question of a turn shows of the call that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.chat.turn import OpenQuestion, Streaming, Turn
from penstock.core.questions import MAX_COMMAND_CHARS, MAX_DIFF_CHARS, MAX_DIFF_LINES, MAX_FILES
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

SCRIPT = "set -e\nfor f in *; do\n  rm -- $f\ndone"
EDIT = ev.Change("a.txt", "update", added=1, removed=1, diff="@@ -1 +1 @@\n-old\n+new\n")


def call(kind: ev.ToolKind = "execute", given: Any = None, **more: Any) -> ev.ToolCalled:
    """The call that a question is about."""
    return ev.ToolCalled(agent="a", call_id="c", name="x", input=given, title="t", tool_kind=kind, **more)


def asked(*before: ev.Event, **more: Any) -> OpenQuestion:
    """The question as the turn shows it, after these events."""
    about = {"text": "May I?", "blocking": True, "ask": "command", "call_id": "c", **more}
    shown = Turn().feed([*before, ev.QuestionAsked(agent="a", id="q", **about)])
    [found] = [it.question for it in shown if isinstance(it, Streaming) and it.question is not None]
    return found


def test_the_whole_command() -> None:
    """A command of many lines, of which the title has the first, is whole; also one that is a list of words."""
    assert asked(call(given={"command": SCRIPT}), title="set -e …").command == SCRIPT
    assert asked(call(given={"cmd": ["rm", "-rf", "x"]})).command == "rm -rf x"
    assert asked(call(given={"command": "ls"}), title="ls").command is None
    assert asked(call("edit", {"command": "create", "path": "/a"})).command is None
    assert asked().command is None


def test_a_command_of_a_sub_agent() -> None:
    """The question of a sub-agent has its command too."""
    assert asked(call(given={"command": SCRIPT}, parent="p"), parent="p").command == SCRIPT


def test_a_call_that_has_returned_is_forgotten() -> None:
    """A later question with the same id of a call shows nothing of the old one."""
    over = ev.ToolReturned(agent="a", call_id="c", text="", is_error=False, complete=True)
    assert asked(call(given={"command": SCRIPT}), over).command is None


def test_the_changes() -> None:
    """A question shows its own changes, or those that its call proposes."""
    other = ev.Change("b.txt", "add", added=1, removed=0)
    assert asked(call("edit", changes=[EDIT]), ask="edit").changes == [EDIT]
    assert asked(call("edit", changes=[EDIT]), ask="edit", changes=[other]).changes == [other]
    assert asked(ask="edit").changes is None


def test_a_long_diff_is_cut() -> None:
    """Of a diff that is too long the beginning is shown, with the counts of the whole; of too many files the first."""
    lines = ev.Change("a", "add", added=9_000, removed=0, diff="@@ -0,0 +1,9000 @@\n" + "+x\n" * 9_000)
    [shown] = asked(ask="edit", changes=[lines]).changes or []
    assert shown.diff is not None
    assert (shown.diff.count("\n"), shown.truncated, shown.added) == (MAX_DIFF_LINES, True, 9_000)
    wide = ev.Change("a", "add", diff="+" + "x" * 500_000 + "\n")
    shown, later = asked(ask="edit", changes=[wide, EDIT]).changes or []
    assert shown.diff is not None
    assert (len(shown.diff), shown.truncated) == (MAX_DIFF_CHARS, True)
    assert (later.diff, later.truncated, later.added) == (None, True, 1)
    many = asked(ask="edit", changes=[EDIT] * (MAX_FILES + 5))
    assert (len(many.changes or ()), many.more_changes) == (MAX_FILES, 5)


def test_a_long_command_is_cut() -> None:
    """Of a command that is too long the beginning is shown, and says so."""
    command = asked(call(given={"command": "x" * 200_000})).command
    assert command is not None
    assert command.startswith("x" * MAX_COMMAND_CHARS + "\n…")
    assert len(command) < MAX_COMMAND_CHARS + 100


def test_real_agents_show_what_they_ask_for(recordings: list[Recording]) -> None:
    """In the recordings, a question about an edit has its lines, and one about a command has the command."""
    seen = set()
    for recording in recordings:
        if b"permission" not in recording.data and b"pproval" not in recording.data:
            continue
        for event in Turn().feed(feeds.whole(Stream(recording.agent), recording.data)):
            question = event.question if isinstance(event, Streaming) else None
            if question is not None and question.ask == "edit":
                assert question.changes, recording.name
                assert all(change.diff for change in question.changes), recording.name
            elif question is not None and question.ask == "command":
                shown = f"{question.command} {question.title} {question.text}"
                assert "echo " in shown or "python3 -c" in shown, recording.name
            seen |= {(recording.agent, question.ask)} if question is not None else set()
    assert {(agent, "edit") for agent in ("claude/server", "codex/server", "opencode/server", "acp")} <= seen
