"""The look of edits, failures, Markdown, wrapped lines, and of the first and last lines of a run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock.core.tool_titles import title
from penstock.sinks.text import theme
from penstock.sinks.text.edits import Paths
from penstock.sinks.text.run_summary import Guidance
from penstock.sinks.text.sink import TextSink
from penstock.sinks.text.wrapping import columns

SGR = re.compile(r"\x1b\[[0-9;]*m")
A: dict[str, Any] = {"agent": "a"}


def show(*events: Any, mode: str = "none", **look: Any) -> str:
    """What a sink writes for the events, one at a time; without colours each mode writes the same."""
    outputs: list[str] = []
    for each in ("none", "full"):
        sink = TextSink(each, **look)
        outputs.append("".join(sink.render([event]) for event in events) + sink.close())
    assert look.get("width") or outputs[0] == outputs[1]
    return outputs[mode == "full"]


def call(name: str, input: Any, id: str = "c", kind: Any = "other", **fields: Any) -> ev.ToolCalled:
    """A call."""
    return ev.ToolCalled(id, name, input, title(name, input), kind, **A, **fields)


def result(text: str = "ok", id: str = "c", **fields: Any) -> ev.ToolReturned:
    """The result of a call."""
    return ev.ToolReturned(id, text, **{"is_error": False, "complete": True, **A, **fields})


def text(*deltas: str, block: int = 1) -> list[Any]:
    """A block of text."""
    whole = "".join(deltas)
    started, ended = ev.BlockStarted(block, "text", 1, **A), ev.BlockEnded(block, "text", whole, True, **A)
    return [started, *(ev.Delta(block, "text", delta, **A) for delta in deltas), ended]


# --- calls ----------------------------------------------------------------------------------------------

CALLS = [
    ("Bash", {"command": "npm test"}, "execute", "$ npm test"),
    ("run_shell_command", {"command": "npm test"}, "execute", "$ npm test"),
    ("command_execution", {"command": "npm test"}, "execute", "$ npm test"),
    ("tool", {"command": "npm test"}, "execute", "$ npm test"),
    ("Read", {"file_path": "/demo/a.py"}, "read", "▸ read a.py"),
    ("view", {"path": "/elsewhere/a.py"}, "read", "▸ read /elsewhere/a.py"),
    ("file_change", {"path": "/demo/a.py"}, "edit", "▸ edit a.py"),
    ("Grep", {"pattern": "def x"}, "search", "▸ search def x"),
    ("WebFetch", {"url": "https://x.org"}, "fetch", "▸ fetch https://x.org"),
    ("LS", {"path": "/demo/src"}, "search", "▸ list src"),
    ("BashOutput", {"bash_id": "b1"}, "execute", "▸ BashOutput: b1"),
    ("Task", {"description": "look"}, "think", "▸ Task: look"),
    ("mcp__db__query", {"query": "q"}, "other", "▸ mcp__db__query: q"),
]


@pytest.mark.parametrize(("name", "input", "kind", "expected"), CALLS)
def test_a_kind_of_tool_has_one_shape_for_all_agents(name: str, input: Any, kind: Any, expected: str) -> None:
    """A command, a read file and an edit look the same whatever the agent calls its tool."""
    assert show(call(name, input, kind=kind), cwd="/demo") == f"[a] {expected}\n"


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_streamed_path_is_relative_too(size: int) -> None:
    """A path that grows piece by piece is held back only while it may still lead into the working directory."""
    for path, shown in [("/demo/src/a.py", "src/a.py"), ("/demonstration/a", "/demonstration/a"), ("/demo", "/demo")]:
        wire = f'{{"file_path": "{path}", "limit": 3}}'
        pieces = [wire[at : at + size] for at in range(0, len(wire), size)]
        events: list[ev.Event] = [ev.BlockStarted(1, "tool_input", 1, name="Read", call_id="c", **A)]
        events += [ev.Delta(1, "tool_input", piece, **A) for piece in pieces]
        events += [ev.BlockEnded(1, "tool_input", wire, True, **A), call("Read", {"file_path": path, "limit": 3})]
        assert show(*events, cwd="/demo") == f"[a] ▸ read {shown}\n"


def test_the_agent_reports_its_directory() -> None:
    """Paths are relative to the directory that the agent reports as well."""
    started = ev.RunStarted(cwd="/private/demo/", **A)
    assert show(started, call("Read", {"path": "/private/demo/a"}), cwd="/demo").splitlines()[1] == "[a] ▸ read a"


COMMAND = "cat > x.py <<EOF\nimport os\nprint(os)\n"


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("ls", ["$ ls"]),
        (COMMAND, ["$ cat > x.py <<EOF", "import os", "print(os)"]),
        (COMMAND + "EOF\n", ["$ cat > x.py <<EOF", "import os", "print(os)", "EOF"]),
        (COMMAND + "EOF\npython x.py", ["$ cat > x.py <<EOF", "import os", "print(os)", "… 2 more lines"]),
    ],
)
def test_a_command_shows_its_first_lines(command: str, lines: list[str]) -> None:
    """Up to three lines, or four if that is all; then the number of the others. It may have streamed."""
    whole = call("Bash", {"command": command}, kind="execute")
    assert [line.removeprefix("[a] ").strip() for line in show(whole).splitlines()] == lines
    wire = '{"command": ' + repr(command).replace("'", '"') + ', "timeout": 3}'
    started = ev.BlockStarted(1, "tool_input", 1, name="Bash", call_id="c", **A)
    pieces = [ev.Delta(1, "tool_input", wire[at : at + 5], **A) for at in range(0, len(wire), 5)]
    assert show(started, *pieces, whole) == show(whole)


def test_a_command_inside_a_shell_shows_its_lines() -> None:
    """An adapter may take the command out of the shell's arguments; its closing quote is not shown."""
    event = ev.ToolCalled(
        "c", "command_execution", {"command": "/bin/bash -lc 'a <<X\nb\nX'"}, "a <<X …", "execute", **A
    )
    assert show(event) == "[a] $ a <<X\n    b\n    X\n"


