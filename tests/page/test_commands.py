"""Commands after a / at the beginning of a message: stored prompts with their variables, and the agent's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from chatpage import cast
from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import expect

PROMPTS = """
[run.review]
agent = "claude"
prompt = "Review {{base}}: {{prompt}}. Not <b>{{what}}</b>."
variables = { base = "main" }
[run.plan-release]
agent = "claude"
prompt = "Plan it."
"""
SELECTED = "it => it.value.slice(it.selectionStart, it.selectionEnd)"


def with_prompts(folder: Path) -> Path:
    """The configuration of a user who has stored prompts."""
    return cast.config(folder / "penstock.toml", roles=["quick"], more=[PROMPTS])


def test_a_stored_prompt(own_server: Callable[..., Server], devices: Callable[..., Device]) -> None:
    """It is put into the message, Tab goes over its variables, nothing is sent, and what is no name opens no list."""
    thread = Thread(devices(), own_server(config=with_prompts)).enter()
    composer = thread.composer
    listed = thread.page.get_by_role("listbox", name="Commands").get_by_role("option")
    composer.press_sequentially("/")
    expect(listed).to_have_count(2)
    expect(composer).to_have_attribute("aria-activedescendant", str(listed.first.get_attribute("id")))
    composer.press_sequentially("rel")
    expect(listed).to_have_text(["/plan-releasestored promptPlan it."])
    composer.press_sequentially("/usr")
    expect(listed).to_have_count(0)
    composer.fill("/review")  # as if it was pasted
    composer.press("Home")
    expect(listed).to_have_count(0)
    composer.fill("")
    composer.press_sequentially("/re")
    expect(listed).to_have_count(2)
    composer.press("Enter")
    expect(composer).to_have_value("Review main: {{prompt}}. Not <b>{{what}}</b>.")
    for selected in ("main", "{{prompt}}"):
        assert composer.evaluate(SELECTED) == selected
        composer.press("Tab")
    thread.page.keyboard.type("the parser")
    composer.press("Shift+Tab")
    thread.page.keyboard.type("tests")
    expect(composer).to_have_value("Review main: tests. Not <b>the parser</b>.")
    assert thread.server.ask("GET", "/api/chats")["chats"] == []


def test_the_commands_of_an_agent(at: Callable[..., Thread]) -> None:
    """They are offered once the agent has listed them, in its chat and in a new one; a whole name is sent by Enter."""
    thread = at("quick")
    page, composer = thread.page, thread.composer
    listed = page.get_by_role("listbox", name="Commands").get_by_role("option")
    with page.expect_response(re.compile("/commands$")) as answer:
        composer.press("/")
    assert answer.value.ok  # others may have asked this agent in the same directory
    composer.fill("")
    thread.ask("hello")
    composer.press_sequentially("/comp")
    expect(listed).to_have_text(["/compact"])
    composer.press("Escape")
    expect(listed).to_have_count(0)

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="New chat", exact=True).click()
    expect(page.locator(".start")).to_be_visible()
    agents = page.get_by_label("Agent", exact=True)
    agents.select_option("pi-tools")  # it has listed nothing
    assert not [url for url in asked if "commands" in url]
    with page.expect_response(re.compile(r"/api/agents/pi-tools/commands\?cwd=%2F")) as answer:
        composer.press_sequentially("/")
    assert answer.value.json() == {"commands": []}
    expect(listed).to_have_count(0)
    agents.select_option("quick")
    composer.fill("")
    composer.press_sequentially("/")
    expect(listed.first).to_be_in_viewport(ratio=1)  # a new chat has no room above the field
    composer.press_sequentially("compac")
    composer.press("Tab")
    expect(composer).to_have_value("/compact ")
    composer.press("Backspace")
    composer.press("Enter")
    thread.confirm()
    expect(thread.turn(1)).to_contain_text("/compact")
