from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock.core.tool_titles import title, tool_kind
from penstock.sinks.text.sink import TextSink

SGR = re.compile(r"\x1b\[[0-9;]*m")


def show(events: list[Any], mode: Any = "none", *, step: int = 1, **options: Any) -> str:
    """All that a sink writes for the events, given `step` at a time."""
    sink = TextSink(mode, **options)
    return "".join(sink.render(events[n : n + step]) for n in range(0, len(events), step)) + sink.close()


class Run:
    """Writes event lists by hand, in few words."""

    def __init__(self, agent: str = "claude") -> None:
        self.events: list[Any] = []
        self.marks: dict[str, Any] = {"agent": agent}
        self.blocks = 0

    def add(self, kind: Any, *args: Any, **fields: Any) -> Run:
        """Any event, with the run's marks."""
        self.events.append(kind(*args, **{**self.marks, **fields}))
        return self

    def start(self, kind: str = "text", **fields: Any) -> int:
        """A block that stays open."""
        self.blocks += 1
        self.add(ev.BlockStarted, self.blocks, kind, 1, **fields)
        return self.blocks

    def delta(self, block: int, text: str, kind: str = "text", **fields: Any) -> Run:
        """More of a block."""
        return self.add(ev.Delta, block, kind, text, **fields)

    def end(self, block: int, text: str = "", kind: str = "text", complete: bool = True, **fields: Any) -> Run:
        """The end of a block."""
        return self.add(ev.BlockEnded, block, kind, text, complete, **fields)

    def block(self, *deltas: str, kind: str = "text", complete: bool = True, **fields: Any) -> Run:
        """A whole block."""
        number = self.start(kind, **fields)
        for delta in deltas:
            self.delta(number, delta, kind, **fields)
        return self.end(number, "".join(deltas), kind, complete, **fields)

    def call(self, call_id: str, name: str, input: Any, **fields: Any) -> Run:
        """A call."""
        return self.add(ev.ToolCalled, call_id, name, input, title(name, input), tool_kind(name), **fields)

    def result(self, call_id: str, text: str, is_error: bool = False, complete: bool = True, **fields: Any) -> Run:
        """What a call gave back."""
        return self.add(ev.ToolReturned, call_id, text, is_error, complete, **fields)

    def shown(self, mode: Any = "none", **options: Any) -> str:
        """What is written; in `full` with colours stripped it must be what `none` writes."""
        plain = show(self.events, mode, **options)
        full = SGR.sub("", show(self.events, "full", color=True, **options))
        if not any(type(event) is ev.BlockRevised for event in self.events):
            assert full == plain
        return plain


def test_the_tone() -> None:
    """A whole run, as a person reads it."""
    run = Run().block("I will look ", "around first.")
    call = run.start("tool_input", name="Bash", call_id="c1")
    run.delta(call, '{"command":"echo hi', "tool_input").delta(call, ' && ls"}', "tool_input")
    run.end(call, "…", "tool_input").call("c1", "Bash", {"command": "echo hi && ls"})
    run.result("c1", "hi\nREADME.md\nschema.json\n").block("Hm.\n\nSo ", "it is.", kind="thinking")
    run.call("c2", "Write", {"file_path": "notes.txt", "content": "x"}).result("c2", "File created")
    run.add(ev.PlanChanged, [ev.PlanItem("look", "completed"), ev.PlanItem("write", "in_progress")])
    run.add(ev.Notice, "warning", "retry", "again in 1 s").block("All done:\n- `notes.txt`\n")
    usage = ev.Usage(input_tokens=3210, output_tokens=64)
    run.add(ev.Replied, "All done", False)
    run.add(ev.RunEnded, "ok", "All done", 3, usage=usage, cost_usd=0.0123, duration_ms=4710)
    assert run.shown() == (
        "[claude] I will look around first.\n"
        "[claude] $ echo hi && ls\n"
        "[claude] ✓ hi\n"
        "         README.md\n"
        "         schema.json\n"
        "[claude] ∴ Hm.\n"
        "\n"
        "           So it is.\n"
        "[claude] ▸ edit notes.txt\n"
        "[claude] ✓ File created\n"
        "[claude] ☰ plan (1 of 2 done)\n"
        "         ☑ look\n"
        "         ◐ write\n"
        "[claude] ! again in 1 s\n"
        "\n"
        "[claude] All done:\n"
        "         - `notes.txt`\n"
        "\n"
        "[claude] ● done in 4.7 s · 3 rounds · 3.2k in, 64 out · $0.01\n"
    )