# --- edits ----------------------------------------------------------------------------------------------

DIFF = "@@ -8,3 +8,3 @@\n # Demo\n \n-old line\n+new line\n@@ -40,2 +40,3 @@\n x\n+y\n z\n"
EDIT = [ev.Change("/demo/README.md", "update", added=2, removed=1, diff=DIFF)]
PROPOSED = [ev.Change("/demo/README.md", "update", added=1, removed=1, diff="@@\n-old line\n+new line\n")]
INPUT = {"file_path": "/demo/README.md", "old_string": "old line", "new_string": "new line", "replace_all": False}
DIFF_LINES = """\
     8  # Demo
     9\x20\x20
    10 -old line
    10 +new line
     ⋮
    40  x
    41 +y
    42  z
"""


def test_an_edit_is_a_diff_with_counts() -> None:
    """The call has the counts that it proposes, its result the diff with line numbers."""
    shown = show(call("Edit", INPUT, changes=PROPOSED), result("updated.", changes=EDIT), cwd="/demo")
    assert shown == "[a] ▸ edit README.md +1 −1\n[a] ✓ updated +2 −1\n" + DIFF_LINES


def test_a_diff_is_coloured() -> None:
    """Added lines are green and removed ones red, and words that changed in a line are reversed."""
    sink = TextSink("full", color=True)
    shown = sink.render([result(changes=EDIT)])
    assert "\x1b[32m41 +y\x1b[0m" in shown
    assert "\x1b[32m10 +\x1b[0m\x1b[32;7mnew\x1b[0m\x1b[32m line\x1b[0m" in shown
    assert "\x1b[31m10 -\x1b[0m\x1b[31;7mold\x1b[0m\x1b[31m line\x1b[0m" in shown
    assert SGR.sub("", shown) == show(result(changes=EDIT))


def test_verbose_shows_the_proposed_diff_once() -> None:
    """The diff takes the place of the input's texts; the result repeats it only if other lines were changed."""
    shown = show(call("Edit", INPUT, changes=PROPOSED), result("", changes=PROPOSED), cwd="/demo", detail="verbose")
    lines = ["▸ edit README.md +1 −1", "replace_all: false", "-old line", "+new line", "✓ updated"]
    assert [line.removeprefix("[a] ").strip() for line in shown.splitlines()] == lines
    assert show(call("Edit", INPUT, changes=PROPOSED), result("", changes=EDIT), detail="verbose").endswith(DIFF_LINES)


@pytest.mark.parametrize(("detail", "lines"), [("normal", 13), ("verbose", 40), ("minimal", 0)])
def test_a_long_diff_is_short_below_verbose(detail: Any, lines: int) -> None:
    """Twelve lines of it, and how many there are more."""
    diff = "@@ -0,0 +1,40 @@\n" + "".join(f"+line {n}\n" for n in range(40))
    change = ev.Change("new.txt", "add", added=40, removed=0, diff=diff)
    shown = show(call("Write", {"path": "new.txt"}), result(changes=[change]), detail=detail)
    rows = [line for line in shown.splitlines() if not line.startswith("[")]
    assert len(rows) == (lines + 1 if detail == "verbose" else lines)  # with the words of the result
    assert ("    … 28 more lines\n" in shown) == (detail == "normal")


def test_several_files_are_named() -> None:
    """Each diff has its file above it; counts are the total."""
    moved = ev.Change("/demo/b", "move", to="/demo/c")
    gone = ev.Change("/demo/d", "delete", removed=3)
    shown = show(result(changes=[*EDIT, moved, gone], name="file_change"), cwd="/demo")
    assert shown.splitlines()[0] == "[a] ✓ file_change: 3 files changed +2 −4"
    assert "    README.md +2 −1\n" in shown
    assert shown.endswith("    b → c\n    d −3 (deleted)\n")


def test_a_question_shows_the_diff_before_its_options() -> None:
    """The user sees the change that is to be allowed."""
    options = [ev.Option("y", "Allow once", "allow_once"), ev.Option("n", "Reject", "reject_once")]
    shown = show(ev.QuestionAsked("q", "Edit it", True, "edit", options, changes=EDIT, **A), cwd="/demo")
    head = "[a] ? asks to change a file: Edit it\n    README.md +2 −1\n"
    assert shown == head + DIFF_LINES + "    1. Allow once\n    2. Reject\n"


@pytest.mark.parametrize(
    ("text", "files", "words"),
    [
        ("/home/me/a.txt", ["/home/me/a.txt"], "asks to change a file"),
        ("It is old.\n/home/me/a.txt", ["/home/me/a.txt"], "asks to change a file: It is old."),
        ("/home/me/a.txt, /etc/b", ["/home/me/a.txt", "/etc/b"], "asks to change a file: a.txt, /etc/b"),
        ("/home/me/a.txt", [], "asks to change a file: a.txt"),
        ("/home/me/a.txt", ["/home/me/b.txt"], "asks to change a file: a.txt"),
        ("/home/mean/a.txt", [], "asks to change a file: /home/mean/a.txt"),
        ("/home/me/a\x1b[2J", [], "asks to change a file: a"),
    ],
)
def test_a_path_is_asked_about_once_and_from_the_directory_of_the_run(text: str, files: list[str], words: str) -> None:
    """The diff that follows has it as its title. With several files the question lists them all, as the diff is cut."""
    changes = [ev.Change(file, "update", diff="@@\n-a\n+b\n") for file in files]
    asked = ev.QuestionAsked("q", text, True, "edit", changes=changes or None, **A)
    assert theme.question_words(asked, Paths("/home/me")) == words


# --- results --------------------------------------------------------------------------------------------

