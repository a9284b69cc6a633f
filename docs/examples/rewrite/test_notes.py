"""Tests of the notes."""

import tempfile
import unittest
from pathlib import Path

from notes import names


class Notes(unittest.TestCase):
    """Notes in a folder."""

    def test_names(self) -> None:
        """Only texts are notes."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("b.txt", "a.txt", "c.md"):
                Path(folder, name).touch()
            assert names(folder) == ["a.txt", "b.txt"]

    def test_no_folder(self) -> None:
        """A folder that is not there has no notes."""
        assert names("/nowhere") == []