def test_full_writes_each_delta_and_none_only_whole_lines() -> None:
    """A mode says when bytes leave."""
    run = Run().block("a", "b", "\n", "c").block("d")
    full, none = TextSink("full"), TextSink("none")
    one, two = "[claude] ab\n         c\n", "[claude] d\n"
    grown = ["", "[claude] a", "b", "\n", "         c", "\n", "", "[claude] d", "\n"]
    assert [full.render([event]) for event in run.events] == grown
    assert [none.render([event]) for event in run.events] == ["", "", "", "", "", one, "", "", two]


def test_without_realtime_full_writes_whole_lines() -> None:
    """`realtime=False` takes the policy of the other modes, and keeps the colours."""
    run = Run().block("a", "b", kind="thinking")
    sink = TextSink("full", color=True, realtime=False)
    assert [bool(sink.render([event])) for event in run.events] == [False, False, False, True]


def test_a_long_block_is_one_prefixed_line_start() -> None:
    """Three thousand deltas do not make three thousand prefixes."""
    assert Run().block(*["word "] * 3000).shown() == "[claude] " + "word " * 3000 + "\n"


def test_a_tool_line_grows() -> None:
    """The telling argument streams; the rest comes with the call."""
    run = Run()
    call = run.start("tool_input", name="Bash", call_id="c")
    for delta in ('{"command":', ' "npm te', 'st", "desc', 'ription": "x"}'):
        run.delta(call, delta, "tool_input")
    run.end(call, "", "tool_input").call("c", "Bash", {"command": "npm test", "description": "x"})
    sink = TextSink("full")
    assert [sink.render([event]) for event in run.events] == ["[claude] $", "", " npm te", "st", "", "", "\n"]


def test_text_waits_for_the_open_tool_line() -> None:
    """While a call's line grows, other blocks wait, whole calls too; then all come in order."""
    run = Run()
    text = run.start()
    run.delta(text, "before ")
    one = run.start("tool_input", name="Bash", call_id="1")
    run.delta(one, '{"command":"first', "tool_input").delta(text, "after").add(ev.Notice, "info", "retry", "note")
    two = run.start("tool_input", name="Bash", call_id="2")
    run.delta(two, '{"command":"second', "tool_input").delta(one, ' one"}', "tool_input").end(text)
    run.call("1", "Bash", {"command": "first one"}).result("1", "ok")
    run.delta(two, ' two"}', "tool_input").call("2", "Bash", {"command": "second two"}).result("2", "ok")
    assert run.shown() == (
        "[claude] before \n[claude] $ first one\n\n[claude] after\n[claude] · note\n"
        "[claude] $ second two\n[claude] ✓ $ first one: ok\n[claude] ✓ $ second two: ok\n"
    )


def test_blocks_may_interleave() -> None:
    """A delta of another block ends the stretch; going back begins a new one."""
    run = Run()
    one, two = run.start(), run.start("thinking")
    run.delta(one, "a\n").delta(two, "x").delta(two, "y").delta(one, "\nb").end(two).delta(one, "c").end(one)
    assert run.shown() == "[claude] a\n[claude] ∴ xy\n\n[claude] bc\n"


def test_lines_that_are_no_block_wait_for_the_open_text() -> None:
    """A result or a notice never lands in the middle of a sentence."""
    run = Run()
    text = run.start()
    run.delta(text, "one ").call("c", "Read", {"path": "a"}).result("c", "z").delta(text, "sentence").end(text)
    assert run.shown() == "[claude] one sentence\n[claude] ▸ read a\n[claude] ✓ z\n"


def test_a_sub_agent_comes_whole_under_its_name() -> None:
    """Sub-agents never stream, and wait for the open text."""
    run = Run().call("t", "Task", {"subagent_type": "Explore", "prompt": "p"})
    text = run.start()
    run.delta(text, "mean").block("I ", "look", parent="t").call("s", "Bash", {"command": "ls"}, parent="t")
    run.result("s", "f", parent="t").delta(text, "while").end(text).call("u", "Task", {"prompt": "q"}, parent="t")
    run.block("deep", kind="thinking", parent="u", complete=False).block("?", parent="nobody")
    assert run.shown() == (
        "[claude] ▸ Task: p\n\n[claude] meanwhile\n[claude>Explore] I look\n[claude>Explore] $ ls\n"
        "[claude>Explore] ✓ f\n[claude>Explore] ▸ Task: q\n[claude>Explore>Task] ∴ deep (cut off)\n[claude>agent] ?\n"
    )


def test_a_result_names_its_call_unless_it_follows_it() -> None:
    """Parallel calls stay readable."""
    run = Run().call("a", "Bash", {"command": "x"}).call("b", "Grep", {"pattern": "y"})
    run.result("b", "found").result("a", "ok").result("z", "")
    assert run.shown().splitlines()[2:] == ["[claude] ✓ found", "[claude] ✓ $ x: ok", "[claude] ✓ done"]


