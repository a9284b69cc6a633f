-- The person whom a one-time link signs in.

ALTER TABLE codes ADD COLUMN person text NOT NULL DEFAULT 'owner';
