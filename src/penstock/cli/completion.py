"""`penstock completion`: the script that completes commands, options and names of agents in a shell."""

from __future__ import annotations

import argparse
from importlib import import_module

from penstock.agents.registry import AGENTS
from penstock.cli.console import say
from penstock.cli.parser import Parser

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\
examples:
  penstock completion bash > ~/.local/share/bash-completion/completions/penstock
  penstock completion zsh  > ~/.zfunc/_penstock       with fpath+=~/.zfunc before compinit in ~/.zshrc
  penstock completion fish > ~/.config/fish/completions/penstock.fish
"""

_PATHS = {"files": "FILE", "file": "FILE", "documents": "FILE", "token_file": "FILE", "uds": "FILE",
          "cwd": "DIRECTORY", "record": "DIRECTORY", "data": "DIRECTORY", "root": "DIRECTORY"}  # fmt: skip
"""Kinds of paths that complete the arguments of these names."""

_AGENTS = ("agents", "agent", "fallback")
"""Arguments that the names of agents complete."""


def command(args: list[str]) -> int:
    """Run `penstock completion` and return the exit status."""
    import shtab

    shell = parser().parse(args).shell
    return say(shtab.complete(all_commands(), shell=shell) + "\n")


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Print the script that completes commands, options and names of agents in a shell."
    made = Parser("completion", text, examples=EXAMPLES, arguments="SHELL")
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return made


def all_commands() -> argparse.ArgumentParser:
    """Return one parser with all commands, whose arguments have what completes them."""
    import shtab

    from penstock.cli.main import COMMANDS

    whole = argparse.ArgumentParser(prog="penstock", description="One clean event stream of any AI coding agent.")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers()
    for name, module in COMMANDS.items():
        one: Parser = import_module(module).parser()
        for action in one._actions:
            if action.dest in _PATHS:
                action.complete = getattr(shtab, _PATHS[action.dest])  # type: ignore[attr-defined]
            elif action.dest in _AGENTS:
                action.choices = list(AGENTS)
        summary = (one.description or "").partition(". ")[0].rstrip(".")
        commands.add_parser(name, parents=[one], add_help=False, help=summary, description=one.description)
    return whole
