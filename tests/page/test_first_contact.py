"""The first hour with the page: signing in where one is, reading where one wants, and words that fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import pytest
from chatpage.device import CUT, Device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import Page, Route, expect

Open = Callable[..., Thread]
EARLY_MS = 700
"""Milliseconds after which a key answers a question, and some more."""
UNAUTHORIZED = re.compile(r"Failed to load resource: the server responded with a status of 401")
ENDING = "the server responded with a status of 503"
MIDDLE = "CJK"
TOP = "element => element.scrollTop"
SHORT = {"width": 900, "height": 420}


# --- signing in where one is ---


@pytest.mark.parametrize("where", ["home", "chat", "record"])
@pytest.mark.parametrize("how", ["link", "token"])
def test_sign_in_in_the_tab_that_asks_for_it(
    server: Server, devices: Callable[..., Device], where: str, how: str
) -> None:
    """The link, opened in the tab that says "Sign in", or the token pasted there, leads to what the tab asks for."""
    chat = server.chat("quick")
    server.prompt(chat, "hello")
    path = {"home": "/", "chat": f"/chats/{chat}", "record": f"/chats/{chat}/turns/1"}[where]
    shown = {"home": ".start", "chat": ".thread[data-ready=true]", "record": ".record .items"}[where]
    device = devices()
    device.allow(UNAUTHORIZED)
    page = device.page()
    page.goto(server.url + path)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    if how == "link":
        page.goto(
            f"{server.url}{path}#{urlsplit(server.link()).fragment}"
        )  # the same address: the page is not loaded anew
    else:
        page.get_by_label("Link or token").fill(server.token)
        page.get_by_role("button", name="Sign in").click()
    expect(page.locator(shown)).to_be_visible(timeout=PATIENCE)
    assert urlsplit(page.url).path == path
    assert "code" not in page.url


def test_a_wrong_token_is_an_error_that_is_seen(server: Server, devices: Callable[..., Device]) -> None:
    """What went wrong has the colour of an error also on pages of their own."""
    device = devices()
    device.allow(UNAUTHORIZED)
    page = device.page()
    page.goto(server.url)
    page.get_by_label("Link or token").fill("not the token")
    page.get_by_role("button", name="Sign in").click()
    wrong = page.locator(".wrong")
    expect(wrong).to_be_visible()
    expected = """element => {
        const probe = document.body.appendChild(document.createElement("span"));
        probe.className = "wrong";
        return getComputedStyle(probe).color;
    }"""
    assert wrong.evaluate("element => getComputedStyle(element).color") == wrong.evaluate(expected)


# --- reading where one wants ---


def _deep_thread(at: Open, server: Server) -> Thread:
    """A thread of some turns that is at its end, none of which grows."""
    thread = at("prose", viewport=SHORT)
    server.gate.touch()
    for number in (1, 2):
        thread.ask("speak at length", number)
    expect(thread.button("Latest")).to_have_count(0)
    return thread


def test_the_focus_is_always_seen(at: Open, server: Server) -> None:
    """Shift+Tab from the composer goes up through the thread, which scrolls with it."""
    thread = _deep_thread(at, server)
    thread.composer.focus()
    seen = """() => {
        const box = document.activeElement.getBoundingClientRect();
        return box.bottom > 0 && box.top < window.innerHeight;
    }"""
    for _ in range(14):
        thread.page.keyboard.press("Shift+Tab")
        if thread.page.evaluate("() => Boolean(document.activeElement.closest('.thread .column'))"):
            thread.page.wait_for_function(seen)
    expect(thread.button("Latest")).to_be_visible()


def test_no_ring_around_the_conversation_after_a_click_and_a_key(at: Open, server: Server) -> None:
    """Who clicks and presses a key sees no ring around all that is said; who comes with the keyboard sees one."""
    thread = _deep_thread(at, server)
    ring = "element => getComputedStyle(element).outlineStyle"
    thread.turn(2).locator(".prompt").click()
    thread.page.keyboard.press("ArrowUp")
    expect(thread.scroller).to_be_focused()
    assert thread.scroller.evaluate(ring) == "none"
    thread.composer.click()
    for _ in range(30):
        thread.page.keyboard.press("Shift+Tab")
        if thread.scroller.evaluate("element => element === document.activeElement"):
            break
    assert thread.scroller.evaluate(ring) == "solid"


WAYS = {
    "find in page": """() => {
        window.find("It has no clock", true, true);
        getSelection().anchorNode.parentElement.scrollIntoView({ block: "center" });
    }""",
    "screen reader": "() => document.querySelector('.turn .prompt').scrollIntoView()",
    "step by step": "() => document.querySelector('.turn .prompt').scrollIntoView({ behavior: 'smooth' })",
    "a little": "() => { document.querySelector('.thread').scrollTop -= 20 }",
}
"""What scrolls without a wheel, a finger or a key in the thread."""


def _at_rest(thread: Thread) -> float:
    """The position of the thread, once it does not move any more."""
    rest = """() => new Promise((done) => {
        const scroller = document.querySelector(".thread");
        let [top, still] = [NaN, 0];
        const look = () => {
            still = scroller.scrollTop === top ? still + 1 : 0;
            top = scroller.scrollTop;
            if (still > 8) done(top);
            else requestAnimationFrame(look);
        };
        look();
    })"""
    return float(thread.page.evaluate(rest))


@pytest.mark.parametrize("way", WAYS)
def test_whatever_moves_the_thread_up_unpins_it(at: Open, server: Server, way: str) -> None:
    """Where the thread was moved to, whoever moved it, is where it stays; what grows below does not pull it down."""
    thread = _deep_thread(at, server)
    end = thread.scroller.evaluate(TOP)
    thread.page.evaluate(WAYS[way])
    expect(thread.button("Latest")).to_be_visible()
    top = _at_rest(thread)
    assert top < end
    server.gate.unlink()
    server.prompt(thread.chat, "speak again")
    thread.writes(3, "It has no clock, no")
    assert thread.scroller.evaluate(TOP) == top
    server.gate.touch()
    thread.ended(3)
    assert thread.scroller.evaluate(TOP) == top


def test_what_is_far_up_can_be_gone_to(at: Open, server: Server) -> None:
    """A turn that was not laid out yet gets its height once somebody goes there, and is still where one is."""
    thread = at("quick", viewport=SHORT)
    for number in range(1, 15):
        server.prompt(thread.chat, f"prompt {number}")
    thread.ended(14)
    thread.page.reload()
    thread.ready()
    expect(thread.turn(14)).to_be_in_viewport()
    expect(thread.turn(2)).to_have_attribute("data-far", "true")
    thread.page.evaluate("() => document.querySelector('[data-turn=\"2\"] .to-record').focus()")
    expect(thread.turn(2).locator(".to-record")).to_be_in_viewport()
    expect(thread.button("Latest")).to_be_visible()
    _at_rest(thread)
    expect(thread.turn(2).locator(".to-record")).to_be_in_viewport()


def test_a_selection_beyond_the_edge_scrolls(at: Open, server: Server) -> None:
    """The mouse selects upwards beyond what is seen, and the thread goes with it."""
    thread = _deep_thread(at, server)
    end = thread.scroller.evaluate(TOP)
    box = thread.scroller.bounding_box()
    assert box is not None
    mouse = thread.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    mouse.move(box["x"] + box["width"] / 2, 1, steps=5)
    thread.page.wait_for_function("end => document.querySelector('.thread').scrollTop < end - 200", arg=end)
    mouse.up()
    expect(thread.button("Latest")).to_be_visible()


def test_the_end_is_followed_again_from_the_bottom(at: Open, server: Server) -> None:
    """Back at the bottom, by whatever way, or with a message of one's own, the thread follows again."""
    thread = _deep_thread(at, server)
    up = "() => { document.querySelector('.thread').scrollTop = 0 }"
    thread.page.evaluate(up)
    expect(thread.button("Latest")).to_be_visible()
    thread.page.evaluate("() => { document.querySelector('.thread').scrollTop = 1e6 }")
    expect(thread.button("Latest")).to_have_count(0)
    thread.page.evaluate(up)
    expect(thread.button("Latest")).to_be_visible()
    thread.ask("my own", 3)
    expect(thread.button("Latest")).to_have_count(0)
    expect(thread.turn(3).locator(".facts")).to_be_in_viewport()


