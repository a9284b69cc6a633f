"""Texts of a turn that a search looks at: the prompt, the reply, and what the agent called tools with.

What tools printed and what the model thought is not searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock import events as ev
from penstock.chat.history.entries import decode_one
from penstock.chat.history.frames import TurnView
from penstock.chat.store.protocol import ChatStore, Trimmed
from penstock.chat.store.search import SearchTexts
from penstock.core import tool_titles

CALLS = (b'"tool_called"', b'"tool_returned"')
"""Tags of the entries that name calls; the others, most of all the deltas, need not be decoded."""

TAG_BYTES = 100
"""Bytes of an entry in which its tag is."""

OF_FILES: frozenset[ev.ToolKind] = frozenset(("read", "edit", "delete", "move"))
"""Kinds of calls whose titles are paths."""

MAX_CALLS = 5_000
"""Entries of one turn that are decoded: the words of more would not be indexed."""


async def searchable_texts(store: ChatStore, chat: str, cwd: str, view: TurnView) -> SearchTexts:
    """Return the texts of a turn that has ended. Paths below the directory `cwd` are without it.

    If the turn's entries are no longer kept, it has its prompt and reply.

    Raises:
        StoreFailed: the store cannot be read.
        UnknownChat: the chat was deleted.
    """
    found: list[bytes] = []
    after = view.first - 1
    try:
        while after < view.last and len(found) < MAX_CALLS:
            page = await store.read(chat, after=after)
            if not page.entries:
                break
            found += [it.data for it in page.entries if it.number <= view.last and _names_a_call(it.data)]
            after = page.entries[-1].number
    except Trimmed:
        pass
    return texts_of(view, found[:MAX_CALLS], cwd)


def _names_a_call(data: bytes) -> bool:
    return any(tag in data[:TAG_BYTES] for tag in CALLS)


def texts_of(view: TurnView, entries: Iterable[bytes], cwd: str) -> SearchTexts:
    """Return the texts of a turn, made of its view and of those of its entries that name calls."""
    commands: dict[str, None] = {}
    paths: dict[str, None] = {}
    for data in entries:
        event = decode_one(data)
        if isinstance(event, ev.ToolCalled):
            of_files = event.tool_kind in OF_FILES
            text = event.title if of_files else tool_titles.command(event.input) or event.title
            (paths if of_files else commands)[text] = None
        if isinstance(event, ev.ToolCalled | ev.ToolReturned):
            paths |= dict.fromkeys(_paths(event.changes or ()))
    below = f"{cwd.rstrip('/')}/"
    relative = dict.fromkeys(path.removeprefix(below) for path in paths)
    reply = view.message or view.reply or ""
    return SearchTexts(prompt=view.prompt, reply=reply, commands="\n".join(commands), paths="\n".join(relative))


def _paths(changes: Iterable[ev.Change]) -> Iterator[str]:
    for change in changes:
        yield change.path
        if change.to is not None:
            yield change.to
