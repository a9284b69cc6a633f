"""Parser of one command's arguments. A mistake in them is a `UsageError`: one line, and no traceback."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import NoReturn

from penstock.cli.console import USUAL_COLUMNS, terminal_width
from penstock.errors import UsageError, nearest, shown

FLAGS_OF_AGENTS = {
    "-r": "--session ID",
    "--resume": "--session ID",
    "-C": "--cwd DIR",
    "--cd": "--cwd DIR",
    "--json": "--to ndjson",
    "--output-format": "--to SINK",
    "--yolo": "--allow all",
    "--full-auto": "--allow edits",
    "--dangerously-skip-permissions": "--allow all",
}
"""Options that many agents have, and Penstock's equivalents."""
PROMPT_FLAGS = ("-p", "--print", "--prompt")
"""Options of agents without an equivalent in Penstock: its prompt is an argument."""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter as wide as the terminal. argparse makes one for each option, and would import `shutil` for it."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else 0
        super().__init__(prog, width=(width or terminal_width() or USUAL_COLUMNS) - 2)


class Parser(argparse.ArgumentParser):
    """Parser of the arguments of one command."""

    def __init__(self, command: str, text: str, *, examples: str = "", arguments: str = "[options]") -> None:
        super().__init__(
            prog=f"penstock {command}",
            usage=f"penstock {command} {arguments}",
            description=text,
            epilog=examples,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the values of the arguments, which may be in any order.

        Raises:
            UsageError: the arguments are wrong.
        """
        self._check_dashes(words)
        values, extra = self.parse_known_intermixed_args(words)
        if extra:
            self._fail_for(extra, values)
        return values

    def error(self, message: str) -> NoReturn:
        """Raise the error that the arguments are wrong."""
        raise UsageError(message, help=f"see {self.prog} --help")

    def _check_dashes(self, words: Sequence[str]) -> None:
        """Reject `--option=--`: argparse removes the dashes and leaves a list."""
        for word in words:
            flag, _, value = word.partition("=")
            if word == "--":
                return
            if value == "--" and flag in self._option_string_actions:
                self.error(f"argument {flag}: '--' cannot be used")

    def _fail_for(self, extra: Sequence[str], values: argparse.Namespace) -> NoReturn:
        name = next((word for word in extra if word.startswith("-") and word != "--"), None)
        if name is not None:
            flag = name.partition("=")[0]
            raise UsageError(f"there is no option {shown(flag)}", help=self._instead_of(flag))
        prompt = getattr(values, "prompt", None)
        if prompt is None:  # one of the other commands
            self.error(f"unrecognized arguments: {' '.join(extra)}")
        whole = shlex.quote(" ".join([prompt, *extra]))
        example = f": {self.prog} {values.agents} {whole}"
        raise UsageError(
            f"the prompt is one argument, and {shown(' '.join(extra))} is after it",
            help="quote the prompt" + (example if example.isprintable() else ""),
        )

    def _instead_of(self, flag: str) -> str:
        if flag in PROMPT_FLAGS and "--fork" in self._option_string_actions:
            return "the prompt follows the agent's name, without an option"
        known = FLAGS_OF_AGENTS.get(flag, "")
        guess = known if known.partition(" ")[0] in self._option_string_actions else None
        guess = guess or nearest(flag, self._option_string_actions)
        return f"did you mean {guess}?" if guess else f"see {self.prog} --help"
