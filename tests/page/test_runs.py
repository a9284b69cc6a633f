"""Documents and loops on the page: listed beside the chats and shown live; loops are stopped and written to."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chatpage.device import NARROW, Device
from chatpage.server import Server
from chatpage.thread import PATIENCE
from git_repository import identity
from loop_desk import Desk
from playwright.sync_api import Page, Route, expect

from penstock.chat.people import persons
from penstock.doc import answer

__all__ = ["identity"]

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def server(own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server without chats, whose data directory the documents of this process have too."""
    made = own_server()
    monkeypatch.setenv("PENSTOCK_DATA", str(made.data))
    monkeypatch.setenv("PENSTOCK_CONFIG", str(made.folder / "penstock.toml"))
    return made


class Work:
    """A user whose loops have the data directory of a server. The agent waits for the gate."""

    def __init__(self, folder: Path, server: Server) -> None:
        folder.mkdir()
        self.desk = Desk(folder)
        self.desk.data = server.data
        self.gate = self.desk.scripts / "gate"
        wait = 'while [ ! -e "$DESK/gate" ]; do sleep 0.02; done'
        self.desk.agent("waiter", f'{wait}; touch done; echo "{HOSTILE}" > page.html; reply "Add done"')
        self._thread: threading.Thread | None = None

    def begin(self, check: str) -> None:
        """Run a loop in a thread."""
        journal = self.desk.begin(self.desk.settings("waiter", checks=(check,)))
        engine, _ = self.desk.engine(journal)

        def run() -> None:
            engine.run()
            journal.close()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self) -> None:
        """Wait for the end of the loop."""
        self.gate.touch()
        if self._thread is not None:
            self._thread.join()


@pytest.fixture
def work(tmp_path: Path, server: Server) -> Iterator[Work]:
    """A user with an agent that waits."""
    made = Work(tmp_path / "desk", server)
    yield made
    made.end()


def opened(device: Device, server: Server, title: str) -> Page:
    """Return the page at a document or loop, which was chosen in the list."""
    page = device.sign_in(server.link())
    entry = page.locator("#chats a[data-run]").filter(has_text=title)
    expect(entry).to_be_attached()
    if page.viewport_size == NARROW:
        page.get_by_role("button", name="Chats", exact=True).click()
    entry.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    return page


def test_a_document_is_answered_before_the_eyes(server: Server, devices: Callable[..., Device]) -> None:
    """A document is listed by its file name; a second answer grows on the page, and the details show its steps."""
    file = server.root / "notes.md"
    file.write_text(f"# Notes\n\n## User\n\nWhat is {HOSTILE}?\n")
    assert answer(file, agent="quick", cwd=server.root).published
    page = opened(devices(), server, "notes.md")
    expect(page.locator('[data-turn="1"] .prompt')).to_contain_text(HOSTILE)
    expect(page.locator('[data-turn="1"]')).to_have_attribute("data-outcome", "ok")
    expect(page.locator(".composer")).to_have_count(0)
    expect(page.get_by_text("Read only.")).to_be_visible()
    file.write_text(file.read_text() + "And when did steel come?\n")
    server.gate.unlink(missing_ok=True)
    thread = threading.Thread(target=lambda: answer(file, agent="halfway", cwd=server.root))
    thread.start()
    second = page.locator('[data-turn="2"]')
    expect(second.locator(".prompt")).to_have_text("And when did steel come?")
    expect(second.locator(".reply")).to_contain_text("CJK")
    expect(second).to_have_attribute("data-state", "running")
    expect(page.locator("#chats a[data-run]")).to_contain_text("being answered")
    server.gate.touch()
    expect(second).to_have_attribute("data-state", "completed")
    thread.join()
    second.locator(".to-record").press("Enter")
    expect(page.locator("#record-title")).to_have_text("Details of turn 2")
    expect(page.locator('.item[data-kind="text"]')).to_have_count(1)
    page.get_by_role("link", name="Back").click()
    expect(second).to_have_attribute("data-state", "completed")


