-- Index of the search: a row for each turn that has ended, and one, as turn 0, for the title of each chat.

CREATE TABLE texts (
    key bigint PRIMARY KEY,              -- by which rows are in the order of their times
    chat bigint NOT NULL REFERENCES heads ON DELETE CASCADE,
    turn bigint NOT NULL,
    at bigint NOT NULL,
    title text NOT NULL,
    prompt text NOT NULL,
    reply text NOT NULL,
    commands text NOT NULL,
    paths text NOT NULL,
    words tsvector NOT NULL,
    UNIQUE (chat, turn)
);
CREATE INDEX texts_words ON texts USING gin (words) WITH (fastupdate = off);

-- Turns and titles that are to be indexed. The triggers fill it in the transaction of the change, also for a node of a version
-- that does not know it.
CREATE SEQUENCE unindexed_marks;
CREATE TABLE unindexed (
    chat bigint NOT NULL REFERENCES heads ON DELETE CASCADE,
    turn bigint NOT NULL,
    mark bigint NOT NULL DEFAULT nextval('unindexed_marks'),
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (chat, turn)
);
CREATE INDEX unindexed_mark ON unindexed (mark);

CREATE FUNCTION note_unindexed_v1(_chat bigint, _turn bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO unindexed (chat, turn) VALUES (_chat, _turn)
    ON CONFLICT (chat, turn) DO UPDATE SET mark = nextval('unindexed_marks'), since = now()
$$;

CREATE FUNCTION turn_ended_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.last > 0 THEN
        PERFORM note_unindexed_v1(NEW.chat, NEW.turn);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION turn_gone_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM texts WHERE chat = OLD.chat AND turn = OLD.turn;
    DELETE FROM unindexed WHERE chat = OLD.chat AND turn = OLD.turn;
    RETURN NULL;
END
$$;

CREATE FUNCTION chat_named_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.title IS DISTINCT FROM OLD.title THEN
        PERFORM note_unindexed_v1(NEW.key, 0);
    END IF;
    RETURN NULL;
END
$$;

-- The columns that the functions name may be added after this migration, so no trigger has a condition of its own.
CREATE TRIGGER turn_ended AFTER INSERT OR UPDATE ON turns FOR EACH ROW EXECUTE PROCEDURE turn_ended_v1();
CREATE TRIGGER turn_gone AFTER DELETE ON turns FOR EACH ROW EXECUTE PROCEDURE turn_gone_v1();
CREATE TRIGGER chat_named AFTER INSERT OR UPDATE ON chats FOR EACH ROW EXECUTE PROCEDURE chat_named_v1();

-- Everything that there is; what has not ended is indexed when it has.
INSERT INTO unindexed (chat, turn) SELECT t.chat, t.turn FROM turns AS t JOIN heads AS h ON h.key = t.chat
    ORDER BY t.chat, t.turn;
INSERT INTO unindexed (chat, turn) SELECT key, 0 FROM chats ORDER BY key;

-- Index the texts of a turn or title in place of those before, unless the turn or chat is gone, and remove it from the queue
-- unless it has changed. Without words it is no longer found.
CREATE FUNCTION index_v1(
    _id text, _turn bigint, _mark bigint, _key bigint, _at bigint,
    _title text, _prompt text, _reply text, _commands text, _paths text, _words tsvector
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found_key bigint;
    free bigint := _key;
BEGIN
    -- What deletes the chat or drops its turns waits for the end of this, or is waited for.
    SELECT key INTO found_key FROM heads WHERE id = _id FOR KEY SHARE;
    IF found_key IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM unindexed WHERE chat = found_key AND turn = _turn AND mark = _mark;
    DELETE FROM texts WHERE chat = found_key AND turn = _turn;
    IF _words IS NULL OR _turn > 0 AND NOT EXISTS (SELECT FROM turns WHERE chat = found_key AND turn = _turn) THEN
        RETURN;
    END IF;
    WHILE EXISTS (SELECT FROM texts WHERE key = free) LOOP
        free := free + 1;
    END LOOP;
    INSERT INTO texts (key, chat, turn, at, title, prompt, reply, commands, paths, words)
    VALUES (free, found_key, _turn, _at, _title, _prompt, _reply, _commands, _paths, _words)
    ON CONFLICT (chat, turn) DO NOTHING;  -- another node did the same meanwhile
END
$$;
