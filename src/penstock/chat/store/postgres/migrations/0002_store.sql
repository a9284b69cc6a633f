-- Tables and calls of the store. All names are in the schema of the search path.
--
-- Tables of chats, turns, directories and browsers have their keys here. Their other columns follow from the structs of
-- their rows: `penstock store migrate` adds those that a table lacks.

-- Names of nodes and ids of chats are printed in terminals, and are parts of addresses.
CREATE TABLE nodes (
    id text COLLATE "C" PRIMARY KEY CONSTRAINT nodes_name CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
    incarnation uuid NOT NULL,           -- of the process that has the name now
    seen timestamptz NOT NULL,
    ttl interval NOT NULL,
    about jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- The end of each chat, which every append changes. No index has a column that an append changes, so that the updates
-- stay on their page.
CREATE TABLE heads (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE CONSTRAINT heads_name CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$'),
    last bigint NOT NULL DEFAULT 0,
    trimmed bigint NOT NULL DEFAULT 0,   -- entries up to this number were dropped
    summarized bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 1,   -- grows whenever the row in chats is replaced
    epoch bigint NOT NULL DEFAULT 0,
    owner text COLLATE "C",              -- node that has claimed the chat, with its incarnation at that time
    incarnation uuid
) WITH (fillfactor = 50);
CREATE INDEX heads_owned ON heads (key) WHERE owner IS NOT NULL;

CREATE TABLE chats (
    key bigint PRIMARY KEY REFERENCES heads ON DELETE CASCADE
);

-- No foreign keys here: they would be checked for each row.
CREATE TABLE entries (
    chat bigint NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (chat, number)
);
ALTER TABLE entries ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE keys (
    chat bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (chat, key)
);

CREATE TABLE turns (
    chat bigint NOT NULL,
    turn bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (chat, turn)
);

CREATE TABLE directories (
    node text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    PRIMARY KEY (node, path)
);

-- Logins, which are valid at all nodes. Secrets are kept as their SHA-256.

CREATE TABLE tokens (
    node text COLLATE "C" PRIMARY KEY CONSTRAINT tokens_name CHECK (node ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
    digest bytea NOT NULL
);

CREATE TABLE browsers (
    secret text COLLATE "C" PRIMARY KEY,
    token bytea NOT NULL                 -- of the node where it signed in: another token there signs it out
);

CREATE TABLE codes (
    code bytea PRIMARY KEY,
    until timestamptz NOT NULL,
    made_by text                         -- secret of the browser that made the link
);

-- Checks of a server that had no space: what a node writes to find out whether it has some again. It keeps nothing.

CREATE TABLE checks (
    node text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL
);
ALTER TABLE checks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Calls of the store. Each is one statement, so one transaction, of its caller. The name of a call has a number: a call
-- that changes gets a new one, and nodes of the version before use the old one meanwhile.
--
-- `again` is true if an earlier attempt may have been made: its acknowledgement was lost.

CREATE FUNCTION is_live_v1(_node text, _incarnation uuid) RETURNS boolean LANGUAGE sql AS $$
    SELECT EXISTS (
        SELECT FROM nodes
        WHERE id = _node AND incarnation = _incarnation AND seen + ttl > clock_timestamp()
    )
$$;

-- A connection can be quiet: while the server's queue of notifications is full, no transaction that sends one is committed.
-- Other nodes find what a quiet one did by their polls.
CREATE FUNCTION is_quiet_v1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('penstock.quiet', true), '') = 'on'
$$;

-- Notify all nodes. An item is `ID NUMBER` for a chat with new entries, `ID row` for one whose row changed. A payload of
-- PostgreSQL has less than 8,000 bytes; most items have space in one.
CREATE FUNCTION notify_v1(items text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    item text;
    payload text := array_to_string(items, ',');
BEGIN
    IF is_quiet_v1() THEN
        RETURN;
    END IF;
    IF length(payload) BETWEEN 1 AND 7900 THEN
        PERFORM pg_notify('penstock', payload);
        RETURN;
    END IF;
    payload := '';
    FOREACH item IN ARRAY items LOOP
        IF length(payload) + length(item) > 7900 THEN
            PERFORM pg_notify('penstock', payload);
            payload := '';
        END IF;
        payload := payload || CASE WHEN payload = '' THEN '' ELSE ',' END || item;
    END LOOP;
    IF payload <> '' THEN
        PERFORM pg_notify('penstock', payload);
    END IF;
END
$$;

-- Raise for a key of a row that is not a column of chats: its value would be lost.
CREATE FUNCTION check_keys_v1(_row jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    unknown text;
BEGIN
    SELECT string_agg(name, ', ') INTO unknown FROM jsonb_object_keys(_row) AS name
    WHERE name = 'key' OR NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'chats'::regclass AND attname = name AND attnum > 0 AND NOT attisdropped
    );
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'a chat has no column %', unknown USING ERRCODE = 'undefined_column';
    END IF;
END
$$;

-- Add the row of a chat. Columns that it does not name have their defaults.
CREATE FUNCTION put_row_v1(_key bigint, _row jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    given jsonb := _row - 'id';  -- which is in heads
    names text;
BEGIN
    PERFORM check_keys_v1(given);
    SELECT string_agg(quote_ident(name), ', ') INTO names FROM jsonb_object_keys(given) AS name;
    EXECUTE format('INSERT INTO chats (key, %1$s) SELECT $1, %1$s FROM jsonb_populate_record(NULL::chats, $2)', names)
    USING _key, given;
END
$$;

-- Change the fields of a chat that are named; the others stay as they are.
CREATE FUNCTION change_row_v1(_key bigint, _changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    changed text;
BEGIN
    PERFORM check_keys_v1(_changes);
    SELECT string_agg(format('%1$I = r.%1$I', name), ', ') INTO changed FROM jsonb_object_keys(_changes) AS name;
    IF changed IS NOT NULL THEN
        EXECUTE format('UPDATE chats AS c SET %s FROM jsonb_populate_record(NULL::chats, $2) AS r WHERE c.key = $1', changed)
        USING _key, _changes;
    END IF;
END
$$;

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
CREATE FUNCTION append_v1(
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

-- Append one entry under a key, and queue the job of its turn with it. The outcome is `made`, now or by an earlier attempt,
-- `known` (number has the key already), `conflict` (number is the chat's last) or `unknown` (there is no such chat).
CREATE FUNCTION submit_v1(_id text, _data bytea, _at bigint, _after bigint, _key text, _turn bigint, again boolean)
RETURNS TABLE (outcome text, number bigint) LANGUAGE plpgsql AS $$
DECLARE
    head heads;
    earlier bigint;
    queue text;
BEGIN
    SELECT * INTO head FROM heads WHERE id = _id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'unknown', 0::bigint;
        RETURN;
    END IF;
    SELECT k.number INTO earlier FROM keys AS k WHERE k.chat = head.key AND k.key = _key;
    IF FOUND THEN
        RETURN QUERY SELECT CASE WHEN again AND EXISTS (
            SELECT FROM entries AS e WHERE e.chat = head.key AND e.number = earlier AND e.data = _data AND e.at = _at
        ) THEN 'made' ELSE 'known' END, earlier;
        RETURN;
    END IF;
    IF head.last <> _after THEN
        RETURN QUERY SELECT 'conflict', head.last;
        RETURN;
    END IF;
    INSERT INTO entries (chat, number, at, data) VALUES (head.key, head.last + 1, _at, _data);
    UPDATE heads AS h SET last = h.last + 1 WHERE h.key = head.key;
    INSERT INTO keys (chat, key, number) VALUES (head.key, _key, head.last + 1);
    IF _turn IS NOT NULL THEN
        SELECT c.home INTO queue FROM chats AS c WHERE c.key = head.key;
        IF queue IS NOT NULL THEN
            PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(
                queue, 'penstock.turn', 0, _id, _id || '/' || _turn, jsonb_build_object('chat', _id, 'turn', _turn), NULL
            )::procrastinate_job_to_defer_v1]);
        END IF;
    END IF;
    PERFORM notify_v1(ARRAY[_id || ' ' || head.last + 1]);
    RETURN QUERY SELECT 'made', head.last + 1;
END
$$;

-- Claim a chat under a new epoch. With an incarnation, the node must have a lease of it. The outcome is `made`,
-- `unknown` (no such chat), `lost` (the node has no lease) or `claimed` (by another node that is alive).
CREATE FUNCTION claim_v1(_id text, _node text, _incarnation uuid)
RETURNS TABLE (outcome text, epoch_number bigint, claimed_by text) LANGUAGE plpgsql AS $$
DECLARE
    head heads;
BEGIN
    SELECT * INTO head FROM heads WHERE id = _id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'unknown', 0::bigint, NULL;
    ELSIF _incarnation IS NOT NULL AND NOT is_live_v1(_node, _incarnation) THEN
        RETURN QUERY SELECT 'lost', head.epoch, head.owner;
    ELSIF (head.owner, head.incarnation) IS DISTINCT FROM (_node, _incarnation) AND is_live_v1(head.owner, head.incarnation)
    THEN
        RETURN QUERY SELECT 'claimed', head.epoch, head.owner;
    ELSE
        UPDATE heads SET epoch = head.epoch + 1, owner = _node, incarnation = _incarnation WHERE key = head.key;
        RETURN QUERY SELECT 'made', head.epoch + 1, _node;
    END IF;
END
$$;

-- End a claim, if it is still the newest. Return NULL if there is no such chat.
CREATE FUNCTION release_v1(_id text, _epoch bigint) RETURNS boolean LANGUAGE sql AS $$
    UPDATE heads SET
        owner = CASE WHEN epoch = _epoch THEN NULL ELSE owner END,
        incarnation = CASE WHEN epoch = _epoch THEN NULL ELSE incarnation END
    WHERE id = _id RETURNING true
$$;

-- Drop at most _most of the entries up to a number, with the keys and turns that ended there. Return the chat's last
-- number and the number up to which entries are dropped now (NULL: no such chat).
CREATE FUNCTION trim_v1(_id text, _upto bigint, _most bigint)
RETURNS TABLE (last_number bigint, trimmed_number bigint) LANGUAGE plpgsql AS $$
DECLARE
    head heads;
    gone bigint;
BEGIN
    SELECT * INTO head FROM heads WHERE id = _id FOR UPDATE;
    gone := least(_upto, head.trimmed + _most);
    IF _upto <= head.last AND gone > head.trimmed THEN
        DELETE FROM entries WHERE chat = head.key AND number <= gone;
        DELETE FROM keys WHERE chat = head.key AND number <= gone;
        DELETE FROM turns WHERE chat = head.key AND last BETWEEN 1 AND gone;
        UPDATE heads SET trimmed = gone WHERE key = head.key;
        head.trimmed := gone;
    END IF;
    RETURN QUERY SELECT head.last, head.trimmed;
END
$$;

-- Add a chat. Return false if there is one of this id.
CREATE FUNCTION create_chat_v1(_id text, _row jsonb, again boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    INSERT INTO heads (id) VALUES (_id) ON CONFLICT DO NOTHING RETURNING key INTO made;
    IF made IS NULL THEN
        RETURN again AND EXISTS (
            SELECT FROM heads JOIN chats USING (key)
            WHERE id = _id AND to_jsonb(chats) || jsonb_build_object('id', _id) @> _row
        );
    END IF;
    PERFORM put_row_v1(made, _row);
    PERFORM notify_v1(ARRAY[_id || ' row']);
    RETURN true;
END
$$;

-- Change the row of a chat. Return NULL if there is none.
CREATE FUNCTION update_chat_v1(_id text, _changes jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    found_key bigint;
BEGIN
    UPDATE heads SET version = version + 1 WHERE id = _id RETURNING key INTO found_key;
    IF found_key IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM change_row_v1(found_key, _changes);
    PERFORM notify_v1(ARRAY[_id || ' row']);
    RETURN true;
END
$$;

-- Delete a chat with all that belongs to it, and the jobs that wait for it. Return NULL if there is none.
CREATE FUNCTION delete_chat_v1(_id text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    found_key bigint;
BEGIN
    SELECT key INTO found_key FROM heads WHERE id = _id FOR UPDATE;
    IF found_key IS NULL THEN
        RETURN NULL;
    END IF;
    DELETE FROM entries WHERE chat = found_key;
    DELETE FROM keys WHERE chat = found_key;
    DELETE FROM turns WHERE chat = found_key;
    DELETE FROM heads WHERE key = found_key;
    DELETE FROM procrastinate_jobs WHERE lock = _id AND status = 'todo';
    PERFORM notify_v1(ARRAY[_id || ' row']);
    RETURN true;
END
$$;

-- The queue of the jobs notifies its workers too; without that they find a job by their poll.
DROP TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1 ON procrastinate_jobs;
CREATE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1
    AFTER INSERT ON procrastinate_jobs
    FOR EACH ROW WHEN (NEW.status = 'todo' AND NOT is_quiet_v1())
    EXECUTE PROCEDURE procrastinate_notify_queue_job_inserted_v1();
