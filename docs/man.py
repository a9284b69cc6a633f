"""Writes the man page `docs/penstock.1` from the parsers of the command line.

Run by `make man`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from penstock._version import __version__
from penstock.cli.completion import all_commands, subparsers_of

PAGE = Path(__file__).parent / "penstock.1"
STATUSES = Path(__file__).parent / "exit-status.md"

FILES = {
    "~/.config/penstock/config.toml": "settings of the user",
    "penstock.toml": "settings of a project, in its directory or above",
    "~/.local/share/penstock": "chats, documents, and the history of runs; PENSTOCK_DATA names another directory",
}


def escaped(text: str) -> str:
    """Return text as roff reads it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("·", "\\(bu")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def option(action: argparse.Action) -> list[str]:
    """Return the paragraph of one option."""
    names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in action.option_strings)
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if action.nargs == 0:
        value = ""
    if not names:
        names, value = f"\\fI{escaped(str(action.metavar or action.dest))}\\fR", ""
    return [".TP", names + (f" \\fI{escaped(str(value))}\\fR" if value else ""), escaped(action.help or "")]


def command(name: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the section of one command."""
    lines = [f'.SS "penstock {name}"', escaped(parser.description or "")]
    subcommands: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            subcommands = action.choices
        elif "--help" not in action.option_strings:
            lines += option(action)
    for word, one in subcommands.items():
        lines += command(f"{name} {word}", one)
    return lines


def statuses() -> list[str]:
    """Return the section of the exit statuses, from their page."""
    rows = re.findall(r"^\| ([\d, ]+) \| (.*?) \| [^|]* \|$", STATUSES.read_text("utf-8"), re.MULTILINE)
    lines = []
    for status, when in rows:
        plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", when).replace("\\|", "|")
        lines += [".TP", f"\\fB{status}\\fR", escaped(plain)]
    return lines


def page() -> str:
    """Return the man page."""
    whole = all_commands()
    lines = [
        f'.TH PENSTOCK 1 "" "Penstock {__version__}" "User Commands"',
        ".SH NAME",
        "penstock \\- turn the output of any AI coding agent into one clean event stream",
        ".SH SYNOPSIS",
        ".B penstock run \\fIAGENT\\fR[,\\fIAGENT\\fR...] [\\fIPROMPT\\fR] [\\fIoptions\\fR]",
        ".br",
        "\\fIAGENT\\fR ... | \\fBpenstock\\fR [\\fIoptions\\fR]",
        ".br",
        ".B penstock \\fICOMMAND\\fR [\\fIoptions\\fR]",
        ".SH DESCRIPTION",
        "Penstock starts AI coding agents, supervises them, and shows what they do.",
        "It also reads the streams that they print.",
        ".SH COMMANDS",
    ]
    for name, parser in subparsers_of(whole).choices.items():
        lines += command(name, parser)
    lines += [".SH EXIT STATUS", *statuses(), ".SH FILES"]
    for name, text in FILES.items():
        lines += [".TP", f"\\fI{escaped(name)}\\fR", escaped(text)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
