"""Modules that are imported when a test first uses them.

Each worker of pytest imports all modules of tests, and runs a part of them. The official clients of other protocols
take more than half of the time for that.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Module of this name, which is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks each value of a module of tests whether it is a fixture
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
