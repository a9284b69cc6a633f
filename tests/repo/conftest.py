"""What the tests of repositories share: a user's repository, and the home of a tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import UserRepository, identity

__all__ = ["identity"]


@pytest.fixture
def user(tmp_path: Path) -> UserRepository:
    """Make a repository with one commit."""
    return UserRepository(tmp_path / "work" / "app")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Name the home of a tree in a data directory."""
    return tmp_path / "data" / "trees" / "t1"
