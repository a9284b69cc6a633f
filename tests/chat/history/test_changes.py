"""Files that a turn changed: counted while it runs, and with their diffs for those who ask."""

from __future__ import annotations

import os.path
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from penstock import events as ev
from penstock.chat.history import changes, details
from penstock.chat.history.changes import ChangesFold, FileChanges, OtherChanges, take_turn
from penstock.chat.history.entries import ChangesFound, Entry, Numbered, Prompted, TurnBegan, TurnEnded
from penstock.chat.history.frames import ChangedFiles, Finalized, TurnView
from penstock.chat.history.items import Called
from penstock.chat.history.timeline import Timeline
from penstock.events import Change
from penstock.stream import Stream
from penstock.testing import feeds

if TYPE_CHECKING:
    from conftest import Recording

A: dict[str, Any] = {"agent": "test"}
SHOP = "/shop"


def numbered(*whats: Entry | ev.Event | None) -> list[Numbered]:
    """A first turn in `/shop` with these entries."""
    begun = (Prompted(1, "do it"), TurnBegan(1, "test", SHOP), *whats)
    return [Numbered(number, 1000 + number, what) for number, what in enumerate(begun, 1)]


def returned(*made: Change, **other: Any) -> ev.ToolReturned:
    """The result of a call that made these changes."""
    facts: dict[str, Any] = {"is_error": False, "complete": True, **other}
    return ev.ToolReturned(call_id="c", text="", changes=[*made], **facts, **A)


def counted(*whats: Entry | ev.Event | None) -> ChangedFiles | None:
    """What the view of a turn says that had these entries and ended."""
    timeline = Timeline()
    timeline.take(numbered(*whats, TurnEnded(1, "cut_off")))
    (frame,) = [it for _, it in timeline.frames(0) or () if isinstance(it, Finalized)]
    assert frame.changed == timeline.turns[1].changed
    return frame.changed


def asked_for(*whats: Entry | ev.Event | None, directory: str = SHOP) -> FileChanges:
    """The files of the same turn, as they are sent."""
    fold = ChangesFold("/elsewhere", diffs=True)
    take_turn(fold, numbered(*whats))
    return fold.changes(directory, whole=True)


@cache
def events_of(agent: str, data: bytes) -> list[ev.Event]:
    """The run of a recording."""
    return feeds.whole(Stream(agent), data)


def judged(events: list[ev.Event]) -> list[tuple[str, int | None, int | None]]:
    """The changed files, by another rule: names in a directory, of which each result that went well changes some."""
    files: list[dict[str, Any]] = []
    for event in msgspec.to_builtins(events):
        if event["type"] != "tool_returned" or event.get("exit_code") or event.get("refused"):
            continue
        if event["is_error"] or not event["complete"]:
            continue
        for change in event.get("changes", []):
            name = os.path.normpath(os.path.join(SHOP, change["path"]))
            now = os.path.normpath(os.path.join(SHOP, change.get("to", change["path"])))
            mine = [file for file in files if file["now"] == name and not file["gone"]]
            if not mine:
                mine = [{"name": name, "lines": [], "is_new": change["kind"] == "add", "gone": False}]
                files.append(mine[0])
            mine[0]["now"] = now
            mine[0]["lines"].append((change.get("added"), change.get("removed")))
            mine[0]["gone"] = mine[0]["is_new"] and change["kind"] == "delete"
    return [(file["now"], *map(total, zip(*file["lines"], strict=True))) for file in files if not file["gone"]]


def total(counts: tuple[int | None, ...]) -> int | None:
    """The lines of a file; not known if one is not."""
    return None if None in counts else sum(it for it in counts if it is not None)


