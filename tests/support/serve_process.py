"""`penstock serve` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from served import AGENTS, BRIEF, PLAIN, SECONDS

SERVE = """
import sys
from pathlib import Path
from penstock.chat.web import static
from penstock.cli.main import main
static.FOLDER = Path(sys.argv.pop(1))
sys.exit(main(["serve", *sys.argv[1:]]))
"""
"""The command, with a page that needs nothing from npm."""

TOKEN = "a-token-of-the-tests-that-is-long-enough"
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/#code=([\w-]+)\n")


class Serve:
    """A process."""

    def __init__(
        self, folder: Path, page: Path, *flags: str, agents: str = AGENTS, prints_link: bool = True, **env: str
    ) -> None:
        self.data = folder / "data"
        (folder / "agents.toml").write_text(agents)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
        link = ["--link"] if prints_link else []
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(page), f"--data={self.data}", *link, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**kept, "HOME": str(folder), "PENSTOCK_CONFIG": str(folder / "agents.toml"), **env},
        )

    def line(self) -> str:
        """The next line that it prints for programs."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Its exit status after a signal, and what it printed."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        """Its exit status, when it ends, and what it printed."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err


def browser(url: str, **options: Any) -> httpx.Client:
    """A browser at the page."""
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    return httpx.Client(
        base_url=url, headers=headers, timeout=SECONDS, trust_env=False, verify=PLAIN, limits=BRIEF, **options
    )