TESTS = """
import pytest

def add(a, b):
    print("adding", a, b)
    return a + b

@pytest.mark.parametrize("n", range(11))
def test_ok(n):
    assert add(n, 1) == n + 1

def test_add():
    for n in range(3):
        print("line", n)
    assert add(1, 2) == 4, "the sum is wrong"
"""


@pytest.fixture(scope="module")
def failed_tests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints of a failing test."""
    folder: Path = tmp_path_factory.mktemp("tests")
    (folder / "test_calc.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", "."]
    done = subprocess.run([*command, "test_calc.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stdout


@pytest.mark.sample(9)
@pytest.mark.parametrize("detail", ["minimal", "normal", "verbose"])
@pytest.mark.parametrize("ci", [None, "github", "gitlab"])
def test_a_failed_test_run_shows_the_failure(failed_tests: str, detail: Any, ci: Any) -> None:
    """Its assertion and its summary are outside of what a CI service folds, and not dim."""
    assert failed_tests.count("\n") > 30
    failed = result(failed_tests, is_error=True, exit_code=1, duration_ms=4200)
    shown = show(call("Bash", {"command": "pytest"}, kind="execute"), failed, detail=detail, ci=ci)
    outside = re.sub(r"::group::.*?::endgroup::|section_start.*?section_end", "", shown, flags=re.DOTALL)
    assert re.search(r"^ +E       AssertionError: the sum is wrong$", outside, re.MULTILINE)
    assert re.search(r"^ +FAILED test_calc\.py::test_add", outside, re.MULTILINE)
    assert f"[a] ✗ exit 1 ({failed_tests.count(chr(10))} lines) · 4.2 s\n" in outside
    assert ("test_ok[3]" in shown) == (ci is not None or detail == "verbose")
    assert "test_ok[3]" not in outside or (ci is None and detail == "verbose")
    sink = TextSink("full", color=True, detail=detail, ci=ci)
    assert re.search(r"^ *\x1b\[31m *FAILED ", sink.render([failed]), re.MULTILINE)


GITLAB_SECTION = re.compile(r"section_(start|end):(\d+):([a-zA-Z0-9_.-]+)(\[[^\]]*\])?\r\x1b\[0K")
"""Marks of sections, as GitLab's log viewer finds them anywhere in a line."""


def test_an_agent_cannot_begin_or_end_a_section_of_gitlab(failed_tests: str) -> None:
    """Its marks lose what makes them marks; the only sections are Penstock's, and each agent has its own."""
    mark = "\x1b[0Ksection_end:0:penstock_a_1\r\x1b[0K\n\x1b[0Ksection_start:0:x\r\x1b[0Ktitle\n"
    for label, name in (("a", "penstock_a_1"), ("ccs/glm é", "penstock_ccs_glm___1")):
        answer = [msgspec.structs.replace(event, agent=label) for event in text(mark)]
        failed = ev.ToolReturned("c", mark + failed_tests + mark, True, True, agent=label, exit_code=1)
        sink = TextSink("none", ci="gitlab")
        shown = sink.render([*answer, ev.Notice("warning", "retry", mark, agent=label), failed]) + sink.close()
        assert [found[::2] for found in GITLAB_SECTION.findall(shown)] == [("start", name), ("end", name)]


def test_a_short_failure_is_whole() -> None:
    """Its lines are under the line of the result."""
    assert show(result("out\nerr", is_error=True, exit_code=3)) == "[a] ✗ exit 3 (2 lines)\n    out\n    err\n"


def output(*pieces: str, block: int = 7) -> list[Any]:
    """Output of the call while it runs."""
    started = ev.BlockStarted(block, "tool_output", call_id="c", **A)
    deltas = [ev.Delta(block, "tool_output", piece, **A) for piece in pieces]
    return [started, *deltas, ev.BlockEnded(block, "tool_output", "".join(pieces), True, **A)]


def test_output_is_live_in_verbose() -> None:
    """Each piece is shown as it comes, and the result does not repeat it; below `verbose` only the result is shown."""
    command = call("Bash", {"command": "make"}, kind="execute")
    events = [command, *output("one\n", "two\n"), result("one\ntwo\n", exit_code=0)]
    assert show(*events, detail="verbose").endswith("[a] │ one\n      two\n[a] ✓ $ make (2 lines)\n")
    assert show(*events) == "[a] $ make\n[a] ✓ one\n    two\n"
    sink = TextSink("full", detail="verbose")
    assert [sink.render([event]) for event in events[1:4]] == ["", "[a] │ one\n", "      two\n"]


def test_other_output_than_the_live_one_is_shown() -> None:
    """A result which says something else is not left out."""
    shown = show(*output("progress"), result("The answer.\nYes."), detail="verbose")
    assert shown == "[a] │ progress\n[a] ✓ 2 lines\n    The answer.\n    Yes.\n"


@pytest.mark.parametrize(
    ("live", "text", "shown"),
    [
        ("b\nc\n", "a\nb\nc\n", "a\n… the 2 lines above"),
        ("a\n", "a\nb\nc\n", "b\nc"),
        ("b\n", "a\nb\nc\n", "a\n… the 1 line above\nc"),
        ("b\na\n", "a\nb\n", "a\nb"),
        ("a\nb\n", "b\n", ""),
        ("a\na\n", "a\na\na\n", "a"),
        ("x", "", ""),
        ("err\n", "out\n[stderr]\n", "out\n[stderr]"),
        ("out\n[stderr]\n", "err", "err"),
        ("", "a", "a"),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"is_error": True, "exit_code": 2}])
def test_output_that_did_not_stream_is_shown_at_the_end(live: str, text: str, shown: str, fields: Any) -> None:
    """Agents begin to send the output late, or leave some of it out; nothing is lost, and nothing is told twice."""
    lines = show(*output(live), result(text, **fields), detail="verbose").split("[a] ")[-1].partition("\n")[2]
    assert [line.strip() for line in lines.splitlines()] == shown.splitlines()


