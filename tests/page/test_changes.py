"""What agents change: questions with their diff, refused actions and how to go on, the details of edits."""

from __future__ import annotations

import re
from collections.abc import Callable

from chatpage import cast, filling
from chatpage.device import NARROW
from chatpage.server import Server
from chatpage.thread import Thread
from playwright.sync_api import Locator, Route, expect

from penstock.chat.history.entries import ChangesFound
from penstock.events import Change

HOSTILE = "new <img src=x onerror=alert(1)> ⟨U+202E⟩text"
"""The line of the edit that would be something else if it were not shown as text."""
EARLY_MS = 700
"""Milliseconds after which a key answers a question, and some more."""


def lines_of(diff: Locator) -> list[list[str]]:
    """The lines of a diff, each with its kind and its text."""
    found: list[list[str]] = diff.locator("tr").evaluate_all(
        "rows => rows.map((row) => [row.dataset.line, row.querySelector('.diff-text').textContent])"
    )
    return found


def test_a_question_shows_the_changes(workshop: Callable[[str], Thread]) -> None:
    """Before its answers, a question shows what would be changed: a long diff folded, and all of it as text."""
    thread = workshop("peer")
    thread.say("edit")
    hint = thread.turn(1).locator(".hint")
    diff = hint.locator(".diff")
    expect(diff.locator(".diff-title")).to_have_text("edit /shop/README.md")
    expect(diff.locator(".diff-counts")).to_have_text("+41 −1")
    shown = lines_of(diff)
    assert shown[:3] == [["same", "# Demo"], ["removed", "old line"], ["added", HOSTILE]]
    assert len(shown) == 30
    diff.get_by_role("button", name="Show all 43 lines").click()
    assert lines_of(diff)[-1] == ["added", "line 39"]
    assert hint.locator("img").count() == 0
    above = "([diff, answers]) => diff.getBoundingClientRect().bottom <= answers.getBoundingClientRect().top"
    parts = [diff.element_handle(), hint.locator(".options").element_handle()]
    assert thread.page.evaluate(above, parts)
    hint.get_by_role("button", name="Yes, once").click()
    thread.ended(1)
    expect(thread.reply(1)).to_have_text("asked: once")


def test_a_question_shows_the_whole_command(workshop: Callable[[str], Thread]) -> None:
    """Of a script, every line is shown before it is allowed, and what would reverse its text by its number."""
    thread = workshop("peer")
    thread.say("script")
    command = thread.turn(1).locator(".hint pre")
    expect(command).to_have_text("set -e\nfor file in *; do\n  rm -- ⟨U+202E⟩$file\ndone")
    expect(command).to_have_css("white-space-collapse", "preserve")


def test_a_number_answers_once_the_question_was_seen(workshop: Callable[[str], Thread]) -> None:
    """A number that is pressed as the question appears, or held, answers nothing; a later one does."""
    thread = workshop("peer")
    thread.say("edit")
    page, hint = thread.page, thread.turn(1).locator(".hint")
    thread.scroller.focus()
    press = """repeat => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key: "3", bubbles: true, repeat }))"""
    page.evaluate(
        """() => new Promise((resolve) => {
            const key = new KeyboardEvent("keydown", { key: "3", bubbles: true });
            const wait = () => {
                if (document.querySelector(".hint .options")) resolve(document.body.dispatchEvent(key));
                else requestAnimationFrame(wait);
            };
            wait();
        })"""
    )
    page.wait_for_timeout(EARLY_MS)
    page.evaluate(press, True)
    expect(hint.get_by_role("button", pressed=True)).to_have_count(0)
    thread.runs(1)
    page.keyboard.press("3")
    thread.ended(1)
    expect(thread.reply(1)).to_have_text("asked: never")


