"""The success criteria and guardrails of replace-then-append, as a person sees them on the page.

Each test names those that it holds: `S` of the streaming, `F` of the final message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from chatpage import cast
from chatpage.server import Server
from chatpage.thread import Sample, Thread
from playwright.sync_api import expect

QUIET = re.compile(r"[A-Z][a-z -]+…")
"""A quiet line: a few words of the page's own."""

Open = Callable[..., Thread]


def thoughts(role: str) -> list[str]:
    """What an agent thinks, and pieces of it that are long enough to be nothing else."""
    whole = [text for kind, text in cast.expected(role)["blocks"] if kind == "thinking"]  # type: ignore[attr-defined]
    pieces = [text[at : at + 12].strip() for text in whole for at in range(0, len(text) - 12, 12)]
    return [*whole, *(piece for piece in pieces if len(piece) > 8)]


def earlier_texts(role: str) -> list[str]:
    """The texts of all rounds but the last."""
    texts = [text for kind, text in cast.expected(role)["blocks"] if kind == "text"]  # type: ignore[attr-defined]
    return texts[:-1]


def shown(markdown: str) -> str:
    """The words of a text that has no more Markdown than code and bold."""
    return markdown.replace("`", "").replace("**", "")


def growth(samples: Sequence[Sample]) -> tuple[list[str], int]:
    """The bubble's texts, one for each step, and how often one did not go on from the one before."""
    steps: list[str] = []
    replaced = 0
    for sample in samples:
        # White space at the end of a block is Markdown's own, and nothing that is seen.
        text = " ".join(sample.replies[0].split()) if sample.replies else ""
        if not text or (steps and text == steps[-1]):
            continue
        replaced += bool(steps) and not text.startswith(steps[-1])
        steps.append(text)
    return steps, replaced


@pytest.mark.parametrize("role", ["thinking", "thinktools", "pi-thinking", "cline-thinking", "codex-thinktools"])
def test_s_sc1_only_the_latest_status_and_never_a_thought(at: Open, role: str) -> None:
    """SC1: while an agent thinks there is one quiet line of the page's own words, and no word of a thought anywhere."""
    thread = at(role)
    thread.hide(thoughts(role))
    thread.ask("think about it")
    seen = [line for sample in thread.of(1) for line in sample.status]
    assert all(len(sample.status) <= 1 for sample in thread.of(1))
    assert seen
    assert all(QUIET.fullmatch(line) for line in seen), seen
    assert thread.leaks() == []


def test_s_sc1_while_it_thinks_the_line_says_so(at: Open, server: Server) -> None:
    """SC1: whatever the thought is, the line says `Thinking…`, until the first text takes its place."""
    thread = at("pondering")
    thread.hide(thoughts("thinking"))
    thread.say("ponder")
    expect(thread.status(1)).to_have_text("Thinking…")
    server.gate.touch()
    thread.ended(1)
    assert thread.leaks() == []


@pytest.mark.parametrize("role", ["brisk", "thinking", "pi-thinking"])
def test_s_sc2_the_first_text_clears_the_status(at: Open, role: str) -> None:
    """SC2: from the first word of the reply on there is no status beside it."""
    thread = at(role)
    thread.ask("speak")
    samples = thread.of(1)
    first = next(place for place, sample in enumerate(samples) if sample.replies and sample.replies[0])
    assert any(sample.status for sample in samples[:first])
    assert [sample for sample in samples[first:] if sample.status] == []


def test_s_sc3_the_reply_types_out_and_never_repeats(at: Open) -> None:
    """SC3: each frame's reply begins with that of the frame before, from the first letter to the last."""
    thread = at("text")
    thread.ask("speak")
    steps, replaced = growth(thread.of(1))
    assert replaced == 0, steps
    assert len(steps) > 8
    assert steps[-1] == " ".join(thread.words(1).split())
    for words in ("Résumé — 你好，世界", "def greet(name: str) -> str:", "A quote, then the end."):
        assert thread.words(1).count(words) == 1


