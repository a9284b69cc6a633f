"""The order of the chats is at any time that of sorting them all, whatever changes in between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.chat.service.chats.chat_order import ChatOrder, is_wanted, key_of

IDS = [f"chat-{number}" for number in range(24)]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.integers(0, 9),
        st.sampled_from(["idle", "idle", "running", "gone"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
)
"""Chats that are used, begin to work, ask, are pinned or deleted, one after another."""


def chat(id: str, used_at: int, state: str, *, asks: bool, pinned: bool) -> Any:
    """As much of a chat as its place depends on."""
    return SimpleNamespace(used_at=used_at, state=state, asks=asks, row=SimpleNamespace(id=id, pinned=pinned))


@given(CHANGES, st.integers(1, 7), st.integers(0, 9))
def test_the_order_is_that_of_sorting(changes: list[Any], looked: int, used_at: int) -> None:
    """It is looked at now and then, whole and from a place in it; no chat is lacking, twice or in another place."""
    chats: dict[str, Any] = {}
    order = ChatOrder(chats)
    for number, (id, used, state, asks, pinned) in enumerate([*changes, (IDS[0], 5, "idle", False, False)]):
        if state == "gone":
            chats.pop(id, None)
        else:
            chats[id] = chat(id, used, state, asks=asks, pinned=pinned)
        order.note(id)
        if number % looked and number < len(changes):
            continue
        expected = sorted(chats.values(), key=key_of, reverse=True)
        assert [*order.newest_first()] == expected
        before = (used_at, "chat-1")
        assert [*order.newest_first(before)] == [it for it in expected if key_of(it) < before]
        assert order.wanted() == [it for it in expected if is_wanted(it)]


def test_a_chat_that_is_gone_is_skipped() -> None:
    """A chat that is being deleted is not in the order, also before that is noted."""
    chats = {id: chat(id, 1, "idle", asks=False, pinned=True) for id in IDS}
    order = ChatOrder(chats)
    for id in IDS:
        order.note(id)
    assert len(order.wanted()) == len(IDS)
    del chats[IDS[3]]
    assert IDS[3] not in [it.row.id for it in (*order.newest_first(), *order.wanted())]
    assert len([*order.newest_first()]) == len(IDS) - 1
