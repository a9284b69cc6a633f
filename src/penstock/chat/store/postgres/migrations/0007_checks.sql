-- Checks of a server that had no space: what a node writes to find out whether it has some again. It keeps nothing.

CREATE TABLE checks (
    node text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL
);
ALTER TABLE checks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Names of nodes and ids of chats are printed in terminals, and are parts of addresses. Rows that exist are not checked, so
-- that this can be made in any database: readers check them.

ALTER TABLE nodes ADD CONSTRAINT nodes_name CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$') NOT VALID;
ALTER TABLE tokens ADD CONSTRAINT tokens_name CHECK (node ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$') NOT VALID;
ALTER TABLE heads ADD CONSTRAINT heads_name CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$') NOT VALID;
