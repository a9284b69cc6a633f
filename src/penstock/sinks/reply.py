"""Only the reply, as it is: `answer=$(… | penstock --to reply)`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events import Event, RunEnded


class ReplySink:
    """The reply of each run when it has ended, and nothing else. Raw: the reply is for a program."""

    def render(self, events: Iterable[Event]) -> str:
        """The reply, its last line ended; nothing for a run that has not ended or has no reply."""
        return "".join(_line(event.reply) for event in events if type(event) is RunEnded)

    def close(self) -> str:
        """Nothing is held back."""
        return ""


def _line(reply: str) -> str:
    return reply if not reply or reply.endswith("\n") else reply + "\n"
