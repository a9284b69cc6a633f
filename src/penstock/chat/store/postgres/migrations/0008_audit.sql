-- Record of what people did at each node, copied from the files of the nodes: each line once, in the order of its file.

CREATE TABLE audit (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,        -- of the line: a digest of its file, its place there and its text
    file text COLLATE "C" NOT NULL,
    place bigint NOT NULL,               -- in the file, in bytes
    line bytea NOT NULL,                 -- as it is in the file
    received_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (node, id)
);
CREATE INDEX audit_of_node ON audit (node, key);