def test_a_refused_action_is_marked_and_allowed(workshop: Callable[[str], Thread]) -> None:
    """A turn says that an action was refused; one button allows edits, says so before, and lets the agent go on."""
    thread = workshop("qwen")
    expect(thread.page.locator(".head-text")).to_contain_text("only reads")
    thread.ask("edit")
    refused = thread.turn(1).locator(".refused")
    expect(refused).to_contain_text("1 action was not allowed: README.md.")
    refused.get_by_role("button", name="Allow edits and go on").click()
    dialog = thread.page.get_by_role("dialog", name="Allow this agent more?")
    expect(dialog).to_contain_text("It changes files of the directory without asking.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert thread.server.ask("GET", f"/api/chats/{thread.chat}")["allow"] == "default"
    dialog.get_by_role("button", name="Allow and go on").click()
    thread.ended(2)
    expect(thread.turn(2).locator(".prompt")).to_have_text("You may do that now. Go on.")
    expect(thread.reply(2)).to_have_text("The file is edited, resumed True.")
    expect(thread.page.locator(".head-text")).to_contain_text("edits files")
    expect(thread.page.locator(".refused button")).to_have_count(0)
    assert thread.server.ask("GET", f"/api/chats/{thread.chat}")["allow"] == "edits"


def test_refusing_in_the_dialog_changes_nothing(workshop: Callable[[str], Thread]) -> None:
    """Who cancels has the same permission as before, and has sent nothing."""
    thread = workshop("qwen")
    thread.ask("edit")
    thread.turn(1).get_by_role("button", name="Allow edits and go on").click()
    thread.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(thread.page.get_by_role("dialog")).to_have_count(0)
    assert thread.server.ask("GET", f"/api/chats/{thread.chat}")["allow"] == "default"
    assert len(thread.server.turns(thread.chat)) == 1


def test_a_question_that_a_person_rejects_is_settled(workshop: Callable[[str], Thread]) -> None:
    """The turn says what the person rejected, and offers no permission for it; the details mark its call."""
    thread = workshop("peer")
    thread.say("edit")
    thread.button("No").click()
    thread.ended(1)
    expect(thread.turn(1).locator(".refused")).to_have_text(re.compile(r"^\s*You rejected .*README\.md\.\s*$"))
    expect(thread.turn(1).locator(".refused button")).to_have_count(0)
    thread.turn(1).locator(".to-record").press("Enter")
    call = thread.page.locator("[data-kind=call]")
    expect(call.locator(".kind")).to_have_text("Call, not allowed")
    expect(call.locator("h3").first).to_have_text("Changes that were proposed")


def test_what_turns_changed_is_beside_the_thread(workshop: Callable[..., Thread]) -> None:
    """A row below the reply opens the files of the turn, by keys too, and then those of the chat; also on a phone."""
    thread = workshop("qwen")
    page = thread.page
    thread.ask("delegate")
    thread.server.ask("PATCH", f"/api/chats/{thread.chat}", {"allow": "edits"})
    thread.ask("edit", 2)
    thread.ask("edit", 3)
    row = thread.turn(3).locator(".changed button")
    expect(row).to_have_text("1 file changed +41 −1")
    expect(thread.turn(2).locator(".changed")).to_have_count(1)
    expect(thread.turn(1).locator(".to-record")).to_contain_text("steps")
    expect(thread.turn(1).locator(".changed")).to_have_count(0)

    row.press("Enter")
    pane = page.get_by_role("complementary", name="Changes")
    expect(pane).to_be_focused()
    expect(pane.get_by_role("heading")).to_have_text("Changes of turn 3")
    diff = pane.locator(".diff")
    expect(diff.locator(".diff-title")).to_have_text("edit README.md")
    assert ["added", HOSTILE] in lines_of(diff)
    assert pane.locator("img").count() == 0
    page.keyboard.press("Tab")
    expect(pane.get_by_role("button", name="Close the changes")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(pane.get_by_role("button", name="This chat", pressed=True)).to_be_focused()
    expect(pane.get_by_role("heading")).to_have_text("Changes of this chat")
    expect(pane.locator(".side-note")).to_have_text(re.compile(r"^\s*1 file changed \+82 −2\s*$"))
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    expect(row).to_be_focused()

    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    row.press("Enter")
    expect(diff.locator(".diff-title")).to_be_in_viewport()
    assert pane.evaluate("it => it.getBoundingClientRect().width") == NARROW["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    pane.get_by_role("button", name="Close the changes").press("Enter")
    expect(pane).to_have_count(0)
    expect(row).to_be_focused()


SELECT = """([first, last]) => getSelection().setBaseAndExtent(
    document.querySelector(first).firstChild, 0, document.querySelector(last).firstChild, 3)"""

PAINTED = (
    """() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 300))"""
)


def test_what_is_selected_is_quoted(workshop: Callable[..., Thread]) -> None:
    """Lines of a diff go into the message with their place, in a fence; of a reply, what is selected."""
    thread = workshop("qwen")
    page, quote = thread.page, thread.page.get_by_role("button", name="Quote", exact=True)
    thread.server.ask("PATCH", f"/api/chats/{thread.chat}", {"allow": "edits"})
    thread.ask("edit")
    thread.composer.fill("Why?")
    late: list[Route] = []
    page.route("**/diff-colours.js", lambda route: late.append(route), times=1)
    thread.turn(1).locator(".changed button").press("Enter")
    line = "tr:nth-child({}) .diff-text"
    expect(page.locator(line.format(3))).to_be_visible()
    page.evaluate(SELECT, [line.format(2), line.format(3)])
    expect(quote).to_be_in_viewport(ratio=1)
    with page.expect_response("**/highlight/markdown.js"):
        late[0].continue_()
    page.evaluate(PAINTED)
    expect(quote).to_be_in_viewport(ratio=1)  # colours that come do not end the selection
    coloured = page.locator(".diff [data-coloured]")
    expect(coloured).to_have_count(0)
    page.evaluate("getSelection().removeAllRanges()")
    expect(coloured).to_have_count(1)
    page.evaluate(SELECT, [line.format(2), line.format(3)])
    expect(quote).to_be_in_viewport(ratio=1)
    page.keyboard.press("q")
    expect(thread.composer).to_have_value(f"Why?\n\n`README.md`\n\n```diff\n-old line\n+{HOSTILE}\n```\n\n")
    expect(thread.composer).to_be_focused()
    expect(quote).to_have_count(0)
    expect(page.locator(".side-pane")).to_have_count(0)  # it was over the field

    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    thread.composer.fill("")
    page.evaluate(SELECT, [".reply p", ".reply p"])
    expect(quote).to_be_in_viewport(ratio=1)
    quote.press("Enter")
    expect(thread.composer).to_have_value("> The\n\n")
    expect(thread.composer).to_be_focused()  # which ends a selection that was made before
    page.evaluate(SELECT, [".prompt", ".reply p"])  # what is said and what is replied are not one text
    page.wait_for_function("() => !getSelection().isCollapsed")
    expect(quote).to_have_count(0)


def test_what_git_found_is_apart(at: Callable[..., Thread], own_server: Callable[..., Server]) -> None:
    """Changes whose author is not known are counted and shown apart from those of the agent, as text, with no undo."""
    server = own_server(config=cast.workshop)
    thread = at("qwen", of=server)
    thread.ask("delegate")
    thread.device.allow("ERR_", "status of 503")
    server.end()
    made = Change(f"{server.root}/<b>.txt", "add", added=1, removed=0, diff="@@ -0,0 +1 @@\n+<img src=x>\n")
    found = ChangesFound(2, [made, Change(f"{server.root}/photo.png", "update")], others=2, problem="slow")
    filling.repeat(server.data / "chats.db", thread.chat, 2, found)
    server.start()
    thread.page.reload()
    thread.ready()
    expect(thread.turn(1).locator(".changed")).to_have_count(0)
    row = thread.turn(2).locator(".changed button")
    expect(row).to_have_text("2 files changed meanwhile")
    row.press("Enter")
    pane = thread.page.get_by_role("complementary", name="Changes")
    others = pane.get_by_role("region", name="Also changed in this directory")
    expect(others).to_contain_text("They may be by its commands, by other chats or by people.")
    expect(others).to_contain_text("are not known: git needed too long.")
    expect(others.locator(".diff-title")).to_have_text(["new file <b>.txt", "edit photo.png"])
    assert lines_of(others.locator(".diff").first)[-1] == ["added", "<img src=x>"]
    expect(others.locator(".diff-note")).to_have_text("The lines are not shown.")
    assert others.locator("img").count() == 0
    expect(pane).to_contain_text("No changes were reported.")
    expect(pane.get_by_role("region", name="Undo")).to_have_count(0)


def test_details_show_edits_as_diffs(workshop: Callable[[str], Thread]) -> None:
    """The details have the diff of an edit, as proposed if it was not made, and the input behind it."""
    thread = workshop("qwen")
    thread.ask("edit")
    thread.turn(1).locator(".to-record").press("Enter")
    call = thread.page.locator("[data-kind=call]")
    expect(call.locator(".kind")).to_have_text("Call, failed")  # this wire has only the number of denied actions
    expect(call.locator("h3").first).to_have_text("Changes that were proposed")
    assert ["added", HOSTILE] in lines_of(call.locator(".diff"))
    assert call.locator("img").count() == 0
    call.locator("summary", has_text="Input").click()
    expect(call.get_by_role("group", name="Input")).to_contain_text('"old_string"')
    expect(thread.page.locator(".summary")).to_contain_text("1 action was not allowed: README.md.")


def test_code_of_a_diff_is_not_broken_on_a_phone(workshop: Callable[..., Thread]) -> None:
    """Each line of an edit is one line, which is scrolled; the page is no wider for it."""
    thread = workshop("qwen", viewport=NARROW)
    thread.ask("edit")
    thread.turn(1).locator(".to-record").press("Enter")
    lines = thread.page.locator(".diff-text")
    expect(lines.first).to_be_visible()
    assert len({round(height) for height in lines.evaluate_all("all => all.map((it) => it.offsetHeight)")}) == 1
    assert thread.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_details_can_be_opened_at_once_or_be_of_failures_alone(workshop: Callable[[str], Thread]) -> None:
    """One button opens all that is folded, another folds it; a third leaves the calls that failed."""
    thread = workshop("qwen")
    thread.ask("edit")
    thread.turn(1).locator(".to-record").press("Enter")
    page = thread.page
    show, folds = page.get_by_role("group", name="What is shown"), page.locator(".items details")
    expect(folds.first).to_be_visible()
    show.get_by_role("button", name="Open all").click()
    assert folds.evaluate_all("all => all.every((it) => it.open)")
    show.get_by_role("button", name="Fold all").click()
    assert folds.evaluate_all("all => all.every((it) => !it.open)")
    items = page.locator(".items > .item:visible")
    assert items.count() > 1
    failures = show.get_by_role("button", name="Failures only (1)")
    failures.click()
    expect(failures).to_have_attribute("aria-pressed", "true")
    expect(items).to_have_count(1)
    expect(items.locator(".kind")).to_have_text("Call, failed")
    failures.click()
    assert items.count() > 1


def test_details_show_a_sub_agent_below_its_call(workshop: Callable[[str], Thread]) -> None:
    """What a sub-agent did comes below the call that started it, however long the main agent went on meanwhile."""
    thread = workshop("qwen")
    thread.ask("delegate")
    thread.turn(1).locator(".to-record").press("Enter")
    items = thread.page.locator(".item")
    expect(items.first).to_be_visible()
    found = items.evaluate_all(
        """all => all.map((it) => [it.className, it.querySelector(".call-title, .prose")?.textContent.trim()])"""
    )
    assert [[re.sub(r"\D", "", depth), title] for depth, title in found] == [
        ["0", "I will ask a sub-agent."],
        ["0", "look around"],
        ["1", "inner.txt"],
        ["1", "echo inner"],
        ["0", "sleep 1"],
        ["0", "Meanwhile I look too."],
        ["0", "ls"],
        ["0", "All looked."],
    ]
