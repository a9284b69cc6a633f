"""Files and pictures of a chat's directory over the API: as what they are sent, and to whom."""

from __future__ import annotations

from pictures import png
from served import Gateway

PNG = png()


def test_files_of_the_directory(shared: Gateway) -> None:
    """A text file is lines of JSON; a picture is an image that no browser takes for a page."""
    with shared.client() as client:
        path = f"/api/chats/{shared.chat()}"
        (shared.root / "a b.txt").write_text("one\ntwo")
        (shared.root / "p.html").write_bytes(PNG)
        found = client.get(f"{path}/file", params={"path": "a b.txt", "line": 2})
        assert found.json() == {"path": "a b.txt", "first": 1, "lines": ["one", "two"], "total": 2}
        picture = client.get(f"{path}/picture", params={"path": "p.html"})
        assert (picture.status_code, picture.content, picture.headers["content-type"]) == (200, PNG, "image/png")
        assert picture.headers["x-content-type-options"] == "nosniff"
        assert picture.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in picture.headers["content-security-policy"]
        for tail, status in (
            ("file?path=../out", 404),
            ("file?path=/etc/passwd", 404),
            ("picture?path=none.png", 404),
            ("picture?path=a%20b.txt", 409),
            ("file", 400),
            ("file?path=a%20b.txt&line=x", 400),
        ):
            assert client.get(f"{path}/{tail}").status_code == status, tail