def test_recordings(recording: Recording) -> None:
    """Count and files are those of an independent judge, however the entries are cut, and as the details have them."""
    events = events_of(recording.agent, recording.data)
    expected = judged(events)
    timeline, rows = Timeline(), numbered(*events)
    cut = random.Random(len(rows)).randrange(len(rows))
    timeline.take(rows[:cut])
    timeline.take(rows[cut:])
    known = [[it[place] for it in expected if it[place] is not None] for place in (1, 2)]
    sums = [sum(it) if it else None for it in known]  # type: ignore[arg-type]
    count = ChangedFiles(len(expected), *sums) if expected else None
    assert timeline.turns[1].changed == count
    found = asked_for(*events)
    assert (found.files, found.added, found.removed, found.more_changes) == (len(expected), *sums, 0)
    assert [(os.path.join(SHOP, it.to or it.path), it.added, it.removed) for it in found.changes] == expected
    for it in found.changes:
        if it.diff is not None and not it.truncated:
            lines = it.diff.splitlines()
            assert it.added in (None, sum(line.startswith("+") for line in lines))
    items = details.details_of(TurnView(1, "do it"), rows).items
    made = [it for it in items if isinstance(it, Called) and it.until is not None and it.changes]
    # Of a call whose status is not reported it is not known whether it changed anything.
    is_made = any(not (it.is_error or it.refused or it.cut or it.status_unreported) for it in made)
    assert bool(expected) == is_made


@pytest.mark.parametrize(
    "other",
    [{"is_error": True}, {"complete": False}, {"refused": True}, {"exit_code": 1}],
    ids=["failed", "cut", "denied", "status"],
)
def test_what_was_not_made_does_not_count(other: dict[str, Any]) -> None:
    """Neither the changes of a call that failed nor those that a call or question only proposes."""
    change = Change("a.py", "update", added=1, removed=0)
    called = ev.ToolCalled(call_id="c", name="Edit", input={}, title="a.py", tool_kind="edit", changes=[change], **A)
    asked = ev.QuestionAsked(id="q", ask="edit", text="?", blocking=True, changes=[change], **A)
    assert counted(called, asked, returned(change, **other)) is None
    assert asked_for(called, asked, returned(change, **other)) == FileChanges(True, 0, [])
    assert counted(called, asked, None, returned(change)) == ChangedFiles(1, 1, 0)
    assert counted() is None


def test_one_file_has_one_name() -> None:
    """A file that is named in several ways is one; paths are shown relative to the chat's directory."""
    whats = [
        returned(Change("/shop/a.py", "update", added=1, removed=0, diff="@@\n+x\n")),
        returned(Change("./a.py", "update", added=2, removed=1, diff="@@\n-x\n+y\n+z\n")),
        returned(Change("a.py", "move", to="b/a.py", added=0, removed=0), Change("/tmp/t", "add", added=5)),
        returned(Change("/shop//b/a.py", "update", added=1, removed=0, diff="@@\n+w\n")),
        returned(Change("new", "add", added=9, removed=0), parent="p"),
        returned(Change("new", "delete", added=0, removed=9)),
        returned(Change("../shop/a.py", "update"), Change("/shopping", "delete")),
    ]
    assert counted(*whats) == ChangedFiles(4, 9, 1)
    found = asked_for(*whats)
    assert found.changes == [
        Change("a.py", "move", to="b/a.py", added=4, removed=1, diff="@@\n+x\n@@\n-x\n+y\n+z\n@@\n+w\n"),
        Change("/tmp/t", "add", added=5),
        Change("../shop/a.py", "update"),
        Change("/shopping", "delete"),
    ]
    assert asked_for(*whats, directory="/").changes[0].path == "/shop/a.py"
    assert [it.path for it in asked_for(returned(Change("", "update"), Change(".", "update"))).changes] == ["", SHOP]


def test_what_an_agent_reports_is_bounded() -> None:
    """Numbers stay numbers that can be written and read, and there is an end of files, paths, lines and characters."""
    lines = "@@\n" + "+x\n" * 3000
    large = [returned(Change(f"{n}.py", "update", added=2**63, removed=-(2**62), diff=lines)) for n in range(1100)]
    found = asked_for(*large)
    assert len(found.changes) == details.MAX_FILES
    assert found.more_changes == 100
    assert found.added == 1100 * changes.MAX_LINES
    assert found.removed == 0
    assert sum((it.diff or "").count("\n") for it in found.changes) == details.MAX_DIFF_LINES
    assert found.changes[-1].truncated
    view = TurnView(1, "", changed=counted(*large))
    assert msgspec.json.decode(msgspec.json.encode(view), type=TurnView) == view
    assert msgspec.json.decode(msgspec.json.encode(found))["added"] < 2**53
    (long,) = asked_for(returned(Change("x" * 10**6, "add"))).changes
    assert len(long.path) <= changes.MAX_PATH_CHARS


