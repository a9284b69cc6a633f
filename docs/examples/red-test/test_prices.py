"""Tests of the sums of prices."""

import unittest

from prices import average, total


class Prices(unittest.TestCase):
    """Sums of prices."""

    def test_total(self) -> None:
        """The total is the sum."""
        assert total([1, 2, 6]) == 9

    def test_average_of_nothing(self) -> None:
        """The average of no prices is 0."""
        assert average([]) == 0
