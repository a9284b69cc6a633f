"""Pictures of tests: small real ones, and headers of pictures that would be large."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 2, height: int = 2, *, claims: tuple[int, int] | None = None) -> bytes:
    """A picture in one colour; its header `claims` another size, if given."""
    header = struct.pack(">IIBBBBB", *(claims or (width, height)), 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x60\xa0" * width) * height
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def gif(width: int, height: int) -> bytes:
    """The header of a GIF."""
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int, height: int) -> bytes:
    """The beginning of a JPEG: a segment with text, a table, padding, and the segment with the size."""
    frame = struct.pack(">BHHB", 8, height, width, 3) + bytes(9)
    parts = [(0xE0, b"JFIF\0" + bytes(9)), (0xC4, bytes(17)), (0xC2, frame)]
    segments = (
        b"\xff" * (kind == 0xC2) + struct.pack(">BBH", 0xFF, kind, len(data) + 2) + data for kind, data in parts
    )
    return b"\xff\xd8" + b"".join(segments) + b"\xff\xd9"


def webp(kind: bytes, width: int, height: int) -> bytes:
    """The beginning of a WebP of one of its three kinds."""
    if kind == b"VP8X":
        body = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        body = bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height)
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk
