"""How a run ended, by the agent's own words and by the end of its process."""

from __future__ import annotations

import pytest
from normalized import checked, ended, names, no_failure, of_type, text

from penstock import updates as up
from penstock.core.normalizer.normalizer import MAX_RAW_CHARS, MAX_WORK, Normalizer
from penstock.core.normalizer.outcome import KILLED, Exit
from penstock.events import (
    Cause,
    Delta,
    Malformed,
    MessageEnded,
    Notice,
    QuestionAsked,
    Replied,
    RunEnded,
    RunStarted,
    Unknown,
    Usage,
)

SAID = text("4")
GOOD = up.Result()


def end(*updates: up.Update, exit: Exit | None = None, traits: up.Traits | None = None) -> RunEnded:
    """The end of a run of these updates, and of its process."""
    normalizer = Normalizer("test", traits or up.Traits())
    for update in updates:
        normalizer.apply(update)
    normalizer.close(exit)
    return ended(checked(normalizer))


@pytest.mark.parametrize(
    ("reason", "cause", "found"),
    [
        ("429 You exceeded your current quota, please check your plan.", "rate_limit", "usage_limit"),
        ("insufficient_quota", None, "usage_limit"),
        ("You exceeded your current quota. Please retry in 34.2s.", "rate_limit", "rate_limit"),
        ("You exceeded your current quota. Please retry in 34.2s.", None, "rate_limit"),
        ("You exceeded your current quota", "auth", "auth"),
        ("429 Too many requests", "rate_limit", "rate_limit"),
        ("no insufficient_quotas here", None, None),
    ],
)
def test_a_quota_that_is_used_up_is_told_by_the_words_of_its_provider(
    reason: str, cause: Cause | None, found: Cause | None
) -> None:
    """Its status is that of too many requests, and some agents pass on the words alone."""
    assert end(up.Result(is_error=True, reason=reason, cause=cause)).cause == found
    assert end(up.Failure(reason, cause)).cause == found
    assert end(SAID, up.Result(reason=reason, cause=cause)).cause is None


@pytest.mark.parametrize(
    ("updates", "exit", "outcome", "reason"),
    [
        # Penstock stopped it
        ([SAID], Exit(timed_out=True, why="time is up"), "timed_out", "time is up"),
        ([SAID], Exit(cancelled=True, why="stopped"), "cancelled", "stopped"),
        ([SAID, up.Result(cancelled=True, reason="as asked")], None, "cancelled", "as asked"),
        ([SAID, up.Result(cancelled=True)], Exit(0), "cancelled", None),
        # it says how it ended
        ([SAID, GOOD], None, "ok", None),
        ([SAID, GOOD], Exit(1, stderr=" oh \n"), "ok", "exit status 1: oh"),
        ([GOOD], None, "empty", "the agent ended without saying anything"),
        ([GOOD], Exit(signal=9), "empty", KILLED),
        ([SAID, up.Result(is_error=True, reason="no")], Exit(1), "error", "no"),
        ([SAID, up.Result(is_error=True)], Exit(1), "error", "exit status 1"),
        ([SAID, up.Result(stop_reason="length")], Exit(0), "error", "the model stopped at its output limit"),
        # it reports a failure
        ([up.Failure("broken")], None, "error", "broken"),
        ([up.Failure("broken"), SAID, GOOD], Exit(0), "ok", None),
        ([up.Failure("broken"), SAID, GOOD], Exit(1), "error", "broken"),
        # it says nothing about its end
        ([up.Notice("error", "no key", "error")], Exit(1), "error", "no key"),
        ([up.Notice("error", "no key", "error"), SAID], None, "cut_off", "the stream ended before the agent did"),
        ([up.Notice("error", "hm", "error", "c1")], None, "cut_off", "the stream ended before the agent did"),
        ([up.Notice("error", "no key", "error")], Exit(signal=9), "cut_off", KILLED),
        ([SAID], Exit(2), "error", "exit status 2"),
        ([SAID], Exit(137, stderr="fatal: no\n"), "error", f"exit status 137 ({KILLED}): fatal: no"),
        ([SAID], Exit(127), "error", "exit status 127 (its program was not found)"),
        ([SAID], Exit(126), "error", "exit status 126 (its program cannot be executed)"),
        ([SAID], Exit(signal=11), "cut_off", "killed by signal 11"),
        ([SAID], Exit(0), "cut_off", "exit status 0 without an answer"),
        ([SAID], Exit(0, stderr="bye\n"), "cut_off", "exit status 0 without an answer: bye"),
        ([], None, "empty", "the agent printed no event"),
        ([], Exit(0), "empty", "exit status 0 without an answer"),
    ],
)
def test_the_end_of_a_run(updates: list[up.Update], exit: Exit | None, outcome: str, reason: str | None) -> None:
    """Outcome and reason follow from the agent's result, then from what it reported, then from its process."""
    found = end(*updates, exit=exit)
    assert (found.outcome, found.reason) == (outcome, reason)


