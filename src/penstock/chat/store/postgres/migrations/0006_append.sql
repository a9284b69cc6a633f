-- Append with one look at the heads: what is asked of an append is the condition of the update that makes it.

-- Append to several chats, each as a whole or not at all. A chat is named once. The result has a row for each append that
-- this call did not make, with its position: whether an earlier attempt made it, and the last number and the epoch of the
-- chat (NULL: there is no such chat). Other nodes are notified, unless it is quiet, also of the items `late`.
--
-- The caller names the chats in the order of their ids. With one plan for all calls, they are locked in the order in which
-- they are found, so that two callers do not wait for each other. While the plan changes, as the tables grow, they may; then
-- the server ends one of the calls, which is made again.
--
-- The entries of all chats, one behind the other, are `entry_data`, and so are the views of their turns: a value for each
-- costs the client more than its row costs here. An entry is a piece of them, and the nth of the append `entry_of`.
CREATE FUNCTION append_v2(
    ids text[], afters bigint[], ats bigint[], epochs bigint[], counts bigint[], chat_changes jsonb, again boolean,
    entry_of int[], entry_nth int[], entry_start int[], entry_size int[], entry_data bytea,
    turn_of int[], turn_turn bigint[], turn_first bigint[], turn_last bigint[], turn_at bigint[],
    turn_start int[], turn_size int[], turn_data bytea,
    quiet boolean, late text[]
) RETURNS TABLE (nth_append bigint, was_made boolean, last_number bigint, epoch_number bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    made int[];     -- positions of the appends that are made now
    keys bigint[];  -- of their chats
    items text[];
BEGIN
    WITH appended AS (
        UPDATE heads AS h SET last = h.last + g.count
        FROM unnest(ids, afters, epochs, counts) WITH ORDINALITY AS g (id, after, epoch, count, nth)
        WHERE h.id = g.id AND h.last = g.after AND (g.epoch IS NULL OR h.epoch = g.epoch)
        RETURNING g.nth, h.key, CASE WHEN g.count > 0 AND NOT quiet THEN g.id || ' ' || h.last END AS item
    ), inserted AS (
        INSERT INTO entries (chat, number, at, data)
        SELECT a.key, afters[e.of] + e.nth, ats[e.of], substring(entry_data, e.start, e.size)
        FROM appended AS a
        JOIN unnest(entry_of, entry_nth, entry_start, entry_size) AS e (of, nth, start, size) ON e.of = a.nth
    )
    SELECT array_agg(nth), array_agg(key), array_agg(item) FILTER (WHERE item IS NOT NULL) INTO made, keys, items
    FROM appended;

    IF cardinality(turn_of) > 0 THEN
        UPDATE heads SET summarized = last
        WHERE key IN (SELECT m.key FROM unnest(made, keys) AS m (nth, key) WHERE m.nth = ANY (turn_of));
        INSERT INTO turns AS t (chat, turn, first, last, at, bytes, view)
        SELECT m.key, g.turn, g.first, g.last, g.at, coalesce((
                SELECT sum(octet_length(data)) FROM entries WHERE chat = m.key AND number BETWEEN g.first AND g.last
            ), 0), substring(turn_data, g.start, g.size)
        FROM unnest(turn_of, turn_turn, turn_first, turn_last, turn_at, turn_start, turn_size)
            AS g (of, turn, first, last, at, start, size)
        JOIN unnest(made, keys) AS m (nth, key) ON m.nth = g.of
        ON CONFLICT (chat, turn) DO UPDATE SET
            first = excluded.first, last = excluded.last, at = excluded.at, bytes = excluded.bytes, view = excluded.view;
    END IF;

    IF chat_changes IS NOT NULL THEN  -- the changes of rows with some appends, by their positions
        UPDATE heads SET version = version + 1
        WHERE key IN (SELECT m.key FROM unnest(made, keys) AS m (nth, key) WHERE chat_changes ? m.nth::text);
        PERFORM change_row_v1(m.key, chat_changes -> m.nth::text)
        FROM unnest(made, keys) AS m (nth, key) WHERE chat_changes ? m.nth::text;
        items := items || array(SELECT ids[nth] || ' row' FROM unnest(made) AS nth WHERE chat_changes ? nth::text);
    END IF;

    items := items || late;
    IF cardinality(items) > 0 THEN
        PERFORM notify_v1(items);
    END IF;

    IF cardinality(made) IS DISTINCT FROM cardinality(ids) THEN
        RETURN QUERY
        SELECT g.nth, again AND g.count > 0 AND (g.epoch IS NULL OR g.epoch = h.epoch) AND NOT EXISTS (
                SELECT FROM unnest(entry_of, entry_nth, entry_start, entry_size) AS e (of, nth, start, size)
                LEFT JOIN entries AS k ON k.chat = h.key AND k.number = g.after + e.nth
                WHERE e.of = g.nth
                    AND (k.at IS DISTINCT FROM g.at OR k.data IS DISTINCT FROM substring(entry_data, e.start, e.size))
            ), h.last, h.epoch
        FROM unnest(ids, afters, ats, epochs, counts) WITH ORDINALITY AS g (id, after, at, epoch, count, nth)
        LEFT JOIN heads AS h ON h.id = g.id
        WHERE g.nth <> ALL (coalesce(made, '{}'));
    END IF;
END
$$;

-- As before, without the loop of `notify_always_v1` where all items have space in one payload.
CREATE OR REPLACE FUNCTION notify_v1(items text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    payload text := array_to_string(items, ',');
BEGIN
    IF is_quiet_v1() THEN
        RETURN;
    END IF;
    IF length(payload) BETWEEN 1 AND 7900 THEN
        PERFORM pg_notify('penstock', payload);
    ELSE
        PERFORM notify_always_v1(items);
    END IF;
END
$$;
