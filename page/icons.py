"""Draw the icons of the installed page from `favicon.svg`, with Chromium: `python page/icons.py`.

They are committed. A maskable icon fills its square, as systems cut it to a circle or another form.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "src" / "penstock" / "chat" / "page"
COLOUR = "#0f6b72"
ICONS = {
    "icon-192.png": (192, 1.0),
    "icon-512.png": (512, 1.0),
    "icon-maskable.png": (512, 0.72),
    "icon-touch.png": (180, 0.86),
}
"""Name of a file → its size in pixels, and the part of its side that the drawing takes; below 1 it is filled around."""


def main() -> None:
    """Write all icons."""
    drawing = (FOLDER / "favicon.svg").read_text("utf-8")
    program = os.environ.get("PENSTOCK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        for name, (side, part) in ICONS.items():
            page = browser.new_page(viewport={"width": side, "height": side})
            fill = COLOUR if part < 1 else "transparent"
            size = round(side * part)
            style = f"margin:0;display:grid;place-items:center;height:100vh;background:{fill}"
            sized = drawing.replace("<svg ", f'<svg width="{size}" height="{size}" ')
            page.set_content(f'<body style="{style}">{sized}</body>')
            page.screenshot(path=FOLDER / name, omit_background=True)
        browser.close()


if __name__ == "__main__":
    main()
