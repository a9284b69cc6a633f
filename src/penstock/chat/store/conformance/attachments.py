"""Checks of attachments: kept byte for byte, and dropped with their turns."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.chat.store.conformance.promises import HOSTILE, Open, chat_row, raises, require, same
from penstock.chat.store.protocol import UnknownChat
from penstock.chat.store.rows import SENDING, Attachment, TurnRow


async def attachments_are_kept(make: Open, chat: str) -> None:
    """Check that attachments are kept byte for byte, found in their own chat alone, and deleted with it."""
    async with make() as store:
        one = Attachment(f"{chat}-1", chat, "a b.png", "image/png", 7, 100, f"{chat}-ana")
        await raises(UnknownChat, store.put_attachment(one, b"\0\xff1", unsent_before=0))
        await store.create_chat(chat_row(chat))
        two = Attachment(f"{chat}-2", chat, "ü.txt", "text/plain", 5, 200, f"{chat}-ana")
        await store.put_attachment(one, b"\0\xff1", unsent_before=0)
        await store.put_attachment(two, HOSTILE[4], unsent_before=0)
        same("attachments", await store.list_attachments(chat), [one, two])
        same("a content", await store.read_attachment(chat, one.id), b"\0\xff1")
        same("the bytes of a person", await store.attached_bytes(f"{chat}-ana"), 12)
        other = f"{chat}-other"
        await store.create_chat(chat_row(other))
        same("an attachment of another chat", await store.read_attachment(other, one.id), None)
        await store.note_attachments(other, [one.id], 1)
        await store.delete_attachment(other, one.id)
        same("attachments", await store.list_attachments(chat), [one, two])
        await store.note_attachments(chat, [one.id], SENDING)
        await store.delete_attachment(chat, one.id)
        await store.delete_attachment(chat, f"{chat}-none")
        sending = replace(one, turn=SENDING)
        same("attachments while one is sent", await store.list_attachments(chat), [sending, two])
        three = replace(two, id=f"{chat}-3", created_at=300)
        await store.put_attachment(three, b"3", unsent_before=201)
        same("attachments after those never sent", await store.list_attachments(chat), [sending, three])
        await store.delete_attachment(chat, three.id)
        same("attachments without one", await store.list_attachments(chat), [sending])
    async with make() as store:
        same("a content after opening the store again", await store.read_attachment(chat, one.id), b"\0\xff1")
        await store.delete_chat(chat)
        same("attachments of a deleted chat", await store.list_attachments(chat), [])
        same("the bytes of a person", await store.attached_bytes(f"{chat}-ana"), 0)
        await store.delete_chat(other)


async def attachments_go_with_their_turns(make: Open, chat: str) -> None:
    """Check that attachments are dropped with their turn, and that their bytes count."""
    async with make() as store:
        await store.create_chat(chat_row(chat))
        last = 0
        for turn in (1, 2):
            attachment = Attachment(f"{chat}-{turn}", chat, "a", "text/plain", 1000, turn)
            await store.put_attachment(attachment, b"x" * 1000, unsent_before=0)
            await store.note_attachments(chat, [attachment.id], turn)
            row = TurnRow(turn, last + 1, last + 1, turn, b"")
            last = await store.append(chat, [b"%d" % turn], after=last, at=turn, turns=[row])
        every = await store.list_expired(before=None, max_bytes=0)
        require(every.get(chat) == 2, "all turns are more than no bytes")
        await store.trim(chat, 1)
        same("attachments after a trim", [it.turn for it in await store.list_attachments(chat)], [2])
        await store.delete_chat(chat)