RESULTS = [
    ({"text": "err", "is_error": True, "exit_code": 3}, "✗ exit 3: err"),
    ({"text": "no", "is_error": True, "duration_ms": 1260}, "✗ no · 1.3 s"),
    ({"text": "no: not\nallowed", "is_error": True, "refused": True}, "✗ refused: no: not"),
    ({"text": "a\nb", "is_error": False, "duration_ms": 12_300}, "✓ a (2 lines) · 12 s"),
    ({"text": "a", "is_error": False, "duration_ms": 999}, "✓ a"),
    ({"text": "<path>/x</path>\n<content>\n1: a", "is_error": False}, "✓ 1: a (3 lines)"),
    ({"text": "<tool_use_error>No such file.</tool_use_error>", "is_error": True}, "✗ No such file."),
    ({"text": "", "is_error": False, "exit_code": 1}, "✗ exit 1"),
    ({"text": "\n \n\x1b[31mred\x1b[0m\n\n", "is_error": False, "exit_code": 0}, "✓ red (3 lines)"),
    ({"text": "x" * 500, "is_error": False}, "✓ " + "x" * 120 + "…"),
    ({"text": "so far", "is_error": False, "complete": False}, "◌ no result was reported: so far"),
    ({"text": "", "is_error": False}, "✓ done"),  # as gemini's of a file that was read: that it was empty is not said
    ({"text": "", "is_error": False, "output_reported": False}, "✓ (output not reported)"),
]


@pytest.mark.parametrize(("fields", "expected"), RESULTS)
def test_results_are_one_short_line(fields: dict[str, Any], expected: str) -> None:
    """First line that says something, how many there are, exit status."""
    run = Run().call("c", "Grep", {"pattern": "x"}).add(ev.ToolReturned, "c", **{"complete": True, **fields})
    assert run.shown().splitlines()[1] == f"[claude] {expected}"


PYTEST = "===== test session starts =====\ncollected 2 items\n\n.F\n===== 1 failed, 1 passed in 0.1s =====\n"
COMMANDS = [
    ({"text": "a\nb", "duration_ms": 12_300}, ["✓ a · 12 s", "b"]),
    ({"text": "a\n\nb\nc\n"}, ["✓ a", "b", "c"]),
    ({"text": "a\nb\nc\nd\n", "duration_ms": 12_300}, ["✓ d (4 lines) · 12 s"]),
    ({"text": PYTEST}, ["✓ ===== 1 failed, 1 passed in 0.1s ===== (5 lines)"]),
    ({"text": PYTEST, "status_reported": False}, ["– ===== 1 failed, 1 passed in 0.1s ===== (5 lines)"]),
    ({"text": "[\n 1,\n 2,\n]\n\x1b[0m\n\n"}, ["✓ 2, (5 lines)"]),
    ({"text": "-\n-\n-\n-"}, ["✓ - (4 lines)"]),
    ({"text": "x\n" * 5 + "é" * 9_999 + "\n\n"}, ["✓ " + "é" * 120 + "… (6 lines)"]),
    ({"text": ""}, ["✓ (no output)"]),
    ({"text": "\n\n"}, ["✓ (no output)"]),
    ({"text": "", "output_reported": False}, ["✓ (output not reported)"]),
    ({"text": "", "output_reported": False, "status_reported": False}, ["– (output not reported)"]),
    ({"text": "\n" * 9_999 + "end" + "\n" * 9_999}, ["✓ end (10,000 lines)"]),
]


@pytest.mark.parametrize(("fields", "expected"), COMMANDS)
def test_the_result_of_a_command_is_at_its_end(fields: dict[str, Any], expected: list[str]) -> None:
    """A short output is whole; of a longer one the last line is shown, which is where programs sum up."""
    returned = {"complete": True, "is_error": False, **fields}
    run = Run().call("c", "Bash", {"command": "x"}).add(ev.ToolReturned, "c", **returned)
    assert [line.removeprefix("[claude]").strip() for line in run.shown().splitlines()[1:]] == expected


def test_what_was_cut_off_says_so() -> None:
    """In words, unless they are not wanted."""
    run = Run().add(ev.MessageStarted, 1).block("half a sen", complete=False)
    call = run.start("tool_input", name="Bash", call_id="c")
    run.delta(call, '{"command":"npm', "tool_input").end(call, "", "tool_input", False).add(
        ev.MessageEnded, 1, "superseded"
    )
    assert run.shown() == "[claude] half a sen (cut off)\n[claude] $ npm (cut off)\n[claude] ↻ (attempt given up)\n"
    assert run.shown(mark_partial=False) == "[claude] half a sen\n[claude] $ npm\n"


