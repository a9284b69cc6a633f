-- Pictures and files that go with the messages of a chat.

CREATE TABLE attachments (
    id text COLLATE "C" NOT NULL,
    chat text COLLATE "C" NOT NULL REFERENCES heads (id) ON DELETE CASCADE,
    name text COLLATE "C" NOT NULL,
    media_type text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    created_at bigint NOT NULL,
    person text COLLATE "C" NOT NULL DEFAULT 'owner',
    turn bigint NOT NULL DEFAULT 0,
    content bytea NOT NULL,
    PRIMARY KEY (chat, id)
);

-- Pictures are compressed already.
ALTER TABLE attachments ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE INDEX attachments_by_turn ON attachments (chat, turn);
CREATE INDEX attachments_by_person ON attachments (person);
CREATE INDEX attachments_not_sent ON attachments (created_at) WHERE turn = 0;
