"""The rest of a reply: what no block has brought is shown before the closing line, and nothing is shown twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import events as ev
from penstock.sinks import shown
from penstock.sinks.chunks import ChunksSink
from penstock.sinks.text.sink import TextSink
from penstock.stream import Stream

DONE = "\n[a] ● done\n"


class Run:
    """Writes runs by hand: each text is a message of one block, unless it is said otherwise."""

    def __init__(self, agent: str = "a") -> None:
        self.events: list[Any] = []
        self.agent = agent
        self.messages = 0
        self.blocks = 0

    def add(self, kind: Any, *args: Any, **fields: Any) -> Run:
        """Any event."""
        self.events.append(kind(*args, agent=self.agent, **fields))
        return self

    def block(self, text: str, *, message: int | None = None, revised: str | None = None, **fields: Any) -> Run:
        """A block of text, which the agent then says was another one."""
        self.blocks += 1
        self.add(ev.BlockStarted, self.blocks, "text", message or self.messages, **fields)
        self.add(ev.Delta, self.blocks, "text", text, **fields)
        if revised is not None:
            self.add(ev.BlockRevised, self.blocks, "text", revised, **fields)
        return self.add(ev.BlockEnded, self.blocks, "text", text if revised is None else revised, True, **fields)

    def say(self, *texts: str, status: Any = "ok", **fields: Any) -> Run:
        """A message of these blocks."""
        self.messages += 1
        self.add(ev.MessageStarted, self.messages)
        for text in texts:
            self.block(text, **fields)
        return self.add(ev.MessageEnded, self.messages, status)

    def tool(self) -> Run:
        """A tool is called, and returns."""
        self.add(ev.ToolCalled, "c", "Bash", {}, "ls", "execute")
        return self.add(ev.ToolReturned, "c", "x", False, True)

    def end(self, reply: str, outcome: Any = "ok", **fields: Any) -> Run:
        """The run is over."""
        return self.add(ev.RunEnded, outcome, reply, 0, **fields)

    def text(self, mode: Any = "none", **look: Any) -> str:
        """What a text sink writes."""
        sink = TextSink(mode, **look)
        return "".join(sink.render([event]) for event in self.events) + sink.close()

    @property
    def rest(self) -> str:
        """The text of the final chunk."""
        return ChunksSink().chunks(self.events)[-1].text


@pytest.mark.parametrize("mode", ["full", "basic", "none"])
@pytest.mark.parametrize("detail", ["quiet", "minimal", "normal", "verbose"])
@pytest.mark.parametrize("more", [{}, {"realtime": False}, {"mark_partial": False}, {"ci": "github"}])
def test_a_reply_that_only_the_end_has(mode: Any, detail: Any, more: dict[str, Any]) -> None:
    """Is text, in every look, before the closing line."""
    run = Run().end("The whole answer.\n\n    code\n")
    closing = "" if detail == "quiet" else DONE
    assert run.text(mode, detail=detail, **more) == "[a] The whole answer.\n\n        code\n" + closing


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("agent", "[a] one\n    two\n\n[a] ● done\n"),
        ("kind", "[text] one\n       two\n\n[done] ● done\n"),
        ("both", "[a text] one\n         two\n\n[a done] ● done\n"),
        ("above", "[a]\none\ntwo\n\n[a] ● done\n"),
        ("none", "one\ntwo\n\n● done\n"),
    ],
)
def test_prefixes(prefix: Any, expected: str) -> None:
    """It has the prefix of text."""
    assert Run().end("one\ntwo").text(prefix=prefix) == expected


CASES: dict[str, tuple[Run, str, str]] = {
    # name: the run, the lines of the rest in the text sink, the rest in the final chunk
    "one block": (Run().say("Done.").end("Done."), "", ""),
    "blocks of one message": (Run().say("one ", "two").end("one two"), "", ""),
    "messages": (Run().say("one").say("two").end("one\n\ntwo"), "", ""),
    "the last of several": (Run().say("one").say("two").end("two"), "", ""),
    "the last block": (Run().say("one ", "two").end("two"), "", ""),
    "more of the last one": (Run().say("one").say("two").end("one\n\ntwo, three"), "[a] , three\n", ", three"),
    "one more message": (Run().say("one").say("two").end("two\n\nthree"), "[a] three\n", "\n\nthree"),
    "another text": (Run().say("one").end("other"), "[a] other\n", "\n\nother"),
    "another text that begins alike": (Run().say("one").end("only"), "[a] only\n", "\n\nonly"),
    "said before a tool": (Run().say("Done.").tool().end("Done."), "", ""),
    "goes on after a tool": (Run().say("I").tool().end("I did."), "\n[a] I did.\n", "\n\nI did."),
    "a part of what was said": (Run().say("All done: two files.").end("All done"), "", ""),
    "a part of what was said before a tool": (Run().say("OK, go.").tool().end("OK"), "\n[a] OK\n", "\n\nOK"),
    "a message before a comment": (Run().say("Yes.").tool().say("I look on.").end("Yes."), "", ""),
    "blocks in the middle": (Run().say("I look.").say("Yes, ", "but.").say("So.").end("Yes, but."), "", ""),
    "a part of an older message": (Run().say("OK, go.").say("So.").end("OK"), "[a] OK\n", "\n\nOK"),
    "messages in another order": (
        Run().say("one").say("two").say("three").end("two\n\none"),
        "[a] two\n\n    one\n",
        "\n\ntwo\n\none",
    ),
    "goes on after an attempt": (
        Run().say("one").say("no", status="superseded").end("one, two"),
        "\n[a] one, two\n",
        "\n\none, two",
    ),
    "given up": (Run().say("Done", status="superseded").end("Done"), "\n[a] Done\n", "\n\nDone"),
    "an attempt between": (Run().say("one").say("no", status="superseded").say("two").end("one\n\ntwo"), "", ""),
    "a sub-agent's": (Run().say("one", parent="c").end("one"), "\n[a] one\n", "one"),
    "blank": (Run().say("one").end(" \n"), "", "\n\n \n"),
    "nothing": (Run().say("one").end(""), "", ""),
    "only control characters": (Run().end("\x1b[31m"), "", "\x1b[31m"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing(name: str) -> None:
    """What was shown is not repeated, and what was not is not left out."""
    run, lines, rest = CASES[name]
    text = run.text()
    done = DONE if text.endswith("\n" + DONE) else DONE.lstrip()  # a blank line follows text, and not a result
    assert text.endswith(lines + done)
    before = text.removesuffix(lines + done)
    assert before == Run(run.agent).text() + "".join(_without_end(run))
    assert run.rest == rest


def _without_end(run: Run) -> list[str]:
    sink = TextSink("none")
    return [sink.render([event]) for event in run.events[:-1]] + [sink.close()]


def test_a_revised_text_is_not_shown_again() -> None:
    """The line of the correction was the rest; in a log there was only the right text. A chunk was never corrected."""
    run = Run().add(ev.MessageStarted, 1).block("4 pears", message=1, revised="4 apples").end("4 apples")
    assert run.text("full") == "[a] 4 pears\n[a] ↻ apples\n" + DONE
    assert run.text("none") == "[a] 4 apples\n" + DONE
    assert run.rest == "apples"


def test_a_text_that_was_corrected_twice_is_shown_whole() -> None:
    """Its pieces do not read as one text any more."""
    run = Run().add(ev.BlockStarted, 1, "text", 1).add(ev.Delta, 1, "text", "4 pears")
    run.add(ev.BlockRevised, 1, "text", "4 apples").add(ev.BlockRevised, 1, "text", "4 apes")
    run.add(ev.BlockEnded, 1, "text", "4 apes", True).end("4 apes")
    assert run.text("full") == "[a] 4 pears\n[a] ↻ apples\n[a] ↻ es\n[a] 4 apes\n" + DONE
    assert run.text("none") == "[a] 4 apes\n" + DONE


def test_blocks_that_came_in_turns_are_shown_as_one_text() -> None:
    """Pieces of two blocks, each on a line of its own, are not the reply."""
    run = Run().add(ev.BlockStarted, 1, "text", 1).add(ev.Delta, 1, "text", "Hel")
    run.add(ev.BlockStarted, 2, "text", 1).add(ev.Delta, 2, "text", "wor").add(ev.Delta, 1, "text", "lo ")
    run.add(ev.BlockEnded, 1, "text", "Hello ", True).add(ev.Delta, 2, "text", "ld")
    run.add(ev.BlockEnded, 2, "text", "world", True).end("Hello world")
    assert run.text().endswith("[a] Hello world\n" + DONE)
    assert run.rest == "\n\nHello world"


def test_a_block_that_was_too_large_to_be_kept_is_not_repeated() -> None:
    """The reply then has as much of it as its recap."""
    run = Run().add(ev.BlockStarted, 1, "text", 1).add(ev.Delta, 1, "text", "word " * 10)
    run.add(ev.BlockEnded, 1, "text", "word word ", True, truncated=True).end("word word ")
    assert run.text() == f"[a] {'word ' * 10}\n" + DONE
    assert run.rest == ""


def test_an_escape_sequence_over_two_blocks() -> None:
    """Is none in either, but one in the reply: that is another text."""
    assert Run().say("a\x1b", "[31mb").end("a\x1b[31mb").text() == "[a] a␛\n[a] [31mb\n[a] ab\n" + DONE


def test_an_answer_before_more_text() -> None:
    """An answer that no block brought is shown before the text that follows it; a late block of it is not repeated."""
    run = Run().add(ev.Replied, "The cost.", False).say("More.").end("More.")
    assert run.text() == "[a] The cost.\n[a] More.\n" + DONE
    late = Run().add(ev.Replied, "The cost.", False).say("The cost.").end("The cost.")
    assert late.text() == "[a] The cost.\n" + DONE
    after = Run().add(ev.Replied, "The cost.", False).say("The cost.").say("More.").end("More.")
    assert after.text() == "[a] The cost.\n[a] More.\n" + DONE
    begins_alike = Run().add(ev.Replied, "The cost.", False).say("The").end("The")
    assert begins_alike.text() == "[a] The\n[a]  cost.\n" + DONE
    streamed = Run().say("The cost.").add(ev.Replied, "The cost.", False).say("More.").end("More.")
    assert streamed.text() == "[a] The cost.\n[a] More.\n" + DONE


def test_runs_side_by_side() -> None:
    """Each sink shows the rest of its own run."""
    one, two = Run("one").end("first"), Run("two").say("second").end("second")
    sinks = [TextSink("none"), TextSink("none")]
    pairs = [(sinks[0], one.events[0])] + [(sinks[1], event) for event in two.events]
    assert "".join(sink.render([event]) for sink, event in reversed(pairs[:1])) == "[one] first\n\n[one] ● done\n"
    assert "".join(sink.render([event]) for sink, event in pairs[1:]) == "[two] second\n\n[two] ● done\n"


def test_one_run_after_another() -> None:
    """What one run showed is not shown in the next one."""
    run = Run().say("Done.").end("Done.")
    alone = Run().end("Done.")
    sink = TextSink("none")
    assert sink.render(run.events) + sink.render(alone.events) == "[a] Done.\n" + DONE + "\n[a] Done.\n" + DONE
    chunks = ChunksSink()
    assert [chunk.text for chunk in chunks.chunks(run.events + alone.events)] == ["Done.", "", "Done."]


def test_no_more_is_kept_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long run only the newest texts are compared; a reply of those is still known."""
    monkeypatch.setattr(shown, "MAX_SPANS", 3)
    monkeypatch.setattr(shown, "MAX_CHARS", 100)
    run = Run()
    for number in range(10):
        run.say(f"text {number}")
    assert run.end("text 8\n\ntext 9").rest == ""
    long = Run().say("a" * 90).say("b" * 90).say("c" * 90)
    assert long.end("b" * 90 + "\n\n" + "c" * 90).rest == ""


def test_texts_that_begin_alike_cost_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some comparisons the reply is taken for another text, and shown."""
    monkeypatch.setattr(shown, "MAX_COMPARISONS", 2)
    same = "the same beginning of more than the characters that are compared first, and then "
    run = Run().say(same + "1").say(same + "2").say(same + "3")
    assert run.end(same + "0, and much more").rest == f"\n\n{same}0, and much more"


JSON = {"type": "result", "subtype": "success", "is_error": False, "uuid": "u", "total_cost_usd": 0}


@pytest.mark.parametrize("agent", ["claude", "auto"])
def test_the_one_object_of_output_format_json(agent: str) -> None:
    """Its answer is shown."""
    stream, sink = Stream(agent), TextSink("none")
    line = json.dumps({**JSON, "result": "Unknown command: /nosuchcmd"}).encode() + b"\n"
    text = sink.render(stream.feed(line)) + sink.render(stream.close())
    assert text == "[claude] Unknown command: /nosuchcmd\n\n[claude] ● done\n"
