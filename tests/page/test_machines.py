"""Several machines on the page: where a new chat works, a machine that is away, and what runs on each of them.

The machines are real gateways on a PostgreSQL that the tests start; without PostgreSQL they are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chatpage import cast
from chatpage.device import NARROW, Device
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import Locator, Page, expect
from postgres import Server as Postgres
from postgres import programs
from waiting import until

Machines = Callable[..., Server]
Devices = Callable[..., Device]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of databases."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (on Debian and Ubuntu: apt install postgresql)")
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def machine(postgres: Postgres, own_server: Callable[..., Server]) -> Machines:
    """Makes machines that share a database."""
    with ThreadPoolExecutor(1) as pool:  # the browser's library has an event loop in this thread
        url = pool.submit(postgres.database).result()

    def make(name: str, *more: str, trusted: bool = True) -> Server:
        def configured(folder: Path) -> Path:
            agents = [cast.agent(agent, "claude", cast.WORDED, 20) for agent in more]
            held = cast.held("held", cast.WORDED, 0, folder / "gate")
            return cast.config(folder / "penstock.toml", roles=["quick"], more=[held, *agents])

        flags = [f"--store={url}", f"--node={name}", "--agent=quick"]
        return own_server(config=configured, flags=flags, trusted=trusted)

    return make


def _choice(page: Page, label: str) -> Locator:
    return page.get_by_role("group", name="For this chat").get_by_label(label, exact=True)


def _options(page: Page, label: str) -> list[str]:
    return [words.strip() for words in _choice(page, label).locator("option").all_inner_texts()]


def _open_machines(page: Page) -> Locator:
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Machines").click()
    return page.get_by_role("dialog", name="Machines")


def test_a_new_chat_on_another_machine(machine: Machines, devices: Devices) -> None:
    """A second machine can be chosen once it is there, with its agents and directories; it is trusted by itself."""
    paris = machine("paris")
    thread = Thread(devices(), paris).enter()
    page = thread.page
    expect(_choice(page, "Agent")).to_have_value("quick")
    expect(_choice(page, "Machine")).to_have_count(0)
    oslo = machine("oslo", "reviewer", trusted=False)
    page.reload()
    expect(_choice(page, "Machine")).to_have_value("paris")
    assert _options(page, "Machine") == ["oslo · 100 free", "paris · 100 free"]
    assert "reviewer" not in _options(page, "Agent")
    _choice(page, "Machine").select_option("oslo")
    expect(page.locator(".start-note")).to_contain_text(f"It works in {oslo.root} on oslo.")
    _choice(page, "Agent").select_option("reviewer")
    thread.say("Look at this")
    thread.confirm()
    trust = page.get_by_role("dialog", name="Do you trust this directory?")
    expect(trust).to_contain_text(f"{oslo.root} on oslo")
    trust.get_by_role("button", name="Trust", exact=True).click()
    thread.ended(1)
    expect(page.locator(".head")).to_contain_text("on oslo")
    (chat,) = paris.ask("GET", "/api/chats")["chats"]
    assert (chat["home"], chat["agent"], chat["cwd"]) == ("oslo", "reviewer", str(oslo.root))


def test_a_machine_that_is_away(machine: Machines, devices: Devices) -> None:
    """Its chat says what waits for it, in the thread, the list and the dialog; that ends when the machine is back."""
    paris, oslo = machine("paris"), machine("oslo")
    chat = paris.chat("quick", home="oslo", title="The site")
    thread = Thread(devices(), paris).enter(chat)
    page = thread.page
    thread.ask("first")
    oslo.end()
    until(lambda: paris.ask("GET", f"/api/chats/{chat}")["is_away"])
    page.reload()
    banner, waiting = page.locator(".banner"), page.locator(".turn .queued")
    expect(banner).to_contain_text("The machine oslo is away.")
    thread.say("second")
    thread.say("third")
    expect(waiting).to_have_text(["Waits for the machine osloSend nowEditTake back"] * 2)
    expect(page.locator(f"[data-chat='{chat}']")).to_contain_text("waits for the machine oslo")
    waiting.last.get_by_role("button", name="Take back").click()
    expect(thread.turn(3)).to_have_count(0)
    expect(thread.composer).to_have_value("third")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    page.get_by_role("button", name="Chats").click()
    dialog = _open_machines(page)
    expect(dialog.locator("[data-node=oslo]")).to_contain_text("Away, last seen just now")
    expect(dialog.locator("[data-node=paris]")).to_contain_text("paris (this one)0 of 100 agents at work")
    expect(dialog.locator("[data-node=oslo] .work")).to_have_text("The site waits")
    oslo.start()
    thread.ended(2)
    expect(dialog.locator("[data-node=oslo]")).to_have_attribute("data-live", "true", timeout=PATIENCE)
    expect(dialog.locator("[data-node=oslo] .work")).to_have_count(0)
    page.keyboard.press("Escape")
    for gone in (banner, waiting):
        expect(gone).to_have_count(0)


def test_a_machine_that_does_not_come_back(machine: Machines, devices: Devices) -> None:
    """It is removed after a question, and its chat stays. One that is there cannot be removed."""
    paris, oslo = machine("paris"), machine("oslo")
    chat = paris.chat("quick", home="oslo", title="The site")
    thread = Thread(devices(), paris).enter(chat)
    page = thread.page
    thread.ask("first")
    dialog = _open_machines(page)
    expect(dialog.locator("[data-node=oslo]")).to_have_attribute("data-live", "true")
    expect(dialog.get_by_role("button", name="Remove")).to_have_count(0)
    oslo.end()
    asked = page.get_by_role("dialog", name="Remove this machine?")
    for answer in ("Cancel", "Remove"):
        dialog.get_by_role("button", name="Remove oslo").click()
        expect(asked).to_contain_text("browsers that signed in at oslo are signed out")
        asked.get_by_role("button", name=answer).click()
        expect(dialog.locator("[data-node=oslo]")).to_have_count(1 if answer == "Cancel" else 0)
    expect(dialog.locator("[data-node=paris]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".banner")).to_contain_text("The machine oslo is away.")
    assert thread.words(1)


def test_what_runs_on_a_machine(machine: Machines, devices: Devices) -> None:
    """The dialog names the chats that a machine works on, and leads to them; a chat of the only one names none."""
    paris = machine("paris")
    chat = paris.chat("held", title="The shop")
    paris.prompt(chat, "Build it")
    page = Thread(devices(), paris).enter().page
    dialog = _open_machines(page)
    expect(dialog.locator("[data-node=paris]")).to_contain_text("1 of 100 agents at work", timeout=PATIENCE)
    dialog.get_by_role("link", name="The shop").click()
    expect(page.get_by_role("heading", name="The shop")).to_be_visible()
    expect(dialog).to_have_count(0)
    expect(page.locator(".head")).not_to_contain_text("paris")
    paris.gate.touch()
    expect(page.locator(".turn")).to_have_attribute("data-state", "completed", timeout=PATIENCE)
