"""Addresses of servers, as a person writes them: `api.example.com:443`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from penstock.config.rules import Rule

_TEXT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?):([0-9]{1,5})")
EXPECTED = "HOST:PORT, as api.example.com:443, *.example.com:443 or 127.0.0.1:8080"


class ServerAddress(msgspec.Struct, frozen=True, order=True):
    """Host in small letters, and port. A host that begins with `*.` is every host below that domain."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def covers(self, other: ServerAddress) -> bool:
        """Return whether another address, which has no `*.`, is this one or one of these."""
        is_host = other.host.endswith(self.host[1:]) if self.host.startswith("*.") else other.host == self.host
        return is_host and other.port == self.port


def address_of(text: str) -> ServerAddress | None:
    """Return the address that a text names; None if it names none."""
    found = _TEXT.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        return None
    return ServerAddress(found[1].strip("[]").lower(), int(found[2]))


def _is_address(value: object) -> bool:
    return isinstance(value, str) and address_of(value) is not None


ADDRESS = Rule(_is_address, EXPECTED)
"""Rule of one address."""
ADDRESSES = Rule(
    lambda value: isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is_address, value)),
    f"a list of addresses: {EXPECTED}",
)
