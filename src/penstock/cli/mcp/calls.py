"""Calls of tools that are being answered."""

from __future__ import annotations

from queue import Queue

from penstock.cli.stdio.link import TurnStep
from penstock.errors import PenstockError


class Call:
    """Call of a tool that is being answered."""

    def __init__(self, token: str | int | None) -> None:
        self.token = token
        """Token of the client for notifications of progress; None if it wants none."""
        self.is_cancelled: bool = False
        """True once the client has given up the call."""
        self.line: str = ""
        """What the agent does, as it was last reported."""
        self.said: int = 0
        """Notifications of progress that were sent."""
        self.steps: Queue[TurnStep | PenstockError | None] = Queue()
        """Steps of the turn that it follows, the error that ended them if any, and None after the last one."""

    def cancel(self) -> None:
        """Note that the client has given up the call, and wake the thread that answers it."""
        self.is_cancelled = True
        self.steps.put(None)
