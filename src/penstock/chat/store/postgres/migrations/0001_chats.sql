-- Chats, their entries, and the nodes that work on them. All names are in the schema of the search path.

CREATE TABLE nodes (
    id text COLLATE "C" PRIMARY KEY,
    incarnation uuid NOT NULL,           -- of the process that has the name now
    seen timestamptz NOT NULL,
    ttl interval NOT NULL,
    about jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- The end of each chat, which every append changes. No index has a column that an append changes, so that the updates
-- stay on their page.
CREATE TABLE heads (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
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
    key bigint PRIMARY KEY REFERENCES heads ON DELETE CASCADE,
    agent text NOT NULL,
    cwd text NOT NULL,
    created_at bigint NOT NULL,
    model text,
    title text,
    allow text NOT NULL,
    session_id text,
    heartbeat jsonb,
    heartbeat_since bigint NOT NULL,
    home text COLLATE "C"
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
    first bigint NOT NULL,
    last bigint NOT NULL,
    at bigint NOT NULL,
    bytes bigint NOT NULL,
    view bytea NOT NULL,
    PRIMARY KEY (chat, turn)
);

CREATE TABLE directories (
    node text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    trusted_at bigint NOT NULL,
    PRIMARY KEY (node, path)
);
