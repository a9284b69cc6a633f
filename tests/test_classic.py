from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from penstock import classic
from penstock.classic import (
    Colors,
    ContentType,
    DeltaAccumulator,
    HealthMonitor,
    InBlock,
    NotInBlock,
    StreamChunk,
    StreamingSession,
    StreamingState,
    TerminalMode,
    TextDeltaRenderer,
    ThinkingDeltaRenderer,
    compute_append_only_suffix,
    parse_stream_line,
)
from penstock.errors import PenstockError
from penstock.events import BlockEnded, BlockRevised, Delta
from penstock.testing.verify import verify

FULL, BASIC, NONE = TerminalMode.FULL, TerminalMode.BASIC, TerminalMode.NONE


def deltas(session: StreamingSession) -> list[str]:
    """The new texts of the last call."""
    return [event.text for event in session.events if isinstance(event, Delta)]


def test_only_the_first_delta_of_a_block_asks_for_a_prefix() -> None:
    """The prefix is asked for once a block, and again in the next block."""
    session = StreamingSession()
    session.on_message_start()
    session.on_content_block_start(0)
    assert session.on_text_delta(0, "Hello")
    assert not session.on_text_delta(0, " World")
    session.on_content_block_start(1)
    assert session.on_text_delta(1, "World")


def test_text_and_thinking_of_one_index_are_told_apart() -> None:
    """Each kind asks for its own prefix, and going back to a kind that streams asks for none."""
    session = StreamingSession()
    session.on_message_start()
    assert session.on_thinking_delta(0, "hm")
    assert session.on_text_delta(0, "Hi")
    assert not session.on_thinking_delta(0, " so")
    assert session.on_tool_input_delta(1, '{"a"')
    assert not session.on_tool_input_delta(1, ":1}")


def test_an_empty_delta_starts_nothing() -> None:
    """A prefix waits for text."""
    session = StreamingSession()
    session.on_message_start()
    session.on_content_block_start(0)
    assert not session.on_text_delta(0, "")
    assert session.content_block == InBlock(0, started_output=False)
    assert not session.has_any_streamed_content()
    assert session.on_text_delta(0, "x")
    assert session.content_block == InBlock(0, started_output=True)


def test_a_new_block_ends_the_current_one_whole() -> None:
    """The block before is told as ended, with its whole text, when the next one is announced."""
    session = StreamingSession()
    session.on_message_start()
    session.on_text_delta(0, "Hel")
    session.on_text_delta(0, "lo")
    session.on_content_block_start(1)
    ended = [event for event in session.events if isinstance(event, BlockEnded)]
    assert [(event.text, event.complete) for event in ended] == [("Hello", True)]
    assert session.content_block == InBlock(1, started_output=False)


def test_a_block_announced_again_begins_anew() -> None:
    """The same index announced twice is two blocks, so the prefix comes again."""
    session = StreamingSession()
    session.on_message_start()
    session.on_content_block_start(0)
    assert session.on_text_delta(0, "one")
    session.on_content_block_start(0)
    assert session.on_text_delta(0, "two")
    session.on_message_stop()
    assert [event.text for event in session.events if isinstance(event, BlockEnded)] == ["two"]


def test_the_stop_says_whether_a_line_is_to_be_ended() -> None:
    """Once for a message that streamed, never for one that did not."""
    session = StreamingSession()
    session.on_message_start()
    assert not session.on_message_stop()
    session.on_message_start()
    session.on_text_delta(0, "x")
    assert session.on_message_stop()
    assert not session.on_message_stop()


def test_what_was_streamed_is_known_until_the_next_message() -> None:
    """After the stop the message still counts as shown; a new start resets everything."""
    session = StreamingSession()
    session.on_message_start()
    states = [session.state]
    session.on_thinking_delta(0, "x")
    states.append(session.state)
    session.on_message_stop()
    states.append(session.state)
    assert states == [StreamingState.IDLE, StreamingState.STREAMING, StreamingState.FINALIZED]
    assert session.content_block == NotInBlock()
    assert session.has_any_streamed_content()
    session.on_message_start()
    assert session.state is StreamingState.IDLE
    assert not session.has_any_streamed_content()


def test_a_delta_without_any_start_is_shown() -> None:
    """Text is never lost for a missing start."""
    session = StreamingSession()
    assert session.on_text_delta(3, "x")
    assert deltas(session) == ["x"]


def test_only_the_armed_session_takes_a_repeat_for_a_snapshot() -> None:
    """A delta that begins with all before it is believed, unless the session is armed."""
    for armed, expected in ((False, "Hello World, again"), (True, ", again")):
        session = StreamingSession(armed=armed)
        session.on_message_start()
        session.on_text_delta(0, "Hello World")
        assert not session.on_text_delta(0, "Hello World, again")
        assert deltas(session) == [expected]
        assert session.health.repaired_snapshots == int(armed)


