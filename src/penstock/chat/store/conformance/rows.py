"""Checks of chats as rows, and of directories and shares."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from penstock.chat.store.conformance.promises import Open, chat_row, raises, require, same, turn_row, values_of
from penstock.chat.store.protocol import FirstEntry, RowChanged, UnknownChat
from penstock.chat.store.rows import Attachment, ChatChanges, ChatRow, ChatRule, Directory, Heartbeat, Share
from penstock.errors import UsageError


async def chats_are_rows(make: Open, chat: str) -> None:
    """Check that chats are created, read, listed by pages, replaced and deleted, with all that belongs to them."""
    full = ChatRow(**{**values_of(ChatRow), "id": f"{chat}-b"})
    async with make() as store:
        for row in (chat_row(chat), full, chat_row(f"{chat}-c")):
            await store.create_chat(row)
        await raises(UsageError, store.create_chat(chat_row(chat, title="another")))
        await store.append(chat, [b"1"], after=0, at=1, turns=[turn_row(1)])
        await store.update_chat(chat, ChatChanges(title="new"))
    async with make() as store:
        found_row = await store.get_chat(full.id)
        for name in ChatRow.__struct_fields__:
            same(f"the field {name!r} of a chat", getattr(found_row, name), getattr(full, name))
        expected = [chat_row(chat, title="new"), full, chat_row(f"{chat}-c")]
        found: list[ChatRow] = []
        while page := await store.list_chats(after=found[-1].id if found else "", limit=2):
            require(len(page) <= 2, "a page has more chats than its limit")
            found += page
        same("all chats", [row for row in found if row.id.startswith(chat)], expected)
        await store.delete_chat(chat)
        for call in (
            *(store.get_chat(chat), store.delete_chat(chat), store.claim(chat, "n")),
            store.update_chat(chat, ChatChanges(title="t")),
            *(store.read(chat), store.trim(chat, 0), store.append(chat, [b"2"], after=1, at=1)),
            *(store.submit(chat, b"2", at=1), store.list_turns(chat, limit=1), store.release(chat, 1)),
        ):
            await raises(UnknownChat, call)
        await store.create_chat(chat_row(chat))
        same("a chat that was created again", await store.read(chat), ([], 0))
        same("its turns", await store.list_turns(chat, limit=9), [])


async def chats_begin_with_their_first_turn(make: Open, chat: str) -> None:
    """Check that a chat and its first entry are kept together, with the files, or not at all."""
    other = f"{chat}-other"
    files = [(Attachment(f"{chat}-{it}", chat, "a ü", "text/plain", 1, 5, "ana", 1), b"\0" * it) for it in (1, 2)]
    first = FirstEntry(b'{"first":1}', 7, "key", 1, files)
    async with make() as store:
        await store.create_chat(chat_row(chat), first)
        for row, entry in (
            (chat_row(chat), first),
            (chat_row(other), FirstEntry(b"x" * (store.max_entry_bytes + 1), 7)),
        ):
            await raises(UsageError, store.create_chat(row, entry))
        await raises(UnknownChat, store.get_chat(other))
        await store.create_chat(chat_row(other), FirstEntry(b"1", 7))
    async with make() as store:
        same("the first entry", await store.read(chat), ([(1, 7, first.data)], 1))
        same("the same entry again", await store.submit(chat, b"2", at=8, key="key"), (1, False))
        same("the files", await store.list_attachments(chat), [file for file, _ in files])
        for file, content in files:
            same("the content of a file", await store.read_attachment(chat, file.id), content)
        same("the first entry without a key", await store.read(other), ([(1, 7, b"1")], 1))


async def changes_leave_other_fields(make: Open, chat: str) -> None:
    """Check that a change of some fields of a chat leaves the others as another writer has changed them."""
    heartbeat = Heartbeat(5, "News?")
    async with make() as store:
        await store.create_chat(chat_row(chat, model="m", home="node-1"))
        await store.append(chat, [b"1"], after=0, at=1, changes=ChatChanges(session_id="s"))
        expected = chat_row(chat, model="m", home="node-1", session_id="s", title="t")
        same("a changed row", await store.update_chat(chat, ChatChanges(title="t")), expected)
        many = ChatChanges(model=None, allow="all", heartbeat=heartbeat, heartbeat_since=9)
        same("a row with more changes", await store.update_chat(chat, many), many.applied(expected))
        await store.append(chat, [b"2"], after=1, at=1, changes=ChatChanges(heartbeat=None))
        expected = ChatChanges(heartbeat=None).applied(many.applied(expected))
        same("a row without changes", await store.update_chat(chat, ChatChanges()), expected)
        for name, value in values_of(ChatChanges).items():
            change = ChatChanges(**{name: value})
            same(f"the changed field {name!r}", await store.update_chat(chat, change), change.applied(expected))
            expected = change.applied(expected)
        same("the row", await store.get_chat(chat), expected)


async def rules_are_compared_and_set(make: Open, chat: str) -> None:
    """Check that of two writers who change the same rules of a chat one counts, and the other is rejected."""
    one, two, three = (ChatRule(name, f"make {name}", "ana ü") for name in ("a", "b", "c"))
    async with make() as store:
        await store.create_chat(chat_row(chat))
        changes = [ChatChanges(rules=[rule]) for rule in (one, two)]
        done = await asyncio.gather(
            store.update_chat(chat, changes[0], rules=[]),
            store.update_chat(chat, changes[1], rules=[]),
            return_exceptions=True,
        )
        same("how many were rejected", sum(isinstance(it, RowChanged) for it in done), 1)
        kept = (await store.get_chat(chat)).rules
        require(kept in ([one], [two]), "the rules are those of neither writer")
        row = await store.update_chat(chat, ChatChanges(rules=[*kept, three]), rules=kept)
        same("the rules of the second change", row.rules, [*kept, three])
        await raises(RowChanged, store.update_chat(chat, ChatChanges(rules=[], title="t"), rules=kept))
        same("the row after a rejected change", await store.get_chat(chat), row)
        row = await store.update_chat(chat, ChatChanges(rules=[]), rules=[*kept, three])
        same("no rules", row.rules, [])
        await raises(UnknownChat, store.update_chat(f"{chat}-none", ChatChanges(rules=[]), rules=[]))


async def directories_are_rows(make: Open, chat: str) -> None:
    """Check that directories are added, replaced, listed and removed."""
    one, two = Directory(f"/{chat}/a", 1), Directory(**{**values_of(Directory), "path": f"/{chat}/b ü"})
    async with make() as store:
        for directory in (replace(two, trusted_at=1, person="before"), two, one, Directory(one.path, 5)):
            await store.put_directory(directory)
    async with make() as store:
        listed = [it for it in await store.list_directories() if it.path.startswith(f"/{chat}/")]
        same("directories", listed, [Directory(one.path, 5), two])
        await store.delete_directory(one.path)
        await store.delete_directory(f"/{chat}/none")
        same("directories", [it for it in await store.list_directories() if it.path.startswith(f"/{chat}/")], [two])


async def shares_are_rows(make: Open, chat: str) -> None:
    """Check that shares are added, found, listed and removed, and deleted with their chat or once they have expired."""
    async with make() as store:
        one = Share(f"{chat}-1", chat, f"{chat}-secret-1", 100, 200, until=3, details=True, person="ana")
        await raises(UnknownChat, store.put_share(one))
        await store.create_chat(chat_row(chat))
        two = Share(f"{chat}-2", chat, f"{chat}-secret-2", 150, 2**50)
        for share in (one, two):
            await store.put_share(share)

        async def listed() -> list[Share]:
            return [it for it in await store.list_shares() if it.chat == chat]

        same("shares", await listed(), [one, two])
        same("a share by its secret", await store.find_share(one.secret), one)
        same("no share", await store.find_share(one.id), None)
        three = replace(two, id=f"{chat}-3", secret=f"{chat}-secret-3", created_at=200)
        await store.put_share(three)
        same("shares once one has expired", await listed(), [two, three])
        await store.delete_share(two.id)
        await store.delete_share(two.id)
        same("shares without one", await listed(), [three])
    async with make() as store:
        same("a share after opening the store again", await store.find_share(three.secret), three)
        await store.delete_chat(chat)
        same("a share of a deleted chat", await store.find_share(three.secret), None)
