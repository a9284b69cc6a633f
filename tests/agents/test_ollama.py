from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import updates as up
from penstock.adapter import Request
from penstock.agents import registry
from penstock.agents.ollama.content import MAX_CALLS_CHARS, MAX_LEAD_CHARS
from penstock.agents.ollama.exec import Ollama
from penstock.errors import UsageError
from penstock.events import BlockEnded, MessageEnded, Replied, RunEnded, ToolCalled, ToolReturned
from penstock.stream import Stream
from penstock.testing.verify import verify

WORDS = ("word", "ende")
MARKS = (
    *WORDS, " ", "\n", "<think>", "</think>", "<reasoning>", "[THINK]", "[/THINK]", "◁think▷", "◁/think▷",
    "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|start|>assistant", "<|end|>", "<|return|>",
    "<|", "[TOOL_CALLS]", '[{"name":"ls"}]', "`",
)  # fmt: skip


def said(content: str = "", **fields: Any) -> dict[str, Any]:
    """A line of /api/chat with a piece of the answer."""
    message = {"role": "assistant", "content": content, **fields}
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}


DONE = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


def read(*lines: dict[str, Any]) -> list[up.Update]:
    """The updates of lines, read by one adapter, without the one that names the model."""
    adapter = Ollama()
    found: list[up.Update] = []
    for line in lines:
        found.extend(adapter.read(msgspec.convert(line, Ollama.wire)))
    found.extend(adapter.finish())
    return [update for update in found if not isinstance(update, up.RunStart)]


def texts(updates: list[up.Update]) -> list[tuple[str, str]]:
    """Kind and text, neighbours of one kind joined."""
    joined: list[tuple[str, str]] = []
    for update in updates:
        if isinstance(update, up.Text):
            if joined and joined[-1][0] == update.kind:
                joined[-1] = (update.kind, joined[-1][1] + update.text)
            else:
                joined.append((update.kind, update.text))
    return joined


def test_content_and_thinking_are_deltas() -> None:
    """Each field is a delta of its own kind; empty ones say nothing."""
    assert read(said(thinking="Hm"), said("Hi"), said()) == [
        up.Text("thinking", "delta", "Hm", "thinking"),
        up.Text("text", "delta", "Hi", "text"),
    ]


def test_the_model_is_told_once() -> None:
    """Every line names the model; only a new name is news."""
    adapter = Ollama()
    lines = [msgspec.convert(line, Ollama.wire) for line in (said("a"), said("b"))]
    assert [update for line in lines for update in adapter.read(line)] == [
        up.RunStart(model="m"),
        up.Text("text", "delta", "a", "text"),
        up.Text("text", "delta", "b", "text"),
    ]