def test_layout_alone_unpins_nothing(at: Open, server: Server) -> None:
    """A window that changes its size, and a thread that becomes shorter, leave the thread at its end."""
    thread = _deep_thread(at, server)
    for height in (700, 380, 560):
        thread.page.set_viewport_size({"width": 820, "height": height})
        expect(thread.turn(2).locator(".facts")).to_be_in_viewport()
    thread.page.evaluate("() => { document.querySelector('.turn').style.display = 'none' }")
    thread.composer.fill("\n" * 6)
    expect(thread.turn(2).locator(".facts")).to_be_in_viewport()
    thread.composer.fill("")
    expect(thread.turn(2).locator(".facts")).to_be_in_viewport()
    expect(thread.button("Latest")).to_have_count(0)


# --- messages, and a line that is cut ---


def _hold_back(page: Page) -> Callable[[], None]:
    """Let no message through to the server; gives what lets them through."""

    def abort(route: Route) -> None:
        if route.request.method == "POST":
            route.abort()
        else:
            route.continue_()

    page.route("**/turns", abort)
    return lambda: page.unroute("**/turns")


def test_messages_wait_for_the_connection_over_a_reload(at: Open, server: Server) -> None:
    """Messages that cannot be sent say that they wait, are there after a reload, and are then sent by themselves."""
    thread = at("quick")
    thread.device.allow(CUT)
    release = _hold_back(thread.page)
    thread.say("first")
    unsent = thread.page.locator(".unsent")
    expect(unsent).to_contain_text("Waits for the connection", timeout=PATIENCE)
    thread.say("second")
    thread.page.reload()
    thread.ready()
    expect(unsent.locator(".prompt")).to_have_text(["first", "second"])
    expect(unsent.first).to_contain_text("Waits for the connection", timeout=PATIENCE)
    release()
    thread.ended(1)
    thread.ended(2)
    expect(unsent).to_have_count(0)
    assert [turn["prompt"] for turn in server.turns(thread.chat)] == ["first", "second"]


