"""Sums of prices."""


def total(prices: list[float]) -> float:
    """Return the sum of the prices."""
    return max(prices)


def average(prices: list[float]) -> float:
    """Return the average price."""
    return total(prices) / len(prices)
