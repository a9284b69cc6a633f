"""Logins in PostgreSQL: the tokens of all nodes, one-time codes, and the browsers that signed in with one of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence

import msgspec
from psycopg.types.json import Jsonb

from penstock.chat.cluster.nodes import OWN_TTL_SECONDS, seconds
from penstock.chat.history.entries import OWNER
from penstock.chat.store.columns import from_postgres, names
from penstock.chat.store.logins import Browser, KnownLogins, TakenCode
from penstock.chat.store.postgres.connections import Database


class SharedLogins:
    """`LoginStore` of one node, in a database."""

    def __init__(self, database: Database, token: str) -> None:
        """Create it for the node with this token."""
        self._database = database
        self._read_at = -math.inf  # time by `seconds()` at which the last read that succeeded began
        self._digest = hashlib.sha256(token.encode()).digest()

    async def register(self, node: str) -> None:
        """Register the token of this node, so that all nodes accept it.

        Browsers that signed in here by another token are signed out.

        Raises:
            StoreFailed: the token cannot be registered.
        """
        await self._database.fetch(REGISTER, {"node": node, "digest": self._digest})

    async def read(self) -> KnownLogins:
        """As `LoginStore.read`."""
        began = seconds()
        rows = await self._database.fetch(READ)
        self._read_at = max(self._read_at, began)
        browsers = [from_postgres(row[1:], Browser) for row in rows if row[1] is not None]
        return KnownLogins(browsers, frozenset(bytes(row[0]) for row in rows))

    def is_current(self) -> bool:
        """As `LoginStore.is_current`: for as long as a lease that was renewed at the time of the read."""
        return seconds() - self._read_at < OWN_TTL_SECONDS

    async def write(self, added: Sequence[Browser], gone: Collection[str]) -> None:
        """As `LoginStore.write`."""
        values = {"added": Jsonb(msgspec.to_builtins(added)), "gone": [*gone], "token": self._digest}
        await self._database.fetch(WRITE, values)

    async def note_use(self, browsers: Sequence[Browser]) -> None:
        """As `LoginStore.note_use`."""
        values = {"secrets": [it.secret for it in browsers], "times": [it.used_at for it in browsers]}
        await self._database.fetch(NOTE_USE, values)

    async def put_push(self, browser: Browser) -> None:
        """As `LoginStore.put_push`."""
        push = None if browser.push is None else Jsonb(msgspec.to_builtins(browser.push))
        await self._database.fetch(PUT_PUSH, {"secret": browser.secret, "push": push})

    async def put_code(self, code: bytes, seconds: float, by: str | None, person: str = OWNER) -> None:
        """As `LoginStore.put_code`."""
        await self._database.fetch(PUT_CODE, {"code": code, "seconds": seconds, "by": by, "person": person})

    async def take_code(self, code: bytes) -> TakenCode | None:
        """As `LoginStore.take_code`. If its acknowledgement is lost, the code is used up."""
        rows = await self._database.fetch(TAKE_CODE, {"code": code})
        return TakenCode(*rows[0]) if rows else None


REGISTER = """
INSERT INTO tokens (node, digest) VALUES (%(node)s, %(digest)s)
ON CONFLICT (node) DO UPDATE SET digest = excluded.digest
"""

READ = f"""
SELECT t.digest, {names(Browser, "b")}
FROM (SELECT DISTINCT digest FROM tokens) AS t LEFT JOIN browsers AS b ON b.token = t.digest
"""

WRITE = f"""
WITH gone AS (DELETE FROM browsers WHERE secret = ANY (%(gone)s::text[]))
INSERT INTO browsers ({names(Browser)}, token)
SELECT {names(Browser, "r")}, %(token)s FROM jsonb_populate_recordset(NULL::browsers, %(added)s) AS r
ON CONFLICT (secret) DO NOTHING
"""

NOTE_USE = """
UPDATE browsers AS b SET used_at = u.used_at
FROM unnest(%(secrets)s::text[], %(times)s::bigint[]) AS u (secret, used_at)
WHERE b.secret = u.secret AND b.used_at < u.used_at
"""

PUT_PUSH = "UPDATE browsers SET push = %(push)s WHERE secret = %(secret)s"

PUT_CODE = """
WITH old AS (DELETE FROM codes WHERE until <= clock_timestamp())
INSERT INTO codes (code, until, made_by, person)
VALUES (%(code)s, clock_timestamp() + make_interval(secs => %(seconds)s), %(by)s::text, %(person)s)
ON CONFLICT (code) DO NOTHING
"""

TAKE_CODE = """
WITH taken AS (DELETE FROM codes WHERE code = %(code)s RETURNING made_by, person, until)
SELECT made_by, person FROM taken WHERE until > clock_timestamp()
"""
