"""The newest rows in memory: what they give is what the log has."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.chat.store.protocol import Row
from penstock.chat.store.recent import ROW_BYTES, Recent

CHATS = ["one", "two", "three"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(CHATS), st.lists(st.binary(max_size=40), min_size=1, max_size=5)),
        st.tuples(st.just("miss"), st.sampled_from(CHATS), st.integers(1, 5)),
        st.tuples(st.just("forget"), st.sampled_from(CHATS)),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS, st.integers(0, 3000))
def test_it_gives_what_the_log_has_or_nothing(steps: list[tuple[str, ...]], size: int) -> None:
    """Whatever is added, dropped or missed, each row that it gives is the log's, and none is left out between."""
    recent, log = Recent(size), {chat: [] for chat in CHATS}
    missed = set()
    for at, (what, chat, *rest) in enumerate(steps):
        rows: list[Row] = log[chat]
        if what == "forget":
            recent.forget(chat)
        elif what == "miss":  # rows that were appended by somebody else
            missed.add(chat)
            rows += [Row(len(rows) + 1 + extra, at, b"other") for extra in range(rest[0])]
        else:
            rows += [Row(number, at, data) for number, data in enumerate(rest[0], len(rows) + 1)]
            missed.discard(chat)
            recent.add(chat, rest[0], last=len(rows), at=at)
        for name, there in log.items():
            for after in range(len(there) + 2):
                found = recent.read(name, after, 3)
                if found is not None:
                    expected = there[after : after + 3]
                    assert found == (expected[: len(found)] if name in missed else expected)
            known = recent.last(name)
            assert known is None or known <= len(there)
    held = sum(len(row.data) + ROW_BYTES for tail in recent._tails.values() for row in tail.rows)
    assert held == recent._size <= size
