"""Packages from npm, each version once in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

SECONDS = 300


def installed(*packages: str) -> Path:
    """The folder whose `node_modules` has packages, as `ai@5.0.277`; they are installed at the first call."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "npm"
    found = root / ",".join(packages).replace("/", "+")
    if not found.exists():
        root.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".installing-", dir=root))
        try:
            words = ["npm", "install", "--prefix", str(made), "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run([*words, *packages], check=True, capture_output=True, timeout=SECONDS)
            with suppress(OSError):  # another test has just installed them
                made.rename(found)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    assert found.exists()
    return found