def test_generate_has_its_text_in_response() -> None:
    """The same for /api/generate."""
    assert read(
        {"model": "m", "response": "", "thinking": "Hm", "done": False},
        {"model": "m", "response": "Hi", "done": False},
    ) == [up.Text("thinking", "delta", "Hm", "thinking"), up.Text("text", "delta", "Hi", "text")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<think>Hm <b> a</think>\n\nHi <think>", [("thinking", "Hm <b> a"), ("text", "Hi <think>")]),
        ("\n<think>\nHm</think>Hi", [("thinking", "Hm"), ("text", "Hi")]),
        ("<think></think>\n\nHi", [("text", "Hi")]),
        ("<think>cut </thi", [("thinking", "cut </thi")]),
        ("<thi", [("text", "<thi")]),
        ("<thinking aloud>", [("text", "<thinking aloud>")]),
        ("Hi <think>no</think>", [("text", "Hi <think>no</think>")]),
        ("  \n Hi", [("text", "  \n Hi")]),
        ("a < b </think> c", [("text", "a < b </think> c")]),
        ("◁think▷Hm◁/think▷Hi ◁think▷", [("thinking", "Hm"), ("text", "Hi ◁think▷")]),
        ("<reasoning>Hm</think></reasoning>Hi", [("thinking", "Hm</think>"), ("text", "Hi")]),
        ("[THINK]Hm[/THINK] Hi", [("thinking", "Hm"), ("text", "Hi")]),
        (
            "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
            [("thinking", "Hm"), ("text", "Hi")],
        ),
        ("<|start|>assistant<|channel|>final<|message|>a <|end|> b", [("text", "a <|end|> b")]),
        ("<|channel|>final<|message|>Hi<|return|>\n", [("text", "Hi")]),
        ("<|channel|>final<|message|>Hi<|return|>\n<|sta", [("text", "Hi<|return|>\n<|sta")]),
        ("<|channel|>analysis<|message|>Hm<|end|>\n\nHi", [("thinking", "Hm"), ("text", "Hi")]),
        ("<|channel|>analysis<|message|>Hm<|end|>\n<|st", [("thinking", "Hm"), ("text", "<|st")]),
        ("<|channel|>analysis<|message|>cut <|retu", [("thinking", "cut <|retu")]),
        ("<|channel|>commentary to=x<|message|>{}", [("text", "<|channel|>commentary to=x<|message|>{}")]),
        ("```\n<|channel|>final<|message|>\n```", [("text", "```\n<|channel|>final<|message|>\n```")]),
        (" " * 65 + "<think>a</think>", [("text", " " * 65 + "<think>a</think>")]),
        (" [TOOL_CALLS] are a mark", [("text", " [TOOL_CALLS] are a mark")]),
        ('[TOOL_CALLS][{"name": "ls"}, {}]', [("text", '[TOOL_CALLS][{"name": "ls"}, {}]')]),
        ('[TOOL_CALLS][{"name": "l', [("text", '[TOOL_CALLS][{"name": "l')]),
    ],
)
def test_thoughts_in_the_content_however_it_is_cut(content: str, size: int, expected: list[tuple[str, str]]) -> None:
    """A mark at the very beginning begins a section; one anywhere else, and what is not quite a mark, is text.

    The same without an end of the response.
    """
    pieces = [said(content[start : start + size]) for start in range(0, len(content), size)]
    assert texts(read(*pieces, DONE)) == expected
    assert texts(read(*pieces)) == expected


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_calls_in_the_content(size: int) -> None:
    """A whole list of calls behind their mark becomes calls when the response ends."""
    content = '\n[TOOL_CALLS] [{"name": "ls", "arguments": {"path": "."}}, {"name": "cat", "id": "c9"}]\n'
    lines = [said(content[start : start + size]) for start in range(0, len(content), size)]
    assert read(*lines, DONE)[:2] == [up.ToolCall("call_1", "ls", {"path": "."}), up.ToolCall("c9", "cat", {})]


@pytest.mark.parametrize("size", [1000, 65_536])
def test_calls_are_not_held_for_ever(size: int) -> None:
    """More than a model calls at once is text."""
    content = "[TOOL_CALLS]".ljust(MAX_CALLS_CHARS + 1, "x")
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    assert texts(read(*map(said, pieces))) == [("text", content)]


@given(st.lists(st.sampled_from(MARKS), max_size=7), st.data())
def test_no_cut_changes_the_content(parts: list[str], data: st.DataObject) -> None:
    """Whatever marks and words follow each other, the pieces are the same; nothing but marks and blanks is removed."""
    content = "".join(parts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(content)), max_size=6)))
    bounds = [0, *cuts, len(content)]
    pieces = [said(content[start:end]) for start, end in itertools.pairwise(bounds)]
    whole, cut = read(said(content), DONE), read(*pieces, DONE)
    assert texts(cut) == texts(whole)
    assert [it for it in cut if not isinstance(it, up.Text)] == [it for it in whole if not isinstance(it, up.Text)]
    calls = [it for it in whole if isinstance(it, up.ToolCall)]
    shown = "".join(text for _, text in texts(whole))
    for word in WORDS:
        assert shown.count(word) == content.count(word) or calls


def test_white_space_is_not_held_for_ever() -> None:
    """A long lead of blanks is text and flows on."""
    assert texts(read(said(" " * (MAX_LEAD_CHARS + 1)))) == [("text", " " * (MAX_LEAD_CHARS + 1))]


def test_each_response_begins_anew() -> None:
    """Thoughts may open every response of a file."""
    assert texts(read(said("<think>a</think>b"), DONE, said("<think>c</think>d"))) == [
        ("thinking", "a"),
        ("text", "b"),
        ("thinking", "c"),
        ("text", "d"),
    ]


def test_calls_without_ids_are_counted_and_results_find_them_by_name() -> None:
    """A tool line names its tool, not its call."""
    call = {"function": {"name": "ls", "arguments": {"path": "."}}}
    other = {"function": {"name": "cat", "arguments": '{"path": "x"}'}}
    assert read(
        said(tool_calls=[call, other]),
        {"message": {"role": "tool", "content": "text", "tool_name": "cat"}},
        {"message": {"role": "tool", "content": "files"}},
    ) == [
        up.ToolCall("call_1", "ls", {"path": "."}),
        up.ToolCall("call_2", "cat", {"path": "x"}),
        up.ToolReturn("call_2", "text", name="cat"),
        up.ToolReturn("call_1", "files", name="ls"),
    ]