def test_output_that_was_revised_is_shown_as_it_became() -> None:
    """What a revision changed was not written, as a line is not taken back."""
    events = output("one\n", "two\n")
    events.insert(3, ev.BlockRevised(7, "tool_output", "one\nthree\n", **A))
    events[-1] = ev.BlockEnded(7, "tool_output", "one\nthree\n", True, **A)
    assert "three" in show(*events, result("one\nthree\n"), detail="verbose")


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("own", [None, 9_900, 40_000])
def test_the_wait_for_a_person_is_no_time_of_the_run(own: int | None, is_live: bool) -> None:
    """The closing line has the work and the wait, whether the agent's clock counts the wait or not."""
    end = ev.RunEnded("ok", "", 0, duration_ms=own, at=40_000, asked_ms=30_000, **A)
    shown = show(end, guidance=Guidance(is_live=is_live))
    assert shown in ("[a] ● done in 10 s · asked 30 s\n", "[a] ● done in 9.9 s · asked 30 s\n")
    assert ("9.9" in shown) == (own == 9_900 and not is_live)


PLAN = ev.PlanChanged([ev.PlanItem("look", "pending")], **A)
PLAN_LINES = "[a] ☰ plan (0 of 1 done)\n    ☐ look\n"


def test_a_plan_tool_is_not_shown_beside_its_plan() -> None:
    """Its call and result are left out if the plan changed meanwhile, also if its input streams."""
    wrote = call("TodoWrite", {"todos": [{"content": "look"}]})
    assert show(wrote, PLAN, result("modified")) == PLAN_LINES
    started = ev.BlockStarted(1, "tool_input", 1, name="update_plan", call_id="c", **A)
    delta = ev.Delta(1, "tool_input", '{"plan": "look', **A)
    assert show(started, delta, call("update_plan", {"plan": "look"}), PLAN, result()) == PLAN_LINES


@pytest.mark.parametrize("fails", [True, False])
def test_a_plan_tool_without_a_plan_is_shown(fails: bool) -> None:
    """If the plan did not change, or the call failed, it is a call like others."""
    wrote = call("TodoWrite", {"todos": [], "name": "x"})
    between = [PLAN] if fails else []
    shown = show(wrote, *between, result("no", is_error=fails))
    assert shown == (PLAN_LINES if fails else "") + f"[a] ▸ TodoWrite: x\n[a] {'✗' if fails else '✓'} no\n"
    assert show(wrote, ev.RunEnded("ok", "", 1, **A)).startswith("[a] ▸ TodoWrite: x\n")


def test_calls_at_once_change_the_plan_on_one_line() -> None:
    """The plan is shown when the last of them has returned, or at the end of the run."""
    calls = [call("TaskCreate", {"subject": name}, name) for name in ("look", "write")]
    both = ev.PlanChanged([*PLAN.items, ev.PlanItem("write", "pending")], **A)
    shown = "[a] ☰ plan (0 of 2 done)\n    ☐ look\n    ☐ write\n"
    assert show(*calls, PLAN, result(id="look"), both, result(id="write")) == shown
    ended = ev.RunEnded("ok", "", 1, **A)
    assert show(*calls, PLAN, result(id="look"), both, ended) == shown + "[a] ● done · 1 round\n"


def test_the_lines_of_a_file_that_was_read_are_counted() -> None:
    """Its first line alone says nothing; a file of one line, and an output of one, are shown."""
    read = call("Read", {"file_path": "/demo/a.py"}, "c", "read")
    assert show(read, result("1\timport os\n2\t\n")) == "[a] ▸ read /demo/a.py\n[a] ✓ 2 lines\n"
    assert show(read, result("File is empty.")) == "[a] ▸ read /demo/a.py\n[a] ✓ File is empty.\n"


def test_wide_gaps_in_the_line_of_a_result_are_closed() -> None:
    """Columns of several lines have no use in one."""
    ran = call("Bash", {"command": "pytest"}, "c", "execute")
    assert show(ran, result("..        [100%]\n2 passed")) == "[a] $ pytest\n[a] ✓ ..  [100%]\n    2 passed\n"


# --- first and last lines ---------------------------------------------------------------------------------


def test_the_first_line_says_what_runs() -> None:
    """Agent and version, model, directory, session; what comes before the work is added, and none is repeated."""
    one = ev.RunStarted(session_id="4ea1ae76-b3c0", cwd="/demo", version="2.1", **A)
    two = ev.RunStarted(session_id="4ea1ae76-b3c0", cwd="/demo", version="2.1", model="m", **A)
    assert show(one, two, two) == "[a] · a 2.1 · in /demo · session 4ea1ae76 · m\n"
    assert "session 4ea1ae76-b3c0" in show(one, detail="verbose")
    assert show(ev.RunStarted(program="peer", version="2.1", **A)) == "[a] · peer 2.1\n"
    assert show(ev.RunStarted(program="peer", **A)) == "[a] · peer\n"
    read = call("Read", {"path": "a"})
    assert show(ev.RunStarted(model="m", **A), read, two) == "[a] · m\n[a] ▸ read a\n"


def test_the_first_line_grows_until_the_model_is_known() -> None:
    """A terminal has each fact at once, a log the whole line; both have it before anything else, and have it once."""
    facts: dict[str, Any] = {"session_id": "s1", "version": "2.1", **A}
    one, two = ev.RunStarted(**facts), ev.RunStarted(model="m", **facts)
    terminal, log = TextSink("full"), TextSink("none")
    assert (terminal.render([one]), log.render([one])) == ("[a] · a 2.1 · session s1", "")
    assert (terminal.render([one]), log.render([one])) == ("", "")
    assert (terminal.render([two]), log.render([two])) == (" · m\n", "[a] · a 2.1 · session s1 · m\n")
    narrow, long = TextSink("full", width=40), ev.RunStarted(model="mock/other-model", **facts)
    assert narrow.render([one]) + narrow.render([long]) == "[a] · a 2.1 · session s1 · \n    mock/other-model\n"
    coloured = TextSink("full", color=True, guidance=Guidance(permission="does everything unasked"))
    assert SGR.sub("", coloured.render([one, two])) == "[a] · a 2.1 · does everything unasked · session s1 · m\n"


