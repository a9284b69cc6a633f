"""The reply sink, for scripts: `answer=$(… | penstock --to reply)`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events import Event, RunEnded


class ReplySink:
    """Sink that writes only the reply of each run, unchanged, when the run has ended.

    Args:
        label: name that is written above the reply, if there are several runs; "" for a single run.
    """

    def __init__(self, label: str = "") -> None:
        self._label = label

    def render(self, events: Iterable[Event]) -> str:
        """Return the replies of the runs that ended, with a line break at the end; "" if none did."""
        return "".join(self._lines(event.reply) for event in events if type(event) is RunEnded)

    def close(self) -> str:
        """Return "": nothing is held back."""
        return ""

    def _lines(self, reply: str) -> str:
        if not reply:
            return ""
        whole = reply if reply.endswith("\n") else reply + "\n"
        return f"==> {self._label} <==\n{whole}\n" if self._label else whole
