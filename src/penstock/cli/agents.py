"""`penstock agents`: the known agents and the abilities of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from penstock.agents import registry
from penstock.cli.console import columns, fitted, pass_on, say
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.config.settings import Config
from penstock.errors import UnknownAgent
from penstock.run import installed
from penstock.run.confine import machine_problem

CHECK_SECONDS = 30.0
"""Timeout in seconds for `--version`: some programs are large, and the first start of the day is slow."""

LEGEND = """\
installed: of the first route, which a run takes by default, with some agents only if somebody can answer; routes in
brackets need a program that is not installed. ▲ (with --check): newer than all versions in the recordings; what a run
prints that is not known is counted in its health. tested: the version of the recordings among the tests. proven: there
are recordings of the real agent. Text comes in pieces as the model writes it, or whole. resume, fork: a conversation
can be resumed, or branched.
"""
"""Meaning of the words in the table."""

NEWER = "▲"
"""Mark of a version that is newer than all recordings."""


def command(args: list[str]) -> int:
    """Run `penstock agents` and return the exit status."""
    options = parser().parse(args)
    found = rows(configured(), check=options.check, only=options.agents)
    if options.json:
        return pass_on(as_json(found))
    problem = machine_problem()
    return say(as_text(found) + (fitted(f"\nNo agent can be confined here: {problem}\n") if problem else ""))


def parser() -> Parser:
    """Return the parser of the command."""
    text = "List the known agents: which are installed, and what each can do."
    made = Parser("agents", text, examples=LEGEND, arguments="[AGENT…] [options]")
    made.add_argument("agents", nargs="*", metavar="AGENT", help="names of agents (default: all)")
    made.add_argument("--json", action="store_true", help="as one JSON object a line")
    made.add_argument("--check", action="store_true", help="ask each installed one for its version")
    return made


class Row(msgspec.Struct, omit_defaults=True):
    """One agent. A field is absent if it is unknown or does not apply to this kind of agent."""

    name: str
    built_in: bool
    installed: bool | None = None
    """True if the program of the route that a run would take is installed."""
    program: str | None = None
    """Path at which the program was found."""
    version: str | None = None
    """Version that `--version` printed; only with `--check`."""
    newer: bool | None = None
    """True if this version is newer than all versions in the recordings; only with `--check`."""
    tested: str | None = None
    proven: bool | None = None
    live: bool | None = None
    resume: bool | None = None
    fork: bool | None = None
    routes: list[str] = []
    """Names of the routes, in brackets if the program of the route is not installed."""
    install: str | None = None


def rows(config: Config, *, check: bool, only: Sequence[str] = ()) -> list[Row]:
    """Return the agents of the registry, of entry points and of the configuration: all, or `only` those named.

    Raises:
        UnknownAgent: a name is not that of an agent.
    """
    found = [_row(name, config) for name in registry.names()]
    known = {row.name for row in found}
    for name in config.agents():
        if name not in known and (own := config.agent(name)).command is not None:
            found.append(_with_program(Row(name, False, routes=[own.protocol or "exec"]), own.command[0]))
    if only:
        named = {row.name: row for row in found}
        if (unknown := next((name for name in only if name not in named), None)) is not None:
            raise UnknownAgent(unknown, [*named])
        found = [named[name] for name in dict.fromkeys(only)]
    if check:
        with ThreadPoolExecutor(8) as pool:
            versions = pool.map(
                lambda row: installed.printed_version(row.program, CHECK_SECONDS) if row.program else None, found
            )
            for row, said in zip(found, versions, strict=True):
                row.version = said
                row.newer = is_newer(said, _recorded(row)) if said else None
    return found


def _row(name: str, config: Config) -> Row:
    entry = registry.AGENTS.get(name)
    if entry is None:
        return Row(name, False)
    best, own = entry.default, config.agent(name)
    row = Row(
        name,
        True,
        tested=entry.tested,
        proven=entry.proven,
        live=best.live,
        resume=best.resume,
        fork=best.fork,
        routes=[way if _is_there(route.program) else f"({way})" for way, route in entry.routes.items()],
        install=entry.install or None,
    )
    return _with_program(row, own.command[0] if own.command else best.program)


def _with_program(row: Row, program: str) -> Row:
    if program:
        row.program = installed.where(program)
        row.installed = row.program is not None
    return row


def _is_there(program: str) -> bool:
    return not program or installed.where(program) is not None


def _recorded(row: Row) -> list[str]:
    """Return the versions of an agent in the recordings of its routes, except ACP, and in the tests."""
    from penstock.agents import kinds

    # Over ACP, the versions are those of the ACP adapters, which are separate programs.
    routes = kinds.table(row.name).routes.items()
    found = [version for route, it in routes if route != "acp" for version in it.versions]
    return [*found, row.tested] if row.tested else found


def is_newer(version: str, known: Sequence[str]) -> bool:
    """Return whether a version is newer than all known ones; False if none is known."""
    return bool(known) and _numbers(version) > max(map(_numbers, known))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers before the first letter: a preview counts as its release."""
    return tuple(int(part) for part in re.findall(r"\d{1,18}", re.split(r"[^\d.]", version)[0]))


def as_text(found: Sequence[Row]) -> str:
    """Return the rows as a table for people."""
    cells = [("name", "installed", "tested", "state", "text comes", "resume", "fork", "routes")]
    for row in found:
        here = f"{row.version} {NEWER}" if row.version and row.newer else row.version
        installed = here or {True: "yes", False: "no", None: "–"}[row.installed]
        if not row.built_in:
            state = "configured" if row.routes else "third party"
            cells.append((row.name, installed, "–", state, "–", "–", "–", " ".join(row.routes)))
            continue
        state, text = ("proven" if row.proven else "unproven"), ("in pieces" if row.live else "whole")
        more = (row.tested or "–", state, text, _yes(row.resume), _yes(row.fork), " ".join(row.routes))
        cells.append((row.name, installed, *more))
    return columns(cells)


def as_json(found: Sequence[Row]) -> bytes:
    """Return the rows as one JSON object per line."""
    return msgspec.json.Encoder().encode_lines(found)


def _yes(fact: bool | None) -> str:
    return "yes" if fact else "–"