def test_a_message_is_sent_though_another_chat_is_open(at: Open, server: Server) -> None:
    """A message goes on being sent when one looks at something else."""
    thread = at("quick")
    thread.device.allow(CUT)
    release = _hold_back(thread.page)
    thread.say("from afar")
    expect(thread.page.locator(".unsent")).to_contain_text("Waits for the connection", timeout=PATIENCE)
    thread.page.get_by_role("link", name="New chat", exact=True).click()
    expect(thread.page.locator(".start")).to_be_visible()
    release()
    entry = thread.page.locator(f"[data-chat='{thread.chat}']")
    expect(entry).to_contain_text("from afar", timeout=PATIENCE)
    assert [turn["prompt"] for turn in server.turns(thread.chat)] == ["from afar"]


def test_a_message_that_waits_can_be_edited(at: Open, server: Server) -> None:
    """A message that waits for the connection can be taken back into the composer."""
    thread = at("quick")
    thread.device.allow(CUT)
    release = _hold_back(thread.page)
    thread.say("frist")
    thread.page.locator(".unsent").get_by_role("button", name="Edit").click()
    expect(thread.composer).to_have_value("frist")
    expect(thread.page.locator(".unsent")).to_have_count(0)
    release()
    thread.ask("first")
    assert [turn["prompt"] for turn in server.turns(thread.chat)] == ["first"]


def test_a_server_that_is_not_running(at: Open, own_server: Callable[..., Server]) -> None:
    """A page of this machine whose server is gone says that Penstock is not running and how it is started."""
    server = own_server()
    thread = at("halfway", of=server)
    thread.device.allow(CUT, ENDING)
    thread.say("speak")
    thread.writes(1, MIDDLE)
    server.end()
    banner = thread.page.locator(".banner")
    expect(banner).to_contain_text("Penstock is not running", timeout=PATIENCE)
    expect(banner.locator("code")).to_have_text("penstock serve")
    server.start()
    expect(banner).to_have_count(0, timeout=PATIENCE)
    thread.ended(1, "cut_off")


