"""Another parser of agent-doc's components, written from their description alone, for comparison with ours.

`<!-- agent:NAME attributes -->` to `<!-- /agent:NAME -->`, NAME of letters, digits and hyphens; ignored in fenced and
inline code. It reads line by line and character by character, and shares no code with `penstock.doc`.
"""

from __future__ import annotations

import string

ALPHABET = set(string.ascii_letters + string.digits + "-")


def hidden(text: str) -> str:
    """Return the text with each character in code replaced by a space."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        blank = "".join(" " if char not in "\r\n" else char for char in line)
        if fence:
            kept.append(blank)
            if bare and set(bare) == {fence[0]} and len(bare) >= len(fence):
                fence = ""
        elif bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            kept.append(blank)
        else:
            kept.append(_without_inline_code(line))
    return "".join(kept)


def _without_inline_code(line: str) -> str:
    parts = line.split("`")
    return "`".join(
        part if index % 2 == 0 or index == len(parts) - 1 else " " * len(part) for index, part in enumerate(parts)
    )


def components(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Return name, attributes and content of each component."""
    shown = hidden(text)
    found: list[tuple[str, dict[str, str], str]] = []
    opened: tuple[str, dict[str, str], int] | None = None
    position = 0
    while (start := shown.find("<!--", position)) >= 0:
        end = shown.find("-->", start)
        if end < 0:
            break
        words = shown[start + 4 : end].split()
        position = end + 3
        first = words[0] if words else ""
        name = first.removeprefix("/").removeprefix("agent:")
        if not first.removeprefix("/").startswith("agent:") or not name or set(name) - ALPHABET:
            continue
        if first.startswith("/"):
            assert opened is not None
            assert opened[0] == name
            found.append((name, opened[1], text[opened[2] : start]))
            opened = None
        else:
            attributes = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            opened = (name, attributes, position)
    assert opened is None
    return found
