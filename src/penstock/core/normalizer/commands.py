"""Commands that the agent offers, bounded and made fit to be shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from penstock.core.normalizer.emitter import Emitter
from penstock.events import AgentCommand, CommandsChanged
from penstock.updates import Commands

MAX_COMMANDS = 256
"""Number of commands that are kept: the agents that were recorded offer at most 45, besides those of the user."""
MAX_NAME_CHARS = 100
"""Characters of the longest name. A longer one is left out: a part of it would name no command."""
MAX_DESCRIPTION_CHARS = 240
"""Characters of a description: some agents send the instructions of a skill, and a menu has one line."""
MAX_ARGUMENT_CHARS = 100
"""Characters of what follows the name."""
MAX_READ_CHARS = 4_000
"""Characters of a text that are looked at: its beginning may be escape sequences."""

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, moves
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # titles, links, the clipboard
    r"|\x1b[ -/]{0,4}[0-~]"
)
_UNSEEN = re.compile(
    "[\0-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
"""Control characters, changes of direction, characters without a width, and halves of characters."""
_NAME = re.compile(r"[\w$].*")
"""Names: the first character is that of a word, or the one with which some agents mark their skills."""


class OfferedCommands:
    """List of commands of the run. It is emitted when it has changed, after the run has described itself."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._commands: list[AgentCommand] = []
        self._known: dict[str, AgentCommand] = {}  # as the newest list with a description has it
        self._has_begun = False
        self._pending = False

    def update(self, update: Commands) -> None:
        """Replace the list. One that equals it has no effect."""
        commands = [self._described(command) for command in bounded(update.commands)]
        if commands != self._commands:
            self._commands, self._pending = commands, True
            self._known = {command.name: command for command in commands}
            if self._has_begun:
                self.begin()

    def begin(self) -> None:
        """Emit the list if it has changed, and each later one at once."""
        self._has_begun = True
        if self._pending:
            self._pending = False
            self._emitter.emit(CommandsChanged, None, commands=self._commands)

    def _described(self, command: AgentCommand) -> AgentCommand:
        known = self._known.get(command.name)
        return known if known is not None and not command.description else command


def bounded(commands: Iterable[AgentCommand]) -> list[AgentCommand]:
    """Return the first commands that have a usable name, each name once, with texts of one line."""
    found: dict[str, AgentCommand] = {}
    for command in commands:
        name = command.name.removeprefix("/")
        if len(name) > MAX_NAME_CHARS or _NAME.fullmatch(name) is None or name != line_of(name, MAX_NAME_CHARS):
            continue
        if name not in found:
            description = line_of(command.description, MAX_DESCRIPTION_CHARS)
            found[name] = replace(
                command, name=name, description=description, argument=line_of(command.argument, MAX_ARGUMENT_CHARS)
            )
            if len(found) == MAX_COMMANDS:
                break
    return [*found.values()]


def line_of(text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters, without what acts on a terminal or hides text."""
    shown = _SEQUENCE.sub("", text[:MAX_READ_CHARS])
    shown = " ".join(_UNSEEN.sub("", " ".join(shown.split())).split())
    return shown if len(shown) <= limit else f"{shown[: limit - 1].rstrip()}…"
