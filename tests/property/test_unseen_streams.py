"""Streams of agents that nobody has seen: dialects made at random, whose reply, thoughts and outcome are known."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest

from penstock import events as ev
from penstock.stream import Stream
from penstock.testing.verify import verify

Line = dict[str, Any]

WORDS = [
    *(
        "the",
        "a",
        "file",
        "two",
        "tests",
        "of",
        "it",
        "runs",
        "now",
        "green",
        "then",
        "look",
        "first",
        "change",
        "small",
    ),
    *("done", "code", "branch", "fails", "why", "Über", "东西", "naïve", "café", "🙂", "next", "old", "keep", "errors"),
]
PIECE_KEYS = ["text_delta", "content_delta", "textDelta", "delta", "chunk", "message_delta", "deltaContent", "token"]
THOUGHT_KEYS = ["thinking_delta", "reasoning_delta", "reasoningDelta", "thought_delta", "reasoning_content_delta"]
INPUT_KEYS = ["input_json_delta", "arguments_delta", "inputTextDelta", "tool_input_delta"]
WHOLE_KEYS = ["text", "content", "message", "response", "answer", "output_text", "assistant_message"]
FINAL_KEYS = ["response", "answer", "result", "text", "finalText", "final_answer", "output", "reply"]
STATUS = {
    "ok": ["SUCCESS", "ok", "completed", "Done", "succeeded"],
    "error": ["ERROR", "FAILED", "failure", "Error"],
    "cancelled": ["CANCELLED", "aborted", "canceled", "INTERRUPTED"],
}
AT_ONCE = 50
"""Streams of one test."""


class Dialect:
    """How one made-up agent prints: its envelope, its spelling, its names for things."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.name_key = rng.choice(["type", "event", "kind", "event_type"])
        self.style = rng.choice(["flat", "own", "data", "payload", "params", "deep"])
        self.camel = rng.random() < 0.3
        self.streams = rng.random() < 0.7
        self.piece, self.thought = rng.choice(PIECE_KEYS), rng.choice(THOUGHT_KEYS)
        self.whole, self.final = rng.choice(WHOLE_KEYS), rng.choice(FINAL_KEYS)
        self.says_role = rng.random() < 0.5
        self.blocks = rng.random() < 0.3 and self.whole in ("content", "message")
        self.repeats_whole = self.streams and rng.random() < 0.3
        self.ends = rng.choice(["reply", "bare", "none"])
        self.session = {"session_id": "s-1"} if rng.random() < 0.5 else {}

    def line(self, name: str, /, **fields: Any) -> Line:
        """One event."""
        if self.camel:
            name = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
        match self.style:
            case "flat":
                return {self.name_key: name, **self.session, **fields}
            case "own":
                return {self.name_key: name, **self.session, name: fields}
            case "params":
                return {"jsonrpc": "2.0", "method": name.replace("_", "/"), "params": {**self.session, **fields}}
            case "deep":
                return {self.name_key: name, "data": {**self.session, "update": fields}}
        return {self.name_key: name, **self.session, self.style: fields}

    def pieces(self, text: str) -> list[str]:
        """The text in pieces of any size."""
        out = []
        while text:
            size = self.rng.randint(1, 12)
            out.append(text[:size])
            text = text[size:]
        return out

    def said(self, text: str) -> list[Line]:
        """A message of the model."""
        role = {"role": "assistant"} if self.says_role else {}
        lines = []
        if self.streams:
            lines = [self.line("step_update", **{self.piece: piece}, state="ACTIVE") for piece in self.pieces(text)]
        if not self.streams or self.repeats_whole:
            value = [{"type": "text", "text": text}] if self.blocks else text
            lines.append(self.line("assistant_message", **role, **{self.whole: value}))
        return lines

    def thinking(self, text: str) -> list[Line]:
        """Thoughts of the model."""
        return [self.line("step_update", **{self.thought: piece}) for piece in self.pieces(text)]

    def tool(self, number: int) -> list[Line]:
        """A call and its result, whose text must not be taken for the model's."""
        shown = {"id": f"call-{number}", "name": "list_files"}
        lines = [self.line("tool_call", **shown, input={"path": "notes of the day"})]
        if self.rng.random() < 0.5:
            lines.insert(0, self.line("tool_call_delta", **{self.rng.choice(INPUT_KEYS): '{"path": "notes of'}))
        return [*lines, self.line("tool_result", id=f"call-{number}", output="These are the words of a tool.")]

    def ended(self, reply: str, outcome: str) -> list[Line]:
        """The end of the run."""
        if outcome == "ok" and self.ends == "none":
            return []
        fields = {self.final: reply} if self.ends == "reply" else {}
        key = self.rng.choice(["status", "outcome"])
        return [self.line("result", **fields, **{key: self.rng.choice(STATUS[outcome])}, usage={"input_tokens": 3})]


