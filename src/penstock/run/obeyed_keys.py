"""Entries in files of keys that later runs obey: commands in place of a key, and addresses that settings come from."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from penstock.config.regular_files import read_start

COMMAND = "!"
"""Beginning of a key that is a command: an agent runs it in a shell, and uses what it prints."""
REMOTE = "wellknown"
"""Type of an entry with an address: an agent fetches settings from there, and sets a variable of its environment."""
MAX_BYTES = 4 << 20
"""Bytes of a file that are read: one of a few keys has a thousandth of it."""
UNREADABLE = "unreadable"
"""Stands for a file whose entries cannot be known: it is too long, not a file, or nothing that Python reads as JSON.

An agent may read it nevertheless: parsers differ in how deep an entry may be.
"""
IN_USE = "in use"
"""Stands for a database that another program keeps locked. It may be using the database, which is not moved then."""


def obeyed_in(path: str) -> tuple[str, ...]:
    """Return a digest of each entry that later runs obey; none for a file that is missing or empty.

    It is one of the name and the whole entry, such as the environment of a command. Entries may have secrets.
    """
    try:
        data = read_start(path, MAX_BYTES + 1, follows=True)  # the agent follows a link too
    except FileNotFoundError:
        return ()
    except OSError:
        return (UNREADABLE,)
    if not data.strip():
        return ()
    if len(data) > MAX_BYTES:
        return (UNREADABLE,)
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"), parse_int=float)
        entries = value.items() if isinstance(value, dict) else [("", value)]
        found = [json.dumps([name, entry], sort_keys=True) for name, entry in entries if is_obeyed(entry)]
    except (ValueError, RecursionError):
        return (UNREADABLE,)
    return tuple(sorted(hashlib.sha256(entry.encode()).hexdigest() for entry in found))


def is_obeyed(value: Any) -> bool:
    """Return whether an entry is a command in place of a key, or has an address that settings come from."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if one.lstrip().startswith(COMMAND):
                return True
        elif isinstance(one, dict):
            if one.get("type") == REMOTE:
                return True
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False