def test_an_input_that_is_never_called_gives_its_line_back() -> None:
    """The end of the message ends the line of a call that never came; the end of the sink too."""
    run = Run()
    call = run.start("tool_input", name="Bash", call_id="c")
    run.delta(call, '{"command":"a', "tool_input").add(ev.Notice, "warning", "retry", "n").add(
        ev.MessageEnded, 1, "cut"
    )
    assert run.shown() == "[claude] $ a\n[claude] ! n\n"
    del run.events[-1]
    assert run.shown() == "[claude] $ a\n[claude] ! n\n"


def test_a_title_that_is_no_longer_the_one_told() -> None:
    """A line cannot be taken back: it ends, and the right one follows, the same in every mode."""
    run = Run()
    call = run.start("tool_input", name="Bash", call_id="c")
    run.delta(call, '{"command":"a', "tool_input").delta(call, 'b"}', "tool_input")
    run.add(ev.ToolCalled, "c", "Bash", {"command": "ab"}, "Another", "execute")
    assert run.shown() == "[claude] $ ab…\n[claude] $ Another\n"


def test_an_input_that_comes_at_once_waits_for_its_own_title() -> None:
    """Wires that do not stream inputs may have a better title, and it is the only one shown."""
    run = Run()
    call = run.start("tool_input", name="Bash", call_id="c")
    run.delta(call, '{"command":"/bin/sh -c ls"}', "tool_input").end(call, "", "tool_input")
    run.add(ev.ToolCalled, "c", "Bash", {"command": "/bin/sh -c ls"}, "ls", "execute")
    assert run.shown() == "[claude] $ ls\n"


def test_a_revised_block_in_each_mode() -> None:
    """A terminal marks what follows the first difference; a log that has written nothing shows the final text."""
    run = Run()
    text = run.start()
    run.delta(text, "Hello wrold").add(ev.BlockRevised, text, "text", "Hello world").delta(text, "!").end(
        text, "Hello world!"
    )
    assert show(run.events, "none") == "[claude] Hello world!\n"
    assert show(run.events, "full") == "[claude] Hello wrold\n[claude] ↻ orld!\n"


def test_a_revision_that_only_adds_is_more_text() -> None:
    """Nothing shown was wrong, so nothing is marked."""
    run = Run()
    text = run.start()
    run.delta(text, "Hello").add(ev.BlockRevised, text, "text", "Hello world").end(text, "Hello world")
    assert show(run.events, "full") == show(run.events, "none") == "[claude] Hello world\n"


def test_a_revision_that_takes_back() -> None:
    """What cannot be unwritten is said in words."""
    run = Run()
    text = run.start()
    run.delta(text, "Hello world").add(ev.BlockRevised, text, "text", "Hello").end(text, "Hello")
    assert show(run.events, "none") == "[claude] Hello\n"
    assert show(run.events, "full") == "[claude] Hello world\n[claude] ↻ (the last 6 characters were taken back)\n"


def test_a_late_revision_is_marked_in_every_mode() -> None:
    """The block was written, here as there; the line waits for open text."""
    run = Run().block("Hello wrold")
    text = run.start()
    run.delta(text, "More").add(ev.BlockRevised, 1, "text", "Hello world").delta(text, " text").end(text, "More text")
    expected = "[claude] Hello wrold\n[claude] More text\n[claude] ↻ orld\n"
    assert show(run.events, "none") == show(run.events, "full") == expected


ENDS = [
    ({"outcome": "ok", "rounds": 1, "at": 3_725_000}, "● done in 1 h 2 min · 1 round"),
    ({"outcome": "ok", "rounds": 0}, "● done"),
    (
        {"outcome": "error", "rounds": 2, "reason": "no\n key", "duration_ms": 65_000},
        "✗ failed: no key · 1 min 5 s · 2 rounds",
    ),
    ({"outcome": "cut_off", "rounds": 0}, "✗ cut off: the stream broke before the agent had finished"),
    ({"outcome": "empty", "rounds": 0, "cost_usd": 0.00021}, "✗ empty: the agent said nothing · $0.0002"),
    ({"outcome": "cancelled", "rounds": 0, "reason": "Ctrl-C"}, "■ cancelled: Ctrl-C"),
    ({"outcome": "timed_out", "rounds": 0, "usage": ev.Usage(output_tokens=1_500_000)}, "✗ timed out · 1.5M out"),
    ({"outcome": "cancelled", "rounds": 0, "reason": "stopped: x", "cause": "budget"}, "■ stopped: x"),
    ({"outcome": "cancelled", "rounds": 0, "cause": "budget"}, "■ cancelled: a limit that you set was reached"),
]