def test_a_call_keeps_its_own_id() -> None:
    """Newer servers send one."""
    call = {"id": "c7", "function": {"index": 0, "name": "ls", "arguments": {}}}
    assert read(said(tool_calls=[call])) == [up.ToolCall("c7", "ls", {})]


def test_done_ends_the_message_and_tells_what_was_used() -> None:
    """Nanoseconds become milliseconds."""
    line = {**DONE, "total_duration": 4_883_583_458, "prompt_eval_count": 26, "eval_count": 7}
    assert read(said("Hi"), line)[1:] == [
        up.MessageEnd(stop_reason="stop"),
        up.ModelUsage(up.Usage(input_tokens=26, output_tokens=7), model="m", whole=True),
        up.RoundEnd(),
        up.Result(duration_ms=4883),
    ]


def test_an_error_ends_the_run_and_frees_what_was_held() -> None:
    """The bare error line of a server."""
    assert read(said("<thi"), {"error": "out of memory"}) == [
        up.Text("text", "delta", "<thi", "text"),
        up.Result(is_error=True, reason="out of memory"),
    ]


def test_other_roles_and_media_are_notices() -> None:
    """Only the assistant's words are text."""
    assert read(
        {"message": {"role": "user", "content": "prompt"}}, said(images=["aGk="]), {"status": "pulling manifest"}
    ) == [up.Notice("user", "prompt"), up.Notice("media", "an image"), up.Notice("status", "pulling manifest")]


def test_an_object_of_another_kind_is_unknown() -> None:
    """Nothing that is printed vanishes."""
    assert read({"foo": 1}) == [up.Unknown()]
    assert Ollama().read([1]) == (up.Unknown(wire_type="list"),)


def test_several_responses_in_one_stream() -> None:
    """Each response is a round; the last one's text is the reply; calls without results stay open."""
    call = {"id": "c1", "function": {"name": "ls", "arguments": {}}}
    lines = [said("Look."), said(tool_calls=[call]), DONE, said("Done."), DONE]
    stream = Stream("ollama")
    events = stream.feed(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)) + stream.close()
    assert verify(events) == []
    assert [event.text for event in events if isinstance(event, BlockEnded) and event.kind == "text"] == [
        "Look.",
        "Done.",
    ]
    assert [event.reply for event in events if isinstance(event, Replied)] == ["Look.", "Done."]
    assert [event.complete for event in events if isinstance(event, ToolReturned)] == [False]
    assert sum(isinstance(event, ToolCalled) for event in events) == 1
    assert sum(isinstance(event, MessageEnded) for event in events) == 2
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (end.outcome, end.reply, end.rounds) == ("ok", "Done.", 2)


def test_a_stream_without_done_is_cut_off() -> None:
    """`done` is the proof of a regular end."""
    stream = Stream("ollama")
    events = stream.feed(msgspec.json.encode(said("Hi")) + b"\n") + stream.close()
    assert isinstance(events[-1], RunEnded)
    assert events[-1].outcome == "cut_off"


def test_the_prompt_is_posted_by_the_bridge() -> None:
    """It is in the body alone, whatever is in it; what an agent may do means nothing to a model without tools."""
    prompt = '-- "quoted"\n\udcff'
    command = Ollama.command(Request(prompt=prompt, model="qwen3:4b", allow="all", cwd="/tmp"))
    assert command.argv[1:] == (
        *("-P", "-m", "penstock.run.http_bridge", "post", "--host-from", "OLLAMA_HOST"),
        "http://127.0.0.1:11434/api/chat",
    )
    assert msgspec.json.decode(command.stdin) == {
        "model": "qwen3:4b",
        "messages": [{"role": "user", "content": '-- "quoted"\n\ufffd'}],
        "stream": True,
    }


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"model": None}, "ollama list"),
        ({"session_id": "s"}, "conversation of its own"),
        ({"session_id": "s", "fork": True}, "conversation of its own"),
        ({"profile": "x"}, "profile"),
        ({"args": ("--verbose",)}, "without arguments"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], word: str) -> None:
    """Before anything runs, with what can be done instead."""
    with pytest.raises(UsageError) as refused:
        registry.command("ollama", "exec", Request(**{"prompt": "hi", "model": "m", **asked}))
    assert word in str(refused.value)
