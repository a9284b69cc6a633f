"""`penstock audit`: shows what people did at the server on this machine, or at all machines, and what was refused."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

import msgspec

from penstock.chat.people.audit import AUDIT, AuditRecord, records
from penstock.cli import store_options
from penstock.cli.console import columns, pass_on, say
from penstock.cli.options import whole_number
from penstock.cli.parser import Parser
from penstock.cli.serve.client import ServerOptions, add_options, data_of
from penstock.config.rules import ABOVE_0

SHOWN = 50
"""Number of records that are shown by default."""

EXAMPLES = """\
examples:
  penstock audit                         the newest records
  penstock audit --person ana            what one person did
  penstock audit --refused --limit 500   what was refused because of who asked
  penstock audit --chat 0f3a… --json     all that was done in a chat, one JSON object a line
  penstock audit --store-file URL        the newest records of all machines that share a store
"""


class AuditOptions(ServerOptions, store_options.StoreOptions):
    """Options of the command line."""

    person: str | None
    chat: str | None
    refused: bool
    limit: int | None
    json: bool


def command(args: Sequence[str]) -> int:
    """Run `penstock audit` and return the exit status.

    Raises:
        UsageError: the record cannot be read, or the store cannot be used.
        StoreFailed: the store cannot be read.
    """
    options = AuditOptions(**vars(parser().parse(args)))
    limit = options.limit or (None if options.json else SHOWN)
    url = store_options.store_url(options)
    if url is not None:
        found = asyncio.run(_of_all_nodes(url, options, limit))
    else:
        asked_for = (record for record in records(data_of(options) / AUDIT) if _is_asked_for(record, options))
        found = [*deque(asked_for, limit)]
    if options.json:
        return pass_on(msgspec.json.Encoder().encode_lines(found))
    return say(as_text(found) if found else "There are no such records.\n")


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Show what people did at the server on this machine, or at all machines of a store, and what was refused."
    made = Parser("audit", text, examples=EXAMPLES)
    made.add_argument("--person", metavar="NAME", help="only what this person did")
    made.add_argument("--chat", metavar="ID", help="only what was done in this chat; its beginning is enough")
    made.add_argument("--refused", action="store_true", help="only what was refused because of who asked")
    text = f"at most this many, the newest (default {SHOWN}; with --json all)"
    made.add_argument("--limit", type=whole_number(ABOVE_0), metavar="N", help=text)
    made.add_argument("--json", action="store_true", help="as one JSON object a line")
    add_options(made)
    store_options.add_options(made)
    return made


def as_text(found: Sequence[AuditRecord]) -> str:
    """Return records as a table for people, with local times."""
    has_nodes = any(record.node for record in found)
    rows = [("when", *(["machine"] if has_nodes else []), "person", "did", "status", "from", "chat", "details")]
    for record in found:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.at / 1000))
        details = " ".join(f"{name}={value}" for name, value in record.details.items())
        status = str(record.status) if record.status else ""
        where = record.browser or record.address
        at_node = [record.node] if has_nodes else []
        rows.append((at, *at_node, record.person or "–", record.what, status, where, (record.chat or "")[:8], details))
    return columns(rows)


async def _of_all_nodes(url: str, options: AuditOptions, limit: int | None) -> list[AuditRecord]:
    """Return the newest records of all machines, in the order in which the database got them."""
    from penstock.chat.cluster.shared_audit import shared_records
    from penstock.chat.store.postgres.connections import Database

    found: list[AuditRecord] = []
    async with Database(url) as database:
        async for record in shared_records(database):
            if _is_asked_for(record, options):
                found.append(record)
                if len(found) == limit:
                    break
    return found[::-1]


def _is_asked_for(record: AuditRecord, options: AuditOptions) -> bool:
    return (
        options.person in (None, record.person)
        and (record.chat or "").startswith(options.chat or "")
        and (record.is_refused or not options.refused)
    )