def test_the_first_line_ends_where_another_begins() -> None:
    """Whatever it is; a model that is known only then is named as one, and after the work has begun it is not shown."""
    facts: dict[str, Any] = {"version": "2.1", **A}
    one, two = ev.RunStarted(**facts), ev.RunStarted(model="m", **facts)
    noted = ev.Notice("warning", "retry", "again", **A)
    assert show(one, noted, two, *text("Hi.")) == "[a] · a 2.1\n[a] ! again\n[a] · model m\n\n[a] Hi.\n"
    assert show(one, *text("Hi."), two) == "[a] · a 2.1\n\n[a] Hi.\n"
    assert show(one, *text("Hi."), two, detail="verbose") == "[a] · a 2.1\n\n[a] Hi.\n[a] · model m\n"
    folded = show(one, result("1\n" * 12), two, ci="github", detail="verbose")
    assert folded.startswith("[a] · a 2.1\n::group::")
    assert show(one, ev.RunEnded("ok", "", 0, **A)) == "[a] · a 2.1\n[a] ● done\n"
    hidden = ev.Notice("info", "status", "x", **A)
    assert show(one, hidden, two) == "[a] · a 2.1 · m\n"
    thinking = ev.BlockStarted(1, "thinking", 1, **A)
    assert show(one, thinking, two, detail="minimal") == ""
    for mode in ("full", "none"):
        sink = TextSink(mode)
        before = sink.render([one]) + sink.close()
        assert (before, sink.render([two])) == ("[a] · a 2.1\n", "[a] · model m\n")


def test_a_model_that_looks_like_a_line_stays_in_the_first_one() -> None:
    """What an agent reports of itself makes no line of its own, and no command of a CI service."""
    one, two = ev.RunStarted(version="2", **A), ev.RunStarted(model="m\n[a] ● done\n::error::x", **A)
    assert show(one, two).count("\n") == 1
    lines = show(one, two, prefix="none", ci="github").splitlines()
    assert len(lines) == 1


def test_a_conversation_says_what_runs_once() -> None:
    """A run repeats no fact of the run before it and not its session; a fact that is back after another one is said."""
    said: set[str] = set()
    end = ev.RunEnded("ok", "", 1, session_id="s1", **A)

    def turn(permission: str) -> str:
        sink = TextSink("none", guidance=Guidance(permission=permission, said_before=said))
        return sink.render([ev.RunStarted(session_id="s1", model="m", **A), end]) + sink.close()

    assert turn("asks") == "[a] · m · asks · session s1\n[a] ● done · 1 round\n"
    assert turn("asks") == "[a] ● done · 1 round\n"
    assert turn("edits") == "[a] · edits\n[a] ● done · 1 round\n"
    assert turn("asks") == "[a] · asks\n[a] ● done · 1 round\n"


def test_the_answer_has_blank_lines_around_it() -> None:
    """Text after other lines is set apart, and so is the closing line after text."""
    end = ev.RunEnded("ok", "Done.", 1, **A)
    shown = show(*text("Hm."), call("Read", {"path": "a"}), *text("Done.", block=2), end)
    assert shown == "[a] Hm.\n[a] ▸ read a\n\n[a] Done.\n\n[a] ● done · 1 round\n"


def test_the_end_sums_up() -> None:
    """Changed files with counts, whether commands ran, refused actions, and how to go on."""
    calls = [call("Edit", {}, "1"), result("", "1", changes=EDIT), call("Edit", {}, "2"), result("", "2", changes=EDIT)]
    end = ev.RunEnded("ok", "", 2, session_id="s1", refused=2, at=4200, duration_ms=900, **A)
    guidance = Guidance(resume=lambda id: f'penstock run a --session {id} "…"', allow="--allow edits", is_live=True)
    shown = show(*calls, end, cwd="/demo", guidance=guidance)
    assert shown.partition("● ")[2] == (
        "done in 4.2 s · 2 rounds\n    2 actions were refused: --allow edits\n    changed: README.md +4 −2\n"
        '    go on: penstock run a --session s1 "…"\n'
    )
    ran = show(*calls, call("Bash", {"command": "ls"}, "3", "execute"), result("", "3"), end)
    assert "\n    changed: /demo/README.md +4 −2; commands may have changed more\n    session s1\n" in ran


def test_the_first_line_has_the_permission_once() -> None:
    """It stands before the session; what is done unasked has the colour of warnings."""
    started = ev.RunStarted(model="m1", session_id="s1", **A)
    guidance = Guidance(permission="asks")
    assert show(started, started, guidance=guidance) == "[a] · m1 · asks · session s1\n"
    unasked = TextSink("full", color=True, guidance=Guidance(permission="does everything unasked")).render([started])
    warning = TextSink("full", color=True).render([ev.Notice("warning", "status", "y", **A)])
    colour = warning.partition("! ")[0].rpartition("\x1b")[2]
    assert f"\x1b{colour}does everything unasked" in unasked
    assert f"\x1b{colour}asks" not in TextSink("full", color=True, guidance=guidance).render([started])


