"""Measure how the list of many chats opens in a browser, beside that of few.

    python bench/chat_list.py [--chats 10000] [--runs 5]

It starts a server with so many chats and one with ten, and opens the start page in Chromium (the extra `browser`). The
time is that from the request of the page to the picture with the first rows of the list; the rest comes after it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from chatpage import cast  # noqa: E402
from chatpage.device import Device, chromium, device  # noqa: E402
from chatpage.server import Server  # noqa: E402

from penstock.chat.store.rows import ChatRow  # noqa: E402
from penstock.chat.store.sqlite import SqliteStore  # noqa: E402

FEW = 10
SHOWN = """
() => new Promise((resolve) => {
  const look = () => {
    if (!document.querySelector("#chats .row-of-list")) requestAnimationFrame(look);
    else requestAnimationFrame(() => resolve(performance.now()));
  };
  look();
})
"""
"""Milliseconds from the request of the page to the picture with the list."""


async def fill(path: Path, count: int, cwd: str) -> None:
    """Add chats to the file of a server."""
    store = await SqliteStore.open(path)
    now = time.time_ns() // 1_000_000
    for first in range(0, count, 1000):
        made = [
            ChatRow(f"{nth:032x}", "quick", cwd, now - nth * 60_000, title=f"chat {nth}")
            for nth in range(first, min(first + 1000, count))
        ]
        await asyncio.gather(*map(store.create_chat, made))
    await store.close()


def measure(one: Device, server: Server, runs: int) -> list[float]:
    """Return the milliseconds in which the list was there, for each visit after the first."""
    page = one.page()
    page.goto(server.link())
    page.evaluate(SHOWN)
    found = []
    for _ in range(runs):
        page.goto("about:blank")
        page.goto(server.url, wait_until="commit")
        found.append(float(page.evaluate(SHOWN)))
    rows = page.locator("#chats .row-of-list").count()
    print(f"  rows in the page: {rows}")
    return found


def main() -> None:
    """Measure both, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    medians = {}
    for count in (FEW, options.chats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            server = Server(folder, cast.config(folder / "penstock.toml", roles=["quick"]))
            server.end()
            asyncio.run(fill(server.data / "chats.db", count, str(server.root)))
            server.start()
            print(f"{count:,} chats")
            try:
                with chromium() as browser, device(browser) as one:
                    found = measure(one, server, options.runs)
            finally:
                server.end()
        medians[count] = statistics.median(found)
        span = f"median of {options.runs}; {min(found):.0f} to {max(found):.0f}"
        print(f"  the list is there after {medians[count]:.0f} ms ({span})")
    print(f"ratio: {medians[options.chats] / medians[FEW]:.2f}")


if __name__ == "__main__":
    main()
