"""Attachments by their bytes: their types, the sizes in headers, and names that are no paths."""

from __future__ import annotations

import pytest
from pictures import gif, jpeg, png, webp

from penstock.chat.errors import ContentTooLarge
from penstock.chat.service.media import clean_name, media_type_of, pixels

PICTURES = [
    (png(3, 2), "image/png"),
    (gif(3, 2), "image/gif"),
    (jpeg(3, 2), "image/jpeg"),
    (webp(b"VP8X", 3, 2), "image/webp"),
    (webp(b"VP8L", 3, 2), "image/webp"),
    (webp(b"VP8 ", 3, 2), "image/webp"),
]


@pytest.mark.parametrize(("content", "kind"), PICTURES)
def test_pictures(content: bytes, kind: str) -> None:
    """A picture has the type and the size of its bytes, and one that is cut off before its size is no picture."""
    assert (media_type_of(content), pixels(content, kind)) == (kind, (3, 2))
    for end in range(len(content)):
        media_type_of(content[:end])
    assert media_type_of(content[:9]) == "application/octet-stream"


@pytest.mark.parametrize(
    "content",
    [png(claims=(50_000, 50_000)), png(claims=(20_001, 1)), gif(30_000, 30_000), jpeg(65_535, 65_535)]
    + [webp(kind, 16_000, 16_000) for kind in (b"VP8X", b"VP8L", b"VP8 ")],
)
def test_bombs(content: bytes) -> None:
    """A small file whose header has too many pixels is rejected; nothing decodes it."""
    with pytest.raises(ContentTooLarge, match="the picture has"):
        media_type_of(content)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "text/plain"),
        (b"<!doctype html><script>alert(1)</script>", "text/plain"),
        ("größer\n".encode(), "text/plain"),
        (b"%PDF-1.7\n%\xe2", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n<script>alert(1)</script>", "application/octet-stream"),  # no header of a picture
        (gif(3, 2) + b"<script>alert(1)</script>", "image/gif"),  # a polyglot: it is served as a picture only
        (b"\xff\xd8\xff\xe0 no jpeg at all", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
        (b"\xff\xfea", "application/octet-stream"),
    ],
)
def test_other_files(content: bytes, kind: str) -> None:
    """Text is text whatever is in it, and a wrong header makes no picture. No type is one that a browser executes."""
    assert media_type_of(content) == kind


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ann\\a b.png", "a b.png"),
        ("/", "file"),
        ("..", "file"),
        ("", "file"),
        (".bashrc", "bashrc"),
        ("a\nb\r\0c\x1b[31m.txt", "a b c [31m.txt"),
        ("invoice\u202efdp.exe", "invoice fdp.exe"),
        ("a\u2028b\ud800\ue000", "a b"),
        ("e\u0301.txt", "é.txt"),
        ("x" * 300 + ".png", "x" * 95 + "….png"),
        ("日" * 300, "日" * 79 + "…"),
    ],
)
def test_names(name: str, shown: str) -> None:
    """A name is one visible line without a path, short enough for any file system."""
    assert clean_name(name) == shown
    assert len(shown.encode()) <= 255
    assert clean_name(shown) == shown
