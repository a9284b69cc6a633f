"""How the page looks and is heard: every state in light, dark and on a phone, for eyes, screen readers and a scan.

`PENSTOCK_SHOTS` names a directory that gets a picture of each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from chatpage import cast
from chatpage.device import CUT, NARROW, WIDE, Device
from chatpage.proxy import Proxy
from chatpage.scan import faults
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import Page, expect

Open = Callable[..., Thread]
Show = Callable[["Stage"], Page]
WIDER = """() => ["html", "dialog", ".dialog-body", "main", ".thread", ".column", ".foot", ".side"].filter(
    (name) => [...document.querySelectorAll(name)].some((it) => it.scrollWidth > it.clientWidth + 1)
)"""
"""The parts of the page that would have to be scrolled sideways."""
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4")
MIDDLE = "CJK"


class Stage:
    """What a state of the page can be made with."""

    def __init__(
        self,
        at: Open,
        server: Server,
        devices: Callable[..., Device],
        proxies: Callable[[Server], Proxy],
        own_server: Callable[..., Server],
    ) -> None:
        self.at, self.server, self.devices = at, server, devices
        self.proxies, self.own_server = proxies, own_server


def _empty(stage: Stage) -> Page:
    thread = Thread(stage.devices(), stage.own_server(trusted=False))
    return thread.enter().page


def _sign_in(stage: Stage) -> Page:
    device = stage.devices()
    device.allow(REFUSED)
    page = device.sign_in(f"{stage.server.url}/#code=wrong")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    return page


def _new_thread(stage: Stage) -> Page:
    return stage.at("quick").page


def _thinking(stage: Stage) -> Page:
    thread = stage.at("pondering")
    thread.say("What is six times seven?")
    expect(thread.status(1)).to_have_text("Thinking…")
    return thread.page


def _streaming(stage: Stage) -> Page:
    thread = stage.at("halfway")
    thread.say("Show me what Markdown can do.")
    thread.writes(1, MIDDLE)
    return thread.page


def _queued(stage: Stage) -> Page:
    thread = stage.at("halfway")
    thread.say("Show me what Markdown can do.")
    thread.writes(1, MIDDLE)
    thread.say("And then fix the failing test.")
    expect(thread.turn(2).locator(".queued")).to_be_visible()
    return thread.page


def _complete(stage: Stage) -> Page:
    thread = stage.at("brisk")
    thread.ask("Show me what Markdown can do.")
    expect(thread.reply(1).locator(".hljs-keyword").first).to_be_visible()
    thread.ask("Once more, please. With a `backtick`.", 2)
    expect(thread.turn(2).locator(".to-record")).to_contain_text("step")
    return thread.page


def _long(stage: Stage) -> Page:
    thread = stage.at("prose")
    stage.server.gate.touch()
    thread.ask("How does a turn work?")
    thread.scroller.hover()
    thread.page.mouse.wheel(0, -1500)
    expect(thread.button("Latest")).to_be_visible()
    return thread.page


def _diff(stage: Stage) -> Page:
    thread = stage.at("peer", of=stage.own_server(config=cast.workshop))
    thread.say("edit")
    expect(thread.turn(1).locator(".hint .diff")).to_be_visible()
    return thread.page


def _refused(stage: Stage) -> Page:
    thread = stage.at("qwen", of=stage.own_server(config=cast.workshop))
    thread.ask("edit")
    expect(thread.turn(1).locator(".refused")).to_be_visible()
    return thread.page


def _record_diff(stage: Stage) -> Page:
    page = _refused(stage)
    page.locator(".to-record").press("Enter")
    expect(page.locator(".item .diff")).to_be_visible()
    return page


def _asking(stage: Stage) -> Page:
    thread = stage.at("peer")
    thread.say("permission")
    expect(thread.button("Yes, once")).to_be_visible()
    return thread.page


def _asked(stage: Stage) -> Page:
    thread = stage.at("lost")
    thread.ask("Which notes?")
    expect(thread.button(cast.CHOICES[0])).to_be_enabled()
    return thread.page


def _failed(stage: Stage) -> Page:
    thread = stage.at("error")
    thread.ask("Try it.", outcome="error")
    return thread.page


def _stopped(stage: Stage) -> Page:
    thread = stage.at("halfway")
    thread.say("Show me what Markdown can do.")
    thread.writes(1, MIDDLE)
    thread.button("Stop").click()
    thread.ended(1, "cancelled")
    return thread.page


def _cut(stage: Stage) -> Page:
    proxy, device = stage.proxies(stage.server), stage.devices()
    device.allow(CUT)
    stage.server.gate.unlink(missing_ok=True)
    thread = Thread(device, stage.server, base=proxy.url).enter(stage.server.chat("halfway"))
    thread.say("Show me what Markdown can do.")
    thread.writes(1, MIDDLE)
    proxy.fall()
    expect(thread.page.locator(".banner")).to_be_visible(timeout=PATIENCE)
    thread.say("Are you still there?")
    expect(thread.page.locator(".unsent")).to_be_visible()
    return thread.page


def _record(stage: Stage) -> Page:
    thread = stage.at("thinktools")
    thread.ask("Look around, and think.")
    thread.turn(1).locator(".to-record").press("Enter")
    thread.page.locator("[data-kind=call] summary").click()
    return thread.page


def _missing(stage: Stage) -> Page:
    thread = stage.at("quick")
    thread.device.allow(REFUSED)
    thread.page.goto(f"{thread.base}/chats/nobody-knows-it")
    expect(thread.page.get_by_role("heading", level=1)).to_be_visible()
    return thread.page


def _choosing(stage: Stage) -> Page:
    thread = Thread(stage.devices(), stage.server).enter()
    thread.page.locator(".installable summary").click()
    return thread.page


def _no_agent(stage: Stage) -> Page:
    env = {"PENSTOCK_CONFIG": os.devnull, "PATH": "/nowhere", "OLLAMA_HOST": "127.0.0.1:1"}
    page = stage.devices().sign_in(stage.own_server(env=env).printed)
    expect(page.get_by_role("heading", name="No agent is installed")).to_be_visible()
    return page


def _blocked(stage: Stage) -> Page:
    server = stage.own_server(env={"PENSTOCK_CONFIG": ""}, trusted=False)
    recording = cast.RECORDINGS / "claude" / "base_for_resume"
    (server.root / "penstock.toml").write_text(cast.agent("ours", "claude", recording, 20), "utf-8")
    server.restart()
    page = stage.devices().sign_in(server.printed)
    expect(page.locator(".blocked")).to_be_visible()
    return page


def _days(stage: Stage) -> Page:
    thread = stage.at("quick")
    thread.ask("What did we do?")
    thread.page.clock.set_system_time("2031-03-04T12:00:00")
    thread.page.reload()
    expect(thread.page.locator(".day")).to_be_visible()
    return thread.page


def _dialog(menu: str, item: str) -> Show:
    def show(stage: Stage) -> Page:
        thread = stage.at("quick")
        thread.button(menu).click()
        thread.page.get_by_role("menuitem", name=item).click()
        expect(thread.page.get_by_role("dialog")).to_be_visible()
        return thread.page

    return show


def _heartbeat(stage: Stage) -> Page:
    page = _dialog("Chat menu", "Heartbeat")(stage)
    page.get_by_label("On", exact=True).check()
    page.get_by_label("Except in quiet hours").check()
    return page


STATES: dict[str, Show] = {
    "empty": _empty,
    "sign-in": _sign_in,
    "choosing": _choosing,
    "new": _new_thread,
    "thinking": _thinking,
    "streaming": _streaming,
    "queued": _queued,
    "complete": _complete,
    "long": _long,
    "asking": _asking,
    "asked": _asked,
    "diff": _diff,
    "refused": _refused,
    "record-diff": _record_diff,
    "failed": _failed,
    "stopped": _stopped,
    "cut": _cut,
    "record": _record,
    "missing": _missing,
    "heartbeat": _heartbeat,
    "settings": _dialog("Chat menu", "Rename and settings"),
    "delete": _dialog("Chat menu", "Delete"),
    "keys": _dialog("More", "Keyboard shortcuts"),
    "link": _dialog("More", "Link for another device"),
    "browsers": _dialog("More", "Signed-in browsers"),
    "no-agent": _no_agent,
    "blocked": _blocked,
    "days": _days,
}


@pytest.mark.parametrize("state", STATES)
def test_every_state_in_light_dark_and_on_a_phone(
    state: str,
    axe: str,
    at: Open,
    server: Server,
    devices: Callable[..., Device],
    proxies: Callable[[Server], Proxy],
    own_server: Callable[..., Server],
) -> None:
    """No scan finds a fault, in light, in dark and on a phone, where nothing has to be scrolled sideways."""
    page = STATES[state](Stage(at, server, devices, proxies, own_server))
    page.evaluate(axe)
    found = {}
    page.emulate_media(forced_colors="active")
    _picture(page, f"{state}-forced")
    page.emulate_media(forced_colors="none")
    for name, scheme, size in (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", NARROW)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        _picture(page, f"{state}-{name}")
        assert page.evaluate(WIDER) == [], name
        found[name] = faults(page)
    assert found == {"light": [], "dark": [], "phone": []}


def _picture(page: Page, name: str) -> None:
    if folder := os.environ.get("PENSTOCK_SHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", animations="disabled")


def test_the_phone_has_the_list_behind_a_button(at: Open, server: Server) -> None:
    """At the width of a phone the chats are behind a button, one leads to its thread, and targets suit a finger."""
    thread = at("quick", viewport=NARROW, has_touch=True, is_mobile=True)
    page = thread.page
    thread.composer.fill("on the phone")
    thread.button("Send").tap()
    thread.ended(1)
    expect(page.locator("#chats")).not_to_be_in_viewport()
    page.get_by_role("button", name="Chats").tap()
    expect(page.locator("#chats")).to_be_in_viewport()
    _picture(page, "drawer-phone")
    page.locator(f"[data-chat='{thread.chat}']").tap()
    expect(page.locator("#chats")).not_to_be_in_viewport()
    small = page.evaluate(
        """() => [...document.querySelectorAll("main button, main .to-record")]
            .filter((it) => it.getBoundingClientRect().width)
            .map((it) => [it.getAttribute("aria-label") ?? it.textContent, it.getBoundingClientRect()])
            .filter(([, box]) => box.height < 24 || box.width < 24).map(([name]) => name)"""
    )
    assert small == []


def test_what_a_screen_reader_is_told(at: Open, server: Server) -> None:
    """The growing text is never live; the finished reply is announced once, statuses seldom, and errors at once."""
    thread = at("halfway")
    thread.say("speak")
    thread.writes(1, MIDDLE)
    assert thread.turn(1).locator(".reply").evaluate("element => element.closest('[aria-live]').ariaLive") == "off"
    expect(thread.turn(1).locator(".answer")).to_have_attribute("aria-busy", "true")
    assert not any(MIDDLE in words for _, words in thread.said())
    server.gate.touch()
    thread.ended(1)
    expect(thread.page.locator("#said-status")).to_contain_text("The agent replied:")
    thread.page.wait_for_timeout(500)  # a second one would have come by then
    replies = [words for _, words in thread.said() if MIDDLE in words]
    assert len(replies) == 1
    assert len(thread.said()) <= 4
    expect(thread.turn(1).locator(".answer")).to_have_attribute("aria-busy", "false")


def test_failures_are_said_at_once(at: Open) -> None:
    """A turn that failed is an alert."""
    thread = at("error")
    thread.ask("try", outcome="error")
    expect(thread.page.locator("#said-alert")).to_contain_text("The provider failed")


def test_names_roles_and_order(at: Open) -> None:
    """One main part, one list of chats, a heading for the chat and for each message, and a way past the list."""
    thread = at("quick")
    thread.ask("hello")
    page = thread.page
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Chats")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("article", name="Turn 1")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message to quick")).to_be_focused()
    skip = page.get_by_role("link", name="Skip to the conversation")
    assert (
        page.evaluate("() => document.querySelector('a[href], button, input, textarea, select, [tabindex]').className")
        == "skip"
    )
    skip.focus()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(thread.scroller).to_be_focused()


def test_motion_that_is_not_wanted(at: Open) -> None:
    """Who wants less motion gets none."""
    thread = at("pondering")
    thread.say("ponder")
    expect(thread.status(1)).to_have_text("Thinking…")
    running = "() => document.getAnimations().filter((it) => it.playState === 'running').length"
    assert thread.page.evaluate(running) == 0
