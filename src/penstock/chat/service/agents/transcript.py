"""Prompt with the conversation so far, for agents that lose a conversation when it is resumed."""

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


class _Message(msgspec.Struct, omit_defaults=True):
    """One line: a message has one of the fields. JSON, so that no text can pass for another message."""

    user: str | None = None
    assistant: str | None = None


def with_transcript(earlier: Sequence[TurnView], prompt: str) -> str:
    """Return a prompt that begins with the messages of earlier turns; the prompt alone if there are none."""
    lines: list[str] = []
    left, is_whole = MAX_CHARS, True
    for view in reversed(earlier):
        if view.began_at is None:
            continue  # it was taken back before the agent got it
        turn = [_line(_Message(user=_cut(view.prompt)))]
        if view.message:
            turn.append(_line(_Message(assistant=_cut(view.message))))
        left -= sum(map(len, turn))
        if left < 0:
            is_whole = False
            break
        lines = [*turn, *lines]
    if not lines:
        return prompt
    return "\n".join([_HEAD, *([] if is_whole else [_LEFT_OUT]), *lines, "", _TAIL, "", prompt])


def _line(message: _Message) -> str:
    return msgspec.json.encode(message).decode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + CUT