def test_a_surrogate_pair_split_over_two_deltas_is_one_character() -> None:
    """The first half waits for the second, and no prefix is asked for before there is text."""
    session = StreamingSession()
    session.on_message_start()
    assert not session.on_text_delta(0, "\ud83d")
    assert session.on_text_delta(0, "\ude00")
    assert deltas(session) == ["😀"]


def test_its_events_keep_the_contract() -> None:
    """All events of a session with blocks of every kind satisfy the judge, but for the end of the run."""
    session = StreamingSession()
    events = []
    for _ in range(2):
        session.on_message_start()
        events += session.events
        tells: list[Callable[[int, str], object]] = [
            session.on_thinking_delta,
            session.on_text_delta,
            session.on_tool_input_delta,
        ]
        for index, tell in enumerate(tells):
            session.on_content_block_start(index)
            events += session.events
            for piece in ("a", "", "b"):
                tell(index, piece)
                events += session.events
        session.on_message_stop()
        events += session.events
    assert not any(isinstance(event, BlockRevised) for event in events)
    assert [event.text for event in events if isinstance(event, BlockEnded)] == ["ab"] * 6
    assert [found for found in verify(events) if "run_ended" not in found.text] == []


@pytest.mark.parametrize(
    ("last", "current", "suffix"),
    [
        ("", "Hello", "Hello"),
        ("", "", ""),
        ("Hello", "Hello World", " World"),
        ("Hello", "Hello", ""),
        ("Hello World", "Hello Universe", ""),
        ("Hello World", "Hello", ""),
        ("a", "ba", ""),
    ],
)
def test_the_append_only_suffix(last: str, current: str, suffix: str) -> None:
    """All of the first text, the new part of a longer one, nothing where appending cannot get there."""
    assert compute_append_only_suffix(last, current) == suffix


@pytest.mark.parametrize("renderer", [TextDeltaRenderer(), ThinkingDeltaRenderer()])
def test_a_renderer_appends_in_a_terminal_and_is_silent_elsewhere(renderer: classic.DeltaRenderer) -> None:
    """The first delta has the prefix and no line break, later ones are empty, the end is one line break."""
    plain = Colors(enabled=False)
    assert renderer.render_first_delta("Hello", "ccs/glm", plain, FULL) == "[ccs/glm] Hello"
    assert renderer.render_completion(FULL) == "\n"
    for mode in (BASIC, NONE):
        assert renderer.render_first_delta("Hello", "ccs/glm", plain, mode) == ""
        assert renderer.render_completion(mode) == ""
    for mode in TerminalMode:
        assert renderer.render_subsequent_delta("Hello World", "ccs/glm", Colors(), mode) == ""


def test_a_renderer_lets_no_control_through() -> None:
    """With colours, the only escape sequences are its own; thinking is dim."""
    shown = ThinkingDeltaRenderer().render_first_delta("a\x1b[2Jb\rc\x07", "x\x1b[1A\n", Colors(), FULL)
    assert "\x1b[2mab" in shown
    assert not {"\r", "\x07", "\n"} & set(shown)
    assert "\x1b[2J" not in shown
    assert "\x1b[1A" not in shown


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        """As a terminal does."""
        return True


def test_the_mode_is_detected_from_the_stream_and_the_environment() -> None:
    """A terminal streams, forced colours elsewhere are `basic`, all else is `none`."""
    assert TerminalMode.detect(Terminal(), {"TERM": "xterm"}) is FULL
    assert TerminalMode.detect(io.StringIO(), {"FORCE_COLOR": "1"}) is BASIC
    assert TerminalMode.detect(io.StringIO(), {}) is NONE


def test_the_accumulator_knows_partial_from_complete() -> None:
    """Content is partial from its first delta until it is marked or set complete."""
    accumulator = DeltaAccumulator()
    assert accumulator.get_display_content(ContentType.TEXT, "0") is None
    assert not accumulator.is_delta(ContentType.TEXT, "0")
    accumulator.add_delta(ContentType.TEXT, "0", "Hel", source="text_delta", at=10)
    accumulator.add_delta(ContentType.TEXT, "0", "lo", at=25)
    accumulator.add_delta(ContentType.THINKING, "0", "hm")
    assert accumulator.get_display_content(ContentType.TEXT, "0") == "Hello"
    assert accumulator.source(ContentType.TEXT, "0") == "text_delta"
    assert accumulator.last_update(ContentType.TEXT, "0") == 25
    assert accumulator.is_delta(ContentType.TEXT, "0")
    accumulator.mark_as_complete(ContentType.TEXT, "0", at=30)
    assert not accumulator.is_delta(ContentType.TEXT, "0")
    assert accumulator.is_delta(ContentType.THINKING, "0")
    accumulator.mark_as_delta(ContentType.TEXT, "0")
    assert accumulator.is_delta(ContentType.TEXT, "0")
    assert accumulator.last_update(ContentType.TEXT, "0") == 30


