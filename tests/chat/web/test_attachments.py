"""Pictures and files of messages over the API: uploaded, named by a message, served as downloads, shared on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from pictures import png
from served import Gateway
from waiting import until

OCTETS = {"Content-Type": "application/octet-stream"}
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.fixture
def client(shared: Gateway) -> Iterator[httpx.Client]:
    """A program that knows the token."""
    with shared.client() as client:
        yield client


def upload(client: httpx.Client, chat: str, content: bytes, name: str = "a.png", **headers: str) -> httpx.Response:
    """Send a file."""
    path = f"/api/chats/{chat}/attachments?name={quote(name, safe='')}"
    return client.post(path, content=content, headers={**OCTETS, **headers})


def test_a_picture_goes_with_a_message(shared: Gateway, client: httpx.Client) -> None:
    """A picture is uploaded, named by a message, shown in its turn, in its frames, and served byte for byte."""
    chat, picture = shared.chat(), png()
    made = upload(client, chat, picture, "../Bildschirm\u202efoto.png")
    assert made.status_code == 201, made.text
    file = made.json()
    assert file == {"id": file["id"], "name": "Bildschirm foto.png", "media_type": "image/png", "size": len(picture)}
    asked = client.post(f"/api/chats/{chat}/turns", json={"text": "", "attachments": [file["id"]]})
    assert (asked.status_code, asked.json()) == (202, {"turn": 1})
    (turn,) = client.get(f"/api/chats/{chat}/turns").json()["turns"]
    assert (turn["prompt"], turn["attachments"]) == ("", [file])
    until(lambda: client.get(f"/api/chats/{chat}/turns").json()["turns"][0].get("outcome") == "ok")
    with client.stream("GET", f"/api/chats/{chat}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data:"):
                assert f'"attachments":[{{"id":"{file["id"]}"' in line
                break
    served = client.get(f"/api/chats/{chat}/attachments/{file['id']}")
    assert served.content == picture
    assert served.headers["content-type"] == "image/png"
    assert served.headers["content-disposition"] == "attachment; filename*=UTF-8''Bildschirm%20foto.png"
    again = client.get(f"/api/chats/{chat}/attachments/{file['id']}", headers={"If-None-Match": served.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = client.head(f"/api/chats/{chat}/attachments/{file['id']}")
    assert (head.status_code, head.content) == (200, b"")
    assert client.get("/api/about").json()["max_attachment_bytes"] == 10 * 1024 * 1024


@pytest.mark.parametrize("content", [SVG, b"<!doctype html><script>alert(1)</script>", b"%PDF-1.7\n%\xe2", b"MZ\0\xff"])
def test_nothing_is_served_as_a_document(shared: Gateway, client: httpx.Client, content: bytes) -> None:
    """Files that a browser could run are downloads of a harmless type, under a policy that allows nothing."""
    chat = shared.chat()
    id = upload(client, chat, content, 'x.html"\r\nSet-Cookie: a=b').json()["id"]
    answer = client.get(f"/api/chats/{chat}/attachments/{id}")
    assert answer.content == content
    kind = answer.headers["content-type"].split(";")[0]
    assert kind in ("text/plain", "application/pdf", "application/octet-stream")
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'; sandbox" in answer.headers.get_list("content-security-policy")
    assert "set-cookie" not in answer.headers


def test_uploads_that_are_rejected(shared: Gateway, client: httpx.Client) -> None:
    """Another type, a bomb, an empty or too large body, and a page of another origin are errors; nothing is kept."""
    chat = shared.chat()
    form = upload(client, chat, b"x", **{"Content-Type": "multipart/form-data; boundary=x"})
    assert form.status_code == 415
    plain = upload(client, chat, b"x", **{"Content-Type": "text/plain"})
    assert plain.status_code == 415
    bomb = upload(client, chat, png(claims=(50_000, 50_000)))
    assert (bomb.status_code, bomb.json()["detail"].split(";")[0]) == (413, "the picture has 50,000 × 50,000 pixels")
    assert upload(client, chat, b"").status_code == 400
    assert upload(client, chat, bytes(10 * 1024 * 1024 + 1)).status_code == 413
    assert upload(client, "0" * 32, b"x").status_code == 404
    with shared.browser() as browser:
        browser.headers["Origin"] = "https://evil.example"
        assert upload(browser, chat, b"x").status_code == 403
    assert shared.call(shared.store.list_attachments(chat)) == []


def test_files_belong_to_their_chat(shared: Gateway, client: httpx.Client) -> None:
    """The id of a file of another chat opens nothing, is named by no message, and removes nothing."""
    one, two = shared.chat(), shared.chat()
    id = upload(client, one, b"secret", "s.txt").json()["id"]
    assert client.get(f"/api/chats/{two}/attachments/{id}").status_code == 404
    named = client.post(f"/api/chats/{two}/turns", json={"text": "hi", "attachments": [id]})
    assert named.status_code == 400
    assert client.delete(f"/api/chats/{two}/attachments/{id}").status_code == 204
    assert client.get(f"/api/chats/{one}/attachments/{id}").content == b"secret"
    assert client.delete(f"/api/chats/{one}/attachments/{id}").status_code == 204
    assert client.get(f"/api/chats/{one}/attachments/{id}").status_code == 404


@pytest.mark.slow
def test_files_are_shared_with_the_details(own: Callable[..., Gateway]) -> None:
    """A link shows the files of the turns that it shows if it shows details, and no file that was not sent."""
    gateway = own()
    chat = gateway.chat()
    with gateway.client() as client:
        ids = [upload(client, chat, b"%d" % number, "n.txt").json()["id"] for number in range(3)]
        for number, id in enumerate(ids[:2]):
            client.post(f"/api/chats/{chat}/turns", json={"text": str(number), "attachments": [id]})
        until(
            lambda: [it.get("outcome") for it in client.get(f"/api/chats/{chat}/turns").json()["turns"]] == ["ok"] * 2
        )
        codes = {
            details: client.post(f"/api/chats/{chat}/shares", json={"until": 1, "details": details})
            .json()["url"]
            .split("#")[1]
            for details in (False, True)
        }
    with gateway._client({}) as anybody:

        def status(details: bool, turn: int, id: str) -> int:
            headers = {"X-Penstock-Share": codes[details]}
            answer = anybody.get("/api/shared/attachment", params={"turn": turn, "id": id}, headers=headers)
            return answer.status_code

        assert [status(True, 1, ids[0]), status(False, 1, ids[0])] == [200, 403]
        assert [status(True, 2, ids[1]), status(True, 1, ids[1]), status(True, 1, ids[2])] == [404, 404, 404]
        for details, shown in ((True, ids[0]), (False, None)):
            answer = anybody.get("/api/shared", headers={"X-Penstock-Share": codes[details]}).json()
            found = [file["id"] for file in answer["turns"][0].get("attachments", [])]
            assert found == ([shown] if shown else [])
        assert anybody.get(f"/api/chats/{chat}/attachments/{ids[0]}").status_code == 401
