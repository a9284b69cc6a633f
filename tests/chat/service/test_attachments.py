"""Attachments in the service: kept before their message, given to the agent by its own way, deleted with their chat."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from pictures import png

from penstock.chat.errors import ContentTooLarge, Invalid, NoSuchAttachment, TooMany
from penstock.chat.service import attachments
from penstock.chat.service.limits import Retention, ServiceLimits
from penstock.chat.store.protocol import StoreFailed
from penstock.chat.store.rows import SENDING
from penstock.config import settings

if TYPE_CHECKING:
    from chat.service.conftest import Home

LOOKING = """
import json, os, re, sys
path = re.search("- (.*) \\\\(", sys.stdin.read())[1]
found = str(os.path.getsize(path))
try:
    open(path, "ab")
    found += ", written"
except OSError:
    found += ", not written"
found += f", {os.listdir(re.sub('/[^/]*/[^/]*/[^/]*$', '', path))}"
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": found}))
"""
"""A program that reads an attachment, tries to write it, and lists the directories of chats that it sees."""

PDF = b"%PDF-1.7\n%\xe2\xe3"


@pytest.mark.slow
def test_an_agent_gets_pictures_by_its_wire(home: Home) -> None:
    """An agent that takes images gets the bytes; one that does not gets a link to a file that it can read."""
    home.peer("seeing", "--images")
    home.peer("blind")
    picture = png()

    async def chat() -> None:
        async with home.service() as service:
            for agent in ("seeing", "blind"):
                made = await service.create(agent=agent)
                ids = [
                    (await service.attachments.add(made.id, name, content, person="owner")).id
                    for name, content in (("../shot.png", picture), ("notes.txt", b"a note\n"), ("a.pdf", PDF))
                ]
                await service.prompt(made.id, "blocks", attachments=ids)
                (view,) = await home.settled(service, made.id)
                assert view.outcome == "ok", view.reason
                assert [(it.name, it.media_type) for it in view.attachments or ()] == [
                    ("shot.png", "image/png"),
                    ("notes.txt", "text/plain"),
                    ("a.pdf", "application/pdf"),
                ]
                text, image = json.loads(view.message)
                if agent == "seeing":
                    assert image == {
                        "type": "image",
                        "mime_type": "image/png",
                        "data": base64.b64encode(picture).decode(),
                    }
                else:
                    assert image == {"type": "resource_link", "name": "shot.png", "size": len(picture)}
                assert text["text"].startswith("blocks\n\nAttached files, which you can read:\n- ")
                assert "a.pdf (application/pdf, 12 bytes)" in text["text"]
                assert "a note\n</file>" in text["text"]

    asyncio.run(chat())


def test_files_alone_and_large_texts(home: Home) -> None:
    """A message may be files alone, and gives the chat its title. A long text is named by its path, not repeated."""
    long = b"line\n" * 20_000

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            file = await service.attachments.add(made.id, "build.log", long, person="owner")
            await service.prompt(made.id, "", attachments=[file.id])
            (view,) = await home.settled(service, made.id)
            assert (view.prompt, view.outcome, service.chat(made.id).title) == ("", "ok", "build.log")
            (asked,) = home.asked()
            words, path = asked.split("- ")
            assert words == "See the attached files.\n\nAttached files, which you can read:\n"
            path = path.split(" (text/plain, 100,000 bytes)")[0]
            with open(path, "rb") as placed:
                assert placed.read() == long
            assert os.stat(path).st_mode & 0o077 == 0
            assert os.path.realpath(path).startswith(os.path.realpath(home.folder / "attachments" / made.id))
            await service.delete(made.id)
            assert not (home.folder / "attachments" / made.id).exists()

    asyncio.run(chat())


def test_what_a_message_may_name(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of another chat, unknown ones, too many and repeated ones are errors, and nothing is submitted."""
    monkeypatch.setattr(attachments, "MAX_UNSENT", 12)

    async def chat() -> None:
        limits = ServiceLimits(max_attachment_bytes=1000, max_attached_bytes=1500)
        async with home.service(limits=limits) as service:
            mine, other = await service.create(), await service.create()
            add = service.attachments.add
            secret = await add(other.id, "secret.txt", b"secret", person="ana")
            own = await add(mine.id, "a", b"1", person="owner")
            for ids in ([secret.id], ["0" * 32], [own.id, own.id], [own.id, secret.id]):
                with pytest.raises(Invalid):
                    await service.prompt(mine.id, "hi", attachments=ids)
            with pytest.raises(NoSuchAttachment):
                await service.attachments.find(mine.id, secret.id)
            many = [own.id] + [(await add(mine.id, "a", b"1", person="owner")).id for _ in range(10)]
            with pytest.raises(Invalid, match="11 files"):
                await service.prompt(mine.id, "hi", attachments=many)
            with pytest.raises(Invalid):
                await service.prompt(mine.id, "  ", attachments=[])
            assert await service.turns(mine.id) == ([], False)
            await add(mine.id, "a", b"1", person="owner")
            with pytest.raises(TooMany, match="wait for their messages"):
                await add(mine.id, "a", b"1", person="owner")
            with pytest.raises(ContentTooLarge):
                await add(other.id, "a", bytes(1001), person="owner")
            with pytest.raises(Invalid, match="empty"):
                await add(other.id, "a", b"", person="owner")
            await add(other.id, "a", bytes(900), person="owner")
            with pytest.raises(TooMany, match="the files in the chats of owner reach"):
                await add(other.id, "a", bytes(900), person="owner")
            await add(other.id, "a", bytes(900), person="ana")
            await service.attachments.remove(mine.id, secret.id)
            assert (await service.attachments.find(other.id, secret.id))[1] == b"secret"

    asyncio.run(chat())


