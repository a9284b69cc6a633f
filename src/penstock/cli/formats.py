"""Detection of an input's format by its first bytes: binary data is rejected, UTF-16 text is converted to UTF-8."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from penstock.errors import UsageError

HEAD_BYTES = 512
"""Bytes of an input that are examined: the signature of a tar archive is at byte 257."""

MIN_HEAD_BYTES = 8
"""Bytes to wait for unless a line ends earlier: the first bytes may arrive one by one in a pipe."""

MAX_CONTROLS = 0.1
"""Largest share of control characters at the beginning of text: colours have a few, binary data has about a quarter."""

EXPECTED = "one JSON object a line, as an agent prints it"


class Binary(NamedTuple):
    """Kind of binary data, and the command that converts it to text; "" if there is none."""

    kind: str
    command: str = ""


_MAGIC = (
    (0, b"\x1f\x8b", Binary("gzip", "gzip -dc")),
    (0, b"\x28\xb5\x2f\xfd", Binary("zstd", "zstd -dc")),
    (0, b"\xfd7zXZ\0", Binary("xz", "xz -dc")),
    (0, b"BZh", Binary("bzip2", "bzip2 -dc")),
    (0, b"PK\x03\x04", Binary("zip", "unzip -p")),
    (0, b"PK\x05\x06", Binary("zip")),
    (0, b"7z\xbc\xaf\x27\x1c", Binary("7z", "7z x -so")),
    (257, b"ustar", Binary("tar", "tar -xOf")),
    (0, b"\x7fELF", Binary("ELF program")),
    (0, b"\xcf\xfa\xed\xfe", Binary("Mach-O program")),
    (0, b"\xca\xfe\xba\xbe", Binary("Mach-O program or Java class")),
    (0, b"MZ\x90", Binary("Windows program")),
    (0, b"\0asm", Binary("WebAssembly")),
    (0, b"\x89PNG", Binary("PNG image")),
    (0, b"\xff\xd8\xff", Binary("JPEG image")),
    (0, b"GIF8", Binary("GIF image")),
    (8, b"WEBP", Binary("WebP image")),
    (0, b"%PDF-", Binary("PDF")),
    (0, b"SQLite format 3\0", Binary("SQLite database")),
)
_CONTROLS = bytes(range(7)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"


def binary(head: bytes) -> Binary | None:
    """Return the kind of binary data that begins with these bytes; None if they may be text.

    UTF-16 with a byte order mark is text (see `is_utf16`). Anything that contains the beginning of a JSON object and is
    not full of NUL bytes is text too, because a stream may begin with garbage.
    """
    head = head[:HEAD_BYTES]
    for at, magic, found in _MAGIC:
        if head.startswith(magic, at):
            return found
    if is_utf16(head):
        return None
    for codec, zeros in (("UTF-16LE", head[1::2]), ("UTF-16BE", head[::2])):
        if len(head) >= 4 and zeros.count(0) == len(zeros) and head.count(0) == len(zeros):
            return Binary(f"{codec} text", f"iconv -f {codec} -t UTF-8")
    if b'{"' in head:
        return None
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if b"\0" in head.strip(b"\0\r\n") or controls > MAX_CONTROLS * len(head):
        return Binary("")
    return None


def is_utf16(head: bytes) -> bool:
    """Return whether text begins with the byte order mark of UTF-16, as PowerShell writes it to files."""
    return head.startswith((b"\xff\xfe", b"\xfe\xff")) and not head.startswith(b"\xff\xfe\0\0")


class Opening:
    """Filter that passes an input on as soon as its first bytes prove to be text."""

    def __init__(self, source: str) -> None:
        """`source` is the name of the input in errors."""
        self._source = source
        self._head: bytes | None = b""  # None as soon as the format is known
        self._utf16: codecs.IncrementalDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to read now, as UTF-8.

        Raises:
            UsageError: the input is binary data.
        """
        if self._head is not None:
            data = self._head + data
            if len(data) < MIN_HEAD_BYTES and b"\n" not in data:
                self._head = data
                return b""
            self._begin(data)
        return data if self._utf16 is None else self._utf16.decode(data).encode()

    def close(self) -> bytes:
        """Return the bytes that were held back.

        Raises:
            UsageError: the input is binary data.
        """
        data, self._head = self._head or b"", None
        if data:
            check(data, self._source)
        return data if self._utf16 is None else self._utf16.decode(b"", final=True).encode()

    def _begin(self, head: bytes) -> None:
        self._head = None
        check(head, self._source)
        if is_utf16(head):
            self._utf16 = codecs.getincrementaldecoder("utf-16")("replace")


def check(head: bytes, source: str) -> None:
    """Raise an error if the first bytes of an input are binary data.

    Raises:
        UsageError: the input is binary data.
    """
    found = binary(head)
    if found is None:
        return
    kind = f" ({found.kind})" if found.kind else ""
    name = "FILE" if source == "stdin" else source
    raise UsageError(
        f"cannot read {source!r}: it is binary data{kind}" if source != "stdin" else f"stdin is binary data{kind}",
        expected=EXPECTED,
        help=f"{found.command} {name} | penstock" if found.command else "",
    )
