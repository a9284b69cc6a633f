"""The page that a package index shows, made from the README; the build uses it."""

from __future__ import annotations

import re

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""Link or picture whose target is a path of the repository."""


def index_page(text: str, source: str | None, version: str) -> str:
    """Return a Markdown text for a reader who has no files beside it.

    Paths become addresses below the repository `source`, at the tag of the version. Without a known repository, links
    become plain text and pictures are left out.
    """

    def absolute(found: re.Match[str]) -> str:
        picture, label, path = found.groups()
        if source is None:
            return "" if picture else label
        return f"{picture}[{label}]({source}/{'raw' if picture else 'blob'}/v{version}/{path})"

    return LINK.sub(absolute, text)
