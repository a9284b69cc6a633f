"""Make the pictures of the chat in the documents: `PYTHONPATH=tests/support python tests/real/record_page.py`.

A real claude works for `penstock serve` in the project of the demo, a person answers its questions in Chromium, and the
model server plays the model.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import scenarios
from chatpage.device import chromium, device
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import Page, expect
from record_demo import REST, project
from scenarios import Say, Think, Use, Wait
from setups import KEPT, Bench, Target, bench

DOCS = Path(__file__).parents[2] / "docs"
WINDOW, WIDE_WINDOW = {"width": 1180, "height": 760}, {"width": 1320, "height": 850}
PHONE = {"width": 390, "height": 780}

PROMPT = "Why is total() wrong by a tiny amount? Please fix it, and run the tests."
ASKS, WORKS = "Empty the cache", "Translate the error messages"
DONE = ("Why the build is slow", "Update the dependencies", "Release notes for 2.4")
"""First messages of the other chats in the list."""

STORY: list[scenarios.Answer] = [
    [
        Think("A total that is wrong by a tiny amount: these are floats.", 6, REST),
        Use("Read", {"file_path": "{folder}/prices.py"}),
    ],
    [
        Say("`total` adds floats and never rounds.", 6, REST),
        Use(
            "Edit",
            {
                "file_path": "{folder}/prices.py",
                "old_string": "    return sum(prices)",
                "new_string": '    """Return the sum in whole cents."""\n    return round(sum(prices), 2)',
            },
        ),
    ],
    [Use("Bash", {"command": "python3 -m pytest -q --tb=line", "description": "Run the tests"})],
    [
        Say(
            "`total` returned `0.30000000000000004`, because a float **cannot hold a tenth**. "
            "It is fixed, and the tests pass.\n\n"
            "### What I changed\n\n"
            "1. `prices.py` rounds the sum to whole cents.\n"
            "2. `cart.py` and `invoice.py` call it and need no change.\n\n"
            "```python\n"
            "def total(prices):\n"
            '    """Return the sum in whole cents."""\n'
            "    return round(sum(prices), 2)\n"
            "```\n\n"
            "Sums of many prices are"
        ),
        Wait(),
        Say(" exact as well, as each is rounded once, at its end.\n"),
    ],
]


def main() -> int:
    """Draw all pictures anew."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        at = stack.enter_context(project(stack.enter_context(bench(Target("claude", "server"), root))))
        at.server.scripts |= {
            PROMPT: STORY,
            ASKS: [[Use("Bash", {"command": "rm -rf build/cache", "description": "Remove the cache"})], [Say("Done.")]],
            WORKS: [[Say("I read them first."), Wait(), Say("Done.")]],
            **{title: [[Say("Done.")]] for title in DONE},
        }
        config = root / "penstock.toml"
        config.touch()
        flags = [f"--env={name}" for name in at.env if name not in (*KEPT, "PATH", "HOME")]
        server = Server(root / "serve", config, env=at.env, root=at.folder, flags=flags)
        stack.callback(server.end)
        browser = stack.enter_context(chromium())
        day, night, phone = (
            Thread(stack.enter_context(device(browser, **options)), server).enter()
            for options in (
                {"viewport": WINDOW, "device_scale_factor": 1.5},
                {"viewport": WIDE_WINDOW, "device_scale_factor": 1.5, "color_scheme": "dark"},
                {"viewport": PHONE, "device_scale_factor": 2, "is_mobile": True, "has_touch": True},
            )
        )
        draw(at, server, day, night, phone)
    return 0


def draw(at: Bench, server: Server, day: Thread, night: Thread, phone: Thread) -> None:
    """Have the conversations, and draw them: while a reply grows, when it is done, and on a phone."""
    at.server.close_gate()
    for title in DONE:
        fill(server, title)
    for title in (WORKS, ASKS):
        server.prompt(server.chat("claude"), title)
    chat = server.chat("claude")
    day.go(chat)
    day.say(PROMPT)
    for _ in range(2):  # the edit, the command
        day.turn(1).locator(".hint [data-kind=allow_once]").click()
    day.writes(1, "Sums of many prices are")
    expect(day.page.get_by_role("region", name="Asks you").get_by_text(ASKS)).to_be_visible()
    expect(day.reply(1).locator("[class*=hljs]").first).to_be_visible()
    picture(day.page, "chat")
    at.server.gate.set()
    day.ended(1)
    night.go(chat)
    night.page.get_by_text("1 file changed").click()
    expect(night.page.locator("[data-line=added]").first).to_be_visible()
    picture(night.page, "chat-dark")
    phone.go(chat)
    picture(phone.page, "chat-phone")


def fill(server: Server, title: str) -> None:
    """Have a conversation of one short turn."""
    chat = server.chat("claude")
    server.prompt(chat, title)
    while server.turns(chat)[-1]["state"] != "completed":
        pass


def picture(page: Page, name: str) -> None:
    """Draw what is seen, without a caret that blinks."""
    page.wait_for_timeout(600)
    page.screenshot(path=DOCS / f"{name}.png", animations="disabled", caret="hide")


if __name__ == "__main__":
    sys.exit(main())