def test_the_permission_comes_before_the_work_of_an_agent_that_is_named_later() -> None:
    """Cline says what it is at its end only; the first line of ccs follows what its program reports."""
    guidance = Guidance(permission="does everything unasked")
    named = ev.RunStarted(model="m1", **A)
    assert show(*text("Hi."), named, guidance=guidance).splitlines() == ["[a] · does everything unasked", "", "[a] Hi."]
    asks = ev.QuestionAsked("q", "Go on?", True, "command", **A)
    assert show(asks, named, guidance=guidance).startswith(
        "[a] · does everything unasked\n[a] ? asks to run a command: Go on?\n"
    )
    assert show(*text("Hi."), named).splitlines() == ["[a] Hi."]
    noted = show(ev.Notice("warning", "status", "ready", **A), named, *text("Hi."), named, guidance=guidance)
    assert noted.splitlines() == ["[a] ! ready", "[a] · m1 · does everything unasked", "", "[a] Hi."]


def test_a_session_that_is_no_plain_word_is_in_no_command() -> None:
    """What an agent reports cannot become a part of a command that the user copies."""
    guidance = Guidance(resume=lambda id: f"penstock run a --session {id}")
    for session in ('"; rm -rf ~; "', "--help", "$(x)", "a b", "a\nb"):
        assert "go on" not in show(ev.RunEnded("ok", "", 1, session_id=session, **A), guidance=guidance)


def test_a_conversation_that_the_agent_does_not_know_is_not_gone_on_with() -> None:
    """A failure may repeat a mistyped id; a conversation that failed later can go on."""
    guidance = Guidance(resume=lambda id: f"penstock run a --session {id}")
    end = ev.RunEnded("error", "", 0, session_id="typo", reason="No conversation found", **A)
    shown = show(end, guidance=guidance)
    assert "session" not in shown
    assert "go on: penstock run a --session typo" in show(ev.RunStarted(session_id="typo", **A), end, guidance=guidance)


CAUSES = [
    ({"cause": "usage_limit", "resets_at": 0}, "the usage limit was reached; it resets at 1970-01-01 00:00 UTC"),
    ({"cause": "auth", "reason": "no key"}, "there is no valid login: no key"),
    ({"reason": '{"type":"error","error":{"message":"Overloaded"}}'}, "Overloaded"),
]


@pytest.mark.parametrize(("fields", "expected"), CAUSES)
def test_the_cause_is_in_words(fields: dict[str, Any], expected: str) -> None:
    """With the time at which a limit resets, and the message of an error that is JSON."""
    assert show(ev.RunEnded("error", "", 0, **fields, **A)) == f"[a] ✗ failed: {expected}\n"


def test_a_diff_that_was_asked_about_is_not_repeated() -> None:
    """The result of the allowed edit has no diff, unless it made another change than the one in the question."""
    options = [ev.Option("y", "Yes", "allow_once")]
    asked = ev.QuestionAsked("q", "Edit it: /demo/README.md", True, "edit", options, call_id="c", changes=EDIT, **A)
    yes = ev.QuestionAnswered("q", "person", "y", **A)
    begun = [call("Edit", INPUT, changes=PROPOSED), asked, yes]
    shown = show(*begun, result("updated.", changes=EDIT), cwd="/demo")
    assert "? asks to change a file: Edit it\n    README.md +2 −1\n" in shown
    assert shown.count("+new line") == 1
    assert shown.endswith("[a] ✓ edit README.md: updated +2 −1\n")
    assert show(*begun, result("updated.", changes=PROPOSED), cwd="/demo").count("+new line") == 2


def test_the_directory_of_a_live_run_is_shown() -> None:
    """Once, also if the agent does not report it; a stream that is read may be of another machine."""
    live = Guidance(is_live=True)
    one, two = ev.RunStarted(version="2", **A), ev.RunStarted(model="m", cwd="/private/demo", **A)
    assert show(one, cwd="/demo", guidance=live) == "[a] · a 2 · in /demo\n"
    assert show(two, cwd="/demo", guidance=live) == "[a] · m · in /private/demo\n"
    assert show(one, cwd="/demo") == "[a] · a 2\n"


def test_what_was_refused_is_named() -> None:
    """By its command or path; at most three, and whether the wire or an answer refused it."""
    reject = [ev.Option("n", "No", "reject_once")]
    asked = ev.QuestionAsked("q", "Run it?", True, "command", reject, call_id="c1", title="rm -rf build", **A)
    no = ev.QuestionAnswered("q", "person", "n", **A)
    end = ev.RunEnded("ok", "", 1, refused=1, **A)
    guidance = Guidance(allow="--allow all")
    ran = call("Bash", {"command": "rm -rf build"}, "c1", "execute")
    denied = result("no", "c1", is_error=True, refused=True)
    last = "\n    1 action was refused (rm -rf build)"
    assert show(ran, denied, end, guidance=guidance).endswith(f"{last}: --allow all\n")
    # Who has just said no is not advised to allow it.
    assert show(ran, asked, no, denied, end, guidance=guidance).endswith(f"{last}\n")
    nobody = ev.QuestionAnswered("q", "nobody", **A)
    assert show(ran, asked, nobody, denied, end, guidance=guidance).endswith(f"{last}: --allow all\n")
    allowed = ev.QuestionAnswered("q", "person", "y", **A)
    assert "rm" not in show(ran, asked, allowed, end).rpartition("done")[2]
    many: list[ev.Event] = [call("Read", {"file_path": f"f{n}"}, f"c{n}") for n in range(5)]
    many += [result("no", f"c{n}", is_error=True, refused=True) for n in range(5)]
    shown = show(*many, ev.RunEnded("ok", "", 1, refused=5, **A))
    assert shown.endswith("\n    5 actions were refused (f0; f1; f2; …)\n")
    here = ev.RunStarted(cwd="/home/ana/shop", **A)
    asked = ev.QuestionAsked("q", "/home/ana/shop/a.py, /etc/hosts", True, "edit", reject, call_id="c1", **A)
    shown = show(here, call("Edit", {"file_path": "/home/ana/shop/a.py"}, "c1", "edit"), asked, no, end)
    assert "\n    1 action was refused (a.py, /etc/hosts)\n" in shown


