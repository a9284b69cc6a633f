"""What a person does on the page: stop, wait, answer, choose, find, leave."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chatpage import cast
from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import Locator, expect

Open = Callable[..., Thread]
MIDDLE = "CJK"
HURRIED = (sys.executable, str(Path(cast.__file__).with_name("hurried.py")))
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4")
"""What the browser says of an answer that the test asks for."""


# --- stop, and wait ---


@pytest.mark.parametrize("how", ["button", "escape"])
def test_stop(at: Open, how: str) -> None:
    """Stop, or Escape while the composer has the focus, ends the turn; what was said stays, marked."""
    thread = at("halfway")
    thread.say("speak")
    thread.writes(1, MIDDLE)
    if how == "button":
        thread.button("Stop").click()
    else:
        expect(thread.composer).to_be_focused()
        thread.page.keyboard.press("Escape")
    thread.ended(1, "cancelled")
    expect(thread.reply(1)).to_contain_text(MIDDLE)
    expect(thread.turn(1).locator(".outcome")).to_contain_text("Stopped")
    expect(thread.button("Stop")).to_have_count(0)
    expect(thread.composer).to_be_focused()


# --- questions ---


@pytest.mark.parametrize(("answer", "id"), [("Yes, once", "once"), ("No", "never")])
def test_a_question_that_the_agent_waits_for(at: Open, answer: str, id: str) -> None:
    """The question stands with a button for each answer; the one that is pressed goes to the agent, which goes on."""
    thread = at("peer")
    thread.say("permission")
    hint = thread.turn(1).locator(".hint")
    expect(hint).to_contain_text("Remove all")
    expect(hint.locator(".options button")).to_have_count(3)
    names = ["Yes, once", "Always (more than this)", "No"]
    for button, name in zip(hint.locator(".options button").all(), names, strict=True):
        expect(button).to_have_accessible_name(name)
    hint.get_by_role("button", name=answer, exact=True).click()
    thread.ended(1)
    expect(thread.reply(1)).to_have_text(f"asked: {id}")
    expect(thread.page.locator(".hint")).to_have_count(0)


def test_a_question_is_seen_in_the_list_and_answered_after_a_reload(at: Open) -> None:
    """A question waits as long as it takes: the list shows it, and a page that is loaded anew has its buttons."""
    thread = at("peer")
    thread.say("permission")
    expect(thread.turn(1).locator(".hint")).to_be_visible()
    thread.page.get_by_role("link", name="New chat", exact=True).click()
    entry = thread.page.locator(f"[data-chat='{thread.chat}']")
    expect(entry).to_have_attribute("data-dot", "asks", timeout=PATIENCE)
    thread.page.reload()
    thread.page.locator(f"[data-chat='{thread.chat}']").click()
    thread.button("Always (more than this)").click()
    thread.ended(1)
    expect(thread.reply(1)).to_have_text("asked: always")


def test_a_question_that_the_next_turn_answers(at: Open) -> None:
    """Where the agent cannot wait, the button's answer is the prompt of the next turn."""
    thread = at("lost")
    thread.ask("which?")
    thread.button(cast.CHOICES[1]).click()
    expect(thread.turn(2).locator(".prompt")).to_have_text(cast.CHOICES[1])
    expect(thread.turn(2).locator(".asked")).to_have_attribute("data-by", "answer")
    thread.ended(2)
    expect(thread.turn(1).locator(".hint")).to_have_count(0)


def test_a_question_that_is_answered_by_a_message(at: Open) -> None:
    """One may say something else than the answers; the question then stands no more."""
    thread = at("lost")
    thread.ask("which?")
    thread.ask("neither of them", 2)
    expect(thread.turn(2).locator(".prompt")).to_have_text("neither of them")
    expect(thread.turn(1).locator(".hint")).to_have_count(0)


# --- heartbeat ---


def test_a_heartbeat_is_set_and_comes(at: Open, own_server: Callable[..., Server]) -> None:
    """A heartbeat that is set on the page asks by itself, and is shown as one."""
    server = own_server(program=HURRIED)
    thread = at("quick", of=server)
    thread.ask("hello")
    thread.button("Chat menu").click()
    thread.page.get_by_role("menuitem", name="Heartbeat").click()
    dialog = thread.page.get_by_role("dialog", name="Heartbeat")
    dialog.get_by_label("On", exact=True).check()
    dialog.get_by_label("Every").fill("1")
    dialog.get_by_label("Ask").fill("Anything new?")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(thread.button("Heartbeat: every 1 minutes")).to_be_visible()
    expect(thread.turn(2).locator(".beat")).to_contain_text("Heartbeat", timeout=PATIENCE)
    thread.ended(2)
    thread.turn(2).locator("summary").click()
    expect(thread.turn(2).locator(".prompt")).to_have_text("Anything new?")