@pytest.mark.parametrize(("updates", "outcome"), [([SAID], "ok"), ([up.Plan([])], "cut_off")])
def test_a_wire_whose_end_is_regular(updates: list[up.Update], outcome: str) -> None:
    """On a wire without results, a stream with content that ends has ended well."""
    assert end(*updates, traits=up.Traits(regular_end=True)).outcome == outcome


@pytest.mark.parametrize(
    ("updates", "reply"),
    [
        ([SAID, up.Result("It is 4.")], "It is 4."),
        ([SAID, up.Result("5")], "4"),
        ([SAID, up.Result("It is 4.", is_error=True)], "4"),
        ([up.Result("It is 4."), text("5")], "5"),
        ([SAID, GOOD, up.ToolCall("c1", "t")], "4"),
        ([up.Result("only here"), up.ToolCall("c1", "t")], "only here"),
    ],
)
def test_the_reply(updates: list[up.Update], reply: str) -> None:
    """The reply is the last text, or the result's own if that has more; content without text does not clear it."""
    assert end(*updates).reply == reply


def test_joined_snapshots_are_no_reply() -> None:
    """A result that only joins the snapshots which the agent received does not replace the repaired text."""
    snapshots = ["one two three", "one two three four"]
    traits = up.Traits(repair_snapshots=True)
    assert end(*map(text, snapshots), up.Result("".join(snapshots)), traits=traits).reply == snapshots[-1]


@pytest.mark.parametrize("wrong", [-1, 2**70, 1e300])
def test_figures_that_cannot_be_are_unknown(wrong: int) -> None:
    """An agent that reports a negative cost has no larger budget for it, and one that reports too much no overflow."""
    used = up.ModelUsage(Usage(input_tokens=wrong, output_tokens=3, cost_usd=-0.5), whole=True)
    known = end(used, up.Result(usage=Usage(wrong, 7, cost_usd=wrong), cost_usd=wrong))
    assert (known.usage, known.cost_usd) == (Usage(None, 7), None)
    assert end(used, up.Result("x")).usage == Usage(None, 3)
    summed = end(used, up.Result(usage=Usage(wrong), cost_usd=0.25))
    assert (summed.usage, summed.cost_usd) == (Usage(None, 3), 0.25)


def test_usage_and_cost() -> None:
    """The agent's own totals count, else the sum over its model calls."""
    calls = [up.ModelUsage(Usage(output_tokens=2, cost_usd=0.5), whole=True)] * 2
    assert (end().usage, end().cost_usd, end().duration_ms) == (None, None, None)
    summed = end(*calls)
    assert (summed.usage, summed.cost_usd) == (Usage(output_tokens=4, cost_usd=1.0), 1.0)
    total = end(*calls, up.Result(usage=Usage(output_tokens=9), cost_usd=2.0, duration_ms=7))
    assert (total.usage, total.cost_usd, total.duration_ms) == (Usage(output_tokens=9), 2.0, 7)


# --- what belongs to no message --------------------------------------------------------------------