@pytest.mark.parametrize("viewport", [None, NARROW], ids=["wide", "narrow"])
def test_a_loop_shows_its_rounds(
    work: Work, server: Server, devices: Callable[..., Device], viewport: dict[str, int] | None
) -> None:
    """The agent at work, then the check with its output as text, the changes as a diff, the cost and what to type."""
    work.begin(f"echo '{HOSTILE}'; test -e done")
    page = opened(devices(**({"viewport": viewport} if viewport else {})), server, "l1")
    first = page.locator('[data-round="1"]')
    expect(first.locator('[data-kind="work"] .status')).to_have_text("Working…")
    expect(page.get_by_role("button", name="Stop now")).to_be_visible()
    work.gate.touch()
    expect(page.locator(".loop-end .outcome")).to_have_text("Ended: done")
    expect(first.locator(".reply")).to_have_text("Add done")
    expect(first.locator("h2")).to_contain_text("green")
    expect(page.get_by_text("penstock loop land l1")).to_be_visible()
    expect(page.get_by_role("button", name="Stop now")).to_have_count(0)
    expect(page.locator(".loop-summary")).to_contain_text("$0.02")
    first.locator('[data-kind="check"] summary').click()
    expect(first.locator('[data-kind="check"] pre')).to_have_text(re.compile(re.escape(HOSTILE)))
    first.locator(".loop-changes summary").click()
    expect(first.locator(".diff-title")).to_have_text(["new file done", "new file page.html"])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_loop_is_written_to_and_stopped(work: Work, server: Server, devices: Callable[..., Device]) -> None:
    """A message is shown as not read until the loop has read it; after `Stop now` the page says how to go on."""
    work.begin("test -e done")
    page = opened(devices(), server, "l1")
    expect(page.locator('[data-round="1"] [data-kind="work"]')).to_have_attribute("data-state", "running")
    field = page.get_by_label("Message to the agents")
    held: list[Route] = []
    page.route("**/messages", lambda route: held.append(route), times=1)
    field.fill("Use tabs.")
    page.keyboard.press("Enter")
    page.keyboard.type(" And more")  # while the message is on its way
    held[0].continue_()
    message = page.locator(".loop-message")
    expect(field).to_have_value("And more")
    expect(message).to_contain_text("Use tabs.")
    expect(message).to_contain_text("Waits to be read")
    page.get_by_role("button", name="Stop after this step").click()
    expect(page.get_by_text("Ends after this step.")).to_be_visible()
    page.get_by_role("button", name="Stop now").click()
    expect(page.locator(".loop-end .outcome")).to_have_text("Ended: stopped")
    expect(page.get_by_text("penstock loop resume l1")).to_be_visible()
    expect(message).not_to_contain_text("Waits to be read")


