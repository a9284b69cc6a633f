"""Webhooks of the configuration: the tables `[[notify]]`."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from penstock.config.rules import Rule, one_of

_ADDRESS = re.compile(r"https?://[^\s/?#@]+(?:[/?][^\s#]*)?", re.ASCII | re.IGNORECASE)


class Webhook(msgspec.Struct, frozen=True):
    """Table `[[notify]]`: an address to which messages about chats are sent."""

    url: str
    secret: str | None = None
    """Key that signs the requests; for ntfy, an access token of its server."""
    on: tuple[Literal["asks", "ended"], ...] = ("asks", "ended")
    format: Literal["json", "ntfy"] = "json"
    link: str | None = None
    """Address of the server in links for people; None: the address that the server prints."""


def _is_address(value: object) -> bool:
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None


def _are_occasions(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(it in ("asks", "ended") for it in value)


def _is_secret(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isascii() and value.isprintable()


ADDRESS = Rule(_is_address, 'an address without a login in it, e.g. "https://example.com/hook"')
NOTIFY: dict[str, Rule] = {
    "url": ADDRESS,
    "secret": Rule(_is_secret, "a text of printable ASCII characters"),
    "on": Rule(_are_occasions, 'a list of "asks" and "ended"'),
    "format": one_of("json", "ntfy", quote='"'),
    "link": ADDRESS,
}


def mistakes(value: Any) -> list[tuple[str, str | None, Any]]:
    """Return the place, key and value of each mistake in `[[notify]]`.

    The key is None if the value is not a list of tables. A secret is never returned.
    """
    if not isinstance(value, list) or not all(isinstance(it, dict) for it in value):
        return [("notify", None, value)]
    found: list[tuple[str, str | None, Any]] = []
    for number, table in enumerate(value):
        place = f"notify[{number}]"
        found += [(place, key, "…" if key == "secret" else it) for key, it in table.items() if not _fits(key, it)]
        if "url" not in table:
            found.append((place, "url", None))
    return found


def _fits(key: str, value: object) -> bool:
    return key in NOTIFY and NOTIFY[key].fits(value)


def without_secrets(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tables for a listing, without their secrets."""
    return [{key: "…" if key == "secret" else it for key, it in table.items()} for table in value]
