-- Persons who may use the servers, besides the owner: more columns follow from the struct `Person`.

CREATE TABLE people (
    name text COLLATE "C" PRIMARY KEY
);

ALTER TABLE codes ADD COLUMN person text NOT NULL DEFAULT 'owner';
