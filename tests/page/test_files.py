"""Pictures and files: pasted, dropped or chosen, shown before and after they are sent, and opened large."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from chatpage.device import Device
from chatpage.server import Server
from chatpage.thread import Thread
from pictures import png
from playwright.sync_api import Page, expect

Open = Callable[..., Thread]
GIVE = """([where, kind, files, words]) => {
    const data = new DataTransfer();
    for (const [name, type, content] of files) {
        const bytes = Uint8Array.from(atob(content), (it) => it.charCodeAt(0));
        data.items.add(new File([bytes], name, { type }));
    }
    if (words) data.setData("text/plain", words);
    const options = { bubbles: true, cancelable: true };
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: data })
        : new DragEvent(kind, { ...options, dataTransfer: data });
    return !document.querySelector(where).dispatchEvent(event);
}"""
"""Give files to an element; whether the page took them from the browser."""
FIELD = ".composer textarea"
PICTURE = ("screen \u202eshot.png", "image/png", b64encode(png(40, 30)).decode())
LOG = ("build.log", "", b64encode(b"line\n" * 100).decode())


def give(page: Page, where: str, kind: str, *files: tuple[str, str, str], words: str = "") -> bool:
    """Paste or drop files."""
    return bool(page.evaluate(GIVE, [where, kind, [*files], words]))


def is_shown(page: Page, picture: str) -> None:
    """Wait until the browser has decoded a picture."""
    page.wait_for_function("where => document.querySelector(where)?.naturalWidth === 40", arg=picture)


def test_files_go_with_a_message(at: Open, tmp_path: Path) -> None:
    """Files are pasted, dropped and chosen, removed by the keyboard, kept over a reload, and sent without a text."""
    thread = at("quick")
    page, drafted = thread.page, thread.page.locator(".drafted li")
    assert give(page, FIELD, "paste", PICTURE)
    assert give(page, ".thread", "dragover", LOG)
    assert give(page, ".thread", "drop", LOG)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n%\xe2")
    with page.expect_file_chooser() as chooser:
        thread.button("Attach pictures or files").press("Enter")
    chooser.value.set_files(tmp_path / "a.pdf")
    expect(page.locator(".drafted li[data-state=ready]")).to_have_count(3)
    expect(drafted.first).to_contain_text("screen shot.png")
    thread.button("Remove a.pdf").press("Enter")
    expect(drafted).to_have_count(2)
    expect(thread.composer).to_be_focused()
    page.reload()
    thread.ready()
    expect(drafted).to_have_count(2)
    is_shown(page, ".drafted img")
    page.set_viewport_size({"width": 320, "height": 640})
    expect(drafted.last.get_by_role("button", name="Remove build.log")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= 320")
    thread.composer.press("Enter")
    thread.ended(1)
    expect(drafted).to_have_count(0)
    is_shown(page, ".turn .thumb img")
    expect(page.locator(".turn .sent-file")).to_have_attribute("download", "build.log")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator(".turn .thumb").press("Enter")
    is_shown(page, ".large-picture")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    turn = thread.server.ask("GET", f"/api/chats/{thread.chat}/turns")["turns"][0]
    assert [(it["name"], it["media_type"]) for it in turn["attachments"]] == [
        ("screen shot.png", "image/png"),
        ("build.log", "text/plain"),
    ]


def test_a_long_paste_is_a_file(at: Open) -> None:
    """A long text becomes a file, and text again on request; a short one is pasted by the browser."""
    thread = at("quick")
    long = "a line\n" * 80
    assert not give(thread.page, FIELD, "paste", words="a line\n" * 8)
    assert give(thread.page, FIELD, "paste", words=long)
    expect(thread.page.locator(".drafted li[data-state=ready]")).to_contain_text("pasted.txt")
    thread.button("As text").press("Enter")
    expect(thread.composer).to_have_value(long)
    expect(thread.page.locator(".drafted")).to_have_count(0)


def test_a_file_that_is_not_accepted(at: Open) -> None:
    """A picture that would need too much memory says so, keeps the message from being sent, and can be removed."""
    thread = at("quick")
    thread.device.allow("413")
    bomb = ("bomb.png", "image/png", b64encode(png(claims=(50_000, 50_000))).decode())
    assert give(thread.page, FIELD, "paste", bomb)
    expect(thread.page.locator(".drafted li[data-state=failed]")).to_contain_text("50,000 × 50,000 pixels")
    thread.composer.fill("see the picture")
    expect(thread.page.locator(".composer .send")).to_be_disabled()
    thread.button("Remove bomb.png").press("Enter")
    expect(thread.page.locator(".composer .send")).to_be_enabled()


def test_a_first_message_with_a_picture(server: Server, devices: Callable[..., Device]) -> None:
    """A file of the first message makes the chat together with it, in one request."""
    thread = Thread(devices(), server).enter()
    sent: list[str] = []
    thread.page.on("request", lambda it: sent.append(f"{it.method} {it.url}"))
    expect(thread.page.locator(FIELD)).to_be_visible()
    assert give(thread.page, FIELD, "paste", PICTURE)
    expect(thread.page.locator(".drafted li[data-state=ready]")).to_have_count(1)
    is_shown(thread.page, ".drafted img")
    thread.page.get_by_label("Agent").select_option("peer")
    thread.composer.fill("what is this?")
    thread.composer.press("Enter")
    expect(thread.page.locator(".turn .thumb")).to_have_count(1)
    is_shown(thread.page, ".turn .thumb img")
    assert f"POST {server.url}/api/chats" in sent
    assert not any(re.search(r"^POST .*/(attachments|turns)\b", it) for it in sent)


def test_text_with_a_picture_is_text(at: Open) -> None:
    """What is copied from a document has both: the browser pastes the text, and nothing is attached."""
    thread = at("quick")
    assert not give(thread.page, FIELD, "paste", PICTURE, words="words")
    expect(thread.page.locator(".drafted")).to_have_count(0)


def test_a_drop_where_nothing_is_written(at: Open) -> None:
    """The details of a turn have no field for a message; the browser stays there as well."""
    thread = at("quick")
    thread.ask("hello")
    thread.turn(1).locator(".to-record").press("Enter")
    expect(thread.page.locator(".record")).to_be_visible()
    assert give(thread.page, ".record", "dragover", PICTURE)
    assert give(thread.page, ".record", "drop", PICTURE)


def test_files_are_completed(at: Open, server: Server) -> None:
    """The list follows what is typed after an @; keys choose from it, and Escape closes it before it stops a turn."""
    folder = server.root / "plans"
    folder.mkdir()
    for name in ("<b>one.md", "part two.md", ".hidden.md"):
        (folder / name).write_text("x")
    thread = at("halfway")
    composer, files = thread.composer, thread.page.get_by_role("listbox", name="Files").get_by_role("option")
    composer.press_sequentially("See @PLANS/")
    expect(files).to_have_text(["plans/", "plans/<b>one.md", "plans/part two.md"])
    composer.press("ArrowUp")
    expect(files.last).to_have_attribute("aria-selected", "true")
    composer.press("Enter")
    expect(composer).to_have_value('See @"plans/part two.md" ')
    expect(files).to_have_count(0)
    composer.press_sequentially("and @pla")
    expect(files).to_have_count(3)
    composer.press("Tab")
    expect(composer).to_have_value('See @"plans/part two.md" and @plans/')
    expect(files).to_have_text(["plans/<b>one.md", "plans/part two.md"])
    files.first.evaluate("row => row.click()")
    expect(composer).to_have_value('See @"plans/part two.md" and @plans/<b>one.md ')
    expect(composer).to_be_focused()
    composer.press("Enter")
    thread.writes(1, "CJK")
    expect(thread.turn(1)).to_contain_text('See @"plans/part two.md" and @plans/<b>one.md')
    composer.press_sequentially("@one")
    expect(files).to_have_text(["plans/<b>one.md"])
    composer.press("Escape")
    expect(files).to_have_count(0)
    expect(thread.button("Stop")).to_be_visible()
    composer.press("Escape")
    thread.ended(1, "cancelled")
    expect(composer).to_have_value("@one")