def test_what_was_refused_is_shown_even_when_quiet() -> None:
    """A run that ended well without doing what was asked is not silent about it."""
    end = ev.RunEnded("ok", "", 1, refused=1, session_id="s", **A)
    assert show(end, detail="quiet") == "[a] ● done · 1 round\n    1 action was refused\n"
    assert show(ev.RunEnded("ok", "", 1, refused=0, **A), detail="quiet") == ""


def test_noise_of_agents() -> None:
    """An error that is JSON is its message, and a stack trace is short below `verbose`."""
    json = '{"message":"Overloaded","type":"overloaded_error"}'
    assert show(ev.Notice("warning", "retry", json, **A)) == "[a] ! Overloaded\n"
    trace = "\n".join(["Error: no", *(f"    at f{n}" for n in range(10))])
    assert show(ev.Notice("error", "error", trace, **A)).splitlines()[-2:] == ["        at f3", "    … 6 more lines"]
    assert "at f9" in show(ev.Notice("error", "error", trace, **A), detail="verbose")


def test_silence_is_one_line() -> None:
    """It ends the open line, names the command that runs, and the text goes on afterwards."""
    sink = TextSink("full")
    sink.render([ev.BlockStarted(1, "text", 1, **A), ev.Delta(1, "text", "half", **A)])
    assert sink.silent(10, "a") == "\n[a] · still working, 10 s\n"
    assert sink.render([ev.Delta(1, "text", " more", **A)]) == "\n[a]  more"
    sink.render([call("Bash", {"command": "make"}, kind="execute")])
    sink.render([ev.BlockEnded(1, "text", "half more", True, **A)])
    assert sink.silent(120, "a") == "[a] · still working, 2 min 0 s: $ make\n"
    sink.render([result()])
    assert sink.silent(180, "a") == "[a] · still working, 3 min 0 s\n"
    assert TextSink("none", detail="quiet").silent(10, "a") == ""


def test_silence_before_anything_is_no_work() -> None:
    """An agent that has reported nothing is starting; after its first line, which ends, it is working."""
    for mode in ("full", "none"):
        sink = TextSink(mode)
        assert sink.silent(10, "a") == "[a] · still starting, 10 s\n"
        before = sink.render([ev.RunStarted(version="2.1", **A)])
        line, working = (before + sink.silent(10, "a")).splitlines()
        assert (line, working) == ("[a] · a 2.1", "[a] · still working, 10 s")


def test_silence_does_not_break_the_text_of_a_log() -> None:
    """A log has nothing of an open text yet, so the line of silence comes first and the text stays whole."""
    sink = TextSink("none")
    first, second = text("half", " more")[:3], text("half", " more")[3:]
    assert sink.render(first) == ""
    assert sink.silent(60, "a") == "[a] · still working, 1 min 0 s\n"
    assert sink.render(second) == "[a] half more\n"


def test_labels_of_several_agents() -> None:
    """Each has a colour, and all have one width."""
    heads = []
    for number, label in enumerate(["claude", "pi"]):
        sink = TextSink("basic", color=True, label_number=number, label_width=6)
        heads.append(sink.render([ev.Notice("warning", "retry", "x", agent=label)]))
    assert heads[0].startswith("\x1b[36m[claude] \x1b[0m")
    assert heads[1].startswith("\x1b[35m[pi]     \x1b[0m")


# --- Markdown -------------------------------------------------------------------------------------------

MARKDOWN = [
    ("a **bold** b", "a **<1>bold**</> b"),
    ("`code` x", "`<35>code`</> x"),
    ("```py\nx = `1`\n```\ntext", "```<35>py</>\n<35>x = `1`</>\n<35>```</>\ntext"),
    ("2 ** 3 ** 4", "2 ** 3 ** 4"),
    ("snake__case__x", "snake__case__x"),
    (r"\*\*no\*\*", r"\*\*no\*\*"),
    ("**open\nnext", "**<1>open</>\nnext"),
    ("``a`b`` c", "``<35>a`b``</> c"),
    ("| a | b |\n|---|---|", "| a | b |\n|---|---|"),
]


@pytest.mark.parametrize(("source", "expected"), MARKDOWN)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_markdown_is_coloured(source: str, expected: str, size: int) -> None:
    """Only by codes around the characters, however the text is cut; nothing is held back."""
    pieces = [source[at : at + size] for at in range(0, len(source), size)]
    sink = TextSink("full", color=True, prefix="none")
    shown = ""
    for event, piece in zip(text(*pieces)[1:-1], pieces, strict=True):
        sink_output = sink.render([event])
        assert SGR.sub("", sink_output).strip("\n") == piece.strip("\n")
        shown += sink_output
    assert marked(shown) == expected


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_heading_is_bold(size: int) -> None:
    """Its words are, in its own line only."""
    source = "## Head of it\n#no\n"
    pieces = [source[at : at + size] for at in range(0, len(source), size)]
    sink = TextSink("full", color=True, prefix="none")
    shown = marked("".join(sink.render([event]) for event in text(*pieces)))
    assert re.fullmatch(r"#*<1>[# ]*Head of it</>\n#no\n", shown)


def marked(shown: str) -> str:
    """Colour codes as `<1>` and `</>`, merged over the pieces of a text."""
    shown = re.sub(r"\x1b\[0m\x1b\[[0-9;]+m", lambda found: found[0] if "\n" in found[0] else "", shown)
    return re.sub(r"\x1b\[([0-9]+)m", lambda found: "</>" if found[1] == "0" else f"<{found[1]}>", shown)


# --- wrapping -------------------------------------------------------------------------------------------

PROSE = "The quick brown fox jumps over the lazy dog and runs away from here, because it can. "


def test_lines_are_wrapped_by_words() -> None:
    """A break comes before a word that does not fit, and the rest hangs under the text."""
    shown = show(*text(*re.findall(r"\S+ ", PROSE)), width=40)
    assert shown == (
        "[a] The quick brown fox jumps over the \n    lazy dog and runs away from here, \n    because it can. \n"
    )


