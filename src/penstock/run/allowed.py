"""Commands that a person allowed for the rest of a session. They are kept in this process, and written nowhere.

`rule_of` describes such a command for a caller that keeps it longer, such as a chat with its rules.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.bounded import BoundedDict
from penstock.updates import Question

MAX_SESSIONS = 1024
"""Number of sessions whose commands are kept; of a forgotten one, each command is asked for again."""
MAX_COMMANDS = 256
"""Number of commands that are kept for a session: more than a person confirms."""

HasRule = Callable[[str], bool]
"""Function that returns whether a rule with this id allows its command."""

Commands = BoundedDict[bytes, None]
SessionKey = tuple[str, str, str]
"""Agent, directory and session id."""

_sessions: BoundedDict[SessionKey, Commands] = BoundedDict(MAX_SESSIONS)
_lock = threading.Lock()


class AllowedCommands:
    """Commands that one run may repeat without a question: those of its session, once this is known."""

    def __init__(self, agent: str, cwd: str) -> None:
        self._agent = agent
        self._cwd = cwd
        self._commands: Commands = BoundedDict(MAX_COMMANDS)

    def enter(self, session_id: str) -> None:
        """Add the commands of a session; from now on they are shared with the later runs of that session."""
        key = (self._agent, self._cwd, session_id)
        with _lock:
            kept = _sessions.get(key)
            if kept is None:
                _sessions[key] = self._commands
            elif kept is not self._commands:
                for digest in self._commands:
                    kept[digest] = None
                self._commands = kept

    def add(self, question: Question) -> None:
        """Allow what a question asks for from now on."""
        if question.action is not None:
            with _lock:
                self._commands[_digest(question)] = None

    def covers(self, question: Question) -> bool:
        """Return whether a question asks for what was allowed: the same command, for the same kind of permission."""
        return question.action is not None and _digest(question) in self._commands


class CommandRule(NamedTuple):
    """Exactly one command that is allowed without a question."""

    id: str
    """Digest of everything that the permission covers."""
    command: str
    """The command for people: a line for a shell."""


def rule_of(question: Question) -> CommandRule | None:
    """Return the rule that allows what a question asks for, and nothing else; None if it is not a command.

    The words of the command are compared one by one, with the directory in which it runs and all else that the agent
    asks for, as a run outside of its sandbox.
    """
    command = question.command
    if question.ask != "command" or command is None:
        return None
    covered = json.dumps([command, question.command_cwd, question.action])
    line = command if isinstance(command, str) else shlex.join(command)
    return CommandRule(hashlib.sha256(covered.encode("utf-8", "surrogatepass")).hexdigest()[:32], line)


def _digest(question: Question) -> bytes:
    """Return a digest in place of the command, which may be long, and may have a secret in it."""
    return hashlib.sha256(f"{question.ask}\n{question.action}".encode("utf-8", "surrogatepass")).digest()
