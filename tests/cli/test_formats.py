"""What an input is by its first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.formats import HEAD_BYTES, MIN_HEAD_BYTES, Opening, binary
from penstock.errors import UsageError

LINE = b'{"type":"text","text":"Gr\xc3\xbc\xc3\x9fe"}\n'


def passed(data: bytes, size: int) -> bytes:
    """What comes out of data that goes in by pieces of a size."""
    opening = Opening("x.bin")
    out = b"".join(opening.feed(data[start : start + size]) for start in range(0, len(data), size))
    return out + opening.close()


def tarred() -> bytes:
    """An archive with one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("run.ndjson"), io.BytesIO())
    return out.getvalue()


def zipped() -> bytes:
    """An archive with one file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("run.ndjson", LINE)
    return out.getvalue()


def database(folder: Path) -> bytes:
    """A database with a table."""
    with sqlite3.connect(folder / "x.db") as connection:
        connection.execute("create table t (a)")
    connection.close()
    return (folder / "x.db").read_bytes()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (gzip.compress(LINE), "gzip"),
        (bz2.compress(LINE), "bzip2"),
        (lzma.compress(LINE), "xz"),
        (b"\x28\xb5\x2f\xfd\x24\x1a\xd1\x00\x00", "zstd"),
        (zipped(), "zip"),
        (tarred(), "tar"),
        (b"\x7fELF\x02\x01\x01" + bytes(50), "ELF program"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "JPEG image"),
        (b"GIF89a\x01\0\x01\0", "GIF image"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "WebP image"),
        (b"%PDF-1.7\n%\xe2\xe3", "PDF"),
        (LINE.decode().encode("utf-16-le"), "UTF-16LE text"),
        (LINE.decode().encode("utf-16-be"), "UTF-16BE text"),
        (b"ab\0cd\0\0\x01 anything", ""),
        (bytes(range(1, 32)) * 4, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_binary_data_is_named(data: bytes, kind: str) -> None:
    """By its first bytes, however few of them came first."""
    found = binary(data)
    assert found is not None
    assert found.kind == kind
    for size in (1, 3) if kind != "tar" else (HEAD_BYTES,):
        with pytest.raises(UsageError, match="binary data"):
            passed(data, size)


def test_a_database_is_named(tmp_path: Path) -> None:
    """As SQLite writes it."""
    found = binary(database(tmp_path))
    assert found is not None
    assert found.kind == "SQLite database"


@pytest.mark.parametrize(
    "data",
    [
        LINE,
        b"\xef\xbb\xbf" + LINE,
        b"warning: no color\n" + LINE,
        "Grüße, 世界 🙂\n".encode(),
        "Grüße\n".encode("latin-1"),
        b"\x1b[1mbold\x1b[0m \x1b[31mred\x1b[0m\n",
        b"\0\0" + LINE,
        b"\xff\xfe\x80\x01garbage" + LINE,
        b"npm\0notice\n" + LINE,
        b"",
        b"\n\n",
        b"{",
    ],
)
def test_text_is_text(data: bytes) -> None:
    """Banners, colours, other encodings, and streams that begin with garbage are read."""
    opening = Opening("x")
    if not data.startswith(b"\xff\xfe"):
        assert binary(data) is None
        assert opening.feed(data) + opening.close() == data


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_utf_16_with_its_mark_becomes_utf_8(codec: str, size: int) -> None:
    """However it is cut."""
    data = ("\ufeff" + LINE.decode() * 3).encode(codec)
    assert passed(data, size) == LINE * 3


@pytest.mark.slow
@given(st.binary(max_size=64), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_bytes_pass_whole_or_not_at_all(data: bytes, sizes: list[int]) -> None:
    """What is no binary data and no UTF-16 comes out as it went in."""
    opening, out, at = Opening("x"), b"", 0
    try:
        while at < len(data):
            size = sizes[at % len(sizes)]
            out += opening.feed(data[at : at + size])
            at += size
        out += opening.close()
    except UsageError:
        return
    assert out == data or data.startswith((b"\xff\xfe", b"\xfe\xff"))


def test_little_is_waited_for() -> None:
    """Text goes through with its first line, or its first few bytes."""
    assert Opening("x").feed(b"Hi\n") == b"Hi\n"
    assert Opening("x").feed(b"x" * MIN_HEAD_BYTES) == b"x" * MIN_HEAD_BYTES
    assert HEAD_BYTES >= 262
