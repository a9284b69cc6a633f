"""What the page asks for, and how many bytes that is: as the browser counts them, with their headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatpage.device import Device
from chatpage.server import Server
from playwright.sync_api import Page, expect

START_BYTES, CHAT_BYTES, AGAIN_BYTES = 200_000, 200_000, 60_000
"""Budgets: a first visit at the start page, one at a chat, and a second visit."""
AGAIN_REQUESTS = 6
"""Requests of a second visit: the page, and what it shows. The shared worker has one more, for the stream."""
SETTLED_MS = 60_000
LONG = 230
"""Chats of a list that is more than its first page."""
MOST_DRAWN, UP = 160, 3
"""Rows of a long list that are drawn at once, and steps up from its end."""


class Traffic:
    """Requests of a tab since the last `take`, as the browser reports them."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._asked: dict[str, str] = {}
        self._bytes: dict[str, int] = {}
        self._kept: set[str] = set()
        session = page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._ask)
        session.on("Network.requestServedFromCache", lambda event: self._kept.add(event["requestId"]))
        session.on("Network.responseReceived", self._answered)
        session.on("Network.loadingFinished", self._finished)
        session.send("Network.enable")

    def _ask(self, event: dict[str, Any]) -> None:
        self._asked[event["requestId"]] = event["request"]["url"]

    def _answered(self, event: dict[str, Any]) -> None:
        if event["response"].get("fromDiskCache"):
            self._kept.add(event["requestId"])

    def _finished(self, event: dict[str, Any]) -> None:
        self._bytes[event["requestId"]] = int(event["encodedDataLength"])

    def has(self, end: str) -> bool:
        """Whether a file that ends so has come, from the server or from what the browser keeps."""
        return any(self._asked.get(id, "").endswith(end) for id in self._bytes)

    def wait(self, end: str) -> None:
        """Wait for it."""
        for _ in range(SETTLED_MS // 20):
            if self.has(end):
                return
            self._page.wait_for_timeout(20)
        raise AssertionError(f"{end} has not come: {sorted(self._asked.values())}")

    def take(self) -> tuple[list[str], int]:
        """Give what the server was asked for, and its bytes, and count anew."""
        sent = [id for id in self._bytes if id in self._asked and id not in self._kept]  # a worker's are not reported
        found = [self._asked[id] for id in sent], sum(self._bytes[id] for id in sent)
        for kept in (self._asked, self._bytes, self._kept):
            kept.clear()
        return found


def ready(page: Page) -> None:
    """Wait until the list and the field for a message are there."""
    expect(page.locator("#chats [data-chat]").first).to_be_visible(timeout=SETTLED_MS)
    expect(page.locator(".composer textarea")).to_be_visible(timeout=SETTLED_MS)


def test_budgets(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """A first visit, a second one and a chat send few bytes; the view of a chat comes once one points at the list."""
    server = own_server()
    chat = server.chat("quick", title="first")
    server.prompt(chat, "hello")
    page = devices().page()
    traffic = Traffic(page)
    page.goto(server.link())
    ready(page)
    traffic.wait("/api/workspaces")
    asked, sent = traffic.take()
    assert sent < START_BYTES, f"{sent} bytes for {len(asked)} requests"
    assert not any(url.endswith(("/chat.js", "/marked.js", "/dompurify.js")) for url in asked)

    page.locator("#chats .entries").dispatch_event("pointerover")
    for name in ("/views/chat.js", "/vendor/marked.js", "/vendor/dompurify.js"):
        traffic.wait(name)
    row = page.locator(f"#chats [data-chat='{chat}']")
    row.press("Enter")
    expect(page.locator(".thread")).to_be_visible(timeout=SETTLED_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text("first", timeout=SETTLED_MS)

    page.goto("about:blank")
    traffic.take()
    page.goto(server.url)
    ready(page)
    traffic.wait("/api/workspaces")
    traffic.wait("/views/chat.js")  # kept by now, so it is loaded beforehand
    asked, sent = traffic.take()
    assert len(set(asked)) <= AGAIN_REQUESTS, asked  # after 15 seconds the page asks for the list again
    assert sent < AGAIN_BYTES, f"{sent} bytes for {len(asked)} requests"

    other = devices().page()
    traffic = Traffic(other)
    other.goto(f"{server.url}/chats/{chat}#{server.link().partition('#')[2]}")
    ready(other)
    expect(other.locator(".thread[data-ready=true]")).to_be_visible(timeout=SETTLED_MS)
    expect(other.locator("[data-turn='1'][data-state=completed] .reply")).to_be_visible(timeout=SETTLED_MS)
    asked, sent = traffic.take()
    assert sent < CHAT_BYTES, f"{sent} bytes for {len(asked)} requests"
    assert not any(url.endswith("/new-chat.js") for url in asked)
    assert not any("temml" in url or "/highlight/" in url or url.endswith("/palette.js") for url in asked)


def test_a_long_list(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """What is near is drawn and little else; scrolling, keys, a filter and the stream reach all chats."""
    server = own_server()
    chats = [server.chat("quick", title=f"chat {number:03}") for number in range(LONG)]
    page = devices().page()
    page.goto(server.link())
    ready(page)
    rows = page.locator("#chats .row-of-list")
    first, last = (page.locator(f"#chats [data-chat='{chat}']") for chat in (chats[-1], chats[0]))
    expect(rows.first).to_contain_text(f"chat {LONG - 1:03}", timeout=SETTLED_MS)
    whole = f"#chats li[aria-setsize='{LONG}']"
    expect(page.locator(f"{whole}[aria-posinset='1'] [data-chat='{chats[-1]}']")).to_be_visible(timeout=SETTLED_MS)
    assert rows.count() <= MOST_DRAWN

    first.focus()
    first.press("End")  # the last row is drawn, gets the focus, and the list is scrolled to it
    expect(last).to_be_focused(timeout=SETTLED_MS)
    expect(last).to_be_in_viewport(timeout=SETTLED_MS)
    expect(page.locator(f"{whole}[aria-posinset='{LONG}'] [data-chat='{chats[0]}']")).to_be_visible(timeout=SETTLED_MS)
    expect(first).to_have_count(0, timeout=SETTLED_MS)
    for number in range(1, UP + 1):
        page.keyboard.press("ArrowUp")
        expect(page.locator(f"#chats [data-chat='{chats[number]}']")).to_be_focused(timeout=SETTLED_MS)
    page.evaluate("document.querySelector('#chats .entries').scrollTop = 0")
    expect(first).to_be_in_viewport(timeout=SETTLED_MS)
    expect(page.locator(f"#chats [data-chat='{chats[UP]}']")).to_be_focused(timeout=SETTLED_MS)  # kept, far below
    assert rows.count() <= MOST_DRAWN + 1

    page.get_by_label("Find a chat").fill("chat 000")
    expect(last).to_be_visible(timeout=SETTLED_MS)
    server.ask("PATCH", f"/api/chats/{chats[0]}", {"title": "chat 000 renamed"})
    expect(last).to_contain_text("renamed", timeout=SETTLED_MS)
    server.ask("PATCH", f"/api/chats/{chats[1]}", {"archived": True})
    page.get_by_label("Find a chat").fill("")
    expect(page.get_by_role("button", name="Archived (1)")).to_be_visible(timeout=SETTLED_MS)
    rest = page.locator(f"#chats li[aria-setsize='{LONG - 1}'][aria-posinset='1']")
    expect(rest).to_have_count(1, timeout=SETTLED_MS)

    page.goto(f"{server.url}/chats/{chats[0]}")
    expect(last).to_be_in_viewport(timeout=SETTLED_MS)
    page.locator(".composer textarea").fill("hello")
    page.keyboard.press("Enter")
    expect(page.locator("#chats .row-of-list").first).to_have_attribute("data-chat", chats[0], timeout=SETTLED_MS)
    expect(last).to_be_in_viewport(timeout=SETTLED_MS)