def test_lines_that_are_no_events() -> None:
    """Noise and malformed lines are events and counted; a line without any update is only counted."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.noise("npm notice")
    normalizer.malformed(2, "no valid JSON", "{")
    normalizer.control()
    normalizer.close()
    events = checked(normalizer)
    assert [(event.code, event.text) for event in of_type(events, Notice)] == [("noise", "npm notice")]
    assert [(event.line, event.reason) for event in of_type(events, Malformed)] == [(2, "no valid JSON")]
    health = normalizer.health
    assert (health.noise_lines, health.parse_errors, health.control_events) == (1, 1, 1)
    assert ended(events).outcome == "cut_off"


def test_facts_about_the_run_wait_for_the_end_of_a_message() -> None:
    """What the agent reports about itself is emitted between two messages, once for all that changed."""
    normalizer = Normalizer("test", up.Traits())
    for update in (
        up.RunStart(session_id="s"), SAID, up.RunStart(model="m"), up.RunStart(version="1"),
        up.RoundEnd(), up.RunStart(model="m"), up.Result(session_id="s2"),
    ):  # fmt: skip
        normalizer.apply(update)
    normalizer.close()
    events = checked(normalizer)
    found = [(event.session_id, event.model, event.version) for event in of_type(events, RunStarted)]
    assert found == [("s", None, None), ("s", "m", "1")]
    assert names(events).index("MessageEnded") < names(events).index("RunStarted", 1)
    assert ended(events).session_id == "s2"


def test_work_in_the_background() -> None:
    """A run works while a task that it named has not ended; the end of all of them needs no names."""
    normalizer = Normalizer("test", up.Traits())
    for update, working in (
        (up.Work("a", True), True), (up.Work("b", True), True), (up.Work("a", False), True),
        (up.Work("x", False), True), (up.Work(None, False), False), (up.Work(None, True), False),
    ):  # fmt: skip
        normalizer.apply(update)
        assert normalizer.working == working
    for number in range(MAX_WORK + 1):
        normalizer.apply(up.Work(str(number), True))
    for number in range(MAX_WORK):
        normalizer.apply(up.Work(str(number), False))
    assert not normalizer.working  # one more than are remembered


def test_questions_and_answers() -> None:
    """A question and its answer are events."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(up.Question("q", "Really?", "command", blocking=True))
    normalizer.apply(up.Answer("q", "person", text="yes"))
    normalizer.close()
    events = checked(normalizer)
    assert names(events) == ["QuestionAsked", "QuestionAnswered", "RunEnded"]
    assert of_type(events, QuestionAsked)[0].options is None


