"""`penstock drift`: compares what the installed agents can print with what Penstock knows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from penstock.agents import kinds
from penstock.agents._facts import KindSource
from penstock.agents.registry import AGENTS
from penstock.cli.agents import NEWER, is_newer
from penstock.cli.console import columns, pass_on, say
from penstock.cli.exit_status import FAILED, OK
from penstock.cli.parser import Parser
from penstock.core.unfamiliar import is_suspect
from penstock.errors import AgentNotFound, UnknownAgent
from penstock.run import drift_log, installed

SECONDS = 5.0
"""Timeout in seconds for one agent."""
MAX_NAMED = 12
"""Maximum number of unknown kinds that the text names for a route; the JSON has all."""

EXAMPLES = """\
examples:
  penstock drift             all installed agents
  penstock drift claude      one agent, with the reasons of what is ignored
  penstock drift --log       unknown kinds in the runs on this machine, by version

read: a reader handles these kinds of lines, and recordings have them. ignored: there is a reason why they add nothing
that is shown. unknown: the program can print them, and Penstock knows nothing about them; the exit status is then 1, as
it is if the kinds of a program can no longer be read. ▲: newer than all versions in the recordings. No agent is run but
to ask for its version or its schema; no model is asked, and no network is used.
"""


class UnknownKind(msgspec.Struct):
    """Unknown kind of a program's output."""

    name: str
    warns: bool
    """True if its name alone makes a run warn of it."""


class Scan(msgspec.Struct):
    """Result of reading a program."""

    version: str | None
    kinds: set[str] | None = None
    problem: str | None = None


class RouteRow(msgspec.Struct, omit_defaults=True):
    """One route of an installed agent."""

    name: str
    route: str
    program: str
    version: str | None = None
    newer: bool | None = None
    """True if this version is newer than all versions in the recordings."""
    recorded: list[str] = []
    """Versions in the recordings."""
    read: list[str] = []
    ignored: dict[str, str] = {}
    """Kinds that are ignored, with the reasons."""
    unknown: list[UnknownKind] = []
    problem: str | None = None
    """Reason why the kinds could not be read."""
    listed: bool = False
    """The program contains its kinds in a known form."""


class Logged(msgspec.Struct):
    """Unknown kind in the runs of one version."""

    agent: str
    version: str | None
    name: str
    runs: int
    count: int
    """Number of lines of this kind in all of these runs."""
    places: list[str]
    warns: bool
    last_at: int
    """Time of the last such run, in seconds since 1970."""


def command(args: list[str]) -> int:
    """Run `penstock drift` and return the exit status."""
    options = parser().parse(args)
    _check_names(options.agents)
    if options.log:
        found = logged(options.agents)
        return pass_on(msgspec.json.Encoder().encode_lines(found)) if options.json else say(log_as_text(found))
    rows = installed_rows(options.agents)
    if options.json:
        pass_on(msgspec.json.Encoder().encode_lines(rows))
    else:
        say(as_text(rows, in_full=bool(options.agents)))
    return FAILED if any(row.unknown or row.problem for row in rows) else OK


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Compare what the installed agents can print with what Penstock knows of it."
    made = Parser("drift", text, examples=EXAMPLES, arguments="[AGENT…] [options]")
    made.add_argument("agents", nargs="*", metavar="AGENT", help="names of agents (default: all that are installed)")
    made.add_argument("--log", action="store_true", help="unknown kinds in the runs on this machine, by version")
    made.add_argument("--json", action="store_true", help="as one JSON object a line")
    return made


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in AGENTS:
            raise UnknownAgent(name, [*AGENTS])


def installed_rows(names: Sequence[str]) -> list[RouteRow]:
    """Return the routes of the installed agents, or of those that are named.

    Raises:
        AgentNotFound: a named agent is not installed.
    """
    found = []
    for name in names or AGENTS:
        routes = [
            (name, route, path)
            for route, facts in AGENTS[name].routes.items()
            if (path := installed.where(facts.program)) is not None
        ]
        if not routes and names:
            raise AgentNotFound(AGENTS[name].default.program or name, AGENTS[name].install)
        found += routes
    scans: dict[tuple[str, str, str], Scan] = {}
    return [_row(*it, scans) for it in found]  # one by one: this process searches, and each search has its own time


