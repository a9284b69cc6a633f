"""Lines that continue the conversation of a chat in a terminal, for people to copy."""

from __future__ import annotations

import msgspec

from penstock.adapter import Request, checked
from penstock.chat.service.agents.offered import Agents
from penstock.chat.store.rows import ChatRow
from penstock.config.shell_words import quoted
from penstock.errors import UsageError


class TerminalLines(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the conversation of a chat goes on in a terminal of the machine where its agent works."""

    penstock: str | None = None
    """Line that continues it with Penstock, at the permission of the chat; None if it cannot be continued."""
    agent: str | None = None
    """Line that continues it in the agent's own program, by the agent's own settings; None if that is unknown."""
    note: str | None = None
    """Why it cannot be continued, or what to do before."""


def terminal_lines(chat: ChatRow, agents: Agents) -> TerminalLines:
    """Return the lines for a chat whose agent works on this machine."""
    if not agents.resumes(chat.agent):
        return TerminalLines(note=f"{chat.agent} begins a new conversation in each turn.")
    if agents.loses_sessions(chat.agent, chat.allow):
        what = "may lose a conversation that is resumed, so this chat sends its messages along instead."
        return TerminalLines(note=f"{chat.agent} {what}")
    if chat.session_id is None:
        return TerminalLines(note=f"{chat.agent} has no conversation of this chat yet.")
    try:
        checked(Request(prompt="…", session_id=chat.session_id, model=chat.model, effort=chat.effort))
    except UsageError:
        return TerminalLines(note=f"The id that {chat.agent} gave this conversation cannot be used in a command.")
    words = ["penstock", "run", chat.agent, "--interactive", f"--session={chat.session_id}"]
    words.append(f"--allow={agents.level(chat.agent, chat.allow)}")
    if chat.model is not None:
        words.append(f"--model={chat.model}")
    if chat.effort is not None:
        words.append(f"--effort={chat.effort}")
    own = [word.replace("{session_id}", chat.session_id) for word in agents.terminal(chat.agent, chat.allow)]
    return TerminalLines(_line(chat.cwd, words), _line(chat.cwd, own) if own else None)


def _line(cwd: str, words: list[str]) -> str:
    return f"cd -- {quoted(cwd)} && {' '.join(map(quoted, words))}"
