"""Links of Markdown that are shown as hyperlinks. Both parts are an agent's words, so nothing may deceive."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

MAX_LINK_CHARS = 600
"""Characters of the longest link that is held back until it ends; a longer one is shown as it came."""

LINK = re.compile(r"\[(?P<text>[^\[\]\n]+)\]\((?P<address>[^()\s<>]+(?:\([^()\s<>]*\)[^()\s<>]*)*)\)"
                  r"|<(?P<own>(?:https?://|mailto:)[^\s<>]+)>")  # fmt: skip
_BEGUN = re.compile(
    r"\[(?:[^\[\]\n]+(?:\](?:\((?:[^()\s<>]+(?:\([^()\s<>]*\)[^()\s<>]*)*(?:\([^()\s<>]*)?)?)?)?)?\Z"
    r"|<(?:h|ht|htt|http|https|https?:|https?:/|https?://[^\s<>]*|m|ma|mai|mail|mailt|mailto|mailto:[^\s<>]*)?\Z"
)
_SAFE = re.compile(r"(?:https?://|mailto:)[!-~]+", re.IGNORECASE)
_LIKE_ADDRESS = re.compile(r"://|@|[^\W_][\w-]*\.[^\W\d_]{2,}|www\.")


def may_begin_link(text: str, at: int) -> bool:
    """Return whether `text` from `at` on is the beginning of a link that is not complete yet."""
    return len(text) - at <= MAX_LINK_CHARS and _BEGUN.match(text, at) is not None


def is_safe(address: str) -> bool:
    """Return whether a terminal may open this address: a web page or an e-mail, in visible ASCII characters."""
    return _SAFE.fullmatch(address) is not None and bool(host_of(address))


def host_of(address: str) -> str:
    """Return the host of an address, or the receiver of an e-mail; "" if there is none."""
    try:
        parts = urlsplit(address)
        return parts.path if parts.scheme == "mailto" else parts.hostname or ""
    except ValueError:
        return ""


def deceives(text: str, address: str) -> bool:
    """Return whether the text of a link looks like an address, but not like this one."""
    found = _LIKE_ADDRESS.search(text)
    return found is not None and text.strip() not in (address, address.partition("://")[2].rstrip("/"))
