-- How far each person has read a chat. Chats that exist count as read by everybody (""), up to their newest turn.

ALTER TABLE chats ADD COLUMN reads jsonb NOT NULL DEFAULT '{}';
UPDATE chats AS c SET reads = jsonb_build_object('', coalesce((SELECT max(turn) FROM turns WHERE chat = c.key), 0));

-- Move the marks of a person forward, in chats that the reader sees. Return the chats whose mark is now the given one,
-- also where it was before: a call that is repeated, because its connection was lost, has the result of the first.
--
-- A chat whose mark is as far already is not locked. The others are locked in the order of their ids, as appends lock them.
CREATE FUNCTION mark_read_v1(
    ids text[], upto bigint[], _person text, _most bigint, _reader text, _sees_all boolean
) RETURNS TABLE (marked text) LANGUAGE plpgsql AS $$
DECLARE
    given record;
    found_key bigint;
    found_turn bigint;
    items text[] := '{}';
BEGIN
    FOR given IN SELECT g.id, g.turn FROM unnest(ids, upto) AS g (id, turn) ORDER BY g.id COLLATE "C" LOOP
        SELECT h.key, coalesce((c.reads ->> _person)::bigint, -1) INTO found_key, found_turn
        FROM heads AS h JOIN chats AS c USING (key)
        WHERE h.id = given.id AND (_sees_all OR c.person = _reader OR c.visibility = 'team');
        CONTINUE WHEN found_key IS NULL OR found_turn > given.turn;
        IF found_turn < given.turn THEN
            PERFORM FROM heads AS h WHERE h.key = found_key FOR UPDATE;
            UPDATE chats AS c SET reads = c.reads || jsonb_build_object(_person, given.turn)
            WHERE c.key = found_key AND coalesce((c.reads ->> _person)::bigint, -1) < given.turn
                AND (_sees_all OR c.person = _reader OR c.visibility = 'team')
                AND (c.reads ? _person OR (SELECT count(*) FROM jsonb_object_keys(c.reads)) < _most);
            IF FOUND THEN
                UPDATE heads AS h SET version = h.version + 1 WHERE h.key = found_key;
                items := items || (given.id || ' row');
            ELSE  -- the attempt before may have done it while this one waited for the lock
                PERFORM FROM chats AS c WHERE c.key = found_key AND (c.reads ->> _person)::bigint = given.turn;
                CONTINUE WHEN NOT FOUND;
            END IF;
        END IF;
        marked := given.id;
        RETURN NEXT;
    END LOOP;
    IF cardinality(items) > 0 THEN
        PERFORM notify_v1(items);
    END IF;
END
$$;

-- Remove the marks of a person.
CREATE FUNCTION forget_reader_v1(_person text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT h.key, h.id FROM heads AS h JOIN chats AS c USING (key) WHERE c.reads ? _person
        ORDER BY h.id FOR UPDATE OF h
    LOOP
        UPDATE chats AS c SET reads = c.reads - _person WHERE c.key = found.key;
        UPDATE heads AS h SET version = h.version + 1 WHERE h.key = found.key;
        PERFORM notify_v1(ARRAY[found.id || ' row']);
    END LOOP;
END
$$;