def test_a_loop_of_a_person_is_shared(
    work: Work, server: Server, devices: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its person drives and shares it; a viewer then finds it, and can only read. An owner gives it to another one."""
    for name, role in (("ana", "member"), ("ben", "viewer"), ("cat", "member")):
        persons.add(server.data, name, role, 0)  # type: ignore[arg-type]
    monkeypatch.setenv("PENSTOCK_PERSON", "ana")
    work.begin("test -e done")
    ana = devices().sign_in(server.ask("POST", "/api/link", {"person": "ana"})["url"])
    entry = ana.locator("#chats a[data-run]")
    expect(entry).to_be_attached(timeout=PATIENCE)
    ana.goto(f"{server.url}{entry.get_attribute('href')}")
    expect(ana.get_by_role("button", name="Stop now")).to_be_visible(timeout=PATIENCE)
    device = devices()
    device.allow("Failed to load resource: the server responded with a status of 404")
    ben = device.sign_in(server.ask("POST", "/api/link", {"person": "ben"})["url"])
    expect(ben.get_by_text("ben, viewer")).to_be_visible(timeout=PATIENCE)
    ben.goto(ana.url)
    expect(ben.get_by_text("There is no such document or loop")).to_be_visible(timeout=PATIENCE)
    ana.get_by_role("button", name="Menu", exact=True).press("Enter")
    ana.get_by_role("menuitem", name="Share with the team").press("Enter")
    expect(ana.locator(".head-text p")).to_contain_text("team", timeout=PATIENCE)
    ben.reload()
    expect(ben.locator(".head-text p")).to_contain_text("ana · team", timeout=PATIENCE)
    expect(ben.locator(".step-line").first).to_be_attached(timeout=PATIENCE)
    expect(ben.locator("textarea")).to_have_count(0)
    expect(ben.get_by_role("button", name="Stop now")).to_have_count(0)
    expect(ben.get_by_role("button", name="Menu", exact=True)).to_have_count(0)

    device = devices()
    device.allow("Failed to load resource: the server responded with a status of 400")
    owner = device.sign_in(server.link())
    expect(owner.locator("#chats a[data-run]")).to_be_attached(timeout=PATIENCE)
    owner.goto(ana.url)
    owner.get_by_role("button", name="Menu", exact=True).press("Enter")
    owner.get_by_role("menuitem", name="Give to somebody else…").press("Enter")
    field = owner.get_by_role("textbox", name="Person")
    field.fill("nobody")
    field.press("Enter")
    expect(owner.get_by_text("there is no person named")).to_be_visible(timeout=PATIENCE)
    field.fill("cat")
    field.press("Enter")
    expect(owner.locator("dialog")).to_have_count(0, timeout=PATIENCE)
    expect(owner.locator(".head-text p")).to_contain_text("cat · team", timeout=PATIENCE)
    ana.reload()
    expect(ana.locator(".head-text p")).to_contain_text("cat · team", timeout=PATIENCE)
    expect(ana.get_by_role("button", name="Menu", exact=True)).to_have_count(0)


def test_an_address_that_leads_nowhere(server: Server, devices: Callable[..., Device]) -> None:
    """A document or loop that is not there is said to be missing."""
    device = devices()
    device.allow("Failed to load resource: the server responded with a status of 404")
    page = device.sign_in(server.link())
    expect(page.locator(".side .entries")).to_be_attached()
    page.goto(f"{server.url}/runs/loop-nothing")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such document or loop")


# --- landing ---


@pytest.fixture
def finished(server: Server) -> Desk:
    """A user below the root of the server, whose loop `l1` has ended with a commit."""
    folder = server.root / "desk"
    folder.mkdir()
    desk = Desk(folder)
    desk.data = server.data
    desk.user.git("config", "user.name", "User")  # the server has its own environment
    desk.user.git("config", "user.email", "user@example.org")
    desk.agent("worker", 'echo theirs > shared; touch done; reply "Add done"')
    assert desk.run(desk.settings("worker"))[0] == 0
    return desk


@pytest.mark.parametrize("viewport", [None, NARROW], ids=["wide", "narrow"])
def test_a_loop_is_landed(
    finished: Desk, server: Server, devices: Callable[..., Device], viewport: dict[str, int] | None
) -> None:
    """The page asks before it merges, then whether the directory is trusted; the loop is then in the user's branch."""
    device = devices(**({"viewport": viewport} if viewport else {}))
    device.allow("Failed to load resource: the server responded with a status of 409")
    page = opened(device, server, "l1")
    before = finished.user.git("rev-parse", "main")
    page.get_by_role("button", name="Land…").click()
    confirmation = page.get_by_label("Land this loop")
    expect(confirmation).to_contain_text("1 commit of penstock/l1 will be merged into the branch that is checked out")
    expect(confirmation).to_contain_text(str(finished.user.root))
    confirmation.get_by_role("button", name="Cancel").click()
    expect(confirmation).to_have_count(0)
    page.get_by_role("button", name="Land…").click()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_role("heading", name="Do you trust this directory?")).to_be_visible()
    assert finished.user.git("rev-parse", "main") == before
    page.get_by_role("button", name="Trust").click()
    expect(page.get_by_text("Its work is in main.")).to_be_visible()
    expect(page.get_by_role("button", name="Merge", exact=True)).to_have_count(0)
    assert finished.user.git("rev-parse", "main") == finished.user.git("rev-parse", "penstock/l1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_landing_with_conflicts(finished: Desk, server: Server, devices: Callable[..., Device]) -> None:
    """Files that both sides have changed are listed with what to do; when that is done, the same button merges."""
    ours = finished.user.commit("Ours", {"shared": "ours\n"})
    server.ask("POST", "/api/workspaces", {"path": str(finished.user.root)})
    device = devices()
    device.allow("Failed to load resource: the server responded with a status of 409")
    page = opened(device, server, "l1")
    page.get_by_role("button", name="Land…").click()
    page.get_by_role("button", name="Merge as one commit").click()
    expect(page.get_by_label("Files").get_by_role("listitem")).to_have_text(["shared"])
    expect(page.get_by_role("alert").filter(has_text="The same lines were changed in main")).to_contain_text(
        "penstock loop land l1 --resolve"
    )
    assert finished.user.git("rev-parse", "main") == ours
    finished.user.git("reset", "--quiet", "--hard", "HEAD^")
    page.get_by_role("button", name="Merge as one commit").click()
    expect(page.get_by_text("Its work is in main.")).to_be_visible()
    assert finished.user.git("show", "main:shared") == "theirs"
