"""`penstock people`: lists and changes who besides the owner may use the server, and what each may do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar, get_args

from msgspec.structs import replace

from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, Audit
from penstock.chat.people.persons import PEOPLE, Person, Role
from penstock.chat.people.spending import dollars
from penstock.cli.console import columns, notify, say
from penstock.cli.link import new_link
from penstock.cli.options import number, whole_number
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerClient, ServerOptions, add_options, data_of
from penstock.cli.sessions import when
from penstock.config.rules import ABOVE_0
from penstock.errors import TransportError, UsageError
from penstock.run.history import now_ms

T = TypeVar("T")

ACTIONS = ("add", "change", "token", "remove")

EXAMPLES = """\
examples:
  penstock people                          who may use the server
  penstock people add ana                  a member: own chats, and those of the team
  penstock people add ben --role viewer    one who reads the team's chats
  penstock people change ben --role member --max-runs 2
  penstock people token ana                a new token; the old one ends
  penstock people remove ana               sign her out everywhere; her chats stay
  penstock link --person ana               a link that signs a browser of hers in

A server that runs notices each change at once.
"""


class PeopleOptions(ServerOptions):
    """Options of the command line."""

    action: str | None
    name: str | None
    role: Role | None
    max_runs: int | None
    """New limit; 0 removes it."""
    max_cost_per_day: float | None
    """As `max_runs`."""


def command(args: Sequence[str]) -> int:
    """Run `penstock people` and return the exit status.

    Raises:
        UsageError: there is no such person, or there is already; or the file cannot be used.
    """
    options = PeopleOptions(**vars(parser().parse(args)))
    _check(options)
    folder = data_of(options)
    if options.action is None:
        return say(as_text(persons.read(folder / PEOPLE), now_ms()))
    if not folder.is_dir():
        raise UsageError(f"there is no data directory {folder}", help="start penstock serve once, or name it: --data")
    assert options.name is not None
    name = options.name
    if options.action == "add":
        role = options.role or "member"
        most, cost = options.max_runs or None, options.max_cost_per_day or None
        token = persons.add(folder, name, role, now_ms(), max_runs=most, max_cost=cost)
        _record(folder, "person_added", name, role)
        _show_token(name, token, options)
    elif options.action == "token":
        token = persons.renew(folder, name)
        _record(folder, "person_token_renewed", name)
        _show_token(name, token, options)
    elif options.action == "remove":
        persons.remove(folder, name)
        _record(folder, "person_removed", name)
        say(f"{name} is removed, and signed out everywhere. Their chats are left to the owner.\n")
    else:
        made = persons.change(folder, name, lambda person: _changed(person, options))
        _record(folder, "person_changed", name, made.role)
        say(f"{name} is a {made.role}{_limit(made)}.\n")
    return 0


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Say who besides the owner may use the server on this machine, and what each may do."
    made = Parser("people", text, examples=EXAMPLES, arguments="[add|change|token|remove NAME] [options]")
    text = "add, change, token or remove; without one, the people are listed"
    made.add_argument("action", nargs="?", choices=ACTIONS, metavar="ACTION", help=text)
    made.add_argument("name", nargs="?", metavar="NAME", help="name of the person, as they are shown and audited")
    text = "owner: everything; member (default): own chats and the team's; viewer: read the team's"
    made.add_argument("--role", choices=get_args(Role), help=text)
    text = "turns of the person that may run or wait at once; none for no limit"
    made.add_argument("--max-runs", type=lambda word: _limited(whole_number(ABOVE_0), word), metavar="N", help=text)
    text = "US dollars that the person's turns may cost a day, as far as agents report them; none for no limit"
    made.add_argument("--max-cost-per-day", type=lambda word: _limited(number(ABOVE_0), word), metavar="USD", help=text)
    add_options(made)
    return made


def as_text(people: Sequence[Person], now: int) -> str:
    """Return the people as a table."""
    rows = [("person", "role", "turns at once", "cost a day", "added")]
    rows.append(("owner", "owner", "", "", ""))
    for person in people:
        limit = "" if person.max_runs is None else str(person.max_runs)
        cost = "" if person.max_cost is None else dollars(person.max_cost)
        rows.append((person.name, person.role, limit, cost, when(person.added_at, now)))
    return columns(rows)


def _check(options: PeopleOptions) -> None:
    if options.action is not None and options.name is None:
        raise UsageError(f"penstock people {options.action} needs the name of a person")
    given = (options.role, options.max_runs, options.max_cost_per_day)
    sets = any(it is not None for it in given)
    if sets and options.action not in ("add", "change"):
        raise UsageError("--role, --max-runs and --max-cost-per-day belong to penstock people add and change")
    if options.action == "change" and not sets:
        raise UsageError("there is nothing to change", expected="--role, --max-runs or --max-cost-per-day")


def _changed(person: Person, options: PeopleOptions) -> Person:
    role, most, cost = options.role or person.role, options.max_runs, options.max_cost_per_day
    most, cost = person.max_runs if most is None else most, person.max_cost if cost is None else cost
    return replace(person, role=role, max_runs=most or None, max_cost=cost or None)


def _limited(limit: Callable[[str], T], word: str) -> T | Literal[0]:
    """Return a limit; 0 for the word that removes it."""
    return 0 if word == "none" else limit(word)


def _limit(person: Person) -> str:
    runs = [] if person.max_runs is None else [f"{person.max_runs} turns at once"]
    cost = [] if person.max_cost is None else [f"{dollars(person.max_cost)} a day"]
    return f", with {' and '.join([*runs, *cost])}" if runs or cost else ""


def _record(folder: Path, what: str, name: str, role: str = "") -> None:
    details = {"person": name, **({"role": role} if role else {})}
    Audit(folder / AUDIT).write("owner", what, details=details)


def _show_token(name: str, token: str, options: ServerOptions) -> None:
    """Show a new token, and a link if the server runs."""
    notify(f"The token of {name} for programs; it is shown this once:\n")
    say(f"{token}\n")
    try:
        link = new_link(ServerClient(options), name)
    except (UsageError, TransportError):
        notify(f"A link for a browser, while the server runs: penstock link --person {name}\n")
    else:
        notify(f"A link for one browser of {name}; it works once, within 15 minutes:\n{link}\n")
