"""`penstock completion`: prints the script that completes commands, options and names of agents in a shell."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.agents.registry import AGENTS
from penstock.cli.console import pass_on
from penstock.cli.parser import Parser

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\
examples:
  penstock completion bash > ~/.local/share/bash-completion/completions/penstock
  penstock completion zsh  > ~/.zfunc/_penstock       with fpath+=~/.zfunc before compinit in ~/.zshrc
  penstock completion fish > ~/.config/fish/completions/penstock.fish
"""

_PATHS = {"files": "FILE", "file": "FILE", "documents": "FILE", "words": "FILE", "token_file": "FILE", "uds": "FILE",
          "prompt_file": "FILE",
          "cwd": "DIRECTORY", "record": "DIRECTORY", "data": "DIRECTORY", "root": "DIRECTORY"}  # fmt: skip
"""Kinds of paths that complete the arguments with these names."""

_FISH_FILE = """\
complete -c penstock -n '_shtab_penstock_using {name}; and test $_shtab_penstock_npos -eq 0' \
-ka "(__fish_complete_path (commandline -ct))"
"""
"""Line of a script for fish: the first word after a command may be a file as well as a command."""

_BASH_FILE = "_shtab_penstock_{name}_pos_0_COMPGEN=_shtab_compgen_files\n"
"""The same for bash."""

_ZSH_FILE = """\
_shtab_penstock_{name}() {{
  local options="_shtab_penstock_{name}_${{words[2]//-/_}}_options"
  if (( CURRENT > 2 && ${{(P)+options}} )); then
    shift words
    (( CURRENT-- ))
    _arguments -C -s "${{(@P)options}}"
  else
    (( CURRENT == 2 )) && _shtab_penstock_{name}_commands
    _arguments -C -s "${{(@)_shtab_penstock_{name}_options}}"
  fi
}}
"""
"""The same for zsh, which needs a separate function for this."""

_AGENTS = ("agents", "agent", "fallback")
"""Arguments that are completed with the names of agents."""


def command(args: list[str]) -> int:
    """Run `penstock completion` and return the exit status."""
    import shtab

    shell = parser().parse(args).shell
    whole = all_commands()
    names = [name for name, one in subparsers_of(whole).choices.items() if has_subcommands(one)]
    before = {"bash": _BASH_FILE, "zsh": _ZSH_FILE}.get(shell, "")
    after = _FISH_FILE if shell == "fish" else ""
    script = shtab.complete(whole, shell=shell, preamble="".join(before.format(name=name) for name in names))
    return pass_on(f"{script}\n" + "".join(after.format(name=name) for name in names))


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Print the script that completes commands, options and names of agents in a shell."
    made = Parser("completion", text, examples=EXAMPLES, arguments="SHELL")
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return made


def all_commands() -> argparse.ArgumentParser:
    """Return one parser with all commands. Each argument has its completion."""
    from penstock.cli.main import COMMANDS

    whole = argparse.ArgumentParser(prog="penstock", description="One clean event stream of any AI coding agent.")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers()
    for name, path in COMMANDS.items():
        module = import_module(path)
        made = _add(commands, name, module.parser())
        if hasattr(module, "subcommands"):
            words = made.add_subparsers()
            made._actions.sort(key=lambda action: action is not words)  # before the file: both may be the first word
            for word, one in module.subcommands().items():
                _add(words, word, one)
    return whole


def subparsers_of(parser: argparse.ArgumentParser) -> Commands:
    """Return the subcommands of a parser that has some."""
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def has_subcommands(parser: argparse.ArgumentParser) -> bool:
    """Return whether the first word of the parser may be a command."""
    return any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)


def _add(commands: Commands, name: str, one: Parser) -> argparse.ArgumentParser:
    """Add a command, and a completion to each of its arguments."""
    import shtab

    for action in one._actions:
        if action.dest in _PATHS:
            action.complete = getattr(shtab, _PATHS[action.dest])  # type: ignore[attr-defined]
        elif action.dest in _AGENTS:
            action.choices = list(AGENTS)
    summary = (one.description or "").partition(". ")[0].rstrip(".")
    return commands.add_parser(name, parents=[one], add_help=False, help=summary, description=one.description)