def test_a_word_that_grows_past_the_margin_is_left_to_the_terminal() -> None:
    """Its beginning fitted and was written, so no break can come before it."""
    shown = show(*text("The quick brown fox jumps over th", "eeeeeeee lazy dog"), mode="full", width=40)
    assert shown == "[a] The quick brown fox jumps over theeeeeeee lazy dog\n"


def test_code_and_diffs_are_not_wrapped() -> None:
    """They can be copied; the text after them is wrapped again."""
    code = "x = " + "1 + " * 20 + "1"
    shown = show(
        *text(f"```\n{code}\n```\n{PROSE}"), result(changes=[ev.Change("a", "add", diff=f"@@\n+{code}\n")]), width=40
    )
    assert f"    {code}\n    ```\n    The quick brown fox jumps over the \n" in shown
    assert f"    +{code}\n" in shown


@pytest.mark.parametrize("failed", [True, False])
def test_lines_of_commands_are_not_wrapped(failed: bool) -> None:
    """Neither those of a short output nor the last ones of a failure: they can be copied too."""
    line = "=" * 30 + " short test summary info " + "=" * 30
    called = call("Bash", {"command": "pytest"}, kind="execute")
    shown = show(called, result(f"first\n{line}\nError: {line}", is_error=failed), width=40)
    assert f"\n    {line}\n    Error: {line}\n" in shown


def test_wide_characters_count_two_columns() -> None:
    """Chinese and Japanese text is broken between its characters."""
    shown = show(*text("日本語" * 12), width=40)
    assert [columns(line) for line in shown.splitlines()] == [4 + 34, 4 + 34, 4 + 4]


EMOJI = ["👍🏽", "👩\u200d👩\u200d👧\u200d👦", "🇪🇺", "🇯🇵", "✅", "👩🏽\u200d🚀", "🎉"]
"""Emoji of two columns each: with a skin tone, of joined persons, of two letters, and of one character."""


@pytest.mark.parametrize("pieces", [1, 2, 3, 100])
def test_emoji_are_wrapped_whole(pieces: int) -> None:
    """A row of emoji is broken between them, and never in one of them, however its characters arrive.

    There is room for a skin tone beside its emoji, as terminals show it that do not know such pairs.
    """
    for emoji in (EMOJI, EMOJI[:1]):
        row = "".join(emoji * 12)
        parts = [row[at : at + pieces] for at in range(0, len(row), pieces)]
        shown = show(*text(*parts), mode="full", width=40)
        lines = [line.removeprefix("[a] ").strip(" ") for line in shown.splitlines()]
        assert "".join(lines) == row
        assert [one for line in lines for one in re.findall("|".join(emoji), line)] == emoji * 12
        assert all(columns(line) <= 40 - 4 - 1 for line in lines)
        if len(emoji) == 1:
            assert all(20 < sum(map(columns, line)) <= 40 - 4 - 1 for line in lines[:-1])


def test_a_terminal_can_change_its_size() -> None:
    """Lines that follow have the new width, and none wraps them no more."""
    sink = TextSink("full", width=40)
    first = sink.render(text(PROSE))
    sink.resize(30)
    assert sink.render(text(PROSE, block=2)).count("\n") > first.count("\n")
    sink.resize(None)
    assert sink.render(text(PROSE, block=3)) == f"[a] {PROSE}\n"


WORDS = st.lists(
    st.sampled_from(
        ["word ", "a", " ", "\n", "longer-word", "日本", "**b** ", "`", "\t", "😀 ", "👩", "🏽", "\u200d", "🇪", "- x\n"]
    ),
    max_size=40,
)


@given(WORDS, st.integers(20, 60))
def test_wrapping_only_adds_breaks(pieces: list[str], width: int) -> None:
    """Each inserted break follows a space or a wide character; without the breaks the text is the same."""
    events = text(*pieces)
    sink, plain = TextSink("full", width=width), TextSink("full")
    for event in events:
        wrapped, expected = sink.render([event]), plain.render([event])
        assert without_breaks(wrapped, expected) == expected


def without_breaks(wrapped: str, expected: str) -> str:
    """A wrapped text without inserted breaks, each of which has to follow a space or a wide character."""
    kept = ""
    while wrapped:
        if wrapped.startswith("\n    ") and not expected[len(kept) :].startswith("\n"):
            assert kept[-1:].isspace() or columns(kept[-1:].rstrip("\u200d") or "日") == 2 or not kept
            wrapped = wrapped[5:]
        else:
            kept, wrapped = kept + wrapped[0], wrapped[1:]
    return kept


def test_a_plan_is_repeated_by_what_changed() -> None:
    """The first state is whole, later ones have what is new or has another state; `verbose` has all of it each time."""
    first = [ev.PlanItem("look", "in_progress"), ev.PlanItem("write", "pending"), ev.PlanItem("test", "pending")]
    then = [ev.PlanItem("look", "completed"), ev.PlanItem("write", "in_progress"), ev.PlanItem("test", "pending")]
    last = [*then[:2], ev.PlanItem("check", "pending")]
    whole, changed, other = (ev.PlanChanged(items, **A) for items in (first, then, last))
    shown = "[a] ☰ plan (0 of 3 done)\n    ◐ look\n    ☐ write\n    ☐ test\n"
    shown += "[a] ☰ plan (1 of 3 done)\n    ☑ look\n    ◐ write\n"
    shown += "[a] ☰ plan (1 of 3 done)\n    ☐ check\n    … 1 no longer in it\n"
    assert show(whole, changed, other) == shown
    assert show(whole, changed, detail="verbose").count("test") == 2
    ended = ev.RunEnded("ok", "", 1, **A)
    assert show(whole, ended, whole).count("look") == 2
    below = ev.PlanChanged(first, parent="t1", **A)
    assert show(whole, below).count("☐ test") == 2
