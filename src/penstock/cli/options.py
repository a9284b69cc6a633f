"""Options of the command line: the structs that hold them, and the flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from penstock.config.rules import ABOVE_0, Rule
from penstock.errors import shown

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.config.settings import Detail
    from penstock.run.prompt_template import Template
    from penstock.sinks.text.display_mode import Color

T = TypeVar("T")

SINKS = ("text", "ndjson", "chunks", "reply", "atif", "health")


class DisplayOptions(msgspec.Struct, kw_only=True):
    """Options of the display. None means the value from the configuration."""

    label: str | None = None
    to: str = "text"
    mode: Literal["auto", "full", "basic", "none"] | None = None
    detail: Detail | None = None
    color: Color | None = None
    render: Literal["auto", "on", "off"] | None = None
    prefix: Literal["agent", "kind", "both", "above", "none"] | None = None
    health: bool = False
    wrap: bool = True


class ReadOptions(DisplayOptions, kw_only=True):
    """Options of the commands that read the output of an agent."""

    files: list[str] = []
    agent: str = "auto"
    follow: bool = False
    speed: float = 1.0


class RunOptions(DisplayOptions, kw_only=True):
    """Options of `penstock run`."""

    agents: str = ""
    prompt: str | None = None
    stdin: Literal["auto", "never"] = "auto"
    resumes_newest: bool = False
    """Resume the newest conversation of each agent in this directory."""
    interactive: bool = False
    """Ask for the next prompt when the run has ended."""
    fails_if_denied: bool = False
    """Exit with another status if an action was denied."""
    fallback: list[str] = []
    """Agents that take over, in this order."""
    fallback_on: list[str] | None = None
    """Causes after which they do; None: those by default."""
    quiet_ok: bool = False
    """Write nothing if all ends well."""
    junit: str | None = None
    """File for a JUnit report."""
    worktree: bool = False
    """Each agent works in a tree of its own."""
    prompt_file: str | None = None
    variables: dict[str, str] = {}
    """Values of the variables in the prompt file or in the prompt of the profile."""
    otel: bool = False
    """Send the runs to a collector of OpenTelemetry."""
    template: Template | None = None
    """Text to which the prompt is added, from a prompt file or a profile."""
    asked: dict[str, Any] = {}
    """Values of the fields of `RunSpec` that have flags, by name."""


def agent_flag(parser: Parser) -> None:
    """Add the option for the agent that printed a stream."""
    text = "agent that printed the stream (default: detect it)"
    parser.add_argument("--agent", default="auto", metavar="NAME", help=text)


def speed_flag(parser: Parser) -> None:
    """Add the option for the speed of a replay."""
    text = "speed: 2 is twice as fast (default 1)"
    parser.add_argument("--speed", type=number(ABOVE_0), default=1.0, metavar="N", help=text)


def display_flags(parser: Parser) -> None:
    """Add the options of the display."""
    add = parser.add_argument
    add("--label", metavar="L", help="name of the agent in the output")
    add("--to", default="text", choices=SINKS, help="text: for people (default) · ndjson: all events · chunks: text as "
        "it arrives, for programs · reply: only the final reply · atif: the trajectory of the run · health: only the "
        "health report")  # fmt: skip
    add("--mode", choices=("auto", "full", "basic", "none"), help="when text is written: full: as it arrives · basic: "
        "complete lines · none: complete lines, for logs · auto: full in a terminal (default)")  # fmt: skip
    add("--detail", choices=("quiet", "minimal", "normal", "verbose"), help="how much to show")
    add(
        "--color",
        choices=("auto", "always", "never"),
        help="when to use colours; auto follows NO_COLOR and FORCE_COLOR",
    )
    add("--render", choices=("auto", "on", "off"), help="Markdown in a terminal with colours: auto: without markers "
        "(default) · on: also tables, colours of code, links, whole words at the margin · off: as it came")  # fmt: skip
    add("--prefix", choices=("agent", "kind", "both", "above", "none"), help="prefix of each line · above: that of a "
        "text is on a line of its own, so the text is copied without an indent")  # fmt: skip
    add("--no-wrap", dest="wrap", action="store_false", help="do not wrap lines by words at the width of the terminal")
    add("--health", action="store_true", help="print the health report to stderr at the end")


def flagged_fields() -> list[str]:
    """Return the names of the fields of `RunSpec` that have flags."""
    from penstock.run.spec import OPTIONS

    return [name for name, option in OPTIONS.items() if option.flag]


def run_flags(parser: Parser) -> None:
    """Add a flag for each field of `RunSpec` that has one."""
    from penstock.run.spec import OPTIONS, RunSpec

    defaults = {field.name: field.default for field in msgspec.structs.fields(RunSpec)}
    for name in flagged_fields():
        option = OPTIONS[name]
        flag, _, metavar = option.flag.partition(" ")
        flags = [flag, *filter(None, [option.short])]
        text, rule = option.text.replace("`", ""), option.word or option.rule
        kind = option.kind
        if kind == "switch":
            parser.add_argument(*flags, dest=name, action="store_true", help=text)
        elif kind == "choice":
            parser.add_argument(*flags, dest=name, choices=option.choices, default=defaults[name], help=text)
        elif kind == "several":
            add, text = string(rule), f"{text}; may be repeated"
            parser.add_argument(*flags, dest=name, type=add, action="append", default=[], metavar=metavar, help=text)
        else:
            convert = {"number": number, "whole number": whole_number}.get(kind, string)(rule)
            parser.add_argument(*flags, dest=name, type=convert, metavar=metavar, help=text)


def flag_values(words: dict[str, Any]) -> dict[str, Any]:
    """Remove the values of the flags of `run_flags` from parsed words; return them by the names of the fields."""
    asked = {name: words.pop(name) for name in flagged_fields()}
    asked["env"] = {name: value for name, _, value in (text.partition("=") for text in asked["env"])}
    return asked


def string(rule: Rule) -> Callable[[str], str]:
    """Return the argparse type of a string."""
    return _typed(str, rule)


def number(rule: Rule) -> Callable[[str], float]:
    """Return the argparse type of a number."""
    return _typed(float, rule)


def whole_number(rule: Rule) -> Callable[[str], int]:
    """Return the argparse type of a whole number."""
    return _typed(int, rule)


def _typed(convert: Callable[[str], T], rule: Rule) -> Callable[[str], T]:
    from argparse import ArgumentTypeError  # not needed if there are no arguments to parse

    def typed(word: str) -> T:
        try:
            value = convert(word)
        except ValueError:
            value = None
        # Python accepts digits of any script and "1_0" as numbers; on a command line these are typing errors.
        plain = convert is str or (word.isascii() and "_" not in word)
        if value is None or not plain or not rule.fits(value):
            if rule.noun:
                raise ArgumentTypeError(f"{shown(word)} is not {rule.noun}; expected {rule.expected}")
            raise ArgumentTypeError(f"expected {rule.expected}, not {shown(word)}")
        return value

    return typed
