"""Commands of a conversation: lines that begin with a slash."""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence

import msgspec

from penstock.agents import registry
from penstock.cli.console import USUAL_COLUMNS, fitted, say, sink_output, terminal_width
from penstock.cli.display import decide
from penstock.cli.editor.directory_diff import directory_diff
from penstock.cli.editor.shell_command import run_shell
from penstock.cli.editor.terminal_conversation import TerminalConversation
from penstock.cli.fitting import fitted_table
from penstock.cli.read import configured
from penstock.config.settings import Config
from penstock.errors import UsageError, nearest, shown
from penstock.run.history import History
from penstock.run.spec import OPTIONS
from penstock.sinks.text.styles import palette

LEVELS: tuple[str, ...] = OPTIONS["allow"].choices

MIN_COLUMNS = 20
"""Columns of a terminal in which the help is still wrapped by words."""

OTHER_LINES = (
    ("!COMMAND", "run a command of the shell here; the agent does not see it"),
    ("//…, !!…", "send a prompt that begins with one slash, or one !"),
)
"""Further lines that are not prompts."""

KEYS = (
    ("Enter", "send the prompt"),
    ("Alt-Enter, or Esc and Enter", "begin a new line"),
    ("Up, Ctrl-R", "earlier prompts of this directory; search in them"),
    ("@", "files of this directory; Tab chooses one"),
    ("//", "commands of the agent, once it has listed them"),
    ("Ctrl-X Ctrl-E", "edit the prompt in $EDITOR"),
    ("Ctrl-C", "clear the line; while the agent works, stop it"),
    ("Esc", "stop the agent, while it works"),
    ("Shift-Tab", "change the level: ask, edits, read"),
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
    rows = [(f"{name} {command.argument}".strip(), command.help) for name, command in COMMANDS.items()]
    width = _width()
    say(f"{_definitions([*rows, *OTHER_LINES], width)}\n{_definitions(KEYS, width)}")
    return False


def _width() -> int:
    """Return the columns of the terminal, which may have hung up."""
    return terminal_width() or USUAL_COLUMNS


def _definitions(rows: Sequence[tuple[str, str]], width: int) -> str:
    """Return terms and their meanings as two columns, or below each other where that is too wide."""
    text = fitted_table(rows, None, has_heads=False)
    if max(map(len, text.splitlines())) <= width:
        return text
    wrapped = textwrap.TextWrapper(max(width, MIN_COLUMNS), initial_indent="  ", subsequent_indent="  ")
    return "".join(f"{term}\n{wrapped.fill(meaning)}\n" for term, meaning in rows)


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


def _file(conversation: TerminalConversation, argument: str) -> bool:
    try:
        given = [os.path.expanduser(path.removeprefix("@")) for path in shlex.split(argument)]
    except ValueError as error:
        raise UsageError("a quotation mark is missing", expected="/file with paths") from error
    if not given:
        raise UsageError("there is no file", expected="/file with the path of a picture or a text")
    files = conversation.attach(given)
    say(f"The next prompt has {'1 file' if len(files) == 1 else f'{len(files)} files'}: {', '.join(files)}\n")
    return False


def _cost(conversation: TerminalConversation, argument: str) -> bool:
    say(conversation.cost())
    return False


def _sessions(conversation: TerminalConversation, argument: str) -> bool:
    nothing = f"{conversation.agent} has no session yet: it begins with the first prompt.\n"
    say(fitted(going_on(conversation) or nothing))
    say("All conversations of this directory: penstock sessions\n")
    return False


def _diff(conversation: TerminalConversation, argument: str) -> bool:
    colours = palette(decide(conversation.options, configured(), several=False).color)
    sink_output("text").write(directory_diff(conversation.directory, colours, _width()))
    return False


def _undo(conversation: TerminalConversation, argument: str) -> bool:
    conversation.undos.undo()
    return False


def _redo(conversation: TerminalConversation, argument: str) -> bool:
    conversation.undos.redo()
    return False


def _quit(conversation: TerminalConversation, argument: str) -> bool:
    return True


COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("", "show commands and keys", _help),
    "/model": SlashCommand("[NAME]", "model of the next prompts; without a name the agent's default", _model),
    "/allow": SlashCommand("LEVEL", f"what the agent may do: {', '.join(LEVELS)}", _allow),
    "/agent": SlashCommand("NAME", "go on with another agent, which gets a summary", _agent),
    "/file": SlashCommand("PATH…", "give the next prompt a picture or another file", _file),
    "/cost": SlashCommand("", "tokens and cost of this conversation", _cost),
    "/diff": SlashCommand("", "changes in this directory since the last commit", _diff),
    "/undo": SlashCommand("", "take back what the last prompt changed; again: the one before it", _undo),
    "/redo": SlashCommand("", "make the changes again that were taken back last", _redo),
    "/sessions": SlashCommand("", "how to go on with this conversation later", _sessions),
    "/quit": SlashCommand("", "leave", _quit),
}
"""The commands by their names."""

ALIASES = {"/stop": "/quit", "/exit": "/quit", "?": "/help"}
"""Other names of commands, which are not shown."""

MARKS = ("/", "!")
"""Beginnings of lines that are for Penstock. Doubled they are one character of a prompt."""

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
    return line == "?" or (line.startswith(MARKS) and line[1:2] != line[0])


def prompt_of(line: str) -> str:
    """Return the prompt of a line that is not a command: a doubled mark at its beginning is one."""
    return line[1:] if line.startswith(MARKS) else line


def run_command(conversation: TerminalConversation, line: str) -> bool:
    """Run a command; return whether the conversation ends.

    Raises:
        PenstockError: there is no such command, or it cannot be done.
    """
    if line.startswith("!"):
        run_shell(line[1:], conversation.directory)
        return False
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


def going_on(conversation: TerminalConversation, history: History | None = None) -> str:
    """Return the line with the command that continues the conversation; "" if it has no session.

    `history`: runs among which it may be the newest one, so that it needs no id.
    """
    command = conversation.resume_command(history)
    return f"To go on with it: {command}\n" if command else ""
