from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import events as ev
from penstock.stream import Stream
from penstock.testing.verify import verify

Line = dict[str, Any]
SNAPSHOTS = ["Here is", "Here is the answer", "Here is the answer, piece by", "Here is the answer, piece by piece. — ✓"]
DELTAS = ["Here is the", " answer, piece ", "by piece.", " FINAL-", "REPLY. And more."]
WHOLE = "".join(DELTAS)


def api(kind: str, **fields: Any) -> Line:
    """One event of the API."""
    return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": None}


def whole(message: str, value: str, kind: str = "text") -> Line:
    """The full frame of a text."""
    body = {"id": message, "model": "glm-5", "content": [{"type": kind, kind: value}]}
    return {"type": "assistant", "message": body, "parent_tool_use_id": None}


def begin(message: str = "m1", index: int = 0, kind: str = "text") -> list[Line]:
    """A message starts, and a block in it."""
    first = [api("message_start", message={"id": message, "content": []})] if index == 0 else []
    return [*first, api("content_block_start", index=index, content_block={"type": kind, kind: ""})]


def deltas(pieces: list[str], index: int = 0, kind: str = "text") -> list[Line]:
    """What claims to be new."""
    return [api("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: piece}) for piece in pieces]


def stop(index: int = 0) -> list[Line]:
    """A block stops."""
    return [api("content_block_stop", index=index)]


def end(value: str) -> list[Line]:
    """The message and the run end."""
    last = [api("message_delta", delta={"stop_reason": "end_turn"}), api("message_stop")]
    return [*last, {"type": "result", "subtype": "success", "is_error": False, "result": value, "session_id": "s"}]


def read(lines: list[Line], agent: str = "ccs") -> tuple[list[ev.Event], Stream]:
    """The events of lines, verified."""
    stream = Stream(agent, strict=True)
    events = (
        stream.feed(b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)) + stream.close()
    )
    assert verify(events) == []
    return events, stream


def texts(events: list[ev.Event], kind: str = "text") -> list[str]:
    """What the blocks of a kind came to, in order."""
    found: dict[int, str] = {}
    for event in events:
        if isinstance(event, ev.BlockEnded | ev.BlockRevised) and event.kind == kind:
            found[event.block] = event.text
    return list(found.values())


def reply(events: list[ev.Event]) -> str:
    """The reply of a run that went well."""
    assert isinstance(events[-1], ev.RunEnded)
    assert events[-1].outcome == "ok"
    return events[-1].reply


def streamed(pieces: list[str], message: str = "m1") -> list[Line]:
    """A text in pieces, and the full frame that the CLI makes of them: it only joins what it got."""
    joined = "".join(pieces)
    return [*begin(message), *deltas(pieces), whole(message, joined), *stop(), *end(joined)]


# Servers that break the rules: name, what they send as deltas, the right text.
BROKEN = [
    ("snapdelta", SNAPSHOTS, SNAPSHOTS[-1]),
    ("snapdelta, long", ["x" * n for n in range(8, 90, 9)], "x" * 89),
    (
        "snapdelta from short texts",
        ["Hi", "Hi there, you", "Hi there, you all", "Hi there, you all."],
        "Hi there, you all.",
    ),
    ("snapmixed", [*DELTAS[:3], "".join(DELTAS[:4]), WHOLE], WHOLE),
    ("finaldelta", [*DELTAS, WHOLE], WHOLE),
    ("finaldelta, twice", [*DELTAS, WHOLE, WHOLE], WHOLE),
    ("each but the first twice", ["Here is the", *(p for p in SNAPSHOTS[1:] for _ in range(2))], SNAPSHOTS[-1]),
]


@pytest.mark.parametrize(("pieces", "right"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_snapshots_in_the_place_of_deltas(pieces: list[str], right: str) -> None:
    """The text comes out once, though the full frame and the result are the same garbage; the repair is counted."""
    events, stream = read(streamed(pieces))
    assert texts(events) == [right]
    assert reply(events) == right
    assert stream.health.repaired_snapshots > 0


@pytest.mark.parametrize("pieces", [case[1] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_claude_itself_is_never_guessed_at(pieces: list[str]) -> None:
    """The same wire under the name `claude` keeps all that came."""
    events, stream = read(streamed(pieces), "claude")
    assert texts(events) == ["".join(pieces)]
    assert [event.text for event in events if isinstance(event, ev.Delta)] == pieces
    assert reply(events) == "".join(pieces)
    assert stream.health.repaired_snapshots == 0


@pytest.mark.parametrize("agent", ["ccs", "claude"])
@pytest.mark.parametrize(
    "pieces",
    [
        [
            "ha",
            "ha",
            "ha",
            "\n",
            "ha",
            "haha",
            "\n",
            "a",
            "ab",
            "abc",
            "\n",
            *["- [ ] x\n"] * 3,
            "no no no",
            " no",
            ".",
        ],
        ["haha"],
        ["ha", "haha"],
        ["!", "!", "!"],
        ["Hi", "Hi you"],
        ["---", "---", "---"],
        ["| a | b |\n", "|---|---|\n", "| a | b |\n"],
        ["the same line\n", "the same line\n"],
        ["a", "a", "aa", "aaaa"],
        ["ok"],
    ],
    ids=repr,
)
def test_legal_repeats_stay(agent: str, pieces: list[str]) -> None:
    """True deltas that look like what stood before them are all new text."""
    events, stream = read(streamed(pieces), agent)
    assert [event.text for event in events if isinstance(event, ev.Delta)] == pieces
    assert reply(events) == "".join(pieces)
    assert stream.health.repaired_snapshots == 0


def test_snapshots_of_thinking() -> None:
    """Thinking is repaired as text is, and the text after it is left alone."""
    lines = [
        *begin(kind="thinking"),
        *deltas(SNAPSHOTS, kind="thinking"),
        whole("m1", "".join(SNAPSHOTS), "thinking"),
        *stop(),
    ]
    lines += [*begin(index=1), *deltas(["Do", "ne."], 1), whole("m1", "Done."), *stop(1), *end("Done.")]
    events, _ = read(lines)
    assert texts(events, "thinking") == [SNAPSHOTS[-1]]
    assert texts(events) == [reply(events)] == ["Done."]


def test_snapshots_over_a_tool_round() -> None:
    """Each message is repaired by itself, a call's input too."""
    inputs = ['{"command": "', '{"command": "ls', '{"command": "ls -la"}']
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    lines = [*begin(), *deltas(SNAPSHOTS), whole("m1", "".join(SNAPSHOTS)), *stop()]
    lines += [api("content_block_start", index=1, content_block=call)]
    lines += [
        api("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": p}) for p in inputs
    ]
    body = {"id": "m1", "model": "glm-5", "content": [{**call, "input": {"command": "ls -la"}}]}
    lines += [{"type": "assistant", "message": body}, *stop(1), api("message_delta", delta={"stop_reason": "tool_use"})]
    answer = [{"type": "tool_result", "tool_use_id": "t1", "content": "files"}]
    lines += [{"type": "user", "message": {"role": "user", "content": answer}}, *streamed(SNAPSHOTS, "m2")]
    events, _ = read(lines)
    assert texts(events) == [SNAPSHOTS[-1]] * 2
    assert [event.input for event in events if isinstance(event, ev.ToolCalled)] == [{"command": "ls -la"}]
    assert reply(events) == SNAPSHOTS[-1]


def test_the_full_frame_comes_early() -> None:
    """The deltas that follow it are in it already."""
    events, _ = read([whole("m1", WHOLE), *begin(), *deltas(DELTAS), *stop(), *end(WHOLE)])
    assert texts(events) == [WHOLE]
    assert reply(events) == WHOLE


def test_the_full_frame_comes_in_the_middle() -> None:
    """It ends its block; the rest of the deltas is silent."""
    events, _ = read([*begin(), *deltas(DELTAS[:2]), whole("m1", WHOLE), *deltas(DELTAS[2:]), *stop(), *end(WHOLE)])
    assert texts(events) == [WHOLE]
    assert "".join(event.text for event in events if isinstance(event, ev.Delta)) == WHOLE
    assert reply(events) == WHOLE


@pytest.mark.parametrize("name", ["m1", "other"])
@pytest.mark.parametrize("early", [True, False])
def test_the_full_frame_comes_again(name: str, early: bool) -> None:
    """Under its id or another one, before the block's stop or after the message's end: once is enough."""
    again = [whole(name, WHOLE)]
    ended = end(WHOLE)
    middle = [*again, *stop(), *ended[:2]] if early else [*stop(), *ended[:2], *again]
    events, _ = read([*begin(), *deltas(DELTAS), whole("m1", WHOLE), *middle, ended[2]])
    assert texts(events) == [WHOLE]
    assert reply(events) == WHOLE


def test_the_full_frame_has_another_id() -> None:
    """The only full frame names a message that never began."""
    events, _ = read([*begin(), *deltas(DELTAS), whole("other", WHOLE), *stop(), *end(WHOLE)])
    assert texts(events) == [WHOLE]
    assert reply(events) == WHOLE


def test_without_partial_messages_nothing_can_be_repaired() -> None:
    """The garbage has no deltas to be told by, so it stays: text is never dropped on suspicion."""
    garbage = "".join(SNAPSHOTS)
    events, stream = read([whole("m1", garbage), *end(garbage)[2:]])
    assert reply(events) == garbage
    assert stream.health.repaired_snapshots == 0


def test_two_equal_answers_of_two_rounds() -> None:
    """A long text that is said again after a tool is said twice."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    line = {"type": "assistant", "message": {"id": "m2", "content": [call]}}
    back = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": ""}]}}
    events, _ = read([*streamed(DELTAS)[:-1], line, back, *streamed(DELTAS, "m3")])
    assert texts(events) == [WHOLE, WHOLE]
    assert reply(events) == WHOLE
