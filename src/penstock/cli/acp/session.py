"""Sessions of the client, and how far each was shown."""

from __future__ import annotations

import threading

from penstock.adapter import Allow
from penstock.chat.web.doors.acp import AcpTurn
from penstock.events import AgentCommand


class Active:
    """Prompt that is being answered."""

    def __init__(self) -> None:
        self.turn: int | None = None
        self.trust: int | None = None
        """Id of the request to the client whether it trusts the directory."""
        self.cancelled: threading.Event = threading.Event()


class ShownTurn:
    """Turn that is shown, up to an entry."""

    def __init__(self, shown: AcpTurn) -> None:
        self.shown = shown
        self.number: int = 0
        """Number of the last entry that was shown."""
        self.answered: str | None = None
        """Id of the question that the prompt has answered."""
        self.declined: str | None = None
        """Id of the question for which the person did not fill in the form."""


class Session:
    """Session of the client. Its chat is created with the first prompt."""

    def __init__(self, id: str, cwd: str, agent: str, allow: Allow, model: str | None, *, is_new: bool) -> None:
        self.id = id
        self.cwd = cwd
        self.agent = agent
        self.allow = allow
        self.model = model
        self.effort: str | None = None
        """Level of effort; None for the agent's own choice."""
        self.is_new = is_new
        self.is_open: bool = True
        """False once it was closed, or opened anew."""
        self.title: str | None = None
        self.commands: list[AgentCommand] | None = None
        """Commands as the client has them; None before it was sent any."""
        self.listing: threading.Lock = threading.Lock()
        """Lock under which the client is sent commands."""
        self.spent: float = 0.0
        """US dollars of the turns that were shown, and of those before."""
        self.has_text: bool = False
        """Whether a message of the agent was shown since the last one of the person."""
        self.active: Active | None = None
        self.waiting: ShownTurn | None = None
        """Turn whose question is answered by the next prompt."""
        self.replayed: int | None = None
        """Turn that ran when the session was loaded, while it is shown."""
        self.lock: threading.Lock = threading.Lock()
        """Lock of the one turn that is shown."""
