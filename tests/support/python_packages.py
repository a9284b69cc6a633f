"""Packages from PyPI that no environment of the project has, each version once in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 300


def installed(package: str, *more: str, seconds: float = SECONDS) -> Path:
    """The folder with a package, as `mcp==2.3.0`, and what it needs; it is installed at the first call.

    `more`: other packages that go with it.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "python"
    found = root / f"{sys.version_info[0]}.{sys.version_info[1]}" / package
    if not found.exists():
        found.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".installing-", dir=root))
        try:
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
            subprocess.run([*words, str(made), package, *more], check=True, capture_output=True, timeout=seconds)
            try:
                made.rename(found)
            except OSError:  # another process has installed it meanwhile
                if not found.exists():
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return found
