"""Tests of the figures about texts."""

import unittest

import texts


class Texts(unittest.TestCase):
    """Figures about texts."""

    def test_words(self) -> None:
        """Words are separated by spaces."""
        assert texts.words("one two") == 2