@pytest.mark.parametrize(("fields", "expected"), ENDS)
def test_the_closing_line_speaks_plainly(fields: dict[str, Any], expected: str) -> None:
    """How it ended, how long it took, what it used; what is not known is left out."""
    assert Run().add(ev.RunEnded, **{"reply": "", **fields}).shown() == f"[claude] {expected}\n"


def test_an_error_is_told_once() -> None:
    """The closing line does not repeat the words of the notice before it."""
    run = Run().add(ev.Notice, "error", "error", "no key").add(ev.RunEnded, "error", "", 0, reason="no key")
    assert run.shown() == "[claude] ✗ no key\n[claude] ✗ failed\n"


def every_line() -> Run:
    """A run with one of each."""
    run = Run().add(ev.RunStarted, session_id="s1", model="m").block("hm", kind="thinking").block("text")
    run.call("c", "Write", {"path": "a", "content": "1\n2"}).result("c", "r1\nr2")
    run.add(ev.PlanChanged, []).add(ev.Notice, "info", "status", "busy").add(ev.Notice, "error", "error", "bad")
    run.add(ev.UsageReported, input_tokens=5, output_tokens=6).add(ev.Unknown, '{"type":"new"}', wire_type="new")
    run.add(ev.Malformed, 7, "no JSON", "{{").add(
        ev.QuestionAsked,
        "h",
        "Sure?",
        True,
        "choice",
        [ev.Option("yes", "yes", "choice"), ev.Option("no", "no", "choice")],
    )
    return run.add(ev.QuestionAnswered, "h", "person", "yes").add(ev.RunEnded, "ok", "text", 1)


SURE = "? asks you to choose: Sure?"
DETAILS = {
    "quiet": ["text", "✗ bad", SURE, "1. yes", "2. no", "→ yes"],
    "minimal": ["text", "▸ edit a", "✗ bad", SURE, "1. yes", "2. no", "→ yes", "● done · 1 round"],
    "normal": [
        "· m · session s1", "∴ hm", "", "text", "▸ edit a", "✓ r1 (2 lines)", "☰ plan (0 of 0 done)", "✗ bad",
        "! line 7 could not be read (no JSON): {{", SURE, "1. yes", "2. no", "→ yes", "● done · 1 round",
    ],
    "verbose": [
        "· m · session s1", "∴ hm", "", "text", "▸ edit a", "path: a", "content:", "  1", "  2", "✓ 2 lines",
        "r1", "r2", "☰ plan (0 of 0 done)", "· busy", "✗ bad", "· 5 in, 6 out",
        '· unknown event new: {"type":"new"}', "! line 7 could not be read (no JSON): {{", SURE, "1. yes",
        "2. no", "→ yes", "● done · 1 round",
    ],
}  # fmt: skip


@pytest.mark.parametrize("detail", DETAILS)
def test_details(detail: str) -> None:
    """Each level shows what the one before it shows, and more."""
    lines = every_line().shown(detail=detail, prefix="none").splitlines()
    assert lines == DETAILS[detail]


def test_unknown_events_can_be_left_out() -> None:
    """`show_unknown=False` holds in verbose, too."""
    assert "unknown" not in every_line().shown(detail="verbose", show_unknown=False)


@pytest.mark.parametrize("level", ["quiet", "minimal"])
def test_failures_are_seen_at_every_level(level: str) -> None:
    """A failed run always says so; a failed tool does from `minimal` on."""
    run = Run().result("c", "no", is_error=True).add(ev.RunEnded, "error", "", 0, reason="why")
    assert run.shown(detail=level) == ("[claude] ✗ no\n" if level == "minimal" else "") + "[claude] ✗ failed: why\n"


PREFIXES = {
    "agent": ["[claude]"] * 13,
    "kind": [
        "[run]", "[thinking]", "", "[text]", "[tool]", "[result]", "[plan]", "[notice]", "[notice]", "[question]", "",
        "",
        "[question]", "[done]",
    ],
    "both": ["[claude run]", "[claude thinking]", "", "[claude text]", "[claude tool]", "[claude result]"],
    "none": [""],
}  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes(prefix: Any) -> None:
    """A log can ask for the kind of each line."""
    lines = [line for line in every_line().shown(prefix=prefix).splitlines() if prefix != "agent" or line[:1] == "["]
    for line, expected in zip(lines, PREFIXES[prefix], strict=False):
        assert line.startswith(f"{expected} " if expected and "[" in expected else "")
        assert expected or not line.startswith("[")


