"""What the tests of whole loops share."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repository import identity
from loop_desk import Desk

__all__ = ["identity"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Make a user's repository with agents."""
    return Desk(tmp_path)
