"""Figures about texts."""


def words(text: str) -> int:
    """Return the number of words."""
    return len(text.split())