@pytest.mark.slow
def test_many_files_do_not_hide_the_next_ones() -> None:
    """Files that come and go again take no place from those that stay; of more than are counted the first are known."""
    gone = [returned(Change(f"{n}", "add"), Change(f"{n}", "delete")) for n in range(changes.MAX_COUNTED + 1)]
    assert counted(*gone, returned(Change("a.py", "update"))) == ChangedFiles(1)
    many = returned(*(Change(f"{n}", "add", added=1) for n in range(changes.MAX_COUNTED + 5)))
    assert counted(many, returned(Change("0", "update", added=3))) == ChangedFiles(
        changes.MAX_COUNTED, changes.MAX_COUNTED + 3
    )


def test_diffs_have_one_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A diff that does not fit is left out, and marked; the counts are those of the whole change."""
    monkeypatch.setattr(changes, "MAX_ALL_CHARS", 20)
    one, two = (Change(name, "update", added=3, removed=0, diff="@@\n+a\n+b\n+c\n") for name in "ab")
    found = asked_for(returned(one), returned(two))
    assert found.changes == [one, Change("b", "update", added=3, removed=0, truncated=True)]


def test_a_turn_of_an_earlier_version_has_no_count() -> None:
    """Its summary is read as before."""
    view = msgspec.json.decode(b'{"turn": 1, "prompt": "p", "finalized": true, "steps": 3}', type=TurnView)
    assert view.changed is None


def called(kind: ev.ToolKind) -> ev.ToolCalled:
    """A call of this kind."""
    return ev.ToolCalled(call_id="c", name="tool", input={}, title="", tool_kind=kind, **A)


LINED, UNLINED = Change("a", "update", added=1, removed=0, diff="@@\n+x\n"), Change("b", "update", added=1, removed=0)


@pytest.mark.parametrize(
    ("events", "is_partial"),
    [
        ([], False),
        ([called("read"), returned()], False),
        ([called("execute")], True),
        ([called("other")], True),
        ([called("edit"), returned(LINED)], False),
        ([called("edit"), returned(LINED, UNLINED)], True),
        ([called("edit"), returned()], True),
        ([called("edit"), returned(LINED, is_error=True)], True),
        ([called("edit"), returned(LINED, refused=True)], False),
        ([returned(UNLINED)], True),
    ],
)
def test_what_an_agent_reports_in_part(events: list[ev.Event], is_partial: bool) -> None:
    """A command, a tool of any kind, a failed edit or one without lines may have changed more than is reported."""
    fold = ChangesFold(SHOP)
    for event in events:
        fold.take(event)
    assert fold.is_partial == is_partial


def test_files_with_lines() -> None:
    """A file of which one change has no lines does not count, by neither of its names."""
    fold = ChangesFold(SHOP)
    moved = Change("d", "move", to="e")
    for change in (LINED, UNLINED, Change("b", "update", diff="@@\n+y\n"), moved):
        fold.take(returned(change))
    assert fold.paths_with_lines() == {"/shop/a"}


def test_what_git_found() -> None:
    """It is apart from what was reported, joined over the turns, and counted in the view of its own turn."""
    one = ChangesFound(1, [Change("/shop/a", "add", added=1, removed=0, diff="@@ -0,0 +1 @@\n+x\n")], 2, 3)
    two = ChangesFound(1, [Change("/shop/a", "update", added=1, removed=0)], 1, 1, "slow")
    found = asked_for(one, two)
    assert (found.files, found.changes) == (0, [])
    assert found.found == OtherChanges([Change("a", "add", added=2, removed=0)], 3, "slow")
    assert asked_for().found is None
    made = Timeline()
    made.take(numbered(one, replace(two, turn=2), TurnEnded(1, "cut_off")))
    assert made.turns[1].found == 3
    (frame,) = [it for _, it in made.frames(0) or () if isinstance(it, Finalized)]
    assert frame.found == 3