def test_this_machine_is_never_offline(at: Open, server: Server) -> None:
    """A browser without a network still reaches the server on its own machine, and the page does not doubt it."""
    thread = at("halfway")
    thread.say("speak")
    thread.writes(1, MIDDLE)
    thread.page.evaluate(
        """() => {
            Object.defineProperty(navigator, "onLine", { get: () => false });
            window.banners = 0;
            new MutationObserver(() => { window.banners += document.querySelectorAll(".banner").length; })
                .observe(document.body, { childList: true, subtree: true });
            const before = window.fetch;
            window.streams = 0;
            window.fetch = (url, ...rest) => {
                window.streams += String(url).includes("/events");
                return before(url, ...rest);
            };
            window.dispatchEvent(new Event("offline"));
        }"""
    )
    server.gate.touch()
    thread.ended(1)
    assert thread.page.evaluate("() => [window.banners, window.streams]") == [0, 0]


# --- what is seen of a turn ---


def test_an_idle_chat_waits_for_nobody(at: Open) -> None:
    """A message to a chat that is idle never says that it waits for its turn."""
    thread = at("quick")
    thread.page.evaluate(
        """() => {
            window.waited = 0;
            const look = () => { window.waited += document.body.textContent.includes("Waits for the turn before it"); };
            new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
        }"""
    )
    for number in range(1, 6):
        thread.ask("hello", number)
    assert thread.page.evaluate("() => window.waited") == 0


def test_the_focus_is_never_lost_with_the_button_that_had_it(at: Open) -> None:
    """Escape with the focus on Stop, and a button that goes with what it is for, leave the focus in the composer."""
    thread = at("halfway")
    thread.say("first")
    thread.writes(1, MIDDLE)
    thread.say("second")
    back = thread.turn(2).get_by_role("button", name="Take back")
    back.focus()
    thread.page.keyboard.press("Enter")
    expect(thread.turn(2)).to_have_count(0)
    expect(thread.composer).to_be_focused()
    expect(thread.composer).to_have_value("second")
    thread.button("Stop").focus()
    thread.page.keyboard.press("Escape")
    thread.ended(1, "cancelled")
    expect(thread.button("Stop")).to_have_count(0)
    expect(thread.composer).to_be_focused()


def test_days_and_times(at: Open, server: Server) -> None:
    """Each day of a thread but today has a heading; a prompt and a reply have a time, whose title says all of it."""
    thread = at("quick")
    thread.ask("hello")
    asked = thread.turn(1).locator(".asked time")
    done = thread.turn(1).locator(".facts time")
    for time in (asked, done):
        expect(time).to_have_text(re.compile(r"^\d\d:\d\d$"))
        expect(time).to_have_attribute("title", re.compile(r"^\w+,? \d+ \w+ \d{4}.*\d\d:\d\d:\d\d"))
    expect(thread.page.locator(".day")).to_have_count(0)
    thread.page.clock.set_system_time("2031-03-04T12:00:00")
    thread.page.reload()
    thread.ready()
    expect(thread.page.locator(".day")).to_have_text([re.compile(r"^\w+,? \d+ \w+ \d{4}$")])
    thread.page.clock.set_system_time(datetime.now() + timedelta(days=1))
    thread.page.reload()
    thread.ready()
    thread.ask("and today", 2)
    expect(thread.page.locator(".day")).to_have_text(["Yesterday"])  # the server's clock is not the browser's


def test_a_reply_that_met_the_limit_goes_on(at: Open) -> None:
    """A reply that the model's limit cut says so, with a button that asks the agent to go on."""
    thread = at("limit")
    thread.ask("be long", outcome="error")
    expect(thread.turn(1).locator(".outcome")).to_have_text("It stopped at the model's output limit.")
    expect(thread.reply(1)).to_contain_text(re.compile(r"\w"))
    thread.turn(1).get_by_role("button", name="Go on").click()
    expect(thread.turn(2).locator(".prompt")).to_have_text("Go on where you stopped.")
    expect(thread.turn(1).get_by_role("button", name="Go on")).to_have_count(0)


def test_forced_colours(at: Open, server: Server) -> None:
    """Where the system sets the colours, a border marks the chat that is open, and each prompt."""
    thread = at("quick")
    thread.ask("hello")
    server.chat("quick")
    thread.page.emulate_media(forced_colors="active")
    for marked in (thread.turn(1).locator(".prompt"), thread.page.locator(".entries [aria-current]")):
        expect(marked).to_have_css("border-top-width", re.compile(r"^[1-9]"))


