"""Prompt with the conversation so far.

It is for agents that lose a conversation when it is resumed, and for chats that go on with that of another chat.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.chat.history.frames import TurnView

MAX_CHARS = 200_000
"""Characters of earlier messages that are sent along: about 50,000 tokens. The oldest turns are left out."""
MAX_MESSAGE_CHARS = 50_000
"""Characters of one message; its end is left out."""
CUT = "… [the rest is left out]"

_HEAD = "This conversation goes on. Its earlier messages, the oldest first, one JSON object a line:"
_LEFT_OUT = "(Older messages are left out.)"
_TAIL = "The new message, which is to be answered now:"
_BEGIN = '{"user":'


class _Message(msgspec.Struct, omit_defaults=True):
    """One line: a message has one of the fields. JSON, so that no text can pass for another message."""

    user: str | None = None
    assistant: str | None = None


def conversation(earlier: Sequence[TurnView], before: str = "", *, most: int = MAX_CHARS, is_whole: bool = True) -> str:
    """Return the messages of earlier turns, one JSON object a line, the oldest first; "" if there are none.

    Args:
        earlier: the turns, in their order.
        before: messages before these, as this function returned them.
        most: characters of the messages; the oldest turns are left out.
        is_whole: False if there were messages between `before` and these turns that are no longer known.
    """
    lines = before.split("\n") if before else []
    if lines[:1] == [_LEFT_OUT]:
        lines, is_whole = lines[1:], False
    for view in earlier:
        if view.began_at is None and view.whole is None:
            continue  # it was taken back before the agent got it
        lines.append(_line(_Message(user=_cut(view.prompt))))
        reply = view.message or view.reply
        if reply:
            lines.append(_line(_Message(assistant=_cut(reply))))
    first = len(lines)
    for place in range(len(lines) - 1, -1, -1):
        most -= len(lines[place])
        if most < 0:
            is_whole = False
            break
        if lines[place].startswith(_BEGIN):  # a turn is left out as a whole
            first = place
    kept = lines[first:]
    return "\n".join(kept if is_whole or not kept else [_LEFT_OUT, *kept])


def with_transcript(earlier: Sequence[TurnView], prompt: str, before: str = "", *, most: int = MAX_CHARS) -> str:
    """Return a prompt that begins with the messages of earlier turns; the prompt alone if there are none.

    `before` and `most` are those of `conversation`.
    """
    messages = conversation(earlier, before, most=most)
    return "\n".join([_HEAD, messages, "", _TAIL, "", prompt]) if messages else prompt


def _line(message: _Message) -> str:
    return msgspec.json.encode(message).decode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + CUT
