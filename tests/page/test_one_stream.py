"""Ten tabs over one connection."""

from __future__ import annotations

from collections.abc import Callable

from chatpage.device import CUT, Device
from chatpage.proxy import Proxy
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect
from waiting import until

TABS = 10
"""Number of tabs: more than the six connections that a browser makes to one server."""


def test_ten_tabs_share_one_connection(
    server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]
) -> None:
    """Each of ten tabs gets its own chat's reply over the one stream, also after the line was cut; the list follows."""
    proxy = proxies(server)
    device = devices()
    chats = [server.chat("quick", title=f"tab {number}") for number in range(TABS)]
    first = Thread(device, server, base=proxy.url).enter(chats[0])
    tabs = [first, *(Thread(device, server, base=proxy.url).go(chat) for chat in chats[1:])]
    for tab in (tabs[0], tabs[-1]):
        tab.ask("hello")
        tab.ended(1)
    assert until(lambda: proxy.streams == 1)
    server.ask("PATCH", f"/api/chats/{chats[-1]}", {"title": "renamed elsewhere"})
    expect(tabs[4].page.locator(f'[data-chat="{chats[-1]}"]')).to_contain_text("renamed elsewhere", timeout=PATIENCE)
    device.allow(CUT)
    proxy.cut()
    for tab in (tabs[1], tabs[-1]):
        tab.ask("hello", 1 if tab is tabs[1] else 2)
    assert until(lambda: proxy.streams == 1)
