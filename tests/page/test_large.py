"""Long threads, long replies, and Markdown that grows under a reader's eyes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from chatpage import cast, filling
from chatpage.device import Device
from chatpage.proxy import Proxy
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import expect

Open = Callable[..., Thread]
TURNS = 300
KEPT = 50
"""A page begins with so many turns."""

LEFT = "element => element.scrollHeight - element.clientHeight - element.scrollTop"
"""How far the end is below what is seen."""
NEAR = 48
"""Pixels; closer is at the end."""


def is_at_the_end(thread: Thread) -> bool:
    """Whether what grows is followed; the page does it in the next frame, so a few may pass."""
    for _ in range(20):
        if thread.scroller.evaluate(LEFT) < NEAR:
            return True
        thread.page.wait_for_timeout(50)
    return False


def words(text: str) -> str:
    """A text, all white space alike."""
    return " ".join(text.split())


# --- long threads ---


def test_a_thread_of_300_turns(at: Open, own_server: Callable[..., Server]) -> None:
    """It opens at its end with the newest turns; those before come when one scrolls up; what one reads stays."""
    server = own_server()
    chat = server.chat("quick")
    server.prompt(chat, "prompt number 1")
    thread = at("quick", of=server).go(chat)
    thread.ended(1)
    expect(thread.turn(1).locator(".to-record")).to_contain_text("step")
    thread.device.allow("ERR_", "status of 503")
    server.end()
    filling.repeat(server.data / "chats.db", chat, TURNS)
    server.start()
    thread.page.reload()
    thread.ready()
    expect(thread.turn(TURNS)).to_be_in_viewport()
    expect(thread.page.locator(".turn")).to_have_count(KEPT)
    first = TURNS - KEPT + 1
    thread.page.locator(".thread").hover()
    thread.page.mouse.wheel(0, -100_000)
    expect(thread.turn(first - 1)).to_be_attached()
    expect(thread.turn(first)).to_be_in_viewport()
    while not thread.turn(1).count():
        shown = int(thread.page.locator(".turn").first.get_attribute("data-turn") or 0)
        thread.page.mouse.wheel(0, -100_000)
        expect(thread.turn(shown - 1)).to_be_attached()
    numbers = thread.page.evaluate("() => [...document.querySelectorAll('.turn')].map((it) => Number(it.dataset.turn))")
    assert numbers == list(range(1, TURNS + 1))
    assert thread.turn(150).locator(".prompt").text_content() == "prompt number 150"
    thread.ask("one more", TURNS + 1)
    expect(thread.turn(TURNS + 1)).to_be_in_viewport()


# --- a long reply ---


def test_a_reply_of_200_kb_costs_bytes_linear_in_its_length(
    server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]
) -> None:
    """The wire carries a long reply about twice: as it grows, and as the message. The page shows all of it."""
    proxy = proxies(server)
    chat = server.chat("large")
    thread = Thread(devices(), server, base=proxy.url).enter(chat)
    thread.ask("be long")
    (turn,) = server.turns(chat)
    size = len(turn["message"].encode())
    assert size > 200_000
    assert words(thread.words(1)) == words(turn["message"])
    assert 2 * size < proxy.down["/api/events"] < 2.4 * size


# --- a large table ---

COLUMNS, ROWS = 60, 120
WATCH_ROWS = """() => {
    window.rowsGone = 0;
    window.rowsCame = 0;
    new MutationObserver((changes) => {
        const rows = (nodes) => [...nodes].reduce(
            (sum, node) => sum + (node.matches?.(".turn tr") ? 1 : node.querySelectorAll?.("tbody tr").length ?? 0), 0);
        const came = changes.reduce((sum, { addedNodes }) => sum + rows(addedNodes), 0);
        window.rowsGone += changes.reduce((sum, { removedNodes }) => sum + rows(removedNodes), 0);
        window.rowsCame += came > 0 ? 1 : 0;
    }).observe(document, { childList: true, subtree: true });
}"""
"""Counts the rows of tables that were removed, and how often rows were added."""


def large_table() -> str:
    """A table of 7,200 cells, and a line behind it."""
    lines = ["| " + " | ".join(f"c{column}" for column in range(COLUMNS)) + " |", "|" + "---|" * COLUMNS]
    lines += ["| " + " | ".join(f"v{row} {column}" for column in range(COLUMNS)) + " |" for row in range(ROWS)]
    return "\n".join([*lines, "", "END-OF-TABLE"])


def test_a_large_table_is_drawn_in_slices(
    own_server: Callable[..., Server], devices: Callable[..., Device], tmp_path: Path
) -> None:
    """Rows are only added, also while it grows; loaded whole, it is the same in several tasks, is found and copied."""
    agent = cast.agent("table", "claude", cast.reworded(tmp_path / "table", large_table()), 4)
    server = own_server(config=lambda folder: cast.config(folder / "penstock.toml", more=[agent]))
    thread = Thread(devices(), server).enter(server.chat("table"))
    thread.page.evaluate(WATCH_ROWS)
    thread.ask("show the table")
    thread.drawn()
    cells = thread.reply(1).locator("td")
    expect(cells).to_have_count(COLUMNS * ROWS)
    assert thread.page.evaluate("() => window.rowsGone") == 0
    grown = thread.reply(1).evaluate("element => element.innerHTML")
    thread.page.add_init_script(f"({WATCH_ROWS})()")
    thread.page.reload()
    thread.ready()
    expect(cells).to_have_count(COLUMNS * ROWS)
    expect(thread.reply(1)).to_contain_text("END-OF-TABLE")
    assert thread.reply(1).evaluate("element => element.innerHTML") == grown
    assert thread.page.evaluate("() => [window.rowsGone, window.rowsCame > 1]") == [0, True]
    copied = thread.reply(1).evaluate(
        """element => {
            getSelection().selectAllChildren(element.querySelector("table"));
            return getSelection().toString();
        }"""
    )
    assert [line.split("\t")[-1].strip() for line in copied.strip().splitlines()[1:]] == [
        f"v{row} {COLUMNS - 1}" for row in range(ROWS)
    ]
    assert thread.page.evaluate(f"() => getSelection().removeAllRanges() ?? window.find('v{ROWS - 1} {COLUMNS - 1}')")


# --- Markdown that grows ---

WATCH = """reply => {
    // Settled: all blocks before the one that was the last in the step before.
    let settled = reply.children.length - 1;
    window.disturbed = [];
    window.first = null;
    new MutationObserver((changes) => {
        const blocks = [...reply.children];
        window.first ??= blocks.length > 2 ? [blocks[0], blocks[0].firstChild, blocks[0].textContent] : null;
        for (const { target, type } of changes) {
            const block = (target.nodeType === 1 ? target : target.parentElement)?.closest(".reply > *");
            const colours = target.parentElement?.closest("figure.code") || target.closest?.("figure.code");
            const at = blocks.indexOf(block);
            if (at >= 0 && at < settled && !colours) window.disturbed.push(`${type} in block ${at}`);
        }
        settled = blocks.length - 1;
    }).observe(reply, { childList: true, characterData: true, subtree: true, attributes: true });
}"""


def test_settled_blocks_are_never_touched_again(at: Open) -> None:
    """A block that is written stays the same node to the end; a selection in it survives all that comes after."""
    thread = at("prose")
    thread.say("speak at length")
    thread.writes(1, "A run as the turn of a chat")
    thread.reply(1).evaluate(WATCH)
    thread.writes(1, "It has no clock, no")
    thread.reply(1).evaluate(
        """reply => {
            const range = document.createRange();
            range.selectNodeContents(reply.querySelector("p"));
            getSelection().removeAllRanges();
            getSelection().addRange(range);
            window.selected = getSelection().toString();
        }"""
    )
    thread.server.gate.touch()
    thread.ended(1)
    assert thread.page.evaluate("() => window.disturbed") == []
    assert thread.page.evaluate("() => window.first[0].isConnected && window.first[1].isConnected")
    selected: str = thread.page.evaluate("() => window.selected")
    assert selected.startswith("A run as the turn of a chat")
    assert thread.page.evaluate("() => getSelection().toString()") == selected
    assert "More names are added" in thread.words(1)


def test_growing_and_whole_are_the_same(at: Open) -> None:
    """A reply that grew piece by piece is, in the end, to the last element what it is when it is loaded whole."""
    thread = at("prose")
    thread.server.gate.touch()
    thread.ask("speak at length")
    look = "element => element.innerHTML.replace(/<span class=\"hljs[^>]*>|<\\/span>/g, '')"
    grown = thread.reply(1).evaluate(look)
    thread.page.reload()
    thread.ready()
    assert thread.reply(1).evaluate(look) == grown


def test_text_never_flickers(at: Open) -> None:
    """From one frame to the next the words only go on: no half mark, table or link is shown and taken back."""
    thread = at("prose")
    thread.server.gate.touch()
    thread.ask("speak at length")
    steps = [words(sample.replies[0]) for sample in thread.of(1) if sample.replies]
    for before, after in pairwise(steps):
        assert after.startswith(before), (before[-80:], after[len(before) - 80 : len(before) + 40])


def test_code_is_coloured_once_it_is_closed(at: Open, server: Server) -> None:
    """While a block of code is written it is plain; closed, it has colours, and the same text. Copy copies it."""
    thread = at("coding")
    thread.say("write code")
    code = thread.reply(1).locator("figure.code code")
    expect(code).to_contain_text("def greet")
    expect(code.locator("[class^=hljs]")).to_have_count(0)
    server.gate.touch()
    thread.ended(1)
    expect(code.locator(".hljs-keyword").first).to_be_visible()
    assert code.text_content() == (
        'def greet(name: str) -> str:\n    # a comment with ``two`` backticks\n    return f"hello, {name}"  # 👋\n'
    )
    thread.device.context.grant_permissions(["clipboard-read", "clipboard-write"])
    thread.reply(1).get_by_role("button", name="Copy").click()
    expect(thread.reply(1).get_by_role("button", name="Copied")).to_be_visible()
    assert thread.page.evaluate("() => navigator.clipboard.readText()") == (code.text_content() or "").rstrip("\n")


# --- the end of what grows ---


def test_only_a_person_leaves_the_end(at: Open, server: Server) -> None:
    """The page stays at the end while text comes; a wheel upwards unpins it, new text does not pull, `Latest` does."""
    thread = at("prose", viewport={"width": 900, "height": 420})
    thread.say("speak at length")
    thread.writes(1, "It has no clock, no")
    assert is_at_the_end(thread)
    expect(thread.button("Latest")).to_have_count(0)
    thread.scroller.hover()
    thread.page.mouse.wheel(0, -150)
    expect(thread.button("Latest")).to_be_visible()
    top = thread.scroller.evaluate("element => element.scrollTop")
    server.gate.touch()
    thread.ended(1)
    assert abs(thread.scroller.evaluate("element => element.scrollTop") - top) < 2
    thread.button("Latest").click()
    expect(thread.button("Latest")).to_have_count(0)
    assert is_at_the_end(thread)
    thread.say("and again")
    thread.ended(2)
    assert is_at_the_end(thread)
    thread.scroller.hover()
    thread.page.mouse.wheel(0, -2000)
    expect(thread.button("Latest")).to_be_visible()
    thread.page.mouse.wheel(0, 20_000)
    expect(thread.button("Latest")).to_have_count(0)
    thread.page.mouse.wheel(0, -2000)
    expect(thread.button("Latest")).to_be_visible()
    thread.page.keyboard.press("Alt+End")
    expect(thread.button("Latest")).to_have_count(0)


def test_a_long_prompt_is_folded(at: Open) -> None:
    """A prompt of many lines does not push the reply out of sight; all of it can be seen."""
    thread = at("quick")
    text = "\n".join(f"line {number}" for number in range(200))
    thread.ask(text)
    expect(thread.reply(1)).to_be_in_viewport()
    prompt = thread.turn(1).locator(".prompt")
    assert prompt.evaluate("element => element.clientHeight < element.scrollHeight")
    thread.button("Show all").click()
    assert prompt.evaluate("element => element.clientHeight >= element.scrollHeight - 1")
    assert prompt.text_content() == text


def test_a_message_right_after_a_wheel_is_followed(at: Open, server: Server) -> None:
    """Who wheels to the end of a reply and sends at once sees the next one: what a layout does unpins nothing."""
    thread = at("prose", viewport={"width": 900, "height": 420})
    server.gate.touch()
    thread.ask("speak at length")
    thread.composer.fill("and again")
    thread.scroller.hover()
    thread.page.mouse.wheel(0, -100)
    thread.page.mouse.wheel(0, 5000)
    thread.page.keyboard.press("Enter")
    thread.ended(2)
    assert is_at_the_end(thread)
    expect(thread.button("Latest")).to_have_count(0)