def test_input_that_ends_with_its_message() -> None:
    """A call that the wire never repeats is emitted once its input ended with the message."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(up.MessageStart("m1"))
    normalizer.apply(up.BlockStart("tool_input", 0, call_id="c1", name="Bash"))
    normalizer.apply(up.Text("tool_input", "delta", '{"command":"ls"}', 0, call_id="c1"))
    normalizer.apply(up.MessageEnd())
    assert names(normalizer.drain())[-2:] == ["ToolCalled", "MessageEnded"]


def test_a_line_that_an_adapter_cannot_read_costs_only_itself() -> None:
    """The updates of its failure are in its place, and the lines around it are read."""
    normalizer = Normalizer("test", up.Traits())
    failures: list[tuple[int, str]] = []

    def read(number: int) -> list[up.Update]:
        return [text(f"{6 // number}", place=0)]

    def failed(number: int, error: Exception) -> list[up.Update]:
        failures.append((number, type(error).__name__))
        return [text("?", place=0)]

    normalizer.apply_batch([1, 0, 2], b"1\n0\n2\n", read, failed)
    assert "".join(event.text for event in of_type(normalizer.drain(), Delta)) == "6?3"
    assert failures == [(0, "ZeroDivisionError")]


def test_a_region_with_lines_of_all_sorts() -> None:
    """Many lines at once give the events that they give one by one; an unknown one has its own line."""
    batch: list[list[up.Update]] = [
        [text("a", place=0)], [text("b", place=0)], [], [up.Unknown("new")],
        [up.Text("thinking", "delta", "c", 0)], [text("d", place=0, message="m2")], [text("e", place=9)],
        [up.Text("text", "delta", "f", 0, lane="c1")], [text("", place=9)], [text("g", place=9)],
        [text("h", place=9), up.BlockEnd(9), text("i", place=9)],
        [text("j", place=9), up.MessageEnd(), text("k", place=9)],
    ]  # fmt: skip
    lines = [b'{"n":%d}\n' % number for number in range(len(batch))]
    once, singly = Normalizer("test", up.Traits()), Normalizer("test", up.Traits())
    once.apply_batch(batch, b"".join(lines), list, no_failure)
    for updates, line in zip(batch, lines, strict=True):
        for update in updates:
            singly.apply(update, line.rstrip())
    for normalizer in (once, singly):
        assert not normalizer.closed
        normalizer.close()
        assert normalizer.closed
    events = checked(once)
    assert events == checked(singly)
    assert [event.raw for event in of_type(events, Unknown)] == ['{"n":3}']
    assert once.health.control_events == 3  # two updates, and the line without any


def test_an_unknown_line_is_shortened() -> None:
    """Of an unknown event only so much is shown."""
    normalizer = Normalizer("test", up.Traits())
    normalizer.apply(up.Unknown(), b"x" * (MAX_RAW_CHARS + 1))
    [event] = of_type(normalizer.drain(), Unknown)
    assert event.raw == "x" * MAX_RAW_CHARS + "…"
    assert normalizer.health.unknown_kinds == {"not JSON": 1}


def test_a_normalizer_that_replaces_another() -> None:
    """Events of the one before that nobody took come first, and the time goes on."""
    first = Normalizer("first", up.Traits())
    first.stamp(7)
    first.noise("banner")
    second = Normalizer("second", up.Traits(), after=first)
    second.noise("more")
    assert [(event.agent, event.at) for event in second.drain()] == [("first", 7), ("second", 7)]


@pytest.mark.parametrize(("traits", "status"), [(up.Traits(), "ok"), (up.Traits(block_ends=True), "cut")])
def test_a_result_ends_the_open_message(traits: up.Traits, status: str) -> None:
    """A good result ends an open message well, unless the wire would have marked the end of its block."""
    normalizer = Normalizer("test", traits)
    for update in (up.MessageStart("m1"), text("4", place=0), up.Result(session_id="s")):
        normalizer.apply(update)
    events = normalizer.drain()
    assert [event.status for event in of_type(events, MessageEnded)] == [status]
    [replied] = of_type(events, Replied)
    assert (replied.reply, replied.session_id) == ("4", "s")


def test_how_full_the_context_is() -> None:
    """The agent's own count comes before that of its last model call; without both figures nothing is reported."""

    def filled(*updates: up.Update) -> tuple[int | None, int | None]:
        last = end(*updates, GOOD)
        return last.context_tokens, last.context_window

    window, first, last = up.ContextUse(window=1000), up.Usage(100, 5, 90), up.Usage(300, 7)
    calls = [up.ModelUsage(first, whole=True), up.ModelUsage(last, whole=True)]
    assert filled(*calls, window) == (307, 1000)
    assert filled(*calls) == filled(window) == (None, None)
    assert filled(window, up.ContextUse(tokens=250), *calls) == (250, 1000)
    assert filled(window, *calls, up.ModelUsage(up.Usage(900, 1), lane="sub", whole=True)) == (307, 1000)
    assert filled(window, *calls, up.ModelUsage(up.Usage(output_tokens=3), whole=True)) == (307, 1000)
    assert filled(window, up.ModelUsage(up.Usage(400), whole=True)) == (400, 1000)


def test_a_compaction_makes_the_count_unknown_until_the_next_model_call() -> None:
    """What was counted before it is no longer what the conversation fills."""
    window, call = up.ContextUse(800, 1000), up.ModelUsage(up.Usage(20, 1), whole=True)
    compacted = up.Notice("compaction", "the context was compacted")
    assert end(window, compacted, GOOD).context_window is None
    after = end(window, compacted, call, GOOD)
    assert (after.context_tokens, after.context_window) == (21, 1000)


@pytest.mark.parametrize("wrong", [0, -5, 2**80])
def test_figures_of_a_context_that_cannot_be_are_ignored(wrong: int) -> None:
    """A wire may have placeholders, and numbers that no client can read."""
    last = end(up.ContextUse(5, 10), up.ContextUse(wrong, wrong), GOOD)
    assert (last.context_tokens, last.context_window) == (5, 10)