@pytest.mark.parametrize("render", ["off", "auto", "on"])
def test_a_text_below_its_prefix_is_copied_as_it_is(render: Any) -> None:
    """With `above` each line begins in the first column, also a wrapped one, and none is a command of a CI service."""
    run = Run().block("```\ndef a():\n    pass\n```\n::error::x\n\nword " + "word " * 20)
    assert run.shown(prefix="above").startswith("[claude]\n```\ndef a():\n    pass\n```\n: :error::x\n\nword ")
    shown = show(run.events, "full", color=True, prefix="above", width=40, render=render)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert plain[0] == "[claude]"
    assert "    pass" in plain
    assert all(line == line.lstrip() for line in plain if "word" in line)
    assert max(map(len, plain)) <= 40


def test_label_may_hold_a_slash() -> None:
    """Labels are as the user gave them."""
    assert Run("ccs/glm").block("a\nb").shown() == "[ccs/glm] a\n          b\n"


def test_thinking_and_the_prefix_are_dim() -> None:
    """Colour is only added, the same in both modes that have it; the label of one of several agents is not dim."""
    run = Run().block("a", kind="thinking")
    for mode in ("full", "basic"):
        assert show(run.events, mode, color=True) == "\x1b[2;36m[claude] ∴ \x1b[0m\x1b[2ma\x1b[0m\n"
    several = show(run.events, "basic", color=True, label_number=1, label_width=6)
    assert several == "\x1b[35m[claude] ∴ \x1b[0m\x1b[2ma\x1b[0m\n"
    assert show(run.events, "none", color=True) == show(run.events, "basic") == "[claude] ∴ a\n"


HOSTILE = "\x1b]52;c;QQ==\x07\x1b[2J\x1b[31mred\rover\x08\x9b1A\u202egnp\n::set-env name=A::b\n##vso[task.x]y\n\x1b]8;;http://x"


def test_hostile_text_is_only_text_everywhere() -> None:
    """In no field of any event does text act on the terminal or the CI service."""
    run = Run(HOSTILE).add(ev.RunStarted, session_id=HOSTILE, model=HOSTILE).block(*HOSTILE)
    call = run.start("tool_input", name=HOSTILE, call_id="c")
    for char in json.dumps({"command": HOSTILE}):
        run.delta(call, char, "tool_input")
    run.call("c", HOSTILE, {"command": HOSTILE, HOSTILE: HOSTILE}).result("c", HOSTILE).result(
        "d", HOSTILE, name=HOSTILE
    )
    run.call("t", "Task", {"subagent_type": HOSTILE}).block(HOSTILE, parent="t", complete=False)
    run.add(ev.PlanChanged, [ev.PlanItem(HOSTILE, "pending")]).add(ev.Notice, "info", "noise", HOSTILE)
    run.add(ev.QuestionAsked, "h", HOSTILE, True, "command", [ev.Option(HOSTILE, HOSTILE, "choice")])
    run.add(ev.QuestionAnswered, "h", "person", HOSTILE).add(ev.QuestionAnswered, "h", "person", text=HOSTILE)
    run.add(ev.Unknown, HOSTILE, wire_type=HOSTILE).add(ev.Malformed, 1, HOSTILE, HOSTILE)
    run.add(ev.UsageReported, model=HOSTILE).add(ev.RunEnded, "error", "", 0, reason=HOSTILE)
    for detail in ("normal", "verbose"):
        for prefix in ("agent", "none"):
            for ci in (None, "github"):
                harmless(run.shown(detail=detail, prefix=prefix, ci=ci))
                harmless(SGR.sub("", show(run.events, "full", color=True, detail=detail, prefix=prefix, ci=ci)))


def harmless(text: str) -> None:
    """Nothing in the output acts."""
    assert not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert not re.search(r"##[a-z]*\[|^\s*::", text, re.MULTILINE)


def test_long_results_fold_in_a_ci_service() -> None:
    """The group is ours, and what the agent says can neither open nor close one."""
    run = Run().result("c", "\n".join(["50% ::x", "::endgroup::", *"abcdefghijk"]), name="50%")
    lines = run.shown(detail="verbose", ci="github").splitlines()
    assert lines[:3] == ["::group::[claude] ✓ 50%25: 13 lines", "  50% ::x", "  : :endgroup::"]
    assert lines[-1] == "::endgroup::"
    assert sum(line.startswith("::") for line in lines) == 2
    gitlab = run.shown(detail="verbose", ci="gitlab")
    assert gitlab.startswith(
        "\x1b[0Ksection_start:0:penstock_claude_1[collapsed=true]\r\x1b[0K[claude] ✓ 50%: 13 lines\n"
    )
    assert gitlab.endswith("\x1b[0Ksection_end:0:penstock_claude_1\r\x1b[0K\n")
    assert "::group" not in run.shown(ci="github")


