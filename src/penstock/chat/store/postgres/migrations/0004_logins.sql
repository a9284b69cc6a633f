-- Logins, which are valid at all nodes. Secrets are kept as their SHA-256.

CREATE TABLE tokens (
    node text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL
);

CREATE TABLE browsers (
    secret text COLLATE "C" PRIMARY KEY,
    id text NOT NULL,
    name text NOT NULL,
    secure boolean NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL,
    token bytea NOT NULL                 -- of the node where it signed in: another token there signs it out
);

CREATE TABLE codes (
    code bytea PRIMARY KEY,
    until timestamptz NOT NULL,
    made_by text                         -- secret of the browser that made the link
);