def test_the_complete_text_gives_what_is_new() -> None:
    """The missing end of a text is new, a repeat is not, and a different text replaces the old one."""
    accumulator = DeltaAccumulator()
    accumulator.add_delta(ContentType.TEXT, "m", "Hel")
    assert accumulator.set_complete(ContentType.TEXT, "m", "Hello", source="assistant") == "lo"
    assert accumulator.set_complete(ContentType.TEXT, "m", "Hello") == ""
    assert accumulator.set_complete(ContentType.TEXT, "m", "Help") == ""
    assert accumulator.get_display_content(ContentType.TEXT, "m") == "Help"
    assert not accumulator.is_delta(ContentType.TEXT, "m")
    assert accumulator.source(ContentType.TEXT, "m") == "assistant"


def test_clearing_forgets_what_was_named() -> None:
    """By type and key, by type, or everything."""
    accumulator = DeltaAccumulator()
    for kind in ContentType:
        accumulator.add_delta(kind, "0", "x")
        accumulator.add_delta(kind, "1", "x")
    accumulator.clear(ContentType.TEXT, "0")
    assert accumulator.get_display_content(ContentType.TEXT, "0") is None
    assert accumulator.get_display_content(ContentType.TEXT, "1") == "x"
    assert accumulator.get_display_content(ContentType.THINKING, "0") == "x"
    accumulator.clear(ContentType.THINKING)
    assert accumulator.get_display_content(ContentType.THINKING, "1") is None
    assert accumulator.get_display_content(ContentType.TOOL_INPUT, "1") == "x"
    accumulator.clear()
    assert accumulator.get_display_content(ContentType.TOOL_INPUT, "1") is None


def test_only_parse_errors_are_warnings() -> None:
    """Thousands of deltas and unknown kinds are healthy; a line that cannot be parsed is named."""
    monitor = HealthMonitor("claude")
    for _ in range(1500):
        monitor.record_delta_event()
    for _ in range(53):
        monitor.record_complete_event()
    for number in range(50):
        monitor.record_unknown_event(f"kind{number % 3}")
    monitor.record_control_event()
    assert monitor.warnings == []
    assert "1,500 delta events" in monitor.summary()
    assert "53 complete events" in monitor.summary()
    assert "50 unknown events of 3 kinds" in monitor.summary()
    monitor.record_parse_error()
    assert len(monitor.warnings) == 1
    assert "line 1605" in monitor.warnings[0]


@pytest.mark.parametrize(
    ("line", "chunk"),
    [
        (
            '{"type":"result","result":"whole text","session_id":"s-1"}',
            StreamChunk(text="whole text", is_final=True, session_id="s-1"),
        ),
        ('{"type":"result","result":"x"}', StreamChunk(text="x", is_final=True)),
        ('{"type":"result","result":null}', StreamChunk(is_final=True)),
        ('{"type":"assistant","message":{"content":[]}}', StreamChunk()),
        ('{"type":"assistant","message":{"content":"x"}}', StreamChunk()),
        (
            '{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"a "},{"type":"x"},'
            '{"type":"text","text":"b"}]}}',
            StreamChunk(text="a b"),
        ),
        (
            '{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"y"}]}}',
            StreamChunk(text="y", thinking="hm"),
        ),
        (
            '{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}',
            StreamChunk(thinking="hm"),
        ),
        ('{"type":"system","message":"x"}', StreamChunk()),
        ('{"type":["no","name"]}', StreamChunk()),
        ("[1]", StreamChunk()),
        ('{"type":"result","result":"\\ud83d"}', StreamChunk(text="\ufffd", is_final=True)),
    ],
)
def test_one_line_is_one_chunk(line: str, chunk: StreamChunk) -> None:
    """A result is final, an assistant message is its text and thinking, all else is empty."""
    assert parse_stream_line(line) == chunk
    assert parse_stream_line(line.encode()) == chunk


@pytest.mark.parametrize("line", ["not json", "", "{", '{"a":1}{"b":2}', 'noise {"type":"result"}', b"\xff\xfe"])
def test_a_line_that_is_not_json_raises(line: str | bytes) -> None:
    """As a ValueError and as an error of Penstock's."""
    with pytest.raises(ValueError, match="not JSON") as caught:
        parse_stream_line(line)
    assert isinstance(caught.value, PenstockError)


def test_every_name_is_there() -> None:
    """The list of exported names holds nothing that is missing."""
    assert all(hasattr(classic, name) for name in classic.__all__)
