"""The record of a turn has all that an agent said and did, once, however its rows were cut."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from effort import at_most

from penstock import events as ev
from penstock.chat.history import details as recording_of_turns
from penstock.chat.history.details import MAX_PART_CHARS, MAX_TEXT_CHARS, Details, Recorder, details_of
from penstock.chat.history.entries import Entry, Numbered, Prompted, StopRequested, TurnBegan, TurnEnded
from penstock.chat.history.frames import TurnView
from penstock.chat.history.items import GAP, AnyItem, Asked, Called, Clip, Noticed, Planned, Said, Thought
from penstock.chat.history.steps import Steps
from penstock.chat.history.timeline import Timeline
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream
from penstock.testing import feeds
from penstock.testing.conformance import mutate

if TYPE_CHECKING:
    from conftest import Recording

What = Entry | ev.Event | None
BEGUN: list[What] = [Prompted(1, "Do it."), TurnBegan(1, "test", "/shop")]
VIEW = TurnView(1, "Do it.")
STOPS = at_most(5, 25)
"""Places of a longer recording at which its record is looked at."""


def numbered(whats: list[What], step: int = 10) -> list[Numbered]:
    """Rows that were appended every 10 ms; the turn begins with the second."""
    return [Numbered(number, 1_000_000 + number * step, what) for number, what in enumerate(whats, 1)]


@cache
def events_of(agent: str, data: bytes) -> list[ev.Event]:
    """The run of a recording."""
    return feeds.whole(Stream(agent), data)


def rows_of(recording: Recording) -> list[Numbered]:
    """A turn that was this recording."""
    return numbered([*BEGUN, *events_of(recording.agent, recording.data)])


def items_of(*whats: What) -> list[AnyItem]:
    """The items of a turn that has these rows."""
    return details_of(VIEW, numbered([*BEGUN, *whats])).items


def steps_in(items: list[AnyItem]) -> int:
    """The thoughts, texts and calls with something in them."""
    texts = [item.text for item in items if isinstance(item, Said | Thought)]
    calls = [item for item in items if isinstance(item, Called) and msgspec.structs.replace(item, at=0) != Called(at=0)]
    return len([text for text in texts if text.strip()]) + len(calls)


def counted(rows: list[Numbered]) -> int:
    """The same, as it is counted while they come."""
    steps = Steps()
    for _, _, what in rows:
        if isinstance(what, ev.Base):
            steps.take(what)
    return steps.count


# --- recordings ------------------------------------------------------------------------------------


def test_all_that_was_said_and_done(recording: Recording, shorten: Callable[[str], Any]) -> None:
    """Thoughts, texts and calls are those that were read from the wire by hand, and each call has its result."""
    events = events_of(recording.agent, recording.data)
    made = details_of(VIEW, rows_of(recording))
    top = [item for item in made.items if item.parent is None and not item.given_up]
    said = [("text" if isinstance(it, Said) else "thinking", it.text) for it in top if isinstance(it, Said | Thought)]
    assert [[kind, shorten(text)] for kind, text in said] == recording.expected["blocks"]
    calls = [item for item in top if isinstance(item, Called)]
    assert [[item.name, json.loads(item.input or "null")] for item in calls] == recording.expected["calls"]
    order = [event.call_id for event in events if isinstance(event, ev.ToolCalled) and event.parent is None]
    results = {event.call_id: event for event in events if isinstance(event, ev.ToolReturned)}
    for call_id, item in zip(order, calls, strict=True):
        result = results[call_id]
        assert item.output == result.text or (not result.text and item.cut)
        assert (item.is_error, item.exit_code, item.cut) == (result.failed, result.exit_code, not result.complete)
        assert item.until is not None
        assert item.until >= item.at
    assert made.whole
    assert not any(item.shortened for item in made.items)


def test_rounds(recording: Recording) -> None:
    """The texts of the last round are the reply; the rounds are those that the run counts."""
    events = events_of(recording.agent, recording.data)
    end = events[-1]
    assert isinstance(end, ev.RunEnded)
    items = details_of(VIEW, rows_of(recording)).items
    texts = [item for item in items if isinstance(item, Said) and item.parent is None and not item.given_up]
    rounds = [item.round for item in items if isinstance(item, Said | Called) and item.parent is None]
    assert rounds == sorted(rounds)
    assert set(rounds) <= set(range(1, end.rounds + 1))
    took_back = any(isinstance(event, ev.Notice) and event.code == "retry" for event in events)
    if "background" in recording.case or (took_back and end.outcome == "ok"):
        # No event shows that news of the background begins a round, or that a whole answer was taken back.
        assert texts[-1].text == end.reply
    elif texts and end.outcome == "ok":
        last = "".join(item.text for item in texts if item.round == max(rounds))
        assert last.replace("\n", "") == end.reply.replace("\n", "")
        # A round whose call had no result on the wire ends by a mark of the agent, which makes no event.
        assert end.rounds - 1 <= max(rounds) <= end.rounds


def test_how_rows_are_cut_makes_no_difference(recording: Recording) -> None:
    """One by one, in odd pieces, or all at once, looked at in between or not: one record."""
    rows = rows_of(recording)
    whole = details_of(VIEW, rows)
    rng = random.Random(recording.name)
    for size in (1, 7, rng.randrange(1, len(rows) + 1)):
        recorder = Recorder(1)
        for start in range(0, len(rows), size):
            recorder.take(rows[start : start + size])
            if rng.random() < 20 / len(rows):
                recorder.items()
        assert Details(VIEW, recorder.over, recorder.items()) == whole


def test_steps_agree(recording: Recording) -> None:
    """The number behind the reply is that of the record's items, at any moment of the run and after a crash."""
    rows = rows_of(recording)
    for end in {*range(2, len(rows), max(1, len(rows) // STOPS)), len(rows)}:
        made = details_of(VIEW, rows[:end])
        assert steps_in(made.items) == counted(rows[:end])
        assert made.whole == (end == len(rows))
        crashed = [*rows[:end], Numbered(end + 1, rows[-1].at, TurnEnded(1, "cut_off"))]
        thread = Timeline()
        thread.take(crashed)
        assert thread.turns[1].steps == steps_in(details_of(thread.turns[1], crashed).items)


def test_a_crash_leaves_nothing_open(recording: Recording) -> None:
    """Where the events stop, all that has no end was cut off."""
    rows = rows_of(recording)
    for end in range(2, len(rows) - 1, max(1, len(rows) // STOPS)):
        crashed = details_of(VIEW, [*rows[:end], Numbered(end + 1, rows[end].at, TurnEnded(1, "cut_off"))])
        assert crashed.whole
        ended = {e.block for _, _, e in rows[:end] if isinstance(e, ev.BlockEnded) and e.complete}
        deltas = [e for _, _, e in rows[:end] if isinstance(e, ev.Delta) and e.kind in ("text", "thinking")]
        begun = {event.block for event in deltas if event.text.strip()}
        broken = [item for item in crashed.items if isinstance(item, Said | Thought) and (item.cut or item.given_up)]
        assert len(broken) == len(begun - ended)
        for item in crashed.items:
            assert not isinstance(item, Called) or item.cut or item.until is not None


def test_the_wire(recording: Recording) -> None:
    """A record can be written and read again, each item under its kind."""
    made = details_of(VIEW, rows_of(recording))
    text = msgspec.json.encode(made)
    assert msgspec.json.decode(text, type=Details) == made
    for item in json.loads(text)["items"]:
        assert item["kind"] in {"thinking", "text", "call", "notice", "plan", "question"}
        assert item["at"] >= 0


def shown(recording: Recording) -> list[dict[str, Any]]:
    """A record without its times, as it is on the wire."""
    found = json.loads(msgspec.json.encode(details_of(VIEW, rows_of(recording)).items))
    return [{key: value for key, value in item.items() if key not in ("at", "until", "duration_ms")} for item in found]


def bash(command: str, output: str, **more: Any) -> dict[str, Any]:
    """A call of a shell, as claude makes it."""
    given = json.dumps({"command": command, "description": "Run a demo command", **more.pop("given", {})}, indent=2)
    call = {"kind": "call", "title": command, "name": "Bash", "tool_kind": "execute", "input": given}
    return call | ({"output": output} if output else {}) | more


LIST = "echo hi && ls"
FOREGROUND = {"is_background": False}
FAIL = "echo out; echo err >&2; exit 3"
BY_HAND: dict[str, list[dict[str, Any]]] = {
    "claude/thinktools": [
        {"kind": "thinking", "text": "I need to look first."},
        {"kind": "text", "text": "Looking.", "round": 1},
        bash(LIST, "hi\nREADME.md\nschema.json", round=1),
        {"kind": "thinking", "text": "Now I know enough."},
        {"kind": "text", "text": "Finished thinking and tools. FINAL-REPLY.", "round": 2},
    ],
    "claude/parallel": [
        {"kind": "text", "text": "Two at once.", "round": 1},
        bash("sleep 0.3; echo first", "first", round=1),
        bash("echo second", "second", round=1),
        {"kind": "text", "text": "Both have finished. FINAL-REPLY.", "round": 2},
    ],
    "codex/toolerror": [
        {"kind": "text", "text": "Running a failing command.", "round": 1},
        {
            "kind": "call", "title": FAIL, "name": "command_execution", "tool_kind": "execute",
            "input": json.dumps({"command": f"/bin/bash -lc '{FAIL}'"}, indent=2),
            "output": "out\nerr\n", "is_error": True, "exit_code": 3, "round": 1,
        },
        {"kind": "text", "text": "The command failed with status 3. FINAL-REPLY.", "round": 2},
    ],
    "opencode/thinktools": [
        {"kind": "thinking", "text": "I need to look first."},
        {"kind": "text", "text": "Looking.", "round": 1},
        {
            "kind": "call", "title": LIST, "name": "bash", "tool_kind": "execute",
            "input": json.dumps({"command": LIST}, indent=2),
            "output": "hi\nREADME.md\nschema.json\n", "exit_code": 0, "round": 1,
        },
        {"kind": "thinking", "text": "Now I know enough."},
        {"kind": "text", "text": "Finished thinking and tools. FINAL-REPLY.", "round": 2},
    ],
    "gemini/toolerror": [
        {"kind": "text", "text": "Running a failing command.", "round": 1},
        bash(FAIL, "out\nerr", name="run_shell_command", given=FOREGROUND, round=1, status_unreported=True),
        {"kind": "text", "text": "The command failed with status 3. FINAL-REPLY.", "round": 2},
    ],
    "codex-server/subagent": [
        {"kind": "notice", "level": "warning", "text": "Model metadata for `mock-model` not found. Defaulting to "
            "fallback metadata; this can degrade performance and cause issues."},
        {
            "kind": "call", "title": "scenario=child", "name": "spawn_agent", "tool_kind": "think",
            "input": json.dumps({"prompt": "scenario=child", "receiver_thread_ids": []}, indent=2),
            "output": "pending_init", "round": 1,
        },
        {"kind": "notice", "level": "warning", "text": "Model metadata for `mock-model` not found. Defaulting to "
            "fallback metadata; this can degrade performance and cause issues."},
        {"kind": "text", "text": "Spawned.", "round": 2},
        {"kind": "text", "parent": 1, "round": 1, "text": "I am the child, speaking slowly so that the parent ends "
            "first, word after word after word."},
    ],
    "claude/err500": [
        {"kind": "notice", "level": "warning", "text": "retry 1 of 2, in 0.6 s: the provider failed: "
            "server_error (500)"},
        {"kind": "notice", "level": "warning", "text": "retry 2 of 2, in 1.1 s: the provider failed: "
            "server_error (500)"},
        {"kind": "notice", "level": "error", "text": "API Error: 500 Internal server error (mock). This is a "
            "server-side issue, usually temporary — try again in a moment. If it persists, check your inference "
            "gateway (127.0.0.1:8711)."},
    ],
}  # fmt: skip
"""What a person reads from these recordings, and expects to find."""


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str, recordings: list[Recording]) -> None:
    """The records of some recordings, written by hand."""
    (recording,) = (recording for recording in recordings if recording.name == name)
    assert shown(recording) == BY_HAND[name]


def test_a_question_has_its_answer(recordings: list[Recording]) -> None:
    """A permission stands beside the call that it is about, with what was said to it."""
    (recording,) = (recording for recording in recordings if recording.name == "opencode-server/permission_allow")
    asked = [item for item in details_of(VIEW, rows_of(recording)).items if isinstance(item, Asked)]
    assert [(item.text.partition("\n")[0], item.answer) for item in asked] == [
        ("bash: echo hi && ls", "Allow once"),
        ("edit: /tmp/demo/notes.txt", "Allow once"),
    ]


# --- case by case ----------------------------------------------------------------------------------

A: Any = {"agent": "test"}


def message(number: int, *events: ev.Event, status: ev.MessageStatus = "ok", parent: str | None = None) -> list[What]:
    """A message with what stands in it."""
    lane = A | {"parent": parent}
    return [
        *(ev.MessageStarted(number, f"m{number}", **lane), *events),
        ev.MessageEnded(number, status, f"m{number}", **lane),
    ]


def block(number: int, text: str, kind: ev.Kind = "text", complete: bool = True, **more: Any) -> list[ev.Event]:
    """A block that comes in two pieces."""
    told = {key: more.pop(key) for key in ("message", "name", "call_id") if key in more}
    pieces = [piece for piece in (text[:3], text[3:]) if piece]
    return [
        ev.BlockStarted(number, kind, **told, **A, **more),
        *(ev.Delta(number, kind, piece, **A, **more) for piece in pieces),
        ev.BlockEnded(number, kind, text, complete, **A, **more),
    ]


def call(call_id: str = "c1", given: Any = None, message: int | None = None, **more: Any) -> ev.ToolCalled:
    """A call of a shell."""
    return ev.ToolCalled(call_id, "Bash", given, "ls", "execute", message, **A, **more)


def result(call_id: str = "c1", text: str = "gone", complete: bool = True, **more: Any) -> ev.ToolReturned:
    """What it gave back."""
    return ev.ToolReturned(call_id, text, False, complete, "Bash", **A, **more)


END = ev.RunEnded("ok", "", 1, **A)


@pytest.mark.parametrize(("status", "failed"), [(None, False), (0, False), (1, True), (-9, True)])
def test_a_command_with_a_status_has_failed(status: int | None, failed: bool) -> None:
    """The page marks it as the terminal does, even if the wire has no error flag."""
    rows = numbered([Prompted(1, "x"), TurnBegan(1, "test", "/"), call(), result(exit_code=status), END])
    [item] = [item for item in details_of(VIEW, rows).items if isinstance(item, Called)]
    assert (item.is_error, item.exit_code) == (failed, status)
    shown = TextSink("none").render([call(), result(exit_code=status)])
    assert ("✗" in shown) is failed


def test_times() -> None:
    """The run's own stamps count, else the log's clock from the turn's beginning, never less than 0."""
    rows = [
        Numbered(1, 500, Prompted(1, "x")),
        Numbered(2, 10_000, TurnBegan(1, "test", "/")),
        Numbered(3, 10_050, ev.Notice("warning", "error", "by the log", **A)),
        Numbered(4, 10_090, ev.Notice("warning", "error", "by the run", at=7, **A)),
        Numbered(5, 9_000, ev.Notice("warning", "error", "the clock stepped back", **A)),
        Numbered(6, 10_100, call(at=300)),
        Numbered(7, 10_200, result(at=1500)),
        Numbered(8, 10_300, call("c2")),
        Numbered(9, 10_250, result("c2")),
    ]
    items = details_of(VIEW, rows).items
    assert [item.at for item in items] == [50, 7, 0, 300, 300]
    assert [item.until for item in items if isinstance(item, Called)] == [1500, 300]


def test_rows_of_other_turns_are_passed_over() -> None:
    """A prompt that came meanwhile, the end of the turn before, the beginning of the next: none of it is shown."""
    rows = numbered([
        *(Prompted(1, "one"), TurnBegan(1, "test", "/"), *block(1, "first")),
        *(Prompted(2, "two"), *block(2, "still first"), TurnEnded(1, "cut_off")),
        *(TurnBegan(2, "test", "/"), *block(1, "second"), Prompted(3, "three"), TurnEnded(3, "cancelled")),
        *(*block(2, "more"), END, StopRequested()),
    ])  # fmt: skip
    texts = {
        turn: [item.text for item in details_of(TurnView(turn, ""), rows).items if isinstance(item, Said)]
        for turn in (1, 2, 3, 4)
    }
    assert texts == {1: ["first", "still first"], 2: ["second", "more"], 3: [], 4: []}
    assert [details_of(TurnView(turn, ""), rows).whole for turn in (1, 2, 3, 4)] == [True, True, True, False]
    for start in (5, 6):
        assert details_of(TurnView(2, ""), rows[start:]) == details_of(TurnView(2, ""), rows)


def test_a_turn_whose_beginning_was_trimmed() -> None:
    """What is left of it is shown, also the end of a block, a message and a call."""
    rows = numbered([*message(1, *block(1, "Some text", message=1)), result("c9", "late"), END])[3:]
    items = details_of(VIEW, rows).items
    assert [item.text for item in items if isinstance(item, Said)] == ["Some text"]
    assert [(item.name, item.output) for item in items if isinstance(item, Called)] == [("Bash", "late")]


def test_a_turn_that_still_runs() -> None:
    """Nothing is said to be cut off while it may go on."""
    made = details_of(
        VIEW, numbered([*BEGUN, *block(1, "Whole."), *block(2, "Half")[:-1], call(), call("c2"), result()])
    )
    assert not made.whole
    assert [item.cut for item in made.items] == [False] * 4
    assert [item.until for item in made.items if isinstance(item, Called)] == [100, None]
    assert not any(item.cut for item in items_of(*block(1, "Half")[:-1]))
    assert [item.cut for item in items_of(*block(1, "Half")[:-1], call(), TurnEnded(1, "cut_off"))] == [True, True]


def test_what_was_given_up() -> None:
    """An attempt, and a block that was taken back of a message that ended well; a call that ran, ran."""
    inner = [
        *block(1, "First", message=1, complete=False),
        *block(2, "{", "tool_input", False, message=1, call_id="c1"),
    ]
    ran = [*block(3, "{}", "tool_input", message=1, call_id="c2"), call("c2", {}, 1), result("c2")]
    items = items_of(*message(1, *inner, *ran, status="superseded"))
    assert [(type(item), item.given_up) for item in items] == [(Said, True), (Called, True), (Called, False)]
    taken = items_of(*message(1, *block(1, "Kept", message=1), *block(2, "Gone", message=1, complete=False)))
    assert [(item.given_up, item.cut) for item in taken] == [(False, False), (True, False)]


def test_a_call_that_is_made_after_all() -> None:
    """Input of an attempt that was given up, told in the next one: one call, and not given up."""
    begun = message(1, *block(1, "{", "tool_input", False, message=1, call_id="c1"), status="superseded")
    (item,) = items_of(*begun, *message(2, call("c1", {"command": "ls"}, 2)), result(), END)
    assert isinstance(item, Called)
    assert (item.given_up, item.cut, item.output) == (False, False, "gone")
    assert json.loads(item.input) == {"command": "ls"}


def test_a_call_that_is_begun_again() -> None:
    """The same id in a second attempt: two items, and the result belongs to the second."""
    first = message(1, *block(1, '{"a', "tool_input", False, message=1, call_id="c1", name="Bash"), status="superseded")
    again = message(2, *block(2, "{}", "tool_input", message=2, call_id="c1", name="Bash"), call("c1", {}, 2))
    items = items_of(*first, *again, result(), END)
    assert [(item.given_up, item.input, item.output) for item in items if isinstance(item, Called)] == [
        (True, '{"a', ""),
        (False, "{}", "gone"),
    ]


def test_a_call_that_is_reported_in_another_message() -> None:
    """The end of the message that a call's input began in does not end the call that a later message reports."""
    inner = [*block(1, "{}", "tool_input", message=1, call_id="c1", name="Bash"), call("c1", {}, 2)]
    items = items_of(*message(1, *inner, status="cut"), result("c1"), END)
    assert [(item.cut, item.output) for item in items if isinstance(item, Called)] == [(False, "gone")]


def test_what_was_cut_off() -> None:
    """A message that broke off, with the call that never was, and a call without a result."""
    broken = [
        *block(1, "Half", message=1, complete=False),
        *block(2, '{"', "tool_input", False, message=1, name="Bash"),
    ]
    items = items_of(call("c0"), *message(1, *broken, status="cut"), result("c0", "", complete=False), END)
    assert [(type(item), item.cut, item.given_up) for item in items] == [
        (Called, True, False),
        (Said, True, False),
        (Called, True, False),
    ]


def test_revised_text_shows_its_last_form() -> None:
    """Also where it is revised late; a text that became nothing is no step."""
    late = ev.BlockRevised(1, "text", "Hello", **A)
    items = items_of(*block(1, "Helo"), late, *block(2, "Gone"), ev.BlockRevised(2, "text", " ", **A))
    assert [item.text for item in items if isinstance(item, Said)] == ["Hello"]
    assert counted(numbered([*block(1, "Helo"), late, *block(2, "Gone"), ev.BlockRevised(2, "text", " ", **A)])) == 1


def test_output_that_streams() -> None:
    """It is shown while it comes, and in the end as the tool gave it; without that, as it came."""
    output = block(5, "tick tock", "tool_output", call_id="c1")
    for more, seen in [([], "tick tock"), ([result()], "gone"), ([result(text="")], "tick tock")]:
        (item,) = items_of(call(), *output, *more)
        assert isinstance(item, Called)
        assert item.output == seen


def test_input_that_streamed_before_its_call_had_an_id() -> None:
    """It is one call."""
    (item,) = items_of(*block(1, '{"a":1}', "tool_input", name="Bash"), call("c1", {"a": 1}), result())
    assert isinstance(item, Called)
    assert (json.loads(item.input), item.output) == ({"a": 1}, "gone")


def nested(levels: int, value: Any) -> Any:
    """A list in a list in a list."""
    for _ in range(levels):
        value = [value]
    return value


def test_input_of_any_shape() -> None:
    """Nothing, a text, numbers without end, brackets in texts, things nested too deep to be written."""
    inputs = [None, "ls -l", {"n": 2**80, "x": [None]}, nested(40, '[{"'), nested(41, '[{"'), nested(5000, None)]
    items = items_of(*(call(f"c{number}", value) for number, value in enumerate(inputs)))
    shown = [item.input for item in items if isinstance(item, Called)]
    assert shown[:2] == ["", "ls -l"]
    assert [json.loads(text) for text in shown[2:5]] == inputs[2:5]
    assert [text.count("\n") for text in shown] == [0, 0, 5, 80, 0, 0]
    assert shown[5] in ("…", "[" * 5000 + "null" + "]" * 5000)


def test_notices() -> None:
    """Warnings and errors always, the rest where it tells a person something."""
    told = [("info", "status"), ("info", "retry"), ("warning", "status"), ("error", "error"), ("info", "noise")]
    items = items_of(*(ev.Notice(level, code, f"{level} {code}", **A) for level, code in told))  # type: ignore[arg-type]
    assert [(item.level, item.text) for item in items if isinstance(item, Noticed)] == [
        ("info", "info retry"),
        ("warning", "warning status"),
        ("error", "error error"),
    ]


def test_a_plan_is_one_item() -> None:
    """Its newest state stands where it was first told; a sub-agent has its own."""
    plans = [[ev.PlanItem("a", "pending")], [ev.PlanItem("a", "completed")]]
    events = [ev.PlanChanged(plans[0], **A), *block(1, "Text."), ev.PlanChanged(plans[1], **A)]
    items = items_of(*events, call("c1"), ev.PlanChanged(plans[0], parent="c1", **A))
    assert [type(item) for item in items] == [Planned, Said, Called, Planned]
    assert [(item.items, item.parent) for item in items if isinstance(item, Planned)] == [
        (plans[1], None),
        (plans[0], 2),
    ]


def test_a_question_without_an_answer() -> None:
    """It stands with its options; an answer to nothing is no item, and one id may ask twice."""
    asked = ev.QuestionAsked("q", "Which?", False, "choice", [ev.Option(x, x, "choice") for x in "AB"], **A)
    items = items_of(
        ev.QuestionAnswered("x", "person", "A", **A), asked, ev.QuestionAnswered("q", "person", "B", **A), asked
    )
    assert [(item.text, item.options, item.answer) for item in items if isinstance(item, Asked)] == [
        ("Which?", ["A", "B"], "B"),
        ("Which?", ["A", "B"], None),
    ]


def test_what_cannot_be_shown_is_counted() -> None:
    """Kinds that are not known, lines that cannot be read, rows of a newer version: one notice, the last item."""
    unknown = [ev.Unknown("{}", wire_type, **A) for wire_type in ("sparkle", "glow", "sparkle", "beam", "x" * 999)]
    items = items_of(*unknown, None, ev.Malformed(3, "no JSON", "{", **A), *block(1, "Text."))
    assert items[-1] == Noticed(
        at=items[-1].at,
        level="warning",
        text="Not shown: 6 events of unknown kinds (sparkle, glow, beam), 1 line that could not be read",
    )
    assert [type(item) for item in items] == [Said, Noticed]
    assert items_of(unknown[0])[0] == Noticed(at=10, level="info", text="Not shown: 1 event of unknown kinds (sparkle)")


def test_sub_agents_name_their_call() -> None:
    """By its number among the items that are shown; sub-agents of sub-agents too."""
    items = items_of(
        *(*block(1, " "), call("c1"), *block(2, "Below", parent="c1"), call("c2", parent="c1")),
        *(*block(3, "deeper", parent="c2"), result("c2", parent="c1"), result("c1"), *block(4, "Done.")),
    )
    assert [item.parent for item in items] == [None, 0, 0, 2, None]


EDIT = ev.Change("a.txt", "update", added=1, removed=1, diff="@@ -1 +1 @@\n-old\n+new\n")


def test_changes_of_a_call() -> None:
    """A call has the changes that it made, or else those that it proposed; one that was refused says so."""
    made = ev.Change("a.txt", "update", added=2, removed=1)
    proposal = call(changes=[EDIT])
    [item] = items_of(proposal, result(changes=[made], duration_ms=5))
    assert isinstance(item, Called)
    assert (item.changes, item.duration_ms, item.refused) == ([made], 5, False)
    [item] = items_of(proposal, result(refused=True))
    assert isinstance(item, Called)
    assert (item.changes, item.refused) == ([EDIT], True)


def test_changes_of_a_question() -> None:
    """A question has the changes that were asked for."""
    asked = ev.QuestionAsked(agent="test", id="q", text="?", blocking=True, ask="edit", changes=[EDIT])
    [item] = items_of(asked)
    assert isinstance(item, Asked)
    assert item.changes == [EDIT]


def test_diffs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diffs of all items together are bounded; the counts stay."""
    monkeypatch.setattr(recording_of_turns, "MAX_ALL_CHARS", 30)
    first, second = items_of(call("c1", changes=[EDIT]), call("c2", changes=[EDIT]))
    assert isinstance(first, Called)
    assert isinstance(second, Called)
    assert first.changes == [EDIT]
    [cut] = second.changes or []
    assert (len(cut.diff or ""), cut.truncated, cut.added) == (30 - len(EDIT.diff or ""), True, 1)


def test_sub_agents_of_calls_that_were_never_told() -> None:
    """They stand behind a call without a name, which is no step until it is told; ids in a circle end."""
    (above, text) = items_of(*block(2, "Below", parent="c1"))
    assert isinstance(above, Called)
    assert (above.name, text.parent) == ("", 0)
    assert counted(numbered([*block(2, "Below", parent="c1")])) == 1
    told = items_of(*block(2, "Below", parent="c1"), call("c1"))
    assert [(type(item), item.parent) for item in told] == [(Called, None), (Said, 0)]
    assert items_of(ev.UsageReported(parent="c1", **A)) == []
    circle = items_of(call("c1", parent="c2"), call("c2", parent="c1"), call("c3", parent="c3"))
    assert [item.parent for item in circle] == [None, 0, None]


def test_long_texts_are_shortened() -> None:
    """In the middle, and the item says how much is left out; both ends stay."""
    text = "<begin>" + "x" * (MAX_TEXT_CHARS * 4) + "<end>"
    pieces = [text[at : at + 1000] for at in range(0, len(text), 1000)]
    streamed = [ev.BlockStarted(1, "text", **A), *(ev.Delta(1, "text", piece, **A) for piece in pieces)]
    ended = ev.BlockEnded(1, "text", text[:10], True, truncated=True, **A)
    for rows in (streamed, [*streamed, ended], block(1, text)):
        (item,) = items_of(*rows)
        assert isinstance(item, Said)
        assert item.text.startswith("<begin>xx")
        assert item.text.endswith("xx<end>")
        assert len(item.text) - len(GAP) + item.shortened == len(text)
        assert len(item.text) == MAX_TEXT_CHARS + len(GAP)
    (both,) = items_of(call(given="y" * (MAX_PART_CHARS + 5)), result(text="z" * (MAX_PART_CHARS + 7)))
    assert both.shortened == 12


def test_a_record_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind all that it may hold, each text is only its ends; items over the limit are counted."""
    monkeypatch.setattr(recording_of_turns, "MAX_ALL_CHARS", 3000)
    monkeypatch.setattr(recording_of_turns, "MAX_ITEMS", 4)
    texts = [block(number, str(number) * 2000) for number in range(6)]
    items = items_of(*(event for events in texts for event in events))
    assert [item.shortened for item in items] == [0, 1000, 1600, 1600, 0]
    assert items[-1] == Noticed(at=items[-1].at, level="info", text="Not shown: 2 more items")


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 29, 30, 31, 1000])
def test_a_clip_keeps_both_ends(size: int) -> None:
    """Whole where it fits, however it came, else its beginning and its end."""
    text = "".join(chr(0x100 + at) for at in range(size))
    for step in (1, 7, 5000):
        clip = Clip(10)
        for at in range(0, size, step):
            clip.add(text[at : at + step])
        short, left_out = clip.cut(100)
        assert (short, left_out) == ((text, 0) if size <= 10 else (text[:5] + GAP + text[-5:], size - 10))
        assert clip.cut(3) == ((text, 0) if size <= 3 else (text[:2] + GAP + text[-1:], size - 3))


# --- whatever comes --------------------------------------------------------------------------------


def check(rows: list[Numbered]) -> None:
    """The invariants of any record."""
    made = details_of(VIEW, rows)
    assert steps_in(made.items) == counted(rows)
    for number, item in enumerate(made.items):
        assert item.parent is None or isinstance(made.items[item.parent], Called)
        assert item.parent is None or item.parent < number
        if made.whole and isinstance(item, Called) and item.name:
            assert item.until is not None or item.cut or item.given_up
    assert msgspec.json.decode(msgspec.json.encode(made), type=Details) == made


@pytest.mark.parametrize("seed", range(at_most(20, 150)))
def test_mutated_recordings(seed: int, recordings: list[Recording]) -> None:
    """Recordings as other versions might print them: a record, with the steps that were counted."""
    rng = random.Random(seed)
    recording = rng.choice([recording for recording in recordings if recording.data])
    lines = recording.data.split(b"\n")[:400]
    lines = [mutate(line, rng) if rng.random() < 0.4 else line for line in lines if rng.random() > 0.1]
    events = feeds.whole(Stream(recording.agent), b"\n".join(lines))
    check(numbered([*BEGUN, *events]))


@pytest.mark.parametrize("seed", range(at_most(20, 150)))
def test_events_in_no_order(seed: int, recordings: list[Recording]) -> None:
    """Events that no run gives in this order, of several agents at once, in lanes that are mixed up."""
    rng = random.Random(seed)
    pool: list[What] = [
        None,
        *(event for case in rng.sample(recordings, 4) for event in events_of(case.agent, case.data[:40_000])),
    ]
    ids = [event.call_id for event in pool if isinstance(event, ev.ToolCalled)] or ["c1"]
    mixed: list[What] = []
    for what in rng.choices(pool, k=120):
        if what is not None and not isinstance(what, Entry) and rng.random() < 0.3:
            what = msgspec.structs.replace(what, parent=rng.choice(ids))
        mixed.append(what if not isinstance(what, ev.RunEnded) else None)
    check(numbered([*BEGUN, *mixed, *([END] if rng.random() < 0.5 else [])]))
