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


def test_names_of_files(shared: Gateway) -> None:
    """They are offered by a part of their path, and never kept by a browser."""
    with shared.client() as client:
        path = f"/api/chats/{shared.chat()}/files"
        (shared.root / "offered é.txt").write_text("x")
        found = client.get(path, params={"q": "OFFERED É"})
        assert (found.status_code, found.json()) == (200, {"paths": ["offered é.txt"]})
        assert found.headers["cache-control"] == "no-store"
        assert client.get(path).status_code == 200
        for typed, status in (("x" * 5000, 400), ("\0", 400), ("../", 200)):
            assert client.get(path, params={"q": typed}).status_code == status
