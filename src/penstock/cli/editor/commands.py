"""Commands of a conversation: lines that begin with a slash."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from penstock.agents import registry
from penstock.cli.console import columns, say
from penstock.cli.editor.directory_diff import directory_diff
from penstock.cli.editor.terminal_conversation import TerminalConversation
from penstock.config.settings import Config
from penstock.errors import UsageError, nearest, shown
from penstock.run.spec import OPTIONS

LEVELS: tuple[str, ...] = OPTIONS["allow"].choices

KEYS = (
    ("Enter", "send the prompt"),
    ("Alt-Enter, or Esc and Enter", "begin a new line"),
    ("Up, Ctrl-R", "earlier prompts of this directory; search in them"),
    ("@", "files of this directory; Tab chooses one"),
    ("Ctrl-X Ctrl-E", "edit the prompt in $EDITOR"),
    ("Ctrl-C", "clear the line; while the agent works, stop it"),
    ("Ctrl-D", "leave"),
)
"""Keys of the line editor."""


class SlashCommand(msgspec.Struct, frozen=True):
    """One command. `run` gets the conversation and what follows the name; it returns whether the conversation ends."""

    argument: str
    help: str
    run: Callable[[TerminalConversation, str], bool]

    @property
    def needs_no_argument(self) -> bool:
        """True if nothing may follow the name."""
        return not self.argument


def _help(conversation: TerminalConversation, argument: str) -> bool:
    rows = [[f"{name} {command.argument}".strip(), command.help] for name, command in COMMANDS.items()]
    say(columns([*rows, ["//…", "send a prompt that begins with one slash"]]))
    say("\n" + columns(KEYS))
    return False


def _model(conversation: TerminalConversation, argument: str) -> bool:
    conversation.change(model=argument or None)
    say(f"The model of the next prompt is {argument or 'the default one of the agent'}.\n")
    return False


def _allow(conversation: TerminalConversation, argument: str) -> bool:
    if argument not in LEVELS:
        what = f"{shown(argument)} is no level" if argument else "there is no level"
        raise UsageError(what, expected=f"/allow with one of {', '.join(LEVELS)}")
    conversation.change(allow=argument)
    say(f"The next prompt runs with --allow {argument}.\n")
    return False


def _agent(conversation: TerminalConversation, argument: str) -> bool:
    if not argument:
        raise UsageError("there is no agent", expected="/agent with a name; penstock agents lists them")
    if "," in argument:
        raise UsageError("a conversation is with one agent", expected="/agent with one name")
    conversation.hand_over(argument)
    say(f"{argument} gets the next prompt, in a new session that begins with a summary of this one.\n")
    return False


def _cost(conversation: TerminalConversation, argument: str) -> bool:
    say(conversation.cost())
    return False


def _sessions(conversation: TerminalConversation, argument: str) -> bool:
    say(going_on(conversation) or f"{conversation.agent} has no session yet: it begins with the first prompt.\n")
    say("All conversations of this directory: penstock sessions\n")
    return False


def _diff(conversation: TerminalConversation, argument: str) -> bool:
    say(directory_diff(conversation.directory))
    return False


def _quit(conversation: TerminalConversation, argument: str) -> bool:
    return True


COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("", "show commands and keys", _help),
    "/model": SlashCommand("[NAME]", "model of the next prompts; without a name the agent's default", _model),
    "/allow": SlashCommand("LEVEL", f"what the agent may do: {', '.join(LEVELS)}", _allow),
    "/agent": SlashCommand("NAME", "go on with another agent, which gets a summary", _agent),
    "/cost": SlashCommand("", "tokens and cost of this conversation", _cost),
    "/diff": SlashCommand("", "changes in this directory since the last commit", _diff),
    "/sessions": SlashCommand("", "how to go on with this conversation later", _sessions),
    "/quit": SlashCommand("", "leave", _quit),
}
"""The commands by their names."""

ALIASES = {"/stop": "/quit", "/exit": "/quit"}
"""Other names of commands, which are not shown."""

HELP: Mapping[str, str] = {name: command.help for name, command in COMMANDS.items()}


def values(config: Config) -> Callable[[str], list[str]]:
    """Return the function that returns the values of a command's argument, for completion."""

    def of(name: str) -> list[str]:
        if name == "/allow":
            return list(LEVELS)
        return sorted({*registry.names(), *config.agents()}) if name == "/agent" else []

    return of


def is_command(line: str) -> bool:
    """Return whether a line is for Penstock, and not for the agent."""
    return line.startswith("/") and not line.startswith("//")


def run_command(conversation: TerminalConversation, line: str) -> bool:
    """Run a command; return whether the conversation ends.

    Raises:
        PenstockError: there is no such command, or it cannot be done.
    """
    name, *more = line.split(maxsplit=1)
    name, argument = ALIASES.get(name, name), "".join(more)
    command = COMMANDS.get(name)
    if command is None:
        guess = nearest(name, COMMANDS)
        way = f"did you mean {guess}? " if guess else "/help lists the commands. "
        raise UsageError(f"{shown(name)} is no command", help=f"{way}To send it to the agent: /{shown_line(line)}")
    if argument and command.needs_no_argument:
        raise UsageError(f"{name} takes nothing after it", expected=name)
    return command.run(conversation, argument)


def shown_line(line: str) -> str:
    """Return the beginning of a line for a message."""
    return line if len(line) <= 40 and "\n" not in line else line[:40].partition("\n")[0] + "…"


def going_on(conversation: TerminalConversation) -> str:
    """Return the line that says how to go on with the conversation; "" if it has no session."""
    command = conversation.resume_command()
    return f"To go on with it: {command}\n" if command else ""