def test_a_heartbeat_yields_to_a_person(at: Open, own_server: Callable[..., Server]) -> None:
    """A message that comes while the heartbeat's turn runs ends that turn, and is answered at once."""
    server = own_server(program=HURRIED)
    thread = at("halfway", of=server)
    beat = {"minutes": 1, "prompt": "Anything new?"}
    server.ask("PATCH", f"/api/chats/{thread.chat}", {"heartbeat": beat})
    expect(thread.turn(1).locator(".beat")).to_contain_text("Heartbeat", timeout=PATIENCE)
    thread.writes(1, MIDDLE)
    server.ask("PATCH", f"/api/chats/{thread.chat}", {"heartbeat": None})
    thread.say("me first")
    thread.ended(1, "cancelled")
    server.gate.touch()
    thread.ended(2)
    expect(thread.turn(2).locator(".prompt")).to_have_text("me first")
    expect(thread.turn(2).locator(".asked")).to_have_attribute("data-by", "person")


# --- chats ---


def test_a_first_chat_from_the_empty_page(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """The empty page offers a message, an agent and a directory, which is asked about once; then the agent works."""
    server = own_server(trusted=False)
    device = devices()
    device.allow(REFUSED)  # the directory is not trusted yet
    thread = Thread(device, server)
    thread.page.goto(server.printed)
    expect(thread.page.get_by_role("heading", name="What would you like to do?")).to_be_visible()
    expect(thread.page.locator(".side")).to_contain_text("No chats yet")
    assert "code=" not in thread.page.url
    thread.page.get_by_label("Agent").select_option("tools")
    thread.say("Fix the failing test")
    thread.confirm()
    trust = thread.page.get_by_role("dialog", name="Do you trust this directory?")
    expect(trust).to_contain_text(str(server.root))
    trust.get_by_role("button", name="Trust", exact=True).click()
    thread.ended(1)
    expect(thread.page.get_by_role("heading", name="Fix the failing test")).to_be_visible()
    expect(thread.page.locator(".entry-title")).to_have_text(["Fix the failing test"])
    assert [chat["agent"] for chat in server.ask("GET", "/api/chats")["chats"]] == ["tools"]


def test_trust_that_is_not_given(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """Who does not trust the directory has no chat, and still has the message."""
    server = own_server(trusted=False)
    device = devices()
    device.allow(REFUSED)
    thread = Thread(device, server).enter()
    thread.say("Fix it")
    thread.confirm()
    thread.page.get_by_role("dialog", name="Do you trust").get_by_role("button", name="Cancel").click()
    expect(thread.composer).to_have_value("Fix it")
    assert server.ask("GET", "/api/chats")["chats"] == []


def test_rename_and_settings(at: Open, server: Server) -> None:
    """A chat gets another title, model, effort and permission, and the list says so."""
    thread = at("peer")
    server.ask("PATCH", f"/api/chats/{thread.chat}", {"effort": "low"})
    thread.go(thread.chat)
    thread.button("Chat menu").click()
    thread.page.get_by_role("menuitem", name="Rename and settings").click()
    dialog = thread.page.get_by_role("dialog", name="This chat")
    dialog.get_by_label("Title").fill("A <b>better</b> name")
    dialog.get_by_label("Model").fill("opus")
    expect(dialog.get_by_label("Effort")).to_have_value("low")
    dialog.get_by_label("Effort").fill(" high ")
    dialog.get_by_label("Edits files").check()
    dialog.get_by_role("button", name="Save").click()
    expect(thread.page.get_by_role("heading", level=1)).to_have_text("A <b>better</b> name")
    expect(thread.page.locator(f"[data-chat='{thread.chat}'] .entry-title")).to_have_text("A <b>better</b> name")
    chat = server.ask("GET", f"/api/chats/{thread.chat}")
    assert (chat["model"], chat["effort"], chat["allow"]) == ("opus", "high", "edits")


def test_a_chat_is_deleted_while_another_tab_shows_it(at: Open, server: Server) -> None:
    """The tab that deletes it is back at the beginning; the other one says that it was deleted, or is not there.

    The tab that leaves the chat begins the stream of both tabs anew: it may do so before the frame of the end was read.
    """
    thread = at("halfway")
    other = Thread(thread.device, server).go(thread.chat)
    thread.say("speak")
    other.writes(1, MIDDLE)
    thread.page.bring_to_front()
    thread.button("Chat menu").click()
    thread.page.get_by_role("menuitem", name="Delete").click()
    thread.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(thread.page.locator(".start")).to_be_visible()
    gone = re.compile("^(This chat was deleted|There is no such chat)$")
    expect(other.page.get_by_role("heading", name=gone)).to_be_visible(timeout=PATIENCE)
    assert all(chat["id"] != thread.chat for chat in server.ask("GET", "/api/chats")["chats"])


@pytest.mark.parametrize("path", ["/chats/nobody-knows-it", "/chats/nobody-knows-it/turns/7"])
def test_an_address_that_leads_nowhere(at: Open, path: str) -> None:
    """An unknown chat or turn is a page that says so, with a way back."""
    thread = at("quick")
    thread.device.allow(REFUSED)
    thread.page.goto(thread.base + path)
    expect(thread.page.get_by_role("heading", level=1)).to_have_text(re.compile("no such|nothing here"))
    expect(thread.page.get_by_role("link", name=re.compile("Start a new chat|Go back"))).to_be_visible()


# --- signing in ---


def test_a_link_works_once(server: Server, devices: Callable[..., Device]) -> None:
    """A link that was used lets nobody else in; the browser that used it is not troubled when it opens it again."""
    link, first, second = server.link(), devices(), devices()
    for device in (first, second):
        device.allow(REFUSED)
    page = first.sign_in(link)
    expect(page.locator(".start")).to_be_visible()
    expect(second.sign_in(link).get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator(".start")).to_be_visible()


def test_a_wrong_code_and_the_token(server: Server, devices: Callable[..., Device]) -> None:
    """A wrong code leads to the sign-in page, which says so; the token or a link lets in, signing out leads back."""
    device = devices()
    device.allow(REFUSED)
    page = device.page()
    page.goto(f"{server.url}/#code=not-a-code")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="used before, or is too old")).to_be_visible()
    assert "code" not in page.url
    page.get_by_label("Link or token").fill("also wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text=re.compile("wrong", re.IGNORECASE))).to_be_visible()
    page.get_by_label("Link or token").fill(server.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".start")).to_be_visible()
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Link or token").fill(server.link())
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".start")).to_be_visible()
    cookies: Any = device.context.cookies()
    assert all(cookie["httpOnly"] and cookie["sameSite"] == "Strict" for cookie in cookies)
    assert cookies


