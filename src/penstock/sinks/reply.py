"""The reply sink, for scripts: `answer=$(… | penstock --to reply)`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events import Event, RunEnded


class ReplySink:
    """Sink that writes the reply of each run when it has ended, unchanged, and nothing else."""

    def render(self, events: Iterable[Event]) -> str:
        """Return the replies of the runs that ended, with a line break at the end; "" for none."""
        return "".join(_line(event.reply) for event in events if type(event) is RunEnded)

    def close(self) -> str:
        """Return "": nothing is held back."""
        return ""


def _line(reply: str) -> str:
    return reply if not reply or reply.endswith("\n") else reply + "\n"