def test_a_message_that_is_rejected_leaves_its_files_unsent(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files can be removed, are dropped after a day as others are, and stay with a message that had them before."""

    async def chat() -> None:
        async with home.service(limits=ServiceLimits(max_prompt_bytes=1000)) as service:
            made = await service.create(agent="scripted")
            sent, unsent = [await service.attachments.add(made.id, name, b"x", person="owner") for name in ("a", "b")]
            await service.prompt(made.id, "hello", attachments=[sent.id])
            await home.settled(service, made.id)
            rows = await service._store.list_attachments(made.id)
            assert {it.name: it.turn for it in rows} == {"a": 1, "b": 0}

            def no_more(*_: object) -> None:
                raise TooMany("no more turns")

            with monkeypatch.context() as patch:
                patch.setattr("penstock.chat.service.chats.chat.check_budget", no_more)
                with pytest.raises(TooMany):
                    await service.prompt(made.id, "hello", attachments=[sent.id, unsent.id])
            assert await service._store.list_attachments(made.id) == rows
            await service.attachments.remove(made.id, unsent.id)
            assert [it.name for it in await service._store.list_attachments(made.id)] == ["a"]

    asyncio.run(chat())


def test_files_of_a_message_that_was_never_kept_are_dropped(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the store fails, they stay marked, as it may have the message; a day later they go, if no turn has them."""

    async def fails(*_: object, **__: object) -> None:
        raise StoreFailed("the disk is full")

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create(agent="scripted")
            names = ("lost", "kept")
            lost, kept = [await service.attachments.add(made.id, name, b"x", person="owner") for name in names]
            with monkeypatch.context() as patch:
                patch.setattr(service._store, "submit", fails)
                with pytest.raises(StoreFailed):
                    await service.prompt(made.id, "hello", attachments=[lost.id])
            await service.prompt(made.id, "hello", attachments=[kept.id])
            await home.settled(service, made.id)
            # As if Penstock had been ended before it could note the turn.
            await service._store.note_attachments(made.id, [kept.id], SENDING)
            await service.attachments.add(made.id, "soon", b"x", person="owner")
            turns = {it.name: it.turn for it in await service._store.list_attachments(made.id)}
            assert turns == {"lost": SENDING, "kept": SENDING, "soon": 0}
            now = service.now() + attachments.UNSENT_MS + 1000
            monkeypatch.setattr(service.attachments, "_now", lambda: now)
            await service.attachments.add(made.id, "later", b"x", person="owner")
            turns = {it.name: it.turn for it in await service._store.list_attachments(made.id)}
            assert turns == {"kept": SENDING, "later": 0}

    asyncio.run(chat())


@pytest.mark.slow
def test_old_turns_take_their_files_along(home: Home) -> None:
    """A dropped turn drops its files, one that is kept keeps them, and a file that was sent is not taken away."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
            files = []
            for number in range(2):
                file = await service.attachments.add(made.id, f"{number}.bin", bytes(10_000), person="owner")
                files.append(file.id)
                await service.prompt(made.id, str(number), attachments=[file.id])
                await home.settled(service, made.id)
                await service.attachments.remove(made.id, file.id)
                assert (await service.attachments.find(made.id, file.id))[0] == file
            await service.old_turns.drop(Retention(max_bytes=15_000))
            assert [view.turn for view in (await service.turns(made.id))[0]] == [2]
            with pytest.raises(NoSuchAttachment):
                await service.attachments.find(made.id, files[0])
            assert (await service.attachments.find(made.id, files[1]))[1] == bytes(10_000)

    asyncio.run(chat())


def test_left_directories_are_removed(home: Home) -> None:
    """Files of chats that were deleted while the service was down are removed at its start; others stay."""

    async def chat() -> None:
        async with home.service() as service:
            made = await service.create()
        for name in (made.id, "gone"):
            (home.folder / "attachments" / name).mkdir(parents=True)
        async with home.service():
            assert os.listdir(home.folder / "attachments") == [made.id]

    asyncio.run(chat())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("mode", ["on", "own"])
def test_a_confined_agent_reads_its_files_only(home: Home, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A confined agent reads the files of its chat, and neither changes them nor sees those of another chat."""
    monkeypatch.setenv("PENSTOCK_DATA", str(home.folder))
    home.configure("looking", [sys.executable, "-c", LOOKING], 'adapter = "claude"')

    async def chat() -> None:
        config = settings.load({"PENSTOCK_CONFIG": str(home.config_file), "PENSTOCK_SANDBOX": mode})
        async with home.service(config=config, hidden=[str(home.folder / "chats.db")]) as service:
            other = await service.create(agent="looking")
            made = await service.create(agent="looking")
            for it in (other, made):
                file = await service.attachments.add(it.id, "a.bin", bytes(77), person="owner")
                await service.prompt(it.id, "read", attachments=[file.id])
                await home.settled(service, it.id)
            (view,) = await home.settled(service, made.id)
            assert view.message == f"77, not written, ['{made.id}']", view.reason

    asyncio.run(chat())