@pytest.mark.parametrize("role", ["brisk", "tools", "thinktools"])
def test_s_sc4_only_the_final_message_stays(at: Open, role: str) -> None:
    """SC4: in the very frame in which the turn is complete there is no status, and one message that grows no more."""
    thread = at(role)
    thread.ask("do it")
    done = [sample for sample in thread.of(1) if sample.state == "completed"]
    for sample in done:
        assert sample.status == []
        assert sample.replies == [thread.words(1)]
        assert not sample.growing


@pytest.mark.parametrize("role", ["brisk", "whole", "codex-text", "qwen-whole"])
def test_s_sc5_no_thinking_and_whole_messages(at: Open, role: str) -> None:
    """SC5: agents that do not think, and those that print their messages whole, end with the same message."""
    thread = at(role)
    thread.ask("speak")
    words = thread.words(1)
    assert words.startswith("Résumé — 你好，世界")
    assert words.rstrip().endswith("A quote, then the end.")
    assert growth(thread.of(1))[1] == 0
    thread.page.reload()
    thread.ready()
    assert thread.words(1) == words


@pytest.mark.parametrize(
    "role", ["tools", "pi-tools", "opencode-tools", "gemini-tools", "copilot-tools", "ollama-tools", "codex-thinktools"]
)
def test_f_sc1_only_the_last_rounds_reply_remains(at: Open, role: str) -> None:
    """Final SC1: after rounds of tools the message is the last round's, with nothing of those before."""
    thread = at(role)
    thread.ask("use tools")
    assert thread.words(1).strip() == shown(cast.reply_of(role))
    for text in earlier_texts(role):
        expect(thread.scroller).not_to_contain_text(text)


def test_f_sc2_a_single_round_is_whole(at: Open) -> None:
    """Final SC2: a run without tools shows its whole reply, as Markdown."""
    thread = at("brisk")
    thread.ask("speak")
    reply = thread.reply(1)
    expect(reply.locator("h1")).to_have_text("Résumé — 你好，世界")
    expect(reply.locator("li")).to_have_count(8)
    expect(reply.locator("td")).to_have_text(["x", "1", "長い", "22"])
    expect(reply.locator("pre code")).to_contain_text('return f"hello, {name}"  # 👋')
    expect(reply.locator("blockquote")).to_have_text(re.compile("A quote, then the end."))


def test_f_sc3_earlier_rounds_are_replaced_while_they_stream(at: Open) -> None:
    """Final SC3: each round's text takes the place of the one before, never stands beside it, and goes."""
    thread = at("pi-tools")
    thread.ask("use tools")
    steps, replaced = growth(thread.of(1))
    texts = [shown(text) for text in [*earlier_texts("pi-tools"), cast.reply_of("pi-tools")]]
    assert replaced <= len(texts) - 1
    assert all(any(text.startswith(step.strip()) for text in texts) for step in steps), steps
    assert all(len(sample.replies) <= 1 for sample in thread.of(1))
    assert thread.words(1).strip() == texts[-1]


def test_f_sc4_tags_and_what_is_in_them_are_never_seen(at: Open) -> None:
    """Final SC4: neither a thought nor a call in tags is in any frame; what is said about tags stays."""
    thread = at("tagged")
    thread.hide(["SECRET", "<think>F", "</think>T", "tool_call", "function_calls", "invoke", '"bash"'])
    thread.ask("speak in tags")
    assert thread.leaks() == []
    words = thread.words(1)
    assert words.startswith("The reply begins.")
    assert "It goes on, and says what <think> means:" in words
    assert "<think>in a fence</think>" in words
    assert words.rstrip().endswith("The end.")


def test_f_sc5_an_early_exit_has_its_own_message(at: Open) -> None:
    """Final SC5, G1, and G6: a question that ends the turn stands in its message, after all that was said before."""
    thread = at("lost")
    thread.ask("which?")
    assert thread.words(1).strip() == f"I will look around first.\n{cast.QUESTION}"
    for choice in cast.CHOICES:
        expect(thread.button(choice)).to_be_enabled()


