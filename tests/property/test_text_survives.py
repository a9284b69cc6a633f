"""Any text, cut in any way into deltas, comes out of each agent's wire unchanged, once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from effort import examples
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.events import BlockEnded, BlockRevised, Delta, Event, RunEnded
from penstock.stream import Stream
from penstock.testing import feeds, verify

Lines = list[dict[str, Any]]
Wire = Callable[[str, list[str], str], Lines]
"""Kind, deltas and the agent's own whole text to the lines of a run."""

FEW = examples(10, 60)
SESSION = "5e55"
NO_USAGE: dict[str, Any] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


def claude(kind: str, deltas: list[str], whole: str, stop_first: bool = False) -> Lines:
    """A run of `claude` with partial messages; with `stop_first`, the order of `qwen`."""

    def partial(event: dict[str, Any]) -> dict[str, Any]:
        return {"type": "stream_event", "event": event, "session_id": SESSION, "parent_tool_use_id": None}

    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_reason": None}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": kind, kind: ""}}
    stop = partial({"type": "content_block_stop", "index": 0})
    block = {"type": kind, kind: whole}
    complete = {"type": "assistant", "message": {**message, "content": [block]}, "session_id": SESSION}
    lines: Lines = [
        {"type": "system", "subtype": "init", "session_id": SESSION, "model": "m", "cwd": "/", "tools": []},
        partial({"type": "message_start", "message": {**message, "content": []}}),
        partial(start),
        *(
            partial({"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: text}})
            for text in deltas
        ),
        *([stop, complete] if stop_first else [complete, stop]),
    ]
    if not stop_first:
        lines.append(partial({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}))
    lines.append(partial({"type": "message_stop"}))
    result = whole if kind == "text" else ""
    return [
        *lines,
        {"type": "result", "subtype": "success", "is_error": False, "result": result, "session_id": SESSION},
    ]


def qwen(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `qwen` with partial messages."""
    return claude(kind, deltas, whole, stop_first=True)


def pi(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `pi`, whose updates carry the whole message as well."""
    base = {"role": "assistant", "provider": "mock", "model": "m", "usage": NO_USAGE, "stopReason": "stop"}
    field = {"text": "text", "thinking": "thinking"}[kind]

    def update(way: str, more: dict[str, str]) -> dict[str, Any]:
        message = {**base, "content": [{"type": kind, field: whole}]}
        event = {"type": f"{kind}_{way}", "contentIndex": 0, **more, "partial": message}
        return {"type": "message_update", "assistantMessageEvent": event, "message": message}

    message = {**base, "content": [{"type": kind, field: whole}]}
    return [
        {"type": "session", "version": 3, "id": SESSION, "cwd": "/"},
        {"type": "agent_start"},
        {"type": "turn_start"},
        {"type": "message_start", "message": {**base, "content": []}},
        update("start", {}),
        *(update("delta", {"delta": text}) for text in deltas),
        update("end", {"content": whole}),
        {"type": "message_end", "message": message},
        {"type": "turn_end", "message": message, "toolResults": []},
        {"type": "agent_end", "messages": [message]},
    ]


def copilot(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `copilot`."""
    name, key = {"text": ("message", "messageId"), "thinking": ("reasoning", "reasoningId")}[kind]
    lines: Lines = [{"type": "assistant.turn_start", "data": {"turnId": "0"}, "id": "1"}]
    if kind == "text":
        lines.append({"type": "assistant.message_start", "data": {"messageId": "b1"}, "id": "2"})
    lines += [{"type": f"assistant.{name}_delta", "data": {key: "b1", "deltaContent": text}} for text in deltas]
    if kind == "text":
        lines.append({"type": "assistant.message", "data": {"messageId": "b1", "content": whole, "toolRequests": []}})
    else:
        said = {"messageId": "b2", "content": "", "toolRequests": [], "reasoningText": whole}
        lines.append({"type": "assistant.message", "data": said})
        lines.append({"type": "assistant.reasoning", "data": {"reasoningId": "b1", "content": whole}})
    lines.append({"type": "assistant.turn_end", "data": {"turnId": "0"}, "id": "3"})
    return [*lines, {"type": "result", "sessionId": SESSION, "exitCode": 0}]


def gemini(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `gemini`, which prints no thoughts and no whole texts."""
    return [
        {"type": "init", "session_id": SESSION, "model": "m"},
        {"type": "message", "role": "user", "content": "the prompt"},
        *({"type": "message", "role": "assistant", "content": text, "delta": True} for text in deltas),
        {"type": "result", "status": "success", "stats": {}},
    ]


def cline(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `cline`, whose deltas carry the accumulated text as well."""
    content, field = ("text", "text") if kind == "text" else ("reasoning", "reasoning")
    agent = {"agentId": "a1", "taskId": "t1", "parentAgentId": None}
    events: Lines = [{"type": "iteration_start", "iteration": 1}]
    for end, text in enumerate(deltas, 1):
        more = {"accumulated": "".join(deltas[:end])} if kind == "text" else {"redacted": False}
        events.append({"type": "content_start", "contentType": content, field: text, **more})
    events.append({"type": "content_end", "contentType": content, field: whole})
    events.append({"type": "iteration_end", "iteration": 1, "hadToolCalls": False, "toolCallCount": 0})
    reply = whole if kind == "text" else ""
    events.append({"type": "done", "reason": "completed", "text": reply, "iterations": 1})
    return [
        {"type": "hook_event", "hookEventName": "agent_start", **agent},
        *({"type": "agent_event", "event": event} for event in events),
        {"type": "hook_event", "hookEventName": "agent_end", **agent},
        {"type": "run_result", "finishReason": "completed", "iterations": 1, "text": reply},
    ]


def ollama(kind: str, deltas: list[str], whole: str) -> Lines:
    """A response of `ollama`."""
    field = {"text": "content", "thinking": "thinking"}[kind]

    def chunk(message: dict[str, str], done: bool) -> dict[str, Any]:
        return {
            "model": "m",
            "created_at": "t",
            "message": {"role": "assistant", "content": "", **message},
            "done": done,
        }

    return [*(chunk({field: text}, False) for text in deltas), {**chunk({}, True), "done_reason": "stop"}]


def codex(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `codex exec`, which has whole texts only."""
    item = {"id": "item_0", "type": {"text": "agent_message", "thinking": "reasoning"}[kind], "text": whole}
    return [
        {"type": "thread.started", "thread_id": SESSION},
        {"type": "turn.started"},
        {"type": "item.completed", "item": item},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    ]


def opencode(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `opencode run`, which has whole texts only."""
    name = {"text": "text", "thinking": "reasoning"}[kind]
    common = {"messageID": "m1", "sessionID": SESSION}
    parts: list[tuple[str, dict[str, Any]]] = [
        ("step_start", {"id": "p1", "type": "step-start"}),
        (name, {"id": "p2", "type": name, "text": whole, "time": {"start": 1, "end": 2}}),
        ("step_finish", {"id": "p3", "type": "step-finish", "reason": "stop", "tokens": {}, "cost": 0}),
    ]
    return [{"type": type_, "sessionID": SESSION, "part": {**part, **common}} for type_, part in parts]


def droid(kind: str, deltas: list[str], whole: str) -> Lines:
    """A run of `droid`, which prints whole texts."""
    end = {"type": "completion", "finalText": whole if kind == "text" else "", "numTurns": 1, "session_id": SESSION}
    line = {"type": "message", "role": "assistant"} if kind == "text" else {"type": "reasoning"}
    return [
        {"type": "system", "subtype": "init", "cwd": "/", "session_id": SESSION, "tools": [], "model": "m"},
        {"type": "message", "role": "user", "id": "u", "text": "the prompt", "timestamp": 1, "session_id": SESSION},
        {**line, "id": "m1", "text": whole, "timestamp": 2, "session_id": SESSION},
        end,
    ]


WIRES: dict[str, Wire] = {
    "claude": claude,
    "cline": cline,
    "codex": codex,
    "copilot": copilot,
    "droid": droid,
    "gemini": gemini,
    "ollama": ollama,
    "opencode": opencode,
    "pi": pi,
    "qwen": qwen,
}
KINDS = [(agent, kind) for agent in WIRES for kind in ("text", "thinking") if (agent, kind) != ("gemini", "thinking")]
WITHOUT_DELTAS = ["codex", "droid", "opencode"]
WITH_FINALS = ["claude", "cline", "copilot", "pi", "qwen"]

WORDS = ["!", "!!", "ha", "haha", "a", "ab", "abc", " ", "\n", "\n\n", "\t", "\r\n", '"', "\\", "{", "<", "</", "```\n"]
LINES = ["|---|---|\n", "| a | b |\n", "- the same line\n", "- the same line\n", "The same sentence, said twice. "]
STRANGE = ["😀", "👩\u200d👧", "日本語", "e\u0301", "\ud83d", "\ude00", "\u2028", "\x85", "\x00", "\x1b[31m", "\ufeff"]
PIECES = st.sampled_from([*WORDS, *LINES, *STRANGE]) | st.text(max_size=5)
TEXTS = st.lists(PIECES, min_size=1, max_size=16).map("".join).filter(bool)


def units(text: str) -> list[str]:
    """The UTF-16 units of a text, so that cuts may fall inside a surrogate pair."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [chr(raw[at] | raw[at + 1] << 8) for at in range(0, len(raw), 2)]


def repaired(text: str) -> str:
    """Halves that meet joined, lone ones as U+FFFD."""
    out: list[str] = []
    for unit in units(text):
        if "\ud800" <= unit <= "\udbff" or not "\udc00" <= unit <= "\udfff":
            out.append(unit)
        elif out and "\ud800" <= out[-1] <= "\udbff":
            out[-1] = chr(0x10000 + ((ord(out[-1]) - 0xD800) << 10) + ord(unit) - 0xDC00)
        else:
            out.append("\ufffd")
    return "".join("\ufffd" if "\ud800" <= unit <= "\udbff" else unit for unit in out)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and the same cut anywhere into deltas, some of them empty."""
    text = draw(TEXTS)
    pieces = units(text)
    cuts = sorted(draw(st.lists(st.integers(0, len(pieces)), max_size=12)))
    edges = [0, *cuts, len(pieces)]
    return text, ["".join(pieces[start:end]) for start, end in itertools.pairwise(edges)]


def encoded(lines: Lines, ascii_only: bool = True) -> bytes:
    """Lines as an agent prints them: with escapes, or with raw U+2028 and the like."""
    return b"".join(json.dumps(line, ensure_ascii=ascii_only).encode() + b"\n" for line in lines)


def read(agent: str, lines: Lines, ascii_only: bool = True) -> tuple[list[Event], Stream]:
    """The events of a run, judged, and the stream that gave them."""
    stream = Stream(agent)
    events = feeds.whole(stream, encoded(lines, ascii_only))
    assert verify(events) == []
    assert (stream.health.unknown_kinds, stream.health.parse_errors, stream.health.adapter_errors) == ({}, 0, 0)
    return events, stream


def texts(events: list[Event], kind: str) -> list[str]:
    """The recaps of all blocks of a kind."""
    return [event.text for event in events if isinstance(event, BlockEnded) and event.kind == kind]


def live(events: list[Event], kind: str) -> str:
    """All that was streamed of a kind."""
    return "".join(event.text for event in events if isinstance(event, Delta) and event.kind == kind)


def check_unchanged(agent: str, kind: str, text: str, deltas: list[str], ascii_only: bool = True) -> None:
    """Text comes out as it went in, once, on both channels, with no revision."""
    events, stream = read(agent, WIRES[agent](kind, deltas, text), ascii_only)
    assert texts(events, kind) == [repaired(text)]
    assert live(events, kind) == repaired(text)
    assert not any(isinstance(event, BlockRevised) for event in events)
    assert stream.health.discontinuities == 0
    end = events[-1]
    assert isinstance(end, RunEnded)
    if kind == "text" and text.strip():
        assert end.reply == repaired(text)
        assert end.outcome == "ok"


@pytest.mark.sample(3)
@pytest.mark.parametrize(("agent", "kind"), KINDS)
@given(cut=cut_texts())
@example(cut=("!" * 1000, ["!"] * 1000))
@example(cut=("haha" * 3, ["ha", "ha", "haha", "haha"]))
@example(cut=("| a | b |\n|---|---|\n" * 2, ["| a | b |\n", "|---|---|\n"] * 2))
@example(cut=("- x\n" * 3, ["- x\n"] * 3))
@example(cut=("aababc", ["a", "ab", "abc"]))
@example(cut=("The whole text. The whole text. ", ["The whole text. ", "The whole text. "]))
@example(cut=("\ud83d\ude00", ["\ud83d", "\ude00"]))
@example(cut=("x\ud83d", ["x", "\ud83d"]))
@example(cut=("\ude00\ud83d", ["\ude00\ud83d"]))
@example(cut=("ax\ud83dyz\ude00.", ["a", "x\ud83dy", "z\ude00."]))
@FEW
def test_any_cut_of_any_text(agent: str, kind: str, cut: tuple[str, list[str]]) -> None:
    """For every agent but `ccs` and `generic`, however the text is cut."""
    text, deltas = cut
    check_unchanged(agent, kind, text, deltas)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("agent", "kind"), [pair for pair in KINDS if pair[0] not in WITHOUT_DELTAS])
@given(
    first=st.sampled_from(["!", "Ünï"]), more=st.lists(st.sampled_from(["!", "ha", "haha", "ab", "- x\n", "😀", " "]))
)
@example(first="!", more=["!"] * 999)
@FEW
def test_each_delta_comes_at_once(agent: str, kind: str, first: str, more: list[str]) -> None:
    """What the agent streams is streamed on, piece by piece; its final message has nothing left to add."""
    deltas = [first, *more]  # a blank beginning may wait: on some wires it tells thoughts from text
    events, _ = read(agent, WIRES[agent](kind, deltas, "".join(deltas)))
    assert [event.text for event in events if isinstance(event, Delta) and event.kind == kind] == deltas


@pytest.mark.parametrize("agent", WIRES)
@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85", "\x7f", "\x9b", "\ufeff", "😀"])
def test_characters_that_break_lines_elsewhere(agent: str, char: str) -> None:
    """Raw line separators, controls and a BOM inside a string stay where they are."""
    text = f"before{char}after"
    check_unchanged(agent, "text", text, ["before", char, "after"], ascii_only=False)


@pytest.mark.parametrize("agent", WITH_FINALS)
@given(sent=st.text("ab \n", min_size=1, max_size=8), whole=st.text("ab \n", min_size=1, max_size=8))
@FEW
def test_a_different_final_is_the_truth(agent: str, sent: str, whole: str) -> None:
    """The agent's own complete message adds what was lost, or revises what was wrong, and says so once."""
    lines = [*WIRES[agent]("text", [sent], whole)]
    if agent == "cline":
        lines = [line for line in lines if line.get("event", {}).get("type") != "done"]
    events, stream = read(agent, lines)
    revised = [event.text for event in events if isinstance(event, BlockRevised)]
    if whole.startswith(sent):
        assert (revised, live(events, "text")) == ([], whole)
    else:
        assert (revised, live(events, "text")) == ([whole], sent)
    assert stream.health.discontinuities == len(revised)


@given(first=st.text("abc \n", min_size=8, max_size=12), more=st.lists(st.text(min_size=1, max_size=9), max_size=8))
@FEW
def test_ccs_snapshots_that_claim_to_be_deltas(first: str, more: list[str]) -> None:
    """Whole texts in the place of deltas come out as the last of them, though the complete message joins them all."""
    snapshots = [first + "".join(more[:end]) for end in range(len(more) + 1)]
    events, _ = read("ccs", claude("text", snapshots, "".join(snapshots)))
    revised = [event.text for event in events if isinstance(event, BlockRevised)]
    assert (revised or texts(events, "text"))[-1] == repaired(snapshots[-1])
    end = events[-1]
    assert isinstance(end, RunEnded)
    if snapshots[-1].strip():
        assert end.reply == repaired(snapshots[-1])


@given(cut=cut_texts())
@example(cut=("!" * 1000, ["!"] * 1000))
@example(cut=("hahaha\nhahaha\naababc", ["ha", "ha", "ha", "\n", "ha", "haha", "\n", "a", "ab", "abc"]))
@FEW
def test_ccs_keeps_what_is_no_snapshot(cut: tuple[str, list[str]]) -> None:
    """Where no delta begins with the whole text so far, nothing is taken for a snapshot."""
    text, deltas = cut
    deltas = [delta for delta in deltas if delta]
    sent = [repaired("".join(deltas[:end])) for end in range(len(deltas))]
    assume(not any(so_far and delta.startswith(so_far) for so_far, delta in zip(sent, deltas, strict=True)))
    events, _ = read("ccs", claude("text", deltas, text))
    assert texts(events, "text") == [repaired(text)]
    assert live(events, "text") == repaired(text)


def test_ccs_still_shows_a_truth_that_differs() -> None:
    """A complete message that is not the raw deltas joined is a witness for ccs too."""
    events, _ = read("ccs", claude("text", ["Some text ", "lost here"], "Some text that was not lost here"))
    revised = [event.text for event in events if isinstance(event, BlockRevised)]
    assert revised == ["Some text that was not lost here"]


@pytest.mark.parametrize("deltas", [["a", "ab", "abc"], ["ha", "haha"], ["no ", "no no ", "no no no"], ["| ", "| | |"]])
def test_ccs_keeps_short_chances(deltas: list[str]) -> None:
    """Short deltas that begin with all before them follow by chance, and stay."""
    events, _ = read("ccs", claude("text", deltas, "".join(deltas)))
    assert texts(events, "text") == ["".join(deltas)]
