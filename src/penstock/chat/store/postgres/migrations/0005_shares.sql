-- Links that show one chat to whoever has them.

CREATE TABLE shares (
    id text COLLATE "C" PRIMARY KEY,
    chat text COLLATE "C" NOT NULL REFERENCES heads (id) ON DELETE CASCADE,
    secret text COLLATE "C" NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    until bigint,
    details boolean NOT NULL DEFAULT false,
    person text COLLATE "C" NOT NULL DEFAULT 'owner'
);

CREATE INDEX shares_of_chat ON shares (chat);
