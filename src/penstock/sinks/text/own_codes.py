"""Codes that the text sink writes itself; no others may reach a terminal."""

from __future__ import annotations

import re

from penstock.sinks.sanitize import clean
from penstock.sinks.text.styles import COLOURS, LABEL_COLOURS

_COLOUR_CODES = "|".join(sorted({"0", *COLOURS.values(), *LABEL_COLOURS, *(f"2;{label}" for label in LABEL_COLOURS)}))
_SECTION = r"\x1b\[0Ksection_(?:start|end):0:penstock_[A-Za-z0-9_.-]+(?:\[collapsed=true\])?\r\x1b\[0K"
_OWN = re.compile(rf"(\x1b\[(?:{_COLOUR_CODES})m|{_SECTION})")


def clean_styled(text: str) -> str:
    """Return output of the text sink in which only its own codes have an effect.

    The sink sanitizes every text before it adds a code. This is a second barrier, in case the sink missed a text.
    """
    if "\x1b" not in text:
        return clean(text)
    pieces = _OWN.split(text)  # every second piece is a code
    pieces[::2] = map(clean, pieces[::2])
    return "".join(pieces)
