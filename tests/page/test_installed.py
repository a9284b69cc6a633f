"""The page as an app: its manifest and icons, calls while it is closed, and a sentence where the server is away."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import PATIENCE
from playwright.sync_api import expect
from push_service import Device as Subscriber
from waiting import until

ENDPOINT = "https://fcm.googleapis.com/fcm/send/abc"
BROWSER = """([endpoint, p256dh, auth]) => {
    // Headless Chromium has no push service: this is all that is not real.
    let made = null;
    PushManager.prototype.getSubscription = async () => made;
    PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
        window.subscribed = { bytes: applicationServerKey.length, userVisibleOnly };
        made = {
            options: { applicationServerKey: applicationServerKey.buffer },
            toJSON: () => ({ endpoint, keys: { p256dh, auth } }),
            unsubscribe: async () => { made = null; return true; },
        };
        return made;
    };
    Notification.requestPermission = async () => "granted";
}"""


def test_the_page_is_installed_and_called(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """A switch subscribes the browser and forgets it again; without a server the page is one plain sentence."""
    server = own_server()
    device = devices()
    subscriber = Subscriber(ENDPOINT)
    given = json.dumps([ENDPOINT, subscriber.p256dh, subscriber.auth])
    device.context.add_init_script(f"({BROWSER})({given})")
    page = device.page()
    page.goto(server.link())
    expect(page.locator(".composer textarea")).to_be_visible(timeout=PATIENCE)

    manifest: Any = page.request.get(f"{server.url}{page.locator('link[rel=manifest]').get_attribute('href')}").json()
    assert (manifest["display"], manifest["start_url"]) == ("standalone", "/")
    for icon in manifest["icons"]:
        answer = page.request.get(f"{server.url}{icon['src']}")
        width, height = (int.from_bytes(answer.body()[at : at + 4], "big") for at in (16, 20))
        assert (answer.headers["content-type"], f"{width}x{height}") == ("image/png", icon["sizes"])

    def kept() -> list[Any]:
        stored = json.loads((server.data / "browsers.json").read_text("utf-8"))["browsers"]
        return [it["push"] for it in stored if it["push"] and it["push"]["endpoint"]]

    page.get_by_role("button", name="More", exact=True).press("Enter")
    page.get_by_role("menuitem", name="Notifications").press("Enter")
    asks = page.get_by_role("checkbox", name="When a chat of yours asks you")
    asks.press("Space")
    expect(asks).to_be_checked(timeout=PATIENCE)
    expect(asks).to_be_enabled(timeout=PATIENCE)
    until(lambda: [it["on"] for it in kept()] == [["asks"]])
    assert page.evaluate("window.subscribed") == {"bytes": 65, "userVisibleOnly": True}
    assert kept()[0]["endpoint"] == ENDPOINT
    asks.press("Space")
    expect(asks).not_to_be_checked(timeout=PATIENCE)
    until(lambda: kept() == [])

    page.evaluate("navigator.serviceWorker.ready.then(({ active }) => active.state)")
    server.end()
    device.allow("503", "Failed to load", "ERR_", "EventSource")
    page.goto(f"{server.url}/")
    expect(page.locator("body")).to_contain_text("Penstock cannot be reached", timeout=PATIENCE)