def test_plain_words(at: Open, devices: Callable[..., Device], server: Server) -> None:
    """The page speaks as a person would, and shows no backticks of a command."""
    thread = at("missing")
    thread.say("hello?")
    expect(thread.turn(1)).to_have_attribute("data-outcome", "error", timeout=PATIENCE)
    thread.page.get_by_role("link", name="New chat", exact=True).click()
    expect(thread.page.get_by_role("heading", name="What would you like to do?")).to_be_visible()
    expect(thread.page.locator(".start-note")).not_to_contain_text("needs your word")


# --- answers ---


@pytest.mark.parametrize(("typed", "id"), [("yes, once", "once"), ("y", "once"), ("2", "always"), ("No", "never")])
def test_the_composer_answers(at: Open, typed: str, id: str) -> None:
    """Words in the composer are the answer to the question that the turn waits with: no message, and no other turn."""
    thread = at("peer")
    thread.say("permission")
    hint = thread.turn(1).locator(".hint")
    expect(hint.get_by_role("heading")).to_have_text("The agent asks to change a file")
    thread.say(typed)
    thread.ended(1)
    expect(thread.reply(1)).to_have_text(f"asked: {id}")
    expect(thread.page.locator(".turn")).to_have_count(1)
    expect(thread.composer).to_have_value("")


def test_words_that_are_no_answer_stay(at: Open) -> None:
    """Where the agent takes no words of one's own, the page says so, and the words are still there."""
    thread = at("peer")
    thread.say("permission")
    expect(thread.turn(1).locator(".hint")).to_be_visible()
    thread.say("only those of last year")
    expect(thread.page.locator(".composer").get_by_role("alert")).to_contain_text("takes only the answers above")
    expect(thread.composer).to_have_value("only those of last year")
    expect(thread.page.locator(".turn")).to_have_count(1)
    thread.say("n")
    thread.ended(1)
    expect(thread.page.locator(".composer").get_by_role("alert")).to_have_count(0)


def test_what_was_being_written_answers_nothing(at: Open, server: Server) -> None:
    """A text that was begun before the question came is no answer to it until Enter is pressed once more."""
    thread = at("peer")
    thread.composer.fill("y")
    server.prompt(thread.chat, "permission")
    expect(thread.turn(1).locator(".hint")).to_be_visible()
    thread.composer.press("Enter")
    note = thread.page.locator(".composer").get_by_role("alert")
    expect(note).to_contain_text("while you were writing")
    expect(thread.composer).to_have_value("y")
    thread.runs(1)
    thread.composer.press("Enter")
    thread.ended(1)
    expect(thread.reply(1)).to_have_text("asked: once")
    expect(note).to_have_count(0)


def test_numbers_are_keys(at: Open) -> None:
    """Outside of a field, a number presses the answer that has it; the answers stand in one order, by what they do."""
    thread = at("peer")
    thread.say("permission")
    buttons = thread.turn(1).locator(".hint").get_by_role("button")
    expect(buttons).to_have_count(3)
    kinds = buttons.evaluate_all("all => all.map((it) => [it.dataset.kind, it.classList.contains('primary')])")
    assert kinds == [["allow_once", True], ["allow_always", False], ["reject_once", False]]
    thread.scroller.focus()
    thread.page.wait_for_timeout(EARLY_MS)
    thread.page.keyboard.press("3")
    thread.ended(1)
    expect(thread.reply(1)).to_have_text("asked: never")


def test_two_tabs_answer_one_question(at: Open, server: Server) -> None:
    """The tab whose answer comes second says that the question was answered; so does its composer."""
    first = at("peer")
    first.device.allow(re.compile("status of 409"))
    second = Thread(first.device, server).go(first.chat)
    first.say("permission")
    held: list[Route] = []
    second.page.route("**/questions", lambda route: held.append(route))
    second.turn(1).get_by_role("button", name="No", exact=True).click()
    for _ in range(100):
        if held:
            break
        second.page.wait_for_timeout(50)
    first.turn(1).get_by_role("button", name="Yes, once").click()
    first.ended(1)
    second.ended(1)
    held[0].continue_()
    expect(second.page.locator(".composer").get_by_role("alert")).to_contain_text("already answered")
    expect(second.reply(1)).to_have_text("asked: once")
    second.say("hello")
    expect(second.page.locator(".composer").get_by_role("alert")).to_have_count(0)
