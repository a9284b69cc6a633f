"""What a person sees when the connection breaks, the page is left, or the server ends, in the middle of a reply."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable
from itertools import pairwise

import pytest
from chatpage.device import CUT, Device
from chatpage.proxy import Proxy
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from effort import SOAK, at_most
from playwright.sync_api import Route, expect

Open = Callable[..., Thread]
MIDDLE = "CJK"
"""What the agent that waits halfway has said by then."""
ENDING = "the server responded with a status of 503"
END = "A quote, then the end."
CUTS = at_most(6, 12)
LOST = 8
"""Lost answers: a browser asks again by itself for each connection that it had, at most six; then the page does."""


def test_cuts_at_random_points(
    server: Server,
    devices: Callable[..., Device],
    proxies: Callable[[Server], Proxy],
) -> None:
    """A reply whose stream is cut several times, anywhere, grows without a gap and without a doubled word."""
    seed = random.randrange(1 << 30)
    chance, proxy = random.Random(seed), proxies(server)
    device = devices()
    device.allow(CUT)
    chat = server.chat("lasting")  # it goes on until the last cut, also on a slow machine
    thread = Thread(device, server, base=proxy.url).enter(chat)
    # Some come before a whole frame did.
    proxy.cut_streams(lambda: (chance.randrange(4), chance.random()) if proxy.cuts < CUTS else None)
    proxy.cut()
    thread.say("count")
    thread.ended(1, "cut_off")
    assert proxy.cuts == CUTS, seed
    said = thread.words(1).split()
    assert said == [word for number in range(len(said) // 2) for word in ("tick", str(number))], seed
    steps = [" ".join(sample.replies[0].split()) for sample in thread.of(1) if sample.replies]
    assert all(after.startswith(before) for before, after in pairwise(steps)), seed
    (turn,) = server.turns(chat)
    assert thread.words(1).strip() == turn["message"].strip()


def test_reload_in_the_middle_of_a_reply(at: Open, server: Server) -> None:
    """A page that is loaded anew has at once what was said, and goes on from there."""
    thread = at("halfway")
    thread.say("speak")
    thread.writes(1, MIDDLE)
    said = thread.words(1).partition(MIDDLE)[0] + MIDDLE  # more may have come
    thread.page.reload()
    thread.ready()
    thread.writes(1, MIDDLE)
    assert thread.words(1).startswith(said)
    server.gate.touch()
    thread.ended(1)
    assert thread.words(1).count(END) == 1
    assert thread.words(1).count(MIDDLE) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, *([signal.SIGTERM] if SOAK else [])], ids=lambda it: it.name)
def test_the_server_ends_in_the_middle_of_a_reply(
    at: Open, own_server: Callable[..., Server], how: signal.Signals
) -> None:
    """The turn is then marked as cut off with what was said, and the page, which was never left, asks the next one."""
    server = own_server()
    thread = at("halfway", of=server)
    thread.device.allow(CUT, ENDING)
    thread.say("speak")
    thread.writes(1, MIDDLE)
    server.end(how)
    server.start()
    thread.ended(1, "cut_off")
    expect(thread.reply(1)).to_contain_text(MIDDLE)
    expect(thread.turn(1).locator(".outcome")).to_contain_text("cut off")
    assert END not in thread.words(1)
    server.gate.touch()
    thread.button("Go on").click()
    thread.ended(2)
    expect(thread.turn(2).locator(".prompt")).to_have_text("Go on where you stopped.")
    expect(thread.reply(2)).to_contain_text(END)
    assert thread.turn(1).count() == thread.turn(2).count() == 1


def test_two_tabs_agree(at: Open, server: Server) -> None:
    """What is asked in one tab is seen in the other: the prompt, the growing reply, the message."""
    first = at("halfway")
    second = Thread(first.device, server).go(first.chat)
    first.say("speak to both")
    for tab in (first, second):
        expect(tab.turn(1).locator(".prompt")).to_have_text("speak to both")
        tab.writes(1, MIDDLE)
    server.gate.touch()
    for tab in (first, second):
        tab.ended(1)
    assert first.words(1) == second.words(1)
    second.ask("from the other", 2)
    expect(first.turn(2).locator(".prompt")).to_have_text("from the other")
    first.ended(2)
    assert first.words(2) == second.words(2)


def test_the_page_is_closed_and_opened_again(at: Open, server: Server) -> None:
    """A page that was closed while the agent worked finds the chat in the list, and all of it in the chat."""
    thread = at("halfway")
    thread.say("speak on")
    thread.writes(1, MIDDLE)
    thread.page.close()
    server.gate.touch()
    again = Thread(thread.device, server).go()
    again.page.get_by_role("link", name=re.compile("speak on")).first.click()
    again.ended(1)
    assert again.words(1).count(END) == 1


def test_another_device_finds_everything(at: Open, devices: Callable[..., Device], server: Server) -> None:
    """A browser with a link of its own sees the reply where it is, goes on with it, and can ask too."""
    first = at("halfway")
    first.say("speak everywhere")
    first.writes(1, MIDDLE)
    phone = Thread(devices(viewport={"width": 390, "height": 844}, has_touch=True), server).enter(first.chat)
    phone.writes(1, MIDDLE)
    assert phone.words(1) == first.words(1)
    server.gate.touch()
    phone.ended(1)
    first.ended(1)
    assert phone.words(1) == first.words(1)
    phone.composer.fill("from the phone")
    phone.button("Send").click()
    expect(first.turn(2).locator(".prompt")).to_have_text("from the phone")
    phone.ended(2)


def test_offline_and_back(server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]) -> None:
    """A line that is gone for seconds is told of, quietly; when it is back the page has what was said meanwhile."""
    proxy, device = proxies(server), devices()
    device.allow(CUT)
    server.gate.unlink(missing_ok=True)
    thread = Thread(device, server, base=proxy.url).enter(server.chat("halfway"))
    thread.say("speak")
    thread.writes(1, MIDDLE)
    proxy.fall()
    banner = thread.page.locator(".banner")
    expect(banner).to_be_visible(timeout=PATIENCE)
    expect(banner).to_contain_text("Nothing is lost")
    expect(thread.reply(1)).to_contain_text(MIDDLE)
    server.gate.touch()
    proxy.rise()
    thread.ended(1)
    expect(banner).to_have_count(0)
    assert thread.words(1).count(END) == 1


def test_a_message_that_is_sent_while_the_line_is_cut(
    server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]
) -> None:
    """A message that cannot be sent waits, is sent when the line is back, and is one turn."""
    proxy, device = proxies(server), devices()
    device.allow(CUT)
    chat = server.chat("quick")
    thread = Thread(device, server, base=proxy.url).enter(chat)
    proxy.fall()
    thread.say("can you hear me?")
    expect(thread.page.locator(".unsent .prompt")).to_have_text("can you hear me?")
    proxy.rise()
    thread.ended(1)
    expect(thread.page.locator(".unsent")).to_have_count(0)
    assert [turn["prompt"] for turn in server.turns(chat)] == ["can you hear me?"]


def test_an_answer_that_is_lost_makes_no_second_turn(
    server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]
) -> None:
    """Where the line breaks behind a message that was taken, the page sends it again, and it is the same turn."""
    proxy, device = proxies(server), devices()
    device.allow(CUT)
    chat = server.chat("quick")
    thread = Thread(device, server, base=proxy.url).enter(chat)
    proxy.lose("/turns", LOST)
    thread.ask("once, please")
    expect(thread.page.locator(".unsent")).to_have_count(0)
    thread.ask("and another", 2)
    for _ in range(PATIENCE // 100):
        if proxy.asked[f"/api/chats/{chat}/turns"] == LOST + 2:  # and each message has had an answer
            break
        thread.page.wait_for_timeout(100)
    assert [turn["prompt"] for turn in server.turns(chat)] == ["once, please", "and another"]


def test_a_stop_waits_for_the_line(
    server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]
) -> None:
    """Stop without a line says that it waits, and stops the turn that was seen once the line is back."""
    proxy, device = proxies(server), devices()
    device.allow(CUT)
    server.gate.unlink(missing_ok=True)
    thread = Thread(device, server, base=proxy.url).enter(server.chat("halfway"))
    thread.say("speak")
    thread.writes(1, MIDDLE)
    proxy.fall()
    thread.composer.press("Escape")
    note = thread.page.get_by_text("The turn is stopped once the server can be reached.")
    expect(note).to_be_visible()
    assert [turn["state"] for turn in server.turns(thread.chat)] == ["running"]
    proxy.rise()
    thread.ended(1, "cancelled")
    expect(note).to_have_count(0)


def test_a_first_message_whose_answer_is_lost_makes_one_chat(
    own_server: Callable[..., Server], devices: Callable[..., Device]
) -> None:
    """A chat that was made, and whose answer did not come, is the one that the second press opens."""
    server, device = own_server(), devices()
    device.allow(CUT, "status of 409")
    thread = Thread(device, server).enter()
    page = thread.page

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/api/chats", lose, times=1)
    page.get_by_label("Agent").select_option("quick")
    thread.say("once, please")
    thread.confirm()
    expect(page.locator(".start .wrong")).to_contain_text("Penstock is not running")
    expect(thread.composer).to_have_value("once, please")
    thread.composer.press("Enter")
    page.wait_for_url("**/chats/*")
    thread.ended(1)
    (chat,) = server.ask("GET", "/api/chats")["chats"]
    assert page.url.endswith(chat["id"])
    assert [turn["prompt"] for turn in server.turns(chat["id"])] == ["once, please"]


def test_the_browser_knows_that_it_is_offline(
    own_server: Callable[..., Server], devices: Callable[..., Device]
) -> None:
    """A browser without a network says so, where the server is elsewhere, and the page comes back with it."""
    server, device = own_server(flags=["--allow-host=penstock.test"]), devices()
    device.allow(CUT, "Cross-Origin-Opener-Policy")  # the name is not this machine's, and there is no TLS
    thread = Thread(device, server, base=f"http://penstock.test:{server.port}").enter(server.chat("halfway"))
    thread.say("speak")
    thread.writes(1, MIDDLE)
    thread.device.context.set_offline(True)
    expect(thread.page.locator(".banner")).to_contain_text("You are offline", timeout=PATIENCE)
    server.gate.touch()
    thread.device.context.set_offline(False)
    thread.ended(1)
    expect(thread.page.locator(".banner")).to_have_count(0)
    assert thread.words(1).count(END) == 1


def test_a_cut_too_short_to_notice(
    server: Server, devices: Callable[..., Device], proxies: Callable[[Server], Proxy]
) -> None:
    """One cut is mended without a word about it."""
    proxy, device = proxies(server), devices()
    device.allow(CUT)
    server.gate.unlink(missing_ok=True)
    thread = Thread(device, server, base=proxy.url).enter(server.chat("halfway"))
    thread.say("speak")
    thread.writes(1, MIDDLE)
    thread.page.evaluate(
        """() => {
            window.banners = 0;
            new MutationObserver(() => { window.banners += document.querySelectorAll(".banner").length; })
                .observe(document.body, { childList: true, subtree: true });
        }"""
    )
    proxy.cut()
    server.gate.touch()
    thread.ended(1)
    assert thread.page.evaluate("() => window.banners") == 0
    assert thread.words(1).count(END) == 1
