"""Attachments by their bytes: their type, the pixels of a picture by its header, and a name that is not a path.

Nothing is decoded here: the header of a picture says how much memory a decoder would need.
"""

from __future__ import annotations

import re
import struct
import unicodedata

from penstock.chat.errors import ContentTooLarge
from penstock.run.inputs import image_type

MAX_SIDE_PIXELS = 20_000
"""Pixels of the longest side of a picture: more than a scan or a screenshot of a whole page has."""

MAX_PIXELS = 100_000_000
"""Pixels of a picture: those of the largest cameras. A browser that shows it needs four bytes for each."""

MAX_NAME_CHARS = 100
"""Characters of a name; in UTF-8 they fit into a file name of Linux, which has 255 bytes."""

BINARY, TEXT, PDF = "application/octet-stream", "text/plain", "application/pdf"

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types that are shown as pictures. Others, such as SVG and HTML, are text and are never shown by a browser."""

_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that a name does not have: controls, changes of direction, line breaks, halves."""

_NOT_JPEG_SIZES = frozenset({0xC4, 0xC8, 0xCC})
"""Segments of JPEG in the range of those with the size that have something else."""


def media_type_of(content: bytes) -> str:
    """Return the type of an attachment by its bytes; its name does not count.

    A picture whose header has no size is not shown as one.

    Raises:
        ContentTooLarge: it is a picture with more pixels than `MAX_PIXELS`.
    """
    picture = image_type(content)
    if picture is not None:
        found = pixels(content, picture)
        if found is None:
            return BINARY
        width, height = found
        if max(width, height) > MAX_SIDE_PIXELS or width * height > MAX_PIXELS:
            what = f"the picture has {width:,} × {height:,} pixels"
            raise ContentTooLarge(what, expected=f"at most {MAX_PIXELS:,} pixels, and {MAX_SIDE_PIXELS:,} a side")
        return picture
    if content.startswith(b"%PDF-"):
        return PDF
    try:
        return BINARY if "\0" in content.decode() else TEXT
    except UnicodeDecodeError:
        return BINARY


def pixels(content: bytes, media_type: str) -> tuple[int, int] | None:
    """Return the width and the height in the header of a picture; None if it has none."""
    try:
        width, height = _SIZES[media_type](content)
    except (struct.error, IndexError, ValueError):
        return None
    return (width, height) if width > 0 and height > 0 else None


def _png(content: bytes) -> tuple[int, int]:
    if content[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack_from(">II", content, 16)
    return width, height


def _gif(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", content, 6)
    return width, height


def _jpeg(content: bytes) -> tuple[int, int]:
    at = 2
    while True:
        if content[at] != 0xFF:
            raise ValueError
        kind = content[at + 1]
        if kind == 0xFF:  # padding
            at += 1
        elif kind == 0x01 or 0xD0 <= kind <= 0xD7:  # a segment without a length
            at += 2
        elif 0xC0 <= kind <= 0xCF and kind not in _NOT_JPEG_SIZES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return width, height
        elif kind in (0xD9, 0xDA):  # the picture begins, or ends, without a size
            raise ValueError
        else:
            at += 2 + struct.unpack_from(">H", content, at + 2)[0]


def _webp(content: bytes) -> tuple[int, int]:
    kind = content[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
        if len(content) < 30:
            raise ValueError
        return width, height
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", content, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind != b"VP8 ":
        raise ValueError
    width, height = struct.unpack_from("<HH", content, 26)
    return width & 0x3FFF, height & 0x3FFF


_SIZES = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}


def clean_name(name: str) -> str:
    """Return a name of a file as one line of visible characters, which is neither a path nor a hidden file.

    Characters that change the direction of writing are left out: they could show another ending than the name has.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    visible = "".join(char if unicodedata.category(char) not in _HIDDEN else " " for char in last)
    words = " ".join(visible.split()).lstrip(".").strip()
    if len(words) <= MAX_NAME_CHARS:
        shown = words
    else:
        stem, dot, ending = words.rpartition(".")
        ending = dot + ending if dot and stem and len(ending) <= 12 else ""
        shown = words[: MAX_NAME_CHARS - 1 - len(ending)].rstrip() + "…" + ending
    while len(shown.encode()) > 240:
        shown = shown[1:]
    return shown.strip() or "file"
