"""Checks of permits: a read or a change and the check of the right to it are one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from penstock.chat.store.conformance.promises import Open, chat_row, holds, raises, require, same
from penstock.chat.store.permits import Permit, acting
from penstock.chat.store.protocol import ChatStore, UnknownChat
from penstock.chat.store.rows import Attachment, ChatChanges, Directory, Share, TurnRow
from penstock.chat.store.search import Reader
from penstock.errors import UsageError


class _Ended(UsageError):
    """The right ended."""


def _ended() -> Reader:
    raise _Ended("the right ended")


def _changes(store: ChatStore, chat: str) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return the changes that people ask for; the first ones are of chats that the person has to see."""
    attachment = Attachment(f"{chat}-2", chat, "b", "text/plain", 1, 5)
    share = Share(f"{chat}-s", chat, f"{chat}-secret", 5, 2**50)
    return {
        "an entry": lambda: store.submit(chat, b"2", at=2, after=1),
        "an entry from anywhere": lambda: store.submit(chat, b"2", at=2, key="k"),
        "a change": lambda: store.update_chat(chat, ChatChanges(title="changed")),
        "a change of rules": lambda: store.update_chat(chat, ChatChanges(title="changed"), rules=[]),
        "an attachment": lambda: store.put_attachment(attachment, b"x", unsent_before=0),
        "no attachment": lambda: store.delete_attachment(chat, f"{chat}-1"),
        "a chat": lambda: store.create_chat(chat_row(f"{chat}-new")),
        "a directory": lambda: store.put_directory(Directory(f"/{chat}", 5)),
        "a share": lambda: store.put_share(share),
        "no share": lambda: store.delete_share(f"{chat}-kept"),
        "a deletion": lambda: store.delete_chat(chat),
    }


SHOWN = 6
"""Number of the changes that need a chat which the person sees."""


async def changes_need_their_right(make: Open, chat: str) -> None:
    """Check that a right which has ended when a change would be made prevents it, and that nothing else does."""
    row = chat_row(chat, person=f"{chat}-ana", visibility="team")
    kept = Attachment(f"{chat}-1", chat, "a", "text/plain", 1, 5)
    share = Share(f"{chat}-kept", chat, f"{chat}-other", 5, 2**50)
    ben, ana, owner = (lambda: Reader("ben")), (lambda: Reader(f"{chat}-ana")), (lambda: Reader("o", is_owner=True))
    async with make() as store:
        await store.create_chat(row)
        await store.append(chat, [b"1"], after=0, at=1)
        await store.put_attachment(kept, b"x", unsent_before=0)
        await store.put_share(share)
        changes = _changes(store, chat)

        async def is_as_before() -> None:
            await holds(store, chat, [b"1"])
            same("attachments", await store.list_attachments(chat), [kept])
            require(share in await store.list_shares(), "the share is gone")
            paths = [it.path for it in await store.list_directories()]
            require(f"/{chat}" not in paths, "the directory is trusted")
            await raises(UnknownChat, store.get_chat(f"{chat}-new"))

        for change in changes.values():
            with acting(_ended):
                await raises(_Ended, change())
        await is_as_before()
        same("the row", await store.get_chat(chat), row)
        await store.update_chat(chat, ChatChanges(visibility="private"))
        for change in [*changes.values()][:SHOWN]:
            with acting(ben):
                await raises(UnknownChat, change())
        await is_as_before()
        same("the row", await store.get_chat(chat), replace(row, visibility="private"))
        with acting(owner):
            await raises(UnknownChat, store.submit(f"{chat}-none", b"2", at=2))
            await raises(UnknownChat, store.update_chat(f"{chat}-none", ChatChanges(title="t")))
            await raises(UnknownChat, store.delete_attachment(f"{chat}-none", f"{chat}-1"))
            require((await store.submit(chat, b"2", at=2, after=1)).is_new, "an owner's entry is not new")
        with acting(ana):
            same("a title", (await store.update_chat(chat, ChatChanges(title="t"))).title, "t")
            await store.delete_attachment(chat, kept.id)
        await store.update_chat(chat, ChatChanges(visibility="team"))
        with acting(ben):
            require((await store.submit(chat, b"3", at=3, key="k")).is_new, "an entry in a chat of the team is not new")
            require(not (await store.submit(chat, b"4", at=4, key="k")).is_new, "an entry was made twice")
            await store.put_attachment(kept, b"x", unsent_before=0)
        await holds(store, chat, [b"1", b"2", b"3"])
        same("attachments", await store.list_attachments(chat), [kept])
        with acting(ana):
            await store.delete_share(share.id)
            await store.delete_chat(chat)


async def reads_need_their_right(make: Open, chat: str) -> None:
    """Check that what a chat holds is read only by those who see it when it is read, and by Penstock itself."""
    ben, ana, owner = (lambda: Reader("ben")), (lambda: Reader(f"{chat}-ana")), (lambda: Reader("o", is_owner=True))
    kept, other = Attachment(f"{chat}-1", chat, "a", "text/plain", 1, 5), f"{chat}-other"
    turn = TurnRow(turn=1, first=1, last=1, at=1, view=b"{}")
    async with make() as store:
        await store.create_chat(chat_row(chat, person=f"{chat}-ana", visibility="team"))
        await store.create_chat(chat_row(other, person=f"{chat}-ana", visibility="team"))
        await store.append(chat, [b"1"], after=0, at=1, turns=[turn])
        await store.put_attachment(kept, b"x", unsent_before=0)
        reads: dict[str, tuple[Callable[[str], Awaitable[object]], object]] = {
            "entries": (lambda id: _read(store, id), [b"1"]),
            "turns": (lambda id: _turns(store, id), [1]),
            "attachments": (lambda id: store.list_attachments(id), [kept]),
            "an attachment": (lambda id: store.read_attachment(id, kept.id), b"x"),
        }
        shown: tuple[tuple[ChatChanges, tuple[Permit, ...]], ...] = (
            (ChatChanges(visibility="team"), (ben, ana, owner)),
            (ChatChanges(visibility="private"), (ana, owner)),
        )
        for change, readers in shown:
            await store.update_chat(chat, change)
            for what, (read, found) in reads.items():
                same(what, await read(chat), found)
                for reader in readers:
                    with acting(reader):
                        same(what, await read(chat), found)
                with acting(_ended):
                    await raises(_Ended, read(chat))
        share = Share(f"{chat}-s", chat, f"{chat}-secret", 5, 2**50, person=f"{chat}-ana")
        await store.put_share(share)

        def with_link() -> Reader:
            return Reader(f"{chat}-ana", share=share.id)

        for what, (read, found) in reads.items():
            with acting(with_link):
                same(f"{what} by a link", await read(chat), found)
                await raises(UnknownChat, read(other))
        await store.delete_share(share.id)
        for read, _ in reads.values():
            with acting(with_link):
                await raises(UnknownChat, read(chat))
            with acting(ben):
                await raises(UnknownChat, read(chat))
            with acting(owner):
                await raises(UnknownChat, read(f"{chat}-none"))
        with acting(ben):
            same("attachments of a chat without any", await store.list_attachments(other), [])
            same("an attachment of another chat", await store.read_attachment(other, kept.id), None)


async def _read(store: ChatStore, chat: str) -> list[bytes]:
    return [entry.data for entry in (await store.read(chat)).entries]


async def _turns(store: ChatStore, chat: str) -> list[int]:
    return [row.turn for row in await store.list_turns(chat, limit=5)]