@pytest.mark.parametrize("outcome", ["error", "cancelled", "cut_off"])
def test_s_g1_status_and_bubble_are_cleared_however_it_ends(at: Open, outcome: str) -> None:
    """G1: also a turn that failed, was stopped or was cut off leaves no status and no bubble that grows."""
    thread = at({"error": "error", "cancelled": "lasting", "cut_off": "killed"}[outcome])
    thread.say("speak")
    if outcome == "cancelled":
        thread.writes(1)
        thread.button("Stop").click()
    thread.ended(1, outcome)
    expect(thread.status(1)).to_have_count(0)
    expect(thread.turn(1).locator(".reply[data-growing]")).to_have_count(0)
    expect(thread.turn(1).locator(".outcome")).to_be_visible()


@pytest.mark.parametrize("role", ["tools", "thinking"])
def test_s_g2_g5_the_life_cycle_of_what_the_page_was_told(at: Open, server: Server, role: str) -> None:
    """G2 and G5: `final_message_start` comes once; before it statuses, behind it the reply, `completed` last."""
    thread = at(role)
    thread.ask("do it")
    expect(thread.turn(1).locator(".to-record")).to_contain_text("step")
    told = frames(server, thread.chat)
    names = "".join(LETTERS[frame["type"]] for frame in told)
    assert re.fullmatch(r"ps[st]*f([st]*a)+[st]*cr", names), names
    seen = [sample.state for sample in thread.of(1)]
    assert seen == sorted(seen, key=["queued", "running", "completed"].index)


LETTERS = {
    "prompted": "p", "streaming": "s", "thinking": "t", "final_message_start": "f", "assistant": "a",
    "completed": "c", "finalized": "r",
}  # fmt: skip


def frames(server: Server, chat: str) -> list[dict[str, Any]]:
    """What a viewer from the beginning is told of a chat whose turns are over."""
    import json

    import httpx

    found = []
    url, headers = f"{server.url}/api/chats/{chat}/events?after=0", {"Authorization": f"Bearer {server.token}"}
    with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if found[-1]["type"] == "finalized":
                    return found
    return found


def test_s_g3_no_piece_of_a_thought_is_dropped_or_doubled(at: Open) -> None:
    """G3: the pieces that were never shown are whole, and once, in the record of the turn."""
    thread = at("thinking")
    thread.ask("think")
    thread.turn(1).locator(".to-record").press("Enter")
    expect(thread.page.locator("[data-kind=thinking] .thought")).to_have_text(thoughts("thinking")[0])


def test_s_g4_f_g4_the_bubble_is_what_the_reply_is_so_far(at: Open, server: Server) -> None:
    """G4: the bubble is set to the reply so far: tabs that look at different times agree at the end."""
    thread = at("halfway")
    thread.say("speak")
    thread.writes(1, "CJK")
    other = Thread(thread.device, thread.server).go(thread.chat)
    server.gate.touch()
    thread.ended(1)
    other.ended(1)
    assert other.words(1) == thread.words(1)
    assert growth(other.of(1))[1] == growth(thread.of(1))[1] == 0


def test_f_g2_text_around_a_tool_that_ends_no_round_stays_together(at: Open) -> None:
    """Final G2: within a round the text grows as it came; two calls at once make one more round, not two."""
    thread = at("parallel")
    thread.ask("two at once")
    steps, replaced = growth(thread.of(1))
    assert replaced <= 1
    assert steps[-1].strip() == shown(cast.reply_of("parallel"))


def test_f_g3_f_g5_stream_and_message_are_stripped_alike(at: Open) -> None:
    """Final G3 and G5: what stood in the bubble in the end is the message, tags gone from both."""
    thread = at("tagged")
    thread.ask("speak in tags")
    growing = [sample.replies[0] for sample in thread.of(1) if sample.growing]
    assert growth(thread.of(1))[1] == 0, growing
    assert thread.words(1).startswith(growing[-1].rstrip())
    assert "<think>in a fence" in growing[-1]
