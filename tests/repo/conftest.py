"""What the tests of repositories share: a user's repository, and the home of a tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_repository import UserRepository, identity

__all__ = ["identity"]

NOBODY = 65534
"""Id of a user who is not root."""


@pytest.fixture
def user(tmp_path: Path) -> UserRepository:
    """Make a repository with one commit."""
    return UserRepository(tmp_path / "work" / "app")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Name the home of a tree in a data directory."""
    return tmp_path / "data" / "trees" / "t1"


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of a user who is not root, as whom the test runs: permissions count for them."""
    folder = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, NOBODY, NOBODY)
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(0)
        subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False)
        shutil.rmtree(folder)