def test_two_runs_follow_each_other() -> None:
    """After its end a run leaves nothing behind."""
    run = Run().block("a").add(ev.RunEnded, "ok", "a", 1)
    assert show(run.events + run.events) == show(run.events) + "\n" + show(run.events)


def test_close_ends_the_open_line_once() -> None:
    """An interrupted stream leaves whole lines, and closing again writes nothing."""
    run = Run()
    text = run.start()
    run.delta(text, "half").add(ev.Notice, "warning", "retry", "waits")
    for mode in ("full", "none"):
        sink = TextSink(mode)
        assert sink.render(run.events) + sink.close() == "[claude] half\n[claude] ! waits\n"
        assert sink.close() == ""


# --- properties over random streams ---------------------------------------------------------------

PIECES = [
    "word ", "two words", "\n", "\n\n", "a\n\nb", " ", "  - item\n", "::set-env name=A::b\n", "##", "vso[x]", "::", ":",
    "\x1b", "[31m", "\x1b]8;;", "http\x07", "\r", "\r\n", "日本", "😀", "\u202e", "\t", "\x9b", "1m", "#", "[", "```\n",
]  # fmt: skip


class Chaos:
    """Draws a life of events: interleaved blocks, streamed calls, sub-agents, loose lines, sudden ends."""

    def __init__(self, seed: int, pieces: list[str] = PIECES) -> None:
        self.random = random.Random(seed)
        self.pieces = pieces
        self.run = Run()
        self.open: list[tuple[int, str, str | None]] = []
        self.inputs: dict[int, tuple[str, str, str]] = {}
        self.calls: list[tuple[str, str | None]] = []

    def events(self, steps: int) -> list[Any]:
        """A run of about so many steps."""
        for _ in range(steps):
            self.random.choice([self.start, self.delta, self.delta, self.delta, self.delta, self.end, self.loose])()
        if self.random.random() < 0.5:
            while self.open:
                self.end()
            self.run.add(ev.MessageEnded, 1, self.random.choice(["ok", "superseded", "cut"]))
        if self.random.random() < 0.7:
            self.run.add(ev.RunEnded, self.random.choice(["ok", "error"]), "", 1, reason="why")
        return self.run.events

    def parent(self) -> dict[str, Any]:
        """Now and then a sub-agent's lane."""
        return (
            {"parent": self.random.choice([call for call, _ in self.calls])}
            if self.calls and self.random.random() < 0.2
            else {}
        )

    def start(self) -> None:
        """A new block."""
        kind = self.random.choice(["text", "text", "thinking", "tool_input", "tool_output"])
        lane = self.parent()
        if kind != "tool_input":
            block = self.run.start(kind, **lane)
        else:
            call_id, name = f"call{self.run.blocks}", self.random.choice(["Bash", "Edit", "Task"])
            shown_id = call_id if self.random.random() < 0.8 else None
            block = self.run.start(kind, name=name, call_id=shown_id, **lane)
            command = "".join(self.random.choices(self.pieces, k=3))
            spaced = self.random.choice([None, 1])
            self.inputs[block] = (
                call_id,
                name,
                json.dumps({"n": [1], "command": command, "path": command}, indent=spaced),
            )
        self.open.append((block, kind, lane.get("parent")))

    def delta(self) -> None:
        """More of one of the last blocks."""
        if not self.open:
            return
        block, kind, parent = self.random.choice(self.open[-3:])
        text = self.random.choice(self.pieces)
        if kind == "tool_input":
            call_id, name, rest = self.inputs[block]
            cut = self.random.choice([1, 3, 10, 100])
            text, self.inputs[block] = rest[:cut], (call_id, name, rest[cut:])
        if text:
            self.run.delta(block, text, kind, parent=parent)

    def end(self) -> None:
        """The end of some block, and its call."""
        if not self.open:
            return
        block, kind, parent = self.open.pop(self.random.randrange(len(self.open)))
        whole = "".join(e.text for e in self.run.events if type(e) is ev.Delta and e.block == block)
        complete = self.random.random() < 0.8
        if kind == "tool_input":
            call_id, name, rest = self.inputs[block]
            if rest and complete:
                self.run.delta(block, rest, kind, parent=parent)
                whole += rest
            self.run.end(block, whole, kind, complete, parent=parent)
            if complete and self.random.random() < 0.9:
                self.run.call(call_id, name, json.loads(whole), parent=parent)
                self.calls.append((call_id, parent))
            return
        self.run.end(block, whole, kind, complete, parent=parent)

    def loose(self) -> None:
        """A line that is no block."""
        run, lane = self.run, self.parent()
        text = "".join(self.random.choices(self.pieces, k=3))
        match self.random.randrange(6):
            case 0:
                run.add(ev.Notice, self.random.choice(["info", "warning", "error"]), "retry", text, **lane)
            case 1 if self.calls:
                run.result(self.random.choice(self.calls)[0], text, self.random.random() < 0.2, **lane)
            case 2:
                run.call(f"whole{len(run.events)}", "Read", {"path": text}, **lane)
            case 3:
                run.add(ev.PlanChanged, [ev.PlanItem(text, "pending")], **lane)
            case 4:
                run.add(ev.Unknown, text, **lane)
            case _:
                run.add(ev.RunStarted, model=text)