def _link_dialog(thread: Thread) -> Locator:
    thread.button("More").click()
    thread.page.get_by_role("menuitem", name="Link for another device").click()
    return thread.page.get_by_role("dialog", name="Link for another device")


def test_a_link_from_this_machine(at: Open, devices: Callable[..., Device]) -> None:
    """Where only this machine can open the address, the page says so, with the commands that change it."""
    thread = at("quick")
    dialog = _link_dialog(thread)
    expect(dialog).to_contain_text("No other device can open this address")
    port = thread.server.port
    expect(dialog.locator("code").first).to_contain_text(f"ssh -L {port}:127.0.0.1:{port} ")
    expect(dialog.locator("code").last).to_contain_text("penstock serve --allow-host ")
    expect(dialog.get_by_role("button", name="Copy the command")).to_have_count(2)
    expect(dialog.get_by_role("img")).to_have_count(0)
    link = dialog.get_by_label("Link", exact=True)
    expect(link).to_have_value(re.compile(f"^http://127.0.0.1:{port}/#code="))
    page = devices().sign_in(link.input_value())
    expect(page.locator(".start")).to_be_visible()


def test_a_link_that_another_device_can_open(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """At a name that others reach, the link has that name; from this machine, it is the name that is allowed."""
    server, device = own_server(flags=["--allow-host=penstock.test"]), devices()
    device.allow("Cross-Origin-Opener-Policy")  # there is no TLS
    base = f"http://penstock.test:{server.port}"
    thread = Thread(device, server, base=base).enter()
    dialog = _link_dialog(thread)
    expect(dialog.get_by_label("Link", exact=True)).to_have_value(re.compile(f"^{base}/#code="))
    expect(dialog.locator("code")).to_have_count(0)
    expect(dialog.get_by_role("img", name="QR code of the link")).to_be_visible(timeout=PATIENCE)
    local = _link_dialog(Thread(devices(), server).enter())
    expect(local.get_by_label("Link", exact=True)).to_have_value(re.compile("^https://penstock.test/#code="))


# --- what goes wrong ---


def test_an_agent_that_is_not_installed(at: Open, server: Server, devices: Callable[..., Device]) -> None:
    """A chat whose agent is not there says so in its turn, with what to do."""
    thread = at("missing")
    thread.say("hello?")
    expect(thread.turn(1)).to_have_attribute("data-state", "completed", timeout=PATIENCE)
    expect(thread.turn(1)).to_have_attribute("data-outcome", "error")
    expect(thread.turn(1).locator(".outcome")).to_contain_text("/nowhere/at-all")


def test_a_message_that_is_too_long(at: Open, server: Server) -> None:
    """A message beyond the limit is not sent, and the page says by how much it is too long."""
    thread = at("quick")
    most = server.ask("GET", "/api/about")["max_prompt_bytes"]
    thread.composer.fill("ä" * (most // 2 + 1024))
    expect(thread.page.locator("#too-long")).to_contain_text("too long")
    thread.composer.press("Enter")
    expect(thread.page.locator(".turn")).to_have_count(0)
    thread.composer.fill("short")
    expect(thread.page.locator("#too-long")).to_have_count(0)


def test_a_draft_is_kept(at: Open, server: Server) -> None:
    """What was written and not sent is there after a reload, and in its own chat alone."""
    thread = at("quick")
    thread.composer.fill("half a thought")
    thread.page.reload()
    thread.ready()
    expect(thread.composer).to_have_value("half a thought")
    thread.go(server.chat("quick"))
    expect(thread.composer).to_have_value("")


# --- the record ---


def test_the_record_has_every_call_and_thought(at: Open) -> None:
    """Behind the reply lies the record: thoughts, calls with input and output, texts of all rounds, usage."""
    thread = at("thinktools")
    thread.ask("think and look")
    link = thread.turn(1).locator(".to-record")
    expect(link).to_have_text(re.compile(r"^\d+ steps, "))
    link.click()
    page = thread.page
    expect(page.get_by_role("heading", name="Details of turn 1")).to_be_visible()
    expect(page.locator("[data-kind=thinking] .thought")).to_have_text(["I need to look first.", "Now I know enough."])
    expect(page.locator("[data-kind=text]")).to_contain_text(["Looking.", "Finished thinking and tools. FINAL-REPLY."])
    call = page.locator("[data-kind=call]")
    expect(call).to_have_count(1)
    call.locator("summary").click()
    expect(call.locator("pre").first).to_contain_text("echo hi && ls")
    expect(call.locator("pre").last).to_contain_text("hi")
    expect(page.locator(".summary")).to_contain_text("Output")
    page.get_by_role("link", name="Back to the chat").click()
    expect(thread.reply(1)).to_contain_text("FINAL-REPLY")


def test_the_record_of_a_turn_that_runs(at: Open, server: Server) -> None:
    """The record can be read while the turn runs, says that it is not whole, and is whole once it is over."""
    thread = at("pondering")
    thread.say("ponder")
    expect(thread.status(1)).to_have_text("Thinking…")
    thread.page.goto(f"{thread.base}/chats/{thread.chat}/turns/1")
    expect(thread.page.locator(".banner")).to_contain_text("still runs")
    server.gate.touch()
    expect(thread.page.locator(".banner")).to_have_count(0, timeout=PATIENCE)
    expect(thread.page.locator("[data-kind=text]")).to_contain_text("The answer is 42")


# --- keys ---


def test_keys_alone(at: Open, server: Server) -> None:
    """Without a mouse: make a chat, send, stop, open the record, come back, go to another chat, see all keys."""
    thread = at("quick")
    page, keys = thread.page, thread.page.keyboard
    thread.ask("before")
    keys.press("Alt+n")
    expect(page.locator(".start")).to_be_visible()
    expect(thread.composer).to_be_focused()
    page.get_by_label("Agent").focus()
    keys.type("halfway")
    expect(page.get_by_label("Agent")).to_have_value("halfway")
    thread.composer.focus()
    keys.type("speak")
    keys.press("Shift+Enter")
    keys.type("on two lines")
    keys.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    keys.press("Tab")
    keys.press("Enter")
    expect(thread.turn(1).locator(".prompt")).to_have_text("speak\non two lines")
    thread.writes(1, MIDDLE)
    keys.press("Escape")
    thread.ended(1, "cancelled")
    for _ in range(12):
        keys.press("Shift+Tab")
        if page.evaluate("() => document.activeElement.className") == "to-record":
            break
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Details of turn 1")).to_be_visible()
    page.go_back()
    thread.ended(1, "cancelled")
    keys.press("/")
    expect(thread.composer).to_be_focused()
    keys.press("Alt+ArrowDown")
    expect(page).to_have_url(f"{thread.base}/chats/{thread.chat}")
    expect(thread.turn(1).locator(".prompt")).to_have_text("before")
    expect(thread.composer).to_be_focused()  # the one of this chat, which takes the focus when it is there
    thread.scroller.focus()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
