"""`penstock models`: lists the models that agents list themselves, with their levels of effort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
from msgspec import UNSET, UnsetType

from penstock.agents import registry
from penstock.agents._models import AgentModel
from penstock.cli.console import columns, notify_problem, pass_on, say
from penstock.cli.exit_status import FAILED, OK
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.config.data import data_path
from penstock.config.settings import Config
from penstock.errors import AgentNotFound, PenstockError, UnknownAgent, UsageError
from penstock.run.model_list import models_of
from penstock.run.sandbox import Surroundings
from penstock.run.spec import RunSpec

AT_ONCE = 4
"""Number of agents that are asked at once."""
SECONDS = 60.0
"""Timeout in seconds for each agent: a person waits, who can end it by Ctrl-C."""

EXAMPLES = """\
examples:
  penstock models              of all installed agents that list their models
  penstock models codex        of one agent
  penstock run codex --model MODEL --effort LEVEL "…"

The agent itself lists them: no model is asked, and nothing is sent but what the agent needs for its list. A list is
advice: a run may name any other model. *: the level of effort without --effort.
"""


class ModelRow(msgspec.Struct, omit_defaults=True):
    """One model of one agent."""

    agent: str
    model: str
    """Name for `--model`."""
    efforts: list[str] | UnsetType = UNSET
    """Levels for `--effort`; none if the model has no levels. Unset: the agent does not list them."""
    default_effort: str | UnsetType = UNSET
    """Level without `--effort`, if the agent says so."""


class _Asked(msgspec.Struct):
    """Answer of one agent: its models, or why it has none."""

    agent: str
    models: list[AgentModel] = []
    error: PenstockError | None = None

    @property
    def problem(self) -> str | None:
        """Reason why nothing is listed; None if there are models."""
        if self.error is not None:
            return f"{self.agent}: {self.error}"
        return None if self.models else f"{self.agent} listed no models: it may need a login, or another version"


def command(args: list[str]) -> int:
    """Run `penstock models` and return the exit status."""
    options = parser().parse(args)
    asked = _ask_all(_names(options.agents), configured())
    rows = [
        ModelRow(one.agent, model.name, model.efforts, model.default_effort) for one in asked for model in one.models
    ]
    for one in asked:
        if isinstance(one.error, AgentNotFound) and options.agents == [one.agent]:
            raise one.error
        if one.problem is not None and (options.agents or not isinstance(one.error, AgentNotFound)):
            notify_problem(one.problem)
    if options.json:
        pass_on(msgspec.json.Encoder().encode_lines(rows))
    elif rows:
        say(as_text(rows))
    elif not options.agents:
        say(f"None of the agents that list their models is installed: {', '.join(_listing())}.\n")
    return FAILED if options.agents and any(one.problem is not None for one in asked) else OK


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser("models", "List the models that agents list.", examples=EXAMPLES, arguments="[AGENT…] [options]")
    text = f"names of agents (default: all that are installed; {', '.join(_listing())} list their models)"
    made.add_argument("agents", nargs="*", metavar="AGENT", help=text)
    made.add_argument("--json", action="store_true", help="as one JSON object a line")
    return made


def _listing() -> list[str]:
    """Return the names of the agents that list their models."""
    return [name for name, facts in registry.AGENTS.items() if facts.models is not None]


def _names(wanted: Sequence[str]) -> list[str]:
    """Return the agents to ask: those that are wanted, each once, or all that list their models.

    Raises:
        UsageError: one that is wanted lists no models.
        UnknownAgent: it does not exist.
    """
    listing = _listing()
    for name in wanted:
        if name in listing:
            continue
        if name not in registry.names():
            raise UnknownAgent(name, listing)
        way = f"name one with --model; {', '.join(listing)} list theirs"
        raise UsageError(f"{name} has no command that lists its models", help=way)
    return list(dict.fromkeys(wanted)) or listing


def _ask_all(names: Sequence[str], config: Config) -> list[_Asked]:
    """Return the answers in the order of the names. Ctrl-C ends the programs that are still at work."""
    stop = Event()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            return list(pool.map(lambda name: _ask(name, config, stop.is_set), names))
        finally:
            stop.set()


def _ask(name: str, config: Config, is_stopped: Callable[[], bool]) -> _Asked:
    spec = RunSpec(agent=name, prompt="…", surroundings=Surroundings(auto="on"))
    try:
        return _Asked(name, models_of(spec, config, data_path(), is_stopped, SECONDS))
    except PenstockError as error:
        return _Asked(name, error=error)


def as_text(rows: Sequence[ModelRow]) -> str:
    """Return the rows as a table for people."""
    return columns([("agent", "model", "effort"), *((row.agent, row.model, _efforts(row)) for row in rows)])


def _efforts(row: ModelRow) -> str:
    if row.efforts is UNSET:
        return "?"
    marked = [f"{level}*" if level == row.default_effort else level for level in row.efforts]
    return " ".join(marked) or "–"