seeds = st.integers(0, 2**32)
sizes = st.integers(1, 60)
options = st.fixed_dictionaries({
    "detail": st.sampled_from(["quiet", "minimal", "normal", "verbose"]),
    "prefix": st.sampled_from(["agent", "kind", "both", "above", "none"]),
    "mark_partial": st.booleans(),
    "ci": st.sampled_from([None, "github"]),
})  # fmt: skip


@given(seeds, sizes, options)
def test_full_without_its_colours_is_none(seed: int, size: int, chosen: dict[str, Any]) -> None:
    """One layout: every mode writes the same bytes, and none of them moves a cursor."""
    events = Chaos(seed).events(size)
    plain = show(events, "none", **chosen)
    assert SGR.sub("", show(events, "full", color=True, **chosen)) == plain
    assert show(events, "full", **chosen) == plain
    assert SGR.sub("", show(events, "basic", color=True, **chosen)) == plain
    assert show(events, "none", step=7, **chosen) == plain
    assert show(events, "full", step=10**6, realtime=False, **chosen) == plain
    assert not {"\r", "\x1b"} & set(plain)
    assert plain == "" or plain.endswith("\n")


@given(seeds, sizes)
def test_every_write_of_a_log_is_whole_lines(seed: int, size: int) -> None:
    """So several agents can share an output."""
    sink = TextSink("none")
    for event in Chaos(seed).events(size):
        assert (sink.render([event]) or "\n")[-1] == "\n"


@given(seeds, sizes)
def test_no_text_is_lost(seed: int, size: int) -> None:
    """Every visible letter of every text block of the top lane stands in the output."""
    events = Chaos(seed, ["word ", "two words", "\n", "\n\nb", "item", "日本", "😀", "::", "\t"]).events(size)
    said = "".join(
        e.text for e in events if type(e) is ev.Delta and e.kind in ("text", "thinking") and e.parent is None
    )
    shown = show(events)
    for word in ("word", "two words", "item", "日本", "😀"):
        assert shown.count(word) >= said.count(word)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=20), st.lists(st.integers(0, 80), max_size=10))
def test_how_a_text_is_cut_does_not_show(pieces: list[str], cuts: list[int]) -> None:
    """The same block in other deltas is the same line."""
    text = "".join(pieces)
    edges = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    again = [text[a:b] for a, b in pairwise(edges)]
    expected = show(Run().block(*pieces).events)
    assert show(Run().block(*again).events) == expected
    assert show(Run().block(*again).events, "full") == expected


@given(seeds, sizes)
def test_revisions_never_break_a_line(seed: int, size: int) -> None:
    """Whatever is revised, output stays whole lines, and a log of one block shows its last text."""
    chaos = Chaos(seed)
    events = chaos.events(size)
    for _ in range(3):
        at = chaos.random.randrange(len(events) + 1)
        block = chaos.random.randrange(1, chaos.run.blocks + 2)
        kind: Any = next((e.kind for e in events if type(e) is ev.BlockStarted and e.block == block), "text")
        text = "".join(chaos.random.choices(PIECES, k=2))
        events.insert(at, ev.BlockRevised(block, kind, text, agent="claude"))
    for mode in ("none", "full"):
        shown = show(events, mode)
        assert shown == "" or shown.endswith("\n")
        assert not {"\r", "\x1b"} & set(shown)


@given(st.lists(st.tuples(st.booleans(), st.text("ab \n", max_size=6)), max_size=8))
def test_a_log_shows_only_the_final_text(steps: list[tuple[bool, str]]) -> None:
    """Of a block that is revised before it is written, a log shows the last text alone."""
    run = Run()
    block, text = run.start(), ""
    for revised, said in steps:
        text = said if revised else text + said
        run.add(ev.BlockRevised if revised else ev.Delta, block, "text", said)
    assert show(run.end(block, text).events) == show(Run().block(text).events if text else [])
