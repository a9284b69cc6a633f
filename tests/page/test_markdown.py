"""Finished Markdown in the thread: formulas, footnotes, notes in boxes, folded parts, and files of the directory."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from chatpage import cast
from chatpage.server import Server
from chatpage.thread import PATIENCE, Thread
from playwright.sync_api import expect

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
REPLY = """The mean is $\\frac{a+b}{2}$ [^m], and

$$\\begin{aligned} a &= b \\\\ c &= d \\end{aligned}$$

> [!WARNING]
> Look at src/app.ts:70 and `src/none.ts:1`.

<details>
<summary>More</summary>

- folded **words**

</details>

![the plan](docs/plan.png)

[^m]: Of two numbers.

The end."""


def test_a_reply_with_all_that_markdown_has(at: Callable[..., Thread], own_server: Callable[..., Server]) -> None:
    """Formulas are MathML, a footnote leads there and back, a picture is loaded, a place opens the file at its line."""

    def stage(folder: Path) -> Path:
        shop = folder / "shop"
        (shop / "src").mkdir(parents=True)
        (shop / "docs").mkdir()
        (shop / "src" / "app.ts").write_text("".join(f"const a{n} = {n};\n" for n in range(1, 101)))
        (shop / "docs" / "plan.png").write_bytes(PNG)
        return cast.config(folder / "penstock.toml", more=[cast.parrot("finished", folder / "finished", [REPLY])])

    thread = at("finished", of=own_server(config=stage))
    thread.ask("show all")
    reply = thread.reply(1)
    expect(reply.locator("math mfrac")).to_have_count(1, timeout=PATIENCE)
    expect(reply.locator("[data-display] math mtr")).to_have_count(2)
    expect(reply.locator("[data-alert=warning]")).to_contain_text("Warning")
    picture = reply.get_by_role("img", name="the plan")
    expect(picture).to_have_js_property("naturalWidth", 1, timeout=PATIENCE)
    expect(reply.locator("details li")).to_be_hidden()
    reply.locator("summary").focus()
    thread.page.keyboard.press("Enter")
    expect(reply.locator("details li")).to_be_visible()
    reference = reply.get_by_role("link", name="Footnote m")
    back = reply.get_by_role("link", name="Back to the text")
    reference.focus()
    thread.page.keyboard.press("Enter")
    expect(back).to_be_focused()
    thread.page.keyboard.press("Enter")
    expect(reference).to_be_focused()

    place = reply.get_by_role("link", name="src/app.ts:70")
    place.focus()
    thread.page.keyboard.press("Enter")
    pane = thread.page.get_by_role("complementary", name="File src/app.ts")
    expect(pane.locator("[aria-current=location]")).to_have_text("const a70 = 70;", timeout=PATIENCE)
    expect(pane.locator("[aria-current=location]")).to_be_in_viewport()
    thread.page.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    expect(place).to_be_focused()
    thread.device.allow("404")
    reply.get_by_role("link", name="src/none.ts:1").focus()
    thread.page.keyboard.press("Enter")
    expect(thread.page.get_by_role("alert").filter(has_text="no such file")).to_be_visible(timeout=PATIENCE)
