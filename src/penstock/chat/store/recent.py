"""The newest rows of a log, in memory: who follows a chat reads what was just appended, and need not go to the disk."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from penstock.chat.store.protocol import Row

MAX_BYTES = 4 * 1024 * 1024
"""Of all chats together. Who follows one is a few rows behind, so this is some hundred chats at full speed."""

ROW_BYTES = 200
"""What a row costs beside its data."""


class _Tail:
    """The newest rows of one chat, without a gap."""

    def __init__(self) -> None:
        self.rows: deque[Row] = deque()
        self.size = 0

    def first(self) -> int:
        return self.rows[0].number


class Recent:
    """The rows that were appended last. What it does not know, the log does; what it gives, the log has."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._tails: OrderedDict[str, _Tail] = OrderedDict()  # the one that was written last is the last

    def add(self, chat: str, rows: Sequence[bytes], *, last: int, at: int) -> None:
        """These were appended; `last` is the number of the last of them."""
        before = last - len(rows)
        tail = self._tails.pop(chat, None)
        if tail is None or tail.rows[-1].number != before:
            if tail is not None:
                self._size -= tail.size
            tail = _Tail()
        self._tails[chat] = tail
        for number, data in enumerate(rows, before + 1):
            tail.rows.append(Row(number, at, data))
            tail.size += len(data) + ROW_BYTES
            self._size += len(data) + ROW_BYTES
        while self._size > self._max_bytes:
            self._drop_oldest()

    def read(self, chat: str, after: int, limit: int) -> list[Row] | None:
        """The rows from `after + 1` on, at most `limit`; None where it does not know them."""
        tail = self._tails.get(chat)
        if tail is None or not tail.first() <= after + 1 <= tail.rows[-1].number + 1:
            return None
        place = after + 1 - tail.first()
        return [tail.rows[it] for it in range(place, min(place + limit, len(tail.rows)))]

    def last(self, chat: str) -> int | None:
        """The chat's last number, where it knows it."""
        tail = self._tails.get(chat)
        return tail.rows[-1].number if tail is not None else None

    def forget(self, chat: str) -> None:
        """Rows of this chat were dropped."""
        if tail := self._tails.pop(chat, None):
            self._size -= tail.size

    def _drop_oldest(self) -> None:
        chat, tail = next(iter(self._tails.items()))
        gone = tail.rows.popleft()
        size = len(gone.data) + ROW_BYTES
        tail.size -= size
        self._size -= size
        if not tail.rows:
            del self._tails[chat]
