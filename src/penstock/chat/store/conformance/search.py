"""Checks of the search: words are found, and only by those who may see them."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.chat.store.conformance.promises import Open, chat_row, require, same, turn_row
from penstock.chat.store.protocol import ChatStore
from penstock.chat.store.rows import ChatChanges
from penstock.chat.store.search import TITLE, Reader, SearchTexts, Unindexed
from penstock.chat.store.words import parse

SYNTAX = "\"'*:^&|!<>()-+{}%_\\/.,;\n "
HOSTILE_QUERIES = ("'; DROP TABLE chats; --", "a AND", "NEAR(a b)", "title:x", "a:*b", "x" * 5000, "a " * 100, '"' * 9)


async def words_are_found(make: Open, chat: str) -> None:
    """Check that turns and titles wait to be indexed, and that their words are found then, newest first."""
    word, other = chat.replace("check-", "w"), f"{chat}-other"
    async with make() as store:
        await store.create_chat(chat_row(chat, title=f"A {word}"))
        await store.create_chat(chat_row(other))
        turns = [turn_row(1, first=1, last=1), turn_row(2, first=2, last=2), turn_row(3, first=3)]
        await store.append(chat, [b"1", b"2", b"3"], after=0, at=1, turns=turns)
        same("what waits", await _waiting(store, chat), [0, 1, 2])
        await _index(store, chat, 0, SearchTexts(title=f"A {word}"), at=10)
        await _index(store, chat, 1, SearchTexts(prompt=f"Zwei Straßen, {word}", reply="été 東京 x"), at=20)
        await _index(store, chat, 2, SearchTexts(commands=f"cat a_b/{word}.py\n\0\ud800", paths="c"), at=30)
        same("what waits once all is indexed", await _waiting(store, chat), [])

        async def found(query: str, **more: Any) -> list[int]:
            hits = await store.search(parse(query), Reader("owner", is_owner=True), limit=9, **more)
            require(hits.is_complete, f"the search for {query!r} was not completed")
            return [hit.turn for hit in hits.hits if hit.chat == chat]

        same("all rows with a word", await found(word), [2, 1, 0])
        same("a word in capitals", await found(f'"{word.upper()}"'), [2, 1, 0])
        same("the beginning of a word", await found(word[:-2]), [2, 1, 0])
        same("the beginning of a word in quotes", await found(f'"{word[:-2]}"'), [])
        same("words of two texts", await found(f"{word} strassen ETE"), [1])
        same("a character", await found(f"{word} 京"), [1])
        same("a part of a path", await found(f"b/{word}.py"), [2])
        same("words that do not follow each other", await found(f"zwei-{word}"), [])
        same("a phrase over two texts", await found(f'"{word} ete"'), [])
        same("a phrase over two texts that follow each other", await found('"py c"'), [])
        same("a word that is missing", await found(f"{word} missing"), [])
        same("no words", await found("*:'\"&|!-_"), [])
        (hit,) = (await store.search(parse(f"straßen {word}"), Reader("owner", is_owner=True), limit=1)).hits
        row = (hit.chat, hit.at, hit.chat_title, hit.agent, hit.cwd, hit.archived, hit.person, hit.texts.reply)
        same("a hit", row, (chat, 20, f"A {word}", "agent", "/src", False, "owner", "été 東京 x"))
        same("the page after a hit", await found(word, before=hit.key), [0])


async def the_index_follows_changes(make: Open, chat: str) -> None:
    """Check that what changes waits to be indexed again, and that what is trimmed or deleted is found no more."""
    word = chat.replace("check-", "w")
    async with make() as store:

        async def found() -> list[int]:
            return [it.turn for it in (await store.search(parse(word), Reader("owner", is_owner=True), limit=9)).hits]

        await store.create_chat(chat_row(chat, title=word))
        turns = [turn_row(1, first=1, last=1), turn_row(2, first=2, last=2), turn_row(3, first=3)]
        await store.append(chat, [b"1", b"2", b"3"], after=0, at=1, turns=turns)
        for turn in (0, 1, 2):
            await _index(store, chat, turn, SearchTexts(prompt=word), at=turn)
        await store.append(chat, [], after=3, at=1, turns=[turn_row(2, first=2, last=2, view=b"later")])
        await store.update_chat(chat, ChatChanges(title="B", archived=True))
        same("what waits after changes", await _waiting(store, chat), [0, 2])
        item = next(it for it in await store.list_unindexed(limit=1000) if (it.chat, it.turn) == (chat, TITLE))
        await store.update_chat(chat, ChatChanges(title="C"))
        await store.index(item, SearchTexts(title="B"), at=10)
        same("what waits after a change while it was indexed", await _waiting(store, chat), [0, 2])
        await _index(store, chat, 2, None)
        same("a turn without texts", await found(), [1])
        await store.trim(chat, 1)
        same("a turn that was trimmed", await found(), [])
        await store.index(Unindexed(chat, 1, 0), SearchTexts(prompt=word), at=1)
        same("a trimmed turn that is indexed late", await found(), [])
    async with make() as store:
        same("what waits in the next store", await _waiting(store, chat), [0])
        await _index(store, chat, 0, SearchTexts(title=word), at=10)
        same("a title in the next store", await found(), [0])
        await store.delete_chat(chat)
        same("a deleted chat", await found(), [])
        same("what waits of a deleted chat", await _waiting(store, chat), [])
        await store.create_chat(chat_row(chat))
        same("a new chat of its id", await found(), [])
        await store.index(Unindexed(f"{chat}-none", 1, 0), SearchTexts(prompt=word), at=1)


async def searches_keep_to_rights(make: Open, chat: str) -> None:
    """Check that a search finds nothing in the private chats of other persons."""
    word = chat.replace("check-", "w")
    async with make() as store:
        for person, visibility in (("ana", "private"), ("ben", "private"), ("ben", "team")):
            id = f"{chat}-{person}-{visibility}"
            await store.create_chat(chat_row(id, person=person, visibility=visibility))
            await _index(store, id, 0, SearchTexts(title=word), at=1)
        for reader, sees in (
            (Reader("owner", is_owner=True), ["ana-private", "ben-private", "ben-team"]),
            (Reader("ana"), ["ana-private", "ben-team"]),
            (Reader("ben"), ["ben-private", "ben-team"]),
            (Reader("cat"), ["ben-team"]),
        ):
            hits = (await store.search(parse(word), reader, limit=9)).hits
            same(f"what {reader.person} finds", sorted(hit.chat for hit in hits), [f"{chat}-{it}" for it in sees])
        await store.update_chat(f"{chat}-ben-team", ChatChanges(visibility="private"))
        same("what is found once it is private", (await store.search(parse(word), Reader("cat"), limit=9)).hits, [])


async def any_search_is_answered(make: Open, chat: str) -> None:
    """Check that no text is syntax of the database: each is answered."""
    random = Random(7)
    async with make() as store:
        for nth in range(200):
            size = random.randrange(1, 200)
            letters = random.choice((SYNTAX, [*SYNTAX, *"abc ", " NOT ", " NEAR(", "\ud800", "é", "𝔘", "東", "ﷺ", "٣"]))
            query = HOSTILE_QUERIES[nth] if nth < len(HOSTILE_QUERIES) else "".join(random.choices(letters, k=size))
            await store.search(parse(query), Reader(query[:9].encode("ascii", "ignore").decode()), limit=2)


async def _waiting(store: ChatStore, chat: str) -> list[int]:
    """Return the turns of a chat that wait to be indexed."""
    return sorted(it.turn for it in await store.list_unindexed(limit=1000) if it.chat == chat)


async def _index(store: ChatStore, chat: str, turn: int, texts: SearchTexts | None, at: int = 0) -> None:
    [item] = [it for it in await store.list_unindexed(limit=1000) if (it.chat, it.turn) == (chat, turn)]
    await store.index(item, texts, at=at)
