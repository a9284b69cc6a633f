-- What ended turns have cost. The trigger fills it in the transaction of the change, also for a node of a version that does
-- not know it.

CREATE TABLE costs (
    chat bigint NOT NULL,
    turn bigint NOT NULL,
    at bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    person text COLLATE "C" NOT NULL,
    cost double precision,
    input bigint,
    output bigint,
    PRIMARY KEY (chat, turn)
);
CREATE INDEX costs_by_time ON costs (at);

-- A number of a summary; NULL if it is none, or too large: an agent may print any number, and sums must not overflow.
CREATE FUNCTION cost_number_v1(_value jsonb, _largest numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(_value) = 'number' THEN
        CASE WHEN _value::numeric BETWEEN 0 AND _largest THEN _value::numeric END
    END
$$;

-- A summary that cannot be read has no cost. JSON of PostgreSQL cannot have the character NUL.
CREATE FUNCTION note_cost_v1(_chat bigint, _turn bigint, _last bigint, _at bigint, _view bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v jsonb;
BEGIN
    DELETE FROM costs WHERE chat = _chat AND turn = _turn;
    IF _last = 0 THEN
        RETURN;
    END IF;
    BEGIN
        v := replace(convert_from(_view, 'UTF8'), '\u0000', '\ufffd')::jsonb;
        IF v ->> 'began_at' IS NULL THEN
            RETURN;
        END IF;
        INSERT INTO costs (chat, turn, at, agent, person, cost, input, output) VALUES (
            _chat, _turn, _at, coalesce(v ->> 'agent', ''), coalesce(v ->> 'person', 'owner'),
            coalesce(cost_number_v1(v -> 'cost_usd', 1e9), cost_number_v1(v -> 'usage' -> 'cost_usd', 1e9)),
            cost_number_v1(v -> 'usage' -> 'input_tokens', 1e12), cost_number_v1(v -> 'usage' -> 'output_tokens', 1e12)
        );
    EXCEPTION WHEN data_exception THEN
        NULL;
    END;
END
$$;

CREATE FUNCTION turn_cost_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM costs WHERE chat = OLD.chat AND turn = OLD.turn;
    ELSE
        PERFORM note_cost_v1(NEW.chat, NEW.turn, NEW.last, NEW.at, NEW.view);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER turn_cost AFTER INSERT OR UPDATE OR DELETE ON turns FOR EACH ROW EXECUTE PROCEDURE turn_cost_v1();

-- The turns that there are. A new database has no columns of them yet.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'turns'::regclass AND attname = 'view') THEN
        EXECUTE 'SELECT count(note_cost_v1(chat, turn, last, at, view)) FROM turns';
    END IF;
END
$$;
