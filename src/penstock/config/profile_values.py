"""Profiles that a configuration has, with the values of their keys."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from penstock.config.settings import Config, Setting


class Profile(msgspec.Struct):
    """One profile."""

    name: str
    origin: str
    """File and line of its first key."""
    of_project: bool
    settings: dict[str, Setting]
    """Settings by their keys; those of a table by `table.name`."""

    def value(self, key: str) -> Any:
        """Return the value of a key; None if it is not set."""
        found = self.settings.get(key)
        return None if found is None else found.value

    def table(self, name: str) -> dict[str, str]:
        """Return the values of a table."""
        return {key[len(name) + 1 :]: it.value for key, it in self.settings.items() if key.startswith(f"{name}.")}

    @property
    def folder(self) -> str:
        """Directory of its file, to which its paths are relative."""
        return os.path.dirname(os.path.abspath(self.origin.rpartition(":")[0]))

    def path(self, written: str) -> str:
        """Return a path of it: it is relative to its folder."""
        return os.path.join(self.folder, os.path.expanduser(written))


def profile_names(config: Config) -> list[str]:
    """Return the names of all profiles."""
    return sorted({path[1] for path in config.settings if path[0] == "run" and len(path) > 2})


def profile(config: Config, name: str) -> Profile | None:
    """Return the profile of this name; None if there is none."""
    found = {
        ".".join(path[2:]): setting
        for path, setting in config.settings.items()
        if path[:2] == ("run", name) and len(path) > 2
    }
    if not found:
        return None
    first = next(iter(found.values()))
    return Profile(name, first.origin, first.of_project, found)
