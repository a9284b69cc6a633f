-- Add a chat with its first turn and the files of its message. Return false if there is a chat of this id.
--
-- A second attempt finds the chat, the entry by its key, and the files as the first one made them.
CREATE FUNCTION create_chat_with_turn_v1(
    _id text, _row jsonb, again boolean, _data bytea, _at bigint, _key text, _turn bigint, files jsonb, contents bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    nth int;
    names text;
BEGIN
    IF NOT create_chat_v1(_id, _row, again) THEN
        RETURN false;
    END IF;
    PERFORM submit_v1(_id, _data, _at, NULL, _key, _turn, again);
    FOR nth IN 1 .. jsonb_array_length(files) LOOP
        SELECT string_agg(quote_ident(name), ', ') INTO names FROM jsonb_object_keys(files -> nth - 1) AS name;
        EXECUTE format(
            'INSERT INTO attachments (%1$s, content) SELECT %1$s, $2 FROM jsonb_populate_record(NULL::attachments, $1)
            ON CONFLICT DO NOTHING', names
        ) USING files -> nth - 1, contents[nth];
    END LOOP;
    RETURN true;
END
$$;