def sentence(rng: random.Random) -> str:
    """Words that end as a message does."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12))) + rng.choice([".", "!", ".\n"])


def made(seed: int) -> tuple[list[Line], str, str, str]:
    """The lines of a stream, and its truth: the reply, the thoughts, the outcome."""
    rng = random.Random(seed)
    dialect = Dialect(rng)
    lines = [dialect.line("init", model="m-1", cwd="/w", tools=["list_files"])]
    if rng.random() < 0.5:
        lines.append(dialect.line("user_input", role="user", text="Please look at the files."))
    reply = thoughts = ""
    for number in range(rng.randint(1, 3)):
        if number:
            lines += dialect.tool(number)
        if rng.random() < 0.5:
            thought = sentence(rng)
            thoughts += thought
            lines += dialect.thinking(thought)
        reply = sentence(rng)
        lines += dialect.said(reply)
        if rng.random() < 0.3:
            lines.append(dialect.line("usage", usage={"input_tokens": 1, "output_tokens": 2}))
    outcome = rng.choice(["ok", "ok", "ok", "error", "cancelled"])
    return lines + dialect.ended(reply, outcome), reply, thoughts, outcome


def read(lines: list[Line], agent: str = "generic") -> list[ev.Event]:
    """The events of these lines, which keep the contract."""
    stream = Stream(agent)
    events = stream.feed(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)) + stream.close()
    assert verify(events) == []
    assert stream.health.adapter_errors == 0
    return events


def text_of(events: list[ev.Event], kind: str) -> str:
    """What the blocks of one kind say."""
    return "".join(each.text for each in events if isinstance(each, ev.BlockEnded) and each.kind == kind)


@pytest.mark.sample(3)
@pytest.mark.parametrize("first", range(0, 8 * AT_ONCE, AT_ONCE))
def test_the_reply_is_the_truth(first: int) -> None:
    """Of any dialect: the last text is the reply, thoughts are thoughts, a tool's words are neither."""
    for seed in range(first, first + AT_ONCE):
        judge(seed)


def judge(seed: int) -> None:
    """Compare a stream with its truth."""
    lines, reply, thoughts, outcome = made(seed)
    events = read(lines)
    end = events[-1]
    assert isinstance(end, ev.RunEnded)
    assert (end.outcome, end.reply.strip()) == (outcome, reply.strip()), lines
    assert text_of(events, "thinking").strip() == thoughts.strip()
    assert text_of(events, "text").count(reply.strip()) == 1
    assert "words of a tool" not in text_of(events, "text")
    assert not [each for each in events if isinstance(each, ev.BlockRevised)]


@pytest.mark.parametrize("first", range(0, 2 * AT_ONCE, AT_ONCE))
def test_text_in_fields_that_nobody_knows_is_shown(first: int) -> None:
    """Whatever a field is called: where nothing else was read as text, its prose is."""
    for seed in range(first, first + AT_ONCE):
        judge_unknown(seed)


def judge_unknown(seed: int) -> None:
    """Compare a stream of unknown fields with its truth."""
    rng = random.Random(seed)
    text = sentence(rng)
    key, holder = rng.choice(["utterance", "words", "x1", "körper"]), rng.choice(["blob", "inner", "y"])
    pieces = Dialect(rng).pieces(text) if rng.random() < 0.7 else [text]
    lines = [{rng.choice(["kind", "act"]): "blorp", holder: {key: piece}} for piece in pieces]
    end = read([{"kind": "hello", "version": "1.2.3"}, *lines, {"kind": "bye", "code": 0}])[-1]
    assert isinstance(end, ev.RunEnded)
    assert (end.outcome, end.reply.strip()) == ("ok", text.strip())
