"""Notes in a folder."""

import os


def names(folder: str) -> list[str]:
    """Return the names of the notes, sorted; none if there is no such folder."""
    if not os.path.isdir(folder):
        return []
    return sorted(name for name in os.listdir(folder) if os.path.splitext(name)[1] == ".txt")
