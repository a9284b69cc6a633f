"""What an agent or a person writes is text: it runs nothing, loads nothing, and hides nothing of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chatpage import cast, fuzz
from chatpage.device import NARROW
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect

Open = Callable[..., Thread]
HARM = """element => {
    const harmful = 'script, img:not([src^="/api/chats/"]), picture, svg, iframe, '
        + 'math:not([data-tex] > math), semantics, annotation, mglyph, maction, '
        + 'frame, object, embed, form, input, textarea, select, '
        + 'style, link, meta, base, video, audio, template, dialog, noscript, [style], [id], [name], [srcdoc], '
        + '[target=_top]';
    const found = [...element.querySelectorAll(harmful)].map((it) => it.outerHTML.slice(0, 120));
    for (const it of element.querySelectorAll('*')) {
        for (const { name, value } of it.attributes) {
            const leads = /^\\s*(javascript|data|vbscript|file):/i.test(value);
            if (name.startsWith('on') || leads) found.push(`${name}=${value}`);
        }
    }
    return found;
}"""
"""What stands in an element that must not be there."""
KEPT = 50
"""A page begins with so many turns."""
BREAK = {
    "reply": "() => { DocumentFragment.prototype.querySelectorAll = () => { throw new Error('broken') } }",
    "turn": "() => { Date.prototype.toISOString = () => { throw new Error('broken') } }",
}
"""What lets a reply, or its turn, be drawn no more."""
INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
PROMPT = (
    "<img src=x onerror=\"window.hurt='prompt'\"><script>window.hurt='prompt'</script> "
    "wi\u200bdth\ufeffless\U000e0041 "
    "\x1b[31mred\x1b]0;title\x07 \u202egnirts\u202c **not bold** [link](javascript:alert(1))"
)


def is_harmless(thread: Thread, place: str) -> None:
    """Nothing in this part of the page can run, load or lie, and nothing did run."""
    part = thread.page.locator(place)
    assert part.evaluate(HARM) == []
    assert INVISIBLE.search(part.text_content() or "") is None
    assert thread.page.evaluate("() => window.hurt") is None
    links: list[list[str]] = part.evaluate(
        "element => [...element.querySelectorAll('.prose a')].map((it) => [it.getAttribute('href'), it.rel, it.target])"
    )
    for href, rel, target in links:
        assert re.match(r"https?://|mailto:", href), href
        assert {"noopener", "noreferrer"} <= set(rel.split()), rel
        assert target == "_blank"


def test_a_reply_that_means_harm(at: Open) -> None:
    """Scripts, handlers, frames, forms, styles, links, clobbered names, bidi and escapes: text, or gone, always."""
    thread = at("hostile")
    thread.device.allow("404")  # a picture that is not in the directory
    # What is harmful for the blink of an eye has run: every state that the reply passes through is looked at.
    thread.page.evaluate(
        f"""() => {{
            const harm = {HARM};
            window.harmful = [];
            const look = () => {{
                for (const it of document.querySelectorAll('.reply')) window.harmful.push(...harm(it));
            }};
            const all = {{ childList: true, subtree: true, attributes: true, characterData: true }};
            new MutationObserver(look).observe(document.body, all);
        }}"""
    )
    thread.ask("be evil")
    assert thread.page.evaluate("() => window.harmful") == []
    is_harmless(thread, ".turn[data-turn='1'] .answer .prose")
    words = thread.words(1)
    assert words.rstrip().endswith("END-OF-REPLY")
    assert '<script>window.hurt = "script"; alert("script")</script>' in words
    assert "<script>window.hurt='entity'</script>" in words
    expect(thread.composer).to_be_visible()
    for link in thread.reply(1).locator("a").all():
        assert "invalid" in (link.get_attribute("href") or "")
    thread.page.reload()
    thread.ready()
    is_harmless(thread, ".turn[data-turn='1'] .answer .prose")
    thread.turn(1).locator(".to-record").press("Enter")
    expect(thread.page.locator("[data-kind=text] .prose")).to_contain_text("END-OF-REPLY")
    assert thread.page.locator(".items .prose").evaluate(HARM) == []


def test_links_that_are_good_go_out_without_a_trace(at: Open) -> None:
    """Links of the web stay links, in a tab of their own, without an opener and without a referrer."""
    thread = at("hostile")
    thread.device.allow("404")
    thread.ask("be evil")
    good = thread.reply(1).get_by_role("link", name="good")
    expect(good).to_have_attribute("href", "https://example.invalid/good")
    expect(good).to_have_attribute("rel", re.compile("noopener"))
    # Nothing that is not https? or mailto is a link, whatever its words are.
    for name in ("a script", "another", "third", "file", "vb", "a reference"):
        expect(thread.reply(1).get_by_role("link", name=name, exact=True)).to_have_count(0)


def test_a_prompt_of_html_and_escapes(at: Open, server: Server) -> None:
    """A prompt is shown as it was written: in the thread, in the list, as the title, in the record."""
    thread = at("quick")
    thread.ask(PROMPT)
    for place in (".turn .prompt", ".head-text", ".entries"):
        is_harmless(thread, place)
    expect(thread.turn(1).locator(".prompt")).to_contain_text("<script>window.hurt='prompt'</script>")
    expect(thread.turn(1).locator(".prompt")).to_contain_text("**not bold** [link](javascript:alert(1))")
    expect(thread.page.get_by_role("heading", level=1)).to_contain_text("<img src=x", timeout=PATIENCE)
    assert INVISIBLE.search(thread.page.title()) is None
    thread.turn(1).locator(".to-record").press("Enter")
    expect(thread.page.locator(".record-prompt")).to_contain_text("<img src=x")
    is_harmless(thread, ".record-prompt")


def test_names_that_mean_harm(at: Open, server: Server) -> None:
    """Titles and models of a chat are one line of text, wherever they are."""
    thread = at("quick")
    server.ask("PATCH", f"/api/chats/{thread.chat}", {"title": "<b onclick=x>\u202etitle\nof two lines"})
    thread.page.reload()
    thread.ready()
    expect(thread.page.get_by_role("heading", level=1)).to_have_text("<b onclick=x>title of two lines")
    for place in (".head-text", ".entries"):
        is_harmless(thread, place)


@pytest.mark.parametrize("agent", ["deep", "line"])
def test_replies_that_are_hard_to_read(at: Open, agent: str) -> None:
    """Lists of 150 levels, a table of 9,000 cells, marks without an end, a line of a megabyte: all is shown."""
    thread = at(agent)
    thread.ask("be difficult")
    expect(thread.reply(1)).to_contain_text("END-OF-REPLY", timeout=PATIENCE)
    assert thread.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    if agent == "deep":
        assert thread.page.locator(".turn[data-turn='1'] td").count() > 8000


def test_no_reply_of_a_fuzzer_breaks_the_page(at: Open, own_server: Callable[..., Server]) -> None:
    """After each reply, live and loaded, its words are seen, and those of all turns; the page sends and navigates."""
    thread = at("fuzzer", of=own_server())
    names = list(fuzz.tried())
    for number, name in enumerate(names, 1):
        thread.ask(name, number)
        shows(thread, number, name)
        if number % 10 == 0:
            thread.page.get_by_role("link", name="New chat", exact=True).click()
            expect(thread.page.locator(".start")).to_be_visible()
            thread.page.go_back()
            thread.ready()
    thread.page.reload()
    thread.ready()
    newest = range(max(1, len(names) - KEPT + 1), len(names) + 1)
    for number in newest:
        shows(thread, number, names[number - 1])
    for number in newest[::3]:
        thread.page.goto(f"{thread.base}/chats/{thread.chat}/turns/{number}")
        text = thread.page.locator("[data-kind=text] .prose")
        expect(text).to_contain_text(fuzz.END, timeout=PATIENCE)
        thread.drawn()
        assert thread.page.locator(".items .prose").evaluate(HARM) == []
    thread.page.get_by_role("link", name="Back to the chat").click()
    expect(thread.turn(len(names))).to_be_visible()


def test_what_is_deep_is_read_on_a_phone(at: Open, own_server: Callable[..., Server]) -> None:
    """The words of the deepest quote and of the deepest list have their place on a narrow screen."""
    thread = at("depths", of=own_server(), viewport=NARROW)
    for number in range(1, list(fuzz.replies()).index("emphasis") + 1):
        thread.ask("go deep", number)
        narrowest = thread.reply(number).evaluate(
            "it => Math.min(...[...it.querySelectorAll('p, li')].map((text) => text.clientWidth))"
        )
        assert narrowest > NARROW["width"] / 3, number
    assert thread.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def shows(thread: Thread, number: int, name: str) -> None:
    """A turn shows the words of its reply, and nothing that means harm."""
    seen = thread.words(number)
    for word in fuzz.words(name):
        assert word in seen, (name, word, seen[:200], seen[-200:])
    assert thread.reply(number).evaluate(HARM) == []


@pytest.mark.parametrize("name", ["reply", "turn", "record"])
def test_a_part_that_fails_fails_alone(at: Open, name: str) -> None:
    """A reply, a turn, or an item of a record that cannot be drawn is shown as it was written; all else works."""
    thread = at("quick")
    thread.ask("first")
    thread.device.allow("broken")
    thread.page.evaluate(BREAK.get(name, BREAK["reply"]))
    if name == "record":
        thread.turn(1).locator(".to-record").press("Enter")
        expect(thread.page.locator(".items pre, .items [data-raw]").first).to_be_visible()
        thread.page.get_by_role("link", name="Back to the chat").click()
        thread.ready()
    else:
        thread.ask("second", 2)
        expect(thread.turn(2).locator("[data-raw]")).to_have_count(1)
    assert thread.words(1).strip()
    thread.ask("third", 2 if name == "record" else 3)
    thread.page.get_by_role("link", name="New chat", exact=True).click()
    expect(thread.page.locator(".start")).to_be_visible()


def test_no_page_of_another_origin_is_let_in(at: Open, server: Server) -> None:
    """What the page may do at all is little: the answer's policy, and what the browser makes of it."""
    thread = at("quick")
    answer: Any = thread.page.request.get(server.url)
    policy = answer.headers["content-security-policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert part in policy
    thread.device.allow(re.compile("policy:|Content Security Policy|TrustedScript|Refused"))
    tried = thread.page.evaluate(
        """async () => {
            const made = document.createElement("script");
            let trusted = "let in";
            try { made.text = "window.hurt = 'inline'"; } catch { trusted = "refused"; }
            const out = await fetch("https://evil.invalid/").then(() => "let out", () => "refused");
            return [trusted, out];
        }"""
    )
    assert tried == ["refused", "refused"]
    thread.device.problems[:] = [it for it in thread.device.problems if "evil.invalid" not in it]


MARKS = "".join(chr(0x0300 + at % 0x40) for at in range(400))
"""Marks that pile up over a letter, far beyond its line."""
TALL = (
    "Vi\u1ec7t Ng\u1eef \u1eaa\u0303 \u00c5\u0301\u0327\u0328 \u0e01\u0e37\u0e49 \u0e1b\u0e31\u0e48 "
    "\u0645\u064f\u062d\u0645\u0651\u064e\u062f \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd"
)
"""Words of scripts whose letters have marks above and below."""


def test_marks_stay_on_their_own_text(at: Open, own_server: Callable[..., Server]) -> None:
    """No pile of marks paints over another block or the prompt, and the marks of any script are not cut."""
    replies = [f"above\n\nx{MARKS}x{MARKS}\n\nbelow", TALL]

    def stage(folder: Path) -> Path:
        return cast.config(folder / "penstock.toml", more=[cast.parrot("marks", folder / "marks", replies)])

    thread = at("marks", of=own_server(config=stage))
    thread.ask("plain")
    thread.ask(f"x{MARKS}", 2)
    blocks = thread.reply(1).locator(".block")
    around = [blocks.nth(0), blocks.nth(2), thread.turn(1).locator(".prompt"), thread.turn(1).locator(".facts")]
    around += [thread.page.locator(".head"), thread.reply(2)]
    shown = [it.screenshot() for it in around]
    hide = "element => { element.style.visibility = 'hidden' }"
    for it in (blocks.nth(1), thread.turn(2).locator(".prompt")):
        it.evaluate(hide)
    assert [it.screenshot() for it in around] == shown
    tall = thread.reply(2).locator(".block")
    shown = [tall.screenshot()]
    tall.evaluate("element => { element.style.overflow = 'visible' }")
    assert [tall.screenshot()] == shown, "marks of a script are cut"
