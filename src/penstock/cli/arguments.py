"""The words of the command line, parsed. Whatever is wrong with them is a `UsageError`: one line, and no traceback."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from penstock.config.rules import ABOVE_0, Rule
from penstock.errors import UsageError, nearest, shown

T = TypeVar("T")

SINKS = ("text", "ndjson", "chunks", "reply", "health")

NAMES_OF_AGENTS = {
    "-m": "--model M",
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
"""Options that many agents have, and what Penstock has for them."""
PROMPT_FLAGS = ("-p", "--print", "--prompt")
"""Options of agents for which Penstock has none: its prompt is an argument."""


class Parser(argparse.ArgumentParser):
    """Parses the words of one command."""

    def __init__(self, command: str, text: str, *, examples: str = "", arguments: str = "[options]") -> None:
        super().__init__(
            prog=f"penstock {command}",
            usage=f"penstock {command} {arguments}",
            description=text,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The values of the words, which may come in any order.

        Raises:
            UsageError: something is wrong with them.
        """
        self._check_dashes(words)
        values, extra = self.parse_known_intermixed_args(words)
        if extra:
            self._fail_for(extra, values)
        return values

    def error(self, message: str) -> NoReturn:
        """Raise the error that these words are wrong."""
        raise UsageError(message, way_out=f"see {self.prog} --help")

    def _check_dashes(self, words: Sequence[str]) -> None:
        """Pass no `--option=--` on: argparse takes the dashes away and leaves a list."""
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
            raise UsageError(f"there is no option {shown(flag)}", way_out=self._instead_of(flag))
        prompt = getattr(values, "prompt", None)
        if prompt is None:  # of the other commands
            self.error(f"unrecognized arguments: {' '.join(extra)}")
        whole = shlex.quote(" ".join([prompt, *extra]))
        example = f": {self.prog} {values.agents} {whole}"
        raise UsageError(
            f"the prompt is one argument, and {shown(' '.join(extra))} is after it",
            way_out="quote the prompt" + (example if example.isprintable() else ""),
        )

    def _instead_of(self, flag: str) -> str:
        if flag in PROMPT_FLAGS and "--fork" in self._option_string_actions:
            return "the prompt follows the agent's name, without an option"
        known = NAMES_OF_AGENTS.get(flag, "")
        guess = known if known.partition(" ")[0] in self._option_string_actions else None
        guess = guess or nearest(flag, self._option_string_actions)
        return f"did you mean {guess}?" if guess else f"see {self.prog} --help"


def agent_flag(parser: Parser) -> None:
    """Add the option of who printed a stream."""
    text = "whose stream it is; auto: told by its first lines (default)"
    parser.add_argument("--agent", default="auto", metavar="NAME", help=text)


def speed_flag(parser: Parser) -> None:
    """Add the option of how fast a recording is played."""
    text = "2 is twice as fast (default 1)"
    parser.add_argument("--speed", type=number(ABOVE_0), default=1.0, metavar="N", help=text)


def display_flags(parser: Parser) -> None:
    """Add the options of what is shown, and how."""
    add = parser.add_argument
    add("--label", metavar="L", help="what the agent is called in the output")
    add("--to", default="text", choices=SINKS, help="text: for people (default) · ndjson: all events · chunks: text as "
        "it comes, for programs · reply: only the final reply · health: only the report on the stream")  # fmt: skip
    add("--mode", choices=("auto", "full", "basic", "none"), help="when text leaves: full: each piece at once · basic: "
        "whole stretches · none: the same, for logs · auto: full in a terminal (default)")  # fmt: skip
    add("--detail", choices=("quiet", "minimal", "normal", "verbose"), help="how much is shown")
    add("--color", choices=("auto", "always", "never"), help="over NO_COLOR and FORCE_COLOR, which auto heeds")
    add("--prefix", choices=("agent", "kind", "both", "none"), help="what each line begins with")
    add("--health", action="store_true", help="tell on stderr at the end how the stream was")


def string(rule: Rule) -> Callable[[str], str]:
    """The type of an argument that is a string."""
    return _typed(str, rule)


def number(rule: Rule) -> Callable[[str], float]:
    """The type of an argument that is a number."""
    return _typed(float, rule)


def whole_number(rule: Rule) -> Callable[[str], int]:
    """The type of an argument that is a whole number."""
    return _typed(int, rule)


def _typed(convert: Callable[[str], T], rule: Rule) -> Callable[[str], T]:
    def typed(word: str) -> T:
        try:
            value = convert(word)
        except ValueError:
            value = None
        # Python takes digits of any script and "1_0" for numbers, which a user of a command line mistypes.
        plain = convert is str or (word.isascii() and "_" not in word)
        if value is None or not plain or not rule.fits(value):
            if rule.noun:
                raise argparse.ArgumentTypeError(f"{shown(word)} is no {rule.noun}; expected {rule.expected}")
            raise argparse.ArgumentTypeError(f"expected {rule.expected}, not {shown(word)}")
        return value

    return typed
