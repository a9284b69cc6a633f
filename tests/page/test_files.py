"""Files that are dropped or pasted get an answer, and the browser stays on the page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chatpage.thread import Thread
from playwright.sync_api import expect

Open = Callable[..., Thread]
GIVE = """([where, kind, names, words]) => {
    const data = new DataTransfer();
    for (const name of names) data.items.add(new File(["x"], name, { type: "image/png" }));
    if (words) data.setData("text/plain", words);
    const options = { bubbles: true, cancelable: true };
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: data })
        : new DragEvent(kind, { ...options, dataTransfer: data });
    return !document.querySelector(where).dispatchEvent(event);
}"""
"""Give files to an element; whether the page took them from the browser."""


@pytest.mark.parametrize(("kind", "where"), [("paste", ".composer textarea"), ("drop", ".thread"), ("drop", ".side")])
def test_a_file_gets_an_answer(at: Open, kind: str, where: str) -> None:
    """It says that files cannot be sent yet, and where to put them; the note goes with the next word."""
    thread = at("quick")
    if kind == "drop":
        assert thread.page.evaluate(GIVE, [where, "dragover", ["a.png"], ""])
    assert thread.page.evaluate(GIVE, [where, kind, ["screen `shot`.png"], ""])
    note = thread.page.locator(".composer").get_by_role("alert")
    expect(note).to_contain_text(
        "Pictures and files cannot be sent yet. Put screen ˋshotˋ.png into the agent's directory"
    )
    expect(note.locator("code").last).to_have_text(str(thread.server.root))
    thread.composer.fill("see the picture")
    expect(note).to_have_count(0)


def test_text_with_a_picture_is_text(at: Open) -> None:
    """What is copied from a document has both: the browser pastes the text, and nothing is said."""
    thread = at("quick")
    assert not thread.page.evaluate(GIVE, [".composer textarea", "paste", ["image.png"], "words"])
    expect(thread.page.locator(".composer").get_by_role("alert")).to_have_count(0)


def test_a_drop_where_nothing_is_written(at: Open) -> None:
    """The details of a turn have no field for a message; the browser stays there as well."""
    thread = at("quick")
    thread.ask("hello")
    thread.turn(1).locator(".to-record").click()
    assert thread.page.evaluate(GIVE, [".record", "dragover", ["a.png"], ""])
    assert thread.page.evaluate(GIVE, [".record", "drop", ["a.png"], ""])
