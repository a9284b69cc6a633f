"""Codes that the text sink writes itself; no others may reach a terminal."""

from __future__ import annotations

import re

from penstock.sinks.sanitize import clean
from penstock.sinks.text.styles import COLOURS, LABEL_COLOURS

_COLOURS = "|".join(sorted({"0", "3", "4", "34", "36", *";".join([*COLOURS.values(), *LABEL_COLOURS]).split(";")}))
_SGR = rf"\x1b\[(?:{_COLOURS})(?:;(?:{_COLOURS}))*m"
_LINK = r"\x1b\]8;;(?:(?i:https?://|mailto:)[!-~]+)?\x1b\\"
_SECTION = r"\x1b\[0Ksection_(?:start|end):0:penstock_[A-Za-z0-9_.-]+(?:\[collapsed=true\])?\r\x1b\[0K"
_OWN = re.compile(f"({_SGR}|{_LINK}|{_SECTION})")


def clean_styled(text: str) -> str:
    """Return output of the text sink in which only its own codes have an effect.

    The sink sanitizes every text before it adds a code. This is a second barrier, in case the sink missed a text.
    """
    if "\x1b" not in text:
        return clean(text)
    pieces = _OWN.split(text)  # every second piece is a code
    pieces[::2] = map(clean, pieces[::2])
    return "".join(pieces)