def _row(name: str, route: str, path: str, scans: dict[tuple[str, str, str], Scan]) -> RouteRow:
    known = kinds.table(name).routes.get(route, kinds.RouteKinds())
    source, printer = AGENTS[name].routes[route].source, AGENTS[name].routes[route].program
    if source is not None and source.started:
        started = AGENTS[source.started].routes[route]
        source, printer = started.source, started.program
    key = path, printer, repr(source)
    scan = scans.get(key) or _scan(path, printer, source)
    scans[key] = scan
    row = RouteRow(name, route, path, version=scan.version, recorded=[*known.versions], problem=scan.problem)
    if row.version is not None and known.versions:
        row.newer = is_newer(row.version, known.versions)
    row.listed = scan.kinds is not None
    of_program = kinds.of_source(name, route)
    for kind in sorted(scan.kinds or ()):
        state, reason = of_program.judge(kind)
        if state == "read":
            row.read.append(kind)
        elif state == "ignored":
            row.ignored[kind] = reason
        else:
            row.unknown.append(UnknownKind(kind, is_suspect(kind)))
    return row


def _scan(path: str, printer: str, source: KindSource | None) -> Scan:
    """Return the version of the program at `path`, and the kinds that the program named `printer` has."""
    end = time.monotonic() + SECONDS
    version = installed.version(path, SECONDS, source)
    if source is None:
        return Scan(version)
    printing = installed.where(printer)
    if printing is None:
        return Scan(version, problem=f"{printer}, which it starts, is not installed")
    try:
        return Scan(version, installed.printable(printing, source, max(0.0, end - time.monotonic())))
    except installed.Unreadable as error:
        return Scan(version, problem=str(error))


def as_text(rows: Sequence[RouteRow], *, in_full: bool) -> str:
    """Return the rows as a table for people, with the unknown kinds; `in_full`: also the ignored kinds with reasons."""
    if not rows:
        return "No agent is installed that Penstock knows.\n"
    cells = [("name", "route", "installed", "recorded", "kinds", "read", "ignored", "unknown")]
    for row in rows:
        here = f"{row.version} {NEWER}" if row.newer else row.version or "?"
        counts = ("–", "–", "–", "–")
        if row.listed:
            read, ignored, unknown = len(row.read), len(row.ignored), len(row.unknown)
            counts = (f"{read + ignored + unknown}", f"{read}", f"{ignored}", f"{unknown}")
        cells.append((row.name, row.route, here, _newest(row.recorded), *counts))
    parts = [columns(cells)]
    for row in rows:
        where = f"{row.name} {row.route}"
        if row.problem is not None:
            parts.append(f"\n{where}: the kinds of lines cannot be read: {row.problem}\n")
        if row.unknown:
            names = [it.name for it in row.unknown]
            shown = names if in_full else names[:MAX_NAMED]
            more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            parts.append(f"\n{where}, unknown: {', '.join(shown)}{more}\n")
        if in_full and row.ignored:
            parts.append(f"\n{where}, ignored:\n")
            parts.append(columns([("  " + name, reason) for name, reason in row.ignored.items()], has_heads=False))
    if not all(row.listed or row.problem for row in rows):
        parts.append("\n–: the program does not list its kinds in a form that can be read.\n")
    return "".join(parts)


def _newest(versions: Sequence[str]) -> str:
    newest = next((it for it in versions if not any(is_newer(other, [it]) for other in versions)), None)
    return newest or "–"


def logged(names: Sequence[str]) -> list[Logged]:
    """Return the entries of the log of real runs, by agent, version and kind."""
    found: dict[tuple[str, str | None, str], Logged] = {}
    for line in drift_log.lines():
        if names and line.agent not in names:
            continue
        key = (line.agent, line.version, line.name)
        one = found.setdefault(key, Logged(*key, 0, 0, [], warns=False, last_at=0))
        one.runs += 1
        one.count += line.count
        one.warns = one.warns or line.warns
        one.last_at = max(one.last_at, line.at)
        if line.place not in one.places:
            one.places.append(line.place)
    return sorted(found.values(), key=lambda it: (it.agent, it.version or "", it.name))


def log_as_text(found: Sequence[Logged]) -> str:
    """Return the lines of the log as a table for people."""
    if not found:
        return "No run on this machine had anything that Penstock does not know.\n"
    cells = [("agent", "version", "kind", "runs", "lines", "place", "warns", "last")]
    for it in found:
        day = datetime.fromtimestamp(it.last_at, UTC).strftime("%Y-%m-%d")
        warns = "yes" if it.warns else "–"
        row = (it.agent, it.version or "?", it.name, f"{it.runs:,}", f"{it.count:,}", ", ".join(it.places), warns, day)
        cells.append(row)
    return columns(cells)
