"""Statements of the store in PostgreSQL that are not in its migrations: the reads.

Each is a single statement, so its rows come from one snapshot.
"""

from __future__ import annotations

from penstock.chat.store.columns import names, values_by_name
from penstock.chat.store.costs import CostGroup
from penstock.chat.store.rows import Attachment, ChatRow, Directory, Share, TurnRow
from penstock.chat.store.search import KINDS

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of one read: it ends with the entry that reaches this size."""

TRIM_ENTRIES = 2000
"""Number of entries trimmed by one statement, which bounds the wait of an append to the same chat."""

# The rights are those of `penstock.chat.people.rights.may_read`. Without a permit, all chats are seen.
_TO_READER = """(%(sees_all)s OR EXISTS (
        SELECT FROM chats AS c WHERE c.key = h.key AND (c.person = %(reader)s OR c.visibility = 'team')
    )) AND (%(share)s::text IS NULL OR EXISTS (SELECT FROM shares AS s WHERE s.id = %(share)s AND s.chat = h.id))"""

READ = f"""SELECT h.last, h.trimmed, e.number, e.at, e.data FROM heads AS h LEFT JOIN LATERAL (
        SELECT number, at, data, sum(octet_length(data)) OVER (ORDER BY number) - octet_length(data) AS before FROM (
            SELECT number, at, data FROM entries WHERE chat = h.key AND number > %(after)s
            ORDER BY number LIMIT %(limit)s
        ) AS page
    ) AS e ON before < %(bytes)s WHERE h.id = %(id)s AND {_TO_READER} ORDER BY e.number"""

_CHAT, _DIRECTORY, _SHARE = names(ChatRow), names(Directory), names(Share)
_TURN, _ATTACHMENT = names(TurnRow, "t"), names(Attachment)
_ATTACHED = names(Attachment, "a")

GET_CHAT = f"SELECT {_CHAT} FROM heads JOIN chats USING (key) WHERE id = %(id)s"

# A second attempt may find the chat of the first one when its row has changed: its first turn may have begun.
_MADE_BEFORE = """%(again)s AND EXISTS (
        SELECT FROM heads JOIN chats USING (key)
        WHERE id = %(id)s AND to_jsonb(chats) || jsonb_build_object('id', id) @> %(lasting)s::jsonb
    )"""

CREATE_CHAT = f"SELECT create_chat_v1(%(id)s, %(row)s::jsonb, %(again)s) OR {_MADE_BEFORE}"

CREATE_CHAT_WITH_TURN = f"""SELECT create_chat_with_turn_v1(
    %(id)s, %(row)s::jsonb, %(again)s, %(data)s, %(at)s::bigint, %(key)s, %(turn)s::bigint,
    %(files)s::jsonb, %(contents)s::bytea[]) OR {_MADE_BEFORE}"""
"""Statement that returns false if there is another chat of this id."""

LIST_CHATS = f"SELECT {_CHAT} FROM heads JOIN chats USING (key) WHERE id > %(after)s ORDER BY id LIMIT %(limit)s"

# The locks make what is compared and the change one step: a statement that waits for them compares anew. Everything
# that locks a chat locks its row in `heads` first. The rights are those of `penstock.chat.people.rights.may_read`.
_SHOWN = "(%(sees_all)s OR c.person = %(reader)s OR c.visibility = 'team')"

# A second attempt may find the rules of the first one.
UPDATE_CHAT = f"""WITH found AS (
        SELECT h.id, (
            %(rules)s::jsonb IS NULL OR c.rules = %(rules)s::jsonb
            OR %(again)s AND c.rules = %(changes)s::jsonb -> 'rules'
        ) AS fits FROM heads AS h JOIN chats AS c USING (key) WHERE h.id = %(id)s AND {_SHOWN}
        FOR UPDATE OF h FOR UPDATE OF c
    ) SELECT CASE WHEN fits THEN update_chat_v1(id, %(changes)s::jsonb) ELSE false END FROM found"""
"""Statement that returns whether the row has the rules; no row if there is no such chat for the reader."""

SUBMIT = """SELECT outcome, number FROM submit_v1(
    %(id)s, %(data)s, %(at)s::bigint, %(after)s::bigint, %(key)s::text, %(turn)s::bigint, %(again)s)"""

# A second attempt whose entry the first one made is the same, also if the reader no longer sees the chat.
SUBMIT_SHOWN = f"""WITH shown AS (
        SELECT h.id FROM heads AS h JOIN chats AS c USING (key) WHERE h.id = %(id)s AND (
            {_SHOWN} OR %(again)s AND EXISTS (SELECT FROM keys AS k WHERE k.chat = h.key AND k.key = %(key)s::text)
        ) FOR UPDATE OF h FOR SHARE OF c
    ) SELECT outcome, number FROM shown CROSS JOIN LATERAL submit_v1(
        shown.id, %(data)s, %(at)s::bigint, %(after)s::bigint, %(key)s::text, %(turn)s::bigint, %(again)s)"""
"""Statement that returns no row if there is no such chat for the reader."""

MARK_READ = """SELECT marked FROM mark_read_v1(
    %(ids)s::text[], %(turns)s::bigint[], %(person)s, %(most)s::bigint, %(reader)s::text, %(sees_all)s)"""
"""Statement that returns the chats whose read mark is now the given one."""

LIST_TURNS = f"""SELECT {_TURN} FROM heads AS h LEFT JOIN LATERAL (
        SELECT * FROM turns WHERE chat = h.key AND turn < %(before)s ORDER BY turn DESC LIMIT %(limit)s
    ) AS t ON true WHERE h.id = %(id)s AND {_TO_READER} ORDER BY turn"""

SUMMARIES = f"""SELECT h.id, greatest(h.summarized, h.trimmed), h.last, {_TURN}
    FROM heads AS h LEFT JOIN turns AS t ON t.chat = h.key AND (t.last = 0 OR turn IN (
        SELECT turn FROM turns WHERE chat = h.key ORDER BY turn DESC LIMIT %(limit)s
    )) WHERE h.id = ANY(%(ids)s::text[]) ORDER BY turn"""

# Only turns before the first one that is young enough: a clock that stepped back must not make a gap.
EXPIRED = """SELECT id, max(old.last) FROM turns AS old JOIN heads AS h ON h.key = old.chat
    WHERE old.last > 0 AND turn < coalesce(
        (SELECT min(turn) FROM turns AS t WHERE t.chat = old.chat AND (t.last = 0 OR t.at >= %(before)s)),
        9223372036854775807
    ) GROUP BY id"""

EXCESS = """SELECT id, max(last) FROM (
        SELECT id, last, sum(bytes) OVER (ORDER BY at, id, turn) - bytes AS before FROM (
            SELECT h.id, t.last, t.at, t.turn, t.bytes + (
                SELECT coalesce(sum(size), 0) FROM attachments AS a WHERE a.chat = h.id AND a.turn = t.turn
            ) AS bytes FROM turns AS t JOIN heads AS h ON h.key = t.chat WHERE t.last > 0
        ) AS ended
    ) AS oldest WHERE before < (SELECT coalesce(sum(bytes), 0) FROM turns)
        + (SELECT coalesce(sum(size), 0) FROM attachments WHERE turn > 0) - %(max_bytes)s GROUP BY id"""

LIST_DIRECTORIES = f"SELECT {_DIRECTORY} FROM directories WHERE node = %(node)s ORDER BY path"

PUT_DIRECTORY = f"""INSERT INTO directories (node, {_DIRECTORY})
    VALUES (%(node)s, {values_by_name(Directory)})
    ON CONFLICT (node, path) DO UPDATE SET {", ".join(f"{it} = excluded.{it}" for it in Directory.__struct_fields__)}"""

DELETE_DIRECTORY = "DELETE FROM directories WHERE node = %(node)s AND path = %(path)s"

LIST_SHARES = f"SELECT {_SHARE} FROM shares ORDER BY created_at, id"

FIND_SHARE = f"SELECT {_SHARE} FROM shares WHERE secret = %(secret)s"

PUT_SHARE = f"""WITH expired AS (DELETE FROM shares WHERE expires_at <= %(created_at)s)
    INSERT INTO shares ({_SHARE}) SELECT {values_by_name(Share)} FROM heads WHERE heads.id = %(chat)s
    ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING shares.id"""
"""Statement that returns a row if there is such a chat, also when it is made again."""

DELETE_SHARE = "DELETE FROM shares WHERE id = %(id)s"

_SHOWN_CHAT = f"""shown AS (
        SELECT h.id FROM heads AS h JOIN chats AS c USING (key) WHERE h.id = %(chat)s AND {_SHOWN}
        FOR KEY SHARE OF h FOR SHARE OF c
    )"""

PUT_ATTACHMENT = f"""WITH {_SHOWN_CHAT},
    unsent AS (DELETE FROM attachments WHERE turn = 0 AND created_at < %(unsent_before)s)
    INSERT INTO attachments ({_ATTACHMENT}, content) SELECT {values_by_name(Attachment)}, %(content)s FROM shown
    ON CONFLICT (chat, id) DO UPDATE SET id = excluded.id RETURNING attachments.id"""
"""Statement that returns a row if there is such a chat for the reader, also when it is made again."""

LIST_ATTACHMENTS = f"""SELECT {_ATTACHED} FROM heads AS h LEFT JOIN attachments AS a ON a.chat = h.id
    WHERE h.id = %(id)s AND {_TO_READER} ORDER BY a.created_at, a.id"""
"""Statement that returns a row of nothing for a chat without attachments, and none if the reader sees no such chat."""

READ_ATTACHMENT = f"""SELECT a.content FROM heads AS h LEFT JOIN attachments AS a ON a.chat = h.id AND a.id = %(id)s
    WHERE h.id = %(chat)s AND {_TO_READER}"""
"""Statement that returns a row of nothing for an unknown attachment, and none if the reader sees no such chat."""

NOTE_ATTACHMENTS = "UPDATE attachments SET turn = %(turn)s WHERE chat = %(chat)s AND id = ANY (%(ids)s)"

DELETE_ATTACHMENT = f"""WITH {_SHOWN_CHAT}, gone AS (
        DELETE FROM attachments AS a USING shown WHERE a.chat = shown.id AND a.id = %(id)s AND a.turn = 0
    ) SELECT id FROM shown"""
"""Statement that returns a row if there is such a chat for the reader."""

TRIM_ATTACHMENTS = """DELETE FROM attachments WHERE chat = %(id)s AND turn > 0 AND turn < (
        SELECT min(t.turn) FROM turns AS t JOIN heads AS h ON h.key = t.chat WHERE h.id = %(id)s
    )"""

ATTACHED_BYTES = "SELECT coalesce(sum(size), 0) FROM attachments WHERE person = %(person)s"

LIST_UNINDEXED = """SELECT h.id, u.turn, u.mark FROM unindexed AS u JOIN heads AS h ON h.key = u.chat
    JOIN chats AS c ON c.key = u.chat
    WHERE %(home)s::text IS NULL OR c.home IS NULL OR c.home = %(home)s OR u.since < now() - interval '1 minute'
        AND NOT EXISTS (SELECT FROM nodes AS n WHERE n.id = c.home AND n.seen + n.ttl > clock_timestamp())
    ORDER BY u.mark DESC LIMIT %(limit)s"""
"""Statement that leaves out the chats of other living nodes: two nodes that read one long queue would do all twice."""

INDEX = """SELECT index_v1(%(id)s, %(turn)s, %(mark)s, %(key)s, %(at)s, %(title)s, %(prompt)s, %(reply)s, %(commands)s,
    %(paths)s, %(words)s::tsvector)"""

SEARCH = f"""SELECT t.key, h.id, t.turn, t.at, c.title, c.agent, c.cwd, c.archived, c.person,
        {", ".join(f"t.{kind}" for kind in KINDS)}
    FROM texts AS t JOIN heads AS h ON h.key = t.chat JOIN chats AS c ON c.key = t.chat
    WHERE t.words @@ %(query)s::tsquery AND t.key < %(before)s
        AND (%(is_owner)s OR c.person = %(person)s OR c.visibility = 'team')
    ORDER BY t.key DESC LIMIT %(limit)s"""
"""Statement of a search. The rights are those of `penstock.chat.people.rights.may_read`."""

_DAY = "(%(days)s::bigint[])[width_bucket(c.at, %(days)s::bigint[])]"
_COSTS = """SELECT {name}, count(*), coalesce(round(sum(cost)::numeric, 6), 0)::double precision,
        count(*) - count(cost), coalesce(sum(input), 0)::bigint, coalesce(sum(output), 0)::bigint
    FROM costs AS c {join} WHERE c.at >= (%(days)s::bigint[])[1] AND (%(is_owner)s OR c.person = %(person)s)
    GROUP BY {by} ORDER BY {order} LIMIT %(limit)s"""

COSTS: dict[CostGroup, str] = {
    "day": _COSTS.format(name=f"({_DAY})::text", join="", by=_DAY, order=f"{_DAY} DESC"),
    "agent": _COSTS.format(name="agent", join="", by="agent", order="3 DESC, 2 DESC, 1"),
    "person": _COSTS.format(name="person", join="", by="person", order="3 DESC, 2 DESC, 1"),
    "chat": _COSTS.format(name="h.id", join="JOIN heads AS h ON h.key = c.chat", by="h.id", order="3 DESC, 2 DESC, 1"),
}
"""Statements of what turns have cost, by what those of one sum have in common."""

CHECK = """INSERT INTO checks (node, data) VALUES (%(node)s, %(data)s)
    ON CONFLICT (node) DO UPDATE SET data = excluded.data"""
"""Statement that needs new pages of the disk."""

FORGET_CHECKS = "TRUNCATE checks"
"""Statement that gives the pages back: the next check is to need new ones."""
